use locate::Rise;
use proptest::prelude::*;
use report::msp::Quantiles;
use testkit::golden::kept;

use super::*;

const SECOND: u64 = 1_000_000_000;

/// Later than the end of every report here.
const STORED_NS: u64 = 10_000 * SECOND;

fn report(incarnation: u64, epoch: u64, packets: u64) -> Report {
    Report {
        version_major: 1,
        switch: "a".to_owned(),
        incarnation,
        epoch,
        epochs: 1,
        start_unix_ns: (1_000 + epoch) * SECOND,
        length_ns: SECOND,
        names: ["p", "q", "all", "stamped"].map(str::to_owned).to_vec(),
        segments: vec![msp::Segment {
            from: 0,
            to: 1,
            class: 2,
            method: 3,
            packets,
            samples: packets,
            mean_ns: 100.0,
            stddev_ns: Some(10.0),
            bound_ns: Some(0.0),
            ..msp::Segment::default()
        }],
        ..Report::default()
    }
}

/// Returns the packets in closed minutes and in the open one.
fn packets(state: &State, minutes: &[Minute]) -> u64 {
    let closed = minutes.iter().flat_map(|minute| &minute.segments);
    let closed: u64 = closed.map(|segment| segment.sums.packets).sum();
    let open = state.segments.iter().filter_map(|known| known.open);
    closed + open.map(|sums| sums.packets).sum::<u64>()
}

#[test]
fn gaps_restarts_and_duplicates_are_known_apart() {
    let mut state = State::default();
    for epoch in [0, 1, 4] {
        let report = report(7, epoch, 1);
        state.take(&report, report.end_unix_ns());
    }
    assert_eq!((state.missed_epochs, state.gaps.len()), (2, 1));
    assert_eq!((state.gaps[0].first, state.gaps[0].last), (2, 3));
    assert_eq!(state.gaps[0].end_unix_ns, 1_004 * SECOND);
    // A report that covers several epochs leaves no gap.
    let mut wide = report(7, 6, 1);
    wide.epochs = 2;
    state.take(&wide, wide.end_unix_ns());
    assert_eq!(state.missed_epochs, 2);
    let anew = report(8, 0, 1);
    state.take(&anew, 1_010 * SECOND);
    assert_eq!((state.restarts, state.missed_epochs), (1, 2));
    // A repeated report of the previous run.
    assert_eq!(
        state.take(&report(7, 6, 1), 1_011 * SECOND),
        Taken::Duplicate
    );
    assert_eq!((state.reports, state.duplicates), (5, 1));
}

#[test]
fn a_minute_leaves_when_the_next_begins() {
    let mut state = State::default();
    let mut minutes = Vec::new();
    for epoch in 0..100 {
        let report = report(7, epoch, epoch);
        if let Taken::Counted(Some(minute)) = state.take(&report, report.end_unix_ns()) {
            minutes.push(minute);
        }
    }
    // From 1,001 s to 1,100 s: minutes 16 to 18.
    let numbers: Vec<u64> = minutes.iter().map(|minute| minute.minute).collect();
    assert_eq!(numbers, [16, 17]);
    assert_eq!(packets(&state, &minutes), (0..100).sum::<u64>());
    let sums = &minutes[1].segments[0].sums;
    assert!((sums.sum_ns / sums.samples as f64 - 100.0).abs() < 1e-9);
    assert_eq!(state.names, ["p", "q", "all", "stamped"]);
}

/// A report of run 7 whose clock is correct but for `off_s` seconds.
fn dated(epoch: u64, off_s: i64) -> (Report, u64) {
    let mut report = report(7, epoch, 1);
    report.start_unix_ns = (1_000_000 + epoch) * SECOND;
    let stored_unix_ns = report.end_unix_ns() + SECOND / 100;
    report.start_unix_ns = report
        .start_unix_ns
        .saturating_add_signed(off_s.saturating_mul(1_000_000_000));
    (report, stored_unix_ns)
}

