//! Packets of one segment, through an LDA.

use measure::lda::{LdaLayout, LdaPair, eq1_half_width_ticks};
use measure::packet::PacketHash;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, Pareto, Weibull};
use rand_pcg::Pcg64;
use reporting::statistics::{error_percent, whole};

use crate::recording::{Packet, record};
use crate::trace::{self, DROPPED as LOST, EPISODE_PACKETS, Losses, moments, stored};
use crate::traffic::{Crossing, mix};

/// Mean delay in ticks: 0.2 us in picoseconds (Kompella et al. 2012, section IV-A).
const MEAN_TICKS: f64 = 200_000.0;
/// Distributions of delays; all have the same mean except the queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Delays {
    /// Of a shape, and the mean of a scale of 1: Gamma(1 + 1 / shape).
    Weibull(f64, f64),
    /// Of a shape, and the mean of a scale of 1: shape / (shape - 1).
    Pareto(f64, f64),
    /// Sojourn in an M/M/1 queue at 90 % load: neighbours wait alike.
    Queue,
}

impl Delays {
    /// The least accurate of the paper.
    pub const WEIBULL_06: Self = Self::Weibull(0.6, 1.504_575_488_251_556);
    pub const WEIBULL_08: Self = Self::Weibull(0.8, 1.133_003_096_285_365);
    pub const PARETO_3: Self = Self::Pareto(3.0, 1.5);
    pub const PARETO_5: Self = Self::Pareto(5.0, 1.25);
}

/// Delays in ticks, in the order of sending, with [`LOST`] for lost packets.
#[derive(Debug, Clone)]
pub struct Stream(Vec<u32>);

impl Stream {
    /// Draws the delays of `count` packets.
    #[expect(clippy::expect_used, reason = "shapes and scales are constants")]
    pub fn draw(delays: Delays, count: usize, seed: u64) -> Self {
        let mut rng = Pcg64::seed_from_u64(seed);
        let take = |drawn: &mut dyn Iterator<Item = f64>| {
            let drawn = drawn.take(count);
            drawn.map(|delay| stored(whole(delay) as u64)).collect()
        };
        Self(match delays {
            Delays::Weibull(shape, mean) => take(
                &mut Weibull::new(MEAN_TICKS / mean, shape)
                    .expect("a law")
                    .sample_iter(&mut rng),
            ),
            Delays::Pareto(shape, mean) => take(
                &mut Pareto::new(MEAN_TICKS / mean, shape)
                    .expect("a law")
                    .sample_iter(&mut rng),
            ),
            Delays::Queue => {
                // Lindley's recursion, of mean service / (1 - load).
                let load = 0.9;
                let service_mean = MEAN_TICKS * (1.0 - load);
                let mut backlog = 0.0_f64;
                let mut unit = || -> f64 { Exp1.sample(&mut rng) };
                take(&mut std::iter::repeat_with(|| {
                    let gap = unit() * (service_mean / load);
                    backlog = (backlog - gap).max(0.0) + unit() * service_mean;
                    backlog
                }))
            }
        })
    }

    /// Packets that a queue let through or dropped, in nanoseconds.
    pub fn of(crossings: &[Crossing]) -> Self {
        let packets = crossings.iter().map(trace::Packet::from);
        Self(
            packets
                .map(|packet| packet.delay_ns().unwrap_or(LOST))
                .collect(),
        )
    }

    /// The same packets, with some more lost.
    pub fn with(&self, losses: Losses, seed: u64) -> Passed {
        let mut rng = Pcg64::seed_from_u64(mix(seed));
        let mut delays = self.0.clone();
        let mut in_episode = false;
        for delay in &mut delays {
            let lost = match losses {
                Losses::None => false,
                Losses::Uniform(share) => rng.random_bool(share),
                Losses::Episodes(share) => {
                    let change = if in_episode {
                        1.0 / EPISODE_PACKETS
                    } else {
                        share / (1.0 - share) / EPISODE_PACKETS
                    };
                    in_episode ^= rng.random_bool(change);
                    in_episode
                }
            };
            if lost {
                *delay = LOST;
            }
        }
        Passed::of(delays, losses.share())
    }
}

/// A stream after its losses, with the truth about it.
#[derive(Debug, Clone)]
pub struct Passed {
    delays: Vec<u32>,
    /// The configured share of losses.
    pub loss: f64,
    pub received: u64,
    /// Their mean delay in ticks.
    pub mean: f64,
    /// Their delays' standard deviation in ticks.
    pub stddev: f64,
}

/// What probes met.
#[derive(Debug, Clone, Copy, Default)]
pub struct Probed {
    /// Probes that arrived.
    pub met: f64,
    sum: f64,
    squares: f64,
}

impl Probed {
    /// Their mean delay in ticks; not a number where none arrived.
    pub fn mean(&self) -> f64 {
        self.sum / self.met
    }

    /// Their standard deviation in ticks, over n - 1; not a number of fewer than two.
    pub fn stddev(&self) -> f64 {
        let scatter = self.squares - self.sum * self.mean();
        if self.met < 2.0 {
            return f64::NAN;
        }
        (scatter.max(0.0) / (self.met - 1.0)).sqrt()
    }
}

/// Errors of one LDA.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// Relative error of the mean, per cent.
    pub mean_error: f64,
    /// Relative error of the deviation, per cent.
    pub stddev_error: f64,
    /// Relative error of the paper's deviation, per cent.
    pub stddev_paper_error: f64,
    pub samples: f64,
    /// The interval holds the true mean.
    pub covered: bool,
    /// Width of the interval beside equation 1.
    pub width_ratio: f64,
}

