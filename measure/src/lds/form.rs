//! The binary form of sketches: weights (how many, then each; 4 bytes a number), then each half.
//!
//! Weights come first, since a half's shape only has a check of them.

use super::{LdsLayout, ROWS_MAX};
use crate::codec::{Counted, Element, ParseError, Put, Reader, Shape, SketchShape, whole};
use crate::observation::End;

pub(super) fn encode_weights(layout: &LdsLayout, out: &mut Vec<u8>) {
    let weights = layout.weights();
    #[expect(clippy::cast_possible_truncation, reason = "65,536 at most")]
    out.put_number(weights.len() as u32);
    for &weight in weights {
        out.put_number(weight);
    }
}

pub(super) fn decode_weights(reader: &mut Reader<'_>) -> Result<Vec<u32>, ParseError> {
    let count: u32 = reader.number("number of weights")?;
    let bytes = reader.bytes("weights", (count as usize).saturating_mul(4))?;
    let (weights, _) = bytes.as_chunks();
    Ok(weights.iter().copied().map(u32::from_be_bytes).collect())
}

/// Appends one half: cells, with their bytes where these are counted.
pub(super) fn encode_half<C: Element>(
    shape: &Shape,
    end: End,
    cells: impl Iterator<Item = C>,
    bytes: impl ExactSizeIterator<Item = u64>,
    out: &mut Vec<u8>,
) {
    if bytes.len() == 0 {
        return whole::encode(shape, end, cells, out);
    }
    let counted = cells
        .zip(bytes)
        .map(|(cell, bytes)| Counted { cell, bytes });
    whole::encode(shape, end, counted, out);
}

/// One half, as it is read.
pub(super) struct Half<C> {
    pub shape: Shape,
    pub cells: Vec<C>,
    /// As many as cells, or none.
    pub bytes: Vec<u64>,
}

pub(super) fn decode_half<C: Element>(
    reader: &mut Reader<'_>,
    end: End,
) -> Result<Half<C>, ParseError> {
    let fragment = whole::read(reader, end)?;
    let shape = fragment.shape().clone();
    if shape.element_bytes() == C::BYTES {
        return Ok(Half {
            shape,
            cells: whole::elements(&fragment)?,
            bytes: Vec::new(),
        });
    }
    let counted: Vec<Counted<C>> = whole::elements(&fragment)?;
    Ok(Half {
        shape,
        cells: counted.iter().map(|counted| counted.cell).collect(),
        bytes: counted.iter().map(|counted| counted.bytes).collect(),
    })
}

/// The layout of a shape, with the weights that it has the check of.
pub(super) fn layout(shape: &SketchShape, weights: &[u32]) -> Result<LdsLayout, ParseError> {
    let wrong = |what, value: u64| ParseError::value(what, value, "as a sketch can be laid out");
    let probabilities: arrayvec::ArrayVec<f64, ROWS_MAX> = shape
        .shares
        .iter()
        .map(|&share| share as f64 / 4_294_967_296.0)
        .collect();
    let layout = LdsLayout::new(shape.columns, shape.virtual_cells, &probabilities)
        .map_err(|_| wrong("columns of a sketch", shape.columns.into()))?;
    let layout = if shape.counts_bytes {
        layout.with_bytes()
    } else {
        layout
    };
    let layout = layout
        .with_weights(weights)
        .map_err(|_| wrong("number of weights", weights.len() as u64))?;
    // One form only: neither other weights than the halves', nor weights of 1 at the end.
    if SketchShape::new(&layout) != *shape || layout.weights() != weights {
        return Err(wrong("check of the weights", shape.weights_check));
    }
    Ok(layout)
}
