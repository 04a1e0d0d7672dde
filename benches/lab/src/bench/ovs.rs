//! Open vSwitch with DPDK, with its own database and folder, independent of an Open vSwitch that the machine may
//! already run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use testkit::process::{PATIENCE, Process, output, until, wait};

use crate::bench::load::Load;
use crate::bench::plugin::Plugin;
use crate::bench::setting::Bench;

/// Memory for packets in MiB. Open vSwitch allocates a pool of 262,144 buffers if that fits, whatever its ports need,
/// otherwise half of it, and so on.
pub const MEMORY_MIB: u64 = 1_024;

/// Memory of a virtual machine in MiB.
pub const MACHINE_MIB: u64 = 256;

/// Time for its caches to settle.
const SETTLING: Duration = Duration::from_secs(1);

/// Time limit in seconds for applying a configuration.
const CONFIGURED_S: u64 = 20;

/// How a bridge of two ports is set up with two `in_port` rules, which forward packets from each port to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setup {
    /// As by an operator: a bridge, ports, then rules that replace the existing one. Until then it is a learning
    /// bridge, whose cached entries, one for each pair of addresses, stay in use, because they have the same effect as
    /// the rules.
    RulesAfterPorts,
    /// Rules before ports: its cache then never has more than two entries, and it takes its fastest path (simple
    /// match).
    RulesBeforePorts,
    /// As by an operator, with a second port that leads to a virtual machine that returns every packet: testpmd on
    /// virtio-user, on the CPU of the other threads.
    Machine,
}

/// Looks for its programs below `root`: `/` if the package is installed, otherwise the folder into which it was
/// unpacked.
pub fn find(root: &Path) -> Result<PathBuf, String> {
    let mut needed = ["usr/bin/ovsdb-tool", "usr/bin/ovs-vsctl", SCHEMA, VSWITCHD].into_iter();
    if needed.all(|file| root.join(file).exists()) {
        return Ok(root.to_owned());
    }
    Err(
        "Open vSwitch with DPDK is not here; make bench unpacks it, and so does \
         `apt-get install openvswitch-switch-dpdk`, which starts its service"
            .to_owned(),
    )
}

/// Measures the packets per second that it forwards; its programs are below `root`.
pub fn rate_pps(
    setup: Setup,
    bench: &Bench,
    load: Load,
    root: &Path,
    plugin: Option<&Plugin>,
) -> Result<f64> {
    let folder = tempfile::tempdir_in(&bench.folder).context("cannot make a folder")?;
    let folder = folder.path();
    let mut ovs = Running::start(Instance { root, folder }, bench, plugin)?;
    let mut machine = match setup {
        Setup::Machine => Some(Machine::start(bench, folder)?),
        _ => None,
    };
    ovs.forward(bench.devices(load)?, setup, machine.as_ref())?;
    until(PATIENCE, "it forwarded nothing", || {
        if let Some(machine) = &mut machine {
            machine.testpmd.check_alive()?;
        }
        Ok((ovs.sent()? > 0).then_some(()))
    })?;
    wait(SETTLING + bench.warm_up)?;
    let measured_before = Plugin::epoch_end(plugin, &mut ovs.switch)?;
    let (from, began) = (ovs.sent()?, Instant::now());
    wait(bench.measured)?;
    let measured = Plugin::epoch_end(plugin, &mut ovs.switch)?;
    let (to, elapsed) = (ovs.sent()?, began.elapsed());
    ovs.end()?;
    drop(machine);
    let rate_pps = (to - from) as f64 / elapsed.as_secs_f64();
    if let Some((before, measured)) = measured_before.zip(measured) {
        measured.check(&before, rate_pps)?;
    }
    Ok(rate_pps)
}

const SCHEMA: &str = "usr/share/openvswitch/vswitch.ovsschema";
const VSWITCHD: &str = "usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk";

/// A virtual machine, as far as a switch can tell; killed when this is dropped.
struct Machine {
    socket: PathBuf,
    testpmd: Process,
}

