//! The flows of one epoch at the receiver's end, by hash.

use measure::observation::SegmentIndex;
use measure::packet::FlowHash;
use measure::rli::{Estimates, FlowDelay, FlowDistribution};

/// An empty place.
const FREE: u32 = u32::MAX;

/// Most places between a flow's hash and its position.
const PROBES: usize = 16;

/// Key of a wire's flow.
pub type FlowOnSegment = (FlowHash, SegmentIndex);

/// A flow in one epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WireFlow {
    /// Its hash; the flow's addresses are known to the flow table inside the switch.
    pub flow: FlowHash,
    /// Its segment.
    pub segment: SegmentIndex,
    /// Packets that arrived.
    pub packets: u64,
    /// Their bytes, without frame check sequences.
    pub bytes: u64,
    /// Its delay from references.
    pub delay: FlowDelay,
}

/// Start of the search for a flow; segments of one flow are spread.
#[inline]
fn start(flow: FlowHash, segment: SegmentIndex) -> usize {
    let start = (flow.0 ^ u64::from(segment.0).wrapping_mul(0x9E37_79B9_7F4A_7C15)) >> 20;
    start as usize
}

/// The flows of one epoch: a table of fixed size, emptied for the next epoch.
#[derive(Debug, Clone)]
pub struct WireFlows {
    places: Vec<u32>,
    flows: Vec<WireFlow>,
    room: usize,
    /// Delays of the first flows, which were [named](Self::name) at the beginning.
    delays: Vec<FlowDistribution>,
    named_max: usize,
    other_packets: u64,
}

impl WireFlows {
    /// Result of [`count`](Self::count) for a flow without a place.
    pub const OTHER: u32 = u32::MAX;

    /// Makes room for `flows` flows, and `named` more; allocates all memory.
    pub fn new(flows: u32, named: u32) -> Self {
        let named_max = named as usize;
        let room = flows as usize + named_max;
        let places = (room * 2).next_power_of_two();
        Self {
            places: vec![FREE; if room == 0 { 0 } else { places }],
            flows: Vec::with_capacity(room),
            room,
            delays: Vec::with_capacity(named_max),
            named_max,
            other_packets: 0,
        }
    }

    /// Counts a packet of `bytes` of a flow, and returns the flow's slot, valid until the epoch ends;
    /// [`OTHER`](Self::OTHER) without room.
    #[inline]
    pub fn count(&mut self, flow: FlowHash, segment: SegmentIndex, bytes: u32) -> u32 {
        if let Some(slot) = self.slot(flow, segment)
            && let Some(known) = self.flows.get_mut(slot as usize)
        {
            known.packets += 1;
            known.bytes += u64::from(bytes);
            return slot;
        }
        self.other_packets += 1;
        Self::OTHER
    }

    /// The slot of a flow, which is assigned if it has none; `None` without room.
    #[inline]
    fn slot(&mut self, flow: FlowHash, segment: SegmentIndex) -> Option<u32> {
        let mask = self.places.len().checked_sub(1)?;
        let start = start(flow, segment);
        for probe in 0..PROBES {
            let place = self.places.get_mut(start.wrapping_add(probe) & mask)?;
            if *place == FREE {
                if self.flows.len() == self.room {
                    return None;
                }
                #[expect(clippy::cast_possible_truncation, reason = "u32 flows at most")]
                let slot = self.flows.len() as u32;
                *place = slot;
                self.flows.push(WireFlow {
                    flow,
                    segment,
                    packets: 0,
                    bytes: 0,
                    delay: FlowDelay::default(),
                });
                return Some(slot);
            }
            let known = self.flows.get(*place as usize);
            if known.is_some_and(|known| (known.flow, known.segment) == (flow, segment)) {
                return Some(*place);
            }
        }
        None
    }

    /// Keeps the distribution of these flows' delays, as far as there is room. Call it before any packet is
    /// counted.
    pub fn name(&mut self, flows: &[FlowOnSegment]) {
        debug_assert!(self.flows.is_empty(), "named flows have the first slots");
        for &(flow, segment) in flows.iter().take(self.named_max) {
            let slot = self.slot(flow, segment);
            if slot.is_some_and(|slot| slot as usize == self.delays.len()) {
                self.delays.push(FlowDistribution::default());
            }
        }
    }

    /// Removes a counted packet; returns `false` if its flow has no place.
    pub(super) fn uncount(&mut self, flow: FlowHash, segment: SegmentIndex, bytes: u32) -> bool {
        let start = start(flow, segment);
        for probe in 0..PROBES.min(self.places.len()) {
            let place = self
                .places
                .get(start.wrapping_add(probe) & (self.places.len() - 1));
            let Some(place) = place.filter(|&&place| place != FREE) else {
                break;
            };
            if let Some(known) = self.flows.get_mut(*place as usize)
                && (known.flow, known.segment) == (flow, segment)
                && known.packets > 0
            {
                known.packets -= 1;
                known.bytes = known.bytes.saturating_sub(bytes.into());
                return true;
            }
        }
        self.other_packets = self.other_packets.saturating_sub(1);
        false
    }

    /// Adds estimates of packets by references, by their flows' slots.
    #[inline]
    pub fn estimate(&mut self, estimates: &Estimates<'_, u32>) {
        for &slot in estimates.flows {
            if let Some(flow) = self.flows.get_mut(slot as usize) {
                flow.delay.add(&estimates.estimate);
            }
            if let Some(delays) = self.delays.get_mut(slot as usize) {
                delays.add(&estimates.estimate);
            }
        }
    }

    /// The delays of the first flows, which were named.
    pub fn delays(&self) -> &[FlowDistribution] {
        &self.delays
    }

    /// The flows, in order of first arrival.
    pub fn flows(&self) -> &[WireFlow] {
        &self.flows
    }

    /// Packets of flows without a place.
    pub fn other_packets(&self) -> u64 {
        self.other_packets
    }

    /// Removes all flows.
    pub fn clear(&mut self) {
        self.places.fill(FREE);
        self.flows.clear();
        self.delays.clear();
        self.other_packets = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::rli::Estimate;
    use measure::time::EpochTag;

    #[test]
    fn named_flows_have_distributions_and_take_no_slot_from_others() {
        let mut flows = WireFlows::new(2, 2);
        let of = |n| (FlowHash(n), SegmentIndex(0));
        for _ in 0..2 {
            flows.name(&[of(7), of(7), of(8)]);
            assert_eq!((flows.delays().len(), flows.flows().len()), (1, 1));
            let slots: Vec<u32> = [7, 1, 2, 3, 4]
                .map(|n| flows.count(FlowHash(n), SegmentIndex(0), 60))
                .to_vec();
            assert_eq!(slots, [0, 1, 2, 3, WireFlows::OTHER]);
            flows.estimate(&Estimates {
                flows: &slots,
                estimate: Estimate {
                    epoch: EpochTag::default(),
                    received_ns: 0,
                    delay_ns: 5_000.4,
                    squared_error_ns2: 1.0,
                    share_of_sum: 0.0,
                    interval: 1,
                },
            });
            assert_eq!(flows.delays()[0].packets(), 1);
            assert_eq!(flows.flows()[0].packets, 1);
            flows.clear();
            assert!(flows.delays().is_empty());
        }
    }
}
