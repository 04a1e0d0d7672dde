//! Request: what did not arrive, to be sent once more.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0 | synopsis | see [`Shape`] |
//! | 1 | ranges | how many, 1 to 128 |
//! | 2.. | range | first element (4), count (4, at least 1); rising, with gaps between |
//!
//! Epoch and segment are those of the frame.

use std::ops::Range;

use arrayvec::ArrayVec;

use super::{Body, Kind};
use crate::codec::{ParseError, Put, Reader, Shape};

/// Most ranges of a request.
pub const RANGES_MAX: usize = 128;

/// Ranges of elements to be sent once more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    synopsis: u8,
    ranges: ArrayVec<Range<u32>, RANGES_MAX>,
}

impl Request {
    /// Asks for the ranges of a synopsis that are missing
    /// ([`Assembler::missing`](crate::codec::Assembler::missing): rising, with gaps between); `None` where
    /// none is. Ranges beyond [`RANGES_MAX`] make the last one reach over them: nothing is
    /// forgotten.
    pub fn new(shape: &Shape, missing: impl IntoIterator<Item = Range<u32>>) -> Option<Self> {
        let mut ranges = ArrayVec::<Range<u32>, RANGES_MAX>::new();
        for range in missing {
            if let Err(full) = ranges.try_push(range)
                && let Some(last) = ranges.last_mut()
            {
                last.end = full.element().end;
            }
        }
        (!ranges.is_empty()).then(|| Self {
            synopsis: shape.synopsis(),
            ranges,
        })
    }

    /// Whether it is for the synopsis of this shape.
    pub fn is_for(&self, shape: &Shape) -> bool {
        self.synopsis == shape.synopsis()
    }

    /// What to send once more: feed it to [`fragments`](crate::codec::fragments).
    pub fn ranges(&self) -> &[Range<u32>] {
        &self.ranges
    }

    /// Reads a body.
    ///
    /// # Errors
    /// [`ParseError`] for anything but what [`emit`](Body::emit) writes.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(body);
        let synopsis = reader.number("synopsis")?;
        if !Shape::SYNOPSES.contains(&synopsis) {
            return Err(ParseError::value("synopsis", synopsis, "1, 2 or 6"));
        }
        let count: u8 = reader.number("number of ranges")?;
        if !(1..=RANGES_MAX).contains(&count.into()) {
            return Err(ParseError::value("number of ranges", count, "1 to 128"));
        }
        let mut ranges = ArrayVec::<Range<u32>, RANGES_MAX>::new();
        for _ in 0..count {
            let start: u32 = reader.number("first element of a range")?;
            let length: u32 = reader.number("count of a range")?;
            let after = ranges.last().is_none_or(|before| before.end < start);
            let end = start.checked_add(length).filter(|_| length > 0 && after);
            let end = end.ok_or(ParseError::value(
                "first element of a range",
                start,
                "behind the range before it, with one element at least",
            ))?;
            // As many as there is room for.
            let _ = ranges.try_push(start..end);
        }
        reader.end("request")?;
        Ok(Self { synopsis, ranges })
    }
}

impl Body for Request {
    const KIND: Kind = Kind::Request;

    fn emit(&self, out: &mut impl Put) {
        out.put_number(self.synopsis);
        #[expect(clippy::cast_possible_truncation, reason = "128 at most")]
        out.put_number(self.ranges.len() as u8);
        for range in &self.ranges {
            out.put_number(range.start);
            out.put_number(range.end - range.start);
        }
    }
}
