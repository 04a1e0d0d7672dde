//! A capture, replayed with its own timing.
//!
//! The file itself is the store: it is read once, and each packet is an index into it.

use std::fs::File;
use std::io::Read;

use contract::config::device;
use contract::units;
use pcap_parser::Linktype;
use pcap_parser::pcapng::{
    Block, InterfaceDescriptionBlock, OptionCode, PcapNGOption, parse_block_be, parse_block_le,
    parse_sectionheaderblock,
};
use pcap_parser::traits::PcapNGPacketBlock;

use super::{Frame, SourceError};
use crate::source::{ETHERNET_HEADER_BYTES, VLAN_TAGS_BYTES};

/// The longest file held in memory: positions in it are 32 bits.
const FILE_BYTES_MAX: u64 = u32::MAX as u64;
/// Bytes that show whether a file is a capture.
const FIRST_BYTES: u64 = 4;
/// Duration of a loop over a capture without a span, such as one with a single packet.
const SPANLESS_LOOP_NS: u64 = 1_000_000;
/// The longest plausible time between two packets: one hour.
const GAP_NS_MAX: u64 = 3_600_000_000_000;

/// A capture in memory, and its next packet.
#[derive(Debug)]
pub struct Replay {
    file_bytes: Vec<u8>,
    records: Vec<Record>,
    warnings: Vec<String>,
    /// Loops still to be played after the current one; `None` for ever.
    loops_left: Option<u64>,
    loop_ns: u64,
    loop_start_ns: u64,
    /// The next record; past the last when exhausted.
    next: usize,
}

