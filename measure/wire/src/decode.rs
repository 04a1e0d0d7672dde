//! The flows of one epoch of a wire.

use arrayvec::ArrayVec;

use super::{ClockBound, Estimate, SEGMENTS_MAX, WireFlow};
use measure::decoding::{CountedFlow, FlowDecoder, FlowMeans};
use measure::lds::{DecodeError, DelayCells, FEATURES_MAX};
use measure::observation::SegmentIndex;
use measure::packet::FlowHash;
use measure::rli::{self, FlowDelay};

const _: () = assert!(
    SEGMENTS_MAX as usize <= FEATURES_MAX,
    "one feature for references, and one for each segment but one"
);

/// The quantiles of a flow's delays.
const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];

/// A decoding job. It owns all its data, so that another thread can run it.
#[derive(Debug, Clone, PartialEq)]
pub struct DecodeJob {
    /// The sketch.
    pub cells: DelayCells,
    /// Flows as counted by the receiver.
    pub flows: Vec<WireFlow>,
    /// Distributions of delays by references, for the first of these flows.
    pub delays: Vec<rli::FlowDistribution>,
    /// How references were used; `None` without references.
    pub method: Option<rli::Method>,
    /// Whether packets and references arrived in the order in which they were sent; if not, references are
    /// not used for single flows.
    pub is_fifo: bool,
    /// Accuracy of the clocks.
    pub clocks: ClockBound,
    /// K, the components of the prior.
    pub components: usize,
}

/// Estimates of one flow in one epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowOutcome {
    /// Its hash.
    pub flow: FlowHash,
    /// Its segment.
    pub segment: SegmentIndex,
    /// Packets that arrived.
    pub packets: u64,
    /// Their bytes, without frame check sequences; 0 if they were not counted individually.
    pub bytes: u64,
    /// Most packets lost; `None` if no row of the sketch takes every packet.
    pub lost_max: Option<u64>,
    /// Standard deviation of its delays in nanoseconds, from references; `None` if they give none.
    pub stddev_ns: Option<f64>,
    /// Delays not exceeded by half, nine tenths and 99 % of its packets, in nanoseconds; for flows with a
    /// distribution at the receiver, if enough references arrived.
    pub quantiles_ns: Option<[f64; 3]>,
    /// Estimates by joint decoding, by joint decoding with references, and by references, as far as
    /// available.
    pub estimates: ArrayVec<Estimate, 3>,
    /// Result of the [`chooser`](measure::chooser).
    pub chosen: Option<Estimate>,
}

impl DecodeJob {
    /// Amount of work: flows times the cells of each.
    pub fn effort(&self) -> usize {
        let layout = self.cells.layout();
        let cells = layout.rows() * layout.virtual_cells() as usize;
        self.flows.len().saturating_mul(cells).max(layout.cells())
    }

    /// Decodes; calls `cancelled` from time to time.
    ///
    /// # Errors
    /// [`DecodeError`] if cancelled: the lists fit the sketch.
    pub fn decode(&self, cancelled: impl FnMut() -> bool) -> Result<Vec<FlowOutcome>, DecodeError> {
        let decoded = self.decoder().decode(&self.counted(), cancelled)?;
        let outcomes = self.flows.iter().zip(&decoded.flows).enumerate();
        Ok(outcomes
            .map(|(index, (flow, means))| self.outcome(index, flow, means))
            .collect())
    }

    fn decoder(&self) -> FlowDecoder<'_> {
        FlowDecoder {
            cells: &self.cells,
            components: self.components,
            // The cells of a wire contain nanoseconds.
            ticks_per_ns: 1.0,
            floor_ticks: self.clocks.resolution_ns,
            is_fifo: self.is_fifo,
        }
    }

    fn counted(&self) -> Vec<CountedFlow<'_>> {
        let counted = self.flows.iter().map(|flow| CountedFlow {
            flow: flow.flow,
            segment: flow.segment,
            packets: flow.packets,
            references: self.method.map(|method| (&flow.delay, method)),
        });
        counted.collect()
    }

    fn outcome(&self, index: usize, flow: &WireFlow, means: &FlowMeans) -> FlowOutcome {
        let estimate = |candidate| self.clocks.estimate(candidate);
        let chosen = means.chosen.as_ref().map(estimate);
        FlowOutcome {
            flow: flow.flow,
            segment: flow.segment,
            packets: flow.packets,
            bytes: flow.bytes,
            lost_max: self.lost_max(flow.flow, flow.segment),
            stddev_ns: flow.delay.stddev_ns().filter(|_| self.is_fifo),
            estimates: means.candidates.iter().map(estimate).collect(),
            quantiles_ns: self.quantiles_ns(flow, index, chosen.as_ref()),
            chosen,
        }
    }

    /// Scaled to the chosen mean; for a flow with estimates for nine in ten of its packets.
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
        Some(u64::try_from(self.cells.lost(flow, segment)?).unwrap_or(0))
    }
}

/// A requested flow on one segment.
#[derive(Debug, Clone, PartialEq)]
pub struct AskedFlow {
    /// Its packets and delay.
    pub outcome: FlowOutcome,
    /// Whether its packets were counted individually. If not, `packets` is the most that its cells allow.
    pub is_counted: bool,
}

impl DecodeJob {
    /// The flow on each of the first `segments` segments where it may have had packets. `outcomes` is the
    /// [decoded](Self::decode) job. A flow that was not counted is decoded together with those that were, if the
    /// number of its packets is certain enough ([`FlowDecoder::ask`]); otherwise only the paper's estimator
    /// remains, without a bound.
    ///
    /// # Errors
    /// [`DecodeError`], if decoding is necessary.
    /// [`DecodeError`], where it has to be decoded.
    pub fn ask(
        &self,
        outcomes: &[FlowOutcome],
        flow: FlowHash,
        segments: u16,
    ) -> Result<Vec<AskedFlow>, DecodeError> {
        let counted = outcomes.iter().filter(|outcome| outcome.flow == flow);
        let mut asked: Vec<AskedFlow> = counted
            .map(|outcome| AskedFlow {
                outcome: outcome.clone(),
                is_counted: true,
            })
            .collect();
        let is_counted = |segment| asked.iter().any(|one| one.outcome.segment == segment);
        let others = (0..segments).map(SegmentIndex);
        let others: Vec<SegmentIndex> = others.filter(|&other| !is_counted(other)).collect();
        for other in self.decoder().ask(&self.counted(), flow, others)? {
            let means = other.means.filter(|_| other.packets > 0);
            let means = means.unwrap_or_else(|| FlowMeans {
                candidates: other.paper.into_iter().collect(),
                chosen: other.paper,
            });
            let of = WireFlow {
                flow,
                segment: other.segment,
                packets: other.packets,
                bytes: 0,
                delay: FlowDelay::default(),
            };
            asked.push(AskedFlow {
                outcome: self.outcome(usize::MAX, &of, &means),
                is_counted: false,
            });
        }
        asked.sort_unstable_by_key(|one| one.outcome.segment);
        Ok(asked)
    }
}
