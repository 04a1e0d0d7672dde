//! One bank tuned to its losses: mean, deviation, interval (section IV-A, fig. 4).

use anyhow::Result;
use measure::lda::{Bank, LdaLayout};
use rayon::prelude::*;

use super::{Bench, Delays, LOSSES, Loss, Outcome, mean_of, percent, runs, tuned, worst_of};
use crate::Findings;
use crate::table::{Curve, Figure, Limit, Row, Table};
use reporting::statistics::{median, percent_of};

/// Losses, traces of Pareto delays, coverages, queue.
pub(super) const STEPS: u64 = LOSSES.len() as u64 + PARETO_TRACES + COVERAGES.len() as u64 + 1;

/// Traces over which the deviation of Pareto delays is judged: a few packets make it.
const PARETO_TRACES: u64 = 8;

/// Where the interval is tried: loss, and the share that each of the equal banks samples.
const COVERAGES: [(f64, &[f64]); 4] = [
    (0.001, &[1.0]),
    (0.01, &[0.2]),
    (0.01, &[0.05, 0.2]),
    (0.1, &[0.02]),
];
/// Runs and packets of each.
const COVERAGE_RUNS: u32 = 400;
const COVERAGE_PACKETS: usize = 100_000;

pub(super) fn run(bench: &Bench<'_>, findings: &mut Findings) -> Result<()> {
    let sweep = sweep(bench)?;
    findings.tables.push(means(bench, &sweep));
    findings.tables.push(deviations(bench, &sweep)?);
    findings.tables.push(intervals(bench)?);
    findings.figures.push(errors_by_loss(&sweep));
    Ok(())
}

/// Runs at each loss rate with alpha = 1 and 0.5.
struct AtLoss {
    loss: f64,
    full: Vec<Outcome>,
    half: Vec<Outcome>,
}

fn sweep(bench: &Bench<'_>) -> Result<Vec<AtLoss>> {
    let stream = bench.stream(Delays::Weibull, 1)?;
    let seeds = bench.seeds(20);
    LOSSES
        .into_iter()
        .map(|loss| {
            let passed = stream.with(Loss::Uniform(loss), 2);
            let full = runs(&passed, &tuned(&passed, loss, 1.0)?, seeds);
            let half = runs(&passed, &tuned(&passed, loss, 0.5)?, seeds);
            (bench.step)();
            Ok(AtLoss { loss, full, half })
        })
        .collect()
}

fn means(bench: &Bench<'_>, sweep: &[AtLoss]) -> Table {
    let rows = sweep
        .iter()
        .map(|AtLoss { loss, full, half }| {
            // Fig. 4(a) in words: under 0.3 % up to 0.1 % of loss, under 4 % even at 20 %.
            let (paper, limit) = if *loss <= 0.001 {
                (Some(0.3), Some(Limit::AtMost(0.3)))
            } else if *loss >= 0.2 {
                (Some(4.0), Some(Limit::AtMost(5.0)))
            } else {
                (None, None)
            };
            Row::new(
                format!("error of the mean at {} loss", percent(*loss)),
                "%",
                mean_of(full, |run| run.mean_error),
            )
            .paper(paper)
            .limit(limit.and_then(|limit| bench.setting.judged(limit)))
            .other("worst run", worst_of(full, |run| run.mean_error))
            .other("alpha 0.5", mean_of(half, |run| run.mean_error))
            .other("samples", mean_of(full, |run| run.samples))
            .other("samples, alpha 0.5", mean_of(half, |run| run.samples))
        })
        .collect();
    Table {
        title: "LDA: mean delay, one bank tuned to the loss".to_owned(),
        about: format!(
            "{}; one bank of 1024 rows, p = alpha m / (L + 1) with alpha = 1; uniform loss; mean \
             of {} hash seeds on one trace (fig. 4a). The paper's figures are upper bounds given \
             in its text.",
            bench.packets_are(),
            bench.seeds(20)
        ),
        rows,
    }
}

fn deviations(bench: &Bench<'_>, sweep: &[AtLoss]) -> Result<Table> {
    let mut rows: Vec<Row> = sweep
        .iter()
        .map(|AtLoss { loss, full, half }| {
            let lightest = *loss <= 0.001;
            let limit = lightest.then(|| bench.setting.judged(Limit::AtMost(4.0)));
            Row::new(
                format!("error of the deviation at {} loss", percent(*loss)),
                "%",
                mean_of(full, |run| run.stddev_error),
            )
            .paper(10.0)
            .limit(limit.flatten())
            .other("eq. 5", mean_of(full, |run| run.stddev_paper_error))
            .other("alpha 0.5", mean_of(half, |run| run.stddev_error))
            .other(
                "eq. 5, alpha 0.5",
                mean_of(half, |run| run.stddev_paper_error),
            )
        })
        .collect();
    if bench.capture.is_none() {
        rows.push(pareto(bench)?);
        rows.push(queue(bench)?);
    }
    Ok(Table {
        title: "LDA: standard deviation, one bank tuned to the loss".to_owned(),
        about: format!(
            "The same runs. Ours: scatter of the cells' means; eq. 5: the paper's pairs of rows. \
             Pareto: median over {PARETO_TRACES} traces, since a few packets make a trace's \
             deviation. Queue: M/M/1 at 90 % load, so that neighbours wait alike. The paper's \
             figures are given in its text (fig. 4c): under 10 % for Weibull, 20 to 50 % for \
             Pareto."
        ),
        rows,
    })
}

