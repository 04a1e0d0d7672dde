//! Quantiles of one flow's delays, from the estimates of its packets.

use super::receiver::Estimate;
use crate::histogram::SmallHistogram;

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

    /// Intervals between references that hold them.
    pub fn intervals(&self) -> u32 {
        self.intervals
    }

    /// The delays in nanoseconds that shares of the packets (0 to 1) did not exceed, if their mean is `mean_ns`;
    /// they rise with their shares. To an eighth what the estimates, so multiplied, say.
    ///
    /// `None` where its packets lie in fewer intervals than [`Self::INTERVALS_MIN`], and where no factor gives this mean.
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
