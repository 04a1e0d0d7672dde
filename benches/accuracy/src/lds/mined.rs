//! What else can be read from the cells: packets, losses, deviations (section 4.3).

mod heavy;

use std::ops::Range;

use anyhow::Result;
use measure::lds::LdsLayout;
use reporting::statistics::{mean, median};

use super::{HUNDREDS, MINED, PAPER, Seed, THOUSANDS, check};
use crate::experiment::{Found, Row};
use crate::sketched::{Known, columns_for, errors, means};
use crate::trace::Losses;

pub(super) fn run(seed: &Seed, found: &mut Found) -> Result<()> {
    counts(seed, found)?;
    losses(seed, found)?;
    for k in [5, 20] {
        deviations(seed, k, found)?;
    }
    Ok(())
}

/// Packets, 17500 x 4, nothing known but the flows' keys.
fn counts(seed: &Seed, found: &mut Found) -> Result<()> {
    let layout = seed.layout(17_500, 1, &[1.0; 4])?;
    let tried = seed.sketch(&layout, Losses::None);
    let (sketched, truth) = (&tried.sketched, &tried.truth);
    let decoded = sketched.joint(1, Known::default())?;
    let packets: Vec<f64> = decoded.flows.iter().map(|flow| flow.packets).collect();
    let delays = means(&decoded);
    let count_min = sketched.each(|columns| {
        let packets = sketched.cells.packets_at(columns);
        packets.map_or(f64::NAN, |packets| packets as f64)
    });
    let error = |estimates: &[f64], truth_of: &[f64], packets: &Range<f64>| {
        median(errors(estimates, truth_of, truth.flows(packets.clone())))
    };
    let named = [(HUNDREDS, ">= 100 packets"), (THOUSANDS, ">= 1000 packets")];
    let [hundreds, thousands] = named.each_ref().map(|(flows, name)| {
        let name = format!("packets of a flow, decoded, 17500 x 4: {name}");
        let row = Row::new(name, "%", error(&packets, &truth.received, flows));
        row.other("count-min", error(&count_min, &truth.received, flows))
    });
    check(found, hundreds, 15.9, 2.5);
    found.row(MINED, thousands);
    let paper = sketched.paper();
    for (flows, name) in &named {
        let name = format!("delay, counts decoded, 17500 x 4, K = 1: {name}");
        let row = Row::new(name, "%", error(&delays, &truth.mean_ns, flows));
        found.row(
            MINED,
            row.other(PAPER, error(&paper, &truth.mean_ns, flows)),
        );
    }
    heavy::run(&tried, &packets, &count_min, found);
    Ok(())
}

/// Losses of a flow at 1 % in all.
fn losses(seed: &Seed, found: &mut Found) -> Result<()> {
    let layout = seed.layout(17_500, 1, &[1.0; 4])?;
    let tried = seed.sketch(&layout, Losses::Uniform(0.01));
    let truth = &tried.truth;
    let apart = truth.flows(THOUSANDS).map(|flow| {
        let lost = tried
            .sketched
            .cells
            .lost_at(tried.sketched.columns_of(flow));
        let truly = truth.sent[flow] - truth.received[flow];
        lost.map_or(f64::NAN, |lost| {
            (lost as f64 - truly).abs() / truth.sent[flow]
        })
    });
    let name =
        "lost share of a flow at 1 % loss, least of its cells: >= 1000 packets, apart by (mean)";
    found.row(MINED, Row::new(name, "% of packets", 100.0 * mean(apart)));
    Ok(())
}

/// Deviation of a flow's packets: LDA's, over the k cells of the flow.
fn deviations(seed: &Seed, k: u32, found: &mut Found) -> Result<()> {
    let columns = columns_for(&seed.trace, 17_500);
    let layout = LdsLayout::new(columns * k, k, &[1.0; 4])?;
    let tried = seed.sketch(&layout, Losses::None);
    let stddev = tried.sketched.each(|columns| {
        let variance = tried.sketched.cells.variance_at(columns);
        variance.map_or(f64::NAN, f64::sqrt)
    });
    let errors = errors(
        &stddev,
        &tried.truth.stddev_ns,
        tried.truth.flows(THOUSANDS),
    );
    let name = format!(
        "deviation of a flow, k = {k}, {} x 4: >= 1000 packets",
        17_500 * k
    );
    found.row(MINED, Row::new(name, "%", median(errors)));
    Ok(())
}
