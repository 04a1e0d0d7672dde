//! The binary form of synopses: fragments of sealed synopses, and their reassembly.
//!
//! ```text
//!  synopsis --> fragments --> Fragment ==> FragmentView --> Assembler --> elements, missing ranges
//! ```
//!
//! Two switches that share a wire segment exchange synopses. Tables of bytes are in [`fragment`] and
//! [`shape`]; the frames that carry fragments are in [`frame`](crate::frame).
//!
//! - Everything is big-endian, like the protocols around it: a capture can be read as numbers.
//! - Each fragment has a single form: what parses is emitted again byte for byte.
//! - Nothing is allocated because of numbers in received bytes, and no bytes can cause a panic.
//! - Writing allocates nothing.

use std::ops::RangeInclusive;

use measure::cell::Cell;
use measure::shard::Tally;

pub mod fragment;
pub mod shape;

pub use fragment::{Assembler, Fragment, FragmentView, fragments};
pub use shape::{Shape, SketchShape};

/// An element of a synopsis: the unit that must arrive as a whole.
pub trait Element: Copy {
    /// Its size.
    const BYTES: usize;

    /// Appends [`BYTES`](Self::BYTES) bytes.
    fn emit(&self, out: &mut impl Put);

    /// Reads an element.
    ///
    /// # Errors
    /// [`ParseError`] if it is truncated or invalid.
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

/// Why a part of a synopsis, or the body of a frame, was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The bytes end too soon.
    #[error("{what} needs {needed} bytes and {left} are left")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Bytes needed.
        needed: usize,
        /// Bytes present.
        left: usize,
    },
    /// The bytes continue where they should end.
    #[error("{left} bytes behind the end of {what}")]
    Trailing {
        /// What was read before them.
        what: &'static str,
        /// Number of bytes left.
        left: usize,
    },
    /// An invalid number.
    #[error("{what} is {value}; it must be {allowed}")]
    Value {
        /// Which number.
        what: &'static str,
        /// Its value.
        value: u64,
        /// Its valid values.
        allowed: &'static str,
    },
}

impl ParseError {
    pub(crate) fn value(what: &'static str, value: impl Into<u64>, allowed: &'static str) -> Self {
        Self::Value {
            what,
            value: value.into(),
            allowed,
        }
    }
}

/// A destination for bytes: a growing buffer, a fixed one, or a mere count.
pub trait Put {
    /// Appends `bytes`.
    fn put(&mut self, bytes: &[u8]);

    /// Appends a number in network byte order.
    fn put_number<const N: usize>(&mut self, number: impl Number<N>)
    where
        Self: Sized,
    {
        self.put(&number.to_bytes());
    }
}

impl Put for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// A buffer of fixed size. Bytes that do not fit are counted, not written.
#[derive(Debug)]
pub struct Slot<'a> {
    buffer: &'a mut [u8],
    put: usize,
}

impl<'a> Slot<'a> {
    /// Writes from the front of `buffer`.
    pub fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, put: 0 }
    }

    /// Bytes appended, including those that did not fit.
    pub fn len(&self) -> usize {
        self.put
    }

    /// Whether nothing was appended.
    pub fn is_empty(&self) -> bool {
        self.put == 0
    }
}

impl Put for Slot<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let end = self.put.saturating_add(bytes.len());
        if let Some(room) = self.buffer.get_mut(self.put..end) {
            room.copy_from_slice(bytes);
        }
        self.put = end;
    }
}

/// A number of `N` bytes.
pub trait Number<const N: usize>: Copy {
    /// Most significant byte first.
    fn to_bytes(self) -> [u8; N];
    /// Most significant byte first.
    fn from_bytes(bytes: [u8; N]) -> Self;
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl Number<{ size_of::<$number>() }> for $number {
            fn to_bytes(self) -> [u8; size_of::<$number>()] {
                self.to_be_bytes()
            }

            fn from_bytes(bytes: [u8; size_of::<$number>()]) -> Self {
                Self::from_be_bytes(bytes)
            }
        }
    )*};
}
numbers!(u8 u16 u32 u64 u128 i16 i64 i128);

/// Reads from the front of a slice.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the beginning of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The unread bytes.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `count` bytes, described by `what`.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] if there are fewer.
    pub fn bytes(&mut self, what: &'static str, count: usize) -> Result<&'a [u8], ParseError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or(ParseError::Truncated {
                what,
                needed: count,
                left: self.rest.len(),
            })?;
        self.rest = rest;
        Ok(taken)
    }

    /// The next number, described by `what`.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] if the bytes end within it.
    pub fn number<T: Number<N>, const N: usize>(
        &mut self,
        what: &'static str,
    ) -> Result<T, ParseError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(ParseError::Truncated {
            what,
            needed: N,
            left: self.rest.len(),
        })?;
        self.rest = rest;
        Ok(T::from_bytes(*taken))
    }

    /// The next number, described by `what`, if it is in `range`; `allowed` describes the range.
    ///
    /// # Errors
    /// [`ParseError`] if the bytes end within it, or for another number.
    pub fn number_in<T, const N: usize>(
        &mut self,
        what: &'static str,
        range: RangeInclusive<T>,
        allowed: &'static str,
    ) -> Result<T, ParseError>
    where
        T: Number<N> + PartialOrd + Into<u64>,
    {
        let number = self.number(what)?;
        if range.contains(&number) {
            return Ok(number);
        }
        Err(ParseError::value(what, number, allowed))
    }

    /// The element of `all` indexed by the next byte, described by `what`; `allowed` describes the range.
    ///
    /// # Errors
    /// [`ParseError`] if no byte is left, or for an index out of range.
    pub fn place<T: Copy>(
        &mut self,
        what: &'static str,
        all: &[T],
        allowed: &'static str,
    ) -> Result<T, ParseError> {
        let place: u8 = self.number(what)?;
        let found = all.get(usize::from(place)).copied();
        found.ok_or(ParseError::value(what, place, allowed))
    }

    /// Ends reading `what`.
    ///
    /// # Errors
    /// [`ParseError::Trailing`] if bytes are left.
    pub fn end(&self, what: &'static str) -> Result<(), ParseError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(ParseError::Trailing {
            what,
            left: self.rest.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_the_network_has_them() {
        let mut out = Vec::new();
        out.put_number(0x0102_u16);
        out.put_number(-2_i16);
        out.put_number(0x03_u8);
        assert_eq!(out, [1, 2, 0xff, 0xfe, 3]);
        let mut reader = Reader::new(&out);
        assert_eq!(reader.number("a"), Ok(0x0102_u16));
        assert_eq!(reader.number("b"), Ok(-2_i16));
        assert_eq!(
            reader.number::<u32, 4>("c"),
            Err(ParseError::Truncated {
                what: "c",
                needed: 4,
                left: 1
            })
        );
        assert!(reader.end("all").is_err());
        assert_eq!(reader.number("c"), Ok(3_u8));
        assert_eq!(reader.end("all"), Ok(()));
    }

    #[test]
    fn what_does_not_fit_is_counted() {
        let mut buffer = [0; 3];
        let mut slot = Slot::new(&mut buffer);
        slot.put_number(0x0102_u16);
        slot.put_number(0x0304_u16);
        assert_eq!(slot.len(), 4);
        assert_eq!(buffer, [1, 2, 0]);
    }
}
