//! IPv6 and its extension headers (RFC 8200).

use std::net::Ipv6Addr;

use super::checksum::Sum;
use super::{get, length_field, protocol, put};

/// Bytes of the header.
pub const BYTES: usize = 40;
/// Bytes of the shortest extension header.
pub const EXTENSION_BYTES_MIN: usize = 8;
/// The version.
pub const VERSION: u8 = 6;

/// Where the fields are (RFC 8200, 3).
pub mod field {
    use crate::packet::header::Field;

    /// Version (4 bits), traffic class (8) and flow label (20).
    pub const VERSION_CLASS_LABEL: Field = 0..4;
    /// Bytes after the header.
    pub const PAYLOAD_BYTES: Field = 4..6;
    /// Protocol of the next header.
    pub const NEXT: usize = 6;
    /// Hop limit.
    pub const HOP_LIMIT: usize = 7;
    /// Sender.
    pub const SOURCE: Field = 8..24;
    /// Receiver.
    pub const DESTINATION: Field = 24..40;
}

/// A whole header, without extensions.
#[derive(Debug, Clone, Copy)]
pub struct Header<'h>(&'h [u8; BYTES]);

impl<'h> Header<'h> {
    /// The header at `at`, if it is whole.
    #[inline]
    pub fn at(bytes: &'h [u8], at: usize) -> Option<Self> {
        bytes.get(at..)?.first_chunk().map(Self)
    }

    /// Its bytes.
    #[inline]
    pub fn bytes(self) -> &'h [u8; BYTES] {
        self.0
    }

    #[inline]
    fn version_class_label(self) -> u32 {
        u32::from_be_bytes(get(self.0, field::VERSION_CLASS_LABEL))
    }

    /// Whether the version is 6.
    #[inline]
    pub fn is_consistent(self) -> bool {
        self.version_class_label() >> 28 == u32::from(VERSION)
    }

    /// Differentiated services code point, 0 to 63.
    #[inline]
    pub fn dscp(self) -> u8 {
        (self.version_class_label() >> 22 & 0x3f) as u8
    }

    /// Bytes after the header; `None` in a jumbogram (RFC 2675), which has its length in an option.
    #[inline]
    pub fn payload_bytes(self) -> Option<usize> {
        let bytes = u16::from_be_bytes(get(self.0, field::PAYLOAD_BYTES));
        let is_jumbo = bytes == 0 && self.next() == protocol::HOP_BY_HOP;
        (!is_jumbo).then_some(bytes.into())
    }

    /// Protocol of the next header.
    #[inline]
    pub fn next(self) -> u8 {
        self.0[field::NEXT]
    }

    /// Sender.
    #[inline]
    pub fn source(self) -> Ipv6Addr {
        get::<16>(self.0, field::SOURCE).into()
    }

    /// Receiver.
    #[inline]
    pub fn destination(self) -> Ipv6Addr {
        get::<16>(self.0, field::DESTINATION).into()
    }
}

/// What a header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    /// Flow label, of 20 bits.
    pub flow_label: u32,
    /// Bytes after the header.
    pub payload_bytes: u16,
    /// Protocol of the next header.
    pub next: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Sender.
    pub source: Ipv6Addr,
    /// Receiver.
    pub destination: Ipv6Addr,
}

impl Repr {
    /// A packet with `payload_bytes` after its header.
    #[inline]
    pub fn new(source: Ipv6Addr, destination: Ipv6Addr, next: u8, payload_bytes: usize) -> Self {
        Self {
            dscp: 0,
            flow_label: 0,
            payload_bytes: length_field(payload_bytes),
            next,
            hop_limit: 64,
            source,
            destination,
        }
    }

    /// The header.
    #[inline]
    pub fn emit(&self) -> [u8; BYTES] {
        debug_assert!(self.dscp < 64 && self.flow_label < 1 << 20);
        let mut header = [0; BYTES];
        let first = u32::from(VERSION) << 28 | u32::from(self.dscp) << 22 | self.flow_label;
        put(&mut header, field::VERSION_CLASS_LABEL, first.to_be_bytes());
        let payload_bytes = self.payload_bytes.to_be_bytes();
        put(&mut header, field::PAYLOAD_BYTES, payload_bytes);
        header[field::NEXT] = self.next;
        header[field::HOP_LIMIT] = self.hop_limit;
        put(&mut header, field::SOURCE, self.source.octets());
        put(&mut header, field::DESTINATION, self.destination.octets());
        header
    }

    /// What the transport's checksum adds of this header, which has no extensions.
    #[inline]
    pub fn pseudo_header(&self) -> Sum {
        let addresses = [self.source.octets(), self.destination.octets()];
        Sum::pseudo_header(addresses.as_flattened(), self.next, self.payload_bytes)
    }
}

/// The first eight bytes of an extension header, which is no shorter (RFC 8200, 4; RFC 4302, 2).
#[derive(Debug, Clone, Copy)]
pub struct Extension<'h>(&'h [u8; EXTENSION_BYTES_MIN]);

impl<'h> Extension<'h> {
    /// Whether a protocol number announces an extension header that can be stepped over.
    pub const fn is_announced_by(protocol: u8) -> bool {
        matches!(
            protocol,
            protocol::HOP_BY_HOP
                | protocol::ROUTING
                | protocol::FRAGMENT
                | protocol::AUTHENTICATION
                | protocol::DESTINATION_OPTIONS
                | protocol::MOBILITY
                | protocol::HIP
                | protocol::SHIM6
        )
    }

    /// The beginning of an extension header at `at`, if it is there.
    pub fn at(bytes: &'h [u8], at: usize) -> Option<Self> {
        bytes.get(at..)?.first_chunk().map(Self)
    }

    /// Protocol of the next header.
    pub fn next(self) -> u8 {
        self.0[0]
    }

    /// Length of the extension header that `protocol` announced.
    pub fn bytes(self, protocol: u8) -> usize {
        let length = usize::from(self.0[1]);
        match protocol {
            protocol::FRAGMENT => 8,
            protocol::AUTHENTICATION => (length + 2) * 4,
            _ => (length + 1) * 8,
        }
    }

    /// It as a fragment header.
    pub fn as_fragment(self) -> Fragment {
        Fragment {
            // Without the two reserved bits.
            offset_and_more: u16::from_be_bytes(get(self.0, 2..4)) & 0xfff9,
            id: u32::from_be_bytes(get(self.0, 4..8)),
        }
    }
}

/// What a fragment header says (RFC 8200, 4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// Offset in bytes, a multiple of 8; 1 more where more fragments follow.
    pub offset_and_more: u16,
    /// Identification.
    pub id: u32,
}

impl Fragment {
    /// Whether it is a part of a datagram: offset 0 and no more to come is a whole one (RFC 6946).
    pub const fn is_fragment(self) -> bool {
        self.offset_and_more != 0
    }

    /// Whether it is a part without the transport header.
    pub const fn is_later_fragment(self) -> bool {
        self.offset_and_more >> 3 != 0
    }

    /// The header, before a header of `next`.
    pub fn emit(self, next: u8) -> [u8; EXTENSION_BYTES_MIN] {
        let mut header = [0; EXTENSION_BYTES_MIN];
        header[0] = next;
        put(&mut header, 2..4, self.offset_and_more.to_be_bytes());
        put(&mut header, 4..8, self.id.to_be_bytes());
        header
    }
}
