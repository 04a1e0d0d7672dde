//! Flow keys: the fields that identify a flow, for people and for hashing.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use super::dissect::Dissected;
use super::header::protocol;
use super::words::{Pair, le_pair};

/// A flow: a 5-tuple of IPv4 or IPv6, or the MAC addresses and VLAN of frames without IP.
///
/// A key has a direction: replies belong to another flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlowKey {
    /// IP.
    Ip(FiveTuple),
    /// Frames without complete IP headers.
    Ethernet {
        /// Source MAC address.
        source: [u8; 6],
        /// Destination MAC address.
        destination: [u8; 6],
        /// Outermost VLAN id, 0 to 4095; 0 for untagged frames, as in IEEE 802.1Q.
        vlan: u16,
        /// Ethertype behind the tags (0x8847 or 0x8848 for MPLS), or the length of an LLC frame.
        ethertype: u16,
    },
}

/// Addresses, ports and protocol of an IP flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FiveTuple {
    /// Source address.
    pub source: IpAddr,
    /// Destination address, of the same family.
    pub destination: IpAddr,
    /// Source port; 0 in fragments and for protocols without ports.
    pub source_port: u16,
    /// Destination port, likewise.
    pub destination_port: u16,
    /// Protocol number (IANA); for IPv6 the one behind the extension headers.
    pub protocol: u8,
}

impl FlowKey {
    /// The 5-tuple of an IP flow; `None` for any other.
    pub fn five_tuple(&self) -> Option<FiveTuple> {
        match *self {
            Self::Ip(ip) => Some(ip),
            Self::Ethernet { .. } => None,
        }
    }

    /// The flow of a frame, from its first segment. Any bytes have a flow: missing bytes of an Ethernet
    /// header count as 0.
    pub fn parse(head: &[u8]) -> Self {
        Dissected::of(head, 0).key
    }
}

/// The word with the fields of a 5-tuple other than the addresses, as far as they fit: the protocol in byte
/// 1, and four other bytes in the upper half.
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
    /// The key used by the packet hash: without the VLAN, which hops rewrite.
    pub(super) fn without_vlan(mut self) -> Self {
        if let Self::Ethernet { vlan, .. } = &mut self {
            *vlan = 0;
        }
        self
    }

    /// Input of the hashes: three pairs; only the first `.1` are used.
    pub(super) fn pairs(&self) -> ([Pair; 3], usize) {
        match *self {
            Self::Ip(ip) => {
                let ports = ports_word(ip.source_port, ip.destination_port);
                let (IpAddr::V4(source), IpAddr::V4(destination)) = (ip.source, ip.destination)
                else {
                    let [source, destination] = [ip.source, ip.destination]
                        .map(|address| le_pair(&v6(address).octets(), 0));
                    let pairs = [
                        (source.0, protocol_word(ip.protocol, ports)),
                        (source.1, destination.0),
                        (destination.1, 0),
                    ];
                    return (pairs, 3);
                };
                // Bytes 8 to 15 and 16 to 23 of a packet without options, except TTL and checksum.
                let source = u32::from_le_bytes(source.octets());
                let destination = u32::from_le_bytes(destination.octets());
                let first = protocol_word(ip.protocol, source);
                let second = u64::from(destination) | u64::from(ports) << 32;
                ([(first, second), (0, 0), (0, 0)], 1)
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

fn v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
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
        let ip = match *self {
            Self::Ip(ip) => ip,
            Self::Ethernet {
                source,
                destination,
                vlan,
                ethertype,
            } => {
                let (source, destination) = (MacName(source), MacName(destination));
                write!(f, "{source}>{destination}/{ethertype:#06x}")?;
                return match vlan {
                    0 => Ok(()),
                    vlan => write!(f, "/vlan{vlan}"),
                };
            }
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

/// A protocol by its usual name, or else its number.
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

/// Why a text is not a flow key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlowKeyError {
    /// Not two ends and a protocol.
    #[error(
        "expected SOURCE>DESTINATION/PROTOCOL, such as 10.0.0.1:1024>10.0.0.2:80/tcp, got {0:?}"
    )]
    Form(String),
    /// An end is not an address.
    #[error(
        "expected an address, such as 10.0.0.1:80, [fd00::1]:80 or 02:00:00:00:00:01, got {0:?}"
    )]
    Address(String),
    /// The ends are of different kinds.
    #[error("expected two addresses of one kind, both with a port or both without, got {0:?}")]
    Mixed(String),
    /// An unknown protocol.
    #[error("expected tcp, udp, sctp, icmp, icmpv6 or a number from 0 to 255, got {0:?}")]
    Protocol(String),
    /// MAC addresses without an ethertype.
    #[error("expected an ethertype, and a VLAN if there is one, such as 0x0806/vlan7, got {0:?}")]
    Ethertype(String),
}

