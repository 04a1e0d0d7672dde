//! What a control frame travels in: an Ethernet frame of its own type on a direct link, UDP over IPv4
//! (RFC 768, 791) or IPv6 (RFC 8200) on a virtual segment.

use std::net::IpAddr;

use contract::ids::PortIndex;
use measure::wire::frame::MAGIC;

/// Ethernet addresses and type.
const ETHERNET_BYTES: usize = 14;
const VLAN_BYTES: usize = 4;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const UDP_BYTES: usize = 8;

const TYPE_IPV4: u16 = 0x0800;
const TYPE_IPV6: u16 = 0x86DD;
/// Types of 802.1Q and 802.1ad tags.
const TYPES_VLAN: [u16; 2] = [0x8100, 0x88A8];
const PROTOCOL_UDP: u8 = 17;
/// Hops that a control frame may take.
const HOPS: u8 = 64;

/// To the next bridge, which does not pass it on (IEEE 802.1Q table 8-1): what Vernier says to its
/// neighbour never gets into the network behind.
const NEAREST_BRIDGE: [u8; 6] = [0x01, 0x80, 0xC2, 0x00, 0x00, 0x0E];

/// Where the other end of a virtual segment is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// This end's address, for which control frames are taken.
    pub local: IpAddr,
    /// The other end's, of the same family.
    pub remote: IpAddr,
    /// The Ethernet address of the first router on the way.
    pub gateway: [u8; 6],
    /// UDP port at both ends.
    pub udp_port: u16,
    /// DSCP of each segment, 0 to 63.
    pub dscp: Vec<u8>,
}

/// How control frames go by one port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Envelope {
    /// Over a direct link.
    Link {
        /// The Ethernet type.
        ethertype: u16,
        /// The sender's Ethernet address.
        source: [u8; 6],
    },
    /// Over a network.
    Route {
        /// Where to.
        route: Route,
        /// The sender's Ethernet address.
        source: [u8; 6],
    },
}

/// The locally administered Ethernet address that a switch's port sends control frames from.
pub fn source_address(switch: u32, PortIndex(port): PortIndex) -> [u8; 6] {
    let [a, b, c, d] = switch.to_be_bytes();
    [0x02, a, b, c, d, port]
}

impl Envelope {
    /// Bytes before the control frame.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Link { .. } => ETHERNET_BYTES,
            Self::Route { route, .. } if route.local.is_ipv4() => {
                ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES
            }
            Self::Route { .. } => ETHERNET_BYTES + IPV6_BYTES + UDP_BYTES,
        }
    }

    /// The control frame in a frame that came in: what begins with the magic behind this envelope.
    /// `None` for everything else, which is data. On a link only the neighbour's group address is
    /// taken: any station of the network may send frames of this type to others, and these are not
    /// ours to take. VLAN tags that the way put on are passed over.
    #[inline]
    pub fn open<'f>(&self, frame: &'f [u8]) -> Option<&'f [u8]> {
        match self {
            Self::Link { ethertype, .. } => {
                let found = number(frame, 12)?;
                if found != *ethertype || !frame.starts_with(&NEAREST_BRIDGE) {
                    return None;
                }
                magic(frame.get(ETHERNET_BYTES..)?)
            }
            Self::Route { route, .. } => route.open(frame),
        }
    }

    /// Writes the envelope of a control frame of `segment` before it: `buffer` holds the control
    /// frame's `len` bytes from [`bytes`](Self::bytes) on. Gives the length of the whole.
    pub fn close(&self, segment: u16, len: usize, buffer: &mut [u8]) -> Option<usize> {
        let whole = self.bytes() + len;
        let frame = buffer.get_mut(..whole)?;
        match self {
            Self::Link { ethertype, source } => {
                ethernet(frame, NEAREST_BRIDGE, *source, *ethertype)?;
            }
            Self::Route { route, source } => route.close(*source, segment, frame)?,
        }
        Some(whole)
    }
}

