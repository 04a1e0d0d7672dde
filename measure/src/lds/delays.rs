//! The difference of both ends, and direct estimates from it: the paper's estimators and the overall mean; packets,
//! loss and variance of any flow (Sanjuas-Cuxart et al. 2011, section 4.3).
//!
//! To count a flow's packets, the paper sums its k cells in each row and takes the least of these sums. Here a packet
//! has the same offset among the k cells in every row (one h' for all), so each offset has a least cell of its own.
//! The sum of these least cells never exceeds the least of the sums, and is still an upper bound. Heavy hitters are
//! the flows with the greatest bounds.

use super::LdsLayout;
use crate::argument::{InvalidArgument, ensure};
use crate::cell::{Cell, CellPair};
use crate::observation::SegmentIndex;
use crate::packet::FlowHash;
use crate::synopsis::ShapeMismatch;

/// Interference that the paper's estimator tolerates: alpha of section 2.3.4.
const TOLERANCE: f64 = 0.1;

/// Tolerance for rounding: shares of rows are stored to 2^-32, and a cell exactly at the limit by the
/// requested share must not exceed it because of that. Counts of a million and more are closer together,
/// but there it does not matter.
const ROUNDING: f64 = 1e-6;

/// A cell as compared between both ends. Counts and sums include the packets' weights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DelayCell {
    /// Packets at the sender's end.
    pub sent: u64,
    /// Packets at the receiver's end.
    pub received: u64,
    /// Packets of the epochs in which the cell was usable; 0 if it never was. For a single epoch:
    /// `received` or 0.
    pub count: u64,
    /// Sum of these packets' delays in ticks.
    pub delay_sum: i64,
    /// Whether both ends counted the same packets, in at least one epoch.
    pub usable: bool,
    /// Whether it was unusable in one of several epochs: `count` is less than all packets of its flows.
    pub partial: bool,
    /// Whether an end's counts did not arrive in some epoch: `sent` and `received` may be too low.
    pub missing: bool,
}

impl DelayCell {
    /// From both ends' halves, as far as present.
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

    /// Adds another epoch's cell.
    fn add(&mut self, other: &Self) {
        self.sent = self.sent.wrapping_add(other.sent);
        self.received = self.received.wrapping_add(other.received);
        self.count = self.count.wrapping_add(other.count);
        self.delay_sum = self.delay_sum.wrapping_add(other.delay_sum);
        self.partial |= other.partial || self.usable != other.usable;
        self.usable |= other.usable;
        self.missing |= other.missing;
    }

    /// Whether it is usable and contains packets.
    pub(super) fn is_filled(&self) -> bool {
        self.usable && self.count > 0
    }

    /// Packets that went through it, usable or not, which a flow in it competes with. In a single epoch
    /// that is `count` if the cell is usable; over several, a cell that was unusable in some must not look
    /// like one that few flows share.
    pub(super) fn packets(&self) -> u64 {
        self.count.max(self.received).max(self.sent)
    }
}

/// All cells of a sketch, of one or several epochs.
#[derive(Debug, Clone, PartialEq)]
pub struct DelayCells {
    pub(super) layout: LdsLayout,
    /// Row by row, as many as the layout has.
    pub(super) cells: Vec<DelayCell>,
}

