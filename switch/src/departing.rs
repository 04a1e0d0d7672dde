//! A departing burst.

use arrayvec::ArrayVec;
use measure::batch::{Batch, Members, MembersPart};
use measure::packet::Hashing;
use measure::time::Ticks;

use crate::packet_io::BURST;

/// The packets of a departing burst, as batches in order. Its memory is reused for each burst, and is on cache
/// lines that no other worker writes.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Departing {
    /// One or more packets each.
    pub batches: ArrayVec<Batch, BURST>,
    /// Their packets; empty if no hashes were computed.
    pub members: Members,
}

impl Departing {
    /// Starts another burst; `hashing` says which hashes of its packets are known.
    #[inline]
    pub fn begin(&mut self, hashing: Hashing) {
        self.batches.clear();
        self.members.begin(hashing);
    }

    /// Adds a packet to the last batch, or to a new one if it differs.
    #[inline]
    pub(crate) fn push(&mut self, packet: Batch) {
        match self.batches.last_mut() {
            Some(last) if last.is_like(&packet) => {
                last.packets += packet.packets;
                last.bytes += packet.bytes;
            }
            _ => self.batches.push(packet),
        }
    }

    /// Keeps only the first `taken` packets, which the driver accepted.
    #[inline]
    pub fn truncate(&mut self, packets: usize) {
        if packets < self.members.len() {
            self.cut(packets);
        }
    }

    #[cold]
    fn cut(&mut self, packets: usize) {
        let (mut rest, mut left) = (packets, 0);
        for batch in &mut self.batches {
            let first = packets - rest;
            left += usize::from(rest > 0);
            batch.packets = batch.packets.min(rest);
            rest -= batch.packets;
            let bytes = self.members.part(first..first + batch.packets).bytes;
            batch.bytes = bytes.iter().copied().map(u64::from).sum();
        }
        self.batches.truncate(left);
    }

    /// Each batch with its packets.
    #[inline]
    pub fn parts(&self) -> impl Iterator<Item = (&Batch, MembersPart<'_>)> {
        let mut first = 0;
        self.batches.iter().map(move |batch| {
            let part = first..first + batch.packets;
            first = part.end;
            (batch, self.members.part(part))
        })
    }

    /// Departure time of each packet.
    pub fn times(&self) -> impl Iterator<Item = Ticks> {
        let each = |batch: &Batch| std::iter::repeat_n(batch.departed(), batch.packets);
        self.batches.iter().flat_map(each)
    }
}

#[cfg(test)]
mod tests {
    use measure::batch::Member;
    use measure::observation::SegmentIndex;
    use measure::packet::{FlowHash, PacketHash};
    use measure::time::EpochTag;
    use proptest::prelude::*;

    use super::*;

    /// Packets of these segments, each longer than the one before.
    fn of(segments: &[u16]) -> Departing {
        let mut departing = Departing::default();
        departing.begin(Hashing::Packet);
        for (n, &segment) in (0..).zip(segments) {
            departing.push(Batch {
                packets: 1,
                bytes: u64::from(60 + n),
                arrived: Ticks(5),
                delay: 7,
                segment: SegmentIndex(segment),
                epoch: EpochTag(0),
            });
            departing.members.append::<true>(std::iter::once(Member {
                flow: FlowHash(n.into()),
                packet: PacketHash(n.into()),
                bytes: 60 + n,
            }));
        }
        departing
    }

    proptest! {
        #[test]
        fn what_the_driver_refused_was_never_there(
            segments in prop::collection::vec(0_u16..3, 0..BURST),
            taken in 0..BURST,
        ) {
            let mut departing = of(&segments);
            departing.truncate(taken);
            let taken = taken.min(segments.len());
            let expected = of(&segments[..taken]);
            prop_assert_eq!(&departing.batches, &expected.batches);
            prop_assert_eq!(departing.times().collect::<Vec<_>>(), vec![Ticks(12); taken]);
            let flows = |departing: &Departing| -> Vec<_> {
                departing.parts().flat_map(|(_, members)| members.flows.to_vec()).collect()
            };
            prop_assert_eq!(flows(&departing), flows(&expected));
            let packets: usize = departing.batches.iter().map(|batch| batch.packets).sum();
            prop_assert_eq!(packets, taken);
        }
    }
}
