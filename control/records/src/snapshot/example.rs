//! A snapshot with something in every field, for the tests of all views.

use std::net::Ipv4Addr;

use contract::counters::{ClassReading, DropReason, QueueReading, WorkerReading};
use contract::fdb::FdbStats;
use measure::packet::FlowKey;

#[allow(
    clippy::wildcard_imports,
    reason = "an example of every record; the lint is silent in test builds"
)]
use super::*;
use crate::history::History;

impl Snapshot {
    /// Two ports, patched; `east>west` has an estimate, `west>east` has seen no packet.
    pub fn example() -> Self {
        Self {
            switch: "demo".to_owned(),
            version: "0.1.0".to_owned(),
            hash_version: 1,
            state: State::Running,
            measuring: true,
            epoch: Some(81),
            epoch_end_unix_s: Some(1_700_000_000.25),
            clock: Clock {
                steps: 1,
                last_step_s: -3_600.5,
            },
            interval_ms: 250,
            uptime_s: 20.5,
            exceptions: Exceptions {
                backward_packets: 4,
                outlived_packets: 9,
            },
            contained_panics: 0,
            segments: vec![busy_segment(), silent_segment()],
            ports: vec![port("east"), port("west")],
            workers: vec![Worker {
                counts: WorkerReading {
                    passes: 1_000_000,
                    idle_passes: 900_000,
                    generation: 1,
                    busy_packets: 3_280_000,
                    ring_packets: 5,
                },
                busy_ratio: 0.25,
                busy_s: 5.125,
                poll_gap_max_ns: 62_500.0,
                missed_epochs: 1,
                is_stalled: false,
                cycles_per_packet: 187.5,
                bursts: bursts(),
                references: References {
                    injected: 32_800,
                    received: 32_790,
                    left_out: 10,
                    overflowed_packets: 3,
                    late_estimates: 2,
                },
            }],
            pools: vec![Pool {
                name: "node0".to_owned(),
                used: 1_200,
                size: 65_535,
            }],
            fdb: Some(Fdb {
                entries: 2_000,
                capacity: 65_536,
                stats: FdbStats {
                    moves: 7,
                    overflows: 0,
                    replica_overflows: 3,
                    evictions: 12,
                    replica_evictions: 2,
                    limited: 40,
                    reports_lost: 1,
                    restarts: 0,
                },
            }),
            sketches: vec![Sketch {
                port: "west".to_owned(),
                epoch: 81,
                cells: 70_000,
                filled_cells: 35_000,
                usable_cells: 34_965,
                mean_ns: Some(412_290.0),
                error_ratio: Some(-0.000_024),
            }],
            flows: Some(flows()),
            wires: vec![wire()],
            wire_clock: Some(WireClock {
                state: "locked".to_owned(),
                error_ns: 1_250.0,
                fit_error_ns: 250.0,
                tai_utc_s: 37,
                ptp_domain: 24,
                steps: 1,
                last_step_ns: Some(-4_000_000.0),
            }),
            generation: 1,
            reload: Some(Reload {
                number: 2,
                outcome: ReloadOutcome::Done,
                message: "measurement.lds.cells".to_owned(),
            }),
            config: None,
        }
    }
}

