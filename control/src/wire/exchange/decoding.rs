//! Decoding of flows: small jobs at once, large ones on a thread of their own, one at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use wire::exchange::{EpochFlows, Settings};
use wire::{DecodeJob, FlowOnSegment, FlowOutcome};

use super::seen::{SeenFlow, SeenFlows};
use crate::background::{Background, ResultMode};
use crate::contain::{Part, contain};

/// Greatest effort of a job that is done at once: some milliseconds of work.
const EFFORT_AT_ONCE: usize = 10_000;

/// The flows of the latest epoch that was decoded.
#[derive(Debug, Clone, PartialEq)]
pub struct WireFlowsView {
    /// The sender's epoch.
    pub epoch: u64,
    /// When it ended, in seconds since 1970 (UTC), to within some milliseconds.
    pub ended_unix_s: f64,
    /// Its flows, in the order of the job's.
    pub flows: Vec<FlowOutcome>,
    /// Each of them since it was first seen.
    pub seen: Vec<SeenFlow>,
    /// What they were decoded from.
    pub job: DecodeJob,
    /// Packets of flows that had no slot.
    pub other_packets: u64,
    /// How long decoding took.
    pub duration: Duration,
}

/// Decodes an epoch's flows; `None` where that was stopped, or cannot be done.
fn decode(flows: EpochFlows, stop: &AtomicBool) -> Option<WireFlowsView> {
    let began = Instant::now();
    let epoch = flows.epoch.0;
    let decoded = flows.job.decode(|| stop.load(Ordering::Relaxed));
    let decoded = decoded
        .inspect_err(|error| tracing::warn!(epoch, "flows of a wire: {error}"))
        .ok()?;
    Some(WireFlowsView {
        epoch,
        ended_unix_s: flows.ended_unix_s,
        seen: Vec::new(),
        flows: decoded,
        job: flows.job,
        other_packets: flows.other_packets,
        duration: began.elapsed(),
    })
}

/// Decodes flows, one job at a time.
#[derive(Debug)]
pub(super) struct Decoding {
    mode: ResultMode,
    thread: Option<Background<Box<EpochFlows>, WireFlowsView>>,
    latest: Option<Arc<WireFlowsView>>,
    seen: SeenFlows,
    /// Flows whose distributions are wanted: the largest of the last epoch that was decoded.
    named: Vec<FlowOnSegment>,
    named_max: usize,
}

impl Decoding {
    /// The thread is started when it is first needed.
    pub fn new(settings: &Settings, mode: ResultMode) -> Self {
        Self {
            mode,
            seen: SeenFlows::new(
                settings.layout.flows + settings.layout.named_flows(),
                settings.idle_epochs,
            ),
            named: Vec::new(),
            named_max: settings.layout.named_flows() as usize,
            thread: None,
            latest: None,
        }
    }

    /// Takes an epoch; `false` where it is not decoded, since another one is still under way, or
    /// decoding it panicked.
    pub fn give(&mut self, flows: EpochFlows) -> bool {
        if self.thread.as_ref().is_some_and(Background::is_busy) {
            return false;
        }
        if flows.job.effort() <= EFFORT_AT_ONCE {
            let decoded = contain(Part::WireDecode, || decode(flows, &AtomicBool::new(false)));
            let is_decoded = decoded.is_some();
            self.show(decoded.flatten());
            return is_decoded;
        }
        if self.thread.is_none() {
            let work = |flows: Box<EpochFlows>, stop: &_| decode(*flows, stop);
            self.thread = Background::start(Part::WireDecode, "vernier-wire", self.mode, work)
                .inspect_err(|error| {
                    tracing::error!("the system gives no thread to decode with: {error}");
                })
                .ok();
        }
        let thread = self.thread.as_mut();
        thread.is_some_and(|thread| thread.give(flows.into()))
    }

    /// Looks whether a job is done; `false` where one gave no result.
    pub fn poll(&mut self) -> bool {
        let Some(result) = self.thread.as_mut().and_then(Background::take) else {
            return true;
        };
        let is_decoded = result.is_ok();
        self.show(result.ok());
        is_decoded
    }

    fn show(&mut self, view: Option<WireFlowsView>) {
        if let Some(mut view) = view {
            view.seen = self.seen.add(view.epoch, &view.flows);
            self.name(&view.flows);
            self.latest = Some(Arc::new(view));
        }
    }

    /// Wants the distributions of the largest of these flows.
    pub fn name(&mut self, flows: &[FlowOutcome]) {
        let mut largest: Vec<&FlowOutcome> = flows.iter().collect();
        let by_packets = |of: &&FlowOutcome| std::cmp::Reverse((of.packets, of.flow, of.segment));
        if self.named_max < largest.len() {
            largest.select_nth_unstable_by_key(self.named_max, by_packets);
        }
        let largest = largest.iter().take(self.named_max);
        self.named = largest.map(|of| (of.flow, of.segment)).collect();
    }

    /// Flows whose distributions the worker is to keep.
    pub fn named(&self) -> &[FlowOnSegment] {
        &self.named
    }

    /// The flows that were decoded last.
    pub fn latest(&self) -> Option<Arc<WireFlowsView>> {
        self.latest.clone()
    }
}
