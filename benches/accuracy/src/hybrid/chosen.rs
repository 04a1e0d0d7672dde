//! The chooser: for each flow the estimate of the smallest bound among those that may speak.

use measure::chooser::{Candidate, Method, choose};
use measure::lds::Decoded;

use super::interpolation::Interpolated;
use crate::sketched::errors;
use crate::table::Row;
use crate::trace::{Trace, Truth};
use reporting::statistics::{error_percent, median, percent_of};

/// The clock of a trace: whole nanoseconds.
const FLOOR_NS: f64 = 1.0;

/// The choice for every flow; `None` where nothing can be said.
pub(super) fn choices(
    trace: &Trace,
    joint: &Decoded,
    hybrid: &Decoded,
    rli: &Interpolated,
) -> Vec<Option<Candidate>> {
    (0..trace.flows())
        .map(|flow| {
            let of_rli = rli.mean_ns.get(flow).zip(rli.bound_ns.get(flow));
            let candidates = [
                hybrid
                    .flows
                    .get(flow)
                    .and_then(|flow| Candidate::decoded(flow, true)),
                joint
                    .flows
                    .get(flow)
                    .and_then(|flow| Candidate::decoded(flow, false)),
                of_rli.and_then(|(&mean_ns, &bound_ns)| {
                    Candidate::rli(mean_ns, bound_ns, trace.shares_reference_queue(flow))
                }),
            ];
            choose(candidates.into_iter().flatten(), FLOOR_NS)
        })
        .collect()
}

/// Errors of what was chosen, how often its bound holds, and whose it was.
pub(super) fn rows(name: &str, choices: &[Option<Candidate>], truth: &Truth) -> Vec<Row> {
    let estimates: Vec<f64> = choices
        .iter()
        .map(|choice| choice.map_or(f64::NAN, |choice| choice.mean_ticks))
        .collect();
    let share_of = |method| {
        percent_of(
            choices
                .iter()
                .map(|choice| choice.is_some_and(|c| c.method == method)),
        )
    };
    let held = |least: f64| {
        percent_of(truth.flows_of(least).map(|flow| {
            let chosen = choices.get(flow).copied().flatten();
            chosen
                .zip(truth.mean_ns.get(flow))
                .is_some_and(|(chosen, mean_ns)| {
                    (chosen.mean_ticks - mean_ns).abs() <= chosen.bound_ticks
                })
        }))
    };
    let bounds = truth.flows_of(0.0).filter_map(|flow| {
        let chosen = choices.get(flow).copied().flatten()?;
        let mean_ns = truth.mean_ns.get(flow)?;
        Some(error_percent(mean_ns + chosen.bound_ticks, *mean_ns))
    });
    let error = |least| median(errors(&estimates, &truth.mean_ns, truth.flows_of(least)));
    let chosen_by = |row: Row| {
        [Method::Combined, Method::Hybrid, Method::Rli]
            .into_iter()
            .fold(row, |row, method| {
                row.other(format!("by {} (%)", method.name()), share_of(method))
            })
    };
    vec![
        chosen_by(Row::new(
            format!("{name}: error of the choice, all flows"),
            "%",
            error(0.0),
        )),
        Row::new(
            format!("{name}: error of the choice, >= 100 packets"),
            "%",
            error(100.0),
        ),
        Row::new(
            format!("{name}: flows in the bound of the choice"),
            "%",
            held(0.0),
        )
        .other(">= 100 packets", held(100.0))
        .other("median bound (% of the mean)", median(bounds)),
    ]
}
