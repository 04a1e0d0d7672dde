//! Reference: a packet that carries its own time (Lee, Duffield, Kompella, SIGCOMM 2010), and what
//! its stream had sent before it.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0 | worker | at the sender's end |
//! | 1 | queue | the class queue |
//! | 2..6 | sequence | among the stream's references, wraps |
//! | 6..14 | count | regular packets of the stream, wraps |
//! | 14..22 | sum | of their times in ns, wraps |
//! | 22..30 | ranked sum | of their times in ns, each multiplied by the number of packets before it, wraps |
//! | 30..38 | digest | exclusive or of their packet hashes |
//!
//! When it was sent, and on which segment, the frame says. Behind an Ethernet header it is
//! [`FRAME_BYTES`] long.

use super::{Body, HEADER_BYTES, Header, Kind, Subject, TAG_BYTES};
use crate::codec::{ParseError, Put, Reader};
use measure::observation::SegmentIndex;
use measure::rli::{self, StreamId, StreamSums};
use measure::time::Epoch;

/// Length of a frame with a reference, from the destination MAC on, without frame check sequence.
pub const FRAME_BYTES: usize = 14 + HEADER_BYTES + 38 + TAG_BYTES;

/// What a reference says beside its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// The worker that owns the stream.
    pub worker: u8,
    /// The class queue.
    pub queue: u8,
    /// Its place among the stream's references; wraps.
    pub sequence: u32,
    /// Regular packets of the stream so far.
    pub sums: StreamSums,
}

impl Reference {
    /// The body of a reference, and what its frame must say.
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

    /// The reference that came with this header.
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

    /// Reads a body.
    ///
    /// # Errors
    /// [`ParseError`] when it is not 38 bytes long.
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
