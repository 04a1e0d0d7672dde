//! The measurement points of one worker: they tag packets as they arrive, record them when their
//! fate is known, and give each shard away when its epoch is sealed.
//!
//! ```text
//!  arrive ── Tagging: hashes, segment, epoch ── queues ── Meter: recorded ── Epochs: sealed shards ──> control core
//! ```
//!
//! A packet is recorded once: as it leaves, at both ends of its segment, with the time of its
//! arrival at one and of its departure at the other; or, if it is dropped in between, at the
//! sender's end alone. That is what recording it at each point as it passes comes to, for half of
//! the memory traffic.

use contract::counters::WorkerCounters;
use contract::ids::PortIndex;
use measure::batch::{Batch, Member, MembersPart};
use measure::flows::Slot;
use measure::observation::{Observation, SegmentIndex};
use measure::packet::{Hasher, Hashing, RandomHashes};
use measure::time::{EpochSchedule, Ticks};

use crate::departing::Departing;
use crate::egress::{PortEgress, QueuedReference, Refused};
use crate::packet_io::{NO_SEGMENT, Tag};
use crate::references::Due;

mod around;
mod epochs;
mod plan;
mod returned;
mod tag;
mod tagging;

pub use around::{Arounds, Devices};
pub use epochs::Epochs;
pub use plan::{NO_SEGMENTS, Plan, SegmentMap, Segments};
pub use tagging::Tagging;

/// The measurement points of one worker.
#[derive(Debug)]
pub struct Meter {
    /// The epochs that packets are recorded in, and the plans.
    pub epochs: Epochs,
    hasher: Hasher,
    /// Delays from which on tags are checked.
    doubtful_ticks: u64,
    backward_packets: u64,
    outlived_packets: u64,
}

impl Meter {
    /// Points of one worker, beginning in the epoch that `schedule` has at `now`; without a plan
    /// nothing is measured.
    pub fn new(
        hasher: Hasher,
        schedule: EpochSchedule,
        plan: Option<Box<Plan>>,
        now: Ticks,
    ) -> Self {
        Self {
            epochs: Epochs::new(schedule, plan, now),
            hasher,
            doubtful_ticks: tag::doubtful_ticks(&schedule),
            backward_packets: 0,
            outlived_packets: 0,
        }
    }

