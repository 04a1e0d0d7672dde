//! Decoding of flows: small jobs at once, large ones on a thread of their own, one at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

use measure::time::Epoch;
use measure::wire::DecodeJob;

use super::status::WireFlowsView;

/// What is decoded at once: some milliseconds of work.
const EFFORT_AT_ONCE: usize = 10_000;

/// An epoch's flows.
#[derive(Debug)]
pub(super) struct EpochFlows {
    pub epoch: Epoch,
    pub other_packets: u64,
    pub job: DecodeJob,
}

impl EpochFlows {
    /// `None` where it was stopped, or cannot be decoded.
    fn decode(&self, stop: &AtomicBool) -> Option<WireFlowsView> {
        let began = Instant::now();
        let decoded = self.job.decode(|| stop.load(Ordering::Relaxed));
        let flows = decoded
            .inspect_err(|error| tracing::warn!(epoch = self.epoch.0, "flows of a wire: {error}"))
            .ok()?;
        Some(WireFlowsView {
            epoch: self.epoch.0,
            flows,
            other_packets: self.other_packets,
            duration: began.elapsed(),
        })
    }
}

/// Decodes.
#[derive(Debug, Default)]
pub(super) struct Decoding {
    thread: Option<DecodeThread>,
    is_busy: bool,
    latest: Option<Arc<WireFlowsView>>,
}

impl Decoding {
    /// Takes an epoch; `false` where it goes undecoded, since another one is still under way.
    pub fn give(&mut self, flows: EpochFlows) -> bool {
        if self.is_busy {
            return false;
        }
        if flows.job.effort() <= EFFORT_AT_ONCE {
            self.show(flows.decode(&AtomicBool::new(false)));
            return true;
        }
        if self.thread.is_none() {
            self.thread = DecodeThread::start()
                .inspect_err(|error| {
                    tracing::error!("the system gives no thread to decode with: {error}");
                })
                .ok();
        }
        self.is_busy = self
            .thread
            .as_ref()
            .is_some_and(|thread| thread.give(flows.into()));
        self.is_busy
    }

    /// Looks whether a job is done.
    pub fn poll(&mut self) {
        let done = self.thread.as_ref().and_then(DecodeThread::take);
        if let Some(Done(view)) = done {
            self.is_busy = false;
            self.show(view);
        }
    }

    fn show(&mut self, view: Option<WireFlowsView>) {
        if let Some(view) = view {
            self.latest = Some(Arc::new(view));
        }
    }

    /// What was decoded last.
    pub fn latest(&self) -> Option<Arc<WireFlowsView>> {
        self.latest.clone()
    }
}

/// A job is over; with nothing to show where it failed.
struct Done(Option<WireFlowsView>);

#[derive(Debug)]
struct DecodeThread {
    jobs: Option<SyncSender<Box<EpochFlows>>>,
    results: Receiver<Done>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl DecodeThread {
    fn start() -> std::io::Result<Self> {
        let (jobs, to_do) = sync_channel::<Box<EpochFlows>>(1);
        let (done, results) = sync_channel(1);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let work = move || {
            while let Ok(job) = to_do.recv() {
                if done.send(Done(job.decode(&stopped))).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("vernier-wire".to_owned())
            .spawn(work)?;
        Ok(Self {
            jobs: Some(jobs),
            results,
            stop,
            thread: Some(thread),
        })
    }

    fn give(&self, job: Box<EpochFlows>) -> bool {
        let given = self.jobs.as_ref().map(|jobs| jobs.try_send(job));
        given.is_some_and(|given| given.is_ok())
    }

    fn take(&self) -> Option<Done> {
        self.results.try_recv().ok()
    }
}

impl Drop for DecodeThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.jobs = None;
        // A result that nobody takes must not hold it.
        while self.results.recv().is_ok() {}
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that decodes a wire's flows panicked");
        }
    }
}
