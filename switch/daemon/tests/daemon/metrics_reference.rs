//! A switch with everything on exposes exactly the metrics in `docs/metrics.md`.
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::support::{Daemon, key_file, memif};
use serde_json::{Value, json};

/// A circumstance that no switch of one machine can bring about: two clocks that run apart.
const UNSEEN: &[&str] = &["vernier_wire_clock_drift_ratio"];

/// What both ends of the wire have in common, beside their number.
fn wire(number: u32, folder: &Path) -> Value {
    let key = json!({ "id": 1, "file": folder.join("wire.key") });
    json!({ "switch": number, "keys": [key], "clock": { "error_ns": 500 } })
}

const SEED: &str = "000102030405060708090a0b0c0d0e0f";

/// A switch at the other end of the wire, whose few flows are larger than all others.
fn peer(folder: &Path) -> Value {
    json!({
        "ports": [
            { "name": "hosts", "device": "generate:flows=8,rate=8000,seed=9" },
            { "name": "trunk", "device": memif("client", &folder.join("memif.sock")), "wire": { "share": 0.01 } },
        ],
        "forwarding": { "mode": "patch", "pairs": [["hosts", "trunk"]] },
        "measurement": { "interval_ms": 200, "hash_seed": SEED },
        "wire": wire(2, folder),
        "dpdk": { "memory_mib": 128, "mbufs": 16_384 },
    })
}

/// A bridge with VLANs, classes, two workers, a wire, and every method of measuring.
fn everything(folder: &Path) -> Value {
    let port = |name: &str, device: &str, vlan: Value| {
        json!({
            "name": name,
            "device": device,
            "vlan": vlan,
            "egress": {
                "capacity_bps": 400_000_000,
                "owner": 0,
                "queues": [
                    { "classes": ["web"], "service": "strict", "packets": 256 },
                    { "classes": ["rest"], "packets": 256 },
                ],
            },
        })
    };
    let access = json!({ "mode": "access", "vlan": 10 });
    let trunk = json!({ "mode": "trunk", "vlans": [20], "native": 10 });
    json!({
        "ports": [
            port("a", "generate:flows=50,rate=5000,macs=4", access.clone()),
            port("b", "generate:flows=50,rate=5000,macs=4,side=1", access),
            port("c", "sink", trunk),
            {
                "name": "d",
                "device": memif("server", &folder.join("memif.sock")),
                "vlan": { "mode": "access", "vlan": 10 },
                "wire": { "share": 0.01 },
            },
        ],
        "wire": wire(1, folder),
        "forwarding": { "mode": "bridge" },
        "classes": [{ "name": "web" }, { "name": "rest" }],
        "rules": [{ "class": "web", "protocol": "tcp" }],
        "measurement": {
            "interval_ms": 200,
            "hash_seed": SEED,
            "lda": { "banks": [{ "rows": 64, "probability": 0.5 }] },
            "lds": { "cells": 600, "decode": {} },
            "rli": { "policy": { "kind": "count", "packets": 20 } },
            "flows": { "slots": 256 },
            "around": [{ "name": "box", "ports": ["a", "b"] }],
        },
        "workers": [{ "idle": "sleep" }, { "idle": "sleep" }],
        // No server is there: reports are spooled.
        "report": { "nats": { "servers": ["nats://127.0.0.1:1"] } },
        "ipfix": { "collector": "udp://127.0.0.1:9" },
        "prometheus": { "top_flows": 100, "top_hold_s": 1, "pinned": [{ "protocol": "udp" }] },
    })
}

/// Families by name: their type, and the labels of their samples.
type Families = BTreeMap<String, (String, BTreeSet<String>)>;

/// The reference, and the condition under which a family has series, if any.
fn reference() -> (Families, BTreeMap<String, String>) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (mut families, mut circumstances) = (Families::new(), BTreeMap::new());
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let name = cells[0].trim_matches('`').to_owned();
        let labels = cells[3]
            .split(", ")
            .map(|label| label.trim_matches('`').to_owned());
        let labels = labels.filter(|label| !label.is_empty()).collect();
        circumstances.insert(name.clone(), cells[4].to_owned());
        families.insert(name, (cells[1].to_owned(), labels));
    }
    (families, circumstances)
}

