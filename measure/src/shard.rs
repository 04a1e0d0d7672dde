//! Everything that one worker accumulates over one epoch.
//!
//! ```text
//!  observation --+--> segment   tally, moments, histogram, LDA      one for each segment
//!          +--> sketch    LDS                                 one for each egress port
//!          +--> slot      counters of its flow                one for each tracked flow
//! ```
//!
//! Cells of a plain sketch (one in each row for every packet) are sums, and so are a slot's counters. So
//! packets of tracked flows are added to their slots only. When the sealed shard is completed
//! ([`Sealed::complete`]), a slot's counters are added to the sketch at once: the result is identical, and
//! a packet touches fewer cache lines, one less for each row.
//!
//! A packet is recorded once, when its fate is known: [`Shard::passed`] when the driver accepted it,
//! [`Shard::lost`] when it is dropped between the points, [`Shard::late`] if its epoch is already sealed.
//! So cells store only the difference of both ends ([`PassedCell`]), which takes two additions for a packet
//! that passed.
//!
//! A worker that sends by a single port only needs that port's segments: its shard contains a
//! [part](ShardLayout::part) of all, which [merging](Synopsis::merge) adds at the right place.

mod layout;
mod segment;

pub use layout::{ShardBytes, ShardLayout};
pub use segment::{SegmentBytes, SegmentLayout, SegmentSynopsis, Tally};

use std::ops::{Deref, Range};

use arrayvec::ArrayVec;

use crate::batch::{BURST_MAX, Batch, MembersPart};
use crate::cell::PassedCell;
use crate::flows::{FlowId, FlowSlots, Slot};
use crate::lds::LdsPair;
use crate::observation::{End, Observation, SegmentIndex};
use crate::packet::RandomHashes;
use crate::synopsis::{ShapeMismatch, Synopsis};
use crate::time::{Epoch, Ticks};

/// One worker's part of one epoch.
///
/// Observations of unknown segments are ignored.
#[derive(Debug, Clone, PartialEq)]
pub struct Shard {
    /// Index of the first segment among all.
    first_segment: u16,
    segments: Vec<SegmentSynopsis>,
    /// By segment.
    sketch_of: Vec<u16>,
    sketches: Vec<LdsPair<PassedCell>>,
    flows: Option<FlowSlots>,
}

/// How a shard fits into another that has all of its segments.
struct Fit {
    /// Range of its segments.
    place: Range<usize>,
    /// Pairs of sketches for the same segments: the larger shard's, and its own.
    sketches: Vec<(usize, usize)>,
}

impl Shard {
    /// An empty shard.
    pub fn new(layout: &ShardLayout) -> Self {
        let segment = SegmentSynopsis::new(&layout.segment, layout.rate);
        let sketch = layout.lds.as_ref().map(LdsPair::empty);
        let flows = (layout.flow_slots > 0).then(|| {
            FlowSlots::new(layout.flow_slots).with_histograms(layout.flow_histograms, layout.rate)
        });
        Self {
            first_segment: layout.first_segment,
            segments: vec![segment; layout.segments()],
            sketch_of: layout.sketch_of.clone(),
            sketches: sketch.map_or_else(Vec::new, |one| vec![one; layout.sketches]),
            flows: if layout.flow_estimates {
                flows.map(FlowSlots::with_estimates)
            } else {
                flows
            },
        }
    }

    /// Every segment, in the order of [`SegmentIndex`], starting with the shard's first.
    pub fn segments(&self) -> &[SegmentSynopsis] {
        &self.segments
    }

    /// Every segment with its index among all.
    pub fn numbered_segments(&self) -> impl Iterator<Item = (SegmentIndex, &SegmentSynopsis)> {
        let indices = self.first_segment..=u16::MAX;
        indices.map(SegmentIndex).zip(&self.segments)
    }

    /// One segment; `None` if there is none with this index.
    pub fn segment(&self, index: SegmentIndex) -> Option<&SegmentSynopsis> {
        self.segments.get(place(index, self.first_segment))
    }

    /// The sketch of a segment: an index into [`sketches`](Self::sketches).
    pub fn sketch_of(&self, index: SegmentIndex) -> Option<usize> {
        self.sketch_of
            .get(place(index, self.first_segment))
            .copied()
            .map(usize::from)
    }

    /// Sketches with both ends, one for each egress port; empty if sketches are not kept. Plain ones
    /// include the packets of tracked flows once the sealed shard is [complete](Sealed::complete).
    pub fn sketches(&self) -> &[LdsPair<PassedCell>] {
        &self.sketches
    }

    /// Counters of the tracked flows.
    pub fn flows(&self) -> Option<&FlowSlots> {
        self.flows.as_ref()
    }

    /// Counters of the tracked flows, to add estimates.
    pub fn flows_mut(&mut self) -> Option<&mut FlowSlots> {
        self.flows.as_mut()
    }

