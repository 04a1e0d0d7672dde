//! Adapts the LDA of departing packets to the losses reported by the other end.
//!
//! All segments of a wire have their own cells and the same banks. Too many sampled losses spoil nearly all cells of
//! a segment, while too few cost samples only in proportion, so the banks follow the segment with the most losses.

use crate::frame::{EpochFate, Report};
use measure::InvalidArgument;
use measure::lda::LdaLayout;
use measure::lda::adaptive::{AdaptiveLda, AdaptiveOptions};
use measure::time::Epoch;

/// Adaptive banks.
#[derive(Debug)]
pub(super) struct Adaptation {
    lda: AdaptiveLda,
    segments: u16,
    latest: Option<Reports>,
}

/// The reports of an epoch.
#[derive(Debug)]
struct Reports {
    epoch: Epoch,
    /// Segments not reported yet.
    missing: u16,
    /// The most packets that were sent on a segment,
    sent: u64,
    /// and the most that were lost.
    lost: u64,
}

impl Reports {
    fn add(&mut self, report: &Report) {
        self.missing = self.missing.saturating_sub(1);
        // If nothing arrived, no share would have given a sample.
        if are_counts_known(report.fate) && report.received > 0 {
            self.sent = self.sent.max(report.sent);
            self.lost = self.lost.max(u64::try_from(report.lost).unwrap_or(0));
        }
    }
}

impl Adaptation {
    pub fn new(options: AdaptiveOptions, segments: u16) -> Result<Self, InvalidArgument> {
        Ok(Self {
            lda: AdaptiveLda::new(options)?,
            segments,
            latest: None,
        })
    }

    /// Takes the report of an epoch of one segment; returns the banks to announce next, if the epoch is now
    /// complete.
    pub fn hear(&mut self, epoch: Epoch, report: &Report) -> Option<&LdaLayout> {
        let mut is_known = false;
        if self.latest.as_ref().is_none_or(|one| one.epoch < epoch) {
            // Missing reports of the previous epoch were lost.
            is_known = self.observe();
            self.latest = Some(Reports {
                epoch,
                missing: self.segments,
                sent: 0,
                lost: 0,
            });
        }
        let latest = self.latest.as_mut().filter(|one| one.epoch == epoch)?;
        latest.add(report);
        if latest.missing == 0 {
            is_known |= self.observe();
        }
        is_known.then(|| self.lda.layout())
    }

    /// Notes that epochs are numbered differently from now on. The losses stay known.
    pub fn reset(&mut self) {
        self.latest = None;
    }

    /// Lost packets of an epoch that the first bank is prepared for.
    pub fn prepared_losses(&self) -> f64 {
        self.lda.design_losses()
    }

    /// Whether there was an epoch to observe; at most once for each epoch.
    fn observe(&mut self) -> bool {
        let Some(latest) = &mut self.latest else {
            return false;
        };
        let sent = std::mem::take(&mut latest.sent);
        if sent > 0 {
            self.lda.observe(sent, sent.saturating_sub(latest.lost));
        }
        sent > 0
    }
}

/// Whether both ends' counts of an epoch can be trusted. Too few usable cells are included: they result from banks
/// prepared for fewer losses.
fn are_counts_known(fate: EpochFate) -> bool {
    matches!(
        fate,
        EpochFate::Usable | EpochFate::Reordered | EpochFate::TooFewCells
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(fate: EpochFate, sent: u64, lost: u64) -> Report {
        Report {
            sent,
            received: sent - lost,
            lost: lost.cast_signed(),
            ..Report::unusable(fate)
        }
    }

    fn adaptation(segments: u16) -> Adaptation {
        let options = AdaptiveOptions {
            bank_rows: vec![64],
            first_loss: 0.0,
            worst_loss: 1.0,
            alpha: 1.0,
            epoch_packets: 1_000,
        };
        Adaptation::new(options, segments).unwrap()
    }

    #[test]
    fn banks_follow_the_segment_that_lost_most() {
        let mut lda = adaptation(3);
        let usable = |lost| report(EpochFate::Usable, 1_000, lost);
        assert_eq!(lda.hear(Epoch(7), &usable(0)), None);
        assert_eq!(lda.hear(Epoch(7), &usable(500)), None);
        assert!(lda.hear(Epoch(7), &usable(10)).is_some());
        assert!((lda.prepared_losses() - 400.0).abs() < 1e-9);
        // The third report of the next was lost.
        assert_eq!(lda.hear(Epoch(8), &usable(400)), None);
        assert_eq!(lda.hear(Epoch(8), &usable(900)), None);
        assert!(lda.hear(Epoch(9), &usable(0)).is_some());
        assert!((lda.prepared_losses() - 800.0).abs() < 1e-9);
        assert_eq!(lda.hear(Epoch(8), &usable(0)), None, "too late");
    }

    #[test]
    fn epochs_without_trustworthy_counts_are_left_out() {
        let mut lda = adaptation(1);
        for (epoch, fate) in (1..).zip(EpochFate::ALL) {
            let heard = lda.hear(Epoch(epoch), &report(fate, 1_000, 100));
            let is_trusted = [
                EpochFate::Usable,
                EpochFate::Reordered,
                EpochFate::TooFewCells,
            ]
            .contains(&fate);
            assert_eq!(heard.is_some(), is_trusted, "{fate:?}");
        }
        let before = lda.prepared_losses();
        let usable = EpochFate::Usable;
        assert_eq!(lda.hear(Epoch(20), &report(usable, 0, 0)), None);
        assert_eq!(lda.hear(Epoch(21), &report(usable, 1_000, 1_000)), None);
        assert!((lda.prepared_losses() - before).abs() < 1e-9);
        // Epochs of another session may have lower numbers.
        lda.reset();
        assert!(lda.hear(Epoch(3), &report(usable, 1_000, 0)).is_some());
    }
}
