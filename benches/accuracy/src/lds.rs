//! LDS: the paper's estimator and joint decoding, held against exact truth.
//!
//! Sanjuas-Cuxart, Barlet-Ros, Duffield, Kompella: "Sketching the delay: tracking temporally
//! uncorrelated flow-level latencies" (IMC 2011), section 5.
//!
//! ```text
//!  seed --> trace --+--> job: sketch, decode --> parts --+
//!                   +--> job ...                         +--> mean over seeds --> tables
//!                   +--> job ...                         +--> first seed -------> figures
//! ```

mod job;
mod loss;
mod memory;
mod mined;
mod weights;

use anyhow::Result;
use rayon::prelude::*;

use super::replay::Replay;
use super::trace::{Losses, Scenario, Trace, Truth};
use super::traffic::capture::Capture;
use super::{Experiment, Findings, Setting, Source};
use job::{Job, Part, assemble};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "lds",
    title: "LDS: the mean delay of every flow",
    steps,
    run,
};

/// Seeds that the limits ask for.
const SEEDS: u32 = 5;

/// Independent pieces of work on one trace, in the order of their rows.
const JOBS: [&[Job]; 4] = [&memory::JOBS, &loss::JOBS, &weights::JOBS, &mined::JOBS];

/// One seed's trace, with its truth where nothing is lost.
struct Seed<'a> {
    setting: &'a Setting,
    trace: Trace,
    truth: Truth,
    number: u64,
}

fn seeds(setting: &Setting) -> u32 {
    match setting.source {
        Source::Generated => setting.seeds.unwrap_or(SEEDS).max(1),
        // Packets are what they are; only hashes differ.
        Source::Capture(_) => setting.seeds.unwrap_or(1).max(1),
    }
}

fn jobs() -> impl Iterator<Item = Job> {
    JOBS.into_iter().flatten().copied()
}

fn steps(setting: &Setting) -> u64 {
    u64::from(seeds(setting)) * jobs().count() as u64
}

fn run(setting: &Setting, step: &(dyn Fn() + Sync)) -> Result<Findings> {
    let replay = match &setting.source {
        Source::Generated => None,
        Source::Capture(path) => Some(Replay::two_paths(&Capture::read(path)?)),
    };
    let jobs: Vec<Job> = jobs().collect();
    let mut by_seed = Vec::new();
    for number in 0..u64::from(seeds(setting)) {
        let trace = match &replay {
            None => Trace::generate(&Scenario::ACCEPTANCE, number, setting.scale),
            Some(replay) => Trace::from_passages(&replay.passages, Vec::new(), number),
        };
        let truth = Truth::of(&trace, &Losses::None.on(&trace, number));
        let seed = Seed {
            setting,
            trace,
            truth,
            number,
        };
        let parts: Vec<Vec<Part>> = jobs
            .par_iter()
            .map(|job| {
                let parts = job(&seed)?;
                step();
                Ok(parts)
            })
            .collect::<Result<_>>()?;
        by_seed.push(parts.into_iter().flatten().collect());
    }
    Ok(assemble(setting, seeds(setting), by_seed))
}

#[cfg(test)]
mod tests;
