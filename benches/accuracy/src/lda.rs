//! LDA: the papers' figures, and what this implementation adds to them.
//!
//! Kompella, Levchenko, Snoeren, Varghese: "Router support for fine-grained latency measurements"
//! (2012), section IV.

mod banks;
mod laws;
mod one_bank;
mod reordering;
mod stream;

use std::sync::Arc;

use anyhow::Result;
use measure::lda::{Bank, LdaLayout};
use reporting::statistics::{mean, whole};

use crate::experiment::{Experiment, Plan, Setting};
use crate::replay::Replay;
use stream::{Delays, Outcome, Passed, Stream};

pub const EXPERIMENT: Experiment = Experiment {
    name: "lda",
    title: "LDA: mean, deviation and interval of a segment",
    plan,
};

/// Packets an epoch: one second of 10 Gb/s in packets of 250 bytes (section IV-A).
const PACKETS: f64 = 5_000_000.0;
/// Packets of an epoch at the least, whatever the scale.
const PACKETS_MIN: usize = 10_000;
const ROWS: u32 = 1024;
/// Loss rates of the sweep.
const LOSSES: [f64; 7] = [0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2];

/// What all cases need.
struct Bench {
    setting: Setting,
    /// Packets of the capture, where there is one.
    capture: Option<Stream>,
}

fn plan(setting: &Setting) -> Result<Plan> {
    let replay = setting
        .capture
        .as_deref()
        .map(Replay::one_queue)
        .transpose()?;
    let bench = Arc::new(Bench {
        setting: setting.clone(),
        capture: replay.map(|replay| Stream::of(&replay.crossings)),
    });
    let mut plan = Plan::default();
    one_bank::plan(&bench, &mut plan)?;
    banks::plan(&bench, &mut plan)?;
    reordering::plan(&bench, &mut plan);
    laws::plan(&bench, &mut plan)?;
    Ok(plan)
}

impl Bench {
    /// Packets of the capture, or as many as the scale asks for, drawn.
    fn stream(&self, delays: Delays, seed: u64) -> Result<Stream> {
        self.stream_of(whole(PACKETS * self.setting.scale), delays, seed)
    }

    /// Packets of the capture, or `count` of them drawn.
    fn stream_of(&self, count: usize, delays: Delays, seed: u64) -> Result<Stream> {
        match &self.capture {
            Some(stream) => Ok(stream.clone()),
            None => Stream::draw(delays, count.max(PACKETS_MIN), seed),
        }
    }

    /// What packets these are, for a table's description.
    fn packets_are(&self) -> String {
        match &self.setting.capture {
            None => format!(
                "{} packets an epoch, delays Weibull of shape 0.6 unless said otherwise",
                whole(PACKETS * self.setting.scale)
            ),
            Some(path) => format!("packets of {} through one queue", path.display()),
        }
    }
}

/// One bank of all rows, tuned to the losses that will come: p = alpha m / (L + 1).
fn tuned(passed: &Passed, loss: f64, alpha: f64) -> Result<LdaLayout> {
    layout(ROWS, &[loss], passed.sent(), alpha)
}

/// Banks of equal size, each tuned to a loss of this many packets.
fn layout(rows: u32, losses: &[f64], packets: usize, alpha: f64) -> Result<LdaLayout> {
    let losses = losses
        .iter()
        .map(|loss| whole(packets as f64 * loss) as u64);
    let banks: Vec<_> = losses
        .map(|losses| Bank::for_losses(rows, losses, alpha))
        .collect();
    Ok(LdaLayout::new(&banks)?)
}

/// The same packets under several hash seeds.
struct Runs(Vec<Outcome>);

impl Runs {
    fn of(passed: &Passed, layout: &LdaLayout, seeds: u32) -> Self {
        let seeds = 0..u64::from(seeds);
        Self(seeds.map(|seed| passed.lda(layout, seed)).collect())
    }

    fn mean(&self, figure: fn(&Outcome) -> f64) -> f64 {
        mean(self.0.iter().map(figure))
    }

    fn worst(&self, figure: fn(&Outcome) -> f64) -> f64 {
        self.0.iter().map(figure).fold(0.0, f64::max)
    }
}

/// A loss rate in per cent, without trailing zeros.
fn percent(loss: f64) -> String {
    format!("{} %", (loss * 1e5).round() / 1e3)
}

#[cfg(test)]
mod tests;
