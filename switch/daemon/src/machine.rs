//! Checks that this machine has what a configuration names, according to the kernel and without EAL: devices and
//! their drivers, interfaces, captures, CPUs, hugepages, memory, capabilities.
//!
//! Both a start and `--check` begin with this. A configuration that passes may still fail in a driver; one that does
//! not pass cannot start here.

use std::fs;
use std::path::{Path, PathBuf};

use contract::config::device::{arguments, pci_address};
use contract::config::document::{Check, Invalid, KeyPath, all, ensure, suggestion};
use contract::config::{Config, Device, Port, memory};
use contract::file;
use rustix::thread::{CapabilitySet, capabilities};
use switch::wiring::{available_mib, memif};

/// Kernel drivers with which DPDK can use a PCI device: those that hand it over, and those that share it.
const PCI_DRIVERS: [&str; 6] = [
    "vfio-pci",
    "igb_uio",
    "uio_pci_generic",
    "mlx4_core",
    "mlx5_core",
    "mana",
];

/// Virtual devices of DPDK 22.11, by the start of their names.
const VIRTUAL: [&str; 16] = [
    "net_af_packet",
    "net_af_xdp",
    "net_bonding",
    "net_failsafe",
    "net_kni",
    "net_memif",
    "net_null",
    "net_pcap",
    "net_ring",
    "net_softnic",
    "net_tap",
    "net_tun",
    "net_vdev_netvsc",
    "net_vhost",
    "net_virtio_user",
    "virtio_user",
];

/// EAL's long options in DPDK 22.11 (`eal_options.h`); each may be abbreviated.
const EAL_OPTIONS: [&str; 32] = [
    "allow",
    "base-virtaddr",
    "block",
    "create-uio-dev",
    "file-prefix",
    "force-max-simd-bitwidth",
    "huge-dir",
    "huge-unlink",
    "huge-worker-stack",
    "in-memory",
    "iova-mode",
    "lcores",
    "legacy-mem",
    "log-level",
    "main-lcore",
    "match-allocations",
    "mbuf-pool-ops-name",
    "no-hpet",
    "no-huge",
    "no-pci",
    "no-shconf",
    "no-telemetry",
    "proc-type",
    "single-file-segments",
    "socket-limit",
    "socket-mem",
    "syslog",
    "telemetry",
    "vdev",
    "vfio-intr",
    "vfio-vf-token",
    "vmware-tsc-map",
];

mod interfaces;

use interfaces::{Channels, ReadChannels};

/// The machine.
#[derive(Debug)]
pub struct Machine {
    /// The root of `/sys` and `/proc`.
    root: PathBuf,
    /// Capabilities of this process.
    capabilities: CapabilitySet,
    /// CPUs that it may use.
    cpus: Vec<usize>,
    /// How the queues of kernel interfaces are read.
    channels: ReadChannels,
}

impl Machine {
    /// The machine on which this runs.
    pub fn here() -> Self {
        let sets = capabilities(None);
        Self {
            root: PathBuf::from("/"),
            // If the kernel does not report them, devices will fail.
            capabilities: sets.map_or(CapabilitySet::all(), |sets| sets.effective),
            cpus: dpdk_bindings::allowed_cpus(),
            channels: Channels::of,
        }
    }

    /// Checks the devices, CPUs and options that `config` names.
    ///
    /// # Errors
    /// Everything that is missing, and everything that the drivers of interfaces will refuse.
    pub fn check_named(&self, config: &Config) -> Check {
        let root = KeyPath::default();
        let ports = config.ports.iter().enumerate();
        let ports = all(ports.map(|(index, port)| {
            let path = root.key("ports").index(index);
            let device = self.device(&path.key("device"), port, config);
            // Nothing more can be said about a missing device.
            device.and_then(|()| interfaces::check(self.channels, &path, index, config))
        }));
        let workers = config.workers.iter().enumerate();
        let workers = all(workers.filter_map(|(index, worker)| {
            let path = root.key("workers").index(index).key("core");
            let core = worker.core?;
            let expected = format!("a CPU that this process may use ({})", words(&self.cpus));
            Some(ensure(self.cpus.contains(&core), path, expected, core))
        }));
        let eal = config.dpdk.eal_args.iter().enumerate();
        let eal = all(eal.map(|(index, argument)| {
            eal_argument(&root.key("dpdk").key("eal_args").index(index), argument)
        }));
        all([ports, workers, eal])
    }

