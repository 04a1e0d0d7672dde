//! What stays with the worker: which flow has which slot, in a set-associative table of one cache line a bucket, and the
//! slots that no flow has.

use std::hint::select_unpredictable;

use super::{FlowId, Slot};
use crate::prefetch::prefetch;

/// Flows a bucket holds.
const WAYS: usize = 5;

/// One cache line: five flows with all 64 bits of their ids.
///
/// A flow lives in its first bucket, or, where that was full when it came, in its second. The
/// first bucket counts these, so that looking up reads the second only where it must, and removing
/// leaves no tombstone.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
struct Bucket {
    ids: [u64; WAYS],
    /// Slot numbers plus 1; 0 where there is no flow.
    slots: [u32; WAYS],
    /// Flows whose first bucket this is and that live in their second.
    spilled: u32,
}

const _: () = assert!(size_of::<Bucket>() == 64, "one cache line");
const _: () = assert!(Slot::OTHER.0 == 0_u32.wrapping_sub(1), "no slot, stored");

impl Bucket {
    /// The slot of `id`, plus 1; 0 where it is not here. No branch: where in the bucket a flow is
    /// cannot be guessed.
    #[inline]
    fn find(&self, id: u64) -> u32 {
        let ways = self.ids.iter().zip(&self.slots);
        ways.fold(0, |found, (&other, &slot)| {
            found | select_unpredictable(other == id, slot, 0)
        })
    }

    /// Where `id` is, if it is here.
    fn way_of(&self, id: u64) -> Option<usize> {
        (0..WAYS).find(|&way| self.slots[way] != 0 && self.ids[way] == id)
    }

    /// Puts a flow in an empty place; `false` where there is none.
    fn put(&mut self, id: u64, slot: u32) -> bool {
        let Some(way) = self.slots.iter().position(|&taken| taken == 0) else {
            return false;
        };
        (self.ids[way], self.slots[way]) = (id, slot);
        true
    }

    /// Takes a flow out and returns its slot plus 1.
    fn take(&mut self, id: u64) -> Option<u32> {
        let way = self.way_of(id)?;
        self.ids[way] = 0;
        Some(std::mem::take(&mut self.slots[way]))
    }
}

/// From flows to slots, in memory that is allocated once.
///
/// Matches are exact in all 64 bits of a [`FlowId`].
#[derive(Debug, Clone)]
pub struct FlowIndex {
    buckets: Box<[Bucket]>,
    flows: usize,
}

impl FlowIndex {
    /// Flows for each bucket when the index holds what it was made for. Of as many flows, one in
    /// three thousand finds both of its buckets full; where full and flows come and go, one of 600
    /// that come.
    pub const FLOWS_PER_BUCKET: usize = 2;
    /// Most flows that an index can be made for.
    pub const FLOWS_MAX: usize = 1 << 28;

    /// An empty index for `flows` flows (at most [`FLOWS_MAX`](Self::FLOWS_MAX)): 32 bytes a flow.
    pub fn for_flows(flows: usize) -> Self {
        let buckets = flows
            .min(Self::FLOWS_MAX)
            .div_ceil(Self::FLOWS_PER_BUCKET)
            .max(2);
        Self {
            buckets: vec![Bucket::default(); buckets].into_boxed_slice(),
            flows: 0,
        }
    }

    /// Flows in it.
    pub fn len(&self) -> usize {
        self.flows
    }

    /// Whether it holds no flow.
    pub fn is_empty(&self) -> bool {
        self.flows == 0
    }

    /// Bytes it takes.
    pub fn size_bytes(&self) -> usize {
        size_of_val(&*self.buckets)
    }

    /// Asks the cache for the flow's first bucket.
    #[inline]
    pub fn prefetch(&self, FlowId(id): FlowId) {
        prefetch(&self.buckets, self.first(id));
    }

    /// The flow's slot, if it has one.
    #[inline]
    pub fn look_up(&self, id: FlowId) -> Option<Slot> {
        slot_of(self.find(id))
    }

