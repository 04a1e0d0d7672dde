//! Packets on their way to a link, in order of time.
//!
//! Generated traffic is that of the RLI acceptance runs:
//! bursts arrive as a Poisson process whose rate wanders ([`modulation`]); a burst is a geometric
//! number of packets, [`BURST_PACKETS_MEAN`] on average, that follow one another at twice the
//! link's rate; sizes are 64, 576 and 1500 bytes. Each packet belongs to the measured traffic
//! with a given probability, else to cross traffic that shares the link and nothing else. Which
//! flow a measured packet belongs to is drawn apart ([`flow_of_each`]).
//!
//! A capture ([`Capture`]) brings its own times, sizes and flows.
//!
//! Times are whole picoseconds: a byte at 10 Gb/s lasts 800 of them, so that the sums of a
//! simulation are exact.

use anyhow::Result;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, Geometric, LogNormal, StandardNormal};
use rand_pcg::Pcg64;
use reporting::statistics::{mean, whole};

use crate::capture::Capture;
use crate::experiment::Setting;

pub const PS_PER_S: u64 = 1_000_000_000_000;
pub const PS_PER_NS: u64 = 1_000;

/// Packets of a burst, on average.
pub const BURST_PACKETS_MEAN: f64 = 10.0;
/// How many times faster than the link a burst arrives.
const BURST_SPEED_UP: u64 = 2;
/// The mean of all sizes of packets.
const BYTES_MEAN: f64 = 740.8;
/// The most packets that are drawn: a bound on memory, 40 bytes each.
const PACKETS_MAX: usize = 50_000_000;
/// The rate of the link in all experiments on a queue.
pub const CAPACITY_BPS: u64 = 10_000_000_000;
/// The share of packets (of a capture: of flows) that is measured.
pub const REGULAR_SHARE: f64 = 0.33;
/// Time constant of the process.
const TIME_CONSTANT_PS: f64 = 5e9;
/// Deviation of the logarithm.
const LOG_DEVIATION: f64 = 0.7;
/// Length of a step.
const STEP_PS: u64 = 10_000_000;
/// The most steps of a path; a longer run has longer ones.
const STEPS_MAX: u64 = 10_000_000;
/// Shape of the number of packets of a flow.
const FLOW_SHAPE: f64 = 0.84;
/// The most packets of a flow.
const FLOW_PACKETS_MAX: f64 = 1e5;
/// How long a flow of one packet would last, but for its spread.
const FLOW_PS: f64 = 50e9;
/// Deviation of the logarithm of its duration.
const FLOW_PS_SPREAD: f64 = 1.2;
/// Packets of a train, on average.
const TRAIN_PACKETS_MEAN: f64 = 4.0;
/// The longest part of the run that a flow lasts.
const FLOW_SHARE_MAX: f64 = 0.98;

/// What a packet is to RLI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Measured: it belongs to a flow.
    Regular,
    /// It shares the link but enters elsewhere: the sender's end does not see it.
    Cross,
    /// Injected by RLI.
    Reference,
}

/// A packet that reaches a link; behind it, with exact truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crossing {
    /// Its flow, 0 up to the number of flows; 0 where it belongs to none.
    pub flow: u32,
    /// Bytes on the wire, without preamble and gap.
    pub bytes: u32,
    pub kind: Kind,
    /// Which of the link's queues it joins, 0 first.
    pub class: u8,
    /// When it arrived at the queue, in picoseconds.
    pub sent_ps: u64,
    /// When it had left the link; `None`: not yet, dropped or lost.
    pub received_ps: Option<u64>,
}

#[cfg(test)]
impl Crossing {
    /// A measured packet of 100 bytes with these stamps in nanoseconds.
    pub fn of_ns(flow: u32, sent_ns: u64, received_ns: Option<u64>) -> Self {
        Self {
            flow,
            bytes: 100,
            kind: Kind::Regular,
            class: 0,
            sent_ps: sent_ns * PS_PER_NS,
            received_ps: received_ns.map(|at_ns| at_ns * PS_PER_NS),
        }
    }
}

impl Crossing {
    /// When it arrived, in whole nanoseconds, rounded down as stamps are.
    pub fn sent_ns(&self) -> u64 {
        self.sent_ps / PS_PER_NS
    }

    /// When it had left the link, likewise; `None`: lost.
    pub fn received_ns(&self) -> Option<u64> {
        self.received_ps.map(|at_ps| at_ps / PS_PER_NS)
    }

    /// From arrival to departure, in nanoseconds and exact; `None`: lost.
    pub fn delay_ns(&self) -> Option<f64> {
        self.received_ps
            .map(|received| (received as f64 - self.sent_ps as f64) / PS_PER_NS as f64)
    }
}

/// Packets in order of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traffic {
    pub arrivals: Vec<Crossing>,
    /// Flows among the regular ones.
    pub flows: u32,
    /// How long they take, in picoseconds.
    pub duration_ps: u64,
}

