//! Debian's unmodified Open vSwitch with DPDK and a vhost-user port, behind which testpmd plays a virtual machine on
//! virtio-user. One host is at a DPDK port, the other behind the machine.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what must hold in the plainest way"
)]

mod support;

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::ovs::{self, MEMORY_MIB, OpenVSwitch};
use support::testpmd::Testpmd;
use support::{PATIENCE, Plugin, huge_pages};
use testkit::hosts::Hosts;
use testkit::hugepages::Hugepages;

/// The machine's memory.
const MACHINE_MIB: u64 = 256;

/// Memory that a machine can share: each of its segments is a file.
const MEMORY: [&str; 5] = [
    "-m",
    "256",
    "--in-memory",
    "--single-file-segments",
    "--no-telemetry",
];

/// Name of host 1's port in the settings.
const UPLINK: &str = "uplink";

/// A virtual machine that forwards between the switch's socket and host 2. It waits for the switch.
fn machine(socket: &str, hosts: &Hosts) -> Testpmd {
    machine_with(&format!("{socket},server=1"), hosts, 1)
}

/// The same with as many queues in each direction.
fn machine_with(path: &str, hosts: &Hosts, queues: u16) -> Testpmd {
    let interface = hosts.name(2);
    let devices = [
        format!("net_virtio_user0,path={path},queue_size=1024,queues={queues}"),
        format!("net_af_packet0,iface={interface},qpairs={queues}"),
    ];
    let arguments = [
        "--forward-mode=io".to_owned(),
        format!("--rxq={queues}"),
        format!("--txq={queues}"),
    ];
    let arguments = arguments.each_ref().map(String::as_str);
    let mut machine = Testpmd::with_eal(&MEMORY, None, &devices, &arguments);
    machine.tell("start");
    machine
}

/// A bridge that forwards packets from each port to the other, without learning.
fn bridge(switch: &OpenVSwitch, hosts: &Hosts) {
    let add = "add-br br0 -- set bridge br0 datapath_type=netdev fail_mode=secure";
    switch.tell(&add.split(' ').collect::<Vec<_>>());
    // With fail_mode=secure there are no other rules.
    for rule in ["in_port=1,actions=output:2", "in_port=2,actions=output:1"] {
        switch.ofctl("add-flow", &[rule]);
    }
    switch.add_port("p1", 1, "dpdk", &ovs::af_packet(1, hosts));
}

fn add_machine(switch: &OpenVSwitch, name: &str) -> String {
    let socket = switch.path(&format!("{name}.sock"));
    let option = format!("options:vhost-server-path={socket}");
    switch.add_port(name, 2, "dpdkvhostuserclient", &option);
    socket
}

/// Packets that a port of Open vSwitch has received and sent.
fn counted(switch: &OpenVSwitch, port: &str) -> [u64; 2] {
    let said = switch.ofctl("dump-ports", &[port]);
    ["rx pkts=", "tx pkts="].map(|which| {
        let figure = said.split_once(which).unwrap().1.split(',').next();
        figure.unwrap().trim().parse().unwrap_or(0)
    })
}

/// The same counts from the machine, because Open vSwitch does not count on ports with several queues.
fn counted_inside(machine: &mut Testpmd) -> [u64; 2] {
    let head = "NIC statistics for port 0";
    let before = machine.said().matches(head).count();
    machine.tell("show port stats 0");
    machine.wait_for(head, before + 1);
    machine.wait_for("Tx-bps", before + 1);
    let said = machine.said();
    let last = said.rsplit_once(head).unwrap().1;
    ["TX-packets:", "RX-packets:"].map(|which| {
        let figure = last.split_once(which).unwrap().1.split_whitespace().next();
        figure.unwrap().parse().unwrap()
    })
}

/// The segment from one port to another.
fn segment<'s>(snapshot: &'s Value, from: &str, to: &str) -> Option<&'s Value> {
    let is_it = |segment: &&Value| segment["ingress"] == from && segment["egress"] == to;
    snapshot["segments"].as_array()?.iter().find(is_it)
}

fn port<'s>(snapshot: &'s Value, name: &str) -> Option<&'s Value> {
    let ports = snapshot["ports"].as_array()?;
    ports.iter().find(|port| port["name"] == name)
}

/// Packets received and sent by a port, as the plugin counts them.
fn ports_counts(snapshot: &Value, name: &str) -> [u64; 2] {
    let port = port(snapshot, name).unwrap();
    ["rx_packets", "tx_packets"].map(|key| port[key].as_u64().unwrap())
}