    /// The slots of flows, [`Slot::OTHER`] of those that have none; whether there are such. Not inlined, so
    /// that the loop has all registers to itself.
    #[inline(never)]
    pub fn look_up_all(&self, flows: impl Iterator<Item = FlowId>, slots: &mut [Slot]) -> bool {
        let mut is_one_missing = false;
        for (slot, id) in slots.iter_mut().zip(flows) {
            let stored = self.find(id);
            is_one_missing |= stored == 0;
            *slot = Slot(stored.wrapping_sub(1));
        }
        is_one_missing
    }

    /// The slot of a flow, plus 1; 0 if it is not here.
    #[inline]
    fn find(&self, FlowId(id): FlowId) -> u32 {
        let Some(bucket) = self.buckets.get(self.first(id)) else {
            return 0;
        };
        match bucket.find(id) {
            0 if bucket.spilled > 0 => {
                let second = self.buckets.get(self.second(id));
                second.map_or(0, |bucket| bucket.find(id))
            }
            stored => stored,
        }
    }

    /// Gives the flow a slot. `false`, and nothing has changed, where the flow has one, where both its buckets are
    /// full, and for [`Slot::OTHER`].
    #[must_use]
    pub fn insert(&mut self, id: FlowId, slot: Slot) -> bool {
        let Some(stored) = slot.0.checked_add(1).filter(|_| self.look_up(id).is_none()) else {
            return false;
        };
        let FlowId(id) = id;
        let (first, second) = (self.first(id), self.second(id));
        let mut is_put = self.buckets[first].put(id, stored);
        if !is_put {
            is_put = self.buckets[second].put(id, stored);
            self.buckets[first].spilled += u32::from(is_put);
        }
        self.flows += usize::from(is_put);
        is_put
    }

    /// Forgets the flow and returns the slot it had.
    pub fn remove(&mut self, FlowId(id): FlowId) -> Option<Slot> {
        let (first, second) = (self.first(id), self.second(id));
        let mut stored = self.buckets[first].take(id);
        if stored.is_none() {
            stored = self.buckets[second].take(id);
            self.buckets[first].spilled -= u32::from(stored.is_some());
        }
        self.flows -= usize::from(stored.is_some());
        slot_of(stored?)
    }

    #[inline]
    fn first(&self, id: u64) -> usize {
        reduce(id, self.buckets.len())
    }

    /// Given by the half of the id that [`first`](Self::first) hardly reads.
    #[inline]
    fn second(&self, id: u64) -> usize {
        reduce(id.rotate_left(32), self.buckets.len())
    }
}

#[inline]
fn slot_of(stored: u32) -> Option<Slot> {
    stored.checked_sub(1).map(Slot)
}

/// A place under `places`, by the upper bits of `id`.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "under `places`")]
fn reduce(id: u64, places: usize) -> usize {
    ((u128::from(id) * places as u128) >> 64) as usize
}

/// A flow that has just got a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewFlow {
    /// The flow, as [`FlowTable::forget`] takes it.
    pub id: FlowId,
    /// Its slot.
    pub slot: Slot,
    /// Which of the packets looked up was its first.
    pub position: usize,
}

/// Packets that count under [`Slot::OTHER`], by the reason. Totals since the table was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Untracked {
    /// No slot was free.
    pub without_free_slot: u64,
    /// Both buckets of the flow were full.
    pub without_place: u64,
    /// The new flow could not be reported.
    pub unreported: u64,
}

/// Which flows are tracked, and in which slots.
#[derive(Debug)]
pub struct FlowTable {
    index: FlowIndex,
    /// Never grows over the number of slots: nothing is allocated after the start.
    free: Vec<Slot>,
    /// For each slot: whether it is neither free nor a flow's.
    is_away: Box<[bool]>,
    untracked: Untracked,
}

