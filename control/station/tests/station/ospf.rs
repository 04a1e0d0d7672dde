//! Paths over routers of FRR, as OSPF changes.

use std::process::Command;

use report::msp::Report;
use serde_json::{Value, json};
use testkit::frr::{API_PORT, Frr, Routers, TOY, router_id};
use testkit::namespace;
use testkit::nats::NatsServer;
use testkit::skip;

use crate::support::{Station, wait_for};
use crate::{Reporter, chained};

/// The routes between two switches, as names in a row.
fn routes(station: &Station, from: &str, to: &str) -> Vec<String> {
    let answer = station.text(&format!("/api/v1/path?from={from}&to={to}"));
    let answer: Value = serde_json::from_str(&answer.unwrap_or_default()).unwrap_or_default();
    let paths = answer["paths"].as_array().into_iter().flatten();
    let routes = paths.map(|path| {
        let names = path["switches"].as_array().into_iter().flatten();
        names.filter_map(Value::as_str).collect()
    });
    routes.collect()
}

#[test]
fn paths_follow_live_ospf() {
    let id = Command::new("id").arg("-u").output().unwrap().stdout;
    let frr = match (id.trim_ascii(), Frr::find()) {
        (b"0", Some(frr)) => frr,
        (b"0", None) => return skip("FRR is missing: make setup-test"),
        _ => return skip("needs root"),
    };
    namespace::enter().unwrap();
    namespace::prepare().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut routers = Routers::start(&frr, TOY, folder.path()).unwrap();
    let names = (0..).zip(routers.names()).map(|(index, name)| {
        let id = router_id(index).to_string();
        (id, json!(name))
    });
    let names = Value::Object(names.collect());
    // The station stands at a router.
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
