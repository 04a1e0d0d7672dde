//! Debian's unmodified Open vSwitch with DPDK in a folder of its own, and hosts in separate namespaces.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use testkit::hosts::Hosts;
use testkit::process::Process;

use super::{PATIENCE, Plugin, run, skip};

const SWITCH: &str = "usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";

/// Where Open vSwitch is: installed, or unpacked beside the sources.
pub fn root() -> Option<PathBuf> {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools");
    let found = [PathBuf::from("/"), tools]
        .into_iter()
        .find(|root| root.join(SWITCH).exists());
    if found.is_none() {
        skip("Open vSwitch with DPDK is not here; make setup-test unpacks it");
    }
    found
}

/// Memory for packets, in huge pages, which Open vSwitch requires.
pub const MEMORY_MIB: u64 = 512;

/// Two hosts, 10.98.0.1 and .2.
pub fn hosts() -> Hosts {
    Hosts::new("10.98.0", &["1", "2"]).unwrap()
}

/// A database and a switch in a folder of their own. The switch is dropped first.
pub struct OpenVSwitch {
    root: PathBuf,
    folder: tempfile::TempDir,
    switch: Option<Process>,
    database: Option<Process>,
}

impl OpenVSwitch {
    pub fn start(root: PathBuf, plugin: &Plugin) -> Self {
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
        ovs.database = Some(ovs.quiet(server, "database.log"));
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
            .arg(format!("other_config:dpdk-socket-limit={MEMORY_MIB}"))
            .arg(format!(
                "other_config:dpdk-extra=--no-pci --no-telemetry --file-prefix=vernier-test {extra}"
            )));
        let mut switch = ovs.command(SWITCH);
        switch
            .arg(format!("unix:{}", ovs.path("db.sock")))
            .arg(format!("--unixctl={}", ovs.path("switch.ctl")));
        plugin.settle(&mut switch);
        ovs.switch = Some(ovs.quiet(switch, "switch.log"));
        ovs.wait_for("switch.ctl");
        ovs
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("switch.log")).unwrap_or_default()
    }

    fn wait_for(&self, file: &str) {
        let began = Instant::now();
        while !Path::new(&self.path(file)).exists() {
            assert!(began.elapsed() < PATIENCE, "{file}: {}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// One of its programs, which writes nothing outside the folder.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.root.join(program));
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
            command.env(variable, self.folder.path());
        }
        command.env("OVS_PKGDATADIR", self.root.join("usr/share/openvswitch"));
        command
    }

    fn quiet(&self, mut command: Command, log: &str) -> Process {
        let log = File::create(self.path(log)).unwrap();
        let copy = log.try_clone().unwrap();
        command.stdin(Stdio::null()).stdout(log).stderr(copy);
        Process::start(&mut command).unwrap()
    }

    pub fn vsctl(&self) -> Command {
        let mut command = self.command("usr/bin/ovs-vsctl");
        command
            .arg(format!("--db=unix:{}", self.path("db.sock")))
            .arg("--timeout=30");
        command
    }

    /// Configures it, and waits until it is done.
    pub fn tell(&self, arguments: &[&str]) {
        let output = self.vsctl().args(arguments).output().unwrap();
        assert!(
            output.status.success(),
            "{arguments:?}: {output:?}\n{}",
            self.log()
        );
    }

    /// A learning bridge with a port to each host.
    pub fn bridge(&self, hosts: &Hosts) {
        self.tell(&words_of(
            "add-br br0 -- set bridge br0 datapath_type=netdev",
        ));
        for n in [1, 2] {
            self.add_port(&format!("p{n}"), n, "dpdk", &af_packet(n, hosts));
        }
    }

    /// Adds a port with this number in the bridge.
    pub fn add_port(&self, name: &str, number: u8, kind: &str, option: &str) {
        let (kind, number) = (format!("type={kind}"), format!("ofport_request={number}"));
        let add = ["add-port", "br0", name, "--", "set", "Interface", name];
        self.tell(&[&add[..], &[&kind, &number, option]].concat());
    }

    /// Runs `ovs-ofctl` with br0; returns its output.
    pub fn ofctl(&self, verb: &str, rest: &[&str]) -> String {
        let mut command = self.command("usr/bin/ovs-ofctl");
        command.args([verb, &format!("unix:{}", self.path("br0.mgmt"))]);
        run(command.args(rest))
    }

    /// Stops it as its own script does; returns its log.
    pub fn exit(mut self) -> String {
        let log = self.log();
        let mut exit = self.command("usr/bin/ovs-appctl");
        run(exit.args(["-t", &self.path("switch.ctl"), "exit"]));
        let mut switch = self.switch.take().unwrap();
        let ended = switch.child.wait().unwrap();
        drop(self.database.take());
        assert!(ended.success(), "{log}");
        log
    }
}

/// The options of a port to a host.
pub fn af_packet(n: u8, hosts: &Hosts) -> String {
    let interface = hosts.name(n);
    format!("options:dpdk-devargs=net_af_packet{n},iface={interface}")
}

fn words_of(command: &str) -> Vec<&str> {
    command.split_whitespace().collect()
}

pub fn ping_until_answered(hosts: &Hosts, ovs: &OpenVSwitch) {
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

/// Sends TCP from host 1 to host 2 for three seconds; returns the bytes sent.
pub fn transfer(hosts: &Hosts, ovs: &OpenVSwitch) -> u64 {
    let mut server = hosts.inside(2, "iperf3 --server --one-off");
    let mut server = Process::start(server.stdout(Stdio::null())).unwrap();
    let client = "iperf3 --client 10.98.0.2 --time 3 --json --connect-timeout 5000";
    let began = Instant::now();
    loop {
        let output = hosts.inside(1, client).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        if let Some(sent) = report["end"]["sum_sent"]["bytes"].as_u64() {
            return sent;
        }
        // The server may not listen yet; iperf3 reports that, but may still exit successfully.
        assert!(
            began.elapsed() < PATIENCE && server.child.try_wait().unwrap().is_none(),
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            ovs.log()
        );
    }
}
