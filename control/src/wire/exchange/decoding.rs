//! Decoding of flows: small jobs at once, large ones on a thread of their own, one at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use measure::time::Epoch;
use measure::wire::DecodeJob;

use super::status::WireFlowsView;
use crate::background::Background;
use crate::contain::{Part, contain};

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
    thread: Option<Background<Box<EpochFlows>, WireFlowsView>>,
    is_busy: bool,
    /// Jobs are waited for.
    pub waits: bool,
    latest: Option<Arc<WireFlowsView>>,
}

impl Decoding {
    /// Takes an epoch; `false` where it goes undecoded, since another one is still under way, or
    /// decoding it panicked.
    pub fn give(&mut self, flows: EpochFlows) -> bool {
        if self.is_busy {
            return false;
        }
        if flows.job.effort() <= EFFORT_AT_ONCE {
            let decoded = contain(Part::WireDecode, || flows.decode(&AtomicBool::new(false)));
            let is_decoded = decoded.is_some();
            self.show(decoded.flatten());
            return is_decoded;
        }
        if self.thread.is_none() {
            let work = |flows: Box<EpochFlows>, stop: &_| flows.decode(stop);
            self.thread = Background::start(Part::WireDecode, "vernier-wire", work)
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

    /// Looks whether a job is done; `false` where one came to nothing.
    pub fn poll(&mut self) -> bool {
        let waits = self.waits && self.is_busy;
        let done = (self.thread.as_ref()).and_then(|thread| thread.take(waits));
        let Some(result) = done else {
            return true;
        };
        self.is_busy = false;
        let is_decoded = result.is_ok();
        self.show(result.ok());
        is_decoded
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
