use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::clock::Offset;
use crate::result::{ClockQuality, Counts, SessionId};
use crate::wire::UnixNs;

fn prober() -> Prober {
    Prober {
        incarnation: 7,
        name: "a.probe".to_owned(),
        node: "a".to_owned(),
        clock: Clock {
            error_ns: Some(1_000),
            ..Clock::default()
        },
        intervals: Intervals {
            length: Duration::from_millis(500),
            start: UnixNs(1_700_000_000_000_000_000),
        },
    }
}

fn quality(is_synchronised: bool) -> ClockQuality {
    ClockQuality {
        is_synchronised,
        error_ns: 1_000.0,
    }
}

/// An interval in which every tenth packet is lost, and the others take these times there.
fn result(node: &str, interval: u64, delays_ns: &[i64]) -> SessionResult {
    let answered = delays_ns.len() as u64;
    let lost = answered.div_ceil(9);
    SessionResult {
        id: SessionId {
            name: format!("to-{node}"),
            node: node.to_owned(),
            class: "all".to_owned(),
            from: ([127, 0, 0, 1], 1).into(),
            to: ([127, 0, 0, 1], 2).into(),
            ssid: 1,
            dscp: 0,
        },
        interval,
        start_unix_ms: 0,
        length_ms: Some(500),
        counts: Counts {
            sent: answered + lost,
            received: answered,
            lost,
            ..Counts::default()
        },
        round_trip: Delays::of(delays_ns.iter().map(|ns| 3 * ns)),
        forward: Delays::of(delays_ns.iter().copied()),
        backward: Delays::of(delays_ns.iter().map(|ns| 2 * ns)),
        one_way: OneWay::Absolute,
        sender_clock: quality(true),
        reflector_clock: Some(quality(true)),
        clocks: Offset::default(),
        stamps: None,
        extensions: None,
        rejected_for: None,
        not_sent_for: None,
        unreachable: None,
    }
}

fn segment<'r>(report: &'r Report, kind: Kind, from: &str) -> &'r msp::Segment {
    let mut segments = report.segments.iter();
    let is_it =
        |segment: &&msp::Segment| segment.kind() == kind && report.name(segment.from) == from;
    segments.find(is_it).unwrap()
}

#[test]
fn both_directions_and_the_round_trip_are_segments_with_their_bounds() {
    let report = prober().report(3, &[result("b", 3, &[100, 200, 300])]);
    assert_eq!(
        (report.epoch, report.start_unix_ns),
        (3, 1_700_000_001_500_000_000)
    );
    assert_eq!(
        (report.node.as_deref(), &*report.switch),
        (Some("a"), "a.probe")
    );
    let deviation = (20_000.0_f64 / 3.0).sqrt();
    for (kind, from, factor, error_ns, method) in [
        (Kind::Probe, "a", 1.0, 2_000.0, "one-way"),
        (Kind::Probe, "b", 2.0, 2_000.0, "one-way"),
        (Kind::RoundTrip, "a", 3.0, 0.0, "round-trip"),
    ] {
        let segment = segment(&report, kind, from);
        assert_eq!((segment.packets, segment.lost, segment.samples), (4, 1, 3));
        assert_eq!(report.name(segment.method), method);
        let bound = error_ns + 2.326 * factor * deviation / 3.0_f64.sqrt();
        assert!((f64::from(segment.mean_ns) - 200.0 * factor).abs() < 1e-3);
        assert!((f64::from(segment.bound_ns.unwrap()) - bound).abs() < 1e-2);
        assert!((f64::from(segment.stddev_ns.unwrap()) - factor * deviation).abs() < 1e-2);
    }
    assert_eq!(
        Report::read(&prost::Message::encode_to_vec(&report)).unwrap(),
        report
    );
}

/// The report that the prober of 78f1034 made of these results, kept as it was sent.
#[test]
fn a_report_that_an_earlier_prober_sent_is_read() {
    let made = || {
        let report = prober().report(3, &[result("b", 3, &[100, 200, 300])]);
        prost::Message::encode_to_vec(&report)
    };
    let bytes = testkit::golden::kept("78f1034", "prober.bin", made).unwrap();
    let report = Report::read(&bytes).unwrap();
    assert_eq!(prost::Message::encode_to_vec(&report), bytes);
    assert_eq!(
        (report.node.as_deref(), &*report.switch),
        (Some("a"), "a.probe")
    );
    let there = segment(&report, Kind::Probe, "a");
    assert_eq!(
        (report.name(there.to), report.name(there.method)),
        ("b", "one-way")
    );
    assert_eq!((there.packets, there.lost, there.samples), (4, 1, 3));
    assert!((there.mean_ns - 200.0).abs() < 1e-3 && there.quantiles.is_some());
    let both = segment(&report, Kind::RoundTrip, "a");
    assert!((both.mean_ns - 600.0).abs() < 1e-3);
}

