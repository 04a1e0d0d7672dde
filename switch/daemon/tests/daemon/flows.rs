//! Flows end to end: the real daemon on generated traffic with congestion, read by a real Prometheus,
//! over the API and by `vernier`; and far more flows than there are slots.
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::prometheus::Prometheus;
use crate::support::{Daemon, assert_conserved, number, sum};
use serde_json::{Value, json};
use testkit::pcap;

/// Every sample of the last minutes: by time of the scrape, by series.
fn samples(prometheus: &Prometheus, selector: &str) -> BTreeMap<u64, HashMap<String, f64>> {
    let answer = prometheus.query(&format!("{selector}[10m]")).unwrap();
    let mut samples: BTreeMap<u64, HashMap<String, f64>> = BTreeMap::new();
    for series in answer.as_array().unwrap() {
        let labels = &series["metric"];
        let name = labels["__name__"].as_str().unwrap();
        let of = |label: &str| labels[label].as_str().unwrap_or_default().to_owned();
        let name = [
            name,
            &of("share"),
            &of("flow"),
            &of("segment"),
            &of("class"),
        ]
        .join(" ");
        for sample in series["values"].as_array().unwrap() {
            let at_ms = ms(sample[0].as_f64().unwrap());
            let value: f64 = sample[1].as_str().unwrap().parse().unwrap();
            let scrape = samples.entry(at_ms).or_default();
            scrape.insert(name.clone(), value);
        }
    }
    samples
}

/// Two directions over a bridge, one of them congested, in two class queues.
fn congested() -> Value {
    json!({
        "ports": [
            { "name": "east", "device": "generate:flows=400,rate=60000,burst=20,pareto=1.2" },
            { "name": "west", "device": "generate:flows=300,rate=40000,burst=20,seed=5,side=1",
              "egress": { "capacity_bps": 210_000_000, "queues": [
                  { "classes": ["voice"], "service": "strict", "packets": 8_192 },
                  { "classes": ["rest"], "packets": 8_192 } ] } },
        ],
        "forwarding": { "mode": "patch", "pairs": [["east", "west"]] },
        "classes": [{ "name": "voice" }, { "name": "rest" }],
        "rules": [{ "class": "voice", "destination_ports": [0, 443] }],
        "measurement": {
            "interval_ms": 1_000,
            "lds": { "cells": 6_000 },
            "flows": { "slots": 4_096 },
        },
        "prometheus": { "top_flows": 80, "top_hold_s": 600 },
    })
}

/// The values of a snapshot, named as in [`samples`].
fn figures(snapshot: &Value) -> HashMap<String, f64> {
    let mut figures = HashMap::new();
    let flows = &snapshot["flows"];
    let top = flows["top"].as_array().unwrap().iter();
    let other = flows["other"].as_array().unwrap().iter();
    for flow in top.chain(other) {
        let text = |key: &str| flow[key].as_str().unwrap_or("other").to_owned();
        let segment = format!("{}>{}", text("ingress"), text("egress"));
        let mut put = |name: &str, value: f64| {
            // Behind the name the share that a percentile is for.
            let name = if name.contains(' ') {
                name.to_owned()
            } else {
                format!("{name} ")
            };
            let name = [&name, &text("flow"), &segment, &text("class")];
            figures.insert(name.map(String::as_str).join(" "), value);
        };
        let credited = |key: &str| flow["credited"][key].as_f64().unwrap();
        put("vernier_flow_delay_seconds_count", credited("packets"));
        put("vernier_flow_delay_seconds_sum", credited("delay_sum_s"));
        put("vernier_flow_lost_packets_total", credited("lost_packets"));
        let estimate = &flow["estimate"];
        // Epochs are of a second, and Prometheus does not get what is more than ten old.
        let epoch = |value: &Value| value["epoch"].as_u64().unwrap_or(0);
        let is_fresh = epoch(estimate) + 10 >= epoch(snapshot);
        for (share, key) in [
            ("0.5", "p50_ns"),
            ("0.9", "p90_ns"),
            ("0.99", "p99_ns"),
            ("1", "max_ns"),
        ] {
            let last = flow["last_epoch"].as_u64();
            let is_fresh = last.is_some_and(|last| last + 10 >= epoch(snapshot));
            if let (true, Some(ns)) = (is_fresh, flow["quantiles"][key].as_f64()) {
                let name = format!("vernier_flow_delay_last_epoch_seconds {share}");
                put(&name, ns / 1e9);
            }
        }
        if !is_fresh {
            continue;
        }
        if let Some(mean_ns) = estimate["mean_ns"].as_f64() {
            put("vernier_flow_estimated_delay_mean_seconds", mean_ns / 1e9);
        }
        if let Some(bound_ns) = estimate["bound_ns"].as_f64() {
            put("vernier_flow_delay_bound_seconds", bound_ns / 1e9);
        }
    }
    figures
}

