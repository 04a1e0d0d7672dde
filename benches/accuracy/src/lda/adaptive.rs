//! Banks that follow the losses.

use anyhow::Result;
use measure::lda::LdaLayout;
use measure::lda::adaptive::{AdaptiveLda, AdaptiveOptions};
use rayon::prelude::*;

use super::{Bench, Delays, Loss, Outcome, ROWS, mean_of, percent, runs, tuned};
use crate::table::{Limit, Row, Table};
use reporting::statistics::whole;

/// Losses of the schedule, each for [`EPOCHS`] epochs.
const SCHEDULE: [f64; 5] = [0.0, 0.001, 0.01, 0.1, 0.001];
const EPOCHS: usize = 10;
/// Epochs after each change that are not judged.
const SETTLING: usize = 2;
/// Packets of an epoch at scale 1.
const PACKETS: f64 = 1_000_000.0;
/// Streams of the whole schedule, and hash seeds that each epoch is measured with.
const STREAMS: u32 = 3;
const HASHES: u32 = 5;

pub(super) const STEPS: u64 = 1;

/// One judged epoch under both.
struct Epoch {
    at: usize,
    adaptive: Vec<Outcome>,
    optimal: Vec<Outcome>,
}

pub(super) fn run(bench: &Bench<'_>) -> Result<Table> {
    let streams = bench.seeds(STREAMS).min(STREAMS);
    let epochs: Vec<Epoch> = (0..u64::from(streams))
        .into_par_iter()
        .map(|stream| schedule(bench, stream))
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .flatten()
        .collect();
    (bench.step)();

    let [adaptive, optimal] = [
        all_of(&epochs, |_| true, true),
        all_of(&epochs, |_| true, false),
    ];
    let mut rows = vec![
        Row::new(
            "error of the mean over the schedule, adaptive / optimal",
            "ratio",
            adaptive / optimal,
        )
        .limit(bench.setting.judged(Limit::AtMost(1.5))),
    ];
    for (at, loss) in SCHEDULE.into_iter().enumerate() {
        let before = if at + 1 == SCHEDULE.len() {
            ", again"
        } else {
            ""
        };
        rows.push(
            Row::new(
                format!("error of the mean at {} loss{before}", percent(loss)),
                "%",
                all_of(&epochs, |epoch| epoch.at == at, true),
            )
            .other(
                "optimal bank",
                all_of(&epochs, |epoch| epoch.at == at, false),
            ),
        );
    }
    Ok(Table {
        title: "LDA: banks that follow the losses".to_owned(),
        about: format!(
            "Losses of 0, 0.1, 1, 10 and 0.1 %, {EPOCHS} epochs each; the first \
             {SETTLING} are not judged; {} packets an epoch; 896 rows for the losses as they are \
             and 128 for 20 %, beside one bank of 1024 rows that knows the loss to come; {streams} \
             streams under {HASHES} hash seeds each.",
            whole(PACKETS * bench.setting.scale)
        ),
        rows,
    })
}

/// Mean error over epochs.
fn all_of(epochs: &[Epoch], which: impl Fn(&Epoch) -> bool, adaptive: bool) -> f64 {
    let outcomes: Vec<Outcome> = epochs
        .iter()
        .filter(|epoch| which(epoch))
        .flat_map(|epoch| {
            if adaptive {
                &epoch.adaptive
            } else {
                &epoch.optimal
            }
        })
        .copied()
        .collect();
    mean_of(&outcomes, |outcome| outcome.mean_error)
}

fn schedule(bench: &Bench<'_>, stream: u64) -> Result<Vec<Epoch>> {
    let count = whole(PACKETS * bench.setting.scale);
    let mut lda = AdaptiveLda::new(AdaptiveOptions {
        bank_rows: vec![ROWS - ROWS / 8, ROWS / 8],
        worst_loss: 0.2,
        alpha: 0.75,
        epoch_packets: count as u64,
    })?;
    let mut judged = Vec::new();
    for (at, loss) in SCHEDULE.into_iter().enumerate() {
        for epoch in 0..EPOCHS {
            let seed = (stream * SCHEDULE.len() as u64 + at as u64) * EPOCHS as u64 + epoch as u64;
            let passed = bench
                .stream_of(count, Delays::Weibull, 4000 + seed)?
                .with(Loss::Uniform(loss), 5000 + seed);
            if epoch >= SETTLING {
                let layout: &LdaLayout = lda.layout();
                judged.push(Epoch {
                    at,
                    adaptive: runs(&passed, layout, HASHES),
                    optimal: runs(&passed, &tuned(&passed, loss, 1.0)?, HASHES),
                });
            }
            lda.observe(passed.sent() as u64, passed.received);
        }
    }
    Ok(judged)
}
