//! The queued packets of a port: packets that the driver refused, in order, then class queues emptied by a
//! scheduler and a shaper.

use std::collections::VecDeque;
use std::time::Duration;

use contract::config::{self, CLASSES_MAX, Class, QueueService};
use contract::counters::{DropReason, PortCounters};
use contract::ids::GenerationId;
use measure::observation::SegmentIndex;
use measure::time::{EpochTag, TickRate, Ticks};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::packet_io::{BURST, Burst, ClassIndex, NO_SEGMENT, Tag, Tags};
use red::Red;
use shaper::Shaper;

pub mod red;
pub mod shaper;

// A worker's way out by one port.

/// Bytes of a frame beyond a port's MTU: Ethernet header 14, two VLAN tags 8.
pub const FRAME_OVERHEAD_BYTES: u32 = 22;

/// A packet in transit from the worker that received it to the owner of its egress port.
pub type Relayed<P> = (P, Tag);

/// The way out by one port.
#[derive(Debug)]
pub struct Lane<P> {
    pub(crate) exit: Exit<P>,
    /// Rings from other workers, if this one owns the port.
    pub(crate) entrances: Vec<Consumer<Relayed<P>>>,
    pub(crate) frame_bytes_max: u32,
}

/// Where packets for a port are put.
#[derive(Debug)]
pub(crate) enum Exit<P> {
    /// Into this worker's queues, and from there to the driver.
    Queues(Box<PortEgress<P>>),
    /// To the worker that owns the port.
    Owner(Box<Relay<P>>),
    /// Nowhere: the port is gone.
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
    /// A port with an MTU of `mtu` bytes that this worker sends by itself, and to which other workers send
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

    /// A port with an MTU of `mtu` bytes owned by another worker, at the other end of `ring`.
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

    /// A ring for `packets` packets between two workers.
    pub fn ring(packets: usize) -> (Producer<Relayed<P>>, Consumer<Relayed<P>>) {
        RingBuffer::new(packets)
    }

