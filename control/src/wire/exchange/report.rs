//! The report of an epoch to the other end.

use measure::wire::frame::{Chosen, EpochFate, Report};

use super::status::MeasuredEpoch;

/// The report of a measured epoch: figures of usable ones only, counts of all whose ends are known.
pub(super) fn report(measured: &MeasuredEpoch) -> Report {
    let Some(outcome) = measured.outcome else {
        return Report::unusable(measured.fate);
    };
    let is_usable = measured.fate == EpochFate::Usable;
    let lda = outcome.lda_mean.filter(|_| is_usable);
    // Fields of a report saturate.
    let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    // Counts of one end alone would not add up.
    let counts = outcome.lost().is_some().then_some(outcome.tally);
    Report {
        sent: counts.map_or(0, |counts| counts.sent),
        received: counts.map_or(0, |counts| counts.received),
        lost: outcome.lost().unwrap_or(0),
        moved: narrow(measured.moved),
        mean_ns: lda.map(|lda| lda.mean_ns),
        stddev_ns: outcome.stddev_ns().filter(|_| is_usable),
        bound_ns: lda.and_then(|lda| lda.bound_ns),
        effective_samples: outcome.lda.effective_samples,
        usable_cells: narrow(outcome.cells.usable),
        cells: narrow(outcome.cells.cells),
        chosen: outcome.chosen.filter(|_| is_usable).map(|chosen| Chosen {
            method: chosen.method,
            mean_ns: chosen.mean_ns,
            bound_ns: chosen.bound_ns,
        }),
        ..Report::unusable(measured.fate)
    }
}
