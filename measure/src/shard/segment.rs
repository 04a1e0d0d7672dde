//! What is kept of one segment, however many others there are.

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

/// Plain counts of a segment, which the estimators are held against.
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
    /// Packets that came to the receiver's end after their epoch was sealed: counted in the epoch
    /// that saw them, never inserted, never lost.
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

    /// Counts packets that came to the receiver's end after their epoch was sealed.
    pub(super) fn late(&mut self, packets: u64, bytes: u64) {
        self.sent += packets;
        self.sent_bytes += bytes;
        self.late += packets;
    }

    /// Takes packets out again that were recorded at one end: the exact inverse.
    pub fn unrecord(&mut self, end: End, observations: &[Observation]) {
        let (packets, bytes) = (observations.len() as u64, bytes_of(observations));
        let (counted, counted_bytes) = match end {
            End::Sender => (&mut self.sent, &mut self.sent_bytes),
            End::Receiver => (&mut self.received, &mut self.received_bytes),
        };
        *counted = counted.wrapping_sub(packets);
        *counted_bytes = counted_bytes.wrapping_sub(bytes);
    }
}

/// Bytes of all frames.
#[inline]
fn bytes_of(observations: &[Observation]) -> u64 {
    observations
        .iter()
        .map(|observation| u64::from(observation.bytes))
        .sum()
}

impl Synopsis for Tally {
    type Item = Observation;

    #[inline]
    fn record(&mut self, end: End, observations: &[Observation]) {
        let (packets, bytes) = (observations.len() as u64, bytes_of(observations));
        match end {
            End::Sender => {
                self.sent += packets;
                self.sent_bytes += bytes;
            }
            End::Receiver => {
                self.received += packets;
                self.received_bytes += bytes;
            }
        }
    }

    fn merge(&mut self, other: &Self) -> Result<(), ShapeMismatch> {
        self.sent = self.sent.wrapping_add(other.sent);
        self.sent_bytes = self.sent_bytes.wrapping_add(other.sent_bytes);
        self.received = self.received.wrapping_add(other.received);
        self.received_bytes = self.received_bytes.wrapping_add(other.received_bytes);
        self.dropped = self.dropped.wrapping_add(other.dropped);
        self.late = self.late.wrapping_add(other.late);
        Ok(())
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

/// All that is kept of one segment.
#[derive(Debug, Clone, PartialEq)]
pub struct SegmentSynopsis {
    /// Plain counts.
    pub tally: Tally,
    /// Exact moments of the stamped delay.
    pub moments: Moments,
    /// Distribution of the stamped delay.
    pub histogram: Histogram,
    /// The estimator, both ends of it, where there is one.
    pub lda: Option<LdaPair<PassedCell>>,
    /// The mean by RLI, from what references carry; empty where none are sent.
    pub rli: SegmentDelay,
}

impl SegmentSynopsis {
    /// An empty synopsis: 4 KiB, and 16 bytes for each row of the LDA.
    pub fn new(layout: Option<&LdaLayout>, rate: TickRate) -> Self {
        Self {
            tally: Tally::default(),
            moments: Moments::default(),
            histogram: Histogram::new(rate),
            lda: layout.map(LdaPair::empty),
            rli: SegmentDelay::default(),
        }
    }

    /// Adds observations that are all of one delay, as those of one burst usually are.
    #[inline]
    pub fn record_alike(&mut self, end: End, observations: &[Observation]) {
        let Some(&Observation { delay, .. }) = observations.first() else {
            return;
        };
        self.tally.record(end, observations);
        if end == End::Receiver {
            self.moments.add_delays(delay, observations.len() as u64);
            self.histogram.add_delays(delay, observations.len() as u64);
        }
        if let Some(lda) = &mut self.lda {
            lda.record(end, observations);
        }
    }

    /// Adds packets that passed both ends: to an LDA by their `hashes`, or by chance where there are none.
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
    type Item = Observation;

    #[inline]
    fn record(&mut self, end: End, observations: &[Observation]) {
        for run in observations.chunk_by(|a, b| a.delay == b.delay) {
            self.record_alike(end, run);
        }
    }

    fn merge(&mut self, other: &Self) -> Result<(), ShapeMismatch> {
        self.same_shape(other)?;
        self.tally.merge(&other.tally)?;
        self.moments.merge(&other.moments)?;
        self.histogram.merge(&other.histogram)?;
        self.rli.merge(&other.rli);
        match (&mut self.lda, &other.lda) {
            (Some(mine), Some(theirs)) => mine.merge(theirs),
            _ => Ok(()),
        }
    }

    fn clear(&mut self) {
        self.tally.clear();
        self.moments.clear();
        self.histogram.clear();
        if let Some(lda) = &mut self.lda {
            lda.clear();
        }
        self.rli = SegmentDelay::default();
    }
}
