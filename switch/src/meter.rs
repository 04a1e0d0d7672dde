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
use measure::flows::{FlowObservation, Slot};
use measure::observation::{Batch, Observation, Observations, SegmentIndex};
use measure::packet::{Hasher, RandomHashes};
use measure::shard::{BurstCells, Prepared};
use measure::time::{EpochSchedule, Ticks};

use crate::egress::{PortEgress, QueuedReference, Refused};
use crate::flows::{FlowObservations, Flows};
use crate::packet_io::{BURST, Likeness, NO_SEGMENT, Tag};

mod epochs;
mod plan;
mod tag;
mod tagging;

pub use epochs::Epochs;
pub use plan::{NO_SEGMENTS, Plan, SegmentMap, Segments};
pub use tagging::Tagging;

/// Room for the observations of one burst.
pub type ObservationBurst = arrayvec::ArrayVec<Observation, BURST>;

/// Memory for what is found out of a burst before it leaves, used again for each.
#[derive(Debug)]
pub struct BurstMemory {
    flows: Box<FlowObservations>,
    cells: Box<BurstCells>,
}

impl Default for BurstMemory {
    fn default() -> Self {
        Self {
            flows: Box::new([FlowObservation::EMPTY; BURST]),
            cells: Box::new(BurstCells::new()),
        }
    }
}

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

    /// Observations of packets that are about to leave: all at `now`, or each at its own time by `clock`
    /// where packets are stamped; none where nothing is measured.
    #[inline]
    pub fn departures<'b>(
        &mut self,
        tags: &[Tag],
        likeness: Likeness,
        now: Ticks,
        clock: impl Fn() -> Ticks,
        burst: &'b mut ObservationBurst,
    ) -> Observations<'b> {
        let Some(first) = tags.first().filter(|_| self.epochs.are_measured()) else {
            return Observations::alike(&[]);
        };
        let mut delays = 0;
        if likeness == Likeness::Alike {
            let model = self.departure(first, now);
            delays = model.delay;
            burst.extend(tags.iter().map(|tag| Observation {
                flow: tag.flow,
                packet: tag.packet,
                bytes: tag.len_bytes,
                ..model
            }));
        } else {
            let is_each_stamped = self.tagging().stamps_packets();
            burst.extend(tags.iter().map(|tag| {
                let now = if is_each_stamped { clock() } else { now };
                let observation = self.departure(tag, now);
                delays |= observation.delay;
                observation
            }));
        }
        if delays >= self.doubtful_ticks {
            self.mend(burst, tags);
            return Observations::from(burst.as_slice());
        }
        match likeness {
            Likeness::Alike => Observations::alike(burst),
            Likeness::Mixed => Observations::from(burst.as_slice()),
        }
    }

    /// The observation, at `now`, of a packet that leaves.
    #[inline]
    fn departure(&self, tag: &Tag, now: Ticks) -> Observation {
        Observation {
            flow: tag.flow,
            packet: tag.packet,
            time: now.since(self.epochs.start_of(tag.epoch)),
            delay: now.since(tag.arrived),
            bytes: tag.len_bytes,
            segment: tag.segment,
            epoch: tag.epoch,
        }
    }

    /// Corrects observations with a delay below 0, or with one so long that their tag may be of
    /// another epoch by now.
    #[cold]
    fn mend(&mut self, observations: &mut [Observation], tags: &[Tag]) {
        for (observation, tag) in observations.iter_mut().zip(tags) {
            if observation.delay.cast_signed() < 0 {
                observation.delay = 0;
                self.count_backward(1);
            }
            observation.epoch = self.epochs.checked_tag(observation.epoch, tag.arrived);
        }
    }

    /// Counts packets whose delay was below 0 and became 0: counters of two cores may be some ticks apart.
    #[inline]
    pub fn count_backward(&mut self, packets: u64) {
        self.backward_packets += packets;
    }

    /// Looks up the flows of packets that are about to leave, while their headers are there (`head`
    /// gives those of each), and asks the cache for the cells and counters that they will be
    /// [recorded](Self::passed) in.
    #[inline]
    pub fn prepare<'b, 'h>(
        &mut self,
        observations: Observations<'b>,
        memory: &'b mut BurstMemory,
        head: impl Fn(usize) -> &'h [u8],
    ) -> Prepared<'b> {
        let BurstMemory { flows, cells } = memory;
        let flows = self.look_up(observations, flows, head);
        match &self.epochs.current.shard {
            Some(shard) => shard.prepare(observations, flows, cells),
            None => Prepared::without_cells(observations, flows),
        }
    }

    /// Flows of packets; none where no flows are kept.
    #[inline]
    fn look_up<'s, 'h>(
        &mut self,
        observations: Observations<'_>,
        seen: &'s mut FlowObservations,
        head: impl Fn(usize) -> &'h [u8],
    ) -> &'s [FlowObservation] {
        if !self.keeps_flows() {
            return &[];
        }
        let mut rest = &mut seen[..];
        let mut first = 0;
        for run in observations.split_by(|a, b| a.epoch == b.epoch) {
            let (these, others) = rest.split_at_mut(run.len().min(rest.len()));
            match self.epochs.plan_of(run[0].epoch) {
                Some(Plan {
                    flows: Some(flows),
                    handover,
                    ..
                }) => flows.look_up(&run, these, handover, |n| head(first + n)),
                _ => Flows::look_up_none(&run, these),
            }
            first += run.len();
            rest = others;
        }
        &seen[..first.min(BURST)]
    }

    fn keeps_flows(&self) -> bool {
        let mut plans = self.epochs.plan.iter().chain(&self.epochs.retiring);
        plans.any(|plan| plan.flows.is_some())
    }

    /// Records packets that have left, each in its own epoch. What belongs to a sealed epoch is counted
    /// as late.
    #[inline]
    pub fn passed(&mut self, burst: Prepared<'_>) {
        for (epoch, run) in burst.by_epoch() {
            match self.epochs.open(epoch) {
                Some(open) => {
                    if let Some(shard) = &mut open.shard {
                        shard.passed(run);
                    }
                }
                None => self.late(&run.observations()),
            }
        }
    }

    /// Records packets that have left, in their epoch or as late, where only an LDA is kept, which
    /// needs no hashes of them.
    #[inline]
    pub fn passed_batch(&mut self, batch: &Batch, hashes: &mut RandomHashes) {
        if let Some(open) = self.epochs.open(batch.epoch) {
            if let Some(shard) = &mut open.shard {
                shard.passed_batch(batch, hashes);
            }
        } else if !self.epochs.is_of_plan(batch.epoch) {
            self.outlived(batch.segment, batch.packets);
        } else if let Some(shard) = &mut self.epochs.current.shard {
            shard.late_batch(batch);
        }
    }

    #[cold]
    fn late(&mut self, observations: &[Observation]) {
        for observation in observations {
            if !self.epochs.is_of_plan(observation.epoch) {
                self.outlived(observation.segment, 1);
            } else if let Some(shard) = &mut self.epochs.current.shard {
                shard.late(observation);
            }
        }
    }

    /// Counts packets that outlived the plan that they were tagged by: their segment may be another's by now.
    #[cold]
    fn outlived(&mut self, segment: SegmentIndex, packets: u64) {
        if segment != NO_SEGMENT {
            self.outlived_packets += packets;
        }
    }

    /// Records a packet that was dropped between the points of its segment.
    #[cold]
    pub fn lost(&mut self, tag: &Tag) {
        let epoch = self.epochs.checked_tag(tag.epoch, tag.arrived);
        let mut observation = self.departure(&Tag { epoch, ..*tag }, tag.arrived);
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
    pub fn joined<P>(&mut self, egress: &mut PortEgress<P>, ahead: usize, likeness: Likeness) {
        let plan = self.epochs.plan.as_mut();
        if let Some(references) = plan.and_then(|plan| plan.references.as_mut()) {
            references.joined(egress, ahead, likeness);
        }
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
