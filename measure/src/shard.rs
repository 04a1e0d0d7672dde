//! What one worker accumulates over one epoch: a synopsis for each segment.

use crate::codec::{Element, ParseError, Put, Reader, Shape, whole};
use crate::histogram::Histogram;
use crate::lda::{LdaLayout, LdaPair};
use crate::moments::Moments;
use crate::sight::{End, SegmentIndex, Sight};
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

impl Synopsis for Tally {
    type Item = Sight;

    #[inline]
    fn record(&mut self, end: End, sights: &[Sight]) {
        let packets = sights.len() as u64;
        let bytes = sights
            .iter()
            .map(|sight| u64::from(sight.bytes))
            .sum::<u64>();
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

    fn encode(&self, out: &mut Vec<u8>) {
        whole::encode(&Shape::Tally, End::Receiver, [*self].into_iter(), out);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        whole::decode_one(reader, &Shape::Tally)
    }
}

impl Element for Tally {
    const BYTES: usize = 48;

    fn emit(&self, out: &mut impl Put) {
        out.put_number(self.sent);
        out.put_number(self.sent_bytes);
        out.put_number(self.received);
        out.put_number(self.received_bytes);
        out.put_number(self.dropped);
        out.put_number(self.late);
    }

    fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(Self {
            sent: reader.number("packets sent")?,
            sent_bytes: reader.number("bytes sent")?,
            received: reader.number("packets received")?,
            received_bytes: reader.number("bytes received")?,
            dropped: reader.number("packets dropped")?,
            late: reader.number("late packets")?,
        })
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
    /// The estimator: both ends' halves.
    pub lda: LdaPair,
}

impl SegmentSynopsis {
    /// An empty synopsis: 4 KiB, and 32 bytes for each of the LDA's rows.
    pub fn new(layout: &LdaLayout, rate: TickRate) -> Self {
        Self {
            tally: Tally::default(),
            moments: Moments::default(),
            histogram: Histogram::new(rate),
            lda: LdaPair::new(layout),
        }
    }

    /// Adds sights that are all of one delay, as those of one burst usually are.
    #[inline]
    pub fn record_alike(&mut self, end: End, sights: &[Sight]) {
        let Some(&Sight { delay, .. }) = sights.first() else {
            return;
        };
        self.tally.record(end, sights);
        if end == End::Receiver {
            self.moments.add_delays(delay, sights.len() as u64);
            self.histogram.add_delays(delay, sights.len() as u64);
        }
        self.lda.record(end, sights);
    }

    fn same_shape(&self, other: &Self) -> Result<(), ShapeMismatch> {
        self.histogram.same_shape(&other.histogram)?;
        self.lda.same_shape(&other.lda)
    }
}

impl Synopsis for SegmentSynopsis {
    type Item = Sight;

    #[inline]
    fn record(&mut self, end: End, sights: &[Sight]) {
        for run in sights.chunk_by(|a, b| a.delay == b.delay) {
            self.record_alike(end, run);
        }
    }

    fn merge(&mut self, other: &Self) -> Result<(), ShapeMismatch> {
        self.same_shape(other)?;
        self.tally.merge(&other.tally)?;
        self.moments.merge(&other.moments)?;
        self.histogram.merge(&other.histogram)?;
        self.lda.merge(&other.lda)
    }

    fn clear(&mut self) {
        self.tally.clear();
        self.moments.clear();
        self.histogram.clear();
        self.lda.clear();
    }

    /// Tally, moments, histogram, LDA.
    fn encode(&self, out: &mut Vec<u8>) {
        self.tally.encode(out);
        self.moments.encode(out);
        self.histogram.encode(out);
        self.lda.encode(out);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(Self {
            tally: Tally::decode(reader)?,
            moments: Moments::decode(reader)?,
            histogram: Histogram::decode(reader)?,
            lda: LdaPair::decode(reader)?,
        })
    }
}

/// One worker's share of one epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct Shard {
    segments: Vec<SegmentSynopsis>,
}

impl Shard {
    /// An empty shard for `segments` segments (at most 65,536 can be recorded into), all of one
    /// layout.
    pub fn new(segments: usize, layout: &LdaLayout, rate: TickRate) -> Self {
        Self {
            segments: vec![SegmentSynopsis::new(layout, rate); segments],
        }
    }

    /// Every segment, in the order of [`SegmentIndex`].
    pub fn segments(&self) -> &[SegmentSynopsis] {
        &self.segments
    }

    /// One segment; `None` when there is none of that index.
    pub fn segment(&self, index: SegmentIndex) -> Option<&SegmentSynopsis> {
        self.segments.get(usize::from(index.0))
    }

    /// One segment, to be recorded into; `None` when there is none of that index.
    #[inline]
    pub fn segment_mut(&mut self, index: SegmentIndex) -> Option<&mut SegmentSynopsis> {
        self.segments.get_mut(usize::from(index.0))
    }

    /// A segment's plain counts, for what is not a sight: drops and late packets.
    #[inline]
    pub fn tally_mut(&mut self, index: SegmentIndex) -> Option<&mut Tally> {
        self.segment_mut(index).map(|segment| &mut segment.tally)
    }
}

impl Synopsis for Shard {
    type Item = Sight;

    /// Adds each sight to its segment; those of an index that is not there are ignored.
    #[inline]
    fn record(&mut self, end: End, sights: &[Sight]) {
        for run in sights.chunk_by(|a, b| a.segment == b.segment) {
            if let Some(segment) = self.segment_mut(run[0].segment) {
                segment.record(end, run);
            }
        }
    }

    fn merge(&mut self, other: &Self) -> Result<(), ShapeMismatch> {
        let (left, right) = (self.segments.len() as u64, other.segments.len() as u64);
        if left != right {
            return Err(ShapeMismatch {
                what: "number of segments",
                left,
                right,
            });
        }
        // All are compared before any is added: nothing is added to a shard that does not fit.
        let pairs = || self.segments.iter().zip(&other.segments);
        pairs().try_for_each(|(mine, theirs)| mine.same_shape(theirs))?;
        self.segments
            .iter_mut()
            .zip(&other.segments)
            .try_for_each(|(mine, theirs)| mine.merge(theirs))
    }

    fn clear(&mut self) {
        self.segments.iter_mut().for_each(Synopsis::clear);
    }

    /// Segments (4 bytes), then each one.
    fn encode(&self, out: &mut Vec<u8>) {
        let segments = u32::try_from(self.segments.len()).unwrap_or(u32::MAX);
        out.put_number(segments);
        for segment in self.segments.iter().take(segments as usize) {
            segment.encode(out);
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let segments: u32 = reader.number("number of segments")?;
        // Not made ready for as many as are announced: each must be there first.
        let mut read = Vec::new();
        for _ in 0..segments {
            read.push(SegmentSynopsis::decode(reader)?);
        }
        Ok(Self { segments: read })
    }
}

#[cfg(test)]
mod tests;
