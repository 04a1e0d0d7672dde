//! Joint decoding: the delays of all flows at once.
//!
//! The usable cells form one sparse linear system in the flow means x: `s_c` = sum `a_cf` `x_f` + `e_c`.
//! The paper reads each flow from its emptiest cells as if no other flow were in them. Here every flow is
//! an unknown, all are solved together, and where the cells leave freedom, a prior fitted to the cells
//! decides:
//!
//! ```text
//! DelayCells --+                                                  +---- learn (K > 1) <---+
//!              +--> counts ----> system -----> prior fit --+--> sweep, large flows first -+--> guard --> Decoded
//! FlowTable ---+    where not    a, s, e_c     K = 1, from  |                                    ^
//!                   known        unlisted      the cells    +--> peel, small core directly ------+
//! ```
//!
//! A mean known from elsewhere, with its error, is the start of a flow's prior. A virtual LDA or a sampled
//! row reads parts of flows; how far a part may be from the whole follows from which parts are read.
//!
//! With R = 3 and up to about three flows for every four cells of the whole sketch, flows peel off one by
//! one and all are exact. Above that, belief propagation sweeps over the flows, and each estimate carries
//! its posterior variance.

mod counts;
mod direct;
mod prior;
mod sweep;
mod system;

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::DelayCells;
use crate::argument::InvalidArgument;
use counts::Packets;
use prior::Prior;
use sweep::{Belief, Learner, Sweeper};
use system::{Delays, Shape, System};

/// Most components of the prior.
pub const COMPONENTS_MAX: usize = 3;
/// Most features a flow, without the constant.
pub const FEATURES_MAX: usize = 8;

/// The normal distribution's quantile at 99 %.
const NORMAL_99: f64 = 2.326_347_874_040_841;
/// Least share of unlisted packets that gives a warning.
const UNLISTED_SHARE: f64 = 1e-3;

/// The flows to decode; each list has one entry for each flow.
#[derive(Debug, Clone, Copy)]
pub struct FlowTable<'a> {
    /// Base columns, R entries a flow ([`LdsLayout::base_columns`](crate::lds::LdsLayout::base_columns),
    /// cut to R).
    pub columns: &'a [u32],
    /// Packets of each flow that the receiver's end saw, finite and not negative; NaN for a flow of unknown
    /// size, `None` if all are unknown. Unknown sizes are decoded from the cells first.
    pub packets: Option<&'a [f64]>,
    /// Weight of each flow's packets in the sketch, finite and positive; `None` if all are 1.
    pub weights: Option<&'a [f64]>,
    /// Features without the constant, `features_per_flow` entries for each flow (class columns of 0 and 1,
    /// an RLI mean that may be of another queue); NaN (or infinite) for a flow without the feature.
    pub features: &'a [f64],
    /// Number of features of each flow; 0 for LDS alone, at most [`FEATURES_MAX`], including known means.
    pub features_per_flow: usize,
    /// Means of flows known from elsewhere, with their errors.
    pub known: Option<&'a [KnownMean]>,
}

/// An estimate of a flow's mean that does not come from the cells, such as RLI's. Unlike a feature's, its
/// error is known, so decoding starts from it instead of learning its weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KnownMean {
    /// Mean delay in ticks, within 2^64; NaN (or beyond) for a flow without one.
    pub mean_ticks: f64,
    /// Variance of the mean's error in ticks squared, 0 to 2^128; beyond that the flow counts as without a
    /// mean.
    pub error_ticks2: f64,
    /// Variance of the delays of the flow's packets in ticks squared; NaN if unknown. A cell with some of
    /// the flow's packets may differ from the flow's mean by this much.
    pub packets_ticks2: f64,
}

/// Options of decoding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DecodeOptions {
    /// K, 1 to [`COMPONENTS_MAX`].
    pub components: usize,
    /// Most sweeps. About ten are enough for K = 1, twenty for K = 2 and 3.
    pub sweeps: usize,
    /// Stops when no estimate changes by more than this, relative to the largest.
    pub tolerance: f64,
}

impl Default for DecodeOptions {
    fn default() -> Self {
        Self {
            components: 1,
            sweeps: 10,
            tolerance: 1e-9,
        }
    }
}

/// Why decoding failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Options out of range, or lists of flows that do not fit the sketch.
    #[error(transparent)]
    Argument(#[from] InvalidArgument),
    /// Cancelled between two sweeps.
    #[error("decoding was cancelled")]
    Cancelled,
}

