//! Decoding of flows: small jobs at once, large ones on a thread of their own, one at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use measure::time::Epoch;
use measure::wire::DecodeJob;

use super::status::WireFlowsView;
use crate::background::Background;

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
    /// Gives nothing of a job that failed.
    thread: Option<Background<Box<EpochFlows>, Option<WireFlowsView>>>,
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
            let work = |flows: Box<EpochFlows>, stop: &_| flows.decode(stop);
            self.thread = Background::start("vernier-wire", work)
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
        if let Some(view) = self.thread.as_ref().and_then(Background::take) {
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