/// Two hosts, and the switch and machine between them.
struct Scene {
    plugin: Plugin,
    switch: OpenVSwitch,
    hosts: Hosts,
    _pages: Hugepages,
}

/// An independent count of packets at a machine's port.
type Count<'c> = dyn FnMut(&OpenVSwitch) -> [u64; 2] + 'c;

/// Packets from and to a machine, as counted independently, by the plugin's ports and by its segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counts {
    others: [u64; 2],
    ports: [u64; 2],
    segments: [u64; 2],
}

impl Scene {
    /// `None`, with a message, if a requirement is missing.
    fn start(plugin: Option<Plugin>) -> Option<Self> {
        let (root, plugin) = (ovs::root()?, plugin?);
        let pages = huge_pages(MEMORY_MIB + MACHINE_MIB)?;
        let hosts = ovs::hosts();
        let switch = OpenVSwitch::start(root, &plugin);
        bridge(&switch, &hosts);
        Some(Self {
            plugin,
            switch,
            hosts,
            _pages: pages,
        })
    }

    /// Waits until a machine's port is measured in both directions.
    fn wait_for(&self, name: &str) {
        let what = format!("segments of {name}");
        let first = self.plugin.wait("/api/v1/snapshot", &what, |snapshot| {
            let is_up = port(snapshot, name)?["facts"]["is_up"] == true;
            let both = [(UPLINK, name), (name, UPLINK)];
            let are_there = both.map(|(from, to)| segment(snapshot, from, to).is_some());
            (is_up && are_there == [true; 2]).then(|| snapshot["epoch"].as_u64())?
        });
        // Queues apply a change two epochs after the control core announces it.
        self.plugin
            .wait("/api/v1/snapshot", "some epochs", |snapshot| {
                (snapshot["epoch"].as_u64()? > first + 4).then_some(())
            });
    }

    /// Waits until a machine's port is gone.
    fn wait_for_end_of(&self, name: &str) {
        let what = format!("{name} to go");
        self.plugin.wait("/api/v1/snapshot", &what, |snapshot| {
            (port(snapshot, name)?["is_absent"] == true).then_some(())
        });
    }

    fn counts(&self, name: &str, count: &mut Count<'_>) -> Counts {
        let others = count(&self.switch);
        let snapshot = self.plugin.json("/api/v1/snapshot").unwrap();
        let passed = |from, to| {
            let total = &segment(&snapshot, from, to).unwrap()["total"];
            total["counts"]["received_packets"].as_u64().unwrap()
        };
        Counts {
            others,
            ports: ports_counts(&snapshot, name),
            segments: [passed(name, UPLINK), passed(UPLINK, name)],
        }
    }

    /// The same, when they no longer change.
    fn settled(&self, name: &str, count: &mut Count<'_>) -> Counts {
        let mut before = self.counts(name, count);
        loop {
            // More than an epoch.
            thread::sleep(Duration::from_millis(500));
            let now = self.counts(name, count);
            if now == before {
                return now;
            }
            before = now;
        }
    }

    /// Runs `traffic`, and compares the plugin's counts with independent ones.
    fn compare(&self, name: &str, count: &mut Count<'_>, traffic: impl FnOnce(&Self)) {
        let before = self.settled(name, count);
        traffic(self);
        let began = Instant::now();
        loop {
            let now = self.settled(name, count);
            let grown = |of: fn(&Counts) -> [u64; 2]| {
                let (now, before) = (of(&now), of(&before));
                [now[0] - before[0], now[1] - before[1]]
            };
            let others = grown(|counts| counts.others);
            let [ports, segments] = [grown(|counts| counts.ports), grown(|it| it.segments)];
            if others[0] > 0 && others[1] > 0 && [ports, segments] == [others; 2] {
                return;
            }
            let what = format!("{others:?} by others, {ports:?} by port, {segments:?} passed");
            assert!(began.elapsed() < PATIENCE, "{name}: {what}");
        }
    }

    fn ping(&self) {
        ovs::ping_until_answered(&self.hosts, &self.switch);
    }

    /// Some TCP in one direction, with its acknowledgements in the other.
    fn transfer(&self) {
        let sent = ovs::transfer(&self.hosts, &self.switch);
        assert!(sent > 100_000, "{sent} bytes");
    }

