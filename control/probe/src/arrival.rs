//! What is known of a packet that arrived, and how well.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::wire::time::UnixNs;

/// Who took a timestamp, the nearest to the wire first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stamped {
    /// The network interface, by its own clock.
    Hardware,
    /// The kernel, where it took the packet from the driver or passed it to it.
    Kernel,
    /// This program.
    Program,
}

/// A packet that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Who sent it.
    pub from: SocketAddr,
    /// Where to: the address in its header, and the socket's port.
    pub to: SocketAddr,
    /// When.
    pub at: UnixNs,
    /// Who says so.
    pub stamped: Stamped,
    /// Its time to live or hop limit; 255 where the system does not say.
    pub ttl: u8,
    /// Its DSCP and ECN, as one byte.
    pub traffic_class: u8,
}

impl Arrival {
    /// Its DSCP, 0 to 63.
    pub fn dscp(&self) -> u8 {
        self.traffic_class >> 2
    }

    /// The address that it was sent to.
    pub fn destination(&self) -> IpAddr {
        self.to.ip()
    }
}
