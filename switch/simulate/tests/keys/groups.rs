//! The table: configurations, keys, other values.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::{Group, Look, plans, served, sources, switches, wires};

/// Values that are refused together with [`bridge`], and parts of the error message: keys that limit others.
pub fn refused() -> [(&'static str, Value, &'static str); 3] {
    [
        (
            "/memory_budget_mib",
            json!(1),
            "memory_budget_mib: expected",
        ),
        (
            "/dpdk#mbufs",
            json!({ "mbufs": 1_024 }),
            "dpdk.mbufs: expected",
        ),
        (
            "/http#insecure",
            json!({ "listen": "0.0.0.0:1" }),
            "http.listen: expected a loopback address",
        ),
    ]
}

pub fn all() -> Vec<Group> {
    vec![
        bridge(),
        patch(),
        static_stations(),
        vlan_access(),
        vlan_trunk(),
        long(),
        shaped(),
        class_queues(),
        early_detection(),
        references(),
        wires::around(),
        stamps(),
        planning(),
        replay(),
        generate(),
        pinned(),
        flow_rules(),
        wires::wire_direct(),
        wires::wire_virtual(),
        wires::wire_adaptive(),
        wires::wire_own_keys(),
        wires::wire_trusted(),
        server(),
        token(),
        page(),
    ]
}

pub use sources::{generate, replay};
pub use wires::{around, wire_adaptive, wire_direct, wire_own_keys, wire_trusted, wire_virtual};

/// A file for tests with these bytes.
pub fn file(name: &str, bytes: &[u8]) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    // Tests run in parallel, so each moves a complete file there.
    let own = path.with_extension(std::process::id().to_string());
    fs::write(&own, bytes).unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(&own, &path).unwrap();
    path
}

pub fn port(name: &str) -> Value {
    json!({ "name": name, "device": format!("net_null_{name}") })
}

pub fn measurement() -> Value {
    json!({
        "interval_ms": 50,
        "hash_seed": "000102030405060708090a0b0c0d0e0f",
        "lda": { "banks": [{ "rows": 64, "probability": 0.5 }] },
    })
}

pub fn bridge() -> Group {
    let mut ports = [port("a"), port("b"), port("c")];
    ports[1]["egress"] = json!({ "capacity_bps": 150_000_000 });
    let mut measurement = measurement();
    measurement["lds"] = json!({ "cells": 512, "rows": [1.0, 0.5], "decode": {} });
    measurement["flows"] = json!({ "slots": 16 });
    Group {
        base: json!({
            "name": "s",
            "ports": ports,
            "forwarding": { "mode": "bridge", "fdb_entries": 64 },
            "classes": [{ "name": "gold" }, { "name": "rest" }],
            "rules": [{ "class": "gold", "dscp": [46] }],
            "measurement": measurement,
            "workers": [{}],
            "prometheus": { "top_flows": 5 },
        }),
        look: Look::Run(switches::short),
        changes: vec![
            ("/name", json!("t")),
            ("/ports/2/name", json!("d")),
            ("/ports/1/mtu", json!(800)),
            ("/ports/1/max_stations", json!(2)),
            ("/forwarding/fdb_entries", json!(3)),
            ("/classes/1/name", json!("other")),
            ("/classes/0/lds_weight", json!(25)),
            ("/rules/0/class", json!("rest")),
            ("/rules/0/ingress", json!(["b"])),
            ("/rules/0/pcp", json!([5])),
            ("/rules/0/dscp", json!([10])),
            ("/rules/0/source", json!("10.0.0.2/32")),
            ("/rules/0/destination", json!("10.0.1.12")),
            ("/rules/0/protocol", json!("tcp")),
            ("/rules/0/source_ports", json!([1_000, 1_010])),
            ("/rules/0/destination_ports", json!([80, 80])),
            ("/measurement/enabled", json!(false)),
            ("/measurement/interval_ms", json!(100)),
            (
                "/measurement/hash_seed",
                json!("100102030405060708090a0b0c0d0e0f"),
            ),
            ("/measurement/lda/banks/0/rows", json!(128)),
            ("/measurement/lda/banks/0/probability", json!(1.0)),
            ("/measurement/lds/cells", json!(1_024)),
            ("/measurement/lds/rows", json!([1.0, 1.0])),
            ("/measurement/lds/virtual_cells", json!(3)),
            ("/measurement/lds/decode/components", json!(2)),
            ("/measurement/flows/slots", json!(128)),
            ("/measurement/flows/select", json!("top")),
            (
                "/measurement/flows/select#sampled",
                json!({ "sampled": 0.5 }),
            ),
            ("/prometheus/top_flows", json!(3)),
        ],
    }
}

