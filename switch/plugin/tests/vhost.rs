//! Debian's Open vSwitch with DPDK, unmodified, with a vhost-user port: behind it testpmd as a virtual machine, on
//! virtio-user. One host is at a port of DPDK's, the other behind the machine.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what must hold in the plainest way"
)]

mod support;

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::ovs::{self, Hosts, MEMORY_MIB, OpenVSwitch};
use support::testpmd::Testpmd;
use support::{HugePages, PATIENCE, Plugin};

/// The machine's memory.
const MACHINE_MIB: u64 = 256;

/// A virtual machine that forwards between the switch's socket and host 2.
fn machine(socket: &str, hosts: &Hosts) -> Testpmd {
    let memory = format!("-m {MACHINE_MIB} --in-memory --single-file-segments");
    let memory: Vec<_> = memory.split(' ').collect();
    let devices = [
        format!("net_virtio_user0,path={socket},server=1,queue_size=1024"),
        format!("net_af_packet0,iface={}", hosts.interface(2)),
    ];
    let mut machine = Testpmd::with_memory(&memory, None, &devices, &["--forward-mode=io"]);
    machine.tell("start");
    machine
}

/// A bridge that forwards what enters one port by the other, and learns nothing.
fn bridge(switch: &OpenVSwitch, hosts: &Hosts) {
    let add = "add-br br0 -- set bridge br0 datapath_type=netdev fail_mode=secure";
    switch.tell(&add.split(' ').collect::<Vec<_>>());
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

/// Packets that a port of Open vSwitch's has received and sent.
fn counted(switch: &OpenVSwitch, port: &str) -> [u64; 2] {
    let said = switch.ofctl("dump-ports", &[port]);
    ["rx pkts=", "tx pkts="].map(|which| {
        let figure = said.split_once(which).unwrap().1.split(',').next();
        figure.unwrap().trim().parse().unwrap_or(0)
    })
}

/// Packets of the segment from one port to another.
fn passed(snapshot: &Value, from: &str, to: &str) -> u64 {
    let is_it = |segment: &&Value| {
        let ends = [&segment["ingress"], &segment["egress"]];
        let is_port = |(end, port): (&Value, &str)| {
            let end = end.as_str().unwrap_or_default();
            end.split('/').any(|part| part == port)
        };
        ends.into_iter().zip([from, to]).all(is_port)
    };
    let segment = snapshot["segments"].as_array().unwrap().iter().find(is_it);
    let packets = segment.map(|segment| &segment["total"]["counts"]["received_packets"]);
    packets.and_then(Value::as_u64).unwrap_or(0)
}

#[test]
fn shape() {
    let mut settings = json!({ "measurement": { "interval_ms": 200, "flows": { "slots": 1_024 } } });
    settings["port_names"] = json!({ "net_af_packet1": "uplink" });
    let (Some(root), Some(mut plugin)) = (ovs::root(), Plugin::with(settings)) else {
        return;
    };
    plugin.preload_vhost();
    let Some(_pages) = HugePages::reserve(MEMORY_MIB + MACHINE_MIB) else {
        return;
    };
    let hosts = Hosts::new();
    let switch = OpenVSwitch::start(root, &plugin);
    bridge(&switch, &hosts);
    let socket = add_machine(&switch, "vm1");
    let machine = machine(&socket, &hosts);
    std::thread::sleep(Duration::from_secs(4));
    println!("{}", switch.log());
    println!("SAID {} COMPLAINED {}", machine.said(), machine.complained());
    println!("{:?}", counted(&switch, "vm1"));
    ovs::ping_until_answered(&hosts, &switch);
    let sent = ovs::transfer(&hosts, &switch);
    println!("sent {sent}");
    std::thread::sleep(Duration::from_secs(2));
    println!("{:?} {:?}", counted(&switch, "p1"), counted(&switch, "vm1"));
    println!("{}", serde_json::to_string_pretty(&plugin.json("/api/v1/snapshot").unwrap()).unwrap());
    println!("{}", switch.log());
    println!("{}", machine.quit().1);
    assert!(switch.exit());
}
