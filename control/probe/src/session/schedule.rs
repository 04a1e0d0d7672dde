//! When packets are sent.

use std::time::Duration;

use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

/// How packets are spaced.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Spacing {
    /// Gaps are exponentially distributed (RFC 2330, section 11.1.1): what is periodic in the network is not missed.
    #[default]
    Poisson,
    /// All gaps are equal (RFC 3432).
    Periodic,
}

/// A session that is later than this by so much leaves out what was due.
const BEHIND_MAX: Duration = Duration::from_millis(500);

/// The times of one session.
#[derive(Debug)]
pub(super) struct Schedule {
    spacing: Spacing,
    gap: Duration,
    next: Duration,
}

impl Schedule {
    /// Begins within a gap of `now`, so that sessions do not send at the same time.
    pub(super) fn new(
        spacing: Spacing,
        gap: Duration,
        now: Duration,
        random: &mut Pcg64Mcg,
    ) -> Self {
        let share = rand_distr::StandardUniform;
        let share: f64 = Distribution::<f64>::sample(&share, random);
        Self {
            spacing,
            gap,
            next: now + gap.mul_f64(share),
        }
    }

    /// When the next packet is due.
    pub(super) fn next(&self) -> Duration {
        self.next
    }

    /// Goes on after a packet; returns how many are left out, since they were due long ago.
    pub(super) fn advance(&mut self, now: Duration, random: &mut Pcg64Mcg) -> u64 {
        let gap = match self.spacing {
            Spacing::Periodic => self.gap,
            Spacing::Poisson => {
                let factor: f64 = Exp1.sample(random);
                self.gap.mul_f64(factor)
            }
        };
        self.next += gap;
        let behind = now.saturating_sub(self.next);
        if behind < BEHIND_MAX {
            return 0;
        }
        let gaps = behind.as_nanos() / self.gap.as_nanos().max(1);
        let left_out = u64::try_from(gaps).unwrap_or(u64::MAX);
        self.next += self
            .gap
            .saturating_mul(u32::try_from(left_out).unwrap_or(u32::MAX));
        left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    const GAP: Duration = Duration::from_millis(10);

    fn gaps(spacing: Spacing) -> Vec<f64> {
        let mut random = Pcg64Mcg::seed_from_u64(7);
        let mut schedule = Schedule::new(spacing, GAP, Duration::ZERO, &mut random);
        assert!(schedule.next() < GAP);
        let gaps = (0..20_000).map(|_| {
            let before = schedule.next();
            assert_eq!(schedule.advance(before, &mut random), 0);
            (schedule.next().as_secs_f64() - before.as_secs_f64()) / GAP.as_secs_f64()
        });
        gaps.collect()
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        let gaps = gaps(Spacing::Poisson);
        let count = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / count;
        let squares = gaps.iter().map(|gap| gap * gap).sum::<f64>() / count;
        let over_two = gaps.iter().filter(|gap| **gap > 2.0).count() as f64 / count;
        assert!((mean - 1.0).abs() < 0.03, "{mean}");
        assert!((squares - 2.0).abs() < 0.15, "{squares}");
        assert!((over_two - (-2.0_f64).exp()).abs() < 0.01, "{over_two}");
    }

    #[test]
    fn periodic_gaps_are_equal() {
        assert!(
            gaps(Spacing::Periodic)
                .iter()
                .all(|gap| (gap - 1.0).abs() < 1e-6)
        );
    }

    #[test]
    fn what_was_due_long_ago_is_left_out_and_counted() {
        let mut random = Pcg64Mcg::seed_from_u64(7);
        let mut schedule = Schedule::new(Spacing::Periodic, GAP, Duration::ZERO, &mut random);
        let first = schedule.next();
        let left_out = schedule.advance(first + Duration::from_secs(10), &mut random);
        assert_eq!(left_out, 999);
        assert_eq!(schedule.next(), first + GAP * 1_000);
    }
}
