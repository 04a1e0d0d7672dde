//! The egress side of a port: class queues, a scheduler, a shaper, and what goes to the driver next.

use contract::config::{self, CLASSES_MAX};
use measure::time::{TickRate, Ticks};

use super::layout::{EgressLayout, classes_of, wire_bytes};
use super::queue::{Fate, Item, Queue, QueueState, QueuedReference, Refused};
use super::red::Red;
use super::scheduler::Scheduler;
use super::shaper::Shaper;
use crate::packet_io::{BURST, Burst, ClassIndex, Tag, Tags};

/// Most references between the packets of the head.
pub const REFERENCES_MAX: usize = 16;

/// Most packets that one call of [`PortEgress::advance`] drops for their age.
const EXPIRED_MAX: usize = BURST;

/// What RED takes for a typical packet, in bytes on the wire.
const TYPICAL_WIRE_BYTES: u32 = 500;

/// The rate that RED assumes of a port without a capacity.
const UNPACED_BPS: u64 = 10_000_000_000;

/// In `PortEgress::busy`: a shaper paces the port, so that nothing goes straight to the head.
const PACED: u16 = 1 << 8;

/// What waits to leave by a port.
///
/// ```text
///            ┌ queue 0 ─ RED ┐
///  offer ────┤     ...       ├─ scheduler ─ shaper ─ residency ── head ── driver
///       │    └ queue 7 ─ RED ┘                                      │
///       └───────────── nothing queued, no capacity ─────────────────┘
/// ```
///
/// Memory is allocated and touched when it is built. A packet costs a bounded amount of work, and so
/// does each call.
#[derive(Debug)]
pub struct PortEgress<P> {
    /// What goes to the driver next, in order: ready, or refused before.
    pub head: Burst<P>,
    /// Their tags.
    pub tags: Tags,
    /// References, in order, each with the number of packets of the head that go before it.
    pub references: arrayvec::ArrayVec<(usize, QueuedReference), REFERENCES_MAX>,
    /// Queues where something waits, a bit each, and [`PACED`].
    busy: u16,
    queue_of_class: [u8; CLASSES_MAX],
    queues: Vec<Queue<P>>,
    scheduler: Scheduler,
    shaper: Option<Shaper>,
    max_residency_ticks: u64,
}

impl<P> PortEgress<P> {
    /// An egress side as `layout` says, by a clock of `rate`; RED draws from `seed`.
    pub fn new(layout: &EgressLayout, rate: TickRate, seed: u64) -> Self {
        let shaper = |bps| Shaper::new(bps, layout.burst_bytes, rate);
        let pace = shaper(layout.capacity_bps.unwrap_or(UNPACED_BPS));
        let packet_ticks = pace.ticks_of(TYPICAL_WIRE_BYTES);
        let red = |of: &config::Red, index| Red::new(of, packet_ticks, seed ^ index);
        let queues: Vec<_> = (0..)
            .zip(&layout.queues)
            .map(|(index, of)| Queue::new(of, of.red.as_ref().map(|of| red(of, index))))
            .collect();
        Self {
            head: Burst::new_const(),
            tags: Tags::new_const(),
            references: arrayvec::ArrayVec::new_const(),
            busy: layout.capacity_bps.map_or(0, |_| PACED),
            queue_of_class: layout.queue_of_class,
            queues,
            scheduler: Scheduler::new(layout.queues.iter().map(|queue| queue.service)),
            shaper: layout.capacity_bps.map(shaper),
            max_residency_ticks: layout
                .max_residency
                .map_or(u64::MAX, |longest| rate.ticks_in(longest)),
        }
    }

    /// Takes a packet in at `now`: straight to the head if nothing is ahead of it and nothing paces
    /// it, otherwise to the queue of its class.
    ///
    /// # Errors
    /// The packet, when its queue is full or RED drops it.
    #[inline]
    pub fn offer(&mut self, packet: P, tag: Tag, now: Ticks) -> Result<(), Refused<P>> {
        if self.busy == 0 && !self.head.is_full() {
            self.push(packet, tag);
            return Ok(());
        }
        self.queue(packet, tag, now)
    }

