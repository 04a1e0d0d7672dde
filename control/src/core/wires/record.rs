//! From the status of an exchange to the records that are published.

use measure::chooser::Method;
use measure::lda::LdaLayout;
use records::snapshot::{WireEstimate, WireFigures, WireLda, WireLdaBank, WirePeer, WireSegment};
use wire::exchange::{MeasuredEpoch, OffsetView, Peer, ReportedEpoch, SegmentStatus};
use wire::frame::{EpochFate, Mismatch, VERSION};
use wire::{Estimate, OffsetBounds, SegmentOutcome};

use super::super::labelled;
use crate::wire::flows::estimate;
use contract::units::duration_ns;

/// Why the ends do not agree.
pub(super) fn disagreement(mismatch: Mismatch, peer: Option<&Peer>) -> String {
    match (mismatch, peer) {
        (Mismatch::Peer, Some(Peer { header, hello })) => {
            let (switch, port_name) = (header.switch, hello.port_name);
            format!("port {port_name} of switch {switch} is heard: {mismatch}")
        }
        _ => mismatch.to_string(),
    }
}

/// What contradicts the claims of the clocks, in words; `None` where nothing does.
pub(super) fn contradiction(offset: &OffsetView) -> Option<String> {
    if !offset.is_contradicted() {
        return None;
    }
    let OffsetBounds {
        at_least_ns,
        at_most_ns,
    } = offset.bounds;
    // Above the claims if it is the lower end that contradicts, else below their negative.
    let (side, bounds) = match at_least_ns.filter(|ns| *ns > offset.error_ns) {
        Some(_) => ("ahead", [at_least_ns, at_most_ns]),
        None => (
            "behind",
            [at_most_ns.map(|ns| -ns), at_least_ns.map(|ns| -ns)],
        ),
    };
    let [by_no_less, by_no_more] = bounds.map(|ns| ns.map(duration_ns));
    let between = match (by_no_less, by_no_more) {
        (Some(less), Some(more)) => format!("{less} to {more}"),
        (less, more) => format!("{} or more", less.or(more).unwrap_or_default()),
    };
    let claimed = duration_ns(offset.error_ns);
    Some(format!(
        "by the least delays the other end's clock is {side} by {between}, but both clocks together claim an error of {claimed}: \
         at least one of them is wrong, and the delays of both directions with it. Two switches cannot tell which of their \
         clocks is wrong: compare each with a third one (`chronyc tracking`, `pmc`)"
    ))
}

/// The other end, as its last hello described it.
pub(super) fn peer(Peer { header, hello }: &Peer) -> WirePeer {
    WirePeer {
        switch: header.switch,
        port: header.port,
        port_name: hello.port_name.to_string(),
        // In a hello the segment is the minor version.
        protocol: format!("{VERSION}.{}", header.segment),
        clock: hello.clock.label().to_owned(),
        clock_error_ns: hello.clock_error_ns,
        tai_utc_s: hello.tai_utc_s,
        ptp_domain: hello.ptp_domain,
    }
}

/// Adds what one exchange has counted of a segment.
pub(super) fn count<E>(segment: &mut WireSegment, now: &SegmentStatus<E>) {
    let fates = EpochFate::ALL.iter().zip(&now.fates);
    let own = WireSegment {
        sent_packets: now.sent,
        received_packets: now.received,
        lost_packets: now.lost,
        epochs: fates.map(|(fate, &n)| labelled(fate.label(), n)).collect(),
        ..WireSegment::default()
    };
    segment.add(&own);
}

/// How packets that leave are spread over banks, and the losses that these are prepared for.
pub(super) fn lda((layout, prepared_losses): (&LdaLayout, Option<f64>)) -> WireLda {
    let banks = layout.banks().map(|bank| WireLdaBank {
        rows: bank.rows,
        probability: bank.probability,
    });
    WireLda {
        prepared_losses,
        sampled_ratio: layout.sampled_share(),
        banks: banks.collect(),
    }
}

