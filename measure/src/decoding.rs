//! Estimates the flows of one sketch by joint decoding, with and without references, and by references
//! alone, and chooses among them. Used both inside the switch and between switches.

use std::collections::BTreeMap;

use arrayvec::ArrayVec;

use crate::chooser::{Candidate, Decoding, JOINT_DEVIATIONS, Method, choose};
use crate::lds::{
    DecodeError, DecodeOptions, Decoded, DelayCells, FEATURES_MAX, FlowTable, KnownMean, LdsLayout,
    Warning, decode,
};
use crate::observation::SegmentIndex;
use crate::packet::FlowHash;
use crate::rli;

/// Standard deviations of the error that the bound of a flow with references stands for. In `make wire` 98
/// % of errors are within .46 to .66 of the bound, which would be 3.5 to 5 deviations of normal errors.
const BOUND_DEVIATIONS: f64 = 5.0;

/// A flow on one segment, as counted at one point over the time of a sketch.
#[derive(Debug, Clone, Copy)]
pub struct CountedFlow<'f> {
    /// Its hash.
    pub flow: FlowHash,
    /// Its segment.
    pub segment: SegmentIndex,
    /// Packets that arrived.
    pub packets: u64,
    /// Estimate by references, and its method; `None` if its segment has none.
    pub references: Option<(&'f rli::FlowDelay, rli::Method)>,
}

/// A sketch, and how to decode its flows.
#[derive(Debug, Clone, Copy)]
pub struct FlowDecoder<'c> {
    /// The sketch.
    pub cells: &'c DelayCells,
    /// K, the components of the prior.
    pub components: usize,
    /// Cell units in a nanosecond.
    pub ticks_per_ns: f64,
    /// The clocks' resolution in cell units; no bound is smaller when estimates are compared.
    pub floor_ticks: f64,
    /// Whether packets and references arrived in the order in which they were sent; if not, references are
    /// not used for single flows.
    pub is_fifo: bool,
}

/// Estimates of one flow, in cell units.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowMeans {
    /// Estimates by joint decoding, by joint decoding with references, and by references, as far as
    /// available.
    pub candidates: ArrayVec<Candidate, 3>,
    /// Result of the [`chooser`](crate::chooser).
    pub chosen: Option<Candidate>,
}

/// A flow on a segment where it was not counted.
#[derive(Debug, Clone, PartialEq)]
pub struct AskedFlow {
    /// The segment.
    pub segment: SegmentIndex,
    /// Most packets of it that arrived.
    pub packets: u64,
    /// Most packets of it that were lost.
    pub lost: u64,
    /// Estimates from decoding it together with the counted flows; `None` if the number of its packets is too
    /// uncertain.
    pub means: Option<FlowMeans>,
    /// Estimate by the LDS paper's estimator, without a bound; `None` if no packet arrived, or no cell is usable.
    pub paper: Option<Candidate>,
}

/// Estimates of all flows of a sketch.
#[derive(Debug, Clone, PartialEq)]
pub struct DecodedFlows {
    /// One entry for each flow, in order.
    pub flows: Vec<FlowMeans>,
    /// Whether the listed flows account for all packets in their cells. If not, no bound holds for a flow whose
    /// packets were computed as the remainder.
    pub is_whole: bool,
}

