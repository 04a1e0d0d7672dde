//! MPLS labels (RFC 3032, 2.1).

use super::ethertype;

/// Bytes of a label stack entry.
pub const BYTES: usize = 4;

/// Whether a label follows this ethertype.
pub const fn is_label(ethertype: u16) -> bool {
    matches!(ethertype, ethertype::MPLS | ethertype::MPLS_MULTICAST)
}

/// A whole label stack entry: one word, most significant bits first: label (20 bits), traffic class (3), bottom of
/// stack (1), time to live (8).
#[derive(Debug, Clone, Copy)]
pub struct Header(u32);

impl Header {
    /// The entry at `at`, if it is whole.
    pub fn at(bytes: &[u8], at: usize) -> Option<Self> {
        let word = bytes.get(at..)?.first_chunk()?;
        Some(Self(u32::from_be_bytes(*word)))
    }

    /// The label, of 20 bits.
    pub const fn label(self) -> u32 {
        self.0 >> 12
    }

    /// Traffic class, 0 to 7.
    pub const fn traffic_class(self) -> u8 {
        (self.0 >> 9 & 7) as u8
    }

    /// Whether it is the last of the stack.
    pub const fn is_bottom(self) -> bool {
        self.0 & 0x100 != 0
    }

    /// Time to live.
    pub const fn ttl(self) -> u8 {
        self.0.to_be_bytes()[3]
    }
}

/// What a label stack entry says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repr {
    /// The label, of 20 bits.
    pub label: u32,
    /// Traffic class, 0 to 7.
    pub traffic_class: u8,
    /// Whether it is the last of the stack.
    pub is_bottom: bool,
    /// Time to live.
    pub ttl: u8,
}

impl Repr {
    /// Reads an entry.
    pub fn parse(header: Header) -> Self {
        Self {
            label: header.label(),
            traffic_class: header.traffic_class(),
            is_bottom: header.is_bottom(),
            ttl: header.ttl(),
        }
    }

    /// The entry.
    pub fn emit(&self) -> [u8; BYTES] {
        debug_assert!(self.label < 1 << 20 && self.traffic_class < 8);
        let word = self.label << 12
            | u32::from(self.traffic_class) << 9
            | u32::from(self.is_bottom) << 8
            | u32::from(self.ttl);
        word.to_be_bytes()
    }
}