/// What this end measured; `None` where nothing was paired.
pub(super) fn measured(epoch: &MeasuredEpoch) -> Option<WireFigures> {
    let outcome: &SegmentOutcome = epoch.outcome.as_ref()?;
    let samples = |method: Method| match method {
        Method::Lda => Some(outcome.lda.effective_samples),
        Method::Rli(_) => Some(outcome.rli_packets),
        _ => None,
    };
    let estimate = |of: &Estimate| estimate(of, samples(of.method));
    let means = [outcome.lda_mean, outcome.rli_mean];
    Some(WireFigures {
        epoch: epoch.epoch,
        sent_packets: outcome.is_sent_known.then_some(outcome.tally.sent),
        received_packets: Some(outcome.tally.received),
        lost_packets: outcome.lost(),
        moved_packets: epoch.moved,
        stddev_ns: outcome.stddev_ns(),
        usable_cells_ratio: outcome.cells.usable as f64 / outcome.cells.cells.max(1) as f64,
        estimates: means.iter().flatten().map(estimate).collect(),
        chosen: outcome.chosen.as_ref().map(estimate),
    })
}

/// What the other end reported.
pub(super) fn reported(epoch: &ReportedEpoch) -> WireFigures {
    let report = &epoch.report;
    // An epoch in which nothing passed has no figures: without counts, they did not arrive.
    let are_known = report.sent > 0 || report.received > 0;
    let lda = report.mean_ns.map(|mean_ns| WireEstimate {
        method: Method::Lda.name().to_owned(),
        mean_ns,
        bound_ns: report.bound_ns,
        effective_samples: Some(report.effective_samples),
    });
    let chosen = report.chosen.map(|chosen| WireEstimate {
        method: chosen.method.name().to_owned(),
        mean_ns: chosen.mean_ns,
        bound_ns: chosen.bound_ns,
        effective_samples: None,
    });
    let other = chosen
        .clone()
        .filter(|chosen| lda.as_ref().is_none_or(|lda| lda.method != chosen.method));
    WireFigures {
        epoch: epoch.epoch,
        sent_packets: are_known.then_some(report.sent),
        received_packets: are_known.then_some(report.received),
        lost_packets: are_known.then_some(report.lost),
        moved_packets: report.moved.into(),
        stddev_ns: report.stddev_ns,
        usable_cells_ratio: f64::from(report.usable_cells) / f64::from(report.cells.max(1)),
        estimates: lda.into_iter().chain(other).collect(),
        chosen,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(at_least_ns: Option<f64>, at_most_ns: Option<f64>) -> Option<String> {
        contradiction(&OffsetView {
            bounds: OffsetBounds {
                at_least_ns,
                at_most_ns,
            },
            error_ns: 200.0,
        })
    }

    #[test]
    fn a_contradiction_says_by_how_much_and_that_it_is_not_known_whose_clock_is_wrong() {
        assert_eq!(words(None, None), None);
        assert_eq!(words(Some(-20_000.0), Some(25_000.0)), None);
        assert_eq!(words(Some(200.0), Some(-200.0)), None);
        let ahead = words(Some(950_000.0), Some(1_040_000.0)).unwrap();
        assert_eq!(
            ahead,
            "by the least delays the other end's clock is ahead by 950 us to 1.04 ms, but both clocks together claim an error \
             of 200 ns: at least one of them is wrong, and the delays of both directions with it. Two switches cannot tell \
             which of their clocks is wrong: compare each with a third one (`chronyc tracking`, `pmc`)"
        );
        let behind = words(Some(-1_040_000.0), Some(-950_000.0)).unwrap();
        assert!(behind.contains("behind by 950 us to 1.04 ms"), "{behind}");
        let one_way = words(Some(950_000.0), None).unwrap();
        assert!(one_way.contains("ahead by 950 us or more"), "{one_way}");
        let other_way = words(None, Some(-950_000.0)).unwrap();
        assert!(
            other_way.contains("behind by 950 us or more"),
            "{other_way}"
        );
    }
}