impl FromStr for FlowKey {
    type Err = FlowKeyError;

    /// Parses a key in its displayed form. Ports may be omitted if both are 0, and a named protocol may be
    /// given by number.
    fn from_str(text: &str) -> Result<Self, FlowKeyError> {
        let form = || FlowKeyError::Form(text.to_owned());
        let (ends, rest) = text.split_once('/').ok_or_else(form)?;
        let (source, destination) = ends.split_once('>').ok_or_else(form)?;
        if let Some(source) = mac(source) {
            let unknown = || FlowKeyError::Address(destination.to_owned());
            let destination = mac(destination).ok_or_else(unknown)?;
            let unknown = || FlowKeyError::Ethertype(rest.to_owned());
            let (ethertype, vlan) = tags(rest).ok_or_else(unknown)?;
            return Ok(Self::Ethernet {
                source,
                destination,
                vlan,
                ethertype,
            });
        }
        let end = |text: &str| end(text).ok_or_else(|| FlowKeyError::Address(text.to_owned()));
        let (source, source_port) = end(source)?;
        let (destination, destination_port) = end(destination)?;
        let mixed = || FlowKeyError::Mixed(ends.to_owned());
        if source_port.is_some() != destination_port.is_some() {
            return Err(mixed());
        }
        let source_port = source_port.unwrap_or(0);
        let destination_port = destination_port.unwrap_or(0);
        let protocol =
            protocol_number(rest).ok_or_else(|| FlowKeyError::Protocol(rest.to_owned()))?;
        if source.is_ipv4() != destination.is_ipv4() {
            return Err(mixed());
        }
        Ok(Self::Ip(FiveTuple {
            source,
            destination,
            source_port,
            destination_port,
            protocol,
        }))
    }
}

/// `10.0.0.1`, `10.0.0.1:80`, `[fd00::1]` or `[fd00::1]:80`.
fn end(text: &str) -> Option<(IpAddr, Option<u16>)> {
    if let Some(text) = text.strip_prefix('[') {
        let (address, rest) = text.split_once(']')?;
        let port = match rest {
            "" => None,
            rest => Some(number(rest.strip_prefix(':')?)?),
        };
        return Some((IpAddr::V6(address.parse().ok()?), port));
    }
    let (address, port) = match text.split_once(':') {
        Some((address, port)) => (address, Some(number(port)?)),
        None => (text, None),
    };
    Some((IpAddr::V4(address.parse::<Ipv4Addr>().ok()?), port))
}

fn protocol_number(text: &str) -> Option<u8> {
    let named = PROTOCOLS.iter().find(|(_, name)| *name == text);
    named.map(|(number, _)| *number).or_else(|| number(text))
}

/// `0x0806` or `0x0806/vlan7`.
fn tags(text: &str) -> Option<(u16, u16)> {
    let (ethertype, vlan) = match text.split_once('/') {
        Some((ethertype, vlan)) => (ethertype, number(vlan.strip_prefix("vlan")?)?),
        None => (text, 0),
    };
    let digits = ethertype.strip_prefix("0x")?;
    let is_whole = digits.len() == 4 && is_hexadecimal(digits) && vlan < 4_096;
    let ethertype = u16::from_str_radix(digits, 16).ok()?;
    is_whole.then_some((ethertype, vlan))
}

/// `02:00:00:00:00:01`.
fn mac(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut bytes = text.split(':');
    for to in &mut mac {
        let digits = bytes.next().filter(|digits| digits.len() == 2)?;
        let byte = is_hexadecimal(digits).then_some(digits)?;
        *to = u8::from_str_radix(byte, 16).ok()?;
    }
    bytes.next().is_none().then_some(mac)
}

