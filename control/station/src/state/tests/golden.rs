//! States and minutes that earlier stations stored.

use report::msp::Quantiles;
use testkit::golden::kept;

use super::*;
use crate::found::Raised;

/// The first version whose states are kept.
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
        delay: Some(Raised {
            by: 1_500.0,
            error: 17.5,
            since_ms: 1_700_000_000_001,
        }),
        loss: Some(Raised {
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
    // Nothing of it is unknown to this version: an earlier station reads what this one writes back.
    assert_eq!(read.encode_to_vec(), bytes);

    // It is gone on with: what was counted is known, and the next epoch leaves no gap.
    let next = |epoch| Report {
        switch: read.switch.clone(),
        incarnation: 0x0123_4567_89ab_cdef,
        start_unix_ns: 1_700_000_040_000_000_000,
        length_ns: 250_000_000,
        ..super::report(0, epoch, 5)
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
