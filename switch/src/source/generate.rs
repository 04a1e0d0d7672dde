//! Seeded traffic: flows of uneven popularity, in Poisson arrivals of geometric bursts.
//!
//! All randomness comes from one PCG generator, and flows are drawn with integers alone, so that the same
//! seed gives the same packets on every machine.

use std::net::{Ipv4Addr, Ipv6Addr};

use contract::config::device::{self, FrameSize};
use measure::packet::header::{ethernet, ethertype, ipv4, ipv6, protocol, tcp, udp};
use rand::{Rng, RngExt, SeedableRng};
use rand_distr::Exp1;
use rand_pcg::Pcg64Mcg;

use super::{ETHERNET_HEADER_BYTES, Frame, SourceError};

/// Frame lengths of the simple IMIX in the ratio 7 : 4 : 1, without frame check sequence.
const IMIX_BYTES: [u32; 12] = [60, 60, 60, 60, 60, 60, 60, 590, 590, 590, 590, 1514];

/// An endless source of seeded traffic.
#[derive(Debug)]
pub struct Generator {
    rng: Pcg64Mcg,
    seed: u64,
    macs: u32,
    side: u8,
    size: FrameSize,
    popularity: Popularity,
    /// Payload bytes that each flow has sent, by which its TCP sequence numbers advance.
    sent_bytes: Vec<u32>,
    /// Number of packets made.
    packets: u64,
    /// A packet ends its burst when 32 random bits are below this.
    burst_end_threshold: u64,
    mean_burst_gap_ns: f64,
    /// When the packet in `head` is due, in nanoseconds, and the fraction beyond.
    due_ns: u64,
    due_fraction_ns: f64,
    head: [u8; HEAD_BYTES_MAX],
    head_bytes: usize,
    len_bytes: u32,
}

impl Generator {
    /// Sets up traffic for a port with an MTU of `mtu_bytes`.
    ///
    /// The weight of flow `i` is the quantile `(i + 1/2) / flows` of a Pareto distribution. A packet's flow
    /// and size are drawn independently; one in eight flows is IPv6, one in four is UDP, the rest TCP, all
    /// with valid checksums. IPv6 frames are at least 70 (UDP) or 82 bytes (TCP) long, because a shorter
    /// one has no room for the headers. Both sides of a seed have the same flows, with addresses and ports
    /// swapped, and independent arrivals.
    ///
    /// Values outside the configuration's ranges are replaced by the nearest valid value.
    ///
    /// # Errors
    /// [`SourceError`] if frames would be longer than the MTU and an Ethernet header.
    pub fn new(spec: &device::Generate, mtu_bytes: u16) -> Result<Self, SourceError> {
        let limit_bytes = u32::from(mtu_bytes) + ETHERNET_HEADER_BYTES;
        let size_bytes = match spec.size {
            FrameSize::Imix => IMIX_BYTES[11],
            FrameSize::Fixed(bytes) => bytes.into(),
        };
        if size_bytes > limit_bytes {
            let mtu_bytes = size_bytes - ETHERNET_HEADER_BYTES;
            return Err(SourceError(format!(
                "size={size_bytes} makes frames longer than the {limit_bytes} bytes that a port with this MTU \
                 carries; ask for smaller ones, or raise the port's mtu to {mtu_bytes}"
            )));
        }
        let flows = spec.flows.clamp(1, 10_000_000);
        let burst = spec.burst.max(1.0);
        let mut generator = Self {
            rng: Pcg64Mcg::seed_from_u64(mix64(spec.seed) ^ u64::from(spec.side)),
            seed: spec.seed,
            macs: spec.macs.clamp(1, 65_536),
            side: spec.side,
            size: spec.size,
            popularity: Popularity::pareto(flows, spec.pareto),
            sent_bytes: vec![0; flows as usize],
            packets: 0,
            burst_end_threshold: burst_end_threshold(burst),
            mean_burst_gap_ns: burst / spec.rate_pps * 1e9,
            due_ns: 0,
            due_fraction_ns: 0.0,
            head: [0; HEAD_BYTES_MAX],
            head_bytes: 0,
            len_bytes: 0,
        };
        generator.wait_for_burst();
        generator.make_packet();
        Ok(generator)
    }

