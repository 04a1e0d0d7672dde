//! Hosts in network namespaces of our own, joined only by the switch over `net_af_packet`: the
//! kernel's ping and `iperf3`'s TCP must work through it, links that are lost must be passed on, and
//! ports must come and go. Needs root.
use std::path::Path;
use std::process::Stdio;

use crate::support::{Daemon, assert_conserved, assert_segments_add_up, is_root, number};
use serde_json::{Value, json};
use testkit::hosts;
use testkit::process::output;

/// Hosts and the switch between them; the n-th host has the address 10.99.0.n.
struct Hosts {
    hosts: hosts::Hosts,
    names: &'static [&'static str],
}

impl Hosts {
    fn new(names: &'static [&'static str]) -> Self {
        let hosts = hosts::Hosts::new("10.99.0", names).unwrap();
        Self { hosts, names }
    }

    fn inside(&self, host: &str, command: &str) -> String {
        output(&mut self.hosts.inside(host, command)).unwrap()
    }

    fn switch(&self, forwarding: &Value) -> Daemon {
        Daemon::start(self.config(self.names, forwarding))
    }

    /// A switch between these hosts.
    fn config(&self, names: &[&str], forwarding: &Value) -> Value {
        let port = |host: &&str| {
            let interface = self.hosts.name(host);
            let device = format!("net_af_packet_{host},iface={interface}");
            json!({ "name": host, "device": device })
        };
        json!({
            "ports": names.iter().map(port).collect::<Vec<_>>(),
            "forwarding": forwarding,
        })
    }

    /// Whether the host's own interface has a link.
    fn has_carrier(&self, host: &str) -> bool {
        !self
            .inside(host, "ip link show eth0")
            .contains("NO-CARRIER")
    }

    /// Whether `to` (its number) answers `from` within a few seconds.
    fn reaches(&self, from: &str, to: u8) -> bool {
        (0..5).any(|_| self.pings(from, to))
    }

    /// Whether one ping is answered.
    fn pings(&self, from: &str, to: u8) -> bool {
        let ping = format!("ping -c 1 -W 1 10.99.0.{to}");
        output(&mut self.hosts.inside(from, &ping)).is_ok()
    }
}

fn ping_and_iperf(forwarding: &Value) {
    if !is_root("network namespaces") {
        return;
    }
    let hosts = Hosts::new(&["a", "b"]);
    let mut switch = hosts.switch(forwarding);
    let ping = hosts.inside("a", "ping -c 5 -i 0.2 -W 5 10.99.0.2");
    assert!(ping.contains(" 0% packet loss"), "{ping}");
    // In fragments, which must not be put together on the way.
    let ping = hosts.inside("a", "ping -c 5 -i 0.2 -W 5 -s 3000 10.99.0.2");
    assert!(ping.contains(" 0% packet loss"), "{ping}");

    let mut server = hosts
        .hosts
        .inside("b", "iperf3 -s -1 -B 10.99.0.2")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    switch.wait_for(|_| {
        hosts
            .inside("b", "ss -ltn")
            .lines()
            .any(|line| line.contains("10.99.0.2:5201"))
    });
    let client = hosts.inside("a", "iperf3 -c 10.99.0.2 -t 2 -J");
    assert!(server.wait().unwrap().success());
    let client: Value = serde_json::from_str(&client).unwrap();
    let received = client["end"]["sum_received"]["bytes"].as_u64().unwrap();
    assert!(received > 1_000_000, "{client:#}");

    let bytes_measured = |switch: &Daemon| {
        let segments = switch.json("/api/v1/segments")?;
        let there = segments["segments"]
            .as_array()?
            .iter()
            .find(|s| s["ingress"] == "a")?
            .clone();
        there["total"]["counts"]["received_bytes"].as_u64()
    };
    switch.wait_for(|switch| bytes_measured(switch).is_some_and(|bytes| bytes >= received));
    let snapshot = &switch.stop()["snapshot"];
    assert_conserved(snapshot);
    assert_segments_add_up(snapshot, 101);
    for segment in snapshot["segments"].as_array().unwrap() {
        let mean_ns = segment["last"]["stamped"]["mean_ns"].as_f64();
        assert!(mean_ns > Some(0.0), "{segment:#}");
    }
}

#[test]
fn ping_and_tcp_cross_the_patch_panel() {
    ping_and_iperf(&json!({ "mode": "patch", "pairs": [["a", "b"]] }));
}

#[test]
fn ping_and_tcp_cross_the_bridge() {
    ping_and_iperf(&json!({ "mode": "bridge" }));
}

/// The port of that name in the snapshot.
fn port(switch: &Daemon, name: &str) -> Option<Value> {
    let snapshot = switch.snapshot()?;
    let ports = snapshot["ports"].as_array()?;
    ports.iter().find(|port| port["name"] == name).cloned()
}

