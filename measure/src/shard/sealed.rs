//! A shard that takes no more observations, and what it becomes with its flows.

use std::ops::Deref;

use super::{SegmentSynopsis, Shard, place, slots_for};
use crate::flows::{FlowId, FlowSlots, Slot};
use crate::observation::SegmentIndex;
use crate::synopsis::Synopsis;
use crate::time::Epoch;

/// A shard that takes no more observations. Ownership of it is what travels from worker to control core
/// and back.
///
/// Its sketches cannot be read: they lack the packets of tracked flows until it is
/// [completed](Self::complete).
#[derive(Debug)]
pub struct Sealed {
    epoch: Epoch,
    shard: Box<Shard>,
    is_complete: bool,
}

/// A sealed shard with the packets of all flows: what can be read and merged.
#[derive(Debug)]
pub struct Complete<'s> {
    epoch: Epoch,
    shard: &'s Shard,
}

impl Shard {
    /// Closes the shard of `epoch`: from here on it cannot be recorded into.
    pub fn seal(self: Box<Self>, epoch: Epoch) -> Sealed {
        Sealed {
            epoch,
            shard: self,
            is_complete: false,
        }
    }

    /// Adds the packets of flows, by their slots' counters, to the sketches.
    fn sketch_flows(&mut self, flows: impl IntoIterator<Item = (Slot, FlowId, SegmentIndex)>) {
        let Self {
            flows: slots,
            sketches,
            sketch_of,
            first_segment,
            ..
        } = self;
        let Some(slots) = slots_for(slots.as_ref(), sketches) else {
            return;
        };
        for (slot, flow, segment) in flows {
            let counters = slots.counters(slot);
            let sketch = sketch_of.get(place(segment, *first_segment));
            if slots.has(slot)
                && counters.packets() > 0
                && let Some(sketch) =
                    sketch.and_then(|&sketch| sketches.get_mut(usize::from(sketch)))
            {
                sketch.record_flow(flow, counters.packets(), counters.sum_ticks());
            }
        }
    }
}

impl Sealed {
    /// The epoch it holds.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// [`Shard::segments`].
    pub fn segments(&self) -> &[SegmentSynopsis] {
        self.shard.segments()
    }

    /// [`Shard::numbered_segments`].
    pub fn numbered_segments(&self) -> impl Iterator<Item = (SegmentIndex, &SegmentSynopsis)> {
        self.shard.numbered_segments()
    }

    /// [`Shard::flows`].
    pub fn flows(&self) -> Option<&FlowSlots> {
        self.shard.flows()
    }

    /// Adds the packets of tracked flows, which only the slots count so far, to the sketches. `flows`
    /// has the flow of every slot that counted any, and the segment that it is seen on. Packets of
    /// slots that are not among them are in no sketch.
    ///
    /// # Panics
    /// When it is complete already: its flows would be added twice.
    pub fn complete(
        &mut self,
        flows: impl IntoIterator<Item = (Slot, FlowId, SegmentIndex)>,
    ) -> Complete<'_> {
        assert!(!self.is_complete, "flows are added to a sealed shard once");
        self.is_complete = true;
        self.shard.sketch_flows(flows);
        Complete {
            epoch: self.epoch,
            shard: &self.shard,
        }
    }

    /// Empties it for another epoch, in which these slots have histograms.
    pub fn reopen(self, histograms: impl IntoIterator<Item = Slot>) -> Box<Shard> {
        let mut shard = self.shard;
        #[cfg(feature = "planted")]
        if self.epoch.0 % 16 == 7 && crate::planted::is(crate::planted::Bug::StaleShard) {
            return shard;
        }
        shard.clear();
        if let Some(flows) = &mut shard.flows {
            flows.keep_histograms(histograms);
        }
        shard
    }
}

impl Complete<'_> {
    /// The epoch it holds.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }
}

impl Deref for Complete<'_> {
    type Target = Shard;

    fn deref(&self) -> &Shard {
        self.shard
    }
}
