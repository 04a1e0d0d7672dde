//! Pairs both ends' halves of one epoch, and estimates each segment.

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
    /// By segment; segments beyond the list are missing.
    pub segments: Vec<SegmentHalves<'a>>,
    /// Cells of the sketch, row by row; cells beyond the list are missing.
    pub lds: &'a [Option<Cell>],
}

/// The sender's halves of one segment, as far as they arrived.
#[derive(Debug, Clone, Copy, Default)]
pub struct SegmentHalves<'a> {
    /// Packets and bytes.
    pub tally: Option<Tally>,
    /// Cells of the LDA; cells beyond the list are missing.
    pub lda: &'a [Option<Cell>],
}

/// Accuracy of both ends' clocks.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ClockBound {
    /// Greatest error of both clocks together, in nanoseconds. It shifts every delay alike, so it is added
    /// to every bound.
    pub error_ns: f64,
    /// Resolution in nanoseconds: no method's own bound is smaller.
    pub resolution_ns: f64,
}

impl ClockBound {
    /// The bound to export for a method's own bound; `None` if that is unknown.
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

/// A mean delay, and its method.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Its method.
    pub method: Method,
    /// Mean delay in nanoseconds; signed, because clocks differ.
    pub mean_ns: f64,
    /// Half-width of the nominal 98 % interval in nanoseconds, including the clocks' error; `None` if
    /// unknown.
    pub bound_ns: Option<f64>,
}

/// Comparison of both ends' cells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CellCounts {
    /// Number of cells.
    pub cells: u64,
    /// Cells in which both ends counted the same packets, including empty ones.
    pub usable: u64,
    /// Cells whose sender's half is missing.
    pub missing: u64,
    /// Cells in which both ends counted equally many, but different packets.
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

    /// Cells with different packets at both ends, or a missing half.
    pub fn unusable(&self) -> u64 {
        self.cells - self.usable
    }
}

/// Figures of one segment and epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SegmentOutcome {
    /// Packets and bytes of both ends; the sender's are 0 unless `is_sent_known`.
    pub tally: Tally,
    /// Whether the sender's counts arrived.
    pub is_sent_known: bool,
    /// Whether both ends are known to have counted the same packets in this epoch, except for lost packets
    /// and copies made by the network. If the lists around a rollover do not prove it, a few may count in a
    /// neighbouring epoch. Cells detect that, counts cannot.
    pub are_counts_settled: bool,
    /// The LDA's estimate, with ticks of a nanosecond; bounds are the method's own.
    pub lda: LdaEstimate,
    /// Comparison of its cells.
    pub cells: CellCounts,
    /// The LDA's mean.
    pub lda_mean: Option<Estimate>,
    /// The mean from the sums in references. It has a bound if they account for every packet that arrived.
    pub rli_mean: Option<Estimate>,
    /// Packets included in this mean.
    pub rli_packets: u64,
    /// The mean with the smallest bound.
    pub chosen: Option<Estimate>,
}

impl SegmentOutcome {
    /// Packets lost; negative if the network duplicated some. `None` if the sender's counts did not arrive,
    /// or are not settled.
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

/// A half in place of a missing one: equally many packets, but others, so that the cell is unusable and
/// shows no losses.
fn unlike(cell: Cell) -> Cell {
    Cell {
        digest: !cell.digest,
        ..cell
    }
}

/// The mean from references' sums. It is exact if every packet was between two references, and every
/// interval's counts agreed; otherwise the other packets are unknown.
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

/// The cells of the sketch, as filled by both ends, and their comparison; `None` if there is none.
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