#[test]
fn a_wrong_clock_costs_neither_history_nor_minutes() {
    const DAY_S: i64 = 86_400;
    // Ahead, behind, and 1970; for one report, and for all from there on.
    for off_s in [DAY_S, -DAY_S, -1_000_000] {
        for wrong in [100..101, 100..100 + 600] {
            let mut state = State::default();
            let mut minutes = Vec::new();
            for epoch in 0..700 {
                let off_s = if wrong.contains(&epoch) { off_s } else { 0 };
                let (mut report, stored_unix_ns) = dated(epoch, off_s);
                // A segment without news for a while.
                if epoch == 0 {
                    let idle = msp::Segment {
                        from: 1,
                        to: 0,
                        ..report.segments[0].clone()
                    };
                    report.segments.push(idle);
                }
                if let Taken::Counted(Some(minute)) = state.take(&report, stored_unix_ns) {
                    minutes.push(minute);
                }
                assert!(
                    state.end_unix_ns.abs_diff(stored_unix_ns) <= 2 * SECOND,
                    "{off_s} {epoch}"
                );
            }
            let numbers: Vec<u64> = minutes.iter().map(|minute| minute.minute).collect();
            // From 1,000,001 s to 1,000,700 s.
            assert!(
                numbers.iter().copied().eq(16_666..=16_677),
                "{off_s}: {numbers:?}"
            );
            assert_eq!(packets(&state, &minutes), 701, "{off_s}");
            assert_eq!(state.segments.len(), 2, "{off_s}: the idle one is there");
        }
    }
}

#[test]
fn a_stored_state_of_tomorrow_heals() {
    let (report, stored_unix_ns) = dated(0, 0);
    let tomorrow_ns = stored_unix_ns + 86_400 * SECOND;
    let mut state = State::default();
    state.take(&report, tomorrow_ns);
    // As stored by an earlier version.
    state.end_unix_ns = tomorrow_ns;
    state.minute = tomorrow_ns / MINUTE_NS;
    state.segments[0].end_unix_ns = tomorrow_ns;
    let mut minutes = Vec::new();
    for epoch in 1..200 {
        let (report, stored_unix_ns) = dated(epoch, 0);
        if let Taken::Counted(Some(minute)) = state.take(&report, stored_unix_ns) {
            minutes.push(minute.minute);
        }
        assert!(state.end_unix_ns <= stored_unix_ns);
        assert!(state.segments[0].end_unix_ns <= stored_unix_ns);
    }
    assert_eq!(minutes[1..], [16_666, 16_667, 16_668]);
}

proptest! {
    /// However often and from wherever reports are read again in order, each counts once.
    #[test]
    fn what_is_taken_up_again_counts_once(
        epochs in 1_u64..200, starts in prop::collection::vec(0_u64..200, 0..5), restart in 0_u64..200,
    ) {
        let all: Vec<Report> = (0..epochs)
            .map(|n| if n < restart { report(1, n, n + 1) } else { report(2, n - restart, n + 1) })
            .collect();
        let mut state = State::default();
        let mut minutes = Vec::new();
        let mut read = |from: u64, until: u64| {
            for n in from..until {
                if let Taken::Counted(Some(minute)) = state.take(&all[usize::try_from(n).unwrap()], STORED_NS) {
                    minutes.push(minute);
                }
            }
        };
        let mut reached = 0;
        for start in starts {
            let end = (start + 30).min(epochs);
            read(start.min(reached), end.max(reached));
            reached = reached.max(end);
        }
        read(reached, epochs);
        prop_assert_eq!(state.reports, epochs);
        prop_assert_eq!(state.missed_epochs, 0);
        prop_assert_eq!(packets(&state, &minutes), (1..=epochs).sum::<u64>());
    }
}

/// A report with as many segments as allowed, and other segments in every report.
fn many(epoch: u64, segments: u32) -> Report {
    let names: Vec<String> = (0..segments)
        .map(|n| format!("{epoch:08}-{n:08}-{}", "x".repeat(120)))
        .collect();
    let segment = |from| msp::Segment {
        from,
        to: segments - 1 - from,
        packets: 1,
        samples: 1,
        ..msp::Segment::default()
    };
    Report {
        names,
        segments: (0..segments).map(segment).collect(),
        ..report(7, epoch, 1)
    }
}

#[test]
fn a_reporter_keeps_no_more_than_its_limits_and_the_newest_stay() {
    let mut state = State::default();
    for epoch in 0..4 {
        let report = many(epoch, 25_000);
        state.take(&report, report.end_unix_ns());
        assert!(state.segments.len() <= SEGMENTS_MAX);
        assert!(state.encoded_len() <= BYTES_MAX, "{}", state.encoded_len());
    }
    assert!(state.evicted_segments > 0);
    let newest = state.segments.iter().map(|known| known.end_unix_ns).max();
    let kept = state.segments.iter();
    let kept = kept
        .filter(|known| Some(known.end_unix_ns) == newest)
        .count();
    assert_eq!(kept, 25_000);
    for known in &state.segments {
        assert!(
            state.name(known.last.from).contains("-000"),
            "names are those of the segments"
        );
    }
    assert!(state.names.len() <= 2 * SEGMENTS_MAX);
}

