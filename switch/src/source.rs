//! Sources: frames with their own timing, for ports without a wire.
//!
//! A source knows nothing of DPDK. It returns the frames that are due at a time and lends their bytes; the
//! worker that polls it copies them to its own memory. Nothing is allocated after [`Source::open`].

use contract::config::device::{self, Device};

mod generate;
mod replay;

pub use generate::Generator;
pub use replay::Replay;

/// Header of an Ethernet frame in bytes: two addresses and an ethertype.
#[expect(clippy::cast_possible_truncation, reason = "14")]
const ETHERNET_HEADER_BYTES: u32 = measure::packet::header::ethernet::BYTES as u32;
/// Room for two VLAN tags in bytes, which the MTU of a port does not count.
const VLAN_TAGS_BYTES: u32 = 8;

/// A due frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its first bytes, from the destination address on; the rest are zeros.
    pub head: &'a [u8],
    /// Length of the whole frame in bytes, without frame check sequence; at least `head.len()`.
    pub len_bytes: u32,
}

/// The source of frames for a port without a wire.
#[derive(Debug)]
pub enum Source {
    /// A capture, with its own timing.
    Replay(Replay),
    /// Seeded traffic.
    Generate(Box<Generator>),
}

/// Why a source cannot be opened: names the file or setting, and what to do. Callers show it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SourceError(String);

impl Source {
    /// Opens the source described by `device`, for a port with an MTU of `mtu_bytes`; `None` if the device
    /// is not a source (a sink, or a DPDK device).
    ///
    /// A capture is read into memory as a whole.
    ///
    /// # Errors
    /// [`SourceError`], ready to be shown.
    pub fn open(device: &Device, mtu_bytes: u16) -> Result<Option<Self>, SourceError> {
        Ok(match device {
            Device::Sink | Device::Dpdk(_) | Device::Absent => None,
            Device::Replay(spec) => Some(Self::replay(spec, mtu_bytes)?),
            Device::Generate(spec) => Some(Self::generate(spec, mtu_bytes)?),
        })
    }

    /// Opens a capture.
    ///
    /// # Errors
    /// [`SourceError`], ready to be shown.
    pub fn replay(spec: &device::Replay, mtu_bytes: u16) -> Result<Self, SourceError> {
        Replay::open(spec, mtu_bytes).map(Self::Replay)
    }

    /// Sets up seeded traffic.
    ///
    /// # Errors
    /// A [`SourceError`] if frames of that size exceed the MTU.
    pub fn generate(spec: &device::Generate, mtu_bytes: u16) -> Result<Self, SourceError> {
        Generator::new(spec, mtu_bytes).map(|generator| Self::Generate(Box::new(generator)))
    }

    /// Calls `emit`, in order, for each frame that is due `elapsed_ns` after the source's start, at most
    /// `room` times; returns how many were taken.
    ///
    /// If `emit` returns `false` (no memory), the frame stays due. Nothing is skipped: frames that were not
    /// polled in time follow as fast as requested.
    #[inline]
    pub fn poll(
        &mut self,
        elapsed_ns: u64,
        room: usize,
        emit: impl FnMut(Frame<'_>) -> bool,
    ) -> usize {
        match self {
            Self::Replay(replay) => replay.poll(elapsed_ns, room, emit),
            Self::Generate(generator) => generator.poll(elapsed_ns, room, emit),
        }
    }

    /// Whether the source is exhausted.
    #[inline]
    pub fn exhausted(&self) -> bool {
        match self {
            Self::Replay(replay) => replay.exhausted(),
            Self::Generate(_) => false,
        }
    }

    /// Total number of packets, for an endlessly played capture that of one loop; `None` for endless traffic.
    pub fn planned_packets(&self) -> Option<u64> {
        match self {
            Self::Replay(replay) => Some(replay.planned_packets()),
            Self::Generate(_) => None,
        }
    }

    /// Warnings for the user, before the source is polled.
    pub fn warnings(&self) -> &[String] {
        match self {
            Self::Replay(replay) => replay.warnings(),
            Self::Generate(_) => &[],
        }
    }
}
