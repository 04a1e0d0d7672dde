//! The envelope of a control frame: an Ethernet frame of its own type on a direct link, UDP over IPv4 (RFC
//! 768, 791) or IPv6 (RFC 8200) on a virtual segment.

use std::net::IpAddr;

use contract::ids::PortIndex;
use measure::packet::header::checksum::Sum;
use measure::packet::header::{ethernet, ethertype, ipv4, ipv6, protocol, udp, vlan};
use measure::packet::walk;
use wire::frame::MAGIC;

/// Addresses the next bridge, which does not forward it (IEEE 802.1Q table 8-1), so that control frames
/// never reach the network behind the neighbour.
const NEAREST_BRIDGE: [u8; 6] = [0x01, 0x80, 0xC2, 0x00, 0x00, 0x0E];

/// The route to the other end of a virtual segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// This end's address, for which control frames are accepted.
    pub local: IpAddr,
    /// The other end's address, of the same family.
    pub remote: IpAddr,
    /// The MAC address of the first router on the way.
    pub gateway: [u8; 6],
    /// UDP port at both ends.
    pub udp_port: u16,
    /// DSCP of each segment, 0 to 63.
    pub dscp: Vec<u8>,
}

/// How control frames of a port are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Envelope {
    /// Over a direct link.
    Link {
        /// The Ethernet type.
        ethertype: u16,
        /// The sender's MAC address.
        source: [u8; 6],
    },
    /// Over a network.
    Route {
        /// The route.
        route: Route,
        /// The sender's MAC address.
        source: [u8; 6],
    },
}

/// The locally administered MAC address from which a switch's port sends control frames.
pub fn source_address(switch: u32, PortIndex(port): PortIndex) -> [u8; 6] {
    let [a, b, c, d] = switch.to_be_bytes();
    [0x02, a, b, c, d, port]
}

impl Envelope {
    /// Bytes before the control frame.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Link { .. } => ethernet::BYTES,
            Self::Route { route, .. } if route.local.is_ipv4() => {
                ethernet::BYTES + ipv4::BYTES + udp::BYTES
            }
            Self::Route { .. } => ethernet::BYTES + ipv6::BYTES + udp::BYTES,
        }
    }

    /// Returns the control frame in a received frame: the bytes that begin with the magic behind this
    /// envelope. `None` for everything else, which is data. On a link only frames to the neighbour's group
    /// address count, because any host of the network may send frames of this type to others. VLAN tags
    /// added on the way are skipped.
    #[inline]
    pub fn open<'f>(&self, frame: &'f [u8]) -> Option<&'f [u8]> {
        match self {
            Self::Link { ethertype, .. } => {
                let header = ethernet::Header::of(frame)?;
                if header.ethertype() != *ethertype || header.destination() != NEAREST_BRIDGE {
                    return None;
                }
                magic(frame.get(ethernet::BYTES..)?)
            }
            Self::Route { route, .. } => route.open(frame),
        }
    }

    /// Writes the envelope of a control frame of `segment` before it: `buffer` contains the control frame's
    /// `len` bytes from [`bytes`](Self::bytes) on. Returns the total length.
    pub fn close(&self, segment: u16, len: usize, buffer: &mut [u8]) -> Option<usize> {
        let whole = self.bytes() + len;
        let frame = buffer.get_mut(..whole)?;
        match self {
            Self::Link { ethertype, source } => {
                let header = ethernet::Repr {
                    destination: NEAREST_BRIDGE,
                    source: *source,
                    ethertype: *ethertype,
                };
                *frame.first_chunk_mut()? = header.emit();
            }
            Self::Route { route, source } => route.close(*source, segment, frame)?,
        }
        Some(whole)
    }
}

impl Route {
    fn open<'f>(&self, frame: &'f [u8]) -> Option<&'f [u8]> {
        let mut at = ethernet::BYTES;
        let mut ethertype = ethernet::Header::of(frame)?.ethertype();
        for _ in 0..2 {
            if vlan::is_tag(ethertype) {
                ethertype = vlan::Header::at(frame, at)?.ethertype();
                at += vlan::BYTES;
            }
        }
        let (is_mine, upper) = match (self.local, ethertype) {
            (IpAddr::V4(local), ethertype::IPV4) => {
                let (header, upper) = walk::ipv4(frame, at).ok()?;
                let is_mine = !header.is_fragment()
                    && header.protocol() == protocol::UDP
                    && header.destination() == local;
                (is_mine, upper)
            }
            (IpAddr::V6(local), ethertype::IPV6) => {
                let (header, upper) = walk::ipv6(frame, at).ok()?;
                let is_mine = header.next() == protocol::UDP && header.destination() == local;
                (is_mine, upper)
            }
            _ => return None,
        };
        let datagram = frame.get(upper.at..upper.end)?;
        let header = udp::Header::at(datagram, 0)?;
        if !is_mine || header.destination_port() != self.udp_port {
            return None;
        }
        magic(datagram.get(udp::BYTES..header.length_bytes())?)
    }

    fn close(&self, source: [u8; 6], segment: u16, frame: &mut [u8]) -> Option<()> {
        // No length field can hold more.
        u16::try_from(frame.len()).ok()?;
        let dscp = self.dscp.get(usize::from(segment)).copied().unwrap_or(0);
        let (ethernet, packet) = frame.split_first_chunk_mut()?;
        let (ethertype, pseudo_header, datagram) = match (self.local, self.remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                let (header, datagram) = packet.split_first_chunk_mut()?;
                let ip = ipv4::Repr {
                    dscp,
                    ..ipv4::Repr::new(local, remote, protocol::UDP, datagram.len())
                };
                *header = ip.emit();
                (ethertype::IPV4, ip.pseudo_header(), datagram)
            }
            (IpAddr::V6(local), IpAddr::V6(remote)) => {
                let (header, datagram) = packet.split_first_chunk_mut()?;
                let ip = ipv6::Repr {
                    dscp,
                    ..ipv6::Repr::new(local, remote, protocol::UDP, datagram.len())
                };
                *header = ip.emit();
                (ethertype::IPV6, ip.pseudo_header(), datagram)
            }
            _ => return None,
        };
        *ethernet = ethernet::Repr {
            destination: self.gateway,
            source,
            ethertype,
        }
        .emit();
        self.close_udp(pseudo_header, datagram)
    }

    /// Writes the UDP header before its payload.
    fn close_udp(&self, pseudo_header: Sum, datagram: &mut [u8]) -> Option<()> {
        let payload_bytes = datagram.len().checked_sub(udp::BYTES)?;
        let header = udp::Repr::new(self.udp_port, self.udp_port, payload_bytes);
        *datagram.first_chunk_mut()? = header.emit();
        udp::set_checksum(datagram, pseudo_header);
        Some(())
    }
}

fn magic(payload: &[u8]) -> Option<&[u8]> {
    payload.starts_with(&MAGIC).then_some(payload)
}

#[cfg(test)]
mod tests;
