//! The dice of one rule.

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Normal};
use rand_pcg::Pcg64Mcg;

use crate::impairment::{Impairment, JitterShape};

/// Where bits may be turned: behind the Ethernet header.
const CORRUPT_FROM: usize = 14;

/// Nanoseconds of microseconds.
pub fn ns(us: f64) -> u64 {
    whole(us * 1e3)
}

/// The nearest whole number, at least 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rounded; what is less than nothing becomes nothing"
)]
pub fn whole(number: f64) -> u64 {
    number.round() as u64
}

/// The dice of one rule, a stream for each purpose.
#[derive(Debug)]
pub struct Dice {
    pub loss: Loss,
    corrupt: Chance,
    pub duplicate: Chance,
    pub hold_back: Chance,
    delay_ns: f64,
    jitter: Jitter,
    jitter_random: Pcg64Mcg,
}

impl Dice {
    /// Dice of a rule; `names` tell it from all others.
    pub fn new(rule: &Impairment, names: [u64; 3]) -> Self {
        let stream = |purpose| stream([names[0], names[1], names[2], purpose]);
        let chance = |share, purpose| Chance {
            share,
            random: stream(purpose),
        };
        let jitter_ns = rule.jitter_us * 1e3;
        let jitter = match rule.jitter_shape {
            JitterShape::Uniform => None,
            JitterShape::Normal => Normal::new(0.0, jitter_ns).ok(),
        };
        Self {
            loss: Loss::new(rule, stream(0)),
            corrupt: chance(rule.corrupt, 1),
            duplicate: chance(rule.duplicate, 2),
            hold_back: chance(rule.reorder, 3),
            delay_ns: rule.delay_us * 1e3,
            jitter: match jitter {
                _ if jitter_ns <= 0.0 => Jitter::None,
                Some(bell) => Jitter::Normal(bell),
                None => Jitter::Uniform(jitter_ns),
            },
            jitter_random: stream(4),
        }
    }

    /// Which bit of this packet is turned, if any.
    pub fn corrupts(&mut self, bytes: usize) -> Option<usize> {
        if !self.corrupt.falls() || bytes <= CORRUPT_FROM {
            return None;
        }
        Some(
            self.corrupt
                .random
                .random_range(CORRUPT_FROM * 8..bytes * 8),
        )
    }

    /// This packet's delay with its jitter.
    pub fn delay_ns(&mut self) -> u64 {
        let random = &mut self.jitter_random;
        let jitter = match &self.jitter {
            Jitter::None => 0.0,
            Jitter::Uniform(ns) => random.random_range(-ns..=*ns),
            Jitter::Normal(bell) => bell.sample(random),
        };
        whole((self.delay_ns + jitter).max(0.0))
    }
}

/// A stream of random numbers with a name: neighbours' are as far apart as any.
pub fn stream(names: [u64; 4]) -> Pcg64Mcg {
    let mut state = 0;
    for name in names {
        let mut step = Pcg64Mcg::seed_from_u64(state ^ name);
        state = step.random();
    }
    Pcg64Mcg::seed_from_u64(state)
}

#[derive(Debug)]
enum Jitter {
    None,
    Uniform(f64),
    Normal(Normal<f64>),
}

/// Falls for a share of all throws.
#[derive(Debug)]
pub struct Chance {
    share: f64,
    random: Pcg64Mcg,
}

impl Chance {
    pub fn falls(&mut self) -> bool {
        self.share > 0.0 && self.random.random_bool(self.share)
    }
}

/// Losses one by one, or in bad times (Gilbert 1960, Elliott 1963).
#[derive(Debug)]
pub struct Loss {
    /// Lost in good times, where there are no bad ones; and in bad times.
    share: f64,
    bad_share: f64,
    /// Probabilities, at each packet, that bad times begin and end.
    begins: f64,
    ends: f64,
    is_bad: bool,
    random: Pcg64Mcg,
}

impl Loss {
    fn new(rule: &Impairment, random: Pcg64Mcg) -> Self {
        let mut loss = Self {
            share: rule.loss,
            bad_share: rule.burst_loss,
            begins: 0.0,
            ends: 1.0,
            is_bad: false,
            random,
        };
        if rule.burst_packets > 0.0 && rule.loss > 0.0 {
            // The share of bad times is begins / (begins + ends); it loses `loss` in all.
            let bad_times = rule.loss / rule.burst_loss;
            loss.ends = 1.0 / rule.burst_packets;
            loss.begins = (loss.ends * bad_times / (1.0 - bad_times)).clamp(0.0, 1.0);
            loss.share = 0.0;
        }
        loss
    }

    pub fn loses(&mut self) -> bool {
        if self.begins == 0.0 {
            return self.share > 0.0 && self.random.random_bool(self.share);
        }
        let turns = if self.is_bad { self.ends } else { self.begins };
        self.is_bad ^= self.random.random_bool(turns);
        self.is_bad && self.random.random_bool(self.bad_share)
    }
}