    /// Takes over the queued packets of the lane that this one replaces, as far as it has queues.
    pub(crate) fn adopt(&mut self, old: &mut Self) {
        if let (Exit::Queues(new), Exit::Queues(waiting)) = (&mut self.exit, &mut old.exit) {
            new.adopt(waiting);
            // Existing rings stay in use until they are abandoned and empty; then they are returned with
            // the old lane.
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

    /// Drops all queued packets, each by its tag.
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

    /// Packets queued on this worker's side: in queues, and in rings that end here.
    pub(crate) fn waiting(&self) -> usize {
        let queued = match &self.exit {
            Exit::Queues(egress) => egress.len(),
            Exit::Owner(relay) => relay.packets.len(),
            Exit::Closed => 0,
        };
        queued + self.in_rings()
    }

    /// Packets in rings that end here.
    pub(crate) fn in_rings(&self) -> usize {
        self.entrances.iter().map(Consumer::slots).sum()
    }

    /// Publishes the packets in each queue, and the refused packets.
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

    /// Whether packets may go to the driver at once: nothing is queued, and nothing paces the port.
    #[inline]
    pub(crate) fn is_clear(&self) -> bool {
        matches!(&self.exit, Exit::Queues(egress) if egress.is_clear())
    }

    /// Whether nothing is queued.
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
    /// Sends gathered packets; those without room in the ring stay.
    pub fn flush(&mut self) {
        let room = self.ring.slots().min(self.packets.len());
        if let Ok(chunk) = self.ring.write_chunk_uninit(room) {
            chunk.fill_from_iter(self.packets.drain(..room).zip(self.tags.drain(..room)));
        }
    }
}

// The egress side of a port: queues, classes, rate.

/// Most queues of a port.
pub const QUEUES_MAX: usize = CLASSES_MAX;

/// Bytes on the wire in addition to a frame: preamble and start delimiter 8, frame check sequence 4, gap 12
/// (IEEE 802.3 clauses 3.1.1 and 4.4.2).
pub const WIRE_OVERHEAD_BYTES: u32 = 24;

/// Memory of an element of a queue's ring: a packet's pointer and its tag.
const ITEM_BYTES: usize = size_of::<usize>() + size_of::<Tag>();

/// Bytes that scheduler and shaper count for a frame of `len_bytes`.
#[inline]
pub const fn wire_bytes(len_bytes: u32) -> u32 {
    len_bytes.saturating_add(WIRE_OVERHEAD_BYTES)
}

/// The layout of a [`PortEgress`]: valid by construction.
#[derive(Debug, Clone, PartialEq)]
pub struct EgressLayout {
    /// Its queues, 1 to [`QUEUES_MAX`], in the order of the configuration.
    queues: Vec<QueueLayout>,
    /// The queue of each class; the first queue for classes without their own.
    queue_of_class: [u8; CLASSES_MAX],
    /// Bit rate on the wire; if `None`, as fast as the driver accepts packets.
    capacity_bps: Option<u64>,
    /// Bytes on the wire that may leave at once after an idle time.
    burst_bytes: u32,
    /// Longest stay; `None` for no limit.
    max_residency: Option<Duration>,
    /// Most items for which the queue of each class ever had room, in this layout and previous ones.
    items_of_class: [usize; CLASSES_MAX],
}

/// One queue.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueLayout {
    /// How the scheduler serves it.
    service: QueueService,
    /// Most packets in it.
    packets_max: u32,
    /// Most bytes of frames in it.
    bytes_max: u64,
    /// Random early detection; if `None`, tail drop alone.
    red: Option<config::Red>,
    /// Items that memory is allocated for: packets, references, and leftovers of an earlier generation
    /// ([`EgressLayout::to_succeed`]).
    items_max: usize,
}

impl EgressLayout {
    /// The layout of a port with an MTU of `mtu` bytes by its configuration.
    pub fn from_config(egress: &config::Egress, mtu: u16, classes: &[Class]) -> Self {
        let frame_bytes = u64::from(mtu) + u64::from(FRAME_OVERHEAD_BYTES);
        let queue = |service, packets: u32, bytes: Option<u32>, red| QueueLayout {
            service,
            packets_max: packets,
            bytes_max: bytes.map_or(u64::from(packets) * frame_bytes, u64::from),
            red,
            items_max: packets as usize + references_max(packets),
        };
        let mut queues: Vec<QueueLayout> = egress
            .queues
            .iter()
            .take(QUEUES_MAX)
            .map(|q| queue(q.service, q.packets, q.bytes, q.red))
            .collect();
        if queues.is_empty() {
            let (packets, bytes) = (egress.queue_packets, egress.queue_bytes);
            queues.push(queue(QueueService::Strict, packets, bytes, None));
        }
        let mut queue_of_class = [0; CLASSES_MAX];
        for (of_class, class) in queue_of_class.iter_mut().zip(classes) {
            let holds = |q: &config::Queue| q.classes.contains(&class.name);
            let queue = egress.queues.iter().take(QUEUES_MAX).position(holds);
            *of_class = queue.and_then(|q| u8::try_from(q).ok()).unwrap_or(0);
        }
        let items_of_class = queue_of_class.map(|q| {
            queues
                .get(usize::from(q))
                .map_or(0, |queue| queue.items_max)
        });
        Self {
            queues,
            queue_of_class,
            capacity_bps: egress.capacity_bps,
            burst_bytes: egress.burst_bytes,
            max_residency: egress
                .max_residency_us
                .map(|us| Duration::from_micros(us.into())),
            items_of_class,
        }
    }

