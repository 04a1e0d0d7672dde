//! pcap files (draft-ietf-opsawg-pcap) of both byte orders, in microseconds and nanoseconds, and with the longer packet
//! headers of "modified" ones. pcap-parser 0.17 knows modified files of one byte order only.

/// The length of a file's header.
pub(super) const FILE_HEADER_BYTES: usize = 24;
/// The length of a packet's header.
const HEADER_BYTES: usize = 16;
/// The same in a "modified" file: an interface's index, a protocol and a packet type follow.
const MODIFIED_HEADER_BYTES: usize = 24;

/// What the header of a pcap file says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    is_big_endian: bool,
    packet_header_bytes: usize,
    /// Nanoseconds of a packet's fraction of a second.
    pub fraction_ns: u32,
    /// The link type, and in the upper half whether frame check sequences were kept.
    pub network: u32,
}

/// The header of a packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet {
    pub seconds: u32,
    pub fraction: u32,
    /// Where its bytes begin, after the beginning of its header.
    pub start: usize,
    pub captured_bytes: usize,
    pub wire_bytes: u32,
}

/// Byte order, length of a packet's header and nanoseconds of a fraction, by the magic number that `file` begins with.
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

/// Whether `file` begins as a pcap file does.
pub(super) fn is_pcap(file: &[u8]) -> bool {
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
    /// Reads the header that `file` begins with.
    pub fn read(file: &[u8]) -> Option<Self> {
        let (is_big_endian, packet_header_bytes, fraction_ns) = kind(file)?;
        Some(Self {
            is_big_endian,
            packet_header_bytes,
            fraction_ns,
            network: number(file, FILE_HEADER_BYTES - 4, is_big_endian)?,
        })
    }

    /// Reads the header of the packet that `rest` begins with, if all of its bytes are there.
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
