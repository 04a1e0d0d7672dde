//! Killed under load, and started again with the same configuration: nothing is in the way, nothing
//! is left behind for ever, and counters begin anew. Needs root for a tap, hugepages and a veth.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what must hold in the plainest way"
)]

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};
use support::{Daemon, assert_conserved, is_root};

/// Packets a second of the generated port.
const RATE: u64 = 20_000;

/// A pair of virtual interfaces, one end of which is the switch's.
struct Wire(String);

fn ip(arguments: &str) -> bool {
    let words = arguments.split_whitespace();
    Command::new("ip").args(words).status().unwrap().success()
}

impl Wire {
    fn lay(tag: &str) -> Self {
        let wire = Self(format!("vr{tag}{}", std::process::id()));
        let ours = &wire.0;
        assert!(ip(&format!("link add {ours} type veth peer name {ours}p")));
        assert!(ip(&format!("link set {ours} up")));
        assert!(ip(&format!("link set {ours}p up")));
        wire
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        ip(&format!("link del {}", self.0));
    }
}

/// MiB of hugepages that nobody uses, where this may use them.
fn free_hugepages_mib(is_root: bool) -> u64 {
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap();
    let value = |key: &str| -> u64 {
        let line = memory.lines().find_map(|line| line.strip_prefix(key));
        let number = line.and_then(|line| line.trim().split(' ').next());
        number.map_or(0, |number| number.parse().unwrap())
    };
    let free = value("HugePages_Free:") * value("Hugepagesize:") / 1024;
    if is_root { free } else { 0 }
}

/// Generated traffic, flooded to ports of every kind: `memif` is the socket of one.
fn config(tag: &str, memif: &Path, wire: Option<&Wire>, hugepages_mib: u64) -> Value {
    let id = std::process::id();
    let memif = format!(
        "net_memif0,role=server,id=0,socket={},socket-abstract=no",
        memif.display()
    );
    let mut ports = vec![
        json!({ "name": "generated", "device": format!("generate:flows=200,rate={RATE}") }),
        json!({ "name": "memif", "device": memif }),
    ];
    if let Some(Wire(ours)) = wire {
        let tap = format!("net_tap0,iface=vt{tag}{id}");
        ports.push(json!({ "name": "tap", "device": tap }));
        let wire = format!("net_af_packet0,iface={ours}");
        ports.push(json!({ "name": "wire", "device": wire }));
    }
    let has_hugepages = hugepages_mib >= 128;
    json!({
        "ports": ports,
        "forwarding": { "mode": "bridge", "flood_limit_pps": 1_000_000 },
        "measurement": { "interval_ms": 100 },
        "workers": [{ "idle": "sleep" }],
        "dpdk": {
            "hugepages": has_hugepages,
            "memory_mib": if has_hugepages { hugepages_mib } else { 128 },
            "mbufs": 16_384,
        },
    })
}

/// A switch at the other end of the socket.
fn peer(memif: &Path) -> Daemon {
    let device = format!(
        "net_memif0,role=client,id=0,socket={},socket-abstract=no",
        memif.display()
    );
    Daemon::start(json!({
        "ports": [
            { "name": "memif", "device": device },
            { "name": "sink", "device": "sink" },
        ],
        "forwarding": { "mode": "patch", "pairs": [["memif", "sink"]] },
        "measurement": { "interval_ms": 100 },
        "workers": [{ "idle": "sleep" }],
        "dpdk": { "memory_mib": 128, "mbufs": 16_384 },
    }))
}

fn received(switch: &Daemon, port: &str) -> u64 {
    let series = format!("vernier_port_received_packets_total{{port=\"{port}\"}}");
    switch.metric(&series).unwrap_or(0)
}

/// Waits until it is ready and packets come in by this port.
fn wait_until_loaded(switch: &mut Daemon, port: &str) {
    switch.wait_for(|switch| switch.get("/readyz").is_some());
    let seen = received(switch, port);
    switch.wait_for(|switch| received(switch, port) > seen + RATE / 2);
}

fn run_folder(id: u32) -> PathBuf {
    PathBuf::from(format!("/var/run/dpdk/vernier-{id}"))
}

