//! Killed under load, and started again with the same configuration: no remains prevent the start, nothing is left
//! behind permanently, and counters start at zero. Needs root for a tap, hugepages and a veth.
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::support::{Daemon, assert_conserved, is_root, memif};
use serde_json::{Value, json};
use testkit::hosts::{Veth, unique};
use testkit::namespace::ip;

/// Packets a second of the generated port.
const RATE: u64 = 20_000;

/// Whether an interface is up as its administrator sees it.
fn is_let_up(interface: &str) -> bool {
    let flags = std::fs::read_to_string(format!("/sys/class/net/{interface}/flags")).unwrap();
    let flags = u32::from_str_radix(flags.trim().trim_start_matches("0x"), 16).unwrap();
    flags & 1 == 1
}

/// Records that a switch keeps of interfaces that it took down.
fn is_recorded(interface: &str) -> bool {
    let number = std::fs::read_to_string(format!("/sys/class/net/{interface}/ifindex")).unwrap();
    let files = std::fs::read_dir("/run/vernier/lowered");
    let mut files = files.into_iter().flatten().flatten();
    let end = format!("-{}", number.trim());
    files.any(|file| file.file_name().to_string_lossy().ends_with(&end))
}

/// Two wires, patched so that each loses its link when the other does, and two ports more.
fn patched(wires: &[Veth; 2], with_wires: bool) -> Value {
    let mut ports = vec![
        json!({ "name": "c", "device": "sink" }),
        json!({ "name": "d", "device": "sink" }),
    ];
    let mut pairs = vec![json!(["c", "d"])];
    if with_wires {
        for (name, Veth(ours)) in ["a", "b"].into_iter().zip(wires) {
            let device = format!("net_af_packet_{name},iface={ours}");
            ports.push(json!({ "name": name, "device": device }));
        }
        pairs.push(json!(["a", "b"]));
    }
    json!({
        "ports": ports,
        "forwarding": { "mode": "patch", "pairs": pairs, "link_loss_forwarding": true },
    })
}

/// Takes the first wire's link away, and waits until the second is taken down for it.
fn lose_first(switch: &mut Daemon, wires: &[Veth; 2]) {
    let [Veth(a), Veth(b)] = wires;
    switch.wait_for(|switch| is_up(switch, "a") && is_up(switch, "b"));
    ip(&format!("link set {a}p down")).unwrap();
    switch.wait_for(|_| !is_let_up(b));
    assert!(is_let_up(a) && is_recorded(b));
}

fn is_up(switch: &Daemon, port: &str) -> bool {
    let series = format!("vernier_port_link_up{{port=\"{port}\"}}");
    switch.metric::<u64>(&series) == Some(1)
}

/// MiB of hugepages that are free, where this may use them.
fn free_hugepages_mib(is_root: bool) -> u64 {
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap();
    let value = |key: &str| -> u64 {
        let line = memory.lines().find_map(|line| line.strip_prefix(key));
        let number = line.and_then(|line| line.trim().split(' ').next());
        number.map_or(0, |number| number.parse().unwrap())
    };
    let free = value("HugePages_Free:") * value("Hugepagesize:") / 1024;
    if is_root { free } else { 0 }
}

/// Generated traffic, flooded to ports of every kind: `socket` is that of one.
fn config(socket: &Path, wire: Option<&Veth>, hugepages_mib: u64) -> Value {
    let mut ports = vec![
        json!({ "name": "generated", "device": format!("generate:flows=200,rate={RATE}") }),
        json!({ "name": "memif", "device": memif("server", socket) }),
    ];
    if let Some(Veth(ours)) = wire {
        let tap = format!("net_tap0,iface={ours}t");
        ports.push(json!({ "name": "tap", "device": tap }));
        let wire = format!("net_af_packet0,iface={ours}");
        ports.push(json!({ "name": "wire", "device": wire }));
    }
    let has_hugepages = hugepages_mib >= 128;
    json!({
        "ports": ports,
        "forwarding": { "mode": "bridge", "flood_limit_pps": 1_000_000 },
        "dpdk": {
            "hugepages": has_hugepages,
            "memory_mib": if has_hugepages { hugepages_mib } else { 128 },
            "mbufs": 16_384,
        },
    })
}

/// A switch at the other end of the socket.
fn peer(socket: &Path) -> Daemon {
    Daemon::start(json!({
        "ports": [
            { "name": "memif", "device": memif("client", socket) },
            { "name": "sink", "device": "sink" },
        ],
        "forwarding": { "mode": "patch", "pairs": [["memif", "sink"]] },
        "dpdk": { "memory_mib": 128, "mbufs": 16_384 },
    }))
}

