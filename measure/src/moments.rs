//! Exact moments of a delay that is known for each packet.

use crate::sight::{End, Sight};
use crate::synopsis::{ShapeMismatch, Synopsis};

/// Count, sum, sum of squares and extremes of stamped delays in ticks, from the receiver's end.
///
/// Exact while delays stay under 2^48 ticks (as stamps do) and packets under 2^32; sums wrap
/// beyond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moments {
    count: u64,
    sum: u128,
    sum_of_squares: u128,
    /// `u64::MAX` when empty, so that merging is a plain minimum.
    min: u64,
    max: u64,
}

impl Default for Moments {
    fn default() -> Self {
        Self {
            count: 0,
            sum: 0,
            sum_of_squares: 0,
            min: u64::MAX,
            max: 0,
        }
    }
}

impl Moments {
    /// Packets.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Sum of delays in ticks.
    pub fn sum_ticks(&self) -> u128 {
        self.sum
    }

    /// Sum of squared delays in ticks squared.
    pub fn sum_of_squares_ticks2(&self) -> u128 {
        self.sum_of_squares
    }

    /// Least delay; `None` without packets.
    pub fn min_ticks(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// Greatest delay; `None` without packets.
    pub fn max_ticks(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// Mean delay; `None` without packets.
    pub fn mean_ticks(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Standard deviation of the delays seen (over n, not n - 1); `None` without packets.
    ///
    /// n times the sum of squares minus the squared sum is taken in integers, so that nothing
    /// cancels; in floating point only where 128 bits do not hold it.
    pub fn stddev_ticks(&self) -> Option<f64> {
        let count = u128::from(self.count);
        let n = self.count as f64;
        let squares = count.checked_mul(self.sum_of_squares);
        let square = self.sum.checked_mul(self.sum);
        let variance = match squares.zip(square) {
            Some((squares, square)) => squares.saturating_sub(square) as f64 / n / n,
            None => (self.sum_of_squares as f64 / n - (self.sum as f64 / n).powi(2)).max(0.0),
        };
        (self.count > 0).then(|| variance.sqrt())
    }

    fn add(&mut self, other: &Self) {
        self.count = self.count.wrapping_add(other.count);
        self.sum = self.sum.wrapping_add(other.sum);
        self.sum_of_squares = self.sum_of_squares.wrapping_add(other.sum_of_squares);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
}

impl Synopsis for Moments {
    #[inline]
    fn record(&mut self, end: End, sights: &[Sight]) {
        if end == End::Sender {
            return;
        }
        // Summed aside, in registers.
        let mut burst = Self {
            count: sights.len() as u64,
            ..Self::default()
        };
        for &Sight { delay, .. } in sights {
            let wide = u128::from(delay);
            burst.sum += wide;
            burst.sum_of_squares = burst.sum_of_squares.wrapping_add(wide * wide);
            burst.min = burst.min.min(delay);
            burst.max = burst.max.max(delay);
        }
        self.add(&burst);
    }

    fn merge(&mut self, other: &Self) -> Result<(), ShapeMismatch> {
        self.add(other);
        Ok(())
    }

    fn clear(&mut self) {
        *self = Self::default();
    }

    /// Count (u64), sum (u128), sum of squares (u128), least (u64; all ones when empty), greatest
    /// (u64).
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.count.to_le_bytes());
        out.extend_from_slice(&self.sum.to_le_bytes());
        out.extend_from_slice(&self.sum_of_squares.to_le_bytes());
        out.extend_from_slice(&self.min.to_le_bytes());
        out.extend_from_slice(&self.max.to_le_bytes());
    }
}
