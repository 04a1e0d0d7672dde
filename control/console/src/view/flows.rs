//! Flows as plain text: a table of many, and everything about one.

use std::fmt::Write;

use super::{known, table};
use contract::units::{bytes, count, duration_ns, uptime};
use records::answers::FlowPage;
use records::history::{Bucket, Course};
use records::snapshot::{
    AskedWireFlow, Flow, FlowAnswer, FlowEstimate, FlowFigures, FlowMethod, SketchedFlow, title,
};

/// Buckets of a course that are shown: two minutes of ten seconds each.
const BUCKETS_MAX: usize = 12;

/// Headings of the flows' table.
pub(crate) const FLOW_HEADINGS: [&str; 9] = [
    "flow", "segment", "packets", "lost", "mean", "stddev", "estimate", "+-98%", "ago",
];

/// A page of flows: figures of the last epoch of each, and how many there are.
pub fn flows(page: &FlowPage) -> String {
    let rows = page.flows.iter().map(|flow| flow_row(page.epoch, flow));
    let mut text = table(&FLOW_HEADINGS, rows);
    let (from, shown) = (page.offset, page.flows.len() as u64);
    let _ = match (shown, page.matching) {
        (_, 0) => writeln!(text, "no flow"),
        (0, all) => writeln!(text, "{all} flows, none from {from} on"),
        (_, all) => writeln!(text, "{} to {} of {all} flows", from + 1, from + shown),
    };
    text
}

/// The cells of a flow's row.
pub(crate) fn flow_row(epoch: Option<u64>, flow: &Flow) -> [String; 9] {
    let estimate = flow.estimate.as_ref();
    let bound_ns = estimate.and_then(|estimate| estimate.bound_ns);
    let FlowFigures {
        packets,
        lost_packets,
        mean_ns,
        stddev_ns,
        ..
    } = flow.last;
    let delay = |ns| known((packets > 0).then_some(ns), duration_ns);
    [
        flow.flow.clone(),
        flow.segment_title(),
        count(packets),
        count(lost_packets),
        delay(mean_ns),
        delay(stddev_ns),
        known(estimate, |estimate| duration_ns(estimate.mean_ns)),
        known(bound_ns, duration_ns),
        uptime(ago_s(epoch, flow)),
    ]
}

/// Seconds from a flow's last epoch to the last one that closed.
fn ago_s(epoch: Option<u64>, flow: &Flow) -> f64 {
    let epochs = (flow.last_epoch + 1)
        .saturating_sub(flow.first_epoch)
        .max(1);
    let interval_s = (flow.last_seen_unix_s - flow.first_seen_unix_s) / epochs as f64;
    let since = epoch.unwrap_or(0).saturating_sub(flow.last_epoch);
    since as f64 * interval_s.max(0.0)
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
        let ago = uptime(ago_s(answer.epoch, &tracked.flow));
        let _ = writeln!(
            text,
            "\n{}: tracked, its last packet {ago} ago",
            tracked.flow.segment_title()
        );
        describe(&mut text, &tracked.flow);
        let course = tracked
            .courses
            .iter()
            .find(|course| course.width_s == width_s);
        if let Some(course) = course {
            text += &history(course);
        } else {
            let words = "no history: it has no series of its own (prometheus.pinned gives it one)";
            let _ = writeln!(text, "  {words}");
        }
    }
    for flow in &answer.ended {
        let ago = uptime(ago_s(answer.epoch, flow));
        let _ = writeln!(
            text,
            "\n{}: no longer tracked; it ended {ago} ago, with",
            flow.segment_title()
        );
        describe(&mut text, flow);
    }
    for sketched in &answer.sketched {
        text.push('\n');
        describe_sketched(&mut text, sketched);
    }
    for wire in &answer.wires {
        text.push('\n');
        describe_on_wire(&mut text, wire);
    }
    if answer.tracked.is_empty() && answer.sketched.is_empty() {
        let _ = writeln!(text, "\n{unknown}");
    }
    text
}

/// Everything about a tracked flow except its name and its course.
pub(crate) fn flow_words(flow: &Flow) -> String {
    let mut text = format!("  {}\n", flow.segment_title());
    describe(&mut text, flow);
    text
}

fn describe(text: &mut String, flow: &Flow) {
    let headings = ["", "packets", "bytes", "lost", "mean", "stddev"];
    let row = |name: &str, figures: &FlowFigures| {
        [
            name.to_owned(),
            count(figures.packets),
            bytes(figures.bytes),
            count(figures.lost_packets),
            duration_ns(figures.mean_ns),
            duration_ns(figures.stddev_ns),
        ]
    };
    let rows = [
        row(&format!("epoch {}", flow.last_epoch), &flow.last),
        row(&format!("since epoch {}", flow.first_epoch), &flow.total),
    ];
    *text += "  exact, by stamps:\n";
    indent(text, &table(&headings, rows.into_iter()));
    match &flow.estimate {
        Some(estimate) => {
            let _ = writeln!(text, "  estimated: {}", words(estimate));
        }
        None => *text += "  estimated: nothing (measurement.lds and its decode estimate flows)\n",
    }
    if let Some(mean_ns) = flow.rli_mean_ns {
        let mean = duration_ns(mean_ns);
        let _ = writeln!(
            text,
            "  by references (RLI): mean {mean} since epoch {}",
            flow.first_epoch
        );
    }
}

