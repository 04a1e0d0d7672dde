//! Routers of FRR (zebra and ospfd) in network namespaces, joined by veth pairs. Each router's namespace has its name; an
//! interface's name is its router's and its neighbour's: `CF` leads from C to F.
//!
//! They are created inside [`namespace::enter`], and end with that process. FRR need not be installed: Debian's
//! package, which would start a service, is unpacked into `.tools` (`make setup-test`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::process::geteuid;

use crate::namespace::{self, inside, ip};
use crate::process::{Process, output};

/// Address of ospfd's API, in each router's namespace.
pub const API_PORT: u16 = 2_607;
/// Folder into which the daemons' packages are unpacked.
const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.tools");
const LIBRARIES: &str = "usr/lib/x86_64-linux-gnu";

/// A link, and its cost at both ends.
pub type Link<'a> = (&'a str, &'a str, u16);

/// Figure 7 of MPLANE, as in docs/topology.md.
pub const TOY: &[Link<'static>] = &[
    ("A", "B", 1),
    ("A", "F", 1),
    ("B", "F", 1),
    ("C", "D", 1),
    ("C", "F", 2),
    ("D", "E", 1),
    ("E", "F", 2),
];

/// ospfd's settings for hellos four times a second; a neighbour is dead after a second without one.
pub const FAST_HELLOS: &str = "ip ospf dead-interval minimal hello-multiplier 4";
/// Hellos each second; a neighbour is dead after ten, because links may lose many.
pub const STEADY_HELLOS: &str = "ip ospf hello-interval 1\n ip ospf dead-interval 10";

/// Where FRR is.
#[derive(Debug, Clone)]
pub struct Frr {
    root: PathBuf,
}

impl Frr {
    /// Installed, or unpacked; `None` if neither.
    pub fn find() -> Option<Self> {
        let roots = [Path::new("/"), Path::new(TOOLS)];
        let found = roots
            .iter()
            .find(|root| root.join("usr/lib/frr/ospfd").exists());
        found.map(|root| Self {
            root: root.to_path_buf(),
        })
    }

    /// For a test: enters namespaces of its own, in which routers can be created. Returns `None` if the test has to be
    /// skipped.
    ///
    /// # Errors
    /// As [`namespace::enter`].
    pub fn for_test() -> Result<Option<Self>> {
        let why = match Self::find() {
            _ if !geteuid().is_root() => "needs root",
            None => "FRR is missing: make setup-test",
            Some(frr) => {
                namespace::enter()?;
                namespace::prepare()?;
                return Ok(Some(frr));
            }
        };
        crate::skip(why);
        Ok(None)
    }

    fn command(&self, space: &str, daemon: &str) -> Command {
        let mut command = inside(space, self.root.join("usr/lib/frr").join(daemon));
        let libraries = self.root.join(LIBRARIES);
        let both = format!("{0}:{0}/frr", libraries.display());
        command.env("LD_LIBRARY_PATH", both);
        // Runs as root, because otherwise they need FRR's own user.
        command.args(["-N", space, "-u", "root", "-g", "root", "-P", "0"]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }
}

/// Routers and links.
#[derive(Debug)]
pub struct Routers {
    /// By name.
    names: Vec<String>,
    daemons: Vec<Process>,
}

/// A router's id, which is also an address of its `lo`: 10.255.0.1 for the first.
pub fn router_id(index: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 255, 0, u8::try_from(index + 1).unwrap_or(u8::MAX))
}