/// Source of a flow's estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// Joint decoding.
    Joint,
    /// The fitted prior at the flow's features, because the flow has no usable cell.
    Prior,
    /// The paper's estimator.
    Paper,
    /// The mean over the segment, because the flow has no usable cell.
    SegmentMean,
    /// Nothing: no cell is usable. The estimate is 0, its variance infinite.
    Nothing,
}

/// Why the paper's estimator was used instead of joint decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fallback {
    /// The sweeps did not settle: the best of them is outside the range that its cells allow.
    Diverged,
    /// No cell is usable and filled.
    NoUsableCell,
}

/// A warning about the estimates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Warning {
    /// The list of flows is incomplete: this share of the packets in cells belongs to no listed flow.
    UnlistedPackets {
        /// 0 to 1, the mean over usable cells of rows that take every packet.
        share: f64,
    },
    /// In these cells the flows claim more packets than were counted there; their counts are too large, and
    /// were scaled down to fit.
    ExcessPackets {
        /// Usable cells.
        cells: usize,
    },
    /// The sweeps ended while estimates still moved by a tenth of their own uncertainty.
    NotSettled,
}

/// One flow's estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlowDelay {
    /// Mean delay in ticks.
    pub mean_ticks: f64,
    /// Posterior variance in ticks squared; infinite if unknown. The nominal 98 % bound is three times its
    /// root.
    pub variance_ticks2: f64,
    /// Packets of the flow, as given or as decoded.
    pub packets: f64,
    /// Its source.
    pub source: Source,
}

/// Result of decoding.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// One entry for each flow, in order.
    pub flows: Vec<FlowDelay>,
    /// Number of sweeps; 0 if all flows peeled off one by one.
    pub sweeps: usize,
    /// The largest change of an estimate in the last sweep, relative to the largest estimate.
    pub last_change: f64,
    /// Why estimates are not joint, if so.
    pub fallback: Option<Fallback>,
    /// Further warnings.
    pub warnings: Vec<Warning>,
}

/// Decodes; calls `cancelled` between sweeps. The same input gives the same output, bit by bit.
///
/// # Errors
/// [`DecodeError`] if the lists fit neither each other nor the sketch, or if cancelled.
pub fn decode(
    cells: &DelayCells,
    flows: FlowTable<'_>,
    options: &DecodeOptions,
    mut cancelled: impl FnMut() -> bool,
) -> Result<Decoded, DecodeError> {
    let shape = Shape::new(cells, flows, options)?;
    let packets = counts::packets(&shape, &mut cancelled)?;
    let Some(segment_mean_ticks) = cells.segment_mean_ticks() else {
        return Ok(nothing(&packets));
    };
    let order = system::falling(&packets.counts);
    let Delays {
        system,
        unlisted_share,
        excess_cells,
    } = system::delays(&shape, &packets, &order);
    let mut prior = sweep::spread(&prior::fit(&system), options.components);
    let outcome = run(&system, &mut prior, options, &mut cancelled)?;

    let mut warnings = Vec::new();
    if unlisted_share > UNLISTED_SHARE {
        warnings.push(Warning::UnlistedPackets {
            share: unlisted_share,
        });
    }
    if excess_cells > 0 {
        warnings.push(Warning::ExcessPackets {
            cells: excess_cells,
        });
    }
    if !outcome.settled {
        warnings.push(Warning::NotSettled);
    }
    let flows = if outcome.sound {
        let mut flows = joint(&system, &outcome, &order, &packets.counts);
        if outcome.sweeps > 0 {
            let doubt = doubt(cells, system.features.learnt());
            for flow in &mut flows {
                // Without any evidence, not even a variance of 0 is certain.
                flow.variance_ticks2 = doubt * flow.variance_ticks2.max(f64::MIN_POSITIVE);
            }
        }
        flows
    } else {
        paper(&shape, segment_mean_ticks, &packets.counts)
    };
    Ok(Decoded {
        flows,
        sweeps: outcome.sweeps,
        last_change: outcome.last_change,
        fallback: (!outcome.sound).then_some(Fallback::Diverged),
        warnings,
    })
}

/// The result without a usable cell.
fn nothing(packets: &Packets) -> Decoded {
    Decoded {
        flows: unknown(&packets.counts),
        sweeps: 0,
        last_change: 0.0,
        fallback: Some(Fallback::NoUsableCell),
        warnings: Vec::new(),
    }
}

/// Flows with known packets and unknown delays.
fn unknown(packets: &[f64]) -> Vec<FlowDelay> {
    let of_flow = |&packets: &f64| FlowDelay {
        mean_ticks: 0.0,
        variance_ticks2: f64::INFINITY,
        packets,
        source: Source::Nothing,
    };
    packets.iter().map(of_flow).collect()
}