    /// Prefetches the counters of flows whose packets will be added soon: call it well before that, for
    /// example before they are sent.
    #[inline]
    pub fn prefetch(&self, slots: &[Slot]) {
        if let Some(counters) = &self.flows {
            counters.prefetch(slots);
        }
    }

    /// Adds the packets of one batch that the driver accepted, to both ends. `spread` chooses their rows in an
    /// LDA if they have no hashes.
    ///
    /// For segments this is equivalent to recording at both ends, the sender's at `time - delay`; for sketches it
    /// is, once they have [their flows](Sealed::complete). Never allocates, never fails.
    #[inline]
    pub fn passed(&mut self, batch: &Batch, members: MembersPart<'_>, spread: &mut RandomHashes) {
        if let Some(segment) = self.segment_mut(batch.segment) {
            segment.pass(batch, members.hashes, spread);
        }
        if !self.sketches.is_empty() {
            self.sketch(batch, members);
        }
        if let Some(flows) = &mut self.flows {
            flows.add(batch.delay, members.slots, members.bytes);
        }
    }

    /// The same for one packet, as seen at the receiver's end, with the `slot` of its flow.
    pub fn passed_one(&mut self, observation: &Observation, slot: Slot) {
        let batch = Batch {
            packets: 1,
            bytes: observation.bytes.into(),
            arrived: Ticks(observation.time.wrapping_sub(observation.delay)),
            delay: observation.delay,
            segment: observation.segment,
            epoch: observation.epoch,
        };
        let members = MembersPart {
            flows: &[observation.flow],
            hashes: &[observation.packet],
            bytes: &[observation.bytes],
            slots: &[slot],
        };
        self.passed(&batch, members, &mut RandomHashes::default());
    }

    /// Adds packets without a slot to their sketch.
    #[inline]
    fn sketch(&mut self, batch: &Batch, members: MembersPart<'_>) {
        let tracked = slots_for(self.flows.as_ref(), &self.sketches);
        // Gathers them without a branch for each packet. Usually there are none.
        let greatest = members.slots.iter().fold(0, |most, slot| most.max(slot.0));
        if tracked.is_some_and(|slots| slots.has(Slot(greatest))) {
            return;
        }
        let is_left = |slot| !tracked.is_some_and(|slots| slots.has(slot));
        let left = members.iter().filter(|(_, slot)| is_left(*slot));
        let observations: ArrayVec<_, BURST_MAX> = left
            .take(BURST_MAX)
            .map(|(member, _)| member.observation(batch))
            .collect();
        let sketch = self.sketch_of(batch.segment);
        if let Some(sketch) = sketch.and_then(|sketch| self.sketches.get_mut(sketch)) {
            sketch.record_passed(&observations);
        }
    }

    /// Adds a packet that was dropped between the ends: to the sender's end at `time - delay`, and to the
    /// losses of its flow's `slot`, if flows are tracked.
    pub fn lost(&mut self, observation: &Observation, slot: Slot) {
        let sent = Observation {
            time: observation.time.wrapping_sub(observation.delay),
            delay: 0,
            ..*observation
        };
        let sketch = self.sketch_of(sent.segment);
        if let Some(sketch) = sketch.and_then(|sketch| self.sketches.get_mut(sketch)) {
            sketch.record(End::Sender, &[sent]);
        }
        let Some(segment) = self.segment_mut(sent.segment) else {
            return;
        };
        segment.lose(&sent);
        segment.tally.dropped += 1;
        if let Some(slots) = &mut self.flows {
            slots.record_lost(slot);
        }
    }

    /// Adds a packet that was dropped between the ends after its epoch was sealed: it counts as lost, but
    /// not in any estimator.
    pub fn lost_late(&mut self, observation: &Observation) {
        if let Some(segment) = self.segment_mut(observation.segment) {
            segment.tally.record(End::Sender, &[*observation]);
            segment.tally.dropped += 1;
        }
    }

    /// Adds a packet that is known to be lost because it timed out: its length is unknown, and it counts in
    /// no estimator.
    pub fn lost_unseen(&mut self, segment: SegmentIndex) {
        if let Some(segment) = self.segment_mut(segment) {
            segment.tally.sent += 1;
            segment.tally.dropped += 1;
        }
    }

    /// Adds packets that reached the receiver's end after their epoch was sealed: they are only counted as
    /// late.
    pub fn late(&mut self, batch: &Batch) {
        if let Some(segment) = self.segment_mut(batch.segment) {
            segment.tally.late(batch.packets as u64, batch.bytes);
        }
    }

    /// A segment to record into; `None` if there is none with this index.
    #[inline]
    pub fn segment_mut(&mut self, index: SegmentIndex) -> Option<&mut SegmentSynopsis> {
        self.segments.get_mut(place(index, self.first_segment))
    }

