//! The synopsis of one segment.

use crate::batch::Batch;
use crate::cell::PassedCell;
use crate::histogram::Histogram;
use crate::lda::{LdaLayout, LdaPair};
use crate::moments::Moments;
use crate::observation::{End, Observation};
use crate::packet::{PacketHash, RandomHashes};
use crate::rli::SegmentDelay;
use crate::synopsis::{ShapeMismatch, Synopsis};
use crate::time::TickRate;

/// Plain counts of a segment, to which estimates are compared.
///
/// Over an engine's life, and with nothing queued, `sent = received + dropped + late`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Packets seen at the sender's end.
    pub sent: u64,
    /// Bytes of these.
    pub sent_bytes: u64,
    /// Packets seen at the receiver's end in time.
    pub received: u64,
    /// Bytes of these.
    pub received_bytes: u64,
    /// Packets dropped between the ends: lost.
    pub dropped: u64,
    /// Packets that reached the receiver's end after their epoch was sealed: counted in the epoch open at
    /// that time, never recorded, never lost.
    pub late: u64,
}

impl Tally {
    /// Counts packets that were seen at both ends.
    #[inline]
    pub(super) fn pass(&mut self, packets: u64, bytes: u64) {
        self.sent += packets;
        self.sent_bytes += bytes;
        self.received += packets;
        self.received_bytes += bytes;
    }

    /// Counts packets that reached the receiver's end after their epoch was sealed.
    pub(super) fn late(&mut self, packets: u64, bytes: u64) {
        self.sent += packets;
        self.sent_bytes += bytes;
        self.late += packets;
    }

    /// Packets and bytes of one end.
    #[inline]
    fn of(&mut self, end: End) -> (&mut u64, &mut u64) {
        match end {
            End::Sender => (&mut self.sent, &mut self.sent_bytes),
            End::Receiver => (&mut self.received, &mut self.received_bytes),
        }
    }

    /// Removes packets that were recorded at one end: the exact inverse.
    pub fn unrecord(&mut self, end: End, observations: &[Observation]) {
        let (packets, bytes) = self.of(end);
        *packets = packets.wrapping_sub(observations.len() as u64);
        *bytes = bytes.wrapping_sub(bytes_of(observations));
    }

    /// Counts packets at one end of the segment.
    #[inline]
    pub fn record(&mut self, end: End, observations: &[Observation]) {
        let (packets, bytes) = self.of(end);
        *packets += observations.len() as u64;
        *bytes += bytes_of(observations);
    }

    /// Adds other counts.
    pub fn merge(&mut self, other: &Self) {
        self.sent = self.sent.wrapping_add(other.sent);
        self.sent_bytes = self.sent_bytes.wrapping_add(other.sent_bytes);
        self.received = self.received.wrapping_add(other.received);
        self.received_bytes = self.received_bytes.wrapping_add(other.received_bytes);
        self.dropped = self.dropped.wrapping_add(other.dropped);
        self.late = self.late.wrapping_add(other.late);
    }
}

/// Bytes of all frames.
#[inline]
fn bytes_of(observations: &[Observation]) -> u64 {
    let bytes = observations.iter().map(|one| u64::from(one.bytes));
    bytes.sum()
}

/// The configurable synopses of a segment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SegmentLayout {
    /// Its LDA.
    pub lda: Option<LdaLayout>,
}

/// Memory by purpose, in bytes.
pub type SegmentBytes = [(&'static str, usize); 2];

impl SegmentLayout {
    /// Memory of one segment.
    pub fn size_bytes(&self) -> SegmentBytes {
        let cells = self.lda.as_ref().map_or(0, LdaLayout::cells);
        [
            (
                "counts, moments and histograms",
                size_of::<SegmentSynopsis>(),
            ),
            ("LDA", cells * size_of::<PassedCell>()),
        ]
    }
}

/// The synopsis of one segment.
#[derive(Debug, Clone, PartialEq)]
pub struct SegmentSynopsis {
    /// Plain counts.
    pub tally: Tally,
    /// Exact moments of the stamped delay.
    pub moments: Moments,
    /// Distribution of the stamped delay.
    pub histogram: Histogram,
    /// Both ends of the estimator, if there is one.
    pub lda: Option<LdaPair<PassedCell>>,
    /// The mean by RLI, from the sums in references; empty without references.
    pub rli: SegmentDelay,
}

impl SegmentSynopsis {
    /// An empty synopsis: 4 KiB, and 16 bytes for each row of the LDA.
    pub fn new(layout: &SegmentLayout, rate: TickRate) -> Self {
        Self {
            tally: Tally::default(),
            moments: Moments::default(),
            histogram: Histogram::new(rate),
            lda: layout.lda.as_ref().map(LdaPair::empty),
            rli: SegmentDelay::default(),
        }
    }

    /// Counts a packet at the sender's end only.
    pub(super) fn lose(&mut self, sent: &Observation) {
        let sent = std::slice::from_ref(sent);
        self.tally.record(End::Sender, sent);
        if let Some(lda) = &mut self.lda {
            lda.record(End::Sender, sent);
        }
    }

    /// Adds packets that passed both ends: to an LDA by their `hashes`, or at random without hashes.
    #[inline]
    pub(super) fn pass(&mut self, batch: &Batch, hashes: &[PacketHash], spread: &mut RandomHashes) {
        let packets = batch.packets as u64;
        self.tally.pass(packets, batch.bytes);
        self.moments.add_delays(batch.delay, packets);
        self.histogram.add_delays(batch.delay, packets);
        if let Some(lda) = &mut self.lda {
            lda.pass(batch, hashes, spread);
        }
    }

    pub(super) fn same_shape(&self, other: &Self) -> Result<(), ShapeMismatch> {
        self.histogram.same_shape(&other.histogram)?;
        match (&self.lda, &other.lda) {
            (Some(mine), Some(theirs)) => mine.same_shape(theirs),
            (None, None) => Ok(()),
            (mine, theirs) => Err(ShapeMismatch {
                what: "LDA of a segment",
                left: mine.is_some().into(),
                right: theirs.is_some().into(),
            }),
        }
    }
}

impl Synopsis for SegmentSynopsis {
    fn merge(&mut self, other: &Self) -> Result<(), ShapeMismatch> {
        self.same_shape(other)?;
        self.tally.merge(&other.tally);
        self.moments.merge(&other.moments);
        self.histogram.merge(&other.histogram)?;
        self.rli.merge(&other.rli);
        match (&mut self.lda, &other.lda) {
            (Some(mine), Some(theirs)) => mine.merge(theirs),
            _ => Ok(()),
        }
    }

    fn clear(&mut self) {
        self.tally = Tally::default();
        self.moments = Moments::default();
        self.histogram.clear();
        if let Some(lda) = &mut self.lda {
            lda.clear();
        }
        self.rli = SegmentDelay::default();
    }
}
