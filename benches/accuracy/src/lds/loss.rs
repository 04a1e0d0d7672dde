//! Under loss: k = 5 and rows that sample (section 5.2, fig. 11).

use anyhow::Result;
use reporting::statistics::percent_of;

use super::{ALL, HUNDREDS, LOSS, PAPER, Seed, THOUSANDS, Tried, check};
use crate::experiment::{Found, Row};
use crate::sketched::means;
use crate::trace::Losses;

/// The rows of the paper's multi-bank sketch.
const MULTIBANK: [f64; 4] = [0.01, 0.1, 0.5, 1.0];

struct AtLoss {
    losses: Losses,
    name: &'static str,
    /// What the prototype gave for the paper's decoder, and the limit.
    check: Option<(f64, f64)>,
}

const LOSSES: [AtLoss; 4] = [
    AtLoss {
        losses: Losses::Uniform(0.001),
        name: "0.1 % loss",
        check: Some((3.3, 0.3)),
    },
    AtLoss {
        losses: Losses::Uniform(0.005),
        name: "0.5 % loss",
        check: Some((3.5, 0.65)),
    },
    AtLoss {
        losses: Losses::Uniform(0.01),
        name: "1 % loss",
        check: Some((3.7, 1.0)),
    },
    AtLoss {
        losses: Losses::Episodes(0.01),
        name: "1 % loss in episodes of 100 packets",
        check: None,
    },
];

pub(super) fn run(seed: &Seed, found: &mut Found) -> Result<()> {
    for at in &LOSSES {
        multibank(seed, at, found)?;
    }
    for probability in [0.05, 1.0] {
        for at in &LOSSES {
            single(seed, at, probability, found)?;
        }
    }
    Ok(())
}

fn sketch<'s>(seed: &'s Seed, at: &AtLoss, probabilities: &[f64; 4]) -> Result<Tried<'s>> {
    Ok(seed.sketch(&seed.layout(87_500, 5, probabilities)?, at.losses))
}

fn multibank(seed: &Seed, at: &AtLoss, found: &mut Found) -> Result<()> {
    let tried = sketch(seed, at, &MULTIBANK)?;
    let (one, two) = (tried.joint(1)?, tried.joint(2)?);
    let (estimates, paper) = (means(&one), tried.sketched.paper());
    let rows = format!("rows .01/.1/.5/1, {}", at.name);
    let name = format!(
        "k = 5, rows .01/.1/.5/1, K = 1, {}: >= 1000 packets",
        at.name
    );
    let row = Row::new(name, "%", tried.median(&estimates, THOUSANDS)).others([
        ("K = 2", tried.median(&means(&two), THOUSANDS)),
        (PAPER, tried.median(&paper, THOUSANDS)),
    ]);
    match at.check {
        Some((paper, most)) => check(found, row, paper, most),
        None => found.row(LOSS, row),
    }
    for (packets, name) in [(HUNDREDS, ">= 100 packets"), (ALL, "all flows")] {
        let ours = tried.median(&estimates, packets.clone());
        let row = Row::new(format!("{rows}: {name}"), "%", ours);
        found.row(LOSS, row.other(PAPER, tried.median(&paper, packets)));
    }
    for (k, decoded) in [(1, &one), (2, &two)] {
        tried.bounds(&format!("k = 5, {rows}, K = {k}"), decoded, found);
    }
    Ok(())
}

fn single(seed: &Seed, at: &AtLoss, probability: f64, found: &mut Found) -> Result<()> {
    let tried = sketch(seed, at, &[probability; 4])?;
    let joint = tried.median(&means(&tried.joint(1)?), THOUSANDS);
    let paper = tried.median(&tried.sketched.paper(), THOUSANDS);
    // Large flows with no cell that can be read.
    let unread = percent_of(tried.truth.flows(THOUSANDS).map(|flow| {
        let columns = tried.sketched.columns_of(flow);
        tried.sketched.cells.estimate_at(columns).is_none()
    }));
    let name = format!("one bank, p = {probability}, {}: >= 1000 packets", at.name);
    let row =
        Row::new(name, "%", joint).others([(PAPER, paper), ("flows without a cell (%)", unread)]);
    found.row(LOSS, row);
    Ok(())
}
