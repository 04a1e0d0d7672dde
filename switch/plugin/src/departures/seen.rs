//! What the last words of stamps come to as their packets leave.

use arrayvec::ArrayVec;
use contract::ids::PortIndex;
use dpdk_bindings::{Mbuf, tsc};
use measure::flows::FlowId;
use measure::observation::{Observation, SegmentIndex};
use measure::packet::{FlowHash, PacketHash};
use measure::time::{EpochTag, Ticks};
use switch::flows::Flows;
use switch::meter::{Meter, ObservationBurst};
use switch::packet_io::{BURST, ClassIndex, NO_SEGMENT};

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

/// What a last word comes to as its packets leave.
pub(super) struct Departure {
    /// Since the epoch's start.
    time: u64,
    pub delay: u64,
    pub segment: SegmentIndex,
    pub epoch: EpochTag,
    pub class: ClassIndex,
    /// The stamp is after the present; the delay is 0.
    pub is_backward: bool,
}

impl Departure {
    /// By port `to`, at `now` unless the clock is read for every packet.
    #[inline(never)]
    pub fn read(meter: &Meter, last: u64, to: PortIndex, now: Ticks) -> Self {
        let now = if meter.tagging().stamps_packets() {
            Ticks(tsc::now())
        } else {
            now
        };
        let stamp = Stamp::read(last, now);
        let (epoch, start) = meter.epochs.epoch_of(stamp.arrived);
        let segments = meter.epochs.segments_of(epoch, stamp.port, to);
        Self {
            time: now.since(start),
            delay: now.since(stamp.arrived),
            segment: segments[usize::from(stamp.class.0 & 7)],
            epoch,
            class: stamp.class,
            is_backward: stamp.is_backward,
        }
    }
}

/// The stamped packets of a burst, as they leave.
pub(super) struct Seen<'m, 'b> {
    meter: &'m Meter,
    flows: Option<&'m Flows>,
    offer: Offer<'m>,
    stamps_packets: bool,
    observations: &'b mut ObservationBurst,
    /// Their positions in the burst, where their headers are asked for.
    positions: &'b mut ArrayVec<u8, BURST>,
    /// The last packet's last word, and what it came to.
    last: (u64, Departure),
    /// Of one segment, one epoch and one delay.
    pub are_alike: bool,
    pub backward: u64,
}

impl<'m, 'b> Seen<'m, 'b> {
    #[inline]
    pub fn of(
        meter: &'m Meter,
        offer: Offer<'m>,
        observations: &'b mut ObservationBurst,
        positions: &'b mut ArrayVec<u8, BURST>,
    ) -> Self {
        let nothing = Departure {
            time: 0,
            delay: 0,
            segment: NO_SEGMENT,
            epoch: EpochTag(0),
            class: ClassIndex(0),
            is_backward: false,
        };
        Self {
            meter,
            flows: meter.tagging().flows(),
            offer,
            stamps_packets: meter.tagging().stamps_packets(),
            observations,
            positions,
            // No packet's: there are not so many ports.
            last: (u64::MAX, nothing),
            are_alike: true,
            backward: 0,
        }
    }

    /// Adds a packet; its class.
    #[expect(
        clippy::inline_always,
        reason = "called for every packet, the words would go through memory"
    )]
    #[inline(always)]
    pub fn add(
        &mut self,
        (flow, packet): (FlowHash, PacketHash),
        last: u64,
        bytes: u32,
        position: u8,
    ) -> ClassIndex {
        // Packets of a burst share all but their hashes.
        if last != self.last.0 || self.stamps_packets {
            self.are_alike &= self.observations.is_empty();
            self.last = (
                last,
                Departure::read(self.meter, last, self.offer.to, self.offer.now),
            );
        }
        let (_, departure) = &self.last;
        self.backward += u64::from(departure.is_backward);
        let observation = Observation {
            flow,
            packet,
            time: departure.time,
            delay: departure.delay,
            bytes,
            segment: departure.segment,
            epoch: departure.epoch,
        };
        if let Some(flows) = self.flows {
            flows.prefetch(FlowId::of(&observation));
            self.positions.push(position);
        }
        self.observations.push(observation);
        departure.class
    }
}
