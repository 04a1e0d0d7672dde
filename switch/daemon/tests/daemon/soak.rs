//! A long run of the real `vernierd`, with everything on: generated traffic over two workers, a link that flaps, and
//! reloads that change ports, classes, queues and measurement.
//!
//! Ten seconds here; `make soak` runs ten minutes, CI one (`VERNIER_SOAK_SECONDS`).
use std::time::{Duration, Instant};

use crate::support::{Daemon, assert_conserved, assert_segments_add_up, is_root, number, sum};
use serde_json::{Value, json};
use testkit::hosts::Veth;
use testkit::namespace::ip;

/// Duration of the run.
fn length() -> Duration {
    let seconds = std::env::var("VERNIER_SOAK_SECONDS").ok();
    Duration::from_secs(seconds.map_or(10, |seconds| {
        seconds
            .parse()
            .expect("VERNIER_SOAK_SECONDS is a number of seconds")
    }))
}

/// The configuration after this number of changes; each differs from the previous one.
fn config(change: u64, wire: Option<&Veth>) -> Value {
    let queues = json!([
        { "classes": ["voice"], "service": "strict", "packets": 256 },
        { "classes": ["rest"], "packets": 512 + change % 7,
          "red": { "min_packets": 100, "max_packets": 400, "probability": 0.1 } },
    ]);
    let mut ports = vec![
        json!({ "name": "east", "device": "generate:flows=500,rate=20000",
                "egress": { "capacity_bps": 400_000_000, "queues": queues, "owner": 0 } }),
        json!({ "name": "west", "device": "generate:flows=200,rate=20000,burst=16,side=1" }),
    ];
    if let Some(wire) = wire {
        let device = format!("net_af_packet0,iface={}", wire.0);
        ports.push(json!({ "name": "wire", "device": device }));
    }
    if change % 3 == 1 {
        ports.push(json!({ "name": "extra", "device": "sink" }));
    }
    let mut measurement = json!({
        "interval_ms": 100,
        "enabled": change % 5 != 4,
        "lda": { "banks": [{ "rows": 256 + 64 * (change % 2), "probability": 1.0 }] },
        "flows": { "slots": 4096, "select": "all", "idle_s": 2 },
    });
    if change.is_multiple_of(2) {
        measurement["lds"] = json!({ "cells": 3000, "rows": [1, 1, 1] });
    }
    json!({
        "ports": ports,
        "forwarding": { "mode": "bridge", "fdb_entries": 4096, "flood_limit_pps": 20_000 },
        "classes": [{ "name": "voice" }, { "name": "rest" }],
        "rules": [{ "class": "voice", "destination_ports": [0, 20_000 + change % 1000] }],
        "measurement": measurement,
        "workers": [{ "idle": "sleep" }, { "idle": "sleep" }],
    })
}

/// The longest gap of a loop that does nothing but look at the clock for a second: what this machine
/// does to any loop.
fn idle_gap_ns() -> u128 {
    let began = Instant::now();
    let (mut last, mut gap) = (began, Duration::ZERO);
    while last - began < Duration::from_secs(1) {
        let now = Instant::now();
        gap = gap.max(now - last);
        last = now;
    }
    gap.as_nanos()
}

/// Figures that are checked repeatedly.
#[derive(Debug, Default)]
struct Levels {
    resident_kib: u64,
    buffers_used: u64,
}

impl Levels {
    fn see(&mut self, switch: &Daemon, snapshot: &Value) {
        self.resident_kib = self.resident_kib.max(switch.resident_kib());
        let used = sum(&snapshot["pools"], |pool| number(&pool["used"]));
        self.buffers_used = self.buffers_used.max(used);
    }

    /// Fails if there is more than earlier.
    fn assert_no_more_than(&self, earlier: &Self) {
        let kib_max = earlier.resident_kib + earlier.resident_kib / 20 + 16_384;
        assert!(
            self.resident_kib < kib_max,
            "memory grows: {earlier:?}, then {self:?}"
        );
        assert!(
            self.buffers_used < earlier.buffers_used + 2_048,
            "buffers leak: {earlier:?}, then {self:?}"
        );
    }
}

fn snapshot(switch: &Daemon) -> Value {
    switch.snapshot().unwrap()
}

