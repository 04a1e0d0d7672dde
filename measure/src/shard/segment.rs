//! What is kept of one segment, however many others there are.

use super::Tally;
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
