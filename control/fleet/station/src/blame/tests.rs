use records::station::PathBlame;
use report::msp::{Health, Neighbour, Quantiles, Report, Segment};

use locate::{Found, Rise};

use super::*;
use crate::path::Network;

const END_NS: u64 = 1_700_000_001_000_000_000;
const NOW_NS: u64 = END_NS + 500_000_000;
const NAMES: [&str; 9] = [
    "p", "q", "p:peer", "q:peer", "all", "gold", "lda", "s1", "s3",
];

/// A switch whose port `p` is wired to `q` of the previous switch, and `q` to `p` of the next. Each segment has its
/// kind, its ends and class, its usual delay, and the size of its rise.
fn switch(number: u32, segments: &[(Kind, [u32; 3], f32, f32)]) -> State {
    let neighbour = |port, peer_switch| Neighbour {
        port,
        peer_switch,
        peer_port: 1 - port,
        session: "established".to_owned(),
        system: None,
    };
    let reported = segments
        .iter()
        .map(|&(kind, [from, to, class], usual, by)| Segment {
            kind: kind.into(),
            from,
            to,
            class,
            packets: 100,
            samples: 100,
            mean_ns: usual + by,
            stddev_ns: Some(3.0),
            quantiles: Some(Quantiles {
                p99_ns: 9.0 * usual,
                ..Quantiles::default()
            }),
            method: 6,
            ..Segment::default()
        });
    let report = Report {
        switch: format!("s{number}"),
        incarnation: 1,
        epochs: 1,
        start_unix_ns: END_NS - 1_000_000_000,
        length_ns: 1_000_000_000,
        health: Some(Health::default()),
        names: NAMES.map(str::to_owned).to_vec(),
        segments: reported.collect(),
        neighbours: vec![neighbour(0, number - 1), neighbour(1, number + 1)],
        wire_switch: Some(number),
        ..Report::default()
    };
    let mut state = State::default();
    state.take(&report, END_NS);
    for (known, &(_, _, usual, by)) in state.segments.iter_mut().zip(segments) {
        known.found = Some(Found {
            present_ns: Some(usual + by),
            present_error_ns: usual / 1_000.0,
            present_loss: Some(0.0),
            usual_ns: Some(usual),
            is_ready: true,
            delay: (by > 0.0).then_some(Rise {
                by,
                error: usual / 1_000.0,
                since_ms: 1_700_000_000_000,
            }),
            ..Found::default()
        });
    }
    state
}

const INSIDE: (Kind, [u32; 3], f32, f32) = (Kind::Inside, [0, 1, 4], 1_000.0, 0.0);
const WIRE: (Kind, [u32; 3], f32, f32) = (Kind::Wire, [2, 0, 4], 5_000.0, 0.0);

fn risen(
    (kind, names, usual, _): (Kind, [u32; 3], f32, f32),
    by: f32,
) -> (Kind, [u32; 3], f32, f32) {
    (kind, names, usual, by)
}

fn path(states: &[State], from: &str, to: &str) -> PathBlame {
    let paths = Network::new(states, None, NOW_NS)
        .paths(from, to, None)
        .unwrap();
    let blamed = Blamer::new(states, NOW_NS, |_| true).paths(&paths);
    assert_eq!(blamed.paths.len(), 1);
    blamed.paths.into_iter().next().unwrap()
}

#[test]
fn a_probe_from_end_to_end_stands_beside_the_sum() {
    let probe = (Kind::Probe, [7, 8, 4], 13_000.0, 40_000.0);
    let states = [
        switch(1, &[INSIDE, probe]),
        switch(2, &[risen(INSIDE, 10_000.0), risen(WIRE, 30_000.0)]),
        switch(3, &[INSIDE, WIRE]),
    ];
    let path = path(&states, "s1:p", "s3:q");
    let titles: Vec<&str> = path.chain.iter().map(|hop| hop.title.as_str()).collect();
    assert_eq!(titles[1..3], ["s1:q > s2:p", "s2: p>q"]);
    assert_eq!(path.chain[1].p99_ns, Some(45_000.0));
    let whole = path.end_to_end.unwrap();
    assert_eq!(whole.title, "s1 > s3");
    assert!((path.sum.unwrap().mean_ns - 53_000.0).abs() < 1.0);
    assert!(path.difference_ns.unwrap().abs() < 1.0);
    assert_eq!(path.is_difference_explained, Some(true));
    assert_eq!(path.unexplained_share, Some(0.0));
    let causes: Vec<(&str, f64)> = path
        .causes
        .iter()
        .map(|cause| (cause.title.as_str(), cause.share_percent.round()))
        .collect();
    assert_eq!(causes, [("s1:q > s2:p", 75.0), ("s2: p>q", 25.0)]);
}