/// A direct estimate of a flow's delay from its cells.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlowEstimate {
    /// Mean delay in ticks.
    pub mean_ticks: f64,
    /// Packets by weight in the cells that were read. A packet counts in each row.
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
    /// If the number of cells is not that of the layout.
    pub fn new(layout: LdsLayout, cells: Vec<DelayCell>) -> Result<Self, InvalidArgument> {
        let (given, expected) = (cells.len(), layout.cells());
        ensure(given == expected, || {
            format!("{given} cells for a sketch of {expected}; give all cells, row by row")
        })?;
        Ok(Self { layout, cells })
    }

    /// From the (sender, receiver) halves of all cells, row by row. If there are fewer, the rest is
    /// missing; surplus halves are ignored.
    pub fn from_halves(layout: &LdsLayout, halves: impl IntoIterator<Item = (Cell, Cell)>) -> Self {
        let here = |(sender, receiver)| (Some(sender), Some(receiver));
        Self::from_arrived(layout, halves.into_iter().map(here))
    }

    /// From halves that may not have arrived: a cell without one of them is unusable, not empty.
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

    /// Adds another epoch's cells. Delays are linear in time, so the sum is equivalent to one long epoch. A
    /// cell that is unusable in one epoch keeps the sums of the others, and is `partial`.
    ///
    /// # Errors
    /// [`ShapeMismatch`] if the layouts differ; nothing is added then.
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

    /// Mean delay in all usable cells of the rows with the highest sampling rate that contain a packet.
    /// `None` without any.
    ///
    /// Packets count by weight. For a flow without a usable cell this is the sketch's only estimate.
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

    /// LDS's estimator (Sanjuas-Cuxart et al. 2011, fig. 6, with section 4.2) for a flow with these base
    /// columns (one for each row): among its usable cells with packets, the one with the smallest `n /
    /// p_r`, then all with `n / p_r` at most 1.1 times that; sum s / sum n. `None` if no cell is usable and
    /// filled.
    pub fn estimate_at(&self, base_columns: &[u32]) -> Option<FlowEstimate> {
        let packets = self.filled_cells(base_columns).map(|(_, packets)| packets);
        let least = packets.min_by(f64::total_cmp)?;
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

    /// Packets by weight of these flows in each cell, by the flows' counts of packets received; for cells
    /// that do not [depend on the packet](LdsLayout::asks_which_packet).
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

    /// Most packets received of a flow: those not [`claimed`](Self::claimed) by others.
    pub fn unclaimed(&self, claimed: &[u64], flow: FlowHash, segment: SegmentIndex) -> u64 {
        let left = self.fixed_cells(flow, segment).map(|cell| {
            let received = self.cells[cell].received;
            received.saturating_sub(claimed.get(cell).copied().unwrap_or(0))
        });
        left.min().unwrap_or(0) / u64::from(self.layout.weight(segment)).max(1)
    }

    /// The first cell of a flow in each row; the only one, if cells do not depend on the packet.
    fn fixed_cells(&self, flow: FlowHash, segment: SegmentIndex) -> impl Iterator<Item = usize> {
        let columns = self.layout.base_columns(flow, segment);
        let rows = columns.into_iter().take(self.layout.rows()).enumerate();
        rows.filter_map(|(row, column)| self.layout.cell_at(row, column, 0))
    }

    /// The flow's usable cells with packets, each with its `n / p_r`.
    fn filled_cells(&self, base_columns: &[u32]) -> impl Iterator<Item = (&DelayCell, f64)> {
        let offsets = 0..self.layout.virtual_cells();
        let cells = offsets.flat_map(|offset| self.cells_at(base_columns, offset));
        cells
            .filter(|(_, cell)| cell.is_filled())
            .map(|(row, cell)| {
                (
                    cell,
                    cell.packets() as f64 / self.layout.row_probability(row),
                )
            })
    }

    /// The flow's cells at one of its k offsets, with their rows.
    fn cells_at(
        &self,
        base_columns: &[u32],
        offset: u32,
    ) -> impl Iterator<Item = (usize, &DelayCell)> {
        let rows = base_columns.iter().enumerate();
        rows.filter_map(move |(row, &base)| {
            let cell = self.layout.cell_at(row, base, offset)?;
            Some((row, self.cells.get(cell)?))
        })
    }

    /// Most packets of any flow at the receiver's end; exact if the flow is alone in some row. `None` if no row takes
    /// every packet.
    pub fn packets(&self, flow: FlowHash, segment: SegmentIndex) -> Option<u64> {
        let packets = self.packets_at(&self.layout.base_columns(flow, segment))?;
        Some(packets / u64::from(self.layout.weight(segment)))
    }

    /// Most packets of any flow lost between the ends; negative if packets of another epoch were counted. `None` if
    /// no row takes every packet.
    pub fn lost(&self, flow: FlowHash, segment: SegmentIndex) -> Option<i64> {
        let lost = self.lost_at(&self.layout.base_columns(flow, segment))?;
        Some(lost / i64::from(self.layout.weight(segment)))
    }

    /// Most packets by weight of a flow at the receiver's end, as in a count-min sketch. `None` if no row
    /// takes every packet.
    pub fn packets_at(&self, base_columns: &[u32]) -> Option<u64> {
        let mut least = self.least_by_offset(base_columns, |cell| cell.received);
        least.try_fold(0, |sum: u64, least| Some(sum.saturating_add(least?)))
    }

    /// Most packets by weight of a flow lost between the ends. `None` if no row takes every packet.
    pub fn lost_at(&self, base_columns: &[u32]) -> Option<i64> {
        let mut least = self.least_by_offset(base_columns, lost);
        least.try_fold(0, |sum: i64, least| Some(sum.saturating_add(least?)))
    }

    /// Variance of the delays of a flow's packets in ticks squared, times their weight: LDA's unbiased form
    /// over the flow's u usable cells, sum of `(s_i - n_i D)^2 / n_i` over u - 1. `None` with fewer than
    /// two cells with packets.
    ///
    /// Rows with the same sampling contain the same packets of the flow, so one cell is used for each of
    /// the k offsets: the one with the fewest packets. Of different probabilities, the one with most such
    /// cells is used, or the highest of several.
    pub fn variance_at(&self, base_columns: &[u32]) -> Option<f64> {
        let of_row = |row| {
            let cells: Vec<&DelayCell> = self.least_cells(base_columns, row).collect();
            let variance = variance(&cells)?;
            Some((cells.len(), self.layout.row_probability(row), variance))
        };
        let rows = (0..self.layout.rows()).filter_map(of_row);
        let best = rows.max_by(|left, right| left.0.cmp(&right.0).then(left.1.total_cmp(&right.1)));
        best.map(|(.., variance)| variance)
    }

    /// For each of the flow's k offsets, the least value of its cells there, in rows that take every packet
    /// and whose cell is not missing; `None` without such a cell.
    fn least_by_offset<T: Ord>(
        &self,
        base_columns: &[u32],
        read: fn(&DelayCell) -> T,
    ) -> impl Iterator<Item = Option<T>> {
        (0..self.layout.virtual_cells()).map(move |offset| {
            let cells = self.cells_at(base_columns, offset);
            cells
                .filter(|(row, cell)| self.layout.takes_all(*row) && !cell.missing)
                .map(|(_, cell)| read(cell))
                .min()
        })
    }

    /// For each of the flow's k offsets, the usable cell with the fewest packets, among rows that sample
    /// like `row`; offsets without packets are skipped.
    fn least_cells(&self, base_columns: &[u32], row: usize) -> impl Iterator<Item = &DelayCell> {
        (0..self.layout.virtual_cells()).filter_map(move |offset| {
            let cells = self.cells_at(base_columns, offset);
            cells
                .filter(|(other, cell)| self.layout.sample_alike(row, *other) && cell.usable)
                .map(|(_, cell)| cell)
                .min_by_key(|cell| cell.packets())
                .filter(|cell| cell.count > 0)
        })
    }
}

/// Sum of `(s_i - n_i D)^2 / n_i` over u - 1, for u cells with packets; `None` for fewer than two.
fn variance(cells: &[&DelayCell]) -> Option<f64> {
    let packets: f64 = cells.iter().map(|cell| cell.count as f64).sum();
    let sum: f64 = cells.iter().map(|cell| cell.delay_sum as f64).sum();
    let mean = sum / packets;
    let square = |cell: &&DelayCell| {
        let count = cell.count as f64;
        (cell.delay_sum as f64 - count * mean).powi(2) / count
    };
    let squares: f64 = cells.iter().map(square).sum();
    (cells.len() >= 2).then(|| squares / (cells.len() - 1) as f64)
}

/// Packets that did not arrive.
fn lost(cell: &DelayCell) -> i64 {
    cell.sent
        .cast_signed()
        .wrapping_sub(cell.received.cast_signed())
}
