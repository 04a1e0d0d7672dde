//! Bursts that are sent from where they were received.

use contract::ids::PortIndex;
use measure::observation::Batch;

use super::counting::count_class;
use super::{Received, Worker};
use crate::packet_io::{Burst, PacketIo};

impl<I: PacketIo> Worker<I> {
    /// Sends a burst, all of the default class, from where it was received, without tags, if nothing is ahead of it
    /// and its packets need not be distinguished. What the driver refuses stays in `arrivals`.
    pub(super) fn send_at_once(
        &mut self,
        arrivals: &mut Burst<I::Packet>,
        to: PortIndex,
        received: Received,
    ) {
        let (now, tagging) = (self.io.now(), self.meter.tagging());
        let is_plain = tagging.is_by_batches() && !self.meter.epochs.is_due(now);
        if !is_plain || self.wires.is_at(received.from) || self.wires.is_at(to) {
            return;
        }
        let lane = self.lanes.get(to.index());
        if !lane.is_some_and(|lane| lane.is_clear() && received.longest <= lane.frame_bytes_max) {
            return;
        }
        let segments = tagging.segments(received.from, to);
        let (class, epoch) = (self.decide.default_class(), tagging.epoch());
        let packets = self.io.transmit(to, arrivals);
        if packets == 0 {
            return;
        }
        let refused = arrivals
            .iter()
            .map(|packet| u64::from(self.io.len_bytes(packet)));
        let bytes = received.bytes - refused.sum::<u64>();
        count_class(self.port(to), class, packets, bytes);
        self.pace.moved(packets);
        let batch = Batch {
            packets: packets as u64,
            bytes,
            delay: now.since(received.now),
            segment: segments[usize::from(class.0 & 7)],
            epoch,
        };
        self.meter.passed_batch(&batch, &mut self.spread);
    }
}
