//! Segments on the wire, as tables.

use std::fmt::Write;

use super::{Page, Table, known};
use contract::units::{count, duration_ns, rate};
use records::answers::Wires;
use records::snapshot::{Wire, WireClock, WireLda, WireSegment};

/// Headings of the sessions' table.
pub(crate) const WIRE_HEADINGS: &str =
    "port | session | peer | control | of share | withheld | disbelieved";

/// Headings of the table of both directions.
pub(crate) const WIRE_SEGMENT_HEADINGS: &str =
    "segment | epoch | sent | lost | mean | +-98% | stddev | by | samples | state";

const WIRES: Table = Table::new(
    WIRE_HEADINGS,
    &["withheld", "of share", "disbelieved", "control"],
);

const WIRE_SEGMENTS: Table = Table::new(
    WIRE_SEGMENT_HEADINGS,
    &["epoch", "by", "samples", "stddev", "sent"],
);

/// Both directions of every segment on the wire, the sessions, and the clock.
pub fn wires(page: &mut Page, wires: &Wires) {
    let Some(clock) = &wires.clock else {
        return page.say("no port has a segment on the wire\n");
    };
    page.say(&(clock_words(clock) + "\n\n"));
    page.table(&WIRES, wires.wires.iter().map(wire_row));
    for wire in &wires.wires {
        let looped = if wire.is_blocked {
            "looped to this same switch, or two switches have the same number: no data passes"
        } else {
            "its own hellos return through the routers, and no peer answers: data passes"
        };
        let is_looped = wire.is_blocked || wire.session == "loop";
        let clocks = wire.contradiction.as_ref();
        let notes = [
            Some(lda_words(&wire.lda)),
            wire.mismatch.clone(),
            offset_words(wire),
            clocks.map(|contradiction| format!("CLOCKS: {contradiction}")),
            is_looped.then(|| looped.to_owned()),
        ];
        for note in notes.into_iter().flatten() {
            let _ = writeln!(page, "{}: {note}", wire.port);
        }
    }
    page.say("\n");
    let segments = wires.wires.iter().flat_map(|wire| &wire.segments);
    page.table(&WIRE_SEGMENTS, segments.map(wire_segment_row));
}

pub(crate) fn clock_words(clock: &WireClock) -> String {
    let (state, source, error) = (
        &clock.state,
        &clock.error_source,
        duration_ns(clock.error_ns),
    );
    let (offset, domain) = (clock.tai_utc_s, clock.ptp_domain);
    let mut words = format!(
        "clock {state}, {source} error {error}, TAI - UTC = {offset} s, PTP domain {domain}"
    );
    if let Some(step_ns) = clock.last_step_ns {
        let (times, last) = (clock.steps, duration_ns(step_ns));
        let _ = write!(words, "; set {times} times, last by {last}");
    }
    words
}

/// The interval of the other end's clock offset; `None` if neither end of the interval is known.
fn offset_words(wire: &Wire) -> Option<String> {
    let [least, most] = [wire.offset_min_ns, wire.offset_max_ns].map(|ns| ns.map(duration_ns));
    let between = match (least, most) {
        (Some(least), Some(most)) => format!("{least} to {most}"),
        (Some(least), None) => format!("{least} or more"),
        (None, Some(most)) => format!("{most} or less"),
        (None, None) => return None,
    };
    Some(format!(
        "offset of the peer's clock by the least delays: {between}"
    ))
}

fn lda_words(lda: &WireLda) -> String {
    let banks = lda.banks.iter();
    let banks = banks.map(|bank| format!("{} rows {:.3} %", bank.rows, bank.probability * 100.0));
    let banks = banks.collect::<Vec<_>>().join(", ");
    match lda.prepared_losses {
        Some(losses) => format!("LDA for {losses:.0} lost packets an epoch samples: {banks}"),
        None => format!("LDA samples: {banks}"),
    }
}

pub(crate) fn wire_row(wire: &Wire) -> [String; 7] {
    let peer = wire.peer.as_ref();
    let used = wire.control_bps / wire.share_bps.max(1.0) * 100.0;
    let rejected = wire.total.disbelieved_frames.iter();
    [
        wire.port.clone(),
        wire.session.clone(),
        known(peer, |peer| format!("{}/{}", peer.switch, peer.port_name)),
        format!("{}bit/s", rate(wire.control_bps)),
        format!("{used:.0} %"),
        count(wire.total.references_withheld),
        count(rejected.map(|one| one.packets).sum()),
    ]
}

pub(crate) fn wire_segment_row(segment: &WireSegment) -> [String; 10] {
    let last = segment.last.as_ref();
    let chosen = last.and_then(|last| last.chosen.as_ref());
    // Totals, if no epoch has figures.
    let (sent_packets, lost_packets) = match last {
        Some(last) => (last.sent_packets, last.lost_packets),
        None => (Some(segment.sent_packets), Some(segment.lost_packets)),
    };
    [
        segment.title(),
        known(last, |last| last.epoch.to_string()),
        known(sent_packets, count),
        known(lost_packets, |lost| lost.to_string()),
        known(chosen, |one| duration_ns(one.mean_ns)),
        known(chosen.and_then(|one| one.bound_ns), duration_ns),
        known(last.and_then(|last| last.stddev_ns), duration_ns),
        known(chosen, |one| one.method.clone()),
        known(chosen.and_then(|one| one.effective_samples), count),
        known(segment.fate.as_ref(), String::clone),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use records::snapshot::Snapshot;

    fn text(snapshot: &Snapshot) -> String {
        Page::plain(false, |page| wires(page, &Wires::from(snapshot)))
    }

    #[test]
    fn both_directions_have_a_row_and_faults_are_named() {
        let mut snapshot = Snapshot::example();
        let shown = text(&snapshot);
        for expected in [
            "clock locked, estimated error 1.2",
            "west: offset of the peer's clock by the least delays: -47.9 us to 52.1 us",
            "TAI - UTC = 37 s, PTP domain 24; set 1 times, last by -4.00 ms",
            "west>west:peer",
            "west:peer>west",
            "rli-s",
            "72 %",
            "west: LDA for 812 lost packets an epoch samples: 96 rows 2.410 %, 96 rows 5.300 %, 832 rows",
            "established",
        ] {
            assert!(shown.contains(expected), "{expected:?} in\n{shown}");
        }
        let wire = &mut snapshot.wires[0];
        wire.mismatch = Some("the ends have different seeds".to_owned());
        wire.contradiction = Some("at least one is wrong".to_owned());
        wire.offset_min_ns = None;
        wire.is_blocked = true;
        wire.peer = None;
        wire.lda.prepared_losses = None;
        for segment in &mut wire.segments {
            segment.last = None;
            segment.fate = Some("mismatch".to_owned());
        }
        snapshot.wires.push(snapshot.wires[0].clone());
        "loop".clone_into(&mut snapshot.wires[1].session);
        snapshot.wires[1].is_blocked = false;
        "east".clone_into(&mut snapshot.wires[1].port);
        let shown = text(&snapshot);
        for expected in [
            "east: its own hellos return through the routers",
            "west: the ends have different seeds\n",
            "west: CLOCKS: at least one is wrong\n",
            "west: offset of the peer's clock by the least delays: 52.1 us or less",
            "west: LDA samples: 96 rows",
            "west: looped to this same switch",
            "mismatch\n",
        ] {
            assert!(shown.contains(expected), "{expected:?} in\n{shown}");
        }
        let none = text(&Snapshot::default());
        assert_eq!(none, "no port has a segment on the wire\n");
    }
}