fn is_up(switch: &Daemon, name: &str) -> bool {
    port(switch, name).is_some_and(|port| port["facts"]["is_up"] == true)
}

#[test]
fn a_lost_link_is_passed_on_and_comes_back_by_itself() {
    if !is_root("network namespaces") {
        return;
    }
    let hosts = Hosts::new(&["a", "b"]);
    let patch = json!({
        "mode": "patch", "pairs": [["a", "b"]], "link_loss_forwarding": true,
    });
    let mut switch = hosts.switch(&patch);
    assert!(hosts.reaches("a", 2));
    for (lost, seen) in [("a", "b"), ("b", "a")] {
        hosts.inside(lost, "ip link set eth0 down");
        switch.wait_for(|_| !hosts.has_carrier(seen));
        switch.wait_for(|switch| !is_up(switch, "a") && !is_up(switch, "b"));
        hosts.inside(lost, "ip link set eth0 up");
        switch.wait_for(|_| hosts.has_carrier(seen));
        switch.wait_for(|switch| is_up(switch, "a") && is_up(switch, "b"));
        switch.wait_for(|_| hosts.reaches("a", 2));
    }
    // It ends while a link is down on purpose: that is let up.
    hosts.inside("a", "ip link set eth0 down");
    switch.wait_for(|_| !hosts.has_carrier("b"));
    assert_conserved(&switch.stop()["snapshot"]);
    hosts.inside("a", "ip link set eth0 up");
    assert!(hosts.has_carrier("b"));
}

#[test]
fn a_bridge_forgets_who_was_behind_a_lost_link() {
    if !is_root("network namespaces") {
        return;
    }
    let hosts = Hosts::new(&["a", "b", "c"]);
    let mut switch = hosts.switch(&json!({ "mode": "bridge" }));
    assert!(hosts.reaches("a", 2) && hosts.reaches("a", 3));
    hosts.inside("b", "ip link set eth0 down");
    switch.wait_for(|switch| !is_up(switch, "b"));
    assert!(hosts.reaches("a", 3), "others go on");
    hosts.inside("b", "ip link set eth0 up");
    switch.wait_for(|switch| is_up(switch, "b"));
    assert!(hosts.reaches("a", 2));
    let flaps =
        |switch: &Daemon| port(switch, "b").and_then(|port| port["facts"]["link_flaps"].as_u64());
    assert_eq!(flaps(&switch), Some(1));
    assert_conserved(&switch.stop()["snapshot"]);
}

#[test]
fn ports_come_and_go_while_others_run() {
    if !is_root("network namespaces") {
        return;
    }
    let hosts = Hosts::new(&["a", "b", "c"]);
    let bridge = json!({ "mode": "bridge" });
    let mut switch = Daemon::start(hosts.config(&["a", "b"], &bridge));
    assert!(hosts.reaches("a", 2) && !hosts.pings("a", 3));
    for _ in 0..2 {
        switch.reload(hosts.config(&["a", "b", "c"], &bridge));
        switch.wait_for(|_| hosts.reaches("a", 3));
        assert!(hosts.reaches("c", 2), "others go on");
        // In another order, and without the second.
        switch.reload(hosts.config(&["c", "a"], &bridge));
        switch.wait_for(|_| !hosts.pings("a", 2));
        assert!(hosts.reaches("a", 3));
        switch.reload(hosts.config(&["a", "b"], &bridge));
        switch.wait_for(|_| hosts.reaches("a", 2));
        assert!(!hosts.pings("a", 3));
    }
    // Impossible changes are refused, and nothing changes.
    let mut other = hosts.config(&["a", "b", "c"], &bridge);
    other["ports"][2]["device"] = json!("net_af_packet_c,iface=nosuch0");
    switch.reload(other);
    assert!(hosts.reaches("a", 2) && !hosts.pings("a", 3));
    // Counters of a port that comes back continue.
    switch.reload(hosts.config(&["a", "b", "c"], &bridge));
    switch.wait_for(|_| hosts.reaches("a", 3));
    assert_conserved(&switch.stop()["snapshot"]);
}

/// A frame of 60 bytes with these fields between addresses and type, recognisable by its number.
fn stacked(fields: &[u16], number: u8) -> Vec<u8> {
    let mut bytes = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, number];
    bytes.extend(fields.iter().flat_map(|field| field.to_be_bytes()));
    bytes.extend([0x88, 0xb5]);
    bytes.resize(60, number);
    bytes
}

fn write_capture(path: &Path, frames: &[Vec<u8>]) {
    let mut capture = testkit::pcap::Writer::new(std::fs::File::create(path).unwrap()).unwrap();
    for frame in frames {
        capture.write(frame).unwrap();
    }
    capture.finish().unwrap();
}

