//! The measurement points of one worker: they tag packets as they arrive, record them when their
//! fate is known, and hand each shard over when its epoch is sealed.
//!
//! A packet is recorded once: as it leaves, at both ends of its segment, with the time of its
//! arrival at one and of its departure at the other; or, if it is dropped in between, at the
//! sender's end alone. That is what recording it at each point as it passes comes to, for half of
//! the memory traffic.
//!
//! Epochs turn by the clock, not by traffic. Two are open at any time: the present one, and the
//! one before it until its grace ends. If the control core has not given a shard back in time, the
//! coming epoch goes unmeasured (and is counted as missed): a worker never waits.

use contract::counters::WorkerCounters;
use contract::ids::PortIndex;
use measure::flows::{FlowObservation, Slot};
use measure::observation::{Batch, Observation, Observations};
use measure::packet::{FlowHash, Hasher, Nameless, PacketHash, Parsed};
use measure::shard::{Places, Shard};
use measure::time::{Epoch, EpochSchedule, EpochTag, Ticks};

use crate::egress::{PortEgress, Refused};
use crate::flows::{FlowObservations, Flows};
use crate::packet_io::{BURST, ClassIndex, NO_SEGMENT, Tag};
use crate::references::{Departed, OpenShards};

mod age;
mod plan;
mod turns;

use age::PlanNumber;
pub use plan::{NO_SEGMENTS, Plan, SegmentMap, Segments};

/// Room for the observations of one burst.
pub type ObservationBurst = arrayvec::ArrayVec<Observation, BURST>;

/// Of packets whose cells were not asked for.
static NOWHERE: Places = Places::new();

/// An epoch that still takes packets; without a shard it is unmeasured.
#[derive(Debug)]
struct Open {
    epoch: Epoch,
    tag: EpochTag,
    start: Ticks,
    shard: Option<Box<Shard>>,
}

/// The epochs that take estimates.
struct OpenEpochs<'m> {
    current: &'m mut Open,
    previous: Option<&'m mut Open>,
    interval_ticks: u64,
}

impl OpenEpochs<'_> {
    #[inline]
    fn open(&mut self, tag: EpochTag) -> Option<&mut Open> {
        if self.current.tag == tag {
            return Some(&mut *self.current);
        }
        self.previous.as_deref_mut().filter(|open| open.tag == tag)
    }
}

impl OpenShards for OpenEpochs<'_> {
    #[inline]
    fn shard(&mut self, epoch: EpochTag) -> Option<&mut Shard> {
        self.open(epoch)?.shard.as_deref_mut()
    }

    fn shard_since(&mut self, epoch: EpochTag, queued: Ticks) -> Option<&mut Shard> {
        let interval_ticks = self.interval_ticks;
        let open = self.open(epoch)?;
        let is_its = !age::is_before(queued, open.start, interval_ticks);
        open.shard.as_deref_mut().filter(|_| is_its)
    }
}

/// The measurement points of one worker.
#[derive(Debug)]
pub struct Meter {
    hasher: Hasher,
    schedule: EpochSchedule,
    /// None: nothing is measured.
    plan: Option<Box<Plan>>,
    current: Open,
    previous: Option<Open>,
    /// The plan of the previous epoch, where that was another.
    retiring: Option<Box<Plan>>,
    /// A plan without an open epoch.
    retired: Option<Box<Plan>>,
    /// When something is to be done next: a seal or a turn.
    next_event: Ticks,
    /// Of the present plan.
    number: PlanNumber,
    /// Start of its first epoch.
    plan_began: Ticks,
    /// Delays from which on tags are held against times.
    doubtful_ticks: u64,
    backward_packets: u64,
    outlived_packets: u64,
}

