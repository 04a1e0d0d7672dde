//! Sources: frames with a timing of their own, for ports that have no wire.
//!
//! A source knows nothing of DPDK. It says which frames are due at a time and lends their bytes;
//! the worker that polls it copies them into memory of its own. After [`Source::open`] nothing is
//! allocated.

use std::path::PathBuf;

use contract::config::device::{self, Device};
use contract::units;

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

/// Why a source cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The capture cannot be read.
    #[error("cannot read the capture {file}: {error}; name a pcap or pcapng file that can be read")]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// The capture does not fit the memory it may take.
    #[error(
        "the capture {file} is longer than {limit_bytes} bytes, the most that can be held in \
         memory; cut it with `editcap -c` or `tcpdump -C`"
    )]
    TooLarge {
        /// The file.
        file: PathBuf,
        /// The most that is accepted.
        limit_bytes: u64,
    },
    /// The file is something else.
    #[error(
        "{file} is neither a pcap nor a pcapng capture; decompress it first if it is compressed, \
         or convert it with `editcap -F pcap`"
    )]
    NotACapture {
        /// The file.
        file: PathBuf,
    },
    /// The capture is of another kind of link.
    #[error(
        "the capture {file} has link type {link_type}; only Ethernet ({ethernet}) can be replayed",
        ethernet = pcap_parser::Linktype::ETHERNET
    )]
    LinkType {
        /// The file.
        file: PathBuf,
        /// The link type, as <https://www.tcpdump.org/linktypes.html> numbers them.
        link_type: pcap_parser::Linktype,
    },
    /// The file is empty.
    #[error("{file} is empty; name a pcap or pcapng capture")]
    NoBytes {
        /// The file.
        file: PathBuf,
    },
    /// The first packet cannot be read.
    #[error(
        "the capture {file} is cut short or damaged from byte {from_byte} on, before its first packet; name one that \
         holds a whole packet"
    )]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Where its first damage is.
        from_byte: usize,
    },
    /// There is nothing to replay.
    #[error("the capture {file} holds no whole packet; name one that does")]
    Empty {
        /// The file.
        file: PathBuf,
    },
    /// Frames were asked for that the port may not carry.
    #[error(
        "size={size_bytes} makes frames longer than the {limit_bytes} bytes that a port with this \
         MTU carries; ask for smaller ones, or raise the port's mtu to {}",
        size_bytes - ETHERNET_HEADER_BYTES
    )]
    FrameSize {
        /// Length of the longest frame asked for.
        size_bytes: u32,
        /// The longest that the port carries.
        limit_bytes: u32,
    },
}

/// What is worth knowing about a source that could be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// The capture ends early.
    #[error(
        "the capture {file} is cut short or damaged from byte {from_byte} on; the {packets} \
         packets before that are replayed"
    )]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Where what can be read ends.
        from_byte: usize,
        /// Packets read.
        packets: usize,
    },
    /// Some packets come long after the others.
    #[error(
        "{late} of the {packets} packets of the capture {file} are due only {} after the packet before them, at the \
         speed asked for: a clock was set meanwhile, or captures of different days were joined; move their times with \
         `editcap -t`, split the file with `editcap -A` and `-B`, or raise speed=",
        units::span(*gap_ns)
    )]
    Gap {
        /// The file.
        file: PathBuf,
        /// Packets in all.
        packets: usize,
        /// Packets after the gap.
        late: usize,
        /// The time between the packet before the gap and the next one.
        gap_ns: u64,
    },
    /// Some frames are longer than the port may carry.
    #[error(
        "{packets} packets of the capture {file} were longer than {limit_bytes} bytes on the wire \
         and are cut to that; raise the port's mtu to replay them whole"
    )]
    Cut {
        /// The file.
        file: PathBuf,
        /// Packets that were cut.
        packets: usize,
        /// The length they were cut to: the port's MTU, an Ethernet header and two VLAN tags.
        limit_bytes: u32,
    },
}

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
    /// [`SourceError::FrameSize`].
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
    pub fn warnings(&self) -> &[Warning] {
        match self {
            Self::Replay(replay) => replay.warnings(),
            Self::Generate(_) => &[],
        }
    }
}