/// Files of ours on the file systems for hugepages.
fn hugepage_files() -> Vec<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    let places = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (_, place, kind) = (words.next()?, words.next()?, words.next()?);
        (kind == "hugetlbfs").then(|| place.to_owned())
    });
    let files = places.flat_map(|place| std::fs::read_dir(place).into_iter().flatten().flatten());
    let ours = |path: &PathBuf| path.to_string_lossy().contains("vernier");
    files.map(|file| file.path()).filter(ours).collect()
}

#[test]
fn a_switch_that_was_killed_comes_back_as_if_it_were_new() {
    let is_root = is_root("a tap, and a virtual interface");
    let folder = tempfile::tempdir().unwrap();
    let memif = folder.path().join("memif.sock");
    let wire = is_root.then(|| Wire::lay("k"));
    // Were they not given back by the dead, the third would get none.
    let hugepages_mib = free_hugepages_mib(is_root) * 2 / 5;
    let config = config("k", &memif, wire.as_ref(), hugepages_mib);
    let mut switch = Daemon::start(config);
    for _ in 0..4 {
        let mut other_end = peer(&memif);
        wait_until_loaded(&mut other_end, "memif");
        wait_until_loaded(&mut switch, "generated");
        let (id, packets) = (switch.id(), received(&switch, "generated"));
        let began_s: f64 = switch.metric("process_start_time_seconds").unwrap();
        let killed = Instant::now();
        switch.kill_and_start_again();
        let again = received(&switch, "generated");
        let uptime_s: f64 = switch.metric("vernier_uptime_seconds").unwrap();
        let passed_s = killed.elapsed().as_secs_f64();
        assert!(uptime_s < passed_s, "{uptime_s} of {passed_s}");
        let packets_max = passed_s * RATE as f64 * 1.5 + 1_000.0;
        assert!((again as f64) < packets_max, "{packets}, then {again}");
        let begins_s: f64 = switch.metric("process_start_time_seconds").unwrap();
        assert!(begins_s > began_s, "{began_s}, then {begins_s}");
        assert!(!run_folder(id).exists(), "the dead left a folder");
        // The other end saw its link go, and counts on.
        assert!(received(&other_end, "memif") > 0);
        assert_conserved(&other_end.stop()["snapshot"]);
    }
    let id = switch.id();
    let mut other_end = peer(&memif);
    wait_until_loaded(&mut other_end, "memif");
    drop(other_end);
    assert_conserved(&switch.stop()["snapshot"]);
    assert!(!memif.exists(), "an orderly end leaves no socket");
    assert!(!run_folder(id).exists());
    assert_eq!(hugepage_files(), [] as [PathBuf; 0]);
}

#[test]
fn two_switches_side_by_side_know_nothing_of_each_other() {
    let is_root = is_root("a tap, and a virtual interface");
    let folder = tempfile::tempdir().unwrap();
    let sockets = ["a", "b"].map(|name| folder.path().join(name));
    let wires = ["a", "b"].map(|tag| is_root.then(|| Wire::lay(tag)));
    let hugepages_mib = free_hugepages_mib(is_root) / 4;
    let start = |n: usize| {
        let tag = ["a", "b"][n];
        Daemon::start(config(tag, &sockets[n], wires[n].as_ref(), hugepages_mib))
    };
    let mut stays = start(0);
    let mut stays_peer = peer(&sockets[0]);
    wait_until_loaded(&mut stays_peer, "memif");
    let mut goes = start(1);
    let mut goes_peer = peer(&sockets[1]);
    wait_until_loaded(&mut goes_peer, "memif");
    let flaps =
        |switch: &Daemon| switch.metric::<u64>("vernier_port_link_flaps_total{port=\"memif\"}");
    let flaps_before = flaps(&stays);
    assert!(flaps_before.is_some());
    for _ in 0..2 {
        goes.kill_and_start_again();
        wait_until_loaded(&mut stays, "generated");
        wait_until_loaded(&mut stays_peer, "memif");
        assert_eq!(flaps(&stays), flaps_before);
    }
    drop(goes_peer);
    for switch in [goes, stays_peer, stays] {
        assert_conserved(&switch.stop()["snapshot"]);
    }
}