    /// The same with enough room to take over everything queued in `old`, so that a worker allocates
    /// nothing when it switches.
    #[must_use]
    pub fn to_succeed(mut self, old: &Self) -> Self {
        for (class, items) in self.items_of_class.iter_mut().enumerate() {
            *items = (*items).max(old.items_of_class[class]);
        }
        for index in 0..self.queues.len() {
            let classes = self.classes_of(index);
            // Old queues with packets for this one, and whether it is their only heir.
            let (mut left, mut is_same) = (0, false);
            for (of, queue) in old.queues.iter().enumerate() {
                if old.classes_of(of) & classes != 0 {
                    left += queue.items_max;
                    is_same |= old.classes_of(of) == classes;
                }
            }
            if !is_same {
                // A class has never had more room than its largest queue so far.
                let of_classes = (0..CLASSES_MAX).filter(|class| classes & (1 << class) != 0);
                left = left.min(of_classes.map(|class| self.items_of_class[class]).sum());
            }
            let items = &mut self.queues[index].items_max;
            *items = (*items).max(left);
        }
        self
    }

    /// The classes of a queue, with a bit for each.
    pub fn classes_of(&self, queue: usize) -> u8 {
        classes_of(self.queue_of_class, queue)
    }

    /// The queue of a class.
    pub fn queue_of(&self, class: ClassIndex) -> usize {
        usize::from(self.queue_of_class[usize::from(class.0) % CLASSES_MAX])
    }

    /// Memory of the queues.
    pub fn size_bytes(&self) -> usize {
        self.queues.iter().map(|q| q.items_max * ITEM_BYTES).sum()
    }
}

/// The classes of `queue`, with a bit for each.
fn classes_of(queue_of_class: [u8; CLASSES_MAX], queue: usize) -> u8 {
    (0..CLASSES_MAX)
        .filter(|&class| usize::from(queue_of_class[class]) == queue)
        .fold(0, |bits, class| bits | 1 << class)
}

/// Most references in a queue of `packets_max`.
const fn references_max(packets_max: u32) -> usize {
    let eighth = packets_max as usize / 8;
    if eighth == 0 { 1 } else { eighth }
}

// The egress side of a port: class queues, a scheduler, a shaper, and the head for the driver.

/// Most references between the packets of the head.
pub const REFERENCES_MAX: usize = 16;

/// Most packets that one call of [`PortEgress::advance`] drops because of their age.
const EXPIRED_MAX: usize = BURST;

/// Typical packet size assumed by RED, in bytes on the wire.
const TYPICAL_WIRE_BYTES: u32 = 500;

/// The rate that RED assumes of a port without a capacity.
const UNPACED_BPS: u64 = 10_000_000_000;

/// In `PortEgress::busy`: a shaper paces the port, so no packet goes straight to the head.
const PACED: u16 = 1 << 8;

/// The queued packets of a port.
///
/// ```text
///            ┌ queue 0 ─ RED ┐
///  offer ────┤     ...       ├─ scheduler ─ shaper ─ residency ── head ── driver
///       │    └ queue 7 ─ RED ┘                                      │
///       └───────────── nothing queued, no capacity ─────────────────┘
/// ```
///
/// Memory is allocated and touched when it is built. Each packet and each call costs a bounded amount of
/// work.
#[derive(Debug)]
pub struct PortEgress<P> {
    /// The next packets for the driver, in order: new ones, or those it refused before.
    pub head: Burst<P>,
    /// Their tags.
    pub tags: Tags,
    /// References, in order, each with the number of packets of the head before it.
    pub references: arrayvec::ArrayVec<(usize, QueuedReference), REFERENCES_MAX>,
    /// Non-empty queues, with a bit for each, and [`PACED`].
    busy: u16,
    queue_of_class: [u8; CLASSES_MAX],
    queues: Vec<Queue<P>>,
    scheduler: Scheduler,
    shaper: Option<Shaper>,
    max_residency_ticks: u64,
}

impl<P> PortEgress<P> {
    /// An egress side by `layout`, with a clock of `rate`; RED draws from `seed`.
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