impl Routers {
    /// Creates namespaces and links, and starts the daemons; configurations and logs go to `folder`. Adjacencies form
    /// in about a second ([`FAST_HELLOS`]).
    ///
    /// # Errors
    /// When something cannot be made or started.
    pub fn start(frr: &Frr, links: &[Link<'_>], folder: &Path) -> Result<Self> {
        Self::start_with(frr, links, folder, FAST_HELLOS, |(from, to, _)| {
            ip(&format!(
                "link add {from}{to} netns {from} type veth peer name {to}{from} netns {to}"
            ))
        })
    }

    /// As [`Routers::start`]; `connect` creates both interfaces of a link and everything between them.
    ///
    /// # Errors
    /// As there, and those of `connect`.
    pub fn start_with(
        frr: &Frr,
        links: &[Link<'_>],
        folder: &Path,
        hellos: &str,
        mut connect: impl FnMut(&Link<'_>) -> Result<()>,
    ) -> Result<Self> {
        let mut names: Vec<_> = links.iter().flat_map(|link| [link.0, link.1]).collect();
        names.sort_unstable();
        names.dedup();
        ensure!(names.len() < 255, "too many routers for their ids");
        let mut routers = Self::without_daemons(&names)?;
        for (index, name) in names.iter().enumerate() {
            let id = router_id(index);
            ip(&format!("-n {name} addr add {id}/32 dev lo"))?;
            output(inside(name, "sysctl").args(["-qw", "net.ipv4.ip_forward=1"]))?;
        }
        for (index, link) in links.iter().enumerate() {
            connect(link)?;
            address(index, link)?;
        }
        for (index, name) in names.iter().enumerate() {
            let configuration = configuration(index, name, links, hellos);
            routers.start_daemons(frr, name, &configuration, folder)?;
        }
        Ok(routers)
    }

    /// Starts the daemons of one router without links, in the namespace `name`, by this configuration.
    ///
    /// # Errors
    /// When something cannot be made or started.
    pub fn start_one(frr: &Frr, name: &str, configuration: &str, folder: &Path) -> Result<Self> {
        let mut routers = Self::without_daemons(&[name])?;
        routers.start_daemons(frr, name, configuration, folder)?;
        Ok(routers)
    }

    /// Makes the namespaces.
    fn without_daemons(names: &[&str]) -> Result<Self> {
        allow_root()?;
        namespace::mount("tmpfs", "/var/run/frr")?;
        for name in names {
            ip(&format!("netns add {name}"))?;
            ip(&format!("-n {name} link set lo up"))?;
        }
        Ok(Self {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            daemons: Vec::new(),
        })
    }

    fn start_daemons(
        &mut self,
        frr: &Frr,
        name: &str,
        configuration: &str,
        folder: &Path,
    ) -> Result<()> {
        let file = folder.join(format!("{name}.conf"));
        fs::write(&file, configuration).context("cannot write a router's configuration")?;
        let zebra = folder.join(format!("{name}-zebra.conf"));
        // With the kernel's next hop objects, zebra 8.4 leaves out one of two if its interface has just come back.
        fs::write(&zebra, "no zebra nexthop kernel enable\n")
            .context("cannot write a router's configuration")?;
        for daemon in ["zebra", "ospfd"] {
            let mut command = frr.command(name, daemon);
            let pid = folder.join(format!("{name}-{daemon}.pid"));
            command.arg("-i").arg(pid);
            if daemon == "ospfd" {
                command.arg("-a").arg("-f").arg(&file);
            } else {
                command.arg("-f").arg(&zebra);
            }
            let log = folder.join(format!("{name}-{daemon}.log"));
            self.daemons.push(Process::start_logged(&mut command, log)?);
        }
        Ok(())
    }

    /// Names of the routers, in the order of their ids.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// The names by router id.
    pub fn by_id(&self) -> BTreeMap<Ipv4Addr, String> {
        (0..)
            .map(router_id)
            .zip(self.names.iter().cloned())
            .collect()
    }

    /// Fails if a daemon has ended.
    ///
    /// # Errors
    /// With its log.
    pub fn check_alive(&mut self) -> Result<()> {
        self.daemons.iter_mut().try_for_each(Process::check_alive)
    }

    /// Takes a link down, or up again.
    ///
    /// # Errors
    /// If there is no such link.
    pub fn set_link(&self, from: &str, to: &str, is_up: bool) -> Result<()> {
        let state = if is_up { "up" } else { "down" };
        ip(&format!("-n {from} link set {from}{to} {state}"))
    }
}

/// FRR's daemons exit unless their user, here root, is in the group `frrvty`.
fn allow_root() -> Result<()> {
    let groups = fs::read_to_string("/etc/group").context("cannot read /etc/group")?;
    let mut groups: Vec<_> = groups
        .lines()
        .filter(|line| !line.starts_with("frrvty:"))
        .collect();
    groups.push("frrvty:x:64999:root");
    let file = std::env::temp_dir().join(format!("vernier-group-{}", std::process::id()));
    fs::write(&file, groups.join("\n") + "\n").context("cannot write a file of groups")?;
    let mounted = output(
        Command::new("mount")
            .arg("--bind")
            .arg(&file)
            .arg("/etc/group"),
    );
    // The mount keeps the file.
    fs::remove_file(&file).context("cannot remove a file of groups")?;
    mounted.map(drop)
}

/// The address of the first (0) or second (1) end of the index-th link: 10.9.INDEX.1 and 2.
pub fn link_address(index: usize, end: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, u8::try_from(index).unwrap_or(u8::MAX), end + 1)
}

fn address(index: usize, (from, to, _): &Link<'_>) -> Result<()> {
    for (end, other, at) in [(from, to, 0), (to, from, 1)] {
        let address = link_address(index, at);
        ip(&format!("-n {end} addr add {address}/30 dev {end}{other}"))?;
        ip(&format!("-n {end} link set {end}{other} up"))?;
    }
    Ok(())
}

fn configuration(index: usize, name: &str, links: &[Link<'_>], hellos: &str) -> String {
    let mut text = String::new();
    let ends = links
        .iter()
        .flat_map(|&(a, b, cost)| [(a, b, cost), (b, a, cost)]);
    for (_, to, cost) in ends.filter(|end| end.0 == name) {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "interface {name}{to}\n ip ospf area 0\n ip ospf cost {cost}\n ip ospf network point-to-point\n \
             {hellos}\n ip ospf retransmit-interval 3"
        );
    }
    let id = router_id(index);
    let _ = writeln!(
        text,
        "interface lo\n ip ospf area 0\nrouter ospf\n ospf router-id {id}\n capability opaque\n \
         timers throttle spf 10 50 500\n timers throttle lsa all 0\n timers lsa min-arrival 0"
    );
    text
}
