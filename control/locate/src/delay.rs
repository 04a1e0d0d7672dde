//! Rises of a segment's mean delay.
//!
//! Of each of the last 2, 3, 12 and 48 intervals the lower quartile (of 2 and 3: the least) of the mean, at the lower end of
//! its bound, is compared with what is usual. A rise is what exceeds the level of its own tail: so a single interval
//! never is one, nor a burst as there were before. Short windows find large rises at once, long ones small ones that stay.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::baseline::Baseline;
use crate::tail::{Tails, WINDOWS};

/// Values that are kept.
const RECENT: usize = 128;
/// Blocks until a level is trusted: two minutes of reports of a second.
pub(crate) const BLOCKS_MIN: u32 = 12;
/// The least rise that counts, as a part of what is usual.
const RISE_MIN: f64 = 0.02;
/// What a short history does not exclude: bursts of several seconds that come once an hour. In the first hour a rise is what
/// exceeds five times the usual, then less by the length of the history: a sixth above it after a day.
const UNSEEN: f64 = 4.0;
/// Blocks of an hour of reports of a second.
const HOUR_BLOCKS: f64 = 360.0;
/// A longer window's level is at least this part of the next shorter one's: where short bursts are high, a longer one is
/// rare rather than impossible.
const LONGER: f64 = 0.25;
/// A rise that ends within so many intervals was a burst: its height is remembered like others', so that what comes again and
/// again is usual. What lasts longer is reported each time.
pub(crate) const BURST_MAX: u32 = 10;
/// A rise that stays so many intervals is usual from then on: an hour of reports of a second.
pub(crate) const ACCEPTED_AFTER: u32 = 3_600;
/// Delays below a nanosecond, and negative ones of clocks that differ, are taken for one.
const DELAY_MIN_NS: f64 = 1.0;

/// The mean of an interval.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Value {
    time_ms: u64,
    /// In nanoseconds; the mean, and its lower bound.
    mean: f32,
    low: f32,
}

/// What a detector has found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Change {
    Rose { since_ms: u64 },
    Ended,
    Accepted,
}

/// A rise that lasts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Raised {
    /// From when it is dated.
    pub(crate) since_ms: u64,
    /// What was usual: nanoseconds, or a share of packets.
    pub(crate) usual: f64,
    /// Below this it is over.
    pub(crate) end: f64,
    pub(crate) intervals: u32,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Delay {
    recent: VecDeque<Value>,
    baseline: Baseline,
    tails: Tails,
    raised: Option<Raised>,
}

/// The least rise by the length of the history, `of_hour` for the first hour.
pub(crate) fn unseen(of_hour: f64, blocks: u32) -> f64 {
    of_hour * (HOUR_BLOCKS / f64::from(blocks.max(1))).min(1.0)
}

impl Delay {
    pub(crate) const fn raised(&self) -> Option<&Raised> {
        self.raised.as_ref()
    }

    /// What is usual, in nanoseconds.
    pub(crate) fn usual_ns(&self, time_ms: u64) -> Option<f64> {
        let raised = self.raised.map(|raised| raised.usual);
        raised.or_else(|| self.baseline.usual(time_ms))
    }

    /// Whether there is history enough to find a rise.
    pub(crate) const fn is_ready(&self) -> bool {
        self.tails.blocks() >= BLOCKS_MIN
    }

    /// Adds an interval that had packets. `nats`: minus the logarithm of the probability, by interval and window, of a
    /// false alarm.
    pub(crate) fn add(
        &mut self,
        time_ms: u64,
        mean_ns: f64,
        bound_ns: f64,
        nats: f64,
    ) -> Option<Change> {
        #[expect(clippy::cast_possible_truncation, reason = "seven digits are enough")]
        let value = Value {
            time_ms,
            mean: mean_ns.max(DELAY_MIN_NS) as f32,
            low: (mean_ns - bound_ns) as f32,
        };
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(value);
        if self.raised.is_some() {
            return self.go_on(time_ms);
        }
        let usual = self.baseline.usual(time_ms);
        let change = usual.and_then(|usual| self.compare(usual, nats));
        if change.is_some() {
            return change;
        }
        let is_block_over = self.baseline.add(f64::from(value.mean), time_ms);
        if is_block_over {
            self.tails.end_block();
        }
        None
    }

