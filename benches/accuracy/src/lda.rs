//! LDA: the papers' figures, and what this implementation adds to them.
//!
//! Kompella, Levchenko, Snoeren, Varghese: "Router support for fine-grained latency measurements"
//! (2012), section IV.

mod adaptive;
mod banks;
mod one_bank;
mod stream;

use anyhow::Result;
use measure::lda::{Bank, LdaLayout};
use rayon::prelude::*;

use super::replay::Replay;
use super::traffic::capture::Capture;
use super::{Experiment, Findings, Setting, Source};
use reporting::statistics::{mean, whole};
use stream::{Delays, Loss, Outcome, Passed, Stream};

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "lda",
    title: "LDA: mean, deviation and interval of a segment",
    steps,
    run,
};

/// Packets an epoch: one second of 10 Gb/s in packets of 250 bytes (section IV-A).
const PACKETS: f64 = 5_000_000.0;
/// Rows in all.
const ROWS: u32 = 1024;
/// Loss rates of the sweep.
const LOSSES: [f64; 7] = [0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2];

/// What all tables need.
struct Bench<'a> {
    setting: &'a Setting,
    /// Packets of the capture, where there is one.
    capture: Option<Stream>,
    step: &'a (dyn Fn() + Sync),
}

fn steps(_: &Setting) -> u64 {
    one_bank::STEPS + banks::STEPS + adaptive::STEPS
}

fn run(setting: &Setting, step: &(dyn Fn() + Sync)) -> Result<Findings> {
    let capture = capture_of(setting)?;
    let bench = Bench {
        setting,
        capture,
        step,
    };
    let mut findings = Findings::default();
    one_bank::run(&bench, &mut findings)?;
    banks::run(&bench, &mut findings)?;
    findings.tables.push(adaptive::run(&bench)?);
    Ok(findings)
}

/// The packets of the capture, if that is the source.
fn capture_of(setting: &Setting) -> Result<Option<Stream>> {
    match &setting.source {
        Source::Generated => Ok(None),
        Source::Capture(path) => {
            let replay = Replay::one_queue(&Capture::read(path)?);
            Ok(Some(Stream::from_passages(&replay.passages)))
        }
    }
}

impl Bench<'_> {
    /// Packets of the capture, or as many as the scale asks for, drawn.
    fn stream(&self, delays: Delays, seed: u64) -> Result<Stream> {
        self.stream_of(whole(PACKETS * self.setting.scale), delays, seed)
    }

    /// Packets of the capture, or `count` of them drawn.
    fn stream_of(&self, count: usize, delays: Delays, seed: u64) -> Result<Stream> {
        match &self.capture {
            Some(stream) => Ok(stream.clone()),
            None => Stream::draw(delays, count.max(10_000), seed),
        }
    }

    /// Seeds to average over, where the limit asks for `usual`.
    fn seeds(&self, usual: u32) -> u32 {
        self.setting.seeds.unwrap_or(usual).max(1)
    }

    /// What packets these are, for a table's description.
    fn packets_are(&self) -> String {
        match &self.setting.source {
            Source::Generated => format!(
                "{} packets an epoch, delays Weibull of shape 0.6 unless said otherwise",
                whole(PACKETS * self.setting.scale)
            ),
            Source::Capture(path) => format!("packets of {} through one queue", path.display()),
        }
    }
}

/// One bank of all rows, tuned to the losses that will come: p = alpha m / (L + 1).
fn tuned(passed: &Passed, loss: f64, alpha: f64) -> Result<LdaLayout> {
    let losses = whole(passed.sent() as f64 * loss) as u64;
    Ok(LdaLayout::new(&[Bank::for_losses(ROWS, losses, alpha)])?)
}

/// The same packets under several hash seeds.
fn runs(passed: &Passed, layout: &LdaLayout, seeds: u32) -> Vec<Outcome> {
    (0..u64::from(seeds))
        .into_par_iter()
        .map(|seed| passed.lda(layout, seed))
        .collect()
}

/// Mean of one figure over runs.
fn mean_of(runs: &[Outcome], figure: impl Fn(&Outcome) -> f64) -> f64 {
    mean(runs.iter().map(figure))
}

/// The largest of one figure over runs.
fn worst_of(runs: &[Outcome], figure: impl Fn(&Outcome) -> f64) -> f64 {
    runs.iter().map(figure).fold(0.0, f64::max)
}

/// A loss rate in per cent, without trailing zeros.
fn percent(loss: f64) -> String {
    format!("{} %", (loss * 1e5).round() / 1e3)
}

#[cfg(test)]
mod tests;
