//! Flows as plain text: a table of many, and everything about one.

use std::fmt::Write;

use super::{Page, Table, bounded, known};
use contract::units::{bytes, count, duration_ns, uptime};
use records::answers::{Epochs, FlowPage};
use records::history::Course;
use records::snapshot::{
    Flow, FlowAnswer, FlowEstimate, FlowFigures, FlowMethod, FlowQuantiles, FlowReferences,
    ReferenceFigures, SketchedFlow, WireFlow,
};

/// Buckets of a course that are shown: two minutes of ten seconds each.
const BUCKETS_MAX: usize = 12;

const FLOWS: Table = Table {
    headings: "flow | segment | packets | lost | mean | stddev | p99 | estimate | +-98% | by | ago",
    wide: &["estimate", "+-98%", "by"],
    expendable: &["ago", "stddev", "p99", "segment", "lost"],
};

const COURSE: Table = Table {
    headings: "from (UTC) | packets | lost | mean | stddev | p99 max | max | estimate | +-98%",
    wide: &["estimate", "+-98%"],
    expendable: &["stddev"],
};

/// Part of a list of flows: figures of the last epoch of each, and how many there are.
pub fn flows(page: &mut Page, part: &FlowPage) {
    let end = part.epoch_end_unix_s;
    let is_wide = page.is_wide();
    let rows = part.flows.iter().map(|flow| {
        let mut row = flow_row(end, flow);
        let estimate = flow.estimate.as_ref();
        if let Some(estimate) = estimate.filter(|_| flow.last.mean_ns.is_none() && !is_wide) {
            let mean = duration_ns(estimate.mean_ns);
            row[4] = match estimate.bound_ns {
                Some(bound_ns) => bounded(mean, bound_ns),
                None => format!("~{mean}"),
            };
        }
        row
    });
    page.table(&FLOWS, rows);
    let (from, shown) = (part.offset, part.flows.len() as u64);
    let _ = match (shown, part.matching) {
        (_, 0) => writeln!(page, "no flow"),
        (0, all) => writeln!(page, "{all} flows, none from {from} on"),
        (_, all) => writeln!(page, "{} to {} of {all} flows", from + 1, from + shown),
    };
}

/// The cells of a flow's row; `end_unix_s` is the end of the last epoch.
fn flow_row(end_unix_s: Option<f64>, flow: &Flow) -> [String; 11] {
    let estimate = flow.estimate.as_ref();
    let bound_ns = estimate.and_then(|estimate| estimate.bound_ns);
    [
        flow.flow.clone(),
        flow.segment_title(),
        count(flow.last.packets),
        known(flow.last.lost_packets, count),
        known(flow.last.mean_ns, duration_ns),
        known(flow.last.stddev_ns, duration_ns),
        known(flow.quantiles, |quantiles| duration_ns(quantiles.p99_ns)),
        known(estimate, |estimate| duration_ns(estimate.mean_ns)),
        known(bound_ns, duration_ns),
        known(estimate, |estimate| estimate.method.label().to_owned()),
        uptime(ago_s(end_unix_s, flow)),
    ]
}

/// Seconds from the end of a flow's last epoch to that of the last one that closed.
fn ago_s(end_unix_s: Option<f64>, flow: &Flow) -> f64 {
    end_unix_s.map_or(0.0, |end| (end - flow.last_seen_unix_s).max(0.0))
}

/// Everything about a flow. `width_s` is the width of the history to show; `unknown` is printed if there are no
/// figures.
pub fn flow(page: &mut Page, answer: &FlowAnswer, width_s: u32, unknown: &str) {
    page.say(&answer.flow);
    if let Some(epoch) = answer.epoch {
        let _ = write!(page, "  epoch {epoch}");
    }
    page.say("\n");
    for tracked in &answer.tracked {
        let ago = uptime(ago_s(answer.epoch_end_unix_s, &tracked.flow));
        let title = tracked.flow.segment_title();
        let _ = writeln!(page, "\n{title}: tracked, its last packet {ago} ago");
        describe(page, &tracked.flow);
        let mut courses = tracked.courses.iter();
        let course = courses.find(|course| course.width_s == width_s);
        match course {
            Some(course) => {
                let _ = writeln!(page, "  by {} s:", course.width_s);
                rows(page, 4, course, BUCKETS_MAX);
            }
            None => page.say(
                "  no history: it has no series of its own (prometheus.pinned gives it one)\n",
            ),
        }
    }
    for flow in &answer.ended {
        let ago = uptime(ago_s(answer.epoch_end_unix_s, flow));
        let title = flow.segment_title();
        let _ = writeln!(
            page,
            "\n{title}: no longer tracked; it ended {ago} ago, with"
        );
        describe(page, flow);
    }
    for sketched in &answer.sketched {
        page.say("\n");
        describe_sketched(page, sketched);
    }
    for wire in &answer.wires {
        page.say("\n");
        describe_on_wire(page, answer.epoch_end_unix_s, wire);
    }
    if answer.says_nothing() {
        let _ = writeln!(page, "\n{unknown}");
    }
}

