//! Kernel interfaces and hosts for a test, deleted when they are dropped.

use std::fmt::Display;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::Result;

use crate::namespace::{inside, ip, join};
use crate::process::output;

/// A name for interfaces or namespaces that no other running test has, of at most 10 characters.
pub fn unique(tag: &str) -> String {
    static NAMES: AtomicU8 = AtomicU8::new(b'a');
    let last = char::from(NAMES.fetch_add(1, Ordering::Relaxed));
    format!("{tag}{}{last}", std::process::id())
}

/// A pair of virtual interfaces, both up; this end belongs to the switch.
#[derive(Debug)]
pub struct Veth(pub String);

impl Veth {
    /// Makes one.
    ///
    /// # Errors
    /// Without root, or if the kernel does not support them.
    pub fn new() -> Result<Self> {
        let veth = Self(unique("vv"));
        let (ours, theirs) = (&veth.0, veth.peer());
        ip(&format!("link add {ours} type veth peer name {theirs}"))?;
        ip(&format!("link set {ours} up"))?;
        ip(&format!("link set {theirs} up"))?;
        Ok(veth)
    }

    /// The other end.
    pub fn peer(&self) -> String {
        format!("{}p", self.0)
    }
}

impl Drop for Veth {
    fn drop(&mut self) {
        // An end that was not created does not exist.
        let _ = ip(&format!("link del {}", self.0));
    }
}

/// Hosts in network namespaces, each with an interface `eth0` whose other end is the switch's.
#[derive(Debug)]
pub struct Hosts {
    tag: String,
    names: &'static [&'static str],
}

impl Hosts {
    /// Creates them; the n-th has the address n of `network`, `10.99.0`.
    ///
    /// # Errors
    /// Without root.
    pub fn new(network: &str, names: &'static [&'static str]) -> Result<Self> {
        let hosts = Self {
            tag: unique("vt"),
            names,
        };
        for (host, n) in names.iter().zip(1..) {
            let name = hosts.name(host);
            ip(&format!("netns add {name}"))?;
            hosts.join(host, &format!("{network}.{n}"))?;
            // Keep the kernel from sending packets by itself. Without IPv6 there is nothing to disable.
            let off = "sysctl -qw net.ipv6.conf.all.disable_ipv6=1";
            let _ = output(&mut hosts.inside(host, off));
        }
        Ok(hosts)
    }

    /// Creates the pair of interfaces between a host and the switch.
    ///
    /// # Errors
    /// Without root, or where there is one.
    pub fn join(&self, host: impl Display, address: &str) -> Result<()> {
        let name = self.name(host);
        join(&name, &name, address)
    }

    /// Deletes that pair.
    ///
    /// # Errors
    /// Without root, or where there is none.
    pub fn part(&self, host: impl Display) -> Result<()> {
        ip(&format!("link del {}", self.name(host)))
    }

    /// A host's namespace, and the switch's end of its pair of interfaces.
    pub fn name(&self, host: impl Display) -> String {
        format!("{}{host}", self.tag)
    }

    /// A command that runs on a host.
    pub fn inside(&self, host: impl Display, command: &str) -> Command {
        let mut words = command.split_whitespace();
        let mut command = inside(&self.name(host), words.next().unwrap_or_default());
        command.args(words).stdin(Stdio::null());
        command
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for host in self.names {
            // Deleting a namespace deletes its interface, and so the pair.
            let _ = ip(&format!("netns del {}", self.name(host)));
        }
    }
}
