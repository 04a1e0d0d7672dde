use serde_json::json;

use super::*;

#[test]
fn segments_and_sketches_are_checked() {
    check(&[
        (
            "/measurement/segments/0",
            json!({ "from": "a", "to": "a" }),
            "measurement.segments[0].to: expected another port than a, got \"a\"",
        ),
        (
            "/measurement/segments/0/from",
            json!("z"),
            "measurement.segments[0].from: expected the name of a port (a, b, c), got \"z\"",
        ),
        (
            "/measurement/segments",
            vec![json!({ "from": "a", "to": "b" }); 2].into(),
            "measurement.segments[1]: expected a segment once, got (\"a\", \"b\") again",
        ),
        (
            "/measurement/segments",
            json!([]),
            "measurement.segments: expected one segment at least, or no such key for all, got none",
        ),
        (
            "/measurement/lds/rows",
            json!([1, 1, 1, 1, 1]),
            "measurement.lds.rows: expected 1 to 4 entries, got 5",
        ),
        (
            "/measurement/lds/rows",
            json!([0.1, 1.5]),
            "measurement.lds.rows[1]: expected over 0, up to 1, got 1.5",
        ),
        (
            "/measurement/lds/rows",
            json!([1e-12]),
            "measurement.lds: expected rows that can be laid out, got row 0 samples with \
             probability 0.000000000001; give it 2^-32 to 1",
        ),
        (
            "/measurement/lds",
            json!({ "cells": 16, "virtual_cells": 6 }),
            "measurement.lds.virtual_cells: expected no more than a row has (5 cells), got 6",
        ),
        (
            "/measurement/lda",
            json!({ "banks": [{ "rows": 1, "probability": 1e-12 }] }),
            "measurement.lda.banks: expected banks that can be laid out, got bank 0 samples with \
             probability 0.000000000001; give it 2^-32 to 1",
        ),
    ]);
}

#[test]
fn references_and_flows_are_checked() {
    check(&[
        (
            "/measurement/rli/policy",
            json!({ "kind": "either", "packets": 1, "interval_us": 0 }),
            "measurement.rli.policy.interval_us: expected 1 to 10000000, got 0",
        ),
        (
            "/ports/1/egress/capacity_bps",
            json!(null),
            "measurement.rli.policy.kind: expected `egress.capacity_bps` on every egress port, \
             which adaptive goes by, got none on b",
        ),
        (
            "/measurement/stamps",
            json!("burst"),
            "measurement.rli.method: expected `measurement.stamps` to be `packet` with \
             anchored_sums, got `burst`",
        ),
        (
            "/measurement/flows/select",
            json!({ "sampled": 1.5 }),
            "measurement.flows.select.sampled: expected 0 to 1, got 1.5",
        ),
        (
            "/measurement/flows/select/rules",
            json!([{}, { "source_ports": [2, 1] }]),
            "measurement.flows.select.rules[1].source_ports: expected the first port, then the \
             last, got [2, 1]",
        ),
        (
            "/measurement/flows/select/rules",
            json!([]),
            "measurement.flows.select.rules: expected 1 to 256 entries, got 0",
        ),
    ]);
    // A port that no measured segment leaves by needs no capacity.
    let mut rack = rack();
    rack["ports"][2]["egress"] = json!({});
    Config::parse(&rack.to_string(), "").unwrap();
}

#[test]
fn a_patch_panel_measures_patched_pairs_only() {
    let mut config = Config::demo().unwrap();
    config.ports.push(Port {
        name: "north".to_owned(),
        ..config.ports[0].clone()
    });
    let measured = |from: &str, to: &str| {
        vec![SegmentPorts {
            from: from.to_owned(),
            to: to.to_owned(),
        }]
    };
    config.measurement.segments = Some(measured("west", "east"));
    validate(&config).unwrap();
    assert_eq!(config.segments(), [segment(1, 0)]);
    let to_north = |config: &mut Config| {
        config.measurement.segments = Some(measured("west", "north"));
    };
    assert_eq!(
        error_of(config, to_north),
        "measurement.segments[0].to: expected the port that west is patched to, got \"north\"",
    );
}

/// The demo with three more ports.
fn with_ports() -> Config {
    let mut config = Config::demo().unwrap();
    let port = |name: &str| Port {
        name: name.to_owned(),
        ..Config::demo().unwrap().ports[0].clone()
    };
    config.ports.extend(["in", "out", "dmz"].map(port));
    config
}

fn device(name: &str, ports: &[&str]) -> Around {
    Around {
        name: name.to_owned(),
        ports: ports.iter().map(|&port| port.to_owned()).collect(),
        timeout_ms: 1_000,
        packets: 1_000,
    }
}

