//! The flows of one epoch: joint decoding with and without references, references alone, and which
//! of them to use.

use arrayvec::ArrayVec;

use super::{ClockBound, Estimate, SEGMENTS_MAX, WireFlow};
use crate::chooser::{Candidate, Decoding, JOINT_DEVIATIONS};
use crate::lds::{
    DecodeError, DecodeOptions, Decoded, DelayCells, FEATURES_MAX, FlowTable, KnownMeans, Source,
    decode,
};
use crate::observation::SegmentIndex;
use crate::packet::FlowHash;
use crate::rli;

mod ask;

pub use ask::AskedFlow;

const _: () = assert!(
    SEGMENTS_MAX as usize <= FEATURES_MAX,
    "one feature for references, and one for each segment but one"
);

/// How many standard deviations of its error the bound of a flow that references speak for is taken
/// for. In `make wire` 98 % of errors lie within .46 to .66 of the bound, which would be 3.5 to 5 of
/// errors that are normal.
const BOUND_DEVIATIONS: f64 = 5.0;

/// The quantiles of a flow's delays.
const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];

/// What is to be decoded: it holds all that it needs, so that another thread can do it.
#[derive(Debug, Clone, PartialEq)]
pub struct DecodeJob {
    /// The sketch.
    pub cells: DelayCells,
    /// Flows as the receiver counted them.
    pub flows: Vec<WireFlow>,
    /// Distributions of the delays of the first of them, by references.
    pub delays: Vec<rli::FlowDistribution>,
    /// How references were used; `None` where there were none.
    pub method: Option<rli::Method>,
    /// Whether packets and references came in the order in which they were sent: else references
    /// say nothing of single flows.
    pub is_fifo: bool,
    /// What the clocks allow.
    pub clocks: ClockBound,
    /// K, the components of the prior.
    pub components: usize,
}

/// What is said of one flow and epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowOutcome {
    /// Its hash.
    pub flow: FlowHash,
    /// Its segment.
    pub segment: SegmentIndex,
    /// Packets that arrived.
    pub packets: u64,
    /// Their bytes, without frame check sequences; 0 where they were not counted one by one.
    pub bytes: u64,
    /// Packets lost, at most; `None` where no row of the sketch takes every packet.
    pub lost_max: Option<u64>,
    /// Standard deviation of its delays in nanoseconds, by references; `None` where they say nothing of it.
    pub stddev_ns: Option<f64>,
    /// Delays that half, nine tenths and 99 % of its packets did not exceed, in nanoseconds; of flows that the receiver
    /// keeps a distribution of, where enough references arrived.
    pub quantiles_ns: Option<[f64; 3]>,
    /// By joint decoding, by joint decoding with references, by references: those that say something.
    pub estimates: ArrayVec<Estimate, 3>,
    /// What the [`chooser`](crate::chooser) makes of them.
    pub chosen: Option<Estimate>,
}

impl DecodeJob {
    /// How much work it is: flows times the cells of each.
    pub fn effort(&self) -> usize {
        let layout = self.cells.layout();
        let cells = layout.rows() * layout.virtual_cells() as usize;
        self.flows.len().saturating_mul(cells).max(layout.cells())
    }

    /// Decodes; `cancelled` is asked from time to time.
    ///
    /// # Errors
    /// [`DecodeError`] when cancelled: the lists fit the sketch.
    pub fn decode(&self, cancelled: impl FnMut() -> bool) -> Result<Vec<FlowOutcome>, DecodeError> {
        let (joint, hybrid) = self.decoded(cancelled)?;
        let outcomes = self.flows.iter().enumerate();
        Ok(outcomes
            .map(|(index, flow)| self.outcome(flow, index, &joint, hybrid.as_ref()))
            .collect())
    }

    /// By the cells alone; by cells and references, where these say something.
    fn decoded(
        &self,
        mut cancelled: impl FnMut() -> bool,
    ) -> Result<(Decoded, Option<Decoded>), DecodeError> {
        let lists = Lists::new(self);
        let options = DecodeOptions {
            components: self.components,
            sweeps: if self.components > 1 { 20 } else { 10 },
            ..DecodeOptions::default()
        };
        let mut decode = |table| decode(&self.cells, table, &options, &mut cancelled);
        let joint = decode(lists.table())?;
        let hybrid = (lists.references)
            .say_something()
            .then(|| decode(lists.table_with_references(self.is_fifo)))
            .transpose()?;
        Ok((joint, hybrid))
    }

