//! Namespaces and interfaces.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::throughput::process::output;

/// Set where this process is in the testbed's namespaces already.
const INSIDE: &str = "VERNIER_TESTBED";

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
    /// Its namespace.
    pub name: &'static str,
    /// The address of its `eth0`.
    pub address: &'static str,
    /// The interface of its switch.
    pub lan: &'static str,
}

impl Host {
    /// A command that runs there.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.name, program]);
        command
    }

    /// The Ethernet address of its `eth0`.
    ///
    /// # Errors
    /// When it cannot be found out.
    pub fn mac(&self) -> Result<String> {
        let mac = output(self.command("cat").arg("/sys/class/net/eth0/address"))?;
        Ok(mac.trim().to_owned())
    }
}

/// Goes on in namespaces of its own (network, mounts, processes), as the same program started once
/// more in place of this one, unless it is there already. They are gone with it, and so is all that is
/// in them: nothing has to be cleaned up, even after SIGKILL.
///
/// # Errors
/// When that cannot be: it needs root.
pub fn enter() -> Result<()> {
    if std::env::var_os(INSIDE).is_some() {
        return Ok(());
    }
    let own = std::env::current_exe().context("cannot tell where this program is")?;
    let apart = [
        "--net",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
    ];
    let error = Command::new("unshare")
        .args(apart)
        .arg(own)
        .args(std::env::args_os().skip(1))
        .env(INSIDE, "1")
        .exec();
    Err(error).context("cannot start unshare")
}

fn ip(arguments: &str) -> Result<()> {
    output(Command::new("ip").args(arguments.split(' '))).map(drop)
}

/// Makes hosts and interfaces.
///
/// # Errors
/// When a command fails.
pub fn build() -> Result<()> {
    ensure!(
        std::env::var_os(INSIDE).is_some(),
        "the testbed is built in namespaces of its own only"
    );
    // What is under /run/netns and /sys is that of these namespaces from now on.
    fs::create_dir_all("/run/netns").context("cannot make /run/netns")?;
    for (kind, at) in [("tmpfs", "/run/netns"), ("sysfs", "/sys")] {
        output(Command::new("mount").args(["-t", kind, kind, at]))?;
    }
    let still = [
        "net.ipv6.conf.all.disable_ipv6=1",
        "net.ipv6.conf.default.disable_ipv6=1",
    ];
    ip("link set lo up")?;
    output(Command::new("sysctl").arg("-qw").args(still))?;
    for host in &HOSTS {
        let Host { name, address, lan } = host;
        ip(&format!("netns add {name}"))?;
        output(host.command("sysctl").arg("-qw").args(still))?;
        ip(&format!(
            "link add {lan} type veth peer name eth0 netns {name}"
        ))?;
        ip(&format!("-n {name} link set lo up"))?;
        ip(&format!("-n {name} addr add {address}/24 dev eth0"))?;
        plain(&mut host.command("ethtool"), "eth0")?;
        plain(&mut Command::new("ethtool"), lan)?;
        ip(&format!("-n {name} link set eth0 up"))?;
        ip(&format!("link set {lan} up"))?;
    }
    let [a, b] = &HOSTS;
    for (host, other) in [(a, b), (b, a)] {
        // ARP ends at a router, which asks for itself on its other side: a loss, and a packet that nobody sent.
        ip(&format!(
            "-n {} neigh add {} lladdr {} dev eth0 nud permanent",
            host.name,
            other.address,
            other.mac()?
        ))?;
    }
    for (wire, of_box) in WIRES {
        ip(&format!("link add {wire} type veth peer name {of_box}"))?;
        for interface in [wire, of_box] {
            plain(&mut Command::new("ethtool"), interface)?;
            ip(&format!("link set {interface} up"))?;
        }
    }
    Ok(())
}

/// Packets as they would be on a wire: not merged, and with checksums of their own.
fn plain(ethtool: &mut Command, interface: &str) -> Result<()> {
    let off = ["tx", "rx", "tso", "gso", "gro"].map(|feature| [feature, "off"]);
    output(ethtool.args(["-K", interface]).args(off.as_flattened())).map(drop)
}
