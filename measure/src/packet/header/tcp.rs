//! TCP (RFC 9293, 3.1).

use super::checksum::Sum;
use super::put;

/// Bytes of a header without options.
pub const BYTES: usize = 20;

/// Where the fields are.
pub mod field {
    use crate::packet::header::Field;

    /// Port of the sender.
    pub const SOURCE_PORT: Field = 0..2;
    /// Port of the receiver.
    pub const DESTINATION_PORT: Field = 2..4;
    /// Sequence number.
    pub const SEQUENCE: Field = 4..8;
    /// Acknowledgement number.
    pub const ACKNOWLEDGEMENT: Field = 8..12;
    /// Length of the header in words of 32 bits, in the upper four bits.
    pub const WORDS: usize = 12;
    /// Flags.
    pub const FLAGS: usize = 13;
    /// Window.
    pub const WINDOW: Field = 14..16;
    /// Checksum of segment and pseudo-header.
    pub const CHECKSUM: Field = 16..18;
}

/// Flag: the acknowledgement number counts.
pub const ACK: u8 = 0x10;
/// Flag: pass on to the receiver at once.
pub const PSH: u8 = 0x08;

/// A header that is whole up to its options.
#[derive(Debug, Clone, Copy)]
pub struct Header<'h>(&'h [u8; BYTES]);

impl<'h> Header<'h> {
    /// The header at `at`, if it is whole up to its options.
    #[inline]
    pub fn at(bytes: &'h [u8], at: usize) -> Option<Self> {
        bytes.get(at..)?.first_chunk().map(Self)
    }

    /// Length of the header with options; under [`BYTES`] it is malformed.
    #[inline]
    pub fn header_bytes(self) -> usize {
        usize::from(self.0[field::WORDS] >> 4) * 4
    }
}

/// What a header without options says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// Port of the sender.
    pub source_port: u16,
    /// Port of the receiver.
    pub destination_port: u16,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgement number.
    pub acknowledgement: u32,
    /// Flags.
    pub flags: u8,
    /// Window.
    pub window: u16,
}

impl Repr {
    /// The header, with a checksum of 0.
    #[inline]
    pub fn emit(&self) -> [u8; BYTES] {
        let mut header = [0; BYTES];
        put(
            &mut header,
            field::SOURCE_PORT,
            self.source_port.to_be_bytes(),
        );
        put(
            &mut header,
            field::DESTINATION_PORT,
            self.destination_port.to_be_bytes(),
        );
        put(&mut header, field::SEQUENCE, self.sequence.to_be_bytes());
        put(
            &mut header,
            field::ACKNOWLEDGEMENT,
            self.acknowledgement.to_be_bytes(),
        );
        header[field::WORDS] = 5 << 4;
        header[field::FLAGS] = self.flags;
        put(&mut header, field::WINDOW, self.window.to_be_bytes());
        header
    }
}

/// Writes the checksum of a segment: header and payload.
///
/// # Panics
/// If the segment is shorter than [`BYTES`].
#[inline]
pub fn set_checksum(segment: &mut [u8], pseudo_header: Sum) {
    put(segment, field::CHECKSUM, [0, 0]);
    let checksum = pseudo_header.add(segment).finish();
    put(segment, field::CHECKSUM, checksum.to_be_bytes());
}