impl Passed {
    fn of(delays: Vec<u32>, loss: f64) -> Self {
        let arrived = delays.iter().copied().filter(|&delay| delay != LOST);
        let arrived = moments(arrived);
        Self {
            delays,
            loss,
            received: arrived.count(),
            mean: arrived.mean_ticks().unwrap_or(f64::NAN),
            stddev: arrived.stddev_ticks().unwrap_or(f64::NAN),
        }
    }

    pub fn sent(&self) -> usize {
        self.delays.len()
    }

    /// Delays in ticks in the order of sending; `None`: lost.
    pub fn delays(&self) -> impl Iterator<Item = Option<u32>> + '_ {
        let delays = self.delays.iter();
        delays.map(|&delay| (delay != LOST).then_some(delay))
    }

    /// Delays of about `count` packets at random times, as Poisson probes would meet; lost ones do not count.
    pub fn probes(&self, count: f64, seed: u64) -> Probed {
        let mut rng = Pcg64::seed_from_u64(mix(!seed));
        let gap = self.delays.len() as f64 / count;
        let mut probed = Probed::default();
        let mut position = 0.0;
        loop {
            let unit: f64 = Exp1.sample(&mut rng);
            position += unit * gap;
            match self.delays.get(whole(position)) {
                Some(&LOST) => {}
                Some(&delay) => {
                    probed.sum += f64::from(delay);
                    probed.squares += f64::from(delay).powi(2);
                    probed.met += 1.0;
                }
                None => return probed,
            }
        }
    }

    /// Runs an LDA over the stream; packets' hashes come from `hash_seed`.
    pub fn lda(&self, layout: &LdaLayout, hash_seed: u64) -> Outcome {
        let mut pair = LdaPair::new(layout);
        let key = mix(hash_seed);
        let packets = (0..).zip(&self.delays).map(|(number, &delay)| {
            let delay = (delay != LOST).then_some(u64::from(delay));
            Packet::of_segment(PacketHash(mix(key ^ number)), 1_000_000 * number, delay)
        });
        record(|end, burst| pair.record(end, burst), packets);
        let estimate = pair.estimate(self.received);
        let error = |estimate: Option<f64>, truth| {
            estimate.map_or(f64::NAN, |estimate| error_percent(estimate, truth))
        };
        let half_width = estimate.ci98_half_width_ticks.unwrap_or(f64::NAN);
        let miss = estimate.mean_ticks.unwrap_or(f64::NAN) - self.mean;
        let stddev = estimate.stddev_ticks.unwrap_or(f64::NAN);
        let eq1 = eq1_half_width_ticks(stddev, estimate.effective_samples, 0.02);
        Outcome {
            mean_error: error(estimate.mean_ticks, self.mean),
            stddev_error: error(estimate.stddev_ticks, self.stddev),
            stddev_paper_error: error(estimate.stddev_paper_ticks, self.stddev),
            samples: estimate.effective_samples as f64,
            covered: miss.abs() <= half_width,
            width_ratio: half_width / eq1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::lda::Bank;

    fn layout() -> LdaLayout {
        LdaLayout::new(&[Bank {
            rows: 256,
            probability: 1.0,
        }])
        .unwrap()
    }

    #[test]
    fn delays_have_the_mean_of_the_paper() {
        for (delays, slack) in [
            (Delays::WEIBULL_06, 0.02),
            (Delays::PARETO_3, 0.02),
            (Delays::Queue, 0.1),
        ] {
            let stream = Stream::draw(delays, 200_000, 1);
            let passed = stream.with(Losses::Uniform(0.0), 0);
            assert!((passed.mean / MEAN_TICKS - 1.0).abs() < slack, "{delays:?}");
        }
    }

    #[test]
    fn both_kinds_of_loss_take_their_share() {
        let stream = Stream::draw(Delays::WEIBULL_06, 400_000, 2);
        for loss in [Losses::Uniform(0.02), Losses::Episodes(0.02)] {
            let passed = stream.with(loss, 3);
            let lost = 1.0 - passed.received as f64 / 400_000.0;
            assert!((lost - 0.02).abs() < 0.006, "{loss:?}: {lost}");
        }
    }

    #[test]
    fn without_loss_the_mean_is_exact() {
        let stream = Stream::draw(Delays::WEIBULL_06, 20_000, 4);
        let outcome = stream.with(Losses::Uniform(0.0), 0).lda(&layout(), 5);
        assert!(outcome.mean_error < 1e-9, "{outcome:?}");
        assert!(outcome.covered, "{outcome:?}");
        assert!((outcome.samples - 20_000.0).abs() < 0.5);
    }

    #[test]
    fn queued_packets_wait_alike() {
        let passed = Stream::draw(Delays::Queue, 100_000, 6).with(Losses::Uniform(0.0), 0);
        let centred: Vec<f64> = passed
            .delays
            .iter()
            .map(|&delay| f64::from(delay) - passed.mean)
            .collect();
        let lagged: f64 = centred.windows(2).map(|pair| pair[0] * pair[1]).sum();
        let correlation = lagged / 100_000.0 / passed.stddev.powi(2);
        assert!(correlation > 0.9, "{correlation}");
    }

    #[test]
    fn probes_that_meet_every_packet_know_the_mean() {
        let passed = Stream::draw(Delays::WEIBULL_06, 50_000, 7).with(Losses::Uniform(0.01), 8);
        let seen = passed.probes(50_000.0, 9).mean();
        assert!((seen / passed.mean - 1.0).abs() < 0.05, "{seen}");
    }
}
