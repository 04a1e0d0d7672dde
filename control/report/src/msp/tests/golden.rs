//! Reports that earlier versions sent.

use testkit::golden::kept;

use super::*;

/// The first version whose reports are kept.
const OLDEST: &str = "78f1034";

fn segments() -> Vec<Segment> {
    vec![
        Segment {
            kind: 0,
            from: 0,
            to: 1,
            class: 4,
            packets: 1_000_000,
            lost: 12,
            samples: 999_988,
            mean_ns: 12_500.5,
            bound_ns: Some(0.0),
            stddev_ns: Some(310.25),
            quantiles: Some(Quantiles {
                min_ns: 900.0,
                max_ns: 1e6,
                p50_ns: 11_264.0,
                p99_ns: 53_248.0,
                p999_ns: 262_144.0,
            }),
            method: 5,
            epoch: Some(1_234_566),
            bytes: 64_000_000,
        },
        Segment {
            kind: 1,
            from: 2,
            to: 1,
            class: 3,
            packets: 900,
            lost: -2,
            samples: 800,
            mean_ns: -1_250.75,
            bound_ns: Some(950.5),
            stddev_ns: Some(42.0),
            quantiles: None,
            method: 6,
            epoch: Some(99),
            bytes: 0,
        },
        Segment {
            kind: 2,
            from: 1,
            to: 0,
            class: 3,
            packets: 5,
            ..Segment::default()
        },
    ]
}

/// A report with every field of minor version 2.
fn of_minor_version_2() -> Report {
    Report {
        version_major: 1,
        version_minor: 2,
        switch: "edge-1.lab_2".to_owned(),
        incarnation: 0x0123_4567_89ab_cdef,
        epoch: 1_234_567,
        epochs: 3,
        start_unix_ns: 1_700_000_000_123_000_000,
        length_ns: 250_000_000,
        health: Some(Health {
            unusable: vec!["link".to_owned(), "missed_shard".to_owned()],
            missed_epochs: 17,
            stalled_workers: 1,
            clock: "locked".to_owned(),
            clock_error_ns: 812.5,
            unready: vec!["a worker has stalled".to_owned()],
        }),
        names: [
            "lan", "wan", "wan:peer", "all", "gold", "stamped", "lda", "swp7",
        ]
        .map(str::to_owned)
        .to_vec(),
        segments: segments(),
        flows: vec![Flow {
            flow: "10.0.0.1:1024>10.0.0.2:80/tcp".to_owned(),
            from: 0,
            to: 1,
            class: 4,
            packets: 700,
            lost: Some(3),
            mean_ns: Some(12_000.0),
            stddev_ns: Some(99.5),
            p99_ns: Some(15_000.0),
        }],
        neighbours: vec![
            Neighbour {
                port: 1,
                peer_switch: 4_000_000_000,
                peer_port: 1,
                session: "established".to_owned(),
                system: None,
            },
            Neighbour {
                port: 0,
                peer_switch: 0,
                peer_port: 7,
                session: String::new(),
                system: Some("leaf-3".to_owned()),
            },
        ],
        wire_switch: Some(4_000_000_001),
        dropped_reports: 21,
        node: Some("fra-1".to_owned()),
    }
}

#[test]
fn a_report_of_minor_version_2_is_read_as_it_was_meant() {
    let meant = of_minor_version_2();
    let bytes = kept(OLDEST, "report.bin", || meant.encode_to_vec()).unwrap();
    let read = Report::read(&bytes).unwrap();
    assert_eq!(read, meant);
    let kinds = read.segments.iter().map(Segment::kind);
    assert!(kinds.eq([Kind::Inside, Kind::Wire, Kind::Around]));
    // Nothing of it is unknown to this version.
    assert_eq!(read.encode_to_vec(), bytes);
}

/// An older station counts a report's reader by its major version only: what this version sends, it reads.
#[test]
fn reports_still_have_the_first_major_version() {
    assert_eq!(VERSION_MAJOR, 1);
}
