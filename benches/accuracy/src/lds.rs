//! LDS: the paper's estimator and joint decoding, held against exact truth.
//!
//! Sanjuas-Cuxart, Barlet-Ros, Duffield, Kompella: "Sketching the delay: tracking temporally
//! uncorrelated flow-level latencies" (IMC 2011), section 5.

mod beside;
mod loss;
mod memory;
mod mined;
mod weights;

use std::borrow::Cow;
use std::ops::Range;

use anyhow::Result;
use measure::lds::{Decoded, LdsLayout};
use reporting::Limit;
use reporting::statistics::{median, percent_of};

use crate::experiment::{Experiment, Found, Plan, Row, Setting};
use crate::replay::Replay;
use crate::sketched::{Known, Sketched, columns_for, errors};
use crate::trace::{Losses, Scenario, Trace, Truth};

pub const EXPERIMENT: Experiment = Experiment {
    name: "lds",
    title: "LDS: the mean delay of every flow",
    plan,
};

/// Seeds that the limits ask for.
const SEEDS: u32 = 5;

/// Flows by their packets sent.
const ALL: Range<f64> = 0.0..f64::INFINITY;
const HUNDREDS: Range<f64> = 100.0..f64::INFINITY;
const THOUSANDS: Range<f64> = 1000.0..f64::INFINITY;

/// Name of the paper's estimator in tables.
const PAPER: &str = "paper's decoder";

/// Numbers of the tables, with their titles and what they are about.
const CHECKS: usize = 0;
const MEMORY: usize = 1;
const LOSS: usize = 2;
const WEIGHTS: usize = 3;
const MINED: usize = 4;
const BOUNDS: usize = 5;
const BESIDE: usize = 6;
const HEAVY: usize = 7;
const TABLES: [(&str, &str); 8] = [
    (
        "LDS: checks",
        "Median relative errors of per-flow means unless said otherwise. Paper: the paper's \
         decoder, from its text (section 5.1) or from the prototype that the limits come from.",
    ),
    (
        "LDS: three memories",
        "Median relative errors; the reference sketch, a tenth and ten times its memory (fig. 9). \
         Ours: joint decoding with K = 2.",
    ),
    (
        "LDS: under loss",
        "Median relative errors of flows of at least 1000 packets, k = 5, 87500 x 4 (fig. 11). \
         Ours: joint decoding, K = 1. With one bank and p = 1 losses spoil nearly all cells of \
         large flows.",
    ),
    (
        "LDS: weights",
        "Median relative errors over all flows: gold 1 %, silver 9 %, bronze 90 % of them, drawn \
         at random (fig. 12). Ours: joint decoding, K = 1.",
    ),
    (
        "LDS: mined",
        "What else can be read from the cells (section 4.3). Median relative errors.",
    ),
    (
        "LDS: flows whose bound holds their true mean",
        "Joint decoding; the bound is 3 sqrt(xv), nominally 98 %.",
    ),
    (
        "LDS beside RLI and MPE",
        "Relative errors of per-flow means, 17500 x 4 (fig. 9 and 10). Ours: joint decoding, K = 2. RLI \
         interpolates references at 1 kHz, all of the first queue; MPE stamps the first and the last \
         packet of 10 % and of 1 % of flows; overall mean: the true mean of all packets, whatever the \
         flow. A flow without a sample is given the mean of all samples. Paper: its decoder, from its \
         text. On delays that neighbours share, RLI is the better one: see the hybrid's tables.",
    ),
    (
        "LDS: heavy hitters",
        "Section 4.3; the paper has no figures for it. Its estimates are never too low, since the least of a flow's \
         cells holds other flows' packets, too, so that every heavy hitter is found. 17500 x 4. Heavy hitters that are: \
         of the flows named as heavy (precision); found: of those that are (recall). Ours: packets decoded jointly with \
         nothing known but the keys.",
    ),
];