fn describe_sketched(text: &mut String, sketched: &SketchedFlow) {
    let SketchedFlow {
        ingress,
        egress,
        class,
        ..
    } = sketched;
    let _ = writeln!(
        text,
        "{}: not tracked; by the sketch\n  packets: at most {}, lost: at most {}",
        title(ingress, egress, class),
        count(sketched.packets_max),
        count(sketched.lost_packets_max),
    );
    if let Some(estimate) = &sketched.estimate {
        let _ = writeln!(text, "  estimated: {}", words(estimate));
    }
}

fn describe_on_wire(text: &mut String, asked: &AskedWireFlow) {
    let AskedWireFlow {
        from,
        to,
        epoch,
        is_counted,
        lost_packets_max,
        stddev_ns,
        flow,
    } = asked;
    let at_most = if *is_counted { "" } else { "at most " };
    let _ = writeln!(
        text,
        "{}: on the wire, in epoch {epoch} of the sender\n  packets: {at_most}{}, lost: {}",
        title(from, to, &flow.class),
        count(flow.packets),
        known(*lost_packets_max, |lost| format!("at most {}", count(lost))),
    );
    let chosen = flow.estimate.as_ref();
    let others = flow.estimates.iter().filter(|one| Some(*one) != chosen);
    let estimates = chosen.map(|one| ("estimated", one)).into_iter();
    for (word, estimate) in estimates.chain(others.map(|one| ("     also", one))) {
        let mean = duration_ns(estimate.mean_ns);
        let bound = bound_words(estimate.bound_ns);
        let _ = writeln!(text, "  {word}: mean {mean} {bound} ({})", estimate.method);
    }
    if let Some(stddev_ns) = stddev_ns {
        let _ = writeln!(text, "  stddev: {} (rli-s)", duration_ns(*stddev_ns));
    }
}

/// An estimate in words: mean, bound, method, and what it rests on.
fn words(estimate: &FlowEstimate) -> String {
    let mean = duration_ns(estimate.mean_ns);
    let bound = bound_words(estimate.bound_ns);
    let method = match estimate.method {
        FlowMethod::LdsJoint => "jointly with all flows",
        FlowMethod::LdsJointSum => "jointly with all flows, from the sum of epochs",
        FlowMethod::LdsPaper => "by the LDS paper's estimator",
        FlowMethod::LdsPrior => "from the other flows, because it has no usable cell",
    };
    let label = estimate.method.label();
    let epochs = match estimate.epochs {
        1 => format!("epoch {}", estimate.epoch),
        number => format!("{number} epochs up to {}", estimate.epoch),
    };
    let packets = count(estimate.packets);
    let truth = match estimate.is_within_bound {
        Some(true) => "; the exact mean is within",
        Some(false) => "; the exact mean is OUTSIDE",
        None => "",
    };
    format!("mean {mean} {bound}, {method} ({label}); {epochs}, {packets} packets{truth}")
}

fn bound_words(bound_ns: Option<f64>) -> String {
    match bound_ns {
        Some(bound_ns) => format!("+- {} (98 %)", duration_ns(bound_ns)),
        None => "of unknown error".to_owned(),
    }
}

/// The last buckets of a course.
fn history(course: &Course) -> String {
    let headings = [
        "from (UTC)",
        "packets",
        "lost",
        "mean",
        "stddev",
        "estimate",
        "+-98%",
    ];
    let first = course.buckets.len().saturating_sub(BUCKETS_MAX);
    let rows = course.buckets.iter().skip(first).map(|bucket| {
        let Bucket {
            start_unix_s,
            packets,
            lost_packets,
            mean_ns,
            stddev_ns,
            estimated_mean_ns,
            bound_ns,
            ..
        } = *bucket;
        [
            clock(start_unix_s),
            count(packets),
            count(lost_packets),
            known((packets > 0).then_some(mean_ns), duration_ns),
            known((packets > 0).then_some(stddev_ns), duration_ns),
            known(estimated_mean_ns, duration_ns),
            known(bound_ns, duration_ns),
        ]
    });
    let mut text = format!("  by {} s:\n", course.width_s);
    indent(&mut text, &table(&headings, rows));
    text
}

/// `14:03:20`, of a time since 1970.
fn clock(unix_s: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "seconds of a day; casts saturate"
    )]
    let second = unix_s.rem_euclid(86_400.0) as u32;
    let (hours, minutes) = (second / 3_600, second / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}", second % 60)
}

fn indent(text: &mut String, table: &str) {
    for line in table.lines() {
        let _ = writeln!(text, "    {line}");
    }
}

#[cfg(test)]
mod tests;
