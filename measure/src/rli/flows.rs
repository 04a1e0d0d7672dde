//! Figures kept for each flow (Lee et al. 2010, section 3.3): its mean with a bound, and quantiles of its delays,
//! from the estimates of its packets.

use super::config::Method;
use super::receiver::Estimate;
use crate::histogram::SmallHistogram;

/// The contribution of one more packet to the errors of a flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AddedError {
    /// To the sum of squared errors over intervals.
    pub(crate) squared_ns2: f64,
    /// To the sum of the squares of these.
    pub(crate) square_ns4: f64,
}

impl Estimate {
    /// The contribution of a packet to a flow that had this many in the interval.
    ///
    /// The sum over n of the interval's packets can be off by n, for an error of 1 each, or by n (1 - n / N)
    /// if the errors of all N add up to 0.
    #[inline]
    pub(crate) fn error_of_another(&self, packets: u32) -> AddedError {
        let off = |packets: f64| {
            let packets = packets * (1.0 - packets * self.share_of_sum);
            packets * packets * self.squared_error_ns2
        };
        let packets = f64::from(packets);
        let (before, now) = (off(packets), off(packets + 1.0));
        AddedError {
            squared_ns2: now - before,
            square_ns4: now * now - before * before,
        }
    }
}

/// The estimated delays of one flow's packets: 48 bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FlowDelay {
    /// c(f), eq. 2.
    packets: u64,
    /// m(f), eq. 3, in nanoseconds.
    sum_ns: f64,
    /// v(f), eq. 4, in nanoseconds squared.
    sum_of_squares_ns2: f64,
    /// Sum over intervals of (the flow's packets in it)^2, less the reduction by the interval's exact sum,
    /// times the interval's squared error.
    weighted_error_ns2: f64,
    /// Sum over intervals of the squared contribution of each.
    squared_errors_ns4: f64,
    /// The interval of the latest packet, and the flow's number of packets in it.
    interval: u32,
    interval_packets: u32,
}

impl FlowDelay {
    /// From sums accumulated elsewhere: packets, delays and their squares, squared errors and their squares.
    pub(crate) fn from_sums(
        packets: u64,
        [sum_ns, sum_of_squares_ns2]: [f64; 2],
        [weighted_error_ns2, squared_errors_ns4]: [f64; 2],
    ) -> Self {
        Self {
            packets,
            sum_ns,
            sum_of_squares_ns2,
            weighted_error_ns2,
            squared_errors_ns4,
            ..Self::default()
        }
    }

    /// Adds the estimate for one of its packets.
    #[inline]
    pub fn add(&mut self, estimate: &Estimate) {
        self.packets = self.packets.wrapping_add(1);
        self.sum_ns += estimate.delay_ns;
        self.sum_of_squares_ns2 += estimate.delay_ns * estimate.delay_ns;
        if self.interval != estimate.interval {
            self.interval = estimate.interval;
            self.interval_packets = 0;
        }
        let added = estimate.error_of_another(self.interval_packets);
        self.weighted_error_ns2 += added.squared_ns2;
        self.squared_errors_ns4 += added.square_ns4;
        self.interval_packets = self.interval_packets.saturating_add(1);
    }

    /// Packets that have an estimate.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Sum of their delays in nanoseconds.
    pub fn sum_ns(&self) -> f64 {
        self.sum_ns
    }

    /// Sum of their squared delays in nanoseconds squared.
    pub fn sum_of_squares_ns2(&self) -> f64 {
        self.sum_of_squares_ns2
    }

