//! Network namespaces and interfaces of the testbed.

use std::process::Command;

use anyhow::Result;
use contract::address::MacAddress;
use testkit::namespace::{inside, ip, join, prepare, veth};
use testkit::process::output;

const NO_IPV6: [&str; 2] = [
    "net.ipv6.conf.all.disable_ipv6=1",
    "net.ipv6.conf.default.disable_ipv6=1",
];

/// Host a, and host b.
pub const HOSTS: [Host; 2] = [
    Host {
        name: "a",
        address: "10.9.0.1",
        lan: "l1",
    },
    Host {
        name: "b",
        address: "10.9.0.2",
        lan: "l2",
    },
];

/// The switches' ends of the wire, and the box's.
pub const WIRES: [(&str, &str); 2] = [("w1", "x1"), ("w2", "x2")];

/// A host behind a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Host {
    /// Name of its namespace.
    pub name: &'static str,
    /// Address of its `eth0`.
    pub address: &'static str,
    /// Interface of its switch.
    pub lan: &'static str,
}

impl Host {
    /// A command that runs there.
    pub fn command(&self, program: &str) -> Command {
        inside(self.name, program)
    }

    /// The MAC address of its `eth0`.
    pub fn mac(&self) -> Result<MacAddress> {
        let mac = output(self.command("cat").arg("/sys/class/net/eth0/address"))?;
        Ok(mac.trim().parse()?)
    }
}

/// Makes hosts and interfaces.
pub fn build() -> Result<()> {
    prepare()?;
    ip("link set lo up")?;
    output(Command::new("sysctl").arg("-qw").args(NO_IPV6))?;
    for host in &HOSTS {
        let Host { name, address, lan } = host;
        ip(&format!("netns add {name}"))?;
        output(host.command("sysctl").arg("-qw").args(NO_IPV6))?;
        ip(&format!("-n {name} link set lo up"))?;
        join(name, lan, address)?;
    }
    let [a, b] = &HOSTS;
    for (Host { name, .. }, other) in [(a, b), (b, a)] {
        // A router answers ARP itself and sends requests of its own, which would count as losses and unknown packets.
        let (address, mac) = (other.address, other.mac()?);
        ip(&format!(
            "-n {name} neigh add {address} lladdr {mac} dev eth0 nud permanent"
        ))?;
    }
    for (wire, of_box) in WIRES {
        veth(wire, of_box)?;
    }
    Ok(())
}
