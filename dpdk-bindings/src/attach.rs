//! Attaches devices as ports, and detaches them.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::num::NonZeroU32;
use std::path::PathBuf;

use crate::eal::Eal;
use crate::error::{DpdkLog, Errno, logged};

/// Why a device did not become a port.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The device string contains a NUL.
    #[error("device {device:?} contains a NUL byte; remove it")]
    Nul {
        /// The device string.
        device: String,
    },
    /// A port with that name is already attached.
    #[error(
        "device name {name:?} is taken by another port; give each its own (net_pcap0, net_pcap1)"
    )]
    Taken {
        /// The device's name.
        name: String,
    },
    /// The capture that a `net_pcap` device should read cannot be opened.
    #[error("device {device:?}: cannot open capture {}: {source}; check rx_pcap=", path.display())]
    Capture {
        /// The device string.
        device: String,
        /// The capture.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// No such device, or no driver for it.
    #[error(
        "no device or driver for {device:?}{log}; {}; ports there are: {}",
        hint(device),
        list(ports)
    )]
    NotFound {
        /// The device string.
        device: String,
        /// DPDK's log lines.
        log: DpdkLog,
        /// Names of the existing ports.
        ports: Vec<String>,
    },
    /// The driver tried and failed.
    #[error("device {device:?} did not start: {errno}{log}; {}", hint(device))]
    Driver {
        /// The device string.
        device: String,
        /// DPDK's error.
        errno: Errno,
        /// DPDK's log lines.
        log: DpdkLog,
    },
}

/// Properties of a port and its device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortInfo {
    /// The driver (`net_pcap`, `net_ixgbe`).
    pub driver: String,
    /// Least MTU in bytes.
    pub mtu_min: u16,
    /// Largest MTU in bytes, with Ethernet header and FCS accounted for.
    pub mtu_max: u16,
    /// Most receive queues.
    pub rx_queues_max: u16,
    /// Most transmit queues.
    pub tx_queues_max: u16,
    /// The NUMA socket of the device, if known.
    pub numa_socket: Option<u16>,
    /// The kernel's index of the network interface behind the device, if any (`net_af_packet`,
    /// `net_af_xdp`, `net_tap`).
    pub interface: Option<NonZeroU32>,
}

/// An attached port whose queues are not set up yet: see [`start`](AttachedPort::start). Dropping it
/// detaches the device.
#[derive(Debug)]
pub struct AttachedPort<'eal> {
    eal: &'eal Eal,
    id: u16,
    name: String,
    info: PortInfo,
}

impl Eal {
    /// Names of the devices of all existing ports.
    pub fn port_names(&self) -> Vec<String> {
        let _hotplug = self.hotplug();
        names_of_all()
    }

    /// Attaches a device as a port: a PCI address with optional arguments (`0000:03:00.0`) or a virtual
    /// device (`net_pcap0,rx_pcap=in.pcap`, `net_af_packet0,iface=veth0`). It is plugged in, unless EAL did
    /// so at its start. DPDK has room for 32 ports at a time; detached ones make room.
    ///
    /// # Errors
    /// See [`AttachError`]; nothing is left behind.
    pub fn attach(&self, device: &str) -> Result<AttachedPort<'_>, AttachError> {
        let text = device.to_owned();
        let name = device.split(',').next().unwrap_or_default().to_owned();
        let (Ok(c_device), Ok(c_name)) = (CString::new(device), CString::new(name.as_str())) else {
            return Err(AttachError::Nul { device: text });
        };
        check_capture(device)?;
        let mut attached = self.hotplug();
        let names = names_of_all();
        let probed = logged(|| {
            if let Ok(id) = find(&c_name) {
                return Ok((id, false));
            }
            // SAFETY: EAL is initialised while self lives, the string is NUL-terminated and copied,
            // and the lock keeps other threads from plugging at the same time.
            Errno::check(unsafe { dpdk_sys::vernier_port_probe(c_device.as_ptr()) })?;
            find(&c_name).map(|id| (id, true))
        });
        let id = match probed {
            Ok((id, false)) if attached.contains(&id) => return Err(AttachError::Taken { name }),
            Ok((id, _)) => id,
            Err((Errno::ENODEV | Errno::EFAULT | Errno::ENOENT, log)) => {
                return Err(AttachError::NotFound {
                    device: text,
                    log,
                    ports: names,
                });
            }
            Err((errno, log)) => {
                return Err(AttachError::Driver {
                    device: text,
                    errno,
                    log,
                });
            }
        };
        match info(id) {
            Ok((name, info)) => {
                attached.insert(id);
                Ok(AttachedPort {
                    eal: self,
                    id,
                    name,
                    info,
                })
            }
            Err(errno) => {
                // SAFETY: the port was found a moment ago, is not attached, and the lock is held.
                unsafe { dpdk_sys::vernier_port_detach(id) };
                Err(AttachError::Driver {
                    device: text,
                    errno,
                    log: DpdkLog::default(),
                })
            }
        }
    }
}

impl AttachedPort<'_> {
    /// DPDK's number of the port, as in [`Mbuf::port`](crate::Mbuf::port) of packets received here. It is
    /// reused after the device is detached.
    pub fn id(&self) -> u16 {
        self.id
    }

    /// The device's name (`net_pcap0`, `0000:03:00.0`).
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Properties of the device.
    pub fn info(&self) -> &PortInfo {
        &self.info
    }
}