/// What has samples.
fn exposed(text: &str) -> Families {
    let mut families = Families::new();
    let (mut name, mut kind) = (String::new(), String::new());
    for line in text.lines() {
        if let Some(of) = line.strip_prefix("# TYPE ") {
            let (of, is) = of.split_once(' ').unwrap();
            (name, kind) = (of.to_owned(), is.to_owned());
        } else if !line.starts_with('#') && !line.is_empty() {
            assert!(line.starts_with(&name), "{line} is under {name}");
            let family = families.entry(name.clone());
            let (_, labels) = family.or_insert_with(|| (kind.clone(), BTreeSet::new()));
            // Names and values of this switch have neither quotes nor braces in them.
            let pairs = line
                .split_once('{')
                .and_then(|(_, rest)| rest.split_once('}'));
            let pairs = pairs.map_or("", |(pairs, _)| pairs).split("\",");
            let names = pairs.filter_map(|pair| pair.split_once('=').map(|(name, _)| name));
            let own = names.filter(|name| !matches!(*name, "le" | "quantile"));
            labels.extend(own.map(str::to_owned));
        }
    }
    families
}

#[test]
fn what_is_exposed_is_in_the_reference_and_the_reverse() {
    let (reference, circumstances) = reference();
    let folder = tempfile::tempdir().unwrap();
    key_file(folder.path());
    let mut switch = Daemon::start(everything(folder.path()));
    let peer = Daemon::start(peer(folder.path()));
    let scrape = |switch: &Daemon| exposed(&switch.get("/metrics").unwrap_or_default());
    let missing = |families: &Families| -> Vec<String> {
        let missing = reference
            .keys()
            .filter(|name| !families.contains_key(*name))
            .filter(|name| !UNSEEN.contains(&name.as_str()));
        missing.cloned().collect()
    };
    switch.wait_for(|switch| missing(&scrape(switch)).is_empty() || is_settled(switch));
    let families = scrape(&switch);
    switch.stop();
    // How the peer ends is not tested here: DPDK's net_memif frees the rings of a lost connection while a worker sends.
    drop(peer);

    // With everything on no circumstance is an excuse.
    let missing: Vec<_> = missing(&families)
        .into_iter()
        .map(|name| format!("{name} ({})", circumstances[&name]))
        .collect();
    assert!(missing.is_empty(), "in the reference alone: {missing:#?}");
    for (name, exposed) in &families {
        let known = reference.get(name);
        assert_eq!(
            known,
            Some(exposed),
            "{name}: reference beside program (`make docs`)"
        );
    }
}

/// Enough epochs that whatever appears has appeared.
fn is_settled(switch: &Daemon) -> bool {
    let snapshot = switch.json("/api/v1/snapshot").unwrap_or_default();
    snapshot["epoch"].as_u64().is_some_and(|epoch| epoch >= 60)
}

#[test]
fn without_any_circumstance_there_is_what_needs_none() {
    let (_, circumstances) = reference();
    let mut switch = Daemon::start(json!({
        "ports": [
            { "name": "a", "device": "sink" },
            { "name": "b", "device": "sink" },
        ],
        "forwarding": { "mode": "patch", "pairs": [["a", "b"]] },
        "measurement": { "enabled": false },
    }));
    // Ports of a switch are never a host's.
    let unconditional = circumstances
        .iter()
        .filter(|(_, when)| when.is_empty() || *when == "not in a host program");
    let unconditional: BTreeSet<_> = unconditional.map(|(name, _)| name.clone()).collect();
    let names = |switch: &Daemon| -> BTreeSet<String> {
        let text = switch.get("/metrics").unwrap_or_default();
        exposed(&text).into_keys().collect()
    };
    switch.wait_for(|switch| names(switch).len() >= unconditional.len());
    assert_eq!(names(&switch), unconditional);
    switch.stop();
}
