use locate::Found;
use report::msp::Health;

use super::*;

const MINUTES: u64 = 5;
const NAMES: [&str; 5] = ["lan", "wan", "wan:peer", "all", "lda"];

/// A report of a switch with a segment inside and a wire in both directions, whose delays are increased by `added_ns`.
fn report(epoch: u64, clock: &str, added_ns: [f32; 2]) -> Report {
    let noise = (epoch * 7_919 % 101) as f32;
    let segment = |kind: Kind, from, to, mean_ns: f32| Segment {
        kind: kind.into(),
        from,
        to,
        class: 3,
        packets: 1_000,
        samples: 1_000,
        mean_ns: mean_ns + noise,
        bound_ns: Some(20.0),
        ..Segment::default()
    };
    Report {
        switch: "s".to_owned(),
        epoch,
        epochs: 1,
        start_unix_ns: 1_700_000_000_000_000_000 + epoch * 1_000_000_000,
        length_ns: 1_000_000_000,
        health: Some(Health {
            clock: clock.to_owned(),
            ..Health::default()
        }),
        names: NAMES.map(str::to_owned).to_vec(),
        segments: vec![
            segment(Kind::Inside, 0, 1, 2_000.0),
            segment(Kind::Wire, 2, 1, 10_000.0 + added_ns[0]),
            segment(Kind::Wire, 1, 2, 10_000.0 + added_ns[1]),
        ],
        ..Report::default()
    }
}

/// Histories with some minutes of reports, and the state of the switch.
fn history(segments_max: u64) -> (Histories, State) {
    let mut histories = Histories::new(Arc::new(Room::new(segments_max)));
    let mut state = State::default();
    for epoch in 0..60 * MINUTES {
        take(
            &mut histories,
            &mut state,
            &report(epoch, "locked", [0.0; 2]),
        );
    }
    (histories, state)
}

fn take(histories: &mut Histories, state: &mut State, report: &Report) {
    state.take(report, report.end_unix_ns());
    histories.feed(report, report.epoch + 1, report.end_unix_ns());
    histories.note(state);
}

fn founds(state: &State) -> Vec<Found> {
    let known = state.segments.iter();
    known.map(|known| known.found.unwrap()).collect()
}

/// Returns whether the delay of each segment has risen.
fn is_risen(state: &State) -> Vec<bool> {
    let found = founds(state).into_iter();
    found.map(|found| found.delay.is_some()).collect()
}

#[test]
fn a_rise_is_in_the_state_and_another_owner_goes_on() {
    let (mut histories, mut state) = history(10);
    assert!(founds(&state).iter().all(|found| found.is_ready));
    for epoch in 0..3 {
        let report = report(60 * MINUTES + epoch, "locked", [1e5, 0.0]);
        take(&mut histories, &mut state, &report);
    }
    assert_eq!(is_risen(&state), [false, true, false]);

    let mut next = Histories::new(Arc::clone(&histories.room));
    for (switch, heard_ms, bytes) in histories.encoded() {
        assert!(next.restore(switch, state.runs[0].epoch + 1, heard_ms, &bytes));
        assert!(!next.restore(switch, 0, heard_ms, &bytes), "it is known");
    }
    assert_eq!(next.room.segments(), 6);
    drop(histories);
    assert_eq!(next.room.segments(), 3);
    // Reports that the last owner has read are not added twice.
    let before = founds(&state);
    let again = report(60 * MINUTES, "locked", [0.0; 2]);
    next.feed(&again, 60 * MINUTES + 1, again.end_unix_ns());
    next.note(&mut state);
    assert_eq!(founds(&state), before);
    for epoch in 3..8 {
        let report = report(60 * MINUTES + epoch, "locked", [0.0; 2]);
        take(&mut next, &mut state, &report);
    }
    assert_eq!(is_risen(&state), [false; 3]);
}