fn pareto(bench: &Bench<'_>) -> Result<Row> {
    let loss = 0.001;
    let seeds = bench.seeds(20).min(5);
    let (mut ours, mut paper) = (Vec::new(), Vec::new());
    for trace in 0..PARETO_TRACES {
        let passed = bench
            .stream(Delays::Pareto, 100 + trace)?
            .with(Loss::Uniform(loss), 200 + trace);
        let runs = runs(&passed, &tuned(&passed, loss, 1.0)?, seeds);
        ours.push(mean_of(&runs, |run| run.stddev_error));
        paper.push(mean_of(&runs, |run| run.stddev_paper_error));
        (bench.step)();
    }
    Ok(Row::new(
        "error of the deviation, Pareto 3, at 0.1 % loss",
        "%",
        median(ours),
    )
    .paper(20.0)
    .limit(bench.setting.judged(Limit::AtMost(5.0)))
    .other("eq. 5", median(paper)))
}

fn queue(bench: &Bench<'_>) -> Result<Row> {
    let loss = 0.001;
    let passed = bench
        .stream(Delays::Queue, 300)?
        .with(Loss::Uniform(loss), 301);
    let runs = runs(&passed, &tuned(&passed, loss, 1.0)?, bench.seeds(20));
    (bench.step)();
    Ok(Row::new(
        "error of the deviation, one queue, at 0.1 % loss",
        "%",
        mean_of(&runs, |run| run.stddev_error),
    )
    .other("eq. 5", mean_of(&runs, |run| run.stddev_paper_error)))
}

fn intervals(bench: &Bench<'_>) -> Result<Table> {
    let mut rows = Vec::new();
    for (loss, shares) in COVERAGES {
        let banks: Vec<Bank> = shares
            .iter()
            .map(|&probability| Bank {
                rows: 256,
                probability,
            })
            .collect();
        let layout = LdaLayout::new(&banks)?;
        let outcomes: Vec<Outcome> = (0..u64::from(bench.seeds(COVERAGE_RUNS)))
            .into_par_iter()
            .map(|seed| {
                let stream = bench.stream_of(COVERAGE_PACKETS, Delays::Weibull, 1000 + seed)?;
                let passed = stream.with(Loss::Uniform(loss), 2000 + seed);
                Ok(passed.lda(&layout, 3000 + seed))
            })
            .collect::<Result<_>>()?;
        (bench.step)();
        let config = format!(
            "{} x 256 rows, p {}, {} loss",
            shares.len(),
            shares
                .iter()
                .map(f64::to_string)
                .collect::<Vec<_>>()
                .join(" and "),
            percent(loss)
        );
        rows.push(
            Row::new(
                format!("runs whose interval holds the mean: {config}"),
                "%",
                percent_of(outcomes.iter().map(|outcome| outcome.covered)),
            )
            .limit(bench.setting.judged(Limit::AtLeast(96.0))),
        );
        rows.push(
            Row::new(
                format!("width of the interval beside eq. 1: {config}"),
                "ratio",
                mean_of(&outcomes, |run| run.width_ratio),
            )
            .limit(bench.setting.judged(Limit::AtMost(0.8))),
        );
    }
    Ok(Table {
        title: "LDA: the 98 % interval".to_owned(),
        about: format!(
            "{} runs of {COVERAGE_PACKETS} packets each, every one with packets, losses and \
             hashes of its own (a capture: its packets, with other losses and hashes). Width: \
             beside that of the paper's equation 1 for the same deviation.",
            bench.seeds(COVERAGE_RUNS)
        ),
        rows,
    })
}

fn errors_by_loss(sweep: &[AtLoss]) -> Figure {
    let curve = |label: &str, figure: &dyn Fn(&AtLoss) -> f64| Curve {
        label: label.to_owned(),
        points: sweep
            .iter()
            .map(|at| (100.0 * at.loss, figure(at)))
            .collect(),
    };
    Figure {
        name: "lda-fig4".to_owned(),
        title: "LDA, one bank tuned to the loss: relative error".to_owned(),
        x_label: "loss (%)".to_owned(),
        y_label: "error (%)".to_owned(),
        x_log: true,
        curves: vec![
            curve("mean", &|at| mean_of(&at.full, |run| run.mean_error)),
            curve("mean, worst run", &|at| {
                worst_of(&at.full, |run| run.mean_error)
            }),
            curve("deviation", &|at| mean_of(&at.full, |run| run.stddev_error)),
            curve("deviation, eq. 5", &|at| {
                mean_of(&at.full, |run| run.stddev_paper_error)
            }),
        ],
    }
}
