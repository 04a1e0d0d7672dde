//! Answers as text: aligned tables for a terminal, a log or a pipe.

use std::fmt::Write;

use contract::units::{bytes, count, duration_ns, rate, uptime};
use records::answers::{ClassTotals, Classes, Ports};
use records::snapshot::{AroundCounts, Delays, Labelled, Port, Segment, Snapshot};

mod flows;
mod page;
mod passed;
pub mod station;
mod status;
mod wires;

pub(crate) use flows::flow_words;
pub use flows::{flow, flows, history};
pub use page::{Look, Page};
pub(crate) use page::{Table, columns, fit, shortened};
pub(crate) use passed::Passed;
pub use status::status;
pub use wires::wires;
pub(crate) use wires::{
    WIRE_HEADINGS, WIRE_SEGMENT_HEADINGS, clock_words, wire_row, wire_segment_row,
};

/// A number as text, or a dash if there is none.
pub(crate) fn known<T>(number: Option<T>, text: impl FnOnce(T) -> String) -> String {
    number.map_or_else(|| "-".to_owned(), text)
}

const SEGMENTS: Table = Table {
    headings: "segment | packets/s | loss | mean | stddev | lost in all | LDA mean | +-98% | samples",
    wide: &["lost in all", "LDA mean", "+-98%", "samples"],
    expendable: &["stddev", "packets/s"],
};

const PORTS: Table = Table::new(
    "port | rx/s | tx/s | received | sent | queued | dropped",
    &["queued", "sent", "received"],
);

const AROUND: Table = Table::new(
    "device | port | entered | returned | lost | unknown | reordered | displaced",
    &["displaced", "reordered", "unknown"],
);

const CLASSES: Table = Table::new(
    "class | segments | sent | bytes | measured | lost | mean | stddev",
    &["bytes", "measured", "stddev", "segments"],
);

const TOTALS: Table = Table::new(
    "segment | sent | measured | lost | late | mean | unusable epochs",
    &["late", "unusable epochs", "measured"],
);

/// The table of each second: a headline, segments and ports.
pub fn live(page: &mut Page, snapshot: &Snapshot) {
    page.say(&(headline(snapshot) + "\n"));
    if !snapshot.segments.is_empty() {
        segments(page, snapshot);
    }
    page.say("\n");
    page.table(&PORTS, snapshot.ports.iter().map(port_row));
}

/// The table at the end: totals of every segment and port, and how good the estimates were.
pub fn summary(page: &mut Page, snapshot: &Snapshot) {
    page.say(&(headline(snapshot) + "\n"));
    if !snapshot.segments.is_empty() {
        page.table(&TOTALS, snapshot.segments.iter().map(total_row));
        page.say("\n");
        for segment in &snapshot.segments {
            page.say(&verdict(segment));
        }
        page.say("\n");
    }
    page.table(&PORTS, snapshot.ports.iter().map(port_row));
}

/// Segments alone.
pub fn segments(page: &mut Page, snapshot: &Snapshot) {
    let is_wide = page.is_wide();
    let rows = snapshot.segments.iter();
    page.table(
        &SEGMENTS,
        rows.map(|segment| segment_row(snapshot, segment, is_wide)),
    );
    let delays = snapshot.segments.iter().map(|segment| {
        let last = snapshot.fresh(segment).and_then(|last| {
            let packets = last.counts.received_packets;
            last.stamped.map(|stamped| Delays { packets, stamped })
        });
        (segment.title(), [last, segment.last_minute])
    });
    percentiles(page, SEGMENT_PERCENTILES, delays);
}

/// The cells of a segment's row. Without an exact mean, the estimate takes its place.
fn segment_row(snapshot: &Snapshot, segment: &Segment, is_wide: bool) -> [String; 9] {
    let last = snapshot.fresh(segment);
    let stamped = last.and_then(|last| last.stamped);
    let lda = last.and_then(|last| last.lda);
    let [packets, _, loss] = Passed::cells(Passed::of_segment(snapshot, segment));
    let mean = match (stamped, lda) {
        (None, Some(lda)) if !is_wide => bounded(duration_ns(lda.mean_ns), lda.bound_ns),
        _ => known(stamped, |stamped| duration_ns(stamped.mean_ns)),
    };
    [
        segment.title(),
        packets,
        loss,
        mean,
        known(stamped, |stamped| duration_ns(stamped.stddev_ns)),
        count(segment.total.counts.dropped_packets),
        known(lda, |lda| duration_ns(lda.mean_ns)),
        known(lda, |lda| duration_ns(lda.bound_ns)),
        known(lda, |lda| count(lda.effective_samples)),
    ]
}

/// `412 us +-7.40 us`, or without the bound if there is none.
fn bounded(mean: String, bound_ns: f64) -> String {
    if bound_ns > 0.0 {
        mean + " +-" + &duration_ns(bound_ns)
    } else {
        mean
    }
}

pub(crate) fn percent(ratio: f64) -> String {
    format!("{:.3} %", ratio.max(0.0) * 100.0)
}

const SEGMENT_PERCENTILES: &str =
    "segment | of last | packets | p50 | p90 | p99 | p99.9 | p99.99 | max";

const CLASS_PERCENTILES: &str =
    "class | of last | packets | p50 | p90 | p99 | p99.9 | p99.99 | max";

