//! A port of the program, and what is behind it.

use std::num::NonZeroU32;

use super::PORTS;

/// A port of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    /// DPDK's number.
    pub id: u16,
    /// How often a port has got this number, or lost it: both together identify a port.
    pub life: u32,
    /// The device's name (`net_pcap0`, `0000:03:00.0`); of a vhost-user device the path of its socket.
    pub name: String,
    /// Receive queues.
    pub rx_queues: u16,
    /// Transmit queues.
    pub tx_queues: u16,
}

/// What is behind a port of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostDevice {
    /// Its driver.
    pub driver: String,
    /// The kernel's index of the network interface behind the device, if there is one.
    pub interface: Option<NonZeroU32>,
}

impl HostPort {
    /// Whether it is a vhost-user device that the program serves itself.
    pub fn is_vhost(&self) -> bool {
        self.id >= PORTS
    }
}

impl HostDevice {
    pub(super) fn vhost() -> Self {
        Self {
            driver: "vhost-user".to_owned(),
            interface: None,
        }
    }
}
