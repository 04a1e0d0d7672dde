//! Several banks: for losses that are not known beforehand (section IV-B, fig. 5), beside active
//! probes under bursty loss (section IV-C, fig. 6), and such as follow the losses.

use std::sync::Arc;

use anyhow::Result;
use measure::lda::adaptive::{AdaptiveLda, AdaptiveOptions};
use reporting::Limit;
use reporting::statistics::{error_percent, mean, whole};

use super::stream::{Delays, Loss, Outcome, Passed};
use super::{Bench, LOSSES, ROWS, Runs, layout, percent, tuned};
use crate::experiment::{Found, Plan, Row};

/// Banks of equal size and the losses that each is tuned to.
const REFERENCES: [(&str, u32, &[f64]); 3] = [
    ("2 x 512", 512, &[0.005, 0.1]),
    ("3 x 341", 341, &[0.001, 0.01, 0.1]),
    ("4 x 256", 256, &[0.001, 0.01, 0.05, 0.1]),
];

/// Loss rates of fig. 6, and the largest error that the paper quotes in per cent.
pub(super) const EPISODE_LOSSES: [(f64, Option<f64>); 5] = [
    (0.0005, None),
    (0.0016, Some(0.17)),
    (0.005, None),
    (0.02, None),
    (0.1, None),
];
/// Probes a second; an epoch is one second.
pub(super) const PROBES: [(&str, f64); 3] = [
    ("7 Hz probes", 7.0),
    ("144 Hz probes", 144.0),
    ("10 kHz probes", 10_000.0),
];

/// Losses of the schedule that adaptive banks follow, each for [`EPOCHS`] epochs.
const SCHEDULE: [f64; 5] = [0.0, 0.001, 0.01, 0.1, 0.001];
const EPOCHS: usize = 10;
/// Epochs after each change that are not judged.
const SETTLING: usize = 2;
/// Packets of an epoch at scale 1.
const PACKETS: f64 = 1_000_000.0;
/// Streams of the whole schedule, and hash seeds that each epoch is measured with.
const STREAMS: u32 = 3;
const HASHES: u32 = 5;

/// Numbers of the tables.
const UNKNOWN: usize = 3;
const BESIDE_PROBES: usize = 4;
const ADAPTIVE: usize = 5;

/// One figure of a run.
type FigureOf = fn(&Outcome) -> f64;

pub(super) fn plan(bench: &Arc<Bench>, plan: &mut Plan) -> Result<()> {
    let setting = &bench.setting;
    let (seeds, streams) = (setting.seeds(10), setting.seeds(STREAMS).min(STREAMS));
    tables(bench, seeds, streams, plan);
    let stream = Arc::new(bench.stream(Delays::Weibull, 11)?);
    for loss in LOSSES {
        let stream = Arc::clone(&stream);
        plan.case(1, move |_, found| {
            let passed = stream.with(Loss::Uniform(loss), 12);
            references(loss, &passed, seeds, found)
        });
    }
    let stream = Arc::new(bench.stream(Delays::Weibull, 21)?);
    for (loss, paper) in EPISODE_LOSSES {
        let stream = Arc::clone(&stream);
        plan.case(1, move |_, found| {
            let passed = stream.with(Loss::Episodes(loss), 22);
            beside_probes(loss, paper, &passed, seeds, found)
        });
    }
    let bench = Arc::clone(bench);
    plan.case(streams, move |stream, found| {
        adaptive(&bench, stream, found)
    });
    Ok(())
}

fn tables(bench: &Bench, seeds: u32, streams: u32, plan: &mut Plan) {
    plan.table(
        "LDA: banks for unknown loss",
        format!(
            "{}; 1024 rows in all: one bank tuned to the loss beside the paper's reference \
             configurations (2 x 512 tuned to 0.5 and 10 %; 3 x 341 to 0.1, 1 and 10 %; 4 x 256 \
             to 0.1, 1, 5 and 10 %), alpha = 0.5; mean of {seeds} hash seeds (fig. 5).",
            bench.packets_are()
        ),
    );
    plan.table(
        "LDA beside active probes, losses in episodes",
        format!(
            "{}; 2 x 512 rows tuned to 0.5 and 10 % loss; episodes of about 100 packets; {seeds} \
             runs (fig. 6). The paper has a largest error of 0.17 % at 0.16 % loss, of 87 % \
             at 7 Hz, 13 % at 144 Hz and 0.15 % at 10 kHz. No sample of this size can give so \
             much of delays that spread 1.75 times as far as their mean: 10,000 probes give it to \
             1.75 % (standard error), and banks tuned to 0.5 % loss keep 50,000 packets. Probes do \
             not disturb the packets.",
            bench.packets_are()
        ),
    );
    plan.table(
        "LDA: banks that follow the losses",
        format!(
            "Losses of 0, 0.1, 1, 10 and 0.1 %, {EPOCHS} epochs each; the first \
             {SETTLING} are not judged; {} packets an epoch; 896 rows for the losses as they are \
             and 128 for 20 %, beside one bank of 1024 rows that knows the loss to come; {streams} \
             streams under {HASHES} hash seeds each.",
            whole(PACKETS * bench.setting.scale)
        ),
    );
}

