//! What else the cells tell: packets, losses, bytes, deviations (section 4.3).

use anyhow::Result;
use measure::lds::LdsLayout;

use super::Seed;
use super::job::{Job, Part, TableOf, checked, row_of_medians};
use crate::sketched::{Known, Sketched, columns_for, errors};
use crate::table::Row;
use crate::trace::{Losses, Truth};
use reporting::statistics::mean;

pub(super) const JOBS: [Job; 3] = [counts, losses, deviations];

/// Packets and bytes, 17500 x 4, nothing known but the flows' keys.
fn counts(seed: &Seed<'_>) -> Result<Vec<Part>> {
    let truth = &seed.truth;
    let columns = columns_for(&seed.trace, 17_500);
    let layout = LdsLayout::new(columns, 1, &[1.0; 4])?.with_bytes();
    let losses = Losses::None.on(&seed.trace, seed.number);
    let sketched = Sketched::new(&seed.trace, &layout, &losses, |_| 0);
    let decoded = sketched.joint(Known {
        components: 1,
        ..Known::default()
    })?;
    let packets: Vec<f64> = decoded.flows.iter().map(|flow| flow.packets).collect();
    let delays: Vec<f64> = decoded.flows.iter().map(|flow| flow.mean_ticks).collect();
    let mined = |figure: &dyn Fn(&[u32]) -> Option<u64>| -> Vec<f64> {
        (0..sketched.flows())
            .map(|flow| figure(sketched.columns_of(flow)).map_or(f64::NAN, |figure| figure as f64))
            .collect()
    };
    let count_min = mined(&|columns| sketched.cells.packets_at(columns));
    let bytes = mined(&|columns| sketched.cells.bytes_at(columns));
    let of = |estimates: &[f64], truth_of: &[f64], least: f64| {
        errors(estimates, truth_of, truth.flows_of(least))
    };
    let row = |least: f64, name: &str| {
        row_of_medians(
            format!("packets of a flow, decoded, 17500 x 4: {name}"),
            of(&packets, &truth.received, least),
            vec![("count-min", of(&count_min, &truth.received, least))],
        )
    };
    let delays_row = |least: f64, name: &str| {
        row_of_medians(
            format!("delay, counts decoded, 17500 x 4, K = 1: {name}"),
            of(&delays, &truth.mean_ns, least),
            vec![(
                "paper's decoder",
                of(&sketched.paper(), &truth.mean_ns, least),
            )],
        )
    };
    let bytes = row_of_medians(
        "bytes of a flow, least of its cells, 17500 x 4: >= 100 packets",
        of(&bytes, &truth.bytes, 100.0),
        vec![],
    );
    let rows = [
        row(1000.0, ">= 1000 packets"),
        delays_row(100.0, ">= 100 packets"),
        delays_row(1000.0, ">= 1000 packets"),
        bytes,
    ];
    let check = checked(seed, row(100.0, ">= 100 packets"), 15.9, 2.5);
    let rows = rows.map(|row| Part::Row(TableOf::Mined, row));
    Ok(std::iter::once(check).chain(rows).collect())
}

/// Losses of a flow at 1 % in all.
fn losses(seed: &Seed<'_>) -> Result<Vec<Part>> {
    let columns = columns_for(&seed.trace, 17_500);
    let layout = LdsLayout::new(columns, 1, &[1.0; 4])?;
    let mask = Losses::Uniform(0.01).on(&seed.trace, seed.number);
    let truth = Truth::of(&seed.trace, &mask);
    let sketched = Sketched::new(&seed.trace, &layout, &mask, |_| 0);
    let apart: Vec<f64> = truth
        .flows_of(1000.0)
        .map(|flow| {
            let lost = sketched.cells.lost_at(sketched.columns_of(flow));
            let truly = truth.sent[flow] - truth.received[flow];
            lost.map_or(f64::NAN, |lost| {
                (lost as f64 - truly).abs() / truth.sent[flow]
            })
        })
        .collect();
    let row = Row::new(
        "lost share of a flow at 1 % loss, least of its cells: >= 1000 packets, apart by (mean)",
        "% of packets",
        100.0 * mean(apart),
    );
    Ok(vec![Part::Row(TableOf::Mined, row)])
}

/// Deviation of a flow's packets: LDA's, over the k cells of the flow.
fn deviations(seed: &Seed<'_>) -> Result<Vec<Part>> {
    let columns = columns_for(&seed.trace, 17_500);
    let losses = Losses::None.on(&seed.trace, seed.number);
    [5, 20]
        .into_iter()
        .map(|k| {
            let layout = LdsLayout::new(columns * k, k, &[1.0; 4])?;
            let sketched = Sketched::new(&seed.trace, &layout, &losses, |_| 0);
            let stddev: Vec<f64> = (0..sketched.flows())
                .map(|flow| {
                    let variance = sketched.cells.variance_at(sketched.columns_of(flow));
                    variance.map_or(f64::NAN, f64::sqrt)
                })
                .collect();
            let truth = &seed.truth;
            let errors = errors(&stddev, &truth.stddev_ns, truth.flows_of(1000.0));
            let check = format!(
                "deviation of a flow, k = {k}, {} x 4: >= 1000 packets",
                17_500 * k
            );
            Ok(Part::Row(
                TableOf::Mined,
                row_of_medians(check, errors, vec![]),
            ))
        })
        .collect()
}
