//! Header formats, each in one shape: its field ranges as constants, a view of a header that is whole
//! (`Header`), whose accessors cannot fail, and a plain struct (`Repr`) that is parsed from a view and
//! emitted as bytes.
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

pub mod checksum;
pub mod ethernet;
pub mod icmp;
pub mod ipv4;
pub mod ipv6;
pub mod mpls;
pub mod sctp;
pub mod tcp;
pub mod udp;
pub mod vlan;

/// Where a field is in its header.
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

/// The bytes of a field, which has `N`.
#[inline]
fn get<const N: usize>(header: &[u8], field: Field) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&header[field]);
    bytes
}

/// Writes a field, which has as many bytes.
#[inline]
fn put<const N: usize>(header: &mut [u8], field: Field, bytes: [u8; N]) {
    header[field].copy_from_slice(&bytes);
}

/// A length as a header holds it; longer ones, which no packet has, as the largest.
fn length_field(bytes: usize) -> u16 {
    let length = u16::try_from(bytes);
    debug_assert!(length.is_ok(), "no packet is that long: {bytes}");
    length.unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests;