fn received(switch: &Daemon, port: &str) -> u64 {
    let series = format!("vernier_port_received_packets_total{{port=\"{port}\"}}");
    switch.metric(&series).unwrap_or(0)
}

/// Waits until it is ready and packets come in by this port.
fn wait_until_loaded(switch: &mut Daemon, port: &str) {
    switch.wait_for(|switch| switch.get("/readyz").is_some());
    let seen = received(switch, port);
    switch.wait_for(|switch| received(switch, port) > seen + RATE / 2);
}

fn run_folder(id: u32) -> PathBuf {
    PathBuf::from(format!("/var/run/dpdk/vernier-{id}"))
}

/// Files of ours on the file systems for hugepages.
fn hugepage_files() -> Vec<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    let places = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (_, place, kind) = (words.next()?, words.next()?, words.next()?);
        (kind == "hugetlbfs").then(|| place.to_owned())
    });
    let files = places.flat_map(|place| std::fs::read_dir(place).into_iter().flatten().flatten());
    let ours = |path: &PathBuf| path.to_string_lossy().contains("vernier");
    files.map(|file| file.path()).filter(ours).collect()
}

#[test]
fn a_switch_that_was_killed_comes_back_as_if_it_were_new() {
    let is_root = is_root("a tap, and a virtual interface");
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("memif.sock");
    let wire = is_root.then(|| Veth::new().unwrap());
    // If the killed ones did not return theirs, the third would get none.
    let hugepages_mib = free_hugepages_mib(is_root) * 2 / 5;
    let config = config(&socket, wire.as_ref(), hugepages_mib);
    let mut switch = Daemon::start(config);
    for _ in 0..4 {
        let mut other_end = peer(&socket);
        wait_until_loaded(&mut other_end, "memif");
        wait_until_loaded(&mut switch, "generated");
        let (id, packets) = (switch.id(), received(&switch, "generated"));
        let began_s: f64 = switch.metric("process_start_time_seconds").unwrap();
        let killed = Instant::now();
        switch.kill_and_start_again();
        let again = received(&switch, "generated");
        let uptime_s: f64 = switch.metric("vernier_uptime_seconds").unwrap();
        let passed_s = killed.elapsed().as_secs_f64();
        assert!(uptime_s < passed_s, "{uptime_s} of {passed_s}");
        let packets_max = passed_s * RATE as f64 * 1.5 + 1_000.0;
        assert!((again as f64) < packets_max, "{packets}, then {again}");
        let begins_s: f64 = switch.metric("process_start_time_seconds").unwrap();
        assert!(begins_s > began_s, "{began_s}, then {begins_s}");
        assert!(!run_folder(id).exists(), "the dead left a folder");
        // The other end saw its link go, and counts on.
        assert!(received(&other_end, "memif") > 0);
        assert_conserved(&other_end.stop()["snapshot"]);
    }
    let id = switch.id();
    let mut other_end = peer(&socket);
    wait_until_loaded(&mut other_end, "memif");
    drop(other_end);
    assert_conserved(&switch.stop()["snapshot"]);
    assert!(!socket.exists(), "an orderly end leaves no socket");
    assert!(!run_folder(id).exists());
    assert_eq!(hugepage_files(), [] as [PathBuf; 0]);
}

#[test]
fn two_switches_side_by_side_know_nothing_of_each_other() {
    let is_root = is_root("a tap, and a virtual interface");
    let folder = tempfile::tempdir().unwrap();
    let sockets = ["a", "b"].map(|name| folder.path().join(name));
    let wires = [(); 2].map(|()| is_root.then(|| Veth::new().unwrap()));
    let hugepages_mib = free_hugepages_mib(is_root) / 4;
    let start = |n: usize| Daemon::start(config(&sockets[n], wires[n].as_ref(), hugepages_mib));
    let mut stays = start(0);
    let mut stays_peer = peer(&sockets[0]);
    wait_until_loaded(&mut stays_peer, "memif");
    let mut goes = start(1);
    let mut goes_peer = peer(&sockets[1]);
    wait_until_loaded(&mut goes_peer, "memif");
    let flaps =
        |switch: &Daemon| switch.metric::<u64>("vernier_port_link_flaps_total{port=\"memif\"}");
    let flaps_before = flaps(&stays);
    assert!(flaps_before.is_some());
    for _ in 0..2 {
        goes.kill_and_start_again();
        wait_until_loaded(&mut stays, "generated");
        wait_until_loaded(&mut stays_peer, "memif");
        assert_eq!(flaps(&stays), flaps_before);
    }
    drop(goes_peer);
    for switch in [goes, stays_peer, stays] {
        assert_conserved(&switch.stop()["snapshot"]);
    }
}

