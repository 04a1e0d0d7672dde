//! Packets that pass both ends of a segment, split into shared and individual values.
//!
//! A burst is recorded as one or several batches, with the packets' values in parallel arrays: shared
//! values are handled once, and no packet is copied on its way into counters.

use std::ops::Range;

use crate::flows::Slot;
use crate::observation::{Observation, SegmentIndex};
use crate::packet::{FlowHash, Hashing, PacketHash};
use crate::time::{EpochTag, Ticks};

/// Most packets of a burst.
pub const BURST_MAX: usize = 64;

/// Packets that passed both ends of one segment in one epoch with one delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// Number of packets, at least one.
    pub packets: usize,
    /// Bytes of all frames, without frame check sequences.
    pub bytes: u64,
    /// Time of their stamps, when they were first seen.
    pub arrived: Ticks,
    /// Ticks from then until they left.
    pub delay: u64,
    /// The segment they count for.
    pub segment: SegmentIndex,
    /// The epoch they count in.
    pub epoch: EpochTag,
}

impl Batch {
    /// When they left.
    #[inline]
    pub fn departed(&self) -> Ticks {
        self.arrived.plus(self.delay)
    }

    /// Whether `other` has the same segment, epoch and times.
    #[inline]
    pub fn is_like(&self, other: &Self) -> bool {
        (self.segment, self.epoch, self.arrived, self.delay)
            == (other.segment, other.epoch, other.arrived, other.delay)
    }
}

/// One packet of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Keyed hash of its flow.
    pub flow: FlowHash,
    /// Keyed hash of the packet.
    pub packet: PacketHash,
    /// Length of the frame in bytes, without the frame check sequence.
    pub bytes: u32,
}

impl Member {
    /// The packet as seen at the receiver's end, where only the delay matters: its time is its delay.
    #[inline]
    pub fn observation(self, batch: &Batch) -> Observation {
        Observation {
            flow: self.flow,
            packet: self.packet,
            time: batch.delay,
            delay: batch.delay,
            bytes: self.bytes,
            segment: batch.segment,
            epoch: batch.epoch,
        }
    }
}

/// The packets of a burst in parallel arrays: 1.5 KiB, reused for each burst. Packets beyond [`BURST_MAX`]
/// are ignored.
#[derive(Debug, Clone)]
pub struct Members {
    hashing: Hashing,
    packets: usize,
    flows: [FlowHash; BURST_MAX],
    hashes: [PacketHash; BURST_MAX],
    bytes: [u32; BURST_MAX],
    slots: [Slot; BURST_MAX],
}

/// Some packets of a burst, in order. Values that were not computed are empty.
#[derive(Debug, Clone, Copy)]
pub struct MembersPart<'b> {
    /// Flow hash of each packet.
    pub flows: &'b [FlowHash],
    /// Packet hash of each packet.
    pub hashes: &'b [PacketHash],
    /// Length of each frame in bytes.
    pub bytes: &'b [u32],
    /// Slot of each packet's flow.
    pub slots: &'b [Slot],
}

impl Default for Members {
    fn default() -> Self {
        Self::new()
    }
}

impl Members {
    /// An empty burst.
    pub const fn new() -> Self {
        Self {
            hashing: Hashing::None,
            packets: 0,
            flows: [FlowHash(0); BURST_MAX],
            hashes: [PacketHash(0); BURST_MAX],
            bytes: [0; BURST_MAX],
            slots: [Slot::OTHER; BURST_MAX],
        }
    }

    /// Starts another burst; `hashing` says which hashes are known.
    #[inline]
    pub fn begin(&mut self, hashing: Hashing) {
        self.hashing = hashing;
        self.packets = 0;
    }

    /// The whole burst, in order; without `HASHES`, packet hashes are meaningless.
    #[inline]
    pub fn fill<const HASHES: bool>(&mut self, members: impl Iterator<Item = Member>) {
        self.write::<HASHES>(0, members);
    }

