//! Sources: frames with a timing of their own, for ports that have no wire.
//!
//! A source knows nothing of DPDK. It says which frames are due at a time and lends their bytes;
//! the worker that polls it copies them into memory of its own. After [`Source::open`] nothing is
//! allocated.

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

/// A frame that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its first bytes, from the destination address on; the rest are zeros.
    pub head: &'a [u8],
    /// Length of the whole frame in bytes, without frame check sequence; at least `head.len()`.
    pub len_bytes: u32,
}

/// Where the frames of a port without a wire come from.
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
    /// Opens the source that `device` describes, for a port whose MTU is `mtu_bytes`; `None` when
    /// the device is none (a sink, or a DPDK device).
    ///
    /// A capture is read into memory whole.
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
    /// A [`SourceError`] if frames of that size do not fit the MTU.
    pub fn generate(spec: &device::Generate, mtu_bytes: u16) -> Result<Self, SourceError> {
        Generator::new(spec, mtu_bytes).map(|generator| Self::Generate(Box::new(generator)))
    }

    /// Calls `emit`, in order, for each frame that is due `elapsed_ns` after the source's start,
    /// `room` times at most; returns how many it took.
    ///
    /// When `emit` returns `false` (there was no memory) that frame is kept and is due again.
    /// Nothing is skipped: what was not polled in time comes as fast as it is asked for.
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

    /// Whether no frame will ever be due again.
    #[inline]
    pub fn exhausted(&self) -> bool {
        match self {
            Self::Replay(replay) => replay.exhausted(),
            Self::Generate(_) => false,
        }
    }

    /// Packets that come in all, of a capture that is played for ever those of one loop; `None` where there is no end.
    pub fn planned_packets(&self) -> Option<u64> {
        match self {
            Self::Replay(replay) => Some(replay.planned_packets()),
            Self::Generate(_) => None,
        }
    }

    /// What the user should hear about before the source is polled.
    pub fn warnings(&self) -> &[String] {
        match self {
            Self::Replay(replay) => replay.warnings(),
            Self::Generate(_) => &[],
        }
    }
}