impl FlowDecoder<'_> {
    /// Decodes; calls `cancelled` from time to time.
    ///
    /// # Errors
    /// [`DecodeError`] if cancelled: the lists fit the sketch.
    pub fn decode(
        &self,
        flows: &[CountedFlow<'_>],
        mut cancelled: impl FnMut() -> bool,
    ) -> Result<DecodedFlows, DecodeError> {
        let lists = Lists::new(self, flows);
        let options = DecodeOptions {
            components: self.components,
            sweeps: if self.components > 1 { 20 } else { 10 },
            ..DecodeOptions::default()
        };
        let mut decode = |table: FlowTable<'_>| decode(self.cells, table, &options, &mut cancelled);
        let joint = decode(lists.table())?;
        // By cells and references, if there are estimates by references.
        let hybrid = if !lists.known.iter().any(|known| known.mean_ticks.is_finite()) {
            None
        } else if self.is_fifo {
            let known = Some(&lists.known[..]);
            Some(decode(FlowTable {
                known,
                ..lists.table()
            })?)
        } else {
            Some(decode(FlowTable {
                features: &lists.hints(),
                features_per_flow: lists.segment_features + 1,
                ..lists.table()
            })?)
        };
        let is_unlisted = |warning: &Warning| matches!(warning, Warning::UnlistedPackets { .. });
        let flows = flows.iter().enumerate();
        Ok(DecodedFlows {
            flows: flows
                .map(|(index, flow)| self.means(flow, index, &joint, hybrid.as_ref()))
                .collect(),
            is_whole: !joint.warnings.iter().any(is_unlisted),
        })
    }

    /// Estimates a flow on segments where it may have had packets or losses, beside `counted` flows. It is decoded
    /// together with them unless packets of further flows share the cells, or cells depend on the packet: then the
    /// number of its packets is too uncertain (bounds held for 138 of 200 flows).
    ///
    /// # Errors
    /// [`DecodeError`], if decoding is necessary.
    pub fn ask(
        &self,
        counted: &[CountedFlow<'_>],
        flow: FlowHash,
        segments: impl IntoIterator<Item = SegmentIndex>,
    ) -> Result<Vec<AskedFlow>, DecodeError> {
        let is_fixed = !self.cells.layout().asks_which_packet();
        let mut segments = segments.into_iter().peekable();
        let claimed = (is_fixed && segments.peek().is_some()).then(|| {
            let counted = counted.iter();
            let claims = counted.map(|of| (of.flow, of.segment, of.packets));
            self.cells.claimed(claims)
        });
        let asked = segments.filter_map(|segment| {
            let packets = match &claimed {
                Some(claimed) => self.cells.unclaimed(claimed, flow, segment),
                None => self.cells.packets(flow, segment)?,
            };
            let lost = self.cells.lost(flow, segment).unwrap_or(0);
            let lost = u64::try_from(lost).unwrap_or(0);
            (packets + lost > 0).then(|| AskedFlow {
                segment,
                packets,
                lost,
                means: None,
                paper: self.paper(flow, segment).filter(|_| packets > 0),
            })
        });
        let mut asked: Vec<AskedFlow> = asked.collect();
        if is_fixed && !asked.is_empty() {
            let mut flows = counted.to_vec();
            flows.extend(asked.iter().map(|of| CountedFlow {
                flow,
                segment: of.segment,
                packets: of.packets,
                references: None,
            }));
            let decoded = self.decode(&flows, || false)?;
            let means = decoded.flows.into_iter().skip(counted.len());
            for (asked, means) in asked.iter_mut().zip(means) {
                asked.means = Some(means).filter(|_| decoded.is_whole);
            }
        }
        Ok(asked)
    }

    fn paper(&self, flow: FlowHash, segment: SegmentIndex) -> Option<Candidate> {
        Some(Candidate {
            method: Method::LdsPaper,
            mean_ticks: self.cells.estimate(flow, segment)?.mean_ticks,
            bound_ticks: f64::INFINITY,
        })
    }

    fn means(
        &self,
        flow: &CountedFlow<'_>,
        index: usize,
        joint: &Decoded,
        hybrid: Option<&Decoded>,
    ) -> FlowMeans {
        let decoded = |of: &Decoded, by| Candidate::decoded(of.flows.get(index)?, by);
        let joint = decoded(joint, Decoding::Cells);
        let rli = flow.references.filter(|_| self.is_fifo);
        let rli = rli.and_then(|of| of_references(of, flow.packets, self.ticks_per_ns));
        let hybrid = hybrid
            .and_then(|hybrid| decoded(hybrid, Decoding::CellsAndReferences))
            .map(|hybrid| rli.map_or(hybrid, |rli| widened(hybrid, rli)));
        let candidates: ArrayVec<Candidate, 3> =
            [joint, hybrid, rli].into_iter().flatten().collect();
        FlowMeans {
            chosen: choose(candidates.iter().copied(), self.floor_ticks),
            candidates,
        }
    }
}

/// Estimate by references alone for a flow of this many packets; `None` without one. It has no bound if fewer than
/// nine in ten of the packets were estimated, because the others are unknown.
pub fn of_references(
    (delay, method): (&rli::FlowDelay, rli::Method),
    packets: u64,
    ticks_per_ns: f64,
) -> Option<Candidate> {
    let speaks_for_all = 10 * u128::from(delay.packets()) >= 9 * u128::from(packets);
    let bound_ns = delay.bound_ns(method).filter(|_| speaks_for_all);
    let bound_ns = bound_ns.unwrap_or(f64::INFINITY);
    let [mean_ticks, bound_ticks] = [delay.mean_ns()?, bound_ns].map(|ns| ns * ticks_per_ns);
    Some(Candidate::rli(method, mean_ticks, bound_ticks))
}

/// The hybrid with a bound that allows for references' errors, which are not normal: the part of its variance
/// due to references counts [`BOUND_DEVIATIONS`], the rest [`JOINT_DEVIATIONS`]. If cells add nothing, the
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

/// Flows as input to decoding. Delays of two segments may be unrelated (other classes, other queues), so each
/// segment but one is a feature of its flows.
struct Lists {
    columns: Vec<u32>,
    packets: Vec<f64>,
    weights: Vec<f64>,
    segments: Vec<f64>,
    segment_features: usize,
    /// Estimates by references; empty if there were none. The mean is in cell units. The error is that of the mean;
    /// the packets' variance includes the references' errors.
    known: Vec<KnownMean>,
}

/// The estimate of a flow by references.
fn known_mean(flow: &CountedFlow<'_>, ticks_per_ns: f64) -> KnownMean {
    let references = flow.references;
    let known = references.and_then(|of| of_references(of, flow.packets, ticks_per_ns));
    let bound = known.map_or(f64::INFINITY, |candidate| candidate.bound_ticks);
    let error = (bound / BOUND_DEVIATIONS).powi(2);
    let packets = references.and_then(|(delay, _)| {
        // The error of single packets relative to the curve between references exceeds that of their mean.
        let off = error * delay.effective_intervals();
        Some(delay.variance_ns2()? * ticks_per_ns.powi(2) + off)
    });
    KnownMean {
        mean_ticks: known.map_or(f64::NAN, |candidate| candidate.mean_ticks),
        error_ticks2: error,
        packets_ticks2: packets.unwrap_or(f64::NAN),
    }
}

/// The segments that become features: those with most flows, as many as decoding accepts in addition to
/// references. The last segment, or all beyond that number, are the flows without a feature.
fn segment_features(flows: &[CountedFlow<'_>]) -> ArrayVec<SegmentIndex, FEATURES_MAX> {
    let mut by_segment: BTreeMap<SegmentIndex, usize> = BTreeMap::new();
    for flow in flows {
        *by_segment.entry(flow.segment).or_default() += 1;
    }
    let ranked = by_segment
        .into_iter()
        .map(|(segment, flows)| (flows, segment));
    let mut ranked: Vec<(usize, SegmentIndex)> = ranked.collect();
    ranked.sort_unstable_by(|a, b| b.cmp(a));
    let features = ranked.len().saturating_sub(1).min(FEATURES_MAX - 1);
    ranked.truncate(features);
    ranked.into_iter().map(|(_, segment)| segment).collect()
}

impl Lists {
    fn new(decoder: &FlowDecoder<'_>, flows: &[CountedFlow<'_>]) -> Self {
        let layout: &LdsLayout = decoder.cells.layout();
        let features = segment_features(flows);
        let mut lists = Self {
            columns: Vec::with_capacity(flows.len() * layout.rows()),
            packets: Vec::with_capacity(flows.len()),
            weights: Vec::with_capacity(flows.len()),
            segments: Vec::with_capacity(flows.len() * features.len()),
            segment_features: features.len(),
            known: Vec::new(),
        };
        let has_references = flows.iter().any(|flow| flow.references.is_some());
        for flow in flows {
            let columns = layout.base_columns(flow.flow, flow.segment);
            lists.columns.extend(columns.iter().take(layout.rows()));
            lists.packets.push(flow.packets as f64);
            lists.weights.push(layout.weight(flow.segment).into());
            let is_its = |&segment: &SegmentIndex| f64::from(u8::from(flow.segment == segment));
            lists.segments.extend(features.iter().map(is_its));
            if has_references {
                lists.known.push(known_mean(flow, decoder.ticks_per_ns));
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

    /// The mean of each flow by references, and its segments: a hint for flows that were not in order with the
    /// references.
    fn hints(&self) -> Vec<f64> {
        let segments = (0..)
            .map(|flow| &self.segments[flow * self.segment_features..][..self.segment_features]);
        let flows = self.known.iter().zip(segments);
        flows
            .flat_map(|(known, segments)| std::iter::once(&known.mean_ticks).chain(segments))
            .copied()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SUMS: rli::Method = rli::Method::Sums;

    fn hybrid(bound_ticks: f64) -> Candidate {
        Candidate {
            method: crate::chooser::Method::Hybrid,
            mean_ticks: 0.0,
            bound_ticks,
        }
    }

    proptest! {
        /// Precisions add up: cells without information leave the references' error, complete cells leave none.
        #[test]
        fn a_hybrid_that_learns_nothing_from_cells_is_as_sure_as_its_references(
            references in 1.0..1e9_f64, cells in 0.01..100.0_f64
        ) {
            let of_references = references / BOUND_DEVIATIONS;
            let bound = |deviation: f64| {
                let narrow = hybrid(JOINT_DEVIATIONS * deviation);
                widened(narrow, Candidate::rli(SUMS, 0.0, references)).bound_ticks
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
    fn references_for_few_of_a_flow_s_packets_have_no_bound_for_it() {
        let mut delay = rli::FlowDelay::default();
        for interval in 1..=9 {
            delay.add(&rli::Estimate {
                epoch: crate::time::EpochTag::default(),
                received_ns: 0,
                delay_ns: 50.0,
                squared_error_ns2: 1.0,
                share_of_sum: 0.0,
                interval,
            });
        }
        let of = |packets| of_references((&delay, SUMS), packets, 2.0).unwrap();
        assert!((of(9).mean_ticks - 100.0).abs() < 1e-9);
        assert!(of(9).bound_ticks.is_finite());
        assert_eq!(of(10), of(9));
        assert_eq!(of(11).mean_ticks.to_bits(), of(9).mean_ticks.to_bits());
        assert!(of(11).bound_ticks.is_infinite());
        let nothing = rli::FlowDelay::default();
        assert_eq!(of_references((&nothing, SUMS), 5, 1.0), None);
    }

    #[test]
    fn what_has_no_bound_keeps_none() {
        let unknown = hybrid(f64::INFINITY);
        let references = |bound| Candidate::rli(SUMS, 0.0, bound);
        for bound in [1.0, f64::INFINITY] {
            assert_eq!(widened(unknown, references(bound)), unknown);
        }
        assert_eq!(widened(hybrid(3.0), references(f64::INFINITY)), hybrid(3.0));
    }
}
