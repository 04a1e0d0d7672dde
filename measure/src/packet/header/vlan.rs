//! VLAN tags (IEEE 802.1Q, 9.6): control information, then the ethertype of what follows. The tag's own
//! type is the ethertype before it.

use super::{ethertype, get};

/// Bytes of a tag.
pub const BYTES: usize = 4;
/// Where the outermost tag of a frame begins.
pub const OUTER_AT: usize = super::ethernet::BYTES;

/// Where the fields are.
pub mod field {
    use crate::packet::header::Field;

    /// Type of what follows.
    pub const ETHERTYPE: Field = 2..4;
}

/// Whether a tag follows this ethertype.
#[inline]
pub const fn is_tag(ethertype: u16) -> bool {
    matches!(
        ethertype,
        ethertype::VLAN | ethertype::QINQ | ethertype::QINQ_OLD
    )
}

/// Tag control information.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Control(pub u16);

impl Control {
    const VLAN_MASK: u16 = 0x0fff;

    /// Of the tag at `at`, if at least this much of it is there.
    #[inline]
    pub fn at(bytes: &[u8], at: usize) -> Option<Self> {
        let field = bytes.get(at..)?.first_chunk()?;
        Some(Self(u16::from_be_bytes(*field)))
    }

    /// Priority code point, 0 to 7.
    #[inline]
    pub const fn priority(self) -> u8 {
        (self.0 >> 13) as u8
    }

    /// VLAN id, 0 to 4095; 0 in a priority tag.
    #[inline]
    pub const fn vlan(self) -> u16 {
        self.0 & Self::VLAN_MASK
    }

    /// With another VLAN id, of 12 bits.
    #[inline]
    #[must_use]
    pub const fn with_vlan(self, vlan: u16) -> Self {
        debug_assert!(vlan <= Self::VLAN_MASK, "12 bits");
        Self(self.0 & !Self::VLAN_MASK | vlan)
    }
}

/// A whole tag.
#[derive(Debug, Clone, Copy)]
pub struct Header<'h>(&'h [u8; BYTES]);

impl<'h> Header<'h> {
    /// The tag at `at`, if it is whole.
    #[inline]
    pub fn at(bytes: &'h [u8], at: usize) -> Option<Self> {
        bytes.get(at..)?.first_chunk().map(Self)
    }

    /// Type of what follows.
    #[inline]
    pub fn ethertype(self) -> u16 {
        u16::from_be_bytes(get(self.0, field::ETHERTYPE))
    }
}