    /// What came at this time is usual from now on.
    pub(crate) fn restart(&mut self, since_ms: u64) {
        self.raised = None;
        self.recent.retain(|value| value.time_ms >= since_ms);
        let mut recent: Vec<_> = self
            .recent
            .iter()
            .map(|value| f64::from(value.mean))
            .collect();
        self.baseline.restart(crate::baseline::median(&mut recent));
    }

    /// The lower quartile of the last values; `None` if there are not so many.
    fn quartile(&self, window: usize) -> Option<f64> {
        let first = self.recent.len().checked_sub(window)?;
        let mut lows: Vec<_> = self.recent.range(first..).map(|value| value.low).collect();
        let (_, quartile, _) = lows.select_nth_unstable_by((window - 1) / 4, f32::total_cmp);
        Some(f64::from(*quartile))
    }

    fn compare(&mut self, usual: f64, nats: f64) -> Option<Change> {
        let of_block = nats - (crate::baseline::BLOCK as f64).ln();
        let mut level: f64 = 0.0;
        for (at, window) in WINDOWS.into_iter().enumerate() {
            let Some(quartile) = self.quartile(window) else {
                break;
            };
            let rise = quartile / usual - 1.0;
            let unseen = unseen(UNSEEN, self.tails.blocks());
            level = self
                .tails
                .level(at, of_block)
                .max(RISE_MIN)
                .max(unseen)
                .max(LONGER * level);
            if self.tails.blocks() >= BLOCKS_MIN && rise > level {
                let since_ms = self.since(usual, rise * usual);
                self.tails.begin_rise();
                self.raised = Some(Raised {
                    since_ms,
                    usual,
                    end: usual * (1.0 + rise.min(level) / 2.0),
                    intervals: 0,
                });
                return Some(Change::Rose { since_ms });
            }
            self.tails.note(at, rise);
        }
        None
    }

    /// From when a rise is dated: where the sum of what exceeds half of it is greatest, counted back from now.
    fn since(&self, usual: f64, rise: f64) -> u64 {
        let (mut sum, mut greatest, mut since) = (0.0, f64::NEG_INFINITY, 0);
        for value in self.recent.iter().rev() {
            let excess = f64::from(value.mean) - usual - rise / 2.0;
            // `clamp` panics where a stored figure is not a number.
            let excess = excess.max(-rise).min(rise);
            sum += excess;
            if sum > greatest {
                (greatest, since) = (sum, value.time_ms);
            }
        }
        since
    }

    fn go_on(&mut self, time_ms: u64) -> Option<Change> {
        let last = self.recent.range(self.recent.len().saturating_sub(3)..);
        let highest = last.fold(f64::NEG_INFINITY, |most, value| {
            most.max(f64::from(value.mean))
        });
        let raised = self.raised.as_mut()?;
        raised.intervals = raised.intervals.saturating_add(1);
        let raised = *raised;
        for (at, window) in WINDOWS.into_iter().enumerate() {
            if let Some(quartile) = self.quartile(window) {
                self.tails.note(at, quartile / raised.usual - 1.0);
            }
        }
        if highest < raised.end {
            self.raised = None;
            // It must not be found again in the long windows.
            self.recent.clear();
            self.tails.end_rise(raised.intervals < BURST_MAX);
            return Some(Change::Ended);
        }
        if raised.intervals < ACCEPTED_AFTER {
            return None;
        }
        self.raised = None;
        let mut recent: Vec<_> = self
            .recent
            .iter()
            .map(|value| f64::from(value.mean))
            .collect();
        self.baseline.restart(crate::baseline::median(&mut recent));
        debug_assert!(self.baseline.usual(time_ms).is_some());
        Some(Change::Accepted)
    }
}
