//! A capture, replayed with its own timing.
//!
//! The file itself is the store: it is read once, and each packet is an index into it.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use contract::config::device;
use pcap_parser::pcapng::{
    Block, InterfaceDescriptionBlock, parse_block_be, parse_block_le, parse_sectionheaderblock,
};
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{
    Linktype, parse_pcap_frame, parse_pcap_frame_be, parse_pcap_frame_modified, parse_pcap_header,
};

use super::{ETHERNET_HEADER_BYTES, Frame, SourceError, VLAN_TAGS_BYTES, Warning};

/// The longest file that is held in memory: positions in it are 32 bits.
const FILE_BYTES_MAX: u64 = u32::MAX as u64;
/// The longest packet in a capture that is taken for one (libpcap's `MAXIMUM_SNAPLEN`).
const CAPTURED_BYTES_MAX: usize = 262_144;
/// The shortest block of a pcapng file: its type, and its length twice.
const BLOCK_BYTES_MIN: u32 = 12;
/// How long one loop lasts over a capture that has no span, as one of a single packet.
const SPANLESS_LOOP_NS: u64 = 1_000_000;
/// The latest time within a capture, 73 years: what is later is noise in a damaged file.
const TIME_NS_MAX: i128 = (u64::MAX / 8) as i128;

/// A packet of the capture.
#[derive(Debug, Clone, Copy)]
struct Record {
    /// When it is due, in nanoseconds after the first.
    due_ns: u64,
    /// Where its bytes begin in the file.
    start: u32,
    /// How many were captured.
    captured_bytes: u16,
    /// How many there were on the wire, as far as the port carries them.
    wire_bytes: u16,
}

/// A capture in memory, and the packet that is due next.
#[derive(Debug)]
pub struct Replay {
    file_bytes: Vec<u8>,
    records: Vec<Record>,
    warnings: Vec<Warning>,
    /// Loops still to be played after the present one; `None` for ever.
    loops_left: Option<u64>,
    loop_ns: u64,
    loop_start_ns: u64,
    /// The record due next; one past the last when exhausted.
    next: usize,
}

impl Replay {
    /// Reads the capture whole.
    ///
    /// Frames captured short are padded to their wire length; those longer than the port carries
    /// (MTU, Ethernet header and two VLAN tags) are cut to that. A packet stamped earlier than
    /// the one before it is due together with that one. One loop lasts the capture's span and its
    /// mean gap.
    ///
    /// # Errors
    /// [`SourceError`] when the file cannot be read, is longer than 4 GiB, is neither pcap nor
    /// pcapng, is not of Ethernet frames, or holds no packet. One that is damaged further on is
    /// replayed up to there, with a [`Warning`].
    pub fn open(spec: &device::Replay, mtu_bytes: u16) -> Result<Self, SourceError> {
        let file = || spec.file.clone();
        let mut file_bytes = Vec::new();
        // Bounded here and not by the file's size: a pipe or a device has none.
        File::open(&spec.file)
            .and_then(|opened| opened.take(FILE_BYTES_MAX + 1).read_to_end(&mut file_bytes))
            .map_err(|error| SourceError::Read {
                file: file(),
                error,
            })?;
        if file_bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(SourceError::TooLarge {
                file: file(),
                limit_bytes: FILE_BYTES_MAX,
            });
        }
        Self::from_bytes(file_bytes, spec, mtu_bytes)
    }

    /// The same with a file that is in memory already; `spec` names it in errors.
    ///
    /// # Errors
    /// As [`open`](Self::open), but for reading.
    pub fn from_bytes(
        file_bytes: Vec<u8>,
        spec: &device::Replay,
        mtu_bytes: u16,
    ) -> Result<Self, SourceError> {
        let file = || spec.file.clone();
        let mut index = Index::new(mtu_bytes);
        let understood_bytes = if parse_sectionheaderblock(&file_bytes).is_ok() {
            index.add_pcapng(&file_bytes)
        } else {
            index.add_pcap(&file_bytes)
        };
        let understood_bytes = understood_bytes.map_err(|reason| reason.at(file()))?;
        let Index {
            mut records,
            limit_bytes,
            cut,
            ..
        } = index;
        let (Some(first), Some(last)) = (records.first(), records.last()) else {
            return Err(SourceError::Empty { file: file() });
        };
        let span_ns = last.due_ns - first.due_ns;
        let loop_ns = match span_ns {
            0 => SPANLESS_LOOP_NS,
            // There are two packets at least, or there were no span.
            _ => span_ns + span_ns / (records.len() as u64 - 1),
        };
        for record in &mut records {
            record.due_ns = scaled(record.due_ns, spec.speed);
        }
        let damaged = (understood_bytes < file_bytes.len()).then(|| Warning::Damaged {
            file: file(),
            from_byte: understood_bytes,
            packets: records.len(),
        });
        let cut = (cut > 0).then(|| Warning::Cut {
            file: file(),
            packets: cut,
            limit_bytes,
        });
        Ok(Self {
            file_bytes,
            records,
            warnings: damaged.into_iter().chain(cut).collect(),
            loops_left: spec.loops.checked_sub(1),
            loop_ns: scaled(loop_ns, spec.speed).max(1),
            loop_start_ns: 0,
            next: 0,
        })
    }

    /// See [`super::Source::poll`].
    #[inline]
    pub fn poll(
        &mut self,
        elapsed_ns: u64,
        room: usize,
        mut emit: impl FnMut(Frame<'_>) -> bool,
    ) -> usize {
        let mut emitted = 0;
        while emitted < room
            && let Some(record) = self.records.get(self.next)
            && self.loop_start_ns.saturating_add(record.due_ns) <= elapsed_ns
        {
            let start = record.start as usize;
            let head = &self.file_bytes[start..start + usize::from(record.captured_bytes)];
            if !emit(Frame {
                head,
                len_bytes: record.wire_bytes.into(),
            }) {
                break;
            }
            emitted += 1;
            self.advance();
        }
        emitted
    }

    fn advance(&mut self) {
        self.next += 1;
        if self.next == self.records.len() && self.loops_left != Some(0) {
            self.loops_left = self.loops_left.map(|left| left - 1);
            self.loop_start_ns = self.loop_start_ns.saturating_add(self.loop_ns);
            self.next = 0;
        }
    }

    /// Whether the last loop is over.
    #[inline]
    pub fn exhausted(&self) -> bool {
        self.next == self.records.len()
    }

    /// Packets in the capture.
    pub fn packets(&self) -> usize {
        self.records.len()
    }

    /// What was found amiss in the file.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }
}

