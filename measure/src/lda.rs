//! Lossy Difference Aggregator: mean, deviation and loss from two sets of sums.
//!
//! Kompella, Levchenko, Snoeren, Varghese: "Every microsecond counts" (SIGCOMM 2009) and
//! "Router support for fine-grained latency measurements" (2012), section III.
//!
//! ```text
//!             bank 0: p smallest        bank n-1
//!            +--------------------+    +--------------------+
//! packet --> | row 0   sum n xor  |    | row 0   sum n xor  |   sender's half
//!  hash      |         sum n xor  | .. |         sum n xor  |   receiver's half
//!            | row m-1            |    | row m-1            |
//!            +--------------------+    +--------------------+
//! ```
//!
//! Both ends add a packet's time to the cell selected by its hash. A cell in which both ends counted the
//! same packets is *usable*: its difference of sums is the sum of these packets' delays. A lost packet
//! spoils one cell only, and banks that sample fewer packets survive more losses. Times are in ticks,
//! relative to the epoch's start at both ends; sums wrap modulo 2^64 and their differences are signed.
//!
//! If both halves of a cell are kept in one place, they are adjacent ([`CellPair`]). Inside a switch one
//! worker owns both ends and knows its losses, so a cell stores only the difference ([`PassedCell`]). A
//! worker that sees one end only records that end, and merging completes it. [`LdaLayout::estimate`]
//! accepts halves from any source.

pub mod adaptive;
mod layout;

pub(crate) use layout::prepare_banks;
use layout::row;
pub use layout::{Bank, LdaLayout};

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::batch::Batch;
use crate::cell::{BothEnds, Cell, CellPair, PassedCell};
use crate::observation::{End, Observation};
use crate::packet::{PacketHash, RandomHashes};
use crate::synopsis::{ShapeMismatch, Synopsis};

/// An LDA with both ends in one place.
#[derive(Debug, Clone, PartialEq)]
pub struct LdaPair<C = CellPair> {
    layout: LdaLayout,
    cells: Vec<C>,
}

impl LdaPair {
    /// An empty LDA of 32 bytes a row.
    pub fn new(layout: &LdaLayout) -> Self {
        Self::empty(layout)
    }

    /// Removes packets that were recorded at one end: the exact inverse.
    pub fn unrecord(&mut self, end: End, observations: &[Observation]) {
        self.record_at(observations, |cell, observation| {
            cell.unrecord(end, observation, 1);
        });
    }
}

impl LdaPair<PassedCell> {
    /// Adds packets that passed both ends, by their `hashes`, or at random without hashes. Random cells
    /// suffice if both ends are one point; other points could not match them.
    #[inline]
    pub fn pass(&mut self, batch: &Batch, hashes: &[PacketHash], spread: &mut RandomHashes) {
        let Self { layout, cells } = self;
        let mut add = |cell: usize| {
            if let Some(cell) = cells.get_mut(cell) {
                cell.pass_all(1, batch.delay);
            }
        };
        match layout.only_bank_rows() {
            Some(rows) if hashes.is_empty() => {
                for _ in 0..batch.packets {
                    add(spread.next_row(rows));
                }
            }
            Some(rows) => hashes.iter().for_each(|&hash| add(row(hash, rows))),
            None if hashes.is_empty() => (0..batch.packets)
                .filter_map(|_| layout.cell_of(spread.next_hash()))
                .for_each(add),
            None => hashes
                .iter()
                .filter_map(|&hash| layout.cell_of(hash))
                .for_each(add),
        }
    }
}

impl<C: BothEnds> LdaPair<C> {
    /// An empty LDA of one cell a row, of any kind.
    pub fn empty(layout: &LdaLayout) -> Self {
        Self {
            layout: layout.clone(),
            cells: vec![C::default(); layout.cells()],
        }
    }

    /// How packets are spread over its cells.
    pub fn layout(&self) -> &LdaLayout {
        &self.layout
    }

    /// Changes how packets are spread over the same banks and rows, without allocating. The LDA must be
    /// empty, because packets recorded before would be in wrong cells. Returns `false`, and changes
    /// nothing, if `layout` has other sizes.
    pub fn relay(&mut self, layout: &LdaLayout) -> bool {
        let fits = self.layout.has_sizes_of(layout);
        if fits {
            self.layout.clone_from(layout);
        }
        fits
    }

