//! The fast path: most packets, at fixed offsets.
#![expect(
    clippy::inline_always,
    reason = "bounds are checked once only where it is all one function"
)]

use std::hint::select_unpredictable;
use std::ops::Range;

use super::dissect::{IPV4_UNCHANGED, IPV6_UNCHANGED, ethertype, protocol};
use super::hash::Hasher;
use super::key::{Form, tuple_word};
use super::words::{be16, chunk, le_pair, le32, le64};
use super::{Kind, Parsed};

/// Least length of a TCP header (RFC 9293).
const TCP_HEADER_BYTES: usize = 20;
/// Length of a UDP header (RFC 768).
const UDP_HEADER_BYTES: usize = 8;

/// A whole TCP or UDP header.
struct Plain {
    kind: Kind,
    /// Both ports, as [`tuple_word`] takes them.
    ports: u32,
    /// TCP: sequence and acknowledgement numbers.
    transport: u64,
    payload: Range<usize>,
}

/// TCP or UDP, without a branch for each.
#[inline(always)]
fn is_plain(protocol: u8) -> bool {
    const PLAIN: u64 = 1 << protocol::TCP | 1 << protocol::UDP;
    protocol < 64 && PLAIN >> protocol & 1 == 1
}

/// All ones for TCP, zero for UDP: bit 1 of the protocol number, spread, since compilers make
/// branches of comparisons.
#[inline(always)]
const fn tcp_mask(protocol: u8) -> u64 {
    ((protocol as u64 >> 1) & 1).wrapping_neg()
}

impl Plain {
    /// The header of which `header` is the beginning, at `at`, in a packet that ends at `end`.
    #[inline(always)]
    fn read(header: &[u8; 20], at: usize, end: usize, protocol: u8) -> Option<Self> {
        if !is_plain(protocol) {
            return None;
        }
        // Masked, not branched over: TCP and UDP come mixed, and which comes next is hard to guess.
        let mask = tcp_mask(protocol);
        #[expect(clippy::cast_possible_truncation, reason = "all bits are alike")]
        let choose = |tcp: usize, udp: usize| (tcp & mask as usize) | (udp & !mask as usize);
        let header_bytes = choose(usize::from(header[12] >> 4) * 4, UDP_HEADER_BYTES);
        let payload = at + header_bytes..end;
        if header_bytes < choose(TCP_HEADER_BYTES, UDP_HEADER_BYTES) || payload.start > payload.end
        {
            return None;
        }
        Some(Self {
            kind: select_unpredictable(mask != 0, Kind::Tcp, Kind::Udp),
            ports: le32(header, 0)?,
            transport: le64(header, 4)? & mask,
            payload,
        })
    }
}

impl Hasher {
    /// Whole TCP or UDP over IPv4 without options or IPv6 without extension headers, with one VLAN
    /// tag or none. Yields what [`parse_any`](Self::parse_any) would, or nothing.
    #[inline(always)]
    pub(super) fn parse_plain(&self, head: &[u8]) -> Option<Parsed> {
        // Offsets are constants where they can be: most packets are untagged IPv4.
        if be16(head, 12)? == ethertype::IPV4 {
            return self.parse_plain_ipv4(head, 14);
        }
        self.parse_plain_other(head)
    }

    #[inline(never)]
    fn parse_plain_other(&self, head: &[u8]) -> Option<Parsed> {
        match (be16(head, 12)?, be16(head, 16)?) {
            (ethertype::IPV6, _) => self.parse_plain_ipv6(head, 14),
            (ethertype::VLAN, ethertype::IPV4) => self.parse_plain_ipv4(head, 18),
            (ethertype::VLAN, ethertype::IPV6) => self.parse_plain_ipv6(head, 18),
            _ => None,
        }
    }

    #[inline(always)]
    fn parse_plain_ipv4(&self, head: &[u8], at: usize) -> Option<Parsed> {
        // Both headers in one check: 40 bytes come with every whole TCP packet, and with every UDP
        // packet in a frame of the least length.
        let headers = chunk::<40>(head, at)?;
        let (ip, transport) = headers.split_first_chunk::<20>()?;
        let is_fragment = be16(ip, 6)? & 0x3fff != 0;
        if ip[0] != 0x45 || is_fragment {
            return None;
        }
        let end = head.len().min(at + usize::from(be16(ip, 2)?));
        let Plain {
            kind,
            ports,
            transport,
            payload,
        } = Plain::read(transport.first_chunk()?, at + 20, end, ip[9])?;

        let first = (le64(ip, 12)?, tuple_word(Form::V4, ip[9], ports));
        let second = (le64(ip, 0)? & IPV4_UNCHANGED, transport);
        let flow = self.flow(&[first]);
        let packet = self.packet(&[first, second], head, payload);
        Some(Parsed { flow, packet, kind })
    }

    #[inline(always)]
    fn parse_plain_ipv6(&self, head: &[u8], at: usize) -> Option<Parsed> {
        let headers = chunk::<60>(head, at)?;
        let (ip, transport) = headers.split_first_chunk::<40>()?;
        if ip[0] >> 4 != 6 {
            return None;
        }
        let end = head.len().min(at + 40 + usize::from(be16(ip, 4)?));
        let Plain {
            kind,
            ports,
            transport,
            payload,
        } = Plain::read(transport.first_chunk()?, at + 40, end, ip[6])?;

        let source = le_pair(ip, 8);
        let destination = le_pair(ip, 24);
        let first = (source.0, tuple_word(Form::V6, ip[6], ports));
        let second = (le64(ip, 0)? & IPV6_UNCHANGED, transport);
        let third = (source.1, destination.0);
        let last = (destination.1, 0);
        let flow = self.flow(&[first, third, last]);
        let packet = self.packet(&[first, second, third, last], head, payload);
        Some(Parsed { flow, packet, kind })
    }
}