    /// Accepts a packet at `now`: straight to the head if nothing is queued and nothing paces the port,
    /// otherwise into the queue of its class.
    ///
    /// # Errors
    /// The packet, if its queue is full or RED drops it.
    #[inline]
    pub fn offer(&mut self, packet: P, tag: Tag, now: Ticks) -> Result<(), Refused<P>> {
        if self.busy == 0 && !self.head.is_full() {
            self.push(packet, tag);
            return Ok(());
        }
        self.queue(packet, tag, now)
    }

    /// Accepts a whole burst straight to the head if nothing is queued and nothing paces the port;
    /// otherwise leaves it unchanged. `tag` appends the tag of each packet, in order, in place, so that
    /// none is copied.
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

    /// Whether nothing precedes a packet that arrives now, and nothing paces it.
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

    /// Accepts a reference at `now`: it leaves behind the packets of its class offered before it, and costs
    /// them no time. Returns false, and drops it, if there is no room.
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

    /// Notes that `queue` is no longer empty.
    #[inline]
    fn entered(&mut self, queue: usize, now: Ticks) {
        if self.waiting() == 0
            && let Some(shaper) = &mut self.shaper
        {
            shaper.wake(now);
        }
        self.busy |= 1 << queue;
    }

    /// Moves packets that may leave at `now` to the head, as far as it has room. Packets that have been in
    /// the switch for longer than the maximum go to `expired` instead, at most a burst in a call.
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

    /// The queue to serve next, and whether its next item has waited too long.
    #[inline]
    fn choose(&mut self, now: Ticks) -> Option<(usize, bool)> {
        let queues = &self.queues;
        let waiting = self.waiting();
        let front_wire_bytes = |queue: usize| queues[queue].front().map_or(0, Item::wire_bytes);
        let queue = self.scheduler.choose(waiting, front_wire_bytes)?;
        let age_ticks = now.saturating_since(self.queues[queue].front()?.arrived());
        Some((queue, age_ticks > self.max_residency_ticks))
    }

    /// Starts a packet on the link.
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

    /// Notes that the driver accepted (and removed) the first `packets` of the head: removes their tags,
    /// and references not behind a remaining packet.
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

    /// Takes over everything queued in `old`, in order within each class and without limits, and leaves it
    /// empty. Call it once, before offering anything else.
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

    /// Removes everything queued, and forgets references.
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

    /// Packets in the queues and at the head.
    #[inline]
    pub fn len(&self) -> usize {
        let queued = match self.waiting() {
            0 => 0,
            _ => self.queues.iter().map(Queue::packets).sum(),
        };
        self.head.len() + queued
    }

    /// Whether nothing is queued, not even a reference.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.head.is_empty() && self.waiting() == 0 && self.references.is_empty()
    }

    /// The queue of a class, as an index into the layout.
    #[inline]
    pub fn queue_of(&self, class: ClassIndex) -> usize {
        usize::from(self.queue_of_class[usize::from(class.0) % CLASSES_MAX])
    }

    /// The packets in each queue, in the order of the layout, and its counts.
    pub fn queues(&self) -> impl ExactSizeIterator<Item = QueueState> + '_ {
        self.queues.iter().map(Queue::state)
    }

    /// Non-empty queues, with a bit for each.
    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the low eight bits are the queues"
    )]
    fn waiting(&self) -> u8 {
        self.busy as u8
    }
}

/// The first of `classes` (bits); for none, class 8, which has the queue of class 0.
fn first_of(classes: u8) -> u8 {
    classes.trailing_zeros().min(8) as u8
}

// A bounded queue of packets, with references between them.

/// A refused packet, and the reason.
#[derive(Debug)]
pub struct Refused<P> {
    /// The packet.
    pub packet: P,
    /// Its tag.
    pub tag: Tag,
    /// [`DropReason::QueueFull`] or [`DropReason::Red`].
    pub reason: DropReason,
}

