//! How the rate of bursts wanders over milliseconds.
//!
//! The rate is its mean times `(1 - s) + s exp(0.7 x - 0.245)`, where x is an Ornstein-Uhlenbeck
//! process of unit variance and a time constant of 5 ms. The exponential has mean 1, since
//! `0.7^2 / 2 = 0.245`. The path is drawn in steps of 10 us and scaled to a mean of exactly 1:
//! in two seconds chance alone would move the load by a percent, at 93 % a different queue.

use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64;

/// Time constant of the process.
const TIME_CONSTANT_PS: f64 = 5e9;
/// Deviation of the logarithm.
const LOG_DEVIATION: f64 = 0.7;
/// Length of a step.
const STEP_PS: u64 = 10_000_000;
/// The most steps of a path; a longer run has longer ones.
const STEPS_MAX: u64 = 10_000_000;

/// A path of factors on a rate, constant over each step.
#[derive(Debug, Clone)]
pub struct Modulation {
    factors: Vec<f64>,
    step_ps: u64,
    duration_ps: u64,
}

/// A stretch of time over which the rate is constant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    pub start_ps: u64,
    pub end_ps: u64,
    /// What the mean rate is to be multiplied with.
    pub factor: f64,
}

impl Modulation {
    /// Draws a path of the given length; `strength` (s) 0 is a constant rate, 1 the most.
    pub fn draw(strength: f64, duration_ps: u64, rng: &mut Pcg64) -> Self {
        let strength = strength.clamp(0.0, 1.0);
        let step_ps = STEP_PS.max(duration_ps.div_ceil(STEPS_MAX));
        let persistence = (-(step_ps as f64) / TIME_CONSTANT_PS).exp();
        let innovation = (1.0 - persistence * persistence).sqrt();
        let mut state: f64 = StandardNormal.sample(rng);
        let mut factors: Vec<f64> = (0..duration_ps.div_ceil(step_ps))
            .map(|_| {
                let noise: f64 = StandardNormal.sample(rng);
                state = persistence * state + innovation * noise;
                let wander = (LOG_DEVIATION * state - LOG_DEVIATION * LOG_DEVIATION / 2.0).exp();
                (1.0 - strength) + strength * wander
            })
            .collect();
        let mean = factors.iter().sum::<f64>() / factors.len().max(1) as f64;
        for factor in &mut factors {
            *factor /= mean;
        }
        Self {
            factors,
            step_ps,
            duration_ps,
        }
    }

    /// The steps in order of time.
    pub fn steps(&self) -> impl Iterator<Item = Step> + '_ {
        self.factors.iter().zip(0_u64..).map(|(&factor, number)| {
            let start_ps = number * self.step_ps;
            Step {
                start_ps,
                end_ps: (start_ps + self.step_ps).min(self.duration_ps),
                factor,
            }
        })
    }
}
