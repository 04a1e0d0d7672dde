//! The report of an epoch to the other end, and that of the other end.

use wire::frame::{Chosen, EpochFate, Header, Report};

use super::causality::Causality;
use super::status::{MeasuredEpoch, ReportedEpoch, SegmentStatus, is_counted};

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

/// Keeps the other end's report of an epoch; `false` where there is no such segment. An end of an earlier version
/// reports impossible delays as usable.
pub(super) fn note(
    sending: &mut [SegmentStatus<ReportedEpoch>],
    header: &Header,
    report: &Report,
    causality: &mut Causality,
    knows_floors: bool,
) -> bool {
    let Some(segment) = sending.get_mut(usize::from(header.segment)) else {
        return false;
    };
    let chosen = report.chosen;
    if let Some(bound_ns) = chosen.and_then(|chosen| chosen.bound_ns) {
        let mean_ns = chosen.map_or(f64::INFINITY, |chosen| chosen.mean_ns);
        causality.hear(header.epoch, mean_ns + bound_ns);
    }
    let mut report = *report;
    let is_possible = chosen.is_none_or(|chosen| causality.is_possible(chosen.mean_ns))
        && (knows_floors || !causality.view().is_contradicted());
    if report.fate == EpochFate::Usable && !is_possible {
        report.fate = EpochFate::Clock;
    }
    let counts = is_counted(report.fate).then_some((report.sent, report.received, report.lost));
    let reported = ReportedEpoch {
        epoch: header.epoch.0,
        report,
    };
    segment.add(report.fate, counts, reported);
    true
}
