//! Debian's unmodified Open vSwitch with DPDK, with the plugin loaded: a bridge between two hosts in separate
//! namespaces, over `net_af_packet`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what must hold in the plainest way"
)]

mod support;

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use support::ovs::{self, MEMORY_MIB, OpenVSwitch};
use support::{PATIENCE, Plugin, huge_pages};
use testkit::hosts::Hosts;

/// Waits until there are two ports, this name and `p2`, and none with DPDK's names.
fn wait_for_name(plugin: &Plugin, name: &str) {
    let what = format!("a port {name}");
    let mut wanted = [name, "p2"].map(|name| format!("{name} of br0"));
    wanted.sort_unstable();
    plugin.wait("/api/v1/snapshot", &what, |snapshot| {
        let ports = snapshot["ports"].as_array()?.iter();
        let present = ports.filter(|port| port["is_absent"] == false);
        let named = present.map(|port| {
            let (name, bridge) = (port["name"].as_str(), port["facts"]["bridge"].as_str());
            Some(format!("{} of {}", name?, bridge?))
        });
        let mut named = named.collect::<Option<Vec<_>>>()?;
        named.sort_unstable();
        (named == wanted).then_some(())
    });
}

/// Bytes of connections to the server whose first packet was in this epoch or later, in the direction of their data.
fn bytes_to_server(plugin: &Plugin, since: u64) -> u64 {
    let answer = plugin.json("/api/v1/flows?limit=100").unwrap_or_default();
    let flows = answer["flows"].as_array().into_iter().flatten();
    let to_server = flows.filter(|flow| {
        let name = flow["flow"].as_str().unwrap_or_default();
        let is_to_server = name.starts_with("10.98.0.1:") && name.ends_with(">10.98.0.2:5201/tcp");
        is_to_server && flow["first_epoch"].as_u64() >= Some(since)
    });
    let bytes = to_server.filter_map(|flow| flow["total"]["bytes"].as_u64());
    bytes.sum()
}

/// Transfers until the flow of a connection has nearly all that was sent. A busy machine may keep the control core from
/// its work for so long that epochs are missed, or that the flow gets its slot late; then it transfers again.
fn transfer_until_measured(plugin: &Plugin, hosts: &Hosts, switch: &OpenVSwitch) {
    let began = Instant::now();
    loop {
        let epoch = plugin.wait("/api/v1/snapshot", "an epoch", |snapshot| {
            snapshot["epoch"].as_u64()
        });
        let sent = ovs::transfer(hosts, switch);
        assert!(sent > 100_000, "{sent} bytes");
        let ended = Instant::now();
        while ended.elapsed() < Duration::from_secs(2) {
            if bytes_to_server(plugin, epoch) * 10 > sent * 9 {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        let bytes = bytes_to_server(plugin, epoch);
        assert!(
            began.elapsed() < PATIENCE,
            "of {sent} bytes, {bytes} were measured"
        );
    }
}

#[test]
fn a_bridge_of_open_vswitch_tells_the_latency_of_its_flows() {
    let settings = json!({ "measurement": { "interval_ms": 200, "flows": { "slots": 1_024 } } });
    let (Some(root), Some(plugin)) = (ovs::root(), Plugin::with(settings)) else {
        return;
    };
    let Some(_pages) = huge_pages(MEMORY_MIB) else {
        return;
    };
    let hosts = ovs::hosts();
    let switch = OpenVSwitch::start(root, &plugin);
    switch.bridge(&hosts);
    plugin.wait_for_ports(2);
    ovs::ping_until_answered(&hosts, &switch);
    transfer_until_measured(&plugin, &hosts, &switch);
    let began = Instant::now();
    // A flow that was just reported gets its series in the next epoch.
    let page = loop {
        let page = plugin.get("/metrics").unwrap();
        let delay_s = page.lines().find_map(|line| {
            let (series, delay_s) = line.rsplit_once(' ')?;
            let is_its = series.starts_with("vernier_flow_delay_seconds_sum")
                && series.contains(">10.98.0.2:5201/tcp");
            delay_s.parse().ok().filter(|_: &f64| is_its)
        });
        if delay_s.is_some_and(|delay_s| delay_s > 0.0) {
            break page;
        }
        assert!(began.elapsed() < PATIENCE, "no series of the flow: {page}");
        thread::sleep(Duration::from_millis(50));
    };
    // ICMP echo: the first packet may have left before flows were tracked.
    while !plugin.get("/metrics").unwrap().contains("/icmp") {
        assert!(began.elapsed() < PATIENCE, "no series of the ping: {page}");
        let ping = hosts.inside(1, "ping -c 1 -W 1 10.98.0.2").output();
        assert!(ping.unwrap().status.success());
    }
    // It has Open vSwitch's name, and after a change the new name.
    wait_for_name(&plugin, "p1");
    switch.tell(&["del-port", "br0", "p1"]);
    switch.add_port("q1", 1, "dpdk", &ovs::af_packet(1, &hosts));
    wait_for_name(&plugin, "q1");
    let log = switch.exit();
    assert!(!log.contains("VERNIER"), "{log}");
}
