//! The level that a statistic of a segment exceeds with a given, very small probability, from its own history: the
//! largest values of the past, extrapolated (peaks over a threshold; Pickands 1975, in the form of Hill, Annals of Statistics 1975).
//!
//! The tail beyond what was seen is taken for exponential, as waiting times in queues have it (Kingman, and large deviations); of a Gaussian that is on the
//! safe side. Values that follow each other depend on each other: only the largest of each block counts.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Largest block maxima that are kept.
const KEPT: usize = 33;
/// Numbers of them that a tail is fitted to: a mixture of usual noise and rare bursts has a different tail in each, and
/// the greatest level counts.
const FITTED: [usize; 4] = [4, 8, 16, 32];

/// Block maxima of one statistic.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Tail {
    /// The greatest first, with the block that they are of.
    top: Vec<(f32, u32)>,
    blocks: u32,
}

/// A value is forgotten after so many blocks: a week of ten-second blocks.
const BLOCKS_MAX: u32 = 60_480;

impl Tail {
    /// The greatest value of a block that is over.
    fn add(&mut self, greatest: f64) {
        self.blocks = self.blocks.saturating_add(1);
        let now = self.blocks;
        self.top
            .retain(|(_, block)| now.saturating_sub(*block) < BLOCKS_MAX);
        #[expect(clippy::cast_possible_truncation, reason = "seven digits are enough")]
        let greatest = greatest as f32;
        let at = self.top.partition_point(|(value, _)| *value >= greatest);
        self.top.insert(at, (greatest, now));
        self.top.truncate(KEPT);
    }

    /// What a block's maximum exceeds with a probability of `exp(-nats)`.
    fn level(&self, nats: f64) -> f64 {
        let blocks = f64::from(self.blocks.clamp(1, BLOCKS_MAX));
        let levels = FITTED.iter().filter_map(|&fitted| {
            let (threshold, _) = *self.top.get(fitted)?;
            // By the median: an event that happened once or twice does not hide the next.
            let (middle, _) = self.top[fitted / 2];
            let excess = f64::from(middle - threshold) / std::f64::consts::LN_2;
            let fitted = fitted as f64;
            // Of k values it is off by 1.5/sqrt(k): that on the safe side.
            let scale = excess * (1.0 + 1.5 / fitted.sqrt());
            Some(f64::from(threshold) + scale * (nats + (fitted / blocks).ln()))
        });
        levels.fold(0.0, f64::max)
    }
}

/// Lengths of the windows, in intervals.
pub(crate) const WINDOWS: [usize; 4] = [2, 3, 12, 48];
/// Blocks that wait before they count, so that a rise that only a long window finds does not raise its own level.
const WAITING: usize = 6;

/// The tails of a signal, one for each window.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Tails {
    by_window: [Tail; WINDOWS.len()],
    greatest: [f64; WINDOWS.len()],
    waiting: VecDeque<[f64; WINDOWS.len()]>,
}

impl Tails {
    /// A value of a window in the present block.
    pub(crate) fn note(&mut self, window: usize, value: f64) {
        self.greatest[window] = self.greatest[window].max(value);
    }

    /// The present block is over.
    pub(crate) fn end_block(&mut self) {
        self.waiting.push_back(std::mem::take(&mut self.greatest));
        if self.waiting.len() > WAITING
            && let Some(greatest) = self.waiting.pop_front()
        {
            self.add(greatest);
        }
    }

    /// A rise has begun: the blocks that may have its first part in them do not count.
    pub(crate) fn begin_rise(&mut self) {
        self.waiting.clear();
    }

    /// A rise is over; if it was a burst, its height counts.
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

    /// Blocks that the levels rest on.
    pub(crate) const fn blocks(&self) -> u32 {
        self.by_window[0].blocks
    }

    /// As [`Tail::level`], of a window.
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
