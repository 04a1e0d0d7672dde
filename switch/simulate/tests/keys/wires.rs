//! Two switches with a segment on the wire between them.

use std::fmt::Write;

use contract::config::Config;
use serde_json::{Value, json};
use simulate::world::Calm;

use crate::frames::mix;
use crate::groups::{file, measurement, port};
use crate::switches::{self, MS, published, summary};
use crate::{Group, Look, parse};

/// A switch with this number, whose host's port is patched to a port with `wire`.
fn switch(number: u32, wire: &Value, keys: &Value) -> Value {
    let mut measurement = measurement();
    measurement["flows"] = json!({ "slots": 64 });
    let mut wired = port("w");
    wired["wire"] = wire.clone();
    wired["egress"] = json!({ "capacity_bps": 1_000_000_000_u64 });
    json!({
        "name": format!("s{number}"),
        "ports": [port("h"), wired],
        "forwarding": { "mode": "patch", "pairs": [["h", "w"]] },
        "classes": [{ "name": "gold" }, { "name": "rest" }],
        "rules": [{ "class": "gold", "dscp": [46] }],
        "measurement": measurement,
        "wire": { "switch": number, "keys": keys },
        "workers": [{}],
        // The largest flows have slots in addition to `flows`.
        "prometheus": { "top_flows": 2 },
    })
}

fn key(id: u16) -> Value {
    let digits = format!("{:032x}\n", u128::from(id) * 77);
    json!({ "id": id, "file": file(&format!("keys-{id}.key"), digits.as_bytes()) })
}

fn wire() -> Value {
    json!({ "share": 0.04, "flows": 16, "lds": { "cells": 1_024 }, "lda": { "banks": [{ "rows": 64, "probability": 0.5 }] },
        "rli": { "policy": { "kind": "count", "packets": 20 } } })
}

/// Snapshots of a switch and its peer, and the frames on the wire.
fn joined(config: &Config, peer: &Value) -> String {
    let cable = [(0, 1), (1, 1)];
    let mut calm = Calm::new(&[config.clone(), parse(peer)], vec![cable]).unwrap();
    for round in 0..600 {
        for n in round * 8..(round + 1) * 8 {
            calm.arrive(0, 0, mix(n).frame(n));
            calm.arrive(1, 0, mix(n + 1).frame(n));
        }
        calm.run(4 * MS);
    }
    let mut seen = String::new();
    for switch in 0..2 {
        let carried = summary(calm.carried(switch, 1));
        let _ = writeln!(seen, "{carried}\n{}", published(&calm.snapshot(switch)));
    }
    seen
}

fn direct_peer() -> Value {
    switch(2, &wire(), &json!([key(1), key(2)]))
}

pub fn wire_direct() -> Group {
    Group {
        base: switch(1, &wire(), &json!([key(1), key(2)])),
        look: Look::Other(|config| joined(config, &direct_peer())),
        changes: vec![
            ("/wire/switch", json!(3)),
            ("/wire/key", json!(2)),
            ("/wire/keys/0/id", json!(3)),
            ("/wire/keys/0/file", key(3)["file"].clone()),
            ("/wire/clock#error_ns", json!({ "error_ns": 1_000_000 })),
            ("/wire/clock#ptp_domain", json!({ "ptp_domain": 5 })),
            ("/ports/1/wire/peer_switch", json!(7)),
            ("/ports/1/wire/peer_port", json!("x")),
            ("/ports/1/wire/key", json!(2)),
            ("/ports/1/wire/capacity_bps", json!(500_000_000)),
            ("/ports/1/wire/share", json!(0.02)),
            ("/ports/1/wire/delay_min_ns", json!(1_000_000_000)),
            ("/ports/1/wire/ethertype", json!(34_998)),
            ("/ports/1/wire/stash_packets", json!(32)),
            ("/ports/1/wire/lda/banks/0/rows", json!(32)),
            ("/ports/1/wire/lda/banks/0/probability", json!(0.25)),
            ("/ports/1/wire/lds/cells", json!(512)),
            ("/ports/1/wire/lds/rows", json!([1.0, 1.0])),
            ("/ports/1/wire/lds/virtual_cells", json!(2)),
            ("/ports/1/wire/lds/components", json!(2)),
            ("/ports/1/wire/rli/policy/packets", json!(40)),
            (
                "/ports/1/wire/rli/policy#kind",
                json!({ "kind": "adaptive" }),
            ),
            (
                "/ports/1/wire/rli/policy#interval_us",
                json!({ "kind": "time", "interval_us": 5_000 }),
            ),
            ("/ports/1/wire/rli/method", json!("left")),
            ("/ports/1/wire/flows", json!(64)),
        ],
    }
}

