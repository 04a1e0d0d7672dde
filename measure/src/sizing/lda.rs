//! Rows, banks and expected error of an LDA.

use super::{
    CELL_BYTES, HALF_BYTES, MEAN_OF_SIZE, SizingError, check, least, loss, part, positive,
};
use crate::argument::InvalidArgument;
use crate::lda::{Bank, LdaLayout, prepare_banks};

/// Quarters of the rows for the first bank, if there is a second one for the worst case: the error is then
/// 15 % above that of a single bank with usual losses, and twice it at the worst.
const FIRST_BANK_QUARTERS: u64 = 3;

/// The 98 % interval of a normal distribution with deviation 1 ends here.
const NORMAL_98: f64 = 2.326_347_874_040_841;

/// The traffic and losses of a segment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LdaDemand {
    /// Packets sent a second, over 0.
    pub packets_per_s: f64,
    /// Length of an epoch in seconds, over 0.
    pub epoch_s: f64,
    /// Usual share of packets lost, from 0 to under 1.
    pub loss: f64,
    /// Worst share of packets lost, from `loss` to under 1; if it equals `loss`, one bank is planned, else
    /// two.
    pub worst_loss: f64,
    /// Standard deviation of a packet's delay over its mean, over 0 (about 1 in a loaded queue).
    pub delay_cv: f64,
    /// Sampled losses for each row, over 0 to 1: 1 is best for the mean, 0.75 also suits the deviation.
    pub alpha: f64,
}

/// The forecast for some loss. Errors are relative errors of the mean delay of an epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LdaForecast {
    /// Packets lost in an epoch: L.
    pub losses: f64,
    /// Packets received in an epoch: R.
    pub received: f64,
    /// Packets in usable cells: E\[S\].
    pub effective_samples: f64,
    /// Mean error: sqrt(2 / pi) standard errors of cv sqrt((1 - S / R) / S).
    pub mean_error: f64,
    /// Half-width of the 98 % interval.
    pub bound98: f64,
}

/// An LDA for a demand.
#[derive(Debug, Clone, PartialEq)]
pub struct LdaPlan {
    /// Its banks, in ascending order of sampling.
    pub banks: Vec<Bank>,
    /// Forecast for usual losses.
    pub usual: LdaForecast,
    /// Forecast for the worst losses.
    pub worst: LdaForecast,
    /// Bytes of one synopsis inside a switch, with both ends in one place.
    pub memory_bytes: u64,
    /// Bytes of cells that one end sends to the other at each rollover, without frames' headers.
    pub wire_bytes: u64,
}

impl LdaDemand {
    /// Packets sent in an epoch.
    fn packets(&self) -> f64 {
        self.packets_per_s * self.epoch_s
    }

    fn check(&self) -> Result<(), InvalidArgument> {
        positive("the number of packets a second", self.packets_per_s)?;
        positive("the epoch in seconds", self.epoch_s)?;
        let packets = self.packets();
        check(
            (1.0..=1e18).contains(&packets),
            "the number of packets in an epoch",
            packets,
            "1 to 10^18 by a fitting rate and epoch",
        )?;
        loss("the share of packets lost", self.loss)?;
        check(
            (self.loss..1.0).contains(&self.worst_loss),
            "the share of packets lost at the worst",
            self.worst_loss,
            "the usual share at least, and under 1",
        )?;
        positive("the deviation of the delay over its mean", self.delay_cv)?;
        check(
            self.alpha > 0.0 && self.alpha <= 1.0,
            "alpha, the sampled losses for each row,",
            self.alpha,
            "over 0 to 1",
        )
    }

    /// Least and greatest number of rows.
    fn rows_range(&self) -> (u64, u64) {
        let most = u64::from(LdaLayout::ROWS_MAX);
        if self.has_two_banks() {
            (4, most)
        } else {
            (1, most)
        }
    }

    fn has_two_banks(&self) -> bool {
        self.worst_loss > self.loss
    }

