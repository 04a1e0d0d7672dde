//! What the last words of stamps come to as their packets leave.

use arrayvec::ArrayVec;
use dpdk_bindings::{Mbuf, tsc};
use measure::batch::Batch;
use measure::time::Ticks;
use switch::meter::Meter;
use switch::packet_io::BURST;

use super::Offer;
use crate::stamp::{NO_PORT, PortIds, Stamp};

/// Last words that speak for packets without the flag.
pub(super) struct Trust<'s> {
    ids: &'s PortIds,
    /// The one before, and the port that its packets came by. Packets of a burst share it.
    last: (u64, u16),
}

impl<'s> Trust<'s> {
    pub fn new(ids: &'s PortIds) -> Self {
        Self {
            ids,
            // No packet's: there are not so many ports.
            last: (u64::MAX, NO_PORT),
        }
    }

    #[inline]
    pub fn vouches(&mut self, mbuf: &Mbuf<'_>, last: u64) -> bool {
        let words = (last, mbuf.port());
        if words == self.last {
            return true;
        }
        let is_vouched = self.ids.vouch(last, mbuf.port());
        if is_vouched {
            self.last = words;
        }
        is_vouched
    }
}

/// Batches of a burst, by the last words of their packets.
pub(super) struct Seen<'m> {
    meter: &'m Meter,
    offer: Offer<'m>,
    batches: &'m mut ArrayVec<Batch, BURST>,
    /// The last packet's last word, and what it said; none where the clock is read for every packet.
    last: Option<(u64, Stamp)>,
    /// Packets whose stamps are after the present; their delay is 0.
    pub backward: u64,
}

impl<'m> Seen<'m> {
    pub fn of(meter: &'m Meter, offer: Offer<'m>, batches: &'m mut ArrayVec<Batch, BURST>) -> Self {
        Self {
            meter,
            offer,
            batches,
            last: None,
            backward: 0,
        }
    }

    /// Adds packets with one last word: to the last batch, if they share that.
    #[inline]
    pub fn add(&mut self, last: u64, packets: usize, bytes: u64) {
        let stamp = match self.last {
            Some((word, stamp)) if word == last => stamp,
            _ => self.begin(last),
        };
        if let Some(batch) = self.batches.last_mut() {
            batch.packets += packets;
            batch.bytes += bytes;
        }
        self.backward += u64::from(stamp.is_backward) * packets as u64;
        if self.offer.stamps.has_classes {
            self.offer.count_class(stamp.class, packets as u64, bytes);
        }
    }

    /// Begins a batch of no packets yet.
    #[inline(never)]
    fn begin(&mut self, last: u64) -> Stamp {
        let Self { meter, offer, .. } = *self;
        let is_each_stamped = meter.tagging().stamps_packets();
        let now = if is_each_stamped {
            Ticks(tsc::now())
        } else {
            offer.now
        };
        let stamp = Stamp::read(last, now);
        let epoch = meter.epochs.epoch_of(stamp.arrived);
        let segments = (meter.epochs).segments_of(epoch, stamp.port, offer.to);
        self.batches.push(Batch {
            packets: 0,
            bytes: 0,
            arrived: stamp.arrived,
            delay: now.since(stamp.arrived),
            segment: segments[usize::from(stamp.class.0 & 7)],
            epoch,
        });
        self.last = (!is_each_stamped).then_some((last, stamp));
        stamp
    }
}
