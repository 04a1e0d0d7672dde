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

/// A decoding job. It holds all that it needs, so that another thread can do it.
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
    /// What the [`chooser`](measure::chooser) makes of them.
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
            // The cells of a wire hold nanoseconds.
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
        Some(u64::try_from(self.cells.lost(flow, segment)?).unwrap_or(0))
    }
}

/// A flow that was asked for, on one segment.
#[derive(Debug, Clone, PartialEq)]
pub struct AskedFlow {
    /// Its packets and delay.
    pub outcome: FlowOutcome,
    /// Whether its packets were counted one by one. If not, `packets` is what its cells hold at most.
    pub is_counted: bool,
}

impl DecodeJob {
    /// The flow on each of the first `segments` segments where it may have had packets. `outcomes` is
    /// what the job was [decoded](Self::decode) to. Where it was not counted it is decoded together
    /// with the flows that were, if its packets are known well enough ([`FlowDecoder::ask`]); otherwise only the
    /// paper's estimator remains, without a bound.
    ///
    /// # Errors
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
