//! Sessions that follow an m-set: a file that changes, and routers of FRR with OSPF.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use testkit::frr::{API_PORT, Frr, Routers, TOY};
use testkit::http;
use testkit::namespace::{inside, within};
use testkit::process::{Process, wait_for};

use crate::serving::assert_documented;
use crate::support::{Daemon, folder, probe, reflector};

/// A star around A with these neighbours.
fn write(file: &Path, neighbours: &[&str]) {
    let links = neighbours.iter().map(|to| json!({ "from": "A", "to": to }));
    let nodes = ["A"].iter().chain(neighbours);
    let nodes: Vec<_> = nodes.map(|name| json!({ "name": name })).collect();
    let text = json!({ "nodes": nodes, "links": links.collect::<Vec<_>>() });
    let new = file.with_extension("new");
    std::fs::write(&new, text.to_string()).unwrap();
    std::fs::rename(new, file).unwrap();
}

fn config(file: &Path, reflectors: &[(&str, SocketAddr)]) -> Value {
    let addresses = reflectors
        .iter()
        .map(|(node, address)| ((*node).to_owned(), json!(address.to_string())));
    json!({
        "interval_ms": 200,
        "mset": {
            "topology": file,
            "node": "A",
            "addresses": addresses.collect::<serde_json::Map<_, _>>(),
            "transition_s": 0,
            "session": { "interval_ms": 5, "timeout_ms": 300 },
        },
    })
}

/// The totals of the session to a node; null if it has no result.
fn total(daemon: &Daemon, node: &str) -> Value {
    let answer = daemon.json(&format!("/api/v1/sessions?name=mset.{node}"));
    answer["sessions"][0]["total"].clone()
}

#[test]
fn sessions_come_and_go_with_the_topology_and_lose_no_count() {
    let (folder, _) = folder();
    let file = folder.path().join("network.json");
    let [(_b, b), (_c, c)] = [(); 2].map(|()| reflector(folder.path(), "127.0.0.1", None));
    write(&file, &["B"]);
    let daemon = Daemon::start(folder.path(), config(&file, &[("B", b), ("C", c)]), |_| {});
    let received = |node: &str| total(&daemon, node)["received"].as_u64();
    wait_for("B is not probed", || received("B") > Some(50));
    assert_eq!(received("C"), None);
    assert_eq!(daemon.page("/readyz").as_deref(), Some("ok\n"));

    write(&file, &["C"]);
    wait_for("C is not probed", || received("C") > Some(50));
    // No transition: B has left, and all that was sent is counted.
    let left = total(&daemon, "B");
    let count = |name: &str| left[name].as_u64().unwrap();
    assert_eq!(count("sent"), count("received") + count("lost"), "{left}");
    let mset = daemon.json("/api/v1/mset");
    let targets = mset["mset"]["targets"].as_array().unwrap();
    assert_eq!(
        (targets.len(), &targets[0]["ways"]),
        (1, &json!([["A", "C"]]))
    );

    write(&file, &["B", "C"]);
    wait_for("B is not probed again", || {
        received("B") > Some(count("received") + 50)
    });
    assert_eq!(total(&daemon, "B")["rejected"], 0);
    assert_documented(&daemon.page("/metrics").unwrap(), |name| {
        name.contains("_ospf_")
    });
}

/// Nobody reads the log, and a change of the topology writes more of it than a pipe holds: requests are sent and answered all
/// the same.
#[test]
fn an_unread_log_stops_nothing() {
    let (folder, _) = folder();
    let file = folder.path().join("network.json");
    let (_b, b) = reflector(folder.path(), "127.0.0.1", None);
    write(&file, &["B"]);
    let mut config = config(&file, &[("B", b)]);
    config["reflector"] = json!({ "listen": ["127.0.0.1:0"] });
    config["http"] = json!({ "listen": "127.0.0.1:0" });
    let document = folder.path().join("probe.json");
    std::fs::write(&document, config.to_string()).unwrap();
    let mut command = probe();
    command.arg("--config").arg(document).stderr(Stdio::piped());
    let mut process = Process::start(&mut command).unwrap();
    let mut log = BufReader::new(process.child.stderr.take().unwrap());
    let mut read = |words: &str| loop {
        let mut line = String::new();
        assert!(log.read_line(&mut line).unwrap() > 0, "no {words:?}");
        if let Some((_, rest)) = line.split_once(words) {
            return rest.trim().parse::<SocketAddr>().unwrap();
        }
    };
    let (own, http) = (read("reflector at "), read("http://"));
    let total = |name: &str| {
        let answer = http::json(http, "/api/v1/sessions");
        answer["sessions"][0]["total"][name].as_u64()
    };
    wait_for("B is not probed", || total("received") > Some(20));

    // Nobody reads on. A warning of each of these nodes, which have no addresses.
    let strangers: Vec<_> = (0..600)
        .map(|n| format!("{n}-{}", "x".repeat(50)))
        .collect();
    let neighbours = strangers.iter().map(String::as_str).chain(["B"]);
    write(&file, &neighbours.collect::<Vec<_>>());
    wait_for("the change is not taken up", || {
        let answer = http::json(http, "/api/v1/mset");
        answer["mset"]["targets"].as_array().map(Vec::len) > Some(600)
    });
    let before = total("received").unwrap();
    wait_for("B is not probed any more", || {
        total("received") > Some(before + 100)
    });
    let output = probe()
        .args([&own.to_string(), "-c", "5", "-i", "1"])
        .output()
        .unwrap();
    assert!(output.status.success(), "no answer any more");
    assert!(http::metric(http, "vernier_log_lost_lines_total").is_some());
}