    fn outcome(
        &self,
        flow: &WireFlow,
        index: usize,
        joint: &Decoded,
        hybrid: Option<&Decoded>,
    ) -> FlowOutcome {
        let joint = candidate(joint, index, Decoding::Cells);
        let rli = self.method.filter(|_| self.is_fifo).and_then(|method| {
            let bound = flow.delay.bound_ns(method).unwrap_or(f64::INFINITY);
            Some(Candidate::rli(flow.delay.mean_ns()?, bound))
        });
        let hybrid = hybrid
            .and_then(|hybrid| candidate(hybrid, index, Decoding::CellsAndReferences))
            .map(|hybrid| rli.map_or(hybrid, |rli| widened(hybrid, rli)));
        let candidates: ArrayVec<Candidate, 3> =
            [joint, hybrid, rli].into_iter().flatten().collect();
        let chosen = self.clocks.choose(candidates.clone());
        FlowOutcome {
            flow: flow.flow,
            segment: flow.segment,
            packets: flow.packets,
            bytes: flow.bytes,
            lost_max: self.lost_max(flow.flow, flow.segment),
            stddev_ns: flow.delay.stddev_ns().filter(|_| self.is_fifo),
            estimates: candidates
                .iter()
                .map(|candidate| self.clocks.estimate(candidate))
                .collect(),
            quantiles_ns: self.quantiles_ns(flow, index, chosen.as_ref()),
            chosen,
        }
    }

    /// With the chosen mean; of a flow that has estimates for nine in ten of its packets.
    fn quantiles_ns(
        &self,
        flow: &WireFlow,
        index: usize,
        chosen: Option<&Estimate>,
    ) -> Option<[f64; 3]> {
        let delays = self.delays.get(index).filter(|_| self.is_fifo)?;
        let is_enough = 10 * delays.packets() >= 9 * flow.packets;
        delays
            .quantiles_ns(QUANTILES, chosen?.mean_ns)
            .filter(|_| is_enough)
    }

    fn lost_max(&self, flow: FlowHash, segment: SegmentIndex) -> Option<u64> {
        let layout = self.cells.layout();
        let columns = layout.base_columns(flow, segment);
        let lost = u64::try_from(self.cells.lost_at(&columns)?).unwrap_or(0);
        Some(lost / u64::from(layout.weight(segment)).max(1))
    }
}

/// What decoding says of a flow. One without a usable cell has lost packets, and others, which
/// taught the prior, have not: what the prior says has no bound.
fn candidate(decoded: &Decoded, index: usize, decoding: Decoding) -> Option<Candidate> {
    let flow = decoded.flows.get(index)?;
    let candidate = Candidate::decoded(flow, decoding)?;
    let is_prior = flow.source == Source::Prior;
    Some(Candidate {
        bound_ticks: if is_prior {
            f64::INFINITY
        } else {
            candidate.bound_ticks
        },
        ..candidate
    })
}

/// The hybrid with a bound that allows for references' errors, which are not normal: as much of its variance as
/// comes from them counts [`BOUND_DEVIATIONS`], the rest [`JOINT_DEVIATIONS`]. Where cells add nothing the
/// bound is RLI's.
fn widened(hybrid: Candidate, rli: Candidate) -> Candidate {
    let deviation = hybrid.bound_ticks / JOINT_DEVIATIONS;
    let of_references = rli.bound_ticks / BOUND_DEVIATIONS;
    let share = (deviation / of_references).powi(2).min(1.0);
    let deviations = JOINT_DEVIATIONS + share * (BOUND_DEVIATIONS - JOINT_DEVIATIONS);
    Candidate {
        bound_ticks: deviations * deviation,
        ..hybrid
    }
}

/// Flows as decoding takes them. Delays of two segments may have nothing to do with each other: each
/// segment but the first is a feature of its flows.
struct Lists {
    columns: Vec<u32>,
    packets: Vec<f64>,
    weights: Vec<f64>,
    segments: Vec<f64>,
    segment_features: usize,
    references: References,
}

/// What references say of each flow; empty where there were none.
#[derive(Default)]
struct References {
    /// Its mean; NaN where they say nothing of it.
    means: Vec<f64>,
    /// The same, and the segments.
    features: Vec<f64>,
    /// What the mean may be wrong by, as a variance.
    errors: Vec<f64>,
    /// How the delays of its packets vary, by references and by what these may be wrong by.
    packets: Vec<f64>,
}