/// Everything about a flow of a list except its name and its course.
pub(crate) fn flow_words(flow: &Flow) -> String {
    Page::plain(true, |page| {
        let _ = writeln!(page, "  {}", flow.segment_title());
        describe(page, flow);
    })
}

fn describe(page: &mut Page, flow: &Flow) {
    let (headings, what) = if flow.is_on_wire {
        (
            " | packets | bytes | lost at most | mean | stddev",
            "counted; deviation and percentiles by references",
        )
    } else {
        (
            " | packets | bytes | lost | mean | stddev",
            "exact, by stamps",
        )
    };
    let row = |name: &str, figures: &FlowFigures| {
        [
            name.to_owned(),
            count(figures.packets),
            bytes(figures.bytes),
            known(figures.lost_packets, count),
            known(figures.mean_ns, duration_ns),
            known(figures.stddev_ns, duration_ns),
        ]
    };
    let rows = [
        row(&format!("epoch {}", flow.last_epoch), &flow.last),
        row(&format!("since epoch {}", flow.first_epoch), &flow.total),
    ];
    let _ = writeln!(page, "  {what}:");
    page.indented_table(4, &Table::new(headings, &["bytes"]), rows);
    if let Some(quantiles) = &flow.quantiles {
        let (epoch, percentiles) = (flow.last_epoch, percentiles(quantiles));
        let _ = writeln!(page, "    epoch {epoch}: {percentiles}");
    }
    let nothing = if flow.is_on_wire {
        "nothing"
    } else {
        "nothing (measurement.lds with its decode, and measurement.rli, estimate flows)"
    };
    let estimated = (flow.estimate.as_ref()).map_or_else(|| nothing.to_owned(), words);
    let _ = writeln!(page, "  estimated: {estimated}");
    if let Some(running) = &flow.running {
        let (first, epochs) = (flow.first_epoch, running.epochs);
        let mean = mean_words(running.mean_ns, Some(running.bound_ns));
        let packets = count(running.packets);
        let _ = writeln!(
            page,
            "  since epoch {first}: {mean}; {epochs} epochs, {packets} packets"
        );
    }
    let chosen = flow.estimate.as_ref();
    for other in (flow.estimates.iter()).filter(|one| Some(*one) != chosen) {
        let mean = mean_words(other.mean_ns, other.bound_ns);
        let (method, truth) = (other.method.label(), truth_words(other));
        let _ = writeln!(page, "       also: {mean} ({method}){truth}");
    }
    if let Some(references) = &flow.references {
        describe_references(page, references, flow);
    }
}

fn describe_references(page: &mut Page, references: &FlowReferences, flow: &Flow) {
    let table = Table::new(" | packets | mean | +-98% | stddev", &[]);
    let row = |name: String, figures: &ReferenceFigures| {
        [
            name,
            count(figures.packets),
            duration_ns(figures.mean_ns),
            duration_ns(figures.bound_ns),
            duration_ns(figures.stddev_ns),
        ]
    };
    let last = references.last.as_ref();
    let last = last.map(|last| row(format!("epoch {}", flow.last_epoch), last));
    let first = format!("since epoch {}", flow.first_epoch);
    let total = row(first, &references.total);
    let _ = writeln!(page, "  by references ({}):", references.method.label());
    page.indented_table(4, &table, last.into_iter().chain([total]));
}

/// `p50 1.2 us, p90 3.1 us, p99 8.0 us, max 9.3 us`.
fn percentiles(quantiles: &FlowQuantiles) -> String {
    let known = [quantiles.p50_ns, quantiles.p90_ns, quantiles.p99_ns];
    let [p50, p90, p99] = known.map(duration_ns);
    let max = quantiles
        .max_ns
        .map(|ns| format!(", max {}", duration_ns(ns)));
    format!("p50 {p50}, p90 {p90}, p99 {p99}{}", max.unwrap_or_default())
}

fn describe_sketched(page: &mut Page, sketched: &SketchedFlow) {
    let _ = writeln!(
        page,
        "{}: not tracked; by the sketch\n  packets: at most {}, lost: at most {}",
        sketched.segment.title(),
        count(sketched.packets_max),
        count(sketched.lost_packets_max),
    );
    if let Some(estimate) = &sketched.estimate {
        let _ = writeln!(page, "  estimated: {}", words(estimate));
    }
}

