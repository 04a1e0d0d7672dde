//! Packets on their way to a link, in order of time.
//!
//! Generated traffic is that of the RLI acceptance runs:
//! bursts arrive as a Poisson process whose rate wanders ([`modulation`]); a burst is a geometric
//! number of packets, [`BURST_PACKETS_MEAN`] on average, that follow one another at twice the
//! link's rate; sizes are 64, 576 and 1500 bytes. Each packet belongs to the measured traffic
//! with a given probability, else to cross traffic that shares the link and nothing else. Which
//! flow a measured packet belongs to is drawn apart ([`flows`]).
//!
//! A capture ([`capture`]) brings its own times, sizes and flows.
//!
//! Times are whole picoseconds: a byte at 10 Gb/s lasts 800 of them, so that the sums of a
//! simulation are exact.

pub mod capture;
pub mod flows;
pub mod modulation;
pub mod supply;

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, Geometric};
use rand_pcg::Pcg64;
use reporting::statistics::whole;

use modulation::Modulation;
use supply::{CAPACITY_BPS, REGULAR_SHARE};

pub const PS_PER_S: u64 = 1_000_000_000_000;
pub const PS_PER_NS: u64 = 1_000;

/// Packets of a burst, on average.
pub const BURST_PACKETS_MEAN: f64 = 10.0;
/// How many times faster than the link a burst arrives.
const BURST_SPEED_UP: u64 = 2;
/// Sizes on the wire in bytes, and how many packets of a hundred have them.
const SIZES: [(u32, u32); 3] = [(64, 40), (576, 20), (1500, 40)];
/// The mean of [`SIZES`].
const BYTES_MEAN: f64 = 740.8;
/// The most packets that are drawn: a bound on memory, 24 bytes each.
const PACKETS_MAX: usize = 50_000_000;

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

/// A packet that reaches a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// When, in picoseconds since the start.
    pub at_ps: u64,
    /// Its flow, 0 up to the number of flows; 0 where it belongs to none.
    pub flow: u32,
    /// Bytes on the wire, without preamble and gap.
    pub bytes: u32,
    pub kind: Kind,
    /// Which of the link's queues it joins, 0 first.
    pub class: u8,
}

/// Packets in order of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traffic {
    pub arrivals: Vec<Arrival>,
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
    /// The traffic of the RLI acceptance runs: 10 Gb/s, a third of it measured, two seconds.
    pub fn acceptance(utilisation: f64, modulation: f64) -> Self {
        Self {
            utilisation,
            modulation,
            duration_s: 2.0,
        }
    }

    /// Draws the traffic; the same seed gives the same packets everywhere.
    pub fn draw(&self, seed: u64) -> Traffic {
        let mut rng = Pcg64::seed_from_u64(seed);
        let duration_ps = whole(self.duration_s.clamp(0.0, 1e6) * PS_PER_S as f64) as u64;
        let mut arrivals = self.arrivals(duration_ps, &mut rng);
        // Bursts overlap now and then.
        arrivals.sort_by_key(|arrival| arrival.at_ps);
        let regular = arrivals.iter().filter(|a| a.kind == Kind::Regular).count();
        let tags = flows::draw(regular, duration_ps, &mut rng);
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
    fn arrivals(&self, duration_ps: u64, rng: &mut Pcg64) -> Vec<Arrival> {
        let burst_bits = BURST_PACKETS_MEAN * BYTES_MEAN * 8.0;
        let bursts_per_ps =
            self.utilisation.max(0.0) * CAPACITY_BPS as f64 / burst_bits / PS_PER_S as f64;
        let expected = bursts_per_ps * duration_ps as f64 * BURST_PACKETS_MEAN;
        let mut arrivals = Vec::with_capacity(whole((expected * 1.02).min(PACKETS_MAX as f64)));
        let Ok(followers) = Geometric::new(1.0 / BURST_PACKETS_MEAN) else {
            return arrivals;
        };
        let modulation = Modulation::draw(self.modulation, duration_ps, rng);
        // What is left of the time to the next burst, on a clock of one burst a unit.
        let mut left: f64 = Exp1.sample(rng);
        for step in modulation.steps() {
            let rate = bursts_per_ps * step.factor;
            let mut at_ps = step.start_ps as f64;
            let end_ps = step.end_ps as f64;
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
fn burst(at_ps: f64, packets: u64, arrivals: &mut Vec<Arrival>, rng: &mut Pcg64) {
    let mut at_ps = whole(at_ps) as u64;
    for _ in 0..packets {
        let bytes = size(rng.random_range(0..100));
        let is_regular = rng.random_bool(REGULAR_SHARE);
        arrivals.push(Arrival {
            at_ps,
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

/// A bijection that leaves no pattern (the finaliser of `SplitMix64`, Steele et al. 2014).
pub fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The size of one in a hundred packets.
fn size(number: u32) -> u32 {
    let mut below = 0;
    for (bytes, share) in SIZES {
        below += share;
        if number < below {
            return bytes;
        }
    }
    SIZES[SIZES.len() - 1].0
}

#[cfg(test)]
mod tests;
