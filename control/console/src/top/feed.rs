//! Asks a source on a thread of its own, so that keys never wait for a slow switch.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;

use super::source::SnapshotSource;
use crate::client::ClientError;
use records::answers::{CourseQuery, FlowPage, FlowQuery};
use records::history::Course;
use records::snapshot::{FlowAnswer, FlowName, Snapshot};

/// What is requested besides the snapshot.
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

/// A source, and the thread that asks it: one request at a time.
#[derive(Debug)]
pub(super) struct Feed {
    requests: Sender<Request>,
    updates: Receiver<Result<Update, ClientError>>,
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
            is_asked: false,
        })
    }

    /// Sends a request; false as long as the last one has not been answered.
    pub(super) fn ask(&mut self, request: &Request) -> bool {
        if self.is_asked {
            return false;
        }
        self.is_asked = self.requests.send(request.clone()).is_ok();
        self.is_asked
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
        // It looks for another flow at present.
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
    use std::thread::sleep;
    use std::time::Duration;

    use super::super::source::InProcess;
    use super::*;
    use records::answers::Epochs;

    /// Answers once the test allows it.
    struct Slow<S>(Receiver<()>, S);

    impl<S: SnapshotSource> SnapshotSource for Slow<S> {
        fn address(&self) -> String {
            self.1.address()
        }

        fn latest(&mut self) -> Result<Arc<Snapshot>, ClientError> {
            let _ = self.0.recv();
            self.1.latest()
        }

        fn epochs(&mut self, query: &CourseQuery) -> Result<Epochs, ClientError> {
            self.1.epochs(query)
        }

        fn flows(&mut self, query: &FlowQuery) -> Result<FlowPage, ClientError> {
            self.1.flows(query)
        }

        fn flow(&mut self, name: FlowName) -> Result<FlowAnswer, ClientError> {
            self.1.flow(name)
        }
    }

    #[test]
    fn one_request_is_under_way_at_a_time() {
        let (let_go, waits) = channel();
        let here = InProcess {
            latest: || Arc::new(Snapshot::example()),
            flows: |query: &FlowQuery| FlowPage::of(&Snapshot::example(), &[], query),
            flow: |name| Snapshot::example().answer(name),
        };
        let mut feed = Feed::start(Slow(waits, here)).unwrap();
        let request = Request {
            flows: Some(FlowQuery::default()),
            ..Request::default()
        };
        assert!(feed.ask(&request));
        assert!(!feed.ask(&request) && feed.take().is_none());
        let_go.send(()).unwrap();
        let update = loop {
            match feed.take() {
                Some(update) => break update.unwrap(),
                None => sleep(Duration::from_millis(1)),
            }
        };
        assert_eq!(update.request, request);
        assert!(update.flows.is_some() && update.course.is_none());
        assert!(feed.ask(&request));
    }
}
