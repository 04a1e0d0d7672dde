//! Work that takes too long for the control core's thread: on a thread of its own, one job at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// A thread that makes results of jobs until it is dropped. Nothing queues up and nobody waits but for
/// its end.
#[derive(Debug)]
pub(crate) struct Background<J, R> {
    jobs: Option<SyncSender<J>>,
    results: Receiver<R>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl<J: Send + 'static, R: Send + 'static> Background<J, R> {
    /// Starts a thread called `name`. `work` is to look at the flag from time to time, and to give up
    /// once it is set.
    pub fn start(
        name: &str,
        mut work: impl FnMut(J, &AtomicBool) -> R + Send + 'static,
    ) -> std::io::Result<Self> {
        let (jobs, to_do) = sync_channel(1);
        let (done, results) = sync_channel(1);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let run = move || {
            while let Ok(job) = to_do.recv() {
                if done.send(work(job, &stopped)).is_err() {
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

    /// What came of a job, once it is done.
    pub fn take(&self) -> Option<R> {
        self.results.try_recv().ok()
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
    use std::time::Duration;

    #[test]
    fn a_job_is_done_and_its_result_waits_to_be_taken() {
        let background = Background::start("test", |job: u32, _: &AtomicBool| job * 2).unwrap();
        assert!(background.give(21));
        let result = background.results.recv_timeout(Duration::from_secs(10));
        assert_eq!(result, Ok(42));
        assert_eq!(background.take(), None);
    }

    #[test]
    fn its_end_stops_the_job_that_is_under_way_and_waits_for_no_taker() {
        let work = |(): (), stop: &AtomicBool| {
            while !stop.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        };
        let background = Background::start("test", work).unwrap();
        assert!(background.give(()));
        drop(background);
    }
}
