//! A snapshot with something in every field, for the tests of all views.

use super::*;
use crate::counters::DropReason;

impl Snapshot {
    /// Two ports, patched; `east>west` has an estimate, `west>east` has seen no packet.
    pub(crate) fn example() -> Self {
        Self {
            switch: "demo".to_owned(),
            version: "0.1.0".to_owned(),
            hash_version: 1,
            state: State::Running,
            measuring: true,
            epoch: Some(81),
            epoch_end_unix_s: Some(1_700_000_000.25),
            interval_ms: 250,
            uptime_s: 20.5,
            segments: vec![busy_segment(), silent_segment()],
            ports: vec![port("east"), port("west")],
            workers: vec![Worker {
                passes: 1_000_000,
                idle_passes: 900_000,
                busy_ratio: 0.25,
                busy_s: 5.125,
                poll_gap_max_ns: 62_500.0,
                missed_epochs: 1,
            }],
            pool: Some(Pool {
                used: 1_200,
                size: 65_535,
            }),
        }
    }
}

fn busy_segment() -> Segment {
    let counts = Counts {
        sent_packets: 20_000,
        sent_bytes: 7_200_000,
        received_packets: 19_988,
        received_bytes: 7_195_000,
        dropped_packets: 12,
        late_packets: 0,
    };
    let stamped = Stamped {
        mean_ns: 412_300.0,
        stddev_ns: 310_500.0,
        min_ns: 1_100.0,
        max_ns: 2_790_000.0,
        p50_ns: 340_000.0,
        p90_ns: 850_000.0,
        p99_ns: 1_400_000.0,
    };
    let lda = Estimate {
        mean_ns: 410_250.0,
        bound_ns: 7_400.0,
        stddev_ns: Some(305_000.0),
        stddev_paper_ns: Some(331_000.0),
        effective_samples: 10_912,
        usable_cells: 1_009,
        cells: 1_024,
        lost_packets: 11.0,
        error_ratio: Some(-0.004_972),
        is_within_bound: true,
    };
    Segment {
        ingress: "east".to_owned(),
        egress: "west".to_owned(),
        class: "all".to_owned(),
        last: Some(EpochFigures {
            epoch: 81,
            counts,
            stamped: Some(stamped),
            lda: Some(lda),
        }),
        total: Totals {
            counts,
            delay_sum_s: 8.241,
            delay_squared_sum_s2: 0.005,
            octaves: vec![
                Octave {
                    le_ns: 64,
                    packets: 3,
                },
                Octave {
                    le_ns: 128,
                    packets: 4,
                },
                Octave {
                    le_ns: 1 << 20,
                    packets: 19_980,
                },
                Octave {
                    le_ns: 1 << 40,
                    packets: 1,
                },
            ],
            unusable_epochs: UnusableEpochs {
                missed_shard: 1,
                too_few_cells: 2,
            },
            estimated_epochs: 79,
            within_bound_epochs: 78,
        },
    }
}

fn silent_segment() -> Segment {
    Segment {
        ingress: "west".to_owned(),
        egress: "east".to_owned(),
        class: "all".to_owned(),
        ..Segment::default()
    }
}

fn port(name: &str) -> Port {
    let drops = DropReason::ALL.map(|reason| Labelled {
        label: reason.label().to_owned(),
        packets: if reason == DropReason::QueueFull {
            12
        } else {
            0
        },
    });
    Port {
        name: name.to_owned(),
        facts: PortFact {
            driver: "net_null".to_owned(),
            is_up: true,
            ..PortFact::default()
        },
        rx_packets: 1_640_000,
        rx_bytes: 590_400_000,
        tx_packets: 1_639_000,
        tx_bytes: 590_100_000,
        queued_packets: 37,
        rx_pps: 80_123.0,
        tx_pps: 79_987.0,
        drops: drops.to_vec(),
        kinds: vec![
            Labelled {
                label: "tcp".to_owned(),
                packets: 1_600_000,
            },
            Labelled {
                label: "udp".to_owned(),
                packets: 40_000,
            },
        ],
        ..Port::default()
    }
}
