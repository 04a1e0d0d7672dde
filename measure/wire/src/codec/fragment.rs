//! Fragment: a range of a sealed synopsis that can be read independently.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0 | synopsis | see [`Shape`] |
//! | 1..3 | shape length | s, in bytes |
//! | 3 | end | 0 sender, 1 receiver |
//! | 4..8 | first | index of the first element |
//! | 8..12 | count | of elements |
//! | 12..12+s | shape | see [`Shape`] |
//! | 12+s.. | elements | consecutive |
//!
//! The frame that carries it names the epoch and the segment.
//!
//! Between switches, times are nanoseconds of TAI since the epoch's start. The sender of a synopsis
//! converts its sums when elements are written ([`fragments`] calls back for each).

use std::marker::PhantomData;
use std::ops::Range;

use super::{Element, ParseError, Put, Reader, Shape};
use measure::observation::End;

/// Bytes before the shape.
const FIXED_BYTES: usize = 12;

/// By their numbers.
const ENDS: [End; 2] = [End::Sender, End::Receiver];

/// A fragment to send, which calls back for its elements when written.
#[derive(Debug, Clone)]
pub struct Fragment<'s, E, F> {
    shape: &'s Shape,
    end: End,
    range: Range<u32>,
    element: F,
    elements: PhantomData<E>,
}

impl<E, F> Fragment<'_, E, F> {
    /// Range of its elements.
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
    let end = u8::from(end == ENDS[1]);
    let [f0, f1, f2, f3] = range.start.to_be_bytes();
    let [c0, c1, c2, c3] = range.end.saturating_sub(range.start).to_be_bytes();
    shape.emit_around(&[end, f0, f1, f2, f3, c0, c1, c2, c3], out);
}

/// Divides `ranges` of a synopsis into fragments of at most `bytes_max`; empty if not even one element fits, or
/// elements are not those of the shape. Nothing is copied: `element` is called for each element when its fragment is
/// written.
///
/// Send `0..shape.elements()` first, then what is [missing](Assembler::missing) at the other end. Elements beyond the
/// shape are ignored.
pub fn fragments<E: Element, F: Fn(u32) -> E + Copy>(
    shape: &Shape,
    end: End,
    ranges: impl IntoIterator<Item = Range<u32>>,
    bytes_max: usize,
    element: F,
) -> impl Iterator<Item = Fragment<'_, E, F>> {
    let capacity = bytes_max.saturating_sub(FIXED_BYTES + shape.bytes()) / E::BYTES;
    let capacity = u32::try_from(capacity).unwrap_or(u32::MAX);
    let is_possible = capacity > 0 && E::BYTES == shape.element_bytes();
    let elements = if is_possible { shape.elements() } else { 0 };
    let cut = move |range: Range<u32>| {
        let end = range.end.min(elements);
        (range.start..end)
            .step_by(capacity.max(1) as usize)
            .map(move |first| first..end.min(first.saturating_add(capacity)))
    };
    ranges.into_iter().flat_map(cut).map(move |range| Fragment {
        shape,
        end,
        range,
        element,
        elements: PhantomData,
    })
}

/// A view of a received fragment: checked except for the meaning of its elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FragmentView<'a> {
    shape: Shape,
    end: End,
    range: Range<u32>,
    elements: &'a [u8],
}

impl<'a> FragmentView<'a> {
    /// Parses a fragment from all of `bytes`.
    ///
    /// # Errors
    /// [`ParseError`] for anything but one whole fragment.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(bytes);
        let synopsis = reader.number("synopsis")?;
        let shape_bytes: u16 = reader.number("shape's length")?;
        let end = reader.place("end of the segment", &ENDS, "0 or 1")?;
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

    /// Shape of its synopsis.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The end whose half it belongs to.
    pub fn end(&self) -> End {
        self.end
    }

    /// Range of its elements.
    pub fn range(&self) -> Range<u32> {
        self.range.clone()
    }

    /// Its elements; `None` if their type is not the shape's.
    pub fn elements<E: Element>(&self) -> Option<impl Iterator<Item = E> + use<'a, E>> {
        let elements = self.elements.chunks_exact(E::BYTES);
        let elements = elements.filter_map(|bytes| E::parse(&mut Reader::new(bytes)).ok());
        (E::BYTES == self.shape.element_bytes()).then_some(elements)
    }
    /// Appends it unchanged.
    pub fn write(&self, out: &mut impl Put) {
        emit_head(&self.shape, self.end, &self.range, out);
        out.put(self.elements);
    }
}

/// Reassembles one half of a synopsis, whatever the order of its fragments.
///
/// It allocates once, by its shape. Pass this end's own shape, on which both ends' hellos agreed, never the
/// shape of a fragment.
#[derive(Debug, Clone, PartialEq)]
pub struct Assembler<E> {
    shape: Shape,
    end: End,
    elements: Vec<Option<E>>,
    missing: u32,
}

impl<E: Element> Assembler<E> {
    /// Starts assembling the half of `end` of a synopsis with `shape`.
    pub fn new(shape: Shape, end: End) -> Self {
        let missing = shape.elements();
        Self {
            shape,
            end,
            elements: vec![None; missing as usize],
            missing,
        }
    }

    /// Adds a fragment and returns how many elements were new; returns `None`, and adds nothing, if its shape, half
    /// or type of elements differs. The first of duplicate elements stays; retransmitted ones are identical.
    pub fn add(&mut self, fragment: &FragmentView<'_>) -> Option<u32> {
        if *fragment.shape() != self.shape || fragment.end() != self.end {
            return None;
        }
        let range = fragment.range().start as usize..fragment.range().end as usize;
        let slots = self.elements.get_mut(range).unwrap_or_default();
        let before = self.missing;
        for (slot, element) in slots.iter_mut().zip(fragment.elements::<E>()?) {
            if slot.replace(slot.unwrap_or(element)).is_none() {
                self.missing -= 1;
            }
        }
        Some(before - self.missing)
    }

    /// The shape it was made with.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Number of missing elements.
    pub fn missing_elements(&self) -> u32 {
        self.missing
    }

    /// Missing ranges, ascending, to request again.
    pub fn missing(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        let mut at = 0;
        self.elements
            .chunk_by(|a, b| a.is_some() == b.is_some())
            .filter_map(move |run| {
                let start = at;
                // At most as many as the shape has.
                at += u32::try_from(run.len()).unwrap_or(u32::MAX);
                run[0].is_none().then_some(start..at)
            })
    }

    /// All elements in order; `None` for missing ones, which only make a cell unusable.
    pub fn elements(&self) -> &[Option<E>] {
        &self.elements
    }

    /// Removes all elements, for another epoch; the shape stays.
    pub fn clear(&mut self) {
        self.elements.fill(None);
        self.missing = self.shape.elements();
    }
}