/// How long `bytes` take on a link of `capacity_bps`, in picoseconds, rounded down.
#[expect(
    clippy::cast_possible_truncation,
    reason = "2^32 bytes at 1 bit a second are 2^75 ps: capped"
)]
pub fn serialisation_ps(bytes: u32, capacity_bps: u64) -> u64 {
    let ps = u128::from(bytes) * 8 * u128::from(PS_PER_S) / u128::from(capacity_bps.max(1));
    ps.min(u128::from(u64::MAX)) as u64
}

/// Traffic to be drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Profile {
    /// The share of it that the traffic asks for, on average.
    pub utilisation: f64,
    /// How much the rate of bursts wanders, 0 to 1: 0.05 light, 0.25 heavy.
    pub modulation: f64,
    pub duration_s: f64,
}

impl Profile {
    /// Draws the traffic; the same seed gives the same packets everywhere.
    pub fn draw(&self, seed: u64) -> Traffic {
        let mut rng = Pcg64::seed_from_u64(seed);
        let duration_ps = whole(self.duration_s.clamp(0.0, 1e6) * PS_PER_S as f64) as u64;
        let mut arrivals = self.arrivals(duration_ps, &mut rng);
        // Bursts overlap now and then.
        arrivals.sort_by_key(|arrival| arrival.sent_ps);
        let regular = arrivals.iter().filter(|a| a.kind == Kind::Regular).count();
        let tags = flow_of_each(regular, duration_ps, &mut rng);
        let flows = tags.iter().max().map_or(0, |last| last + 1);
        let measured = arrivals.iter_mut().filter(|a| a.kind == Kind::Regular);
        for (arrival, flow) in measured.zip(tags) {
            arrival.flow = flow;
        }
        Traffic {
            arrivals,
            flows,
            duration_ps,
        }
    }

    /// The packets, burst by burst.
    fn arrivals(&self, duration_ps: u64, rng: &mut Pcg64) -> Vec<Crossing> {
        let burst_bits = BURST_PACKETS_MEAN * BYTES_MEAN * 8.0;
        let bursts_per_ps =
            self.utilisation.max(0.0) * CAPACITY_BPS as f64 / burst_bits / PS_PER_S as f64;
        let expected = bursts_per_ps * duration_ps as f64 * BURST_PACKETS_MEAN;
        let mut arrivals = Vec::with_capacity(whole((expected * 1.02).min(PACKETS_MAX as f64)));
        let Ok(followers) = Geometric::new(1.0 / BURST_PACKETS_MEAN) else {
            return arrivals;
        };
        let step_ps = STEP_PS.max(duration_ps.div_ceil(STEPS_MAX));
        let factors = modulation(self.modulation, duration_ps, step_ps, rng);
        // What is left of the time to the next burst, on a clock of one burst a unit.
        let mut left: f64 = Exp1.sample(rng);
        for (start_ps, factor) in (0..duration_ps).step_by(whole(step_ps as f64)).zip(factors) {
            let rate = bursts_per_ps * factor;
            let mut at_ps = start_ps as f64;
            let end_ps = (start_ps + step_ps).min(duration_ps) as f64;
            while left < rate * (end_ps - at_ps) && arrivals.len() < PACKETS_MAX {
                at_ps += left / rate;
                left = Exp1.sample(rng);
                let packets = 1 + followers.sample(rng);
                burst(at_ps, packets, &mut arrivals, rng);
            }
            left -= rate * (end_ps - at_ps);
        }
        arrivals
    }
}

/// A burst that begins at `at_ps`.
fn burst(at_ps: f64, packets: u64, arrivals: &mut Vec<Crossing>, rng: &mut Pcg64) {
    let mut at_ps = whole(at_ps) as u64;
    for _ in 0..packets {
        let bytes = size(rng.random_range(0..100));
        let is_regular = rng.random_bool(REGULAR_SHARE);
        arrivals.push(Crossing {
            sent_ps: at_ps,
            received_ps: None,
            flow: 0,
            bytes,
            kind: if is_regular {
                Kind::Regular
            } else {
                Kind::Cross
            },
            class: 0,
        });
        at_ps += serialisation_ps(bytes, CAPACITY_BPS * BURST_SPEED_UP);
    }
}

/// Draws how the rate of bursts wanders over milliseconds: a factor on it for each step.
///
/// The rate is its mean times `(1 - s) + s exp(0.7 x - 0.245)`, where x is an Ornstein-Uhlenbeck
/// process of unit variance and a time constant of 5 ms. The exponential has mean 1, since
/// `0.7^2 / 2 = 0.245`. The path is drawn in steps of 10 us and scaled to a mean of exactly 1:
/// in two seconds chance alone would move the load by a percent, at 93 % a different queue.
/// `strength` (s) 0 is a constant rate, 1 the most.
fn modulation(strength: f64, duration_ps: u64, step_ps: u64, rng: &mut Pcg64) -> Vec<f64> {
    let strength = strength.clamp(0.0, 1.0);
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
    let mean = mean(factors.iter().copied());
    for factor in &mut factors {
        *factor /= mean;
    }
    factors
}

