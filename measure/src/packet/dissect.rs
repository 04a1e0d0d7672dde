//! Header by header through any frame.

use std::net::IpAddr;
use std::ops::Range;

use super::Kind;
use super::header::{ethernet, ethertype, icmp, ipv6, mpls, protocol, sctp, tcp, udp, vlan};
use super::key::{FiveTuple, FlowKey};
use super::walk::{self, Content, EXTENSION_HEADERS_MAX, Link, Upper};
use super::words::{Pair, be16, le_pair, le64};

/// Bytes hashed of a frame without IP: as many as of an IP payload.
const OTHER_WINDOW_BYTES: usize = 16;
/// Offset of the hashed bytes in a fragment, so that a first fragment's transport checksum is not among
/// them.
const FRAGMENT_SKIP_BYTES: usize = 20;

/// Length, identification and fragment field, of the first eight bytes of an IPv4 header.
#[inline]
pub(super) const fn ipv4_unchanged(first: u64) -> u64 {
    first >> 16
}

/// All but the traffic class and the hop limit, of the first eight bytes of an IPv6 header.
#[inline]
pub(super) const fn ipv6_unchanged(first: u64) -> u64 {
    first & u64::from_le_bytes([0xf0, 0x0f, 0xff, 0xff, 0xff, 0xff, 0xff, 0])
}

/// A frame, after all of its headers.
#[derive(Debug, Clone)]
pub(super) struct Dissected {
    pub kind: Kind,
    pub key: FlowKey,
    /// Fields that identify the packet within its flow, in addition to the payload: words of two headers.
    pub identity: Pair,
    /// Range of the hashed bytes of payload in the head.
    pub payload: Range<usize>,
}

impl Dissected {
    /// Parses a frame. `frame_len` only matters for frames without IP.
    pub fn of(head: &[u8], frame_len: u32) -> Self {
        let link = Link::of(head);
        let ip = match link.content {
            Content::Ipv4 => Self::of_ipv4(head, link.at),
            Content::Ipv6 => Self::of_ipv6(head, link.at),
            Content::Other(kind) => Err(kind),
        };
        ip.unwrap_or_else(|kind| {
            // A pseudowire without control word may begin with any nibble (RFC 4928).
            let is_pseudowire = kind == Kind::Malformed && mpls::is_label(link.ethertype);
            let kind = if is_pseudowire { Kind::NonIp } else { kind };
            Self::of_link(head, frame_len, &link, kind)
        })
    }

    /// A frame identified by its MAC addresses; missing bytes count as 0.
    fn of_link(head: &[u8], frame_len: u32, link: &Link, kind: Kind) -> Self {
        let address = |field: Range<usize>| {
            std::array::from_fn(|n| head.get(field.start + n).copied().unwrap_or(0))
        };
        let payload_bytes = (frame_len as usize)
            .saturating_sub(link.at)
            .max(ethernet::PAYLOAD_BYTES_MIN);
        let is_llc = link.ethertype < ethertype::MIN;
        let announced_bytes = if is_llc {
            usize::from(link.ethertype)
        } else {
            usize::MAX
        };
        Self {
            kind,
            key: FlowKey::Ethernet {
                source: address(ethernet::field::SOURCE),
                destination: address(ethernet::field::DESTINATION),
                vlan: link.tag.map_or(0, vlan::Control::vlan),
                ethertype: link.ethertype,
            },
            identity: (payload_bytes as u64, 0),
            payload: link.at..link.at + announced_bytes.min(OTHER_WINDOW_BYTES),
        }
    }

    /// A frame with an IPv4 packet at `at`, or the kind of a frame with a bad header.
    fn of_ipv4(head: &[u8], at: usize) -> Result<Self, Kind> {
        let (header, upper) = walk::ipv4(head, at)?;
        let transport = if header.is_fragment() {
            Transport::of_fragment(&upper)
        } else {
            Transport::of(&upper, header.protocol())
        };
        let ends = (header.source().into(), header.destination().into());
        let unchanged = ipv4_unchanged(le_pair(header.bytes(), 0).0);
        let protocol = header.protocol();
        Ok(Self::of_ip(&upper, ends, protocol, unchanged, &transport))
    }

