//! Flows as plain text: a table of many, and everything about one.

use std::fmt::Write;

use super::{known, table};
use contract::units::{bytes, count, duration_ns, uptime};
use records::answers::FlowPage;
use records::history::Course;
use records::snapshot::{
    Flow, FlowAnswer, FlowEstimate, FlowFigures, FlowMethod, FlowQuantiles, FlowReferences,
    ReferenceFigures, SketchedFlow, WireFlow,
};

/// Buckets of a course that are shown: two minutes of ten seconds each.
const BUCKETS_MAX: usize = 12;

/// Headings of the flows' table.
pub(crate) const FLOW_HEADINGS: &str =
    "flow | segment | packets | lost | mean | stddev | p99 | estimate | +-98% | by | ago";

/// A page of flows: figures of the last epoch of each, and how many there are.
pub fn flows(page: &FlowPage) -> String {
    let end = page.epoch_end_unix_s;
    let rows = page.flows.iter().map(|flow| flow_row(end, flow));
    let mut text = table(FLOW_HEADINGS, rows);
    let (from, shown) = (page.offset, page.flows.len() as u64);
    let _ = match (shown, page.matching) {
        (_, 0) => writeln!(text, "no flow"),
        (0, all) => writeln!(text, "{all} flows, none from {from} on"),
        (_, all) => writeln!(text, "{} to {} of {all} flows", from + 1, from + shown),
    };
    text
}

/// The cells of a flow's row; `end_unix_s` is the end of the last epoch.
pub(crate) fn flow_row(end_unix_s: Option<f64>, flow: &Flow) -> [String; 11] {
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

/// Everything about a flow. `width_s` is the width of the course to show; `unknown` is shown where
/// nothing is known.
pub fn flow(answer: &FlowAnswer, width_s: u32, unknown: &str) -> String {
    let mut text = answer.flow.clone();
    if let Some(epoch) = answer.epoch {
        let _ = write!(text, "  epoch {epoch}");
    }
    text.push('\n');
    for tracked in &answer.tracked {
        let ago = uptime(ago_s(answer.epoch_end_unix_s, &tracked.flow));
        let title = tracked.flow.segment_title();
        let _ = writeln!(text, "\n{title}: tracked, its last packet {ago} ago");
        describe(&mut text, &tracked.flow);
        let mut courses = tracked.courses.iter();
        let course = courses.find(|course| course.width_s == width_s);
        text += &course.map_or_else(
            || {
                "  no history: it has no series of its own (prometheus.pinned gives it one)\n"
                    .to_owned()
            },
            history,
        );
    }
    for flow in &answer.ended {
        let ago = uptime(ago_s(answer.epoch_end_unix_s, flow));
        let title = flow.segment_title();
        let _ = writeln!(
            text,
            "\n{title}: no longer tracked; it ended {ago} ago, with"
        );
        describe(&mut text, flow);
    }
    for sketched in &answer.sketched {
        text.push('\n');
        describe_sketched(&mut text, sketched);
    }
    for wire in &answer.wires {
        text.push('\n');
        describe_on_wire(&mut text, answer.epoch_end_unix_s, wire);
    }
    if answer.says_nothing() {
        let _ = writeln!(text, "\n{unknown}");
    }
    text
}

/// Everything about a flow of a list except its name and its course.
pub(crate) fn flow_words(flow: &Flow) -> String {
    let mut text = format!("  {}\n", flow.segment_title());
    describe(&mut text, flow);
    text
}

fn describe(text: &mut String, flow: &Flow) {
    let (lost, what) = if flow.is_on_wire {
        (
            "lost at most",
            "counted; deviation and percentiles by references",
        )
    } else {
        ("lost", "exact, by stamps")
    };
    let headings = format!(" | packets | bytes | {lost} | mean | stddev");
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
    let _ = writeln!(text, "  {what}:");
    indent(text, &table(&headings, rows));
    if let Some(quantiles) = &flow.quantiles {
        let (epoch, percentiles) = (flow.last_epoch, percentiles(quantiles));
        let _ = writeln!(text, "    epoch {epoch}: {percentiles}");
    }
    let nothing = if flow.is_on_wire {
        "nothing"
    } else {
        "nothing (measurement.lds with its decode, and measurement.rli, estimate flows)"
    };
    let estimated = (flow.estimate.as_ref()).map_or_else(|| nothing.to_owned(), words);
    let _ = writeln!(text, "  estimated: {estimated}");
    if let Some(running) = &flow.running {
        let (first, epochs) = (flow.first_epoch, running.epochs);
        let mean = mean_words(running.mean_ns, Some(running.bound_ns));
        let packets = count(running.packets);
        let _ = writeln!(
            text,
            "  since epoch {first}: {mean}; {epochs} epochs, {packets} packets"
        );
    }
    let chosen = flow.estimate.as_ref();
    for other in (flow.estimates.iter()).filter(|one| Some(*one) != chosen) {
        let mean = mean_words(other.mean_ns, other.bound_ns);
        let (method, truth) = (other.method.label(), truth_words(other));
        let _ = writeln!(text, "       also: {mean} ({method}){truth}");
    }
    if let Some(references) = &flow.references {
        describe_references(text, references, flow);
    }
}

fn describe_references(text: &mut String, references: &FlowReferences, flow: &Flow) {
    let headings = " | packets | mean | +-98% | stddev";
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
    let _ = writeln!(text, "  by references ({}):", references.method.label());
    indent(text, &table(headings, last.into_iter().chain([total])));
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

fn describe_sketched(text: &mut String, sketched: &SketchedFlow) {
    let _ = writeln!(
        text,
        "{}: not tracked; by the sketch\n  packets: at most {}, lost: at most {}",
        sketched.segment.title(),
        count(sketched.packets_max),
        count(sketched.lost_packets_max),
    );
    if let Some(estimate) = &sketched.estimate {
        let _ = writeln!(text, "  estimated: {}", words(estimate));
    }
}

fn describe_on_wire(text: &mut String, end_unix_s: Option<f64>, on_wire: &WireFlow) {
    let WireFlow { flow, is_counted } = on_wire;
    let how = if *is_counted {
        format!("its last packet {} ago", uptime(ago_s(end_unix_s, flow)))
    } else {
        "by the sketch alone: at most so many packets".to_owned()
    };
    let _ = writeln!(text, "{}: on the wire, {how}", flow.segment_title());
    describe(text, flow);
}

/// An estimate in words: mean, bound, method, and what it rests on.
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

/// How the exact mean compares.
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

/// The last buckets of a course.
fn history(course: &Course) -> String {
    let headings = "from (UTC) | packets | lost | mean | stddev | p99 max | max | estimate | +-98%";
    let first = course.buckets.len().saturating_sub(BUCKETS_MAX);
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
    let mut text = format!("  by {} s:\n", course.width_s);
    indent(&mut text, &table(headings, rows));
    text
}

/// `14:03:20`, of a time since 1970.
fn clock(unix_s: f64) -> String {
    let second = unix_s.rem_euclid(86_400.0).floor();
    let (hours, minutes) = ((second / 3_600.0).floor(), (second / 60.0).floor() % 60.0);
    format!("{hours:02}:{minutes:02}:{:02}", second % 60.0)
}

fn indent(text: &mut String, table: &str) {
    for line in table.lines() {
        let _ = writeln!(text, "    {line}");
    }
}

#[cfg(test)]
mod tests;