/// A number of packets, and of the bytes of their frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Volume {
    /// Packets.
    pub packets: u64,
    /// Bytes of their frames.
    pub bytes: u64,
}

impl Volume {
    #[inline]
    fn add(&mut self, tag: &Tag) {
        self.packets += 1;
        self.bytes += u64::from(tag.len_bytes);
    }

    #[inline]
    fn take(&mut self, tag: &Tag) {
        self.packets -= 1;
        self.bytes -= u64::from(tag.len_bytes);
    }
}

impl std::ops::AddAssign for Volume {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// Counts of a queue. Packets that went straight to the driver were never in it.
///
/// `entered = left + expired + waiting`, in packets and in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Accepted.
    pub entered: Volume,
    /// Passed to the driver, or drained.
    pub left: Volume,
    /// Waited too long.
    pub expired: Volume,
    /// Refused because the queue was full.
    pub full: Volume,
    /// Refused by RED.
    pub red: Volume,
    /// References refused because there was no room, or that waited too long.
    pub references_lost: u64,
}

impl std::ops::AddAssign for QueueCounts {
    fn add_assign(&mut self, other: Self) {
        self.entered += other.entered;
        self.left += other.left;
        self.expired += other.expired;
        self.full += other.full;
        self.red += other.red;
        self.references_lost += other.references_lost;
    }
}

/// A queue's current state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueState {
    /// The queued packets.
    pub waiting: Volume,
    /// Its counts.
    pub counts: QueueCounts,
}

/// A reference in the queue: a position in its stream, of no bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuedReference {
    /// Its number among those of its stream.
    pub sequence: u32,
    /// Distinguishes references of one configuration from queued ones of another.
    pub generation: GenerationId,
    /// When it was queued.
    pub arrived: Ticks,
    /// Its stream: the segment,
    pub segment: SegmentIndex,
    /// and the class, which chooses its queue.
    pub class: ClassIndex,
    /// The epoch of the packets before it.
    pub epoch: EpochTag,
}

/// The packets in a queue.
#[derive(Debug)]
enum Item<P> {
    Packet(P, Tag),
    Reference(QueuedReference),
}

/// What happens to an item taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Left,
    Expired,
}

/// A ring of fixed size.
#[derive(Debug)]
struct Queue<P> {
    ring: VecDeque<Item<P>>,
    waiting: Volume,
    packets_max: u64,
    bytes_max: u64,
    references: usize,
    references_max: usize,
    red: Option<Red>,
    pub counts: QueueCounts,
}

impl<P> Queue<P> {
    /// An empty queue whose memory is touched, not only reserved.
    pub fn new(layout: &QueueLayout, red: Option<Red>) -> Self {
        let mut ring = VecDeque::with_capacity(layout.items_max);
        ring.resize_with(layout.items_max, Item::untouched);
        ring.clear();
        Self {
            ring,
            waiting: Volume::default(),
            packets_max: layout.packets_max.into(),
            bytes_max: layout.bytes_max,
            references: 0,
            references_max: references_max(layout.packets_max),
            red,
            counts: QueueCounts::default(),
        }
    }

