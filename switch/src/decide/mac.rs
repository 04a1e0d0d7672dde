//! MAC addresses (IEEE 802, 8.2), as the bridge compares them.

use contract::fdb::StationKey;
use measure::packet::header::ethernet;

/// An address as a number: the first octet on the wire is the most significant of 48 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MacAddress(u64);

impl MacAddress {
    /// Destination and source of a frame: each the upper six octets of one load of eight.
    #[inline]
    pub(super) fn both(header: &[u8; ethernet::BYTES]) -> (Self, Self) {
        let address = |octets: Option<&[u8; 8]>| {
            Self(octets.map_or(0, |octets| u64::from_be_bytes(*octets) >> 16))
        };
        (address(header.first_chunk()), address(header.last_chunk()))
    }

    /// A group (multicast or broadcast) address: the low bit of the first octet is set.
    #[inline]
    pub fn is_group(self) -> bool {
        self.0 & (1 << 40) != 0
    }

    /// An address that a station can have: neither a group's nor all zeros.
    #[inline]
    pub fn is_station(self) -> bool {
        self.0 != 0 && !self.is_group()
    }

    /// 01:80:C2:00:00:00 to 0F, which bridges do not forward (IEEE 802.1Q table 8-1).
    #[inline]
    pub fn is_link_local(self) -> bool {
        self.0 >> 4 == 0x0180_c200_0000 >> 4
    }

    /// The station of this address in a VLAN.
    #[inline]
    pub fn in_vlan(self, vlan: u16) -> StationKey {
        StationKey::new(vlan, self.0)
    }
}
