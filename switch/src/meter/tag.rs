//! Tags of epochs, and how long they can be trusted.
//!
//! ```text
//!  EpochTag   plan, 2 bits | epoch, 6 bits
//! ```
//!
//! Workers take up a plan at an epoch's rollover each, so that a tag says which open epoch it is of, or
//! that it is of none, for as long as less than three epochs went by. Packets that waited for longer are
//! compared with the start of the epoch and of the plan that their tag names: off the fast path, which
//! looks at one sum a burst.

use measure::time::{Epoch, EpochSchedule, EpochTag, Ticks};

const EPOCH_BITS: u32 = 6;
const EPOCH_MASK: u8 = (1 << EPOCH_BITS) - 1;

/// The number of a worker's plan, modulo 4: plans change on all workers, one after the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PlanNumber(u8);

impl PlanNumber {
    /// The tag of packets that count in `epoch` under this plan.
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
    pub fn tag(self, epoch: Epoch) -> EpochTag {
        EpochTag(self.0 << EPOCH_BITS | epoch.0 as u8 & EPOCH_MASK)
    }

    /// Whether a tag is of this plan.
    #[inline]
    pub fn is_of(self, EpochTag(tag): EpochTag) -> bool {
        tag >> EPOCH_BITS == self.0
    }

    pub fn next(self) -> Self {
        Self((self.0 + 1) & 3)
    }

    pub fn before(self) -> Self {
        Self(self.0.wrapping_sub(1) & 3)
    }
}

/// A tag of an epoch half of what tags tell apart from that of `tag`: no epoch that far from an open
/// one is open.
pub(super) fn of_no_open_epoch(EpochTag(tag): EpochTag) -> EpochTag {
    EpochTag(tag ^ 1 << (EPOCH_BITS - 1))
}

/// A tag of the plan two before or after that of `tag`: neither the present one nor the one before it.
pub(super) fn of_no_plan(EpochTag(tag): EpochTag) -> EpochTag {
    EpochTag(tag ^ 2 << EPOCH_BITS)
}

/// A delay from which on tags are checked, a power of two of ticks: any delay of a burst that has it
/// shows in the disjunction of all. A delay below 0 does, too.
pub(super) fn doubtful_ticks(schedule: &EpochSchedule) -> u64 {
    1 << schedule.interval_ticks().saturating_mul(3).ilog2().min(62)
}

/// Whether an instant is before `start`, by more than an epoch: cores may disagree by some ticks.
pub(super) fn is_before(instant: Ticks, start: Ticks, interval_ticks: u64) -> bool {
    start.signed_since(instant) > interval_ticks.cast_signed()
}
