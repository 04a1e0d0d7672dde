//! What is usual for a segment: lately, and at this hour of the week.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Reports of a block.
pub(crate) const BLOCK: usize = 10;
/// Blocks whose median is what was usual lately: ten minutes of reports of a second.
const LATELY: usize = 60;
/// Milliseconds of an hour.
const HOUR_MS: u64 = 3_600_000;
const HOURS: usize = 168;
/// 1970 began on a Thursday; weeks here begin on Monday.
const MONDAY_HOURS: u64 = 72;
/// Weeks until an hour of the week counts.
const WEEKS_MIN: u16 = 2;

/// An hour of the week.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Hour {
    /// What was usual then in the weeks before.
    usual: f32,
    /// Mean of this week's blocks so far.
    mean: f32,
    blocks: u16,
    weeks: u16,
    /// The week that `mean` is of.
    week: u16,
}

/// What is usual.
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

/// As bytes only the hours that are known, each with its number.
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

/// The middle value; of none 0.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

impl Baseline {
    /// Adds a value; whether a block is over.
    pub(crate) fn add(&mut self, value: f64, time_ms: u64) -> bool {
        self.block.push(value);
        if self.block.len() < BLOCK {
            return false;
        }
        let of_block = median(&mut self.block);
        self.block.clear();
        #[expect(clippy::cast_possible_truncation, reason = "seven digits are enough")]
        let of_block = of_block as f32;
        // The newest block waits: a rise must not hide itself.
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

    /// What is usual at this time; `None` before the first block is over. A rise must exceed both what was usual lately and,
    /// once two weeks are known, what was usual at this hour of the week.
    pub(crate) fn usual(&self, time_ms: u64) -> Option<f64> {
        let (at, week) = hour(time_ms);
        let hour = &self.hours[at];
        // Weeks that are over: the present one is folded in when the next begins.
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

    /// From now on what was lately does not count.
    pub(crate) fn restart(&mut self, at: f64) {
        self.block.clear();
        self.lately.clear();
        self.usual = Some(at);
    }
}

#[cfg(test)]
mod tests {
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
        baseline.restart(5.0);
        assert_eq!(baseline.usual(0), Some(5.0));
    }

    /// A job each Monday at midnight: known from the third week on.
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
            // It is of that hour only.
            assert_eq!(baseline.usual(monday(week) + 2 * HOUR_MS), Some(1.0));
        }
    }
}
