//! A configuration that changes while packets flow: applied at an epoch's rollover, or refused as a whole.
use crate::support::{Daemon, assert_conserved, assert_segments_add_up};
use serde_json::{Value, json};

fn port(name: &str, side: u8) -> Value {
    let device = format!("generate:flows=200,rate=10000,side={side}");
    json!({ "name": name, "device": device })
}

/// Three bridged ports of traffic, two workers.
fn config() -> Value {
    json!({
        "ports": [port("a", 0), port("b", 1), port("c", 1)],
        "forwarding": { "mode": "bridge", "flood_limit_pps": 1_000_000 },
        "measurement": { "interval_ms": 100 },
        "workers": [{ "idle": "sleep" }, { "idle": "sleep" }],
    })
}

fn received(switch: &Daemon, port: usize) -> u64 {
    let snapshot = switch.snapshot().unwrap_or_default();
    snapshot["ports"][port]["rx_packets"].as_u64().unwrap_or(0)
}

/// Waits for the outcome of reload `number` and returns its message.
fn wait_for_outcome(switch: &mut Daemon, number: u64, outcome: &str) -> String {
    let reload = switch.wait_for_some(|switch| {
        let reload = switch.snapshot()?["reload"].clone();
        (reload["number"] == number && reload["outcome"] == outcome).then_some(reload)
    });
    reload["message"].as_str().unwrap().to_owned()
}

/// Waits until the generation is in use, and a few of its epochs have closed.
fn wait_for_generation(switch: &mut Daemon, number: u64) {
    switch.wait_for(|switch| {
        switch
            .snapshot()
            .is_some_and(|snapshot| snapshot["generation"] == number)
    });
    let seen = received(switch, 0);
    switch.wait_for(|switch| received(switch, 0) > seen + 3_000);
}

#[test]
fn measuring_changes_and_packets_flow_on() {
    let mut switch = Daemon::start(config());
    switch.wait_for(|switch| received(switch, 0) > 1_000);
    let mut changed = config();
    let steps = [
        json!({ "interval_ms": 100, "enabled": false }),
        json!({ "interval_ms": 100, "lds": { "cells": 4000, "rows": [1.0, 1.0, 1.0] }, "flows": { "slots": 1024 } }),
        json!({ "interval_ms": 100, "lda": { "banks": [{ "rows": 64, "probability": 0.5 }] } }),
    ];
    for (number, measurement) in (1..).zip(steps) {
        changed["measurement"] = measurement;
        switch.reload(changed.clone());
        wait_for_generation(&mut switch, number);
    }
    // Queues and classes, too: ports become owned only at the start.
    changed["ports"][1]["egress"] = json!({ "queue_packets": 32 });
    changed["classes"] = json!([{ "name": "gold" }, { "name": "rest" }]);
    changed["rules"] = json!([{ "class": "gold", "protocol": "tcp" }]);
    switch.reload(changed);
    wait_for_generation(&mut switch, 4);
    let summary = switch.stop();
    let snapshot = &summary["snapshot"];
    assert_conserved(snapshot);
    let mut segments = snapshot["segments"].as_array().unwrap().iter();
    assert!(
        segments.any(|segment| segment["class"] == "gold"),
        "{snapshot:#}"
    );
    assert_segments_add_up(snapshot, 0);
}

#[test]
fn ports_come_and_go_under_traffic() {
    let mut switch = Daemon::start(config());
    switch.wait_for(|switch| received(switch, 2) > 1_000);
    let all = config();
    let mut fewer = config();
    fewer["ports"].as_array_mut().unwrap().remove(1);
    let mut more = config();
    more["ports"].as_array_mut().unwrap().push(port("d", 0));
    more["ports"]
        .as_array_mut()
        .unwrap()
        .push(json!({ "name": "e", "device": "sink" }));
    for (number, config) in (1..).zip([&fewer, &more, &fewer, &all, &more]) {
        switch.reload(config.clone());
        wait_for_generation(&mut switch, number);
    }
    let summary = switch.stop();
    let snapshot = &summary["snapshot"];
    assert_conserved(snapshot);
    let ports = snapshot["ports"].as_array().unwrap();
    assert_eq!(ports.len(), 5);
    assert!(
        ports[..4]
            .iter()
            .all(|port| port["rx_packets"].as_u64() > Some(1_000))
    );
}

#[test]
fn the_outcome_of_every_reload_is_published_and_what_cannot_change_is_refused_whole() {
    let mut switch = Daemon::start(config());
    assert_eq!(switch.snapshot().unwrap()["reload"], Value::Null);
    let mut wanted = config();
    wanted["measurement"]["lda"] = json!({ "banks": [{ "rows": 64, "probability": 0.5 }] });
    let with = |key: &str, value: Value| {
        let mut changed = config();
        changed["measurement"]["enabled"] = json!(false);
        changed[key] = value;
        changed
    };
    let one_worker = json!([{ "idle": "sleep" }]);
    let steps = [
        (
            with("nam", json!("a")),
            "refused",
            "got `nam`; did you mean `name`?",
        ),
        (with("workers", one_worker), "refused", "workers"),
        (with("ports", json!([])), "refused", "ports"),
        (
            with("name", json!("other")),
            "refused",
            "name: measurement points are named",
        ),
        (wanted.clone(), "done", "measurement.lda.banks[0].rows"),
        (wanted, "unchanged", ""),
    ];
    for (number, (config, outcome, message)) in (1..).zip(steps) {
        switch.reload(config);
        let words = wait_for_outcome(&mut switch, number, outcome);
        assert!(words.contains(message), "{words}");
    }
    wait_for_generation(&mut switch, 1);
    assert_eq!(switch.snapshot().unwrap()["measuring"], true);
    let words = switch.last_words();
    assert!(
        words.contains("the configuration stays as it was"),
        "{words}"
    );
}

#[test]
fn a_configuration_that_became_a_pipe_holds_up_neither_reloads_nor_the_end() {
    let mut switch = Daemon::start(config());
    let file = switch.folder.path().join("vernier.json");
    std::fs::remove_file(&file).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&file).status();
    assert!(made.unwrap().success());
    for number in 1..3 {
        switch.hang_up();
        let words = wait_for_outcome(&mut switch, number, "refused");
        assert!(words.contains("it is not a regular file"), "{words}");
    }
    std::fs::remove_file(&file).unwrap();
    let mut changed = config();
    changed["measurement"]["enabled"] = json!(false);
    switch.reload(changed);
    wait_for_generation(&mut switch, 1);
    assert_conserved(&switch.stop()["snapshot"]);
}
