//! The keyed hash.
#![expect(
    clippy::inline_always,
    reason = "the lengths of the slices are known only where it is all one function"
)]

use std::fmt;

use siphasher::sip::SipHasher24;

use super::dissect::Dissected;
use super::key::FlowKey;
use super::words::{Pair, first_16, halves};
use super::{FlowHash, PacketHash, Parsed};

/// Version of the hashes: the fields hashed, the algorithm, and the keys. Points of different versions
/// cannot be paired.
pub const HASH_VERSION: u32 = 2;

/// Computes flow and packet hashes under one seed.
#[derive(Clone)]
pub struct Hasher {
    flow: [Pair; 3],
    flow_fold: Pair,
    packet: [Pair; 2],
    packet_fold: Pair,
}

/// Hides the keys, which must not get into logs.
impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hasher").finish_non_exhaustive()
    }
}

/// One product of NH: both words with their keys.
#[inline(always)]
fn product(word: Pair, key: Pair) -> u128 {
    u128::from(word.0.wrapping_add(key.0)) * u128::from(word.1.wrapping_add(key.1))
}

/// Fold and finaliser: one multiplication of the keyed halves; the halves of the product are combined by
/// exclusive or.
#[inline(always)]
fn finish(sum: u128, key: Pair) -> u64 {
    let (low, high) = halves(product(halves(sum), key));
    low ^ high
}

impl Hasher {
    /// A hasher for a deployment's seed. Points pair only if their seeds are equal.
    pub fn new(seed: [u8; 16]) -> Self {
        // Aumasson and Bernstein 2012, as a pseudo-random function that makes keys from the seed.
        let siphash = SipHasher24::new_with_key(&seed);
        let mut counter = 0_u64;
        let mut next = || {
            let key = siphash.hash(&counter.to_le_bytes());
            counter += 1;
            key
        };
        let mut pair = || (next(), next());
        Self {
            flow: std::array::from_fn(|_| pair()),
            flow_fold: pair(),
            packet: std::array::from_fn(|_| pair()),
            packet_fold: pair(),
        }
    }

    /// Computes the hashes of a frame and its kind.
    ///
    /// `head` is the frame's first segment, beginning with the destination MAC; `frame_len` is the length
    /// of the whole frame in bytes, without frame check sequence, and at least `head.len()`.
    #[inline]
    pub fn parse(&self, head: &[u8], frame_len: u32) -> Parsed {
        self.parse_as::<true>(head, frame_len)
    }

    /// The same; without `PACKET`, the packet's hash is meaningless.
    #[inline]
    pub fn parse_as<const PACKET: bool>(&self, head: &[u8], frame_len: u32) -> Parsed {
        if let Some(parsed) = self.parse_plain::<PACKET>(head) {
            return parsed;
        }
        // Field by field: as a whole, it would be stored and loaded again in other pieces.
        let Parsed { flow, packet, kind } = self.parse_other(head, frame_len);
        Parsed { flow, packet, kind }
    }

    /// Hash of a flow: the same that [`parse`](Self::parse) returns for the flow's packets.
    pub fn flow_hash(&self, key: &FlowKey) -> FlowHash {
        let (pairs, used) = key.pairs();
        self.flow(self.sum(&pairs[..used]))
    }

    #[inline(never)]
    fn parse_other(&self, head: &[u8], frame_len: u32) -> Parsed {
        self.parse_plain_other::<true>(head)
            .unwrap_or_else(|| self.parse_any(head, frame_len))
    }

    /// Any frame, header by header.
    pub(super) fn parse_any(&self, head: &[u8], frame_len: u32) -> Parsed {
        let Dissected {
            kind,
            key,
            identity,
            payload,
        } = Dissected::of(head, frame_len);
        let (pairs, used) = key.without_vlan().pairs();
        let sum = self.sum(&pairs[..used]);
        let payload = first_16(head, payload.start, payload.end.min(head.len()));
        Parsed {
            flow: self.flow_hash(&key),
            packet: self.packet(sum, identity, payload),
            kind,
        }
    }

    /// NH over a flow's pairs, modulo 2^128.
    #[inline(always)]
    pub(super) fn sum(&self, pairs: &[Pair]) -> u128 {
        let mut sum = 0_u128;
        for (&word, &key) in pairs.iter().zip(&self.flow) {
            sum = sum.wrapping_add(product(word, key));
        }
        sum
    }

    /// From the sum over the flow's pairs.
    #[inline(always)]
    pub(super) fn flow(&self, sum: u128) -> FlowHash {
        FlowHash(finish(sum, self.flow_fold))
    }

    /// From the sum over the flow's pairs, the other identifying header fields, and the payload.
    #[inline(always)]
    pub(super) fn packet(&self, flow: u128, identity: Pair, payload: Pair) -> PacketHash {
        let [identity_key, payload_key] = self.packet;
        let sum = flow
            .wrapping_add(product(identity, identity_key))
            .wrapping_add(product(payload, payload_key));
        PacketHash(finish(sum, self.packet_fold))
    }
}