impl FlowTable {
    /// A table of `slots` slots (at most [`FlowIndex::FLOWS_MAX`]), all free: 37 bytes a slot.
    pub fn new(slots: usize) -> Self {
        let slots = slots.min(FlowIndex::FLOWS_MAX);
        #[expect(clippy::cast_possible_truncation, reason = "2^28 at most")]
        let free = (0..slots as u32).rev().map(Slot).collect();
        Self {
            index: FlowIndex::for_flows(slots),
            free,
            is_away: vec![false; slots].into_boxed_slice(),
            untracked: Untracked::default(),
        }
    }

    /// Asks the cache for the place of a flow, a while before it is [looked up](Self::look_up).
    #[inline]
    pub fn prefetch(&self, flow: FlowId) {
        self.index.prefetch(flow);
    }

    /// Looks up the flows of a burst, packet by packet, for as many of `slots` as there are.
    ///
    /// A flow that is not there and that `is_selected` by the number of its packet takes a free slot and is
    /// passed to `report`, which says whether it could pass the news on: else the flow is not tracked, and
    /// tried again with its next packet. Packets of flows that are not tracked count under [`Slot::OTHER`].
    #[inline]
    pub fn look_up(
        &mut self,
        flows: impl Iterator<Item = FlowId> + Clone,
        slots: &mut [Slot],
        is_selected: impl Fn(usize) -> bool,
        mut report: impl FnMut(NewFlow) -> bool,
    ) {
        if !self.index.look_up_all(flows.clone(), slots) {
            return;
        }
        for (position, (slot, id)) in slots.iter_mut().zip(flows).enumerate() {
            if *slot == Slot::OTHER && is_selected(position) {
                // A packet before it may have brought it.
                *slot = match self.index.look_up(id) {
                    Some(slot) => slot,
                    None => self.admit(id, position, &mut report),
                };
            }
        }
    }

    #[cold]
    fn admit(
        &mut self,
        id: FlowId,
        position: usize,
        report: &mut impl FnMut(NewFlow) -> bool,
    ) -> Slot {
        let Some(&slot) = self.free.last() else {
            self.untracked.without_free_slot += 1;
            return Slot::OTHER;
        };
        if !self.index.insert(id, slot) {
            self.untracked.without_place += 1;
            return Slot::OTHER;
        }
        if !report(NewFlow { id, slot, position }) {
            self.index.remove(id);
            self.untracked.unreported += 1;
            return Slot::OTHER;
        }
        self.free.pop();
        slot
    }

    /// Forgets a flow. Its slot stays with the caller until all counters in which it still stands
    /// for that flow have been read; then [`give`](Self::give) it back. `None` where there is no
    /// such flow.
    pub fn forget(&mut self, id: FlowId) -> Option<Slot> {
        let slot = self.index.remove(id)?;
        if let Some(is_away) = self.is_away.get_mut(slot.0 as usize) {
            *is_away = true;
        }
        Some(slot)
    }

    /// Takes back a slot that [`forget`](Self::forget) returned: the next new flow may have it. `false`, and nothing
    /// has changed, where the slot is not away.
    pub fn give(&mut self, slot: Slot) -> bool {
        let is_away = self
            .is_away
            .get_mut(slot.0 as usize)
            .is_some_and(std::mem::take);
        if is_away {
            self.free.push(slot);
        }
        is_away
    }

    /// The slot of a flow, if it is tracked.
    pub fn slot_of(&self, id: FlowId) -> Option<Slot> {
        self.index.look_up(id)
    }

    /// Slots in all.
    pub fn slots(&self) -> usize {
        self.is_away.len()
    }

    /// Slots that no flow has and that are not away.
    pub fn free_slots(&self) -> usize {
        self.free.len()
    }

    /// Flows that have a slot.
    pub fn tracked(&self) -> usize {
        self.index.len()
    }

    /// Packets that counted under [`Slot::OTHER`].
    pub fn untracked(&self) -> Untracked {
        self.untracked
    }
}
