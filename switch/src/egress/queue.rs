//! A bounded queue of packets, and of references between them.

use std::collections::VecDeque;

use contract::counters::DropReason;
use contract::ids::GenerationId;
use measure::observation::SegmentIndex;
use measure::time::{EpochTag, Ticks};

use super::layout::{QueueLayout, references_max, wire_bytes};
use super::red::Red;
use crate::packet_io::{ClassIndex, NO_SEGMENT, Tag};

/// A packet that was not taken, and why.
#[derive(Debug)]
pub struct Refused<P> {
    /// The packet.
    pub packet: P,
    /// Its tag.
    pub tag: Tag,
    /// [`DropReason::QueueFull`] or [`DropReason::Red`].
    pub reason: DropReason,
}

/// Packets, and the bytes of their frames.
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

/// What became of what was offered to a queue. What went straight to the driver never came to it.
///
/// `entered = left + expired + waiting`, in packets and in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// What was taken.
    pub entered: Volume,
    /// What went on to the driver, or was drained.
    pub left: Volume,
    /// What had waited too long.
    pub expired: Volume,
    /// What was refused for want of room.
    pub full: Volume,
    /// What RED refused.
    pub red: Volume,
    /// References that were refused for want of room, or had waited too long.
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

/// A queue's present state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueState {
    /// What waits.
    pub waiting: Volume,
    /// What became of what was offered.
    pub counts: QueueCounts,
}

/// A reference on its way through the queue: a position in its stream, of no bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuedReference {
    /// Its number among those of its stream.
    pub sequence: u32,
    /// Tells references of one configuration from those of another that are still queued.
    pub generation: GenerationId,
    /// When it was put into the queue.
    pub arrived: Ticks,
    /// Its stream: the segment,
    pub segment: SegmentIndex,
    /// and the class, which chooses its queue.
    pub class: ClassIndex,
    /// The epoch of the packets before it.
    pub epoch: EpochTag,
}

/// What waits in a queue.
#[derive(Debug)]
pub(super) enum Item<P> {
    Packet(P, Tag),
    Reference(QueuedReference),
}

/// What becomes of an item that is taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Left,
    Expired,
}

/// A ring of fixed size.
#[derive(Debug)]
pub(super) struct Queue<P> {
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
    /// An empty queue whose memory is there, not only promised.
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

    /// Packets that wait.
    pub fn packets(&self) -> usize {
        self.ring.len() - self.references
    }

    /// What fits without more memory.
    #[cfg(test)]
    pub fn items_max(&self) -> usize {
        self.ring.capacity()
    }

    /// Packets and references that wait.
    #[cfg(test)]
    pub fn items(&self) -> usize {
        self.ring.len()
    }

    /// The next item.
    #[inline]
    pub fn front(&self) -> Option<&Item<P>> {
        self.ring.front()
    }

    /// Takes a packet in, or says why not.
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

    /// Takes a reference in, if there is room. Neither RED nor the limits know of it.
    pub fn offer_reference(&mut self, reference: QueuedReference) -> bool {
        let is_taken = self.references < self.references_max;
        if is_taken {
            self.put(Item::Reference(reference));
        } else {
            self.counts.references_lost += 1;
        }
        is_taken
    }

    /// Puts an item behind all others: uncounted, and limits are not asked.
    #[inline]
    pub fn put(&mut self, item: Item<P>) {
        match &item {
            Item::Packet(_, tag) => self.waiting.add(tag),
            Item::Reference(_) => self.references += 1,
        }
        self.ring.push_back(item);
    }

    /// Takes the next item out: uncounted.
    #[inline]
    pub fn pop(&mut self) -> Option<Item<P>> {
        let item = self.ring.pop_front()?;
        match &item {
            Item::Packet(_, tag) => self.waiting.take(tag),
            Item::Reference(_) => self.references -= 1,
        }
        Some(item)
    }

    /// Takes the next item out at `now` to its `fate`.
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

    /// Takes over from a queue of the same classes: what RED knows and, if this one is empty, the
    /// ring as it is, if it has room enough. What is left in `old` is to be moved one by one.
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
    /// Fills an element of a ring that is empty so far.
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

    /// What it takes on the wire.
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
