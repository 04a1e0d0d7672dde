//! Where the live table gets what it shows.

use std::sync::Arc;

use crate::client::{Client, ClientError};
use records::answers::{CourseQuery, Epochs, FlowPage, FlowState, SegmentFilter, Width};
use records::history::Course;
use records::snapshot::{FlowQuery, SegmentName, Snapshot};

/// Something that has a latest snapshot, the courses of its segments, and flows.
pub trait SnapshotSource {
    /// The latest snapshot.
    ///
    /// # Errors
    /// [`ClientError`] when there is no way to it at present.
    fn latest(&mut self) -> Result<Arc<Snapshot>, ClientError>;

    /// The course of a segment in buckets of `width_s` seconds, one of
    /// [`WIDTHS_S`](records::history::WIDTHS_S); empty where there is no such segment.
    ///
    /// # Errors
    /// As [`SnapshotSource::latest`].
    fn course(&mut self, segment: &SegmentName, width_s: u32) -> Result<Course, ClientError>;

    /// The flows in the directory that are wanted.
    ///
    /// # Errors
    /// As [`SnapshotSource::latest`].
    fn flows(&mut self, query: &FlowQuery) -> Result<FlowPage, ClientError>;
}

/// The switch in this very process: what gives its latest snapshot.
#[derive(Debug)]
pub struct InProcess<F>(pub F);

impl<F: Fn() -> Arc<Snapshot>> SnapshotSource for InProcess<F> {
    fn latest(&mut self) -> Result<Arc<Snapshot>, ClientError> {
        Ok((self.0)())
    }

    fn course(&mut self, segment: &SegmentName, width_s: u32) -> Result<Course, ClientError> {
        let all = [Width::Second, Width::TenSeconds, Width::Minute];
        let query = CourseQuery {
            segments: SegmentFilter {
                ingress: Some(segment.ingress.clone()),
                egress: Some(segment.egress.clone()),
                class: Some(segment.class.clone()),
            },
            width: all.into_iter().find(|width| width.seconds() == width_s),
            offset: 0,
            limit: 1,
        };
        Ok(only(Epochs::of(&(self.0)(), &query), width_s))
    }

    fn flows(&mut self, query: &FlowQuery) -> Result<FlowPage, ClientError> {
        Ok(FlowPage::of(&(self.0)(), FlowState::Active, query))
    }
}

/// A switch that is asked over HTTP.
impl SnapshotSource for Client {
    fn latest(&mut self) -> Result<Arc<Snapshot>, ClientError> {
        self.get("/api/v1/snapshot", &[]).map(Arc::new)
    }

    fn course(&mut self, segment: &SegmentName, width_s: u32) -> Result<Course, ClientError> {
        let query = [
            ("ingress", segment.ingress.clone()),
            ("egress", segment.egress.clone()),
            ("class", segment.class.clone()),
            ("width_s", width_s.to_string()),
        ];
        let epochs = self.get("/api/v1/epochs", &query)?;
        Ok(only(epochs, width_s))
    }

    fn flows(&mut self, query: &FlowQuery) -> Result<FlowPage, ClientError> {
        Self::flows(self, FlowState::Active, query)
    }
}

/// The one course that was asked for.
fn only(epochs: Epochs, width_s: u32) -> Course {
    let courses = epochs
        .segments
        .into_iter()
        .flat_map(|segment| segment.courses);
    let course = courses.into_iter().find(|course| course.width_s == width_s);
    course.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::http::Server;
    use control::published::Published;
    use records::history::{History, Sample};
    use records::snapshot::FlowOrder;
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
        let mut here = InProcess(move || published.read());
        let mut there = Client::new(&format!("{}/", server.address()), None);
        let snapshot = there.latest().unwrap();
        assert_eq!(snapshot.segments.len(), 2);
        assert_eq!(snapshot.ports, here.latest().unwrap().ports);
        let segment = SegmentName {
            ingress: "east".to_owned(),
            egress: "west".to_owned(),
            class: "all".to_owned(),
        };
        for (width_s, buckets) in [(1, 21), (10, 3), (60, 1)] {
            let course = there.course(&segment, width_s).unwrap();
            assert_eq!(course, here.course(&segment, width_s).unwrap());
            assert_eq!((course.width_s, course.buckets.len()), (width_s, buckets));
        }
        let query = FlowQuery {
            sort: FlowOrder::TotalPackets,
            limit: Some(5),
            contains: Some(">10.0.0.2:".to_owned()),
            ..FlowQuery::default()
        };
        let flows = SnapshotSource::flows(&mut there, &query).unwrap();
        assert_eq!(flows, SnapshotSource::flows(&mut here, &query).unwrap());
    }
}
