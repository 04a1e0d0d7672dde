//! Both ends' halves of one epoch, put together: what is said of each segment.

use super::{WireSegment, WireShard};
use measure::cell::{Cell, CellPair};
use measure::chooser::{Candidate, Method, choose};
use measure::lda::LdaEstimate;
use measure::lds::DelayCells;
use measure::rli;
use measure::shard::Tally;

/// The sender's halves of one epoch, as far as they arrived.
#[derive(Debug, Clone, Default)]
pub struct SenderHalves<'a> {
    /// By segment; segments that are not there are missing.
    pub segments: Vec<SegmentHalves<'a>>,
    /// Cells of the sketch, row by row; cells that are not there are missing.
    pub lds: &'a [Option<Cell>],
}

/// The sender's halves of one segment, as far as they arrived.
#[derive(Debug, Clone, Copy, Default)]
pub struct SegmentHalves<'a> {
    /// Packets and bytes.
    pub tally: Option<Tally>,
    /// Cells of the LDA; cells that are not there are missing.
    pub lda: &'a [Option<Cell>],
}

/// What the clocks of both ends allow to be measured.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ClockBound {
    /// Both clocks together are off by this much at most, in nanoseconds. It shifts every delay
    /// alike, so that it adds to every bound.
    pub error_ns: f64,
    /// Below this nothing can be measured, in nanoseconds: no method's own bound is less.
    pub resolution_ns: f64,
}

impl ClockBound {
    /// The bound to be exported for a method's own; `None` where that is not known.
    pub(super) fn around(&self, method_bound_ns: f64) -> Option<f64> {
        let is_known = method_bound_ns.is_finite() && method_bound_ns >= 0.0;
        is_known.then(|| method_bound_ns.max(self.resolution_ns) + self.error_ns)
    }

    /// The estimate of a candidate.
    pub(super) fn estimate(&self, candidate: &Candidate) -> Estimate {
        Estimate {
            method: candidate.method,
            mean_ns: candidate.mean_ticks,
            bound_ns: self.around(candidate.bound_ticks),
        }
    }

    /// The preferred candidate: the method and its estimate.
    pub(super) fn choose(
        &self,
        candidates: impl IntoIterator<Item = Candidate>,
    ) -> Option<Estimate> {
        let chosen = choose(candidates, self.resolution_ns)?;
        Some(self.estimate(&chosen))
    }
}

/// A mean delay, and by whom.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Whose it is.
    pub method: Method,
    /// Mean delay in nanoseconds; signed, for clocks differ.
    pub mean_ns: f64,
    /// Half the width of the nominal 98 % interval in nanoseconds, the clocks' error included;
    /// `None` where it is not known.
    pub bound_ns: Option<f64>,
}

/// How the cells of both ends compare.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CellCounts {
    /// Cells.
    pub cells: u64,
    /// Cells in which both ends counted the same packets, empty ones included.
    pub usable: u64,
    /// Cells whose sender's half did not arrive.
    pub missing: u64,
    /// Cells in which both ends counted as many packets, but others.
    pub digests_differ: u64,
}

impl CellCounts {
    fn add(&mut self, sender: Option<Cell>, receiver: Cell) {
        self.cells += 1;
        let Some(sender) = sender else {
            self.missing += 1;
            return;
        };
        if (CellPair { sender, receiver }).delay_sum().is_some() {
            self.usable += 1;
        } else if sender.count == receiver.count {
            self.digests_differ += 1;
        }
    }

    /// Cells that an end counted other packets in than the other, or that miss a half.
    pub fn unusable(&self) -> u64 {
        self.cells - self.usable
    }
}

/// What is said of one segment and epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SegmentOutcome {
    /// Packets and bytes of both ends; the sender's are 0 where `is_sent_known` is not.
    pub tally: Tally,
    /// Whether the sender's counts arrived.
    pub is_sent_known: bool,
    /// Whether both ends are known to count the same packets in this epoch, but for lost ones and for
    /// copies that the network made: where the lists around a turn do not prove it, a few may count in
    /// its neighbour. Cells see to themselves, counts cannot.
    pub are_counts_settled: bool,
    /// What the LDA says, its ticks being nanoseconds; bounds are the method's own.
    pub lda: LdaEstimate,
    /// Its cells.
    pub cells: CellCounts,
    /// The LDA's mean.
    pub lda_mean: Option<Estimate>,
    /// The mean from the sums that references carry. It has a bound where they account for every
    /// packet that arrived.
    pub rli_mean: Option<Estimate>,
    /// Packets that this mean speaks for.
    pub rli_packets: u64,
    /// The mean with the smallest bound.
    pub chosen: Option<Estimate>,
}