pub fn patch() -> Group {
    Group {
        base: json!({
            "ports": [port("a"), port("b"), port("c")],
            "forwarding": { "mode": "patch", "pairs": [["a", "b"]] },
            "measurement": measurement(),
            "workers": [{}],
        }),
        look: Look::Run(switches::short),
        changes: vec![
            ("/forwarding/pairs", json!([["a", "c"]])),
            ("/forwarding#mode", json!({ "mode": "bridge" })),
        ],
    }
}

pub fn static_stations() -> Group {
    let mut measurement = measurement();
    measurement["segments"] = json!([{ "from": "a", "to": "b" }]);
    Group {
        base: json!({
            "ports": [port("a"), port("b"), port("c")],
            "forwarding": { "mode": "bridge", "stations": [{ "address": "02:00:00:00:00:0b", "port": "c" }] },
            "measurement": measurement,
            "workers": [{}],
        }),
        look: Look::Run(switches::short),
        changes: vec![
            ("/forwarding/stations/0/address", json!("02:00:00:00:00:0c")),
            ("/forwarding/stations/0/port", json!("a")),
            ("/measurement/segments/0/from", json!("c")),
            ("/measurement/segments/0/to", json!("c")),
        ],
    }
}

fn in_vlans(vlans: [Value; 3], stations: &Value) -> Value {
    let ports = ["a", "b", "c"].map(port).into_iter().zip(vlans);
    let ports = ports.map(|(mut port, vlan)| {
        port["vlan"] = vlan;
        port
    });
    json!({
        "ports": ports.collect::<Vec<_>>(),
        "forwarding": { "mode": "bridge", "stations": stations },
        "measurement": measurement(),
        "workers": [{}],
    })
}

pub fn vlan_access() -> Group {
    let access = json!({ "mode": "access", "vlan": 10 });
    let trunk = json!({ "mode": "trunk", "vlans": [10, 20], "native": 30 });
    Group {
        base: in_vlans([access.clone(), access, trunk], &json!([])),
        look: Look::Run(switches::tagged),
        changes: vec![
            ("/ports/0/vlan/vlan", json!(20)),
            ("/ports/0/vlan#mode", json!({ "mode": "trunk" })),
        ],
    }
}

pub fn vlan_trunk() -> Group {
    let trunk = |vlans: &[u16]| json!({ "mode": "trunk", "vlans": vlans });
    let stations = json!([{ "address": "02:00:00:00:00:02", "vlan": 10, "port": "a" }]);
    Group {
        base: in_vlans(
            [trunk(&[10, 20]), trunk(&[10, 20]), trunk(&[10])],
            &stations,
        ),
        look: Look::Run(switches::tagged),
        changes: vec![
            ("/ports/2/vlan/vlans", json!([10, 20])),
            ("/ports/2/vlan/native", json!(20)),
            ("/forwarding/stations/0/vlan", json!(20)),
        ],
    }
}

pub fn long() -> Group {
    let mut measurement = measurement();
    measurement["flows"] = json!({ "slots": 64 });
    Group {
        base: json!({
            "ports": [port("a"), port("b"), port("c")],
            "forwarding": { "mode": "bridge", "ageing_s": 300 },
            "measurement": measurement,
            "workers": [{}],
            "prometheus": { "top_flows": 2, "top_hold_s": 60 },
        }),
        look: Look::Run(switches::long),
        changes: vec![
            ("/forwarding/ageing_s", json!(1)),
            ("/forwarding/flood_limit_pps", json!(1)),
            ("/measurement/flows/idle_s", json!(1)),
            ("/prometheus/top_hold_s", json!(1)),
        ],
    }
}

