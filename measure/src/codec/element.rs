//! The elements that synopses are made of.

use super::ParseError;
use super::bytes::{Put, Reader};
use crate::cell::Cell;

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

/// A cell with the bytes of its packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted<C> {
    /// The cell.
    pub cell: C,
    /// Bytes of its packets.
    pub bytes: u64,
}

impl<C: Element> Element for Counted<C> {
    const BYTES: usize = C::BYTES + 8;

    fn emit(&self, out: &mut impl Put) {
        self.cell.emit(out);
        out.put_number(self.bytes);
    }

    fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        Ok(Self {
            cell: C::parse(reader)?,
            bytes: reader.number("bytes of a cell")?,
        })
    }
}

/// A bucket of a histogram.
impl Element for u64 {
    const BYTES: usize = 8;

    fn emit(&self, out: &mut impl Put) {
        out.put_number(*self);
    }

    fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        reader.number("count of a bucket")
    }
}