/// Reloads, and waits until the new configuration is measured.
fn change(switch: &mut Daemon, change: u64, wire: Option<&Veth>) {
    let before = number(&snapshot(switch)["generation"]);
    switch.reload(config(change, wire));
    switch.wait_for(|switch| number(&snapshot(switch)["generation"]) > before);
}

/// Takes the link away and gives it back, once the switch has seen that it is gone.
fn flap(switch: &mut Daemon, wire: &Veth) {
    for is_up in [false, true] {
        let state = if is_up { "up" } else { "down" };
        ip(&format!("link set {} {state}", wire.peer())).unwrap();
        switch.wait_for(|switch| {
            let snapshot = snapshot(switch);
            let mut ports = snapshot["ports"].as_array().unwrap().iter();
            ports.any(|port| port["name"] == "wire" && port["facts"]["is_up"] == is_up)
        });
    }
}

/// A number of all segments together.
fn total(snapshot: &Value, of: impl Fn(&Value) -> &Value) -> u64 {
    sum(&snapshot["segments"], |segment| {
        number(of(&segment["total"]))
    })
}

fn estimated(snapshot: &Value) -> u64 {
    total(snapshot, |total| &total["estimated_epochs"])
}

fn link_epochs(snapshot: &Value) -> u64 {
    total(snapshot, |total| &total["unusable_epochs"]["link"])
}

/// Changes made to a switch, and observations meanwhile.
#[derive(Debug, Default)]
struct Disturbed {
    changes: u64,
    flaps: u64,
    /// The longest gap of a worker that may sleep.
    gap_ns: f64,
    second_quarter: Levels,
    last_quarter: Levels,
}

/// Changes the configuration and flaps the link again and again.
fn disturb(switch: &mut Daemon, wire: Option<&Veth>) -> Disturbed {
    let (began, length) = (Instant::now(), length());
    let mut disturbed = Disturbed::default();
    while began.elapsed() < length {
        disturbed.changes += 1;
        change(switch, disturbed.changes, wire);
        if let Some(wire) = wire {
            flap(switch, wire);
            disturbed.flaps += 1;
        }
        std::thread::sleep(Duration::from_millis(300));
        let now = snapshot(switch);
        for worker in now["workers"].as_array().unwrap() {
            let gap_ns = worker["poll_gap_max_ns"].as_f64().unwrap();
            disturbed.gap_ns = disturbed.gap_ns.max(gap_ns);
        }
        let quarter = 4 * began.elapsed().as_millis() / length.as_millis().max(1);
        match quarter {
            1 => disturbed.second_quarter.see(switch, &now),
            3 => disturbed.last_quarter.see(switch, &now),
            _ => {}
        }
    }
    disturbed
}

#[test]
fn nothing_leaks_and_nothing_is_wrong_however_it_is_disturbed() {
    let wire = is_root("a link that flaps").then(|| Veth::new().unwrap());
    let mut switch = Daemon::start_logging(config(0, wire.as_ref()), "error");
    switch.wait_for(|switch| snapshot(switch)["epoch"].is_u64());
    let disturbed = disturb(&mut switch, wire.as_ref());
    let idle_gap_ns = idle_gap_ns();
    // Once more with measuring on, and a link that flaps under it.
    let changes = disturbed.changes + 1 + u64::from(disturbed.changes % 5 == 3);
    change(&mut switch, changes, wire.as_ref());
    switch.wait_for(|switch| estimated(&snapshot(switch)) >= 20);
    if let Some(wire) = &wire {
        let before = link_epochs(&snapshot(&switch));
        flap(&mut switch, wire);
        switch.wait_for(|switch| link_epochs(&snapshot(switch)) > before);
    }
    let snapshot = &switch.stop()["snapshot"];
    assert_conserved(snapshot);
    assert_segments_add_up(snapshot, 0);
    let within = total(snapshot, |total| &total["within_bound_epochs"]);
    let (estimated, link_epochs) = (estimated(snapshot), link_epochs(snapshot));
    println!(
        "{changes} changes; {within} of {estimated} estimates within their bounds, {link_epochs} epochs of \
         segments marked for the link; {disturbed:?}; longest gap of an idle loop {idle_gap_ns} ns"
    );
    assert!(
        within as f64 >= 0.9 * estimated as f64,
        "nominal 98 %: {within} of {estimated}"
    );
    let (second, last) = (&disturbed.second_quarter, &disturbed.last_quarter);
    if last.resident_kib > 0 && second.resident_kib > 0 {
        last.assert_no_more_than(second);
    }
}