    /// See [`super::Source::poll`].
    #[inline]
    pub fn poll(
        &mut self,
        elapsed_ns: u64,
        room: usize,
        mut emit: impl FnMut(Frame<'_>) -> bool,
    ) -> usize {
        let mut emitted = 0;
        while emitted < room && self.due_ns <= elapsed_ns {
            let head = &self.head[..self.head_bytes];
            if !emit(Frame {
                head,
                len_bytes: self.len_bytes,
            }) {
                break;
            }
            emitted += 1;
            if u64::from(self.rng.next_u32()) < self.burst_end_threshold {
                self.wait_for_burst();
            }
            self.make_packet();
        }
        emitted
    }

    /// Advances the due time by the gap to the next burst: exponential, hence Poisson arrivals.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive, and the cast saturates; the fraction is kept"
    )]
    fn wait_for_burst(&mut self) {
        let gap_ns = self.rng.sample::<f64, _>(Exp1) * self.mean_burst_gap_ns;
        self.due_fraction_ns += gap_ns;
        let whole_ns = self.due_fraction_ns as u64;
        self.due_ns = self.due_ns.saturating_add(whole_ns);
        self.due_fraction_ns -= whole_ns as f64;
    }

    fn make_packet(&mut self) {
        let index = self.popularity.draw(self.rng.next_u64());
        let len_bytes = match self.size {
            FrameSize::Imix => IMIX_BYTES[self.rng.random_range(0..IMIX_BYTES.len())],
            FrameSize::Fixed(bytes) => bytes.into(),
        };
        let flow = Flow::new(self.seed, index, self.macs, self.side);
        self.len_bytes = len_bytes.max(flow.frame_bytes_min());
        let sent_bytes = &mut self.sent_bytes[index as usize];
        self.head_bytes = flow.write(&mut self.head, self.len_bytes, *sent_bytes, self.packets);
        *sent_bytes = sent_bytes.wrapping_add(flow.payload_bytes(self.len_bytes));
        self.packets += 1;
    }
}

/// A burst of geometric length with mean `burst` ends after each packet with probability
/// `1 / burst`; this is that probability times 2^32.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 0 and 2^32"
)]
fn burst_end_threshold(burst: f64) -> u64 {
    (4_294_967_296.0 / burst) as u64
}

// The headers of a flow's packets.
// A flow is only a number: addresses, ports and protocol are computed from it, so ten million flows need no
// table.
// million flows need no table.

/// Ethernet, IPv6 and TCP headers, and the packet's number as payload.
const HEAD_BYTES_MAX: usize = ethernet::BYTES + ipv6::BYTES + tcp::BYTES + PAYLOAD;

/// Bytes of payload that are not zero: the number of the packet.
const PAYLOAD: usize = 8;

