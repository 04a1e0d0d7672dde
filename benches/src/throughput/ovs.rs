//! Open vSwitch with DPDK, in a database and a folder of its own: what the machine may run of it
//! already is not touched.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::bench::{Bench, Input};
use super::plugin::{Measured, Plugin};
use super::process::{Owned, PATIENCE, output, until, wait};
use super::vernierd::Extent;

/// Memory for packets in MiB. Open vSwitch takes a pool of 262,144 buffers if that fits, whatever
/// its ports need, else half of it, and so on.
pub const MEMORY_MIB: u64 = 1_024;

/// Time for its caches to settle.
const SETTLING: Duration = Duration::from_secs(1);

/// Seconds in which it has to carry out a command.
const CONFIGURED_S: u64 = 20;

/// How it is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenVSwitch {
    /// When it is given commands.
    pub rules: Rules,
    /// What the plugin measures in it, where it is loaded.
    pub plugin: Option<Extent>,
}

/// When it is configured so that all that enters one port leaves by the other, by two rules on `in_port`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// As an operator types it: a bridge, ports, then rules in the place of the one that is there.
    /// Until then it is a learning bridge, whose cached entries, one for each pair of addresses, go
    /// on being used: they do the same as the rules.
    AfterPorts,
    /// Before the ports: its cache then never holds anything but two entries, and it takes its
    /// fastest way (simple match).
    BeforePorts,
}

/// Where its programs are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OvsPrograms {
    root: PathBuf,
}

impl OvsPrograms {
    /// Looks below `root`, which is `/` where the package is installed, and the folder it was
    /// unpacked into elsewhere.
    ///
    /// # Errors
    /// What is missing and how to get it.
    pub fn find(root: &Path) -> Result<Self, String> {
        let found = Self {
            root: root.to_owned(),
        };
        let needed = ["usr/bin/ovsdb-tool", "usr/bin/ovs-vsctl", SCHEMA, VSWITCHD];
        match needed.iter().find(|file| !root.join(file).exists()) {
            None => Ok(found),
            Some(_) => Err(
                "Open vSwitch with DPDK is not here; make bench unpacks it, and so does \
                 `apt-get install openvswitch-switch-dpdk`, which starts its service"
                    .to_owned(),
            ),
        }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.root.join(file)
    }

    /// Packets a second that it forwards, set up as `ovs` says.
    ///
    /// # Errors
    /// When it cannot be started, fails, says nothing for a minute, the plugin measures too little,
    /// or the user interrupts.
    pub fn rate_pps(&self, bench: &Bench, input: &Input, ovs: OpenVSwitch) -> Result<f64> {
        let OpenVSwitch { rules, plugin } = ovs;
        let install = |extent| Plugin::install(bench, extent, input.flows);
        let plugin = plugin.map(install).transpose()?;
        let plugin = plugin.as_ref();
        let folder = tempfile::tempdir_in(&bench.folder).context("cannot make a folder")?;
        let mut ovs = Running::start(self, folder.path(), bench, plugin)?;
        ovs.forward(input, rules)?;
        until(PATIENCE, &bench.stop, "it forwarded nothing", || {
            Ok((ovs.sent()? > 0).then_some(()))
        })?;
        wait(SETTLING + bench.warm_up, &bench.stop)?;
        let measured_before = ovs.epoch_end(plugin, bench)?;
        let (from, began) = (ovs.sent()?, Instant::now());
        wait(bench.measured, &bench.stop)?;
        let measured = ovs.epoch_end(plugin, bench)?;
        let (to, elapsed) = (ovs.sent()?, began.elapsed());
        ovs.end(bench)?;
        let rate_pps = (to - from) as f64 / elapsed.as_secs_f64();
        if let Some((before, measured)) = measured_before.zip(measured) {
            measured.check(&before, rate_pps)?;
        }
        Ok(rate_pps)
    }
}

const SCHEMA: &str = "usr/share/openvswitch/vswitch.ovsschema";
const VSWITCHD: &str = "usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";

/// A database server and a switch. The switch is dropped first.
struct Running<'p> {
    programs: &'p OvsPrograms,
    folder: &'p Path,
    switch: Owned,
    database: Owned,
}

