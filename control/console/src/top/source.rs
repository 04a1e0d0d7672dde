//! The data sources of the live table, and the thread that queries them, so that keys never wait for a slow switch.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use crate::client::{Client, ClientError};
use records::answers::{CourseQuery, Epochs, FlowPage, FlowQuery};
use records::history::Course;
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

    /// All figures of one flow.
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

/// A switch queried over HTTP.
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

/// What is requested in addition to the snapshot.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Request {
    /// The course of one segment, of one width.
    pub course: Option<CourseQuery>,
    /// Flows.
    pub flows: Option<FlowQuery>,
    /// All that is known of one flow.
    pub flow: Option<FlowName>,
}

/// The answers.
#[derive(Debug)]
pub(super) struct Update {
    pub request: Request,
    pub snapshot: Arc<Snapshot>,
    pub course: Option<Course>,
    pub flows: Option<FlowPage>,
    pub flow: Option<FlowAnswer>,
}

/// A source, and the thread that queries it: one request at a time.
#[derive(Debug)]
pub(super) struct Feed {
    requests: Sender<Request>,
    updates: Receiver<Result<Update, ClientError>>,
    /// The last request.
    asked: Option<(Instant, Request)>,
    is_asked: bool,
}

impl Feed {
    /// Starts the thread. It ends when the feed is dropped, after the answer it waits for.
    pub(super) fn start(mut source: impl SnapshotSource + Send + 'static) -> io::Result<Self> {
        let (requests, to_ask) = channel();
        let (answered, updates) = channel();
        let answer = move || {
            for request in to_ask {
                if answered.send(fetch(&mut source, request)).is_err() {
                    break;
                }
            }
        };
        Builder::new()
            .name("vernier-feed".to_owned())
            .spawn(answer)?;
        Ok(Self {
            requests,
            updates,
            asked: None,
            is_asked: false,
        })
    }

    /// Sends a request, unless the last one has not been answered, or was the same and is younger than `often`.
    pub(super) fn ask(&mut self, request: Request, often: Duration) {
        let asked = self.asked.as_ref();
        let is_due = asked.is_none_or(|(at, last)| at.elapsed() >= often || *last != request);
        if is_due && !self.is_asked {
            self.is_asked = self.requests.send(request.clone()).is_ok();
            self.asked = Some((Instant::now(), request));
        }
    }

    /// The answer, once there is one.
    pub(super) fn take(&mut self) -> Option<Result<Update, ClientError>> {
        let update = self.updates.try_recv().ok();
        self.is_asked &= update.is_none();
        update
    }
}

/// The answer to a request.
pub(super) fn fetch(
    source: &mut impl SnapshotSource,
    request: Request,
) -> Result<Update, ClientError> {
    let snapshot = source.latest()?;
    let course = match &request.course {
        Some(query) => {
            let segments = source.epochs(query)?.segments.into_iter();
            let course = segments.flat_map(|segment| segment.courses).next();
            Some(course.unwrap_or_default())
        }
        None => None,
    };
    let flows = request.flows.as_ref();
    let flows = flows.map(|query| source.flows(query)).transpose()?;
    let flow = match request.flow.map(|name| source.flow(name)) {
        // It is busy with another flow at present.
        Some(Err(ClientError::Refused {
            is_for_now: true, ..
        })) => None,
        answer => answer.transpose()?,
    };
    Ok(Update {
        request,
        snapshot,
        course,
        flows,
        flow,
    })
}

#[cfg(test)]
mod tests {
    use api::http::Server;
    use control::published::Published;
    use records::answers::{FlowOrder, Width};
    use records::history::{History, Sample};
    use std::net::{Ipv4Addr, SocketAddr};
    use std::thread::sleep;

    use super::*;

    /// With a history of a few seconds, and some flows.
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

    #[test]
    fn one_request_is_under_way_at_a_time() {
        let (let_go, waits) = channel::<()>();
        // Answers once the test allows it.
        let here = InProcess {
            latest: move || {
                let _ = waits.recv();
                Arc::new(Snapshot::example())
            },
            flows: |query: &FlowQuery| FlowPage::of(&Snapshot::example(), &[], query),
            flow: |name| Snapshot::example().answer(name),
        };
        let mut feed = Feed::start(here).unwrap();
        let request = Request {
            flows: Some(FlowQuery::default()),
            ..Request::default()
        };
        feed.ask(request.clone(), Duration::ZERO);
        feed.ask(Request::default(), Duration::ZERO);
        assert!(feed.take().is_none());
        let_go.send(()).unwrap();
        let update = loop {
            match feed.take() {
                Some(update) => break update.unwrap(),
                None => sleep(Duration::from_millis(1)),
            }
        };
        assert_eq!(update.request, request);
        assert!(update.flows.is_some() && update.course.is_none());
        feed.ask(request, Duration::ZERO);
        assert!(feed.is_asked);
    }
}
