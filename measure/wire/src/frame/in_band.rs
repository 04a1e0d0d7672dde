//! Frames among the data, sent by the sender's worker in order with it.

use super::{Body, HEADER_BYTES, Header, Kind, Subject, TAG_BYTES};
use crate::codec::shape::{emit_lda, parse_lda};
use crate::codec::{ParseError, Put, Reader};
use measure::lda::LdaLayout;
use measure::observation::SegmentIndex;
use measure::rli::{self, StreamId, StreamSums};
use measure::time::Epoch;

/// Marker: a rollover, in order with the data.
///
/// | bytes | field | |
/// |---|---|---|
/// | 0 | copy | 0 to 2 |
/// | 1..5 | packets since | data packets of the segment between the rollover and this copy |
/// | 5.. | LDA | banks (1 byte); for each, rows (4) and sampled share in 2^-32 (8) |
///
/// The frame's epoch is the one that begins, and the LDA is that epoch's: one copy that arrives is enough
/// to record the epoch like the sender, even if previous markers were lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// Which of the [`COPIES`](Self::COPIES), from 0.
    pub copy: u8,
    /// Data packets of the segment sent between the rollover and this copy.
    pub packets_since: u32,
    /// Banks and probabilities of the epoch that begins.
    pub lda: LdaLayout,
}

impl Marker {
    /// Number of copies of each marker, so that one or two lost frames do not cost an epoch.
    pub const COPIES: u8 = 3;

    /// Reads a body.
    ///
    /// # Errors
    /// [`ParseError`] for anything but what [`emit`](Body::emit) writes.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(body);
        let copy = reader.number("copy of a marker")?;
        if copy >= Self::COPIES {
            return Err(ParseError::value("copy of a marker", copy, "0 to 2"));
        }
        let packets_since = reader.number("packets since the turn")?;
        let lda = parse_lda(&mut reader)?;
        reader.end("marker")?;
        Ok(Self {
            copy,
            packets_since,
            lda,
        })
    }
}

impl Body for Marker {
    const KIND: Kind = Kind::Marker;

    fn emit(&self, out: &mut impl Put) {
        out.put_number(self.copy);
        out.put_number(self.packets_since);
        emit_lda(&self.lda, out);
    }
}

/// Length of a frame with a reference, from the destination MAC on, without frame check sequence.
pub const FRAME_BYTES: usize = 14 + HEADER_BYTES + 38 + TAG_BYTES;

/// Reference: a packet that carries its own time (Lee, Duffield, Kompella, SIGCOMM 2010), and the sums over
/// the packets that its stream sent before it.
///
/// | bytes | field | |
/// |---|---|---|
/// | 0 | worker | at the sender's end |
/// | 1 | queue | the class queue |
/// | 2..6 | sequence | among the stream's references, wraps |
/// | 6..14 | count | regular packets of the stream, wraps |
/// | 14..22 | sum | of their times in ns, wraps |
/// | 22..30 | ranked sum | of their times in ns, each multiplied by the number of packets before it, wraps |
/// | 30..38 | digest | exclusive or of their packet hashes |
///
/// The frame contains its time and segment. Behind an Ethernet header it is [`FRAME_BYTES`] long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// The worker that owns the stream.
    pub worker: u8,
    /// The class queue.
    pub queue: u8,
    /// Its number among the stream's references; wraps.
    pub sequence: u32,
    /// Regular packets of the stream so far.
    pub sums: StreamSums,
}

impl Reference {
    /// The body of a reference, and the contents of its frame's header.
    pub fn new(reference: &rli::Reference, epoch: Epoch) -> (Subject, Self) {
        let rli::Reference {
            stream,
            sequence,
            sent_ns,
            sums,
        } = *reference;
        let subject = Subject {
            segment: stream.segment.0,
            epoch,
            tai_ns: sent_ns.cast_signed(),
        };
        let body = Self {
            worker: stream.worker,
            queue: stream.queue,
            sequence,
            sums,
        };
        (subject, body)
    }

    /// The reference with this header.
    pub fn with(&self, header: &Header) -> rli::Reference {
        rli::Reference {
            stream: StreamId {
                worker: self.worker,
                segment: SegmentIndex(header.segment),
                queue: self.queue,
            },
            sequence: self.sequence,
            sent_ns: header.tai_ns.cast_unsigned(),
            sums: self.sums,
        }
    }

    /// Parses a body.
    ///
    /// # Errors
    /// [`ParseError`] if it is not 38 bytes long.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(body);
        let reference = Self {
            worker: reader.number("worker")?,
            queue: reader.number("queue")?,
            sequence: reader.number("sequence of a reference")?,
            sums: StreamSums {
                count: reader.number("count of a stream")?,
                time_ns: reader.number("sum of a stream")?,
                ranked_time_ns: reader.number("ranked sum of a stream")?,
                digest: reader.number("digest of a stream")?,
            },
        };
        reader.end("reference")?;
        Ok(reference)
    }
}

impl Body for Reference {
    const KIND: Kind = Kind::Reference;

    fn emit(&self, out: &mut impl Put) {
        out.put_number(self.worker);
        out.put_number(self.queue);
        out.put_number(self.sequence);
        out.put_number(self.sums.count);
        out.put_number(self.sums.time_ns);
        out.put_number(self.sums.ranked_time_ns);
        out.put_number(self.sums.digest);
    }
}
