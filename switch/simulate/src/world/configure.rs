//! Configurations of a world's switches: the permanent parts, and those that a reload may change.

use std::path::Path;

use contract::config::Config;
use rand::RngExt;
use rand_pcg::Pcg64;
use serde_json::{Value, json};

/// Length of an epoch in milliseconds.
pub(super) const INTERVAL_MS: u64 = 50;

/// Hosts at each switch.
pub(super) const HOSTS: usize = 2;

/// Properties of a switch that reloads and restarts do not change.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub number: u32,
    pub workers: usize,
    pub wires: usize,
    pub is_patch: bool,
    pub is_owned: bool,
}

impl Shape {
    /// Permanent ports: hosts, then wires.
    pub fn ports(&self) -> usize {
        HOSTS + self.wires
    }
}

/// The configuration that a switch starts with.
pub(super) fn base(shape: &Shape, key: &Path) -> Value {
    let egress = |queue: u32, owner: usize| match shape.is_owned {
        true => {
            json!({"queue_packets": queue, "capacity_bps": 1_000_000_000_u64, "owner": owner % shape.workers})
        }
        false => json!({"queue_packets": queue}),
    };
    let host = |host: usize| {
        json!({"name": format!("h{host}"), "device": format!("net_null_h{host}"), "mtu": 1_500,
            "rx_queues": shape.workers, "egress": egress(256, host)})
    };
    let wire = |wire: usize| {
        json!({"name": format!("w{wire}"), "device": format!("net_null_w{wire}"), "mtu": 1_500, "rx_queues": 1,
            "egress": {"queue_packets": 256, "capacity_bps": 1_000_000_000_u64, "owner": wire % shape.workers},
            "wire": {"share": 0.04, "flows": 256, "lds": {"cells": 1_024}}})
    };
    let ports: Vec<Value> = (0..HOSTS)
        .map(host)
        .chain((0..shape.wires).map(wire))
        .collect();
    let pairs = match shape.wires {
        1 => json!([["h0", "w0"]]),
        _ => json!([["w0", "w1"]]),
    };
    let forwarding = match shape.is_patch {
        true => json!({"mode": "patch", "pairs": pairs}),
        false => json!({"mode": "bridge", "fdb_entries": 64, "ageing_s": 10}),
    };
    json!({
        "workers": vec![json!({}); shape.workers],
        "ports": ports,
        "forwarding": forwarding,
        "measurement": {
            "interval_ms": INTERVAL_MS,
            "hash_seed": "000102030405060708090a0b0c0d0e0f",
            "lda": {"banks": [{"rows": 64, "probability": 1.0}]},
        },
        "wire": {"switch": shape.number, "keys": [{"id": 1, "file": key}]},
    })
}

/// One or two changes to the configuration that a switch starts with.
pub(super) fn changed(base: &Value, shape: &Shape, random: &mut Pcg64) -> Value {
    let mut json = base.clone();
    for _ in 0..random.random_range(1..3) {
        change(&mut json, shape, random);
    }
    json
}

fn change(json: &mut Value, shape: &Shape, random: &mut Pcg64) {
    // The previous change may have removed one.
    let ports = json["ports"].as_array().map_or(1, Vec::len);
    let port = random.random_range(0..ports);
    let measurement = &mut json["measurement"];
    match random.random_range(0..11) {
        0 => {
            measurement["lda"] =
                json!({"banks": [{"rows": 8 << random.random_range(0..6), "probability": 0.5}]})
        }
        1 => measurement["lds"] = json!({"cells": 512, "rows": [1.0, 1.0]}),
        2 => measurement["lds"] = json!({"cells": 1_024, "decode": {}}),
        3 => measurement["flows"] = json!({"slots": 16 << random.random_range(0..5), "idle_s": 1}),
        4 => measurement["enabled"] = json!(false),
        5 => {
            measurement["segments"] =
                json!([{"from": "h0", "to": "w0"}, {"from": "w0", "to": "h0"}])
        }
        6 => measurement["stamps"] = json!("packet"),
        7 => measurement["rli"] = json!({"policy": {"kind": "count", "packets": 10}}),
        8 => {
            json["ports"][port]["egress"]["queue_packets"] = json!(16 << random.random_range(0..6))
        }
        9 => {
            json["classes"] = json!([{"name": "gold"}, {"name": "rest"}]);
            json["rules"] = json!([{"class": "gold", "source_ports": [0, 5]}]);
        }
        _ if !shape.is_patch => come_or_go(json, shape, random),
        _ => measurement["lda"] = Value::Null,
    }
}

/// Removes a host's port, or adds another.
fn come_or_go(json: &mut Value, shape: &Shape, random: &mut Pcg64) {
    let Some(ports) = json["ports"].as_array_mut() else {
        return;
    };
    if random.random() {
        ports.retain(|port| port["name"] != "h1");
    } else if ports.iter().all(|port| port["name"] != "h9") {
        ports.push(json!({"name": "h9", "device": "net_null_h9", "mtu": 1_500, "rx_queues": shape.workers}));
    }
}

/// Parses the generated configuration.
///
/// # Errors
/// The error: two changes that cannot be combined.
pub(super) fn parse(json: &Value) -> Result<Config, String> {
    Config::parse(&json.to_string(), "world.json").map_err(|error| error.to_string())
}
