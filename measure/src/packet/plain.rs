//! The fast path: most packets, at fixed offsets.
#![expect(
    clippy::inline_always,
    reason = "bounds are checked once only where it is all one function"
)]

use std::hint::select_unpredictable;
use std::ops::Range;

use super::dissect::{ethertype, ipv4_unchanged, ipv6_unchanged, protocol};
use super::hash::Hasher;
use super::key::protocol_word;
use super::words::{Pair, be16, chunk, first_16, le_pair, le32, le64};
use super::{Kind, Parsed};

/// Least length of a TCP header (RFC 9293).
const TCP_HEADER_BYTES: usize = 20;
/// Length of a UDP header (RFC 768).
const UDP_HEADER_BYTES: usize = 8;

/// Of bytes 8 to 15 of an IPv4 header: protocol and source address, not TTL and checksum.
const PROTOCOL_AND_SOURCE: u64 = u64::from_le_bytes([0, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff]);

/// A whole TCP or UDP header.
struct Plain {
    kind: Kind,
    /// TCP: sequence and acknowledgement numbers.
    transport: u64,
    /// Where the payload is.
    payload: Range<usize>,
}

/// TCP or UDP, without a branch for each.
#[inline(always)]
fn is_plain(protocol: u8) -> bool {
    const PLAIN: u64 = 1 << protocol::TCP | 1 << protocol::UDP;
    protocol < 64 && PLAIN >> protocol & 1 == 1
}

impl Plain {
    /// The header of which `header` is the beginning, at `at` of a packet that `head` begins with
    /// and that ends at `end`, by the IP header.
    #[inline(always)]
    fn read(head: &[u8], header: &[u8; 20], at: usize, end: usize, protocol: u8) -> Option<Self> {
        if !is_plain(protocol) {
            return None;
        }
        // Chosen, not branched over: TCP and UDP come mixed, and which comes next is hard to guess.
        let is_tcp = protocol == protocol::TCP;
        let offset_bytes = usize::from(header[12]) >> 2 & 0x3c;
        let header_bytes = select_unpredictable(is_tcp, offset_bytes, UDP_HEADER_BYTES);
        let least_bytes = select_unpredictable(is_tcp, TCP_HEADER_BYTES, UDP_HEADER_BYTES);
        let (start, end) = (at + header_bytes, end.min(head.len()));
        if header_bytes < least_bytes || start > end {
            return None;
        }
        Some(Self {
            kind: select_unpredictable(is_tcp, Kind::Tcp, Kind::Udp),
            transport: select_unpredictable(is_tcp, le64(header, 4)?, 0),
            payload: start..end,
        })
    }
}

/// A whole TCP or UDP packet over IPv4 without options at `at`: the IP header and the first 20 bytes of
/// the other.
#[inline(always)]
fn over_ipv4(head: &[u8], at: usize) -> Option<(&[u8; 40], Plain)> {
    // Both headers in one check: 40 bytes come with every whole TCP packet, and with every UDP
    // packet in a frame of the least length.
    let ip = chunk::<40>(head, at)?;
    let transport: &[u8; 20] = ip.last_chunk()?;
    let is_fragment = be16(ip, 6)? & 0x3fff != 0;
    if ip[0] != 0x45 || is_fragment {
        return None;
    }
    let end = at + usize::from(be16(ip, 2)?);
    Some((ip, Plain::read(head, transport, at + 20, end, ip[9])?))
}

/// The kind of a frame that [`Hasher::parse_plain`] yields something of.
#[inline(always)]
pub(super) fn kind(head: &[u8]) -> Option<Kind> {
    if be16(head, 12)? != ethertype::IPV4 {
        return None;
    }
    over_ipv4(head, 14).map(|(_, plain)| plain.kind)
}

impl Hasher {
    /// Whole TCP or UDP over IPv4 without options and without a tag: most packets. Yields what
    /// [`parse_any`](Self::parse_any) would, or nothing.
    #[inline(always)]
    pub(super) fn parse_plain(&self, head: &[u8]) -> Option<Parsed> {
        if be16(head, 12)? != ethertype::IPV4 {
            return None;
        }
        self.parse_plain_ipv4(head, 14)
    }

    /// The same with one VLAN tag, and over IPv6 without extension headers.
    #[inline(always)]
    pub(super) fn parse_plain_other(&self, head: &[u8]) -> Option<Parsed> {
        match (be16(head, 12)?, be16(head, 16)?) {
            (ethertype::IPV6, _) => self.parse_plain_ipv6(head, 14),
            (ethertype::VLAN, ethertype::IPV4) => self.parse_plain_ipv4(head, 18),
            (ethertype::VLAN, ethertype::IPV6) => self.parse_plain_ipv6(head, 18),
            _ => None,
        }
    }

    #[inline(always)]
    fn parse_plain_ipv4(&self, head: &[u8], at: usize) -> Option<Parsed> {
        let (ip, plain) = over_ipv4(head, at)?;
        let source = le64(ip, 8)? & PROTOCOL_AND_SOURCE;
        let destination_and_ports = le64(ip, 16)?;
        let sum = self.sum(&[(source, destination_and_ports)]);
        let identity = (ipv4_unchanged(le64(ip, 0)?), plain.transport);
        Some(self.parsed(head, sum, identity, &plain))
    }

    #[inline(always)]
    fn parse_plain_ipv6(&self, head: &[u8], at: usize) -> Option<Parsed> {
        let headers = chunk::<60>(head, at)?;
        let (ip, transport) = headers.split_first_chunk::<40>()?;
        let transport: &[u8; 20] = transport.first_chunk()?;
        if ip[0] >> 4 != 6 {
            return None;
        }
        let end = at + 40 + usize::from(be16(ip, 4)?);
        let plain = Plain::read(head, transport, at + 40, end, ip[6])?;

        let source = le_pair(ip, 8);
        let destination = le_pair(ip, 24);
        let sum = self.sum(&[
            (source.0, protocol_word(ip[6], le32(transport, 0)?)),
            (source.1, destination.0),
            (destination.1, 0),
        ]);
        let identity = (ipv6_unchanged(le64(ip, 0)?), plain.transport);
        Some(self.parsed(head, sum, identity, &plain))
    }

    #[inline(always)]
    fn parsed(&self, head: &[u8], sum: u128, identity: Pair, plain: &Plain) -> Parsed {
        let payload = first_16(head, plain.payload.start, plain.payload.end);
        Parsed {
            flow: self.flow(sum),
            packet: self.packet(sum, identity, payload),
            kind: plain.kind,
        }
    }
}
