//! The cells of the tables' rows. Figures of one row are of the same epoch or second; totals are in no table.

use super::super::app::App;
use crate::view::{Passed, known, percent};
use contract::units::{count, duration_ns, rate, uptime};
use records::answers::{ClassTotals, FlowPage};
use records::snapshot::{Flow, Port, Segment, Snapshot, Stamped};

/// Estimates come last, after the exact figures.
pub(super) const SEGMENT_HEADINGS: &str = "segment | packets/s | lost/s | loss | mean | stddev | p99 | p99.9 | \
    p99.99 | max | LDA mean | +-98% | samples";

pub(super) fn segment(snapshot: &Snapshot, segment: &Segment) -> [String; 13] {
    let figures = snapshot.fresh(segment);
    let stamped = figures.and_then(|figures| figures.stamped);
    let lda = figures.and_then(|figures| figures.lda);
    let [packets, drops, loss] = Passed::cells(Passed::of_segment(snapshot, segment));
    let delay = |of: fn(Stamped) -> f64| known(stamped.map(of), duration_ns);
    [
        segment.title(),
        packets,
        drops,
        loss,
        delay(|stamped| stamped.mean_ns),
        delay(|stamped| stamped.stddev_ns),
        delay(|stamped| stamped.p99_ns),
        delay(|stamped| stamped.p999_ns),
        delay(|stamped| stamped.p9999_ns),
        delay(|stamped| stamped.max_ns),
        known(lda, |lda| duration_ns(lda.mean_ns)),
        known(lda, |lda| duration_ns(lda.bound_ns)),
        known(lda, |lda| count(lda.effective_samples)),
    ]
}

pub(super) const CLASS_HEADINGS: &str =
    "class | segments | packets/s | lost/s | loss | mean | stddev | p99 | p99.9 | max";

pub(super) fn class(snapshot: &Snapshot, class: &ClassTotals) -> [String; 10] {
    let [packets, drops, loss] = Passed::cells(Passed::of_class(snapshot, &class.class));
    let stamped = class.last.map(|last| last.stamped);
    let delay = |of: fn(Stamped) -> f64| known(stamped.map(of), duration_ns);
    [
        class.class.clone(),
        class.segments.to_string(),
        packets,
        drops,
        loss,
        delay(|stamped| stamped.mean_ns),
        delay(|stamped| stamped.stddev_ns),
        delay(|stamped| stamped.p99_ns),
        delay(|stamped| stamped.p999_ns),
        delay(|stamped| stamped.max_ns),
    ]
}

pub(super) const FLOW_HEADINGS: &str = "flow | segment | packets/s | lost/s | loss | mean | stddev | p99 | estimate | +-98% | by | ago";

/// Without stamps, the mean is the estimate, with `~` before it.
pub(super) fn flow(page: &FlowPage, flow: &Flow) -> [String; 12] {
    let [packets, drops, loss] = Passed::cells(Some(Passed::of_flow(flow)));
    let estimate = flow.estimate.as_ref();
    let estimated = estimate.map(|estimate| duration_ns(estimate.mean_ns));
    let about = || estimated.as_ref().map(|mean| format!("~{mean}"));
    let end_unix_s = page.epoch_end_unix_s.unwrap_or(flow.last_seen_unix_s);
    [
        flow.flow.clone(),
        flow.segment_title(),
        packets,
        known(flow.last.lost_packets, |_| drops),
        known(flow.last.lost_packets, |_| loss),
        known(flow.last.mean_ns.map(duration_ns).or_else(about), |mean| {
            mean
        }),
        known(flow.last.stddev_ns, duration_ns),
        known(flow.quantiles, |quantiles| duration_ns(quantiles.p99_ns)),
        known(estimated.clone(), |mean| mean),
        known(estimate.and_then(|estimate| estimate.bound_ns), duration_ns),
        known(estimate, |estimate| estimate.method.label().to_owned()),
        uptime((end_unix_s - flow.last_seen_unix_s).max(0.0)),
    ]
}

pub(super) const PORT_HEADINGS: &str =
    "port | rx/s | rx dropped | tx/s | tx dropped | queued | dropped/s";

pub(super) fn port(app: &App, port: &Port) -> [String; 7] {
    let drops = app.drops(port);
    let share = |passed: Option<Passed>| known(passed.and_then(Passed::loss), percent);
    [
        match (port.facts.is_up, port.facts.is_removed) {
            (true, _) => port.name.clone(),
            (false, true) => format!("{} (removed)", port.name),
            (false, false) => format!("{} (down)", port.name),
        },
        rate(port.rx_pps),
        share(drops.as_ref().map(|drops| drops.received)),
        rate(port.tx_pps),
        share(drops.as_ref().map(|drops| drops.sent)),
        count(port.counts.queued_packets),
        known(drops, |drops| drops.words()),
    ]
}
