//! Estimates of a flow that is not tracked, from sketches.

use std::collections::HashSet;
use std::sync::Arc;

use measure::chooser::Method;
use measure::decoding::FlowMeans;
use measure::lds::DelayCells;
use measure::observation::SegmentIndex;
use measure::packet::{FlowHash, FlowKey, Hasher};
use measure::time::TickRate;

use super::{Counted, EpochCells, decoder, estimate};
use records::snapshot::{
    FlowEstimate, FlowList, FlowMethod, FlowName, FlowRecord, SegmentName, SketchedFlow,
};

/// The sketches of the last epoch, which hold every flow.
#[derive(Debug, Clone)]
pub struct Sketches {
    pub(crate) hasher: Hasher,
    pub(crate) rate: TickRate,
    pub(crate) components: usize,
    pub(crate) cells: EpochCells,
    /// By number of a segment.
    pub(crate) names: Vec<Arc<SegmentName>>,
}

/// By what they hold; all sketches of one switch have one hash.
impl PartialEq for Sketches {
    fn eq(&self, other: &Self) -> bool {
        self.cells == other.cells
    }
}

impl Sketches {
    /// The flow `key` on every segment where `list` does not have it: nothing where a sketch shows that
    /// there were no packets. Flows of the list are decoded together with it, so that this takes some
    /// hundred milliseconds with 100,000 flows.
    pub fn ask(&self, key: &FlowKey, list: &FlowList) -> Vec<SketchedFlow> {
        let tracked: HashSet<u32> = list
            .of(FlowName::Key(*key))
            .map(|record| record.segment)
            .collect();
        let sketches = self.cells.sketches.iter().enumerate();
        let valid = sketches.filter_map(|(sketch, cells)| Some((sketch, cells.as_ref()?)));
        valid
            .flat_map(|(sketch, cells)| self.ask_one(sketch, cells, key, &tracked, list))
            .collect()
    }

    fn ask_one(
        &self,
        sketch: usize,
        cells: &DelayCells,
        key: &FlowKey,
        tracked: &HashSet<u32>,
        list: &FlowList,
    ) -> Vec<SketchedFlow> {
        let flow = self.hasher.flow_hash(key);
        // Segments of the sketch on which it may have had packets, and how many at most.
        let candidates = (0..).zip(self.cells.segments.iter());
        let candidates = candidates.filter_map(|(segment, at)| {
            let (index, _) = at.filter(|&(_, other)| other == sketch)?;
            let asked = Asked {
                segment,
                index,
                packets: cells.packets(flow, index)?,
                lost: u64::try_from(cells.lost(flow, index).unwrap_or(0)).unwrap_or(0),
            };
            let may_be = asked.packets + asked.lost > 0 && !tracked.contains(&segment);
            may_be.then_some(asked)
        });
        let asked = self.without_others(sketch, cells, key, candidates.collect(), list);
        if asked.is_empty() {
            return Vec::new();
        }
        let joint = self.joint(sketch, cells, key, &asked, list);
        let answers = asked.iter().enumerate().filter_map(|(nth, asked)| {
            let name = self.names.get(asked.segment as usize)?;
            let joint = joint.as_ref().and_then(|flows| flows.get(nth)?.chosen);
            let joint = joint.filter(|chosen| chosen.method == Method::Joint);
            let of = (self.cells.epoch, 1, asked.packets);
            let joint = joint.and_then(|chosen| estimate(&chosen, of, self.rate));
            // Where no packet of it arrived its cells hold only others.
            let had_packets = asked.packets > 0;
            let any = || joint.or_else(|| self.paper(cells, flow, asked));
            Some(SketchedFlow {
                ingress: name.ingress.clone(),
                egress: name.egress.clone(),
                class: name.class.clone(),
                packets_max: asked.packets,
                lost_packets_max: asked.lost,
                estimate: had_packets.then(any).flatten(),
            })
        });
        answers.collect()
    }

    /// Takes from the packets that candidates may have had those of flows that are tracked: exact
    /// where every packet goes to one cell of each row. Candidates that had none are left out.
    fn without_others(
        &self,
        sketch: usize,
        cells: &DelayCells,
        key: &FlowKey,
        mut candidates: Vec<Asked>,
        list: &FlowList,
    ) -> Vec<Asked> {
        if !cells.layout().asks_which_packet() && !candidates.is_empty() {
            let listed = self.listed(sketch, list).map(|(key, record, index)| {
                (self.hasher.flow_hash(key), index, record.last.packets)
            });
            let claimed = cells.claimed(listed);
            let flow = self.hasher.flow_hash(key);
            for asked in &mut candidates {
                asked.packets = cells.unclaimed(&claimed, flow, asked.index);
            }
        }
        candidates.retain(|asked| asked.packets + asked.lost > 0);
        candidates
    }

    /// The list's flows in a sketch with packets in its epoch.
    fn listed<'l>(
        &'l self,
        sketch: usize,
        list: &'l FlowList,
    ) -> impl Iterator<Item = (&'l FlowKey, &'l FlowRecord, SegmentIndex)> {
        let is_here = move |record: &&FlowRecord| {
            record.last_epoch == self.cells.epoch.0 && record.last.packets > 0
        };
        list.flows.iter().filter(is_here).filter_map(move |record| {
            let at = self
                .cells
                .segments
                .get(record.segment as usize)
                .copied()
                .flatten();
            let (index, _) = at.filter(|&(_, other)| other == sketch)?;
            Some((record.key()?, record, index))
        })
    }

    /// Decodes jointly with all flows of the list; `None` where that cannot be done, or packets of flows
    /// that are not on it share the cells: then no bound would hold.
    fn joint(
        &self,
        sketch: usize,
        cells: &DelayCells,
        key: &FlowKey,
        asked: &[Asked],
        list: &FlowList,
    ) -> Option<Vec<FlowMeans>> {
        if cells.layout().asks_which_packet() {
            return None;
        }
        let counted =
            |key, segment, packets| Counted::new(self.hasher.flow_hash(key), segment, packets);
        let listed = self.listed(sketch, list);
        let listed = listed.map(|(key, of, index)| counted(key, index, of.last.packets));
        let mut flows: Vec<Counted> = listed.collect();
        let known = flows.len();
        flows.extend(asked.iter().map(|of| counted(key, of.index, of.packets)));
        let mut decoded = decoder(cells, self.components, self.rate)
            .decode(&flows, || false)
            .inspect_err(|error| tracing::warn!("a flow cannot be decoded: {error}"))
            .ok()?;
        (decoded.is_whole).then(|| decoded.flows.split_off(known))
    }

    /// The paper's estimator, without a bound.
    fn paper(&self, cells: &DelayCells, flow: FlowHash, asked: &Asked) -> Option<FlowEstimate> {
        let mean_ticks = cells.estimate(flow, asked.index)?.mean_ticks;
        Some(FlowEstimate {
            method: FlowMethod::LdsPaper,
            epoch: self.cells.epoch.0,
            epochs: 1,
            packets: asked.packets,
            mean_ns: self.rate.to_ns(mean_ticks),
            bound_ns: None,
            is_within_bound: None,
        })
    }
}

/// A segment on which a flow may have had packets.
#[derive(Debug, Clone, Copy)]
struct Asked {
    /// Its number, and its index in the generation.
    segment: u32,
    index: SegmentIndex,
    /// The flow's packets and losses, at most.
    packets: u64,
    lost: u64,
}
