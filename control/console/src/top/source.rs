//! Where the live table gets its data.

use std::sync::Arc;

use crate::client::{Client, ClientError};
use records::answers::{CourseQuery, Epochs, FlowPage, FlowQuery};
use records::snapshot::{FlowAnswer, FlowName, Snapshot};

/// A switch that answers with its latest snapshot, the courses of segments, and flows.
pub trait SnapshotSource {
    /// Where it is; empty in this process.
    fn address(&self) -> String;

    /// The latest snapshot.
    ///
    /// # Errors
    /// [`ClientError`] when the switch does not answer at present.
    fn latest(&mut self) -> Result<Arc<Snapshot>, ClientError>;

    /// The selected courses.
    ///
    /// # Errors
    /// As [`SnapshotSource::latest`].
    fn epochs(&mut self, query: &CourseQuery) -> Result<Epochs, ClientError>;

    /// The selected flows.
    ///
    /// # Errors
    /// As [`SnapshotSource::latest`].
    fn flows(&mut self, query: &FlowQuery) -> Result<FlowPage, ClientError>;

    /// All that is known of one flow.
    ///
    /// # Errors
    /// As [`SnapshotSource::latest`].
    fn flow(&mut self, name: FlowName) -> Result<FlowAnswer, ClientError>;
}

/// The switch in this process: functions that give its latest snapshot, the selected flows, and one flow.
#[derive(Debug)]
pub struct InProcess<L, F, O> {
    /// The latest snapshot.
    pub latest: L,
    /// The selected flows.
    pub flows: F,
    /// One flow.
    pub flow: O,
}

impl<L, F, O> SnapshotSource for InProcess<L, F, O>
where
    L: Fn() -> Arc<Snapshot>,
    F: Fn(&FlowQuery) -> FlowPage,
    O: Fn(FlowName) -> FlowAnswer,
{
    fn address(&self) -> String {
        String::new()
    }

    fn latest(&mut self) -> Result<Arc<Snapshot>, ClientError> {
        Ok((self.latest)())
    }

    fn epochs(&mut self, query: &CourseQuery) -> Result<Epochs, ClientError> {
        Ok(Epochs::of(&(self.latest)(), query))
    }

    fn flows(&mut self, query: &FlowQuery) -> Result<FlowPage, ClientError> {
        Ok((self.flows)(query))
    }

    fn flow(&mut self, name: FlowName) -> Result<FlowAnswer, ClientError> {
        Ok((self.flow)(name))
    }
}

/// A switch that is asked over HTTP.
impl SnapshotSource for Client {
    fn address(&self) -> String {
        self.url().to_owned()
    }

    fn latest(&mut self) -> Result<Arc<Snapshot>, ClientError> {
        self.get("/api/v1/snapshot", &[]).map(Arc::new)
    }

    fn epochs(&mut self, query: &CourseQuery) -> Result<Epochs, ClientError> {
        self.ask("/api/v1/epochs", query)
    }

    fn flows(&mut self, query: &FlowQuery) -> Result<FlowPage, ClientError> {
        self.ask("/api/v1/flows", query)
    }

    fn flow(&mut self, name: FlowName) -> Result<FlowAnswer, ClientError> {
        self.get("/api/v1/flow", &[("flow", name.to_string())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::http::Server;
    use control::published::Published;
    use records::answers::{FlowOrder, Width};
    use records::history::{History, Sample};
    use std::net::{Ipv4Addr, SocketAddr};

    /// With a course of a few seconds, and some flows.
    fn published() -> Arc<Published> {
        let mut snapshot = Snapshot::example();
        let mut history = History::default();
        for epoch in 0..81 {
            let sample = Sample {
                packets: 10,
                sum_ns: 4_000.0,
                ..Sample::default()
            };
            history.add(epoch, 250, &sample);
        }
        snapshot.segments[0].history = history;
        Arc::new(Published::new(snapshot))
    }

    #[test]
    fn over_http_everything_arrives_as_it_was() {
        let published = published();
        let server = Server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let server = server.serve(Arc::clone(&published)).unwrap();
        let mut here = InProcess {
            latest: || published.read(),
            flows: |query: &FlowQuery| published.flows(query),
            flow: |name| published.flow(name),
        };
        let mut there = Client::new(&format!("{}/", server.address()), None);
        let snapshot = there.latest().unwrap();
        assert_eq!(snapshot.segments.len(), 2);
        assert_eq!(snapshot.ports, here.latest().unwrap().ports);
        for (width, buckets) in [
            (Width::Second, 21),
            (Width::TenSeconds, 3),
            (Width::Minute, 1),
        ] {
            let query = CourseQuery {
                ingress: Some("east".to_owned()),
                class: Some("all".to_owned()),
                width_s: Some(width),
                limit: 1,
                ..CourseQuery::default()
            };
            let epochs = there.epochs(&query).unwrap();
            assert_eq!(epochs, here.epochs(&query).unwrap());
            let course = &epochs.segments[0].courses[0];
            assert_eq!(
                (course.width_s, course.buckets.len()),
                (width.seconds(), buckets)
            );
        }
        let query = FlowQuery {
            sort: FlowOrder::TotalPackets,
            limit: 5,
            contains: Some(">10.0.0.2:".to_owned()),
            ..FlowQuery::default()
        };
        let page = there.flows(&query).unwrap();
        assert_eq!(page, here.flows(&query).unwrap());
        let flows = published.read().flows.clone().unwrap();
        let name = flows.top[0].flow.flow.parse().unwrap();
        assert_eq!(there.flow(name).unwrap(), here.flow(name).unwrap());
    }
}