impl Replay {
    /// Reads the whole capture.
    ///
    /// Truncated frames are padded to their wire length; those longer than the port supports (MTU, Ethernet
    /// header and two VLAN tags) are cut. A packet with an earlier time than the previous one is due
    /// together with it. Frame check sequences are removed if the file says that there are any. One loop
    /// lasts the capture's span plus its mean gap.
    ///
    /// # Errors
    /// [`SourceError`] if the file cannot be read, is longer than 4 GiB, is neither pcap nor pcapng, is not
    /// of Ethernet frames, or contains no packet. A file that is damaged later on is replayed up to there,
    /// with a warning.
    pub fn open(spec: &device::Replay, mtu_bytes: u16) -> Result<Self, SourceError> {
        let file = spec.file.display();
        let mut file_bytes = Vec::new();
        let read = |error| {
            SourceError(format!(
                "cannot read the capture {file}: {error}; name a pcap or pcapng file that can be read"
            ))
        };
        let mut opened = File::open(&spec.file).map_err(read)?;
        // Only its first bytes, so that gigabytes of another format are not read; a device may be endless.
        opened
            .by_ref()
            .take(FIRST_BYTES)
            .read_to_end(&mut file_bytes)
            .map_err(read)?;
        if !file_bytes.is_empty() && !may_be_capture(&file_bytes) {
            return Err(not_a_capture(spec));
        }
        // Limited here, not by the file's size: a pipe has none.
        opened
            .take(FILE_BYTES_MAX)
            .read_to_end(&mut file_bytes)
            .map_err(read)?;
        if file_bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(SourceError(format!(
                "the capture {file} is longer than {FILE_BYTES_MAX} bytes, the most that can be held in memory; cut \
                 it with `editcap -c` or `tcpdump -C`"
            )));
        }
        Self::from_bytes(file_bytes, spec, mtu_bytes)
    }

    /// The same for a file in memory; `spec` names it in errors.
    ///
    /// # Errors
    /// As [`open`](Self::open), except for reading.
    pub fn from_bytes(
        file_bytes: Vec<u8>,
        spec: &device::Replay,
        mtu_bytes: u16,
    ) -> Result<Self, SourceError> {
        let file = spec.file.display();
        if file_bytes.is_empty() {
            let message = format!("{file} is empty; name a pcap or pcapng capture");
            return Err(SourceError(message));
        }
        let mut index = Index::new(mtu_bytes);
        let understood_bytes = if is_pcapng(&file_bytes) {
            index.add_pcapng(&file_bytes)
        } else {
            let header = Header::read(&file_bytes).ok_or_else(|| not_a_capture(spec))?;
            index.add_pcap(header, &file_bytes)
        };
        let understood_bytes = understood_bytes.map_err(|OtherLink(link_type)| {
            let ethernet = Linktype::ETHERNET;
            SourceError(format!(
                "the capture {file} has link type {link_type}; only Ethernet ({ethernet}) can be replayed"
            ))
        })?;
        let mut records = std::mem::take(&mut index.records);
        let (Some(first), Some(last)) = (records.first(), records.last()) else {
            return Err(SourceError(if understood_bytes < file_bytes.len() {
                format!(
                    "the capture {file} is cut short or damaged from byte {understood_bytes} on, before its first \
                     packet; name one that holds a whole packet"
                )
            } else {
                format!("the capture {file} holds no whole packet; name one that does")
            }));
        };
        let span_ns = last.due_ns - first.due_ns;
        let loop_ns = match span_ns {
            0 => SPANLESS_LOOP_NS,
            // There are at least two packets, or there would be no span.
            _ => span_ns + span_ns / (records.len() as u64 - 1),
        };
        for record in &mut records {
            record.due_ns = scaled(record.due_ns, spec.speed);
        }
        let damaged_from = (understood_bytes < file_bytes.len()).then_some(understood_bytes);
        let warnings = index.warnings(&file, &records, damaged_from);
        Ok(Self {
            file_bytes,
            records,
            warnings,
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

    /// Total number of packets; for an endlessly played capture those of one loop.
    pub fn planned_packets(&self) -> u64 {
        let more = self.loops_left.unwrap_or(0);
        (self.records.len() as u64).saturating_mul(more.saturating_add(1))
    }

    /// Packets in the capture.
    pub fn packets(&self) -> usize {
        self.records.len()
    }

    /// Problems found in the file.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// The first gap between packets longer than [`GAP_NS_MAX`], and how many packets follow it.
fn gap(records: &[Record]) -> Option<(usize, u64)> {
    let between = records
        .windows(2)
        .map(|pair| pair[1].due_ns - pair[0].due_ns);
    let (before, gap_ns) = between
        .enumerate()
        .find(|&(_, gap_ns)| gap_ns > GAP_NS_MAX)?;
    Some((records.len() - before - 1, gap_ns))
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

// pcap files (draft-ietf-opsawg-pcap) of both byte orders, in microseconds and nanoseconds, including "modified" ones
// with longer packet headers. pcap-parser 0.17 knows modified files of one byte order only.

/// The length of a file's header.
const FILE_HEADER_BYTES: usize = 24;
/// The length of a packet's header.
const HEADER_BYTES: usize = 16;
/// The same in a "modified" file: an interface's index, a protocol and a packet type follow.
const MODIFIED_HEADER_BYTES: usize = 24;

/// The header of a pcap file.
#[derive(Debug, Clone, Copy)]
struct Header {
    is_big_endian: bool,
    packet_header_bytes: usize,
    /// Nanoseconds of a packet's fraction of a second.
    pub fraction_ns: u32,
    /// The link type, and in the upper half whether frame check sequences were kept.
    pub network: u32,
}

/// The header of a packet.
#[derive(Debug, Clone, Copy)]
struct Packet {
    pub seconds: u32,
    pub fraction: u32,
    /// Offset of its bytes from the beginning of its header.
    pub start: usize,
    pub captured_bytes: usize,
    pub wire_bytes: u32,
}

/// Byte order, length of a packet's header and nanoseconds of a fraction, by the magic number of `file`.
fn kind(file: &[u8]) -> Option<(bool, usize, u32)> {
    let magic = number(file, 0, false)?;
    [(false, magic), (true, magic.swap_bytes())]
        .into_iter()
        .find_map(|(is_big_endian, magic)| match magic {
            0xa1b2_c3d4 => Some((is_big_endian, HEADER_BYTES, 1_000)),
            0xa1b2_3c4d => Some((is_big_endian, HEADER_BYTES, 1)),
            0xa1b2_cd34 => Some((is_big_endian, MODIFIED_HEADER_BYTES, 1_000)),
            _ => None,
        })
}

/// Whether `file` begins like a pcap file.
fn is_pcap(file: &[u8]) -> bool {
    kind(file).is_some()
}

fn number(bytes: &[u8], at: usize, is_big_endian: bool) -> Option<u32> {
    let number = *bytes.get(at..)?.first_chunk()?;
    Some(if is_big_endian {
        u32::from_be_bytes(number)
    } else {
        u32::from_le_bytes(number)
    })
}

impl Header {
    /// Parses the header of `file`.
    pub fn read(file: &[u8]) -> Option<Self> {
        let (is_big_endian, packet_header_bytes, fraction_ns) = kind(file)?;
        Some(Self {
            is_big_endian,
            packet_header_bytes,
            fraction_ns,
            network: number(file, FILE_HEADER_BYTES - 4, is_big_endian)?,
        })
    }

    /// Parses the header of the packet at the beginning of `rest`, if complete.
    pub fn packet(&self, rest: &[u8]) -> Option<Packet> {
        let number = |at| number(rest, at, self.is_big_endian);
        let packet = Packet {
            seconds: number(0)?,
            fraction: number(4)?,
            start: self.packet_header_bytes,
            captured_bytes: number(8)? as usize,
            wire_bytes: number(12)?,
        };
        let end = packet.start.checked_add(packet.captured_bytes)?;
        (end <= rest.len()).then_some(packet)
    }
}

// Index of a capture's packets: their places in the file, and when they are due.

/// Longest plausible packet of a capture (libpcap's `MAXIMUM_SNAPLEN`).
const CAPTURED_BYTES_MAX: usize = 262_144;
/// The shortest block of a pcapng file: its type, and its length twice.
const BLOCK_BYTES_MIN: u32 = 12;
/// The type of the obsolete Packet Block.
const PACKET_BLOCK: u32 = 2;
/// Option of an interface: the length of frame check sequences.
const IF_FCSLEN: OptionCode = OptionCode(13);
/// Option of a packet: its flags, including the length of its frame check sequence. A Packet Block has the same.
const EPB_FLAGS: OptionCode = OptionCode(2);
/// The latest time within a capture, 73 years; later times are noise in a damaged file.
const TIME_NS_MAX: i128 = (u64::MAX / 8) as i128;

/// A packet of the capture.
#[derive(Debug, Clone, Copy)]
struct Record {
    /// When it is due, in nanoseconds after the first.
    pub due_ns: u64,
    /// Offset of its bytes in the file.
    pub start: u32,
    /// Number of captured bytes.
    pub captured_bytes: u16,
    /// Number of bytes on the wire, limited to what the port supports.
    pub wire_bytes: u16,
}

/// A capture with a link type other than Ethernet.
struct OtherLink(Linktype);

fn not_a_capture(spec: &device::Replay) -> SourceError {
    SourceError(format!(
        "{} is neither a pcap nor a pcapng capture; decompress it first if it is compressed, or convert it with \
         `editcap -F pcap`",
        spec.file.display()
    ))
}

/// First bytes of a pcapng file.
const SECTION_HEADER: [u8; 4] = 0x0a0d_0d0a_u32.to_le_bytes();

/// Whether a file with these first bytes may be a capture.
fn may_be_capture(first: &[u8]) -> bool {
    is_pcap(first) || first.starts_with(&SECTION_HEADER)
}

/// Whether a file begins like a pcapng file.
fn is_pcapng(file: &[u8]) -> bool {
    parse_sectionheaderblock(file).is_ok()
}

/// Rejects all other link types.
fn ethernet(link_type: Linktype) -> Result<(), OtherLink> {
    if link_type == Linktype::ETHERNET {
        Ok(())
    } else {
        Err(OtherLink(link_type))
    }
}

/// An index under construction.
struct Index {
    pub records: Vec<Record>,
    first_time_ns: Option<i128>,
    last_due_ns: u64,
    /// Longest frame that the port supports.
    pub limit_bytes: u32,
    /// Frames that were longer.
    pub cut: usize,
}

impl Index {
    pub fn new(mtu_bytes: u16) -> Self {
        let limit_bytes = u32::from(mtu_bytes) + ETHERNET_HEADER_BYTES + VLAN_TAGS_BYTES;
        Self {
            records: Vec::new(),
            first_time_ns: None,
            last_due_ns: 0,
            limit_bytes,
            cut: 0,
        }
    }

    /// Adds the packet whose `captured_bytes` begin at `start`, without its frame check sequence of `fcs_bytes`; a
    /// packet without a time follows immediately.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positions are under 4 GiB, lengths were just cut, times were just clamped"
    )]
    fn add(
        &mut self,
        time_ns: Option<i128>,
        start: usize,
        captured_bytes: usize,
        wire_bytes: u32,
        fcs_bytes: u32,
    ) {
        let after_first_ns =
            time_ns.map_or(0, |time| time - *self.first_time_ns.get_or_insert(time));
        // Never before the previous packet: order matters more than a clock that was set.
        let due_ns = after_first_ns.clamp(self.last_due_ns.into(), TIME_NS_MAX) as u64;
        self.last_due_ns = due_ns;
        let limit_bytes = self.limit_bytes.min(u16::MAX.into());
        let wire_bytes = wire_bytes
            .max(captured_bytes as u32)
            .saturating_sub(fcs_bytes);
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

    /// Warnings about the capture `file`, which is damaged from byte `damaged_from` on, if any.
    fn warnings(
        &self,
        file: &std::path::Display<'_>,
        records: &[Record],
        damaged_from: Option<usize>,
    ) -> Vec<String> {
        let (packets, cut, limit_bytes) = (records.len(), self.cut, self.limit_bytes);
        let damaged = damaged_from.map(|byte| {
            format!(
                "the capture {file} is cut short or damaged from byte {byte} on; the {packets} packets before that \
                 are replayed"
            )
        });
        let cut = (cut > 0).then(|| {
            format!(
                "{cut} packets of the capture {file} were longer than {limit_bytes} bytes on the wire and are cut to \
                 that; raise the port's mtu to replay them whole"
            )
        });
        let gap = gap(records).map(|(late, gap_ns)| {
            format!(
                "{late} of the {packets} packets of the capture {file} are due only {} after the packet before them, \
                 at the speed asked for: a clock was set meanwhile, or captures of different days were joined; move \
                 their times with `editcap -t`, split the file with `editcap -A` and `-B`, or raise speed=",
                units::span(gap_ns)
            )
        });
        damaged.into_iter().chain(cut).chain(gap).collect()
    }

    /// Adds the packets of a pcap file; returns the number of readable bytes.
    pub fn add_pcap(&mut self, header: Header, file: &[u8]) -> Result<usize, OtherLink> {
        let network = Linktype(header.network.cast_signed());
        // The upper half says whether frame check sequences are included.
        ethernet(Linktype(network.0 & 0xffff))?;
        let fcs_bytes = fcs_bytes_of(network);
        let mut read_bytes = FILE_HEADER_BYTES;
        while let Some(packet) = header.packet(&file[read_bytes..])
            && packet.captured_bytes <= CAPTURED_BYTES_MAX
        {
            let time_ns = i128::from(packet.seconds) * 1_000_000_000
                + i128::from(packet.fraction) * i128::from(header.fraction_ns);
            let start = read_bytes + packet.start;
            self.add(
                Some(time_ns),
                start,
                packet.captured_bytes,
                packet.wire_bytes,
                fcs_bytes,
            );
            read_bytes = start + packet.captured_bytes;
        }
        Ok(read_bytes)
    }

    /// Adds the packets of a pcapng file; returns the number of readable bytes.
    pub fn add_pcapng(&mut self, file: &[u8]) -> Result<usize, OtherLink> {
        let mut rest = file;
        let mut order = ByteOrder::Little;
        let mut interfaces = Vec::new();
        let mut rewritten = Vec::new();
        while let Some((after, block)) = parse_block(rest, order) {
            let block_start = file.len() - rest.len();
            let block = match block {
                Block::Unknown(block) if order.own(block.block_type) == PACKET_BLOCK => {
                    let whole = &rest[..rest.len() - after.len()];
                    rewrite_packet_block(whole, order, &mut rewritten);
                    match parse_block(&rewritten, order) {
                        Some((_, block)) => block,
                        None => break,
                    }
                }
                block => block,
            };
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
                    let fcs_bytes = order.fcs_bytes_of(&packet.options);
                    let fcs_bytes = fcs_bytes.unwrap_or(interface.fcs_bytes);
                    let start = block_start + 28;
                    self.add(time_ns, start, captured_bytes, packet.origlen, fcs_bytes);
                }
                Block::SimplePacket(packet) => {
                    let Some(interface) = interfaces.first() else {
                        break;
                    };
                    ethernet(interface.link_type)?;
                    let captured_bytes = packet.packet_data().len().min(interface.snap_bytes);
                    let (start, fcs_bytes) = (block_start + 12, interface.fcs_bytes);
                    self.add(None, start, captured_bytes, packet.origlen, fcs_bytes);
                }
                _ => {}
            }
            rest = after;
        }
        Ok(file.len() - rest.len())
    }
}

/// The pcapng block at the beginning of `bytes`, and the rest.
fn parse_block(bytes: &[u8], order: ByteOrder) -> Option<(&[u8], Block<'_>)> {
    let len_bytes = *bytes.get(4..)?.first_chunk()?;
    // pcap-parser 0.17 assumes this of process information blocks, and would underflow.
    let is_whole = |len_bytes: u32| len_bytes >= BLOCK_BYTES_MIN;
    match order {
        ByteOrder::Big if is_whole(u32::from_be_bytes(len_bytes)) => parse_block_be(bytes).ok(),
        ByteOrder::Little if is_whole(u32::from_le_bytes(len_bytes)) => parse_block_le(bytes).ok(),
        _ => None,
    }
}

/// Rewrites an obsolete Packet Block as the Enhanced Packet Block that replaced it: they differ in their type, and in
/// the number of lost packets, which takes half of the interface field.
fn rewrite_packet_block(block: &[u8], order: ByteOrder, rewritten: &mut Vec<u8>) {
    rewritten.clear();
    rewritten.extend_from_slice(block);
    let (kind, interface) = match (order, block.get(8..10)) {
        (ByteOrder::Little, Some(&[low, high])) => (6_u32.to_le_bytes(), [low, high, 0, 0]),
        (ByteOrder::Big, Some(&[high, low])) => (6_u32.to_be_bytes(), [0, 0, high, low]),
        _ => return,
    };
    for (at, bytes) in [(0, kind), (8, interface)] {
        if let Some(place) = rewritten.get_mut(at..at + 4) {
            place.copy_from_slice(&bytes);
        }
    }
}

/// Bytes of the frame check sequence at the end of each packet of a pcap file, by the upper bits of its link type:
/// whether it is known, and its length in 16-bit words (draft-ietf-opsawg-pcap, section 4).
fn fcs_bytes_of(network: Linktype) -> u32 {
    let bits = network.0.cast_unsigned();
    if bits & 0x0400_0000 == 0 {
        return 0;
    }
    (bits >> 28) * 2
}

/// Byte order of a section of a pcapng file.
#[derive(Debug, Clone, Copy)]
enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// Converts a number of a section that was read as little-endian.
    fn own(self, number: u32) -> u32 {
        match self {
            Self::Little => number,
            Self::Big => number.swap_bytes(),
        }
    }

    /// Bytes of the packet's frame check sequence by its flags (`epb_flags`); `None` if they do not say.
    fn fcs_bytes_of(self, options: &[PcapNGOption<'_>]) -> Option<u32> {
        let flags = value_of(options, EPB_FLAGS)?.first_chunk()?;
        let flags = match self {
            Self::Little => u32::from_le_bytes(*flags),
            Self::Big => u32::from_be_bytes(*flags),
        };
        Some(flags >> 5 & 0xf).filter(|&bytes| bytes > 0)
    }
}

/// The value of the first option with this code.
fn value_of<'o>(options: &'o [PcapNGOption<'_>], code: OptionCode) -> Option<&'o [u8]> {
    let option = options.iter().find(|option| option.code == code)?;
    option.as_bytes().ok()
}

/// Properties that an interface description block gives its packets.
struct Interface {
    link_type: Linktype,
    ticks_per_s: u128,
    offset_ns: i128,
    snap_bytes: usize,
    /// Bytes of the frame check sequence that ends each packet.
    fcs_bytes: u32,
}

impl Interface {
    fn new(description: &InterfaceDescriptionBlock<'_>, order: ByteOrder) -> Self {
        // Parsed here instead of by pcap-parser, which ignores powers of two, and reads the offset of a
        // big-endian section as little-endian.
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
        // The draft counts bits; files of libpcap and Wireshark contain bytes.
        let fcs_bytes = match value_of(&description.options, IF_FCSLEN) {
            Some(&[bytes @ 0..=8]) => bytes,
            Some(&[bits]) => bits / 8,
            _ => 0,
        };
        Self {
            link_type: description.linktype,
            ticks_per_s: u128::checked_pow(base, exponent.into()).unwrap_or(u128::MAX),
            offset_ns: i128::from(offset_s) * 1_000_000_000,
            snap_bytes: match description.snaplen {
                0 => usize::MAX,
                limit => limit as usize,
            },
            fcs_bytes: fcs_bytes.into(),
        }
    }

    #[expect(clippy::cast_possible_wrap, reason = "2^64 ticks are 2^94 ns at most")]
    fn time_ns(&self, ticks: u64) -> i128 {
        self.offset_ns + (u128::from(ticks) * 1_000_000_000 / self.ticks_per_s) as i128
    }
}

#[cfg(test)]
mod tests;
