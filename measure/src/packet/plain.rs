//! The fast path: most packets, at fixed offsets.
#![expect(
    clippy::inline_always,
    reason = "bounds are checked once only where it is all one function"
)]

use std::hint::select_unpredictable;
use std::ops::Range;

use super::dissect::{ipv4_unchanged, ipv6_unchanged};
use super::hash::Hasher;
use super::header::{ethernet, ethertype, ipv4, ipv6, protocol, tcp, vlan};
use super::key::protocol_word;
use super::words::{Pair, be16, chunk, first_16, le_pair, le32, le64};
use super::{Kind, PacketHash, Parsed};

/// Length of a header by its protocol and by the field that would be TCP's data offset (RFC 9293, RFC 768);
/// for an invalid header, more than any packet has. A table instead of branches, because TCP and UDP are
/// mixed unpredictably.
static HEADER_BYTES: [[u32; 16]; 256] = {
    let mut lengths = [[NONE; 16]; 256];
    lengths[protocol::TCP as usize] = [
        NONE, NONE, NONE, NONE, NONE, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60,
    ];
    lengths[protocol::UDP as usize] = [8; 16];
    lengths
};
const NONE: u32 = u32::MAX;
const TCP: u8 = protocol::TCP;

/// Mask for bytes 8 to 15 of an IPv4 header: protocol and source address, without TTL and checksum.
const PROTOCOL_AND_SOURCE: u64 = u64::from_le_bytes([0, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff]);

/// Mask for bytes 0 to 7 of an IPv4 header: version, header length, and the fragment flag and offset.
const WHOLE_MASK: u64 = u64::from_le_bytes([0xff, 0, 0, 0, 0, 0, 0x3f, 0xff]);
/// Version 4, no options, no fragment.
const WHOLE: u64 = u64::from_le_bytes([0x45, 0, 0, 0, 0, 0, 0, 0]);

/// Bytes of both headers of a TCP packet without options.
const IPV4_TCP_BYTES: usize = ipv4::BYTES + tcp::BYTES;
const IPV6_TCP_BYTES: usize = ipv6::BYTES + tcp::BYTES;
/// Offset of the packet in frames without and with a tag.
const UNTAGGED_AT: usize = ethernet::BYTES;
const TAGGED_AT: usize = ethernet::BYTES + vlan::BYTES;
const ETHERTYPE_AT: usize = ethernet::field::ETHERTYPE.start;
/// The ethertype behind one tag.
const INNER_ETHERTYPE_AT: usize = ethernet::BYTES + vlan::field::ETHERTYPE.start;

/// A complete TCP or UDP header.
struct Plain {
    kind: Kind,
    /// TCP: sequence and acknowledgement numbers.
    transport: u64,
    /// Position of the payload.
    payload: Range<usize>,
}

impl Plain {
    /// The header that begins with `header`, at `at` in a packet that begins with `head` and ends at `end`
    /// by its IP header.
    #[inline(always)]
    fn read(
        head: &[u8],
        header: &[u8; tcp::BYTES],
        at: usize,
        end: usize,
        protocol: u8,
    ) -> Option<Self> {
        let lengths = &HEADER_BYTES[usize::from(protocol)];
        let header_bytes = lengths[usize::from(header[tcp::field::WORDS] >> 4)] as usize;
        let (start, end) = (at + header_bytes, end.min(head.len()));
        if start > end {
            return None;
        }
        let is_tcp = protocol == TCP;
        Some(Self {
            kind: select_unpredictable(is_tcp, Kind::Tcp, Kind::Udp),
            transport: select_unpredictable(is_tcp, le64(header, tcp::field::SEQUENCE.start)?, 0),
            payload: start..end,
        })
    }
}

/// A complete TCP or UDP packet over IPv4 without options at `at`: the IP header and the first 20 bytes of
/// the transport header.
#[inline(always)]
fn over_ipv4(head: &[u8], at: usize) -> Option<(&[u8; IPV4_TCP_BYTES], Plain)> {
    // One check for both headers: every complete TCP packet, and every UDP packet in a frame of minimum
    // length, has these 40 bytes.
    let ip = chunk::<IPV4_TCP_BYTES>(head, at)?;
    let transport: &[u8; tcp::BYTES] = ip.last_chunk()?;
    // Version, header length and the fragment fields in one comparison.
    if le64(ip, 0)? & WHOLE_MASK != WHOLE {
        return None;
    }
    let end = at + usize::from(be16(ip, ipv4::field::TOTAL_BYTES.start)?);
    let protocol = ip[ipv4::field::PROTOCOL];
    let plain = Plain::read(head, transport, at + ipv4::BYTES, end, protocol)?;
    Some((ip, plain))
}

