//! The mean delay of the whole segment: sums that references carry, beside LDA.

use anyhow::Result;
use measure::lda::{Bank, LdaLayout, LdaPair};
use measure::rli::Method;
use reporting::Limit;
use reporting::statistics::{error_percent, mean};

use super::exchange::{Exchange, packet_hash};
use super::{SEGMENT, Scenario, one_in};
use crate::experiment::{Found, Plan, Row};
use crate::queue::Crossing;
use crate::queue::paths::lose;
use crate::recording::{Packet, record};
use crate::traffic::Kind;
use crate::traffic::supply::{Supply, Wander};
use crate::truth::Truth;

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

pub(super) fn table(seeds: &str, plan: &mut Plan) {
    plan.table(
        "RLI: mean delay of the segment",
        format!(
            "Mean relative error of the mean delay of all measured packets, from the sums that \
             1-in-100 references carry; packets and references are lost alike behind the queue, \
             on top of what a full queue drops (hardly any under light modulation, which is \
             what the limits are for); {seeds} of traffic and {DRAWS} draws of losses for \
             each. Packets before the first and behind the last reference are left out, since a \
             running stream has no ends. Beside it, and as the paper's figure, LDA with one bank of \
             {LDA_ROWS} rows tuned to the loss.",
        ),
    );
}

/// For each loss, mean errors over draws: of sums, and of LDA.
pub(super) fn compare(
    supply: &Supply,
    scenario: Scenario,
    seed: u64,
    found: &mut Found,
) -> Result<()> {
    let traffic = supply.traffic(scenario.utilisation, scenario.wander, seed);
    let whole = Exchange::send(&traffic, &scenario.link(), one_in(100), seed)?;
    for (loss, prototype) in LOSSES {
        let (mut of_sums, mut of_lda) = (Vec::new(), Vec::new());
        for draw in 0..DRAWS {
            let mut exchange = whole.clone();
            lose(&mut exchange.crossings, loss, seed * DRAWS + draw);
            let between = exchange.between_references();
            let truth = Truth::of(between, traffic.flows);
            let error = |estimate_ns: Option<f64>| {
                error_percent(estimate_ns.unwrap_or(f64::NAN), truth.segment.mean_ns())
            };
            of_sums.push(error(exchange.receive(Method::Linear)?.segment.mean_ns()));
            of_lda.push(error(lda_mean_ns(between, &truth)?));
        }
        let label = scenario.label();
        let check = format!("{:.1} % lost at random, {label}", 100.0 * loss);
        let row = Row::new(check, "%", mean(of_sums)).other("LDA", mean(of_lda));
        // Under heavy modulation the queue adds losses of its own, which do not come at random.
        let judged = prototype.filter(|_| scenario.wander == Wander::Light);
        let row = row.limit(judged.map(|(most, _)| Limit::AtMost(most)));
        found.row(SEGMENT, row.paper(prototype.map(|(_, lda)| lda)));
    }
    Ok(())
}

/// The mean in nanoseconds that an LDA gives over the same packets: one bank tuned to the losses that
/// there were. `None` where no cell is usable.
pub fn lda_mean_ns(crossings: &[Crossing], truth: &Truth) -> Result<Option<f64>> {
    let lost = truth.sent - truth.segment.packets;
    let layout = LdaLayout::new(&[Bank::for_losses(LDA_ROWS, lost, 1.0)])?;
    let mut lda = LdaPair::new(&layout);
    let regular = crossings.iter().filter(|c| c.kind == Kind::Regular);
    let packets = (0..).zip(regular).map(|(number, crossing)| {
        let sent_ns = crossing.sent_ns();
        let delay_ns = crossing.received_ns().map(|at_ns| at_ns - sent_ns);
        Packet::of_segment(packet_hash(number), sent_ns, delay_ns)
    });
    record(&mut lda, packets);
    Ok(lda.estimate(truth.segment.packets).mean_ticks)
}
