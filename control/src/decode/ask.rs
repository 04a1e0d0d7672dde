//! What sketches say of a flow that is not tracked.

use std::sync::Arc;

use measure::lds::{DelayCells, decode};
use measure::packet::{FlowKey, Hasher};
use measure::sight::SegmentIndex;
use measure::time::{Epoch, TickRate};

use super::{Lists, estimate, method, options};
use crate::snapshot::{FlowList, SketchedFlow};

/// The sketches of the last epoch, to be asked about any flow.
#[derive(Debug, Clone)]
pub struct Sketches {
    pub(crate) hasher: Hasher,
    pub(crate) rate: TickRate,
    pub(crate) epoch: Epoch,
    pub(crate) components: usize,
    pub(crate) cells: Vec<Option<Arc<DelayCells>>>,
    /// By number of a segment: its index in the generation, and its sketch.
    pub(crate) places: Arc<Vec<Option<(SegmentIndex, usize)>>>,
}

/// By what they hold; of one switch all have one hash.
impl PartialEq for Sketches {
    fn eq(&self, other: &Self) -> bool {
        (self.epoch, &self.cells, &self.places) == (other.epoch, &other.cells, &other.places)
    }
}

impl Sketches {
    /// The last epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch.0
    }

    /// What is known of `key` on every segment where `list` does not have it: nothing where a sketch says that there were none. Flows of the list are decoded
    /// together with it, so that this takes some hundred milliseconds with 100,000 flows.
    pub fn ask(&self, key: &FlowKey, list: &FlowList) -> Vec<SketchedFlow> {
        let mut found = Vec::new();
        for (number, cells) in self.cells.iter().enumerate() {
            if let Some(cells) = cells {
                found.extend(self.ask_one(number, cells, key, list));
            }
        }
        found
    }

    fn ask_one(
        &self,
        sketch: usize,
        cells: &DelayCells,
        key: &FlowKey,
        list: &FlowList,
    ) -> Vec<SketchedFlow> {
        let flow = self.hasher.flow_hash(key);
        let is_tracked = |segment: usize| {
            let mut same = list.of(key);
            same.any(|record| record.segment as usize == segment)
        };
        // On which of the sketch's segments it may have had packets, and how many at most.
        let candidates: Vec<(usize, SegmentIndex, u64, u64)> = self
            .places
            .iter()
            .enumerate()
            .filter_map(|(segment, place)| {
                let (index, _) = place.filter(|&(_, other)| other == sketch)?;
                let mined = cells.mine(flow, index);
                let packets = mined.packets?;
                let dropped = u64::try_from(mined.lost.unwrap_or(0)).unwrap_or(0);
                let may_be = packets + dropped > 0 && !is_tracked(segment);
                may_be.then_some((segment, index, packets, dropped))
            })
            .collect();
        if candidates.is_empty() {
            return Vec::new();
        }
        let layout = cells.layout();
        let mut lists = Lists::default();
        for record in &list.flows {
            let place = self.places.get(record.segment as usize).copied().flatten();
            if let Some((index, other)) = place
                && other == sketch
                && record.last_epoch == self.epoch.0
                && record.last.packets > 0
            {
                let packets = record.last.packets as f64;
                lists.add(layout, &self.hasher, &record.key, index, packets);
            }
        }
        let known = lists.packets.len();
        for &(_, index, _, _) in &candidates {
            lists.add(layout, &self.hasher, key, index, f64::NAN);
        }
        let decoded = match decode(cells, lists.table(), &options(self.components), || false) {
            Ok(decoded) => decoded,
            Err(error) => {
                tracing::warn!("a flow cannot be decoded: {error}");
                return Vec::new();
            }
        };
        let delays = &decoded.flows[known..];
        let answers = candidates.iter().zip(delays);
        answers
            .filter_map(|(&(segment, _, packets_max, lost_packets_max), delay)| {
                let name = list.segments.get(segment)?;
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "counts of packets, not negative"
                )]
                let packets = (delay.packets.round() as u64).min(packets_max);
                let method = method(&decoded, delay, 1)?;
                Some(SketchedFlow {
                    ingress: name.ingress.clone(),
                    egress: name.egress.clone(),
                    class: name.class.clone(),
                    packets_max,
                    lost_packets_max,
                    estimate: estimate(method, delay, (self.epoch, 1, packets), self.rate),
                })
            })
            .collect()
    }
}