/// One bank that knows the loss, beside several that do not.
fn references(loss: f64, passed: &Passed, seeds: u32, found: &mut Found) -> Result<()> {
    let optimal = Runs::of(passed, &tuned(passed, loss, 0.5)?, seeds);
    let several = REFERENCES.map(|(name, rows, losses)| {
        let layout = layout(rows, losses, passed.sent(), 0.5)?;
        Ok((name, Runs::of(passed, &layout, seeds)))
    });
    let several: Vec<(&str, Runs)> = several.into_iter().collect::<Result<_>>()?;
    let figures: [(&str, &'static str, FigureOf); 3] = [
        ("effective samples", "packets", |run| run.samples),
        ("error of the mean", "%", |run| run.mean_error),
        ("error of the deviation", "%", |run| run.stddev_error),
    ];
    for (what, unit, figure) in figures {
        let check = format!("{what} at {} loss: 1 x 1024, tuned", percent(loss));
        let others = several
            .iter()
            .map(|(name, runs)| (*name, runs.mean(figure)));
        let row = Row::new(check, unit, optimal.mean(figure)).others(others);
        found.row(UNKNOWN, row);
    }
    Ok(())
}

fn beside_probes(
    loss: f64,
    paper: Option<f64>,
    passed: &Passed,
    seeds: u32,
    found: &mut Found,
) -> Result<()> {
    let runs = Runs::of(
        passed,
        &layout(512, &[0.005, 0.1], passed.sent(), 0.5)?,
        seeds,
    );
    let probes = PROBES.map(|(name, count)| {
        let seeds = 0..u64::from(seeds);
        let errors =
            seeds.map(|seed| error_percent(passed.probes(count, seed).mean(), passed.mean));
        (name, errors.collect::<Vec<_>>())
    });
    let (probes, at) = (probes.iter(), percent(loss));
    let means = probes
        .clone()
        .map(|(name, errors)| (*name, mean(errors.iter().copied())));
    let worst = probes.map(|(name, errors)| (*name, errors.iter().copied().fold(0.0, f64::max)));
    let check = format!("error of the mean at {at} loss");
    let ours = runs.mean(|run| run.mean_error);
    found.row(BESIDE_PROBES, Row::new(&check, "%", ours).others(means));
    let ours = runs.worst(|run| run.mean_error);
    let row = Row::new(check + ", worst run", "%", ours).paper(paper);
    found.row(BESIDE_PROBES, row.others(worst));
    let check = format!("error of the deviation at {at} loss");
    let row = Row::new(check, "%", runs.mean(|run| run.stddev_error));
    let eq_5 = runs.mean(|run| run.stddev_paper_error);
    found.row(BESIDE_PROBES, row.other("eq. 5", eq_5));
    Ok(())
}

/// One stream under the schedule of losses: adaptive banks beside the optimal one.
fn adaptive(bench: &Bench, stream: u64, found: &mut Found) -> Result<()> {
    let count = whole(PACKETS * bench.setting.scale);
    let mut lda = AdaptiveLda::new(AdaptiveOptions {
        bank_rows: vec![ROWS - ROWS / 8, ROWS / 8],
        first_loss: 0.0,
        worst_loss: 0.2,
        alpha: 0.75,
        epoch_packets: count as u64,
    })?;
    // Errors of the mean by entry of the schedule: adaptive, optimal.
    let mut errors: [Vec<(f64, f64)>; SCHEDULE.len()] = Default::default();
    let entries = SCHEDULE.into_iter().zip(&mut errors);
    for (entry, (loss, errors)) in (0..).zip(entries) {
        for epoch in 0..EPOCHS {
            let seed = (stream * SCHEDULE.len() as u64 + entry) * EPOCHS as u64 + epoch as u64;
            let passed = bench
                .stream_of(count, Delays::Weibull, 4000 + seed)?
                .with(Loss::Uniform(loss), 5000 + seed);
            if epoch >= SETTLING {
                let adaptive = Runs::of(&passed, lda.layout(), HASHES);
                let optimal = Runs::of(&passed, &tuned(&passed, loss, 1.0)?, HASHES);
                let error = |runs: &Runs| runs.mean(|run| run.mean_error);
                errors.push((error(&adaptive), error(&optimal)));
            }
            lda.observe(passed.sent() as u64, passed.received);
        }
    }
    let means = |errors: &[(f64, f64)]| {
        let adaptive = mean(errors.iter().map(|(adaptive, _)| *adaptive));
        (adaptive, mean(errors.iter().map(|(_, optimal)| *optimal)))
    };
    let (adaptive, optimal) = means(&errors.concat());
    let check = "error of the mean over the schedule, adaptive / optimal";
    let row = Row::ratio(check, adaptive, [optimal]);
    found.row(ADAPTIVE, row.limit(Limit::AtMost(1.5)));
    for (entry, (loss, errors)) in SCHEDULE.iter().zip(&errors).enumerate() {
        let is_again = SCHEDULE[..entry].contains(loss);
        let again = if is_again { ", again" } else { "" };
        let check = format!("error of the mean at {} loss{again}", percent(*loss));
        let (adaptive, optimal) = means(errors);
        let row = Row::new(check, "%", adaptive).other("optimal bank", optimal);
        found.row(ADAPTIVE, row);
    }
    Ok(())
}
