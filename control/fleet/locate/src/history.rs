//! A segment's history: its usual values, and the levels that its statistics exceed with a very small probability.

use std::collections::VecDeque;

use records::float;
use serde::{Deserialize, Serialize};

/// Number of reports in a block.
pub(crate) const BLOCK: usize = 10;
/// Number of blocks whose median is the recent usual value: ten minutes with a report each second.
const LATELY: usize = 60;
/// Milliseconds in an hour.
const HOUR_MS: u64 = 3_600_000;
const HOURS: usize = 168;
/// 1970 began on a Thursday; weeks here begin on Monday.
const MONDAY_HOURS: u64 = 72;
/// Number of weeks after which an hour of the week counts.
const WEEKS_MIN: u16 = 2;

/// An hour of the week.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Hour {
    /// The usual value at this hour in earlier weeks.
    usual: f32,
    /// Mean of this week's blocks so far.
    mean: f32,
    blocks: u16,
    weeks: u16,
    /// The week that `mean` belongs to.
    week: u16,
}

/// The usual value, recently and at each hour of the week.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Baseline {
    block: Vec<f64>,
    lately: VecDeque<f32>,
    usual: Option<f64>,
    #[serde(with = "hours")]
    hours: Box<[Hour; HOURS]>,
}

impl Default for Baseline {
    fn default() -> Self {
        Self {
            block: Vec::with_capacity(BLOCK),
            lately: VecDeque::new(),
            usual: None,
            hours: Box::new([Hour::default(); HOURS]),
        }
    }
}

/// Serializes only the known hours, each with its number.
mod hours {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{HOURS, Hour};

    pub(super) fn serialize<S: Serializer>(
        hours: &[Hour; HOURS],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let known = hours.iter().enumerate();
        let known = known.filter(|(_, hour)| **hour != Hour::default());
        known.collect::<Vec<_>>().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Box<[Hour; HOURS]>, D::Error> {
        let known = Vec::<(usize, Hour)>::deserialize(deserializer)?;
        let mut hours = Box::new([Hour::default(); HOURS]);
        for (at, hour) in known {
            let place = hours.get_mut(at);
            *place.ok_or_else(|| D::Error::custom("no hour of the week"))? = hour;
        }
        Ok(hours)
    }
}

fn hour(time_ms: u64) -> (usize, u16) {
    let hours = time_ms / HOUR_MS + MONDAY_HOURS;
    let week = u16::try_from(hours / HOURS as u64 % 65_536).unwrap_or(0);
    (usize::try_from(hours % HOURS as u64).unwrap_or(0), week)
}

/// Returns the median, or 0 if there are no values.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    measure::statistics::median(values).unwrap_or(0.0)
}

impl Baseline {
    /// Adds a value. Returns whether it completes a block.
    pub(crate) fn add(&mut self, value: f64, time_ms: u64) -> bool {
        self.block.push(value);
        if self.block.len() < BLOCK {
            return false;
        }
        let of_block = median(&mut self.block);
        self.block.clear();
        let of_block = float(of_block);
        // The newest block is held back, so that a rise does not hide itself.
        if self.lately.len() == LATELY {
            self.lately.pop_front();
        }
        let mut lately: Vec<_> = self.lately.iter().map(|value| f64::from(*value)).collect();
        self.lately.push_back(of_block);
        if lately.is_empty() {
            lately.push(f64::from(of_block));
        }
        self.usual = Some(median(&mut lately));
        self.add_to_hour(of_block, time_ms);
        true
    }

    fn add_to_hour(&mut self, of_block: f32, time_ms: u64) {
        let (at, week) = hour(time_ms);
        let hour = &mut self.hours[at];
        if hour.week != week && hour.blocks > 0 {
            let share = if hour.weeks == 0 { 1.0 } else { 0.3 };
            hour.usual += share * (hour.mean - hour.usual);
            hour.weeks = hour.weeks.saturating_add(1);
            (hour.mean, hour.blocks) = (0.0, 0);
        }
        hour.week = week;
        hour.blocks = hour.blocks.saturating_add(1);
        hour.mean += (of_block - hour.mean) / f32::from(hour.blocks);
    }

