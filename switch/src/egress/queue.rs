//! A bounded queue of packets, and of references between them.

use std::collections::VecDeque;

use contract::counters::DropReason;
use measure::time::{EpochTag, Ticks};

use super::layout::{QueueLayout, references_max};
use super::red::Red;
use crate::packet_io::{NO_SEGMENT, Tag};

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

/// What a place in the queue holds; a reference has no packet.
#[derive(Debug)]
pub(super) struct Item<P> {
    pub packet: Option<P>,
    pub tag: Tag,
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
        let mut ring = VecDeque::with_capacity(layout.places);
        ring.resize_with(layout.places, Item::untouched);
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
    pub fn places(&self) -> usize {
        self.ring.capacity()
    }

    /// Packets and references that wait.
    #[cfg(test)]
    pub fn items(&self) -> usize {
        self.ring.len()
    }

    /// The tag of the next item.
    #[inline]
    pub fn front(&self) -> Option<&Tag> {
        self.ring.front().map(|item| &item.tag)
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
        let packet = Some(packet);
        self.put(Item { packet, tag });
        Ok(())
    }

    /// Takes a reference in, if there is room. Neither RED nor the limits know of it.
    pub fn offer_reference(&mut self, tag: Tag) -> bool {
        let is_taken = self.references < self.references_max;
        if is_taken {
            self.put(Item { packet: None, tag });
        } else {
            self.counts.references_lost += 1;
        }
        is_taken
    }

    /// Puts an item behind all others: uncounted, and limits are not asked.
    #[inline]
    pub fn put(&mut self, item: Item<P>) {
        if item.packet.is_some() {
            self.waiting.add(&item.tag);
        } else {
            self.references += 1;
        }
        self.ring.push_back(item);
    }

    /// Takes the next item out: uncounted.
    #[inline]
    pub fn pop(&mut self) -> Option<Item<P>> {
        let item = self.ring.pop_front()?;
        if item.packet.is_some() {
            self.waiting.take(&item.tag);
        } else {
            self.references -= 1;
        }
        Some(item)
    }

    /// Takes the next item out at `now` to its `fate`.
    #[inline]
    pub fn take(&mut self, fate: Fate, now: Ticks) -> Option<Item<P>> {
        let item = self.pop()?;
        match (&item.packet, fate) {
            (Some(_), Fate::Left) => self.counts.left.add(&item.tag),
            (Some(_), Fate::Expired) => self.counts.expired.add(&item.tag),
            (None, Fate::Left) => return Some(item),
            (None, Fate::Expired) => self.counts.references_lost += 1,
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
    /// Fills a place in memory that holds nothing yet.
    fn untouched() -> Self {
        let tag = Tag {
            flow: measure::packet::FlowHash(0),
            packet: measure::packet::PacketHash(0),
            arrived: Ticks(0),
            len_bytes: 0,
            segment: NO_SEGMENT,
            epoch: EpochTag(0),
            class: crate::packet_io::ClassIndex(0),
        };
        Self { packet: None, tag }
    }
}
