//! A cell: what LDA and LDS accumulate, and what both ends compare.

use crate::observation::{End, Observation};
use crate::packet::PacketHash;

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
    /// Adds one packet with a weight: as many times its time and its count, once its digest.
    #[inline]
    fn add(&mut self, PacketHash(hash): PacketHash, time: u64, weight: u32) {
        self.sum = self.sum.wrapping_add(time.wrapping_mul(weight.into()));
        self.count = self.count.wrapping_add(weight);
        self.digest ^= (hash >> 32) as u32;
    }

    /// Takes one packet out again: the exact inverse of adding it.
    fn remove(&mut self, PacketHash(hash): PacketHash, time: u64, weight: u32) {
        self.sum = self.sum.wrapping_sub(time.wrapping_mul(weight.into()));
        self.count = self.count.wrapping_sub(weight);
        self.digest ^= (hash >> 32) as u32;
    }

    /// Adds what another shard accumulated.
    fn merge(&mut self, other: &Self) {
        self.sum = self.sum.wrapping_add(other.sum);
        self.count = self.count.wrapping_add(other.count);
        self.digest ^= other.digest;
    }
}

/// A cell that is kept for both ends in one place.
///
/// Recording a packet at both ends has the effect of passing it, in whatever order and wherever
/// the parts are merged.
pub trait BothEnds: Copy + Default {
    /// Adds a packet that was seen at one end, `weight` times.
    fn record(&mut self, end: End, observation: &Observation, weight: u32);

    /// Adds what another shard accumulated.
    fn merge(&mut self, other: &Self);

    /// The sender's and the receiver's half, as estimators compare them.
    fn halves(&self) -> (Cell, Cell);
}

/// Both ends' halves of a cell, side by side in 32 bytes: never across two cache lines. For halves
/// that come from different places, such as two switches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C, align(32))]
pub struct CellPair {
    /// The sender's half.
    pub sender: Cell,
    /// The receiver's half.
    pub receiver: Cell,
}

impl CellPair {
    /// Takes a packet out again that was recorded at one end with this weight: the exact inverse.
    pub fn unrecord(&mut self, end: End, observation: &Observation, weight: u32) {
        let half = match end {
            End::Sender => &mut self.sender,
            End::Receiver => &mut self.receiver,
        };
        half.remove(observation.packet, observation.time, weight);
    }

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

/// A cell of a segment inside one switch: the difference of both ends alone, in 16 bytes, and two
/// additions for a packet that passed.
///
/// It has no digest. That is for ends that cannot ask each other: where one of them counts a packet
/// that the other does not, and the other way round, counts agree by chance, and digests tell. A
/// switch records each packet when it knows its fate, in the epoch of its arrival: what is lost
/// between its own points is known one by one, and no packet is ever seen at the receiver's end
/// alone. So `lost` says all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct PassedCell {
    /// Delays of the packets that passed in ticks, with their weights, modulo 2^64; of use only
    /// where none was lost.
    pub delay_sum: u64,
    /// Packets that passed, with their weights, modulo 2^32.
    pub received: u32,
    /// Packets that did not, with their weights, modulo 2^32: up to 65,537 of one cell never
    /// add up to 0, whatever they weigh.
    pub lost: u32,
}

impl PassedCell {
    /// The sum of its packets' delays in ticks, where none was lost; `None` where one was.
    #[inline]
    pub fn delay_sum(&self) -> Option<i64> {
        (self.lost == 0).then(|| self.delay_sum.cast_signed())
    }

    /// Adds packets that passed, modulo 2^32, after delays of that sum.
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

    /// All of the sum is in the receiver's half; what was lost is the sender's digest, so that
    /// halves agree where nothing was.
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
