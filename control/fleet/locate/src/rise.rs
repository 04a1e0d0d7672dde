//! Detects rises of a segment's mean delay, and of its share of lost packets.
//!
//! For delay, the lower quartile over the last 2, 3, 12 and 48 intervals (over 2 and 3, the minimum) of the mean, at
//! the lower end of its bound, is compared with the usual value. A rise is a value that exceeds the level of its own
//! tail, so that neither a single interval nor a burst like earlier ones is a rise. Short windows find large rises at
//! once, long windows find small, lasting ones.
//!
//! For loss, the quarter of the intervals with the most losses (one of 2 and of 3) is left out, because losses come in
//! bursts. For the others two things must hold: if each packet were lost independently at the usual rate, so many
//! losses would be as improbable as a false alarm (Chernoff's bound of the binomial); and their share exceeds the level
//! of its own tail, which includes past bursts.

use std::collections::VecDeque;

use records::float;
use serde::{Deserialize, Serialize};

use crate::history::{BLOCK, Baseline, Tails, WINDOWS};

/// Number of values that are kept.
const RECENT: usize = 128;
/// Number of blocks until a level is trusted: two minutes with a report each second.
const BLOCKS_MIN: u32 = 12;
/// Smallest rise that counts, as a fraction of the usual value.
const RISE_MIN: f64 = 0.02;
/// Allowance for what a short history does not exclude: bursts of several seconds once an hour. In the first hour a
/// rise must exceed five times the usual value; the factor then falls with the length of the history, to a sixth above
/// usual after a day.
const UNSEEN: f64 = 4.0;
/// Blocks in an hour with a report each second.
const HOUR_BLOCKS: f64 = 360.0;
/// A longer window's level is at least this fraction of the next shorter window's: if short bursts are high, longer
/// bursts are rare rather than impossible.
const LONGER: f64 = 0.25;
/// A rise that ends within this number of intervals was a burst: its height is remembered, so that recurring bursts
/// become usual. Longer rises are reported each time.
const BURST_MAX: u32 = 10;
/// A rise that lasts this number of intervals becomes usual: an hour with a report each second.
const ACCEPTED_AFTER: u32 = 3_600;
/// Delays below a nanosecond, and negative delays due to differing clocks, count as one nanosecond.
const DELAY_MIN_NS: f64 = 1.0;

/// The mean of an interval.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Value {
    time_ms: u64,
    /// The mean and its lower bound, in nanoseconds.
    mean: f32,
    low: f32,
}

/// An ongoing rise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Raised {
    /// Estimated beginning.
    pub(crate) since_ms: u64,
    /// The usual value: nanoseconds, or a share of packets.
    pub(crate) usual: f64,
    /// The rise ends below this value.
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

/// Returns the smallest rise for the length of the history; `of_hour` is that for the first hour.
fn unseen(of_hour: f64, blocks: u32) -> f64 {
    of_hour * (HOUR_BLOCKS / f64::from(blocks.max(1))).min(1.0)
}

impl Delay {
    pub(crate) const fn raised(&self) -> Option<&Raised> {
        self.raised.as_ref()
    }

    /// Returns the usual delay, in nanoseconds.
    pub(crate) fn usual_ns(&self, time_ms: u64) -> Option<f64> {
        let raised = self.raised.map(|raised| raised.usual);
        raised.or_else(|| self.baseline.usual(time_ms))
    }

    /// Returns whether the history is long enough to find a rise.
    pub(crate) const fn is_ready(&self) -> bool {
        self.tails.blocks() >= BLOCKS_MIN
    }

    /// Adds an interval with packets. `nats` is the negative logarithm of the probability of a false alarm for each
    /// interval and window.
    pub(crate) fn add(&mut self, time_ms: u64, mean_ns: f64, bound_ns: f64, nats: f64) {
        let value = Value {
            time_ms,
            mean: float(mean_ns.max(DELAY_MIN_NS)),
            low: float(mean_ns - bound_ns),
        };
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(value);
        if let Some(raised) = self.raised {
            return self.go_on(raised);
        }
        let usual = self.baseline.usual(time_ms);
        self.raised = usual.and_then(|usual| self.compare(usual, nats));
        if self.raised.is_none() && self.baseline.add(f64::from(value.mean), time_ms) {
            self.tails.end_block();
        }
    }

