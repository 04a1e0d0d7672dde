//! Time as the fast path knows it: ticks of one monotonic counter, cut into epochs.
//!
//! Workers never convert: they compare ticks, and synopses add them. Whoever reads a synopsis
//! turns whole sums into nanoseconds with a [`TickRate`].

use std::time::Duration;

/// One measurement interval, numbered from the engine's start.
///
/// Only the low eight bits travel with a packet ([`EpochTag`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(pub u64);

/// The low eight bits of an epoch's number, as a stamp carries them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct EpochTag(pub u8);

impl Epoch {
    /// The low eight bits, as a stamp carries them.
    #[expect(clippy::cast_possible_truncation, reason = "the tag is the low byte by definition")]
    pub const fn tag(self) -> EpochTag {
        EpochTag(self.0 as u8)
    }

    /// The epoch that follows.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// When epochs turn and when they are sealed, in ticks.
///
/// Turns are plain arithmetic over the counter that every core reads alike, so that workers
/// agree on them with no barrier and a stalled control core cannot stop them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochSchedule {
    origin: u64,
    interval: u64,
    grace: u64,
}

impl EpochSchedule {
    /// Epoch 0 begins at `origin`; each lasts `interval` ticks and is sealed `grace` ticks after
    /// its end.
    ///
    /// `interval` is raised to 2 ticks and `grace` is lowered to under half an interval where
    /// they are not: two epochs at most may be open at any time.
    pub fn new(origin: u64, interval: u64, grace: u64) -> Self {
        let interval = interval.max(2);
        Self { origin, interval, grace: grace.min((interval - 1) / 2) }
    }

    /// The epoch in which `now` lies; epoch 0 for any time before the origin.
    pub fn epoch_at(&self, now: u64) -> Epoch {
        Epoch(now.saturating_sub(self.origin) / self.interval)
    }

    /// First tick of `epoch`.
    pub fn start_of(&self, epoch: Epoch) -> u64 {
        self.origin.wrapping_add(epoch.0.wrapping_mul(self.interval))
    }

    /// First tick at which `epoch` takes no more packets.
    pub fn sealed_from(&self, epoch: Epoch) -> u64 {
        self.start_of(epoch.next()).wrapping_add(self.grace)
    }

    /// Length of an epoch in ticks.
    pub fn interval_ticks(&self) -> u64 {
        self.interval
    }
}

/// How fast the counter runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TickRate {
    hz: u64,
    /// Nanoseconds per tick as a 32.32 fixed-point number.
    ns_per_tick_q32: u64,
}

impl TickRate {
    /// A counter of `hz` ticks a second. Rates under 1 MHz (never those of a TSC) are raised to it.
    pub fn from_hz(hz: u64) -> Self {
        let hz = hz.max(1_000_000);
        Self { hz, ns_per_tick_q32: (1_000_000_000u64 << 32) / hz }
    }

    /// Ticks a second.
    pub fn hz(&self) -> u64 {
        self.hz
    }

    /// Length of a tick: the resolution below which no delay can be told.
    pub fn resolution_ns(&self) -> f64 {
        1e9 / self.hz as f64
    }

    /// Ticks to whole nanoseconds, for the fast path: one multiplication, error under 1 ns per
    /// second of delay.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "580 years of nanoseconds fit u64")]
    pub fn ticks_to_ns(&self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.ns_per_tick_q32)) >> 32) as u64
    }

    /// Ticks (a sum or a mean, of either sign) to nanoseconds.
    pub fn to_ns(&self, ticks: f64) -> f64 {
        ticks * 1e9 / self.hz as f64
    }

    /// A span of time in ticks, rounded down.
    #[expect(clippy::cast_possible_truncation, reason = "spans of configuration, not of ages")]
    pub fn ticks_in(&self, span: Duration) -> u64 {
        (span.as_nanos() * u128::from(self.hz) / 1_000_000_000) as u64
    }
}