/// `west` measures a link; what leaves was reported, what arrives measured.
fn wire() -> Wire {
    let counts = |counts: &[(&str, u64)]| -> Vec<Labelled> {
        let labelled = |&(label, packets): &(&str, u64)| Labelled {
            label: label.to_owned(),
            packets,
        };
        counts.iter().map(labelled).collect()
    };
    let estimate = |method: &str, mean_ns, bound_ns, samples| WireEstimate {
        method: method.to_owned(),
        mean_ns,
        bound_ns: Some(bound_ns),
        effective_samples: Some(samples),
    };
    let (lda, rli) = (
        estimate("lda", 52_400.0, 3_100.0, 9_800),
        estimate("rli-s", 52_150.0, 2_501.0, 19_900),
    );
    let incoming = WireSegment {
        from: "west:peer".to_owned(),
        to: "west".to_owned(),
        class: "all".to_owned(),
        is_incoming: true,
        sent_packets: 1_600_000,
        received_packets: 1_599_200,
        lost_packets: 800,
        lost_packets_max: 801,
        epochs: counts(&[("usable", 78), ("clock", 1), ("no_fragments", 1)]),
        fate: Some("usable".to_owned()),
        last: Some(WireFigures {
            epoch: 5_080,
            sent_packets: Some(20_000),
            received_packets: Some(19_990),
            lost_packets: Some(10),
            moved_packets: 3,
            stddev_ns: Some(4_800.0),
            usable_cells_ratio: 0.985,
            estimates: vec![lda.clone(), rli.clone()],
            chosen: Some(rli.clone()),
        }),
    };
    let outgoing = WireSegment {
        from: "west".to_owned(),
        to: "west:peer".to_owned(),
        is_incoming: false,
        ..incoming.clone()
    };
    Wire {
        port: "west".to_owned(),
        session: "established".to_owned(),
        mismatch: None,
        is_blocked: false,
        peer: Some(WirePeer {
            switch: 2,
            port: 1,
            port_name: "trunk".to_owned(),
            clock: "locked".to_owned(),
            clock_error_ns: 1_000,
            tai_utc_s: 37,
            ptp_domain: 24,
        }),
        share_bps: 50_000_000.0,
        control_bps: 36_000_000.0,
        total: WireTotals {
            sent_frames: counts(&[("hello", 21), ("marker", 243), ("fragment", 9_000)]),
            believed_frames: counts(&[("hello", 20), ("marker", 240), ("fragment", 8_990)]),
            disbelieved_frames: counts(&[("tag", 2), ("replayed", 1)]),
            sent_bytes: 90_000_000,
            reference_bytes: 22_000_000,
            data_bytes: 24_000_000_000,
            references_withheld: 12,
            events: counts(&[("session_begun", 1), ("packet_moved_to_later", 40)]),
        },
        floor_ns: Some(47_900.0),
        floor_step_ns: Some(-3_000.0),
        drift_ns_per_s: Some(12.5),
        segments: vec![outgoing, incoming],
        flows: Some(WireFlows {
            epoch: 5_080,
            number: 1_200,
            other_packets: 5,
            duration_s: 0.012,
            top: vec![WireFlow {
                flow: "10.0.0.1:5000>10.0.1.9:443/tcp".to_owned(),
                class: "all".to_owned(),
                packets: 2_500,
                estimate: Some(estimate("hybrid", 51_900.0, 2_700.0, 2_500)),
                estimates: vec![
                    estimate("joint", 52_300.0, 4_100.0, 2_500),
                    estimate("hybrid", 51_900.0, 2_700.0, 2_500),
                ],
            }],
        }),
    }
}

fn bursts() -> Vec<Bursts> {
    let sizes = [
        Some(1),
        Some(2),
        Some(4),
        Some(8),
        Some(16),
        Some(32),
        Some(64),
        None,
    ];
    let bursts = [90_000, 4_000, 3_000, 2_000, 500, 400, 99, 1];
    sizes
        .into_iter()
        .zip(bursts)
        .map(|(le_packets, bursts)| Bursts { le_packets, bursts })
        .collect()
}