/// Converts beliefs to ticks, in the flows' own order.
fn joint(system: &System, outcome: &Outcome, order: &[u32], packets: &[f64]) -> Vec<FlowDelay> {
    let mut flows = unknown(packets);
    for (position, (&flow, belief)) in order.iter().zip(&outcome.beliefs).enumerate() {
        let flow = &mut flows[flow as usize];
        flow.mean_ticks = system.scale.ticks(belief.mean);
        flow.variance_ticks2 = system.scale.ticks2(belief.variance);
        flow.source = if system.edges_of(position).is_empty() {
            Source::Prior
        } else {
            Source::Joint
        };
    }
    flows
}

/// Variance inflation for a prior fitted to few cells: the ratio of the squared 99 % quantiles of Student's
/// and the normal distribution. Rows contain the same packets, so only the cells of one row count, and each
/// `learnt` term takes one.
fn doubt(cells: &DelayCells, learnt: usize) -> f64 {
    let filled = cells.cells().iter().filter(|cell| cell.is_filled()).count();
    let freedom = filled as f64 / cells.layout().rows() as f64 - learnt as f64;
    let student = StudentsT::new(0.0, 1.0, freedom).map(|student| student.inverse_cdf(0.99));
    match student {
        Ok(quantile) if freedom >= 1.0 => (quantile / NORMAL_99).powi(2).max(1.0),
        _ => f64::INFINITY,
    }
}

/// The paper's estimator for every flow, and the segment's mean for flows without one. Errors are unknown.
fn paper(shape: &Shape<'_>, segment_mean_ticks: f64, packets: &[f64]) -> Vec<FlowDelay> {
    let mut flows = unknown(packets);
    for (index, flow) in flows.iter_mut().enumerate() {
        let estimate = shape.cells.estimate_at(shape.base_columns(index));
        (flow.mean_ticks, flow.source) = match estimate {
            Some(estimate) => (estimate.mean_ticks, Source::Paper),
            None => (segment_mean_ticks, Source::SegmentMean),
        };
    }
    flows
}

/// Estimates have settled where a sweep moves them by no more than this share of their deviation.
const SETTLED: f64 = 0.1;

/// Result of the sweeps.
struct Outcome {
    /// One entry for each flow, in decoding order.
    pub beliefs: Vec<Belief>,
    /// Sweeps done.
    pub sweeps: usize,
    /// The largest change in the last sweep, relative to the largest estimate.
    pub last_change: f64,
    /// Whether that is small relative to the estimates' uncertainty.
    pub settled: bool,
    /// Whether all beliefs are in the range that their cells allow.
    pub sound: bool,
}

/// Solves directly as much as possible; then sweeps until nothing changes, changes grow, or the limit is reached. A
/// prior of several components learns from the second sweep on.
fn run(
    system: &System,
    prior: &mut Prior,
    options: &DecodeOptions,
    cancelled: &mut impl FnMut() -> bool,
) -> Result<Outcome, DecodeError> {
    if let [only] = prior.components.as_slice()
        && options.sweeps > 0
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
    while sweeps < options.sweeps {
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
        let converged = last_change <= options.tolerance;
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

/// Stops after this many consecutive sweeps that each moved the means further than the previous one.
const GROWTHS_MAX: usize = 3;
/// How far a flow may be outside the range of its cells, in standard deviations of its prior.
const DEVIATIONS: f64 = 100.0;

/// Keeps the best sweep and decides when to stop.
///
/// On small sketches at a load near one flow a cell, sequential updates can diverge: changes grow without
/// end. Growth is judged by the sum of all steps, because if a flow alternates between two components, the
/// largest step alone grows and shrinks at random.
#[derive(Debug, Default)]
struct Guard {
    last: Option<f64>,
    growths: usize,
    smallest: Option<f64>,
    best: Vec<Belief>,
}

impl Guard {
    /// Records a sweep that moved the means by `change`; returns whether to stop.
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

    /// The beliefs after the sweep that moved them least.
    pub fn best(self) -> Option<Vec<Belief>> {
        (!self.best.is_empty()).then_some(self.best)
    }
}

/// Whether every flow is in the range that its cells and its prior allow.
///
/// A single cell reads a flow as r = (`s_c` - sum over the others of a m) / a with the others at their
/// prior. Exact solutions may lie anywhere between such readings and the prior, for example if a large flow
/// hides a small one, and a little beyond. Diverging solutions soon exceed any multiple.
fn within_range(system: &System, prior: &Prior, beliefs: &[Belief]) -> bool {
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

#[cfg(test)]
mod tests;
