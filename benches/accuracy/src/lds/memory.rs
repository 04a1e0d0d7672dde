//! Without loss: three memories, flows missing from the list, every flow exact (section 5.1).

use std::ops::Range;

use anyhow::Result;
use reporting::statistics::{mean, median, quantile};

use super::{ALL, HUNDREDS, MEMORY, PAPER, Seed, THOUSANDS, Tried, beside, check};
use crate::experiment::{Axis, Figure, Found, Row};
use crate::sketched::{Known, errors, means};
use crate::trace::Losses;
use crate::traffic::mix;

/// Lower ends of the bins of fig. 10.
pub(super) const SIZES: [f64; 7] = [1.0, 10.0, 100.0, 500.0, 1000.0, 10_000.0, f64::INFINITY];

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

/// Numbers of the figures: by size, by delay, and three of distributions.
pub(super) const BY_SIZE: usize = 0;
const BY_DELAY: usize = 1;
pub(super) const FIG_9: [(usize, Range<f64>); 3] = [(2, ALL), (3, HUNDREDS), (4, THOUSANDS)];

pub(super) fn figures() -> Vec<Figure> {
    let error = "relative error (%)";
    let size = ("packets of a flow", Axis::Logarithmic);
    let delay = ("delay / mean of all flows", Axis::Linear);
    let (by_size, by_delay) = (
        "LDS: error by size of the flow",
        "LDS: error by size and delay",
    );
    let distributions = [
        ("lds-fig9-all", "all flows"),
        ("lds-fig9-100", "flows of 100 packets and more"),
        ("lds-fig9-1000", "flows of 1000 packets and more"),
    ];
    let distributions = distributions
        .map(|(name, flows)| Figure::of_errors(name, format!("LDS: error of {flows}, 17500 x 4")));
    let by = [
        Figure::new("lds-fig10-by-size", by_size, size, error),
        Figure::new("lds-fig10-by-delay", by_delay, delay, error),
    ];
    by.into_iter().chain(distributions).collect()
}

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
        by_size(columns, &tried, &estimates, found);
        if columns == MEMORIES[0] {
            cdfs(&tried, &estimates, found);
            by_delay(&tried, &estimates, found);
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

/// Fig. 10, top.
fn by_size(columns: u32, tried: &Tried<'_>, estimates: &[Vec<f64>; 3], found: &mut Found) {
    for (name, decoder) in [("paper", OF_PAPER), ("joint K = 2", JOINT_2)] {
        for (of, share) in [("median", 0.5), ("95 %", 0.95)] {
            let points = SIZES.windows(2).map(|bin| {
                let errors = tried.errors(&estimates[decoder], bin[0]..bin[1]);
                (bin[0], quantile(errors, share))
            });
            let points = points.filter(|(_, error)| error.is_finite());
            let label = format!("{columns} x 4 {name}, {of}");
            found.curve(BY_SIZE, label, points.collect());
        }
    }
}

/// Fig. 9.
fn cdfs(tried: &Tried<'_>, estimates: &[Vec<f64>; 3], found: &mut Found) {
    let [paper, one, two] = estimates;
    for (figure, packets) in FIG_9 {
        for (label, estimates) in [("joint K = 2", two), ("joint K = 1", one), (PAPER, paper)] {
            found.cdf(figure, label, tried.errors(estimates, packets.clone()));
        }
    }
}

/// Fig. 10, bottom: bins by size and by delay beside the mean of all flows.
fn by_delay(tried: &Tried<'_>, estimates: &[Vec<f64>; 3], found: &mut Found) {
    let truth = &tried.truth;
    let all = mean(truth.flows(ALL).map(|flow| truth.mean_ns[flow]));
    for (packets, name) in [
        (1.0..100.0, "under 100"),
        (100.0..1000.0, "100-999"),
        (THOUSANDS, "1000 and more"),
    ] {
        for (decoder, which) in [("paper", OF_PAPER), ("joint K = 2", JOINT_2)] {
            let points = (5..20).filter_map(|tenth| {
                let from = f64::from(tenth) / 10.0;
                let bin = from * all..(from + 0.1) * all;
                let flows = truth.flows(packets.clone());
                let flows = flows.filter(|&flow| bin.contains(&truth.mean_ns[flow]));
                let errors = errors(&estimates[which], &truth.mean_ns, flows);
                (errors.len() >= 10).then(|| (from + 0.05, median(errors)))
            });
            let label = format!("{name} packets, {decoder}");
            found.curve(BY_DELAY, label, points.collect());
        }
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
