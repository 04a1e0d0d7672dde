//! Fragment: a range of a sealed synopsis that is readable by itself.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0 | synopsis | see [`Shape`] |
//! | 1..3 | shape length | s, in bytes |
//! | 3 | end | 0 sender, 1 receiver |
//! | 4..8 | first | index of the first element |
//! | 8..12 | count | of elements |
//! | 12..12+s | shape | see [`Shape`] |
//! | 12+s.. | elements | one after the other |
//!
//! The frame that carries it names the epoch and the segment.
//!
//! Between switches, times are nanoseconds of TAI since the epoch's start: the sender of a synopsis
//! converts its sums on the way ([`fragments`] asks for each element as it is written).

use std::marker::PhantomData;
use std::ops::Range;

use super::ParseError;
use super::bytes::{Put, Reader};
use super::element::Element;
use super::shape::Shape;
use measure::observation::End;

/// Bytes before the shape.
const FIXED_BYTES: usize = 12;

/// A synopsis that cannot be cut into fragments.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FragmentError {
    /// A fragment cannot hold one element.
    #[error("fragments of {bytes_max} bytes hold no element of the synopsis; allow {least}")]
    TooSmall {
        /// Most bytes of a fragment.
        bytes_max: usize,
        /// Bytes that a fragment with one element has.
        least: usize,
    },
    /// The elements given are not those of the shape.
    #[error("elements of {given} bytes for a synopsis of elements of {expected} bytes")]
    WrongElement {
        /// Bytes of the elements given.
        given: usize,
        /// Bytes of the shape's.
        expected: usize,
    },
}

/// A fragment to be sent: asks for its elements as it is written.
#[derive(Debug, Clone)]
pub struct Fragment<'s, E, F> {
    shape: &'s Shape,
    end: End,
    range: Range<u32>,
    element: F,
    elements: PhantomData<E>,
}

impl<E, F> Fragment<'_, E, F> {
    /// Which elements it holds.
    pub fn range(&self) -> Range<u32> {
        self.range.clone()
    }
}

impl<E: Element, F: Fn(u32) -> E> Fragment<'_, E, F> {
    /// Appends it. Allocates nothing.
    pub fn write(&self, out: &mut impl Put) {
        emit_head(self.shape, self.end, &self.range, out);
        for index in self.range.clone() {
            (self.element)(index).emit(out);
        }
    }
}

fn emit_head(shape: &Shape, end: End, range: &Range<u32>, out: &mut impl Put) {
    let end = match end {
        End::Sender => 0,
        End::Receiver => 1,
    };
    let [f0, f1, f2, f3] = range.start.to_be_bytes();
    let [c0, c1, c2, c3] = range.end.saturating_sub(range.start).to_be_bytes();
    shape.emit_around(&[end, f0, f1, f2, f3, c0, c1, c2, c3], out);
}

/// Cuts `ranges` of a synopsis into fragments of at most `bytes_max`. Nothing is copied: `element` is
/// asked for each element when its fragment is written.
///
/// Send `0..shape.elements()` first, then what is [missing](super::Assembler::missing) at the other
/// end. What is beyond the shape is left out.
///
/// # Errors
/// [`FragmentError`].
pub fn fragments<E: Element, F: Fn(u32) -> E + Copy>(
    shape: &Shape,
    end: End,
    ranges: impl IntoIterator<Item = Range<u32>>,
    bytes_max: usize,
    element: F,
) -> Result<impl Iterator<Item = Fragment<'_, E, F>>, FragmentError> {
    if E::BYTES != shape.element_bytes() {
        return Err(FragmentError::WrongElement {
            given: E::BYTES,
            expected: shape.element_bytes(),
        });
    }
    let fixed = FIXED_BYTES + shape.bytes();
    let capacity = bytes_max.saturating_sub(fixed) / E::BYTES;
    let capacity = u32::try_from(capacity).unwrap_or(u32::MAX);
    if capacity == 0 {
        return Err(FragmentError::TooSmall {
            bytes_max,
            least: fixed + E::BYTES,
        });
    }
    let elements = shape.elements();
    let cut = move |range: Range<u32>| {
        let end = range.end.min(elements);
        (range.start..end)
            .step_by(capacity as usize)
            .map(move |first| first..end.min(first.saturating_add(capacity)))
    };
    Ok(ranges.into_iter().flat_map(cut).map(move |range| Fragment {
        shape,
        end,
        range,
        element,
        elements: PhantomData,
    }))
}

/// A view of a fragment that was received: all of it is checked but what its elements mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FragmentView<'a> {
    shape: Shape,
    end: End,
    range: Range<u32>,
    elements: &'a [u8],
}

impl<'a> FragmentView<'a> {
    /// Reads a fragment from all of `bytes`.
    ///
    /// # Errors
    /// [`ParseError`] for anything but one whole fragment.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(bytes);
        let synopsis = reader.number("synopsis")?;
        let shape_bytes: u16 = reader.number("shape's length")?;
        let end = match reader.number("end of the segment")? {
            0_u8 => End::Sender,
            1 => End::Receiver,
            other => return Err(ParseError::value("end of the segment", other, "0 or 1")),
        };
        let first: u32 = reader.number("first element")?;
        let count: u32 = reader.number("count of elements")?;
        let shape = Shape::parse(synopsis, reader.bytes("shape", shape_bytes.into())?)?;
        let last = first
            .checked_add(count)
            .filter(|&last| last <= shape.elements())
            .ok_or(ParseError::value(
                "count of elements",
                count,
                "as many as are left behind the first",
            ))?;
        let length = (count as usize)
            .checked_mul(shape.element_bytes())
            .ok_or(ParseError::value("count of elements", count, "less"))?;
        let elements = reader.bytes("elements", length)?;
        reader.end("fragment")?;
        Ok(Self {
            elements,
            shape,
            end,
            range: first..last,
        })
    }

    /// Which synopsis it is a part of.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Whose half.
    pub fn end(&self) -> End {
        self.end
    }

    /// Which elements it holds.
    pub fn range(&self) -> Range<u32> {
        self.range.clone()
    }

    /// Its elements.
    ///
    /// # Errors
    /// [`FragmentError::WrongElement`] when these are not the shape's.
    pub fn elements<E: Element>(
        &self,
    ) -> Result<impl Iterator<Item = Result<E, ParseError>> + use<'a, E>, FragmentError> {
        if E::BYTES != self.shape.element_bytes() {
            return Err(FragmentError::WrongElement {
                given: E::BYTES,
                expected: self.shape.element_bytes(),
            });
        }
        Ok(self
            .elements
            .chunks_exact(E::BYTES)
            .map(|bytes| E::parse(&mut Reader::new(bytes))))
    }
}

impl FragmentView<'_> {
    /// Appends it as it was received.
    pub fn write(&self, out: &mut impl Put) {
        emit_head(&self.shape, self.end, &self.range, out);
        out.put(self.elements);
    }
}
