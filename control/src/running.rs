//! Threads that run beside the switch until their owner goes.

use std::io;
use std::thread::{Builder, JoinHandle};

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
