//! The keyed hash.
#![expect(
    clippy::inline_always,
    reason = "the lengths of the slices are known only where it is all one function: 7 ns, not 13"
)]

use std::fmt;
use std::hint::select_unpredictable;
use std::ops::Range;

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
        self.nh
            .iter()
            .skip(from)
            .zip(pairs)
            .fold(0, |sum: u128, (key, word)| {
                let left = u128::from(word.0.wrapping_add(key.0));
                let right = u128::from(word.1.wrapping_add(key.1));
                sum.wrapping_add(left * right)
            })
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

/// SipHash-2-4 of one 64-bit word (Aumasson and Bernstein 2012, section 2), as a pseudo-random
/// function that makes keys from the seed.
fn siphash_2_4(seed: [u8; 16], word: u64) -> u64 {
    fn rounds(mut v: [u64; 4], count: usize) -> [u64; 4] {
        for _ in 0..count {
            v[0] = v[0].wrapping_add(v[1]);
            v[2] = v[2].wrapping_add(v[3]);
            v[1] = v[1].rotate_left(13) ^ v[0];
            v[3] = v[3].rotate_left(16) ^ v[2];
            v[0] = v[0].rotate_left(32);
            v[2] = v[2].wrapping_add(v[1]);
            v[0] = v[0].wrapping_add(v[3]);
            v[1] = v[1].rotate_left(17) ^ v[2];
            v[3] = v[3].rotate_left(21) ^ v[0];
            v[2] = v[2].rotate_left(32);
        }
        v
    }
    let bits = u128::from_le_bytes(seed);
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the two halves of the seed"
    )]
    let (k0, k1) = (bits as u64, (bits >> 64) as u64);
    let mut v = [
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ];
    // One full block, then the last, which holds only the length of the message in bytes.
    for block in [word, 8 << 56] {
        v[3] ^= block;
        v = rounds(v, 2);
        v[0] ^= block;
    }
    v[2] ^= 0xff;
    v = rounds(v, 4);
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

impl Hasher {
    /// A hasher for a deployment's seed. Points pair only if their seeds are equal.
    pub fn new(seed: [u8; 16]) -> Self {
        let mut counter = 0;
        let mut next = || {
            let key = siphash_2_4(seed, counter);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siphash_agrees_with_the_authors_vector() {
        // vectors.h of the reference implementation: key 00..0f, message 00..07.
        let seed = std::array::from_fn(|i| u8::try_from(i).unwrap());
        let word = u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(siphash_2_4(seed, word), 0x93f5_f579_9a93_2462);
    }
}
