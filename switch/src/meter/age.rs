//! What a packet that waited for long still counts for: its tag names an epoch and a generation by few bits.
//!
//! ```text
//!  EpochTag   generation, 2 bits | epoch, 6 bits
//! ```
//!
//! Workers take up a generation at an epoch's rollover each, so that a tag says which open epoch it is of, or that it
//! is of none, for as long as less than three epochs went by. Packets that waited for longer are held against the
//! start of the epoch and of the plan that they seem to be of: off the fast path, which looks at one sum a burst.

use measure::observation::Observation;
use measure::time::{Epoch, EpochSchedule, EpochTag, Ticks};

use super::{Meter, Open};
use crate::packet_io::NO_SEGMENT;

const EPOCH_BITS: u32 = 6;
const EPOCH_MASK: u8 = (1 << EPOCH_BITS) - 1;

/// Half of the epochs that a tag tells apart: no epoch that far from an open one is open.
const OTHER_EPOCH: u8 = 1 << (EPOCH_BITS - 1);

/// Half of the generations that a tag tells apart: neither the present one's nor the one before it.
const OTHER_GENERATION: u8 = 2 << EPOCH_BITS;

/// The number of a worker's plan, modulo 4: plans change on all workers, one after the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PlanNumber(u8);

impl PlanNumber {
    /// The tag of packets that count in `epoch` under this plan.
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
    pub(super) fn tag(self, epoch: Epoch) -> EpochTag {
        EpochTag(self.0 << EPOCH_BITS | epoch.0 as u8 & EPOCH_MASK)
    }

    /// Whether a tag is of this plan.
    #[inline]
    pub(super) fn is_of(self, EpochTag(tag): EpochTag) -> bool {
        tag >> EPOCH_BITS == self.0
    }

    pub(super) fn next(self) -> Self {
        Self((self.0 + 1) & 3)
    }

    pub(super) fn before(self) -> Self {
        Self(self.0.wrapping_sub(1) & 3)
    }
}

/// A delay from which on tags are not believed, a power of two of ticks: any delay of a burst that has it shows in
/// the disjunction of all. A delay below 0 does, too.
pub(super) fn doubtful_ticks(schedule: &EpochSchedule) -> u64 {
    1 << schedule.interval_ticks().saturating_mul(3).ilog2().min(62)
}

/// Whether a time is before `start`, by more than an epoch: cores may disagree by some ticks.
pub(super) fn is_before(time: Ticks, start: Ticks, interval_ticks: u64) -> bool {
    start.signed_since(time) > interval_ticks.cast_signed()
}

impl Meter {
    /// Puts observations right that have a delay below 0 or one that a tag cannot vouch for.
    #[cold]
    pub(super) fn mend(
        &mut self,
        observations: &mut [Observation],
        arrived: impl Iterator<Item = Ticks>,
    ) {
        for (observation, arrived) in observations.iter_mut().zip(arrived) {
            if observation.delay.cast_signed() < 0 {
                observation.delay = 0;
                self.count_backward(1);
            }
            observation.epoch = self.believed(observation.epoch, arrived);
        }
    }

    /// Counts packets whose delay was below 0 and became 0: counters of two cores may be some ticks apart.
    #[inline]
    pub fn count_backward(&mut self, packets: u64) {
        self.backward_packets += packets;
    }

    /// The tag of a packet that was first seen at `arrived`: its own, or one of no open epoch, where its own is that
    /// of one by chance; one of no known plan, where it is older than the one that it seems to be of.
    pub(super) fn believed(&self, tag: EpochTag, arrived: Ticks) -> EpochTag {
        let mut believed = tag;
        if self
            .open_of(tag)
            .is_some_and(|open| self.is_before(arrived, open.start))
        {
            believed.0 ^= OTHER_EPOCH;
        }
        if self.number.is_of(tag) && self.is_before(arrived, self.plan_began) {
            believed.0 ^= OTHER_GENERATION;
        }
        believed
    }

    fn is_before(&self, time: Ticks, start: Ticks) -> bool {
        is_before(time, start, self.schedule.interval_ticks())
    }

    fn open_of(&self, tag: EpochTag) -> Option<&Open> {
        let open = std::iter::once(&self.current).chain(&self.previous);
        open.into_iter().find(|open| open.tag == tag)
    }

    /// The tag, and the first tick of the epoch, of a packet that was first seen at `arrived`, no later than the last
    /// tick: what a packet that carries no tag counts for.
    #[inline]
    pub fn epoch_of(&self, arrived: Ticks) -> (EpochTag, Ticks) {
        if arrived >= self.current.start {
            return (self.current.tag, self.current.start);
        }
        self.epoch_before(arrived)
    }

    #[cold]
    fn epoch_before(&self, arrived: Ticks) -> (EpochTag, Ticks) {
        if let Some(previous) = self.previous.as_ref().filter(|open| arrived >= open.start) {
            return (previous.tag, previous.start);
        }
        let mut sealed = self.current.tag;
        sealed.0 ^= OTHER_EPOCH;
        if arrived < self.plan_began {
            sealed.0 ^= OTHER_GENERATION;
        }
        (
            sealed,
            self.schedule.start_of(self.schedule.epoch_at(arrived)),
        )
    }

    /// Counts packets that outlived the plan that they were tagged by: their segment may be another's by now.
    #[cold]
    pub(super) fn outlived(&mut self, segment: measure::observation::SegmentIndex, packets: u64) {
        if segment != NO_SEGMENT {
            self.outlived_packets += packets;
        }
    }
}
