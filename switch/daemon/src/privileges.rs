//! Drops the privileges that the switch's ports do not need.
//!
//! Capabilities belong to threads, and a new thread inherits those of its creator. So the main thread drops what is
//! not needed before it starts others: once the files and the address in the configuration are open, and before EAL
//! starts. A thread that was started before, the log's, drops all.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use contract::config::device::pci_address;
use contract::config::{Config, Device};
use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets};
use rustix::thread::{
    capabilities, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

/// Capabilities that ports may need at any time, because reloads add ports and links are taken down and
/// brought up.
///
/// | capability | for |
/// |---|---|
/// | `NET_ADMIN` | taking interfaces down and bringing them up, MTU and promiscuous mode, `net_tap`, XDP |
/// | `NET_RAW` | sockets of `net_af_packet` and `net_af_xdp`, queues of NVIDIA's NICs |
/// | `IPC_LOCK` | memory that devices read and that is locked |
const FOR_PORTS: CapabilitySet = CapabilitySet::NET_ADMIN
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::IPC_LOCK);

/// Further capability for `net_af_xdp`, so a reload cannot add the first such port: libxdp opens an
/// interface's program by its number (`BPF_PROG_GET_FD_BY_ID`).
const FOR_XDP: CapabilitySet = CapabilitySet::SYS_ADMIN;

/// Further capabilities for devices that use physical addresses (`/proc/PID/pagemap`) and I/O ports.
const FOR_PHYSICAL: CapabilitySet = CapabilitySet::SYS_ADMIN.union(CapabilitySet::SYS_RAWIO);

/// Address bits of a process. With an IOMMU of fewer bits, DPDK uses physical addresses (`pci.c`,
/// `X86_VA_WIDTH`).
const ADDRESS_BITS: u64 = 47;

/// Drops the capabilities that the ports of `config` do not need.
///
/// # Errors
/// The system's.
pub fn give_up(config: &Config) -> Result<()> {
    keep(needed(config, Path::new("/"))).context("cannot drop capabilities")
}

/// Drops all capabilities of this thread; threads that it starts have none, either.
///
/// # Errors
/// The system's.
pub fn give_up_all() -> Result<()> {
    keep(CapabilitySet::empty()).context("cannot drop capabilities")
}

fn keep(kept: CapabilitySet) -> Result<(), Errno> {
    let CapabilitySets {
        effective,
        permitted,
        ..
    } = capabilities(None)?;
    // Limits the capabilities of programs that it runs (`ethtool`).
    if effective.contains(CapabilitySet::SETPCAP) {
        for capability in CapabilitySet::all().difference(kept).iter() {
            // False, or an error, for capabilities unknown to the kernel.
            if capability_is_in_bounding_set(capability) == Ok(true) {
                remove_capability_from_bounding_set(capability)?;
            }
        }
    }
    set_no_new_privs(true)?;
    clear_ambient_capability_set()?;
    let sets = CapabilitySets {
        effective: effective.intersection(kept),
        permitted: permitted.intersection(kept),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, sets)
}

fn needed(config: &Config, root: &Path) -> CapabilitySet {
    let devices = config.ports.iter().filter_map(|port| match &port.device {
        Device::Dpdk(device) => Some(device.as_str()),
        _ => None,
    });
    devices.fold(FOR_PORTS, |needed, device| {
        needed.union(needed_besides(device, root))
    })
}

fn needed_besides(device: &str, root: &Path) -> CapabilitySet {
    if device.starts_with("net_af_xdp") {
        FOR_XDP
    } else if is_physical(device, root) {
        FOR_PHYSICAL
    } else {
        CapabilitySet::empty()
    }
}

/// Whether a PCI device has no IOMMU, or one that is too narrow.
fn is_physical(device: &str, root: &Path) -> bool {
    let Some(address) = pci_address(device) else {
        return false;
    };
    let folder = root.join("sys/bus/pci/devices").join(address);
    let Ok(driver) = fs::read_link(folder.join("driver")) else {
        return false;
    };
    let driver = driver.file_name().unwrap_or_default().to_string_lossy();
    let unsafe_mode = root.join("sys/module/vfio/parameters/enable_unsafe_noiommu_mode");
    let is_unsafe = fs::read_to_string(unsafe_mode).is_ok_and(|mode| mode.starts_with('Y'));
    let is_vfio = driver == "vfio-pci";
    driver.contains("uio") || (is_vfio && (is_unsafe || is_narrow(&folder)))
}

