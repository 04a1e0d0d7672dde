//! Estimates of flows, held against the stamped means of the same packets.

use std::collections::BTreeMap;

use measure::statistics::median;
use measure::time::TickRate;
use records::snapshot::{FlowEstimate, JudgedEstimates};

use crate::flows::FlowSums;

/// Sizes of flows: the least packets of each, and its name.
const SIZES: [(u64, &str); 4] = [
    (1, "1-9"),
    (10, "10-99"),
    (100, "100-999"),
    (1_000, "1000-"),
];

/// The method under which estimates to use are judged.
const CHOSEN: &str = "chosen";

/// A method, and the number of a size.
type Kind = (&'static str, usize);

/// What was found of estimates of one kind.
#[derive(Debug, Default)]
struct Verdict {
    within_bound: u64,
    beyond_bound: u64,
    without_bound: u64,
    error_ratios: Vec<f64>,
}

/// What was found of one decoding's estimates.
#[derive(Debug, Default)]
pub(crate) struct Verdicts {
    kinds: BTreeMap<Kind, Verdict>,
}

impl Verdicts {
    /// Judges the estimates of a flow, the one to use ahead of those by each method, and notes in each whether it is
    /// within its bound.
    pub fn judge(&mut self, estimates: &mut [FlowEstimate], counted: &FlowSums, rate: TickRate) {
        let Some(stamped_ns) = counted.mean_ticks().map(|ticks| rate.to_ns(ticks)) else {
            return;
        };
        let size = SIZES
            .iter()
            .rposition(|&(least, _)| counted.packets >= least);
        for (nth, estimate) in estimates.iter_mut().enumerate() {
            let error_ns = (estimate.mean_ns - stamped_ns).abs();
            estimate.is_within_bound = estimate.bound_ns.map(|bound_ns| error_ns <= bound_ns);
            let method = if nth == 0 {
                CHOSEN
            } else {
                estimate.method.label()
            };
            let verdict = self.kinds.entry((method, size.unwrap_or(0))).or_default();
            *match estimate.is_within_bound {
                Some(true) => &mut verdict.within_bound,
                Some(false) => &mut verdict.beyond_bound,
                None => &mut verdict.without_bound,
            } += 1;
            if stamped_ns > 0.0 {
                verdict.error_ratios.push(error_ns / stamped_ns);
            }
        }
    }
}

/// What was found of all estimates so far.
#[derive(Debug, Default)]
pub(crate) struct Judgement {
    kinds: BTreeMap<Kind, JudgedEstimates>,
}

impl Judgement {
    /// Adds what was found of further ones.
    pub fn add(&mut self, verdicts: Verdicts) {
        for ((method, size), mut verdict) in verdicts.kinds {
            let judged = self
                .kinds
                .entry((method, size))
                .or_insert_with(|| JudgedEstimates {
                    method: method.to_owned(),
                    size: SIZES[size].1.to_owned(),
                    within_bound: 0,
                    beyond_bound: 0,
                    without_bound: 0,
                    error_ratio_median: None,
                });
            judged.within_bound += verdict.within_bound;
            judged.beyond_bound += verdict.beyond_bound;
            judged.without_bound += verdict.without_bound;
            judged.error_ratio_median = median(&mut verdict.error_ratios);
        }
    }

    /// By method and size of flows.
    pub fn shown(&self) -> Vec<JudgedEstimates> {
        self.kinds.values().cloned().collect()
    }
}