    /// Appends the packets' values to those already present.
    #[inline]
    pub fn append<const HASHES: bool>(&mut self, members: impl Iterator<Item = Member>) {
        self.write::<HASHES>(self.packets.min(BURST_MAX), members);
    }

    #[inline]
    fn write<const HASHES: bool>(&mut self, first: usize, members: impl Iterator<Item = Member>) {
        let places = (self.flows[first..].iter_mut())
            .zip(&mut self.hashes[first..])
            .zip(&mut self.bytes[first..]);
        let mut packets = first;
        for (((flow, hash), bytes), member) in places.zip(members) {
            (*flow, *bytes) = (member.flow, member.bytes);
            if HASHES {
                *hash = member.packet;
            }
            packets += 1;
        }
        self.packets = packets;
    }

    /// Number of packets.
    #[inline]
    pub fn len(&self) -> usize {
        self.packets
    }

    /// Whether there is no packet.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// The packets with indices in `part`, as far as they exist.
    #[inline]
    pub fn part(&self, part: Range<usize>) -> MembersPart<'_> {
        let part = self.clip(part);
        let known = |known: bool| if known { part.clone() } else { 0..0 };
        MembersPart {
            flows: &self.flows[known(self.hashing > Hashing::None)],
            hashes: &self.hashes[known(self.hashing == Hashing::Packet)],
            bytes: &self.bytes[part.clone()],
            slots: &self.slots[known(self.hashing > Hashing::None)],
        }
    }

    /// The flows of the packets with indices in `part`, and their slots to fill in.
    #[inline]
    pub fn slots_mut(&mut self, part: Range<usize>) -> (&[FlowHash], &mut [Slot]) {
        let part = match self.hashing {
            Hashing::None => 0..0,
            _ => self.clip(part),
        };
        (&self.flows[part.clone()], &mut self.slots[part])
    }

    #[inline]
    fn clip(&self, part: Range<usize>) -> Range<usize> {
        let end = part.end.min(self.packets).min(BURST_MAX);
        part.start.min(end)..end
    }
}

impl MembersPart<'_> {
    /// Each packet with its flow's slot; empty if slots were not looked up.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (Member, Slot)> {
        let flows = self.flows.iter().zip(self.bytes).zip(self.slots);
        flows.enumerate().map(|(n, ((&flow, &bytes), &slot))| {
            let packet = self.hashes.get(n).copied().unwrap_or_default();
            let member = Member {
                flow,
                packet,
                bytes,
            };
            (member, slot)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(n: u32) -> Member {
        Member {
            flow: FlowHash(n.into()),
            packet: PacketHash(n.into()),
            bytes: n,
        }
    }

    #[test]
    fn what_was_not_found_out_is_empty() {
        let mut members = Members::new();
        for (hashing, known) in [
            (Hashing::None, (0, 0, 0)),
            (Hashing::Flow, (3, 0, 3)),
            (Hashing::Packet, (3, 3, 3)),
        ] {
            members.begin(hashing);
            members.fill::<true>((0..3).map(member));
            let part = members.part(0..usize::MAX);
            let found = (part.flows.len(), part.hashes.len(), part.slots.len());
            assert_eq!((found, part.bytes), (known, &[0, 1, 2][..]));
            assert_eq!(members.slots_mut(0..9).1.len(), known.2);
        }
        assert_eq!(members.part(1..2).flows, [FlowHash(1)]);
        assert!(members.part(3..4).bytes.is_empty());
    }

    #[test]
    fn a_burst_has_64_packets_at_most() {
        let mut members = Members::new();
        members.begin(Hashing::Packet);
        members.append::<true>((0..60).map(member));
        members.append::<true>((60..70).map(member));
        assert_eq!(members.len(), BURST_MAX);
        assert_eq!(members.part(63..64).bytes, [63]);
        members.append::<false>(std::iter::once(member(1)));
        assert_eq!(members.len(), BURST_MAX);
        members.fill::<false>(std::iter::once(member(7)));
        assert_eq!(members.part(0..9).bytes, [7]);
    }
}
