//! The way out by one port, as one worker has it.

use contract::counters::PortCounters;
use measure::time::TickRate;
use rtrb::{Consumer, Producer, RingBuffer};

use super::{EgressLayout, PortEgress};
use crate::packet_io::{Burst, Tag, Tags};

/// What a frame may have on top of a port's MTU: Ethernet header 14 bytes, two VLAN tags 8.
pub const FRAME_OVERHEAD_BYTES: u32 = 22;

/// A packet under way from the worker that received it to the one that owns its egress port.
pub type Relayed<P> = (P, Tag);

/// The way out by one port.
#[derive(Debug)]
pub struct Lane<P> {
    pub(crate) exit: Exit<P>,
    /// Rings from other workers, where this one owns the port.
    pub(crate) entrances: Vec<Consumer<Relayed<P>>>,
    pub(crate) frame_bytes_max: u32,
}

/// Where packets for a port go.
#[derive(Debug)]
pub(crate) enum Exit<P> {
    /// To queues of this worker's, and on to the driver.
    Queues(Box<PortEgress<P>>),
    /// To the worker that owns the port.
    Owner(Box<Relay<P>>),
    /// There is no such port any more.
    Closed,
}

/// A ring to the port's owner, filled a burst at a time.
#[derive(Debug)]
pub(crate) struct Relay<P> {
    ring: Producer<Relayed<P>>,
    pub packets: Burst<P>,
    pub tags: Tags,
}

impl<P> Lane<P> {
    /// A port with an MTU of `mtu` bytes that this worker sends by itself, and to which others pass
    /// packets through `entrances`.
    pub fn own(
        layout: &EgressLayout,
        mtu: u16,
        rate: TickRate,
        seed: u64,
        entrances: Vec<Consumer<Relayed<P>>>,
    ) -> Self {
        Self {
            exit: Exit::Queues(Box::new(PortEgress::new(layout, rate, seed))),
            entrances,
            frame_bytes_max: u32::from(mtu) + FRAME_OVERHEAD_BYTES,
        }
    }

    /// A port with an MTU of `mtu` bytes that another worker owns, at the other end of `ring`.
    pub fn relay(ring: Producer<Relayed<P>>, mtu: u16) -> Self {
        Self {
            exit: Exit::Owner(Box::new(Relay {
                ring,
                packets: Burst::new_const(),
                tags: Tags::new_const(),
            })),
            entrances: Vec::new(),
            frame_bytes_max: u32::from(mtu) + FRAME_OVERHEAD_BYTES,
        }
    }

    /// No port.
    pub fn closed() -> Self {
        Self {
            exit: Exit::Closed,
            entrances: Vec::new(),
            frame_bytes_max: 0,
        }
    }

    /// A ring for `packets` packets from one worker to another.
    pub fn ring(packets: usize) -> (Producer<Relayed<P>>, Consumer<Relayed<P>>) {
        RingBuffer::new(packets)
    }

    /// Takes over what waits in the lane that this one replaces, as far as it has queues, too.
    pub(crate) fn adopt(&mut self, old: &mut Self) {
        if let (Exit::Queues(new), Exit::Queues(waiting)) = (&mut self.exit, &mut old.exit) {
            new.adopt(waiting);
            // The rings that were there stay in use until they are abandoned and empty; then they go
            // back with the old lane.
            old.entrances.append(&mut self.entrances);
            std::mem::swap(&mut self.entrances, &mut old.entrances);
            let mut next = 0;
            while let Some(ring) = self.entrances.get(next) {
                if ring.is_abandoned() && ring.is_empty() {
                    old.entrances.push(self.entrances.swap_remove(next));
                } else {
                    next += 1;
                }
            }
        }
    }

    /// Drops all that waits, each packet by its tag.
    pub(crate) fn drain(&mut self, mut dropped: impl FnMut(&Tag)) {
        match &mut self.exit {
            Exit::Queues(egress) => egress.drain(|_, tag| dropped(&tag)),
            Exit::Owner(relay) => {
                relay.packets.clear();
                relay.tags.drain(..).for_each(|tag| dropped(&tag));
            }
            Exit::Closed => {}
        }
        for ring in &mut self.entrances {
            while let Ok((_, tag)) = ring.pop() {
                dropped(&tag);
            }
        }
    }

    /// Packets that wait on this worker's side: in queues, and in rings that end here.
    pub(crate) fn waiting(&self) -> usize {
        let queued = match &self.exit {
            Exit::Queues(egress) => egress.len(),
            Exit::Owner(relay) => relay.packets.len(),
            Exit::Closed => 0,
        };
        queued + self.in_rings()
    }

    /// Packets that wait in rings that end here.
    pub(crate) fn in_rings(&self) -> usize {
        self.entrances.iter().map(Consumer::slots).sum()
    }

    /// Shows what waits in each queue, and what was refused.
    pub(crate) fn show_queues(&self, counters: &PortCounters) {
        let Exit::Queues(egress) = &self.exit else {
            return;
        };
        for (state, counters) in egress.queues().zip(&counters.queues) {
            counters.packets.set(state.waiting.packets);
            counters.bytes.set(state.waiting.bytes);
            counters.full.set(state.counts.full.packets);
            counters.red.set(state.counts.red.packets);
            counters.expired.set(state.counts.expired.packets);
        }
    }

    /// Packets may go to the driver at once: nothing waits here, and nothing paces the port.
    #[inline]
    pub(crate) fn is_clear(&self) -> bool {
        matches!(&self.exit, Exit::Queues(egress) if egress.is_clear())
    }

    /// Nothing waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        let is_empty = match &self.exit {
            Exit::Queues(egress) => egress.is_empty(),
            Exit::Owner(relay) => relay.packets.is_empty(),
            Exit::Closed => true,
        };
        is_empty && self.entrances.iter().all(Consumer::is_empty)
    }
}

impl<P> Relay<P> {
    /// Passes on what has been gathered; what the ring has no room for stays.
    pub fn flush(&mut self) {
        let room = self.ring.slots().min(self.packets.len());
        if let Ok(chunk) = self.ring.write_chunk_uninit(room) {
            chunk.fill_from_iter(self.packets.drain(..room).zip(self.tags.drain(..room)));
        }
    }
}