    /// Requests a reload with these settings; returns its outcome and message.
    fn reload(&mut self, settings: &Value) -> (String, String) {
        let mut settings = settings.clone();
        settings["http"]["listen"] = self.plugin.address.to_string().into();
        self.plugin.write_settings(&settings.to_string());
        let request = ureq::post(format!("http://{}/api/v1/reload", self.plugin.address));
        let answer = request.header("X-Vernier", "reload").send_empty();
        let answer = answer.unwrap().body_mut().read_to_string().unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let after = answer["after"].as_u64().unwrap();
        self.plugin.wait("/api/v1/status", "its outcome", |status| {
            let reload = &status["reload"];
            let outcome = reload["outcome"].as_str()?;
            let is_over =
                reload["number"].as_u64()? > after && !["reading", "under_way"].contains(&outcome);
            let message = reload["message"].as_str()?;
            is_over.then(|| (outcome.to_owned(), message.to_owned()))
        })
    }
}

/// A plugin with these settings that sees vhost-user ports.
fn shown(settings: Value) -> Option<Plugin> {
    let mut plugin = Plugin::with(settings)?;
    plugin.preload_vhost();
    Some(plugin)
}

fn settings() -> Value {
    json!({
        "measurement": { "interval_ms": 200, "flows": { "slots": 1_024 } },
        "port_names": { "net_af_packet1": UPLINK },
    })
}

#[test]
fn machines_come_and_go_and_every_packet_of_theirs_is_measured() {
    let Some(mut scene) = Scene::start(shown(settings())) else {
        return;
    };
    let socket = add_machine(&scene.switch, "vm1");
    let first = machine(&socket, &scene.hosts);
    scene.wait_for("vm1");
    let [mut first_s, mut second_s] =
        ["vm1", "vm2"].map(|port| move |switch: &OpenVSwitch| counted(switch, port));
    scene.compare("vm1", &mut first_s, |scene| {
        scene.ping();
        scene.transfer();
    });
    has_latencies(&scene);

    // It restarts.
    assert!(first.quit().0.success());
    scene.wait_for_end_of("vm1");
    let again = machine(&socket, &scene.hosts);
    scene.wait_for("vm1");
    scene.compare("vm1", &mut first_s, Scene::ping);

    reloads(&mut scene);
    // Another machine, which has the first machine's number.
    let before = scene.settled("vm1", &mut first_s).ports;
    assert!(again.quit().0.success());
    scene.wait_for_end_of("vm1");
    scene.switch.tell(&["del-port", "br0", "vm1"]);
    let second = machine(&add_machine(&scene.switch, "vm2"), &scene.hosts);
    scene.wait_for("db");
    scene.compare("db", &mut second_s, Scene::ping);
    let snapshot = scene.plugin.json("/api/v1/snapshot").unwrap();
    assert_eq!(ports_counts(&snapshot, "vm1"), before);

    let log = scene.switch.exit();
    let ours = log.lines().filter(|line| line.contains("VERNIER"));
    let refused = ours.filter(|line| line.contains("settings: not taken up: "));
    assert_eq!(
        (refused.count(), log.matches("VERNIER").count()),
        (2, 2),
        "{log}"
    );
    assert!(second.quit().0.success());
}

/// Delays of both directions, and flows with names.
fn has_latencies(scene: &Scene) {
    let snapshot = scene.plugin.json("/api/v1/snapshot").unwrap();
    for (from, to) in [(UPLINK, "vm1"), ("vm1", UPLINK)] {
        let delay_ns = &segment(&snapshot, from, to).unwrap()["last_minute"]["mean_ns"];
        assert!(delay_ns.as_f64().unwrap() > 0.0, "{from} {to}: {delay_ns}");
    }
    let driver = &port(&snapshot, "vm1").unwrap()["facts"]["driver"];
    assert_eq!(driver, "vhost-user");
    let flows = "/api/v1/flows?limit=100";
    scene
        .plugin
        .wait(flows, "flows of both directions", |answer| {
            let flows = answer["flows"].as_array()?.iter();
            let names: Vec<_> = flows.filter_map(|flow| flow["flow"].as_str()).collect();
            let has = |end: &str| names.iter().any(|name| name.contains(end));
            (has(">10.98.0.2:5201/tcp") && has("10.98.0.2:5201>")).then_some(())
        });
}

