//! The receiving side of fragments.

use std::ops::Range;

use super::element::Element;
use super::fragment::{FragmentError, FragmentView};
use super::{ParseError, Shape};
use measure::observation::End;

/// A fragment that cannot be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AssembleError {
    /// Of another synopsis, or of one that is laid out otherwise.
    #[error("fragment of a synopsis of another shape than this end's")]
    Shape,
    /// Of the other half.
    #[error("fragment of the {found:?}'s half, not of the {expected:?}'s")]
    End {
        /// The half that is put together.
        expected: End,
        /// The fragment's.
        found: End,
    },
    /// Elements that mean nothing.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// Elements of another type than the shape's.
    #[error(transparent)]
    Element(#[from] FragmentError),
}

/// More elements than this end is ready to hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a synopsis of {elements} elements; this end holds {limit} at most")]
pub struct TooLarge {
    /// Elements of the shape.
    pub elements: u32,
    /// The limit.
    pub limit: u32,
}

/// Puts one half of a synopsis together again, in whatever order its fragments come.
///
/// Memory is what the shape asks for, allocated at once: give it this end's own shape, which both
/// ends' hellos agreed on, never one from a fragment.
#[derive(Debug, Clone, PartialEq)]
pub struct Assembler<E> {
    shape: Shape,
    end: End,
    elements: Vec<Option<E>>,
    missing: u32,
}

impl<E: Element> Assembler<E> {
    /// Waits for the half of `end` of a synopsis of `shape`, which has `limit` elements at most.
    ///
    /// # Errors
    /// [`TooLarge`].
    pub fn new(shape: Shape, end: End, limit: u32) -> Result<Self, TooLarge> {
        let elements = shape.elements();
        if elements > limit {
            return Err(TooLarge { elements, limit });
        }
        Ok(Self {
            shape,
            end,
            elements: vec![None; elements as usize],
            missing: elements,
        })
    }

    /// Adds a fragment and returns how many elements were new. Of elements that come twice the
    /// first stays: what was sent once more is the same.
    ///
    /// # Errors
    /// [`AssembleError`]; nothing is added then.
    pub fn add(&mut self, fragment: &FragmentView<'_>) -> Result<u32, AssembleError> {
        if *fragment.shape() != self.shape {
            return Err(AssembleError::Shape);
        }
        if fragment.end() != self.end {
            return Err(AssembleError::End {
                expected: self.end,
                found: fragment.end(),
            });
        }
        // All are read before any is added.
        fragment
            .elements::<E>()?
            .try_for_each(|element| element.map(drop))?;
        let range = fragment.range().start as usize..fragment.range().end as usize;
        let slots = self.elements.get_mut(range).unwrap_or_default();
        let before = self.missing;
        for (slot, element) in slots.iter_mut().zip(fragment.elements::<E>()?) {
            if slot.is_none() {
                *slot = Some(element?);
                self.missing -= 1;
            }
        }
        Ok(before - self.missing)
    }

    /// The shape it was made with.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Elements that have not arrived.
    pub fn missing_elements(&self) -> u32 {
        self.missing
    }

    /// Ranges that have not arrived, rising: what to ask for once more.
    pub fn missing(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        let mut at = 0;
        self.elements
            .chunk_by(|a, b| a.is_some() == b.is_some())
            .filter_map(move |run| {
                let start = at;
                // No more than the shape has.
                at += u32::try_from(run.len()).unwrap_or(u32::MAX);
                run[0].is_none().then_some(start..at)
            })
    }

    /// All elements in their order; `None` for those that have not arrived: such a cell is
    /// unusable, and nothing else.
    pub fn elements(&self) -> &[Option<E>] {
        &self.elements
    }

    /// Forgets all, for another epoch; the shape stays.
    pub fn clear(&mut self) {
        self.elements.fill(None);
        self.missing = self.shape.elements();
    }
}
