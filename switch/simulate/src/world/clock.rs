//! The clocks of one switch: a counter that runs a little fast or slow, and a system's clock that drifts and is set.

use measure::time::Ticks;

/// TAI at the beginning of a world.
const TAI_NS: i128 = 1_800_000_000_000_000_000;

const BILLION: i128 = 1_000_000_000;

/// Both clocks, by the world's time in nanoseconds.
#[derive(Debug, Clone)]
pub(super) struct Clocks {
    /// When the counter was at `ticks`.
    since: u64,
    ticks: Ticks,
    counter_ppb: i64,
    /// When the system's clock was ahead by so much.
    set_at: u64,
    ahead_ns: i64,
    drift_ppb: i64,
}

impl Clocks {
    /// A counter of 1 GHz that stands at `ticks` at `now`, and is off by so much; a system's clock ahead by so much.
    pub fn new(now: u64, ticks: Ticks, counter_ppb: i64, ahead_ns: i64) -> Self {
        Self {
            since: now,
            ticks,
            counter_ppb,
            set_at: now,
            ahead_ns,
            drift_ppb: 0,
        }
    }

    /// The counter.
    pub fn ticks(&self, now: u64) -> Ticks {
        let passed = i128::from(now - self.since);
        let ticks = passed * (BILLION + i128::from(self.counter_ppb)) / BILLION;
        self.ticks.plus(u64::try_from(ticks).unwrap_or(0))
    }

    /// TAI by the system's clock.
    pub fn tai_ns(&self, now: u64) -> u64 {
        let tai = TAI_NS + i128::from(now) + i128::from(self.ahead_ns(now));
        u64::try_from(tai).unwrap_or(0)
    }

    /// What the system's clock is ahead by.
    pub fn ahead_ns(&self, now: u64) -> i64 {
        let drifted = i128::from(now - self.set_at) * i128::from(self.drift_ppb) / BILLION;
        self.ahead_ns + i64::try_from(drifted).unwrap_or(0)
    }

    /// The system's clock drifts by so much from now on.
    pub fn drift(&mut self, now: u64, ppb: i64) {
        self.ahead_ns = self.ahead_ns(now);
        self.set_at = now;
        self.drift_ppb = ppb;
    }

    /// The system's clock is set.
    pub fn step(&mut self, now: u64, by_ns: i64) {
        self.drift(now, self.drift_ppb);
        self.ahead_ns += by_ns;
    }
}