    /// Returns the usual value at this time; `None` before the first block is complete. A rise must exceed both the
    /// recent value and, once two weeks are known, the value at this hour of the week.
    pub(crate) fn usual(&self, time_ms: u64) -> Option<f64> {
        let (at, week) = hour(time_ms);
        let hour = &self.hours[at];
        // Completed weeks: the present week is folded in when the next begins.
        let is_over = hour.week != week && hour.blocks > 0;
        let weeks = hour.weeks + u16::from(is_over);
        let before = match (hour.weeks, is_over) {
            (0, true) => hour.mean,
            (_, true) => hour.usual + 0.3 * (hour.mean - hour.usual),
            _ => hour.usual,
        };
        let lately = self.usual?;
        Some(if weeks < WEEKS_MIN {
            lately
        } else {
            lately.max(f64::from(before))
        })
    }

    /// Makes the median of these values usual from now on, and discards the recent blocks.
    pub(crate) fn restart(&mut self, values: impl Iterator<Item = f64>) {
        let at = median(&mut values.collect::<Vec<_>>());
        self.block.clear();
        self.lately.clear();
        self.usual = Some(at);
    }
}

/// Number of largest block maxima that are kept.
const KEPT: usize = 33;
/// Numbers of maxima to which a tail is fitted. A mixture of usual noise and rare bursts has a different tail in each,
/// and the greatest level counts.
const FITTED: [usize; 4] = [4, 8, 16, 32];

/// The level that a statistic of a segment exceeds with a given, very small probability, extrapolated from the largest
/// values in its own history (peaks over a threshold; Pickands 1975, in the form of Hill, Annals of Statistics 1975).
///
/// The tail beyond the largest value is assumed to be exponential, like that of waiting times in queues (Kingman, and
/// large deviations); for a Gaussian this errs on the safe side. Because consecutive values are dependent, only the
/// largest value of each block counts.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Tail {
    /// Largest values in descending order, each with its block.
    top: Vec<(f32, u32)>,
    blocks: u32,
}

/// Number of blocks after which a value is forgotten: a week of ten-second blocks.
const BLOCKS_MAX: u32 = 60_480;

impl Tail {
    /// Adds the greatest value of a completed block.
    fn add(&mut self, greatest: f64) {
        self.blocks = self.blocks.saturating_add(1);
        let now = self.blocks;
        self.top
            .retain(|(_, block)| now.saturating_sub(*block) < BLOCKS_MAX);
        let greatest = float(greatest);
        let at = self.top.partition_point(|(value, _)| *value >= greatest);
        self.top.insert(at, (greatest, now));
        self.top.truncate(KEPT);
    }

    /// Returns the level that a block's maximum exceeds with a probability of `exp(-nats)`.
    fn level(&self, nats: f64) -> f64 {
        let blocks = f64::from(self.blocks.clamp(1, BLOCKS_MAX));
        let levels = FITTED.iter().filter_map(|&fitted| {
            let (threshold, _) = *self.top.get(fitted)?;
            // The median, so that an event that happened once or twice does not hide the next.
            let (middle, _) = self.top[fitted / 2];
            let excess = f64::from(middle - threshold) / std::f64::consts::LN_2;
            let fitted = fitted as f64;
            // With k values, the fit is off by 1.5/sqrt(k); add that to be on the safe side.
            let scale = excess * (1.0 + 1.5 / fitted.sqrt());
            Some(f64::from(threshold) + scale * (nats + (fitted / blocks).ln()))
        });
        levels.fold(0.0, f64::max)
    }
}

/// Lengths of the windows, in intervals.
pub(crate) const WINDOWS: [usize; 4] = [2, 3, 12, 48];
/// Number of blocks held back before they count, so that a rise that only a long window finds does not raise its own
/// level.
const WAITING: usize = 6;