    fn device(&self, path: &KeyPath, port: &Port, config: &Config) -> Check {
        let Device::Dpdk(device) = &port.device else {
            return Ok(());
        };
        if let Some(address) = pci_address(device) {
            return self.pci(path, &address);
        }
        let name = device.split(',').next().unwrap_or_default();
        let has_own_drivers = config.dpdk.eal_args.iter().any(|arg| arg.starts_with("-d"));
        if name.starts_with("net_") && !has_own_drivers {
            let is_known = VIRTUAL.iter().any(|driver| name.starts_with(driver));
            let expected = format!("a virtual device of DPDK's ({})", VIRTUAL.join(", "));
            let got = format!("{name:?}{}", suggestion(name, VIRTUAL));
            ensure(is_known, path.clone(), expected, got)?;
        }
        self.virtual_device(path, name, device)
    }

    fn pci(&self, path: &KeyPath, address: &str) -> Check {
        let devices = self.root.join("sys/bus/pci/devices");
        let is_network = |name: &String| {
            // Base class 02 of PCI's.
            let class = fs::read_to_string(devices.join(name).join("class"));
            class.is_ok_and(|class| class.starts_with("0x02"))
        };
        let present: Vec<String> = names_in(&devices).into_iter().filter(is_network).collect();
        let expected = match &present[..] {
            [] => "a PCI device of this machine, which has none for networks".to_owned(),
            some => format!("a PCI device of this machine ({})", some.join(", ")),
        };
        let is_there = devices.join(address).exists();
        ensure(is_there, path.clone(), expected, address)?;
        let driver = fs::read_link(devices.join(address).join("driver"));
        let driver = driver.ok().and_then(|driver| {
            let name = driver.file_name()?;
            Some(name.to_string_lossy().into_owned())
        });
        let driver = driver.as_deref().unwrap_or("none");
        let expected =
            format!("{address} bound to vfio-pci (`dpdk-devbind.py -b vfio-pci {address}`)");
        let is_right = PCI_DRIVERS.contains(&driver);
        ensure(is_right, path.clone(), expected, format!("driver {driver}"))
    }

    /// Checks interfaces, files and capabilities that virtual devices need.
    fn virtual_device(&self, path: &KeyPath, name: &str, device: &str) -> Check {
        let arguments: Vec<(&str, &str)> = arguments(device).collect();
        let keys: &[&str] = match name {
            // Its `iface` is created.
            name if name.starts_with("net_ta") => &["remote"],
            name if name.starts_with("net_af_") => &["iface"],
            name if name.starts_with("net_pcap") => {
                &["iface", "rx_iface", "rx_iface_in", "tx_iface"]
            }
            _ => &[],
        };
        let interfaces = arguments.iter().filter(|(key, _)| keys.contains(key));
        let interfaces: Vec<&str> = interfaces.map(|(_, interface)| *interface).collect();
        let needs_interface = name.starts_with("net_af_");
        let named = ensure(
            !needs_interface || !interfaces.is_empty(),
            path.clone(),
            format!("{name} with an interface of the kernel's, such as {name},iface=eth1"),
            "none",
        );
        let found = all(interfaces
            .iter()
            .map(|interface| self.interface(path, interface)));
        let captures = arguments.iter().filter(|(key, _)| *key == "rx_pcap");
        let readable = all(captures.map(|(_, capture)| {
            let resources = file::open(Path::new(capture));
            resources.map(drop).map_err(|error| {
                Invalid::said(path.clone(), format!("cannot read {capture}: {error}")).into()
            })
        }));
        let needed = match name {
            name if name.starts_with("net_af_xdp") => {
                CapabilitySet::NET_RAW.union(CapabilitySet::NET_ADMIN)
            }
            name if name.starts_with("net_af_packet") => CapabilitySet::NET_RAW,
            name if name.starts_with("net_pcap") && !interfaces.is_empty() => {
                CapabilitySet::NET_RAW
            }
            name if name.starts_with("net_ta") => CapabilitySet::NET_ADMIN,
            _ => CapabilitySet::empty(),
        };
        let lacked = needed.difference(self.capabilities);
        let lacked: Vec<String> = lacked
            .iter_names()
            .map(|(name, _)| format!("CAP_{name}"))
            .collect();
        let allowed = ensure(
            lacked.is_empty(),
            path.clone(),
            format!(
                "{} for {name}, as root or the unit in examples has it",
                lacked.join(" and ")
            ),
            "a process without",
        );
        let connected = memif::fault(device).map_or(Ok(()), |(expected, got)| {
            ensure(false, path.clone(), expected, got)
        });
        all([named, found, readable, allowed, connected])
    }

