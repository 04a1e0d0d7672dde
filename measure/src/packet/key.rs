//! Flow keys: the fields that make packets one flow, for people and for hashing.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::dissect::Dissected;
use super::header::protocol;
use super::words::{Pair, le_pair};

mod parse;

pub use parse::FlowKeyError;

/// A flow: a 5-tuple of IPv4 or IPv6, or the Ethernet and VLAN pair of what is not IP.
///
/// A key has a direction: the answers to a flow are another flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlowKey {
    /// IPv4.
    V4 {
        /// Source address.
        source: Ipv4Addr,
        /// Destination address.
        destination: Ipv4Addr,
        /// Source port; 0 in fragments and where the protocol has none.
        source_port: u16,
        /// Destination port; likewise.
        destination_port: u16,
        /// Protocol number (IANA).
        protocol: u8,
    },
    /// IPv6.
    V6 {
        /// Source address.
        source: Ipv6Addr,
        /// Destination address.
        destination: Ipv6Addr,
        /// Source port; 0 in fragments and where the protocol has none.
        source_port: u16,
        /// Destination port; likewise.
        destination_port: u16,
        /// Protocol number (IANA) behind the extension headers.
        protocol: u8,
    },
    /// Anything but whole IP headers.
    Ethernet {
        /// Source MAC address.
        source: [u8; 6],
        /// Destination MAC address.
        destination: [u8; 6],
        /// Outermost VLAN id, 0 to 4095; 0 without a tag, as IEEE 802.1Q means it.
        vlan: u16,
        /// Ethertype behind the tags (0x8847 or 0x8848 for MPLS), or the length of an LLC frame.
        ethertype: u16,
    },
}

/// Addresses, ports and protocol of an IP flow, as in [`FlowKey`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FiveTuple {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Source port.
    pub source_port: u16,
    /// Destination port.
    pub destination_port: u16,
    /// Protocol number (IANA).
    pub protocol: u8,
}

impl FlowKey {
    /// The 5-tuple of an IP flow; `None` of any other.
    pub fn five_tuple(&self) -> Option<FiveTuple> {
        match *self {
            Self::V4 {
                source,
                destination,
                source_port,
                destination_port,
                protocol,
            } => Some(FiveTuple {
                source: source.into(),
                destination: destination.into(),
                source_port,
                destination_port,
                protocol,
            }),
            Self::V6 {
                source,
                destination,
                source_port,
                destination_port,
                protocol,
            } => Some(FiveTuple {
                source: source.into(),
                destination: destination.into(),
                source_port,
                destination_port,
                protocol,
            }),
            Self::Ethernet { .. } => None,
        }
    }

    /// The flow of a frame, from its first segment. Any bytes have one: what is missing of an
    /// Ethernet header counts as 0.
    pub fn parse(head: &[u8]) -> Self {
        Dissected::of(head, 0).key
    }
}

/// The word that holds what a 5-tuple has beside its addresses, as far as it fits: the protocol in
/// byte 1, and four bytes of its own in the upper half.
#[inline]
pub(super) fn protocol_word(protocol: u8, upper: u32) -> u64 {
    u64::from(protocol) << 8 | u64::from(upper) << 32
}

/// Four bytes as on the wire, read little-endian.
fn ports_word(source: u16, destination: u16) -> u32 {
    let ([a, b], [c, d]) = (source.to_be_bytes(), destination.to_be_bytes());
    u32::from_le_bytes([a, b, c, d])
}

impl FlowKey {
    /// The key as the packet hash takes it: hops rewrite the VLAN.
    pub(super) fn without_vlan(mut self) -> Self {
        if let Self::Ethernet { vlan, .. } = &mut self {
            *vlan = 0;
        }
        self
    }

    /// The key as the hashes take it: three pairs; the first `.1` of them are in use.
    pub(super) fn pairs(&self) -> ([Pair; 3], usize) {
        match *self {
            Self::V4 {
                source,
                destination,
                source_port,
                destination_port,
                protocol,
            } => {
                // Bytes 8 to 15 and 16 to 23 of a packet without options, but for TTL and checksum.
                let source = u32::from_le_bytes(source.octets());
                let destination = u32::from_le_bytes(destination.octets());
                let ports = ports_word(source_port, destination_port);
                let first = protocol_word(protocol, source);
                let second = u64::from(destination) | u64::from(ports) << 32;
                ([(first, second), (0, 0), (0, 0)], 1)
            }
            Self::V6 {
                source,
                destination,
                source_port,
                destination_port,
                protocol,
            } => {
                let source = le_pair(&source.octets(), 0);
                let destination = le_pair(&destination.octets(), 0);
                let ports = ports_word(source_port, destination_port);
                let tuple = protocol_word(protocol, ports);
                (
                    [
                        (source.0, tuple),
                        (source.1, destination.0),
                        (destination.1, 0),
                    ],
                    3,
                )
            }
            Self::Ethernet {
                source,
                destination,
                vlan,
                ethertype,
            } => {
                let source = mac_word(source) | u64::from(ethertype) << 48;
                (
                    [(source, vlan.into()), (mac_word(destination), 0), (0, 0)],
                    2,
                )
            }
        }
    }
}

/// A MAC address in the lower 48 bits.
fn mac_word(mac: [u8; 6]) -> u64 {
    mac.iter()
        .rev()
        .fold(0, |word, byte| word << 8 | u64::from(*byte))
}

impl fmt::Display for FlowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Ethernet {
            source,
            destination,
            vlan,
            ethertype,
        } = *self
        {
            let (source, destination) = (MacName(source), MacName(destination));
            write!(f, "{source}>{destination}/{ethertype:#06x}")?;
            if vlan != 0 {
                write!(f, "/vlan{vlan}")?;
            }
        }
        let Some(ip) = self.five_tuple() else {
            return Ok(());
        };
        let has_ports = (ip.source_port, ip.destination_port) != (0, 0);
        let end = |address, port: u16| End {
            address,
            port: has_ports.then_some(port),
        };
        let source = end(ip.source, ip.source_port);
        let destination = end(ip.destination, ip.destination_port);
        write!(f, "{source}>{destination}/{}", ProtocolName(ip.protocol))
    }
}

/// An address with its port, if it has one; IPv6 in brackets.
struct End {
    address: IpAddr,
    port: Option<u16>,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.address, self.port) {
            (address, Some(port)) => SocketAddr::new(address, port).fmt(f),
            (IpAddr::V4(address), None) => address.fmt(f),
            (IpAddr::V6(address), None) => write!(f, "[{address}]"),
        }
    }
}

/// Protocols with a name.
const PROTOCOLS: [(u8, &str); 5] = [
    (protocol::TCP, "tcp"),
    (protocol::UDP, "udp"),
    (protocol::SCTP, "sctp"),
    (protocol::ICMP, "icmp"),
    (protocol::ICMPV6, "icmpv6"),
];

/// A protocol by its usual name, else by its number.
struct ProtocolName(u8);

impl fmt::Display for ProtocolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match PROTOCOLS.iter().find(|(number, _)| *number == self.0) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

struct MacName([u8; 6]);

impl fmt::Display for MacName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, rest @ ..] = self.0;
        write!(f, "{first:02x}")?;
        rest.iter().try_for_each(|byte| write!(f, ":{byte:02x}"))
    }
}