impl Route {
    fn open<'f>(&self, frame: &'f [u8]) -> Option<&'f [u8]> {
        let mut at = 12;
        let mut kind: u16 = number(frame, at)?;
        for _ in 0..2 {
            if TYPES_VLAN.contains(&kind) {
                at += VLAN_BYTES;
                kind = number(frame, at)?;
            }
        }
        let packet = frame.get(at + 2..)?;
        let udp = match (self.local, kind) {
            (IpAddr::V4(local), TYPE_IPV4) => {
                let (version, fragment) = (*packet.first()?, number(packet, 6)?);
                let is_fragment = fragment & 0x3FFF != 0;
                let header = usize::from(version & 0x0F) * 4;
                let is_mine = version >> 4 == 4
                    && header >= IPV4_BYTES
                    && !is_fragment
                    && *packet.get(9)? == PROTOCOL_UDP
                    && packet.get(16..20)? == local.octets();
                let whole = usize::from(number(packet, 2)?);
                is_mine.then_some(packet.get(header..whole)?)?
            }
            (IpAddr::V6(local), TYPE_IPV6) => {
                let is_mine = *packet.first()? >> 4 == 6
                    && *packet.get(6)? == PROTOCOL_UDP
                    && packet.get(24..40)? == local.octets();
                let whole = IPV6_BYTES + usize::from(number(packet, 4)?);
                is_mine.then_some(packet.get(IPV6_BYTES..whole)?)?
            }
            _ => return None,
        };
        let (port, len) = (number(udp, 2)?, usize::from(number(udp, 4)?));
        if port != self.udp_port {
            return None;
        }
        magic(udp.get(UDP_BYTES..len)?)
    }

    fn close(&self, source: [u8; 6], segment: u16, frame: &mut [u8]) -> Option<()> {
        let dscp = self.dscp.get(usize::from(segment)).copied().unwrap_or(0);
        let packet_bytes = u16::try_from(frame.len().checked_sub(ETHERNET_BYTES)?).ok()?;
        match (self.local, self.remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                ethernet(frame, self.gateway, source, TYPE_IPV4)?;
                let (header, udp) = frame
                    .get_mut(ETHERNET_BYTES..)?
                    .split_first_chunk_mut::<IPV4_BYTES>()?;
                *header = [0; IPV4_BYTES];
                header[0] = 0x45;
                header[1] = dscp << 2;
                header[2..4].copy_from_slice(&packet_bytes.to_be_bytes());
                // Not to be fragmented.
                header[6] = 0x40;
                header[8] = HOPS;
                header[9] = PROTOCOL_UDP;
                header[12..16].copy_from_slice(&local.octets());
                header[16..20].copy_from_slice(&remote.octets());
                let checksum = !folded(sum(header, 0));
                header[10..12].copy_from_slice(&checksum.to_be_bytes());
                let addresses = sum(&header[12..20], 0);
                self.close_udp(addresses, udp)
            }
            (IpAddr::V6(local), IpAddr::V6(remote)) => {
                ethernet(frame, self.gateway, source, TYPE_IPV6)?;
                let (header, udp) = frame
                    .get_mut(ETHERNET_BYTES..)?
                    .split_first_chunk_mut::<IPV6_BYTES>()?;
                *header = [0; IPV6_BYTES];
                header[0] = 0x60 | dscp >> 2;
                header[1] = dscp << 6;
                let length = u16::try_from(udp.len()).ok()?;
                header[4..6].copy_from_slice(&length.to_be_bytes());
                header[6] = PROTOCOL_UDP;
                header[7] = HOPS;
                header[8..24].copy_from_slice(&local.octets());
                header[24..40].copy_from_slice(&remote.octets());
                let addresses = sum(&header[8..40], 0);
                self.close_udp(addresses, udp)
            }
            _ => None,
        }
    }

    /// Writes the UDP header before its payload; `addresses` is the pseudo-header's part of the sum.
    fn close_udp(&self, addresses: u32, udp: &mut [u8]) -> Option<()> {
        let length = u16::try_from(udp.len()).ok()?;
        let header = udp.first_chunk_mut::<UDP_BYTES>()?;
        let [p0, p1] = self.udp_port.to_be_bytes();
        let [l0, l1] = length.to_be_bytes();
        *header = [p0, p1, p0, p1, l0, l1, 0, 0];
        let pseudo = addresses + u32::from(PROTOCOL_UDP) + u32::from(length);
        let checksum = match !folded(sum(udp, pseudo)) {
            // 0 would mean that there is none.
            0 => u16::MAX,
            checksum => checksum,
        };
        udp.get_mut(6..8)?.copy_from_slice(&checksum.to_be_bytes());
        Some(())
    }
}

fn magic(payload: &[u8]) -> Option<&[u8]> {
    payload.starts_with(&MAGIC).then_some(payload)
}

fn number(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes([*bytes.first()?, *bytes.last()?]))
}

fn ethernet(frame: &mut [u8], to: [u8; 6], from: [u8; 6], kind: u16) -> Option<()> {
    let header = frame.first_chunk_mut::<ETHERNET_BYTES>()?;
    header[..6].copy_from_slice(&to);
    header[6..12].copy_from_slice(&from);
    header[12..].copy_from_slice(&kind.to_be_bytes());
    Some(())
}

/// The sum of RFC 1071 over `bytes`, added to `sum`: at most 65,535 bytes cannot overflow it.
fn sum(bytes: &[u8], sum: u32) -> u32 {
    let (words, rest) = bytes.as_chunks::<2>();
    let last = rest.first().map_or(0, |&byte| u32::from(byte) << 8);
    words.iter().fold(sum + last, |sum, word| {
        sum + u32::from(u16::from_be_bytes(*word))
    })
}

#[expect(clippy::cast_possible_truncation, reason = "folded to 16 bits")]
fn folded(sum: u32) -> u16 {
    let sum = (sum & 0xFFFF) + (sum >> 16);
    ((sum & 0xFFFF) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests;
