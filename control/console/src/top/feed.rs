//! Asks a source on a thread of its own, so that keys never wait for a slow switch.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;

use super::source::SnapshotSource;
use crate::client::ClientError;
use records::answers::FlowPage;
use records::history::Course;
use records::snapshot::{FlowQuery, SegmentName, Snapshot};

/// What is to be asked for besides the snapshot.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Wish {
    /// The course of a segment, in buckets of so many seconds.
    pub course: Option<(SegmentName, u32)>,
    /// Flows.
    pub flows: Option<FlowQuery>,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct News {
    pub wish: Wish,
    pub snapshot: Arc<Snapshot>,
    pub course: Option<Course>,
    pub flows: Option<FlowPage>,
}

/// A source, and the thread that asks it: one wish at a time.
#[derive(Debug)]
pub(super) struct Feed {
    wishes: Sender<Wish>,
    news: Receiver<Result<News, ClientError>>,
    is_asked: bool,
}

impl Feed {
    /// Starts the thread. It ends when the feed is dropped, after the answer it waits for.
    pub(super) fn start(mut source: impl SnapshotSource + Send + 'static) -> io::Result<Self> {
        let (wishes, to_ask) = channel();
        let (sender, news) = channel();
        let answer = move || {
            for wish in to_ask {
                if sender.send(fetch(&mut source, wish)).is_err() {
                    break;
                }
            }
        };
        Builder::new()
            .name("vernier-feed".to_owned())
            .spawn(answer)?;
        Ok(Self {
            wishes,
            news,
            is_asked: false,
        })
    }

    /// Asks; false as long as the last wish has not been answered.
    pub(super) fn ask(&mut self, wish: &Wish) -> bool {
        if self.is_asked {
            return false;
        }
        self.is_asked = self.wishes.send(wish.clone()).is_ok();
        self.is_asked
    }

    /// What has come, if it has.
    pub(super) fn take(&mut self) -> Option<Result<News, ClientError>> {
        let news = self.news.try_recv().ok();
        self.is_asked &= news.is_none();
        news
    }
}

fn fetch(source: &mut impl SnapshotSource, wish: Wish) -> Result<News, ClientError> {
    let snapshot = source.latest()?;
    let course = match &wish.course {
        Some((segment, width_s)) => Some(source.course(segment, *width_s)?),
        None => None,
    };
    let flows = match &wish.flows {
        Some(query) => Some(source.flows(query)?),
        None => None,
    };
    Ok(News {
        wish,
        snapshot,
        course,
        flows,
    })
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;
    use std::time::Duration;

    use super::super::source::InProcess;
    use super::*;

    /// Answers once it is let.
    struct Slow<S>(Receiver<()>, S);

    impl<S: SnapshotSource> SnapshotSource for Slow<S> {
        fn latest(&mut self) -> Result<Arc<Snapshot>, ClientError> {
            let _ = self.0.recv();
            self.1.latest()
        }

        fn course(&mut self, segment: &SegmentName, width_s: u32) -> Result<Course, ClientError> {
            self.1.course(segment, width_s)
        }

        fn flows(&mut self, query: &FlowQuery) -> Result<FlowPage, ClientError> {
            self.1.flows(query)
        }
    }

    #[test]
    fn one_wish_is_under_way_at_a_time_and_nobody_waits_for_it() {
        let (let_go, waits) = channel();
        let here = InProcess(|| Arc::new(Snapshot::example()));
        let mut feed = Feed::start(Slow(waits, here)).unwrap();
        let wish = Wish {
            flows: Some(FlowQuery::default()),
            ..Wish::default()
        };
        assert!(feed.ask(&wish));
        assert!(!feed.ask(&wish) && feed.take().is_none());
        let_go.send(()).unwrap();
        let news = loop {
            match feed.take() {
                Some(news) => break news.unwrap(),
                None => sleep(Duration::from_millis(1)),
            }
        };
        assert_eq!(news.wish, wish);
        assert!(news.flows.is_some() && news.course.is_none());
        assert!(feed.ask(&wish));
    }
}
