//! The flows of a wire's last epoch: those that are published, and the answer to a question for one.

use std::collections::HashMap;
use std::sync::Arc;

use measure::chooser::Method;
use measure::packet::{FlowHash, FlowKey, Hasher};
use measure::wire::{Estimate, FlowOutcome};
use records::snapshot::{AskedWireFlow, Wire, WireEstimate, WireFlow, WireFlows, WireSegment};

use super::exchange::WireFlowsView;

/// The flows of one wire, to be asked for.
#[derive(Debug, Clone)]
pub struct WireFlowsOf {
    hasher: Hasher,
    /// Those that arrive here.
    segments: Vec<SegmentNames>,
    view: Arc<WireFlowsView>,
}

#[derive(Debug, Clone)]
struct SegmentNames {
    from: String,
    to: String,
    class: String,
}

impl WireFlowsOf {
    /// The flows in `view`, which are known by `hasher`.
    pub fn new(wire: &Wire, view: Arc<WireFlowsView>, hasher: Hasher) -> Self {
        let incoming = wire.segments.iter().filter(|segment| segment.is_incoming);
        let names = incoming.map(|segment: &WireSegment| SegmentNames {
            from: segment.from.clone(),
            to: segment.to.clone(),
            class: segment.class.clone(),
        });
        Self {
            hasher,
            segments: names.collect(),
            view,
        }
    }

    /// The flow on each segment where it may have had packets. One that was not counted is decoded with
    /// all others, which takes some hundred milliseconds with 100,000 flows.
    pub fn ask(&self, key: &FlowKey) -> Vec<AskedWireFlow> {
        let WireFlowsView {
            flows, job, epoch, ..
        } = &*self.view;
        let segments = u16::try_from(self.segments.len()).unwrap_or(u16::MAX);
        let asked = job
            .ask(flows, self.hasher.flow_hash(key), segments)
            .inspect_err(|error| tracing::warn!(epoch, "a flow of a wire: {error}"))
            .unwrap_or_default();
        let answers = asked.iter().filter_map(|asked| {
            let names = (self.segments).get(usize::from(asked.outcome.segment.0))?;
            Some(AskedWireFlow {
                from: names.from.clone(),
                to: names.to.clone(),
                epoch: *epoch,
                is_counted: asked.is_counted,
                lost_packets_max: asked.lost_max,
                stddev_ns: asked.stddev_ns,
                flow: record(key.to_string(), &names.class, &asked.outcome),
            })
        });
        answers.collect()
    }
}

/// The flows that have names, the greatest first.
pub(crate) fn flows_of(
    view: &WireFlowsView,
    classes: &[&str],
    names: &HashMap<FlowHash, String>,
) -> WireFlows {
    let known = view.flows.iter().filter_map(|flow| {
        let class = classes.get(usize::from(flow.segment.0)).copied();
        let name = names.get(&flow.flow)?.clone();
        Some(record(name, class.unwrap_or_default(), flow))
    });
    let mut top: Vec<WireFlow> = known.collect();
    top.sort_by(|one, other| {
        let by_packets = other.packets.cmp(&one.packets);
        by_packets.then_with(|| one.flow.cmp(&other.flow))
    });
    WireFlows {
        epoch: view.epoch,
        number: view.flows.len() as u64,
        other_packets: view.other_packets,
        duration_s: view.duration.as_secs_f64(),
        top,
    }
}

fn record(name: String, class: &str, flow: &FlowOutcome) -> WireFlow {
    let estimates = flow.estimates.iter();
    WireFlow {
        flow: name,
        class: class.to_owned(),
        packets: flow.packets,
        estimate: flow.chosen.as_ref().map(|chosen| estimate(chosen, None)),
        estimates: estimates.map(|one| estimate(one, None)).collect(),
    }
}

/// An estimate over so many samples, as it is published.
pub(crate) fn estimate(of: &Estimate, effective_samples: Option<u64>) -> WireEstimate {
    WireEstimate {
        method: method_label(of.method).to_owned(),
        mean_ns: of.mean_ns,
        bound_ns: of.bound_ns,
        effective_samples,
    }
}

/// A method's name, as inside the switch.
pub(crate) fn method_label(method: Method) -> &'static str {
    match method {
        Method::Rli => "rli-s",
        other => other.name(),
    }
}
