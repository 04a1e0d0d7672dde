//! Under loss: k = 5 and rows that sample (section 5.2, fig. 11).

use anyhow::Result;
use reporting::statistics::{median, percent_of};

use super::{ALL, HUNDREDS, LOSS, PAPER, Seed, THOUSANDS, Tried, check};
use crate::experiment::{Figure, Found, Row};
use crate::sketched::means;
use crate::trace::Losses;

/// The rows of the paper's multi-bank sketch.
const MULTIBANK: [f64; 4] = [0.01, 0.1, 0.5, 1.0];

struct AtLoss {
    losses: Losses,
    name: &'static str,
    /// What the prototype gave for the paper's decoder, and the limit.
    check: Option<(f64, f64)>,
    /// Name of the figure, and its title.
    figure: (&'static str, &'static str),
}

const LOSSES: [AtLoss; 4] = [
    AtLoss {
        losses: Losses::Uniform(0.001),
        name: "0.1 % loss",
        check: Some((3.3, 0.3)),
        figure: ("lds-fig11-0.1", "0.1 % uniform loss"),
    },
    AtLoss {
        losses: Losses::Uniform(0.005),
        name: "0.5 % loss",
        check: Some((3.5, 0.65)),
        figure: ("lds-fig11-0.5", "0.5 % uniform loss"),
    },
    AtLoss {
        losses: Losses::Uniform(0.01),
        name: "1 % loss",
        check: Some((3.7, 1.0)),
        figure: ("lds-fig11-1", "1 % uniform loss"),
    },
    AtLoss {
        losses: Losses::Episodes(0.01),
        name: "1 % loss in episodes of 100 packets",
        check: None,
        figure: ("lds-fig11-episodes", "1 % loss in episodes"),
    },
];

/// Number of the first of the figures.
const FIG_11: usize = 5;

pub(super) fn figures() -> Vec<Figure> {
    let figures = LOSSES.iter().map(
        |AtLoss {
             figure: (name, title),
             ..
         }| {
            Figure::of_errors(
                *name,
                format!("LDS: {title}, flows of 1000 packets and more"),
            )
        },
    );
    figures.collect()
}

pub(super) fn run(seed: &Seed, found: &mut Found) -> Result<()> {
    for (figure, at) in (FIG_11..).zip(&LOSSES) {
        multibank(seed, at, figure, found)?;
    }
    for probability in [0.05, 1.0] {
        for (figure, at) in (FIG_11..).zip(&LOSSES) {
            single(seed, at, probability, figure, found)?;
        }
    }
    Ok(())
}

fn sketch<'s>(seed: &'s Seed, at: &AtLoss, probabilities: &[f64; 4]) -> Result<Tried<'s>> {
    Ok(seed.sketch(&seed.layout(87_500, 5, probabilities)?, at.losses))
}

fn multibank(seed: &Seed, at: &AtLoss, figure: usize, found: &mut Found) -> Result<()> {
    let tried = sketch(seed, at, &MULTIBANK)?;
    let (one, two) = (tried.joint(1)?, tried.joint(2)?);
    let (estimates, paper) = (means(&one), tried.sketched.paper());
    let rows = format!("rows .01/.1/.5/1, {}", at.name);
    let joint_errors = tried.errors(&estimates, THOUSANDS);
    let paper_errors = tried.errors(&paper, THOUSANDS);
    let name = format!(
        "k = 5, rows .01/.1/.5/1, K = 1, {}: >= 1000 packets",
        at.name
    );
    let row = Row::new(name, "%", median(joint_errors.iter().copied())).others([
        ("K = 2", tried.median(&means(&two), THOUSANDS)),
        (PAPER, median(paper_errors.iter().copied())),
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
    found.cdf(figure, "four banks, joint", joint_errors);
    found.cdf(figure, "four banks, paper", paper_errors);
    Ok(())
}

fn single(
    seed: &Seed,
    at: &AtLoss,
    probability: f64,
    figure: usize,
    found: &mut Found,
) -> Result<()> {
    let tried = sketch(seed, at, &[probability; 4])?;
    let joint = tried.errors(&means(&tried.joint(1)?), THOUSANDS);
    let paper = tried.errors(&tried.sketched.paper(), THOUSANDS);
    // Large flows with no cell that can be read.
    let unread = percent_of(tried.truth.flows(THOUSANDS).map(|flow| {
        let columns = tried.sketched.columns_of(flow);
        tried.sketched.cells.estimate_at(columns).is_none()
    }));
    let name = format!("one bank, p = {probability}, {}: >= 1000 packets", at.name);
    let row = Row::new(name, "%", median(joint.iter().copied())).others([
        (PAPER, median(paper.iter().copied())),
        ("flows without a cell (%)", unread),
    ]);
    found.row(LOSS, row);
    found.cdf(figure, format!("p = {probability}, joint"), joint);
    found.cdf(figure, format!("p = {probability}, paper"), paper);
    Ok(())
}