/// A bijective mixer of 64 bits (the finaliser of `SplitMix64`, Steele and others 2014).
const fn mix64(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// One end of a flow.
#[derive(Debug, Clone, Copy)]
struct Endpoint {
    /// Locally administered, so that no vendor's address is used.
    mac: [u8; 6],
    /// The IPv4 address, which is also the end of the IPv6 address.
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

/// The ends and protocol of a flow.
#[derive(Debug, Clone, Copy)]
struct Flow {
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
    fn new(seed: u64, index: u32, macs: u32, side: u8) -> Self {
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

    /// Offset of the TCP or UDP header.
    fn segment_at(&self) -> usize {
        ethernet::BYTES + if self.ipv6 { ipv6::BYTES } else { ipv4::BYTES }
    }

    fn headers_bytes(&self) -> usize {
        self.segment_at() + if self.udp { udp::BYTES } else { tcp::BYTES }
    }

    /// The shortest frame with the headers and, if 60 bytes are not enough, the payload's number.
    fn frame_bytes_min(&self) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "82 at most")]
        let with_number = (self.headers_bytes() + PAYLOAD) as u32;
        if self.ipv6 { with_number } else { 60 }
    }

    /// Payload of a frame of `len_bytes`.
    fn payload_bytes(&self, len_bytes: u32) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "74 at most")]
        len_bytes.saturating_sub(self.headers_bytes() as u32)
    }

    /// Writes the head of a frame of `len_bytes`, at least [`Flow::frame_bytes_min`] and at most 65,535;
    /// the rest are zeros. Returns the head's length.
    ///
    /// `sent_bytes` is what the flow has sent before; `number` distinguishes this packet from all others of
    /// the generator.
    fn write(
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
        // The low bytes first: a short payload keeps those, and they change.
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

// How often each flow sends: a discrete distribution, drawn from in constant time.

/// An alias table (Walker 1977, built as by Vose 1991, entirely in integers): flow `i` owns one column, and
/// shares it with at most one other flow.
#[derive(Debug)]
struct Popularity {
    columns: Vec<Column>,
}

#[derive(Debug, Clone, Copy)]
struct Column {
    /// The owner's share of the column, times 2^32 minus one.
    share: u32,
    /// The flow with the rest of the column.
    alias: u32,
}

impl Popularity {
    /// `flows` weights (1 to 10,000,000) that are quantiles of a Pareto distribution of the given
    /// `shape` (over 0), the largest first.
    ///
    /// Weights are rounded to 40 bits, so that the last bit of the platform's `powf` does not matter.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 2^40"
    )]
    fn pareto(flows: u32, shape: f64) -> Self {
        const LARGEST: f64 = (1_u64 << 40) as f64;
        let weights: Vec<u64> = (0..flows)
            // The quantile relative to the largest one: (u_0 / u_i)^(1 / shape).
            .map(|i| (0.5 / (f64::from(i) + 0.5)).powf(1.0 / shape))
            .map(|weight| ((weight * LARGEST).round() as u64).max(1))
            .collect();
        Self::new(&weights)
    }

    /// Makes a table from weights of at most 40 bits each, at least one of them positive.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "indices and shares are 32 bits"
    )]
    fn new(weights: &[u64]) -> Self {
        let flows = weights.len() as u64;
        let capacity: u64 = weights.iter().sum::<u64>().max(1);
        // Weight that each flow has still to place; a column holds `capacity`.
        let mut left: Vec<u128> = weights
            .iter()
            .map(|&weight| u128::from(weight) * u128::from(flows))
            .collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..flows as u32).partition(|&i| left[i as usize] < u128::from(capacity));
        let mut columns: Vec<Column> = (0..flows as u32)
            .map(|i| Column {
                share: u32::MAX,
                alias: i,
            })
            .collect();
        while let (Some(owner), Some(&alias)) = (small.pop(), large.last()) {
            let share = left[owner as usize];
            columns[owner as usize] = Column {
                share: ((share << 32) / u128::from(capacity)) as u32,
                alias,
            };
            left[alias as usize] -= u128::from(capacity) - share;
            if left[alias as usize] < u128::from(capacity) {
                large.pop();
                small.push(alias);
            }
        }
        Self { columns }
    }

    /// The flow selected by 64 random bits.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the halves of 64 bits")]
    fn draw(&self, random: u64) -> u32 {
        // Multiply-shift: the upper half picks the column, the lower half the flow within.
        let column = ((random >> 32) * self.columns.len() as u64) >> 32;
        let Column { share, alias } = self.columns[column as usize];
        if (random as u32) < share {
            column as u32
        } else {
            alias
        }
    }
}

#[cfg(test)]
mod tests;