    /// Takes a whole burst straight to the head if nothing is ahead of it and nothing paces it;
    /// otherwise leaves it as it is. `tag` puts the tag of each packet, in order, behind those that
    /// are there: where they stay, so that none is copied.
    #[inline]
    pub fn offer_all(
        &mut self,
        packets: &mut Burst<P>,
        tag: impl FnOnce(&Burst<P>, &mut Tags),
    ) -> bool {
        if self.busy != 0 || packets.len() > self.head.remaining_capacity() {
            return false;
        }
        tag(packets, &mut self.tags);
        debug_assert_eq!(self.tags.len(), self.head.len() + packets.len());
        if self.head.is_empty() {
            std::mem::swap(&mut self.head, packets);
        } else {
            self.head.extend(packets.drain(..));
        }
        true
    }

    /// Nothing is ahead of a packet that comes now, and nothing paces it.
    #[inline]
    pub fn is_clear(&self) -> bool {
        self.busy == 0 && self.head.is_empty() && self.references.is_empty()
    }

    #[inline(never)]
    fn queue(&mut self, packet: P, tag: Tag, now: Ticks) -> Result<(), Refused<P>> {
        let queue = self.queue_of(tag.class);
        self.queues[queue].offer(packet, tag, now)?;
        self.entered(queue, now);
        Ok(())
    }

    /// Takes in a reference at `now`: it leaves behind the packets of its class that were offered before
    /// it, and costs them no time. False: there is no room for it, and it is forgotten.
    pub fn offer_reference(&mut self, reference: QueuedReference, now: Ticks) -> bool {
        if self.busy == 0 && !self.references.is_full() {
            self.references.push((self.head.len(), reference));
            return true;
        }
        let queue = self.queue_of(reference.class);
        let is_taken = self.queues[queue].offer_reference(reference);
        if is_taken {
            self.entered(queue, now);
        }
        is_taken
    }

    /// Something has come to `queue`.
    #[inline]
    fn entered(&mut self, queue: usize, now: Ticks) {
        if self.waiting() == 0
            && let Some(shaper) = &mut self.shaper
        {
            shaper.wake(now);
        }
        self.busy |= 1 << queue;
    }

    /// Moves what may leave at `now` to the head, as far as it has room. What has been in the
    /// switch for longer than the maximum goes to `expired` instead: at most a burst a call.
    #[inline]
    pub fn advance(&mut self, now: Ticks, expired: &mut impl FnMut(P, Tag)) {
        if self.waiting() != 0 {
            self.advance_queues(now, expired);
        }
    }

    fn advance_queues(&mut self, now: Ticks, expired: &mut impl FnMut(P, Tag)) {
        if let Some(shaper) = &mut self.shaper {
            shaper.polled(now);
        }
        let mut expired_left = EXPIRED_MAX;
        while !self.head.is_full() && !self.references.is_full() && expired_left > 0 {
            if self.shaper.as_ref().is_some_and(|link| !link.is_free(now)) {
                return;
            }
            let Some((queue, is_expired)) = self.choose(now) else {
                return;
            };
            let fate = if is_expired {
                Fate::Expired
            } else {
                Fate::Left
            };
            match self.queues[queue].take(fate, now) {
                None => return,
                Some(Item::Packet(packet, tag)) if is_expired => expired(packet, tag),
                Some(Item::Packet(packet, tag)) => self.start(queue, packet, tag),
                Some(Item::Reference(_)) if is_expired => {}
                Some(Item::Reference(reference)) => {
                    self.references.push((self.head.len(), reference));
                }
            }
            expired_left -= usize::from(is_expired);
            if self.queues[queue].is_empty() {
                self.busy &= !(1 << queue);
                self.scheduler.emptied(queue);
            }
        }
    }

    /// The queue to serve next, and whether what is next there has waited too long.
    #[inline]
    fn choose(&mut self, now: Ticks) -> Option<(usize, bool)> {
        let queues = &self.queues;
        let waiting = self.waiting();
        let front_wire_bytes = |queue: usize| queues[queue].front().map_or(0, Item::wire_bytes);
        let queue = self.scheduler.choose(waiting, front_wire_bytes)?;
        let age_ticks = now.saturating_since(self.queues[queue].front()?.arrived());
        Some((queue, age_ticks > self.max_residency_ticks))
    }

