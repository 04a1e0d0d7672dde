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
//! | 22..30 | digest | exclusive or of their packet hashes |
//!
//! When it was sent, and on which segment, the frame says. Behind an Ethernet header it is
//! [`FRAME_BYTES`] long.

use super::bytes::{Put, Reader};
use super::frame::{HEADER_BYTES, TAG_BYTES};
use super::{Body, Kind, ParseError};

/// Length of a frame with a reference, from the destination MAC on, without frame check sequence.
pub const FRAME_BYTES: usize = 14 + HEADER_BYTES + 30 + TAG_BYTES;

/// What a reference says beside its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// The worker that owns the stream.
    pub worker: u8,
    /// The class queue.
    pub queue: u8,
    /// Its place among the stream's references; wraps.
    pub sequence: u32,
    /// Regular packets of the stream so far; wraps.
    pub count: u64,
    /// Sum of their send times in nanoseconds; wraps.
    pub time_sum_ns: u64,
    /// Exclusive or of their packet hashes.
    pub digest: u64,
}

impl Reference {
    /// Reads a body.
    ///
    /// # Errors
    /// [`ParseError`] when it is not 30 bytes long.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(body);
        let reference = Self {
            worker: reader.number("worker")?,
            queue: reader.number("queue")?,
            sequence: reader.number("sequence of a reference")?,
            count: reader.number("count of a stream")?,
            time_sum_ns: reader.number("sum of a stream")?,
            digest: reader.number("digest of a stream")?,
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
        out.put_number(self.count);
        out.put_number(self.time_sum_ns);
        out.put_number(self.digest);
    }
}
