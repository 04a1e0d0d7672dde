//! What else could be done for per-flow delays, on the same packets.
//!
//! | baseline | what it says of a flow |
//! |---|---|
//! | overall mean | the true mean of all packets, whatever the flow: no estimate of the segment alone is better |
//! | LDA | likewise, as it estimates that mean |
//! | Poisson probes | the mean of the probes sent during the flow's life |
//! | trajectory sampling | the mean of the flow's sampled packets |
//! | MPE | the mean over the flow's life of the line through all recorded packets |
//!
//! What a method cannot say of a flow (no probe, no sample) is its estimate of the overall mean.
//! Probes and samples are used as their systems use them: to read a flow's delay off what comes before
//! and behind its packets is RLI's own idea, and 10,000 probes a second would do for that what
//! references do.
//! Exact matching of every packet at both ends is the truth.

mod probes;
pub mod sampling;

use std::sync::Arc;

use anyhow::Result;
use measure::rli::Method;
use reporting::Limit;
use reporting::statistics::quantile;

use crate::experiment::{Experiment, Found, Plan, Row, Setting};
use crate::queue::LinkConfig;
use crate::rli::exchange::Exchange;
use crate::rli::{UTILISATIONS, lda_mean_ns, one_in};
use crate::traffic::supply::{Supply, Wander, in_words};
use crate::truth::Truth;
use probes::Probes;

pub const EXPERIMENT: Experiment = Experiment {
    name: "baselines",
    title: "RLI beside probes, sampling, MPE and LDA",
    plan,
};

const SEEDS: u32 = 3;
/// How many times better RLI must be than probes and samples that a link can afford.
const TIMES_BETTER: Limit = Limit::AtLeast(10.0);

/// The errors of one method in per cent, over all flows of a run.
struct Errors {
    name: &'static str,
    /// How many times better RLI must be.
    limit: Option<Limit>,
    of_flows: Vec<f64>,
}

fn plan(setting: &Setting) -> Result<Plan> {
    let supply = Arc::new(Supply::new(setting)?);
    let seeds = setting.traffic_seeds(SEEDS);
    let mut plan = Plan::default();
    plan.table(
        "RLI beside other methods",
        format!(
            "Median error of flows' mean delays over all flows (and the 95th percentile), on the \
             same packets through a FIFO queue with tail drop; means of {}. RLI as in \
             its paper, with one reference for 100 packets. The ratio to RLI's median is what the \
             limit is about: under heavy modulation at 93 % RLI is at least ten times better than \
             probes of 7 and 144 Hz (what LDA's bandwidth would pay for) and 0.1 % sampling.",
            in_words(seeds)
        ),
    );
    for utilisation in UTILISATIONS {
        for &wander in supply.wanders() {
            let supply = Arc::clone(&supply);
            plan.case(seeds, move |seed, found| {
                let errors = errors(&supply, utilisation, wander, seed)?;
                rows(utilisation, wander, &errors, found);
                Ok(())
            });
        }
    }
    Ok(plan)
}

/// A row for each method; heavy modulation at a high load is judged.
fn rows(utilisation: f64, wander: Wander, errors: &[Errors], found: &mut Found) {
    let is_high = utilisation > 0.9;
    let name = format!("{:.0} %, {}", 100.0 * utilisation, wander.label());
    let is_judged = is_high && wander == Wander::Heavy;
    let mut rli = None;
    for method in errors {
        let of_flows = |share| quantile(method.of_flows.iter().copied(), share);
        let (median, p95) = (of_flows(0.5), of_flows(0.95));
        let row = match rli {
            None => Row::new(format!("{}: {name}", method.name), "%", median)
                .paper(is_high.then_some(12.0)),
            Some(rli) => Row::ratio(format!("{} / RLI: {name}", method.name), median, [rli])
                .limit(method.limit.filter(|_| is_judged))
                .other("median, %", median),
        };
        found.row(0, row.other("95th percentile", p95));
        rli = rli.or(Some(median));
    }
}

/// Every method's errors on one run; RLI is the first.
fn errors(supply: &Supply, utilisation: f64, wander: Wander, seed: u64) -> Result<Vec<Errors>> {
    let traffic = supply.traffic(utilisation, wander, seed);
    let link = LinkConfig::ACCEPTANCE;
    let exchange = Exchange::send(&traffic, &link, one_in(100), seed)?;
    let crossings = &exchange.crossings;
    let truth = Truth::of(crossings, traffic.flows);
    let flows = truth.flows.len();

    let mut all = Vec::new();
    let mut add = |name, limit, estimates_ns: Vec<f64>| {
        all.push(Errors {
            name,
            limit,
            of_flows: truth.mean_errors(estimates_ns),
        });
    };
    let judged = Some(TIMES_BETTER);
    let rli = |method| Ok::<_, anyhow::Error>(exchange.receive(method)?.means_ns().collect());
    add("RLI", None, rli(Method::Linear)?);
    add("RLI-AS", None, rli(Method::AnchoredSums)?);
    add("overall mean", None, vec![truth.segment.mean_ns(); flows]);
    let lda_ns = lda_mean_ns(crossings, &truth)?.unwrap_or(f64::NAN);
    add("LDA", None, vec![lda_ns; flows]);
    for (name, rate_hz, limit) in [
        ("7 Hz probes", 7.0, judged),
        ("144 Hz probes", 144.0, judged),
        ("10 kHz probes", 10_000.0, None),
    ] {
        let probes = Probes::send(crossings, rate_hz, seed);
        add(name, limit, probes.estimates_ns(&truth).collect());
    }
    for (name, share, limit) in [
        ("0.1 % sampling", 0.001, judged),
        ("1 % sampling", 0.01, None),
    ] {
        let estimates_ns = sampling::trajectories_ns(crossings, traffic.flows, share, seed);
        add(name, limit, estimates_ns);
    }
    for (name, share) in [("MPE 1 %", 0.01), ("MPE 10 %", 0.1)] {
        let estimates_ns = sampling::multi_point_ns(crossings, &truth, share, seed);
        add(name, None, estimates_ns);
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