/// Whether the Intel IOMMU of a device has fewer address bits than a process: MGAW in its capability register.
fn is_narrow(device: &Path) -> bool {
    let Ok(register) = fs::read_to_string(device.join("iommu/intel-iommu/cap")) else {
        return false;
    };
    let register = u64::from_str_radix(register.trim().trim_start_matches("0x"), 16);
    register.is_ok_and(|register| (register >> 16 & 0x3f) + 1 < ADDRESS_BITS)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn config(device: &str) -> Config {
        let text = format!(
            r#"{{ "ports": [{{ "name": "a", "device": "{device}" }}, {{ "name": "b", "device": "sink" }}],
                "forwarding": {{ "mode": "patch", "pairs": [["a", "b"]] }} }}"#
        );
        Config::parse(&text, "").unwrap()
    }

    #[test]
    fn devices_without_an_iommu_and_xdp_need_more() {
        let root = tempfile::tempdir().unwrap();
        let devices = root.path().join("sys/bus/pci/devices");
        for (device, driver) in [
            ("0000:01:00.0", "vfio-pci"),
            ("0000:01:00.1", "uio_pci_generic"),
        ] {
            fs::create_dir_all(devices.join(device)).unwrap();
            symlink(
                format!("/x/drivers/{driver}"),
                devices.join(device).join("driver"),
            )
            .unwrap();
        }
        let needed = |device: &str| needed(&config(device), root.path());
        assert_eq!(needed("net_af_packet0,iface=x"), FOR_PORTS);
        assert_eq!(needed("net_af_xdp0,iface=x"), FOR_PORTS.union(FOR_XDP));
        assert_eq!(needed("0000:01:00.0"), FOR_PORTS);
        assert_eq!(needed("01:00.0,arg=1"), FOR_PORTS);
        assert_eq!(needed("0000:09:00.0"), FOR_PORTS);
        assert_eq!(needed("01:00.1"), FOR_PORTS.union(FOR_PHYSICAL));
        let iommu = devices.join("0000:01:00.0/iommu/intel-iommu");
        fs::create_dir_all(&iommu).unwrap();
        // Those of a server, of 48 bits, and of QEMU, of 39.
        for (register, expected) in [
            ("d2078c106f0466", FOR_PORTS),
            ("d2008c22260206", FOR_PORTS.union(FOR_PHYSICAL)),
        ] {
            fs::write(iommu.join("cap"), format!("{register}\n")).unwrap();
            assert_eq!(needed("0000:01:00.0"), expected, "{register}");
        }
        fs::remove_dir_all(&iommu).unwrap();
        let parameters = root.path().join("sys/module/vfio/parameters");
        fs::create_dir_all(&parameters).unwrap();
        fs::write(parameters.join("enable_unsafe_noiommu_mode"), "Y\n").unwrap();
        assert_eq!(needed("0000:01:00.0"), FOR_PORTS.union(FOR_PHYSICAL));
    }

    #[test]
    fn a_thread_keeps_what_it_may_and_its_children_have_no_more() {
        // Capabilities belong to a thread: the others keep theirs.
        let before = capabilities(None).unwrap();
        let work = || {
            keep(CapabilitySet::NET_RAW).unwrap();
            std::thread::spawn(|| capabilities(None).unwrap()).join()
        };
        let after = std::thread::spawn(work).join().unwrap().unwrap();
        assert_eq!(
            after.permitted,
            before.permitted.intersection(CapabilitySet::NET_RAW)
        );
        assert_eq!(after.inheritable, CapabilitySet::empty());
        assert_eq!(capabilities(None).unwrap(), before);
        // Dropped capabilities cannot be restored.
        let work = || {
            give_up_all().unwrap();
            keep(CapabilitySet::NET_RAW).unwrap();
            capabilities(None).unwrap()
        };
        let after = std::thread::spawn(work).join().unwrap();
        assert_eq!(after.permitted, CapabilitySet::empty());
    }
}