fn slow(egress: &Value) -> Value {
    let mut ports = [port("a"), port("b")];
    ports[1]["egress"] = egress.clone();
    json!({
        "ports": ports,
        "forwarding": { "mode": "patch", "pairs": [["a", "b"]] },
        "measurement": measurement(),
        "workers": [{}],
    })
}

pub fn shaped() -> Group {
    Group {
        base: slow(&json!({ "capacity_bps": 20_000_000, "queue_packets": 40 })),
        look: Look::Run(switches::short),
        changes: vec![
            ("/ports/1/egress/capacity_bps", json!(40_000_000)),
            ("/ports/1/egress/burst_bytes", json!(20_000)),
            ("/ports/1/egress/queue_packets", json!(20)),
            ("/ports/1/egress/queue_bytes", json!(8_000)),
            ("/ports/1/egress/max_residency_us", json!(3_000)),
            ("/measurement/grace_ms", json!(1)),
        ],
    }
}

fn classed(queues: &Value) -> Value {
    let mut base = slow(&json!({ "capacity_bps": 20_000_000, "queues": queues }));
    base["classes"] = json!([{ "name": "gold" }, { "name": "silver" }, { "name": "rest" }]);
    base["rules"] = json!([{ "class": "gold", "dscp": [46] }, { "class": "silver", "dscp": [10] }]);
    base
}

pub fn class_queues() -> Group {
    Group {
        base: classed(&json!([
            { "classes": ["gold"], "packets": 16, "service": { "weight": 2 } },
            { "classes": ["silver"], "packets": 16 },
            { "classes": ["rest"], "packets": 16 },
        ])),
        look: Look::Run(switches::short),
        changes: vec![
            (
                "/ports/1/egress/queues#/0/classes",
                json!([{ "classes": ["gold", "silver"], "packets": 16 }, { "classes": ["rest"], "packets": 16 }]),
            ),
            ("/ports/1/egress/queues/0/service", json!("strict")),
            ("/ports/1/egress/queues/0/service/weight", json!(5)),
            ("/ports/1/egress/queues/0/packets", json!(8)),
            ("/ports/1/egress/queues/0/bytes", json!(3_000)),
        ],
    }
}

pub fn early_detection() -> Group {
    let red = json!({ "min_packets": 4, "max_packets": 14, "probability": 0.5, "weight_log2": 2 });
    Group {
        base: classed(&json!([
            { "classes": ["gold", "silver", "rest"], "packets": 16, "red": red },
        ])),
        look: Look::Run(switches::short),
        changes: vec![
            ("/ports/1/egress/queues/0/red/min_packets", json!(8)),
            ("/ports/1/egress/queues/0/red/max_packets", json!(10)),
            ("/ports/1/egress/queues/0/red/probability", json!(0.1)),
            ("/ports/1/egress/queues/0/red/weight_log2", json!(6)),
        ],
    }
}

pub fn references() -> Group {
    let mut base = slow(&json!({ "capacity_bps": 200_000_000 }));
    base["ports"][0]["egress"] = json!({ "capacity_bps": 200_000_000 });
    base["measurement"]["flows"] = json!({ "slots": 64 });
    base["measurement"]["rli"] =
        json!({ "policy": { "kind": "count", "packets": 20 }, "method": "left" });
    Group {
        base,
        look: Look::Run(switches::short),
        changes: vec![
            ("/measurement/rli/policy/packets", json!(50)),
            (
                "/measurement/rli/policy#kind",
                json!({ "kind": "adaptive" }),
            ),
            (
                "/measurement/rli/policy#interval_us",
                json!({ "kind": "time", "interval_us": 500 }),
            ),
            ("/measurement/rli/method", json!("linear")),
        ],
    }
}

pub fn stamps() -> Group {
    Group {
        base: slow(&json!({})),
        look: Look::Run(switches::ticking),
        changes: vec![("/measurement/stamps", json!("packet"))],
    }
}

