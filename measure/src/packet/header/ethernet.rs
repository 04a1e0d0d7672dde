//! Ethernet (IEEE 802.3, 3.2).

use super::{get, put};

/// Bytes of the header.
pub const BYTES: usize = 14;
/// Least payload: shorter ones are padded.
pub const PAYLOAD_BYTES_MIN: usize = 46;
/// Shortest frame, without its check sequence.
pub const FRAME_BYTES_MIN: usize = BYTES + PAYLOAD_BYTES_MIN;

/// Where the fields are.
pub mod field {
    use crate::packet::header::Field;

    /// MAC address of the receiver.
    pub const DESTINATION: Field = 0..6;
    /// MAC address of the sender.
    pub const SOURCE: Field = 6..12;
    /// Type of the payload, or its length.
    pub const ETHERTYPE: Field = 12..14;
}

/// A whole header.
#[derive(Debug, Clone, Copy)]
pub struct Header<'h>(&'h [u8; BYTES]);

impl<'h> Header<'h> {
    /// The header of a frame that begins with `head`, if it is whole.
    #[inline]
    pub fn of(head: &'h [u8]) -> Option<Self> {
        head.first_chunk().map(Self)
    }

    /// MAC address of the receiver.
    #[inline]
    pub fn destination(self) -> [u8; 6] {
        get(self.0, field::DESTINATION)
    }

    /// MAC address of the sender.
    #[inline]
    pub fn source(self) -> [u8; 6] {
        get(self.0, field::SOURCE)
    }

    /// Type of the payload, or its length.
    #[inline]
    pub fn ethertype(self) -> u16 {
        u16::from_be_bytes(get(self.0, field::ETHERTYPE))
    }
}

/// What a header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// MAC address of the receiver.
    pub destination: [u8; 6],
    /// MAC address of the sender.
    pub source: [u8; 6],
    /// Type of the payload, or its length.
    pub ethertype: u16,
}

impl Repr {
    /// The header.
    #[inline]
    pub fn emit(&self) -> [u8; BYTES] {
        let mut header = [0; BYTES];
        put(&mut header, field::DESTINATION, self.destination);
        put(&mut header, field::SOURCE, self.source);
        put(&mut header, field::ETHERTYPE, self.ethertype.to_be_bytes());
        header
    }
}