/// State and histories that a station of 78f1034 stored in the middle of a rise.
#[test]
fn what_an_earlier_station_stored_is_continued() {
    use prost::Message;
    use testkit::golden::kept;

    let stored = || {
        let (mut histories, mut state) = history(10);
        for epoch in 0..3 {
            let report = report(60 * MINUTES + epoch, "locked", [1e5, 0.0]);
            take(&mut histories, &mut state, &report);
        }
        let (_, heard_ms, bytes) = histories.encoded().next().unwrap();
        assert_eq!(heard_ms, 1_700_000_303_000);
        (state.encode_to_vec(), bytes)
    };
    let state = kept("78f1034", "state-in-a-rise.bin", || stored().0).unwrap();
    let locator = kept("78f1034", "locator.bin", || stored().1).unwrap();

    let mut state = State::decode(&*state).unwrap();
    assert_eq!(
        (state.names.len(), state.reports),
        (NAMES.len(), 60 * MINUTES + 3)
    );
    let found = founds(&state);
    let rises = found.iter().map(|found| found.delay);
    let rises: Vec<_> = rises.map(|delay| delay.map(|delay| delay.by)).collect();
    assert!(matches!(rises[..], [None, Some(_), None]), "{rises:?}");
    assert!((rises[1].unwrap() - 1e5).abs() < 1e3, "{rises:?}");

    let mut next = Histories::new(Arc::new(Room::new(10)));
    assert!(next.restore("s", 60 * MINUTES + 3, 1_700_000_303_000, &locator));
    assert_eq!(next.room.segments(), 3);
    next.note(&mut state);
    assert_eq!(
        founds(&state),
        found,
        "what was found, from what was learnt"
    );
    let more = report(60 * MINUTES + 3, "locked", [1e5, 0.0]);
    take(&mut next, &mut state, &more);
    let since = founds(&state)[1].delay.unwrap().since_ms;
    assert_eq!(since, found[1].delay.unwrap().since_ms, "the same rise");
    for epoch in 4..9 {
        let report = report(60 * MINUTES + epoch, "locked", [0.0; 2]);
        take(&mut next, &mut state, &report);
    }
    assert_eq!(is_risen(&state), [false; 3]);
}

#[test]
fn faults_of_clocks_are_no_faults_of_the_network() {
    let (mut histories, mut state) = history(10);
    for epoch in 0..3 {
        let report = report(60 * MINUTES + epoch, "locked", [1e6, -1e6]);
        take(&mut histories, &mut state, &report);
    }
    let found = founds(&state);
    assert!(found.iter().all(|found| found.delay.is_none()), "{found:?}");
    assert_eq!(found[0].step_since_ms, None);
    assert!((found[1].step_shift_ns - 1e6).abs() < 1e4, "{found:?}");
    assert!((found[2].step_shift_ns + 1e6).abs() < 1e4, "{found:?}");

    let report = report(60 * MINUTES + 3, "free", [1e8, 1e8]);
    take(&mut histories, &mut state, &report);
    let found = founds(&state);
    let clocks = found.iter().map(|found| found.unsynchronised_since_ms);
    let since = Some(ms(report.end_unix_ns()));
    assert!(clocks.eq([None, since, since]), "{found:?}");
}

#[test]
fn a_segment_without_packets_is_not_silent_and_one_too_many_is_counted() {
    let (mut histories, mut state) = history(2);
    assert_eq!(histories.room.segments(), 2);
    assert_eq!(histories.room.refused.load(Ordering::Relaxed), 60 * MINUTES);
    assert_eq!(state.segments[2].found, None);
    for epoch in 0..60 {
        let mut report = report(60 * MINUTES + epoch, "locked", [0.0; 2]);
        report.segments.truncate(1);
        take(&mut histories, &mut state, &report);
    }
    let known = &state.segments[1];
    let place = Place {
        state: &state,
        known,
    };
    let finding = place.finding(state.received_unix_ns);
    assert_eq!(finding.silent_since_ms, None);
    // The present delay dates from the last time with packets.
    assert!(finding.found.present_ns > Some(9_000.0));
    let later = state.received_unix_ns + 10_000_000_000;
    let finding = place.finding(later);
    assert_eq!(finding.silent_since_ms, Some(ms(state.end_unix_ns)));

    let switch = state.switch.clone();
    let now_ms = ms(state.end_unix_ns);
    let forgotten = histories.forget(|_| Some(&state), now_ms + FORGET_MS);
    assert_eq!(forgotten, [switch]);
    assert_eq!(histories.room.segments(), 0);
}

/// NATS lost its store: sequences restart at 1, and the histories continue.
#[test]
fn what_is_learnt_goes_on_where_the_stream_begins_anew() {
    let (mut histories, mut state) = history(10);
    let before = 60 * MINUTES;
    for again in 0..4 {
        let report = report(before + again, "locked", [1e5, 0.0]);
        state.take(&report, report.end_unix_ns());
        if again == 0 {
            histories.rewind(1);
        }
        histories.feed(&report, again + 1, report.end_unix_ns());
        histories.note(&mut state);
    }
    assert_eq!(is_risen(&state), [false, true, false]);
}

#[test]
fn one_switch_leaves_room_for_the_others() {
    let room = Arc::new(Room::new(40));
    let mut histories = Histories::new(Arc::clone(&room));
    let mut greedy = report(0, "locked", [0.0; 2]);
    greedy.names.extend((0..100).map(|n| format!("port-{n}")));
    let ports = u32::try_from(greedy.names.len()).unwrap();
    greedy.segments = (0..ports)
        .map(|from| Segment {
            from,
            packets: 1,
            ..Segment::default()
        })
        .collect();
    histories.feed(&greedy, 1, greedy.end_unix_ns());
    assert_eq!(room.segments(), 30);
    let mut honest = report(0, "locked", [0.0; 2]);
    honest.switch = "honest".to_owned();
    histories.feed(&honest, 2, honest.end_unix_ns());
    assert_eq!(room.segments(), 33);
}