    fn interface(&self, path: &KeyPath, interface: &str) -> Check {
        // Of this thread's network namespace; the first two lines are headings.
        let listed = fs::read_to_string(self.root.join("proc/thread-self/net/dev"));
        let listed = listed.unwrap_or_default();
        let present = listed
            .lines()
            .skip(2)
            .filter_map(|line| line.split_once(':'));
        let present: Vec<&str> = present.map(|(name, _)| name.trim()).collect();
        if present.is_empty() {
            return Ok(());
        }
        let expected = format!(
            "an interface of this network namespace ({})",
            present.join(", ")
        );
        let got = format!(
            "{interface:?}{}",
            suggestion(interface, present.iter().copied())
        );
        ensure(present.contains(&interface), path.clone(), expected, got)
    }

    /// Checks that there is memory for `config`: DPDK's, and all other.
    ///
    /// # Errors
    /// Whatever needs too much.
    pub fn check_memory(&self, config: &Config) -> Check {
        let root = KeyPath::default();
        let path = root.key("dpdk").key("memory_mib");
        let (memory_mib, hugepages) = (config.dpdk.memory_mib, config.dpdk.hugepages);
        let packets_mib = memory::packet_bytes(config).div_ceil(1 << 20);
        let holds_packets = ensure(
            packets_mib <= memory_mib as usize,
            path.clone(),
            format!(
                "{packets_mib} at least, for the {} packet buffers of dpdk.mbufs",
                config.dpdk.mbufs
            ),
            memory_mib,
        );
        let free_mib = if hugepages {
            Some(self.free_hugepages_mib())
        } else {
            available_mib(&self.root)
        };
        let there = free_mib.map_or(Ok(()), |free_mib| {
            let expected = if hugepages {
                format!(
                    "at most {free_mib}, the MiB of free hugepages (`sysctl vm.nr_hugepages=N` reserves more)"
                )
            } else {
                format!("at most {free_mib}, the MiB of memory that this machine has free")
            };
            ensure(memory_mib as usize <= free_mib, path, expected, memory_mib)
        });
        let free_mib = available_mib(&self.root);
        let budget = match config.memory_budget_mib {
            Some(_) => Ok(()),
            None => memory::keep_budget(config, free_mib.map(|free| free / 2)),
        };
        all([holds_packets, there, budget])
    }

    fn free_hugepages_mib(&self) -> usize {
        let sizes = self.root.join("sys/kernel/mm/hugepages");
        let free = names_in(&sizes).into_iter().filter_map(|name| {
            let kib: usize = name
                .strip_prefix("hugepages-")?
                .strip_suffix("kB")?
                .parse()
                .ok()?;
            let free = fs::read_to_string(sizes.join(&name).join("free_hugepages")).ok()?;
            Some(free.trim().parse::<usize>().ok()? * kib)
        });
        free.sum::<usize>() / 1024
    }
}

/// What wires cannot measure because this machine's clock is not synchronised, if anything.
pub fn clock_warning(config: &Config) -> Option<&'static str> {
    let clock = config.wire.as_ref()?.clock;
    let is_needed = config.wires().next().is_some() && clock.error_ns.is_none();
    let is_free = || dpdk_bindings::kernel_clock().is_ok_and(|clock| !clock.is_synchronised);
    (is_needed && is_free()).then_some(
        "not synchronised: no wire measures one-way delays before chrony or linuxptp runs, or wire.clock.error_ns vouches for it",
    )
}

/// Checks that a long option exists; EAL checks its value, and short options.
fn eal_argument(path: &KeyPath, argument: &str) -> Check {
    let Some(option) = argument.strip_prefix("--") else {
        return Ok(());
    };
    let name = option.split('=').next().unwrap_or_default();
    let is_known =
        EAL_OPTIONS.iter().any(|known| known.starts_with(name)) || name.starts_with("trace");
    let got = format!("{argument:?}{}", suggestion(name, EAL_OPTIONS));
    ensure(
        is_known,
        path.clone(),
        "an option of EAL's that starts it",
        got,
    )
}