/// How many top flows of an epoch have an estimate of it with a bound, and of how many the stamped mean
/// lies within.
fn judge(snapshot: &Value) -> (u64, u64) {
    let (mut all, mut within) = (0, 0);
    for flow in snapshot["flows"]["top"].as_array().unwrap() {
        let estimate = &flow["estimate"];
        let is_of_epoch = estimate["epoch"].is_u64() && estimate["epoch"] == flow["last_epoch"];
        if let (true, Some(bound)) = (is_of_epoch, estimate["bound_ns"].as_f64()) {
            assert_eq!(estimate["packets"], flow["last"]["packets"], "{flow:#}");
            let truth = flow["last"]["mean_ns"].as_f64().unwrap();
            let error = (estimate["mean_ns"].as_f64().unwrap() - truth).abs();
            all += 1;
            within += u64::from(error <= bound);
        }
    }
    (all, within)
}

/// `vernier` next to `vernierd`; `None`, with a message, if it was not built.
fn vernier(arguments: &[&str], address: SocketAddr) -> Option<Value> {
    let tool = Path::new(env!("CARGO_BIN_EXE_vernierd")).with_file_name("vernier");
    if !tool.exists() {
        crate::support::skip("vernier is not built (cargo build -p control)");
        return None;
    }
    let output = Command::new(tool)
        .args(arguments)
        .args(["--json", "--url", &format!("http://{address}")])
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// Whether two numbers are equal, apart from the number of digits.
fn is_same(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * a.abs().max(b.abs())
}

/// Whole milliseconds: how both sides name the end of an epoch.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "milliseconds since 1970"
)]
fn ms(seconds: f64) -> u64 {
    (seconds * 1e3).round() as u64
}

/// Data read from a switch over the API and by the tool.
#[derive(Default)]
struct Read {
    /// By the end of an epoch: everything published in it, for each change.
    versions: HashMap<u64, Vec<HashMap<String, f64>>>,
    /// By epoch: the largest flows, over the API and as the tool prints them.
    asked: HashMap<u64, Value>,
    printed: HashMap<u64, Value>,
    /// Flow-epochs with a bound, and of these those whose stamped mean lay within.
    judged: u64,
    within: u64,
    epochs: HashSet<u64>,
    last: Value,
}

impl Read {
    /// Takes the present snapshot, if it is new.
    fn look(&mut self, switch: &Daemon) {
        let snapshot = switch.snapshot().unwrap();
        let flows = &snapshot["flows"];
        let Some(end_s) = snapshot["epoch_end_unix_s"].as_f64() else {
            return;
        };
        if flows.is_null() || *flows == self.last {
            return;
        }
        self.last = flows.clone();
        let versions = self.versions.entry(ms(end_s)).or_default();
        versions.push(figures(&snapshot));
        let epoch = snapshot["epoch"].as_u64().unwrap();
        let is_whole = flows["decoding"]["epoch"] == epoch;
        let has_top = flows["top"].as_array().unwrap().len() >= 50;
        if is_whole && has_top && self.epochs.insert(epoch) {
            let (judged, within) = judge(&snapshot);
            self.judged += judged;
            self.within += within;
            self.list(switch);
        }
    }

    fn list(&mut self, switch: &Daemon) {
        let epoch = |page: &Value| page["epoch"].as_u64().unwrap();
        let page = switch.json("/api/v1/flows?sort=packets&limit=60").unwrap();
        self.asked.insert(epoch(&page), page);
        let arguments = ["flows", "--sort", "packets", "--limit", "60"];
        if let Some(page) = vernier(&arguments, switch.address) {
            self.printed.insert(epoch(&page), page);
        }
    }

