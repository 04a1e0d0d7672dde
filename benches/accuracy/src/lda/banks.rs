//! Several banks for losses that are not known beforehand (section IV-B, fig. 5), and beside
//! active probes under bursty loss (section IV-C, fig. 6).

use anyhow::Result;
use measure::lda::{Bank, LdaLayout};
use rayon::prelude::*;

use super::{
    Bench, Delays, LOSSES, Loss, Outcome, Passed, mean_of, percent, runs, tuned, worst_of,
};
use crate::Findings;
use crate::table::{Curve, Figure, Row, Table};
use reporting::statistics::{error_percent, mean, whole};

/// Losses of both tables.
pub(super) const STEPS: u64 = LOSSES.len() as u64 + EPISODE_LOSSES.len() as u64;

/// Banks of equal size and the losses that each is tuned to.
const REFERENCES: [(&str, u32, &[f64]); 3] = [
    ("2 x 512", 512, &[0.005, 0.1]),
    ("3 x 341", 341, &[0.001, 0.01, 0.1]),
    ("4 x 256", 256, &[0.001, 0.01, 0.05, 0.1]),
];

/// Loss rates of fig. 6, and the largest error that the paper quotes in per cent.
const EPISODE_LOSSES: [(f64, Option<f64>); 5] = [
    (0.0005, None),
    (0.0016, Some(0.17)),
    (0.005, None),
    (0.02, None),
    (0.1, None),
];
/// Probes a second; an epoch is one second.
const PROBES: [(&str, f64); 3] = [
    ("7 Hz probes", 7.0),
    ("144 Hz probes", 144.0),
    ("10 kHz probes", 10_000.0),
];

pub(super) fn run(bench: &Bench<'_>, findings: &mut Findings) -> Result<()> {
    references(bench, findings)?;
    findings.tables.push(episodes(bench)?);
    Ok(())
}

/// One figure of a run.
type FigureOf = fn(&Outcome) -> f64;

/// A reference configuration for this many packets.
fn layout(rows: u32, losses: &[f64], packets: usize) -> Result<LdaLayout> {
    let banks: Vec<Bank> = losses
        .iter()
        .map(|loss| Bank::for_losses(rows, whole(packets as f64 * loss) as u64, 0.5))
        .collect();
    Ok(LdaLayout::new(&banks)?)
}

fn references(bench: &Bench<'_>, findings: &mut Findings) -> Result<()> {
    let stream = bench.stream(Delays::Weibull, 11)?;
    let seeds = bench.seeds(10);
    let names: Vec<&str> = REFERENCES.iter().map(|&(name, ..)| name).collect();
    let mut sweep: Vec<(f64, Vec<Outcome>, Vec<Vec<Outcome>>)> = Vec::new();
    for loss in LOSSES {
        let passed = stream.with(Loss::Uniform(loss), 12);
        let optimal = runs(&passed, &tuned(&passed, loss, 0.5)?, seeds);
        let several = REFERENCES
            .iter()
            .map(|&(_, rows, losses)| {
                Ok(runs(&passed, &layout(rows, losses, passed.sent())?, seeds))
            })
            .collect::<Result<_>>()?;
        sweep.push((loss, optimal, several));
        (bench.step)();
    }
    let figures: [(&str, &'static str, FigureOf); 3] = [
        ("effective samples", "packets", |run| run.samples),
        ("error of the mean", "%", |run| run.mean_error),
        ("error of the deviation", "%", |run| run.stddev_error),
    ];
    let mut rows = Vec::new();
    for (what, unit, figure) in figures {
        for (loss, optimal, several) in &sweep {
            let check = format!("{what} at {} loss: 1 x 1024, tuned", percent(*loss));
            let row = Row::new(check, unit, mean_of(optimal, figure));
            let others = names.iter().zip(several);
            rows.push(others.fold(row, |row, (&name, runs)| {
                row.other(name, mean_of(runs, figure))
            }));
        }
    }
    findings.tables.push(Table {
        title: "LDA: banks for unknown loss".to_owned(),
        about: format!(
            "{}; 1024 rows in all: one bank tuned to the loss beside the paper's reference \
             configurations (2 x 512 tuned to 0.5 and 10 %; 3 x 341 to 0.1, 1 and 10 %; 4 x 256 \
             to 0.1, 1, 5 and 10 %), alpha = 0.5; mean of {seeds} hash seeds (fig. 5).",
            bench.packets_are()
        ),
        rows,
    });
    let curves = std::iter::once("1 x 1024, tuned")
        .chain(names)
        .enumerate()
        .map(|(n, label)| Curve {
            label: label.to_owned(),
            points: sweep
                .iter()
                .filter_map(|(loss, optimal, several)| {
                    let runs = n.checked_sub(1).map_or(Some(optimal), |n| several.get(n))?;
                    Some((100.0 * loss, mean_of(runs, |run| run.mean_error)))
                })
                .collect(),
        })
        .collect();
    findings.figures.push(Figure {
        name: "lda-fig5".to_owned(),
        title: "LDA of 1024 rows in several banks: error of the mean".to_owned(),
        x_label: "loss (%)".to_owned(),
        y_label: "error (%)".to_owned(),
        x_log: true,
        curves,
    });
    Ok(())
}

/// Errors of the mean from probes, one for each seed.
fn probes(passed: &Passed, count: f64, seeds: u32) -> Vec<f64> {
    (0..u64::from(seeds))
        .into_par_iter()
        .map(|seed| error_percent(passed.probe(count, seed), passed.mean))
        .collect()
}

fn episodes(bench: &Bench<'_>) -> Result<Table> {
    let stream = bench.stream(Delays::Weibull, 21)?;
    let seeds = bench.seeds(10);
    let mut rows = Vec::new();
    for (loss, paper) in EPISODE_LOSSES {
        let passed = stream.with(Loss::Episodes(loss), 22);
        let runs = runs(&passed, &layout(512, &[0.005, 0.1], passed.sent())?, seeds);
        let probes = PROBES.map(|(name, count)| (name, probes(&passed, count, seeds)));
        (bench.step)();

        let at = percent(loss);
        let mut row = Row::new(
            format!("error of the mean at {at} loss"),
            "%",
            mean_of(&runs, |run| run.mean_error),
        );
        let mut worst = Row::new(
            format!("error of the mean at {at} loss, worst run"),
            "%",
            worst_of(&runs, |run| run.mean_error),
        )
        .paper(paper);
        for (name, errors) in probes {
            row = row.other(name, mean(errors.iter().copied()));
            worst = worst.other(name, errors.into_iter().fold(0.0, f64::max));
        }
        let deviation = Row::new(
            format!("error of the deviation at {at} loss"),
            "%",
            mean_of(&runs, |run| run.stddev_error),
        )
        .other("eq. 5", mean_of(&runs, |run| run.stddev_paper_error));
        rows.extend([row, worst, deviation]);
    }
    Ok(Table {
        title: "LDA beside active probes, losses in episodes".to_owned(),
        about: format!(
            "{}; 2 x 512 rows tuned to 0.5 and 10 % loss; episodes of about 100 packets; {seeds} \
             runs (fig. 6). The paper tells of a largest error of 0.17 % at 0.16 % loss, of 87 % \
             at 7 Hz, 13 % at 144 Hz and 0.15 % at 10 kHz. No sample of this size can tell so \
             much of delays that spread 1.75 times as far as their mean: 10,000 probes give it to \
             1.75 % (standard error), and banks tuned to 0.5 % loss keep 50,000 packets. Probes do not disturb the packets.",
            bench.packets_are()
        ),
        rows,
    })
}
