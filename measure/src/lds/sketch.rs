//! What a point accumulates.

use super::{DelayCells, LdsLayout};
use crate::cell::CellPair;

/// Bytes at both ends of a cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct BytesPair {
    /// At the sender's end.
    pub sender: u64,
    /// At the receiver's end.
    pub receiver: u64,
}

/// An LDS with both ends in one place.
#[derive(Debug, Clone, PartialEq)]
pub struct LdsPair {}

#[expect(unused_variables, reason = "contract")]
impl LdsPair {
    /// An empty sketch.
    pub fn new(layout: &LdsLayout) -> Self {
        todo!()
    }

    /// Its layout.
    pub fn layout(&self) -> &LdsLayout {
        todo!()
    }

    /// Cells, row by row.
    pub fn cells(&self) -> &[CellPair] {
        todo!()
    }

    /// Bytes of each cell, where they are counted.
    pub fn bytes(&self) -> Option<&[BytesPair]> {
        todo!()
    }

    /// The difference of both ends.
    pub fn delays(&self) -> DelayCells {
        todo!()
    }
}

/// The one-ended form: cells add delays, from the receiver's end.
#[derive(Debug, Clone, PartialEq)]
pub struct Sds {}

#[expect(unused_variables, reason = "contract")]
impl Sds {
    /// An empty sketch.
    pub fn new(layout: &LdsLayout) -> Self {
        todo!()
    }

    /// What it holds, every cell usable.
    pub fn delays(&self) -> DelayCells {
        todo!()
    }
}
