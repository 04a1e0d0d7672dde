//! What else the cells say of a flow: packets, loss, variance (Sanjuas-Cuxart et al. 2011, section 4.3).
//! Heavy hitters are the flows for which they say most.
//!
//! The paper sums a flow's k cells in each row and takes the least of these sums. Here a packet has
//! the same offset among the k cells in every row (one h' for all), so that each offset has a least
//! cell of its own: the sum of the least is never more than the least of the sums, and still an
//! upper bound.

use super::{DelayCell, DelayCells};
use crate::observation::SegmentIndex;
use crate::packet::FlowHash;

/// What is mined of one flow.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Mined {
    /// Packets at the receiver's end, at most: exact where the flow is alone in some row. `None`
    /// where no row takes every packet.
    pub packets: Option<u64>,
    /// Packets lost between the ends, at most. Under 0 where packets of another epoch got in.
    /// `None` likewise.
    pub lost: Option<i64>,
    /// Variance of the packets' delays in ticks squared, from the scatter of the flow's cells.
    /// `None` where a flow has one cell in a row (k = 1), or no row has two that can be used.
    pub variance_ticks2: Option<f64>,
}

impl DelayCells {
    /// All that is mined of any flow. Packets and losses are divided by its weight.
    pub fn mine(&self, flow: FlowHash, segment: SegmentIndex) -> Mined {
        let weight = self.layout.weight(segment);
        self.mine_at(&self.layout.base_columns(flow, segment), weight)
    }

    /// The same for a flow whose base columns (one a row) and weight are given.
    pub fn mine_at(&self, base_columns: &[u32], weight: u32) -> Mined {
        let weight = weight.max(1);
        Mined {
            packets: self
                .packets_at(base_columns)
                .map(|packets| packets / u64::from(weight)),
            lost: self
                .lost_at(base_columns)
                .map(|lost| lost / i64::from(weight)),
            variance_ticks2: self
                .variance_at(base_columns)
                .map(|variance| variance / f64::from(weight)),
        }
    }

    /// Packets of a flow at the receiver's end, at most, with their weight, as in a count-min
    /// sketch. `None` where no row takes every packet.
    pub fn packets_at(&self, base_columns: &[u32]) -> Option<u64> {
        let mut least =
            self.least_by_offset(base_columns, |cell| Some(self.cells.get(cell)?.received));
        least.try_fold(0, |sum: u64, least| Some(sum.saturating_add(least?)))
    }

    /// Packets of a flow lost between the ends, at most, with their weight. `None` where no row
    /// takes every packet.
    pub fn lost_at(&self, base_columns: &[u32]) -> Option<i64> {
        let mut least = self.least_by_offset(base_columns, |cell| self.cells.get(cell).map(lost));
        least.try_fold(0, |sum: i64, least| Some(sum.saturating_add(least?)))
    }

    /// Variance of the delays of a flow's packets in ticks squared, times their weight: LDA's
    /// unbiased form over the flow's u usable cells, sum of `(s_i - n_i D)^2 / n_i` over u - 1.
    /// `None` where there are not two with packets in them.
    ///
    /// Rows that sample alike hold the same packets of the flow, so that there is one cell for
    /// each of the k offsets: that with the fewest packets. Of different probabilities the one
    /// counts that leaves most such cells, the highest among equals.
    pub fn variance_at(&self, base_columns: &[u32]) -> Option<f64> {
        let rows = 0..self.layout.rows();
        let (_, _, variance) = rows
            .filter_map(|row| {
                let scatter = Scatter::of(&|| self.least_cells(base_columns, row))?;
                let probability = self.layout.row_probability(row);
                Some((scatter.cells, probability, scatter.variance()))
            })
            .max_by(|left, right| {
                let (left, right) = ((left.0, left.1), (right.0, right.1));
                left.0.total_cmp(&right.0).then(left.1.total_cmp(&right.1))
            })?;
        Some(variance)
    }

    /// For each of the flow's k offsets the least of what its cells there say, in rows that take
    /// every packet and whose cell is not missing; `None` where there is no such cell.
    fn least_by_offset<T: Ord>(
        &self,
        base_columns: &[u32],
        read: impl Fn(usize) -> Option<T>,
    ) -> impl Iterator<Item = Option<T>> {
        (0..self.layout.virtual_cells()).map(move |offset| {
            let rows = base_columns.iter().enumerate();
            rows.filter(|(row, _)| self.layout.takes_all(*row))
                .filter_map(|(row, &base)| self.layout.cell_at(row, base, offset))
                .filter(|&cell| self.cells.get(cell).is_some_and(|cell| !cell.missing))
                .filter_map(&read)
                .min()
        })
    }

    /// For each of the flow's k offsets the usable cell with the fewest packets, among rows that
    /// sample like `row`; offsets without packets are left out.
    fn least_cells(&self, base_columns: &[u32], row: usize) -> impl Iterator<Item = &DelayCell> {
        (0..self.layout.virtual_cells()).filter_map(move |offset| {
            base_columns
                .iter()
                .enumerate()
                .filter(move |(other, _)| self.layout.sample_alike(row, *other))
                .filter_map(|(row, &base)| {
                    let cell = self.layout.cell_at(row, base, offset)?;
                    self.cells.get(cell)
                })
                .filter(|cell| cell.usable)
                .min_by_key(|cell| cell.packets())
                .filter(|cell| cell.count > 0)
        })
    }
}

/// How cells scatter around their common mean.
struct Scatter {
    /// Sum of `(s_i - n_i D)^2 / n_i`.
    squares: f64,
    /// How many cells.
    cells: f64,
}

impl Scatter {
    /// Of two cells at least.
    fn of<'a, I: Iterator<Item = &'a DelayCell>>(cells: &impl Fn() -> I) -> Option<Self> {
        let (number, packets, sum) =
            cells().fold((0.0, 0.0, 0.0), |(number, packets, sum), cell| {
                let (count, delay_sum) = (cell.count as f64, cell.delay_sum as f64);
                (number + 1.0, packets + count, sum + delay_sum)
            });
        let mean = sum / packets;
        let squares = cells().map(|cell| {
            let count = cell.count as f64;
            (cell.delay_sum as f64 - count * mean).powi(2) / count
        });
        (number >= 2.0).then(|| Self {
            squares: squares.sum(),
            cells: number,
        })
    }

    fn variance(&self) -> f64 {
        self.squares / (self.cells - 1.0)
    }
}

/// Packets that did not arrive.
fn lost(cell: &DelayCell) -> i64 {
    cell.sent
        .cast_signed()
        .wrapping_sub(cell.received.cast_signed())
}