#[test]
fn without_synchronised_clocks_or_with_one_that_was_set_only_the_round_trip_has_delays() {
    let relative = SessionResult {
        one_way: OneWay::Relative,
        reflector_clock: Some(quality(false)),
        ..result("b", 0, &[100, 200])
    };
    let stepped = SessionResult {
        clocks: Offset {
            state: ClockState::ReflectorStepped,
            ..Offset::default()
        },
        ..result("b", 0, &[100, 200])
    };
    for (result, unusable) in [(relative, None), (stepped, Some("reflector_stepped"))] {
        let report = prober().report(0, &[result]);
        for from in ["a", "b"] {
            let segment = segment(&report, Kind::Probe, from);
            assert_eq!((segment.packets, segment.lost, segment.samples), (3, 1, 0));
        }
        assert_eq!(segment(&report, Kind::RoundTrip, "a").samples, 2);
        let health = report.health.unwrap();
        assert_eq!(health.unusable.first().map(String::as_str), unusable);
        assert_eq!(health.clock, "locked");
    }
}

#[test]
fn an_interval_is_reported_when_all_its_results_have_come_and_once() {
    let (mut collector, mut composer) = pair(prober());
    collector.result(result("b", 0, &[100]));
    collector.result(result("b", 1, &[100]));
    collector.closed(0);
    assert_eq!(composer.next(0), None);
    collector.result(result("c", 0, &[100]));
    collector.closed(1);
    let report = composer.next(5).unwrap();
    assert_eq!(
        (report.epoch, report.epochs, report.dropped_reports),
        (0, 1, 5)
    );
    assert_eq!(report.segments.len(), 6);
    assert_eq!(composer.next(0), None);
    // Of an interval without a session there is a report, too.
    collector.closed(3);
    assert_eq!(composer.next(0).unwrap().segments.len(), 3);
    assert_eq!(composer.next(0).unwrap().segments.len(), 0);
    assert_eq!(composer.next(0), None);
}

#[test]
fn what_nobody_fetches_fills_no_memory_and_is_told() {
    let (mut collector, mut composer) = pair(prober());
    let one = result("b", 0, &[100]);
    for interval in 0..=WAITING_MAX as u64 {
        collector.result(SessionResult {
            interval,
            ..one.clone()
        });
        collector.closed(interval + 1);
    }
    let last = WAITING_MAX as u64 + 1;
    collector.result(SessionResult {
        interval: last,
        ..one
    });
    collector.closed(last + 1);
    let report = composer.next(0).unwrap();
    // The epochs before are a gap.
    assert_eq!((report.epoch, report.epochs), (last, 1));
    assert_eq!(report.dropped_reports, last);
    assert_eq!(composer.next(0), None);
}

proptest! {
    /// Several sessions to a node are as one of all their packets.
    #[test]
    fn sessions_to_a_node_are_one_segment(parts in prop::collection::vec(prop::collection::vec(1_i64..10_000_000, 1..20), 1..6)) {
        let results: Vec<_> = parts.iter().map(|part| result("b", 0, part)).collect();
        let report = prober().report(0, &results);
        let all = Delays::of(parts.concat().into_iter()).unwrap();
        let segment = segment(&report, Kind::Probe, "a");
        prop_assert_eq!(report.segments.len(), 3);
        prop_assert_eq!(segment.samples, all.samples);
        prop_assert!((f64::from(segment.mean_ns) - all.mean_ns).abs() <= 1e-6 * all.mean_ns);
        prop_assert!((f64::from(segment.stddev_ns.unwrap()) - all.deviation_ns).abs() <= 1e-3 * all.mean_ns);
        let quantiles = segment.quantiles.unwrap();
        prop_assert_eq!((quantiles.min_ns, quantiles.max_ns), (all.min_ns as f32, all.max_ns as f32));
        prop_assert!(f64::from(quantiles.p99_ns) >= 0.85 * all.p99_ns);
    }
}
