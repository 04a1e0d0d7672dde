//! Marker: an epoch turns here, in order with the data.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0 | copy | 0 to 2 |
//! | 1..5 | packets since | data packets of the segment between the turn and this copy |
//! | 5.. | LDA | banks (1 byte); for each, rows (4) and sampled share in 2^-32 (8) |
//!
//! The frame's epoch is the one that begins, and the LDA is that epoch's: one copy that arrives is enough
//! to record the epoch as the sender does, whatever became of the markers before.

use super::{Body, Kind};
use crate::codec::shape::{emit_lda, parse_lda};
use crate::codec::{ParseError, Put, Reader};
use measure::lda::LdaLayout;

/// An epoch turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// Which of the [`COPIES`](Self::COPIES), from 0.
    pub copy: u8,
    /// Data packets of the segment sent between the turn and this copy.
    pub packets_since: u32,
    /// Banks and probabilities of the epoch that begins.
    pub lda: LdaLayout,
}

impl Marker {
    /// How often a turn is announced: one lost frame, or two, must not cost an epoch.
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