#[test]
fn a_part_that_nobody_measures_is_suspected_where_the_sum_lacks_the_rise() {
    let probe = (Kind::Probe, [7, 8, 4], 13_000.0, 40_000.0);
    let states = [
        switch(1, &[INSIDE, probe]),
        switch(2, &[INSIDE]),
        switch(3, &[INSIDE, WIRE]),
    ];
    let path = path(&states, "s1:p", "s3:q");
    assert!(path.causes.is_empty() && path.sum.is_none());
    assert_eq!(path.unexplained_share, Some(1.0));
    let [uncovered] = &path.uncovered[..] else {
        panic!("{path:?}")
    };
    assert_eq!(uncovered.title, "s1:q > s2:p");
    assert!(uncovered.is_suspect && !uncovered.cover.is_empty());
}

/// Of several segments that form one hop, the segment that rose is named, with its contribution.
#[test]
fn where_segments_are_joined_the_one_that_rose_is_named() {
    let gold = (Kind::Inside, [0, 1, 5], 1_000.0, 60_000.0);
    let states = [switch(1, &[INSIDE, gold]), switch(2, &[INSIDE, WIRE])];
    let path = path(&states, "s1", "s2:q");
    let level = path.chain[0].level.unwrap();
    assert!((level.mean_ns - 31_000.0).abs() < 1.0, "{level:?}");
    let [cause] = &path.causes[..] else {
        panic!("{path:?}")
    };
    assert_eq!(cause.title, "s1: p>q gold");
    assert!((cause.rise - 60_000.0).abs() < 1.0);
    assert!((cause.share_percent - 100.0).abs() < 1e-9);
    let all = Blamer::new(&states, NOW_NS, |_| true).all(Some("all"), 9);
    assert_eq!((all.segments, all.matching), (3, 0));
}

#[test]
fn the_worst_comes_first_and_faults_of_measuring_are_none_of_the_network() {
    let mut lossy = switch(2, &[risen(INSIDE, 4_000.0), risen(WIRE, 8_000.0)]);
    lossy.segments[0].found.as_mut().unwrap().loss = Some(Rise {
        by: 0.01,
        error: 0.001,
        since_ms: 1_700_000_000_000,
    });
    let mut silent = switch(3, &[risen(INSIDE, 4_000.0), risen(WIRE, 8_000.0)]);
    silent.received_unix_ns -= 3_600_000_000_000;
    let mut free = switch(1, &[INSIDE]);
    free.health.as_mut().unwrap().clock = "free".to_owned();
    free.neighbours[1].session = "lost".to_owned();
    let states = [free, lossy, silent];
    let all = Blamer::new(&states, NOW_NS, |_| true).all(None, 2);
    let worst: Vec<(&str, &str)> = all
        .risen
        .iter()
        .map(|risen| (risen.title.as_str(), risen.signal.as_str()))
        .collect();
    // The clock at the wire's other end is free-running, so the wire's delay is not reported.
    assert_eq!(worst, [("s2: p>q", "loss"), ("s2: p>q", "delay")]);
    let faults: Vec<(&str, &str)> = all
        .faults
        .iter()
        .map(|fault| (fault.place.as_str(), fault.what.as_str()))
        .collect();
    assert_eq!(
        faults,
        [
            ("s1", "clock_unsynchronised"),
            ("s1:q - s2:p", "wire_session"),
            ("s3", "silent"),
        ]
    );
    let path = path(&states, "s1:p", "s2:q");
    assert_eq!(path.faults[0].what, "clock_unsynchronised");
    assert_eq!(path.faults[0].place, "s1:q > s2:p");
    assert!(path.causes.iter().all(|cause| cause.title == "s2: p>q"));
}
