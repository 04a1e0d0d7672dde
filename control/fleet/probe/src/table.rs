//! A result as a table.

use std::fmt::Write;

use crate::clock::ClockState;
use crate::result::{Delays, OneWay, SessionResult};

/// The table of one session.
pub fn of(result: &SessionResult) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write(&mut text, result);
    text
}

fn write(text: &mut String, result: &SessionResult) -> std::fmt::Result {
    let SessionResult { id, counts, .. } = result;
    let to = id.to;
    let percent = counts.lost as f64 * 100.0 / counts.sent.max(1) as f64;
    writeln!(
        text,
        "{to}: {} sent, {} answered, {} lost ({percent:.1} %), {} duplicates, {} reordered",
        counts.sent, counts.received, counts.lost, counts.duplicates, counts.reordered
    )?;
    let not_sent = because("not sent", result.not_sent_for.as_deref());
    let why = result.rejected_for.as_deref().unwrap_or_default();
    let others = [
        (counts.late, format!("{} late", counts.late)),
        (counts.not_sent, format!("{} {not_sent}", counts.not_sent)),
        (
            counts.unusable,
            format!("{} without usable times", counts.unusable),
        ),
        (counts.rejected, rejected(counts.rejected, why)),
    ];
    for (_, words) in others.iter().filter(|(count, _)| *count > 0) {
        writeln!(text, "{words}")?;
    }
    if let Some(why) = &result.unreachable {
        writeln!(text, "not delivered: {why}")?;
    }
    if result.round_trip.is_none() {
        return Ok(());
    }
    writeln!(text)?;
    let rows = [
        ("forward", result.forward),
        ("backward", result.backward),
        ("round trip", result.round_trip),
    ];
    let rows = rows
        .into_iter()
        .filter_map(|(name, delays)| Some(row(name, &delays?)));
    let heads = HEADS.map(str::to_owned);
    let rows: Vec<_> = std::iter::once(heads).chain(rows).collect();
    for row in &rows {
        for (column, cell) in row.iter().enumerate() {
            let longest = rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
            match column {
                0 => write!(text, "{cell:<longest$}")?,
                _ => write!(text, "{cell:>0$}", longest + 2)?,
            }
        }
        writeln!(text)?;
    }
    notes(text, result)
}

/// How many replies were rejected, and why.
pub fn rejected(count: u64, why: &str) -> String {
    let replies = if count == 1 { "reply" } else { "replies" };
    because(&format!("{count} {replies} rejected"), Some(why))
}

fn because(what: &str, why: Option<&str>) -> String {
    match why {
        Some(why) if !why.is_empty() => format!("{what}: {why}"),
        _ => what.to_owned(),
    }
}

const HEADS: [&str; 8] = [
    "us",
    "packets",
    "mean",
    "deviation",
    "least",
    "p50",
    "p99",
    "max",
];

fn row(name: &str, delays: &Delays) -> [String; 8] {
    let us = |ns: f64| format!("{:.1}", ns / 1e3);
    [
        name.to_owned(),
        delays.samples.to_string(),
        us(delays.mean_ns),
        us(delays.deviation_ns),
        us(delays.min_ns as f64),
        us(delays.p50_ns),
        us(delays.p99_ns),
        us(delays.max_ns as f64),
    ]
}

fn notes(text: &mut String, result: &SessionResult) -> std::fmt::Result {
    writeln!(text)?;
    match (result.one_way, result.clocks.offset_ns) {
        (OneWay::Absolute, _) => {
            let other = result.reflector_clock.map_or(0.0, |clock| clock.error_ns);
            let error_us = (result.sender_clock.error_ns + other) / 1e3;
            writeln!(
                text,
                "Both clocks are synchronised: one-way delays are right to {error_us:.1} us."
            )?;
        }
        (OneWay::Relative, Some(offset_ns)) => writeln!(
            text,
            "The clocks are not known to be synchronised: one-way delays have their offset in them, about {:.1} us \
             if both directions take equally long.",
            offset_ns / 1e3
        )?,
        (OneWay::Relative, None) => {}
    }
    if result.clocks.state == ClockState::SenderStepped {
        writeln!(text, "The clock of this machine was set meanwhile.")?;
    }
    if let Some(stamps) = result.stamps {
        let name = |stamped| {
            let name = serde_json::to_value(stamped).ok();
            name.and_then(|name| name.as_str().map(str::to_owned))
                .unwrap_or_default()
        };
        let (sent, received) = (name(stamps.sent), name(stamps.received));
        writeln!(text, "Timestamps: {sent} (sent), {received} (received).")?;
    }
    let Some(said) = &result.extensions else {
        return Ok(());
    };
    let json = serde_json::to_string(said).unwrap_or_default();
    writeln!(text, "The reflector says: {json}")
}
