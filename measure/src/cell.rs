//! A cell: what LDA and LDS accumulate, and what both ends compare.

use crate::packet::PacketHash;
use crate::sight::Sight;

/// One end's half of a cell: 16 bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Cell {
    /// Times of its packets in ticks since the epoch's start, with their weights where they have
    /// any, added modulo 2^64.
    pub sum: u64,
    /// Its packets, with their weights, modulo 2^32.
    pub count: u32,
    /// Exclusive or of the upper halves of its packets' hashes.
    pub digest: u32,
}

impl Cell {
    /// Adds one packet.
    #[inline]
    pub(crate) fn add(&mut self, PacketHash(hash): PacketHash, time: u64) {
        self.sum = self.sum.wrapping_add(time);
        self.count = self.count.wrapping_add(1);
        self.digest ^= (hash >> 32) as u32;
    }

    /// Adds one packet with a weight: as many times its time and its count, once its digest.
    #[inline]
    pub(crate) fn add_weighted(&mut self, PacketHash(hash): PacketHash, time: u64, weight: u32) {
        self.sum = self.sum.wrapping_add(time.wrapping_mul(weight.into()));
        self.count = self.count.wrapping_add(weight);
        self.digest ^= (hash >> 32) as u32;
    }

    /// Adds what another shard accumulated.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.sum = self.sum.wrapping_add(other.sum);
        self.count = self.count.wrapping_add(other.count);
        self.digest ^= other.digest;
    }
}

/// Both ends' halves of a cell, side by side in 32 bytes: never across two cache lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C, align(32))]
pub struct CellPair {
    /// The sender's half.
    pub sender: Cell,
    /// The receiver's half.
    pub receiver: Cell,
}

impl CellPair {
    /// The sum of its packets' delays in ticks, where both ends counted the same packets; `None`
    /// where they did not.
    #[inline]
    pub fn delay_sum(&self) -> Option<i64> {
        let alike =
            self.sender.count == self.receiver.count && self.sender.digest == self.receiver.digest;
        alike.then(|| {
            self.receiver
                .sum
                .wrapping_sub(self.sender.sum)
                .cast_signed()
        })
    }

    /// Adds one packet that passed both ends, as it was seen at the receiver's.
    #[inline]
    pub(crate) fn pass(&mut self, sight: &Sight) {
        self.sender
            .add(sight.packet, sight.time.wrapping_sub(sight.delay));
        self.receiver.add(sight.packet, sight.time);
    }

    /// Adds what another shard accumulated.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.sender.merge(&other.sender);
        self.receiver.merge(&other.receiver);
    }
}

const _: () = assert!(
    size_of::<Cell>() == 16 && size_of::<CellPair>() == 32,
    "as documented"
);
