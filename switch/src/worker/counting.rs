//! What a worker counts, and shows of itself.

use contract::config::CLASSES_MAX;
use contract::counters::{DropReason, PortCounters};
use contract::ids::PortIndex;
use measure::packet::Census;

use super::Worker;
use crate::packet_io::{Burst, ClassIndex, PacketIo, Tag};

impl<I: PacketIo> Worker<I> {
    /// Shows how full queues, rings and tables are.
    #[cold]
    pub(super) fn renew_gauges(&mut self) {
        let mut in_rings = 0;
        for (lane, counters) in self.lanes.iter().zip(&self.counters.ports) {
            counters.queued_packets.set(lane.waiting() as u64);
            in_rings += lane.in_rings();
            lane.show_queues(counters);
        }
        self.counters.ring_packets.set(in_rings as u64);
        self.meter.show(&self.counters);
    }

    /// Shows the control core what a neighbour says of itself, if one of these frames does.
    #[cold]
    pub(super) fn listen(&self, arrivals: &Burst<I::Packet>, from: PortIndex) {
        for packet in arrivals {
            self.port(from).lldp.offer(self.io.head(packet));
        }
    }

    /// Counts a packet that was to leave by `to` and does not.
    #[cold]
    pub(super) fn drop_at_egress(&mut self, reason: DropReason, tag: &Tag, to: PortIndex) {
        count_drop(self.port(to), reason, tag.class);
        self.meter.lost(tag);
    }
}

/// Counts packets that the driver took, as a whole and by class.
#[inline]
pub(super) fn count_departures(counters: &PortCounters, tags: &[Tag]) {
    for run in tags.chunk_by(|a, b| a.class == b.class) {
        let bytes = run.iter().map(|tag| u64::from(tag.len_bytes)).sum();
        count_class(counters, run[0].class, run.len(), bytes);
    }
}

/// The same of packets of one class.
#[inline]
pub(super) fn count_class(counters: &PortCounters, class: ClassIndex, packets: usize, bytes: u64) {
    counters.tx_packets.add(packets as u64);
    counters.tx_bytes.add(bytes);
    let of_class = &counters.classes[usize::from(class.0) % CLASSES_MAX];
    of_class.tx_packets.add(packets as u64);
    of_class.tx_bytes.add(bytes);
}

/// Counts the frames of a burst by kind.
#[inline]
pub(super) fn count_kinds(counters: &PortCounters, census: Census) {
    for (counter, n) in counters.kinds.iter().zip(census.counts()) {
        counter.add(n);
    }
}

#[cold]
pub(super) fn count_drop(counters: &PortCounters, reason: DropReason, class: ClassIndex) {
    counters.dropped(reason, 1);
    counters.classes[usize::from(class.0) % CLASSES_MAX]
        .dropped_packets
        .add(1);
}
