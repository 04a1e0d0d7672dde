//! The worker's flow table: which flow has which slot, in a set-associative table with one cache line for each
//! bucket, and the free slots.

use std::hint::select_unpredictable;

use super::{FlowId, Slot};
use crate::prefetch::prefetch;

/// Flows a bucket holds.
const WAYS: usize = 5;

/// One cache line: five flows with all 64 bits of their ids.
///
/// A flow is stored in its first bucket, or in its second if the first was full. The first bucket counts
/// such flows, so that a lookup reads the second only if necessary, and removal leaves no tombstone.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(64))]
struct Bucket {
    ids: [u64; WAYS],
    /// Slot numbers plus 1; 0 for an empty place.
    slots: [u32; WAYS],
    /// Flows of this first bucket that are stored in their second.
    spilled: u32,
}

const _: () = assert!(size_of::<Bucket>() == 64, "one cache line");
const _: () = assert!(Slot::OTHER.0 == 0_u32.wrapping_sub(1), "no slot, stored");

impl Bucket {
    /// The slot of `id`, plus 1; 0 if it is absent. Without branches, because a flow's place in the bucket
    /// is unpredictable.
    #[inline]
    fn find(&self, id: u64) -> u32 {
        let ways = self.ids.iter().zip(&self.slots);
        ways.fold(0, |found, (&other, &slot)| {
            found | select_unpredictable(other == id, slot, 0)
        })
    }

    /// The place of `id`, if present.
    fn way_of(&self, id: u64) -> Option<usize> {
        (0..WAYS).find(|&way| self.slots[way] != 0 && self.ids[way] == id)
    }

    /// Stores a flow in an empty place; returns `false` if there is none.
    fn put(&mut self, id: u64, slot: u32) -> bool {
        let Some(way) = self.slots.iter().position(|&taken| taken == 0) else {
            return false;
        };
        (self.ids[way], self.slots[way]) = (id, slot);
        true
    }

    /// Removes a flow and returns its slot plus 1.
    fn take(&mut self, id: u64) -> Option<u32> {
        let way = self.way_of(id)?;
        self.ids[way] = 0;
        Some(std::mem::take(&mut self.slots[way]))
    }
}

/// Maps flows to slots, in memory allocated once.
///
/// Matches are exact in all 64 bits of a [`FlowId`].
#[derive(Debug, Clone)]
pub struct FlowIndex {
    buckets: Box<[Bucket]>,
    flows: usize,
}

impl FlowIndex {
    /// Flows per bucket when the index holds its intended number. At that load, one flow in three thousand
    /// finds both buckets full; with constant turnover, one of 600 new flows.
    pub const FLOWS_PER_BUCKET: usize = 2;
    /// Most flows of an index.
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

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.flows == 0
    }

    /// Bytes it takes.
    pub fn size_bytes(&self) -> usize {
        size_of_val(&*self.buckets)
    }

    /// Prefetches the flow's first bucket.
    #[inline]
    pub fn prefetch(&self, FlowId(id): FlowId) {
        prefetch(&self.buckets, self.first(id));
    }

    /// The flow's slot, if it has one.
    #[inline]
    pub fn look_up(&self, id: FlowId) -> Option<Slot> {
        slot_of(self.find(id))
    }

    /// The slots of flows, [`Slot::OTHER`] for those without one; returns whether there are such. Not
    /// inlined, so that the loop has all registers.
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

    /// The slot of a flow, plus 1; 0 if absent.
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

    /// Assigns a slot to the flow. Returns `false`, and changes nothing, if the flow has a slot, if both its
    /// buckets are full, or for [`Slot::OTHER`].
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

    /// Removes the flow and returns its slot.
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

    /// Selected by the half of the id that [`first`](Self::first) hardly uses.
    #[inline]
    fn second(&self, id: u64) -> usize {
        reduce(id.rotate_left(32), self.buckets.len())
    }
}

#[inline]
fn slot_of(stored: u32) -> Option<Slot> {
    stored.checked_sub(1).map(Slot)
}

/// An index below `places`, from the upper bits of `id`.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "under `places`")]
fn reduce(id: u64, places: usize) -> usize {
    ((u128::from(id) * places as u128) >> 64) as usize
}

/// A flow that was just given a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewFlow {
    /// The flow's id, for [`FlowTable::forget`].
    pub id: FlowId,
    /// Its slot.
    pub slot: Slot,
    /// Position of its first packet among those looked up.
    pub position: usize,
}

/// Packets counted under [`Slot::OTHER`], by reason. Totals since the table was made.
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
    /// Never longer than the number of slots, so nothing is allocated after the start.
    free: Vec<Slot>,
    /// For each slot: whether it is neither free nor assigned to a flow.
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

    /// Prefetches the place of a flow that will be [looked up](Self::look_up).
    #[inline]
    pub fn prefetch(&self, flow: FlowId) {
        self.index.prefetch(flow);
    }

    /// Looks up the flows of a burst, packet by packet, for as many as there are `slots`.
    ///
    /// A new flow for which `is_selected` (by the packet's number) is true takes a free slot and is passed
    /// to `report`. If `report` returns false, the flow is not tracked, and tried again with its next
    /// packet. Packets of untracked flows count under [`Slot::OTHER`].
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
                // An earlier packet of the burst may have added it.
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

    /// Removes a flow. The caller keeps its slot until all counters that still refer to this flow have been
    /// read, and then calls [`give`](Self::give). `None` for an unknown flow.
    pub fn forget(&mut self, id: FlowId) -> Option<Slot> {
        let slot = self.index.remove(id)?;
        if let Some(is_away) = self.is_away.get_mut(slot.0 as usize) {
            *is_away = true;
        }
        Some(slot)
    }

    /// Returns a slot obtained from [`forget`](Self::forget), so that the next new flow can use it. Returns `false`,
    /// and changes nothing, if the slot is not away.
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

    /// Number of slots.
    pub fn slots(&self) -> usize {
        self.is_away.len()
    }

    /// Free slots.
    pub fn free_slots(&self) -> usize {
        self.free.len()
    }

    /// Flows with a slot.
    pub fn tracked(&self) -> usize {
        self.index.len()
    }

    /// Packets counted under [`Slot::OTHER`].
    pub fn untracked(&self) -> Untracked {
        self.untracked
    }
}