    /// Makes the values since `since_ms` usual.
    pub(crate) fn restart(&mut self, since_ms: u64) {
        self.recent.retain(|value| value.time_ms >= since_ms);
        self.settle();
    }

    /// Makes the present value usual.
    fn settle(&mut self) {
        self.raised = None;
        let recent = self.recent.iter();
        self.baseline
            .restart(recent.map(|value| f64::from(value.mean)));
    }

    /// Returns the lower quartile of the last `window` values; `None` if there are fewer.
    fn quartile(&self, window: usize) -> Option<f64> {
        let first = self.recent.len().checked_sub(window)?;
        let mut lows: Vec<_> = self.recent.range(first..).map(|value| value.low).collect();
        let (_, quartile, _) = lows.select_nth_unstable_by((window - 1) / 4, f32::total_cmp);
        Some(f64::from(*quartile))
    }

    fn compare(&mut self, usual: f64, nats: f64) -> Option<Raised> {
        let of_block = nats - (BLOCK as f64).ln();
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
                self.tails.begin_rise();
                return Some(Raised {
                    since_ms: self.since(usual, rise * usual),
                    usual,
                    end: usual * (1.0 + rise.min(level) / 2.0),
                    intervals: 0,
                });
            }
            self.tails.note(at, rise);
        }
        None
    }

    fn since(&self, usual: f64, rise: f64) -> u64 {
        since(self.recent.iter().map(|value| {
            let excess = f64::from(value.mean) - usual - rise / 2.0;
            (value.time_ms, excess, rise)
        }))
    }

    fn go_on(&mut self, mut raised: Raised) {
        let last = self.recent.range(self.recent.len().saturating_sub(3)..);
        let highest = last.fold(f64::NEG_INFINITY, |most, value| {
            most.max(f64::from(value.mean))
        });
        raised.intervals = raised.intervals.saturating_add(1);
        self.raised = Some(raised);
        for (at, window) in WINDOWS.into_iter().enumerate() {
            if let Some(quartile) = self.quartile(window) {
                self.tails.note(at, quartile / raised.usual - 1.0);
            }
        }
        if highest < raised.end {
            self.raised = None;
            // The long windows must not find it again.
            self.recent.clear();
            self.tails.end_rise(raised.intervals < BURST_MAX);
        } else if raised.intervals >= ACCEPTED_AFTER {
            self.settle();
        }
    }
}

/// Estimates the beginning of a rise: the point where the sum of the excesses over half of the rise, counted back from
/// now, is greatest. Each value is an interval's time, its excess, and the limit to which the excess counts.
fn since(values: impl DoubleEndedIterator<Item = (u64, f64, f64)>) -> u64 {
    let (mut sum, mut greatest, mut since) = (0.0, f64::NEG_INFINITY, 0);
    for (time_ms, excess, most) in values.rev() {
        // `clamp` panics if a stored figure is not a number.
        sum += excess.max(-most).min(most);
        if sum > greatest {
            (greatest, since) = (sum, time_ms);
        }
    }
    since
}

/// Number of intervals whose losses are kept.
const RECENT_LOSSES: usize = 64;
/// Smallest rise that counts, as a share of packets.
const LOSS_RISE_MIN: f64 = 1e-4;
/// The same for the first hour; it then falls, like that of delays.
const UNSEEN_LOSS_RISE: f64 = 5e-3;
/// Number of packets after which a loss counts half.
const MEMORY_PACKETS: f64 = 1e8;
/// Losses added to those observed in the usual rate: a history without losses does not exclude them.
const UNSEEN_LOSSES: f64 = 3.0;