/// Percentiles of the stamped delays of the last epoch and minute; nothing without packets.
fn percentiles(
    page: &mut Page,
    headings: &'static str,
    delays: impl Iterator<Item = (String, [Option<Delays>; 2])>,
) {
    let rows = delays.flat_map(|(name, delays)| {
        let spans = ["epoch", "minute"].into_iter().zip(delays);
        let known = spans.filter_map(|(span, delays)| Some((span, delays?)));
        let row = known.map(|(span, Delays { packets, stamped })| {
            [
                name.clone(),
                span.to_owned(),
                count(packets),
                duration_ns(stamped.p50_ns),
                duration_ns(stamped.p90_ns),
                duration_ns(stamped.p99_ns),
                duration_ns(stamped.p999_ns),
                duration_ns(stamped.p9999_ns),
                duration_ns(stamped.max_ns),
            ]
        });
        row.collect::<Vec<_>>()
    });
    let mut rows = rows.peekable();
    if rows.peek().is_some() {
        page.say("\n");
        let expendable = &["p99.99", "p90", "packets", "p99.9"];
        page.table(&Table::new(headings, expendable), rows);
    }
}

/// Ports alone.
pub fn ports(page: &mut Page, ports: &Ports) {
    let mut around = ports.ports.iter().filter_map(around_row).peekable();
    page.table(&PORTS, ports.ports.iter().map(port_row));
    if around.peek().is_some() {
        page.say("\n");
        page.table(&AROUND, around);
    }
}

/// Packets that enter a device through a port, and those that come back.
fn around_row(port: &Port) -> Option<[String; 8]> {
    let AroundCounts { device, counts } = port.around.as_ref()?;
    Some([
        device.clone(),
        port.name.clone(),
        count(counts.entered_packets),
        count(counts.returned_packets),
        count(counts.lost_packets),
        count(counts.unknown_packets),
        count(counts.reordered_packets),
        count(counts.displaced_packets),
    ])
}

/// Classes over all ports and segments, since the switch started.
pub fn classes(page: &mut Page, classes: &Classes) {
    page.table(&CLASSES, classes.classes.iter().map(class_row));
    let delays = classes.classes.iter();
    let delays = delays.map(|class| (class.class.clone(), [class.last, class.last_minute]));
    percentiles(page, CLASS_PERCENTILES, delays);
}

fn class_row(class: &ClassTotals) -> [String; 8] {
    [
        class.class.clone(),
        class.segments.to_string(),
        count(class.egress.tx_packets),
        bytes(class.egress.tx_bytes),
        count(class.stamped_packets),
        count(class.egress.dropped_packets),
        known(class.mean_ns, duration_ns),
        known(class.stddev_ns, duration_ns),
    ]
}

/// One line: version, switch, uptime and epoch.
pub(crate) fn headline(snapshot: &Snapshot) -> String {
    let (switch, version, state) = (&snapshot.switch, &snapshot.version, snapshot.state.label());
    let up = uptime(snapshot.uptime_s);
    let mut line = format!("vernier {version}  switch {switch}  {state}  up {up}");
    if !snapshot.measuring {
        line += "  measurement off";
    } else if let Some(epoch) = snapshot.epoch {
        let _ = write!(line, "  epoch {epoch} of {} ms", snapshot.interval_ms);
    }
    for (index, worker) in snapshot.workers.iter().enumerate() {
        let busy = worker.busy_ratio * 100.0;
        let _ = if worker.is_stalled {
            write!(line, "  worker {index} STALLED")
        } else {
            write!(line, "  worker {index} {busy:.0}% busy")
        };
    }
    line
}

/// The cells of a port's row.
fn port_row(port: &Port) -> [String; 7] {
    [
        if port.facts.is_up {
            port.name.clone()
        } else if port.facts.is_removed {
            format!("{} (removed)", port.name)
        } else {
            format!("{} (down)", port.name)
        },
        rate(port.rx_pps),
        rate(port.tx_pps),
        count(port.counts.rx_packets),
        count(port.counts.tx_packets),
        count(port.counts.queued_packets),
        dropped(&port.drops),
    ]
}

/// `12 queue_full, 3 runt`.
pub(crate) fn dropped(drops: &[Labelled]) -> String {
    let reasons = drops.iter().filter(|drop| drop.packets > 0);
    let reasons = reasons.map(|drop| format!("{} {}", count(drop.packets), drop.label));
    listed(reasons).unwrap_or_else(|| "0".to_owned())
}

/// The parts separated by commas; `None` if there are none.
fn listed(parts: impl Iterator<Item = String>) -> Option<String> {
    let parts: Vec<String> = parts.collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn total_row(segment: &Segment) -> [String; 7] {
    let total = &segment.total;
    let counts = &total.counts;
    let mean_ns = total.delay_sum_s * 1e9 / counts.received_packets as f64;
    let unusable = total.unusable_epochs.by_reason();
    let unusable = unusable.iter().filter(|(_, epochs)| *epochs > 0);
    let unusable = unusable.map(|(reason, epochs)| format!("{epochs} {reason}"));
    [
        segment.title(),
        counts.sent_packets.to_string(),
        counts.received_packets.to_string(),
        counts.dropped_packets.to_string(),
        counts.late_packets.to_string(),
        known(Some(mean_ns).filter(|ns| ns.is_finite()), duration_ns),
        listed(unusable).unwrap_or_else(|| "0".to_owned()),
    ]
}

/// How often the estimate's interval held the true mean.
fn verdict(segment: &Segment) -> String {
    let (title, all) = (segment.title(), segment.total.estimated_epochs);
    if all == 0 {
        return format!("{title}: no epoch with an estimate\n");
    }
    let within = segment.total.within_bound_epochs;
    let share = within as f64 * 100.0 / all as f64;
    format!(
        "{title}: the true mean was inside LDA's 98% interval in {within} of {all} epochs ({share:.1}%)\n"
    )
}

#[cfg(test)]
mod tests;
