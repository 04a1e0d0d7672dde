//! The mean delay of the whole segment: sums that references carry, beside LDA.

use anyhow::Result;
use measure::lda::{Bank, LdaLayout, LdaPair};
use measure::observation::{End, Observation, SegmentIndex};
use measure::rli::Method;
use measure::synopsis::Synopsis;
use measure::time::EpochTag;
use rayon::prelude::*;

use super::exchange::{Exchange, packet_hash};
use super::{Scenario, one_in};
use crate::queue::Crossing;
use crate::queue::paths::Loss;
use crate::table::{Limit, Row, Table};
use crate::traffic::Kind;
use crate::traffic::supply::{Supply, Wander, in_words};
use crate::truth::Truth;
use crate::{Setting, Source};
use reporting::statistics::{error_percent, mean};

/// Shares lost on the way, with what the prototype gave for the sums (the limit) and for LDA.
const LOSSES: [(f64, Option<(f64, f64)>); 4] = [
    (0.001, Some((0.02, 0.24))),
    (0.01, None),
    (0.05, None),
    (0.2, Some((0.3, 4.3))),
];
/// Draws of losses (and of LDA's cells) for each seed of traffic.
const DRAWS: u64 = 4;
/// Rows of the LDA, one bank tuned to the loss.
const LDA_ROWS: u32 = 1_024;

/// Errors in per cent: of sums, and of LDA.
type Errors = [f64; 2];

/// What it is run on: tail drop at every load.
pub(super) fn scenarios(source: &Source) -> Vec<Scenario> {
    let all = Scenario::all(source).into_iter();
    all.filter(|scenario| !scenario.red).collect()
}

/// Runs it, and tells `step` of every seed and scenario.
pub(super) fn run(
    setting: &Setting,
    supply: &Supply,
    seeds: u32,
    step: &(dyn Fn() + Sync),
) -> Result<Table> {
    let mut rows = Vec::new();
    for scenario in scenarios(&setting.source) {
        // Under heavy modulation the queue adds losses of its own, which do not come at random.
        let only_random = scenario.wander == Wander::Light;
        let runs: Vec<Vec<Errors>> = (0..seeds)
            .into_par_iter()
            .map(|seed| {
                let errors = of_seed(supply, scenario, u64::from(seed));
                step();
                errors
            })
            .collect::<Result<_>>()?;
        for (place, (loss, known)) in LOSSES.into_iter().enumerate() {
            let of = |which: usize| {
                let errors = runs.iter().filter_map(|run| run.get(place));
                mean(errors.map(|errors| errors[which]))
            };
            let check = format!("{:.1} % lost at random, {}", 100.0 * loss, scenario.label());
            let limit = known
                .filter(|_| only_random)
                .and_then(|(most, _)| setting.judged(Limit::AtMost(most)));
            rows.push(
                Row::new(check, "%", of(0))
                    .paper(known.map(|(_, lda)| lda))
                    .limit(limit)
                    .other("LDA", of(1)),
            );
        }
    }
    let seeds = in_words(seeds);
    Ok(Table {
        title: "RLI: mean delay of the segment".to_owned(),
        about: format!(
            "Mean relative error of the mean delay of all measured packets, from the sums that \
             1-in-100 references carry; packets and references are lost alike behind the queue, \
             on top of what a full queue drops (none to speak of under light modulation, which is \
             what the limits are for); {seeds} of traffic and {DRAWS} draws of losses for \
             each. Packets before the first and behind the last reference are left out, since a \
             running stream has no ends. Beside it, and as the paper's figure, LDA with one bank of \
             {LDA_ROWS} rows tuned to the loss.",
        ),
        rows,
    })
}

/// For each loss, mean errors over draws.
fn of_seed(supply: &Supply, scenario: Scenario, seed: u64) -> Result<Vec<Errors>> {
    let traffic = supply.traffic(scenario.utilisation, scenario.wander, seed);
    let whole = Exchange::send(&traffic, &scenario.link(), one_in(100), seed)?;
    LOSSES
        .iter()
        .map(|&(loss, _)| {
            let errors = (0..DRAWS)
                .map(|draw| {
                    let mut exchange = whole.clone();
                    Loss::Uniform(loss).apply(&mut exchange.crossings, seed * DRAWS + draw);
                    let between = exchange.between_references();
                    let truth = Truth::of(between, traffic.flows);
                    let mean_ns = truth.segment.mean_ns();
                    let sums = exchange.receive(Method::Linear)?.segment.mean_ns();
                    let lda = lda_mean_ns(between, &truth)?;
                    Ok([sums, lda].map(|estimate_ns| match estimate_ns {
                        Some(estimate_ns) => error_percent(estimate_ns, mean_ns),
                        None => f64::NAN,
                    }))
                })
                .collect::<Result<Vec<Errors>>>()?;
            Ok([0, 1].map(|which| mean(errors.iter().map(|errors| errors[which]))))
        })
        .collect()
}

/// The mean in nanoseconds that an LDA gives over the same packets: one bank tuned to the losses that
/// there were. `None` where no cell is usable.
///
/// # Errors
/// An LDA that cannot be laid out.
pub fn lda_mean_ns(crossings: &[Crossing], truth: &Truth) -> Result<Option<f64>> {
    let lost = truth.sent - truth.segment.packets;
    let layout = LdaLayout::new(&[Bank::for_losses(LDA_ROWS, lost, 1.0)])?;
    let mut lda = LdaPair::new(&layout);
    let regular = crossings.iter().filter(|c| c.kind == Kind::Regular);
    for (crossing, number) in regular.zip(0_u64..) {
        let passage = crossing.passage();
        let mut observation = Observation {
            flow: measure::packet::FlowHash(passage.flow.into()),
            packet: packet_hash(number),
            time: passage.sent_ns.cast_unsigned(),
            delay: 0,
            bytes: passage.bytes,
            segment: SegmentIndex(0),
            epoch: EpochTag(0),
        };
        lda.record(End::Sender, &[observation]);
        if let Some(received_ns) = passage.received_ns {
            observation.time = received_ns.cast_unsigned();
            lda.record(End::Receiver, &[observation]);
        }
    }
    Ok(lda.estimate(truth.segment.packets).mean_ticks)
}
