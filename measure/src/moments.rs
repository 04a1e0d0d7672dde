//! Exact moments of a delay known for each packet.

/// Count, sum, sum of squares and extremes of stamped delays in ticks, at the receiver's end.
///
/// Exact while delays are below 2^48 ticks (as stamps are) and packets below 2^32; sums wrap beyond that.
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

/// Standard deviation over n, not n - 1; `None` without packets. Only the magnitude of `sum` matters.
///
/// n times the sum of squares minus the squared sum is computed in integers, so that nothing cancels; in
/// floating point only if it exceeds 128 bits.
pub(crate) fn stddev(count: u64, sum: u128, sum_of_squares: u128) -> Option<f64> {
    if count == 0 {
        return None;
    }
    let n = count as f64;
    let squares = u128::from(count).checked_mul(sum_of_squares);
    let variance = match squares.zip(sum.checked_mul(sum)) {
        Some((squares, square)) => squares.saturating_sub(square) as f64 / n / n,
        None => (sum_of_squares as f64 / n - (sum as f64 / n).powi(2)).max(0.0),
    };
    Some(variance.sqrt())
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

    /// Standard deviation of the recorded delays (over n, not n - 1); `None` without packets.
    pub fn stddev_ticks(&self) -> Option<f64> {
        stddev(self.count, self.sum, self.sum_of_squares)
    }

    /// Records `packets` packets of equal delay in ticks, as those of a burst usually are.
    #[inline]
    pub fn add_delays(&mut self, delay: u64, packets: u64) {
        let (wide, n) = (u128::from(delay), u128::from(packets));
        self.count = self.count.wrapping_add(packets);
        self.sum = self.sum.wrapping_add(n * wide);
        self.sum_of_squares = self
            .sum_of_squares
            .wrapping_add((wide * wide).wrapping_mul(n));
        self.min = self.min.min(delay);
        self.max = self.max.max(delay);
    }

    /// Adds the moments of other packets.
    pub fn merge(&mut self, other: &Self) {
        self.count = self.count.wrapping_add(other.count);
        self.sum = self.sum.wrapping_add(other.sum);
        self.sum_of_squares = self.sum_of_squares.wrapping_add(other.sum_of_squares);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn moments_of(delays: &[u64]) -> Moments {
        let mut moments = Moments::default();
        for run in delays.chunk_by(|a, b| a == b) {
            moments.add_delays(run[0], run.len() as u64);
        }
        moments
    }

    #[test]
    fn nothing_seen_is_nothing_said() {
        let empty = moments_of(&[]);
        assert_eq!(empty, Moments::default());
        assert_eq!((empty.min_ticks(), empty.max_ticks()), (None, None));
        assert_eq!((empty.mean_ticks(), empty.stddev_ticks()), (None, None));
    }

    #[test]
    fn small_deviations_of_large_delays_do_not_cancel() {
        // An hour at 3 GHz, give or take a tick: in floating point the squares would agree.
        let hour = 3_600 * 3_000_000_000;
        let moments = moments_of(&[hour - 1, hour + 1, hour - 1, hour + 1]);
        assert_eq!(moments.stddev_ticks(), Some(1.0));
        assert_eq!(moments.mean_ticks(), Some(hour as f64));
    }

    #[test]
    fn products_over_128_bits_do_not_fail() {
        let mut moments = moments_of(&[(1 << 48) - 1, 0]);
        for _ in 0..20 {
            let twin = moments;
            moments.merge(&twin);
        }
        let half_width = 2_f64.powi(47);
        let stddev = moments.stddev_ticks().unwrap();
        assert!((stddev / half_width - 1.0).abs() < 1e-9, "{stddev}");
    }

    proptest! {
        #[test]
        fn moments_are_exact(delays in proptest::collection::vec(0_u64..1 << 40, 1..100)) {
            let moments = moments_of(&delays);
            let n = delays.len() as f64;
            let mean = delays.iter().sum::<u64>() as f64 / n;
            let variance =
                delays.iter().map(|&delay| (delay as f64 - mean).powi(2)).sum::<f64>() / n;
            prop_assert_eq!(moments.count(), delays.len() as u64);
            prop_assert_eq!(moments.sum_ticks(), delays.iter().map(|&d| u128::from(d)).sum());
            prop_assert_eq!(
                moments.sum_of_squares_ticks2(),
                delays.iter().map(|&d| u128::from(d).pow(2)).sum()
            );
            prop_assert_eq!(moments.min_ticks(), delays.iter().copied().min());
            prop_assert_eq!(moments.max_ticks(), delays.iter().copied().max());
            prop_assert_eq!(moments.mean_ticks(), Some(mean));
            let stddev = moments.stddev_ticks().unwrap();
            prop_assert!((stddev - variance.sqrt()).abs() <= 1e-9 * (1.0 + variance.sqrt()));
        }
    }
}
