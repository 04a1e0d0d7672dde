//! Two hosts in network namespaces of our own, joined only by the switch over `net_af_packet`: the
//! kernel's ping and `iperf3`'s TCP must work through it. Needs root.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what must hold in the plainest way"
)]

mod support;

use std::process::{Command, Stdio};

use serde_json::{Value, json};
use support::Daemon;

/// Two namespaces, each with a veth whose other end is the switch's.
struct Hosts {
    tag: String,
}

fn run(command: &str) -> String {
    let words: Vec<_> = command.split_whitespace().collect();
    let output = Command::new(words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{command}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

impl Hosts {
    fn new() -> Self {
        let hosts = Self {
            tag: format!("vt{}", std::process::id()),
        };
        for host in ["a", "b"] {
            let (space, ours) = (hosts.space(host), hosts.interface(host));
            let address = if host == "a" {
                "10.99.0.1/24"
            } else {
                "10.99.0.2/24"
            };
            run(&format!("ip netns add {space}"));
            run(&format!(
                "ip link add {ours} type veth peer name eth0 netns {space}"
            ));
            run(&format!("ip link set {ours} up"));
            run(&format!("ip -n {space} addr add {address} dev eth0"));
            run(&format!("ip -n {space} link set eth0 up"));
            // Otherwise TCP arrives with half-made checksums and in frames larger than the MTU.
            let off = "tx off rx off tso off gso off gro off";
            run(&format!("ip netns exec {space} ethtool -K eth0 {off}"));
            run(&format!("ethtool -K {ours} {off}"));
        }
        hosts
    }

    fn space(&self, host: &str) -> String {
        format!("{}{host}", self.tag)
    }

    fn interface(&self, host: &str) -> String {
        format!("{}{host}", self.tag)
    }

    fn inside(&self, host: &str, command: &str) -> String {
        run(&format!("ip netns exec {} {command}", self.space(host)))
    }

    fn switch(&self, forwarding: &Value) -> Daemon {
        let port = |host: &str, n| {
            let interface = self.interface(host);
            json!({ "name": host, "device": format!("net_af_packet{n},iface={interface}") })
        };
        Daemon::start(json!({
            "ports": [port("a", 0), port("b", 1)],
            "forwarding": forwarding,
            "measurement": { "interval_ms": 100 },
            "workers": [{ "idle": "sleep" }],
        }))
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in ["a", "b"] {
            // A namespace takes its veth, and so the pair, with it.
            let _ = Command::new("ip")
                .args(["netns", "del", &self.space(host)])
                .status();
        }
    }
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    if id.stdout == b"0\n" {
        return true;
    }
    support::skip("network namespaces need root");
    false
}

fn ping_and_iperf(forwarding: &Value) {
    if !is_root() {
        return;
    }
    let hosts = Hosts::new();
    let mut switch = hosts.switch(forwarding);
    let ping = hosts.inside("a", "ping -c 5 -i 0.2 -W 5 10.99.0.2");
    assert!(ping.contains(" 0% packet loss"), "{ping}");

    let mut server = Command::new("ip")
        .args([
            "netns",
            "exec",
            &hosts.space("b"),
            "iperf3",
            "-s",
            "-1",
            "-B",
            "10.99.0.2",
        ])
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
    let summary = switch.stop();
    let snapshot = &summary["snapshot"];
    support::assert_conserved(snapshot);
    for segment in snapshot["segments"].as_array().unwrap() {
        let counts = &segment["total"]["counts"];
        assert!(
            counts["received_packets"].as_u64().unwrap() > 100,
            "{segment:#}"
        );
        assert_eq!(
            counts["sent_packets"].as_u64().unwrap(),
            ["received_packets", "dropped_packets", "late_packets"]
                .iter()
                .map(|name| counts[*name].as_u64().unwrap())
                .sum::<u64>(),
            "{segment:#}"
        );
        assert!(
            segment["last"]["stamped"]["mean_ns"].as_f64().unwrap() > 0.0,
            "{segment:#}"
        );
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