    #[expect(clippy::cast_possible_truncation, reason = "65,536 rows at most")]
    fn banks(&self, rows: u64) -> Vec<Bank> {
        let usual = self.loss * self.packets();
        if !self.has_two_banks() {
            return prepare_banks(self.alpha, &[(rows as u32, usual)]);
        }
        let first = rows * FIRST_BANK_QUARTERS / 4;
        let worst = self.worst_loss * self.packets();
        let demands = [(first as u32, usual), ((rows - first) as u32, worst)];
        prepare_banks(self.alpha, &demands)
    }

    fn forecast(&self, banks: &[Bank], loss: f64) -> LdaForecast {
        let packets = self.packets();
        let losses = loss * packets;
        let received = packets - losses;
        let effective_samples = expected_samples(banks, received, losses);
        let unseen = (1.0 - effective_samples / received).max(0.0);
        let standard_error = self.delay_cv * (unseen / effective_samples).sqrt();
        LdaForecast {
            losses,
            received,
            effective_samples,
            mean_error: MEAN_OF_SIZE * standard_error,
            bound98: NORMAL_98 * standard_error,
        }
    }
}

/// Mean number of packets in usable cells: each of a bank's p R packets received is in a cell that none of
/// L losses hit; each hits it with probability p / m. For L much greater than m that is p R e^-alpha with p
/// = alpha m / L (Kompella et al. 2012, section III-D).
fn expected_samples(banks: &[Bank], received: f64, losses: f64) -> f64 {
    banks
        .iter()
        .map(|&Bank { rows, probability }| {
            let hit = probability / f64::from(rows);
            probability * received * (losses * (-hit).ln_1p()).exp()
        })
        .sum()
}

impl LdaPlan {
    /// The smallest LDA whose mean error is at most `mean_error` with usual losses.
    ///
    /// # Errors
    /// [`SizingError`] if a number is out of range, or the error is not achievable.
    pub fn for_error(demand: &LdaDemand, mean_error: f64) -> Result<Self, SizingError> {
        demand.check()?;
        part("the relative error allowed", mean_error)?;
        let (fewest, most) = demand.rows_range();
        let error = |rows| demand.forecast(&demand.banks(rows), demand.loss).mean_error;
        let rows = least(fewest, most, |rows| error(rows) <= mean_error).ok_or_else(|| {
            SizingError::OutOfReach {
                target: mean_error,
                best: error(most),
            }
        })?;
        // Even, because the paper's deviation pairs rows.
        Ok(Self::with_rows(demand, rows.next_multiple_of(2)))
    }

    /// The largest LDA that fits into `memory_bytes`, at 16 bytes a row.
    ///
    /// # Errors
    /// [`SizingError`] if a number is out of range, or the memory too small.
    pub fn for_memory(demand: &LdaDemand, memory_bytes: u64) -> Result<Self, SizingError> {
        demand.check()?;
        let (fewest, most) = demand.rows_range();
        let rows = memory_bytes / CELL_BYTES;
        if rows < fewest {
            return Err(SizingError::MemoryTooSmall {
                memory_bytes,
                least_bytes: fewest * CELL_BYTES,
            });
        }
        Ok(Self::with_rows(demand, rows.min(most)))
    }

    fn with_rows(demand: &LdaDemand, rows: u64) -> Self {
        let banks = demand.banks(rows);
        Self {
            usual: demand.forecast(&banks, demand.loss),
            worst: demand.forecast(&banks, demand.worst_loss),
            banks,
            memory_bytes: rows * CELL_BYTES,
            wire_bytes: rows * HALF_BYTES,
        }
    }

    /// Rows of all banks: m.
    pub fn rows(&self) -> u32 {
        self.banks.iter().map(|bank| bank.rows).sum()
    }

    /// The layout of the plan.
    ///
    /// # Errors
    /// [`InvalidArgument`] if the banks were changed to an invalid layout.
    pub fn layout(&self) -> Result<LdaLayout, InvalidArgument> {
        LdaLayout::new(&self.banks)
    }
}
