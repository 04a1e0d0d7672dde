//! Between workers: packets on their way to the worker that owns their egress port.

use contract::counters::DropReason;
use contract::ids::PortIndex;

use super::Worker;
use crate::egress::lane::Exit;
use crate::packet_io::{BURST, PacketIo, Tag};

impl<I: PacketIo> Worker<I> {
    /// Passes what has been gathered for another worker's port on to it.
    pub(super) fn flush_relay(&mut self, to: PortIndex) {
        let Some(Exit::Owner(relay)) = self.lanes.get_mut(to.index()).map(|lane| &mut lane.exit)
        else {
            return;
        };
        relay.flush();
        // The ring is full: its owner is behind.
        let left: arrayvec::ArrayVec<Tag, BURST> = relay.tags.drain(..).collect();
        relay.packets.clear();
        for tag in left {
            self.drop_at_egress(DropReason::RingFull, &tag, to);
        }
    }

    /// Takes in what other workers passed on, a burst from each at most.
    pub(super) fn drain_rings(&mut self, to: PortIndex) {
        let now = self.io.now();
        for entrance in 0..self.lanes[to.index()].entrances.len() {
            for _ in 0..BURST {
                let lane = &mut self.lanes[to.index()];
                let Ok((packet, tag)) = lane.entrances[entrance].pop() else {
                    break;
                };
                let Exit::Queues(egress) = &mut lane.exit else {
                    self.drop_at_egress(DropReason::LinkDown, &tag, to);
                    continue;
                };
                if let Err(refused) = self.meter.offer(egress, packet, tag, now) {
                    self.drop_at_egress(refused.reason, &refused.tag, to);
                }
            }
        }
    }
}
