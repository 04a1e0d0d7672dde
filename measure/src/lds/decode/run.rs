//! From a system to beliefs: sweep, learn, and know when to stop.

use super::DecodeError;
use super::direct;
use super::guard::{Guard, within_range};
use super::mixture::Learner;
use super::prior::Prior;
use super::sweep::{Belief, Sweeper};
use super::system::System;

/// Estimates have settled where a sweep moves them by no more than this share of their deviation.
const SETTLED: f64 = 0.1;

/// When to stop.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Sweeps at most.
    pub sweeps: usize,
    /// Largest change of a settled estimate, relative to the largest estimate.
    pub tolerance: f64,
}

/// Where the sweeps led.
pub(super) struct Outcome {
    /// One entry a flow in decoding order.
    pub beliefs: Vec<Belief>,
    /// Sweeps done.
    pub sweeps: usize,
    /// The largest change in the last sweep, relative to the largest estimate.
    pub last_change: f64,
    /// Whether that is little beside what the estimates leave open.
    pub settled: bool,
    /// Whether all beliefs are within the range of what their cells say.
    pub sound: bool,
}

/// Solves directly what can be; else sweeps until nothing changes, changes grow, or sweeps run out. A prior of several components
/// learns from the second sweep on.
pub(super) fn run(
    system: &System,
    prior: &mut Prior,
    limits: Limits,
    cancelled: &mut impl FnMut() -> bool,
) -> Result<Outcome, DecodeError> {
    if let [only] = prior.components.as_slice()
        && limits.sweeps > 0
        && !cancelled()
        && let Some(beliefs) = direct::solve(system, only)
        && within_range(system, prior, &beliefs)
    {
        return Ok(Outcome {
            beliefs,
            sweeps: 0,
            last_change: 0.0,
            settled: true,
            sound: true,
        });
    }
    let mut sweeper = Sweeper::new(system, prior);
    let mut guard = Guard::default();
    let (mut sweeps, mut last_change, mut settled) = (0, 0.0, true);
    while sweeps < limits.sweeps {
        if cancelled() {
            return Err(DecodeError::Cancelled);
        }
        let learns = prior.components.len() > 1 && sweeps > 0;
        let mut learner = learns.then(|| Learner::new(prior));
        let change = sweeper.sweep(prior, &mut learner);
        if let Some(learner) = learner {
            learner.teach(system, prior);
        }
        sweeps += 1;
        let scale = system.scale;
        let largest = |largest: f64, b: &Belief| largest.max(scale.ticks(b.mean).abs());
        let largest = sweeper.beliefs.iter().fold(f64::MIN_POSITIVE, largest);
        last_change = (change.largest * scale.unit / largest).min(f64::MAX);
        let open: f64 = sweeper.beliefs.iter().map(|b| b.variance).sum();
        let converged = last_change <= limits.tolerance;
        settled = converged || change.squares <= SETTLED * SETTLED * open;
        if guard.watch(change.squares, &sweeper.beliefs) || converged {
            break;
        }
    }
    let Sweeper { beliefs, .. } = sweeper;
    let beliefs = guard.best().unwrap_or(beliefs);
    let sound = within_range(system, prior, &beliefs);
    Ok(Outcome {
        beliefs,
        sweeps,
        last_change,
        settled,
        sound,
    })
}