    /// A frame with an IPv6 packet at `at`, or the kind of a frame with a bad header.
    fn of_ipv6(head: &[u8], at: usize) -> Result<Self, Kind> {
        let (header, mut upper) = walk::ipv6(head, at)?;
        let mut protocol = header.next();
        let transport = match step_over_extensions(&mut upper, &mut protocol) {
            Ok(None) => Transport::of(&upper, protocol),
            // The rest may be from the middle of anything.
            Ok(Some(fragment)) => Transport {
                word: fragment,
                ..Transport::of_fragment(&upper)
            },
            Err(kind) => Transport::none(kind, upper.stop()),
        };
        let ends = (header.source().into(), header.destination().into());
        let unchanged = ipv6_unchanged(le_pair(header.bytes(), 0).0);
        Ok(Self::of_ip(&upper, ends, protocol, unchanged, &transport))
    }

    fn of_ip(
        upper: &Upper<'_>,
        (source, destination): (IpAddr, IpAddr),
        protocol: u8,
        header: u64,
        transport: &Transport,
    ) -> Self {
        Self {
            kind: transport.kind,
            key: FlowKey::Ip(FiveTuple {
                source,
                destination,
                source_port: transport.source_port,
                destination_port: transport.destination_port,
                protocol,
            }),
            identity: (header, transport.word),
            payload: transport.payload..upper.stop(),
        }
    }
}

/// Skips the extension headers that begin with `protocol`, up to a fragment header, whose word it returns;
/// `protocol` is updated to the next header.
fn step_over_extensions(upper: &mut Upper<'_>, protocol: &mut u8) -> Result<Option<u64>, Kind> {
    for _ in 0..EXTENSION_HEADERS_MAX {
        let Some(extension) = upper.step(*protocol)? else {
            break;
        };
        let announced = std::mem::replace(protocol, extension.next());
        if announced == protocol::FRAGMENT {
            let ipv6::Fragment {
                offset_and_more,
                id,
            } = extension.as_fragment();
            if offset_and_more != 0 {
                return Ok(Some(u64::from(offset_and_more) << 32 | u64::from(id)));
            }
        }
    }
    Ok(None)
}

/// Result of parsing a transport header.
struct Transport {
    kind: Kind,
    source_port: u16,
    destination_port: u16,
    /// Fields that identify the packet.
    word: u64,
    /// Where the hashed payload begins.
    payload: usize,
}

impl Transport {
    /// No ports, only payload.
    fn none(kind: Kind, payload: usize) -> Self {
        Self {
            kind,
            source_port: 0,
            destination_port: 0,
            word: 0,
            payload,
        }
    }

    fn of_fragment(upper: &Upper<'_>) -> Self {
        Self::none(Kind::Fragment, upper.at + FRAGMENT_SKIP_BYTES)
    }

    fn of(upper: &Upper<'_>, protocol: u8) -> Self {
        let (kind, bytes_min) = match protocol {
            protocol::TCP => (Kind::Tcp, tcp::BYTES),
            protocol::UDP => (Kind::Udp, udp::BYTES),
            protocol::SCTP => (Kind::Sctp, sctp::BYTES),
            protocol::ICMP | protocol::ICMPV6 => (Kind::Icmp, icmp::BYTES),
            _ => return Self::none(Kind::OtherIp, upper.at),
        };
        if !upper.has(bytes_min) {
            return Self::none(upper.cut_kind(bytes_min), upper.stop());
        }
        // Complete, except for options.
        let header = upper.head.get(upper.at..).unwrap_or_default();
        // The fields of TCP, UDP and SCTP; ICMP has none.
        let port = |field: Range<usize>| match kind {
            Kind::Icmp => 0,
            _ => be16(header, field.start).unwrap_or_default(),
        };
        let long = |at| le64(header, at).unwrap_or_default();
        let word = match kind {
            // Sequence and acknowledgement numbers.
            Kind::Tcp => long(tcp::field::SEQUENCE.start),
            // Without the checksum behind it.
            Kind::Sctp => long(sctp::field::TAG.start) & 0xffff_ffff,
            // Type, code and rest of header, without the checksum between them.
            Kind::Icmp => long(0) & 0xffff_ffff_0000_ffff,
            _ => 0,
        };
        let header_bytes = match (kind, tcp::Header::at(header, 0)) {
            (Kind::Tcp, Some(tcp)) => tcp.header_bytes(),
            _ => bytes_min,
        };
        let kind = if header_bytes < bytes_min {
            Kind::Malformed
        } else if !upper.has(header_bytes) {
            upper.cut_kind(header_bytes)
        } else {
            kind
        };
        Self {
            kind,
            source_port: port(udp::field::SOURCE_PORT),
            destination_port: port(udp::field::DESTINATION_PORT),
            word,
            payload: upper.at + header_bytes.max(bytes_min),
        }
    }
}
