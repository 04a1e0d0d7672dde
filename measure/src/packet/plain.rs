//! The fast path: most packets, at fixed offsets.
#![expect(
    clippy::inline_always,
    reason = "bounds are checked once only where it is all one function"
)]

use std::ops::Range;

use super::dissect::{IPV4_UNCHANGED, IPV6_UNCHANGED, ethertype, protocol};
use super::hash::Hasher;
use super::key::{Form, tuple_word};
use super::words::{be16, chunk, le_pair, le32, le64};
use super::{Kind, Parsed};

/// A whole TCP or UDP header.
struct Plain {
    kind: Kind,
    /// Both ports, as [`tuple_word`] takes them.
    ports: u32,
    /// TCP: sequence and acknowledgement numbers.
    transport: u64,
    payload: Range<usize>,
}

impl Plain {
    /// The header at `at`, in a packet that ends at `end`.
    #[inline(always)]
    fn read(head: &[u8], at: usize, end: usize, protocol: u8) -> Option<Self> {
        let header = chunk::<20>(head, at)?;
        let is_tcp = protocol == protocol::TCP;
        if !is_tcp && protocol != protocol::UDP {
            return None;
        }
        // Masked and chosen, not branched over: TCP and UDP come mixed.
        let (least_bytes, header_bytes, mask) = if is_tcp {
            (20, usize::from(header[12] >> 4) * 4, u64::MAX)
        } else {
            (8, 8, 0)
        };
        let payload = at + header_bytes..end.min(head.len());
        if header_bytes < least_bytes || payload.start > payload.end {
            return None;
        }
        Some(Self {
            kind: if is_tcp { Kind::Tcp } else { Kind::Udp },
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
        let (ethertype, at) = match be16(head, 12)? {
            ethertype::VLAN => (be16(head, 16)?, 18),
            untagged => (untagged, 14),
        };
        match ethertype {
            ethertype::IPV4 => self.parse_plain_ipv4(head, at),
            ethertype::IPV6 => self.parse_plain_ipv6(head, at),
            _ => None,
        }
    }

    #[inline(always)]
    fn parse_plain_ipv4(&self, head: &[u8], at: usize) -> Option<Parsed> {
        let ip = chunk::<20>(head, at)?;
        let is_fragment = be16(ip, 6)? & 0x3fff != 0;
        if ip[0] != 0x45 || is_fragment {
            return None;
        }
        let end = at + usize::from(be16(ip, 2)?);
        let Plain {
            kind,
            ports,
            transport,
            payload,
        } = Plain::read(head, at + 20, end, ip[9])?;

        let first = (le64(ip, 12)?, tuple_word(Form::V4, ip[9], ports));
        let second = (le64(ip, 0)? & IPV4_UNCHANGED, transport);
        let flow = self.flow(&[first]);
        let packet = self.packet(&[first, second], head, payload);
        Some(Parsed { flow, packet, kind })
    }

    #[inline(always)]
    fn parse_plain_ipv6(&self, head: &[u8], at: usize) -> Option<Parsed> {
        let ip = chunk::<40>(head, at)?;
        if ip[0] >> 4 != 6 {
            return None;
        }
        let end = at + 40 + usize::from(be16(ip, 4)?);
        let Plain {
            kind,
            ports,
            transport,
            payload,
        } = Plain::read(head, at + 40, end, ip[6])?;

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
