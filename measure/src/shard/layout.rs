//! What a shard holds, and what that takes.

use std::ops::Range;

use crate::cell::PassedCell;
use crate::flows::{FlowCounters, FlowEstimates, FlowSlots};
use crate::lds::LdsLayout;
use crate::packet::Hashing;
use crate::time::TickRate;

use super::segment::{SegmentBytes, SegmentLayout};

/// What a [`Shard`](super::Shard) holds.
#[derive(Debug, Clone, PartialEq)]
pub struct ShardLayout {
    /// Of the counter that times and delays are read from.
    pub rate: TickRate,
    /// Index of its first segment among all; the others follow it.
    pub first_segment: u16,
    /// For each segment, in the order of [`SegmentIndex`](crate::observation::SegmentIndex) from the first
    /// on and 65,536 at most: the sketch that its packets go to, those of its egress port. One that
    /// is not there means none.
    pub sketch_of: Vec<u16>,
    /// Sketches: as many as egress ports.
    pub sketches: usize,
    /// Each segment.
    pub segment: SegmentLayout,
    /// Each sketch.
    pub lds: Option<LdsLayout>,
    /// Slots of the flows that are tracked; 0 where none are.
    pub flow_slots: usize,
    /// Whether the slots keep sums of estimated delays (RLI's) as well.
    pub flow_estimates: bool,
    /// Slots that can have a histogram, at most 65,535.
    pub flow_histograms: usize,
}

/// Memory of one shard by purpose, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShardBytes {
    /// What is kept of segments, each purpose by itself.
    pub segments: SegmentBytes,
    /// Sketches.
    pub lds: usize,
    /// Flow slots.
    pub flows: usize,
}

impl ShardBytes {
    /// All of it.
    pub fn total(&self) -> usize {
        let segments = self.segments.iter().map(|(_, bytes)| bytes);
        segments.sum::<usize>() + self.lds + self.flows
    }
}

impl ShardLayout {
    /// What has to be found out about a packet for shards of this layout.
    pub fn hashing(&self) -> Hashing {
        match &self.lds {
            Some(lds) if lds.asks_which_packet() => Hashing::Packet,
            None if self.flow_slots == 0 => Hashing::None,
            _ => Hashing::Flow,
        }
    }

    /// The exact figures of `segments` segments and nothing else.
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

    /// Segments.
    pub fn segments(&self) -> usize {
        self.sketch_of.len()
    }

    /// The layout of a worker that serves no segments but these, by their indices among all: of the
    /// sketches only those are left that their packets go to. Weights go by index among all, and
    /// stay.
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
            // No further than where the range or the layout begins.
            first_segment: self.first_segment + u16::try_from(first).unwrap_or(0),
            sketch_of,
            sketches: kept.len(),
            ..self.clone()
        }
    }

    /// The same without flow slots: for code that adds up shards of several workers that each
    /// numbers its slots for itself.
    #[must_use]
    pub fn without_flows(mut self) -> Self {
        self.flow_slots = 0;
        self
    }

    /// What one shard takes.
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
