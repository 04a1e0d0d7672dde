//! The headers of a flow's packets.
//!
//! A flow is nothing but its number: addresses, ports and protocol are computed from it, so ten
//! million flows need no table.

use std::net::{Ipv4Addr, Ipv6Addr};

use measure::packet::header::{ethernet, ethertype, ipv4, ipv6, protocol, tcp, udp};

/// Ethernet, IPv6 and TCP headers, and the packet's number as payload.
pub(super) const HEAD_BYTES_MAX: usize = ethernet::BYTES + ipv6::BYTES + tcp::BYTES + PAYLOAD;

/// Payload that is not zeros: the number of the packet.
const PAYLOAD: usize = 8;

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

impl Endpoint {
    fn ipv4(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.address)
    }

    /// A unique local address (RFC 4193).
    fn ipv6(self) -> Ipv6Addr {
        Ipv6Addr::from_bits(0xfd << 120 | u128::from(self.address))
    }
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

    /// Where the TCP or UDP header begins.
    fn segment_at(&self) -> usize {
        ethernet::BYTES + if self.ipv6 { ipv6::BYTES } else { ipv4::BYTES }
    }

    fn headers_bytes(&self) -> usize {
        self.segment_at() + if self.udp { udp::BYTES } else { tcp::BYTES }
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
    pub(super) fn write(
        &self,
        head: &mut [u8; HEAD_BYTES_MAX],
        len_bytes: u32,
        sent_bytes: u32,
        number: u64,
    ) -> usize {
        let (segment_at, headers_bytes) = (self.segment_at(), self.headers_bytes());
        let head_bytes = (headers_bytes + PAYLOAD).min(len_bytes as usize);
        let (headers, segment) = head[..head_bytes].split_at_mut(segment_at);
        let (ethernet, ip) = headers.split_at_mut(ethernet::BYTES);
        let segment_bytes = len_bytes as usize - segment_at;
        let frame = ethernet::Repr {
            destination: self.destination.mac,
            source: self.source.mac,
            ethertype: if self.ipv6 {
                ethertype::IPV6
            } else {
                ethertype::IPV4
            },
        };
        ethernet.copy_from_slice(&frame.emit());
        let pseudo_header = if self.ipv6 {
            let packet = self.ipv6(segment_bytes);
            ip.copy_from_slice(&packet.emit());
            packet.pseudo_header()
        } else {
            let packet = self.ipv4(segment_bytes, number);
            ip.copy_from_slice(&packet.emit());
            packet.pseudo_header()
        };
        let (transport, payload) = segment.split_at_mut(headers_bytes - segment_at);
        // The low bytes first: they are what a short payload keeps, and what changes.
        payload.copy_from_slice(&number.to_le_bytes()[..payload.len()]);
        if self.udp {
            transport.copy_from_slice(&self.udp(segment_bytes).emit());
            udp::set_checksum(segment, pseudo_header);
        } else {
            transport.copy_from_slice(&self.tcp(sent_bytes).emit());
            tcp::set_checksum(segment, pseudo_header);
        }
        head_bytes
    }

    fn protocol(&self) -> u8 {
        if self.udp {
            protocol::UDP
        } else {
            protocol::TCP
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the low bits tell packets apart"
    )]
    fn ipv4(&self, segment_bytes: usize, number: u64) -> ipv4::Repr {
        let (from, to) = (self.source.ipv4(), self.destination.ipv4());
        ipv4::Repr {
            id: number as u16,
            ..ipv4::Repr::new(from, to, self.protocol(), segment_bytes)
        }
    }

    fn ipv6(&self, segment_bytes: usize) -> ipv6::Repr {
        let (from, to) = (self.source.ipv6(), self.destination.ipv6());
        ipv6::Repr {
            flow_label: (self.hash >> 44) as u32 & 0xf_ffff,
            ..ipv6::Repr::new(from, to, self.protocol(), segment_bytes)
        }
    }

    fn udp(&self, segment_bytes: usize) -> udp::Repr {
        let payload_bytes = segment_bytes - udp::BYTES;
        udp::Repr::new(self.source.port, self.destination.port, payload_bytes)
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "fields are cut from the hash"
    )]
    fn tcp(&self, sent_bytes: u32) -> tcp::Repr {
        tcp::Repr {
            source_port: self.source.port,
            destination_port: self.destination.port,
            sequence: (self.hash as u32).wrapping_add(sent_bytes),
            acknowledgement: (self.hash >> 32) as u32,
            flags: tcp::ACK,
            window: u16::MAX,
        }
    }
}
