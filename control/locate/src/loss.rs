//! Rises of the share of packets that a segment loses.
//!
//! Of each of the last 2, 3, 12 and 48 intervals the quarter with most losses is left out (one of 2 and 3), since losses come
//! in bursts. Of the others two things must hold: so many losses are as improbable as a false alarm may be if each packet
//! is lost for itself at the usual rate (Chernoff's bound of the binomial), and their share exceeds the level of its own
//! tail, which has the bursts of the past in it.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::baseline::BLOCK;
use crate::delay::{ACCEPTED_AFTER, BLOCKS_MIN, BURST_MAX, Change, Raised, unseen};
use crate::tail::{Tails, WINDOWS};

const RECENT: usize = 64;
/// The least rise that counts, as a share of packets.
const RISE_MIN: f64 = 1e-4;
/// In the first hour, then less, as of delays.
const UNSEEN_RISE: f64 = 5e-3;
/// Packets after which what was lost counts half.
const MEMORY_PACKETS: f64 = 1e8;
/// Losses that the usual rate has beyond those seen: what a history without losses does not exclude.
const UNSEEN: f64 = 3.0;

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Value {
    time_ms: u64,
    sent: f64,
    lost: f64,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Loss {
    recent: VecDeque<Value>,
    /// Of what is older than the longest window.
    sent: f64,
    lost: f64,
    tails: Tails,
    in_block: usize,
    raised: Option<Raised>,
}

impl Loss {
    pub(crate) const fn raised(&self) -> Option<&Raised> {
        self.raised.as_ref()
    }

    /// The share that is usual.
    pub(crate) fn usual(&self) -> f64 {
        match self.raised {
            Some(raised) => raised.usual,
            None => self.lost / self.sent.max(1.0),
        }
    }

    /// Adds an interval in which packets entered.
    pub(crate) fn add(&mut self, time_ms: u64, sent: u64, lost: u64, nats: f64) -> Option<Change> {
        let (sent, lost) = (sent as f64, lost.min(sent) as f64);
        self.recent.push_back(Value {
            time_ms,
            sent,
            lost,
        });
        let oldest = (self.recent.len() > RECENT)
            .then(|| self.recent.pop_front())
            .flatten();
        if self.raised.is_some() {
            return self.go_on();
        }
        if let Some(oldest) = oldest {
            if self.sent > MEMORY_PACKETS {
                (self.sent, self.lost) = (self.sent / 2.0, self.lost / 2.0);
            }
            self.sent += oldest.sent;
            self.lost += oldest.lost;
        }
        if self.compare(nats) {
            self.in_block = 0;
            return self.raised.map(|raised| Change::Rose {
                since_ms: raised.since_ms,
            });
        }
        self.in_block = self.in_block.saturating_add(1);
        if self.in_block >= BLOCK {
            self.in_block = 0;
            self.tails.end_block();
        }
        None
    }

    /// Packets and losses of the last intervals, but for the quarter with most losses.
    fn trimmed(&self, window: usize) -> Option<(f64, f64)> {
        let first = self.recent.len().checked_sub(window)?;
        let mut values: Vec<_> = self.recent.range(first..).copied().collect();
        values.sort_unstable_by(|one, other| one.lost.total_cmp(&other.lost));
        values.truncate(window - window.div_ceil(4));
        let sum = |of: fn(&Value) -> f64| values.iter().map(of).sum::<f64>();
        Some((sum(|value| value.sent), sum(|value| value.lost)))
    }

    fn compare(&mut self, nats: f64) -> bool {
        let usual = self.lost / self.sent.max(1.0);
        let possible = (self.lost + UNSEEN) / self.sent.max(1.0);
        let of_block = nats - (BLOCK as f64).ln();
        for (at, window) in WINDOWS.into_iter().enumerate() {
            let Some((sent, lost)) = self.trimmed(window) else {
                break;
            };
            let rise = lost / sent.max(1.0) - usual;
            let level = self.tails.level(at, of_block).max(RISE_MIN);
            let level = level.max(unseen(UNSEEN_RISE, self.tails.blocks()));
            let is_trusted = self.tails.blocks() >= BLOCKS_MIN && self.sent > 0.0;
            let is_improbable = nats_of(lost, possible * sent) > nats;
            if is_trusted && is_improbable && rise > level {
                let since_ms = self.since(usual, lost / sent);
                self.tails.begin_rise();
                self.raised = Some(Raised {
                    since_ms,
                    usual,
                    end: usual + rise / 4.0,
                    intervals: 0,
                });
                return true;
            }
            self.tails.note(at, rise);
        }
        false
    }

    /// As of delays, by losses beyond half of the rise, counted in packets.
    fn since(&self, usual: f64, now: f64) -> u64 {
        let middle = f64::midpoint(usual, now);
        let (mut sum, mut greatest, mut since) = (0.0, f64::NEG_INFINITY, 0);
        for value in self.recent.iter().rev() {
            let half = middle * value.sent;
            // `clamp` panics where a stored figure is not a number.
            sum += (value.lost - half).max(-half).min(half);
            if sum > greatest {
                (greatest, since) = (sum, value.time_ms);
            }
        }
        since
    }

    /// Over when the last twelve intervals together are: losses that are rare leave gaps.
    fn go_on(&mut self) -> Option<Change> {
        let raised = self.raised.as_mut()?;
        raised.intervals = raised.intervals.saturating_add(1);
        let Raised {
            intervals,
            usual,
            end,
            ..
        } = *raised;
        for (at, window) in WINDOWS.into_iter().enumerate() {
            if let Some((sent, lost)) = self.trimmed(window) {
                self.tails.note(at, lost / sent.max(1.0) - usual);
            }
        }
        let window = u32::try_from(WINDOWS[2]).unwrap_or(u32::MAX).min(intervals) as usize;
        let newest = self
            .recent
            .range(self.recent.len().saturating_sub(window)..);
        let (sent, lost) = newest.fold((0.0, 0.0), |sum, value| {
            (sum.0 + value.sent, sum.1 + value.lost)
        });
        let share = lost / sent.max(1.0);
        if window >= 3 && share < end {
            self.raised = None;
            self.recent.clear();
            self.tails.end_rise(intervals < BURST_MAX);
            return Some(Change::Ended);
        }
        if intervals < ACCEPTED_AFTER {
            return None;
        }
        self.raised = None;
        self.tails.end_rise(false);
        let sum = |of: fn(&Value) -> f64| self.recent.iter().map(of).sum::<f64>();
        (self.sent, self.lost) = (sum(|value| value.sent), sum(|value| value.lost));
        Some(Change::Accepted)
    }
}

/// Minus the logarithm of a bound of the probability of so many or more where so many are expected (Chernoff's, of the
/// Poisson, which is above the binomial's).
fn nats_of(found: f64, expected: f64) -> f64 {
    if found <= expected {
        return 0.0;
    }
    found * (found / expected.max(f64::MIN_POSITIVE)).ln() - found + expected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_is_a_bound() {
        // P(X >= 5), X of Poisson with mean 1: 0.00366.
        let nats = nats_of(5.0, 1.0);
        assert!((-nats).exp() > 0.003_66 && (-nats).exp() < 0.02, "{nats}");
        assert!(nats_of(1.0, 2.0) < 1e-12 && nats_of(0.0, 0.0) < 1e-12);
    }

    #[test]
    fn a_single_interval_with_losses_is_no_rise() {
        let mut detector = Loss::default();
        for second in 0..1_000 {
            let lost = if second == 900 { 500 } else { 0 };
            assert_eq!(
                detector.add(second * 1_000, 1_000, lost, 23.0),
                None,
                "{second}"
            );
        }
        let mut found = None;
        for second in 1_000..1_004 {
            found = found.or(detector
                .add(second * 1_000, 1_000, 10, 23.0)
                .map(|change| (second, change)));
        }
        let since_ms = 1_000_000;
        assert_eq!(found, Some((1_002, Change::Rose { since_ms })));
        assert!(detector.usual() < 1e-3);
    }
}