fn plan(setting: &Setting) -> Result<Plan> {
    let replay = setting
        .capture
        .as_deref()
        .map(Replay::two_paths)
        .transpose()?;
    let (seeds, scale) = (setting.traffic_seeds(SEEDS), setting.scale);
    let packets = setting.capture.as_ref().map_or_else(
        || "acceptance trace".to_owned(),
        |path| {
            let path = path.display();
            format!("packets of {path} over two paths, sketches scaled to its flows")
        },
    );
    let mut plan = Plan::default();
    for (title, about) in TABLES {
        plan.table(title, format!("{about} Mean of {seeds} seeds; {packets}."));
    }
    plan.case(seeds, move |number, found| {
        let trace = match &replay {
            None => Trace::generate(&Scenario::ACCEPTANCE, number, scale),
            Some(replay) => {
                Trace::from_crossings(&replay.crossings, replay.references.clone(), number)
            }
        };
        let truth = Truth::of(&trace, &Losses::None.on(&trace, number));
        let seed = Seed {
            trace,
            truth,
            number,
        };
        memory::run(&seed, found)?;
        loss::run(&seed, found)?;
        weights::run(&seed, found)?;
        mined::run(&seed, found)
    });
    Ok(plan)
}

/// One seed's trace, with its truth where nothing is lost.
struct Seed {
    trace: Trace,
    truth: Truth,
    number: u64,
}

/// The trace in a sketch under losses, with the truth about what arrived.
struct Tried<'s> {
    sketched: Sketched,
    truth: Cow<'s, Truth>,
}

impl Seed {
    /// A sketch with as many columns for this trace as `columns` are for 146,000 flows.
    fn layout(&self, columns: u32, k: u32, probabilities: &[f64]) -> Result<LdsLayout> {
        let columns = columns_for(&self.trace, columns);
        Ok(LdsLayout::new(columns, k, probabilities)?)
    }

    fn sketch(&self, layout: &LdsLayout, losses: Losses) -> Tried<'_> {
        self.sketch_classes(layout, losses, |_| 0)
    }

    fn sketch_classes(
        &self,
        layout: &LdsLayout,
        losses: Losses,
        class: impl Fn(usize) -> u16,
    ) -> Tried<'_> {
        let mask = losses.on(&self.trace, self.number);
        let truth = match losses {
            Losses::None => Cow::Borrowed(&self.truth),
            _ => Cow::Owned(Truth::of(&self.trace, &mask)),
        };
        let sketched = Sketched::new(&self.trace, layout, &mask, class);
        Tried { sketched, truth }
    }
}

impl Tried<'_> {
    /// Joint decoding with known counts of packets.
    fn joint(&self, components: usize) -> Result<Decoded> {
        let known = Known {
            packets: Some(&self.truth.received),
            ..Known::default()
        };
        self.sketched.joint(components, known)
    }

    /// Errors of mean delays of the flows of this many packets.
    fn errors(&self, estimates: &[f64], packets: Range<f64>) -> Vec<f64> {
        errors(estimates, &self.truth.mean_ns, self.truth.flows(packets))
    }

    fn median(&self, estimates: &[f64], packets: Range<f64>) -> f64 {
        median(self.errors(estimates, packets))
    }

    /// How often the bound of a decoding holds, over all flows.
    fn bounds(&self, what: &str, decoded: &Decoded, found: &mut Found) {
        let share = |width: f64| {
            percent_of(self.truth.flows(ALL).filter_map(|flow| {
                let (flow, mean_ns) = (decoded.flows.get(flow)?, self.truth.mean_ns.get(flow)?);
                // Exact flows have no variance; a nanosecond is the clock's.
                let bound = width * flow.variance_ticks2.sqrt() + 1.0;
                Some((flow.mean_ticks - mean_ns).abs() <= bound)
            }))
        };
        let row = Row::new(format!("flows in their bound: {what}"), "%", share(3.0));
        found.row(BOUNDS, row.other("2 sqrt(xv)", share(2.0)));
    }
}

/// A row of the acceptance checks: what the prototype gave for the paper's decoder, and the limit.
fn check(found: &mut Found, row: Row, paper: f64, most: f64) {
    found.row(CHECKS, row.paper(paper).limit(Limit::AtMost(most)));
}

#[cfg(test)]
mod tests;