#[test]
fn a_wrong_clock_does_not_stop_learning() {
    const DAY_NS: i64 = 86_400_000_000_000;
    // For one report, then for all.
    for off_ns in [DAY_NS, -DAY_NS, i64::MIN / 2] {
        for wrong in [1, u64::MAX] {
            let (mut histories, mut state) = history(10);
            for n in 0..60 {
                let mut report = report(
                    60 * MINUTES + n,
                    "locked",
                    [0.0, if n < 50 { 0.0 } else { 1e5 }],
                );
                let stored_unix_ns = report.end_unix_ns();
                if n < wrong {
                    report.start_unix_ns = report.start_unix_ns.saturating_add_signed(off_ns);
                }
                state.take(&report, stored_unix_ns);
                histories.feed(&report, report.epoch + 1, stored_unix_ns);
                let forgotten = histories.forget(|_| Some(&state), ms(stored_unix_ns));
                assert!(forgotten.is_empty(), "{off_ns} {n}");
                histories.note(&mut state);
            }
            let risen = is_risen(&state);
            assert_eq!(risen, [false, false, true], "{off_ns} {wrong}");
        }
    }
}

#[test]
fn what_was_learnt_of_tomorrow_is_learnt_anew() {
    let (histories, mut state) = history(10);
    let mut next = Histories::new(Arc::clone(&histories.room));
    for (switch, heard_ms, bytes) in histories.encoded() {
        assert!(next.restore(switch, 0, heard_ms, &bytes));
    }
    drop(histories);
    for n in 0..60 * MINUTES + 3 {
        let added_ns = if n < 60 * MINUTES { 0.0 } else { 1e5 };
        let mut report = report(n, "locked", [0.0, added_ns]);
        report.start_unix_ns -= 86_400_000_000_000;
        let stored_unix_ns = report.end_unix_ns();
        report.epoch += 60 * MINUTES;
        state.take(&report, stored_unix_ns);
        next.feed(&report, report.epoch + 1, stored_unix_ns);
        next.note(&mut state);
        assert_eq!(next.room.segments(), 3);
    }
    assert_eq!(is_risen(&state), [false, false, true]);
}

fn part(written_ms: u64, number: u32, parts: u32) -> Part {
    Part {
        written_ms,
        number,
        parts,
        bytes: vec![u8::try_from(number).unwrap(); 2],
        ..Part::default()
    }
}

/// The history of a switch, as a station of 78f1034 stored it in two parts.
#[test]
fn parts_that_an_earlier_station_stored_are_read_as_they_were_meant() {
    let parts = [0, 1].map(|number| Part {
        switch: "edge-1.lab_2".to_owned(),
        sequence: 987_654,
        written_ms: 1_700_000_000_001,
        heard_ms: 1_700_000_000_000,
        number,
        parts: 2,
        bytes: vec![0x5a; 3 + number as usize],
    });
    for (meant, name) in parts.iter().zip(["part-0.bin", "part-1.bin"]) {
        let bytes = testkit::golden::kept("78f1034", name, || meant.encode_to_vec()).unwrap();
        let read = Part::decode(&*bytes).unwrap();
        assert_eq!(read, *meant);
        assert_eq!(read.encode_to_vec(), bytes);
    }
    assert_eq!(whole(parts.to_vec()).unwrap().bytes, [0x5a; 7]);
    assert_eq!(key("a.b_c", 1), "$KV.vernier_located.30.a=b_c.1");
}

#[test]
fn only_parts_of_one_time_are_a_whole() {
    let bytes = |parts: &[(u64, u32, u32)]| {
        let parts = parts.iter();
        let parts = parts.map(|&(written, number, of)| part(written, number, of));
        whole(parts.collect()).map(|whole| whole.bytes)
    };
    assert_eq!(bytes(&[(5, 1, 2), (5, 0, 2)]), Some(vec![0, 0, 1, 1]));
    assert_eq!(bytes(&[(5, 0, 1)]), Some(vec![0, 0]));
    // The history used to be larger.
    assert_eq!(bytes(&[(5, 0, 1), (4, 1, 2)]), Some(vec![0, 0]));
    // Its writer was stopped.
    assert_eq!(bytes(&[(6, 0, 2), (5, 1, 2)]), None);
    assert_eq!(bytes(&[(5, 1, 2)]), None);
    assert_eq!(bytes(&[(5, 0, 3), (5, 2, 3)]), None);
    assert_eq!(bytes(&[]), None);
}
