//! IPv4, IPv6 and what they carry.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{Dissected, protocol};
use crate::packet::words::{be16, be32, chunk, le64};
use crate::packet::{FlowKey, Kind};

/// Length, identification and fragment field, of the first eight bytes of an IPv4 header.
#[inline]
pub(in crate::packet) const fn ipv4_unchanged(first: u64) -> u64 {
    first >> 16
}

/// All but the traffic class and the hop limit, of the first eight bytes of an IPv6 header.
#[inline]
pub(in crate::packet) const fn ipv6_unchanged(first: u64) -> u64 {
    first & u64::from_le_bytes([0xf0, 0x0f, 0xff, 0xff, 0xff, 0xff, 0xff, 0])
}

const EXTENSION_HEADERS_MAX: usize = 8;
/// Where the hashed bytes of a fragment begin, so that a first fragment's transport checksum is
/// not among them.
const FRAGMENT_SKIP_BYTES: usize = 20;

/// IPv4 at `at` (RFC 791), or the kind of a frame whose header cannot be believed.
pub(super) fn v4(head: &[u8], at: usize) -> Result<Dissected, Kind> {
    let header = chunk::<20>(head, at).ok_or(Kind::Truncated)?;
    let [version_ihl, _, length_high, length_low, ..] = *header;
    let header_bytes = usize::from(version_ihl & 0x0f) * 4;
    let total_bytes = usize::from(u16::from_be_bytes([length_high, length_low]));
    if version_ihl >> 4 != 4 || header_bytes < 20 || total_bytes < header_bytes {
        return Err(Kind::Malformed);
    }
    if at + header_bytes > head.len() {
        return Err(Kind::Truncated);
    }

    let protocol = header[9];
    let upper = Upper {
        head,
        at: at + header_bytes,
        end: at + total_bytes,
    };
    let is_fragment = be16(header, 6).is_some_and(|field| field & 0x3fff != 0);
    let transport = if is_fragment {
        upper.fragment()
    } else {
        upper.transport(protocol)
    };
    let address = |at| {
        be32(header, at)
            .map(Ipv4Addr::from_bits)
            .ok_or(Kind::Truncated)
    };
    let key = FlowKey::V4 {
        source: address(12)?,
        destination: address(16)?,
        source_port: transport.source_port,
        destination_port: transport.destination_port,
        protocol,
    };
    let unchanged = ipv4_unchanged(le64(header, 0).unwrap_or_default());
    Ok(upper.dissected(key, unchanged, &transport))
}

/// IPv6 at `at` (RFC 8200), or the kind of a frame whose header cannot be believed.
pub(super) fn v6(head: &[u8], at: usize) -> Result<Dissected, Kind> {
    let header = chunk::<40>(head, at).ok_or(Kind::Truncated)?;
    let [version, _, _, _, length_high, length_low, next, ..] = *header;
    if version >> 4 != 6 {
        return Err(Kind::Malformed);
    }
    let payload_bytes = usize::from(u16::from_be_bytes([length_high, length_low]));
    // A jumbogram (RFC 2675) says 0 here and its length in an option; no padding follows it.
    let is_jumbo = payload_bytes == 0 && next == protocol::HOP_BY_HOP;
    let end = if is_jumbo {
        usize::MAX
    } else {
        at + 40 + payload_bytes
    };

    let Chain {
        upper,
        protocol,
        fragment,
        outcome,
    } = Chain::read(
        Upper {
            head,
            at: at + 40,
            end,
        },
        next,
    );
    let transport = match outcome {
        Outcome::Upper => upper.transport(protocol),
        Outcome::Fragment => Transport {
            word: fragment,
            ..upper.fragment()
        },
        Outcome::Cut(kind) => upper.cut(kind),
    };
    let address = |at| {
        chunk(header, at)
            .copied()
            .map(Ipv6Addr::from)
            .ok_or(Kind::Truncated)
    };
    let key = FlowKey::V6 {
        source: address(8)?,
        destination: address(24)?,
        source_port: transport.source_port,
        destination_port: transport.destination_port,
        protocol,
    };
    let unchanged = ipv6_unchanged(le64(header, 0).unwrap_or_default());
    Ok(upper.dissected(key, unchanged, &transport))
}

/// A chain of IPv6 extension headers.
struct Chain<'h> {
    /// What follows it.
    upper: Upper<'h>,
    protocol: u8,
    /// The last fragment header, without its reserved bits.
    fragment: u64,
    outcome: Outcome,
}

/// How a chain ends.
enum Outcome {
    /// With a header that is no extension, or one extension too many.
    Upper,
    /// With the fragment header of a fragment: what follows may be the middle of anything.
    Fragment,
    /// Too early.
    Cut(Kind),
}

impl<'h> Chain<'h> {
    fn read(upper: Upper<'h>, next: u8) -> Self {
        let mut chain = Self {
            upper,
            protocol: next,
            fragment: 0,
            outcome: Outcome::Upper,
        };
        for _ in 0..EXTENSION_HEADERS_MAX {
            let is_extension = chain.step();
            if !is_extension || !matches!(chain.outcome, Outcome::Upper) {
                break;
            }
        }
        chain
    }

