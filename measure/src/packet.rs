//! One pass over a frame: what kind it is, which flow it belongs to, which packet it is.
//!
//! ```text
//! frame --> dissect --> flow key ----> sum ---------> flow hash ----> column in each row
//!              |                       |
//!              +------> fields that   --+-----------> packet hash --> bank, row, sign, digest,
//!                       no hop changes    (keys of its own)      sampling, offset in a virtual LDA
//! ```
//!
//! [`Hasher::parse`] reads the first segment of a frame once and never fails: every sequence of
//! bytes has a [`Kind`], a flow and a packet hash. Two measurement points that share a seed
//! compute the same hashes on different machines, whatever routers did to the packet in between.
//!
//! # Headers
//!
//! Ethernet, up to four VLAN tags (0x8100, 0x88a8, 0x9100), up to eight MPLS labels (skipped; the first
//! nibble below them distinguishes IPv4 and IPv6), IPv4 with options and fragments, IPv6 with up to eight
//! extension headers, TCP, UDP, SCTP, ICMP and `ICMPv6`. A tunnel is identified by its outer headers. All
//! other frames, and IP that is malformed or truncated inside its own header, are identified by their MAC
//! addresses.
//!
//! | | flow hash | packet hash |
//! |---|---|---|
//! | IP | addresses, protocol, ports; ports are 0 in every fragment, so that a datagram stays one flow | the same; IPv4: total length, id, fragment field; IPv6: flow label, payload length, next header, fragment header; TCP: sequence and acknowledgement numbers; SCTP: verification tag; ICMP: type, code, rest of header; the first 16 bytes of payload |
//! | other | MAC pair, outermost VLAN id, ethertype | MAC pair, ethertype, length and first 16 bytes of payload |
//!
//! The packet hash of IP never includes: TTL and hop limit, DSCP and ECN, checksums, MAC addresses, VLAN
//! tags, MPLS labels, and anything beyond the IP length (Ethernet padding).
//!
//! # The hash, version 2
//!
//! The fields above become a short sequence of pairs of 64-bit words, read little-endian on every
//! machine:
//!
//! | form | pairs of the flow | the packet's first pair |
//! |---|---|---|
//! | IPv4 | (protocol and source, destination and ports) | (bytes 2 to 7 of the header, transport) |
//! | IPv6 | (first half of source, protocol and ports), (second half of source, first half of destination), (second half of destination, 0) | (bytes 0 to 7 of the header, transport) |
//! | other | (source MAC + ethertype 2^48, VLAN id), (destination MAC, 0) | (payload length, 0) |
//!
//! - The protocol is byte 1 of its word, the source of IPv4 and the ports of IPv6 are bytes 4 to 7;
//!   the destination of IPv4 is bytes 0 to 3, its ports are bytes 4 to 7: as bytes 8 to 23 of a
//!   packet without options are, without TTL and checksum. Ports are the first four bytes of TCP,
//!   UDP or SCTP, else 0.
//! - Header of IPv6: the bits of traffic class and hop limit are 0.
//! - Transport: TCP bytes 4 to 11; SCTP bytes 4 to 7; ICMP bytes 0 to 7 with the checksum 0; of a
//!   fragment of IPv6 the fragment header's offset and flag, reserved bits 0, times 2^32, plus its
//!   identification, both as numbers; else 0.
//! - Payload length: at least 46, because padding may be added or removed.
//! - The packet's second pair is the first 16 bytes of payload (in the last form at most as many as the LLC
//!   length allows), preceded by zeros if there are fewer. The payload of a fragment begins 20 bytes into
//!   it, behind any checksum.
//!
//! 1. Keys: `SipHash-2-4(seed, i)` for i = 0, 1, 2, ... as eight little-endian bytes (Aumasson and
//!    Bernstein 2012): two for each of 3 pairs of a flow, two for the flow hash's fold, two for each
//!    of the packet's 2 pairs, two for the packet hash's fold.
//! 2. NH: the sum over pairs of `(a + k) * (b + k')`, additions modulo 2^64, products and sum
//!    modulo 2^128 (Black et al. 1999, UMAC): for the flow hash over the flow's pairs, for the
//!    packet hash over these (VLAN id 0) and the packet's. Inputs that differ have equal sums with
//!    probability 2^-63 at most over the keys: 2^-64 by the theorem for those of one form, which
//!    have as many pairs; of two forms one has a pair more, whose product alone takes any value
//!    with probability 2^-63 at most.
//! 3. Fold and finaliser: `(low + k) * (high + k')` of the sum's halves, and the upper half of this
//!    product onto the lower by exclusive or. This mixes; that it adds no more collisions than
//!    chance does (2^-64) is tested here, not proven.
//!
//! Packets of one flow share the sum over the flow's pairs, which does no harm: their difference is that of
//! the packet's own pairs.
//!
//! The guarantee is that without the seed no sender can choose the cell of a packet. It is not a cryptographic
//! guarantee: do not show hashes to anyone who must not find the seed.
//!
//! | bits of the packet hash | serve |
//! |---|---|
//! | 0..32 | the bank of an LDA, compared with the cumulated probabilities; whether a row of an LDS samples the packet, compared with the row's probability, so that samples nest |
//! | 32..64 | the digest of a cell |
//! | upper 32 of `hash * ROW_MULTIPLIERS[0]` modulo 2^64 | the row of an LDA, reduced to its range; the row's lowest bit is the sign where rows are collapsed in pairs |
//! | upper 32 of `hash * ROW_MULTIPLIERS[3]` | the packet's offset in its flow's virtual LDA, reduced to 0..k, the same in every row of an LDS |
//!
//! | bits of the flow hash | serve |
//! |---|---|
//! | upper 32 of `key * ROW_MULTIPLIERS[r]` | the flow's first column in row r of an LDS, reduced to 0..C; `key` is the flow hash mixed with the segment ([`crate::flows::FlowId`]) |
//!
//! For a uniform hash, row and bank are independent, as are offset and sampling: multipliers are
//! odd, so whatever the lower half of the hash, the upper half alone makes the upper half of the
//! product uniform.
//!
//! A vector, for the seed `00 01 .. 0f`; more are in this module's tests.
//!
//! ```
//! use measure::packet::{FlowKey, Hasher, Kind};
//!
//! let mut frame = vec![0u8; 60];
//! frame[12..14].copy_from_slice(&[0x08, 0x00]); // IPv4
//! frame[14..34].copy_from_slice(&[
//!     0x45, 0, 0, 40, 0x12, 0x34, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
//! ]);
//! frame[34..54].copy_from_slice(&[
//!     0x01, 0xbb, 0xd6, 0xd8, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0,
//! ]);
//!
//! let hasher = Hasher::new(std::array::from_fn(|i| i as u8));
//! let parsed = hasher.parse(&frame, 60);
//! assert_eq!(parsed.kind, Kind::Tcp);
//! assert_eq!(parsed.flow.0, 0x55a0_1746_7ef5_187a);
//! assert_eq!(parsed.packet.0, 0xeceb_fe6d_e26f_83d6);
//!
//! let key = FlowKey::parse(&frame);
//! assert_eq!(key.to_string(), "10.0.0.1:443>10.0.0.2:55000/tcp");
//! assert_eq!(hasher.flow_hash(&key), parsed.flow);
//! ```