impl SegmentOutcome {
    /// Packets lost; under 0 where the network doubled some. `None` where the sender's counts did not
    /// arrive, or are not settled.
    pub fn lost(&self) -> Option<i64> {
        let lost = self.tally.sent.wrapping_sub(self.tally.received);
        (self.is_sent_known && self.are_counts_settled).then_some(lost.cast_signed())
    }

    /// Standard deviation of the delay in nanoseconds, from the LDA.
    pub fn stddev_ns(&self) -> Option<f64> {
        self.lda.stddev_ticks
    }
}

/// Pairs each segment of the receiver's shard with the sender's halves.
pub fn pair(
    shard: &WireShard,
    sender: &SenderHalves<'_>,
    clocks: ClockBound,
) -> Vec<SegmentOutcome> {
    let absent = SegmentHalves::default();
    let halves = sender.segments.iter().chain(std::iter::repeat(&absent));
    shard
        .segments
        .iter()
        .zip(halves)
        .map(|(segment, halves)| outcome(segment, halves, shard.is_fifo(), clocks))
        .collect()
}

fn outcome(
    segment: &WireSegment,
    sender: &SegmentHalves<'_>,
    is_fifo: bool,
    clocks: ClockBound,
) -> SegmentOutcome {
    let mut tally = segment.tally;
    if let Some(sent) = sender.tally {
        tally.sent = sent.sent;
        tally.sent_bytes = sent.sent_bytes;
    }
    let arrived = sender.lda.iter().copied().chain(std::iter::repeat(None));
    let pairs = segment.lda.cells().iter().zip(arrived);
    let mut cells = CellCounts::default();
    for (cell, arrived) in pairs.clone() {
        cells.add(arrived, cell.receiver);
    }
    let halves = pairs.map(|(cell, arrived)| {
        let receiver = cell.receiver;
        (arrived.unwrap_or_else(|| unlike(receiver)), receiver)
    });
    let lda = segment.lda.layout().estimate(halves, tally.received);
    let by_lda = Candidate::lda(&lda);
    let by_rli = rli_candidate(segment, tally.received, is_fifo);
    SegmentOutcome {
        tally,
        is_sent_known: sender.tally.is_some(),
        are_counts_settled: true,
        lda,
        cells,
        lda_mean: by_lda.as_ref().map(|lda| clocks.estimate(lda)),
        rli_mean: by_rli.as_ref().map(|rli| clocks.estimate(rli)),
        rli_packets: segment.rli.packets(),
        chosen: clocks.choose(by_lda.into_iter().chain(by_rli)),
    }
}

/// In place of a half that did not arrive: as many packets, but others, so that the cell is unusable
/// and says nothing of losses.
fn unlike(cell: Cell) -> Cell {
    Cell {
        digest: !cell.digest,
        ..cell
    }
}

/// The mean from references' sums. Where every packet lay between two references, and every
/// interval's counts agreed, it is exact; else there is no telling what the others did.
fn rli_candidate(segment: &WireSegment, received: u64, is_fifo: bool) -> Option<Candidate> {
    let rli = &segment.rli;
    let is_whole = is_fifo
        && rli.exact_packets() == received
        && rli.packets() == received
        && rli.unusable_packets() == 0
        && rli.sent() == received;
    Some(Candidate {
        method: Method::Rli(rli::Method::Sums),
        mean_ticks: rli.mean_ns()?,
        bound_ticks: if is_whole { 0.0 } else { f64::INFINITY },
    })
}

/// The cells of the sketch, as both ends filled them; `None` where there is none. With how they
/// compare.
pub fn flow_cells(
    shard: &WireShard,
    sender: &SenderHalves<'_>,
) -> Option<(DelayCells, CellCounts)> {
    let lds = shard.lds.as_ref()?;
    let arrived = sender.lds.iter().copied().chain(std::iter::repeat(None));
    let pairs = lds.cells().iter().zip(arrived);
    let mut counts = CellCounts::default();
    for (cell, arrived) in pairs.clone() {
        counts.add(arrived, cell.receiver);
    }
    let halves = pairs.map(|(cell, arrived)| (arrived, Some(cell.receiver)));
    Some((DelayCells::from_arrived(lds.layout(), halves), counts))
}

#[cfg(test)]
mod tests;
