//! The elements that synopses are made of.

use super::ParseError;
use super::bytes::{Put, Reader};
use measure::cell::Cell;
use measure::shard::Tally;

/// One of a synopsis' elements: all of it that must arrive together to be of use.
pub trait Element: Copy {
    /// Its size.
    const BYTES: usize;

    /// Appends [`BYTES`](Self::BYTES) bytes.
    fn emit(&self, out: &mut impl Put);

    /// Reads as many.
    ///
    /// # Errors
    /// [`ParseError`] where they are not there, or mean nothing.
    fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError>;
}

impl Element for Cell {
    const BYTES: usize = 16;

    fn emit(&self, out: &mut impl Put) {
        out.put_number(self.sum);
        out.put_number(self.count);
        out.put_number(self.digest);
    }

    fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(Self {
            sum: reader.number("sum of a cell")?,
            count: reader.number("count of a cell")?,
            digest: reader.number("digest of a cell")?,
        })
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
