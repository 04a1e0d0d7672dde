//! Debian's Open vSwitch with DPDK, unmodified, with the plugin in it: a bridge between two hosts in
//! namespaces of their own, over `net_af_packet`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test says what must hold in the plainest way"
)]

mod support;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use support::{HugePages, Owned, PATIENCE, Plugin, run, skip};

const SWITCH: &str = "usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";

/// Where Open vSwitch is: installed, or unpacked beside the sources.
fn root() -> Option<PathBuf> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools");
    let found = [PathBuf::from("/"), tools]
        .into_iter()
        .find(|root| root.join(SWITCH).exists());
    if found.is_none() {
        skip("Open vSwitch with DPDK is not here; make setup-test unpacks it");
    }
    found
}

/// Memory for packets, in huge pages: Open vSwitch takes no other.
const MEMORY_MIB: u64 = 512;

/// Two hosts, each with a veth whose other end is the switch's.
struct Hosts {
    tag: String,
}

impl Hosts {
    fn new() -> Self {
        let hosts = Self {
            tag: format!("vo{}", std::process::id()),
        };
        for n in [1, 2] {
            let (space, ours) = (hosts.space(n), hosts.interface(n));
            let off = "tx off rx off tso off gso off gro off";
            for command in [
                format!("ip netns add {space}"),
                format!("ip link add {ours} type veth peer name eth0 netns {space}"),
                format!("ip link set {ours} up"),
                format!("ip -n {space} addr add 10.98.0.{n}/24 dev eth0"),
                format!("ip -n {space} link set eth0 up"),
                // Otherwise TCP arrives with half-made checksums and in frames larger than the MTU.
                format!("ip netns exec {space} ethtool -K eth0 {off}"),
                format!("ethtool -K {ours} {off}"),
            ] {
                run(&mut words(&command));
            }
        }
        hosts
    }

    fn space(&self, n: u8) -> String {
        format!("{}h{n}", self.tag)
    }

    fn interface(&self, n: u8) -> String {
        format!("{}p{n}", self.tag)
    }

    fn inside(&self, n: u8, command: &str) -> Command {
        words(&format!("ip netns exec {} {command}", self.space(n)))
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for n in [1, 2] {
            let _ = words(&format!("ip netns del {}", self.space(n))).status();
            let _ = words(&format!("ip link del {}", self.interface(n)))
                .stderr(Stdio::null())
                .status();
        }
    }
}

fn words(command: &str) -> Command {
    let mut words = command.split_whitespace();
    let mut command = Command::new(words.next().unwrap());
    command.args(words).stdin(Stdio::null());
    command
}

/// A database and a switch in a folder of their own. The switch is dropped first.
struct OpenVSwitch {
    root: PathBuf,
    folder: tempfile::TempDir,
    switch: Option<Owned>,
    database: Option<Owned>,
}

