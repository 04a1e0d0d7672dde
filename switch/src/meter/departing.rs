//! A burst on its way out.

use arrayvec::ArrayVec;
use measure::batch::{Batch, Members, MembersPart};
use measure::packet::Hashing;
use measure::time::Ticks;

use crate::packet_io::BURST;

/// The packets of a burst on their way out, as batches in their order; its memory is used again for each.
#[derive(Debug, Default)]
pub struct Departing {
    /// Of one packet or more each.
    pub batches: ArrayVec<Batch, BURST>,
    /// Their packets; none where nothing was found out of them.
    pub members: Members,
}

impl Departing {
    /// Begins with another burst, of whose packets `hashing` is known.
    #[inline]
    pub fn begin(&mut self, hashing: Hashing) {
        self.batches.clear();
        self.members.begin(hashing);
    }

    /// Adds a packet's share of its batch: to the last one, if that is like it.
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

    /// Leaves the first so many packets: those that the driver took.
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

    /// When each packet leaves.
    pub fn times(&self) -> impl Iterator<Item = Ticks> {
        let each = |batch: &Batch| std::iter::repeat_n(batch.departed(), batch.packets);
        self.batches.iter().flat_map(each)
    }
}
