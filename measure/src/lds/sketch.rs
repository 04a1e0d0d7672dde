//! What a point accumulates.

use super::grid::{Grid, cells_of};
use super::{DelayCells, LdsLayout, ROWS_MAX};
use crate::cell::{BothEnds, CellPair, PassedCell};
use crate::flows::FlowId;
use crate::observation::{End, Observation};
use crate::synopsis::{ShapeMismatch, Synopsis};

/// An LDS with both ends in one place.
#[derive(Debug, Clone, PartialEq)]
pub struct LdsPair<C = CellPair> {
    grid: Grid<C>,
}

impl LdsPair {
    /// An empty sketch of 32 bytes a cell.
    pub fn new(layout: &LdsLayout) -> Self {
        Self::empty(layout)
    }

    /// Takes packets out again that were recorded at one end: the exact inverse.
    pub fn unrecord(&mut self, end: End, observations: &[Observation]) {
        self.grid.record(observations, |cell, observation, weight| {
            cell.unrecord(end, observation, weight);
        });
    }
}

impl<C: BothEnds> LdsPair<C> {
    /// An empty sketch of whatever kind of cells.
    pub fn empty(layout: &LdsLayout) -> Self {
        Self {
            grid: Grid::new(layout),
        }
    }

    /// Its layout.
    pub fn layout(&self) -> &LdsLayout {
        &self.grid.layout
    }

    /// Cells, row by row.
    pub fn cells(&self) -> &[C] {
        &self.grid.cells
    }

    /// Adds packets that passed both ends, as they were seen at the receiver's: what recording
    /// them there, and at the sender's end at `time - delay`, comes to, for half of the work.
    ///
    /// For a worker that owns both ends of a burst. What was lost in between has to be recorded
    /// at the sender's end.
    #[inline]
    pub fn record_passed(&mut self, observations: &[Observation]) {
        self.grid.record(observations, C::pass);
    }

    /// The difference of both ends.
    pub fn delays(&self) -> DelayCells {
        let halves = self.grid.cells.iter().map(C::halves);
        DelayCells::from_halves(&self.grid.layout, halves)
    }
}

impl LdsPair<PassedCell> {
    /// Adds all packets of a flow that passed, by the sum of their delays: what recording them one by one
    /// comes to, where the layout is plain.
    #[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
    pub(crate) fn record_flow(&mut self, flow: FlowId, packets: u64, delay_sum: u64) {
        let Grid { layout, cells } = &mut self.grid;
        let indices = cells_of::<ROWS_MAX>(flow, layout.columns());
        for &index in indices.iter().take(layout.rows()) {
            if let Some(cell) = cells.get_mut(index as usize) {
                cell.pass_all(packets as u32, delay_sum);
            }
        }
    }
}

impl<C: BothEnds> Synopsis for LdsPair<C> {
    type Item = Observation;

    #[inline]
    fn record(&mut self, end: End, observations: &[Observation]) {
        // Either end by itself, so that the loop does not ask which.
        match end {
            End::Sender => self.grid.record(observations, |cell, observation, weight| {
                cell.record(End::Sender, observation, weight);
            }),
            End::Receiver => self.grid.record(observations, |cell, observation, weight| {
                cell.record(End::Receiver, observation, weight);
            }),
        }
    }

    fn merge(&mut self, other: &Self) -> Result<(), ShapeMismatch> {
        self.grid.merge(&other.grid, C::merge)
    }

    fn clear(&mut self) {
        self.grid.clear();
    }
}