impl Hasher {
    /// Complete TCP or UDP over IPv4 without options and without a tag, which most packets are. Returns the
    /// same as [`parse_any`](Self::parse_any), or `None`.
    #[inline(always)]
    pub(super) fn parse_plain<const PACKET: bool>(&self, head: &[u8]) -> Option<Parsed> {
        // One check for everything that is read at fixed offsets.
        let headers = chunk::<{ UNTAGGED_AT + IPV4_TCP_BYTES }>(head, 0)?;
        if be16(headers, ETHERTYPE_AT)? != ethertype::IPV4 {
            return None;
        }
        self.parse_plain_ipv4::<PACKET>(head, UNTAGGED_AT)
    }

    /// The same for frames with one VLAN tag, and for IPv6 without extension headers.
    #[inline(always)]
    pub(super) fn parse_plain_other<const PACKET: bool>(&self, head: &[u8]) -> Option<Parsed> {
        match (be16(head, ETHERTYPE_AT)?, be16(head, INNER_ETHERTYPE_AT)?) {
            (ethertype::IPV6, _) => self.parse_plain_ipv6::<PACKET>(head, UNTAGGED_AT),
            (ethertype::VLAN, ethertype::IPV4) => self.parse_plain_ipv4::<PACKET>(head, TAGGED_AT),
            (ethertype::VLAN, ethertype::IPV6) => self.parse_plain_ipv6::<PACKET>(head, TAGGED_AT),
            _ => None,
        }
    }

    #[inline(always)]
    fn parse_plain_ipv4<const PACKET: bool>(&self, head: &[u8], at: usize) -> Option<Parsed> {
        let (ip, plain) = over_ipv4(head, at)?;
        let source = le64(ip, ipv4::field::TTL)? & PROTOCOL_AND_SOURCE;
        let destination_and_ports = le64(ip, ipv4::field::DESTINATION.start)?;
        let sum = self.sum(&[(source, destination_and_ports)]);
        let identity = (ipv4_unchanged(le64(ip, 0)?), plain.transport);
        Some(self.parsed::<PACKET>(head, sum, identity, &plain))
    }

    #[inline(always)]
    fn parse_plain_ipv6<const PACKET: bool>(&self, head: &[u8], at: usize) -> Option<Parsed> {
        let headers = chunk::<IPV6_TCP_BYTES>(head, at)?;
        let (ip, transport) = headers.split_first_chunk::<{ ipv6::BYTES }>()?;
        let transport: &[u8; tcp::BYTES] = transport.first_chunk()?;
        if ip[0] >> 4 != ipv6::VERSION {
            return None;
        }
        let (at, next) = (at + ipv6::BYTES, ip[ipv6::field::NEXT]);
        let end = at + usize::from(be16(ip, ipv6::field::PAYLOAD_BYTES.start)?);
        let plain = Plain::read(head, transport, at, end, next)?;

        let source = le_pair(ip, ipv6::field::SOURCE.start);
        let destination = le_pair(ip, ipv6::field::DESTINATION.start);
        let sum = self.sum(&[
            (source.0, protocol_word(next, le32(transport, 0)?)),
            (source.1, destination.0),
            (destination.1, 0),
        ]);
        let identity = (ipv6_unchanged(le64(ip, 0)?), plain.transport);
        Some(self.parsed::<PACKET>(head, sum, identity, &plain))
    }

    #[inline(always)]
    fn parsed<const PACKET: bool>(
        &self,
        head: &[u8],
        sum: u128,
        identity: Pair,
        plain: &Plain,
    ) -> Parsed {
        let packet = if PACKET {
            let payload = first_16(head, plain.payload.start, plain.payload.end);
            self.packet(sum, identity, payload)
        } else {
            PacketHash(0)
        };
        Parsed {
            flow: self.flow(sum),
            packet,
            kind: plain.kind,
        }
    }
}
