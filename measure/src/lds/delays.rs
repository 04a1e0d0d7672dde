//! The difference of both ends, and what can be read from it directly: the paper's estimator and
//! all that is mined.

use super::{LayoutError, LdsLayout};
use crate::cell::Cell;
use crate::packet::FlowHash;
use crate::sight::SegmentIndex;

/// What both ends of a cell say together. Counts and sums carry the packets' weights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DelayCell {
    /// Packets at the sender's end.
    pub sent: u64,
    /// Packets at the receiver's end.
    pub received: u64,
    /// Packets of the epochs in which the cell was usable; 0 where it never was. For one epoch:
    /// `received` or 0.
    pub count: u64,
    /// Sum of these packets' delays in ticks.
    pub delay_sum: i64,
    /// Both ends counted the same packets, in one epoch at least.
    pub usable: bool,
    /// Unusable in some epoch of several: `count` is less than all packets of its flows.
    pub partial: bool,
}

/// All cells of a sketch, one epoch's or several epochs'.
#[derive(Debug, Clone, PartialEq)]
pub struct DelayCells {
    pub(super) layout: LdsLayout,
    pub(super) cells: Vec<DelayCell>,
}

/// A flow's delay read directly from its cells.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlowEstimate {
    /// Mean delay in ticks.
    pub mean_ticks: f64,
    /// Packets in the cells that were read, with their weights.
    pub packets: u64,
}

#[expect(unused_variables, reason = "contract")]
impl DelayCells {
    /// From cells that were compared elsewhere, row by row.
    ///
    /// # Errors
    /// When there are not as many cells as the layout has.
    pub fn new(layout: LdsLayout, cells: Vec<DelayCell>) -> Result<Self, LayoutError> {
        todo!()
    }

    /// From the (sender, receiver) halves of all cells, row by row; missing ones are unusable.
    pub fn from_halves(layout: &LdsLayout, halves: impl IntoIterator<Item = (Cell, Cell)>) -> Self {
        todo!()
    }

    /// The sketch's layout.
    pub fn layout(&self) -> &LdsLayout {
        todo!()
    }

    /// All cells, row by row.
    pub fn cells(&self) -> &[DelayCell] {
        todo!()
    }

    /// Mean delay in all usable cells of the row that samples most; `None` without any.
    pub fn segment_mean_ticks(&self) -> Option<f64> {
        todo!()
    }

    /// The paper's estimator (fig. 6) for a flow whose base columns (one a row) are given; `None`
    /// where no cell is usable and filled.
    pub fn estimate_at(&self, base_columns: &[u32]) -> Option<FlowEstimate> {
        todo!()
    }

    /// The paper's estimator for any flow.
    pub fn estimate(&self, flow: FlowHash, segment: SegmentIndex) -> Option<FlowEstimate> {
        todo!()
    }

    /// Packets of a flow at the receiver's end, at most (section 4.3); `None` where no row takes
    /// every packet.
    pub fn packets_at(&self, base_columns: &[u32]) -> Option<u64> {
        todo!()
    }
}