impl OpenVSwitch {
    fn start(root: PathBuf, plugin: &Plugin) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut ovs = Self {
            database: None,
            root,
            folder,
            switch: None,
        };
        let database = ovs.path("conf.db");
        let schema = ovs.root.join("usr/share/openvswitch/vswitch.ovsschema");
        let mut create = ovs.command("usr/bin/ovsdb-tool");
        run(create.args(["create", &database]).arg(schema));
        let mut server = ovs.command("usr/sbin/ovsdb-server");
        server
            .arg(&database)
            .arg(format!("--remote=punix:{}", ovs.path("db.sock")))
            .arg(format!("--unixctl={}", ovs.path("database.ctl")));
        ovs.database = Some(Owned(ovs.quiet(server, "database.log")));
        ovs.wait_for("db.sock");
        run(ovs.vsctl().args(["--no-wait", "init"]));
        let extra = plugin.arguments().join(" ");
        run(ovs
            .vsctl()
            .args(["--no-wait", "set", "Open_vSwitch", "."])
            .args([
                "other_config:dpdk-init=true",
                "other_config:pmd-cpu-mask=0x2",
            ])
            .args(["other_config:dpdk-lcore-mask=0x1"])
            .arg(format!("other_config:dpdk-socket-mem={MEMORY_MIB}"))
            .arg(format!(
                "other_config:dpdk-extra=--no-pci --no-telemetry --file-prefix=vernier-test {extra}"
            )));
        let mut switch = ovs.command(SWITCH);
        switch
            .arg(format!("unix:{}", ovs.path("db.sock")))
            .arg(format!("--unixctl={}", ovs.path("switch.ctl")));
        plugin.settle(&mut switch);
        ovs.switch = Some(Owned(ovs.quiet(switch, "switch.log")));
        ovs.wait_for("switch.ctl");
        ovs
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.path("switch.log")).unwrap_or_default()
    }

    fn wait_for(&self, file: &str) {
        let began = Instant::now();
        while !Path::new(&self.path(file)).exists() {
            assert!(began.elapsed() < PATIENCE, "{file}: {}", self.log());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// A program of it that leaves nothing outside of the folder.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.root.join(program));
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
            command.env(variable, self.folder.path());
        }
        command.env("OVS_PKGDATADIR", self.root.join("usr/share/openvswitch"));
        command
    }

    fn quiet(&self, mut command: Command, log: &str) -> std::process::Child {
        let log = File::create(self.path(log)).unwrap();
        let copy = log.try_clone().unwrap();
        command.stdin(Stdio::null()).stdout(log).stderr(copy);
        command.spawn().unwrap()
    }

    fn vsctl(&self) -> Command {
        let mut command = self.command("usr/bin/ovs-vsctl");
        command
            .arg(format!("--db=unix:{}", self.path("db.sock")))
            .arg("--timeout=30");
        command
    }

    /// Configures it, and waits until it is done.
    fn tell(&self, arguments: &[&str]) {
        let output = self.vsctl().args(arguments).output().unwrap();
        assert!(
            output.status.success(),
            "{arguments:?}: {output:?}\n{}",
            self.log()
        );
    }

    fn bridge(&self, hosts: &Hosts) {
        let bridge = "add-br br0 -- set bridge br0 datapath_type=netdev";
        self.tell(&bridge.split(' ').collect::<Vec<_>>());
        for n in [1, 2] {
            let (name, interface) = (format!("p{n}"), hosts.interface(n));
            let device = format!("options:dpdk-devargs=net_af_packet{n},iface={interface}");
            self.tell(&[
                "add-port",
                "br0",
                &name,
                "--",
                "set",
                "Interface",
                &name,
                "type=dpdk",
                &device,
            ]);
        }
    }

    /// Ends it as its own script does; how it ended.
    fn exit(mut self) -> bool {
        let mut exit = self.command("usr/bin/ovs-appctl");
        run(exit.args(["-t", &self.path("switch.ctl"), "exit"]));
        let mut switch = self.switch.take().unwrap();
        let ended = switch.0.wait().unwrap();
        drop(self.database.take());
        ended.success()
    }
}

fn ping_until_answered(hosts: &Hosts, ovs: &OpenVSwitch) {
    let began = Instant::now();
    while !hosts
        .inside(1, "ping -c 1 -W 1 10.98.0.2")
        .stdout(Stdio::null())
        .status()
        .unwrap()
        .success()
    {
        assert!(began.elapsed() < PATIENCE, "no answer: {}", ovs.log());
    }
}

/// Three seconds of TCP from host 1 to host 2: the bytes sent.
fn transfer(hosts: &Hosts, ovs: &OpenVSwitch) -> u64 {
    let mut server = hosts.inside(2, "iperf3 --server --one-off");
    let mut server = Owned(server.stdout(Stdio::null()).spawn().unwrap());
    let client = "iperf3 --client 10.98.0.2 --time 3 --json --connect-timeout 5000";
    let began = Instant::now();
    loop {
        let output = hosts.inside(1, client).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        if let Some(sent) = report["end"]["sum_sent"]["bytes"].as_u64() {
            return sent;
        }
        // The server may not listen yet: iperf3 says so, and may call that a success.
        assert!(
            began.elapsed() < PATIENCE && server.0.try_wait().unwrap().is_none(),
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            ovs.log()
        );
    }
}

#[test]
fn a_bridge_of_open_vswitch_tells_the_latency_of_its_flows() {
    let settings = json!({ "measurement": { "interval_ms": 200, "flows": { "slots": 1_024 } } });
    let (Some(root), Some(plugin)) = (root(), Plugin::with(settings)) else {
        return;
    };
    let Some(_pages) = HugePages::reserve(MEMORY_MIB) else {
        return;
    };
    let hosts = Hosts::new();
    let ovs = OpenVSwitch::start(root, &plugin);
    ovs.bridge(&hosts);
    plugin.wait("/api/v1/snapshot", "two ports", |snapshot| {
        (snapshot["ports"].as_array()?.len() == 2).then_some(())
    });
    ping_until_answered(&hosts, &ovs);
    let sent = transfer(&hosts, &ovs);
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
    // A flow that has just been reported gets its series with the next of the epochs.
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
    // ICMP echo: the first may have gone before flows were tracked.
    while !plugin.get("/metrics").unwrap().contains("/icmp") {
        assert!(began.elapsed() < PATIENCE, "no series of the ping: {page}");
        let ping = hosts.inside(1, "ping -c 1 -W 1 10.98.0.2").output();
        assert!(ping.unwrap().status.success());
    }
    let log = ovs.log();
    assert!(ovs.exit(), "{log}");
    assert!(!log.contains("VERNIER"), "{log}");
}
