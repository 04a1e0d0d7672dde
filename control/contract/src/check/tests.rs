use super::*;
use crate::config::PORTS_MAX;

#[test]
fn the_demo_says_all_it_would_use() {
    let config = Config::demo().unwrap();
    let verdict = verdict(&config);
    assert!(
        verdict.starts_with("valid: 2 ports, 1 worker, "),
        "{verdict}"
    );
    assert!(verdict.ends_with(" MiB\n"), "{verdict}");
    let report = report(&config);
    for expected in [
        "switch      demo\n",
        "ports       east: generate:flows=2000,",
        "\n            west: generate:flows=500,",
        "forwarding  patch east <> west\n",
        "segments    2: east>west, west>east\n",
        "epochs      250 ms, grace 100 ms\n",
        "LDA         512 rows sampling 0.5, 512 rows sampling 0.05\n",
        "workers     any CPU that this process may use, sleeps when idle; serves east/0, \
         west/0\n",
        "memory      packets: 65535 buffers, ",
        " of ordinary memory (no hugepages)\n            at most 2432 buffers are in use at once: 0 in \
         descriptors, 1152 in queues, 1280 by workers\n",
        "            LDA: 160 KiB (5 copies of 32.0 KiB, 2 segments)\n",
        "; budget half of the memory free at start\n",
        " ns receive, pass on, transmit\n",
        " million a second per worker\n",
        "http        http://127.0.0.1:9464/metrics\n",
        "prometheus  216 series of delay histograms at most, 108 for each of 2 segments (2 as native \
         histograms)\n",
    ] {
        assert!(report.contains(expected), "{expected:?} in\n{report}");
    }
    assert!(report.lines().all(|line| line.len() < 125), "{report}");
}

#[test]
fn classes_owners_and_queues_are_named() {
    let text = r#"{
        "ports": [
            { "name": "a", "device": "sink" },
            { "name": "b", "device": "sink", "egress": { "capacity_bps": 1000000, "queues": [
                { "classes": ["x"], "packets": 8 }, { "classes": ["y"], "packets": 16 }
            ] } }
        ],
        "forwarding": { "mode": "bridge" },
        "classes": [{ "name": "x" }, { "name": "y" }],
        "rules": [{ "class": "x", "pcp": [5] }],
        "measurement": { "lda": null, "lds": {}, "flows": {} },
        "workers": [{ "core": 3 }, { "core": 4 }],
        "memory_budget_mib": 400
    }"#;
    let report = report(&Config::parse(text, "v.json").unwrap());
    for expected in [
        "b: swallows all; MTU 1500, sends 1.00 Mbit/s, 2 queues of 24 packets, worker 1 transmits \
         for all\n",
        "classes     x, y by 1 rules\n",
        "segments    4: a>b/x, a>b/y, b>a/x, b>a/y\n",
        "LDS         70000 cells in 3 rows sampling 1, 1, 1, for each egress port\n",
        "flows       65536 for each worker\n",
        "workers     CPU 3, polls continuously; serves a/0\n",
        "            CPU 4, polls continuously; serves b/0\n",
        " ns classify\n",
        "; budget 400 MiB\n",
    ] {
        assert!(report.contains(expected), "{expected:?} in\n{report}");
    }
    assert!(!report.contains("LDA"), "{report}");
}

#[test]
fn a_wire_says_what_it_takes_of_the_link() {
    let text = r#"{
        "ports": [
            { "name": "a", "device": "net_ring0", "wire": { "capacity_bps": 100000000 } },
            { "name": "b", "device": "sink" }
        ],
        "forwarding": { "mode": "bridge" },
        "measurement": { "hash_seed": "000102030405060708090a0b0c0d0e0f" },
        "wire": { "switch": 7, "keys": [{ "id": 1, "file": "k" }] },
        "workers": [{}]
    }"#;
    let report = report(&Config::parse(text, "v.json").unwrap());
    for expected in [
        "wires       a: a direct link, all\n",
        "            a: LDA 96 + 96 + 832 rows that adapt to losses up to 20 %, LDS 4 x ",
        ", k = 5, stash of 128 packets\n",
        " of 61.0 KiB an epoch (0.5 % of 100 Mbit/s)\n",
        "wires: shards: ",
        "wires: RLI: ",
    ] {
        assert!(report.contains(expected), "{expected:?} in\n{report}");
    }
    assert!(report.lines().all(|line| line.len() < 125), "{report}");
}

#[test]
fn memory_grows_with_the_square_of_a_bridge() {
    let mut config = Config::demo().unwrap();
    config.forwarding = Forwarding::Bridge {
        ageing_s: 300,
        fdb_entries: 1024,
        stations: Vec::new(),
        flood_limit_pps: 1,
    };
    config.ports = vec![config.ports[0].clone(); PORTS_MAX];
    let report = report(&config);
    assert!(report.contains("segments    4032\n"), "{report}");
    assert!(report.contains(", 4032 segments)\n"), "{report}");
}
