//! Threads that run beside the switch until their owner is dropped, and the intervals at which senders poll and
//! reconnect.

use std::io;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Longest time to send the last reports and records when the switch stops.
pub const FAREWELL: Duration = Duration::from_secs(1);

/// Shortest and longest interval of checks for new snapshots.
const LOOK_MS: (u32, u32) = (5, 100);

/// Longest time between two attempts to connect.
pub const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// A thread; dropping it stops the thread and waits.
#[derive(Debug)]
pub struct Running<S> {
    stop: Option<S>,
    thread: Option<JoinHandle<()>>,
}

impl<S> Running<S> {
    /// Starts a thread called `name`, which ends once `stop`, a sender of any kind, is dropped.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub fn start(name: &str, stop: S, work: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let thread = Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

/// Interval of checks for new snapshots: a quarter of an epoch, within limits.
pub fn look_every(interval_ms: u32) -> Duration {
    Duration::from_millis((interval_ms / 4).clamp(LOOK_MS.0, LOOK_MS.1).into())
}

/// Pause after this many failed attempts to connect; doubles with each attempt.
pub fn backoff(attempts: usize) -> Duration {
    let doublings = u32::try_from(attempts.min(6)).unwrap_or_default();
    (Duration::from_millis(100) * 2_u32.pow(doublings)).min(BACKOFF_MAX)
}

impl<S> Drop for Running<S> {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let name = thread.thread().name().unwrap_or_default().to_owned();
            if thread.join().is_err() {
                tracing::error!("the thread {name} panicked");
            }
        }
    }
}