/// `time_ns` at `speed` times the capture's own pace.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates: never due at all is what a speed of nearly nothing means"
)]
fn scaled(time_ns: u64, speed: f64) -> u64 {
    (time_ns as f64 / speed) as u64
}

/// Why a file has no index.
enum Unusable {
    NotACapture,
    LinkType(Linktype),
}

impl Unusable {
    fn at(self, file: PathBuf) -> SourceError {
        match self {
            Self::NotACapture => SourceError::NotACapture { file },
            Self::LinkType(link_type) => SourceError::LinkType { file, link_type },
        }
    }
}

/// Refuses every other link type.
fn ethernet(link_type: Linktype) -> Result<(), Unusable> {
    if link_type == Linktype::ETHERNET {
        Ok(())
    } else {
        Err(Unusable::LinkType(link_type))
    }
}

/// An index in the making.
struct Index {
    records: Vec<Record>,
    first_time_ns: Option<i128>,
    last_due_ns: u64,
    /// Longest frame that the port carries.
    limit_bytes: u32,
    /// Frames that were longer.
    cut: usize,
}

impl Index {
    fn new(mtu_bytes: u16) -> Self {
        let limit_bytes = u32::from(mtu_bytes) + ETHERNET_HEADER_BYTES + VLAN_TAGS_BYTES;
        Self {
            records: Vec::new(),
            first_time_ns: None,
            last_due_ns: 0,
            limit_bytes,
            cut: 0,
        }
    }

