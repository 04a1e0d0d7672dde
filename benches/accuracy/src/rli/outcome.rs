//! What one run says about methods and policies.

use anyhow::Result;
use measure::rli::{FlowDelay, Method};

use super::exchange::{Exchange, REFERENCE_BYTES, Received};
use super::{Scenario, policies};
use crate::traffic::supply::CAPACITY_BPS;
use crate::traffic::{Kind, PS_PER_S, Traffic};
use crate::truth::Truth;
use reporting::statistics::{percent_of, quantile};

/// Errors of one method on one run, in per cent, over all flows unless said otherwise.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    pub(super) method: Method,
    /// Errors of flows' mean delays, sorted.
    pub(super) errors: Vec<f64>,
    pub(super) median: f64,
    pub(super) p95: f64,
    /// Median error of the standard deviations of flows of at least [`STDDEV_PACKETS_MIN`].
    pub(super) stddev_median: f64,
    /// Share of flows whose true mean lies within the bound as it is, and within the nominal 98 %.
    pub(super) covered_raw: f64,
    pub(super) covered_98: f64,
    /// What the nominal bound would have to be multiplied by to cover just 98 % of flows.
    pub(super) factor_98: f64,
}

/// Packets from which on a flow's deviation is looked at.
pub(super) const STDDEV_PACKETS_MIN: u64 = 2;

/// Stamps of both ends are rounded down to a nanosecond: a bound can be no tighter.
const RESOLUTION_NS: f64 = 1.0;

impl Outcome {
    fn of(method: Method, received: &Received, truth: &Truth) -> Self {
        let mut errors = truth.mean_errors(received.means_ns(), 1);
        errors.sort_by(f64::total_cmp);
        let raw = factors(received, truth, FlowDelay::raw_bound_ns);
        let calibrated = factors(received, truth, |flow| flow.bound_ns(method));
        let covered = |factors: &[f64]| percent_of(factors.iter().map(|&needed| needed <= 1.0));
        Self {
            method,
            median: quantile(errors.clone(), 0.5),
            p95: quantile(errors.clone(), 0.95),
            stddev_median: quantile(
                truth.stddev_errors(received.stddevs_ns(), STDDEV_PACKETS_MIN),
                0.5,
            ),
            covered_raw: covered(&raw),
            covered_98: covered(&calibrated),
            factor_98: quantile(calibrated, 0.98),
            errors,
        }
    }
}

/// What each flow's bound would have to be multiplied by to hold its true mean: 1 or less where it
/// does as it is.
fn factors(
    received: &Received,
    truth: &Truth,
    bound_ns: impl Fn(&FlowDelay) -> Option<f64>,
) -> Vec<f64> {
    let flows = truth.flows.iter().zip(received.flows.slots());
    let arrived = flows.filter(|(truth, _)| truth.packets > 0);
    let needed = arrived.filter_map(|(truth, estimate)| {
        let error_ns = (estimate.mean_ns()? - truth.mean_ns()).abs();
        let bound_ns = bound_ns(estimate)?;
        Some(if error_ns <= RESOLUTION_NS {
            0.0
        } else {
            error_ns / bound_ns
        })
    });
    needed.collect()
}

/// What one policy gave.
#[derive(Debug, Clone)]
pub(super) struct PolicyOutcome {
    pub(super) name: &'static str,
    /// The methods that were run.
    pub(super) methods: Vec<Outcome>,
    /// Regular packets for each reference.
    pub(super) packets_per_reference: f64,
    /// Their bandwidth in per cent of the link.
    pub(super) bandwidth_percent: f64,
    /// Regular packets lost.
    pub(super) lost_percent: f64,
    /// References lost.
    pub(super) references_lost_percent: f64,
}

impl PolicyOutcome {
    pub(super) fn method(&self, method: Method) -> Option<&Outcome> {
        self.methods.iter().find(|outcome| outcome.method == method)
    }
}

/// Runs every policy: the first with all methods, the others with the paper's RLI.
pub(super) fn of_policies(
    traffic: &Traffic,
    scenario: Scenario,
    seed: u32,
) -> Result<Vec<PolicyOutcome>> {
    let link = scenario.link();
    policies()
        .into_iter()
        .enumerate()
        .map(|(place, (name, policy))| {
            let exchange = Exchange::send(traffic, &link, policy, u64::from(seed))?;
            let truth = Truth::of(&exchange.crossings, traffic.flows);
            let methods: &[Method] = if place == 0 {
                &Method::ALL
            } else {
                &[Method::Linear, Method::AnchoredSums]
            };
            let methods = methods
                .iter()
                .map(|&method| Ok(Outcome::of(method, &exchange.receive(method)?, &truth)))
                .collect::<Result<_>>()?;
            let references = exchange.references() as f64;
            let seconds = traffic.duration_ps as f64 / PS_PER_S as f64;
            let bits = 8.0 * f64::from(REFERENCE_BYTES) * references;
            let of_references = exchange
                .crossings
                .iter()
                .filter(|crossing| crossing.kind == Kind::Reference);
            Ok(PolicyOutcome {
                name,
                methods,
                packets_per_reference: truth.sent as f64 / references,
                bandwidth_percent: 100.0 * bits / (seconds * CAPACITY_BPS as f64),
                lost_percent: truth.lost_percent(),
                references_lost_percent: percent_of(of_references.map(|c| c.received_ps.is_none())),
            })
        })
        .collect()
}
