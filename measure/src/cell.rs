//! A cell: the sums of LDA and LDS, which both ends compare.

use crate::observation::{End, Observation};
use crate::packet::PacketHash;

/// One end's half of a cell: 16 bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Cell {
    /// Times of its packets in ticks since the epoch's start, multiplied by their weights if any, modulo
    /// 2^64.
    pub sum: u64,
    /// Number of its packets by weight, modulo 2^32.
    pub count: u32,
    /// Exclusive or of the upper halves of its packets' hashes.
    pub digest: u32,
}

impl Cell {
    /// Adds one packet with a weight, which multiplies its time and its count but not its digest.
    #[inline]
    fn add(&mut self, PacketHash(hash): PacketHash, time: u64, weight: u32) {
        self.sum = self.sum.wrapping_add(time.wrapping_mul(weight.into()));
        self.count = self.count.wrapping_add(weight);
        self.digest ^= (hash >> 32) as u32;
    }

    /// Removes a packet: the exact inverse of adding it.
    fn remove(&mut self, PacketHash(hash): PacketHash, time: u64, weight: u32) {
        self.sum = self.sum.wrapping_sub(time.wrapping_mul(weight.into()));
        self.count = self.count.wrapping_sub(weight);
        self.digest ^= (hash >> 32) as u32;
    }

    /// Adds the sums of another shard.
    fn merge(&mut self, other: &Self) {
        self.sum = self.sum.wrapping_add(other.sum);
        self.count = self.count.wrapping_add(other.count);
        self.digest ^= other.digest;
    }
}

/// A cell that keeps both ends in one place.
///
/// Recording a packet at both ends is equivalent to passing it, in any order and with any merging.
pub trait BothEnds: Copy + Default {
    /// Adds a packet seen at one end, `weight` times.
    fn record(&mut self, end: End, observation: &Observation, weight: u32);

    /// Adds the sums of another shard.
    fn merge(&mut self, other: &Self);

    /// The sender's and the receiver's half, as estimators compare them.
    fn halves(&self) -> (Cell, Cell);
}

/// Both ends' halves of a cell, side by side in 32 bytes so that they never cross a cache line. For halves
/// from different places, such as two switches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C, align(32))]
pub struct CellPair {
    /// The sender's half.
    pub sender: Cell,
    /// The receiver's half.
    pub receiver: Cell,
}

impl CellPair {
    /// Removes a packet that was recorded at one end with this weight: the exact inverse.
    pub fn unrecord(&mut self, end: End, observation: &Observation, weight: u32) {
        let half = match end {
            End::Sender => &mut self.sender,
            End::Receiver => &mut self.receiver,
        };
        half.remove(observation.packet, observation.time, weight);
    }

    /// The sum of its packets' delays in ticks; `None` if the ends counted different packets.
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
}

impl BothEnds for CellPair {
    #[inline]
    fn record(&mut self, end: End, observation: &Observation, weight: u32) {
        let half = match end {
            End::Sender => &mut self.sender,
            End::Receiver => &mut self.receiver,
        };
        half.add(observation.packet, observation.time, weight);
    }

    fn merge(&mut self, other: &Self) {
        self.sender.merge(&other.sender);
        self.receiver.merge(&other.receiver);
    }

    fn halves(&self) -> (Cell, Cell) {
        (self.sender, self.receiver)
    }
}

/// A cell of a segment inside one switch: only the difference of both ends, in 16 bytes, and two additions
/// for each packet that passed.
///
/// It needs no digest. Digests serve ends that cannot ask each other: if each counts a packet that the
/// other does not, counts agree by chance, and only digests differ. A switch records each packet when its
/// fate is known, in the epoch of its arrival: every loss between its own points is known individually, and
/// no packet is seen at the receiver's end alone. So `lost` is enough.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct PassedCell {
    /// Delays of the packets that passed in ticks, by weight, modulo 2^64; only valid if none was lost.
    pub delay_sum: u64,
    /// Packets that passed, by weight, modulo 2^32.
    pub received: u32,
    /// Packets that were lost, by weight, modulo 2^32. Up to 65,537 losses in one cell never add up to 0,
    /// whatever their weights.
    pub lost: u32,
}

impl PassedCell {
    /// The sum of its packets' delays in ticks; `None` if one was lost.
    #[inline]
    pub fn delay_sum(&self) -> Option<i64> {
        (self.lost == 0).then(|| self.delay_sum.cast_signed())
    }

    /// Adds packets that passed, modulo 2^32, and the sum of their delays.
    #[inline]
    pub fn pass_all(&mut self, packets: u32, delay_sum: u64) {
        self.delay_sum = self.delay_sum.wrapping_add(delay_sum);
        self.received = self.received.wrapping_add(packets);
    }
}

impl BothEnds for PassedCell {
    #[inline]
    fn record(&mut self, end: End, observation: &Observation, weight: u32) {
        let time = observation.time.wrapping_mul(weight.into());
        match end {
            End::Sender => {
                self.delay_sum = self.delay_sum.wrapping_sub(time);
                self.lost = self.lost.wrapping_add(weight);
            }
            End::Receiver => {
                self.delay_sum = self.delay_sum.wrapping_add(time);
                self.received = self.received.wrapping_add(weight);
                self.lost = self.lost.wrapping_sub(weight);
            }
        }
    }

    fn merge(&mut self, other: &Self) {
        self.delay_sum = self.delay_sum.wrapping_add(other.delay_sum);
        self.received = self.received.wrapping_add(other.received);
        self.lost = self.lost.wrapping_add(other.lost);
    }

    /// The receiver's half has the whole sum, and the sender's digest the losses, so that the halves agree
    /// if nothing was lost.
    fn halves(&self) -> (Cell, Cell) {
        let sender = Cell {
            sum: 0,
            count: self.received.wrapping_add(self.lost),
            digest: self.lost,
        };
        let receiver = Cell {
            sum: self.delay_sum,
            count: self.received,
            digest: 0,
        };
        (sender, receiver)
    }
}

const _: () = assert!(
    size_of::<Cell>() == 16 && size_of::<CellPair>() == 32 && size_of::<PassedCell>() == 16,
    "as documented"
);

#[cfg(test)]
mod tests;
