//! The contents of a shard, and their memory.

use std::ops::Range;

use crate::cell::PassedCell;
use crate::flows::{FlowCounters, FlowEstimates, FlowSlots};
use crate::lds::LdsLayout;
use crate::packet::Hashing;
use crate::time::TickRate;

use super::segment::{SegmentBytes, SegmentLayout};

/// Contents of a [`Shard`](super::Shard).
#[derive(Debug, Clone, PartialEq)]
pub struct ShardLayout {
    /// Rate of the counter for times and delays.
    pub rate: TickRate,
    /// Index of its first segment among all; the others follow it.
    pub first_segment: u16,
    /// The sketch for the packets of each segment, that of its egress port, in the order of
    /// [`SegmentIndex`](crate::observation::SegmentIndex) from the first on, at most 65,536. An index
    /// without a sketch means none.
    pub sketch_of: Vec<u16>,
    /// Number of sketches: one for each egress port.
    pub sketches: usize,
    /// Layout of each segment.
    pub segment: SegmentLayout,
    /// Layout of each sketch.
    pub lds: Option<LdsLayout>,
    /// Slots of tracked flows; 0 if flows are not tracked.
    pub flow_slots: usize,
    /// Whether the slots also keep sums of estimated delays (RLI's).
    pub flow_estimates: bool,
    /// Most slots with a histogram, at most 65,535.
    pub flow_histograms: usize,
}

/// Memory of one shard in bytes, by purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShardBytes {
    /// Segments, by purpose.
    pub segments: SegmentBytes,
    /// Sketches.
    pub lds: usize,
    /// Flow slots.
    pub flows: usize,
}

impl ShardBytes {
    /// The sum.
    pub fn total(&self) -> usize {
        let segments = self.segments.iter().map(|(_, bytes)| bytes);
        segments.sum::<usize>() + self.lds + self.flows
    }
}

impl ShardLayout {
    /// The hashes needed of a packet for shards of this layout.
    pub fn hashing(&self) -> Hashing {
        match &self.lds {
            Some(lds) if lds.asks_which_packet() => Hashing::Packet,
            None if self.flow_slots == 0 => Hashing::None,
            _ => Hashing::Flow,
        }
    }

    /// Only the exact figures of `segments` segments.
    pub fn new(rate: TickRate, segments: usize) -> Self {
        Self {
            rate,
            first_segment: 0,
            sketch_of: vec![0; segments],
            sketches: 0,
            segment: SegmentLayout::default(),
            lds: None,
            flow_slots: 0,
            flow_estimates: false,
            flow_histograms: 0,
        }
    }

    /// Number of segments.
    pub fn segments(&self) -> usize {
        self.sketch_of.len()
    }

    /// The layout of a worker that serves only these segments, given by their indices among all, with only
    /// the sketches that they use. Weights are indexed among all, and stay.
    #[must_use]
    pub fn part(&self, segments: Range<u16>) -> Self {
        let place = |index: u16| {
            let place = usize::from(index.saturating_sub(self.first_segment));
            place.min(self.segments())
        };
        let first = place(segments.start);
        let mut sketch_of = self.sketch_of[first..place(segments.end).max(first)].to_vec();
        let is_there = |&sketch: &u16| usize::from(sketch) < self.sketches;
        let mut kept: Vec<u16> = sketch_of.iter().copied().filter(is_there).collect();
        kept.sort_unstable();
        kept.dedup();
        for sketch in &mut sketch_of {
            let place = kept.binary_search(sketch);
            *sketch = place.map_or(u16::MAX, |place| u16::try_from(place).unwrap_or(u16::MAX));
        }
        Self {
            // No further than the beginning of the range or of the layout.
            first_segment: self.first_segment + u16::try_from(first).unwrap_or(0),
            sketch_of,
            sketches: kept.len(),
            ..self.clone()
        }
    }

    /// The same without flow slots, for adding up shards of several workers that number their slots
    /// independently.
    #[must_use]
    pub fn without_flows(mut self) -> Self {
        self.flow_slots = 0;
        self
    }

    /// Memory of one shard.
    pub fn size_bytes(&self) -> ShardBytes {
        let segments = self.segment.size_bytes();
        let sketch = |layout: &LdsLayout| self.sketches * layout.cells() * size_of::<PassedCell>();
        let slot_bytes = size_of::<FlowCounters>()
            + if self.flow_estimates {
                size_of::<FlowEstimates>()
            } else {
                0
            };
        let histograms = FlowSlots::histogram_bytes(self.flow_histograms, self.flow_slots);
        ShardBytes {
            segments: segments.map(|(purpose, bytes)| (purpose, self.segments() * bytes)),
            lds: self.lds.as_ref().map_or(0, sketch),
            flows: match self.flow_slots {
                0 => 0,
                slots => (slots + 1) * slot_bytes + histograms,
            },
        }
    }
}