    pub fn state(&self) -> QueueState {
        QueueState {
            waiting: self.waiting,
            counts: self.counts,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Packets in it.
    pub fn packets(&self) -> usize {
        self.ring.len() - self.references
    }

    /// Items that fit without allocating.
    #[cfg(test)]
    pub fn items_max(&self) -> usize {
        self.ring.capacity()
    }

    /// Packets and references in it.
    #[cfg(test)]
    pub fn items(&self) -> usize {
        self.ring.len()
    }

    /// The next item.
    #[inline]
    pub fn front(&self) -> Option<&Item<P>> {
        self.ring.front()
    }

    /// Accepts a packet, or refuses it with a reason.
    #[inline]
    pub fn offer(&mut self, packet: P, tag: Tag, now: Ticks) -> Result<(), Refused<P>> {
        let queue_packets = self.packets();
        if let Some(red) = &mut self.red
            && red.drops(queue_packets, now)
        {
            self.counts.red.add(&tag);
            let reason = DropReason::Red;
            return Err(Refused {
                packet,
                tag,
                reason,
            });
        }
        if self.waiting.packets >= self.packets_max
            || self.waiting.bytes + u64::from(tag.len_bytes) > self.bytes_max
        {
            if let Some(red) = &mut self.red {
                red.dropped_otherwise();
            }
            self.counts.full.add(&tag);
            let reason = DropReason::QueueFull;
            return Err(Refused {
                packet,
                tag,
                reason,
            });
        }
        self.counts.entered.add(&tag);
        self.put(Item::Packet(packet, tag));
        Ok(())
    }

    /// Accepts a reference, if there is room. RED and the limits ignore it.
    pub fn offer_reference(&mut self, reference: QueuedReference) -> bool {
        let is_taken = self.references < self.references_max;
        if is_taken {
            self.put(Item::Reference(reference));
        } else {
            self.counts.references_lost += 1;
        }
        is_taken
    }

    /// Appends an item without counting it or checking limits.
    #[inline]
    pub fn put(&mut self, item: Item<P>) {
        match &item {
            Item::Packet(_, tag) => self.waiting.add(tag),
            Item::Reference(_) => self.references += 1,
        }
        self.ring.push_back(item);
    }

    /// Takes the next item out without counting it.
    #[inline]
    pub fn pop(&mut self) -> Option<Item<P>> {
        let item = self.ring.pop_front()?;
        match &item {
            Item::Packet(_, tag) => self.waiting.take(tag),
            Item::Reference(_) => self.references -= 1,
        }
        Some(item)
    }

    /// Takes the next item out at `now`, with its `fate`.
    #[inline]
    pub fn take(&mut self, fate: Fate, now: Ticks) -> Option<Item<P>> {
        let item = self.pop()?;
        match (&item, fate) {
            (Item::Packet(_, tag), Fate::Left) => self.counts.left.add(tag),
            (Item::Packet(_, tag), Fate::Expired) => self.counts.expired.add(tag),
            (Item::Reference(_), Fate::Left) => return Some(item),
            (Item::Reference(_), Fate::Expired) => self.counts.references_lost += 1,
        }
        if self.waiting.packets == 0
            && let Some(red) = &mut self.red
        {
            red.emptied(now);
        }
        Some(item)
    }

    /// Takes over from a queue of the same classes: RED's state and, if this one is empty, the ring, if it
    /// has enough room. The caller moves the rest of `old` one by one.
    pub fn succeed(&mut self, old: &mut Self) {
        if let (Some(red), Some(old)) = (&mut self.red, &old.red) {
            red.succeed(old);
        }
        if self.ring.is_empty() && old.ring.capacity() >= self.ring.capacity() {
            std::mem::swap(&mut self.ring, &mut old.ring);
            std::mem::swap(&mut self.waiting, &mut old.waiting);
            std::mem::swap(&mut self.references, &mut old.references);
        }
    }
}

impl<P> Item<P> {
    /// Fills an element of an empty ring.
    fn untouched() -> Self {
        Self::Reference(QueuedReference {
            sequence: 0,
            generation: GenerationId::default(),
            arrived: Ticks(0),
            segment: NO_SEGMENT,
            class: ClassIndex(0),
            epoch: EpochTag(0),
        })
    }

    /// When it was first seen.
    #[inline]
    pub fn arrived(&self) -> Ticks {
        match self {
            Self::Packet(_, tag) => tag.arrived,
            Self::Reference(reference) => reference.arrived,
        }
    }

    /// Its size on the wire.
    #[inline]
    pub fn wire_bytes(&self) -> u32 {
        match self {
            Self::Packet(_, tag) => wire_bytes(tag.len_bytes),
            Self::Reference(_) => 0,
        }
    }

    pub fn class(&self) -> ClassIndex {
        match self {
            Self::Packet(_, tag) => tag.class,
            Self::Reference(reference) => reference.class,
        }
    }
}

const _: () = assert!(
    size_of::<Item<std::ptr::NonNull<()>>>() == size_of::<usize>() + size_of::<Tag>(),
    "an item takes no more than a packet's pointer and its tag"
);

// Chooses the next queue: strict priority, then deficit round robin (Shreedhar and Varghese, "Efficient
// Fair Queueing Using Deficit Round Robin", SIGCOMM 1995), in bytes on the wire.

/// Bytes per round for a weight of 1: the longest frame of IEEE 802.3 with one tag.
pub const QUANTUM_BYTES: u32 = 1_522;

/// Chooses among queues, given as bits.
///
/// A choice takes at most `QUEUES_MAX` steps for each quantum in the longest frame: 48 for one of 9,046
/// bytes and a weight of 1.
#[derive(Debug, Clone)]
pub struct Scheduler {
    strict: u8,
    quanta: [u32; QUEUES_MAX],
    deficits: [u32; QUEUES_MAX],
    /// The weighted queue being served.
    current: usize,
}

impl Scheduler {
    /// A scheduler for queues with these `services`, in order; queues beyond [`QUEUES_MAX`] are never
    /// served.
    pub fn new(services: impl IntoIterator<Item = QueueService>) -> Self {
        let mut scheduler = Self {
            strict: 0,
            quanta: [QUANTUM_BYTES; QUEUES_MAX],
            deficits: [0; QUEUES_MAX],
            current: 0,
        };
        for (queue, service) in services.into_iter().enumerate().take(QUEUES_MAX) {
            // The last was served: the first is next.
            scheduler.current = queue;
            match service {
                QueueService::Strict => scheduler.strict |= 1 << queue,
                QueueService::Weight(weight) => {
                    scheduler.quanta[queue] = QUANTUM_BYTES * u32::from(weight.max(1));
                }
            }
        }
        scheduler
    }

    /// The queue to serve next among those `waiting` (bits), whose next packets have `front_wire_bytes`.
    /// `None` if all are empty.
    #[inline]
    pub fn choose(
        &mut self,
        waiting: u8,
        front_wire_bytes: impl Fn(usize) -> u32,
    ) -> Option<usize> {
        let strict = waiting & self.strict;
        if strict != 0 {
            return Some(strict.trailing_zeros() as usize);
        }
        if waiting == 0 {
            return None;
        }
        loop {
            let current = self.current;
            if waiting & (1 << current) != 0 && front_wire_bytes(current) <= self.deficits[current]
            {
                return Some(current);
            }
            // The rest of a deficit is kept for the next round.
            self.current = next_after(current, waiting);
            let deficit = &mut self.deficits[self.current];
            *deficit = deficit.saturating_add(self.quanta[self.current]);
        }
    }

    /// Notes that a packet of `wire_bytes` leaves the chosen `queue`.
    #[inline]
    pub fn charge(&mut self, queue: usize, wire_bytes: u32) {
        self.deficits[queue] = self.deficits[queue].saturating_sub(wire_bytes);
    }

    /// Notes that `queue` is empty, so it loses its deficit.
    #[inline]
    pub fn emptied(&mut self, queue: usize) {
        self.deficits[queue] = 0;
    }
}

/// The next of the queues `waiting` (at least one) after `current`, in a circle.
#[inline]
fn next_after(current: usize, waiting: u8) -> usize {
    let later = u32::from(waiting) & !((2 << current) - 1);
    let next = if later == 0 {
        waiting.trailing_zeros()
    } else {
        later.trailing_zeros()
    };
    next as usize % QUEUES_MAX
}

#[cfg(test)]
mod tests;
