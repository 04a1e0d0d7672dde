//! UDP (RFC 768).

use super::checksum::Sum;
use super::{get, length_field, put};

/// Bytes of the header.
pub const BYTES: usize = 8;

/// Where the fields are.
pub mod field {
    use crate::packet::header::Field;

    /// Port of the sender.
    pub const SOURCE_PORT: Field = 0..2;
    /// Port of the receiver.
    pub const DESTINATION_PORT: Field = 2..4;
    /// Length of header and payload.
    pub const LENGTH: Field = 4..6;
    /// Checksum of datagram and pseudo-header; 0 where there is none.
    pub const CHECKSUM: Field = 6..8;
}

/// A whole header.
#[derive(Debug, Clone, Copy)]
pub struct Header<'h>(&'h [u8; BYTES]);

impl<'h> Header<'h> {
    /// The header at `at`, if it is whole.
    #[inline]
    pub fn at(bytes: &'h [u8], at: usize) -> Option<Self> {
        bytes.get(at..)?.first_chunk().map(Self)
    }

    /// Port of the receiver.
    #[inline]
    pub fn destination_port(self) -> u16 {
        u16::from_be_bytes(get(self.0, field::DESTINATION_PORT))
    }

    /// Length of header and payload.
    #[inline]
    pub fn length_bytes(self) -> usize {
        u16::from_be_bytes(get(self.0, field::LENGTH)).into()
    }
}

/// What a header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Port of the sender.
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
    /// Length of header and payload.
    pub length_bytes: u16,
}

impl Repr {
    /// A datagram with `payload_bytes` after its header.
    #[inline]
    pub fn new(source_port: u16, destination_port: u16, payload_bytes: usize) -> Self {
        Self {
            source_port,
            destination_port,
            length_bytes: length_field(BYTES + payload_bytes),
        }
    }

    /// The header, with no checksum (0), as IPv4 allows.
    #[inline]
    pub fn emit(&self) -> [u8; BYTES] {
        let mut header = [0; BYTES];
        let ports = [self.source_port, self.destination_port].map(u16::to_be_bytes);
        put(&mut header, field::SOURCE_PORT, ports[0]);
        put(&mut header, field::DESTINATION_PORT, ports[1]);
        put(&mut header, field::LENGTH, self.length_bytes.to_be_bytes());
        header
    }
}

/// Writes the checksum of a datagram: header and payload.
///
/// # Panics
/// If the datagram is shorter than [`BYTES`].
#[inline]
pub fn set_checksum(datagram: &mut [u8], pseudo_header: Sum) {
    put(datagram, field::CHECKSUM, [0, 0]);
    let checksum = match pseudo_header.add(datagram).finish() {
        // 0 would mean that there is none.
        0 => u16::MAX,
        checksum => checksum,
    };
    put(datagram, field::CHECKSUM, checksum.to_be_bytes());
}