/// A switch between a veth and a sink.
fn to_sink(Veth(ours): &Veth) -> Value {
    json!({
        "ports": [
            { "name": "wire", "device": format!("net_af_packet0,iface={ours},qpairs=2"), "rx_queues": 2 },
            { "name": "sink", "device": "sink" },
        ],
        "forwarding": { "mode": "patch", "pairs": [["wire", "sink"]] },
    })
}

/// DPDK numbers the groups of sockets by process id xor index of the interface. The second switch's interface is made by the
/// process that becomes the switch, so that both have one number.
#[test]
fn two_switches_whose_sockets_dpdk_gives_one_number_run_at_once() {
    if !is_root("virtual interfaces") {
        return;
    }
    let wire = Veth::new().unwrap();
    let first = Daemon::start(to_sink(&wire));
    let index = std::fs::read_to_string(format!("/sys/class/net/{}/ifindex", wire.0)).unwrap();
    let index: u32 = index.trim().parse().unwrap();
    let wire = Veth(unique("vv"));
    let (ours, theirs, number) = (&wire.0, wire.peer(), first.id() ^ index);
    let script = format!(
        "index=$(( ({number} ^ $$) & 0xffff | 0x10000 ))
         ip link add {ours} index $index type veth peer name {theirs} &&
         ip link set {ours} up && ip link set {theirs} up && exec \"$0\" \"$@\""
    );
    let mut second = Daemon::start_as(to_sink(&wire), |vernierd| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).arg(vernierd.get_program());
        shell.args(vernierd.get_args());
        shell.stdin(Stdio::null()).stdout(Stdio::null());
        shell.stderr(Stdio::piped());
        *vernierd = shell;
    });
    second.wait_for(|switch| is_up(switch, "wire"));
    for switch in [first, second] {
        assert_conserved(&switch.stop()["snapshot"]);
    }
}

#[test]
fn a_link_that_was_taken_down_is_let_up_by_the_next_switch() {
    if !is_root("virtual interfaces") {
        return;
    }
    let wires = [(); 2].map(|()| Veth::new().unwrap());
    let [Veth(a), Veth(b)] = &wires;
    let mut switch = Daemon::start(patched(&wires, true));
    for _ in 0..2 {
        lose_first(&mut switch, &wires);
        // The lost link comes back while no switch runs, or only later.
        switch.kill_and_start_again();
        ip(&format!("link set {a}p up")).unwrap();
        switch.wait_for(|switch| is_let_up(b) && is_up(switch, "a") && is_up(switch, "b"));
        assert!(is_let_up(a) && !is_recorded(b));
    }
    switch.stop();

    // Interfaces taken down by the administrator stay down.
    ip(&format!("link set {b} down")).unwrap();
    let mut switch = Daemon::start(patched(&wires, true));
    switch.wait_for(|switch| !is_up(switch, "b"));
    switch.wait_for(|_| !is_let_up(a));
    assert!(!is_let_up(b) && !is_recorded(b));
    ip(&format!("link set {b} up")).unwrap();
    switch.wait_for(|switch| is_up(switch, "a") && is_up(switch, "b"));
    switch.stop();
    assert!(is_let_up(a) && !is_recorded(a));
}

#[test]
fn a_port_that_goes_while_it_is_taken_down_is_let_up() {
    if !is_root("virtual interfaces") {
        return;
    }
    let wires = [(); 2].map(|()| Veth::new().unwrap());
    let mut switch = Daemon::start(patched(&wires, true));
    lose_first(&mut switch, &wires);
    switch.reload(patched(&wires, false));
    let Veth(b) = &wires[1];
    let takes = |number| move |switch: &Daemon| switch.metric("vernier_generation") == Some(number);
    switch.wait_for(takes(1));
    switch.wait_for(|_| is_let_up(b));
    assert!(!is_recorded(b));
    // They come back, and what spoils their frames is said as it is at a start.
    let says = format!("port b: interface {b} has");
    ip(&format!("link set {}p up", wires[0].0)).unwrap();
    switch.reload(patched(&wires, true));
    switch.wait_for(takes(2));
    let words = switch.last_words();
    assert_eq!(words.matches(&says).count(), 2, "{words}");
}
