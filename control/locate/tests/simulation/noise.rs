//! Histories by seed: noise as networks have it, and faults whose truth is exact.

use locate::Report;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp, Normal, Pareto, Poisson};
use rand_pcg::Pcg64;

/// How noisy a segment is.
#[derive(Debug, Clone, Copy)]
pub struct Noise {
    /// Usual mean, in nanoseconds.
    pub base_ns: f64,
    /// Standard deviation of the logarithm from interval to interval, and how much of the last stays (0 to 1).
    pub jitter: f64,
    pub memory: f64,
    /// Amplitude of the day's course: 0.3 is 30 % up and down.
    pub day: f64,
    /// Share of single intervals with a heavy tail: Pareto, exponent 1.5.
    pub spikes: f64,
    /// Bursts: share of intervals at which one begins, the chance that it goes on for another interval, and by how much it
    /// raises the delay on average (1: by as much as is usual), exponentially.
    pub bursts: f64,
    pub burst_goes_on: f64,
    pub burst_height: f64,
    /// Share of intervals at which half a minute without packets begins.
    pub idle: f64,
    /// Packets of an interval, on average.
    pub packets: f64,
    /// Share of packets lost, and in bursts.
    pub loss: f64,
}

pub const QUIET: Noise = Noise {
    base_ns: 50_000.0,
    jitter: 0.02,
    memory: 0.5,
    day: 0.05,
    spikes: 0.0,
    bursts: 0.0,
    burst_goes_on: 0.0,
    burst_height: 0.0,
    idle: 0.0,
    packets: 5_000.0,
    loss: 0.0,
};

pub const USUAL: Noise = Noise {
    base_ns: 200_000.0,
    jitter: 0.05,
    memory: 0.9,
    day: 0.3,
    spikes: 0.01,
    bursts: 0.003,
    burst_goes_on: 0.5,
    burst_height: 0.5,
    idle: 0.000_5,
    packets: 800.0,
    loss: 1e-4,
};

pub const BURSTY: Noise = Noise {
    burst_goes_on: 0.75,
    burst_height: 1.0,
    ..USUAL
};

pub const SPARSE: Noise = Noise {
    packets: 12.0,
    jitter: 0.2,
    ..USUAL
};

/// A history.
pub struct Source {
    noise: Noise,
    random: Pcg64,
    state: f64,
    burst: f64,
    idle: u32,
    second: u64,
}

impl Source {
    pub fn new(noise: Noise, seed: u64) -> Self {
        Self {
            noise,
            random: Pcg64::seed_from_u64(seed),
            state: 0.0,
            burst: 0.0,
            idle: 0,
            second: 1_700_000_000,
        }
    }

    /// The next second's report; `added_ns` and `lost` are a fault's.
    pub fn next(&mut self, added_ns: f64, lost: f64) -> Report {
        let Noise {
            base_ns,
            jitter,
            memory,
            ..
        } = self.noise;
        self.second += 1;
        let random = &mut self.random;
        let fresh: f64 = Normal::new(0.0, jitter * (1.0 - memory * memory).sqrt())
            .unwrap()
            .sample(random);
        self.state = memory * self.state + fresh;
        let day = (self.second % 86_400) as f64 / 86_400.0 * std::f64::consts::TAU;
        let mut mean = base_ns * (1.0 + self.noise.day * day.sin()) * self.state.exp();
        if random.random_bool(self.noise.spikes) {
            mean *= Pareto::new(1.0, 1.5).unwrap().sample(random);
        }
        let in_burst = self.burst > 0.0;
        if in_burst {
            mean *= 1.0 + self.burst;
            if !random.random_bool(self.noise.burst_goes_on) {
                self.burst = 0.0;
            }
        } else if random.random_bool(self.noise.bursts) {
            self.burst = self.noise.burst_height * Exp::<f64>::new(1.0).unwrap().sample(random);
        }
        if self.idle > 0 {
            self.idle -= 1;
        } else if random.random_bool(self.noise.idle) {
            self.idle = 30;
        }
        let expected = if self.idle > 0 {
            0.0
        } else {
            self.noise.packets
        };
        let sent = if expected > 0.0 {
            Poisson::new(expected).unwrap().sample(random)
        } else {
            0.0
        };
        let lost = (lost + self.noise.loss * if in_burst { 30.0 } else { 1.0 }).min(1.0);
        let lost = if sent * lost > 0.0 {
            Poisson::new(sent * lost).unwrap().sample(random).min(sent)
        } else {
            0.0
        };
        let packets = sent - lost;
        // Delays of packets are exponential about the least half.
        let error = mean / 2.0 / packets.max(1.0).sqrt();
        let off: f64 = Normal::new(0.0, error).unwrap().sample(random);
        Report {
            time_ms: self.second * 1_000,
            interval_ms: 1_000,
            packets: count(packets),
            mean_ns: mean + off + added_ns,
            bound_ns: Some(2.326 * error),
            deviation_ns: Some(mean / 2.0),
            p99_ns: None,
            sent: Some(count(sent)),
            lost: count(lost),
            clock_unsynchronised: false,
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "packets of a second"
)]
fn count(packets: f64) -> u64 {
    packets as u64
}
