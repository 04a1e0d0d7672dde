//! TAI as read by workers: a line through the time stamp counter, updated several times a second.

use measure::time::{TickRate, Ticks};

use crate::sync::{AtomicU64, Ordering, fence};

/// A line from ticks to nanoseconds of TAI since 1970-01-01.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TaiLine {
    /// A tick,
    pub ticks: Ticks,
    /// the time at it,
    pub tai_ns: u64,
    /// and nanoseconds a tick as a 32.32 fixed-point number.
    pub ns_per_tick_q32: u64,
}

impl TaiLine {
    /// A line at the counter's nominal rate.
    pub fn at_rate(ticks: Ticks, tai_ns: u64, rate: TickRate) -> Self {
        Self {
            ticks,
            tai_ns,
            ns_per_tick_q32: (1_000_000_000_u64 << 32) / rate.hz(),
        }
    }

    /// The time at `ticks`, which may precede the line's own tick.
    #[inline]
    pub fn tai_ns(&self, ticks: Ticks) -> u64 {
        let away = i128::from(ticks.signed_since(self.ticks));
        #[expect(
            clippy::cast_possible_truncation,
            reason = "292 years of nanoseconds fit"
        )]
        let away_ns = ((away * i128::from(self.ns_per_tick_q32)) >> 32) as i64;
        self.tai_ns.wrapping_add_signed(away_ns)
    }
}

/// The current line, written by the control core and read by workers without a lock: a sequence lock.
#[derive(Debug, Default)]
pub struct SharedLine {
    /// Odd during a write; 0 before the first.
    sequence: AtomicU64,
    ticks: AtomicU64,
    tai_ns: AtomicU64,
    ns_per_tick_q32: AtomicU64,
    steps: AtomicU64,
}

impl SharedLine {
    /// Counts a step of the clock: times before the next line and after it cannot be compared. Only for the
    /// writer.
    pub fn count_step(&self) {
        self.steps
            .store(self.steps.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Steps so far. A reader that has seen the line after a step sees the step here, too.
    #[inline]
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::Acquire)
    }

    /// Sets the line. Only for the writer.
    pub fn set(&self, line: TaiLine) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence.store(sequence + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.ticks.store(line.ticks.0, Ordering::Relaxed);
        self.tai_ns.store(line.tai_ns, Ordering::Relaxed);
        self.ns_per_tick_q32
            .store(line.ns_per_tick_q32, Ordering::Relaxed);
        self.sequence.store(sequence + 2, Ordering::Release);
    }

    /// Updates `known`, a line and its version (0 at first), if there is a newer one; does nothing during a
    /// write.
    #[inline]
    pub fn renew(&self, known: &mut (u64, TaiLine)) {
        let before = self.sequence.load(Ordering::Acquire);
        if before == known.0 || before % 2 == 1 {
            return;
        }
        let line = TaiLine {
            ticks: Ticks(self.ticks.load(Ordering::Relaxed)),
            tai_ns: self.tai_ns.load(Ordering::Relaxed),
            ns_per_tick_q32: self.ns_per_tick_q32.load(Ordering::Relaxed),
        };
        fence(Ordering::Acquire);
        if self.sequence.load(Ordering::Relaxed) == before {
            *known = (before, line);
        }
    }
}