#[test]
fn greatest_numbers_do_not_overflow() {
    let mut state = State::default();
    let mut last = report(7, 0, u64::MAX);
    last.epoch = u64::MAX;
    last.epochs = u64::MAX;
    last.length_ns = u64::MAX;
    state.take(&last, u64::MAX);
    assert_eq!(state.take(&last, u64::MAX), Taken::Duplicate);
    // Another run with the largest number of missing epochs, twice.
    for incarnation in [8, 9] {
        let mut gap = report(incarnation, 0, u64::MAX);
        gap.epoch = u64::MAX;
        gap.epochs = 0;
        state.take(&gap, 0);
    }
    assert_eq!((state.missed_epochs, state.restarts), (u64::MAX, 2));
    let _ = crate::summary::summary(&state, 0);
    let _ = crate::summary::summary(&state, u64::MAX);
}

#[test]
fn a_minute_of_any_size_leaves_in_parts_that_fit() {
    let segments = (0..3_000).map(|n| MinuteSegment {
        kind: 0,
        from: n,
        to: 2_999 - n,
        class: 3_000,
        sums: Sums {
            packets: n.into(),
            ..Sums::default()
        },
    });
    let mut names: Vec<String> = (0..3_000).map(|n| format!("port-{n}")).collect();
    names.push("all".to_owned());
    let minute = Minute {
        switch: "a".to_owned(),
        minute: 7,
        names,
        segments: segments.collect(),
        part: 0,
    };
    let listed = |part: &Minute| -> Vec<_> {
        let name = |index: u32| part.names[index as usize].clone();
        let segments = part.segments.iter();
        segments
            .map(|of| (name(of.from), name(of.to), name(of.class), of.sums.packets))
            .collect()
    };
    let parts = minute.clone().split(10_000);
    assert!(parts.len() > 3);
    for (number, part) in (0..).zip(&parts) {
        assert!(part.encoded_len() <= 10_000);
        assert_eq!((part.part, part.minute, &*part.switch), (number, 7, "a"));
    }
    assert_eq!(
        parts.iter().flat_map(listed).collect::<Vec<_>>(),
        listed(&minute)
    );
    assert_eq!(minute.clone().split(1 << 20), [minute]);
}

/// The first version whose states are still supported.
const OLDEST: &str = "78f1034";

fn sums() -> Sums {
    Sums {
        packets: 6_000,
        lost: -3,
        samples: 5_900,
        sum_ns: 7.5e7,
        squares_ns2: 1.25e12,
        undeviated: 100,
        bounds_ns: 5.9e5,
        unbounded: 50,
        p99_ns: Some(15_360.0),
        max_ns: Some(98_304.0),
    }
}

fn found() -> Found {
    Found {
        present_ns: Some(12_500.0),
        present_error_ns: 12.5,
        present_loss: Some(0.001),
        present_loss_error: 0.000_25,
        usual_ns: Some(11_000.0),
        usual_loss: 0.000_5,
        is_ready: true,
        delay: Some(Rise {
            by: 1_500.0,
            error: 17.5,
            since_ms: 1_700_000_000_001,
        }),
        loss: Some(Rise {
            by: 0.000_5,
            error: 0.000_125,
            since_ms: 1_700_000_000_002,
        }),
        unsynchronised_since_ms: Some(1_700_000_000_003),
        step_since_ms: Some(1_700_000_000_004),
        step_shift_ns: -1e6,
    }
}

fn segments() -> Vec<Known> {
    vec![Known {
        last: msp::Segment {
            kind: 1,
            from: 0,
            to: 1,
            class: 2,
            packets: 1_000,
            lost: -1,
            samples: 990,
            mean_ns: 12_500.5,
            bound_ns: Some(8.0),
            stddev_ns: Some(310.25),
            quantiles: Some(Quantiles {
                min_ns: 900.0,
                max_ns: 1e6,
                p50_ns: 11_264.0,
                p99_ns: 53_248.0,
                p999_ns: 262_144.0,
            }),
            method: 3,
            epoch: Some(1_233),
            bytes: 64_000,
        },
        end_unix_ns: 1_700_000_039_750_000_000,
        open: Some(sums()),
        found: Some(found()),
    }]
}

