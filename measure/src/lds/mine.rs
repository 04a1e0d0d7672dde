//! What else the cells say of a flow: packets, loss, bytes, variance, and who is heavy
//! (Sanjuas-Cuxart et al. 2011, section 4.3).

use super::{BytesPair, DelayCell, DelayCells};
use crate::packet::FlowHash;
use crate::sight::SegmentIndex;

/// Interference that is tolerated among rows of which a variance is taken, as among cells of which
/// a mean is.
const TOLERANCE: f64 = 0.1;

/// What is mined of one flow.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Mined {
    /// Packets at the receiver's end, at most: exact where the flow is alone in some row. `None`
    /// where no row takes every packet.
    pub packets: Option<u64>,
    /// Packets lost between the ends, at most. Under 0 where packets of another epoch got in.
    /// `None` likewise.
    pub lost: Option<i64>,
    /// Bytes at the receiver's end, at most. `None` likewise, and where bytes are not counted.
    pub bytes: Option<u64>,
    /// Variance of the packets' delays in ticks squared, from the scatter of the flow's cells.
    /// `None` where a flow has one cell in a row (k = 1), or no row has two that can be used.
    pub variance_ticks2: Option<f64>,
}

/// What a heavy hitter is heavy in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Heaviness {
    /// Packets received.
    Packets,
    /// Bytes received.
    Bytes,
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
            bytes: self.bytes_at(base_columns),
            variance_ticks2: self
                .variance_at(base_columns)
                .map(|variance| variance / f64::from(weight)),
        }
    }

    /// Packets of a flow at the receiver's end, at most, with their weight: the smallest sum over
    /// its k cells of a row, as in a count-min sketch. `None` where no row takes every packet.
    pub fn packets_at(&self, base_columns: &[u32]) -> Option<u64> {
        self.full_rows(base_columns)
            .map(|(row, base)| {
                let counts = self.row_cells(row, base).map(|cell| cell.received);
                counts.fold(0, u64::saturating_add)
            })
            .min()
    }

    /// Packets of a flow lost between the ends, at most, with their weight. `None` where no row
    /// takes every packet.
    pub fn lost_at(&self, base_columns: &[u32]) -> Option<i64> {
        self.full_rows(base_columns)
            .map(|(row, base)| {
                let losses = self.row_cells(row, base).map(lost);
                losses.fold(0, i64::saturating_add)
            })
            .min()
    }

    /// Bytes of a flow at the receiver's end, at most. `None` where no row takes every packet, or
    /// bytes are not counted.
    pub fn bytes_at(&self, base_columns: &[u32]) -> Option<u64> {
        if self.bytes.is_empty() {
            return None;
        }
        self.full_rows(base_columns)
            .map(|(row, base)| {
                let cells = self.layout.flow_cells(row, base);
                let bytes = cells.filter_map(|cell| self.bytes.get(cell));
                bytes.fold(0, |sum: u64, &BytesPair { receiver, .. }| {
                    sum.saturating_add(receiver)
                })
            })
            .min()
    }

    /// Variance of the delays of a flow's packets in ticks squared, times their weight: LDA's
    /// unbiased form over the cells of a row, sum of `(s_i - n_i D)^2 / n_i` over u - 1, pooled over
    /// the rows in which the flow has least to share. `None` where no row has two usable cells
    /// with packets in them.
    ///
    /// A row counts as a whole, by the mean of its cells' `n / p_r`: single cells hold more or fewer
    /// packets by chance, and chance must not choose among them.
    pub fn variance_at(&self, base_columns: &[u32]) -> Option<f64> {
        let rows = || {
            base_columns
                .iter()
                .enumerate()
                .filter_map(|(row, &base)| self.row_scatter(row, base))
        };
        let least = rows()
            .map(|scatter| scatter.packets_per_cell)
            .min_by(f64::total_cmp)?;
        let (squares, freedom) = rows()
            .filter(|scatter| scatter.packets_per_cell <= least * (1.0 + TOLERANCE))
            .fold((0.0, 0.0), |(squares, freedom), scatter| {
                (squares + scatter.squares, freedom + scatter.freedom)
            });
        Some(squares / freedom)
    }

    /// The heaviest of the flows in question: those of at least `least` packets or bytes, in
    /// falling order, with an upper bound of what they have. A sketch holds no flow's name, hence
    /// `candidates`.
    pub fn heavy_hitters(
        &self,
        candidates: impl IntoIterator<Item = (FlowHash, SegmentIndex)>,
        heaviness: Heaviness,
        least: u64,
    ) -> Vec<((FlowHash, SegmentIndex), u64)> {
        let size = |(flow, segment): (FlowHash, SegmentIndex)| {
            let base_columns = self.layout.base_columns(flow, segment);
            match heaviness {
                Heaviness::Packets => self
                    .packets_at(&base_columns)
                    .map(|packets| packets / u64::from(self.layout.weight(segment))),
                Heaviness::Bytes => self.bytes_at(&base_columns),
            }
        };
        let mut heavy: Vec<_> = candidates
            .into_iter()
            .filter_map(|flow| Some((flow, size(flow)?)))
            .filter(|(_, size)| *size >= least)
            .collect();
        heavy.sort_by_key(|&(_, size)| std::cmp::Reverse(size));
        heavy
    }

    /// Rows that saw every packet of the flow, with its base column there.
    fn full_rows<'a>(&'a self, base_columns: &'a [u32]) -> impl Iterator<Item = (usize, u32)> + 'a {
        base_columns
            .iter()
            .copied()
            .enumerate()
            .take(self.layout.rows())
            .filter(|&(row, base)| {
                let in_range = base < self.layout.columns();
                in_range
                    && self.layout.takes_all(row)
                    && !self.row_cells(row, base).any(|cell| cell.missing)
            })
    }

    fn row_scatter(&self, row: usize, base: u32) -> Option<RowScatter> {
        let filled = || self.row_cells(row, base).filter(|cell| cell.is_filled());
        let (cells, packets, sum) =
            filled().fold((0.0, 0.0, 0.0), |(cells, packets, sum), cell| {
                (
                    cells + 1.0,
                    packets + cell.count as f64,
                    sum + cell.delay_sum as f64,
                )
            });
        if cells < 2.0 {
            return None;
        }
        let mean = sum / packets;
        let squares = filled()
            .map(|cell| {
                let count = cell.count as f64;
                (cell.delay_sum as f64 - count * mean).powi(2) / count
            })
            .sum();
        Some(RowScatter {
            packets_per_cell: packets / cells / self.layout.row_probability(row),
            squares,
            freedom: cells - 1.0,
        })
    }
}

/// How the cells of a flow in one row scatter around their mean.
struct RowScatter {
    /// Mean of `n / p_r`.
    packets_per_cell: f64,
    /// Sum of (s_i - n_i D)^2 / n_i.
    squares: f64,
    /// Cells less one.
    freedom: f64,
}

/// Packets that did not arrive.
fn lost(cell: &DelayCell) -> i64 {
    cell.sent
        .cast_signed()
        .wrapping_sub(cell.received.cast_signed())
}
