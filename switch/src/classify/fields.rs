//! The fields of a packet that rules name.

use measure::packet::header::{ethernet, ethertype, ipv6, protocol, udp, vlan};
use measure::packet::walk::{self, Content, EXTENSION_HEADERS_MAX, Link, Upper};

/// Priority code point of a frame without a tag.
pub(super) const NO_PCP: usize = 8;
/// Code point of what is not IP.
pub(super) const NO_DSCP: usize = 64;
/// Protocol of what is not IP.
pub(super) const NO_PROTOCOL: usize = 256;
/// Port of what has none.
pub(super) const NO_PORT: u32 = 0x1_0000;

/// The fields of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fields {
    /// Of the outer tag, or [`NO_PCP`].
    pub pcp: usize,
    pub ip: Option<Ip>,
}

/// The fields of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ip {
    pub dscp: usize,
    /// Above IP, behind the extension headers of IPv6.
    pub protocol: usize,
    pub addresses: Addresses,
    /// [`NO_PORT`] where there is none: not TCP, UDP or SCTP, a later fragment, or cut off.
    pub source_port: u32,
    pub destination_port: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Addresses {
    V4 { source: u32, destination: u32 },
    V6 { source: u128, destination: u128 },
}

impl Fields {
    /// Reads a frame, as far as its first segment goes. IP that is cut within its header or
    /// contradicts itself is no IP.
    #[inline]
    pub fn of(head: &[u8]) -> Self {
        let ethertype = ethernet::Header::of(head).map(ethernet::Header::ethertype);
        if ethertype == Some(ethertype::IPV4) {
            return Self {
                pcp: NO_PCP,
                ip: ipv4(head, ethernet::BYTES),
            };
        }
        Self::of_any(head)
    }

    fn of_any(head: &[u8]) -> Self {
        let link = Link::of(head);
        let priority = link.tag.map(vlan::Control::priority);
        Self {
            pcp: priority.map_or(NO_PCP, usize::from),
            ip: match link.content {
                Content::Ipv4 => ipv4(head, link.at),
                Content::Ipv6 => ipv6(head, link.at),
                Content::Other(_) => None,
            },
        }
    }
}

#[inline]
fn ipv4(head: &[u8], at: usize) -> Option<Ip> {
    let (header, upper) = walk::ipv4(head, at).ok()?;
    let ports = ports(&upper, header.protocol(), header.is_later_fragment());
    Some(Ip {
        dscp: header.dscp().into(),
        protocol: header.protocol().into(),
        addresses: Addresses::V4 {
            source: header.source().to_bits(),
            destination: header.destination().to_bits(),
        },
        source_port: ports.0,
        destination_port: ports.1,
    })
}

fn ipv6(head: &[u8], at: usize) -> Option<Ip> {
    let (header, mut upper) = walk::ipv6(head, at).ok()?;
    let (protocol, is_later_fragment) = step_over_extensions(&mut upper, header.next());
    let ports = ports(&upper, protocol, is_later_fragment);
    Some(Ip {
        dscp: header.dscp().into(),
        protocol: protocol.into(),
        addresses: Addresses::V6 {
            source: header.source().to_bits(),
            destination: header.destination().to_bits(),
        },
        source_port: ports.0,
        destination_port: ports.1,
    })
}

/// Steps over extension headers, as far as they are whole: the protocol behind them, and whether
/// this is a fragment but not the first.
fn step_over_extensions(upper: &mut Upper<'_>, mut protocol: u8) -> (u8, bool) {
    for _ in 0..EXTENSION_HEADERS_MAX {
        let Ok(Some(extension)) = upper.step(protocol) else {
            break;
        };
        let fragment = (protocol == protocol::FRAGMENT).then(|| extension.as_fragment());
        protocol = extension.next();
        if fragment.is_some_and(ipv6::Fragment::is_later_fragment) {
            return (protocol, true);
        }
    }
    (protocol, false)
}

/// Source and destination port; TCP and SCTP have them where UDP has them.
#[inline]
fn ports(upper: &Upper<'_>, protocol: u8, is_later_fragment: bool) -> (u32, u32) {
    let has_ports = matches!(protocol, protocol::TCP | protocol::UDP | protocol::SCTP);
    match upper.next_bytes::<{ udp::field::DESTINATION_PORT.end }>() {
        Some(&[a, b, c, d]) if has_ports && !is_later_fragment => {
            let port = |bytes| u32::from(u16::from_be_bytes(bytes));
            (port([a, b]), port([c, d]))
        }
        _ => (NO_PORT, NO_PORT),
    }
}
