//! Sampling probabilities that adapt to losses.
//!
//! The best share to sample is inversely proportional to the coming losses ([`Bank::for_losses`]), which
//! are predicted from previous epochs. Bank 0 is prepared for these, the last bank for the worst case, and
//! banks between for losses in geometric steps between them. After each epoch the caller that pairs the
//! ends reports what was sent and what arrived ([`AdaptiveLda::observe`]) and announces the new layout for
//! a coming epoch; both ends must switch to it at the same rollover.
//!
//! Too high a share spoils nearly all cells; too low a share costs samples in proportion. So the estimate
//! of losses rises as their moving average with [`WEIGHT`], and falls as that of their logarithms. With
//! this weight one epoch is enough: after a tenfold fall the estimate is 1.6 times too high, after a rise a
//! fifth too low, and either costs at most a tenth of the error.

use super::{Bank, LdaLayout, prepare_banks};
use crate::argument::{InvalidArgument, ensure};

/// Weight of the latest epoch relative to the previous ones.
pub const WEIGHT: f64 = 0.8;

/// Options of an adaptive LDA.
#[derive(Debug, Clone, PartialEq)]
pub struct AdaptiveOptions {
    /// Rows of each bank, from the bank for current losses to that for the worst case. With two banks,
    /// seven of eight rows for the first are a good choice: with constant losses, the error is then a tenth
    /// above that of a single bank prepared for them. If row numbers do not rise, banks keep their places
    /// whatever is observed, and all layouts have the same sizes.
    pub bank_rows: Vec<u32>,
    /// Share of lost packets to prepare for until an epoch was observed, 0 to 1.
    pub first_loss: f64,
    /// Share of lost packets to prepare for in the worst case, over 0 to 1.
    pub worst_loss: f64,
    /// Sampled losses for each row, over 0 to 1: see [`Bank::for_losses`].
    pub alpha: f64,
    /// Packets in an epoch, until they have been counted.
    pub epoch_packets: u64,
}

/// The layout of the coming epoch, and the state it is derived from.
#[derive(Debug, Clone, PartialEq)]
pub struct AdaptiveLda {
    options: AdaptiveOptions,
    design_losses: f64,
    epoch_packets: f64,
    layout: LdaLayout,
}

impl AdaptiveLda {
    /// Starts with banks for the first loss and for the worst case.
    ///
    /// # Errors
    /// [`InvalidArgument`] if an option is out of range.
    pub fn new(options: AdaptiveOptions) -> Result<Self, InvalidArgument> {
        let AdaptiveOptions {
            first_loss,
            worst_loss,
            alpha,
            ..
        } = options;
        let is_share = |value: f64| value > 0.0 && value <= 1.0;
        ensure(is_share(worst_loss), || {
            format!(
                "the worst loss to prepare for is {worst_loss}; give a share of packets over 0 and up to 1"
            )
        })?;
        ensure((0.0..=1.0).contains(&first_loss), || {
            format!(
                "the first loss to prepare for is {first_loss}; give a share of packets, 0 to 1"
            )
        })?;
        ensure(is_share(alpha), || {
            format!(
                "alpha is {alpha}; give sampled losses for each row, over 0 and up to 1 (0.75 is a fair choice)"
            )
        })?;
        let epoch_packets = options.epoch_packets as f64;
        let design_losses = first_loss * epoch_packets;
        let layout = LdaLayout::new(&banks(&options, design_losses, epoch_packets))?;
        Ok(Self {
            options,
            design_losses,
            epoch_packets,
            layout,
        })
    }

    /// Observes an epoch: packets `sent`, and of these `received`, by the points' own counters, which count
    /// every packet. Returns the layout for a coming epoch.
    ///
    /// Do not call this for epochs that cannot be trusted.
    pub fn observe(&mut self, sent: u64, received: u64) -> &LdaLayout {
        let losses = sent.saturating_sub(received) as f64;
        let before = self.design_losses;
        self.design_losses = if losses > before {
            before + WEIGHT * (losses - before)
        } else {
            (losses + 1.0).powf(WEIGHT) * (before + 1.0).powf(1.0 - WEIGHT) - 1.0
        };
        self.epoch_packets = f64::midpoint(self.epoch_packets, sent as f64);
        let banks = banks(&self.options, self.design_losses, self.epoch_packets);
        // Rows and number of banks were accepted before, and shares are in range by construction; otherwise
        // the current layout would stay in use.
        if let Ok(layout) = LdaLayout::new(&banks) {
            self.layout = layout;
        }
        &self.layout
    }

    /// The layout for a coming epoch.
    pub fn layout(&self) -> &LdaLayout {
        &self.layout
    }

    /// Losses in an epoch that bank 0 is prepared for.
    pub fn design_losses(&self) -> f64 {
        self.design_losses
    }
}

/// The banks for `losses` in an epoch and for the worst case of `packets`.
fn banks(options: &AdaptiveOptions, losses: f64, packets: f64) -> Vec<Bank> {
    let worst = options.worst_loss * packets + 1.0;
    let usual = (losses + 1.0).min(worst);
    let steps = options.bank_rows.len().saturating_sub(1).max(1) as f64;
    let demands: Vec<(u32, f64)> = options
        .bank_rows
        .iter()
        .enumerate()
        // Of banks for equal losses, the last takes its share first.
        .rev()
        .map(|(bank, &rows)| {
            let prepared_for = usual * (worst / usual).powf(bank as f64 / steps) - 1.0;
            (rows, prepared_for)
        })
        .collect();
    prepare_banks(options.alpha, &demands)
}

#[cfg(test)]
mod tests;
