//! Runs work that takes too long for the control core's thread on a separate thread, one job at a time. A
//! job that panics gives no result, and the thread continues with the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::contain::{Part, contain};
use crate::running::Running;

/// A thread that computes results of jobs until it is dropped. Nothing queues up, and only its drop waits
/// for it.
/// except its drop.
#[derive(Debug)]
pub(crate) struct Background<J, R> {
    mode: ResultMode,
    is_busy: bool,
    jobs: Option<SyncSender<J>>,
    results: Receiver<Result<R, NoResult>>,
    stop: Arc<AtomicBool>,
    _thread: Running<()>,
}

/// When results of background work are taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ResultMode {
    /// When they are ready.
    #[default]
    Polled,
    /// At once, after waiting for the job.
    Awaited,
}

/// A job gave no result: it failed, was stopped, or panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoResult;

impl<J: Send + 'static, R: Send + 'static> Background<J, R> {
    /// Starts a thread called `name`, whose panics count as those of `part`; logs an error if the system cannot.
    /// `work` checks the flag from time to time and stops once it is set; `None` means no result. It keeps no state,
    /// so a panic leaves none half changed.
    pub fn start(
        part: Part,
        name: &str,
        mode: ResultMode,
        work: impl Fn(J, &AtomicBool) -> Option<R> + Send + 'static,
    ) -> Option<Self> {
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
        let thread = Running::start(name, (), run).inspect_err(|error| {
            tracing::error!("cannot start a thread for decoding: {error}");
        });
        Some(Self {
            mode,
            is_busy: false,
            jobs: Some(jobs),
            results,
            stop,
            _thread: thread.ok()?,
        })
    }
}

impl<J, R> Background<J, R> {
    /// Whether a job is in progress, or its result not taken.
    pub fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Starts a job; returns `false`, and drops the job, if another one is in progress.
    pub fn give(&mut self, job: J) -> bool {
        if self.is_busy {
            return false;
        }
        let given = self.jobs.as_ref().map(|jobs| jobs.try_send(job));
        self.is_busy = given.is_some_and(|given| given.is_ok());
        self.is_busy
    }

    /// The result of the current job; `None` if it is not finished, or there is none.
    pub fn take(&mut self) -> Option<Result<R, NoResult>> {
        if !self.is_busy {
            return None;
        }
        let result = match self.mode {
            ResultMode::Polled => self.results.try_recv().ok(),
            ResultMode::Awaited => self.results.recv().ok(),
        };
        self.is_busy = result.is_none();
        result
    }
}

impl<J, R> Drop for Background<J, R> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.jobs = None;
        // A result that nobody takes must not block it.
        while self.results.recv().is_ok() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contain::inject;

    #[test]
    fn a_job_is_done_and_its_result_waits_to_be_taken() {
        let work = |job: u32, _: &AtomicBool| Some(job * 2);
        let mode = ResultMode::Awaited;
        let mut background = Background::start(Part::Decode, "test", mode, work).unwrap();
        assert!(background.give(21));
        assert!(!background.give(22), "one at a time");
        assert_eq!(background.take(), Some(Ok(42)));
        assert_eq!(background.take(), None);
    }

    #[test]
    fn a_job_that_panics_gives_nothing_and_the_next_one_is_done() {
        let work = |job: u32, _: &AtomicBool| {
            if job == 13 {
                inject::panic();
            }
            Some(job * 2)
        };
        let mode = ResultMode::Awaited;
        let mut background = Background::start(Part::WireDecode, "test", mode, work).unwrap();
        for (job, result) in [(13, Err(NoResult)), (13, Err(NoResult)), (21, Ok(42))] {
            assert!(background.give(job));
            assert_eq!(background.take(), Some(result));
        }
    }

    #[test]
    fn its_end_stops_the_job_that_is_under_way_and_needs_no_taker() {
        let work = |(): (), stop: &AtomicBool| {
            while !stop.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            Some(())
        };
        let mode = ResultMode::Polled;
        let mut background = Background::start(Part::Decode, "test", mode, work).unwrap();
        assert!(background.give(()));
        assert_eq!(background.take(), None);
        drop(background);
    }
}
