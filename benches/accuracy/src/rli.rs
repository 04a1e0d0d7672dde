//! RLI against exact truth: methods, policies, bounds, and the segment's mean.
//!
//! ```text
//! traffic --> injection policy --> queue (tail drop | RED) --> four receivers --> errors by flow
//! ```
//!
//! References are packets like any other: they wait, take bandwidth, and may be dropped.

pub mod exchange;
mod outcome;
mod segment;
mod tables;

use std::num::{NonZeroU32, NonZeroU64};

use anyhow::Result;
use measure::rli::{Adaptive, Policy};
use rayon::prelude::*;

use super::queue::{BUFFER_BYTES, LinkConfig};
use super::traffic::supply::{CAPACITY_BPS, Supply, Wander, seeds};
use super::{Experiment, Findings, Setting, Source};
use outcome::PolicyOutcome;
pub use segment::lda_mean_ns;

/// Loads of the acceptance runs.
pub const UTILISATIONS: [f64; 2] = [0.67, 0.93];
/// Seeds that limits are means of.
const SEEDS: u32 = 3;

/// What a queue is given, and how it drops.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Scenario {
    utilisation: f64,
    wander: Wander,
    red: bool,
}

impl Scenario {
    /// Every scenario, by load, unevenness, and way of dropping.
    fn all(source: &Source) -> Vec<Self> {
        let mut all = Vec::new();
        for utilisation in UTILISATIONS {
            for &wander in Supply::wanders(source) {
                all.extend([false, true].map(|red| Self {
                    utilisation,
                    wander,
                    red,
                }));
            }
        }
        all
    }

    fn label(self) -> String {
        format!(
            "{:.0} %, {}, {}",
            100.0 * self.utilisation,
            self.wander.label(),
            if self.red { "RED" } else { "tail drop" },
        )
    }

    fn link(self) -> LinkConfig {
        let tail = LinkConfig::fifo(CAPACITY_BPS, BUFFER_BYTES);
        if self.red { tail.with_red() } else { tail }
    }
}

/// One reference for `n` packets, `n` from 1.
pub fn one_in(n: u32) -> Policy {
    Policy::Count {
        packets: NonZeroU32::MIN.saturating_add(n - 1),
    }
}

/// The policies that are compared, by name. The first is that of the limits: all four methods are
/// run on it, the paper's RLI on the others.
fn policies() -> Vec<(&'static str, Policy)> {
    let interval_ns = NonZeroU64::MIN.saturating_add(99_999);
    let either = Policy::Either {
        packets: NonZeroU32::MIN.saturating_add(99),
        interval_ns: interval_ns.saturating_add(100_000),
    };
    vec![
        ("1-in-100", one_in(100)),
        ("1-in-10", one_in(10)),
        ("1-in-300", one_in(300)),
        ("1-in-1000", one_in(1_000)),
        ("100 us", Policy::Time { interval_ns }),
        ("1-in-100 or 200 us", either),
        ("adaptive", Policy::Adaptive(Adaptive::default())),
    ]
}

/// What one seed gave in one scenario: an outcome for each policy.
#[derive(Debug, Clone)]
struct Run {
    scenario: Scenario,
    seed: u32,
    policies: Vec<PolicyOutcome>,
}

/// This experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "rli",
    title: "RLI: methods, policies, bounds, the segment's mean",
    steps,
    run,
};

fn steps(setting: &Setting) -> u64 {
    let seeds = u64::from(seeds(setting, SEEDS));
    let scenarios = Scenario::all(&setting.source).len();
    seeds * (scenarios + segment::scenarios(&setting.source).len()) as u64
}

fn run(setting: &Setting, step: &(dyn Fn() + Sync)) -> Result<Findings> {
    let supply = Supply::new(setting)?;
    let seeds = seeds(setting, SEEDS);
    let scenarios = Scenario::all(&setting.source);
    // Scenarios that differ only in how the queue drops share their traffic.
    let jobs: Vec<(&[Scenario], u32)> = scenarios
        .chunks(2)
        .flat_map(|pair| (0..seeds).map(move |seed| (pair, seed)))
        .collect();
    let runs: Vec<Run> = jobs
        .into_par_iter()
        .map(|(pair, seed)| {
            let mut runs = Vec::new();
            for &scenario in pair {
                let traffic =
                    supply.traffic(scenario.utilisation, scenario.wander, u64::from(seed));
                runs.push(Run {
                    scenario,
                    seed,
                    policies: outcome::of_policies(&traffic, scenario, seed)?,
                });
                step();
            }
            Ok(runs)
        })
        .collect::<Result<Vec<Vec<Run>>>>()?
        .concat();
    let segments = segment::run(setting, &supply, seeds, step)?;
    let mut tables = tables::of_runs(setting, &scenarios, &runs, seeds);
    tables.push(segments);
    Ok(Findings {
        tables,
        figures: tables::figures(&runs),
    })
}

#[cfg(test)]
mod tests;