impl Drop for AttachedPort<'_> {
    fn drop(&mut self) {
        let mut attached = self.eal.hotplug();
        // SAFETY: the port is ours, its queues are no longer in use, and the lock keeps other threads
        // from plugging at the same time.
        unsafe { dpdk_sys::vernier_port_detach(self.id) };
        attached.remove(&self.id);
    }
}

/// The kernel's index of the network interface with this name, if any.
pub fn interface_index(name: &str) -> Option<NonZeroU32> {
    let name = CString::new(name).ok()?;
    // SAFETY: the string is NUL-terminated.
    NonZeroU32::new(unsafe { dpdk_sys::vernier_interface_index(name.as_ptr()) })
}

/// Names of the devices of all existing ports. Call it under the hot-plug lock of an initialised EAL, like all
/// functions below.
fn names_of_all() -> Vec<String> {
    let mut names = Vec::new();
    let mut from = 0;
    // SAFETY: EAL is initialised, since the caller holds its lock.
    while let Ok(id) = port_id(unsafe { dpdk_sys::vernier_port_next(from) }) {
        names.extend(info(id).map(|(name, _)| name));
        from = id + 1;
    }
    names
}

fn find(name: &CStr) -> Result<u16, Errno> {
    // SAFETY: called with the hot-plug lock of an initialised EAL; the string is NUL-terminated.
    port_id(unsafe { dpdk_sys::vernier_port_find(name.as_ptr()) })
}

fn port_id(rc: std::ffi::c_int) -> Result<u16, Errno> {
    Errno::check(rc).and_then(|id| u16::try_from(id).map_err(|_| Errno::ENODEV))
}

fn info(port_id: u16) -> Result<(String, PortInfo), Errno> {
    let mut info = MaybeUninit::uninit();
    // SAFETY: called with the hot-plug lock of an initialised EAL; on success all fields are written.
    let info = unsafe {
        Errno::check(dpdk_sys::vernier_port_info(port_id, info.as_mut_ptr()))?;
        info.assume_init()
    };
    let ported = PortInfo {
        driver: text(&info.driver),
        mtu_min: info.mtu_min,
        mtu_max: info.mtu_max,
        rx_queues_max: info.rx_queues_max,
        tx_queues_max: info.tx_queues_max,
        numa_socket: u16::try_from(info.numa_socket).ok(),
        interface: NonZeroU32::new(info.interface),
    };
    Ok((text(&info.device), ported))
}

/// A NUL-terminated name.
pub(crate) fn text(name: &[u8]) -> String {
    CStr::from_bytes_until_nul(name).map_or_else(
        |_| String::from_utf8_lossy(name).into_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// `net_pcap` gives no reason why a capture cannot be opened, so ask the system first.
fn check_capture(device: &str) -> Result<(), AttachError> {
    if !device.starts_with("net_pcap") {
        return Ok(());
    }
    for path in device
        .split(',')
        .filter_map(|argument| argument.strip_prefix("rx_pcap="))
    {
        File::open(path).map_err(|source| AttachError::Capture {
            device: device.to_owned(),
            path: path.into(),
            source,
        })?;
    }
    Ok(())
}

/// Requirements of a device of this kind.
pub(crate) fn hint(device: &str) -> &'static str {
    const HINTS: [(&str, &str); 5] = [
        (
            "net_pcap",
            "net_pcap takes rx_pcap=FILE (an Ethernet capture that libpcap reads), tx_pcap=FILE, or \
             iface=NAME (as root or with CAP_NET_RAW)",
        ),
        (
            "net_af_packet",
            "net_af_packet takes iface=NAME of an existing interface, and needs root or CAP_NET_RAW",
        ),
        (
            "net_af_xdp",
            "net_af_xdp takes iface=NAME of an existing interface, and needs root or CAP_NET_ADMIN, \
             CAP_NET_RAW and CAP_SYS_ADMIN, which a switch keeps only if it starts with such a port",
        ),
        (
            "net_tap",
            "net_tap takes iface=NAME, and needs /dev/net/tun and root or CAP_NET_ADMIN",
        ),
        (
            "net_memif",
            "net_memif takes role=server|client and socket=PATH in a writable folder; start the server before the client",
        ),
    ];
    if let Some((_, hint)) = HINTS.iter().find(|(kind, _)| device.starts_with(kind)) {
        hint
    } else if device
        .split(',')
        .next()
        .is_some_and(|name| name.contains(':'))
    {
        "a PCI device must be bound to vfio-pci (dpdk-devbind.py -b vfio-pci ADDRESS), and needs \
         PCI and hugepages turned on and access to its group in /dev/vfio (root)"
    } else {
        "a device is a PCI address such as 0000:03:00.0 or a virtual device such as \
         net_af_packet0,iface=eth0 or net_pcap0,rx_pcap=FILE"
    }
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_follow_the_kind_of_device() {
        assert!(hint("net_af_packet0,iface=x").contains("CAP_NET_RAW"));
        assert!(hint("0000:03:00.0").contains("vfio-pci"));
        assert!(hint("net_nonsense0,path=a:b").contains("a device is"));
    }

    #[test]
    fn names_end_at_nul() {
        assert_eq!(text(b"net_null0\0\0"), "net_null0");
        assert_eq!(text(b"no end"), "no end");
    }

    #[test]
    fn missing_capture_is_named() {
        let error = check_capture("net_pcap0,tx_pcap=/x,rx_pcap=/no/such.pcap").unwrap_err();
        let AttachError::Capture { path, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!(path.to_str(), Some("/no/such.pcap"));
        assert!(check_capture("net_null0,rx_pcap=/no/such.pcap").is_ok());
    }
}
