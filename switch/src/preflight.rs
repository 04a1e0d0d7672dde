//! Detects settings of this machine that spoil latency, and reports them once at start, with what to do.

use std::fs;
use std::path::Path;
use std::process::Command;

use contract::config::device::argument;
use contract::config::{Config, Device, Port};

/// Offloads that change frames from what they were on the wire, as named by `ethtool -k`.
const SPOILING_OFFLOADS: [&str; 4] = [
    "generic-receive-offload",
    "large-receive-offload",
    "tcp-segmentation-offload",
    "tx-checksumming",
];

/// Checks the machine; returns one sentence for each finding.
pub fn warnings(config: &Config, worker_cpus: &[usize]) -> Vec<String> {
    let system = Path::new("/");
    let mut found = Vec::from_iter(tsc_warning(system));
    found.extend(clock_warning());
    for &cpu in worker_cpus {
        found.extend(cpu_warnings(system, cpu));
    }
    found.extend(config.ports.iter().filter_map(port_warning));
    found
}

/// Checks the device of a port, such as one added while the switch runs.
pub fn port_warning(port: &Port) -> Option<String> {
    match &port.device {
        Device::Dpdk(device) => offload_warning(&port.name, device),
        _ => None,
    }
}

fn read(root: &Path, path: &str) -> Option<String> {
    Some(fs::read_to_string(root.join(path)).ok()?.trim().to_owned())
}

/// CPUs of a kernel list such as `0-3,8`.
fn parse_cpu_list(list: &str) -> Vec<usize> {
    list.split(',')
        .filter_map(|range| {
            let (low, high) = range.split_once('-').unwrap_or((range, range));
            Some(low.trim().parse().ok()?..=high.trim().parse().ok()?)
        })
        .flatten()
        .collect()
}

fn cpu_warnings(root: &Path, cpu: usize) -> Vec<String> {
    let mut found = Vec::new();
    let isolated = read(root, "sys/devices/system/cpu/isolated").unwrap_or_default();
    if !parse_cpu_list(&isolated).contains(&cpu) {
        found.push(format!(
            "CPU {cpu} is not isolated: the kernel may run other work on the worker's core and stall \
             packets for milliseconds; boot with isolcpus={cpu} nohz_full={cpu} rcu_nocbs={cpu}"
        ));
    }
    let siblings = siblings(root, cpu);
    if let Some(sibling) = siblings.iter().find(|&&sibling| sibling != cpu) {
        found.push(format!(
            "CPU {cpu} shares its core with CPU {sibling}: what runs there slows the worker; leave \
             CPU {sibling} idle, or switch SMT off"
        ));
    }
    found
}

/// The CPUs that share a core with `cpu`, including itself, according to the kernel.
pub(crate) fn siblings(root: &Path, cpu: usize) -> Vec<usize> {
    let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    parse_cpu_list(&read(root, &path).unwrap_or_default())
}

/// Warns if the kernel does not trust the time stamp counter, which all delays are based on.
pub fn clock_warning() -> Option<String> {
    clock_warning_in(Path::new("/"))
}

fn clock_warning_in(root: &Path) -> Option<String> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    let source = read(
        root,
        "sys/devices/system/clocksource/clocksource0/current_clocksource",
    )?;
    (source != "tsc").then(|| {
        format!(
            "the kernel's clock source is {source}, not tsc: the time stamp counters of its CPUs may disagree, so that \
             delays between cores are off and some come out as 0 (vernier_backward_packets_total); see dmesg for why \
             the kernel left it (in a virtual machine the host may have to offer it)"
        )
    })
}

fn tsc_warning(root: &Path) -> Option<String> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    let cpuinfo = read(root, "proc/cpuinfo")?;
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"))?;
    let lacks = |flag: &&str| !flags.split_whitespace().any(|present| present == *flag);
    let missing: Vec<_> = ["constant_tsc", "nonstop_tsc"]
        .into_iter()
        .filter(lacks)
        .collect();
    (!missing.is_empty()).then(|| {
        format!(
            "the time stamp counter is not stable (the CPU lacks {}): delays are off whenever the \
             clock rate changes; fix the frequency (cpupower frequency-set -g performance)",
            missing.join(", ")
        )
    })
}