impl References {
    fn add(&mut self, delay: &rli::FlowDelay, method: rli::Method, segments: &[f64]) {
        let mean_ns = delay.mean_ns().unwrap_or(f64::NAN);
        self.means.push(mean_ns);
        self.features.push(mean_ns);
        self.features.extend(segments);
        let bound_ns = delay.bound_ns(method).unwrap_or(f64::INFINITY);
        let error_ns2 = (bound_ns / BOUND_DEVIATIONS).powi(2);
        self.errors.push(error_ns2);
        // Single packets lie off the curve between references by more than their mean does.
        let off_ns2 = error_ns2 * delay.effective_intervals();
        let variance_ns2 = delay.variance_ns2().unwrap_or(f64::NAN);
        self.packets.push(variance_ns2 + off_ns2);
    }

    fn say_something(&self) -> bool {
        self.means.iter().any(|mean_ns| mean_ns.is_finite())
    }
}

impl Lists {
    fn new(job: &DecodeJob) -> Self {
        let layout = job.cells.layout();
        let last = job.flows.iter().map(|flow| flow.segment.0).max();
        let last = last.unwrap_or(0).min(SEGMENTS_MAX - 1);
        let mut lists = Self {
            columns: Vec::with_capacity(job.flows.len() * layout.rows()),
            packets: Vec::with_capacity(job.flows.len()),
            weights: Vec::with_capacity(job.flows.len()),
            segments: Vec::new(),
            segment_features: last.into(),
            references: References::default(),
        };
        for flow in &job.flows {
            let columns = layout.base_columns(flow.flow, flow.segment);
            lists.columns.extend(columns.iter().take(layout.rows()));
            lists.packets.push(flow.packets as f64);
            lists.weights.push(layout.weight(flow.segment).into());
            let is_its = |segment| f64::from(u8::from(flow.segment == SegmentIndex(segment)));
            let segments: ArrayVec<f64, FEATURES_MAX> = (1..=last).map(is_its).collect();
            lists.segments.extend_from_slice(&segments);
            if let Some(method) = job.method {
                lists.references.add(&flow.delay, method, &segments);
            }
        }
        lists
    }

    fn table(&self) -> FlowTable<'_> {
        FlowTable {
            columns: &self.columns,
            packets: Some(&self.packets),
            weights: Some(&self.weights),
            features: &self.segments,
            features_per_flow: self.segment_features,
            known: None,
        }
    }

    /// With what references say: of flows that were `in_order` with them their means, of others a
    /// hint.
    fn table_with_references(&self, in_order: bool) -> FlowTable<'_> {
        let References {
            means,
            features,
            errors,
            packets,
        } = &self.references;
        if in_order {
            let known = KnownMeans {
                mean_ticks: means,
                error_ticks2: errors,
                packets_ticks2: packets,
            };
            return FlowTable {
                known: Some(known),
                ..self.table()
            };
        }
        FlowTable {
            features,
            features_per_flow: self.segment_features + 1,
            ..self.table()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hybrid(bound_ticks: f64) -> Candidate {
        Candidate {
            method: crate::chooser::Method::Hybrid,
            mean_ticks: 0.0,
            bound_ticks,
        }
    }

    proptest! {
        /// Precisions add up: cells that know nothing leave the references' error, cells that know all leave none.
        #[test]
        fn a_hybrid_that_learns_nothing_from_cells_is_as_sure_as_its_references(
            references in 1.0..1e9_f64, cells in 0.01..100.0_f64
        ) {
            let of_references = references / BOUND_DEVIATIONS;
            let bound = |deviation: f64| {
                let narrow = hybrid(JOINT_DEVIATIONS * deviation);
                widened(narrow, Candidate::rli(0.0, references)).bound_ticks
            };
            prop_assert!((bound(of_references) / references - 1.0).abs() < 1e-9);
            let deviation = of_references / (1.0 + cells).sqrt();
            let deviations = bound(deviation) / deviation;
            prop_assert!((JOINT_DEVIATIONS..=BOUND_DEVIATIONS).contains(&deviations));
            prop_assert!(bound(deviation) < references);
            prop_assert!((bound(1e-6 * of_references) / (1e-6 * of_references) - JOINT_DEVIATIONS).abs() < 1e-6);
        }
    }

    #[test]
    fn what_has_no_bound_keeps_none() {
        let unknown = hybrid(f64::INFINITY);
        let references = |bound| Candidate::rli(0.0, bound);
        for bound in [1.0, f64::INFINITY] {
            assert_eq!(widened(unknown, references(bound)), unknown);
        }
        assert_eq!(widened(hybrid(3.0), references(f64::INFINITY)), hybrid(3.0));
    }
}