fn describe_on_wire(page: &mut Page, end_unix_s: Option<f64>, on_wire: &WireFlow) {
    let WireFlow { flow, is_counted } = on_wire;
    let how = if *is_counted {
        format!("its last packet {} ago", uptime(ago_s(end_unix_s, flow)))
    } else {
        "from the sketch: an upper limit of packets".to_owned()
    };
    let _ = writeln!(page, "{}: on the wire, {how}", flow.segment_title());
    describe(page, flow);
}

/// An estimate in words: mean, bound, method, and its data.
fn words(estimate: &FlowEstimate) -> String {
    let mean = mean_words(estimate.mean_ns, estimate.bound_ns);
    let method = match estimate.method {
        FlowMethod::LdsJoint => "jointly with all flows",
        FlowMethod::LdsJointSum => "jointly with all flows, from the sum of epochs",
        FlowMethod::LdsPaper => "by the LDS paper's estimator",
        FlowMethod::LdsPrior => "from the other flows, because it has no usable cell",
        FlowMethod::Hybrid => "jointly with all flows and references",
        FlowMethod::Combined => "from references, and jointly with all flows and them",
        FlowMethod::RliL | FlowMethod::Rli | FlowMethod::RliS | FlowMethod::RliAs => {
            "from references"
        }
    };
    let label = estimate.method.label();
    let epochs = match estimate.epochs {
        1 => format!("epoch {}", estimate.epoch),
        number => format!("{number} epochs up to {}", estimate.epoch),
    };
    let packets = count(estimate.packets);
    let truth = truth_words(estimate);
    format!("{mean}, {method} ({label}); {epochs}, {packets} packets{truth}")
}

/// Compares the estimate with the exact mean.
fn truth_words(estimate: &FlowEstimate) -> &'static str {
    match estimate.is_within_bound {
        Some(true) => "; the exact mean is within",
        Some(false) => "; the exact mean is OUTSIDE",
        None => "",
    }
}

/// `mean 412 us +- 7.40 us (98 %)`.
fn mean_words(mean_ns: f64, bound_ns: Option<f64>) -> String {
    let mean = duration_ns(mean_ns);
    match bound_ns {
        Some(bound_ns) => format!("mean {mean} +- {} (98 %)", duration_ns(bound_ns)),
        None => format!("mean {mean} of unknown error"),
    }
}

/// The courses of segments.
pub fn history(page: &mut Page, answer: &Epochs) {
    for (n, segment) in answer.segments.iter().enumerate() {
        for course in &segment.courses {
            if n > 0 {
                page.say("\n");
            }
            let title = segment.segment.title();
            let _ = writeln!(page, "{title}, by {} s", course.width_s);
            rows(page, 0, course, usize::MAX);
        }
    }
    if answer.segments.is_empty() {
        page.say("no segment\n");
    }
    more(page, answer.matching, answer.segments.len());
}

/// Says how many of `matching` rows a list of `shown` lacks.
pub(super) fn more(page: &mut Page, matching: u64, shown: usize) {
    let left = matching.saturating_sub(shown as u64);
    if left > 0 {
        let _ = writeln!(page, "{} more", count(left));
    }
}

/// The last buckets of a course, `most` of them.
fn rows(page: &mut Page, indent: usize, course: &Course, most: usize) {
    let first = course.buckets.len().saturating_sub(most);
    let rows = course.buckets.iter().skip(first).map(|bucket| {
        let stamped = |ns| known((bucket.packets > 0).then_some(ns), duration_ns);
        [
            clock(bucket.start_unix_s),
            count(bucket.packets),
            count(bucket.lost_packets),
            stamped(bucket.mean_ns),
            stamped(bucket.stddev_ns),
            known(bucket.p99_max_ns, duration_ns),
            known(bucket.max_ns, duration_ns),
            known(bucket.estimated_mean_ns, duration_ns),
            known(bucket.bound_ns, duration_ns),
        ]
    });
    page.indented_table(indent, &COURSE, rows);
}

/// `14:03:20`, of a time since 1970.
fn clock(unix_s: f64) -> String {
    let second = unix_s.rem_euclid(86_400.0).floor();
    let (hours, minutes) = ((second / 3_600.0).floor(), (second / 60.0).floor() % 60.0);
    format!("{hours:02}:{minutes:02}:{:02}", second % 60.0)
}

#[cfg(test)]
mod tests;
