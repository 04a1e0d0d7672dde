//! Every query of the Grafana dashboards, asked of a real Prometheus that scrapes two switches whose segments have the same
//! names.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::prometheus::Prometheus;
use crate::support::Daemon;

/// The one figure that is of all switches together.
const OF_ALL: &str = "Switches running";

fn switch() -> Daemon {
    Daemon::start(json!({
        "ports": [
            { "name": "east", "device": "generate:flows=50,rate=20000",
              "egress": { "capacity_bps": 250_000_000 } },
            { "name": "west", "device": "generate:flows=50,rate=20000,seed=5,side=1" },
        ],
        "forwarding": { "mode": "patch", "pairs": [["east", "west"]] },
        "measurement": { "interval_ms": 500, "lds": {}, "flows": {} },
    }))
}

/// Panels, those of closed rows too.
fn panels(dashboard: &Value) -> Vec<&Value> {
    let with_inner =
        panels_of(dashboard).flat_map(|panel| std::iter::once(panel).chain(panels_of(panel)));
    with_inner.collect()
}

fn panels_of(parent: &Value) -> impl Iterator<Item = &Value> {
    parent["panels"].as_array().into_iter().flatten()
}

/// Title and expression of each query, with everything chosen.
fn queries() -> Vec<(String, String)> {
    let all = ["fleet", "switch", "flows"];
    all.into_iter().flat_map(queries_of).collect()
}

fn queries_of(dashboard: &str) -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dashboards");
    let text = std::fs::read_to_string(format!("{folder}/{dashboard}.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let queries = panels(&dashboard).into_iter().flat_map(|panel| {
        let title = panel["title"].as_str().unwrap().to_owned();
        let targets = panel["targets"].as_array().into_iter().flatten();
        targets.map(move |target| (title.clone(), chosen(target["expr"].as_str().unwrap())))
    });
    queries.collect()
}

fn chosen(expression: &str) -> String {
    let mut expression = expression
        .replace("$__rate_interval", "10s")
        .replace("$objective", "0.001048576");
    for variable in ["instance", "segment", "class", "port", "flow", "station"] {
        expression = expression.replace(&format!("${variable}\""), ".*\"");
    }
    assert!(!expression.contains('$'), "{expression}");
    expression
}

/// The switches that an answer tells of; an empty name for a series that tells of all.
fn instances(answer: &Value) -> BTreeSet<String> {
    let series = answer.as_array().unwrap().iter();
    let instance = |series: &Value| {
        series["metric"]["instance"]
            .as_str()
            .unwrap_or("")
            .to_owned()
    };
    series.map(instance).collect()
}

/// The number of queries whose answers tell of both switches. No answer may mix them.
fn telling_of(prometheus: &Prometheus, both: &BTreeSet<String>) -> usize {
    // It may have only just been started.
    if prometheus.query("up").is_none() {
        return 0;
    }
    let mut telling = 0;
    for (title, expression) in queries() {
        let answer = prometheus.query(&expression).filter(Value::is_array);
        let answer = answer.unwrap_or_else(|| panic!("{title}: Prometheus refuses {expression}"));
        let told_of = instances(&answer);
        assert!(
            title == OF_ALL || !told_of.contains(""),
            "{title} mixes switches: {expression}"
        );
        telling += usize::from(told_of == *both);
    }
    telling
}

#[test]
fn no_panel_mixes_two_switches_whose_segments_have_one_name() {
    let mut switches = [switch(), switch()];
    let targets = switches.each_ref().map(|switch| switch.address);
    let Some(prometheus) = Prometheus::start_of(&targets, &[]) else {
        return;
    };
    let both = targets.map(|target| target.to_string()).into();
    // Rates need two scrapes, errors of estimates an epoch with flows that were decoded. Wires, stations, bridges and
    // events that did not occur have no series here.
    switches[0].wait_for(|_| telling_of(&prometheus, &both) >= 50);
    for (title, expression) in queries().iter().filter(|(title, _)| title == OF_ALL) {
        let answer = prometheus.query(expression).unwrap();
        assert_eq!(answer[0]["value"][1], "2", "{title}: {expression}");
    }
}
