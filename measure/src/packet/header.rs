//! Header formats, all in one style: field ranges as constants; a view of a complete header (`Header`),
//! whose accessors cannot fail; and, for frames generated here, a plain struct (`Repr`) that emits bytes.
//!
//! ```
//! use measure::packet::header::{checksum::Sum, ethernet, ethertype, ipv4, protocol, udp};
//!
//! let payload = b"hello";
//! let udp = udp::Repr::new(1024, 7, payload.len());
//! let [here, there] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(Into::into);
//! let ip = ipv4::Repr::new(here, there, protocol::UDP, udp::BYTES + payload.len());
//! let ethernet = ethernet::Repr {
//!     destination: [2, 0, 0, 0, 0, 2],
//!     source: [2, 0, 0, 0, 0, 1],
//!     ethertype: ethertype::IPV4,
//! };
//! let mut segment = [&udp.emit()[..], payload].concat();
//! udp::set_checksum(&mut segment, ip.pseudo_header());
//! let frame = [&ethernet.emit()[..], &ip.emit(), &segment].concat();
//!
//! let ip = ipv4::Header::at(&frame, ethernet::BYTES).unwrap();
//! assert_eq!((ip.protocol(), ip.destination()), (protocol::UDP, there));
//! assert_eq!(Sum::default().add(&frame[14..34]).finish(), 0, "a right checksum");
//! ```

use std::ops::Range;

pub mod ethernet;
pub mod ipv4;
pub mod ipv6;
pub mod tcp;
pub mod udp;
pub mod vlan;

/// Position of a field in its header.
pub type Field = Range<usize>;

/// Ethertypes (IEEE registry).
pub mod ethertype {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// ARP.
    pub const ARP: u16 = 0x0806;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// MPLS.
    pub const MPLS: u16 = 0x8847;
    /// MPLS with upstream-assigned labels.
    pub const MPLS_MULTICAST: u16 = 0x8848;
    /// A VLAN tag (IEEE 802.1Q).
    pub const VLAN: u16 = 0x8100;
    /// A service tag (IEEE 802.1ad).
    pub const QINQ: u16 = 0x88a8;
    /// A service tag before IEEE 802.1ad.
    pub const QINQ_OLD: u16 = 0x9100;
    /// MAC control, such as PAUSE.
    pub const MAC_CONTROL: u16 = 0x8808;
    /// LLDP (IEEE 802.1AB).
    pub const LLDP: u16 = 0x88cc;
    /// Smaller values are lengths of LLC frames (IEEE 802.3, 3.2.6).
    pub const MIN: u16 = 0x0600;
}

/// Protocol numbers (IANA, "Assigned Internet Protocol Numbers").
pub mod protocol {
    /// Hop-by-hop options of IPv6.
    pub const HOP_BY_HOP: u8 = 0;
    /// ICMP.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// Routing header of IPv6.
    pub const ROUTING: u8 = 43;
    /// Fragment header of IPv6.
    pub const FRAGMENT: u8 = 44;
    /// Authentication header.
    pub const AUTHENTICATION: u8 = 51;
    /// `ICMPv6`.
    pub const ICMPV6: u8 = 58;
    /// Destination options of IPv6.
    pub const DESTINATION_OPTIONS: u8 = 60;
    /// SCTP.
    pub const SCTP: u8 = 132;
    /// Mobility header of IPv6.
    pub const MOBILITY: u8 = 135;
    /// Host identity protocol.
    pub const HIP: u8 = 139;
    /// Shim6.
    pub const SHIM6: u8 = 140;
}

/// The Internet checksum (RFC 1071).
pub mod checksum {
    /// A sum of big-endian 16-bit words; up to 65,535 bytes cannot overflow it.
    #[derive(Debug, Clone, Copy, Default)]
    pub struct Sum(u32);

    impl Sum {
        /// Adds `bytes`; an odd last byte is padded with zero.
        #[inline]
        #[must_use]
        #[expect(clippy::should_implement_trait, reason = "bytes are no sum")]
        pub fn add(self, bytes: &[u8]) -> Self {
            let (words, odd) = bytes.as_chunks::<2>();
            let odd = odd.first().map_or(0, |&byte| u32::from(byte) << 8);
            Self(words.iter().fold(self.0 + odd, |sum, &word| {
                sum + u32::from(u16::from_be_bytes(word))
            }))
        }

        /// Adds one word.
        #[inline]
        #[must_use]
        pub fn add_word(self, word: u16) -> Self {
            Self(self.0 + u32::from(word))
        }

        /// Part of the IP header that TCP and UDP add (RFC 9293, 3.1; RFC 8200, 8.1): both addresses, the
        /// protocol, and the length of the segment.
        #[inline]
        pub fn pseudo_header(addresses: &[u8], protocol: u8, segment_bytes: u16) -> Self {
            Self::default()
                .add(addresses)
                .add_word(protocol.into())
                .add_word(segment_bytes)
        }

        /// The checksum; 0 over a header or segment that contains the right one.
        #[inline]
        #[expect(clippy::cast_possible_truncation, reason = "folded to 16 bits")]
        pub fn finish(self) -> u16 {
            let folded = (self.0 & 0xffff) + (self.0 >> 16);
            !((folded & 0xffff) + (folded >> 16)) as u16
        }
    }
}

/// ICMP (RFC 792) and `ICMPv6` (RFC 4443, 2.1), as far as needed here.
pub mod icmp {
    /// Bytes of the header, including the four bytes that depend on the type.
    pub const BYTES: usize = 8;
}

/// MPLS labels (RFC 3032, 2.1).
pub mod mpls {
    use super::ethertype;

    /// Bytes of a label stack entry.
    pub const BYTES: usize = 4;

    /// Whether a label follows this ethertype.
    pub const fn is_label(ethertype: u16) -> bool {
        matches!(ethertype, ethertype::MPLS | ethertype::MPLS_MULTICAST)
    }

    /// A label stack entry: one word, most significant bits first: label (20 bits), traffic class (3), bottom of
    /// stack (1), time to live (8).
    #[derive(Debug, Clone, Copy)]
    pub struct Header(u32);

    impl Header {
        /// The entry at `at`, if it is whole.
        pub fn at(bytes: &[u8], at: usize) -> Option<Self> {
            let word = bytes.get(at..)?.first_chunk()?;
            Some(Self(u32::from_be_bytes(*word)))
        }

        /// Whether it is the last of the stack.
        pub const fn is_bottom(self) -> bool {
            self.0 & 0x100 != 0
        }
    }
}

/// SCTP's common header (RFC 9260, 3.1), as far as needed here.
pub mod sctp {
    /// Bytes of the header.
    pub const BYTES: usize = 12;

    /// Positions of the fields.
    pub mod field {
        use crate::packet::header::Field;

        /// Port of the sender.
        pub const SOURCE_PORT: Field = 0..2;
        /// Port of the receiver.
        pub const DESTINATION_PORT: Field = 2..4;
        /// Verification tag.
        pub const TAG: Field = 4..8;
    }
}

/// The `N` bytes of a field.
#[inline]
fn get<const N: usize>(header: &[u8], field: Field) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&header[field]);
    bytes
}

/// Writes a field of this length.
#[inline]
fn put<const N: usize>(header: &mut [u8], field: Field, bytes: [u8; N]) {
    header[field].copy_from_slice(&bytes);
}

/// A length field; lengths that do not fit, which no packet has, are saturated.
fn length_field(bytes: usize) -> u16 {
    let length = u16::try_from(bytes);
    debug_assert!(length.is_ok(), "no packet is that long: {bytes}");
    length.unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests;