/// Share of lost packets that is a rise even without a history, in each of several intervals.
const OUTAGE_SHARE: f64 = 0.9;
/// Smallest number of packets in these intervals.
const OUTAGE_PACKETS: f64 = 100.0;
/// Shortest time from the first of these intervals to the last, unless every kept interval is one of them.
const OUTAGE_MS: u64 = 10_000;

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Losses {
    time_ms: u64,
    sent: f64,
    lost: f64,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Loss {
    recent: VecDeque<Losses>,
    /// Totals of the intervals older than the longest window.
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

    /// Returns the usual share.
    pub(crate) fn usual(&self) -> f64 {
        match self.raised {
            Some(raised) => raised.usual,
            None => self.lost / self.sent.max(1.0),
        }
    }

    /// Adds an interval in which packets entered.
    pub(crate) fn add(&mut self, time_ms: u64, sent: u64, lost: u64, nats: f64, of_device: bool) {
        let (sent, lost) = (sent as f64, lost.min(sent) as f64);
        self.recent.push_back(Losses {
            time_ms,
            sent,
            lost,
        });
        let oldest = (self.recent.len() > RECENT_LOSSES)
            .then(|| self.recent.pop_front())
            .flatten();
        if let Some(raised) = self.raised {
            return self.go_on(raised);
        }
        if let Some(oldest) = oldest {
            if self.sent > MEMORY_PACKETS {
                (self.sent, self.lost) = (self.sent / 2.0, self.lost / 2.0);
            }
            self.sent += oldest.sent;
            self.lost += oldest.lost;
        }
        self.raised = self.compare(nats).or_else(|| self.outage(of_device));
        if self.raised.is_some() {
            self.in_block = 0;
            return;
        }
        self.in_block = self.in_block.saturating_add(1);
        if self.in_block >= BLOCK {
            self.in_block = 0;
            self.tails.end_block();
        }
    }

    /// Returns packets and losses of the last intervals without the quarter that has the most losses.
    fn trimmed(&self, window: usize) -> Option<(f64, f64)> {
        let first = self.recent.len().checked_sub(window)?;
        let mut values: Vec<_> = self.recent.range(first..).copied().collect();
        values.sort_unstable_by(|one, other| one.lost.total_cmp(&other.lost));
        values.truncate(window - window.div_ceil(4));
        let sum = |of: fn(&Losses) -> f64| values.iter().map(of).sum::<f64>();
        Some((sum(|value| value.sent), sum(|value| value.lost)))
    }

    /// Returns whether the history is long enough to know the usual share.
    fn is_ready(&self) -> bool {
        self.tails.blocks() >= BLOCKS_MIN && self.sent > 0.0
    }

    /// Detects the loss of nearly all packets before there is a history. A segment that has never delivered a packet has no
    /// outage: its other end may not have been set up yet. One through a device has none either unless most packets were
    /// delivered before (see `Report::is_through_device`).
    fn outage(&mut self, of_device: bool) -> Option<Raised> {
        let is_lost = |value: &&Losses| value.lost >= OUTAGE_SHARE * value.sent;
        let run = self.recent.iter().rev().take_while(is_lost).count();
        let first = self.recent.len() - run;
        let (sent, lost) = self.sums(first);
        let since_ms = self.recent.get(first)?.time_ms;
        let lasted_ms = self.recent.back()?.time_ms.saturating_sub(since_ms);
        let is_long = lasted_ms >= OUTAGE_MS || run == RECENT_LOSSES;
        let (all_sent, all_lost) = self.sums(0);
        let (all_sent, all_lost) = (self.sent + all_sent, self.lost + all_lost);
        let has_delivered = if of_device {
            all_lost - lost < (all_sent - sent) / 2.0
        } else {
            all_lost < all_sent
        };
        (is_long && has_delivered && sent >= OUTAGE_PACKETS && !self.is_ready()).then(|| {
            self.tails.begin_rise();
            Raised {
                since_ms,
                usual: 0.0,
                end: lost / sent / 4.0,
                intervals: 0,
            }
        })
    }

    fn compare(&mut self, nats: f64) -> Option<Raised> {
        let usual = self.lost / self.sent.max(1.0);
        let possible = (self.lost + UNSEEN_LOSSES) / self.sent.max(1.0);
        let of_block = nats - (BLOCK as f64).ln();
        for (at, window) in WINDOWS.into_iter().enumerate() {
            let Some((sent, lost)) = self.trimmed(window) else {
                break;
            };
            let rise = lost / sent.max(1.0) - usual;
            let level = self.tails.level(at, of_block).max(LOSS_RISE_MIN);
            let level = level.max(unseen(UNSEEN_LOSS_RISE, self.tails.blocks()));
            let is_trusted = self.is_ready();
            let is_improbable = nats_of(lost, possible * sent) > nats;
            if is_trusted && is_improbable && rise > level {
                self.tails.begin_rise();
                return Some(Raised {
                    since_ms: self.since(usual, lost / sent),
                    usual,
                    end: usual + rise / 4.0,
                    intervals: 0,
                });
            }
            self.tails.note(at, rise);
        }
        None
    }

    /// Estimates the beginning by the losses beyond half of the rise, counted in packets.
    fn since(&self, usual: f64, now: f64) -> u64 {
        let middle = f64::midpoint(usual, now);
        since(self.recent.iter().map(|value| {
            let half = middle * value.sent;
            (value.time_ms, value.lost - half, half)
        }))
    }

    /// Continues a rise. It ends only when the last twelve intervals together are below its end, because rare losses
    /// leave gaps.
    fn go_on(&mut self, mut raised: Raised) {
        raised.intervals = raised.intervals.saturating_add(1);
        self.raised = Some(raised);
        for (at, window) in WINDOWS.into_iter().enumerate() {
            if let Some((sent, lost)) = self.trimmed(window) {
                self.tails.note(at, lost / sent.max(1.0) - raised.usual);
            }
        }
        let window = u32::try_from(WINDOWS[2]).unwrap_or(u32::MAX);
        let window = window.min(raised.intervals) as usize;
        let (sent, lost) = self.sums(self.recent.len().saturating_sub(window));
        if window >= 3 && lost / sent.max(1.0) < raised.end {
            self.raised = None;
            self.recent.clear();
            self.tails.end_rise(raised.intervals < BURST_MAX);
        } else if raised.intervals >= ACCEPTED_AFTER {
            self.raised = None;
            self.tails.end_rise(false);
            (self.sent, self.lost) = self.sums(0);
        }
    }

    /// Returns packets and losses of the intervals from `first` on.
    fn sums(&self, first: usize) -> (f64, f64) {
        let recent = self.recent.range(first..);
        recent.fold((0.0, 0.0), |(sent, lost), value| {
            (sent + value.sent, lost + value.lost)
        })
    }
}

/// Returns the negative logarithm of a bound on the probability of at least `found` where `expected` are expected
/// (Chernoff's bound of the Poisson distribution, which is above the binomial's).
fn nats_of(found: f64, expected: f64) -> f64 {
    if found <= expected {
        return 0.0;
    }
    found * (found / expected.max(f64::MIN_POSITIVE)).ln() - found + expected
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    #[test]
    fn the_bound_is_a_bound() {
        // P(X >= 5) for a Poisson X with mean 1 is 0.00366.
        let nats = nats_of(5.0, 1.0);
        assert!((-nats).exp() > 0.003_66 && (-nats).exp() < 0.02, "{nats}");
        assert!(nats_of(1.0, 2.0) < 1e-12 && nats_of(0.0, 0.0) < 1e-12);
    }

    #[test]
    fn a_single_interval_with_losses_is_no_rise() {
        let mut detector = Loss::default();
        for second in 0..1_000 {
            let lost = if second == 900 { 500 } else { 0 };
            detector.add(second * 1_000, 1_000, lost, 23.0, false);
            assert_eq!(detector.raised(), None, "{second}");
        }
        for second in 1_000..1_004 {
            detector.add(second * 1_000, 1_000, 10, 23.0, false);
            let since_ms = detector.raised().map(|raised| raised.since_ms);
            assert_eq!(since_ms, (second >= 1_002).then_some(1_000_000), "{second}");
        }
        assert!(detector.usual() < 1e-3);
    }

    #[test]
    fn an_outage_needs_no_history_but_ten_seconds() {
        // Of 50 packets a second, `lost` are lost in these seconds, and none in others.
        let found_in = |lost: u64, of_device: bool, lost_in: Range<u64>| {
            let mut detector = Loss::default();
            let seconds = (0..60).filter(|second| {
                let lost = if lost_in.contains(second) { lost } else { 0 };
                detector.add(second * 1_000, 50, lost, 23.0, of_device);
                detector.raised().is_some()
            });
            (seconds.collect::<Vec<_>>(), detector.is_ready())
        };
        let found = |lost, of_seconds| found_in(lost, false, 0..of_seconds);
        let (raised, is_ready) = found(49, 30);
        // The rise ends once less than a quarter of the packets of the last twelve seconds are lost.
        assert_eq!((raised[0], raised.len()), (10, 29), "{raised:?}");
        assert!(!is_ready);
        assert!(found(49, 10).0.is_empty());
        assert!(found(44, 60).0.is_empty());
        // All are lost from the first one on.
        assert!(found(50, 60).0.is_empty());
        // A device may drop nearly all packets on purpose, but not from one moment to the next.
        assert!(found_in(49, true, 0..60).0.is_empty());
        assert_eq!(found_in(49, true, 1..60).0[0], 11);
    }
}