impl<'p> Running<'p> {
    fn start(
        programs: &'p OvsPrograms,
        folder: &'p Path,
        bench: &Bench,
        plugin: Option<&Plugin>,
    ) -> Result<Self> {
        let place = Place { programs, folder };
        let database = folder.join("conf.db");
        let mut create = place.command("usr/bin/ovsdb-tool");
        output(
            create
                .arg("create")
                .arg(&database)
                .arg(programs.path(SCHEMA)),
        )?;
        let mut server = place.command("usr/sbin/ovsdb-server");
        server
            .arg(&database)
            .arg(format!("--remote=punix:{}", place.socket("db.sock")))
            .arg(format!("--unixctl={}", place.socket("database.ctl")));
        let database = Owned::start(place.quiet(&mut server, "database.log")?)?;
        until(PATIENCE, &bench.stop, "its database did not start", || {
            Ok(folder.join("db.sock").exists().then_some(()))
        })?;

        let [worker, other] = bench.cpus.map(|cpu| format!("{:#x}", 1_u128 << cpu));
        let memory = format!("other_config:dpdk-socket-mem={MEMORY_MIB}");
        let eal = "other_config:dpdk-extra=--no-pci --no-telemetry --file-prefix=vernier-bench";
        let loaded = plugin.map_or_else(Vec::new, |plugin| plugin.arguments().to_vec());
        let eal = [&[eal.to_owned()], &*loaded].concat().join(" ");
        output(place.vsctl().args(["--no-wait", "init"]))?;
        output(
            place
                .vsctl()
                .args(["--no-wait", "set", "Open_vSwitch", "."])
                .args([
                    "other_config:dpdk-init=true",
                    &format!("other_config:pmd-cpu-mask={worker}"),
                    &format!("other_config:dpdk-lcore-mask={other}"),
                    &memory,
                    &eal,
                ]),
        )?;
        let mut switch = place.command(VSWITCHD);
        switch
            .arg(format!("unix:{}", place.socket("db.sock")))
            .arg(format!("--unixctl={}", place.socket("switch.ctl")));
        if let Some(plugin) = plugin {
            plugin.configure(&mut switch);
        }
        let mut switch = Owned::start(place.quiet(&mut switch, "switch.log")?)?;
        until(PATIENCE, &bench.stop, "it did not start", || {
            switch.is_alive().with_context(|| place.log())?;
            Ok(folder.join("switch.ctl").exists().then_some(()))
        })?;
        Ok(Self {
            programs,
            folder,
            switch,
            database,
        })
    }

    fn place(&self) -> Place<'p> {
        Place {
            programs: self.programs,
            folder: self.folder,
        }
    }

    /// Makes a bridge of two ports.
    fn forward(&mut self, input: &Input, rules: Rules) -> Result<()> {
        let mut bridge = self.place().vsctl();
        bridge.args(["add-br", "br0", "--", "set", "bridge", "br0"]);
        bridge.arg("datapath_type=netdev");
        match rules {
            Rules::AfterPorts => {
                output(&mut bridge)?;
                self.add_ports(input)?;
                self.add_rules()?;
            }
            Rules::BeforePorts => {
                // A bridge that is not secure learns until it has rules.
                output(bridge.arg("fail_mode=secure"))?;
                self.add_rules()?;
                self.add_ports(input)?;
            }
        }
        self.switch.is_alive()
    }

    fn add_rules(&self) -> Result<()> {
        let place = self.place();
        output(&mut place.ofctl("del-flows"))?;
        for rule in ["in_port=1,actions=output:2", "in_port=2,actions=output:1"] {
            output(place.ofctl("add-flow").arg(rule))?;
        }
        Ok(())
    }

    fn add_ports(&self, input: &Input) -> Result<()> {
        let place = self.place();
        let mut ports = place.vsctl();
        for (number, device) in (1..).zip(input.devices()) {
            let name = format!("p{number}");
            ports
                .args(["--", "add-port", "br0", &name])
                .args(["--", "set", "Interface", &name, "type=dpdk"])
                .arg(format!("ofport_request={number}"))
                .arg(format!("options:dpdk-devargs={device}"));
        }
        output(&mut ports).with_context(|| place.log())?;
        Ok(())
    }

    /// Packets that both ports have sent since they were added.
    fn sent(&self) -> Result<u64> {
        let said = output(&mut self.place().ofctl("dump-ports"))?;
        let sent = sent_packets(&said);
        ensure!(sent.len() == 2, "it said nothing of two ports:\n{said}");
        Ok(sent.iter().sum())
    }

    /// What the plugin, if there is one, has measured when the present epoch ends.
    fn epoch_end(&mut self, plugin: Option<&Plugin>, bench: &Bench) -> Result<Option<Measured>> {
        let measured = plugin.map(|plugin| plugin.epoch_end(bench, &mut self.switch));
        measured.transpose().with_context(|| self.place().log())
    }

    fn end(mut self, bench: &Bench) -> Result<()> {
        for (control, process) in [
            ("switch.ctl", &mut self.switch),
            ("database.ctl", &mut self.database),
        ] {
            let place = Place {
                programs: self.programs,
                folder: self.folder,
            };
            let mut exit = place.command("usr/bin/ovs-appctl");
            output(exit.args(["-t", &place.socket(control), "exit"]))?;
            process.wait(PATIENCE, &bench.stop)?;
        }
        Ok(())
    }
}

