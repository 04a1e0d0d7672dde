//! Whole synopses: fragments that hold all elements.

use super::bytes::Reader;
use super::element::Element;
use super::fragment::{FragmentView, emit_head};
use super::{ParseError, Shape};
use crate::cell::{BothEnds, Cell};
use crate::observation::End;

/// Appends one half of a synopsis: all elements of its shape.
pub(crate) fn encode<E: Element>(
    shape: &Shape,
    end: End,
    elements: impl Iterator<Item = E>,
    out: &mut Vec<u8>,
) {
    emit_head(shape, end, &(0..shape.elements()), out);
    for element in elements {
        element.emit(out);
    }
}

/// Reads one half of a synopsis from the front of what may be more. Allocates no more than a small
/// multiple of what it reads.
pub(crate) fn decode<E: Element>(
    reader: &mut Reader<'_>,
    end: End,
) -> Result<(Shape, Vec<E>), ParseError> {
    let fragment = read(reader, end)?;
    let elements = elements(&fragment)?;
    Ok((fragment.into_shape(), elements))
}

/// Reads the fragment of one half that holds all of its elements.
pub(crate) fn read<'a>(reader: &mut Reader<'a>, end: End) -> Result<FragmentView<'a>, ParseError> {
    let fragment = FragmentView::read(reader)?;
    if fragment.end() != end {
        let found = u8::from(fragment.end() == End::Receiver);
        let allowed = "the sender's half, then the receiver's";
        return Err(ParseError::value("end of the segment", found, allowed));
    }
    let (range, whole) = (fragment.range(), 0..fragment.shape().elements());
    if range != whole {
        let count = range.end - range.start;
        return Err(ParseError::value("count of elements", count, "all of them"));
    }
    Ok(fragment)
}

/// The elements of a fragment.
pub(crate) fn elements<E: Element>(fragment: &FragmentView<'_>) -> Result<Vec<E>, ParseError> {
    match fragment.elements() {
        Ok(elements) => elements.collect(),
        Err(_) => Err(unexpected(fragment.shape())),
    }
}

/// Reads both halves of a synopsis, the sender's first.
pub(crate) fn decode_halves<E: Element>(
    reader: &mut Reader<'_>,
) -> Result<(Shape, impl Iterator<Item = (E, E)>), ParseError> {
    let (shape, sender) = decode(reader, End::Sender)?;
    let (other, receiver) = decode(reader, End::Receiver)?;
    if other != shape {
        return Err(unexpected(&other));
    }
    Ok((shape, sender.into_iter().zip(receiver)))
}

/// Puts halves together.
pub(crate) fn cells_of<C: BothEnds>(
    halves: impl Iterator<Item = (Cell, Cell)>,
) -> Result<Vec<C>, ParseError> {
    let allowed = "as this kind of cell has it";
    halves
        .map(|(sender, receiver)| {
            C::from_halves(sender, receiver).ok_or_else(|| {
                ParseError::value("digest of the sender's half", sender.digest, allowed)
            })
        })
        .collect()
}

/// Reads the only element of a synopsis of this shape, which the receiver's end has.
pub(crate) fn decode_one<E: Element>(
    reader: &mut Reader<'_>,
    expected: &Shape,
) -> Result<E, ParseError> {
    let (shape, elements) = decode(reader, End::Receiver)?;
    match elements[..] {
        [element] if shape == *expected => Ok(element),
        _ => Err(unexpected(&shape)),
    }
}

/// A synopsis, but not the one that is read here.
pub(crate) fn unexpected(shape: &Shape) -> ParseError {
    ParseError::value(
        "synopsis",
        shape.synopsis(),
        "the one that is read, of one shape",
    )
}
