//! A result as a table for people.

use std::fmt::Write;

use crate::offset::ClockState;
use crate::result::{Counts, Delays, OneWay, SessionResult};

/// The table of one session.
pub fn of(result: &SessionResult) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write(&mut text, result);
    text
}

fn write(text: &mut String, result: &SessionResult) -> std::fmt::Result {
    let SessionResult { to, counts, .. } = result;
    let Counts {
        sent,
        received,
        lost,
        duplicates,
        reordered,
        ..
    } = counts;
    let percent = *lost as f64 * 100.0 / (*sent).max(1) as f64;
    writeln!(
        text,
        "{to}: {sent} sent, {received} answered, {lost} lost ({percent:.1} %), {duplicates} duplicates, {reordered} reordered"
    )?;
    let others = [
        (counts.late, "late"),
        (counts.not_sent, "not sent"),
        (counts.unusable, "without usable times"),
        (counts.rejected, "rejected"),
    ];
    for (count, what) in others {
        if count > 0 {
            writeln!(text, "{count} {what}")?;
        }
    }
    if result.round_trip.is_none() {
        return Ok(());
    }
    writeln!(
        text,
        "\n{:<11}{:>9}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}",
        "us", "packets", "mean", "deviation", "least", "p50", "p99", "max"
    )?;
    row(text, "forward", result.forward)?;
    row(text, "backward", result.backward)?;
    row(text, "round trip", result.round_trip)?;
    notes(text, result)
}

fn row(text: &mut String, name: &str, delays: Option<Delays>) -> std::fmt::Result {
    let Some(delays) = delays else {
        return Ok(());
    };
    write!(text, "{name:<11}{:>9}", delays.samples)?;
    let values = [
        delays.mean_ns,
        delays.deviation_ns,
        delays.min_ns as f64,
        delays.p50_ns,
        delays.p99_ns,
        delays.max_ns as f64,
    ];
    for ns in values {
        write!(text, "{:>12.1}", ns / 1e3)?;
    }
    writeln!(text)
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