/// Where it lives for one run.
#[derive(Debug, Clone, Copy)]
struct Place<'p> {
    programs: &'p OvsPrograms,
    folder: &'p Path,
}

impl Place<'_> {
    /// A program of it that leaves nothing outside of the folder.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.path(program));
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
            command.env(variable, self.folder);
        }
        command.env(
            "OVS_PKGDATADIR",
            self.programs.path("usr/share/openvswitch"),
        );
        command
    }

    /// What the switch has said.
    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("switch.log")).unwrap_or_default()
    }

    fn socket(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn vsctl(&self) -> Command {
        let mut command = self.command("usr/bin/ovs-vsctl");
        command
            .arg(format!("--db=unix:{}", self.socket("db.sock")))
            .arg(format!("--timeout={CONFIGURED_S}"));
        command
    }

    fn ofctl(&self, verb: &str) -> Command {
        let mut command = self.command("usr/bin/ovs-ofctl");
        command.args([verb, &format!("unix:{}", self.socket("br0.mgmt"))]);
        command
    }

    /// Puts its words into a file.
    fn quiet<'c>(&self, command: &'c mut Command, log: &str) -> Result<&'c mut Command> {
        let log = File::create(self.folder.join(log)).context("cannot write a log")?;
        let copy = log.try_clone().context("cannot write a log")?;
        Ok(command.stdin(Stdio::null()).stdout(log).stderr(copy))
    }
}

/// Packets sent by each numbered port, from `ovs-ofctl dump-ports`:
///
/// ```text
///   port  1: rx pkts=2032800, bytes=121968000, drop=0, errs=0, frame=?, over=?, crc=?
///            tx pkts=1999881, bytes=119992860, drop=0, errs=0, coll=?
/// ```
fn sent_packets(said: &str) -> Vec<u64> {
    let mut is_numbered = false;
    let mut sent = Vec::new();
    for line in said.lines().map(str::trim_start) {
        if let Some(port) = line.strip_prefix("port ") {
            is_numbered = port.trim_start().starts_with(|c: char| c.is_ascii_digit());
        } else if is_numbered && let Some(figures) = line.strip_prefix("tx pkts=") {
            sent.extend(
                figures
                    .split(',')
                    .next()
                    .and_then(|n| n.parse::<u64>().ok()),
            );
        }
    }
    sent
}

#[cfg(test)]
mod tests {
    use super::super::hugepages::Hugepages;
    use super::*;

    #[test]
    fn it_forwards_and_tells_its_rate() {
        let folder = tempfile::tempdir().unwrap();
        let (bench, input) = Bench::for_tests(folder.path());
        let bench = Bench {
            hugepages: Hugepages::are_free(MEMORY_MIB),
            ..bench
        };
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let ovs = match &bench.ovs {
            Ok(ovs) if cpus > 1 && bench.hugepages => ovs,
            Ok(_) => return eprintln!("SKIPPED: Open vSwitch takes two CPUs and hugepages"),
            Err(missing) => return eprintln!("SKIPPED: {missing}"),
        };
        for rules in [Rules::AfterPorts, Rules::BeforePorts] {
            let told = OpenVSwitch {
                rules,
                plugin: None,
            };
            let rate_pps = ovs.rate_pps(&bench, &input, told).unwrap();
            assert!(rate_pps > 10_000.0, "{rate_pps}");
        }
    }

    #[test]
    fn what_is_missing_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let missing = OvsPrograms::find(folder.path()).unwrap_err();
        assert!(missing.contains("openvswitch-switch-dpdk"), "{missing}");
    }

    #[test]
    fn ports_are_told_from_the_local_one() {
        let said = "OFPST_PORT reply (xid=0x2): 3 ports\n  \
            port LOCAL: rx pkts=0, bytes=0, drop=0, errs=0, frame=0, over=0, crc=0\n           \
            tx pkts=7, bytes=0, drop=3327, errs=0, coll=0\n  \
            port  1: rx pkts=5, bytes=300, drop=0, errs=0, frame=?, over=?, crc=?\n           \
            tx pkts=1999881, bytes=119992860, drop=0, errs=0, coll=?\n  \
            port  2: rx pkts=6, bytes=360, drop=0, errs=0, frame=?, over=?, crc=?\n           \
            tx pkts=2, bytes=120, drop=0, errs=0, coll=?\n";
        assert_eq!(sent_packets(said), [1_999_881, 2]);
    }
}
