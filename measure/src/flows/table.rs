//! What stays with the worker: the index, and the slots that no flow has.

use super::{FlowId, FlowIndex, Slot};

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

/// A slot that cannot be given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GiveError {
    /// There are not so many.
    #[error("there is no slot {}: the table has {slots}", slot.0)]
    NoSuchSlot {
        /// The slot given.
        slot: Slot,
        /// Slots of the table.
        slots: usize,
    },
    /// It is free, or some flow's.
    #[error("slot {} is the table's already; give back what `forget` returned, once", slot.0)]
    NotAway {
        /// The slot given.
        slot: Slot,
    },
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
        if self.index.insert(id, slot).is_err() {
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

    /// Takes back a slot that [`forget`](Self::forget) returned: the next new flow may have it.
    ///
    /// # Errors
    /// [`GiveError`] when the slot is not away; nothing has changed then.
    pub fn give(&mut self, slot: Slot) -> Result<(), GiveError> {
        let slots = self.is_away.len();
        match self.is_away.get_mut(slot.0 as usize) {
            None => Err(GiveError::NoSuchSlot { slot, slots }),
            Some(false) => Err(GiveError::NotAway { slot }),
            Some(is_away) => {
                *is_away = false;
                self.free.push(slot);
                Ok(())
            }
        }
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