impl Machine {
    /// Starts one that waits for a switch at its socket.
    fn start(bench: &Bench, folder: &Path) -> Result<Self> {
        let socket = folder.join("machine.sock");
        let cpu = bench.cpus[1];
        let mut command = Command::new("dpdk-testpmd");
        command
            .arg(format!("--lcores=0@{cpu},1@{cpu}"))
            .args(["-m".to_owned(), MACHINE_MIB.to_string()])
            // A switch can map only memory in files.
            .args(["--in-memory", "--single-file-segments"])
            .args(["--no-pci", "--no-telemetry"])
            .arg(format!(
                "--vdev=net_virtio_user0,path={},server=1,queue_size=1024",
                socket.display()
            ))
            .args(["--", "--auto-start", "--forward-mode=io"])
            .args(["--port-topology=loop", "--total-num-mbufs=16384"])
            // Otherwise it ends with its input.
            .arg("--stats-period=1");
        let mut testpmd = Process::start_quiet(&mut command, folder.join("machine.log"))?;
        testpmd.until("it did not start", |_| Ok(socket.exists().then_some(())))?;
        Ok(Self { socket, testpmd })
    }
}

/// A database server and a switch. The switch is dropped first.
struct Running<'p> {
    instance: Instance<'p>,
    switch: Process,
    database: Process,
}

impl<'p> Running<'p> {
    fn start(instance: Instance<'p>, bench: &Bench, plugin: Option<&Plugin>) -> Result<Self> {
        let file = instance.folder.join("conf.db");
        let mut create = instance.command("usr/bin/ovsdb-tool");
        output(
            create
                .arg("create")
                .args([&file, &instance.root.join(SCHEMA)]),
        )?;
        let mut server = instance.command("usr/sbin/ovsdb-server");
        server
            .arg(&file)
            .arg(format!("--remote=p{}", instance.database()));
        let database = instance.start(&mut server, "database")?;

        let [worker, other] = bench.cpus.map(|cpu| format!("{:#x}", 1_u128 << cpu));
        let eal = "--no-pci --no-telemetry --file-prefix=vernier-bench".to_owned();
        let loaded = plugin.map_or_else(Vec::new, |plugin| plugin.arguments().to_vec());
        let eal = [&[eal], &*loaded].concat().join(" ");
        output(instance.vsctl().args(["--no-wait", "init"]))?;
        let mut set = instance.vsctl();
        set.args(["--no-wait", "set", "Open_vSwitch", "."]);
        for setting in [
            "dpdk-init=true",
            &format!("pmd-cpu-mask={worker}"),
            &format!("dpdk-lcore-mask={other}"),
            &format!("dpdk-socket-mem={MEMORY_MIB}"),
            &format!("dpdk-extra={eal}"),
        ] {
            set.arg(format!("other_config:{setting}"));
        }
        output(&mut set)?;
        let mut switch = instance.command(VSWITCHD);
        switch.arg(instance.database());
        if let Some(plugin) = plugin {
            plugin.configure(&mut switch);
            plugin.preload(&mut switch);
        }
        Ok(Self {
            switch: instance.start(&mut switch, "switch")?,
            instance,
            database,
        })
    }

    /// Makes a bridge of two ports.
    fn forward(
        &mut self,
        devices: [String; 2],
        setup: Setup,
        machine: Option<&Machine>,
    ) -> Result<()> {
        let mut bridge = self.instance.vsctl();
        bridge.args(["add-br", "br0", "--", "set", "bridge", "br0"]);
        bridge.arg("datapath_type=netdev");
        if setup == Setup::RulesBeforePorts {
            // A bridge that is not secure learns until it has rules.
            output(bridge.arg("fail_mode=secure"))?;
            self.add_rules()?;
            self.add_ports(devices, machine)?;
        } else {
            output(&mut bridge)?;
            self.add_ports(devices, machine)?;
            self.add_rules()?;
        }
        self.switch.check_alive()
    }

    fn add_rules(&self) -> Result<()> {
        output(&mut self.instance.ofctl("del-flows"))?;
        for rule in ["in_port=1,actions=output:2", "in_port=2,actions=output:1"] {
            output(self.instance.ofctl("add-flow").arg(rule))?;
        }
        Ok(())
    }

    fn add_ports(&self, devices: [String; 2], machine: Option<&Machine>) -> Result<()> {
        let mut ports = devices.map(|device| ("dpdk", format!("dpdk-devargs={device}")));
        if let Some(Machine { socket, .. }) = machine {
            let path = format!("vhost-server-path={}", socket.display());
            ports[1] = ("dpdkvhostuserclient", path);
        }
        let mut vsctl = self.instance.vsctl();
        for (number, (kind, option)) in (1..).zip(ports) {
            let name = format!("p{number}");
            vsctl
                .args(["--", "add-port", "br0", &name])
                .args(["--", "set", "Interface", &name])
                .arg(format!("type={kind}"))
                .arg(format!("ofport_request={number}"))
                .arg(format!("options:{option}"));
        }
        output(&mut vsctl).with_context(|| self.switch.log())?;
        Ok(())
    }