    /// Adds the packet whose `captured_bytes` are from `start` on; one without a time follows at
    /// once.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positions are under 4 GiB, lengths were just cut, times were just clamped"
    )]
    fn add(&mut self, time_ns: Option<i128>, start: usize, captured_bytes: usize, wire_bytes: u32) {
        let after_first_ns =
            time_ns.map_or(0, |time| time - *self.first_time_ns.get_or_insert(time));
        // Never earlier than the packet before: order counts for more than a clock that was set.
        let due_ns = after_first_ns.clamp(self.last_due_ns.into(), TIME_NS_MAX) as u64;
        self.last_due_ns = due_ns;
        let limit_bytes = self.limit_bytes.min(u16::MAX.into());
        let wire_bytes = wire_bytes.max(captured_bytes as u32);
        self.cut += usize::from(wire_bytes > limit_bytes);
        let wire_bytes = wire_bytes.min(limit_bytes) as u16;
        let captured_bytes = captured_bytes.min(wire_bytes.into()) as u16;
        self.records.push(Record {
            due_ns,
            start: start as u32,
            captured_bytes,
            wire_bytes,
        });
    }

    /// Adds the packets of a pcap file; returns how many bytes of it could be read.
    fn add_pcap(&mut self, file: &[u8]) -> Result<usize, Unusable> {
        let (mut rest, header) = parse_pcap_header(file).map_err(|_| Unusable::NotACapture)?;
        // The upper half says whether frame check sequences were kept.
        ethernet(Linktype(header.network.0 & 0xffff))?;
        let parse = match (header.is_bigendian(), header.is_modified_format()) {
            (true, _) => parse_pcap_frame_be,
            (false, true) => parse_pcap_frame_modified,
            (false, false) => parse_pcap_frame,
        };
        let fraction_ns = if header.is_nanosecond_precision() {
            1
        } else {
            1_000
        };
        while let Ok((after, packet)) = parse(rest)
            && packet.data.len() <= CAPTURED_BYTES_MAX
        {
            let time_ns = i128::from(packet.ts_sec) * 1_000_000_000
                + i128::from(packet.ts_usec) * fraction_ns;
            let start = file.len() - after.len() - packet.data.len();
            self.add(Some(time_ns), start, packet.data.len(), packet.origlen);
            rest = after;
        }
        Ok(file.len() - rest.len())
    }

    /// Adds the packets of a pcapng file; returns how many bytes of it could be read.
    fn add_pcapng(&mut self, file: &[u8]) -> Result<usize, Unusable> {
        let mut rest = file;
        let mut order = ByteOrder::Little;
        let mut interfaces = Vec::new();
        while let Some((after, block)) = parse_block(rest, order) {
            let block_start = file.len() - rest.len();
            match block {
                Block::SectionHeader(header) => {
                    order = if header.big_endian() {
                        ByteOrder::Big
                    } else {
                        ByteOrder::Little
                    };
                    interfaces.clear();
                }
                Block::InterfaceDescription(description) => {
                    interfaces.push(Interface::new(&description, order));
                }
                Block::EnhancedPacket(packet) => {
                    let Some(interface) = interfaces.get(packet.if_id as usize) else {
                        break;
                    };
                    ethernet(interface.link_type)?;
                    let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                    let time_ns = Some(interface.time_ns(ticks));
                    let captured_bytes = packet.packet_data().len();
                    self.add(time_ns, block_start + 28, captured_bytes, packet.origlen);
                }
                Block::SimplePacket(packet) => {
                    let Some(interface) = interfaces.first() else {
                        break;
                    };
                    ethernet(interface.link_type)?;
                    let captured_bytes = packet.packet_data().len().min(interface.snap_bytes);
                    self.add(None, block_start + 12, captured_bytes, packet.origlen);
                }
                _ => {}
            }
            rest = after;
        }
        Ok(file.len() - rest.len())
    }
}

/// The pcapng block that `bytes` begin with, and what follows it.
fn parse_block(bytes: &[u8], order: ByteOrder) -> Option<(&[u8], Block<'_>)> {
    let len_bytes = *bytes.get(4..)?.first_chunk()?;
    // pcap-parser 0.17 takes it for granted of process information blocks, and would underflow.
    let is_whole = |len_bytes: u32| len_bytes >= BLOCK_BYTES_MIN;
    match order {
        ByteOrder::Big if is_whole(u32::from_be_bytes(len_bytes)) => parse_block_be(bytes).ok(),
        ByteOrder::Little if is_whole(u32::from_le_bytes(len_bytes)) => parse_block_le(bytes).ok(),
        _ => None,
    }
}

/// Which end of a number comes first in a section of a pcapng file.
#[derive(Debug, Clone, Copy)]
enum ByteOrder {
    Little,
    Big,
}

/// What an interface description block says about the packets that name it.
struct Interface {
    link_type: Linktype,
    ticks_per_s: u128,
    offset_ns: i128,
    snap_bytes: usize,
}

impl Interface {
    fn new(description: &InterfaceDescriptionBlock<'_>, order: ByteOrder) -> Self {
        // Read here, and not with pcap-parser's own functions: these do not know the powers of
        // two, and take the offset of a big-endian section for little-endian.
        let resolution = description.if_tsresol;
        let (base, exponent) = if resolution & 0x80 == 0 {
            (10, resolution)
        } else {
            (2, resolution & 0x7f)
        };
        let offset_s = match order {
            ByteOrder::Little => description.if_tsoffset,
            ByteOrder::Big => description.if_tsoffset.swap_bytes(),
        };
        Self {
            link_type: description.linktype,
            ticks_per_s: u128::checked_pow(base, exponent.into()).unwrap_or(u128::MAX),
            offset_ns: i128::from(offset_s) * 1_000_000_000,
            snap_bytes: match description.snaplen {
                0 => usize::MAX,
                limit => limit as usize,
            },
        }
    }

    #[expect(clippy::cast_possible_wrap, reason = "2^64 ticks are 2^94 ns at most")]
    fn time_ns(&self, ticks: u64) -> i128 {
        self.offset_ns + (u128::from(ticks) * 1_000_000_000 / self.ticks_per_s) as i128
    }
}

#[cfg(test)]
mod tests;