    /// What packets that arrive now are tagged with.
    #[inline]
    pub fn tagging(&self) -> Tagging<'_> {
        Tagging {
            hasher: &self.hasher,
            plan: self.epochs.plan.as_deref(),
            epoch: self.epochs.current.tag,
        }
    }

    /// Makes batches of packets that are about to leave: all at `now`, or each at its own time by `clock`
    /// where packets are stamped; none where nothing is measured.
    #[inline]
    pub fn departures(
        &mut self,
        tags: &[Tag],
        now: Ticks,
        clock: impl Fn() -> Ticks,
        departing: &mut Departing,
    ) {
        departing.begin(Hashing::Packet);
        if !self.epochs.are_measured() {
            return;
        }
        let is_each_stamped = self.tagging().stamps_packets();
        for tag in tags {
            departing.push(self.departure(tag, if is_each_stamped { clock() } else { now }));
        }
        let members = tags.iter().map(|tag| Member {
            flow: tag.flow,
            packet: tag.packet,
            bytes: tag.len_bytes,
        });
        departing.members.fill::<true>(members);
    }

    /// A batch of one packet that leaves at `now`.
    #[inline]
    fn departure(&mut self, tag: &Tag, now: Ticks) -> Batch {
        let departure = Batch {
            packets: 1,
            bytes: tag.len_bytes.into(),
            arrived: tag.arrived,
            delay: now.since(tag.arrived),
            segment: tag.segment,
            epoch: tag.epoch,
        };
        if departure.delay >= self.doubtful_ticks {
            return self.mended(departure);
        }
        departure
    }

    /// With a delay below 0 corrected, and the epoch, where the packet waited so long that its tag may be of
    /// another by now.
    #[cold]
    fn mended(&mut self, mut departure: Batch) -> Batch {
        if departure.delay.cast_signed() < 0 {
            departure.delay = 0;
            self.count_backward(1);
        }
        departure.epoch = self.epochs.checked_tag(departure.epoch, departure.arrived);
        departure
    }

    /// Counts packets whose delay was below 0 and became 0: counters of two cores may be some ticks apart.
    #[inline]
    pub fn count_backward(&mut self, packets: u64) {
        self.backward_packets += packets;
    }

    /// Looks up the flows of packets that are about to leave, while their headers are there (`head`
    /// gives those of each), and asks the cache for the counters that they will be
    /// [recorded](Self::passed) in.
    #[inline]
    pub fn prepare<'h>(&mut self, departing: &mut Departing, head: impl Fn(usize) -> &'h [u8]) {
        let Departing { batches, members } = departing;
        if members.is_empty() {
            return;
        }
        let mut first = 0;
        for batch in batches {
            let part = first..first + batch.packets;
            let (flows, slots) = members.slots_mut(part.clone());
            match self.epochs.plan_of(batch.epoch) {
                Some(Plan {
                    flows: Some(table),
                    handover,
                    ..
                }) => {
                    table.look_up((batch.segment, flows), slots, handover, |n| head(first + n));
                    if let Some(shard) = &self.epochs.current.shard {
                        shard.prefetch(slots);
                    }
                }
                _ => slots.fill(Slot::OTHER),
            }
            first = part.end;
        }
    }

    /// Records packets that have left, each in its own epoch. What belongs to a sealed epoch is counted
    /// as late.
    #[inline]
    pub fn passed(&mut self, departing: &Departing, spread: &mut RandomHashes) {
        for (batch, members) in departing.parts() {
            self.batch_passed(batch, members, spread);
        }
    }

    #[inline]
    fn batch_passed(&mut self, batch: &Batch, members: MembersPart<'_>, spread: &mut RandomHashes) {
        if let Some(open) = self.epochs.open(batch.epoch) {
            if let Some(shard) = &mut open.shard {
                shard.passed(batch, members, spread);
            }
        } else if !self.epochs.is_of_plan(batch.epoch) {
            self.outlived(batch.segment, batch.packets);
        } else if let Some(shard) = &mut self.epochs.current.shard {
            shard.late(batch);
        }
    }

    /// Counts packets that outlived the plan that they were tagged by: their segment may be another's by now.
    #[cold]
    fn outlived(&mut self, segment: SegmentIndex, packets: usize) {
        if segment != NO_SEGMENT {
            self.outlived_packets += packets as u64;
        }
    }

    /// Records a packet that was dropped between the points of its segment.
    #[cold]
    pub fn lost(&mut self, tag: &Tag) {
        let epoch = self.epochs.checked_tag(tag.epoch, tag.arrived);
        let mut observation = Observation {
            flow: tag.flow,
            packet: tag.packet,
            time: tag.arrived.since(self.epochs.start_of(epoch)),
            delay: 0,
            bytes: tag.len_bytes,
            segment: tag.segment,
            epoch,
        };
        let plan = self.epochs.plan_of(epoch);
        let flows = plan.and_then(|plan| plan.flows.as_ref());
        let slot = flows.map_or(Slot::OTHER, |flows| flows.slot_of(&observation));
        if let Some(open) = self.epochs.open(epoch) {
            if let Some(shard) = &mut open.shard {
                shard.lost(&observation, slot);
            }
            return;
        }
        if !self.epochs.is_of_plan(epoch) {
            return self.outlived(tag.segment, 1);
        }
        // A drop after the seal is still a loss: the present epoch's.
        let current = &mut self.epochs.current;
        observation.epoch = current.tag;
        if let Some(shard) = &mut current.shard {
            shard.lost_late(&observation);
        }
    }

    /// Offers a packet to its egress queue, with the references that belong around it.
    ///
    /// # Errors
    /// The packet, where the queue refuses it.
    #[inline]
    pub fn offer<P>(
        &mut self,
        egress: &mut PortEgress<P>,
        packet: P,
        tag: Tag,
        now: Ticks,
    ) -> Result<(), Refused<P>> {
        let plan = self.epochs.plan_of(tag.epoch);
        match plan.and_then(|plan| plan.references.as_mut()) {
            Some(references) => references.offer(egress, packet, tag, now),
            None => egress.offer(packet, tag, now),
        }
    }

    /// A burst of the present epoch has gone straight to the head of an egress queue, behind `ahead`
    /// packets: puts the references there that belong among its packets.
    #[inline]
    pub fn joined<P>(&mut self, egress: &mut PortEgress<P>, ahead: usize) {
        let plan = self.epochs.plan.as_mut();
        if let Some(references) = plan.and_then(|plan| plan.references.as_mut()) {
            references.joined(egress, ahead);
        }
    }

    /// The references that belong among packets of the present epoch that have left as soon as they came.
    #[inline]
    pub fn references_among(&mut self, batch: &Batch, members: MembersPart<'_>) -> Due {
        let mut due = Due::new_const();
        let plan = self.epochs.plan.as_mut();
        if let Some(references) = plan.and_then(|plan| plan.references.as_mut()) {
            references.batch_queued(batch, members.bytes, &mut due);
        }
        due
    }

    /// Passes references that are overdue to `put`. To be called once a pass.
    #[inline]
    pub fn overdue(&mut self, now: Ticks, put: &mut impl FnMut(PortIndex, QueuedReference)) {
        let Epochs { plan, current, .. } = &mut self.epochs;
        if let Some(references) = plan.as_mut().and_then(|plan| plan.references.as_mut()) {
            references.overdue(now, current.tag, put);
        }
    }

    /// Shows how full the present flow table is, what became of references, and which packets were
    /// measured otherwise than they should.
    pub fn show(&mut self, counters: &WorkerCounters) {
        let exceptions = &counters.exceptions;
        exceptions.backward_packets.set(self.backward_packets);
        exceptions.outlived_packets.set(self.outlived_packets);
        let Epochs { plan, retiring, .. } = &mut self.epochs;
        for plan in plan.iter_mut().chain(retiring) {
            plan.show_references(counters);
        }
        if let Some(flows) = self.tagging().flows() {
            flows.show(&counters.flows);
        }
    }
}
