//! How long a frame occupies a link.

use crate::argument::{InvalidArgument, ensure};

/// The link that drains a queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    capacity_bps: u64,
    overhead_bytes: u32,
    ns_per_byte: f64,
}

impl Link {
    /// Least capacity: a kilobit a second.
    pub const CAPACITY_BPS_MIN: u64 = 1_000;

    /// Most that framing may add to a frame.
    pub const OVERHEAD_BYTES_MAX: u32 = 1_024;

    /// Preamble, start delimiter and least gap of Ethernet (IEEE 802.3, 4.4.2). The frame check
    /// sequence is another 4 where frames are counted without it.
    pub const ETHERNET_OVERHEAD_BYTES: u32 = 20;

    /// A link of `capacity_bps` bits a second that adds `overhead_bytes` to each frame: 20 on Ethernet
    /// ([`Self::ETHERNET_OVERHEAD_BYTES`]), 0 if the given bytes include everything.
    ///
    /// # Errors
    /// If one of them is out of range.
    pub fn new(capacity_bps: u64, overhead_bytes: u32) -> Result<Self, InvalidArgument> {
        ensure(capacity_bps >= Self::CAPACITY_BPS_MIN, || {
            let least = Self::CAPACITY_BPS_MIN;
            format!("a link of {capacity_bps} bit/s; give it {least} or more")
        })?;
        ensure(overhead_bytes <= Self::OVERHEAD_BYTES_MAX, || {
            let most = Self::OVERHEAD_BYTES_MAX;
            format!("{overhead_bytes} bytes around each frame; give {most} or less")
        })?;
        Ok(Self {
            capacity_bps,
            overhead_bytes,
            ns_per_byte: 8e9 / capacity_bps as f64,
        })
    }

    /// Bits a second.
    pub fn capacity_bps(&self) -> u64 {
        self.capacity_bps
    }

    /// Bytes that several frames of `bytes` bytes together occupy.
    pub(super) fn occupied_bytes_of(&self, frames: u32, bytes: u64) -> u64 {
        bytes.saturating_add(u64::from(frames) * u64::from(self.overhead_bytes))
    }

    /// Time for which a frame of `bytes` occupies the link.
    pub fn serialisation_ns(&self, bytes: u32) -> f64 {
        self.occupied_bytes_of(1, bytes.into()) as f64 * self.ns_per_byte
    }
}