/// Names in a folder, sorted; empty if it cannot be read.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    names
}

fn words(numbers: &[usize]) -> String {
    let words: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A machine with a NIC at the kernel's driver, another at `vfio-pci`, a disk, 100 hugepages and 4 GiB.
    fn machine(root: &Path) -> Machine {
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let devices = "sys/bus/pci/devices";
        for (address, class, driver) in [
            ("0000:01:00.0", "0x020000", "e1000e"),
            ("0000:01:00.1", "0x020000", "vfio-pci"),
            ("0000:02:00.0", "0x010802", "nvme"),
        ] {
            write(&format!("{devices}/{address}/class"), class);
            let link = root.join(devices).join(address).join("driver");
            symlink(format!("/x/drivers/{driver}"), link).unwrap();
        }
        let heading = "Inter-|   Receive\n face |bytes\n";
        write(
            "proc/thread-self/net/dev",
            &format!("{heading}    lo: 0\n  eth1: 7 0\n"),
        );
        write("proc/meminfo", "MemAvailable: 4194304 kB\n");
        write(
            "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages",
            "100\n",
        );
        Machine {
            root: root.to_owned(),
            capabilities: CapabilitySet::empty(),
            cpus: vec![0, 1],
            channels: |_| None,
        }
    }

    fn faults(device: &str, dpdk: &str) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        let text = format!(
            r#"{{ "ports": [{{ "name": "a", "device": "{device}" }}, {{ "name": "b", "device": "sink" }}],
                "forwarding": {{ "mode": "bridge" }}, "dpdk": {dpdk}, "workers": [{{ "core": 1 }}] }}"#
        );
        let config = Config::parse(&text, "").unwrap();
        let machine = machine(root.path());
        let checked = all([machine.check_named(&config), machine.check_memory(&config)]);
        let faults = checked.err().map_or_else(Vec::new, |faults| faults.0);
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn devices_are_there_and_at_a_driver_of_dpdks() {
        for (device, expected) in [
            ("01:00.1", None),
            ("0000:01:00.1,arg=1", None),
            (
                "0000:01:00.0",
                Some(
                    "expected 0000:01:00.0 bound to vfio-pci (`dpdk-devbind.py -b vfio-pci 0000:01:00.0`), got driver e1000e",
                ),
            ),
            (
                "0000:09:00.0",
                Some(
                    "expected a PCI device of this machine (0000:01:00.0, 0000:01:00.1), got 0000:09:00.0",
                ),
            ),
            (
                "net_pcap0,rx_iface=eth2",
                Some(
                    "expected an interface of this network namespace (lo, eth1), got \"eth2\"; did you mean `eth1`?",
                ),
            ),
            (
                "net_af_packet0,iface=eth1",
                Some(
                    "expected CAP_NET_RAW for net_af_packet0, as root or the unit in examples has it, got a process without",
                ),
            ),
            // DPDK treats the blank as part of the name.
            (
                "net_pcap0,rx_iface=eth1 ",
                Some(
                    "expected an interface of this network namespace (lo, eth1), got \"eth1 \"; did you mean `eth1`?",
                ),
            ),
            ("net_memif0,role=client", None),
            (
                "net_memif0,role=server,rsize=20",
                Some("expected rsize=0 to 14, a ring's length as a power of two, got 20"),
            ),
        ] {
            let faults = faults(device, "{}");
            match expected {
                None => assert_eq!(faults, [""; 0], "{device}"),
                Some(expected) => {
                    assert_eq!(faults[0], format!("ports[0].device: {expected}"));
                }
            }
        }
    }

    #[test]
    fn memory_is_there() {
        let huge =
            |mib: u32| format!(r#"{{ "hugepages": true, "memory_mib": {mib}, "mbufs": 20000 }}"#);
        assert_eq!(faults("net_null0", &huge(200)), [""; 0]);
        let more = faults("net_null0", &huge(201));
        assert!(
            more[0].contains("expected at most 200, the MiB of free hugepages"),
            "{more:?}"
        );
        let ordinary = faults("net_null0", r#"{ "memory_mib": 4097 }"#);
        assert!(
            ordinary[0].contains("expected at most 4096"),
            "{ordinary:?}"
        );
    }
}