fn across(local: &str, remote: &str) -> Value {
    let mut wire = wire();
    wire["peer"] = json!({ "local": local, "remote": remote, "gateway": "02:00:00:00:01:01" });
    wire
}

pub fn wire_virtual() -> Group {
    Group {
        base: switch(1, &across("10.9.0.1", "10.9.0.2"), &json!([key(1)])),
        look: Look::Other(|config| {
            joined(
                config,
                &switch(2, &across("10.9.0.2", "10.9.0.1"), &json!([key(1)])),
            )
        }),
        changes: vec![
            ("/ports/1/wire/peer/local", json!("10.9.0.3")),
            ("/ports/1/wire/peer/remote", json!("10.9.0.3")),
            ("/ports/1/wire/peer/gateway", json!("02:00:00:00:01:02")),
            ("/ports/1/wire/peer/source_mac", json!("02:00:00:00:01:03")),
            ("/ports/1/wire/peer/udp_port", json!(34_998)),
            ("/ports/1/wire/classes", json!(["gold"])),
            ("/classes/0/lds_weight", json!(25)),
        ],
    }
}

fn adaptive() -> Value {
    let mut wire = wire();
    wire["lda"] = json!({ "adaptive": { "rows": 64, "worst_loss": 0.2 } });
    wire
}

pub fn wire_adaptive() -> Group {
    Group {
        base: switch(1, &adaptive(), &json!([key(1)])),
        look: Look::Other(|config| joined(config, &switch(2, &adaptive(), &json!([key(1)])))),
        changes: vec![
            ("/ports/1/wire/lda/adaptive/rows", json!(32)),
            ("/ports/1/wire/lda/adaptive/worst_loss", json!(0.1)),
        ],
    }
}

fn own_keys() -> Value {
    let mut wire = wire();
    wire["keys"] = json!([key(4)]);
    wire
}

pub fn wire_own_keys() -> Group {
    Group {
        base: switch(1, &own_keys(), &json!([])),
        look: Look::Other(|config| joined(config, &switch(2, &own_keys(), &json!([])))),
        changes: vec![
            ("/ports/1/wire/keys/0/id", json!(5)),
            ("/ports/1/wire/keys/0/file", key(5)["file"].clone()),
        ],
    }
}

pub fn wire_trusted() -> Group {
    Group {
        base: switch(1, &wire(), &json!([key(1)])),
        look: Look::Other(|config| {
            let mut wire = wire();
            wire["trusted"] = json!(true);
            joined(config, &switch(2, &wire, &json!([])))
        }),
        changes: vec![("/ports/1/wire/trusted", json!(true))],
    }
}

/// A device between `b` and `c`, which are connected to each other.
pub fn around() -> Group {
    let mut measurement = measurement();
    measurement["around"] = json!([
        { "name": "fw", "ports": ["b", "c"], "timeout_ms": 20, "packets": 256 }
    ]);
    Group {
        base: json!({
            "ports": [port("a"), port("b"), port("c"), port("d")],
            "forwarding": { "mode": "patch", "pairs": [["a", "b"], ["c", "d"]] },
            "measurement": measurement,
            "workers": [{}],
        }),
        look: Look::Run(switches::around),
        changes: vec![
            ("/measurement/around/0/name", json!("gateway")),
            ("/measurement/around/0/ports", json!(["a", "d"])),
            ("/measurement/around/0/timeout_ms", json!(2)),
            ("/measurement/around/0/packets", json!(64)),
        ],
    }
}