    /// Mean delay in nanoseconds (eq. 5); `None` without packets.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.packets > 0).then(|| self.sum_ns / self.packets as f64)
    }

    /// Variance of delays in nanoseconds squared, over n; `None` without packets. (Eq. 6 as printed divides
    /// v by the squared count.)
    pub fn variance_ns2(&self) -> Option<f64> {
        let mean = self.mean_ns()?;
        Some((self.sum_of_squares_ns2 / self.packets as f64 - mean * mean).max(0.0))
    }

    /// Standard deviation of delays in nanoseconds; `None` without packets.
    pub fn stddev_ns(&self) -> Option<f64> {
        self.variance_ns2().map(f64::sqrt)
    }

    /// Twice the standard error of the mean in nanoseconds, before calibration: `2 sqrt(sum_I (n_I / n)^2 (1 -
    /// n_I / N_I)^2 e_I^2)` over the intervals I between references that contain `n_I` of the flow's packets.
    /// Valid only for packets that shared the references' queue; `None` without packets.
    ///
    /// RLI-L and RLI: `e_I` is the distance of a reference at the interval's ends from the line between its
    /// neighbours, the larger of the two; its square is at least a tenth of the usual one. RLI-S and RLI-AS,
    /// if both ends counted the same packets: `e_I^2` is the variance of the interval's estimates, plus the
    /// mean square of their distances from the line, plus three hundredths of the above; otherwise the sum of
    /// all of these. `N_I` is the number of the interval's packets if the sum of their delays is exact, and
    /// infinite otherwise.
    pub fn raw_bound_ns(&self) -> Option<f64> {
        let squared = self.weighted_error_ns2.max(0.0);
        (self.packets > 0).then(|| 2.0 * squared.sqrt() / self.packets as f64)
    }

    /// The equivalent number of intervals of equal error that the flow's packets are in, at least 1: the
    /// effective degrees of freedom (Satterthwaite 1946) of the squared bound.
    pub fn effective_intervals(&self) -> f64 {
        let intervals = self.weighted_error_ns2.powi(2) / self.squared_errors_ns4;
        if intervals.is_finite() {
            intervals.max(1.0)
        } else {
            1.0
        }
    }

    /// Half-width of the nominal 98 % interval around the mean in nanoseconds, for an estimate by `method`:
    /// the raw bound, [calibrated](Method::bound_calibration). It excludes the clocks' resolution and
    /// error, which an exporter uses as its floor.
    pub fn bound_ns(&self, method: Method) -> Option<f64> {
        let calibration = method.bound_calibration(self.effective_intervals());
        self.raw_bound_ns().map(|bound| bound * calibration)
    }

    /// Adds sums accumulated over other intervals.
    pub fn merge(&mut self, other: &Self) {
        self.packets = self.packets.wrapping_add(other.packets);
        self.sum_ns += other.sum_ns;
        self.sum_of_squares_ns2 += other.sum_of_squares_ns2;
        self.weighted_error_ns2 += other.weighted_error_ns2;
        self.squared_errors_ns4 += other.squared_errors_ns4;
    }
}

/// The distribution of one flow's estimated delays: 520 bytes.
///
/// The line between two references is smoother than the delays about it, and where a flow does not share the
/// references' queue it is another queue's: the mean is then off, and the quantiles with it. So they are all
/// multiplied by one factor that gives the mean that is known, by whatever method. `vernier-accuracy tables quantiles`
/// shows how far they are off.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FlowDistribution {
    delays: SmallHistogram,
    sum_ns: f64,
    /// Changes from one interval between references to another: how many intervals hold its packets.
    intervals: u32,
    interval: u32,
}

impl FlowDistribution {
    /// Intervals between references that must hold packets of the flow: fewer say nothing of a tail.
    pub const INTERVALS_MIN: u32 = 10;