/// `vernier-probe` in the namespace of a router.
struct Node {
    name: String,
    _process: Process,
}

impl Node {
    fn start(folder: &Path, name: &str, names: &Value) -> Self {
        let role = if ["C", "F"].contains(&name) {
            "m-router"
        } else {
            "m-server"
        };
        let config = json!({
            "interval_ms": 200,
            "reflector": { "listen": ["0.0.0.0"] },
            "mset": {
                "ospf": format!("127.0.0.1:{API_PORT}"), "names": names, "node": name, "advertise": role,
                "transition_s": 1, "session": { "interval_ms": 20, "timeout_ms": 300 },
            },
        });
        let file = folder.join(format!("{name}-probe.json"));
        std::fs::write(&file, config.to_string()).unwrap();
        let mut command = inside(name, env!("CARGO_BIN_EXE_vernier-probe"));
        command.arg("--config").arg(&file);
        let log = folder.join(format!("{name}-probe.log"));
        Self {
            name: name.to_owned(),
            _process: Process::start_logged(&mut command, log).unwrap(),
        }
    }

    fn answer(&self, path: &str) -> Value {
        let address = SocketAddr::from(([127, 0, 0, 1], 9_469));
        within(&self.name, || http::json(address, path)).unwrap()
    }

    /// The nodes of its m-set, and of these the ones that have answered.
    fn members(&self) -> [BTreeSet<String>; 2] {
        let texts = |values: &Value, text: fn(&Value) -> Option<&str>| {
            let values = values.as_array().into_iter().flatten();
            values.filter_map(text).map(str::to_owned).collect()
        };
        let mset = self.answer("/api/v1/mset");
        let sessions = self.answer("/api/v1/sessions");
        let answered = |session: &Value| session["last"]["received"].as_u64() > Some(0);
        let answering = sessions["sessions"].as_array().into_iter().flatten();
        let answering: Vec<Value> = answering
            .filter(|session| answered(session))
            .cloned()
            .collect();
        [
            texts(&mset["mset"]["targets"], |target| target["node"].as_str()),
            texts(&answering.into(), |session| {
                session["last"]["node"].as_str()
            }),
        ]
    }

    /// Waits until its m-set is this, and all of it answers.
    fn wait(&self, expected: &[&str]) {
        let expected: BTreeSet<String> = expected.iter().map(|&name| name.to_owned()).collect();
        wait_for(
            &format!("the m-set of {} is not measured", self.name),
            || {
                let [members, answering] = self.members();
                members == expected && answering.is_superset(&expected)
            },
        );
    }
}

#[test]
fn m_sets_of_live_ospf_are_measured() {
    let Some(frr) = Frr::for_test().unwrap() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut routers = Routers::start(&frr, TOY, folder.path()).unwrap();
    let all: Vec<_> = routers.names().map(str::to_owned).collect();
    let names = json!(routers.by_id());
    let nodes: Vec<_> = all
        .iter()
        .map(|name| Node::start(folder.path(), name, &names))
        .collect();
    let wait = |name: &str, expected: &[&str]| {
        let node = nodes.iter().find(|node| node.name == name).unwrap();
        node.wait(expected);
    };
    wait("A", &["B", "F"]);
    wait("C", &["D", "E", "F"]);
    wait("D", &["C", "E", "F"]);
    wait("F", &["A", "B", "D", "E"]);
    // F reaches D and E through C only.
    routers.set_link("E", "F", false).unwrap();
    wait("F", &["A", "B"]);
    wait("E", &["C", "D"]);
    routers.check_alive().unwrap();
}
