//! The headers of a flow's packets.
//!
//! A flow is nothing but its number: addresses, ports and protocol are computed from it, so ten
//! million flows need no table.

/// Ethernet, IPv6 and TCP headers, and the packet's number as payload.
pub(super) const HEAD_BYTES_MAX: usize = ETHERNET + IPV6 + TCP + PAYLOAD;

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;
const TCP: usize = 20;
const UDP: usize = 8;
/// Payload that is not zeros: the number of the packet.
const PAYLOAD: usize = 8;

const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;

/// A bijective mixer of 64 bits (the finaliser of `SplitMix64`, Steele and others 2014).
pub(super) const fn mix64(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// One end of a flow.
#[derive(Debug, Clone, Copy)]
struct Endpoint {
    /// Locally administered, so that no maker's address is borrowed.
    mac: [u8; 6],
    /// The IPv4 address, which is also the end of the IPv6 one.
    address: u32,
    port: u16,
}

/// Who talks to whom, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flow {
    source: Endpoint,
    destination: Endpoint,
    ipv6: bool,
    udp: bool,
    hash: u64,
}

impl Flow {
    /// Flow `index` (under 2^24) of `seed`, as `side` sends it, among `macs` addresses a side.
    ///
    /// Each flow has a client address of its own, in 10.0.0.0/8; servers are in 172.16.0.0/12. An
    /// address has the same MAC wherever it appears.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "fields are cut from the hash"
    )]
    pub(super) fn new(seed: u64, index: u32, macs: u32, side: u8) -> Self {
        const SERVER_PORTS: [u16; 4] = [443, 80, 4433, 5201];
        let hash = mix64(mix64(seed) ^ u64::from(index));
        let mac = |side: u8, host: u32| {
            let [_, _, high, low] = (host % macs).to_be_bytes();
            [0x02, 0, 0, side, high, low]
        };
        // An odd factor permutes 24 bits: addresses look scattered and none comes twice.
        let client_host = index.wrapping_mul(0x9e_3779) & 0xff_ffff;
        let server_host = hash as u32 & 0xf_ffff;
        let client = Endpoint {
            mac: mac(0, index),
            address: 0x0a00_0000 | client_host,
            port: 0xc000 | (hash >> 20) as u16,
        };
        let server = Endpoint {
            mac: mac(1, server_host),
            address: 0xac10_0000 | server_host,
            port: SERVER_PORTS[(hash >> 36) as usize % SERVER_PORTS.len()],
        };
        let (source, destination) = if side == 0 {
            (client, server)
        } else {
            (server, client)
        };
        let ipv6 = (hash >> 40).is_multiple_of(8);
        let udp = (hash >> 43).is_multiple_of(4);
        Self {
            source,
            destination,
            ipv6,
            udp,
            hash,
        }
    }

    fn headers_bytes(&self) -> usize {
        ETHERNET + if self.ipv6 { IPV6 } else { IPV4 } + if self.udp { UDP } else { TCP }
    }

    /// The shortest frame that holds the headers and, where 60 bytes do not, the payload's number.
    pub(super) fn frame_bytes_min(&self) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "82 at most")]
        let with_number = (self.headers_bytes() + PAYLOAD) as u32;
        if self.ipv6 { with_number } else { 60 }
    }

    /// Payload of a frame of `len_bytes`.
    pub(super) fn payload_bytes(&self, len_bytes: u32) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "74 at most")]
        len_bytes.saturating_sub(self.headers_bytes() as u32)
    }

    /// Writes the head of a frame of `len_bytes`, at least [`Flow::frame_bytes_min`] and at most
    /// 65,535, all else zeros; returns the head's length.
    ///
    /// `sent_bytes` is what the flow has sent before, `number` what tells this packet from all
    /// others of the generator.
    #[expect(clippy::cast_possible_truncation, reason = "frames are under 64 KiB")]
    pub(super) fn write(
        &self,
        head: &mut [u8; HEAD_BYTES_MAX],
        len_bytes: u32,
        sent_bytes: u32,
        number: u64,
    ) -> usize {
        let headers_bytes = self.headers_bytes();
        let head_bytes = (headers_bytes + PAYLOAD).min(len_bytes as usize);
        let protocol = if self.udp { PROTOCOL_UDP } else { PROTOCOL_TCP };
        let ip_bytes = len_bytes as u16 - ETHERNET as u16;

        let (ethernet, packet) = head.split_at_mut(ETHERNET);
        ethernet[..6].copy_from_slice(&self.destination.mac);
        ethernet[6..12].copy_from_slice(&self.source.mac);
        ethernet[12..].copy_from_slice(if self.ipv6 {
            &[0x86, 0xdd]
        } else {
            &[0x08, 0x00]
        });

        let segment_start = if self.ipv6 { IPV6 } else { IPV4 };
        let (ip, segment) = packet[..head_bytes - ETHERNET].split_at_mut(segment_start);
        let segment_bytes = ip_bytes - segment_start as u16;
        let addresses_at = if self.ipv6 {
            self.write_ipv6(ip, segment_bytes, protocol);
            8
        } else {
            self.write_ipv4(ip, ip_bytes, protocol, number as u16);
            12
        };
        // RFC 9293 3.1 and RFC 8200 8.1: addresses, protocol and length count as well.
        let pseudo_header =
            sum16(&ip[addresses_at..]) + u32::from(protocol) + u32::from(segment_bytes);

        segment[..2].copy_from_slice(&self.source.port.to_be_bytes());
        segment[2..4].copy_from_slice(&self.destination.port.to_be_bytes());
        let checksum_at = if self.udp {
            segment[4..6].copy_from_slice(&segment_bytes.to_be_bytes());
            6
        } else {
            let sequence = (self.hash as u32).wrapping_add(sent_bytes);
            segment[4..8].copy_from_slice(&sequence.to_be_bytes());
            segment[8..12].copy_from_slice(&((self.hash >> 32) as u32).to_be_bytes());
            // Five words of header, the ACK flag, the largest window.
            segment[12..16].copy_from_slice(&[0x50, 0x10, 0xff, 0xff]);
            segment[18..20].fill(0);
            16
        };
        let payload = &mut segment[headers_bytes - ETHERNET - segment_start..];
        // The low bytes first: they are what a short payload keeps, and what changes.
        payload.copy_from_slice(&number.to_le_bytes()[..payload.len()]);
        segment[checksum_at..checksum_at + 2].fill(0);
        let checksum = match fold(pseudo_header + sum16(segment)) {
            // RFC 768: zero would mean that there is none.
            0 if self.udp => 0xffff,
            checksum => checksum,
        };
        segment[checksum_at..checksum_at + 2].copy_from_slice(&checksum.to_be_bytes());
        head_bytes
    }

    fn write_ipv4(&self, ip: &mut [u8], ip_bytes: u16, protocol: u8, id: u16) {
        ip[..2].copy_from_slice(&[0x45, 0]);
        ip[2..4].copy_from_slice(&ip_bytes.to_be_bytes());
        ip[4..6].copy_from_slice(&id.to_be_bytes());
        // Do not fragment; time to live 64.
        ip[6..12].copy_from_slice(&[0x40, 0, 64, protocol, 0, 0]);
        ip[12..16].copy_from_slice(&self.source.address.to_be_bytes());
        ip[16..20].copy_from_slice(&self.destination.address.to_be_bytes());
        let checksum = fold(sum16(ip));
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    }

    fn write_ipv6(&self, ip: &mut [u8], segment_bytes: u16, protocol: u8) {
        let label = (self.hash >> 44) as u32 & 0xf_ffff;
        ip[..4].copy_from_slice(&(0x6000_0000 | label).to_be_bytes());
        ip[4..6].copy_from_slice(&segment_bytes.to_be_bytes());
        ip[6..8].copy_from_slice(&[protocol, 64]);
        // Unique local addresses (RFC 4193) that end in the IPv4 ones.
        for (address, at) in [(self.source.address, 8), (self.destination.address, 24)] {
            ip[at..at + 12].copy_from_slice(&[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            ip[at + 12..at + 16].copy_from_slice(&address.to_be_bytes());
        }
    }
}

/// Sum of big-endian 16-bit words, an odd byte at the end padded with zero (RFC 1071).
fn sum16(bytes: &[u8]) -> u32 {
    let (words, odd) = bytes.as_chunks::<2>();
    let words: u32 = words
        .iter()
        .map(|&word| u32::from(u16::from_be_bytes(word)))
        .sum();
    words + odd.first().map_or(0, |&byte| u32::from(byte) << 8)
}

/// The Internet checksum of a sum of 16-bit words (RFC 1071).
#[expect(clippy::cast_possible_truncation, reason = "folded to 16 bits")]
fn fold(sum: u32) -> u16 {
    let sum = (sum >> 16) + (sum & 0xffff);
    !((sum >> 16) + sum) as u16
}