fn flows() -> Flows {
    let untracked = [("no_free_slot", 40), ("no_place", 2), ("not_reported", 0)];
    Flows {
        totals: FlowTotals {
            tracked: 50_000,
            slots: 65_536,
            free_slots: 15_500,
            new: 50_100,
            expired: 100,
            evicted: 0,
            untracked: untracked
                .map(|(label, packets)| Labelled {
                    label: label.to_owned(),
                    packets,
                })
                .to_vec(),
            folded: 49_999,
        },
        top: vec![top_flow()],
        other: vec![OtherFlows {
            ingress: "east".to_owned(),
            egress: "west".to_owned(),
            class: "all".to_owned(),
            credited: Credit {
                packets: 1_200_000,
                delay_sum_s: 480.5,
                lost_packets: 11,
            },
        }],
        decoding: Some(Decoding {
            epoch: Some(81),
            epochs: 1,
            flows: 50_000,
            duration_s: 0.082,
            runs: 80,
            summed_epochs: 0,
            skipped_epochs: 2,
            estimates: 3_900_000,
            within_bound: 3_870_000,
            error_ratio_median: Some(0.0004),
        }),
        ..Flows::default()
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
        history: History::default(),
        ingress: "east".to_owned(),
        egress: "west".to_owned(),
        class: "all".to_owned(),
        last: Some(EpochFigures {
            epoch: 81,
            counts,
            stamped: Some(stamped),
            lda: Some(lda),
            references: Some(ReferenceEstimate {
                mean_ns: 412_000.0,
                packets: 19_900,
                exact_packets: 19_000,
                error_ratio: Some(-0.000_728),
            }),
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
                generation: 3,
                link: 4,
                too_few_cells: 2,
                internal: 0,
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
            link_flaps: 0,
            is_removed: false,
            device: Some(DeviceCounts::default()),
        },
        counts: PortReading {
            rx_packets: 1_640_000,
            rx_bytes: 590_400_000,
            tx_packets: 1_639_000,
            tx_bytes: 590_100_000,
            queued_packets: 37,
            ..PortReading::default()
        },
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
        classes: vec![ClassCounts {
            class: "all".to_owned(),
            counts: ClassReading {
                tx_packets: 1_639_000,
                tx_bytes: 590_100_000,
                dropped_packets: 12,
            },
        }],
        queues: vec![QueueCounts {
            queue: "all".to_owned(),
            counts: QueueReading {
                packets: 30,
                bytes: 10_800,
            },
            drops: vec![Labelled {
                label: "queue_full".to_owned(),
                packets: 12,
            }],
        }],
        ..Port::default()
    }
}

fn top_flow() -> TopFlow {
    let figures = |packets: u64, mean_ns| FlowFigures {
        packets,
        bytes: 500 * packets,
        lost_packets: packets / 10_000,
        mean_ns,
        stddev_ns: 300_000.0,
    };
    TopFlow {
        flow: Flow {
            flow: "10.0.0.1:1024>10.0.0.2:80/tcp".to_owned(),
            ingress: "east".to_owned(),
            egress: "west".to_owned(),
            class: "all".to_owned(),
            first_epoch: 2,
            last_epoch: 81,
            first_seen_unix_s: 1_699_999_980.25,
            last_seen_unix_s: 1_700_000_000.25,
            last: figures(900, 401_000.0),
            total: figures(70_000, 411_000.0),
            estimate: Some(FlowEstimate {
                method: FlowMethod::LdsJoint,
                epoch: 81,
                epochs: 1,
                packets: 900,
                mean_ns: 400_900.0,
                bound_ns: Some(1_250.0),
                is_within_bound: Some(true),
            }),
            rli_mean_ns: Some(410_500.0),
        },
        reason: "packets".to_owned(),
        since_epoch: 3,
        credited: Credit {
            packets: 69_000,
            delay_sum_s: 28.25,
            lost_packets: 7,
        },
        history: History::default(),
    }
}

impl FlowRecord {
    /// A flow on the first segment where `n` is even, else on the second.
    pub fn example(n: u16, packets: u64) -> Self {
        let figures = FlowFigures {
            packets,
            bytes: 100 * packets,
            lost_packets: u64::from(n),
            mean_ns: 1_000.0 / f64::from(n + 1),
            stddev_ns: 10.0,
        };
        Self {
            key: FlowKey::V4 {
                source: Ipv4Addr::new(10, 0, 0, 1),
                destination: Ipv4Addr::new(10, 0, 0, 2),
                source_port: 1_024 + n,
                destination_port: 80,
                protocol: 6,
            },
            segment: u32::from(n % 2),
            first_epoch: 2,
            last_epoch: 81,
            last: figures,
            total: figures,
            estimate: None,
            rli_mean_ns: None,
        }
    }
}

impl FlowList {
    /// These flows, on `east>west` and `west>east`.
    pub fn example(flows: Vec<FlowRecord>) -> Self {
        let name = |ingress: &str, egress: &str| {
            Arc::new(SegmentName {
                ingress: ingress.to_owned(),
                egress: egress.to_owned(),
                class: "all".to_owned(),
            })
        };
        Self {
            epoch: Some(81),
            segments: vec![name("east", "west"), name("west", "east")],
            flows,
        }
    }
}
