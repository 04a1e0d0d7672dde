//! Paths over live OSPF, and over probes.

use std::path::Path;

use clap::Parser;
use probe::cli::{self, Arguments};
use report::msp::Report;
use serde_json::{Value, json};
use testkit::frr::{API_PORT, Frr, Routers, TOY};
use testkit::namespace;
use testkit::nats::NatsServer;
use testkit::process::{Background, free_address, wait_for};

use crate::support::Station;
use crate::{Reporter, chained};

/// Returns the routes between two switches, each as a row of names.
fn routes(station: &Station, from: &str, to: &str) -> Vec<String> {
    let answer = station.json(&format!("/api/v1/path?from={from}&to={to}"));
    let paths = answer["paths"].as_array().into_iter().flatten();
    let routes = paths.map(|path| {
        let names = path["switches"].as_array().into_iter().flatten();
        names.filter_map(Value::as_str).collect()
    });
    routes.collect()
}

#[test]
fn paths_follow_live_ospf() {
    let Some(frr) = Frr::for_test().unwrap() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut routers = Routers::start(&frr, TOY, folder.path()).unwrap();
    let names = routers.by_id();
    // The station is attached to a router.
    let follow = || {
        let server = NatsServer::start(folder.path(), "").unwrap();
        let ospf = format!("127.0.0.1:{API_PORT}");
        let station = Station::start(&server, &json!({ "ospf": ospf, "names": names }));
        let reporter = Reporter::new(&server);
        for name in ["A", "D"] {
            let switch = name.to_owned();
            reporter.send(&Report {
                switch,
                wire_switch: None,
                neighbours: Vec::new(),
                ..chained(1, 0)
            });
        }
        let wait = |expected: &[&str]| {
            wait_for(&format!("{expected:?}"), || {
                routes(&station, "A", "D") == expected
            });
        };
        wait(&["AFCD", "AFED"]);
        routers.set_link("E", "F", false).unwrap();
        wait(&["AFCD"]);
        routers.set_link("A", "F", false).unwrap();
        wait(&["ABFCD"]);
        let missing = station.json("/api/v1/missing");
        assert_eq!(missing["unreported"], json!(["B", "C", "E", "F"]));
    };
    namespace::within("A", follow).unwrap();
    routers.check_alive().unwrap();
}

/// Runs `vernier-probe --config` on a thread.
fn prober(folder: &Path, node: &str, config: &Value) -> Background {
    let file = folder.join(format!("{node}.json"));
    std::fs::write(&file, config.to_string()).unwrap();
    let program = "vernier-probe".as_ref();
    let arguments = Arguments::parse_from([program, "--config".as_ref(), file.as_os_str()]);
    Background::start(move |stopped| cli::run(&arguments, stopped).unwrap())
}

/// Returns the configuration of a prober at `node` that reflects at its own address and probes the other.
fn config(server: &NatsServer, node: &str, [own, other]: [&str; 2], far: &str) -> Value {
    json!({
        "interval_ms": 200,
        "clock": { "error_ns": 10_000 },
        "http": { "listen": null },
        "reflector": { "listen": [own] },
        "sessions": [{ "name": format!("to-{far}"), "node": far, "to": other, "interval_ms": 10, "timeout_ms": 500 }],
        "report": { "node": node, "nats": { "servers": [server.url()] } },
    })
}

#[test]
fn two_probers_cover_the_path_between_their_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let server = NatsServer::start(folder.path(), "").unwrap();
    let station = Station::start(&server, &json!({}));
    let [a, b] = [(); 2].map(|()| free_address().unwrap().to_string());
    let first = prober(folder.path(), "a", &config(&server, "a", [&a, &b], "b"));
    let second = prober(folder.path(), "b", &config(&server, "b", [&b, &a], "a"));
    let hop = |from: &str, to: &str| {
        let answer = station.json(&format!("/api/v1/path?from={from}&to={to}"));
        let chain = answer["paths"][0]["chain"].as_array()?.clone();
        assert_eq!(chain.len(), 1, "{answer}");
        Some(chain[0].clone())
    };
    for (from, to) in [("a", "b"), ("b", "a")] {
        wait_for("the probe covers the path", || {
            hop(from, to).is_some_and(|hop| hop["kind"] == "probe")
        });
        let hop = hop(from, to).unwrap();
        assert_eq!(hop["title"], format!("{from} > {to}"));
        let figures = &hop["figures"];
        let mean_ns = figures["mean_ns"].as_f64().unwrap();
        assert!((1.0..1e9).contains(&mean_ns), "{hop}");
        // The bound includes the errors of both ends' clocks.
        assert!(figures["bound_ns"].as_f64() > Some(20_000.0), "{hop}");
        assert_eq!(figures["packets"], figures["samples"], "{hop}");
    }
    drop(second);
    wait_for("the second prober is missing", || {
        let missing = station.json("/api/v1/missing");
        let switches = missing["switches"].as_array().unwrap().clone();
        switches
            .iter()
            .any(|switch| switch["switch"] == "b.probe" && !switch["silent_since_unix_s"].is_null())
    });
    // The other prober no longer answers: the losses are reported.
    wait_for("the first prober's packets are lost", || {
        hop("a", "b").is_some_and(|hop| {
            let figures = &hop["figures"];
            figures["lost"] == figures["packets"] && figures["packets"].as_u64() > Some(0)
        })
    });
    drop(first);
    let switch = station.switch("a.probe").unwrap();
    assert_eq!(
        (
            &switch["missed_epochs"],
            &switch["restarts"],
            &switch["duplicates"]
        ),
        (&json!(0), &json!(0), &json!(0)),
        "{switch}"
    );
    let metrics = station.text("/metrics").unwrap();
    let series = "vernier_station_segment_packets{switch=\"a.probe\",kind=\"round_trip\",from=\"a\",to=\"b\",class=\"all\"}";
    assert!(metrics.contains(series), "{metrics}");
}
