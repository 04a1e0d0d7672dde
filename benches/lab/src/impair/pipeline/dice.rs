//! The dice of one direction.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::impair::impairment::Impairment;

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
    pub loss: Chance,
    pub hold_back: Chance,
    delay_ns: f64,
    /// To either side of the delay.
    jitter_ns: f64,
    jitter_random: Pcg64Mcg,
}

impl Dice {
    /// Dice of a rule; `names` tell it from the other direction's.
    pub fn new(rule: &Impairment, names: [u64; 2]) -> Self {
        let stream = |purpose| stream([names[0], names[1], 0, purpose]);
        let chance = |share, purpose| Chance {
            share,
            random: stream(purpose),
        };
        Self {
            loss: chance(rule.loss, 0),
            hold_back: chance(rule.reorder, 1),
            delay_ns: rule.delay_us * 1e3,
            jitter_ns: rule.jitter_us * 1e3,
            jitter_random: stream(2),
        }
    }

    /// This packet's delay with its jitter.
    pub fn delay_ns(&mut self) -> u64 {
        let most = self.jitter_ns;
        let jitter_ns = if most > 0.0 {
            self.jitter_random.random_range(-most..=most)
        } else {
            0.0
        };
        whole((self.delay_ns + jitter_ns).max(0.0))
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
