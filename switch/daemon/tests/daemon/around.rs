//! Around a router of the kernel's, in a namespace between two ports of the switch: it takes a hop off every packet,
//! changes its DSCP and both Ethernet addresses, keeps state of connections, and drops one packet in a hundred. Needs root.
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Daemon, assert_conserved, is_root, number};
use testkit::hosts::unique;

/// Namespaces `a`, `r` (the router) and `b`, with the switch between `a` and `r`, and between `r` and `b`.
struct Network(String);

fn run(command: &str) -> String {
    let output = Command::new("sh").args(["-ec", command]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

impl Network {
    fn new() -> Self {
        let tag = unique("va");
        // Name of the switch's end, namespace, interface there, address, and its peer at the other end.
        let ends = [
            ("a", "a", "10.1.0.2", "10.1.0.1", "r0"),
            ("i", "r", "10.1.0.1", "10.1.0.2", "a0"),
            ("o", "r", "10.2.0.1", "10.2.0.2", "b0"),
            ("b", "b", "10.2.0.2", "10.2.0.1", "r1"),
        ];
        let interfaces = ["a0", "r0", "r1", "b0"];
        for space in ["a", "r", "b"] {
            run(&format!(
                "ip netns add {tag}{space}; ip netns exec {tag}{space} sysctl -qw net.ipv6.conf.all.disable_ipv6=1 \
                 net.ipv6.conf.default.disable_ipv6=1"
            ));
        }
        let off = "tx off rx off tso off gso off gro off";
        for (interface, (ours, space, address, ..)) in interfaces.iter().zip(ends) {
            run(&format!(
                "ip link add {tag}{ours} type veth peer name {interface} netns {tag}{space}
                 sysctl -qw net.ipv6.conf.{tag}{ours}.disable_ipv6=1; ip link set {tag}{ours} up
                 ip -n {tag}{space} addr add {address}/24 dev {interface}; ip -n {tag}{space} link set {interface} up
                 ip netns exec {tag}{space} ethtool -K {interface} {off}; ethtool -K {tag}{ours} {off}"
            ));
        }
        let network = Self(tag);
        // Neighbours are known: no ARP ends at the router.
        for (interface, (_, space, _, neighbour, at)) in interfaces.iter().zip(ends) {
            let whose = &at[..1];
            let mac = network.inside(whose, &format!("cat /sys/class/net/{at}/address"));
            network.inside(
                space,
                &format!(
                    "ip neigh add {neighbour} lladdr {} dev {interface} nud permanent",
                    mac.trim()
                ),
            );
        }
        network.inside("a", "ip route add default via 10.1.0.1");
        network.inside("b", "ip route add default via 10.2.0.1");
        network.inside("r", "sysctl -qw net.ipv4.ip_forward=1");
        network.inside(
            "r",
            "nft 'table ip firewall {
                counter dropped { }
                chain forward {
                    type filter hook forward priority 0; policy drop;
                    udp dport 5201 udp length 408 numgen random mod 100 0 counter name dropped drop
                    ip dscp set cs5
                    ct state new,established,related accept
                }
            }'",
        );
        network
    }

    fn inside(&self, space: &str, command: &str) -> String {
        run(&format!("ip netns exec {}{space} {command}", self.0))
    }

    /// Sends four flows of datagrams of 400 bytes from `a` to `b`; how many.
    fn send(&self, switch: &mut Daemon) -> u64 {
        let mut server = Command::new("ip")
            .args(["netns", "exec", &format!("{}b", self.0)])
            .args(["iperf3", "-s", "-1"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        switch.wait_for(|_| self.inside("b", "ss -ltn").contains(":5201"));
        let client = self.inside("a", "iperf3 -c 10.2.0.2 -u -P 4 -b 2M -l 400 -t 3 -J");
        assert!(server.wait().unwrap().success());
        let client: Value = serde_json::from_str(&client).unwrap();
        number(&client["end"]["sum"]["packets"])
    }

    /// Packets that the firewall has dropped.
    fn dropped(&self) -> u64 {
        let answer = self.inside("r", "nft -j list counter ip firewall dropped");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let objects = answer["nftables"].as_array().unwrap();
        let counter = objects
            .iter()
            .find_map(|object| object.get("counter"))
            .unwrap();
        number(&counter["packets"])
    }

    fn config(&self) -> Value {
        let port = |name: &str, interface: &str| {
            // Room for packets that arrive while other programs have the CPU.
            let device = format!(
                "net_af_packet_{name},iface={}{interface},framecnt=4096",
                self.0
            );
            json!({ "name": name, "device": device })
        };
        json!({
            "ports": [port("a", "a"), port("inside", "i"), port("outside", "o"), port("b", "b")],
            "forwarding": { "mode": "patch", "pairs": [["a", "inside"], ["outside", "b"]] },
            "measurement": {
                "interval_ms": 100,
                "flows": { "slots": 1_024 },
                "around": [{ "name": "firewall", "ports": ["inside", "outside"] }],
            },
        })
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for space in ["a", "r", "b"] {
            let _ = Command::new("ip")
                .args(["netns", "del", &format!("{}{space}", self.0)])
                .status();
        }
    }
}

/// A counter of a port around the device.
fn around(snapshot: &Value, port: &str, counter: &str) -> u64 {
    let ports = snapshot["ports"].as_array().unwrap();
    let port = ports.iter().find(|of| of["name"] == port).unwrap();
    number(&port["around"][counter])
}

fn segment<'s>(snapshot: &'s Value, from: &str) -> &'s Value {
    let mut segments = snapshot["segments"].as_array().unwrap().iter();
    segments.find(|segment| segment["ingress"] == from).unwrap()
}

/// Packets of each UDP flow from `a` to `b` that have come back from the device.
fn through_the_device(switch: &Daemon) -> Vec<u64> {
    let flows = switch.json("/api/v1/flows?limit=1000").unwrap();
    let flows = flows["flows"].as_array().unwrap().iter();
    let is_udp = |flow: &&Value| flow["flow"].as_str().unwrap().ends_with("/udp");
    let through = flows
        .filter(|flow| flow["ingress"] == "firewall:inside")
        .filter(is_udp);
    through
        .map(|flow| number(&flow["total"]["packets"]))
        .collect()
}

#[test]
fn losses_of_a_firewall_are_exact_and_its_delays_those_of_every_flow() {
    if !is_root("network namespaces") {
        return;
    }
    let network = Network::new();
    let mut switch = Daemon::start(network.config());
    let sent = network.send(&mut switch);
    let dropped = network.dropped();
    assert!(dropped > 20);
    // All packets have come back or are known to be lost, after a second and a quarter.
    let lost = |snapshot: &Value| around(snapshot, "inside", "lost_packets");
    switch.wait_for(|switch| {
        switch
            .snapshot()
            .is_some_and(|snapshot| lost(&snapshot) >= dropped)
    });
    let snapshot = switch.wait_for_some(|switch| {
        let snapshot = switch.snapshot()?;
        let counts = &segment(&snapshot, "firewall:inside")["total"]["counts"];
        (number(&counts["dropped_packets"]) >= dropped).then_some(snapshot)
    });
    let answer = switch.json("/api/v1/ports").unwrap();
    for (there, back, lost) in [("inside", "outside", dropped), ("outside", "inside", 0)] {
        let at = |port: &str, counter: &str| around(&answer, port, counter);
        assert_eq!(
            at(there, "lost_packets"),
            lost,
            "{there}: {sent} datagrams were sent, {dropped} dropped by the firewall"
        );
        assert_eq!(
            at(there, "entered_packets"),
            at(back, "returned_packets") + lost,
            "{there}"
        );
        assert_eq!(
            at(back, "unknown_packets")
                + at(there, "displaced_packets")
                + at(there, "reordered_packets"),
            0
        );
        let segment = segment(&snapshot, &format!("firewall:{there}"));
        assert_eq!(segment["egress"], format!("firewall:{back}"));
        assert_eq!(segment["is_around"], true);
        let counts = &segment["total"]["counts"];
        assert_eq!(number(&counts["dropped_packets"]), lost);
        assert_eq!(
            number(&counts["received_packets"]),
            at(back, "returned_packets")
        );
        assert!(segment["total"]["delay_sum_s"].as_f64() > Some(0.0));
    }
    // Each of four flows on its way through the device, and a datagram more of each, which opens the stream.
    let packets = through_the_device(&switch);
    assert_eq!(packets.len(), 4, "{packets:?}");
    let of_all: u64 = packets.iter().sum();
    assert_eq!(of_all, sent + 4 - dropped, "{packets:?}");
    assert_conserved(&switch.stop()["snapshot"]);
}
