//! Header by header through any frame.

mod ip;

use std::ops::Range;

use super::Kind;
use super::key::FlowKey;
use super::words::{Pair, be16, be32};

pub(super) use ip::{ipv4_unchanged, ipv6_unchanged};

/// Protocol numbers (IANA, "Assigned Internet Protocol Numbers").
pub(super) mod protocol {
    pub const HOP_BY_HOP: u8 = 0;
    pub const ICMP: u8 = 1;
    pub const TCP: u8 = 6;
    pub const UDP: u8 = 17;
    pub const ROUTING: u8 = 43;
    pub const FRAGMENT: u8 = 44;
    pub const AUTHENTICATION: u8 = 51;
    pub const ICMPV6: u8 = 58;
    pub const DESTINATION_OPTIONS: u8 = 60;
    pub const SCTP: u8 = 132;
    pub const MOBILITY: u8 = 135;
    pub const HIP: u8 = 139;
    pub const SHIM6: u8 = 140;
}

/// Ethertypes (IEEE registry).
pub(super) mod ethertype {
    pub const IPV4: u16 = 0x0800;
    pub const IPV6: u16 = 0x86dd;
    pub const MPLS: u16 = 0x8847;
    pub const MPLS_MULTICAST: u16 = 0x8848;
    pub const VLAN: u16 = 0x8100;
    pub const QINQ: u16 = 0x88a8;
    pub const QINQ_OLD: u16 = 0x9100;
    /// Values below are lengths of LLC frames (IEEE 802.3, 3.2.6).
    pub const LEAST: u16 = 0x0600;
}

const ETHERNET_BYTES: usize = 14;
/// Least payload of an Ethernet frame: shorter ones are padded, and padding comes and goes.
const ETHERNET_PAYLOAD_BYTES_MIN: usize = 46;
const VLAN_TAGS_MAX: usize = 4;
const MPLS_LABELS_MAX: usize = 8;
/// Bytes hashed of what is not IP: as much as of an IP payload.
const OTHER_WINDOW_BYTES: usize = 16;

/// What is known of a frame after all of its headers.
#[derive(Debug, Clone)]
pub(super) struct Dissected {
    pub kind: Kind,
    pub key: FlowKey,
    /// What tells packets apart beside flow and payload: words of two headers.
    pub identity: Pair,
    /// Where in the head the payload lies whose first bytes are hashed.
    pub payload: Range<usize>,
}

impl Dissected {
    /// Reads a frame. `frame_len` counts only in the identity of what is not IP.
    pub fn of(head: &[u8], frame_len: u32) -> Self {
        let ethernet = Ethernet::read(head);
        let ip = match ethernet.content {
            Content::Ipv4 => ip::v4(head, ethernet.payload),
            Content::Ipv6 => ip::v6(head, ethernet.payload),
            Content::Other(kind) => Err(kind),
        };
        match ip {
            Ok(dissected) => dissected,
            // A pseudowire without control word may begin with any nibble (RFC 4928).
            Err(Kind::Malformed) if is_mpls(ethernet.ethertype) => {
                ethernet.dissected(frame_len, Kind::NonIp)
            }
            Err(kind) => ethernet.dissected(frame_len, kind),
        }
    }
}

/// What an Ethernet header announces behind its tags and labels.
#[derive(Debug, Clone, Copy)]
enum Content {
    Ipv4,
    Ipv6,
    Other(Kind),
}

/// An Ethernet header with its tags and labels.
#[derive(Debug, Clone, Copy)]
struct Ethernet {
    /// Destination and source; zeros where a runt has no more.
    addresses: [u8; 12],
    /// Outermost VLAN id.
    vlan: u16,
    /// Behind the tags.
    ethertype: u16,
    content: Content,
    /// Where the payload begins.
    payload: usize,
}

impl Ethernet {
    fn read(head: &[u8]) -> Self {
        let mut addresses = [0; 12];
        for (to, from) in addresses.iter_mut().zip(head) {
            *to = *from;
        }
        let content = Content::Other(Kind::Truncated);
        let mut ethernet = Self {
            addresses,
            vlan: 0,
            ethertype: 0,
            content,
            payload: ETHERNET_BYTES,
        };
        if let Some(content) = ethernet.read_tags(head) {
            ethernet.content = content;
        }
        ethernet
    }

    /// Steps over tags and labels; `None` where the head ends within them.
    fn read_tags(&mut self, head: &[u8]) -> Option<Content> {
        self.ethertype = be16(head, 12)?;
        for tag in 0..VLAN_TAGS_MAX {
            if !is_vlan(self.ethertype) {
                break;
            }
            if tag == 0 {
                self.vlan = be16(head, self.payload)? & 0x0fff;
            }
            self.ethertype = be16(head, self.payload + 2)?;
            self.payload += 4;
        }
        Some(match self.ethertype {
            ethertype::IPV4 => Content::Ipv4,
            ethertype::IPV6 => Content::Ipv6,
            mpls if is_mpls(mpls) => self.read_labels(head)?,
            _ => Content::Other(Kind::NonIp),
        })
    }

    /// RFC 3032: what lies below the bottom of the stack is told by its first nibble.
    fn read_labels(&mut self, head: &[u8]) -> Option<Content> {
        for _ in 0..MPLS_LABELS_MAX {
            let label = be32(head, self.payload)?;
            self.payload += 4;
            let is_bottom = label & 0x100 != 0;
            if is_bottom {
                return Some(match head.get(self.payload)? >> 4 {
                    4 => Content::Ipv4,
                    6 => Content::Ipv6,
                    _ => Content::Other(Kind::NonIp),
                });
            }
        }
        Some(Content::Other(Kind::NonIp))
    }

    /// The frame by its Ethernet pair.
    fn dissected(&self, frame_len: u32, kind: Kind) -> Dissected {
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5] = self.addresses;
        let key = FlowKey::Ethernet {
            source: [s0, s1, s2, s3, s4, s5],
            destination: [d0, d1, d2, d3, d4, d5],
            vlan: self.vlan,
            ethertype: self.ethertype,
        };
        let payload_bytes = u64::from(frame_len)
            .saturating_sub(self.payload as u64)
            .max(ETHERNET_PAYLOAD_BYTES_MIN as u64);
        let is_llc = self.ethertype < ethertype::LEAST;
        let announced_bytes = if is_llc {
            usize::from(self.ethertype)
        } else {
            usize::MAX
        };
        Dissected {
            kind,
            key,
            identity: (payload_bytes, 0),
            payload: self.payload..self.payload + announced_bytes.min(OTHER_WINDOW_BYTES),
        }
    }
}

fn is_vlan(ethertype: u16) -> bool {
    matches!(
        ethertype,
        ethertype::VLAN | ethertype::QINQ | ethertype::QINQ_OLD
    )
}

fn is_mpls(ethertype: u16) -> bool {
    matches!(ethertype, ethertype::MPLS | ethertype::MPLS_MULTICAST)
}
