//! The flows of a wire's last epoch: those that are published, lists of them, and the answer to a question for one.

use std::collections::HashMap;
use std::sync::Arc;

use measure::observation::SegmentIndex;
use measure::packet::{FlowHash, FlowKey, Hasher};
use records::snapshot::{
    EpochTimes, FlowEstimate, FlowFigures, FlowList, FlowName, FlowQuantiles, FlowRecord,
    SegmentName, Wire, WireEstimate, WireFlow, WireFlows, WireList,
};
use wire::{AskedFlow, Estimate, FlowOutcome};

use crate::decode;

use super::exchange::{SeenFlow, WireFlowsView};

/// The flows of one wire, to be asked for.
#[derive(Debug, Clone)]
pub struct WireFlowsOf {
    hasher: Hasher,
    /// Without flows: the segments that arrive here, and when the sender's epochs are.
    empty: FlowList,
    view: Arc<WireFlowsView>,
}

impl WireFlowsOf {
    /// The flows in `view`, which are known by `hasher`.
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
            wire: Some(WireList {
                times,
                running: Vec::new(),
            }),
        };
        Self {
            hasher,
            empty,
            view,
        }
    }

    /// What flows are known by.
    pub fn hasher(&self) -> &Hasher {
        &self.hasher
    }

    /// The flows' hashes.
    pub fn hashes(&self) -> impl Iterator<Item = FlowHash> {
        self.view.flows.iter().map(|flow| flow.flow)
    }

    /// All flows, by name where it is known.
    pub fn list(&self, names: &HashMap<FlowHash, FlowKey>) -> FlowList {
        let all = || self.view.flows.iter().zip(&self.view.seen);
        let record = |(outcome, seen): (&FlowOutcome, &SeenFlow)| {
            let key = names.get(&outcome.flow);
            let name = key.map_or(FlowName::Hash(outcome.flow.0), |key| FlowName::Key(*key));
            self.record(name, outcome, Some(seen))
        };
        let wire = self.empty.wire.as_ref().map(|wire| WireList {
            running: all().map(|(_, seen)| seen.running()).collect(),
            ..*wire
        });
        FlowList {
            flows: all().map(record).collect(),
            wire,
            ..self.empty.clone()
        }
    }

    /// What is published with every snapshot: numbers, and the flows that have names, the greatest first.
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

    /// The flow on each segment where it may have had packets. One that was not counted is decoded with
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
        let answer = |AskedFlow {
                          outcome,
                          is_counted,
                      }: &AskedFlow| {
            let seen = self.seen(outcome.flow, outcome.segment);
            self.flow(name, outcome, seen, *is_counted)
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
        let mut flow = self.empty.flow(&record, &EpochTimes::default());
        flow.running = seen.and_then(SeenFlow::running);
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
            references: None,
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

/// The flows of every wire, each by the name by which `inside` knows it, where it does.
pub(crate) fn lists<'l>(
    wires: &[WireFlowsOf],
    inside: impl Iterator<Item = &'l FlowList>,
) -> Vec<FlowList> {
    let Some(first) = wires.first() else {
        return Vec::new();
    };
    let hashes = wires.iter().flat_map(WireFlowsOf::hashes);
    let mut found: HashMap<FlowHash, Option<FlowKey>> = hashes.map(|hash| (hash, None)).collect();
    for record in inside.flat_map(|list| &list.flows) {
        if let Some(key) = record.key()
            && let Some(found) = found.get_mut(&first.hasher().flow_hash(key))
        {
            *found = Some(*key);
        }
    }
    let names = found.into_iter();
    let names = names.filter_map(|(hash, key)| Some((hash, key?))).collect();
    wires.iter().map(|wire| wire.list(&names)).collect()
}

/// An estimate of a segment over so many samples, as it is published.
pub(crate) fn estimate(of: &Estimate, effective_samples: Option<u64>) -> WireEstimate {
    WireEstimate {
        method: of.method.name().to_owned(),
        mean_ns: of.mean_ns,
        bound_ns: of.bound_ns,
        effective_samples,
    }
}
