//! The difference of both ends, and what can be read from it directly: the paper's estimators and
//! the mean of all.

use super::LdsLayout;
use crate::argument::{InvalidArgument, ensure};
use crate::cell::{Cell, CellPair};
use crate::observation::SegmentIndex;
use crate::packet::FlowHash;
use crate::synopsis::ShapeMismatch;

/// Interference that the paper's estimator tolerates: alpha of section 2.3.4.
const TOLERANCE: f64 = 0.1;

/// Shares of rows are kept to 2^-32: a cell that is on the limit by the share that was asked for
/// is not to fall over it by that. Counts of a million and more lie closer together; there it does
/// not matter.
const ROUNDING: f64 = 1e-6;

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
    /// What an end counted did not arrive, in some epoch: `sent` and `received` may be less than
    /// there were.
    pub missing: bool,
}

impl DelayCell {
    /// From both ends' halves, as far as they are here.
    fn of(sender: Option<Cell>, receiver: Option<Cell>) -> Self {
        let count_of = |half: Option<Cell>| half.map_or(0, |half| u64::from(half.count));
        let delay_sum = sender
            .zip(receiver)
            .and_then(|(sender, receiver)| CellPair { sender, receiver }.delay_sum());
        Self {
            sent: count_of(sender),
            received: count_of(receiver),
            count: delay_sum.map_or(0, |_| count_of(receiver)),
            delay_sum: delay_sum.unwrap_or(0),
            usable: delay_sum.is_some(),
            partial: false,
            missing: sender.is_none() || receiver.is_none(),
        }
    }

    /// Adds another epoch's.
    fn add(&mut self, other: &Self) {
        self.sent = self.sent.wrapping_add(other.sent);
        self.received = self.received.wrapping_add(other.received);
        self.count = self.count.wrapping_add(other.count);
        self.delay_sum = self.delay_sum.wrapping_add(other.delay_sum);
        self.partial |= other.partial || self.usable != other.usable;
        self.usable |= other.usable;
        self.missing |= other.missing;
    }

    /// Usable, with packets in it.
    pub(super) fn is_filled(&self) -> bool {
        self.usable && self.count > 0
    }

    /// Packets that went through it, usable or not: what a flow in it has to share it with. In one
    /// epoch that is `count` wherever the cell is usable; over several, a cell that was unusable
    /// in some must not pass for one that few flows share.
    pub(super) fn packets(&self) -> u64 {
        self.count.max(self.received).max(self.sent)
    }
}

/// All cells of a sketch, one epoch's or several epochs'.
#[derive(Debug, Clone, PartialEq)]
pub struct DelayCells {
    pub(super) layout: LdsLayout,
    /// Row by row, as many as the layout has.
    pub(super) cells: Vec<DelayCell>,
}

/// A flow's delay read directly from its cells.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlowEstimate {
    /// Mean delay in ticks.
    pub mean_ticks: f64,
    /// Packets in the cells that were read, with their weights. A packet counts in each row.
    pub packets: u64,
}

impl FlowEstimate {
    fn of<'a>(cells: impl Iterator<Item = &'a DelayCell>) -> Option<Self> {
        let (sum, packets) = cells.fold((0_i128, 0_u64), |(sum, packets), cell| {
            (
                sum + i128::from(cell.delay_sum),
                packets.saturating_add(cell.count),
            )
        });
        (packets > 0).then(|| Self {
            mean_ticks: sum as f64 / packets as f64,
            packets,
        })
    }
}

impl DelayCells {
    /// From cells that were compared elsewhere, row by row.
    ///
    /// # Errors
    /// When there are not as many cells as the layout has.
    pub fn new(layout: LdsLayout, cells: Vec<DelayCell>) -> Result<Self, InvalidArgument> {
        let (given, expected) = (cells.len(), layout.cells());
        ensure(given == expected, || {
            format!("{given} cells for a sketch of {expected}; give all cells, row by row")
        })?;
        Ok(Self { layout, cells })
    }

    /// From the (sender, receiver) halves of all cells, row by row; where there are fewer, the
    /// rest is missing, and what is beyond the layout is ignored.
    pub fn from_halves(layout: &LdsLayout, halves: impl IntoIterator<Item = (Cell, Cell)>) -> Self {
        let here = |(sender, receiver)| (Some(sender), Some(receiver));
        Self::from_arrived(layout, halves.into_iter().map(here))
    }

    /// From such halves as arrived: a cell that lacks one is unusable, not empty.
    pub fn from_arrived(
        layout: &LdsLayout,
        halves: impl IntoIterator<Item = (Option<Cell>, Option<Cell>)>,
    ) -> Self {
        let given = halves
            .into_iter()
            .map(|(sender, receiver)| DelayCell::of(sender, receiver));
        let absent = std::iter::repeat_with(|| DelayCell::of(None, None));
        Self {
            layout: layout.clone(),
            cells: given.chain(absent).take(layout.cells()).collect(),
        }
    }

