//! The flows of a wire: decoding of an epoch's flows, their totals since they were first seen, lists of them, and
//! answers to requests for one.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use measure::observation::SegmentIndex;
use measure::packet::{FlowHash, FlowKey, Hasher};
use records::snapshot::{
    EpochTimes, FlowEstimate, FlowFigures, FlowList, FlowMore, FlowName, FlowQuantiles, FlowRecord,
    RunningMean, SegmentName, Wire, WireEstimate, WireFlow, WireFlows,
};
use wire::exchange::{EpochFlows, Settings};
use wire::{AskedFlow, DecodeJob, Estimate, FlowOnSegment, FlowOutcome};

use crate::background::{Background, ResultMode};
use crate::contain::{Part, contain};
use crate::decode;
use contract::limits::{WIRE_SEEN_ENTRY_BYTES, WIRE_SEEN_FLOW_BYTES};

/// Greatest effort of a job that is run at once: some milliseconds of work.
const EFFORT_AT_ONCE: usize = 10_000;

/// The flows of the last decoded epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct WireFlowsView {
    /// The sender's epoch.
    pub epoch: u64,
    /// End of the epoch in seconds since 1970 (UTC), to within some milliseconds.
    pub ended_unix_s: f64,
    /// Its flows, in the order of the job.
    pub flows: Vec<FlowOutcome>,
    /// Totals of each since it was first seen.
    pub seen: Vec<SeenFlow>,
    /// The job that they were decoded from.
    pub job: DecodeJob,
    /// Packets of flows without a slot.
    pub other_packets: u64,
    /// How long decoding took.
    pub duration: Duration,
}

