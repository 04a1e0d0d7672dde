//! What the cells of both ends say.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::LdaLayout;
use crate::cell::{Cell, CellPair};

/// Where the 98 % interval ends on each side.
const QUANTILE_98: f64 = 0.99;

/// What an LDA says of one segment and epoch. Ticks are those of the ends' common counter; a mean
/// is signed, since the ends' clocks may differ.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LdaEstimate {
    /// Mean delay: D of Kompella et al. 2012, section III-D. `None` without samples.
    pub mean_ticks: Option<f64>,
    /// Standard deviation of the delay from the scatter of the cells: s^2 = sum of
    /// (delta - n D)^2 / n, over u - 1, for u usable cells that hold packets. Unbiased, and half
    /// the error of the paper's. `None` where u < 2.
    pub stddev_ticks: Option<f64>,
    /// Standard deviation by Kompella et al. 2012, equation 5, from pairs of adjacent rows; 0 where the second
    /// moment comes out under the squared mean. `None` where no pair is usable.
    pub stddev_paper_ticks: Option<f64>,
    /// Half the width of the 98 % interval around the mean, for the mean of all packets received:
    /// t(u - 1) sqrt(s^2 / S (1 - S / R)). 0 where every packet received was a sample. `None`
    /// where u < 2 otherwise.
    pub ci98_half_width_ticks: Option<f64>,
    /// Packets in usable cells: S, the size of a sample that would serve as well.
    pub effective_samples: u64,
    /// Packets lost on the segment, from the sampled ones; may come out under 0 when packets from
    /// another epoch got in. Exact when all packets are sampled, else the points' own counters
    /// know better.
    pub lost_estimate: f64,
    /// Cells in which both ends counted the same packets, empty ones included.
    pub usable_cells: usize,
    /// Cells in all.
    pub cells: usize,
}

/// Half the width of the interval of Kompella et al. 2012, equation 1, that misses the mean with probability
/// `miss` at most: sigma sqrt(2 ln(2 / miss) / S). It supposes no shape of the delays and ignores
/// that the population is finite: wider than [`LdaEstimate::ci98_half_width_ticks`].
///
/// `miss` is over 0 and under 1; infinite without samples.
pub fn eq1_half_width_ticks(stddev_ticks: f64, effective_samples: u64, miss: f64) -> f64 {
    stddev_ticks * (2.0 * (2.0 / miss).ln() / effective_samples as f64).sqrt()
}

/// A cell that both ends filled alike: its packets, and the sum of their delays.
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
    /// [`banks`](Self::banks), and the number of packets `received` at the receiver's end, sampled
    /// or not.
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

    /// Kompella et al. 2012, equation 5, and equation 3 as it is meant (it misplaces the mean in print): rows
    /// 2i and 2i + 1 of a bank become one with opposite signs. The last of an odd number of rows
    /// is left out.
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