    /// How another shard fits into this one.
    fn fit(&self, other: &Self) -> Result<Fit, ShapeMismatch> {
        let range = |shard: &Self| {
            let first = usize::from(shard.first_segment);
            first..first + shard.segments.len()
        };
        let (mine, theirs) = (range(self), range(other));
        if theirs.start < mine.start {
            return Err(mismatch("first segment", mine.start, theirs.start));
        }
        if theirs.end > mine.end {
            return Err(mismatch("end of segments", mine.end, theirs.end));
        }
        let place = theirs.start - mine.start..theirs.end - mine.start;
        let segments = self.segments[place.clone()].iter().zip(&other.segments);
        for (mine, theirs) in segments {
            mine.same_shape(theirs)?;
        }
        let sketches = self.sketches_with(other, &self.sketch_of[place.clone()])?;
        for &(mine, theirs) in &sketches {
            if let (Some(mine), Some(theirs)) =
                (self.sketches.get(mine), other.sketches.get(theirs))
            {
                mine.layout().same_shape(theirs.layout())?;
            }
        }
        Ok(Fit { place, sketches })
    }

    /// Pairs of sketches for the same segments, its own first; `sketch_of` lists its own sketches for the
    /// other's segments.
    fn sketches_with(
        &self,
        other: &Self,
        sketch_of: &[u16],
    ) -> Result<Vec<(usize, usize)>, ShapeMismatch> {
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        for (&mine, &theirs) in sketch_of.iter().zip(&other.sketch_of) {
            let pair @ (mine, theirs) = (usize::from(mine), usize::from(theirs));
            let (number, others) = (self.sketches.len(), other.sketches.len());
            let is_there = mine < number;
            if is_there != (theirs < others) {
                return Err(mismatch("number of LDS", number, others));
            }
            if !is_there || pairs.contains(&pair) {
                continue;
            }
            if pairs.iter().any(|&(a, b)| a == mine || b == theirs) {
                return Err(mismatch("sketch of a segment", mine, theirs));
            }
            pairs.push(pair);
        }
        Ok(pairs)
    }
}

impl Synopsis for Shard {
    /// Adds segments and sketches of a shard with the same segments, or some of them. Flow slots are not
    /// added: each worker numbers them independently, so they are read worker by worker.
    fn merge(&mut self, other: &Self) -> Result<(), ShapeMismatch> {
        // Compares everything before adding anything, so that a shard that does not fit changes nothing.
        let Fit { place, sketches } = self.fit(other)?;
        for (mine, theirs) in self.segments[place].iter_mut().zip(&other.segments) {
            mine.merge(theirs)?;
        }
        for (mine, theirs) in sketches {
            if let (Some(mine), Some(theirs)) =
                (self.sketches.get_mut(mine), other.sketches.get(theirs))
            {
                mine.merge(theirs)?;
            }
        }
        Ok(())
    }

    fn clear(&mut self) {
        self.segments.iter_mut().for_each(Synopsis::clear);
        self.sketches.iter_mut().for_each(Synopsis::clear);
        self.flows.iter_mut().for_each(FlowSlots::clear);
    }
}

/// The index of a segment in a shard; out of range for a segment before the first.
#[inline]
fn place(SegmentIndex(index): SegmentIndex, first_segment: u16) -> usize {
    usize::from(index.wrapping_sub(first_segment))
}

fn mismatch(what: &'static str, left: usize, right: usize) -> ShapeMismatch {
    ShapeMismatch {
        what,
        left: left as u64,
        right: right as u64,
    }
}

/// The slots whose packets are added to sketches only when sealed.
#[inline]
fn slots_for<'a>(
    slots: Option<&'a FlowSlots>,
    sketches: &[LdsPair<PassedCell>],
) -> Option<&'a FlowSlots> {
    // All sketches have one layout.
    let is_plain = |sketch: &LdsPair<PassedCell>| sketch.layout().is_plain();
    slots.filter(|_| sketches.first().is_some_and(is_plain))
}

/// A shard that accepts no more observations. Its ownership moves from worker to control core and back.
///
/// Its sketches cannot be read: they lack the packets of tracked flows until it is
/// [completed](Self::complete).
#[derive(Debug)]
pub struct Sealed {
    epoch: Epoch,
    shard: Box<Shard>,
    is_complete: bool,
}

/// A sealed shard including the packets of all flows, which can be read and merged.
#[derive(Debug)]
pub struct Complete<'s> {
    epoch: Epoch,
    shard: &'s Shard,
}

impl Shard {
    /// Seals the shard of `epoch`: it can no longer be recorded into.
    pub fn seal(self: Box<Self>, epoch: Epoch) -> Sealed {
        Sealed {
            epoch,
            shard: self,
            is_complete: false,
        }
    }

    /// Adds the packets of flows, from their slots' counters, to the sketches.
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
    /// Its epoch.
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

    /// Adds the packets of tracked flows, so far counted only in slots, to the sketches. `flows` contains
    /// the flow and segment of every slot with counts. Packets of other slots are in no sketch.
    ///
    /// # Panics
    /// If it is already complete: its flows would be added twice.
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
    /// Its epoch.
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

#[cfg(test)]
mod tests;
