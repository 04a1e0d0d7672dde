//! Joint decoding: the delays of all flows at once.
//!
//! The usable cells are one sparse linear system in the flow means x: `s_c` = sum `a_cf` `x_f` + `e_c`. The
//! paper reads each flow from its emptiest cells as if the others in there did not exist; here every
//! flow is an unknown, all are solved together, and what the cells leave open is filled by a prior
//! that the cells themselves teach:
//!
//! ```text
//! DelayCells --+                                                  +---- learn (K > 1) <---+
//!              +--> counts ----> system -----> prior fit --+--> sweep, large flows first -+--> guard --> Decoded
//! FlowTable ---+    where not    a, s, e_c     K = 1, from  |                                    ^
//!                   known        unlisted      the cells    +--> peel, small core directly ------+
//! ```
//!
//! A mean that is known from elsewhere, with its error, is where a flow's prior begins. A virtual LDA or a
//! sampled row reads parts of flows: how far these may be from the whole follows from which parts are read.
//!
//! With R = 3 and up to about three flows for every four cells of the whole sketch, flows peel off one
//! by one and every one of them comes out exact; above, sweeps of belief propagation take over, and
//! each estimate carries its posterior variance.

mod counts;
mod direct;
mod edges;
mod features;
mod guard;
mod linear;
mod mixture;
mod prior;
mod run;
mod shape;
mod sweep;
mod system;
mod types;
mod unlisted;

pub use types::{
    DecodeError, DecodeOptions, Decoded, Fallback, FlowDelay, FlowTable, KnownMeans, Source,
    Warning,
};

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::DelayCells;
use counts::Packets;
use edges::Delays;
use run::{Limits, Outcome};
use shape::Shape;
use system::System;

/// Most components of the prior.
pub const COMPONENTS_MAX: usize = 3;
/// Most features a flow, without the constant.
pub const FEATURES_MAX: usize = 8;

/// The normal distribution's quantile at 99 %.
const NORMAL_99: f64 = 2.326_347_874_040_841;
/// Unlisted packets are worth a warning from this share on.
const UNLISTED_SHARE: f64 = 1e-3;

/// Decodes; `cancelled` is asked between sweeps. The same input gives the same output, bit by bit.
///
/// # Errors
/// [`DecodeError`] when the lists fit neither each other nor the sketch, or when cancelled.
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
    let order = shape::falling(&packets.counts);
    let Delays {
        system,
        unlisted_share,
        excess_cells,
    } = edges::delays(&shape, &packets, &order);
    let mut prior = mixture::spread(&prior::fit(&system), options.components);
    let limits = Limits {
        sweeps: options.sweeps,
        tolerance: options.tolerance,
    };
    let outcome = run::run(&system, &mut prior, limits, &mut cancelled)?;

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
                // Of nothing to go by, not even a variance of 0 is known.
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

/// All that can be said without a usable cell.
fn nothing(packets: &Packets) -> Decoded {
    let unknown = |&packets: &f64| FlowDelay {
        mean_ticks: 0.0,
        variance_ticks2: f64::INFINITY,
        packets,
        source: Source::Nothing,
    };
    Decoded {
        flows: packets.counts.iter().map(unknown).collect(),
        sweeps: 0,
        last_change: 0.0,
        fallback: Some(Fallback::NoUsableCell),
        warnings: Vec::new(),
    }
}

/// Beliefs in ticks, in the flows' own order.
fn joint(system: &System, outcome: &Outcome, order: &[u32], packets: &[f64]) -> Vec<FlowDelay> {
    let mut flows: Vec<FlowDelay> = packets
        .iter()
        .map(|&packets| FlowDelay {
            mean_ticks: 0.0,
            variance_ticks2: f64::INFINITY,
            packets,
            source: Source::Nothing,
        })
        .collect();
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

/// How much larger variances are than the fitted prior makes them, for that it was fitted to so few
/// cells: by the squared quantiles of Student's distribution and the normal one at 99 %. Rows see the
/// same packets, so that only cells of one row count, and each term that was `learnt` takes one.
fn doubt(cells: &DelayCells, learnt: usize) -> f64 {
    let filled = cells.cells().iter().filter(|cell| cell.is_filled()).count();
    let freedom = filled as f64 / cells.layout().rows() as f64 - learnt as f64;
    let student = StudentsT::new(0.0, 1.0, freedom).map(|student| student.inverse_cdf(0.99));
    match student {
        Ok(quantile) if freedom >= 1.0 => (quantile / NORMAL_99).powi(2).max(1.0),
        _ => f64::INFINITY,
    }
}

/// The paper's estimator for every flow, and the mean over the segment where it has none. Errors
/// are not known.
fn paper(shape: &Shape<'_>, segment_mean_ticks: f64, packets: &[f64]) -> Vec<FlowDelay> {
    let of_flow = |(flow, &packets): (usize, &f64)| {
        let estimate = shape.cells.estimate_at(shape.base_columns(flow));
        FlowDelay {
            mean_ticks: estimate.map_or(segment_mean_ticks, |estimate| estimate.mean_ticks),
            variance_ticks2: f64::INFINITY,
            packets,
            source: estimate.map_or(Source::SegmentMean, |_| Source::Paper),
        }
    };
    packets.iter().enumerate().map(of_flow).collect()
}

#[cfg(test)]
mod tests;
