//! The one-ended sketch.

use super::grid::Grid;
use super::{DelayCell, DelayCells, LdsLayout};
use crate::observation::{End, Observation};
use crate::synopsis::{ShapeMismatch, Synopsis};

/// A cell of an [`Sds`]: 16 bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct SdsCell {
    /// Delays of its packets in ticks, with their weights, added modulo 2^64.
    pub sum: u64,
    /// Its packets, with their weights.
    pub count: u64,
}

const _: () = assert!(size_of::<SdsCell>() == 16, "as documented");

impl SdsCell {
    fn add(&mut self, sum: u64, count: u64) {
        self.sum = self.sum.wrapping_add(sum);
        self.count = self.count.wrapping_add(count);
    }
}

/// The one-ended form (Sanjuas-Cuxart et al. 2011, section 2.2): cells add delays, from the
/// receiver's end. For a point that knows each packet's delay; what is lost it never sees.
#[derive(Debug, Clone, PartialEq)]
pub struct Sds {
    grid: Grid<SdsCell>,
}

impl Sds {
    /// An empty sketch of 16 bytes a cell, and 16 more where bytes are counted.
    pub fn new(layout: &LdsLayout) -> Self {
        Self {
            grid: Grid::new(layout),
        }
    }

    /// Its layout.
    pub fn layout(&self) -> &LdsLayout {
        &self.grid.layout
    }

    /// Cells, row by row.
    pub fn cells(&self) -> &[SdsCell] {
        &self.grid.cells
    }

    /// What it holds, every cell usable.
    pub fn delays(&self) -> DelayCells {
        let usable = |cell: &SdsCell| DelayCell {
            sent: cell.count,
            received: cell.count,
            count: cell.count,
            delay_sum: cell.sum.cast_signed(),
            usable: true,
            ..DelayCell::default()
        };
        DelayCells {
            layout: self.grid.layout.clone(),
            cells: self.grid.cells.iter().map(usable).collect(),
            bytes: self.grid.bytes.clone(),
        }
    }
}

impl Synopsis for Sds {
    type Item = Observation;

    /// Nothing is known at the sender's end.
    #[inline]
    fn record(&mut self, end: End, observations: &[Observation]) {
        if end == End::Receiver {
            self.grid.record(
                observations,
                |cell, observation, weight| {
                    let weight = u64::from(weight);
                    cell.add(observation.delay.wrapping_mul(weight), weight);
                },
                |pair, bytes| {
                    pair.sender = pair.sender.wrapping_add(bytes);
                    pair.receiver = pair.receiver.wrapping_add(bytes);
                },
            );
        }
    }

    fn merge(&mut self, other: &Self) -> Result<(), ShapeMismatch> {
        self.grid.merge(&other.grid, |mine, theirs| {
            mine.add(theirs.sum, theirs.count);
        })
    }

    fn clear(&mut self) {
        self.grid.clear();
    }
}