    /// Packets that both ports have sent since they were added.
    fn sent(&self) -> Result<u64> {
        let said = output(&mut self.instance.ofctl("dump-ports"))?;
        let sent = sent_packets(&said);
        ensure!(sent.len() == 2, "it did not report two ports:\n{said}");
        Ok(sent.iter().sum())
    }

    fn end(mut self) -> Result<()> {
        let processes = [&mut self.switch, &mut self.database];
        for (name, process) in ["switch", "database"].into_iter().zip(processes) {
            let control = self.instance.socket(&format!("{name}.ctl"));
            let mut exit = self.instance.command("usr/bin/ovs-appctl");
            output(exit.args(["-t", &control, "exit"]))?;
            process.wait()?;
        }
        Ok(())
    }
}

/// Where the programs are, and the folder of one run.
#[derive(Debug, Clone, Copy)]
struct Instance<'p> {
    root: &'p Path,
    folder: &'p Path,
}

impl Instance<'_> {
    /// One of its programs, which writes nothing outside the folder.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.root.join(program));
        for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
            command.env(variable, self.folder);
        }
        command.env("OVS_PKGDATADIR", self.root.join("usr/share/openvswitch"));
        command
    }

    /// The address of its database.
    fn database(&self) -> String {
        format!("unix:{}", self.socket("db.sock"))
    }

    fn socket(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    fn vsctl(&self) -> Command {
        let mut command = self.command("usr/bin/ovs-vsctl");
        command.arg(format!("--db={}", self.database()));
        command.arg(format!("--timeout={CONFIGURED_S}"));
        command
    }

    fn ofctl(&self, verb: &str) -> Command {
        let mut command = self.command("usr/bin/ovs-ofctl");
        command.args([verb, &format!("unix:{}", self.socket("br0.mgmt"))]);
        command
    }

    /// Starts a daemon with its log and its control socket, and waits for the latter.
    fn start(&self, command: &mut Command, name: &str) -> Result<Process> {
        let control = self.folder.join(format!("{name}.ctl"));
        command.arg(format!("--unixctl={}", control.display()));
        let log = self.folder.join(format!("{name}.log"));
        let mut process = Process::start_quiet(command, log)?;
        process.until("it did not start", |_| Ok(control.exists().then_some(())))?;
        Ok(process)
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
            // A port of a machine that does not exist yet has `?`.
            let packets = figures.split(',').next();
            sent.push(packets.map_or(0, |packets| packets.parse().unwrap_or(0)));
        }
    }
    sent
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::hugepages::missing_pages;

    use crate::bench::load::COUNTED;

    #[test]
    fn it_forwards_and_reports_its_rate() {
        let folder = tempfile::tempdir().unwrap();
        let bench = Bench::for_tests(folder.path());
        let bench = Bench {
            hugepages: missing_pages(MEMORY_MIB).is_ok_and(|missing| missing == 0),
            ..bench
        };
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let ovs = match &bench.ovs {
            Ok(ovs) if cpus > 1 && bench.hugepages => ovs,
            Ok(_) => return eprintln!("SKIPPED: Open vSwitch needs two CPUs and hugepages"),
            Err(missing) => return eprintln!("SKIPPED: {missing}"),
        };
        for setup in [Setup::RulesAfterPorts, Setup::RulesBeforePorts] {
            let rate_pps = rate_pps(setup, &bench, COUNTED, ovs, None).unwrap();
            assert!(rate_pps > 10_000.0, "{rate_pps}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let missing = find(folder.path()).unwrap_err();
        assert!(missing.contains("openvswitch-switch-dpdk"), "{missing}");
    }

    #[test]
    fn the_local_port_is_left_out() {
        let said = "OFPST_PORT reply (xid=0x2): 3 ports\n  \
            port LOCAL: rx pkts=0, bytes=0, drop=0, errs=0, frame=0, over=0, crc=0\n           \
            tx pkts=7, bytes=0, drop=3327, errs=0, coll=0\n  \
            port  1: rx pkts=5, bytes=300, drop=0, errs=0, frame=?, over=?, crc=?\n           \
            tx pkts=1999881, bytes=119992860, drop=0, errs=0, coll=?\n  \
            port  2: rx pkts=6, bytes=360, drop=0, errs=0, frame=?, over=?, crc=?\n           \
            tx pkts=?, bytes=?, drop=?, errs=?, coll=?\n";
        assert_eq!(sent_packets(said), [1_999_881, 0]);
    }
}