/// Settings are read again: changes are applied, and keys that cannot change are named.
fn reloads(scene: &mut Scene) {
    let mut wanted = settings();
    assert_eq!(scene.reload(&wanted).0, "unchanged");
    wanted["name"] = json!("other");
    wanted["classes"] = json!([{ "name": "gold" }, { "name": "rest" }]);
    wanted["measurement"]["lds"] = json!({});
    let (outcome, message) = scene.reload(&wanted);
    assert_eq!(outcome, "refused");
    for key in ["name: ", "classes: "] {
        assert!(message.contains(key), "{message}");
    }
    let mut wanted = settings();
    wanted["port_names"][scene.switch.path("vm2.sock")] = json!("db");
    wanted["measurement"]["flows"]["slots"] = json!(2_048);
    let done = "measurement.flows.slots, port_names".to_owned();
    assert_eq!(scene.reload(&wanted), ("done".to_owned(), done));
    let config = scene.plugin.json("/api/v1/config").unwrap();
    assert_eq!(config["measurement"]["flows"]["slots"], 2_048);
    wanted["memory_budget_mib"] = json!(1);
    let (outcome, message) = scene.reload(&wanted);
    assert!(
        outcome == "refused" && message.contains("memory_budget_mib"),
        "{message}"
    );
}

#[test]
fn a_machine_of_two_queues_that_comes_to_the_switch_s_socket() {
    let Some(scene) = Scene::start(shown(settings())) else {
        return;
    };
    (scene.switch).add_port("vm1", 2, "dpdkvhostuser", "options:n_rxq=2");
    let mut machine = machine_with(&scene.switch.path("vm1"), &scene.hosts, 2);
    scene.wait_for("vm1");
    let mut inside = |_: &OpenVSwitch| counted_inside(&mut machine);
    scene.compare("vm1", &mut inside, |scene| {
        scene.ping();
        scene.transfer();
    });
    // The machine does not outlive its switch.
    assert!(machine.quit().0.success());
    scene.wait_for_end_of("vm1");
    let log = scene.switch.exit();
    assert!(!log.contains("VERNIER"), "{log}");
}

#[test]
fn ports_that_nothing_shows_are_said_once_and_the_switch_forwards() {
    forwards(Plugin::with(settings()), |switch, plugin| {
        let began = Instant::now();
        while !switch
            .log()
            .contains("libvernier_vhost.so is not preloaded")
        {
            assert!(began.elapsed() < PATIENCE, "{}", switch.log());
            thread::sleep(Duration::from_millis(50));
        }
        let snapshot = plugin.json("/api/v1/snapshot").unwrap();
        assert!(port(&snapshot, "vm1").is_none());
        assert_eq!(switch.log().matches("VERNIER").count(), 1);
    });
}

#[test]
fn a_preloaded_object_without_the_plugin_changes_nothing() {
    let plugin = Plugin::install().map(|mut plugin| {
        plugin.preload_vhost();
        plugin.is_loaded = false;
        plugin
    });
    forwards(plugin, |switch, _| {
        assert!(!switch.log().contains("VERNIER"), "{}", switch.log());
    });
}

/// A switch with a machine, between which the hosts' packets pass; then `check`.
fn forwards(plugin: Option<Plugin>, check: impl FnOnce(&OpenVSwitch, &Plugin)) {
    let Some(scene) = Scene::start(plugin) else {
        return;
    };
    let socket = add_machine(&scene.switch, "vm1");
    let machine = machine(&socket, &scene.hosts);
    scene.ping();
    check(&scene.switch, &scene.plugin);
    scene.switch.exit();
    assert!(machine.quit().0.success());
}

#[test]
fn ports_of_dpdk_s_own_driver_for_vhost_are_measured_as_others() {
    let Some(plugin) = shown(json!({})) else {
        return;
    };
    let Some(_pages) = huge_pages(MACHINE_MIB) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("vm.sock").display().to_string();
    let devices = [format!("net_vhost0,iface={socket}"), "net_null0".to_owned()];
    let mut host = Testpmd::start(Some(&plugin), &devices, &["--forward-mode=io"]);
    plugin.wait_for_ports(2);
    let devices = [
        format!("net_virtio_user0,path={socket},queue_size=1024"),
        "net_null0".to_owned(),
    ];
    let machine = Testpmd::with_eal(
        &MEMORY,
        None,
        &devices,
        &["--forward-mode=io", "--auto-start"],
    );
    host.tell("start");
    plugin.wait("/api/v1/snapshot", "packets both ways", |snapshot| {
        assert_eq!(snapshot["ports"].as_array()?.len(), 2);
        let passed =
            |from, to| segment(snapshot, from, to)?["total"]["counts"]["received_packets"].as_u64();
        let both = [
            passed("net_vhost0", "net_null0")?,
            passed("net_null0", "net_vhost0")?,
        ];
        both.into_iter().all(|packets| packets > 0).then_some(())
    });
    assert!(host.quit().0.success());
    drop(machine);
}
