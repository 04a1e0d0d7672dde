//! IPv4 (RFC 791, 3.1).

use std::net::Ipv4Addr;

use super::checksum::Sum;
use super::{get, length_field, put};

/// Bytes of a header without options.
pub const BYTES: usize = 20;
/// The version.
pub const VERSION: u8 = 4;
/// Flag in the fragment field: must not be fragmented.
pub const DONT_FRAGMENT: u16 = 0x4000;
/// Flag in the fragment field: more fragments follow.
pub const MORE_FRAGMENTS: u16 = 0x2000;
/// Offset of a fragment in units of 8 bytes.
pub const OFFSET_MASK: u16 = 0x1fff;

/// Where the fields are.
pub mod field {
    use crate::packet::header::Field;

    /// Version, and length of the header in words of 32 bits.
    pub const VERSION_AND_WORDS: usize = 0;
    /// DSCP, and ECN in the two lowest bits.
    pub const DSCP_AND_ECN: usize = 1;
    /// Length of the packet with its header.
    pub const TOTAL_BYTES: Field = 2..4;
    /// Identification.
    pub const ID: Field = 4..6;
    /// Flags and offset.
    pub const FRAGMENT: Field = 6..8;
    /// Time to live.
    pub const TTL: usize = 8;
    /// Protocol.
    pub const PROTOCOL: usize = 9;
    /// Checksum of the header.
    pub const CHECKSUM: Field = 10..12;
    /// Sender.
    pub const SOURCE: Field = 12..16;
    /// Receiver.
    pub const DESTINATION: Field = 16..20;
}

/// A header that is whole up to its options.
#[derive(Debug, Clone, Copy)]
pub struct Header<'h>(&'h [u8; BYTES]);

impl<'h> Header<'h> {
    /// The header at `at`, if it is whole up to its options.
    #[inline]
    pub fn at(bytes: &'h [u8], at: usize) -> Option<Self> {
        bytes.get(at..)?.first_chunk().map(Self)
    }

    /// Its bytes without options.
    #[inline]
    pub fn bytes(self) -> &'h [u8; BYTES] {
        self.0
    }

    /// Whether the version is 4, and the header no shorter than the least and no longer than the packet.
    #[inline]
    pub fn is_consistent(self) -> bool {
        self.0[field::VERSION_AND_WORDS] >> 4 == VERSION
            && self.header_bytes() >= BYTES
            && self.total_bytes() >= self.header_bytes()
    }

    /// Length of the header with options.
    #[inline]
    pub fn header_bytes(self) -> usize {
        usize::from(self.0[field::VERSION_AND_WORDS] & 0x0f) * 4
    }

    /// Differentiated services code point, 0 to 63.
    #[inline]
    pub fn dscp(self) -> u8 {
        self.0[field::DSCP_AND_ECN] >> 2
    }

    /// Length of the packet with its header.
    #[inline]
    pub fn total_bytes(self) -> usize {
        u16::from_be_bytes(get(self.0, field::TOTAL_BYTES)).into()
    }

    /// Flags and offset.
    #[inline]
    pub fn fragment(self) -> u16 {
        u16::from_be_bytes(get(self.0, field::FRAGMENT))
    }

    /// Whether it is a part of a datagram, the first one included.
    #[inline]
    pub fn is_fragment(self) -> bool {
        self.fragment() & (MORE_FRAGMENTS | OFFSET_MASK) != 0
    }

    /// Whether it is a part without the transport header.
    #[inline]
    pub fn is_later_fragment(self) -> bool {
        self.fragment() & OFFSET_MASK != 0
    }

    /// Protocol.
    #[inline]
    pub fn protocol(self) -> u8 {
        self.0[field::PROTOCOL]
    }

    /// Sender.
    #[inline]
    pub fn source(self) -> Ipv4Addr {
        get(self.0, field::SOURCE).into()
    }

    /// Receiver.
    #[inline]
    pub fn destination(self) -> Ipv4Addr {
        get(self.0, field::DESTINATION).into()
    }
}

/// What a header without options says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// Length of the packet with its header.
    pub total_bytes: u16,
    /// Identification.
    pub id: u16,
    /// Flags and offset.
    pub fragment: u16,
    /// Time to live.
    pub ttl: u8,
    /// Protocol.
    pub protocol: u8,
    /// Sender.
    pub source: Ipv4Addr,
    /// Receiver.
    pub destination: Ipv4Addr,
}

impl Repr {
    /// A packet with `payload_bytes` after its header, which must not be fragmented.
    #[inline]
    pub fn new(
        source: Ipv4Addr,
        destination: Ipv4Addr,
        protocol: u8,
        payload_bytes: usize,
    ) -> Self {
        Self {
            dscp: 0,
            total_bytes: length_field(BYTES + payload_bytes),
            id: 0,
            fragment: DONT_FRAGMENT,
            ttl: 64,
            protocol,
            source,
            destination,
        }
    }

    /// The header, with its checksum.
    #[inline]
    pub fn emit(&self) -> [u8; BYTES] {
        debug_assert!(self.dscp < 64, "six bits");
        let mut header = [0; BYTES];
        header[field::VERSION_AND_WORDS] = VERSION << 4 | 5;
        header[field::DSCP_AND_ECN] = self.dscp << 2;
        put(
            &mut header,
            field::TOTAL_BYTES,
            self.total_bytes.to_be_bytes(),
        );
        put(&mut header, field::ID, self.id.to_be_bytes());
        put(&mut header, field::FRAGMENT, self.fragment.to_be_bytes());
        header[field::TTL] = self.ttl;
        header[field::PROTOCOL] = self.protocol;
        put(&mut header, field::SOURCE, self.source.octets());
        put(&mut header, field::DESTINATION, self.destination.octets());
        set_checksum(&mut header);
        header
    }

    /// What the transport's checksum adds of this header.
    #[inline]
    pub fn pseudo_header(&self) -> Sum {
        let addresses = [self.source.octets(), self.destination.octets()];
        let segment_bytes = self.total_bytes.saturating_sub(20);
        Sum::pseudo_header(addresses.as_flattened(), self.protocol, segment_bytes)
    }
}

/// Writes the checksum of a header, which may have options.
///
/// # Panics
/// If the header is shorter than [`BYTES`].
#[inline]
pub fn set_checksum(header: &mut [u8]) {
    put(header, field::CHECKSUM, [0, 0]);
    let checksum = Sum::default().add(header).finish();
    put(header, field::CHECKSUM, checksum.to_be_bytes());
}
