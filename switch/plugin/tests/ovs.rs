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
    let sent = ovs::transfer(&hosts, &switch);
    assert!(sent > 100_000, "{sent} bytes");

    // The connection's flow, in the direction of its data, with nearly all that was sent.
    let measured = |answer: &serde_json::Value| {
        let flows = answer["flows"].as_array()?;
        let to_server = |flow: &&serde_json::Value| {
            let name = flow["flow"].as_str().unwrap_or_default();
            name.starts_with("10.98.0.1:") && name.ends_with(">10.98.0.2:5201/tcp")
        };
        let bytes = flows.iter().filter(to_server);
        let bytes: u64 = bytes
            .filter_map(|flow| flow["total"]["bytes"].as_u64())
            .sum();
        (bytes * 10 > sent * 9).then_some(())
    };
    plugin.wait("/api/v1/flows?limit=100", "the connection's flow", measured);
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