    /// Epochs that Prometheus has as a snapshot said, and scrapes that no snapshot explains.
    fn compare(&self, scrapes: &BTreeMap<u64, HashMap<String, f64>>) -> (usize, usize) {
        const END: &str = "vernier_epoch_end_timestamp_seconds    ";
        let (mut equal, mut different) = (HashSet::new(), 0);
        for scrape in scrapes.values() {
            let Some(end_ms) = scrape.get(END).map(|&end_s| ms(end_s)) else {
                continue;
            };
            let Some(versions) = self.versions.get(&end_ms) else {
                continue;
            };
            let is_equal = |version: &HashMap<String, f64>| {
                let mut series = scrape.iter().filter(|(name, _)| *name != END);
                version.len() + 1 == scrape.len()
                    && series.all(|(name, &value)| {
                        version
                            .get(name)
                            .is_some_and(|&known| is_same(known, value))
                    })
            };
            if versions.iter().any(is_equal) {
                equal.insert(end_ms);
            } else {
                different += 1;
            }
        }
        (equal.len(), different)
    }
}

#[test]
fn prometheus_json_and_the_tool_agree_and_truth_lies_within_the_bounds() {
    let switch = Daemon::start(congested());
    let Some(prometheus) = Prometheus::start(switch.address) else {
        return;
    };
    let (mut read, began) = (Read::default(), Instant::now());
    // A busy machine delays bursts, and fewer flows of an epoch have a bound.
    while read.epochs.len() < 18 || read.judged < 500 {
        assert!(
            began.elapsed() < Duration::from_mins(2),
            "{} flow-epochs of {:?}",
            read.judged,
            read.epochs
        );
        read.look(&switch);
        std::thread::sleep(Duration::from_millis(5));
    }
    let metrics = "vernier_flow_(delay|lost|estimated_delay).*|vernier_epoch_end_.*";
    let scrapes = samples(&prometheus, &format!("{{__name__=~\"{metrics}\"}}"));
    let (equal, different) = read.compare(&scrapes);
    let Read { judged, within, .. } = read;
    println!(
        "{within} of {judged} flow-epochs within their bounds; {equal} epochs read alike by Prometheus \
         and JSON; {different} of {} scrapes of what JSON was not asked for in time",
        scrapes.len()
    );
    let is_percentile = |name: &String| name.starts_with("vernier_flow_delay_last_epoch");
    let percentiles = scrapes.values().flat_map(HashMap::keys);
    assert!(percentiles.filter(|name| is_percentile(name)).count() > 1_000);
    assert!(
        equal >= 10,
        "{equal} epochs alike, {different} scrapes different"
    );
    // A version that lasted for less than the time between two questions may be missed.
    assert!(
        different * 5 <= scrapes.len(),
        "{different} of {}",
        scrapes.len()
    );
    assert!(
        within as f64 >= 0.93 * judged as f64,
        "nominal 98 %: {within} of {judged}"
    );
    let mut alike = 0;
    for (epoch, page) in &read.printed {
        if let Some(asked) = read.asked.get(epoch) {
            assert_eq!(page["flows"], asked["flows"], "epoch {epoch}");
            assert_eq!(page["flows"].as_array().unwrap().len(), 60);
            alike += 1;
        }
    }
    let printed = read.printed.len();
    assert!(printed == 0 || alike >= 10, "{alike} of {printed}");

    let summary = switch.stop();
    assert_conserved(&summary["snapshot"]);
    credited_once(&summary["snapshot"]);
}

/// What segments measured is what flows and `other` were credited with.
fn credited_once(snapshot: &Value) {
    let mut credited: HashMap<String, u64> = HashMap::new();
    let flows = &snapshot["flows"];
    let top = flows["top"].as_array().unwrap().iter();
    let other = flows["other"].as_array().unwrap().iter();
    for flow in top.chain(other) {
        let of = |key: &str| flow[key].as_str().unwrap();
        let name = format!("{}>{} {}", of("ingress"), of("egress"), of("class"));
        *credited.entry(name).or_default() += flow["credited"]["packets"].as_u64().unwrap();
    }
    for segment in snapshot["segments"].as_array().unwrap() {
        let of = |key: &str| segment[key].as_str().unwrap();
        let name = format!("{}>{} {}", of("ingress"), of("egress"), of("class"));
        let received = segment["total"]["counts"]["received_packets"]
            .as_u64()
            .unwrap();
        assert_eq!(
            credited.get(&name).copied().unwrap_or(0),
            received,
            "{name}"
        );
    }
}

