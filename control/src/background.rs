//! Work that takes too long for the control core's thread: on a thread of its own, one job at a time.
//! A job that panics gives nothing, and the thread goes on with the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::contain::{Part, contain};

/// A thread that makes results of jobs until it is dropped. Nothing queues up and nobody waits but for
/// its end.
#[derive(Debug)]
pub(crate) struct Background<J, R> {
    jobs: Option<SyncSender<J>>,
    results: Receiver<Result<R, NoResult>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A job gave no result: it could not be done, was stopped, or panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoResult;

impl<J: Send + 'static, R: Send + 'static> Background<J, R> {
    /// Starts a thread called `name`, whose panics are those of `part`. `work` is to look at the flag
    /// from time to time, and to give up once it is set; `None` is no result. It keeps no state, so
    /// that a panic leaves none half changed.
    pub fn start(
        part: Part,
        name: &str,
        work: impl Fn(J, &AtomicBool) -> Option<R> + Send + 'static,
    ) -> std::io::Result<Self> {
        let (jobs, to_do) = sync_channel(1);
        let (done, results) = sync_channel(1);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let run = move || {
            while let Ok(job) = to_do.recv() {
                let result = contain(part, || work(job, &stopped)).flatten();
                if done.send(result.ok_or(NoResult)).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(run)?;
        Ok(Self {
            jobs: Some(jobs),
            results,
            stop,
            thread: Some(thread),
        })
    }
}

impl<J, R> Background<J, R> {
    /// Whether the job is under way; if not it is lost.
    pub fn give(&self, job: J) -> bool {
        let given = self.jobs.as_ref().map(|jobs| jobs.try_send(job));
        given.is_some_and(|given| given.is_ok())
    }

    /// What came of a job, once it is done; `waits` until it is.
    pub fn take(&self, waits: bool) -> Option<Result<R, NoResult>> {
        if waits {
            self.results.recv().ok()
        } else {
            self.results.try_recv().ok()
        }
    }
}

impl<J, R> Drop for Background<J, R> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.jobs = None;
        // A result that nobody takes must not hold it.
        while self.results.recv().is_ok() {}
        if let Some(thread) = self.thread.take() {
            let name = thread.thread().name().unwrap_or_default().to_owned();
            if thread.join().is_err() {
                tracing::error!("the thread {name} panicked");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contain::inject;
    use std::time::Duration;

    fn next<J, R>(background: &Background<J, R>) -> Result<R, NoResult> {
        let result = background.results.recv_timeout(Duration::from_secs(10));
        result.expect("the thread is gone")
    }

    #[test]
    fn a_job_is_done_and_its_result_waits_to_be_taken() {
        let work = |job: u32, _: &AtomicBool| Some(job * 2);
        let background = Background::start(Part::Decode, "test", work).unwrap();
        assert!(background.give(21));
        assert_eq!(next(&background), Ok(42));
        assert_eq!(background.take(false), None);
    }

    #[test]
    fn a_job_that_panics_gives_nothing_and_the_next_one_is_done() {
        let work = |job: u32, _: &AtomicBool| {
            if job == 13 {
                inject::panic();
            }
            Some(job * 2)
        };
        let background = Background::start(Part::WireDecode, "test", work).unwrap();
        for (job, result) in [(13, Err(NoResult)), (13, Err(NoResult)), (21, Ok(42))] {
            assert!(background.give(job));
            assert_eq!(next(&background), result);
        }
    }

    #[test]
    fn its_end_stops_the_job_that_is_under_way_and_waits_for_no_taker() {
        let work = |(): (), stop: &AtomicBool| {
            while !stop.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            Some(())
        };
        let background = Background::start(Part::Decode, "test", work).unwrap();
        assert!(background.give(()));
        drop(background);
    }
}
