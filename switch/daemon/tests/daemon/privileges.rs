//! Privileges: root's are given up, and the unit's user has enough.
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::support::{Daemon, PATIENCE, interrupt, is_root};
use serde_json::json;
use testkit::hosts::unique;
use testkit::namespace::ip;
use testkit::process::Process;

/// The value of a key in the unit.
fn setting(key: &str) -> String {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/vernierd.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    let mut lines = unit.lines();
    let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    value.unwrap_or_else(|| panic!("{key}")).to_owned()
}

/// `CAP_NET_RAW CAP_NET_ADMIN` as `setpriv` spells it.
fn capabilities(names: &str) -> String {
    let names = names.split(' ').map(|name| {
        let name = name.strip_prefix("CAP_").unwrap().to_lowercase();
        format!(",+{name}")
    });
    "-all".to_owned() + &names.collect::<String>()
}

/// The sets of capabilities of each thread of a process, by their names: `CapPrm` and so on.
fn threads(id: u32) -> Vec<(String, Vec<(String, u64)>)> {
    let tasks = std::fs::read_dir(format!("/proc/{id}/task")).unwrap();
    let read = |task: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let lines = text.lines().filter_map(|line| line.split_once(":\t"));
        let name = text.lines().next().unwrap().to_owned();
        let sets = lines.filter(|(key, _)| key.starts_with("Cap"));
        let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
        let sets = sets.map(|(key, set)| (key.to_owned(), number(set)));
        (name, sets.collect())
    };
    tasks.map(read).collect()
}

/// `linux/capability.h`.
const NET_ADMIN: u64 = 1 << 12;
const NET_RAW: u64 = 1 << 13;
const IPC_LOCK: u64 = 1 << 14;
const SYS_ADMIN: u64 = 1 << 21;

/// Checks that no thread has, or can come by, more than `kept`; and that one has all of `needed`.
fn assert_privileges(id: u32, kept: u64, needed: u64) {
    let threads = threads(id);
    assert!(threads.len() >= 5, "{threads:?}");
    for (name, sets) in &threads {
        for (set, held) in sets {
            let allowed = match set.as_str() {
                "CapInh" | "CapAmb" => 0,
                _ => kept,
            };
            assert_eq!(held & !allowed, 0, "{name}: {set} {held:#x} in {threads:?}");
        }
    }
    let permitted = threads.iter().flat_map(|(_, sets)| sets);
    let mut permitted = permitted.filter(|(set, _)| set == "CapPrm");
    assert!(
        permitted.any(|(_, held)| held & needed == needed),
        "{threads:?}"
    );
}

#[test]
fn root_keeps_no_more_than_ports_need_in_any_thread() {
    if !is_root("giving up root's capabilities") {
        return;
    }
    let mut switch = Daemon::start(json!({
        "ports": [
            { "name": "a", "device": "generate:flows=10,rate=1000" },
            { "name": "b", "device": "sink" },
        ],
        "forwarding": { "mode": "patch", "pairs": [["a", "b"]] },
        "workers": [{ "idle": "sleep" }, { "idle": "sleep" }],
    }));
    switch.wait_for(|switch| switch.get("/readyz").is_some());
    let kept = NET_ADMIN | NET_RAW | IPC_LOCK;
    assert_privileges(switch.id(), kept, NET_ADMIN | NET_RAW);
    switch.stop();
}

/// A network namespace of this test's own, with two virtual interfaces, `va` and `vb`, that have peers.
struct Space(String);

impl Space {
    fn new() -> Self {
        let space = Self(unique("vu"));
        ip(&format!("netns add {}", space.0)).unwrap();
        for interface in ["va", "vb"] {
            space.set(&format!(
                "add name {interface} type veth peer name {interface}p"
            ));
            space.set(&format!("set {interface} up"));
            space.set(&format!("set {interface}p up"));
        }
        space
    }

    fn set(&self, arguments: &str) {
        ip(&format!("-n {} link {arguments}", self.0)).unwrap();
    }

    /// Whether the interface is up as its administrator sees it.
    fn is_let_up(&self, interface: &str) -> bool {
        let show = ["-n", &self.0, "-o", "link", "show", interface];
        let output = Command::new("ip").args(show).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let flags = text.split(['<', '>']).nth(1).unwrap();
        flags.split(',').any(|flag| flag == "UP")
    }