    /// Adds the estimate for one of the flow's packets; a delay under 0 counts as 0.
    #[inline]
    pub fn add(&mut self, estimate: &Estimate) {
        let delay_ns = estimate.delay_ns.max(0.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative; the cast saturates"
        )]
        self.delays.add(delay_ns.round() as u64, 1);
        self.sum_ns += delay_ns;
        if self.interval != estimate.interval {
            self.interval = estimate.interval;
            self.intervals = self.intervals.saturating_add(1);
        }
    }

    /// Packets that have an estimate.
    pub fn packets(&self) -> u64 {
        self.delays.count()
    }

    /// Intervals between references that contain them.
    pub fn intervals(&self) -> u32 {
        self.intervals
    }

    /// The delays in nanoseconds that shares of the packets (0 to 1) did not exceed, scaled so that their mean is
    /// `mean_ns`; they rise with their shares and match the scaled estimates to an eighth.
    ///
    /// `None` if the packets are in fewer intervals than [`Self::INTERVALS_MIN`], or if no factor gives this mean.
    pub fn quantiles_ns<const N: usize>(&self, shares: [f64; N], mean_ns: f64) -> Option<[f64; N]> {
        let factor = mean_ns * self.packets() as f64 / self.sum_ns;
        if self.intervals < Self::INTERVALS_MIN || !(factor >= 0.0 && factor.is_finite()) {
            return None;
        }
        let mut quantiles = [0.0; N];
        for (quantile_ns, share) in quantiles.iter_mut().zip(shares) {
            *quantile_ns = factor * self.delays.quantile_ns(share)? as f64;
        }
        Some(quantiles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::EpochTag;
    use proptest::prelude::*;

    fn estimate(delay_ns: f64, interval: u32) -> Estimate {
        Estimate {
            epoch: EpochTag(0),
            received_ns: 0,
            delay_ns,
            squared_error_ns2: 0.0,
            share_of_sum: 0.0,
            interval,
        }
    }

    /// Each delay in an interval of its own.
    fn distribution_of(delays_ns: &[f64]) -> FlowDistribution {
        let mut distribution = FlowDistribution::default();
        for (interval, &delay_ns) in (1..).zip(delays_ns) {
            distribution.add(&estimate(delay_ns, interval));
        }
        distribution
    }

    #[test]
    fn few_intervals_say_nothing() {
        let mut distribution = FlowDistribution::default();
        let add = |distribution: &mut FlowDistribution, interval| {
            for _ in 0..50 {
                distribution.add(&estimate(1_000.0, interval));
            }
        };
        for interval in 1..FlowDistribution::INTERVALS_MIN {
            add(&mut distribution, interval);
        }
        assert_eq!(distribution.quantiles_ns([0.5], 1_000.0), None);
        add(&mut distribution, FlowDistribution::INTERVALS_MIN);
        assert_eq!(distribution.intervals(), FlowDistribution::INTERVALS_MIN);
        assert_eq!(distribution.packets(), 500);
        let [median, max] = distribution.quantiles_ns([0.5, 1.0], 2_000.0).unwrap();
        assert!((median - 2_000.0).abs() <= 250.0 && (max - 2_000.0).abs() < 1e-9);
        assert_eq!(size_of::<FlowDistribution>(), 520);
    }

    #[test]
    fn a_mean_that_no_factor_gives_is_refused() {
        let late = distribution_of(&[-5.0; 20]);
        assert_eq!(late.quantiles_ns([0.5], 5.0), None);
        let distribution = distribution_of(&[7.0; 20]);
        for mean_ns in [-1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(distribution.quantiles_ns([0.5], mean_ns), None);
        }
    }

    proptest! {
        #[test]
        fn they_are_exact_to_an_eighth_times_the_factor(
            mut delays in proptest::collection::vec(100.0..1e9_f64, 10..200), factor in 0.1..10.0_f64
        ) {
            let mean_ns = delays.iter().sum::<f64>() / delays.len() as f64;
            let distribution = distribution_of(&delays);
            let [median, tail, max] = distribution
                .quantiles_ns([0.5, 0.9, 1.0], factor * mean_ns)
                .unwrap();
            prop_assert!(median <= tail && tail <= max);
            delays.sort_by(f64::total_cmp);
            let middle = delays[delays.len().div_ceil(2) - 1];
            prop_assert!((median / factor - middle).abs() <= middle / 8.0 + 1.0);
            prop_assert!((max / factor - delays[delays.len() - 1]).abs() <= 1.0);
        }
    }
}
