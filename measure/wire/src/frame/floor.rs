//! Floor: the least delay of an epoch of what arrived, sent as soon as the epoch has ended, so that both ends know those of both
//! directions when they judge their own.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0..8 | least delay | of a reference, ns, signed |
//!
//! The frame's epoch is the sender's of what arrived, as in a report; it is of all segments together. Sent to ends of minor
//! version 1 and later only: earlier ones refuse its kind.

use super::{Body, Kind};
use crate::codec::{ParseError, Put, Reader};

/// The least delay of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Floor {
    /// In nanoseconds; below 0 where clocks differ by more than the path takes.
    pub least_delay_ns: i64,
}

impl Floor {
    /// Reads a body.
    ///
    /// # Errors
    /// [`ParseError`] for anything but what [`emit`](Body::emit) writes.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(body);
        let least_delay_ns = reader.number("least delay")?;
        reader.end("floor")?;
        Ok(Self { least_delay_ns })
    }
}

impl Body for Floor {
    const KIND: Kind = Kind::Floor;

    fn emit(&self, out: &mut impl Put) {
        out.put_number(self.least_delay_ns);
    }
}