    /// Adds another epoch's cells. Delays are linear in time: the sum serves as one long epoch
    /// would. A cell that is unusable in one epoch keeps what the others say, and is `partial`.
    ///
    /// # Errors
    /// [`ShapeMismatch`] when the two are not of one layout; nothing is added then.
    pub fn add_epoch(&mut self, other: &Self) -> Result<(), ShapeMismatch> {
        self.layout.same_shape(&other.layout)?;
        for (mine, theirs) in self.cells.iter_mut().zip(&other.cells) {
            mine.add(theirs);
        }
        Ok(())
    }

    /// The sketch's layout.
    pub fn layout(&self) -> &LdsLayout {
        &self.layout
    }

    /// All cells, row by row.
    pub fn cells(&self) -> &[DelayCell] {
        &self.cells
    }

    /// Mean delay in all usable cells of the rows that sample most; where none of these holds a
    /// packet, of those that sample most among the others. `None` without any.
    ///
    /// Packets count with their weights. For a flow without a usable cell this is all that
    /// the sketch can say.
    pub fn segment_mean_ticks(&self) -> Option<f64> {
        let columns = self.layout.columns() as usize;
        let mut best: Option<(f64, f64)> = None;
        for probability in (0..self.layout.rows()).map(|row| self.layout.row_probability(row)) {
            let alike = (self.cells.chunks_exact(columns).enumerate())
                .filter(|(row, _)| self.layout.row_probability(*row) >= probability)
                .flat_map(|(_, cells)| cells)
                .filter(|cell| cell.usable);
            if let Some(estimate) = FlowEstimate::of(alike)
                && best.is_none_or(|(before, _)| before < probability)
            {
                best = Some((probability, estimate.mean_ticks));
            }
        }
        best.map(|(_, mean)| mean)
    }

    /// LDS's estimator (Sanjuas-Cuxart et al. 2011, fig. 6, with section 4.2) for a flow whose
    /// base columns (one a row) are given: among its usable cells with packets in them the one
    /// with the smallest `n / p_r`, then all with `n / p_r` at most 1.1 times that; sum s / sum n. `None`
    /// where no cell is usable and filled.
    pub fn estimate_at(&self, base_columns: &[u32]) -> Option<FlowEstimate> {
        let least = self.least_packets(base_columns)?;
        let limit = least * (1.0 + TOLERANCE + ROUNDING);
        FlowEstimate::of(
            self.filled_cells(base_columns)
                .filter(|(_, packets)| *packets <= limit)
                .map(|(cell, _)| cell),
        )
    }

    /// LDS's estimator for any flow.
    pub fn estimate(&self, flow: FlowHash, segment: SegmentIndex) -> Option<FlowEstimate> {
        self.estimate_at(&self.layout.base_columns(flow, segment))
    }

    /// Packets of these flows in each cell, with their weights, by the flows' counts of packets received;
    /// where cells do not [depend on the packet](LdsLayout::asks_which_packet).
    pub fn claimed(&self, flows: impl Iterator<Item = (FlowHash, SegmentIndex, u64)>) -> Vec<u64> {
        let mut claimed = vec![0_u64; self.cells.len()];
        for (flow, segment, packets) in flows {
            let packets = packets.saturating_mul(self.layout.weight(segment).into());
            for cell in self.fixed_cells(flow, segment) {
                claimed[cell] = claimed[cell].saturating_add(packets);
            }
        }
        claimed
    }

    /// Packets received of a flow, at most: what others have not [`claimed`](Self::claimed).
    pub fn unclaimed(&self, claimed: &[u64], flow: FlowHash, segment: SegmentIndex) -> u64 {
        let left = self.fixed_cells(flow, segment).map(|cell| {
            let received = self.cells[cell].received;
            received.saturating_sub(claimed.get(cell).copied().unwrap_or(0))
        });
        left.min().unwrap_or(0) / u64::from(self.layout.weight(segment)).max(1)
    }

    /// The first cell that a flow has in each row: its only one, where cells do not depend on the packet.
    fn fixed_cells(&self, flow: FlowHash, segment: SegmentIndex) -> impl Iterator<Item = usize> {
        let columns = self.layout.base_columns(flow, segment);
        let rows = columns.into_iter().take(self.layout.rows()).enumerate();
        rows.filter_map(|(row, column)| self.layout.cell_at(row, column, 0))
    }

    fn least_packets(&self, base_columns: &[u32]) -> Option<f64> {
        self.filled_cells(base_columns)
            .map(|(_, packets)| packets)
            .min_by(f64::total_cmp)
    }

    /// The flow's usable cells with packets in them, each with its `n / p_r`.
    fn filled_cells<'a>(
        &'a self,
        base_columns: &'a [u32],
    ) -> impl Iterator<Item = (&'a DelayCell, f64)> {
        base_columns
            .iter()
            .enumerate()
            .flat_map(move |(row, &base)| {
                let probability = self.layout.row_probability(row);
                self.row_cells(row, base)
                    .filter(|cell| cell.is_filled())
                    .map(move |cell| (cell, cell.packets() as f64 / probability))
            })
    }

    /// The flow's cells in one row.
    fn row_cells(&self, row: usize, base: u32) -> impl Iterator<Item = &DelayCell> {
        (0..self.layout.virtual_cells())
            .filter_map(move |offset| self.layout.cell_at(row, base, offset))
            .filter_map(|cell| self.cells.get(cell))
    }
}
