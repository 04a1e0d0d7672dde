//! Several workers over real devices: queues spread, ports owned, nothing lost.
use crate::support::{Daemon, assert_conserved, assert_segments_add_up, number, sum};
use serde_json::{Value, json};

/// Four ports of traffic, switched in pairs by two workers.
fn config(egress: &Value) -> Value {
    let port = |name: &str, side| {
        json!({
            "name": name,
            "device": format!("generate:flows=100,rate=20000,side={side}"),
            "egress": egress,
        })
    };
    json!({
        "ports": [port("a", 0), port("b", 1), port("c", 0), port("d", 1)],
        "forwarding": { "mode": "patch", "pairs": [["a", "b"], ["c", "d"]] },
        "workers": [{ "idle": "sleep" }, { "idle": "sleep" }],
    })
}

/// Runs until every segment has closed some epochs; returns the summary, whose counts must add up.
fn run(config: Value) -> Value {
    let mut switch = Daemon::start(config);
    let has_epochs = |switch: &Daemon| {
        let segments = switch.json("/api/v1/segments")?;
        let segments = segments["segments"].as_array()?.clone();
        let epochs = |s: &Value| s["total"]["estimated_epochs"].as_u64();
        Some(segments.iter().all(|s| epochs(s).is_some_and(|n| n >= 5)))
    };
    switch.wait_for(|switch| has_epochs(switch) == Some(true));
    let summary = switch.stop();
    let snapshot = &summary["snapshot"];
    assert_conserved(snapshot);
    assert_eq!(snapshot["workers"].as_array().unwrap().len(), 2);
    assert_segments_add_up(snapshot, 1_001);
    summary
}

#[test]
fn plain_ports_are_sent_by_the_worker_that_receives() {
    let summary = run(config(&json!({})));
    for port in summary["snapshot"]["ports"].as_array().unwrap() {
        assert!(port["tx_packets"].as_u64().unwrap() > 1000, "{port:#}");
        let dropped = sum(&port["drops"], |drop| number(&drop["packets"]));
        assert_eq!(dropped, 0, "{port:#}");
    }
}

#[test]
fn owned_ports_are_sent_by_their_owners() {
    // Ports a and c are received by worker 0, b and d by worker 1: with a capacity each port has one
    // owner, so that all packets change workers.
    run(config(&json!({ "capacity_bps": 1_000_000_000 })));
}

#[test]
fn queues_go_to_the_workers_that_name_them() {
    let mut config = config(&json!({}));
    config["workers"] = json!([
        { "idle": "sleep", "queues": [["a", 0], ["b", 0], ["c", 0]] },
        { "idle": "sleep", "queues": [["d", 0]] },
    ]);
    let summary = run(config);
    let workers = summary["snapshot"]["workers"].as_array().unwrap();
    assert!(workers.iter().all(|w| w["passes"].as_u64().unwrap() > 0));
}
