//! The keyed hash.
#![expect(
    clippy::inline_always,
    reason = "the lengths of the slices are known only where it is all one function: 7 ns, not 13"
)]

use std::fmt;
use std::hint::select_unpredictable;
use std::ops::Range;

use siphasher::sip::SipHasher24;

use super::dissect::Dissected;
use super::key::FlowKey;
use super::words::{Pair, first_16};
use super::{FlowHash, PacketHash, Parsed};

/// Version of the hashes: what is hashed, how, and with which keys. Points of different versions
/// cannot be paired.
pub const HASH_VERSION: u32 = 1;

/// Computes flow and packet hashes under one seed.
#[derive(Clone)]
pub struct Hasher {
    flow: Keys<3>,
    packet: Keys<5>,
}

/// Shows no keys: they must not get into logs.
impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hasher").finish_non_exhaustive()
    }
}

/// Keys of one hash over up to `PAIRS` pairs of words.
#[derive(Clone)]
struct Keys<const PAIRS: usize> {
    nh: [Pair; PAIRS],
    fold: Pair,
}

impl<const PAIRS: usize> Keys<PAIRS> {
    fn expand(mut next: impl FnMut() -> u64) -> Self {
        let nh = std::array::from_fn(|_| (next(), next()));
        let fold = (next(), next());
        Self { nh, fold }
    }

    /// NH over pairs that stand from place `from` on: sum of products, modulo 2^128. Pairs past
    /// the last key are not read.
    #[inline(always)]
    fn sum(&self, from: usize, pairs: &[Pair]) -> u128 {
        // No chain of iterators: compilers stop short of inlining all of it, at twice the cost.
        let mut sum = 0_u128;
        for (place, word) in pairs.iter().enumerate() {
            let Some(key) = self.nh.get(from + place) else {
                break;
            };
            let left = u128::from(word.0.wrapping_add(key.0));
            let right = u128::from(word.1.wrapping_add(key.1));
            sum = sum.wrapping_add(left * right);
        }
        sum
    }

    /// Fold and finaliser: one multiplication of the keyed halves, and its halves added by
    /// exclusive or.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "lower halves are meant")]
    fn finish(&self, sum: u128) -> u64 {
        let left = u128::from((sum as u64).wrapping_add(self.fold.0));
        let right = u128::from(((sum >> 64) as u64).wrapping_add(self.fold.1));
        let product = left * right;
        product as u64 ^ (product >> 64) as u64
    }
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
        Self {
            flow: Keys::expand(&mut next),
            packet: Keys::expand(&mut next),
        }
    }

    /// Hashes of a frame and its kind.
    ///
    /// `head` is the frame's first segment, from the destination MAC on; `frame_len` the length of
    /// the whole frame in bytes, without frame check sequence, and at least `head.len()`.
    #[inline]
    pub fn parse(&self, head: &[u8], frame_len: u32) -> Parsed {
        if let Some(parsed) = self.parse_plain(head) {
            return parsed;
        }
        self.parse_any(head, frame_len)
    }

    /// Hash of a flow: what [`parse`](Self::parse) yields for the flow's packets.
    pub fn flow_hash(&self, key: &FlowKey) -> FlowHash {
        let (pairs, used) = key.pairs();
        self.flow(&pairs[..used])
    }

    /// Any frame, header by header.
    #[inline(never)]
    pub(super) fn parse_any(&self, head: &[u8], frame_len: u32) -> Parsed {
        let Dissected {
            kind,
            key,
            identity,
            payload,
        } = Dissected::of(head, frame_len);
        Parsed {
            flow: self.flow_hash(&key),
            packet: self.packet(identity.pairs(), head, payload),
            kind,
        }
    }

    #[inline(always)]
    pub(super) fn flow(&self, pairs: &[Pair]) -> FlowHash {
        FlowHash(self.flow.finish(self.flow.sum(0, pairs)))
    }

    /// Hash of a packet's fixed fields and the first 16 bytes of its payload.
    #[inline(always)]
    pub(super) fn packet(&self, fixed: &[Pair], head: &[u8], payload: Range<usize>) -> PacketHash {
        let Range { start, end } = payload;
        // Chosen, not branched over: whether there is any payload is hard to guess.
        let payload = self.packet.sum(fixed.len(), &[first_16(head, start, end)]);
        let payload = select_unpredictable(start < end, payload, 0);
        let sum = self.packet.sum(0, fixed).wrapping_add(payload);
        PacketHash(self.packet.finish(sum))
    }
}
