use measure::flows::FlowSlots;
use serde_json::json;

use super::*;

fn config(measurement: &serde_json::Value, workers: usize) -> Config {
    let text = json!({
        "ports": [
            { "name": "a", "device": "sink" },
            { "name": "b", "device": "sink", "egress": { "capacity_bps": 1_000_000 } },
            { "name": "c", "device": "sink", "egress": { "queues": [
                { "classes": ["x", "y"], "packets": 8 },
            ] } },
        ],
        "classes": [{ "name": "x" }, { "name": "y" }],
        "forwarding": { "mode": "bridge", "fdb_entries": 1024 },
        "measurement": measurement,
        "workers": vec![json!({}); workers],
    });
    Config::parse(&text.to_string(), "").unwrap()
}

fn find(memory: &Memory, purpose: &str) -> usize {
    let item = memory.items().iter().find(|item| item.purpose == purpose);
    item.map_or(0, Item::total_bytes)
}

#[test]
fn every_purpose_is_counted_with_its_copies() {
    let full = json!({
        "lda": { "banks": [{ "rows": 100, "probability": 1 }] },
        "lds": { "cells": 3_000 },
        "flows": { "slots": 1_000 },
    });
    let memory = Memory::of(&config(&full, 2));
    // 6 pairs of ports in 2 classes; 3 copies for each worker and 2 to add up in.
    assert_eq!(find(&memory, "LDA"), 12 * 100 * 16 * 8);
    assert_eq!(find(&memory, "LDS"), 3 * 3_000 * 16 * 8);
    // The default: 50 flows have series.
    let histograms = FlowSlots::histogram_bytes(50, 1_000);
    assert!((50 * 512..50 * 600).contains(&(histograms - 2 * 1_000)));
    let counters = 1_001 * 32 + histograms;
    assert_eq!(find(&memory, "flow counters"), counters * 6);
    let delays = 50 * size_of::<SmallHistogram>();
    assert_eq!(
        find(&memory, "delays of an epoch of flows with series"),
        delays
    );
    assert_eq!(find(&memory, "flow tables"), 1_000 * 37 * 2);
    // Port a has a queue for each worker, b and c one and a ring each.
    let slots = 2 * (1_024 + 128) + (1_024 + 128) + (8 + 1);
    assert_eq!(find(&memory, "egress queues"), slots * 40);
    assert_eq!(find(&memory, "rings to owners"), 2 * RING_PACKETS * 40);
    assert_eq!(find(&memory, "filtering database, replicas"), 512 * 64 * 2);
    let sum: usize = memory.items().iter().map(Item::total_bytes).sum();
    assert_eq!(memory.total_bytes(), sum);
    assert_eq!(memory.total_mib(), sum.div_ceil(1_048_576));
    let estimates = 2 * (2 * ESTIMATE_BYTES + SHARED_BYTES);
    let bytes = 1_000 * (DIRECTORY_BYTES_PER_SLOT + estimates) * 2;
    assert_eq!(find(&memory, "flow directory"), bytes);
    let exporting = crate::config::Config {
        ipfix: Some(crate::config::Ipfix::to("udp://10.0.0.9:4739")),
        ..config(&full, 2)
    };
    let bytes = 1_000 * EXPORTED_BYTES_PER_SLOT * 2;
    let exported = find(&Memory::of(&exporting), "flows at the IPFIX collector");
    assert_eq!(exported, bytes);
    let histories = (12 + 50) * HISTORY_BYTES;
    assert_eq!(find(&memory, "histories, at most"), histories);
    let minutes = (12 + 2) * LAST_MINUTE_BYTES;
    assert_eq!(find(&memory, "delays of the last minute, at most"), minutes);
    let answers = answer_bytes_max(12);
    assert_eq!(find(&memory, "HTTP answers in flight, at most"), answers);
    assert_eq!(
        find(&memory, "cells to be asked and decoded"),
        3 * 3 * 3_000 * 40
    );
    let greatest = memory.items().iter().map(Item::total_bytes).max().unwrap();
    assert_eq!(memory.largest().unwrap().total_bytes(), greatest);
}

#[test]
fn what_is_off_takes_nothing() {
    let memory = Memory::of(&config(&json!({ "enabled": false, "lds": {} }), 1));
    let purposes: Vec<_> = memory.items().iter().map(|item| item.purpose).collect();
    let expected = [
        "filtering database, master",
        "filtering database, replicas",
        "egress queues",
        "HTTP answers in flight, at most",
    ];
    assert_eq!(purposes, expected);
    let mut alone = config(&json!({ "enabled": false }), 1);
    alone.http.listen = None;
    let alone = Memory::of(&alone);
    assert_eq!(find(&alone, "HTTP answers in flight, at most"), 0);
}

#[test]
fn what_needs_more_is_refused_unless_it_names_its_own() {
    let mut config = Config::demo().unwrap();
    assert!(keep_budget(&config, None).is_ok() && keep_budget(&config, Some(100_000)).is_ok());
    let error = keep_budget(&config, Some(0)).unwrap_err().to_string();
    assert!(
        error.contains("memory_budget_mib") && error.contains("0 MiB"),
        "{error}"
    );
    config.memory_budget_mib = Some(100);
    assert!(keep_budget(&config, Some(0)).is_ok());
}

fn parse(owner: Option<usize>, mbufs: u32) -> Result<Config, String> {
    let text = json!({
        "ports": [
            { "name": "a", "device": "0000:01:00.0", "rx_queues": 2 },
            { "name": "b", "device": "net_ring1", "rx_queues": 1,
              "egress": { "owner": owner, "queue_packets": 800 } },
            { "name": "c", "device": "net_null0", "rx_queues": 1 },
        ],
        "forwarding": { "mode": "bridge" },
        "workers": [{}, {}],
        "dpdk": { "mbufs": mbufs },
    });
    Config::parse(&text.to_string(), "").map_err(|error| error.to_string())
}

#[test]
fn every_holder_counts() {
    let config = parse(None, 65_535).unwrap();
    let held = Held::of(&config);
    assert_eq!(held.descriptors, (2 + 2 + 1 + 2) * 1_024);
    assert_eq!(held.queues, 2 * (1_152 + 900 + 1_152));
    assert_eq!((held.rings, held.workers), (0, 2 * (768 + 512)));
    let owned = Held::of(&parse(Some(0), 65_535).unwrap());
    assert_eq!(owned.descriptors, (2 + 2 + 1 + 1) * 1_024);
    assert_eq!(owned.queues, 2 * 1_152 + 900 + 2 * 1_152);
    assert_eq!(owned.rings, 1_024);
}

#[test]
fn what_the_pool_does_not_have_is_refused() {
    let needed = Held::of(&parse(None, 65_535).unwrap()).total();
    let needed = u32::try_from(needed).unwrap();
    assert!(parse(None, needed).is_ok());
    let error = parse(None, needed - 1).unwrap_err();
    let expected = format!("dpdk.mbufs: expected {needed} at least (7168 in descriptors of ");
    assert!(error.contains(&expected), "{error}");
    assert!(error.ends_with(&format!("got {}", needed - 1)), "{error}");
}