#[test]
fn only_frames_of_a_vlan_reach_its_access_port_from_an_interface() {
    if !is_root("interfaces of one's own") {
        return;
    }
    let veth = hosts::Veth::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    // The first is in the VLAN; the others look as if they were once their tags are changed.
    let tags: [&[u16]; 6] = [
        &[0x8100, 10],
        &[0x88a8, 10],
        &[0x88a8, 0x600a],
        &[0x9100, 10],
        &[0x88a8, 10, 0x8100, 10],
        &[0x8100, 20],
    ];
    let frames: Vec<_> = (tags.iter().zip(1..))
        .map(|(fields, number)| stacked(fields, number))
        .collect();
    write_capture(&file("in.pcap"), &frames);
    write_capture(&file("none.pcap"), &[]);
    let port = |name: &str, device: String, vlan: Value| json!({ "name": name, "device": device, "vlan": vlan });
    let out = file("out.pcap");
    let access = format!(
        "net_pcap0,rx_pcap={},tx_pcap={}",
        file("none.pcap").display(),
        out.display()
    );
    let mut switch = Daemon::start(json!({
        "ports": [
            port("trunk", format!("net_af_packet0,iface={}", veth.0),
                json!({ "mode": "trunk", "vlans": [10], "native": 1 })),
            port("access", access, json!({ "mode": "access", "vlan": 10 })),
        ],
        "forwarding": { "mode": "bridge" },
        "dpdk": { "memory_mib": 64, "mbufs": 8192 },
    }));
    let sender = Daemon::start(json!({
        "ports": [
            { "name": "in", "device": format!("replay:{}?loop=9", file("in.pcap").display()) },
            { "name": "out", "device": format!("net_af_packet0,iface={}", veth.peer()) },
        ],
        "forwarding": { "mode": "patch", "pairs": [["in", "out"]] },
        "dpdk": { "memory_mib": 64, "mbufs": 8192 },
    }));
    switch.wait_for(|switch| {
        let received = port_counter(switch, "trunk", "rx_packets");
        received.is_some_and(|packets| packets >= frames.len() as u64)
    });
    drop(sender);
    let summary = switch.stop();
    assert_conserved(&summary["snapshot"]);
    let bytes = std::fs::read(out).unwrap();
    let frames = testkit::pcap::frames(&bytes).unwrap();
    let mut left: Vec<_> = frames.iter().map(|frame| frame[11]).collect();
    left.dedup();
    assert_eq!(
        left,
        [1],
        "numbers of the frames that left by the access port"
    );
}

fn port_counter(switch: &Daemon, name: &str, counter: &str) -> Option<u64> {
    port(switch, name)?[counter].as_u64()
}

/// Frames of every length, through `net_pcap` at both ends.
#[test]
fn frames_of_every_length_pass_net_pcap_whole_or_are_counted() {
    let lengths = [
        0, 1, 13, 14, 59, 60, 1514, 1518, 1522, 1523, 2048, 4096, 9014, 9022, 9023, 16_384, 65_000,
    ];
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let frames: Vec<_> = (lengths.iter().zip(1_u8..))
        .map(|(&len, number)| {
            let mut frame = stacked(&[], number);
            frame.resize(len, number);
            frame
        })
        .collect();
    write_capture(&file("in.pcap"), &frames);
    write_capture(&file("none.pcap"), &[]);
    for mtu in [1500, 9000] {
        let device = |n, rx: &str, tx: &str| {
            let (rx, tx) = (file(rx), file(tx));
            format!(
                "net_pcap{n},rx_pcap={},tx_pcap={}",
                rx.display(),
                tx.display()
            )
        };
        let mut switch = Daemon::start(json!({
            "ports": [
                { "name": "in", "device": device(0, "in.pcap", "back.pcap"), "mtu": mtu },
                { "name": "out", "device": device(1, "none.pcap", "out.pcap"), "mtu": mtu },
            ],
            "forwarding": { "mode": "patch", "pairs": [["in", "out"]] },
            "dpdk": { "memory_mib": 128, "mbufs": 8192 },
        }));
        // With a header of 14 bytes and two tags.
        let fits = |frame: &&Vec<u8>| (14..=mtu + 22).contains(&frame.len());
        let passing: Vec<_> = frames.iter().filter(fits).collect();
        switch.wait_for(|switch| {
            port_counter(switch, "in", "rx_packets") == Some(frames.len() as u64)
        });
        let summary = switch.stop();
        let snapshot = &summary["snapshot"];
        assert_conserved(snapshot);
        let drops = |reason: &str| {
            let drops = snapshot["ports"][0]["drops"].as_array().unwrap();
            let of = drops.iter().find(|drop| drop["label"] == reason).unwrap();
            number(&of["packets"])
        };
        assert_eq!(drops("runt"), 3);
        let oversize = frames.len() - 3 - passing.len();
        assert_eq!(drops("oversize"), oversize as u64);
        let bytes = std::fs::read(file("out.pcap")).unwrap();
        let left = testkit::pcap::frames(&bytes).unwrap();
        assert_eq!(left, passing, "MTU {mtu}");
    }
}
