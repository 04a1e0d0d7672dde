//! Threads that run beside the switch until their owner goes, and how often those that send look for news and connect again.

use std::io;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How long the last reports and records may take to be sent when the switch ends.
pub const FAREWELL: Duration = Duration::from_secs(1);

/// Shortest and longest time between two looks at what is published.
const LOOK_MS: (u32, u32) = (5, 100);

/// Longest time between two attempts to connect.
pub const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// A thread; dropping this ends it, and waits for that.
#[derive(Debug)]
pub struct Running<S> {
    stop: Option<S>,
    thread: Option<JoinHandle<()>>,
}

impl<S> Running<S> {
    /// Starts a thread called `name`, which ends once `stop`, a sender of whatever kind, is dropped.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(name: &str, stop: S, work: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let thread = Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

/// Time between two looks at what is published: a quarter of an epoch, within limits.
pub fn look_every(interval_ms: u32) -> Duration {
    Duration::from_millis((interval_ms / 4).clamp(LOOK_MS.0, LOOK_MS.1).into())
}

/// How long to wait after so many failed attempts to connect: doubled from attempt to attempt.
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