/// Decodes an epoch's flows; `None` if stopped or impossible.
fn decoded(flows: EpochFlows, stop: &AtomicBool) -> Option<WireFlowsView> {
    let began = Instant::now();
    let epoch = flows.epoch.0;
    let outcomes = flows.job.decode(|| stop.load(Ordering::Relaxed));
    let outcomes = outcomes
        .inspect_err(|error| tracing::warn!(epoch, "flows of a wire: {error}"))
        .ok()?;
    Some(WireFlowsView {
        epoch,
        ended_unix_s: flows.ended_unix_s,
        seen: Vec::new(),
        flows: outcomes,
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
    /// Flows whose distributions are requested: the largest of the last decoded epoch.
    named: Vec<FlowOnSegment>,
    named_max: usize,
}

impl Decoding {
    /// The thread is started when first needed.
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

    /// Takes an epoch; returns `false` if it is not decoded, because another one is in progress, or
    /// decoding panicked.
    pub fn give(&mut self, flows: EpochFlows) -> bool {
        if self.thread.as_ref().is_some_and(Background::is_busy) {
            return false;
        }
        if flows.job.effort() <= EFFORT_AT_ONCE {
            let decoded = contain(Part::WireDecode, || decoded(flows, &AtomicBool::new(false)));
            let is_decoded = decoded.is_some();
            self.show(decoded.flatten());
            return is_decoded;
        }
        if self.thread.is_none() {
            let work = |flows: Box<EpochFlows>, stop: &_| decoded(*flows, stop);
            self.thread = Background::start(Part::WireDecode, "vernier-wire", self.mode, work);
        }
        let thread = self.thread.as_mut();
        thread.is_some_and(|thread| thread.give(flows.into()))
    }

    /// Checks whether a job has finished; returns `false` if it gave no result.
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

    /// Requests the distributions of the largest of these flows.
    pub fn name(&mut self, flows: &[FlowOutcome]) {
        let mut largest: Vec<&FlowOutcome> = flows.iter().collect();
        let by_packets = |of: &&FlowOutcome| std::cmp::Reverse((of.packets, of.flow, of.segment));
        if self.named_max < largest.len() {
            largest.select_nth_unstable_by_key(self.named_max, by_packets);
        }
        let largest = largest.iter().take(self.named_max);
        self.named = largest.map(|of| (of.flow, of.segment)).collect();
    }

    /// Flows whose distributions the worker should keep.
    pub fn named(&self) -> &[FlowOnSegment] {
        &self.named
    }

    /// The last decoded flows.
    pub fn latest(&self) -> Option<Arc<WireFlowsView>> {
        self.latest.clone()
    }
}

// The memory budget allows exactly this much.
const _: () = assert!(size_of::<SeenFlow>() == WIRE_SEEN_FLOW_BYTES);
const _: () = assert!(size_of::<(FlowOnSegment, SeenFlow)>() == WIRE_SEEN_ENTRY_BYTES);

/// Totals of a flow since it was first seen, over the decoded epochs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SeenFlow {
    /// The first epoch in which it had packets,
    pub first: u64,
    /// and the last.
    pub last: u64,
    /// Packets that arrived.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Most packets lost; `None` if that was unknown in some epoch.
    pub lost_max: Option<u64>,
    /// Epochs whose estimate had a bound,
    bounded_epochs: u64,
    /// the packets in them,
    bounded_packets: u64,
    /// and the sums over these packets of means and of bounds, in nanoseconds.
    mean_sum_ns: f64,
    bound_sum_ns: f64,
}

impl SeenFlow {
    fn new(epoch: u64) -> Self {
        Self {
            first: epoch,
            last: epoch,
            lost_max: Some(0),
            ..Self::default()
        }
    }

    fn add(&mut self, epoch: u64, of: &FlowOutcome) {
        self.last = epoch;
        self.packets += of.packets;
        self.bytes += of.bytes;
        let lost = self.lost_max.zip(of.lost_max);
        self.lost_max = lost.map(|(before, now)| before + now);
        let chosen = of.chosen.as_ref();
        if let Some((chosen, bound_ns)) = chosen.and_then(|one| Some((one, one.bound_ns?))) {
            let packets = of.packets as f64;
            self.bounded_epochs += 1;
            self.bounded_packets += of.packets;
            self.mean_sum_ns += packets * chosen.mean_ns;
            self.bound_sum_ns += packets * bound_ns;
        }
    }

    /// Its mean over the epochs whose estimate had a bound; `None` without any.
    pub fn running(&self) -> Option<RunningMean> {
        let packets = self.bounded_packets as f64;
        (self.bounded_packets > 0).then(|| RunningMean {
            epochs: self.bounded_epochs,
            packets: self.bounded_packets,
            mean_ns: self.mean_sum_ns / packets,
            bound_ns: self.bound_sum_ns / packets,
        })
    }
}

/// Flows by hash and segment. A flow without packets for long is forgotten; if there is no room for the flows of
/// an epoch, those that were silent longest are evicted.
#[derive(Debug)]
struct SeenFlows {
    /// Most flows; those of an epoch always fit.
    room: usize,
    idle_epochs: u64,
    flows: HashMap<FlowOnSegment, SeenFlow>,
    newest: Option<u64>,
}

impl SeenFlows {
    pub fn new(flows: u32, idle_epochs: u64) -> Self {
        Self {
            room: flows as usize,
            idle_epochs,
            flows: HashMap::new(),
            newest: None,
        }
    }

    /// Adds an epoch's flows, at most as many as there is room for; returns the totals of each.
    pub fn add(&mut self, epoch: u64, outcomes: &[FlowOutcome]) -> Vec<SeenFlow> {
        if self.newest.is_some_and(|newest| epoch <= newest) {
            // A restarted sender counts from 0.
            self.flows.clear();
        }
        self.newest = Some(epoch);
        let (flows, idle_epochs) = (&mut self.flows, self.idle_epochs);
        flows.retain(|_, seen| epoch - seen.last <= idle_epochs);
        let mut new = 0;
        for of in outcomes {
            match flows.get_mut(&(of.flow, of.segment)) {
                Some(seen) => seen.last = epoch,
                None => new += 1,
            }
        }
        self.make_room(epoch, new);
        let seen = outcomes.iter().map(|of| {
            let seen = self.flows.entry((of.flow, of.segment));
            let seen = seen.or_insert_with(|| SeenFlow::new(epoch));
            seen.add(epoch, of);
            *seen
        });
        seen.collect()
    }

    /// Makes room for `new` flows in `epoch`.
    fn make_room(&mut self, epoch: u64, new: usize) {
        let excess = (self.flows.len() + new).saturating_sub(self.room);
        let Some(index) = excess.checked_sub(1) else {
            return;
        };
        let silent = self.flows.values().map(|seen| seen.last);
        let mut silent: Vec<u64> = silent.filter(|&last| last < epoch).collect();
        if index < silent.len() {
            let (_, &mut last, _) = silent.select_nth_unstable(index);
            self.flows.retain(|_, seen| seen.last > last);
        }
    }
}

/// The flows of one wire, for lists and requests.
#[derive(Debug, Clone)]
pub struct WireFlowsOf {
    hasher: Hasher,
    /// An empty list: the arriving segments, and the times of the sender's epochs.
    empty: FlowList,
    view: Arc<WireFlowsView>,
}

impl WireFlowsOf {
    /// The flows in `view`, identified by `hasher`.
    pub fn new(wire: &Wire, view: Arc<WireFlowsView>, hasher: Hasher, interval_s: f64) -> Self {
        let incoming = wire.segments.iter().filter(|segment| segment.is_incoming);
        let names = incoming.map(|segment| {
            Arc::new(SegmentName {
                ingress: segment.from.clone(),
                egress: segment.to.clone(),
                class: segment.class.clone(),
            })
        });
        let times = EpochTimes {
            next: view.epoch + 1,
            next_unix_s: view.ended_unix_s,
            interval_s,
        };
        let empty = FlowList {
            epoch: Some(view.epoch),
            segments: names.collect(),
            flows: Vec::new(),
            wire_times: Some(times),
        };
        Self {
            hasher,
            empty,
            view,
        }
    }

    /// All flows, by name if known.
    pub fn list(&self, names: &HashMap<FlowHash, FlowKey>) -> FlowList {
        let all = self.view.flows.iter().zip(&self.view.seen);
        let record = |(outcome, seen): (&FlowOutcome, &SeenFlow)| {
            let key = names.get(&outcome.flow);
            let name = key.map_or(FlowName::Hash(outcome.flow.0), |key| FlowName::Key(*key));
            self.record(name, outcome, Some(seen))
        };
        FlowList {
            flows: all.map(record).collect(),
            ..self.empty.clone()
        }
    }

    /// The part published with every snapshot: totals, and the flows with names, in descending order.
    pub(crate) fn published(&self, names: &HashMap<FlowHash, FlowKey>) -> WireFlows {
        let all = self.view.flows.iter().zip(&self.view.seen);
        let known = all.filter_map(|(outcome, seen)| {
            let name = FlowName::Key(*names.get(&outcome.flow)?);
            Some(self.flow(name, outcome, Some(seen), true))
        });
        let mut top: Vec<WireFlow> = known.collect();
        top.sort_by(|WireFlow { flow: one, .. }, WireFlow { flow: other, .. }| {
            let by_packets = other.last.packets.cmp(&one.last.packets);
            by_packets.then_with(|| (&one.flow, &one.class).cmp(&(&other.flow, &other.class)))
        });
        WireFlows {
            epoch: self.view.epoch,
            number: self.view.flows.len() as u64,
            other_packets: self.view.other_packets,
            duration_s: self.view.duration.as_secs_f64(),
            top,
        }
    }

    /// The flow on each segment where it may have had packets. A flow that was not counted is decoded with
    /// all others, which takes some hundred milliseconds with 100,000 flows.
    pub fn ask(&self, name: FlowName) -> Vec<WireFlow> {
        let hash = match &name {
            FlowName::Key(key) => self.hasher.flow_hash(key),
            FlowName::Hash(hash) => FlowHash(*hash),
        };
        let WireFlowsView {
            flows, job, epoch, ..
        } = &*self.view;
        let segments = u16::try_from(self.empty.segments.len()).unwrap_or(u16::MAX);
        let asked = job
            .ask(flows, hash, segments)
            .inspect_err(|error| tracing::warn!(epoch, "a flow of a wire: {error}"))
            .unwrap_or_default();
        let answer = |asked: &AskedFlow| {
            let seen = self.seen(asked.outcome.flow, asked.outcome.segment);
            self.flow(name, &asked.outcome, seen, asked.is_counted)
        };
        asked.iter().map(answer).collect()
    }

    fn seen(&self, flow: FlowHash, segment: SegmentIndex) -> Option<&SeenFlow> {
        let mut all = self.view.flows.iter().zip(&self.view.seen);
        let is_it = |of: &FlowOutcome| (of.flow, of.segment) == (flow, segment);
        all.find_map(|(outcome, seen)| is_it(outcome).then_some(seen))
    }

    fn flow(
        &self,
        name: FlowName,
        outcome: &FlowOutcome,
        seen: Option<&SeenFlow>,
        is_counted: bool,
    ) -> WireFlow {
        let record = self.record(name, outcome, seen);
        let flow = self.empty.flow(&record, &EpochTimes::default());
        WireFlow { flow, is_counted }
    }

    fn record(&self, name: FlowName, outcome: &FlowOutcome, seen: Option<&SeenFlow>) -> FlowRecord {
        let last = FlowFigures {
            packets: outcome.packets,
            bytes: outcome.bytes,
            lost_packets: outcome.lost_max,
            mean_ns: None,
            stddev_ns: outcome.stddev_ns,
        };
        let total = |seen: &SeenFlow| FlowFigures {
            packets: seen.packets,
            bytes: seen.bytes,
            lost_packets: seen.lost_max,
            mean_ns: None,
            stddev_ns: None,
        };
        let estimates = outcome.chosen.iter().chain(&outcome.estimates);
        let estimates = estimates.filter_map(|one| self.estimate(one, outcome));
        let estimates: Vec<FlowEstimate> = estimates.collect();
        FlowRecord {
            name,
            segment: outcome.segment.0.into(),
            first_epoch: seen.map_or(self.view.epoch, |seen| seen.first),
            last_epoch: self.view.epoch,
            last,
            total: seen.map_or(last, total),
            quantiles: outcome.quantiles_ns.map(quantiles),
            estimates: (!estimates.is_empty()).then(|| Arc::from(estimates)),
            more: seen.and_then(SeenFlow::running).map(FlowMore::Running),
        }
    }

    fn estimate(&self, of: &Estimate, outcome: &FlowOutcome) -> Option<FlowEstimate> {
        Some(FlowEstimate {
            method: decode::published(of.method)?,
            epoch: self.view.epoch,
            epochs: 1,
            packets: outcome.packets,
            mean_ns: of.mean_ns,
            bound_ns: of.bound_ns,
            is_within_bound: None,
        })
    }
}

fn quantiles([p50_ns, p90_ns, p99_ns]: [f64; 3]) -> FlowQuantiles {
    FlowQuantiles {
        p50_ns,
        p90_ns,
        p99_ns,
        max_ns: None,
    }
}

/// The flows of every wire, each by its name in `inside`, if known.
pub(crate) fn lists<'l>(
    wires: &[WireFlowsOf],
    inside: impl Iterator<Item = &'l FlowList>,
) -> Vec<FlowList> {
    let Some(first) = wires.first() else {
        return Vec::new();
    };
    let flows = wires.iter().flat_map(|wire| &wire.view.flows);
    let mut found: HashMap<FlowHash, Option<FlowKey>> =
        flows.map(|flow| (flow.flow, None)).collect();
    for record in inside.flat_map(|list| &list.flows) {
        if let Some(key) = record.key()
            && let Some(found) = found.get_mut(&first.hasher.flow_hash(key))
        {
            *found = Some(*key);
        }
    }
    let names = found.into_iter();
    let names = names.filter_map(|(hash, key)| Some((hash, key?))).collect();
    wires.iter().map(|wire| wire.list(&names)).collect()
}