    /// Its cells, bank by bank in the order of [`LdaLayout::banks`].
    pub fn cells(&self) -> &[C] {
        &self.cells
    }

    /// Estimates from the cells, given the number of packets that reached the receiver's end.
    pub fn estimate(&self, received: u64) -> LdaEstimate {
        self.layout
            .estimate(self.cells.iter().map(C::halves), received)
    }

    #[inline]
    fn record_at(&mut self, observations: &[Observation], record: impl Fn(&mut C, &Observation)) {
        let cells = self.cells.as_mut_slice();
        let mut add = |cell: usize, observation: &Observation| {
            if let Some(cell) = cells.get_mut(cell) {
                record(cell, observation);
            }
        };
        if let Some(rows) = self.layout.only_bank_rows() {
            for observation in observations {
                add(row(observation.packet, rows), observation);
            }
            return;
        }
        for observation in observations {
            if let Some(cell) = self.layout.cell_of(observation.packet) {
                add(cell, observation);
            }
        }
    }

    pub(crate) fn same_shape(&self, other: &Self) -> Result<(), ShapeMismatch> {
        self.layout.same_shape(&other.layout)
    }

    /// Adds packets seen at one end of the segment.
    #[inline]
    pub fn record(&mut self, end: End, observations: &[Observation]) {
        match end {
            End::Sender => self.record_at(observations, |cell, observation| {
                cell.record(End::Sender, observation, 1);
            }),
            End::Receiver => self.record_at(observations, |cell, observation| {
                cell.record(End::Receiver, observation, 1);
            }),
        }
    }
}

impl<C: BothEnds> Synopsis for LdaPair<C> {
    fn merge(&mut self, other: &Self) -> Result<(), ShapeMismatch> {
        self.same_shape(other)?;
        for (mine, theirs) in self.cells.iter_mut().zip(&other.cells) {
            mine.merge(theirs);
        }
        Ok(())
    }

    fn clear(&mut self) {
        self.cells.fill(C::default());
    }
}

/// Quantile at which the 98 % interval ends on each side.
const QUANTILE_98: f64 = 0.99;

/// Estimates of an LDA for one segment and epoch. Ticks are those of the ends' common counter; a mean is
/// signed, because the ends' clocks may differ.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LdaEstimate {
    /// Mean delay: D of Kompella et al. 2012, section III-D. `None` without samples.
    pub mean_ticks: Option<f64>,
    /// Standard deviation of the delay from the scatter of the cells: s^2 = sum of (delta - n D)^2 / n,
    /// over u - 1, for u usable cells with packets. Unbiased, with half the error of the paper's. `None` if
    /// u < 2.
    pub stddev_ticks: Option<f64>,
    /// Standard deviation by Kompella et al. 2012, equation 5, from pairs of adjacent rows; 0 if the second
    /// moment is below the squared mean. `None` if no pair is usable.
    pub stddev_paper_ticks: Option<f64>,
    /// Half-width of the 98 % interval around the mean, for the mean of all packets received: t(u - 1)
    /// sqrt(s^2 / S (1 - S / R)). 0 if every packet received was sampled. Otherwise `None` if u < 2.
    pub ci98_half_width_ticks: Option<f64>,
    /// Packets in usable cells: S, the equivalent sample size.
    pub effective_samples: u64,
    /// Packets lost on the segment, from the sampled ones; may be negative if packets of another epoch were
    /// counted. Exact if all packets are sampled, otherwise less accurate than the points' own counters.
    pub lost_estimate: f64,
    /// Cells in which both ends counted the same packets, including empty ones.
    pub usable_cells: usize,
    /// Number of all cells.
    pub cells: usize,
}

/// Half-width of the interval of Kompella et al. 2012, equation 1, which misses the mean with probability
/// `miss` at most: sigma sqrt(2 ln(2 / miss) / S). It assumes no distribution of the delays and ignores that
/// the population is finite, so it is wider than [`LdaEstimate::ci98_half_width_ticks`].
///
/// `miss` is over 0 and under 1; the result is infinite without samples.
pub fn eq1_half_width_ticks(stddev_ticks: f64, effective_samples: u64, miss: f64) -> f64 {
    stddev_ticks * (2.0 * (2.0 / miss).ln() / effective_samples as f64).sqrt()
}