pub fn planning() -> Group {
    Group {
        base: json!({
            "ports": [{ "name": "a", "device": "net_ring0" }, { "name": "b", "device": "net_ring1" }],
            "forwarding": { "mode": "patch", "pairs": [["a", "b"]] },
            "workers": [{}, {}],
        }),
        look: Look::Other(plans::planned),
        changes: vec![
            ("/ports/0/device", json!("net_null0")),
            ("/ports/0/rx_queues", json!(1)),
            ("/ports/0/egress/owner", json!(1)),
            ("/forwarding/link_loss_forwarding", json!(true)),
            ("/workers/0/core", json!(2)),
            ("/workers/0/idle", json!("sleep")),
            (
                "/workers#/0/queues",
                json!([{ "queues": [["a", 0], ["a", 1]] }, { "queues": [["b", 0], ["b", 1]] }]),
            ),
            ("/dpdk/hugepages", json!(true)),
            ("/dpdk/memory_mib", json!(1_024)),
            ("/dpdk/eal_args", json!(["--log-level=8"])),
        ],
    }
}

pub fn pinned() -> Group {
    let mut base = slow(&json!({}));
    base["measurement"]["flows"] = json!({ "slots": 64 });
    base["prometheus"] = json!({ "top_flows": 2, "pinned": [{ "source_ports": [1_000, 1_019] }] });
    Group {
        base,
        look: Look::Run(switches::short),
        changes: vec![
            ("/prometheus/pinned/0/source", json!("10.0.0.2")),
            ("/prometheus/pinned/0/destination", json!("10.0.1.13")),
            ("/prometheus/pinned/0/protocol", json!("tcp")),
            ("/prometheus/pinned/0/source_ports", json!([1_030, 1_035])),
            ("/prometheus/pinned/0/destination_ports", json!([443, 443])),
        ],
    }
}

pub fn flow_rules() -> Group {
    let mut base = slow(&json!({}));
    base["measurement"]["flows"] =
        json!({ "slots": 64, "select": { "rules": [{ "source_ports": [1_000, 1_019] }] } });
    Group {
        base,
        look: Look::Run(switches::short),
        changes: vec![
            (
                "/measurement/flows/select/rules/0/source",
                json!("10.0.0.2"),
            ),
            (
                "/measurement/flows/select/rules/0/destination",
                json!("10.0.1.13"),
            ),
            ("/measurement/flows/select/rules/0/protocol", json!("tcp")),
            (
                "/measurement/flows/select/rules/0/source_ports",
                json!([1_030, 1_035]),
            ),
            (
                "/measurement/flows/select/rules/0/destination_ports",
                json!([443, 443]),
            ),
        ],
    }
}

pub fn server() -> Group {
    let mut base = slow(&json!({}));
    base["http"] = json!({ "listen": "127.0.0.1:0" });
    Group {
        base,
        look: Look::Other(served::answers),
        changes: vec![
            ("/http/listen", Value::Null),
            ("/http/hosts", json!(["switch.example"])),
            (
                "/http/token_file",
                json!(file("keys-token", b"0123456789abcdef\n")),
            ),
        ],
    }
}

/// Without a token, as [`server`], but with one.
pub fn token() -> Group {
    let mut base = slow(&json!({}));
    base["http"] =
        json!({ "listen": "127.0.0.1:0", "token_file": file("keys-token", b"0123456789abcdef\n") });
    Group {
        base,
        look: Look::Other(served::answers),
        changes: vec![(
            "/http/token_file",
            json!(file("keys-other-token", b"fedcba9876543210\n")),
        )],
    }
}

pub fn page() -> Group {
    Group {
        base: slow(&json!({})),
        look: Look::Other(served::metrics),
        changes: vec![
            (
                "/prometheus#include",
                json!({ "include": ["vernier_port_*"] }),
            ),
            (
                "/prometheus#exclude",
                json!({ "exclude": ["vernier_port_*"] }),
            ),
            (
                "/prometheus#buckets_per_octave",
                json!({ "buckets_per_octave": 2 }),
            ),
        ],
    }
}
