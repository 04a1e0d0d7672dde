//! The highest rate within a loss limit, in the manner of RFC 2544 section 26.1.

use clap::Args;
use serde::Serialize;

use crate::pktgen::trial::Outcome;
use crate::pktgen::{over_zero, percent};

/// Settings of the search.
#[derive(Debug, Args)]
pub struct Limits {
    /// Packets that may be lost, %
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    pub loss: f64,
    /// Rate to begin with, million packets a second each way
    #[arg(long, value_name = "MPPS", default_value_t = 10.0, value_parser = over_zero)]
    pub max: f64,
    /// Number of trials that must fail before a rate fails; use more on shared machines
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub tries: u32,
}

/// A trial of the search.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// Packets a second on each side that sends.
    pub rate_pps: f64,
    /// Whether it was within the limit.
    pub holds: bool,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Found {
    /// Packets per second on each sending side; 0 if no rate passed.
    pub rate_pps: f64,
    /// Whether the limit is the generator's: only rates that it could not offer failed.
    pub is_ours: bool,
    /// All trials, in order.
    pub steps: Vec<Step>,
}

/// Share of the rate to which it is exact.
const RESOLUTION: f64 = 0.02;

/// Maximum number of rates to try, far more than bisection needs for this resolution.
const RATES_MAX: u32 = 64;

/// Searches; `trial` offers a rate.
pub fn throughput<E>(
    limits: &Limits,
    mut trial: impl FnMut(f64) -> Result<Outcome, E>,
) -> Result<Found, E> {
    let (max_pps, loss_max) = (limits.max * 1e6, limits.loss / 100.0);
    let (mut low, mut high, mut rate) = (0.0, max_pps, max_pps);
    let mut steps = Vec::new();
    let mut is_ours = true;
    for _ in 0..RATES_MAX {
        let mut holds = false;
        for _ in 0..limits.tries.max(1) {
            let outcome = trial(rate)?;
            let is_within = outcome.loss() <= loss_max;
            let is_short = outcome.is_short();
            holds = is_within && !is_short;
            steps.push(Step {
                rate_pps: rate,
                holds,
                outcome,
            });
            is_ours &= holds || (is_short && is_within);
            if holds || is_short {
                break;
            }
        }
        if holds {
            low = rate;
        } else {
            high = rate;
        }
        if high - low <= RESOLUTION * high || low >= max_pps {
            break;
        }
        rate = f64::midpoint(low, high);
    }
    Ok(Found {
        rate_pps: low,
        is_ours,
        steps,
    })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    const SEARCH: Limits = Limits {
        max: 20.0,
        loss: 0.0,
        tries: 1,
    };

    /// A search with a switch that forwards `capacity_pps` and a sender of `own_pps`.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rates of a test"
    )]
    fn outcome(rate_pps: f64, capacity_pps: f64, own_pps: f64) -> Outcome {
        let offered_pps = rate_pps.min(own_pps);
        let received_pps = offered_pps.min(capacity_pps);
        Outcome {
            wanted_pps: rate_pps,
            offered_pps,
            offered: offered_pps as u64,
            refused: 0,
            received: received_pps as u64,
            foreign: 0,
            delays_ns: Vec::new(),
        }
    }

    fn found(search: &Limits, capacity_pps: f64, own_pps: f64) -> Found {
        let trial = |rate| Ok::<_, Infallible>(outcome(rate, capacity_pps, own_pps));
        throughput(search, trial).unwrap()
    }

    proptest! {
        #[test]
        fn the_capacity_is_found_to_the_resolution(capacity_pps in 20_000.0..40e6_f64) {
            let found = found(&SEARCH, capacity_pps, f64::MAX);
            let reachable = capacity_pps.min(20e6);
            prop_assert!(found.rate_pps <= reachable);
            prop_assert!(found.rate_pps >= reachable * (1.0 - RESOLUTION) - 1.0);
            prop_assert!(found.steps.len() < 30);
            prop_assert_eq!(found.is_ours, capacity_pps >= 20e6);
        }

        #[test]
        fn losses_up_to_the_limit_are_allowed(loss_max in 0.001..0.2_f64) {
            let search = Limits { loss: 100.0 * loss_max, ..SEARCH };
            let found = found(&search, 1e6, f64::MAX);
            let expected = 1e6 / (1.0 - loss_max);
            prop_assert!((found.rate_pps / expected - 1.0).abs() < 1.1 * RESOLUTION);
        }
    }

    #[test]
    fn a_sender_at_its_end_says_so() {
        let found = found(&SEARCH, 30e6, 5e6);
        assert!(found.is_ours);
        // Offers count as made from 98 % on.
        assert!(
            (5e6 * 0.96..5e6 / 0.97).contains(&found.rate_pps),
            "{}",
            found.rate_pps
        );
    }

    #[test]
    fn nothing_may_hold() {
        let broken = found(&SEARCH, 0.0, f64::MAX);
        assert!(broken.rate_pps < 1.0 && !broken.is_ours);
        assert!(broken.steps.len() <= 64);
    }

    #[test]
    fn one_good_trial_of_several_is_enough() {
        let search = Limits { tries: 3, ..SEARCH };
        // Every second trial is disturbed.
        let mut trials = 0;
        let found = throughput(&search, |rate| {
            trials += 1;
            let capacity_pps = if trials % 2 == 1 { 0.0 } else { 4e6 };
            Ok::<_, Infallible>(outcome(rate, capacity_pps, f64::MAX))
        });
        let found = found.unwrap();
        assert!(
            ((1.0 - RESOLUTION) * 4e6..=4e6).contains(&found.rate_pps),
            "{}",
            found.rate_pps
        );
    }
}