/// A million flows, most of them of one packet; 50 are large.
#[test]
fn a_million_flows_in_an_epoch_fold_into_other_and_the_largest_are_found() {
    const SLOTS: u64 = 150_000;
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("million.pcap");
    let largest = write_capture(&capture, 1_000_000, 50);
    let mut switch = Daemon::start(json!({
        "ports": [
            { "name": "in", "device": format!("replay:{}?speed=0.5&loop=0", capture.display()) },
            { "name": "out", "device": "sink" },
        ],
        "forwarding": { "mode": "patch", "pairs": [["in", "out"]] },
        "measurement": {
            "interval_ms": 2_500,
            "lds": { "cells": 70_000 },
            "flows": { "slots": SLOTS, "select": "top", "idle_s": 30 },
        },
        "prometheus": { "top_flows": 50, "top_hold_s": 1 },
    }));
    let runs = |switch: &Daemon| switch.metric("vernier_decode_runs_total");
    let mut peaks_kib = Vec::new();
    let mut recall = 0;
    for wanted in [4, 8] {
        switch.wait_for(|switch| runs(switch) >= Some(wanted));
        peaks_kib.push(switch.peak_kib());
        let page = switch.json("/api/v1/flows?sort=packets&limit=50").unwrap();
        let found = page["flows"].as_array().unwrap().iter();
        let found: HashSet<&str> = found.map(|flow| flow["flow"].as_str().unwrap()).collect();
        recall = largest
            .iter()
            .filter(|flow| found.contains(flow.as_str()))
            .count();
    }
    let summary = switch.stop();
    let snapshot = &summary["snapshot"];
    assert_conserved(snapshot);
    credited_once(snapshot);
    let flows = &snapshot["flows"];
    println!(
        "recall {recall} of 50; at most {peaks_kib:?} KiB; {}",
        flows["decoding"]
    );
    assert!(recall >= 48, "{recall} of the 50 largest flows");
    assert!(number(&flows["tracked"]) <= SLOTS);
    // Untracked packets are in `other`, and so are those of tracked flows without series.
    let untracked = sum(&flows["untracked"], |reason| number(&reason["packets"]));
    let other = sum(&flows["other"], |other| {
        number(&other["credited"]["packets"])
    });
    assert!(
        untracked > 0 && other >= untracked,
        "{untracked} untracked, {other} in other"
    );
    assert!(number(&flows["folded"]) > 0);
    // By the fourth run every table and list has been filled, and whole epochs have been decoded beside them.
    let (first, last) = (peaks_kib[0], peaks_kib[1]);
    assert!(
        last < first + first / 20 + 16_384,
        "memory grows: {peaks_kib:?}"
    );
}

/// Writes frames of `flows` flows in one round: the first `large` have 40 packets each, spread over it;
/// returns how these are called.
fn write_capture(file: &Path, flows: u32, large: u32) -> Vec<String> {
    let out = std::io::BufWriter::new(std::fs::File::create(file).unwrap());
    let mut capture = pcap::Writer::new(out).unwrap();
    let address = |flow: u32| Ipv4Addr::from_bits(0x0a00_0000 + flow);
    let to = (Ipv4Addr::new(10, 200, 0, 1), 80);
    let mut id = 0_u16;
    let mut write = |flow: u32| {
        let frame = pcap::udp_frame(id, (address(flow), 7_000), to, &[0; 18]);
        capture.write(&frame).unwrap();
        id = id.wrapping_add(1);
    };
    for flow in 0..flows {
        if flow % (flows / 40) == 0 {
            (0..large).for_each(&mut write);
        }
        if flow >= large {
            write(flow);
        }
    }
    capture.finish().unwrap();
    let name = |flow| format!("{}:7000>10.200.0.1:80/udp", address(flow));
    (0..large).map(name).collect()
}
