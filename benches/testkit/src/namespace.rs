//! Namespaces (network, mounts, processes) that end with their process: nothing has to be cleaned up.

use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rustix::process::geteuid;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::process::output;
use crate::skip;

/// Set if this process is already in the testbed's namespaces.
const INSIDE: &str = "VERNIER_TESTBED";

/// Replaces this process by the same program in namespaces of its own (network, mounts, processes), unless
/// it is there already. They vanish with the process, even after SIGKILL: nothing has to be cleaned up.
/// This takes root.
///
/// # Errors
/// When `unshare` cannot be started.
pub fn enter() -> Result<()> {
    if std::env::var_os(INSIDE).is_some() {
        return Ok(());
    }
    let own = std::env::current_exe().context("the path of this program is not known")?;
    let error = Command::new("unshare")
        .args(["--net", "--mount", "--pid", "--mount-proc"])
        .args(["--fork", "--kill-child"])
        .arg(own)
        .args(std::env::args_os().skip(1))
        .env(INSIDE, "1")
        .exec();
    Err(error).context("cannot start unshare")
}

/// For a test that needs root: enters a network of its own, with loopback. Returns `false` if the test has to be
/// skipped.
///
/// # Errors
/// As [`enter`].
pub fn own_network() -> Result<bool> {
    if !geteuid().is_root() {
        skip("needs root");
        return Ok(false);
    }
    enter()?;
    ip("link set lo up")?;
    Ok(true)
}

/// Mounts `/run/netns` and `/sys` for these namespaces, so that `ip netns` works in them.
///
/// # Errors
/// Outside such namespaces, or if something cannot be mounted.
pub fn prepare() -> Result<()> {
    ensure!(
        std::env::var_os(INSIDE).is_some(),
        "the testbed is built only in namespaces of its own"
    );
    mount("tmpfs", "/run/netns")?;
    mount("sysfs", "/sys")
}

/// Mounts an empty file system of a kind.
///
/// # Errors
/// When the folder cannot be made, or `mount` fails.
pub fn mount(kind: &str, folder: &str) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {folder}"))?;
    output(Command::new("mount").args(["-t", kind, kind, folder])).map(drop)
}

/// Calls `ip` with arguments that have no spaces in them.
///
/// # Errors
/// If it fails, with its output.
pub fn ip(arguments: &str) -> Result<()> {
    output(Command::new("ip").args(arguments.split(' '))).map(drop)
}

/// A command that runs in a network namespace of the testbed.
pub fn inside(space: &str, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", space]).arg(program);
    command
}

/// Runs a function in a network namespace of the testbed, on a separate thread. Processes that it starts are in the
/// namespace, too.
///
/// # Errors
/// When there is no such namespace.
///
/// # Panics
/// If the function panics.
pub fn within<T: Send>(space: &str, run: impl FnOnce() -> T + Send) -> Result<T> {
    let file = fs::File::open(format!("/run/netns/{space}"))
        .with_context(|| format!("there is no namespace {space}"))?;
    let enter = || {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
        anyhow::Ok(run())
    };
    std::thread::scope(|scope| {
        let outcome = scope.spawn(enter).join();
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Creates a pair of interfaces, both up and as on a wire: `outer` here, and `eth0` with this address in a namespace.
///
/// # Errors
/// Without root, or where there is one.
pub fn join(space: &str, outer: &str, address: &str) -> Result<()> {
    ip(&format!(
        "link add {outer} type veth peer name eth0 netns {space}"
    ))?;
    ip(&format!("-n {space} addr add {address}/24 dev eth0"))?;
    ip(&format!("-n {space} link set eth0 up"))?;
    // Otherwise TCP arrives with partial checksums and in frames larger than the MTU.
    switch_offloads_off(&mut inside(space, "ethtool"), "eth0")?;
    set_up(outer)
}

/// Creates a pair of interfaces here, both up and as on a wire.
///
/// # Errors
/// Without root, or where there is one.
pub fn veth(one: &str, other: &str) -> Result<()> {
    ip(&format!("link add {one} type veth peer name {other}"))?;
    set_up(one)?;
    set_up(other)
}

/// Takes an interface up, as on a wire.
///
/// # Errors
/// When there is none.
pub fn set_up(interface: &str) -> Result<()> {
    switch_offloads_off(&mut Command::new("ethtool"), interface)?;
    ip(&format!("link set {interface} up"))
}

/// Makes packets of an interface look as on a wire: not merged, and with complete checksums. `ethtool` is the command,
/// perhaps in a namespace.
///
/// # Errors
/// When it fails.
pub fn switch_offloads_off(ethtool: &mut Command, interface: &str) -> Result<()> {
    let off = ["tx", "rx", "tso", "gso", "gro"].map(|feature| [feature, "off"]);
    output(ethtool.args(["-K", interface]).args(off.as_flattened())).map(drop)
}