/// An estimate of a segment over this many samples, in published form.
pub(crate) fn estimate(of: &Estimate, effective_samples: Option<u64>) -> WireEstimate {
    WireEstimate {
        method: of.method.name().to_owned(),
        mean_ns: of.mean_ns,
        bound_ns: of.bound_ns,
        effective_samples,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::chooser::Method;

    fn outcome(flow: u64, packets: u64, bound_ns: Option<f64>) -> FlowOutcome {
        FlowOutcome {
            flow: FlowHash(flow),
            segment: SegmentIndex(0),
            packets,
            bytes: 100 * packets,
            lost_max: Some(1),
            stddev_ns: None,
            quantiles_ns: None,
            estimates: [].into_iter().collect(),
            chosen: Some(Estimate {
                method: Method::Hybrid,
                mean_ns: 1_000.0 * packets as f64,
                bound_ns,
            }),
        }
    }

    #[test]
    fn means_and_bounds_are_weighted_by_packets_where_there_is_a_bound() {
        let mut seen = SeenFlows::new(4, 10);
        seen.add(7, &[outcome(1, 10, Some(20.0))]);
        seen.add(8, &[outcome(1, 50, None)]);
        let [flow] = seen.add(9, &[outcome(1, 30, Some(40.0))])[..] else {
            panic!("one flow");
        };
        assert_eq!((flow.first, flow.last), (7, 9));
        assert_eq!(
            (flow.packets, flow.bytes, flow.lost_max),
            (90, 9_000, Some(3))
        );
        let running = flow.running().unwrap();
        assert_eq!((running.epochs, running.packets), (2, 40));
        assert!((running.mean_ns - 25_000.0).abs() < 1e-9, "{running:?}");
        assert!((running.bound_ns - 35.0).abs() < 1e-9, "{running:?}");
        let mut unknown = outcome(1, 1, None);
        unknown.lost_max = None;
        assert_eq!(seen.add(10, &[unknown])[0].lost_max, None);
    }

    #[test]
    fn idle_flows_and_those_of_another_start_of_the_sender_are_forgotten() {
        let mut seen = SeenFlows::new(4, 10);
        let one = [outcome(1, 10, None)];
        seen.add(100, &one);
        assert_eq!(seen.add(110, &one)[0].first, 100);
        assert_eq!(seen.add(121, &one)[0].first, 121);
        assert_eq!(seen.add(3, &one)[0].first, 3);
    }

    #[test]
    fn there_are_never_more_than_slots_and_the_longest_silent_go_first() {
        let mut seen = SeenFlows::new(4, 100);
        for epoch in 1..=4 {
            seen.add(epoch, &[outcome(epoch, 1, None)]);
        }
        seen.add(5, &[outcome(2, 1, None), outcome(5, 1, None)]);
        let mut known: Vec<u64> = seen.flows.keys().map(|(flow, _)| flow.0).collect();
        known.sort_unstable();
        assert_eq!(known, [2, 3, 4, 5]);
        let all: Vec<FlowOutcome> = (10..14).map(|n| outcome(n, 1, None)).collect();
        assert_eq!(seen.add(6, &all).len(), 4);
        assert_eq!(seen.flows.len(), 4);
        assert!(seen.add(7, &[]).is_empty());
    }
}