/// Digits only; the standard library would accept a sign.
fn number<T: FromStr>(text: &str) -> Option<T> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_key() -> impl Strategy<Value = FlowKey> {
        let port = || prop_oneof![Just(0), any::<u16>()];
        let protocol = || prop_oneof![Just(6), Just(17), Just(1), Just(58), any::<u8>()];
        // Addresses with runs of zeros or embedded IPv4 have forms of their own.
        let v6 = || {
            prop_oneof![
                any::<u128>(),
                any::<u32>().prop_map(u128::from),
                any::<u32>().prop_map(|v4| 0xffff << 32 | u128::from(v4))
            ]
        };
        let v4 = any::<[u32; 2]>().prop_map(|ends| ends.map(|end| IpAddr::V4(end.into())));
        let v6 = [v6(), v6()].prop_map(|ends| ends.map(|end| IpAddr::V6(end.into())));
        let ip = (prop_oneof![v4, v6], port(), port(), protocol()).prop_map(
            |([source, destination], source_port, destination_port, protocol)| {
                FlowKey::Ip(FiveTuple {
                    source,
                    destination,
                    source_port,
                    destination_port,
                    protocol,
                })
            },
        );
        let vlan = prop_oneof![Just(0), 0..4_096_u16];
        let ethernet = (any::<[[u8; 6]; 2]>(), vlan, any::<u16>()).prop_map(
            |([source, destination], vlan, ethertype)| FlowKey::Ethernet {
                source,
                destination,
                vlan,
                ethertype,
            },
        );
        prop_oneof![2 => ip, 1 => ethernet]
    }

    proptest! {
        #[test]
        fn a_key_that_is_shown_is_read_again(key in any_key()) {
            prop_assert_eq!(key.to_string().parse(), Ok(key));
        }

        /// A text that parses gives a key that can be displayed and parsed again.
        #[test]
        fn any_text_is_a_key_or_an_error(
            text in prop_oneof!["\\PC*", "[0-9a-f.:>/\\[\\]+x]{0,40}"],
        ) {
            if let Ok(key) = text.parse::<FlowKey>() {
                prop_assert_eq!(key.to_string().parse(), Ok(key));
            }
        }

        #[test]
        fn a_key_with_a_wrong_character_is_never_a_panic(
            key in any_key(),
            at in any::<prop::sample::Index>(),
            wrong in any::<char>(),
        ) {
            let mut text: Vec<char> = key.to_string().chars().collect();
            let at = at.index(text.len());
            text[at] = wrong;
            let _ = text.into_iter().collect::<String>().parse::<FlowKey>();
        }
    }

    #[test]
    fn other_ways_to_write_a_key_are_understood() {
        for (text, shown) in [
            ("10.0.0.1:1>10.0.0.2:2/6", "10.0.0.1:1>10.0.0.2:2/tcp"),
            ("10.0.0.1:0>10.0.0.2:0/icmp", "10.0.0.1>10.0.0.2/icmp"),
            ("[fd00:0::1]:0>[::]:5/017", "[fd00::1]:0>[::]:5/udp"),
            (
                "02:00:00:00:00:0A>ff:ff:ff:ff:ff:ff/0x0806/vlan0",
                "02:00:00:00:00:0a>ff:ff:ff:ff:ff:ff/0x0806",
            ),
        ] {
            assert_eq!(text.parse::<FlowKey>().unwrap().to_string(), shown);
        }
    }

    #[test]
    fn errors_say_what_was_expected() {
        let error = |text: &str| text.parse::<FlowKey>().unwrap_err().to_string();
        for (text, wanted) in [
            ("", "expected SOURCE>DESTINATION/PROTOCOL"),
            ("10.0.0.1:1-10.0.0.2:2/tcp", "10.0.0.1:1024>10.0.0.2:80/tcp"),
            (
                "10.0.0.1:1>10.0.0.2:2",
                "expected SOURCE>DESTINATION/PROTOCOL",
            ),
            ("10.0.0.256:1>10.0.0.2:2/tcp", "got \"10.0.0.256:1\""),
            ("10.0.0.1:+1>10.0.0.2:2/tcp", "got \"10.0.0.1:+1\""),
            (
                "10.0.0.1>10.0.0.2:2/tcp",
                "both with a port or both without",
            ),
            ("10.0.0.1>[fd00::1]/tcp", "two addresses of one kind"),
            ("fd00::1>fd00::2/tcp", "[fd00::1]:80"),
            ("10.0.0.1>10.0.0.2/ttp", "expected tcp, udp, sctp"),
            ("10.0.0.1>10.0.0.2/256", "got \"256\""),
            ("02:00:00:00:00:01>10.0.0.2/0x0806", "got \"10.0.0.2\""),
            ("02:00:00:00:00:01>02:00:00:00:00:02/tcp", "got \"tcp\""),
            (
                "02:00:00:00:00:01>02:00:00:00:00:02/0x0806/vlan4096",
                "expected an ethertype",
            ),
        ] {
            let error = error(text);
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }
}
