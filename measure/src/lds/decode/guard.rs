//! When sweeps do not settle.
//!
//! On small sketches at a load near one flow a cell, sequential updates can diverge: changes grow
//! without end. Growth is judged by all steps together: where a flow wavers between two components,
//! the largest step alone grows and falls by chance.

use super::prior::Prior;
use super::sweep::Belief;
use super::system::System;

/// Stop after so many sweeps in a row that each moved the means further than the one before.
const GROWTHS_MAX: usize = 3;
/// How far beyond what its cells say a flow may be, in standard deviations of its prior.
const DEVIATIONS: f64 = 100.0;

/// Keeps the best sweep and tells when to stop.
#[derive(Debug, Default)]
pub(super) struct Guard {
    last: Option<f64>,
    growths: usize,
    smallest: Option<f64>,
    best: Vec<Belief>,
}

impl Guard {
    /// After a sweep that moved the means by `change`; whether to stop.
    pub fn watch(&mut self, change: f64, beliefs: &[Belief]) -> bool {
        if self.last.is_some_and(|last| change > last) || change.is_nan() {
            self.growths += 1;
        } else {
            self.growths = 0;
        }
        self.last = Some(change);
        if self.smallest.is_none_or(|smallest| change <= smallest) {
            self.smallest = Some(change);
            self.best.clear();
            self.best.extend_from_slice(beliefs);
        }
        self.growths >= GROWTHS_MAX
    }

    /// Beliefs after the sweep that moved them least.
    pub fn best(self) -> Option<Vec<Belief>> {
        (!self.best.is_empty()).then_some(self.best)
    }
}

/// Whether every flow is within what its cells and its prior allow.
///
/// A single cell reads a flow as r = (`s_c` - sum over the others of a m) / a with the others at their
/// prior: exact solutions may lie anywhere between such readings and the prior, as where a large flow
/// hides a small one, and a little beyond. What diverges is soon beyond any multiple.
pub(super) fn within_range(system: &System, prior: &Prior, beliefs: &[Belief]) -> bool {
    let background = prior.background(&system.features);
    let mut residuals: Vec<f64> = system
        .equations
        .iter()
        .map(|equation| equation.sum - equation.unlisted * background.mean)
        .collect();
    let priors: Vec<Belief> = (0..system.flows())
        .map(|flow| prior.of_flow(system, flow))
        .collect();
    for (flow, expected) in priors.iter().enumerate() {
        for edge in &system.edges[system.edges_of(flow)] {
            residuals[edge.cell as usize] -= edge.coefficient * expected.mean;
        }
    }
    priors
        .iter()
        .zip(beliefs)
        .enumerate()
        .all(|(flow, (expected, belief))| {
            let (mut least, mut most) = (0.0_f64, 0.0_f64);
            for edge in &system.edges[system.edges_of(flow)] {
                let reading = residuals[edge.cell as usize] / edge.coefficient;
                (least, most) = (least.min(reading), most.max(reading));
            }
            let slack = DEVIATIONS * expected.variance.sqrt();
            let range = expected.mean + least - slack..=expected.mean + most + slack;
            let finite = belief.mean.is_finite() && belief.variance.is_finite();
            finite && belief.variance >= 0.0 && range.contains(&belief.mean)
        })
}