/// The tails of a signal, one for each window.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Tails {
    by_window: [Tail; WINDOWS.len()],
    greatest: [f64; WINDOWS.len()],
    waiting: VecDeque<[f64; WINDOWS.len()]>,
}

impl Tails {
    /// Notes a value of a window in the present block.
    pub(crate) fn note(&mut self, window: usize, value: f64) {
        self.greatest[window] = self.greatest[window].max(value);
    }

    /// Ends the present block.
    pub(crate) fn end_block(&mut self) {
        self.waiting.push_back(std::mem::take(&mut self.greatest));
        if self.waiting.len() > WAITING
            && let Some(greatest) = self.waiting.pop_front()
        {
            self.add(greatest);
        }
    }

    /// Begins a rise. The blocks that may contain its start do not count.
    pub(crate) fn begin_rise(&mut self) {
        self.waiting.clear();
    }

    /// Ends a rise. The height of a burst counts.
    pub(crate) fn end_rise(&mut self, is_burst: bool) {
        let greatest = std::mem::take(&mut self.greatest);
        if is_burst {
            self.add(greatest);
        }
    }

    fn add(&mut self, greatest: [f64; WINDOWS.len()]) {
        for (tail, greatest) in self.by_window.iter_mut().zip(greatest) {
            tail.add(greatest);
        }
    }

    /// Number of blocks behind the levels.
    pub(crate) const fn blocks(&self) -> u32 {
        self.by_window[0].blocks
    }

    /// Returns [`Tail::level`] for a window.
    pub(crate) fn level(&self, window: usize, nats: f64) -> f64 {
        self.by_window[window].level(nats)
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    #[test]
    fn the_newest_block_waits() {
        let mut baseline = Baseline::default();
        assert_eq!(baseline.usual(0), None);
        for at in 0..BLOCK {
            assert_eq!(baseline.add(1.0, at as u64), at + 1 == BLOCK);
        }
        assert_eq!(baseline.usual(0), Some(1.0));
        for _ in 0..BLOCK {
            baseline.add(5.0, 0);
        }
        assert_eq!(baseline.usual(0), Some(1.0));
        baseline.restart([5.0].into_iter());
        assert_eq!(baseline.usual(0), Some(5.0));
    }

    /// A job each Monday at midnight is usual from the third week on.
    #[test]
    fn an_hour_of_the_week_has_its_own() {
        let mut baseline = Baseline::default();
        let monday = |week: u64| (4 + 7 * week) * 24 * HOUR_MS;
        for week in 0..3 {
            assert_eq!(
                baseline.usual(monday(week)),
                [None, Some(1.0), Some(9.0)][usize::try_from(week).unwrap()]
            );
            for (time, value) in [(monday(week), 9.0), (monday(week) + HOUR_MS, 1.0)] {
                for _ in 0..2 * LATELY * BLOCK {
                    baseline.add(value, time);
                }
            }
            // The higher value applies to that hour only.
            assert_eq!(baseline.usual(monday(week) + 2 * HOUR_MS), Some(1.0));
        }
    }

    #[test]
    fn the_level_of_an_exponential_tail_is_near_and_above_it() {
        let mut random = Pcg64::seed_from_u64(1);
        let mut tail = Tail::default();
        for _ in 0..1_000 {
            let uniform: f64 = random.random();
            tail.add(-uniform.ln());
        }
        let nats = 1e9_f64.ln();
        let level = tail.level(nats);
        assert!((nats..2.5 * nats).contains(&level), "{level}");
        assert_eq!(tail.blocks, 1_000);
        assert_eq!(tail.top.len(), KEPT);
    }

    #[test]
    fn what_is_long_ago_is_forgotten() {
        let mut tail = Tail::default();
        tail.add(100.0);
        for _ in 0..BLOCKS_MAX {
            tail.add(1.0);
        }
        assert!(tail.level(20.0) < 2.0);
    }
}