/// The kernel interface behind a `net_af_packet` or `net_af_xdp` device string.
pub(crate) fn kernel_interface(device: &str) -> Option<&str> {
    let is_of_kernel = device.starts_with("net_af_");
    is_of_kernel.then(|| argument(device, "iface"))?
}

fn offload_warning(port: &str, device: &str) -> Option<String> {
    let interface = kernel_interface(device)?;
    let output = Command::new("ethtool")
        .args(["-k", interface])
        .output()
        .ok()?;
    let features = String::from_utf8_lossy(&output.stdout);
    let on = offloads_on(&features);
    (!on.is_empty()).then(|| {
        format!(
            "port {port}: interface {interface} has {} on: its peer's packets may come merged or \
             with unfinished checksums; on both ends: ethtool -K IFACE gro off lro off tso off tx off",
            on.join(", ")
        )
    })
}

fn offloads_on(features: &str) -> Vec<&str> {
    features
        .lines()
        .filter_map(|line| line.trim().split_once(": "))
        .filter(|(name, state)| SPOILING_OFFLOADS.contains(name) && state.starts_with("on"))
        .map(|(name, _)| name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn kernel_lists_are_read() {
        assert_eq!(parse_cpu_list("0-2,5,7-8\n"), [0, 1, 2, 5, 7, 8]);
        assert_eq!(parse_cpu_list(""), [] as [usize; 0]);
        assert_eq!(parse_cpu_list("x,3-y"), [] as [usize; 0]);
    }

    #[test]
    fn a_shared_core_is_named_and_an_isolated_one_is_not() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "sys/devices/system/cpu/isolated", "2-3\n");
        let siblings = "sys/devices/system/cpu/cpu2/topology/thread_siblings_list";
        write(root.path(), siblings, "2\n");
        assert_eq!(cpu_warnings(root.path(), 2), [] as [&str; 0]);
        write(root.path(), siblings, "2,6\n");
        let found = cpu_warnings(root.path(), 2);
        assert!(found.len() == 1 && found[0].contains("CPU 6"), "{found:?}");
        let found = cpu_warnings(root.path(), 1);
        assert!(
            found.len() == 1 && found[0].contains("isolcpus=1"),
            "{found:?}"
        );
    }

    #[test]
    fn an_unstable_counter_is_named() {
        let root = tempfile::tempdir().unwrap();
        write(
            root.path(),
            "proc/cpuinfo",
            "processor: 0\nflags\t\t: fpu tsc constant_tsc\n",
        );
        let found = tsc_warning(root.path());
        assert_eq!(found.is_some(), cfg!(target_arch = "x86_64"));
        if let Some(found) = found {
            assert!(
                found.contains("nonstop_tsc") && !found.contains("constant_tsc"),
                "{found}"
            );
        }
        write(
            root.path(),
            "proc/cpuinfo",
            "flags : constant_tsc nonstop_tsc\n",
        );
        assert_eq!(tsc_warning(root.path()), None);
    }

    #[test]
    fn a_clock_source_other_than_the_counter_is_named() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(
            clock_warning_in(root.path()),
            None,
            "the kernel does not say"
        );
        let path = "sys/devices/system/clocksource/clocksource0/current_clocksource";
        write(root.path(), path, "tsc\n");
        assert_eq!(clock_warning_in(root.path()), None);
        write(root.path(), path, "hpet\n");
        let found = clock_warning_in(root.path());
        assert_eq!(found.is_some(), cfg!(target_arch = "x86_64"));
        assert!(found.is_none_or(|found| found.contains("is hpet")));
    }

    #[test]
    fn offloads_are_read_from_ethtool() {
        let features = "Features for veth0:\nrx-checksumming: on\ntx-checksumming: on\n\
                        tcp-segmentation-offload: off\ngeneric-receive-offload: on [fixed]\n\
                        large-receive-offload: off [fixed]\n";
        assert_eq!(
            offloads_on(features),
            ["tx-checksumming", "generic-receive-offload"]
        );
        assert_eq!(
            kernel_interface("net_af_packet0,iface=veth0,qpairs=1"),
            Some("veth0")
        );
        assert_eq!(kernel_interface("net_pcap0,iface=veth0"), None);
    }
}