#[test]
fn around_a_device_leads_from_each_of_its_ports_to_each_other() {
    let mut config = with_ports();
    config.measurement.around = vec![device("fw", &["out", "in", "dmz"])];
    validate(&config).unwrap();
    let inside = 2;
    let around = &config.segments()[inside..];
    assert!(around.iter().all(|segment| segment.around == Some(0)));
    let names = around
        .iter()
        .map(|s| (config.segment_from(s), config.segment_to(s)));
    let names: Vec<_> = names.map(|(from, to)| format!("{from}>{to}")).collect();
    assert_eq!(
        names,
        [
            "fw:out>fw:in",
            "fw:out>fw:dmz",
            "fw:in>fw:out",
            "fw:in>fw:dmz",
            "fw:dmz>fw:out",
            "fw:dmz>fw:in"
        ]
    );
    assert_eq!((config.around(2), config.around(0)), (Some((0, 1)), None));
    // They have no sketch and no references.
    assert_eq!(config.sketch_ports(), [0, 1]);
    assert!(!around.iter().any(|segment| config.sends(0, segment)));
}

#[test]
fn devices_and_their_ports_are_checked() {
    let config = with_ports();
    let refused = |devices: &[Around]| {
        let devices = devices.to_vec();
        error_of(config.clone(), move |config| {
            config.measurement.around = devices;
        })
    };
    for (devices, error) in [
        (
            vec![device("fw", &["in"])],
            "measurement.around[0].ports: expected 2 to 16 entries, got 1",
        ),
        (
            vec![device("in", &["in", "out"])],
            "measurement.around[0].name: expected a name that no port has, got \"in\"",
        ),
        (
            vec![device("f w", &["in", "out"])],
            "measurement.around[0].name: expected 1 to 64 letters, digits, `.`, `_` or `-`, got \"f w\"",
        ),
        (
            vec![device("fw", &["in", "in"])],
            "measurement.around[0].ports[1]: expected a port that leads to no other device, got \"in\" again",
        ),
        (
            vec![device("fw", &["in", "out"]), device("fw", &["dmz", "west"])],
            "measurement.around[1].name: expected a name of its own, got \"fw\" again",
        ),
        (
            vec![device("fw", &["in", "north"])],
            "measurement.around[0].ports[1]: expected the name of a port (east, west, in, out, dmz), got \"north\"",
        ),
    ] {
        assert_eq!(refused(&devices), error);
    }
}

#[test]
fn a_bridge_measures_every_ordered_pair() {
    let mut config = Config::demo().unwrap();
    config.forwarding = Forwarding::Bridge {
        ageing_s: 300,
        fdb_entries: 1024,
        stations: Vec::new(),
        flood_limit_pps: 1,
    };
    config.ports = (0..PORTS_MAX)
        .map(|n| Port {
            name: format!("p{n}"),
            ..config.ports[0].clone()
        })
        .collect();
    validate(&config).unwrap();
    let segments = config.segments();
    assert_eq!(segments.len(), 4_032);
    assert_eq!(segments[..2], [segment(0, 1), segment(0, 2)]);
    assert_eq!(segments[4_031], segment(63, 62));
    config.measurement.enabled = false;
    assert_eq!(config.segments(), Vec::new());
}

#[test]
fn measurement_and_memory_are_checked() {
    let cases = [
        (
            error(|c| c.measurement.interval_ms = 9),
            "measurement.interval_ms: expected 10 to 60000, got 9",
        ),
        (
            error(|c| c.measurement.grace_ms = Some(125)),
            "measurement.grace_ms: expected less than half of interval_ms (250), got 125",
        ),
        (
            error(|c| c.measurement.hash_seed = Some("12".to_owned())),
            "measurement.hash_seed: expected 32 hexadecimal digits, got 2 characters, or others",
        ),
        (
            error(|c| lda(c).banks.clear()),
            "measurement.lda.banks: expected 1 to 16 entries, got 0",
        ),
        (
            error(|c| lda(c).banks[0].probability = 0.0),
            "measurement.lda.banks[0].probability: expected over 0, up to 1, got 0",
        ),
        (
            error(|c| {
                lda(c).banks = vec![
                    LdaBank {
                        rows: 1,
                        probability: 0.75
                    };
                    2
                ];
            }),
            "measurement.lda.banks: expected probabilities that add up to 1 at most (samples \
             are disjoint), got 1.5",
        ),
        (
            error(|c| c.dpdk.mbufs = 0),
            "dpdk.mbufs: expected 1024 to 4194304, got 0",
        ),
    ];
    for (got, expected) in cases {
        assert_eq!(got, expected);
    }
}