    fn wait_for(&self, interface: &str, is_let_up: bool) {
        let began = Instant::now();
        while self.is_let_up(interface) != is_let_up {
            assert!(began.elapsed() < PATIENCE, "{interface}: {is_let_up}");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let _ = ip(&format!("netns del {}", self.0));
    }
}

/// The program, its configuration and its run folder, where another user may use them.
fn install(folder: &Path, driver: &str) {
    let config = json!({
        "ports": [
            { "name": "a", "device": format!("{driver}0,iface=va") },
            { "name": "b", "device": format!("{driver}1,iface=vb") },
        ],
        "forwarding": { "mode": "patch", "pairs": [["a", "b"]], "link_loss_forwarding": true },
        "workers": [{ "idle": "sleep" }],
        "http": { "listen": null },
    });
    std::fs::write(folder.join("vernier.json"), config.to_string()).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_vernierd"), folder.join("vernierd")).unwrap();
    std::fs::create_dir(folder.join("run")).unwrap();
    for path in [folder, &folder.join("vernierd")] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    std::os::unix::fs::chown(folder.join("run"), Some(USER), None).unwrap();
}

/// A user who owns nothing here.
const USER: u32 = 54_321;

/// A switch in a space, by a user with these capabilities and no others, once it works.
fn start(space: &Space, folder: &Path, granted: &str) -> Process {
    let run = folder.join("run");
    let set = capabilities(granted);
    let mut command = Command::new("ip");
    command
        .args(["netns", "exec", &space.0, "setpriv"])
        .args([format!("--reuid={USER}"), format!("--regid={USER}")])
        .args(["--clear-groups", "--no-new-privs"])
        .args(["inh-caps", "ambient-caps", "bounding-set"].map(|key| format!("--{key}={set}")))
        .arg("--")
        .arg(folder.join("vernierd"))
        .arg("--config")
        .arg(folder.join("vernier.json"))
        .env("RUNTIME_DIRECTORY", &run)
        .env("XDG_RUNTIME_DIR", &run)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut process = Process::start(&mut command).unwrap();
    let id = process.child.id();
    let began = Instant::now();
    let is_at_work = || {
        let comm = |(name, _): &(String, _)| name.ends_with("vernier-control");
        threads(id).iter().any(comm)
    };
    while !is_at_work() {
        process.check_alive().unwrap();
        assert!(began.elapsed() < PATIENCE, "it does not start");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    process
}

/// A switch with these drivers, run as by the unit except for the user's name, and with `more` capabilities.
fn switches_as_the_unit_s_user(
    driver: &str,
    (more, kept): (&str, u64),
    works: impl FnOnce(&Space, &Path),
) {
    if !is_root("a network namespace, and another user") {
        return;
    }
    assert_ne!(setting("User"), "root");
    let granted = setting("AmbientCapabilities");
    assert_eq!(granted, setting("CapabilityBoundingSet"));
    let space = Space::new();
    let folder = tempfile::tempdir().unwrap();
    install(folder.path(), driver);
    let process = start(&space, folder.path(), &(granted + more));
    assert_privileges(process.child.id(), kept, kept);
    works(&space, folder.path());
    let (is_success, output) = interrupt(process);
    assert!(is_success && lowered(folder.path()) == 0, "{output}");
}

/// Interfaces that a switch in this folder has taken down.
fn lowered(folder: &Path) -> usize {
    std::fs::read_dir(folder.join("run/lowered")).map_or(0, Iterator::count)
}

#[test]
fn the_unit_s_user_switches_between_interfaces_and_sets_their_links() {
    let kept = NET_ADMIN | NET_RAW | IPC_LOCK;
    switches_as_the_unit_s_user("net_af_packet", ("", kept), |space, folder| {
        // It may take links down, write that down, and let them up.
        assert!(space.is_let_up("vb") && lowered(folder) == 0);
        space.set("set vap down");
        space.wait_for("vb", false);
        assert_eq!(lowered(folder), 1);
        space.set("set vap up");
        space.wait_for("vb", true);
    });
}

/// As in the unit's comment on `net_af_xdp`.
#[test]
fn the_unit_s_user_switches_by_xdp_with_one_capability_more() {
    let kept = NET_ADMIN | NET_RAW | IPC_LOCK | SYS_ADMIN;
    switches_as_the_unit_s_user("net_af_xdp", (" CAP_SYS_ADMIN", kept), |_, _| ());
}