mod dissect;
mod hash;
pub mod header;
mod key;
mod plain;
mod rows;
pub mod walk;
mod words;

pub use hash::{HASH_VERSION, Hasher};
pub use key::{FiveTuple, FlowKey, FlowKeyError};
pub use rows::{ROW_MULTIPLIERS, RandomHashes, row_of};

use crate::labelled_enum;

/// Keyed hash of a flow. Uniform over 64 bits; the same at all points that share the seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FlowHash(pub u64);

/// Keyed hash of the fields of a packet that no hop changes. Uniform over 64 bits; the same at all points
/// that share the seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PacketHash(pub u64);

/// What to compute for each packet. If both ends of a segment are recorded at one point, as inside a
/// switch, an LDA needs no packet hash: it [spreads](RandomHashes) packets at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hashing {
    /// Nothing; the frame is not read.
    None,
    /// Its flow.
    Flow,
    /// Its flow hash and packet hash.
    Packet,
}

/// Result of one pass over a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parsed {
    /// Which flow it belongs to.
    pub flow: FlowHash,
    /// Which packet it is.
    pub packet: PacketHash,
    /// What kind of frame it is.
    pub kind: Kind,
}

labelled_enum! {
    /// Result of parsing: the innermost known header, or why parsing stopped.
    #[repr(u8)]
    pub enum Kind {
        /// TCP over IPv4 or IPv6.
        Tcp = "tcp",
        /// UDP over IPv4 or IPv6.
        Udp = "udp",
        /// SCTP over IPv4 or IPv6.
        Sctp = "sctp",
        /// ICMP over IPv4, `ICMPv6` over IPv6.
        Icmp = "icmp",
        /// IP with any other protocol, including tunnels, or with too many extension headers.
        OtherIp = "other_ip",
        /// A fragment of an IP datagram, including the first one.
        Fragment = "fragment",
        /// Any other ethertype, LLC frames, and MPLS without IP inside.
        NonIp = "non_ip",
        /// The frame, or its first segment, ends inside a header that it announces.
        Truncated = "truncated",
        /// A header contradicts itself or the previous one: wrong IP version, header length below the
        /// minimum, IP length below that of the headers inside.
        Malformed = "malformed",
    }
}

impl Kind {
    /// How many there are.
    pub const COUNT: usize = Self::ALL.len();
}

/// Bits of a kind's count.
const BITS: usize = 7;
const MOST: usize = (1 << BITS) - 1;

/// Counts of a burst by [`Kind`], all in one word: each count is a single addition, instead of a load and a
/// store in memory.
#[derive(Debug, Clone, Copy, Default)]
pub struct Census(u64);

const _: () = assert!(Kind::COUNT * BITS <= 64, "one word");

impl Census {
    /// Most frames that are counted; beyond that, counts overflow into each other.
    pub const FRAMES_MAX: usize = MOST;

    /// Counts one frame.
    #[inline]
    pub fn add(&mut self, kind: Kind) {
        // A table, because a shift by a product takes three instructions more.
        static ONE_OF: [u64; Kind::COUNT] = {
            let mut ones = [0; Kind::COUNT];
            let mut kind = 0;
            while kind < Kind::COUNT {
                ones[kind] = 1 << (BITS * kind);
                kind += 1;
            }
            ones
        };
        self.0 = self.0.wrapping_add(ONE_OF[kind as usize]);
    }

    /// Frames of each kind, in the order of [`Kind::ALL`].
    #[inline]
    pub fn counts(self) -> [u64; Kind::COUNT] {
        std::array::from_fn(|kind| self.0 >> (BITS * kind) & MOST as u64)
    }
}

#[cfg(test)]
pub(crate) mod tests;
