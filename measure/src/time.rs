//! Time on the fast path: ticks of one monotonic counter, divided into epochs.
//!
//! Workers never convert: they compare [`Ticks`], and synopses add them. Readers of a synopsis convert
//! whole sums to nanoseconds with a [`TickRate`].

use std::time::Duration;

/// An instant: a reading of the time stamp counter, which is the same on every core.
///
/// Spans between two instants are plain `u64`, named with the suffix `_ticks`. Instants are ordered as
/// numbers: at 5 GHz the counter wraps once in 117 years.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Ticks(pub u64);

impl Ticks {
    /// Ticks since `earlier`, modulo 2^64; over `u64::MAX / 2` if it is later.
    #[inline]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.wrapping_sub(earlier.0)
    }

    /// Ticks since `earlier`; 0 if it is later.
    #[inline]
    pub const fn saturating_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Ticks since `other`; negative if it is later.
    #[inline]
    pub const fn signed_since(self, other: Self) -> i64 {
        self.since(other).cast_signed()
    }

    /// The instant `ticks` later.
    #[inline]
    #[must_use]
    pub const fn plus(self, ticks: u64) -> Self {
        Self(self.0.wrapping_add(ticks))
    }

    /// The instant `ticks` later, or the last one.
    #[inline]
    #[must_use]
    pub const fn saturating_plus(self, ticks: u64) -> Self {
        Self(self.0.saturating_add(ticks))
    }

    /// The instant `ticks` earlier.
    #[inline]
    #[must_use]
    pub const fn minus(self, ticks: u64) -> Self {
        Self(self.0.wrapping_sub(ticks))
    }

    /// The instant `ticks` earlier, or 0.
    #[inline]
    #[must_use]
    pub const fn saturating_minus(self, ticks: u64) -> Self {
        Self(self.0.saturating_sub(ticks))
    }
}

/// One measurement interval, numbered from the engine's start.
///
/// Only the low eight bits travel with a packet ([`EpochTag`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(pub u64);

/// The low eight bits of an epoch's number, as carried by a stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct EpochTag(pub u8);

impl Epoch {
    /// The low eight bits, as carried by a stamp.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the tag is the low byte by definition"
    )]
    pub const fn tag(self) -> EpochTag {
        EpochTag(self.0 as u8)
    }

    /// The next epoch.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// When epochs begin and when they are sealed.
///
/// Rollovers are plain arithmetic on the counter, which is the same on every core, so workers agree on them
/// without a barrier and a stalled control core cannot stop them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochSchedule {
    origin: Ticks,
    interval_ticks: u64,
    grace_ticks: u64,
}

impl EpochSchedule {
    /// Epoch 0 begins at `origin`; each lasts `interval_ticks` and is sealed `grace_ticks` after
    /// its end.
    ///
    /// `interval_ticks` is at least 2, and `grace_ticks` is limited to less than half an interval, so that
    /// at most two epochs are open at any time.
    pub fn new(origin: Ticks, interval_ticks: u64, grace_ticks: u64) -> Self {
        let interval_ticks = interval_ticks.max(2);
        Self {
            origin,
            interval_ticks,
            grace_ticks: grace_ticks.min((interval_ticks - 1) / 2),
        }
    }

    /// The epoch of `now`; epoch 0 for any time before the origin.
    pub fn epoch_at(&self, now: Ticks) -> Epoch {
        Epoch(now.saturating_since(self.origin) / self.interval_ticks)
    }

    /// First tick of `epoch`.
    pub fn start_of(&self, epoch: Epoch) -> Ticks {
        self.origin.plus(epoch.0.wrapping_mul(self.interval_ticks))
    }

    /// First tick at which `epoch` accepts no more packets.
    pub fn sealed_from(&self, epoch: Epoch) -> Ticks {
        self.start_of(epoch.next()).plus(self.grace_ticks)
    }

    /// Length of an epoch in ticks.
    pub fn interval_ticks(&self) -> u64 {
        self.interval_ticks
    }
}

/// The counter's rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TickRate {
    hz: u64,
    /// Nanoseconds per tick as a 32.32 fixed-point number, rounded up, so that a delay of a whole number of
    /// nanoseconds is not converted to one less (3 ticks at 3 GHz are 1 ns).
    ns_per_tick_q32: u64,
}

impl TickRate {
    /// A counter of `hz` ticks a second. Rates below 1 MHz (never those of a TSC) are raised to it.
    pub fn from_hz(hz: u64) -> Self {
        let hz = hz.max(1_000_000);
        Self {
            hz,
            ns_per_tick_q32: (1_000_000_000u64 << 32).div_ceil(hz),
        }
    }

    /// Ticks a second.
    pub fn hz(&self) -> u64 {
        self.hz
    }

    /// Length of a tick: the resolution of a delay.
    pub fn resolution_ns(&self) -> f64 {
        1e9 / self.hz as f64
    }

    /// Converts ticks to whole nanoseconds, rounded down, for the fast path: one multiplication. The result
    /// is too large by less than 1 ns per second of delay if the counter runs at 4 GHz or less.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "580 years of nanoseconds fit u64"
    )]
    pub fn ticks_to_ns(&self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.ns_per_tick_q32)) >> 32) as u64
    }

    /// Converts ticks (a sum or a mean, of either sign) to nanoseconds.
    pub fn to_ns(&self, ticks: f64) -> f64 {
        ticks * 1e9 / self.hz as f64
    }

    /// Converts a span of time to ticks, rounded down.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "spans of configuration, not of ages"
    )]
    pub fn ticks_in(&self, span: Duration) -> u64 {
        (span.as_nanos() * u128::from(self.hz) / 1_000_000_000) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn epochs_begin_and_seal_by_arithmetic() {
        let schedule = EpochSchedule::new(Ticks(1_000), 100, 40);
        assert_eq!(schedule.epoch_at(Ticks(0)), Epoch(0));
        assert_eq!(schedule.epoch_at(Ticks(1_099)), Epoch(0));
        assert_eq!(schedule.epoch_at(Ticks(1_100)), Epoch(1));
        assert_eq!(schedule.start_of(Epoch(3)), Ticks(1_300));
        assert_eq!(schedule.sealed_from(Epoch(0)), Ticks(1_140));
        assert_eq!(Epoch(258).tag(), EpochTag(2));
    }

    #[test]
    fn two_epochs_at_most_are_open() {
        let schedule = EpochSchedule::new(Ticks(0), 100, 1_000);
        assert!(schedule.sealed_from(Epoch(0)) < schedule.start_of(Epoch(1)).plus(50));
        assert_eq!(EpochSchedule::new(Ticks(0), 0, 0).interval_ticks(), 2);
    }

    #[test]
    fn whole_nanoseconds_stay_whole() {
        let rate = TickRate::from_hz(3_000_000_000);
        for ns in [1, 7, 1_000, 123_456_789] {
            assert_eq!(rate.ticks_to_ns(3 * ns), ns);
        }
    }

    proptest! {
        #[test]
        fn fast_conversion_is_exact_to_a_nanosecond_a_second(
            hz in 1_000_000_u64..4_000_000_000,
            ms in 0_u64..100_000,
        ) {
            let rate = TickRate::from_hz(hz);
            let ticks = hz * ms / 1_000;
            let exact_ns = u128::from(ticks) * 1_000_000_000 / u128::from(hz);
            let fast_ns = u128::from(rate.ticks_to_ns(ticks));
            prop_assert!(fast_ns >= exact_ns);
            prop_assert!(fast_ns <= exact_ns + 1 + u128::from(ms / 1_000));
        }
    }
}