/// Draws which flow each of `packets` measured packets belongs to, in order of time; flows are numbered from
/// 0 without gaps.
///
/// The RLI paper runs on backbone traces of 28.8 and 43.9 packets a flow (its table 2), with many
/// flows of one packet and few that hold most of the traffic. So do we: the packets of a flow are
/// a Pareto draw of shape 0.84 cut at 100,000, rounded up, 28.4 on average; half of the flows have
/// two packets or less. A flow of n packets lasts `50 ms sqrt(n) exp N(0, 1.2)`, at most 98 % of
/// the run (the law of the LDS acceptance trace, ten times faster since the run is shorter). Its
/// packets are in it uniformly, in trains as a sender's window lets them out: a geometric number of them
/// that nothing else of the measured traffic interrupts, four on average. So a small flow sees one
/// moment of the queue or two, and a large one the whole of it.
///
/// The times so drawn only give an order: the i-th measured packet of the traffic belongs to the
/// flow whose draw comes i-th. When a packet arrives is left to the traffic.
fn flow_of_each(packets: usize, duration_ps: u64, rng: &mut Pcg64) -> Vec<u32> {
    let (Ok(stretch), Ok(followers)) = (
        LogNormal::new(0.0, FLOW_PS_SPREAD),
        Geometric::new(1.0 / TRAIN_PACKETS_MEAN),
    ) else {
        return vec![0; packets];
    };
    let run_ps = duration_ps as f64;
    let mut draws: Vec<(f64, u32)> = Vec::with_capacity(packets);
    let mut flow = 0;
    while draws.len() < packets {
        let count = packets_of_a_flow(rng.random()).min(packets - draws.len());
        let lasts_ps =
            (FLOW_PS * (count as f64).sqrt() * stretch.sample(rng)).min(FLOW_SHARE_MAX * run_ps);
        let start_ps = rng.random::<f64>() * (run_ps - lasts_ps);
        let mut left = count;
        while left > 0 {
            let at_ps = start_ps + rng.random::<f64>() * lasts_ps;
            let train = usize::try_from(followers.sample(rng)).map_or(left, |n| left.min(n + 1));
            draws.extend(std::iter::repeat_n((at_ps, flow), train));
            left -= train;
        }
        flow += 1;
    }
    draws.sort_by(|a, b| a.0.total_cmp(&b.0));
    draws.into_iter().map(|(_, flow)| flow).collect()
}

/// The quantile of the truncated Pareto distribution, rounded up.
fn packets_of_a_flow(quantile: f64) -> usize {
    let below_max = 1.0 - FLOW_PACKETS_MAX.powf(-FLOW_SHAPE);
    let packets = (1.0 - quantile * below_max).powf(-1.0 / FLOW_SHAPE);
    whole(packets.ceil().clamp(1.0, FLOW_PACKETS_MAX))
}

/// A bijection that leaves no pattern (the finaliser of `SplitMix64`, Steele et al. 2014).
pub fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The size on the wire in bytes of one in a hundred packets.
fn size(number: u32) -> u32 {
    match number {
        0..40 => 64,
        40..60 => 576,
        _ => 1500,
    }
}

/// How unevenly packets come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wander {
    /// Generated, the rate of bursts wanders by a little.
    Light,
    /// Generated, it wanders by much.
    Heavy,
    /// As a capture has it.
    AsCaptured,
}

impl Wander {
    /// In a word, for tables.
    pub fn label(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Heavy => "heavy",
            Self::AsCaptured => "capture",
        }
    }

    fn strength(self) -> f64 {
        match self {
            Self::Light => 0.05,
            Self::Heavy | Self::AsCaptured => 0.25,
        }
    }
}

/// Traffic at any load, as a setting asks for.
#[derive(Debug, Clone)]
pub struct Supply {
    pub setting: Setting,
    /// The packets of its capture, if it has one.
    pub capture: Option<Capture>,
}

impl Supply {
    /// Reads the capture, if there is one.
    pub fn new(setting: &Setting) -> Result<Self> {
        let capture = setting.capture.as_deref().map(Capture::read);
        Ok(Self {
            setting: setting.clone(),
            capture: capture.transpose()?,
        })
    }

    /// The kinds of unevenness that it has, the most uneven last.
    pub fn wanders(&self) -> &'static [Wander] {
        match self.capture {
            None => &[Wander::Light, Wander::Heavy],
            Some(_) => &[Wander::AsCaptured],
        }
    }

    /// Packets that ask for `utilisation` of the link: two seconds of them, times the scale; of a
    /// capture all, whatever the seed.
    pub fn traffic(&self, utilisation: f64, wander: Wander, seed: u64) -> Traffic {
        if let Some(capture) = &self.capture {
            return capture.at_load(CAPACITY_BPS, utilisation, REGULAR_SHARE);
        }
        let profile = Profile {
            utilisation,
            modulation: wander.strength(),
            duration_s: 2.0 * self.setting.scale,
        };
        profile.draw(seed)
    }
}

/// So many seeds, for the text above a table.
pub fn in_words(seeds: u32) -> String {
    if seeds == 1 {
        "one seed".to_owned()
    } else {
        format!("{seeds} seeds")
    }
}

#[cfg(test)]
mod tests;
