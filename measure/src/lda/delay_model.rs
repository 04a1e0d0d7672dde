//! What share of packets stays under a delay, from mean and deviation alone. A model.
//!
//! Kompella et al. 2012, section II-A: the standard deviation "allows the calculation of confidence
//! bounds on individual packet delays", so as to say that 98 % of packets do not exceed some delay.
//! Mean and deviation do not tell a quantile: this supposes that delays follow a Weibull
//! distribution, which queueing delays resemble, from light (shape over 1) to heavy tails (shape
//! under 1). Wherever a number of this module is shown, it is to be marked as a model and not as a
//! measurement; [`Histogram`](crate::histogram::Histogram) measures.

use statrs::function::gamma::ln_gamma;

/// Least shape: coefficients of variation over some 450 are no delays of one queue.
const SHAPE_MIN: f64 = 0.1;
/// Greatest shape: deviations under some 0.13 % of the mean are no spread to speak of.
const SHAPE_MAX: f64 = 1_000.0;

/// Mean and deviation to which no Weibull distribution can be fitted.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum DelayModelError {
    /// Delays of a Weibull distribution are over 0.
    #[error(
        "a mean delay of {mean_ticks} ticks has no Weibull model: it must be over 0 (are the \
         clocks of both ends in step?)"
    )]
    Mean {
        /// What was given.
        mean_ticks: f64,
    },
    /// No deviation, or one that no shape from 0.1 to 1,000 has.
    #[error(
        "a deviation of {stddev_ticks} ticks around a mean of {mean_ticks} has no Weibull model: \
         their ratio must be from 0.0013 to 429"
    )]
    Deviation {
        /// What was given.
        mean_ticks: f64,
        /// What was given.
        stddev_ticks: f64,
    },
}

/// A Weibull distribution with a given mean and deviation: P\[delay > x\] = exp(-(x / scale)^shape).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DelayModel {
    shape: f64,
    scale_ticks: f64,
}

impl DelayModel {
    /// The distribution that has this mean and deviation, as [`LdaEstimate`](super::LdaEstimate)
    /// and [`Moments`](crate::moments::Moments) give them.
    ///
    /// # Errors
    /// [`DelayModelError`] where there is none.
    pub fn fit(mean_ticks: f64, stddev_ticks: f64) -> Result<Self, DelayModelError> {
        if !(mean_ticks > 0.0 && mean_ticks.is_finite()) {
            return Err(DelayModelError::Mean { mean_ticks });
        }
        let ratio = stddev_ticks / mean_ticks;
        let (mut low, mut high) = (SHAPE_MIN, SHAPE_MAX);
        if !(variation(high)..=variation(low)).contains(&ratio) {
            return Err(DelayModelError::Deviation {
                mean_ticks,
                stddev_ticks,
            });
        }
        // The ratio falls as the shape rises: halve the interval, on a logarithmic scale.
        for _ in 0..60 {
            let middle = (low * high).sqrt();
            if variation(middle) > ratio {
                low = middle;
            } else {
                high = middle;
            }
        }
        let shape = (low * high).sqrt();
        let scale_ticks = mean_ticks / ln_gamma(1.0 + 1.0 / shape).exp();
        Ok(Self { shape, scale_ticks })
    }

    /// The delay in ticks that a `share` of packets (0 to 1) stays under; infinite for all of
    /// them.
    pub fn delay_under_ticks(&self, share: f64) -> f64 {
        let share = share.clamp(0.0, 1.0);
        self.scale_ticks * (-(-share).ln_1p()).powf(1.0 / self.shape)
    }

    /// The share of packets whose delay is over `delay_ticks`.
    pub fn share_over(&self, delay_ticks: f64) -> f64 {
        (-(delay_ticks.max(0.0) / self.scale_ticks).powf(self.shape)).exp()
    }

    /// Its shape: 1 is exponential, under 1 has the heavier tail.
    pub fn shape(&self) -> f64 {
        self.shape
    }
}

/// Deviation over mean of a Weibull distribution: sqrt(G(1 + 2/k) / G(1 + 1/k)^2 - 1), with G the
/// gamma function.
fn variation(shape: f64) -> f64 {
    let ln_ratio = ln_gamma(1.0 + 2.0 / shape) - 2.0 * ln_gamma(1.0 + 1.0 / shape);
    ln_ratio.exp_m1().max(0.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_distr::{Distribution, Weibull};
    use rand_pcg::Pcg64;

    #[test]
    fn equal_mean_and_deviation_are_exponential() {
        let model = DelayModel::fit(100.0, 100.0).unwrap();
        assert!((model.shape() - 1.0).abs() < 1e-9);
        assert!((model.delay_under_ticks(0.98) - 100.0 * 50_f64.ln()).abs() < 1e-6);
        assert!((model.share_over(100.0) - (-1.0_f64).exp()).abs() < 1e-9);
        assert!(model.delay_under_ticks(1.0).is_infinite());
        assert!(model.delay_under_ticks(0.0) == 0.0 && model.share_over(-1.0) >= 1.0);
    }

    #[test]
    fn quantiles_of_weibull_delays_are_those_drawn() {
        let mut rng = Pcg64::seed_from_u64(5);
        let weibull = Weibull::new(1_000.0, 0.6).unwrap();
        let mut delays: Vec<f64> = weibull.sample_iter(&mut rng).take(200_000).collect();
        let n = delays.len() as f64;
        let mean = delays.iter().sum::<f64>() / n;
        let variance = delays.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / n;
        let model = DelayModel::fit(mean, variance.sqrt()).unwrap();
        delays.sort_by(f64::total_cmp);
        for (share, rank) in [(0.5, 100_000), (0.98, 196_000), (0.999, 199_800)] {
            let (left, right) = (model.delay_under_ticks(share), delays[rank]);
            assert!(
                (left / right - 1.0).abs() < 0.05,
                "{share}: {left}, {right}"
            );
        }
    }

    #[test]
    fn what_has_no_model_is_refused() {
        for mean_ticks in [0.0, -5.0, f64::NAN, f64::INFINITY] {
            let error = DelayModel::fit(mean_ticks, 1.0).unwrap_err();
            assert!(matches!(error, DelayModelError::Mean { .. }), "{error}");
        }
        for stddev_ticks in [0.0, -1.0, 1e6, f64::NAN] {
            let error = DelayModel::fit(1.0, stddev_ticks).unwrap_err();
            assert!(
                matches!(error, DelayModelError::Deviation { .. }),
                "{error}"
            );
        }
    }

    #[test]
    fn the_limits_are_those_that_the_error_names() {
        assert!(DelayModel::fit(1.0, 0.0013).is_ok() && DelayModel::fit(1.0, 0.0012).is_err());
        assert!(DelayModel::fit(1.0, 429.0).is_ok() && DelayModel::fit(1.0, 430.0).is_err());
    }

    proptest! {
        #[test]
        fn quantile_and_share_are_inverse(
            mean in 1.0..1e9_f64,
            ratio in 0.002..50.0_f64,
            share in 0.001..0.999_f64,
        ) {
            let model = DelayModel::fit(mean, mean * ratio).unwrap();
            let over = model.share_over(model.delay_under_ticks(share));
            prop_assert!((over - (1.0 - share)).abs() < 1e-9);
            let later = model.delay_under_ticks(share + 0.0005);
            prop_assert!(later > model.delay_under_ticks(share));
        }
    }
}
