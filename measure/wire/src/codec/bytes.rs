//! Numbers to bytes and back: big-endian, and never past an end.

use std::ops::RangeInclusive;

use super::ParseError;

/// Where bytes are appended: a buffer that grows, one that does not, or a mere count.
pub trait Put {
    /// Appends `bytes`.
    fn put(&mut self, bytes: &[u8]);

    /// Appends a number, as the network has it.
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

/// A buffer of fixed size. What does not fit is counted, not written.
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

    /// Bytes appended, those that did not fit included.
    pub fn len(&self) -> usize {
        self.put
    }

    /// Whether nothing was appended.
    pub fn is_empty(&self) -> bool {
        self.put == 0
    }

    /// What was appended; `None` where it did not fit.
    pub fn written(self) -> Option<&'a mut [u8]> {
        self.buffer.get_mut(..self.put)
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
    /// Reads all of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What has not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `count` bytes, which are `what`.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] where there are less.
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

    /// The next number, which is `what`.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] where the bytes end within it.
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

    /// The next number, which is `what`, of `range`; `allowed` is that in words.
    ///
    /// # Errors
    /// [`ParseError`] where the bytes end within it, and for another number.
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

    /// Ends reading `what`.
    ///
    /// # Errors
    /// [`ParseError::Trailing`] where bytes are left.
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
        assert_eq!(slot.written(), None);
        assert_eq!(buffer, [1, 2, 0]);
    }
}