/// A cell filled alike by both ends: its packets, and the sum of their delays.
#[derive(Clone, Copy)]
struct Usable {
    count: u32,
    delay_sum: i64,
}

impl Usable {
    fn of((sender, receiver): (Cell, Cell)) -> Option<Self> {
        CellPair { sender, receiver }
            .delay_sum()
            .map(|delay_sum| Self {
                count: receiver.count,
                delay_sum,
            })
    }
}

impl LdaLayout {
    /// Estimates from the (sender, receiver) halves of all cells, bank by bank in the order of
    /// [`banks`](Self::banks), and the number of packets `received` at the receiver's end, sampled or not.
    pub fn estimate(
        &self,
        halves: impl Iterator<Item = (Cell, Cell)> + Clone,
        received: u64,
    ) -> LdaEstimate {
        let mut estimate = LdaEstimate::default();
        let (mut lost_samples, mut filled_cells) = (0_i64, 0_u32);
        let mut delay_sum = 0_i128;
        for (sender, receiver) in halves.clone() {
            estimate.cells += 1;
            lost_samples += i64::from(sender.count) - i64::from(receiver.count);
            if let Some(cell) = Usable::of((sender, receiver)) {
                estimate.usable_cells += 1;
                estimate.effective_samples += u64::from(cell.count);
                delay_sum += i128::from(cell.delay_sum);
                filled_cells += u32::from(cell.count > 0);
            }
        }
        estimate.lost_estimate = lost_samples as f64 / self.sampled_share();
        if estimate.effective_samples == 0 {
            return estimate;
        }

        let samples = estimate.effective_samples as f64;
        let mean = delay_sum as f64 / samples;
        estimate.mean_ticks = Some(mean);
        estimate.stddev_paper_ticks = self.stddev_by_pairs(halves.clone(), mean);

        let unseen_share = (1.0 - samples / received as f64).max(0.0);
        if filled_cells >= 2 {
            let freedom = f64::from(filled_cells - 1);
            let variance = scatter(halves, mean) / freedom;
            estimate.stddev_ticks = Some(variance.sqrt());
            estimate.ci98_half_width_ticks = StudentsT::new(0.0, 1.0, freedom)
                .ok()
                .map(|t| t.inverse_cdf(QUANTILE_98) * (variance / samples * unseen_share).sqrt());
        } else if unseen_share == 0.0 {
            estimate.ci98_half_width_ticks = Some(0.0);
        }
        estimate
    }

    /// Kompella et al. 2012, equation 5, and equation 3 as intended (in print the mean is misplaced): rows 2i
    /// and 2i + 1 of a bank become one with opposite signs. The last of an odd number of rows is ignored.
    fn stddev_by_pairs(
        &self,
        mut halves: impl Iterator<Item = (Cell, Cell)>,
        mean: f64,
    ) -> Option<f64> {
        let (mut squares, mut samples) = (0.0, 0_u64);
        for rows in self.rows() {
            for _ in 0..rows / 2 {
                let pair = (
                    halves.next().and_then(Usable::of),
                    halves.next().and_then(Usable::of),
                );
                if let (Some(plus), Some(minus)) = pair {
                    let difference = i128::from(plus.delay_sum) - i128::from(minus.delay_sum);
                    squares += (difference as f64).powi(2);
                    samples += u64::from(plus.count) + u64::from(minus.count);
                }
            }
            if rows % 2 == 1 {
                halves.next();
            }
        }
        (samples > 0).then(|| (squares / samples as f64 - mean * mean).max(0.0).sqrt())
    }
}

/// Sum over usable cells of (delta - n D)^2 / n.
fn scatter(halves: impl Iterator<Item = (Cell, Cell)>, mean: f64) -> f64 {
    halves
        .filter_map(Usable::of)
        .filter(|cell| cell.count > 0)
        .map(|cell| {
            let count = f64::from(cell.count);
            (cell.delay_sum as f64 - count * mean).powi(2) / count
        })
        .sum()
}

#[cfg(test)]
mod tests;
