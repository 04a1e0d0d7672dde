//! Flow slots: exact counters of the tracked flows.
//!
//! ```text
//! flows of a burst --> FlowTable --------> slots ----> FlowSlots  (sent at the rollover)
//!            index: id -> slot         + delay    slot 0   packets bytes sum squares ..
//!            free slots                + bytes    slot 1
//!            | new flow: takes a slot, reported  ...
//!            v                                   other    without slot
//!         control core: directory, evictions --> forget, give
//! ```
//!
//! A [`FlowTable`] stays with its worker and knows which flow has which slot. The [`FlowSlots`] are dense
//! counters by slot, swapped at each rollover; they do not know flows. The control core receives reports of
//! new flows, keeps the directory from slots to flows, decides which flows to evict ([`FlowTable::forget`])
//! and, once the last counters with the old meaning have been read, returns the slot ([`FlowTable::give`]).
//!
//! A burst takes four passes, so that all its cache misses overlap: prefetch all buckets
//! ([`FlowTable::prefetch`]), look up all ([`FlowTable::look_up`]), prefetch all counters, add all
//! ([`FlowSlots`]); other work between the passes helps.

mod slots;
mod table;

pub use slots::{FlowCounters, FlowEstimates, FlowSlots};
pub use table::{FlowIndex, FlowTable, NewFlow, Untracked};

use crate::observation::{Observation, SegmentIndex};
use crate::packet::FlowHash;

/// A flow on a segment: 64 bits, as uniform as the flow hash.
///
/// Flows of one segment differ here if their hashes do, and a flow differs on any two segments. The
/// probability that any two of `n` flows, on any segments, collide is at most `n^2 2^-64` over the seed
/// (`n^2 / 2` pairs, each 2^-63: [`crate::packet`], "The hash"): 10^-9 for 100,000 flows. The index itself
/// compares all 64 bits and adds no collisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(u64);

/// Odd, so that segments stay distinct modulo 2^64: 2^64 over the golden ratio.
const SEGMENT_MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

impl FlowId {
    /// The id of the flow with `hash` on `segment`.
    #[inline]
    pub const fn new(hash: FlowHash, SegmentIndex(segment): SegmentIndex) -> Self {
        Self(hash.0 ^ SEGMENT_MULTIPLIER.wrapping_mul(segment as u64))
    }

    /// The id of an observation's flow.
    #[inline]
    pub const fn of(observation: &Observation) -> Self {
        Self::new(observation.flow, observation.segment)
    }

    /// Its 64 bits.
    #[inline]
    pub const fn bits(self) -> u64 {
        self.0
    }
}

/// A slot number, or [`OTHER`](Self::OTHER).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

impl Slot {
    /// Counts packets of flows without a slot.
    pub const OTHER: Self = Self(u32::MAX);
}

#[cfg(test)]
mod tests;
