use futures_util::FutureExt;
use report::msp::{self, Report};

use super::*;
use crate::simulated::{Fault, Server};
use crate::store::STATES;

/// Largest message of a server with a small limit.
const BYTES_MAX: usize = 64 << 10;

const SWITCH: &str = "edge-1.lab";

/// Completes a future that never waits.
fn done<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().unwrap()
}

fn entry(server: &Server) -> Entry {
    let partition = subject::partition(SWITCH);
    let values = done(server.last(STATES, format!("{KEY}{partition}.>"))).unwrap();
    entries(values).remove(SWITCH).unwrap_or_default()
}

/// Takes an epoch with `segments` segments.
fn take(entry: &mut Entry, epoch: u64, segments: u32) {
    let names: Vec<String> = (0..=segments).map(|n| format!("port-{n}")).collect();
    let segment = |to| msp::Segment {
        to,
        packets: epoch,
        samples: 1,
        ..msp::Segment::default()
    };
    let report = Report {
        switch: SWITCH.to_owned(),
        epoch,
        epochs: 1,
        start_unix_ns: epoch * 3_700_000_000_000,
        length_ns: 1,
        names,
        segments: (1..=segments).map(segment).collect(),
        ..Report::default()
    };
    entry.state.take(&report, report.end_unix_ns());
}

#[test]
fn states_of_any_size_are_stored_and_read_again() {
    let server = Server::new(BYTES_MAX, 0);
    let mut written = Entry::default();
    for (epoch, segments) in (1..).zip([3, 5_000, 5_001, 9_000, 2, 2, 4_000]) {
        take(&mut written, epoch, segments);
        done(written.write(&server)).unwrap();
        let read = entry(&server);
        assert_eq!(read.state, written.state);
        // Segments that are no longer reported stay for an hour.
        if epoch == 6 {
            assert_eq!(read.state.segments.len(), 2, "it is small again");
        }
        // The next owner continues.
        written = read;
    }
    assert_eq!(server.lock().refused, 0);
}

#[test]
fn a_writer_that_dies_at_any_write_leaves_the_state_before_or_after() {
    let server = Server::new(BYTES_MAX, 0);
    let mut first = Entry::default();
    take(&mut first, 1, 5_000);
    done(first.write(&server)).unwrap();
    for fault in [Fault::Lost, Fault::Unanswered] {
        for nth in 1..40 {
            let mut dying = entry(&server);
            let before = dying.state.clone();
            take(
                &mut dying,
                before.runs[0].epoch + 1,
                5_000 + u32::try_from(nth).unwrap(),
            );
            server.lock().faults = vec![(nth, fault)];
            let died = done(dying.write(&server)).is_err();
            server.lock().faults.clear();
            let read = entry(&server);
            assert_eq!(read.state.set_aside, 0, "{fault:?} {nth}");
            assert!(
                read.state == before || read.state == dying.state,
                "{fault:?} {nth}"
            );
            assert!(died || read.state == dying.state);
            // The next owner can write.
            let mut next = entry(&server);
            take(&mut next, read.state.runs[0].epoch + 1, 5_000);
            done(next.write(&server)).unwrap();
        }
    }
}

#[test]
fn of_two_writers_one_is_overtaken_and_nothing_is_mixed() {
    let server = Server::new(BYTES_MAX, 0);
    let mut first = Entry::default();
    take(&mut first, 1, 5_000);
    done(first.write(&server)).unwrap();
    for segments in [3, 6_000] {
        let [mut one, mut other] = [(); 2].map(|()| entry(&server));
        let epoch = one.state.runs[0].epoch + 1;
        take(&mut one, epoch, 6_000);
        take(&mut other, epoch, segments);
        done(one.write(&server)).unwrap();
        let overtaken = done(other.write(&server)).unwrap_err();
        assert!(matches!(overtaken, PutError::Overtaken(_)), "{overtaken:?}");
        assert_eq!(entry(&server).state, one.state);
    }
}

#[test]
fn what_cannot_be_read_is_set_aside_and_named_and_the_next_report_begins_anew() {
    let server = Server::new(BYTES_MAX, 0);
    let mut other = Entry::default();
    take(&mut other, 1, 3);
    other.state.switch = "edge-2".to_owned();
    for (garbage, words) in [
        (b"garbage".to_vec(), "is not a state"),
        (vec![0xff; 300], "is not a state"),
        (other.state.encode_to_vec(), "of another switch"),
    ] {
        server.poke(key(SWITCH), garbage);
        let mut begun = entry(&server);
        assert_eq!((begun.state.reports, begun.state.set_aside), (0, 1));
        let why = &begun.state.set_aside_why;
        assert!(why.contains(words), "{why}");
        take(&mut begun, 7, 3);
        done(begun.write(&server)).unwrap();
        assert_eq!(entry(&server).state.reports, 1);
    }
    // A part is missing.
    let mut large = entry(&server);
    take(&mut large, 8, 5_000);
    done(large.write(&server)).unwrap();
    server.poke(format!("{}.{}.1", key(SWITCH), large.slot), b"x".to_vec());
    assert_eq!(entry(&server).state.set_aside, 1);
    // Keys that belong to no switch.
    for key in [
        "$KV.vernier_switches.x",
        "$KV.vernier_switches.99.edge-1",
        "$KV.vernier_switches.1.\u{1b}",
    ] {
        assert_eq!(switch_of(key), None, "{key}");
    }
}

/// An earlier version reads all values as states.
#[test]
fn an_earlier_station_cannot_take_a_part_for_a_state() {
    let part = Part {
        check: 1,
        bytes: vec![0; 100],
    };
    State::decode(&*part.encode_to_vec()).unwrap_err();
    let part = Part { check: 0, ..part };
    State::decode(&*part.encode_to_vec()).unwrap_err();
    assert_eq!(key("a.b_c"), "$KV.vernier_switches.30.a=b_c");
    let part = format!("{}.1.12", key("a.b_c"));
    assert_eq!(switch_of(&part), Some(("a.b_c".to_owned(), Some((1, 12)))));
    assert_eq!(switch_of(&key("a.b_c")), Some(("a.b_c".to_owned(), None)));
}