    /// Steps over one extension header; false where there is none.
    fn step(&mut self) -> bool {
        let (unit_bytes, units_more) = match self.protocol {
            protocol::HOP_BY_HOP
            | protocol::ROUTING
            | protocol::FRAGMENT
            | protocol::DESTINATION_OPTIONS
            | protocol::MOBILITY
            | protocol::HIP
            | protocol::SHIM6 => (8, 1),
            protocol::AUTHENTICATION => (4, 2),
            _ => return false,
        };
        let is_fragment_header = self.protocol == protocol::FRAGMENT;
        let Some([next, length, field @ ..]) = chunk::<8>(self.upper.head, self.upper.at) else {
            self.outcome = Outcome::Cut(self.upper.cut_kind(8));
            return true;
        };
        let bytes = if is_fragment_header {
            8
        } else {
            (usize::from(*length) + units_more) * unit_bytes
        };
        if !self.upper.has(bytes) {
            self.outcome = Outcome::Cut(self.upper.cut_kind(bytes));
            return true;
        }
        self.protocol = *next;
        self.upper.at += bytes;
        if is_fragment_header {
            let [offset_high, offset_low, id @ ..] = *field;
            // Without the two reserved bits.
            let offset_and_more = u16::from_be_bytes([offset_high, offset_low]) & 0xfff9;
            self.fragment = u64::from(offset_and_more) << 32 | u64::from(u32::from_be_bytes(id));
            // Offset 0 and no more to come is a whole packet (RFC 6946).
            if offset_and_more != 0 {
                self.outcome = Outcome::Fragment;
            }
        }
        true
    }
}

/// What lies above IP: from `at` on, to `end` by the IP header's length, in `head` as far as that
/// goes.
#[derive(Clone, Copy)]
struct Upper<'h> {
    head: &'h [u8],
    at: usize,
    end: usize,
}

/// What a transport header yields.
struct Transport {
    kind: Kind,
    source_port: u16,
    destination_port: u16,
    /// What of it tells packets apart.
    word: u64,
    /// Where the hashed payload begins.
    payload: usize,
}

impl Transport {
    /// No ports and nothing but payload.
    fn none(kind: Kind, payload: usize) -> Self {
        Self {
            kind,
            source_port: 0,
            destination_port: 0,
            word: 0,
            payload,
        }
    }
}

impl Upper<'_> {
    /// Where the packet or the head ends.
    fn stop(&self) -> usize {
        self.end.min(self.head.len())
    }

    /// Whether the next `bytes` are there.
    fn has(&self, bytes: usize) -> bool {
        self.at + bytes <= self.stop()
    }

    /// What to call a packet that ends within its next `bytes`.
    fn cut_kind(&self, bytes: usize) -> Kind {
        if self.at + bytes > self.end {
            Kind::Malformed
        } else {
            Kind::Truncated
        }
    }

    /// Nothing after the headers read so far.
    fn cut(&self, kind: Kind) -> Transport {
        Transport::none(kind, self.stop())
    }

    fn fragment(&self) -> Transport {
        Transport::none(Kind::Fragment, self.at + FRAGMENT_SKIP_BYTES)
    }

    fn transport(&self, protocol: u8) -> Transport {
        let (kind, least_bytes) = match protocol {
            protocol::TCP => (Kind::Tcp, 20),
            protocol::UDP => (Kind::Udp, 8),
            protocol::SCTP => (Kind::Sctp, 12),
            protocol::ICMP | protocol::ICMPV6 => (Kind::Icmp, 8),
            _ => return Transport::none(Kind::OtherIp, self.at),
        };
        if !self.has(least_bytes) {
            return self.cut(self.cut_kind(least_bytes));
        }
        let header = self.head.get(self.at..).unwrap_or_default();
        let port = |at| {
            if kind == Kind::Icmp {
                0
            } else {
                be16(header, at).unwrap_or_default()
            }
        };
        let long = |at| le64(header, at).unwrap_or_default();
        let word = match kind {
            // Sequence and acknowledgement numbers.
            Kind::Tcp => long(4),
            // Verification tag, not the checksum behind it.
            Kind::Sctp => long(4) & 0xffff_ffff,
            // Type, code and rest of header, not the checksum between them.
            Kind::Icmp => long(0) & 0xffff_ffff_0000_ffff,
            _ => 0,
        };
        let header_bytes = match (kind, header.get(12)) {
            (Kind::Tcp, Some(offset)) => usize::from(offset >> 4) * 4,
            _ => least_bytes,
        };
        let kind = if header_bytes < least_bytes {
            Kind::Malformed
        } else if !self.has(header_bytes) {
            self.cut_kind(header_bytes)
        } else {
            kind
        };
        Transport {
            kind,
            source_port: port(0),
            destination_port: port(2),
            word,
            payload: self.at + header_bytes.max(least_bytes),
        }
    }

    fn dissected(&self, key: FlowKey, header: u64, transport: &Transport) -> Dissected {
        Dissected {
            kind: transport.kind,
            key,
            identity: (header, transport.word),
            payload: transport.payload..self.stop(),
        }
    }
}
