//! Without loss: three memories, flows missing from the list, every flow exact (section 5.1).

use std::ops::Range;

use anyhow::Result;
use reporting::statistics::{median, quantile};

use super::{ALL, HUNDREDS, MEMORY, PAPER, Seed, THOUSANDS, Tried, beside, check};
use crate::experiment::{Found, Row};
use crate::sketched::{Known, errors, means};
use crate::trace::Losses;
use crate::traffic::mix;

/// Columns: the reference, a tenth and ten times its memory.
const MEMORIES: [u32; 3] = [17_500, 1_750, 175_000];

/// Decoders, with the numbers of their estimates.
const OF_PAPER: usize = 0;
const JOINT_1: usize = 1;
const JOINT_2: usize = 2;
const DECODERS: [&str; 3] = [PAPER, "K = 1", "K = 2"];

/// A limit on a decoder's median error.
struct Check {
    columns: u32,
    decoder: usize,
    /// Decoders beside it.
    beside: &'static [usize],
    packets: Range<f64>,
    name: &'static str,
    paper: f64,
    most: f64,
    /// What the prototype gives for the same.
    prototype: Option<f64>,
}

/// Of the paper's decoder: its own figures (section 5.1).
const fn of_paper(
    packets: Range<f64>,
    name: &'static str,
    paper: f64,
    most: f64,
    prototype: f64,
) -> Check {
    Check {
        columns: 17_500,
        decoder: OF_PAPER,
        beside: &[],
        packets,
        name,
        paper,
        most,
        prototype: Some(prototype),
    }
}

const fn joint(
    decoder: usize,
    packets: Range<f64>,
    name: &'static str,
    paper: f64,
    most: f64,
) -> Check {
    Check {
        columns: 17_500,
        decoder,
        beside: &[OF_PAPER],
        packets,
        name,
        paper,
        most,
        prototype: None,
    }
}

const CHECKS: [Check; 8] = [
    of_paper(500.0..1000.0, "500-999", 1.2, 1.5, 1.31),
    of_paper(1000.0..10_000.0, "1000-9999", 0.4, 0.7, 0.58),
    of_paper(10_000.0..f64::INFINITY, ">= 10000", 0.06, 0.1, 0.074),
    joint(JOINT_1, HUNDREDS, ">= 100", 2.0, 0.32),
    joint(JOINT_2, HUNDREDS, ">= 100", 2.0, 0.24),
    joint(JOINT_1, THOUSANDS, ">= 1000", 0.48, 0.035),
    joint(JOINT_2, THOUSANDS, ">= 1000", 0.48, 0.027),
    Check {
        columns: 1_750,
        beside: &[JOINT_1, OF_PAPER],
        ..joint(JOINT_2, HUNDREDS, ">= 100", 12.0, 2.3)
    },
];

pub(super) fn run(seed: &Seed, found: &mut Found) -> Result<()> {
    for columns in MEMORIES {
        let tried = seed.sketch(&seed.layout(columns, 1, &[1.0; 4])?, Losses::None);
        let decoded = [tried.joint(1)?, tried.joint(2)?];
        for (k, decoded) in (1..).zip(&decoded) {
            tried.bounds(&format!("{columns} x 4, K = {k}"), decoded, found);
        }
        let [one, two] = decoded.map(|decoded| means(&decoded));
        let estimates = [tried.sketched.paper(), one, two];
        checks(columns, &tried, &estimates, found);
        if columns == MEMORIES[0] {
            beside::run(
                seed,
                &tried,
                &estimates[JOINT_2],
                &estimates[OF_PAPER],
                found,
            );
        }
    }
    exact(seed, found)?;
    missing(seed, found)
}

/// Rows that each memory has, and the limits on it.
fn checks(columns: u32, tried: &Tried<'_>, estimates: &[Vec<f64>; 3], found: &mut Found) {
    let median = |decoder: usize, packets| tried.median(&estimates[decoder], packets);
    for of in CHECKS.iter().filter(|check| check.columns == columns) {
        let decoder = match of.decoder {
            OF_PAPER => PAPER.to_owned(),
            k => format!("joint K = {k}"),
        };
        let name = format!("{decoder}, {columns} x 4: {} packets", of.name);
        let row = Row::new(name, "%", median(of.decoder, of.packets.clone()));
        let beside = of.beside.iter();
        let beside = beside.map(|&other| (DECODERS[other], median(other, of.packets.clone())));
        let prototype = of.prototype.map(|figure| ("prototype", figure));
        check(
            found,
            row.others(beside).others(prototype),
            of.paper,
            of.most,
        );
    }
    for (packets, name) in [
        (ALL, "all flows"),
        (HUNDREDS, ">= 100 packets"),
        (THOUSANDS, ">= 1000"),
    ] {
        let name = format!("{columns} x 4: {name}");
        let row = Row::new(name, "%", median(JOINT_2, packets.clone()));
        let beside = [JOINT_1, OF_PAPER];
        let beside = beside.map(|other| (DECODERS[other], median(other, packets.clone())));
        found.row(MEMORY, row.others(beside));
    }
}

/// R = 3 and three flows for four cells: under the threshold of peeling, nothing is left to guess.
fn exact(seed: &Seed, found: &mut Found) -> Result<()> {
    let tried = seed.sketch(&seed.layout(64_889, 1, &[1.0; 3])?, Losses::None);
    let errors = tried.errors(&means(&tried.joint(1)?), ALL);
    let name = "R = 3, flows / cells 0.75: largest error of any flow";
    let paper = tried.median(&tried.sketched.paper(), ALL);
    let row = Row::new(name, "%", quantile(errors, 1.0));
    check(
        found,
        row.other(format!("{PAPER}, median"), paper),
        3.3,
        1e-4,
    );
    Ok(())
}

fn missing(seed: &Seed, found: &mut Found) -> Result<()> {
    let is_listed = |flow: usize| !mix(!seed.number ^ flow as u64).is_multiple_of(10);
    let listed: Vec<usize> = (0..seed.trace.flows())
        .filter(|&flow| is_listed(flow))
        .collect();
    let tried = seed.sketch(&seed.layout(17_500, 1, &[1.0; 4])?, Losses::None);
    let sketched = tried.sketched.listing(&listed);
    let pick = |figures: &[f64]| -> Vec<f64> { listed.iter().map(|&flow| figures[flow]).collect() };
    let (packets, mean_ns) = (pick(&seed.truth.received), pick(&seed.truth.mean_ns));
    let known = Known {
        packets: Some(&packets),
        ..Known::default()
    };
    let error = |estimates: &[f64]| {
        let flows = (0..listed.len()).filter(|&flow| packets[flow] >= 1000.0);
        median(errors(estimates, &mean_ns, flows))
    };
    let name = "10 % of flows missing from the list, K = 1: >= 1000 packets";
    let row = Row::new(name, "%", error(&means(&sketched.joint(1, known)?)));
    let others = [
        ("K = 2", error(&means(&sketched.joint(2, known)?))),
        (PAPER, error(&sketched.paper())),
    ];
    check(found, row.others(others), 0.4, 0.04);
    Ok(())
}
