//! Packets of a burst that share a stamp, as they leave.

use arrayvec::ArrayVec;
use dpdk_bindings::{PassingMbuf, SharedStamp, tsc};
use measure::batch::{Batch, Member, Members};
use measure::flows::FlowId;
use measure::packet::{FlowHash, Hashing, PacketHash};
use measure::time::Ticks;
use switch::meter::Meter;
use switch::packet_io::{BURST, ClassIndex};

use super::{Offer, Stamps};
use crate::stamp::Stamp;

/// What was taken of a burst.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub bytes: u64,
    /// By the number of a packet, from the lowest bit on: whether it had a stamp.
    stamped: u64,
    /// Packets whose stamps are after the present; their delay is 0.
    pub backward: u64,
}

impl Taken {
    /// The number of the n-th stamped packet.
    pub fn position(&self, n: usize) -> usize {
        let mut stamped = self.stamped;
        for _ in 0..n {
            stamped &= stamped.wrapping_sub(1);
        }
        stamped.trailing_zeros() as usize
    }
}

/// The stamp that the packets at the front of a burst share, if the first one has any.
#[inline]
pub(super) fn first_of(stamps: &Stamps, burst: &[PassingMbuf<'_>]) -> Option<SharedStamp> {
    (stamps.field).first_of(burst, |mbuf, last| stamps.ids.vouch(last, mbuf.port()))
}

/// Takes the stamps off [`BURST`] packets at most; a batch for packets in a row that share a stamp, and what their
/// stamps say of each.
#[inline]
pub(super) fn take(
    meter: &Meter,
    offer: Offer<'_>,
    burst: &mut [PassingMbuf<'_>],
    batches: &mut ArrayVec<Batch, BURST>,
    members: &mut Members,
) -> Taken {
    let stamps = offer.stamps;
    let mut taken = Taken::default();
    let mut first = 0;
    while let Some(rest) = burst.get_mut(first..).filter(|rest| !rest.is_empty()) {
        let Some(shared) = first_of(stamps, rest) else {
            taken.bytes += u64::from(rest[0].len_bytes());
            first += 1;
            continue;
        };
        let (mut batch, class, is_backward) = departure(meter, offer, shared.last);
        let alike = if meter.tagging().stamps_packets() {
            &mut rest[..1]
        } else {
            rest
        };
        (batch.packets, batch.bytes) = stamps.field.take_run(alike, &shared);
        let run = alike[..batch.packets].iter();
        match stamps.hashing {
            Hashing::None => {}
            Hashing::Flow => members.append::<false>(run.map(member(meter, stamps, &batch))),
            Hashing::Packet => members.append::<true>(run.map(member(meter, stamps, &batch))),
        }
        let packets = batch.packets as u64;
        taken.bytes += batch.bytes;
        taken.stamped |= (u64::MAX >> (BURST - batch.packets)) << first;
        taken.backward += if is_backward { packets } else { 0 };
        if stamps.has_classes {
            offer.count_class(class, packets, batch.bytes);
        }
        first += batch.packets;
        batches.push(batch);
    }
    taken
}

/// What a stamp says of its packet; its flow is about to be looked up.
#[inline]
fn member(meter: &Meter, stamps: &Stamps, batch: &Batch) -> impl Fn(&PassingMbuf<'_>) -> Member {
    let (flows, field, segment) = (meter.tagging().flows(), stamps.field, batch.segment);
    move |mbuf| {
        let [flow, packet] = field.first_words(mbuf);
        let flow = FlowHash(flow);
        if let Some(flows) = flows {
            flows.prefetch(FlowId::new(flow, segment));
        }
        Member {
            flow,
            packet: PacketHash(packet),
            bytes: mbuf.len_bytes(),
        }
    }
}

/// What a last word comes to: a batch of no packets yet, its class, and whether the stamp is after the present.
#[inline(never)]
fn departure(meter: &Meter, offer: Offer<'_>, last: u64) -> (Batch, ClassIndex, bool) {
    let now = if meter.tagging().stamps_packets() && offer.is_present {
        Ticks(tsc::now())
    } else {
        offer.now
    };
    let stamp = Stamp::read(last, now);
    let epoch = meter.epochs.epoch_of(stamp.arrived);
    let segments = (meter.epochs).segments_of(epoch, stamp.port, offer.to);
    let batch = Batch {
        packets: 0,
        bytes: 0,
        arrived: stamp.arrived,
        delay: now.since(stamp.arrived),
        segment: segments[usize::from(stamp.class.0 & 7)],
        epoch,
    };
    (batch, stamp.class, stamp.is_backward)
}
