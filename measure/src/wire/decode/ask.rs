//! What is known of one flow of an epoch, whether it was counted or not.

use super::{DecodeJob, FlowOutcome};
use crate::chooser::{Candidate, Method};
use crate::lds::DecodeError;
use crate::observation::SegmentIndex;
use crate::packet::FlowHash;
use crate::rli::FlowDelay;
use crate::wire::WireFlow;

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
    /// with the flows that were. Only the paper's estimator remains, without a bound, if packets of
    /// further flows share the cells, or if cells depend on the packet: then its packets are not known
    /// well enough (bounds held for 138 of 200 flows).
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
        asked.extend(self.ask_cells(flow, &others)?);
        asked.sort_unstable_by_key(|one| one.outcome.segment);
        Ok(asked)
    }

    /// The flow on segments where it was not counted.
    fn ask_cells(
        &self,
        flow: FlowHash,
        segments: &[SegmentIndex],
    ) -> Result<Vec<AskedFlow>, DecodeError> {
        let candidates = self.candidates(flow, segments);
        if candidates.is_empty() {
            return Ok(Vec::new());
        }
        let mut flows = self.flows.clone();
        flows.extend_from_slice(&candidates);
        let decoded = self.decoder().decode(&self.counted(&flows), || false)?;
        let is_whole = decoded.is_whole && !self.cells.layout().asks_which_packet();
        let means = decoded.flows.iter().enumerate().skip(self.flows.len());
        let asked = means.zip(&candidates).map(|((index, means), of)| {
            let mut outcome = self.outcome(index, of, means);
            if !is_whole || of.packets == 0 {
                let paper = self.paper(of).map(|paper| self.clocks.estimate(&paper));
                outcome.chosen = paper;
                outcome.estimates = paper.into_iter().collect();
            }
            AskedFlow {
                outcome,
                is_counted: false,
            }
        });
        Ok(asked.collect())
    }

    /// The flow on those of the segments where it may have had packets, or losses.
    fn candidates(&self, flow: FlowHash, segments: &[SegmentIndex]) -> Vec<WireFlow> {
        let counted = self.flows.iter();
        let counted = counted.map(|of| (of.flow, of.segment, of.packets));
        let is_fixed = !self.cells.layout().asks_which_packet() && !segments.is_empty();
        let claimed = is_fixed.then(|| self.cells.claimed(counted));
        let candidates = segments.iter().filter_map(|&segment| {
            let packets = match &claimed {
                Some(claimed) => self.cells.unclaimed(claimed, flow, segment),
                None => self.cells.packets(flow, segment)?,
            };
            let lost = self.lost_max(flow, segment).unwrap_or(0);
            (packets + lost > 0).then(|| WireFlow {
                flow,
                segment,
                packets,
                bytes: 0,
                delay: FlowDelay::default(),
            })
        });
        candidates.collect()
    }

    /// By the LDS paper's estimator, where a packet of it arrived.
    fn paper(&self, of: &WireFlow) -> Option<Candidate> {
        let estimate = self.cells.estimate(of.flow, of.segment)?;
        (of.packets > 0).then_some(Candidate {
            method: Method::LdsPaper,
            mean_ticks: estimate.mean_ticks,
            bound_ticks: f64::INFINITY,
        })
    }
}
