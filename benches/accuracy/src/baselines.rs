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
//! Probes and samples are used as their systems use them: to read a flow's delay off what lies before
//! and behind its packets is RLI's own idea, and 10,000 probes a second would do for that what
//! references do.
//! Exact matching of every packet at both ends is the truth.

mod probes;
mod sampling;

use anyhow::Result;
use measure::rli::Method;
use rayon::prelude::*;

use super::queue::{BUFFER_BYTES, LinkConfig};
use super::rli::exchange::Exchange;
use super::rli::{UTILISATIONS, lda_mean_ns, one_in};
use super::table::{Curve, Figure, Limit, Row, Table};
use super::traffic::supply::{CAPACITY_BPS, Supply, Wander, in_words, seeds};
use super::truth::Truth;
use super::{Experiment, Findings, Setting};
use probes::Probes;
use reporting::statistics::{mean, quantile};

const SEEDS: u32 = 3;
/// How many times better RLI must be than probes and samples.
const TIMES_BETTER: Limit = Limit::AtLeast(10.0);

/// The errors of one method in per cent, over all flows of a run.
struct Errors {
    name: &'static str,
    /// Whether [`TIMES_BETTER`] is said of it: what a link can afford to send or to store.
    judged: bool,
    of_flows: Vec<f64>,
}

/// A case and what its seeds gave.
struct Case {
    utilisation: f64,
    wander: Wander,
    runs: Vec<Vec<Errors>>,
}

impl Case {
    /// Mean over seeds of a quantile of the errors of the method at `place`.
    fn quantile(&self, place: usize, of: f64) -> f64 {
        let errors = self.runs.iter().filter_map(|run| run.get(place));
        mean(errors.map(|errors| quantile(errors.of_flows.clone(), of)))
    }
}

/// This experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "baselines",
    title: "RLI beside probes, sampling, MPE and LDA",
    steps,
    run,
};

fn steps(setting: &Setting) -> u64 {
    let wanders = Supply::wanders(&setting.source).len();
    (wanders * UTILISATIONS.len()) as u64 * u64::from(seeds(setting, SEEDS))
}

fn run(setting: &Setting, step: &(dyn Fn() + Sync)) -> Result<Findings> {
    let supply = Supply::new(setting)?;
    let seeds = seeds(setting, SEEDS);
    let mut findings = Findings::default();
    let mut rows = Vec::new();
    for utilisation in UTILISATIONS {
        for &wander in Supply::wanders(&setting.source) {
            let runs = (0..seeds)
                .into_par_iter()
                .map(|seed| {
                    let errors = errors(&supply, utilisation, wander, u64::from(seed));
                    step();
                    errors
                })
                .collect::<Result<_>>()?;
            let case = Case {
                utilisation,
                wander,
                runs,
            };
            rows.extend(table_rows(setting, &case));
            findings.figures.extend(figure(&case));
        }
    }
    let seeds = in_words(seeds);
    findings.tables.push(Table {
        title: "RLI beside other methods".to_owned(),
        about: format!(
            "Median error of flows' mean delays over all flows (and the 95th percentile), on the \
             same packets through a FIFO queue with tail drop; means of {seeds}. RLI as in \
             its paper, with one reference for 100 packets. The ratio to RLI's median is what the \
             limit is about: under heavy modulation at 93 % RLI is at least ten times better than \
             probes of 7 and 144 Hz (what LDA's bandwidth would pay for) and 0.1 % sampling.",
        ),
        rows,
    });
    Ok(findings)
}

fn table_rows(setting: &Setting, case: &Case) -> Vec<Row> {
    let name = format!("{:.0} %, {}", 100.0 * case.utilisation, case.wander.label());
    let ours = case.quantile(0, 0.5);
    let methods = case.runs.first().map_or(&[][..], Vec::as_slice);
    let mut rows = vec![
        Row::new(format!("RLI: {name}"), "%", ours)
            .paper((case.utilisation > 0.9).then_some(12.0))
            .other("95th percentile", case.quantile(0, 0.95)),
    ];
    for (place, method) in methods.iter().enumerate().skip(1) {
        let median = case.quantile(place, 0.5);
        let judged = method.judged && case.wander == Wander::Heavy && case.utilisation > 0.9;
        rows.push(
            Row::new(
                format!("{} / RLI: {name}", method.name),
                "ratio",
                median / ours,
            )
            .limit(
                judged
                    .then_some(TIMES_BETTER)
                    .and_then(|l| setting.judged(l)),
            )
            .other("median, %", median)
            .other("95th percentile", case.quantile(place, 0.95)),
        );
    }
    rows
}

/// The distributions of the first seed.
fn figure(case: &Case) -> Option<Figure> {
    let methods = case.runs.first()?;
    let (load, wander) = (100.0 * case.utilisation, case.wander.label());
    Some(Figure {
        name: format!("baselines-{wander}-{load:.0}"),
        title: format!("RLI beside other methods ({load:.0} %, {wander})"),
        x_label: "relative error of a flow's mean delay, %".to_owned(),
        y_label: "share of flows".to_owned(),
        x_log: true,
        curves: methods
            .iter()
            .map(|method| {
                let errors = method.of_flows.iter().map(|error| error.max(0.01));
                Curve::cdf(method.name, errors.collect())
            })
            .collect(),
    })
}

/// Every method's errors on one run; RLI is the first.
fn errors(supply: &Supply, utilisation: f64, wander: Wander, seed: u64) -> Result<Vec<Errors>> {
    let traffic = supply.traffic(utilisation, wander, seed);
    let link = LinkConfig::fifo(CAPACITY_BPS, BUFFER_BYTES);
    let exchange = Exchange::send(&traffic, &link, one_in(100), seed)?;
    let crossings = &exchange.crossings;
    let truth = Truth::of(crossings, traffic.flows);
    let flows = truth.flows.len();

    let mut all = Vec::new();
    let mut add = |name, judged, estimates_ns: Vec<f64>| {
        all.push(Errors {
            name,
            judged,
            of_flows: truth.mean_errors(estimates_ns, 1),
        });
    };
    let rli = |method| Ok::<_, anyhow::Error>(exchange.receive(method)?.means_ns().collect());
    add("RLI", false, rli(Method::Linear)?);
    add("RLI-AS", false, rli(Method::AnchoredSums)?);
    add("overall mean", false, vec![truth.segment.mean_ns(); flows]);
    let lda_ns = lda_mean_ns(crossings, &truth)?.unwrap_or(f64::NAN);
    add("LDA", false, vec![lda_ns; flows]);
    for (name, rate_hz, judged) in [
        ("7 Hz probes", 7.0, true),
        ("144 Hz probes", 144.0, true),
        ("10 kHz probes", 10_000.0, false),
    ] {
        let probes = Probes::send(crossings, rate_hz, CAPACITY_BPS, seed);
        add(name, judged, probes.estimates_ns(&truth).collect());
    }
    for (name, share, judged) in [
        ("0.1 % sampling", 0.001, true),
        ("1 % sampling", 0.01, false),
    ] {
        let estimates_ns = sampling::trajectories_ns(crossings, traffic.flows, share, seed);
        add(name, judged, estimates_ns);
    }
    for (name, share) in [("MPE 1 %", 0.01), ("MPE 10 %", 0.1)] {
        let estimates_ns = sampling::multi_point_ns(crossings, &truth, share, seed);
        add(name, false, estimates_ns);
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