    /// A packet starts on the link.
    #[inline]
    fn start(&mut self, queue: usize, packet: P, tag: Tag) {
        let wire_bytes = wire_bytes(tag.len_bytes);
        self.scheduler.charge(queue, wire_bytes);
        if let Some(shaper) = &mut self.shaper {
            shaper.occupy(wire_bytes);
        }
        self.push(packet, tag);
    }

    #[inline]
    fn push(&mut self, packet: P, tag: Tag) {
        self.head.push(packet);
        self.tags.push(tag);
    }

    /// The driver took the first `packets` of the head (and removed them there): their tags go, and
    /// the references that are not behind a packet that is left.
    #[inline]
    pub fn taken(&mut self, packets: usize) {
        if packets >= self.tags.len() {
            self.tags.clear();
        } else {
            self.tags.drain(..packets);
        }
        if !self.references.is_empty() {
            self.references.retain(|(before, _)| {
                let is_left = *before > packets;
                *before = before.saturating_sub(packets);
                is_left
            });
        }
    }

    /// Takes over all that waits in `old`, the order within each class kept, limits not applied,
    /// and leaves it empty. To be called once, before anything else is offered.
    ///
    /// Allocates nothing if the layout was made [to succeed](EgressLayout::to_succeed) that of `old`.
    pub fn adopt(&mut self, old: &mut Self) {
        std::mem::swap(&mut self.head, &mut old.head);
        std::mem::swap(&mut self.tags, &mut old.tags);
        std::mem::swap(&mut self.references, &mut old.references);
        if let (Some(shaper), Some(old)) = (&mut self.shaper, &old.shaper) {
            shaper.succeed(old);
        }
        for (index, old_queue) in old.queues.iter_mut().enumerate() {
            let classes = classes_of(old.queue_of_class, index);
            let heir = self.queue_of(ClassIndex(first_of(classes)));
            if classes_of(self.queue_of_class, heir) == classes {
                self.queues[heir].succeed(old_queue);
            }
            while let Some(item) = old_queue.pop() {
                let heir = self.queue_of(item.class());
                self.queues[heir].put(item);
            }
            let heir = index.min(self.queues.len() - 1);
            self.queues[heir].counts += old_queue.counts;
        }
        old.busy &= PACED;
        for (index, queue) in self.queues.iter().enumerate() {
            self.busy |= u16::from(!queue.is_empty()) << index;
        }
    }

    /// Takes out everything that waits, and forgets references.
    pub fn drain(&mut self, mut give: impl FnMut(P, Tag)) {
        for (packet, tag) in self.head.drain(..).zip(self.tags.drain(..)) {
            give(packet, tag);
        }
        self.references.clear();
        for (index, queue) in self.queues.iter_mut().enumerate() {
            while let Some(item) = queue.take(Fate::Left, Ticks(0)) {
                if let Item::Packet(packet, tag) = item {
                    give(packet, tag);
                }
            }
            self.scheduler.emptied(index);
        }
        self.busy &= PACED;
    }

    /// Packets that wait, in the queues and at the head.
    #[inline]
    pub fn len(&self) -> usize {
        let queued = match self.waiting() {
            0 => 0,
            _ => self.queues.iter().map(Queue::packets).sum(),
        };
        self.head.len() + queued
    }

    /// Nothing waits, not even a reference.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head.is_empty() && self.waiting() == 0 && self.references.is_empty()
    }

    /// The queue of a class, as an index into the layout.
    #[inline]
    pub fn queue_of(&self, class: ClassIndex) -> usize {
        usize::from(self.queue_of_class[usize::from(class.0) % CLASSES_MAX])
    }

    /// What waits in each queue, in the order of the layout, and what became of the rest.
    pub fn queues(&self) -> impl ExactSizeIterator<Item = QueueState> + '_ {
        self.queues.iter().map(Queue::state)
    }

    /// Queues where something waits, a bit each.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the low eight bits are the queues"
    )]
    fn waiting(&self) -> u8 {
        self.busy as u8
    }
}

/// The first of `classes`, a bit each; class 8, which is class 0, of none.
fn first_of(classes: u8) -> u8 {
    classes.trailing_zeros().min(8) as u8
}

#[cfg(test)]
mod tests;