impl Meter {
    /// Points of one worker, beginning in the epoch that `schedule` has at `now`; without a
    /// plan nothing is measured.
    pub fn new(
        hasher: Hasher,
        schedule: EpochSchedule,
        mut plan: Option<Box<Plan>>,
        now: Ticks,
    ) -> Self {
        let number = PlanNumber::default();
        let epoch = schedule.epoch_at(now);
        let current = Open::new(&schedule, plan.as_deref_mut(), epoch, number);
        let next_event = schedule.start_of(epoch.next());
        Self {
            hasher,
            schedule,
            plan,
            plan_began: current.start,
            current,
            previous: None,
            retiring: None,
            retired: None,
            next_event,
            number,
            doubtful_ticks: age::doubtful_ticks(&schedule),
            backward_packets: 0,
            outlived_packets: 0,
        }
    }

    /// Whether anything is measured, or still to be recorded.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.plan.is_some() || self.retiring.is_some()
    }

    /// Whether a plan before the present one is still in use.
    pub fn is_retiring(&self) -> bool {
        self.retiring.is_some()
    }

    /// Whether packets are hashed as they arrive.
    #[inline]
    pub fn tags(&self) -> bool {
        self.plan.is_some()
    }

    /// Whether the clock is read for every packet.
    #[inline]
    pub fn stamps_packets(&self) -> bool {
        self.plan.as_ref().is_some_and(|plan| plan.stamps_packets)
    }

    /// The present epoch.
    pub fn epoch(&self) -> Epoch {
        self.current.epoch
    }

    /// The tag of a packet of `class`, first seen at `now`, that is not measured.
    #[inline]
    pub fn blank_tag(&self, len_bytes: u32, class: ClassIndex, now: Ticks) -> Tag {
        Tag {
            flow: FlowHash(0),
            packet: PacketHash(0),
            arrived: now,
            len_bytes,
            segment: NO_SEGMENT,
            epoch: self.current.tag,
            class,
        }
    }

    /// Parses and hashes the frame that begins with `head`.
    #[inline]
    pub fn parse(&self, head: &[u8], len_bytes: u32) -> Parsed {
        self.hasher.parse(head, len_bytes)
    }

    /// The segments that lead from one port to another, by class.
    #[inline]
    pub fn segments(&self, ingress: PortIndex, egress: PortIndex) -> Segments {
        match &self.plan {
            Some(plan) => plan.segments.between(ingress, egress),
            None => NO_SEGMENTS,
        }
    }

    /// The same by the plan of the epoch that `tag` is of, if that is still there.
    #[inline]
    pub fn segments_of(&self, tag: EpochTag, ingress: PortIndex, egress: PortIndex) -> Segments {
        if self.number.is_of(tag) {
            return self.segments(ingress, egress);
        }
        match &self.retiring {
            Some(plan) if self.number.before().is_of(tag) => plan.segments.between(ingress, egress),
            _ => NO_SEGMENTS,
        }
    }

    /// Observations of packets that are about to leave: all at `now`, or each at its own time by `clock`
    /// where packets are stamped; none where nothing is measured.
    #[inline]
    pub fn departures<'b>(
        &mut self,
        tags: &[Tag],
        now: Ticks,
        clock: impl Fn() -> Ticks,
        burst: &'b mut ObservationBurst,
    ) -> Observations<'b> {
        let Some(first) = tags.first().filter(|_| self.is_on()) else {
            return Observations::alike(&[]);
        };
        let (mut differences, mut delays) = (0, 0);
        if self.stamps_packets() {
            burst.extend(tags.iter().map(|tag| {
                let observation = self.departure(tag, clock());
                delays |= observation.delay;
                observation
            }));
            differences = 1;
        } else {
            burst.extend(tags.iter().map(|tag| {
                differences |= tag.arrived.0 ^ first.arrived.0;
                differences |= u64::from(tag.segment.0 ^ first.segment.0);
                differences |= u64::from(tag.epoch.0 ^ first.epoch.0);
                let observation = self.departure(tag, now);
                delays |= observation.delay;
                observation
            }));
        }
        if delays >= self.doubtful_ticks {
            self.mend(burst, tags.iter().map(|tag| tag.arrived));
        }
        if differences == 0 {
            Observations::alike(burst)
        } else {
            Observations::from(burst.as_slice())
        }
    }

    /// The observation, at `now`, of a packet that leaves.
    #[inline]
    fn departure(&self, tag: &Tag, now: Ticks) -> Observation {
        let start = if tag.epoch == self.current.tag {
            self.current.start
        } else {
            self.previous_start()
        };
        Observation {
            flow: tag.flow,
            packet: tag.packet,
            time: now.since(start),
            delay: now.since(tag.arrived),
            bytes: tag.len_bytes,
            segment: tag.segment,
            epoch: tag.epoch,
        }
    }

    #[cold]
    fn previous_start(&self) -> Ticks {
        self.previous
            .as_ref()
            .map_or(self.current.start, |previous| previous.start)
    }

    /// Looks up the flows of packets about to leave, as long as their headers are there (`head`
    /// gives those of each), and returns them; none where no flows are kept.
    #[inline]
    pub fn look_up<'s, 'h>(
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
            let epoch = run
                .first()
                .map_or(self.current.tag, |observation| observation.epoch);
            let (these, others) = rest.split_at_mut(run.len().min(rest.len()));
            match self.plan_of(epoch) {
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
        let mut plans = self.plan.iter().chain(&self.retiring);
        plans.any(|plan| plan.flows.is_some())
    }

    /// The plan by which packets of this tag were tagged, while it is there.
    fn plan_of(&mut self, tag: EpochTag) -> Option<&mut Plan> {
        if self.number.is_of(tag) {
            return self.plan.as_deref_mut();
        }
        let before = self.number.before();
        self.retiring.as_deref_mut().filter(|_| before.is_of(tag))
    }

    /// The flows that have counters of their own, where there are any.
    #[inline]
    pub fn flows(&self) -> Option<&Flows> {
        self.plan.as_ref()?.flows.as_ref()
    }

    /// Asks the cache for the cells and counters that packets will be recorded in, once they have left,
    /// and keeps in `places` which cells they are; `seen` are their flows, if any were looked up.
    #[inline]
    pub fn prepare(
        &self,
        observations: Observations<'_>,
        seen: &[FlowObservation],
        places: &mut Places,
    ) {
        match &self.current.shard {
            Some(shard) => shard.prepare(observations, seen, places),
            None => places.clear(),
        }
    }

    /// Records packets that have left, each in its own epoch; `seen` are their flows, if any were
    /// looked up, and `places` those of a burst that [began](Self::prepare) with them. What belongs
    /// to a sealed epoch is counted as late.
    #[inline]
    pub fn passed(
        &mut self,
        observations: Observations<'_>,
        seen: &[FlowObservation],
        places: &Places,
    ) {
        let (mut flows, mut places) = (seen, places);
        for run in observations.split_by(|a, b| a.epoch == b.epoch) {
            let (these, rest) = flows.split_at(run.len().min(flows.len()));
            flows = rest;
            // Only the first run begins the burst.
            let places = std::mem::replace(&mut places, &NOWHERE);
            let Some(epoch) = run.first().map(|observation| observation.epoch) else {
                return;
            };
            let Some(open) = self.open_with(epoch) else {
                self.late(&run);
                continue;
            };
            if let Some(shard) = &mut open.shard {
                shard.passed(run, these, places);
            }
        }
    }

    /// Records packets that have left, in their epoch or as late, where only an LDA is kept: nobody
    /// looks at what they are.
    #[inline]
    pub fn passed_batch(&mut self, batch: &Batch, hashes: &mut Nameless) {
        if let Some(open) = self.open_with(batch.epoch) {
            if let Some(shard) = &mut open.shard {
                shard.passed_batch(batch, hashes);
            }
        } else if !self.number.is_of(batch.epoch) {
            self.outlived(batch.segment, batch.packets);
        } else if let Some(shard) = &mut self.current.shard {
            shard.late_batch(batch);
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
        let plan = self.plan_of(tag.epoch);
        match plan.and_then(|plan| plan.references.as_mut()) {
            Some(references) => references.offer(egress, packet, tag, now),
            None => egress.offer(packet, tag, now),
        }
    }

    /// A burst of the present epoch has gone straight to the head of an egress queue, behind `ahead`
    /// packets: puts the references there that belong among its packets. `are_alike`: they are known
    /// to be of one segment and one time.
    #[inline]
    pub fn joined<P>(&mut self, egress: &mut PortEgress<P>, ahead: usize, are_alike: bool) {
        let plan = self.plan.as_mut();
        if let Some(references) = plan.and_then(|plan| plan.references.as_mut()) {
            references.joined(egress, ahead, are_alike);
        }
    }

    /// References that are overdue are handed to `put`. To be called once a pass.
    #[inline]
    pub fn overdue(&mut self, now: Ticks, put: &mut impl FnMut(PortIndex, Tag)) {
        let plan = self.plan.as_mut();
        if let Some(references) = plan.and_then(|plan| plan.references.as_mut()) {
            references.overdue(now, self.current.tag, put);
        }
    }

    /// Estimates from packets that have left by `port`, and from the references of the head that
    /// they were taken from.
    #[inline]
    pub fn estimate(
        &mut self,
        port: PortIndex,
        packets: Departed<'_>,
        references: &[(usize, Tag)],
        now: Ticks,
    ) {
        let Self {
            plan,
            retiring,
            current,
            previous,
            number,
            schedule,
            ..
        } = self;
        let mut open = OpenEpochs {
            current,
            previous: previous.as_mut(),
            interval_ticks: schedule.interval_ticks(),
        };
        if let Some(streams) = plan.as_mut().and_then(|plan| plan.references.as_mut()) {
            let mine = |tag| number.is_of(tag);
            streams.departed(port, packets, references, now, mine, &mut open);
        }
        if let Some(streams) = retiring.as_mut().and_then(|plan| plan.references.as_mut()) {
            let mine = |tag| number.before().is_of(tag);
            streams.departed(port, packets, references, now, mine, &mut open);
        }
    }

    #[inline]
    fn open_with(&mut self, tag: EpochTag) -> Option<&mut Open> {
        if self.current.tag == tag {
            return Some(&mut self.current);
        }
        self.previous
            .as_mut()
            .filter(|previous| previous.tag == tag)
    }

    #[cold]
    fn late(&mut self, observations: &[Observation]) {
        for observation in observations {
            if !self.number.is_of(observation.epoch) {
                self.outlived(observation.segment, 1);
            } else if let Some(shard) = &mut self.current.shard {
                shard.late(observation);
            }
        }
    }

    /// Records a packet that was dropped between the points of its segment.
    #[cold]
    pub fn lost(&mut self, tag: &Tag) {
        let epoch = self.believed(tag.epoch, tag.arrived);
        let mut observation = self.departure(&Tag { epoch, ..*tag }, tag.arrived);
        let flows = self.plan_of(epoch).and_then(|plan| plan.flows.as_ref());
        let slot = flows.map_or(Slot::OTHER, |flows| flows.slot_of(&observation));
        if let Some(open) = self.open_with(epoch) {
            if let Some(shard) = &mut open.shard {
                shard.lost(&observation, slot);
            }
            return;
        }
        if !self.number.is_of(epoch) {
            return self.outlived(tag.segment, 1);
        }
        // A drop after the seal is still a loss: the present epoch's.
        observation.epoch = self.current.tag;
        if let Some(shard) = &mut self.current.shard {
            shard.lost_late(&observation);
        }
    }

    /// Shows how full the present flow table is, what became of references, and which packets were
    /// measured otherwise than they should.
    pub fn show(&mut self, counters: &WorkerCounters) {
        counters
            .exceptions
            .backward_packets
            .set(self.backward_packets);
        counters
            .exceptions
            .outlived_packets
            .set(self.outlived_packets);
        for plan in self.plan.iter_mut().chain(&mut self.retiring) {
            plan.show_references(counters);
        }
        if let Some(flows) = self.flows() {
            flows.show(&counters.flows);
        }
    }
}