/// A state with every field.
fn state() -> State {
    State {
        switch: "edge-1.lab_2".to_owned(),
        end_unix_ns: 1_700_000_040_000_000_000,
        runs: vec![
            Run {
                incarnation: 0x0123_4567_89ab_cdef,
                epoch: 1_234,
            },
            Run {
                incarnation: 7,
                epoch: 99,
            },
        ],
        length_ns: 250_000_000,
        health: Some(Health {
            unusable: vec!["link".to_owned()],
            missed_epochs: 17,
            stalled_workers: 1,
            clock: "locked".to_owned(),
            clock_error_ns: 812.5,
            unready: vec!["a worker has stalled".to_owned()],
        }),
        wire_switch: Some(4_000_000_001),
        names: ["lan", "wan", "all", "stamped", "swp7"]
            .map(str::to_owned)
            .to_vec(),
        segments: segments(),
        flows: vec![Flow {
            flow: "10.0.0.1:1024>10.0.0.2:80/tcp".to_owned(),
            from: 0,
            to: 1,
            class: 2,
            packets: 700,
            lost: Some(3),
            mean_ns: Some(12_000.0),
            stddev_ns: Some(99.5),
            p99_ns: Some(15_000.0),
        }],
        neighbours: vec![Neighbour {
            port: 1,
            peer_switch: 5,
            peer_port: 4,
            session: "established".to_owned(),
            system: Some("leaf-3".to_owned()),
        }],
        reports: 1_200,
        duplicates: 4,
        missed_epochs: 35,
        dropped_reports: 21,
        restarts: 1,
        gaps: vec![Gap {
            first: 10,
            last: 44,
            end_unix_ns: 1_700_000_000_000_000_000,
        }],
        received_unix_ns: 1_700_000_040_001_000_000,
        minute: 28_333_334,
        node: Some("fra-1".to_owned()),
        sequence: 987_654,
        ..State::default()
    }
}

fn minute() -> Minute {
    Minute {
        switch: "edge-1.lab_2".to_owned(),
        minute: 28_333_333,
        names: ["lan", "wan", "all"].map(str::to_owned).to_vec(),
        segments: vec![MinuteSegment {
            kind: 3,
            from: 0,
            to: 1,
            class: 2,
            sums: sums(),
        }],
        part: 0,
    }
}

#[test]
fn a_state_that_an_earlier_station_stored_is_read_as_it_was_meant() {
    let bytes = kept(OLDEST, "state.bin", || state().encode_to_vec()).unwrap();
    let mut read = State::decode(&*bytes).unwrap();
    assert_eq!(read, state());
    // Every field is known to this version, so an earlier station can read what this one writes back.
    assert_eq!(read.encode_to_vec(), bytes);

    // Counting continues: counted reports are known, and the next epoch leaves no gap.
    let next = |epoch| Report {
        switch: read.switch.clone(),
        incarnation: 0x0123_4567_89ab_cdef,
        start_unix_ns: 1_700_000_040_000_000_000,
        length_ns: 250_000_000,
        ..report(0, epoch, 5)
    };
    let [again, next] = [next(1_234), next(1_235)];
    let stored = |report: &Report| report.end_unix_ns() + 1_000_000;
    assert_eq!(read.take(&again, stored(&again)), Taken::Duplicate);
    assert_eq!(read.take(&next, stored(&next)), Taken::Counted(None));
    assert_eq!(
        (read.reports, read.missed_epochs, read.restarts),
        (1_201, 35, 1)
    );
    assert_eq!(read.segments[0].open, Some(sums()), "of another kind");
    assert_eq!(read.segments.len(), 2);
}

#[test]
fn a_minute_that_an_earlier_station_stored_is_read_as_it_was_meant() {
    let bytes = kept(OLDEST, "minute.bin", || minute().encode_to_vec()).unwrap();
    let read = Minute::decode(&*bytes).unwrap();
    assert_eq!(read, minute());
    assert_eq!(read.segments[0].kind(), Kind::Probe);
    assert_eq!(read.encode_to_vec(), bytes);
}

/// Stations of different versions share keys and partitions.
#[test]
fn keys_and_owners_are_those_of_the_first_version() {
    assert_eq!(crate::values::key("a.b_c"), "$KV.vernier_switches.30.a=b_c");
    let alive = ["0123456789abcdef", "fedcba9876543210"].map(str::to_owned);
    let owned = crate::members::owned(&alive[0], &alive);
    let bits = owned
        .iter()
        .fold(0_u64, |bits, partition| bits | 1 << partition);
    assert_eq!(bits, 0x2482_e8df_4379_87b6, "{bits:#018x}");
}
