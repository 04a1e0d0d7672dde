//! The measurement points of one worker: they tag packets on arrival, record them when their fate is known,
//! and pass on each shard when its epoch is sealed.
//! ```text
//!  arrive ── Tagging: hashes, segment, epoch ── queues ── Meter: recorded ── Epochs: sealed shards ──> control core
//! ```
//!
//! A packet is recorded once: when it leaves, at both ends of its segment, with the time of its arrival at
//! one and of its departure at the other; or, if it is dropped in between, at the sender's end only. This
//! is equivalent to recording it at each point as it passes, for half of the memory traffic.

use contract::config::{Config, Segment};
use contract::counters::WorkerCounters;
use contract::handover::WorkerEnd;
use contract::ids::PortIndex;
use measure::batch::{Batch, Member, MembersPart};
use measure::flows::Slot;
use measure::observation::{Observation, SegmentIndex};
use measure::packet::{FlowHash, Hasher, Hashing, PacketHash, Parsed, RandomHashes};
use measure::time::{Epoch, EpochSchedule, EpochTag, Ticks};

use crate::departing::Departing;
use crate::egress::{PortEgress, QueuedReference, Refused};
use crate::flows::Flows;
use crate::packet_io::{ClassIndex, NO_SEGMENT, Tag};
use crate::references::{Due, References};

mod around;
mod epochs;
mod returned;

pub use around::{Arounds, Devices};
pub use epochs::Epochs;

/// The measurement points of one worker.
#[derive(Debug)]
pub struct Meter {
    /// The epochs in which packets are recorded, and the plans.
    pub epochs: Epochs,
    hasher: Hasher,
    /// Least delay for which tags are checked.
    doubtful_ticks: u64,
    backward_packets: u64,
    outlived_packets: u64,
}

impl Meter {
    /// The points of one worker, starting with the epoch of `schedule` at `now`; without a plan nothing is
    /// measured.
    pub fn new(
        hasher: Hasher,
        schedule: EpochSchedule,
        plan: Option<Box<Plan>>,
        now: Ticks,
    ) -> Self {
        Self {
            epochs: Epochs::new(schedule, plan, now),
            hasher,
            doubtful_ticks: doubtful_ticks(&schedule),
            backward_packets: 0,
            outlived_packets: 0,
        }
    }

    /// The tags of packets that arrive now.
    #[inline]
    pub fn tagging(&self) -> Tagging<'_> {
        Tagging {
            hasher: &self.hasher,
            plan: self.epochs.plan.as_deref(),
            epoch: self.epochs.current.tag,
        }
    }

    /// Makes batches of departing packets: all at `now`, or each at its own time by `clock` if packets are
    /// stamped individually; none if nothing is measured.
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

    /// Corrects a negative delay, and the epoch of a packet queued so long that its tag may now belong to
    /// another.
    #[cold]
    fn mended(&mut self, mut departure: Batch) -> Batch {
        if departure.delay.cast_signed() < 0 {
            departure.delay = 0;
            self.count_backward(1);
        }
        departure.epoch = self.epochs.checked_tag(departure.epoch, departure.arrived);
        departure
    }

    /// Counts packets with a negative delay, which was set to 0: the counters of two cores may differ by
    /// some ticks.
    #[inline]
    pub fn count_backward(&mut self, packets: u64) {
        self.backward_packets += packets;
    }

    /// Looks up the flows of departing packets while their headers are available (`head` returns those of
    /// each), and prefetches the counters in which they will be [recorded](Self::passed).
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

    /// Records packets that have left, each in its own epoch. Packets of a sealed epoch are counted as
    /// late.
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

    /// Counts packets that outlived the plan of their tag: their segment may be another one now.
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
        // A drop after the seal is still a loss, counted in the current epoch.
        let current = &mut self.epochs.current;
        observation.epoch = current.tag;
        if let Some(shard) = &mut current.shard {
            shard.lost_late(&observation);
        }
    }

    /// Offers a packet to its egress queue, with the references that belong around it.
    ///
    /// # Errors
    /// The packet, if the queue refuses it.
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

    /// Notes that a burst of the current epoch went straight to the head of an egress queue, behind `ahead`
    /// packets, and inserts the references that belong among its packets.
    #[inline]
    pub fn joined<P>(&mut self, egress: &mut PortEgress<P>, ahead: usize) {
        let plan = self.epochs.plan.as_mut();
        if let Some(references) = plan.and_then(|plan| plan.references.as_mut()) {
            references.joined(egress, ahead);
        }
    }

    /// The references that belong among packets of the current epoch that left immediately.
    #[inline]
    pub fn references_among(&mut self, batch: &Batch, members: MembersPart<'_>) -> Due {
        let mut due = Due::new_const();
        let plan = self.epochs.plan.as_mut();
        if let Some(references) = plan.and_then(|plan| plan.references.as_mut()) {
            references.batch_queued(batch, members.bytes, &mut due);
        }
        due
    }

    /// Passes overdue references to `put`. Called once in each pass.
    #[inline]
    pub fn overdue(&mut self, now: Ticks, put: &mut impl FnMut(PortIndex, QueuedReference)) {
        let Epochs { plan, current, .. } = &mut self.epochs;
        if let Some(references) = plan.as_mut().and_then(|plan| plan.references.as_mut()) {
            references.overdue(now, current.tag, put);
        }
    }

    /// Publishes how full the current flow table is, the counters of references, and the packets that were
    /// measured in an exceptional way.
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

// A generation's measuring: its segments, flows and references.

/// Most classes of a configuration.
const CLASSES: usize = 8;

/// Segments by class.
pub type Segments = [SegmentIndex; CLASSES];

/// No segment is measured.
pub const NO_SEGMENTS: Segments = [NO_SEGMENT; CLASSES];

/// The segment from one port to another, for each class.
#[derive(Debug, Clone)]
pub struct SegmentMap {
    ports: usize,
    segments: Box<[Segments]>,
}

impl SegmentMap {
    /// A map over `ports` ports in which the n-th (ingress, egress, class) is segment n.
    pub fn new(
        ports: usize,
        measured: impl IntoIterator<Item = (PortIndex, PortIndex, ClassIndex)>,
    ) -> Self {
        let segments = vec![NO_SEGMENTS; ports * ports].into_boxed_slice();
        let mut map = Self { ports, segments };
        for (n, (ingress, egress, class)) in (0..NO_SEGMENT.0).zip(measured) {
            map.set(
                SegmentIndex(n),
                ingress.index(),
                egress.index(),
                class.0.into(),
            );
        }
        map
    }

    /// The segments of a configuration inside the switch.
    pub fn inside(config: &Config) -> Self {
        Self::of(config, Segment::is_inside)
    }

    /// The segments around other devices.
    pub fn around(config: &Config) -> Self {
        Self::of(config, |segment| !segment.is_inside())
    }

    /// Some of a configuration's segments.
    fn of(config: &Config, is_one: impl Fn(&Segment) -> bool) -> Self {
        let mut map = Self::new(config.ports.len(), []);
        for (n, segment) in (0..NO_SEGMENT.0).zip(config.segments()) {
            if is_one(&segment) {
                map.set(
                    SegmentIndex(n),
                    segment.ingress,
                    segment.egress,
                    segment.class,
                );
            }
        }
        map
    }

    fn set(&mut self, segment: SegmentIndex, ingress: usize, egress: usize, class: usize) {
        let pair = self.segments.get_mut(ingress * self.ports + egress);
        if let Some(place) = pair.and_then(|pair| pair.get_mut(class)) {
            *place = segment;
        }
    }

    /// The segments from one port to another, by class.
    #[inline]
    pub fn between(&self, ingress: PortIndex, egress: PortIndex) -> Segments {
        let pair = ingress.index() * self.ports + egress.index();
        self.segments.get(pair).copied().unwrap_or(NO_SEGMENTS)
    }
}

/// The measuring of a generation.
#[derive(Debug)]
pub struct Plan {
    /// Source and destination of its shards.
    pub handover: WorkerEnd,
    /// Its segments.
    pub segments: SegmentMap,
    /// Hashes to compute for each arriving packet.
    pub hashing: Hashing,
    /// Flows with counters of their own.
    pub flows: Option<Flows>,
    /// Whether the clock is read for every packet instead of every burst.
    pub stamps_packets: bool,
    /// Devices that packets are measured around, if any.
    pub arounds: Option<Box<Arounds>>,
    /// References among packets, if any.
    pub references: Option<Box<References>>,
}

impl Plan {
    /// Publishes the counters of references since the last call.
    pub fn show_references(&mut self, counters: &WorkerCounters) {
        if let Some(references) = &mut self.references {
            references.show(&counters.references);
        }
    }

    /// Applies the control core's commands between epochs.
    fn apply_commands(&mut self) {
        if let Some(flows) = &mut self.flows {
            flows.apply_commands(&mut self.handover);
        }
    }
}

// Tags of epochs, and how long they are unambiguous.
//
// ```text
//  EpochTag   plan, 2 bits | epoch, 6 bits
// ```
//
// Workers switch to a plan at a rollover, so a tag identifies its open epoch, or that it is of none, as
// long as less than three epochs have passed. Packets queued longer are compared with the start of the
// tag's epoch and plan. That is off the fast path, which checks one sum for each burst.

const EPOCH_BITS: u32 = 6;
const EPOCH_MASK: u8 = (1 << EPOCH_BITS) - 1;

/// The number of a worker's plan, modulo 4: plans change on all workers, one after the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct PlanNumber(u8);

impl PlanNumber {
    /// The tag of packets counted in `epoch` under this plan.
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
    pub fn tag(self, epoch: Epoch) -> EpochTag {
        EpochTag(self.0 << EPOCH_BITS | epoch.0 as u8 & EPOCH_MASK)
    }

    /// Whether a tag belongs to this plan.
    #[inline]
    pub fn is_of(self, EpochTag(tag): EpochTag) -> bool {
        tag >> EPOCH_BITS == self.0
    }

    pub fn next(self) -> Self {
        Self((self.0 + 1) & 3)
    }

    pub fn before(self) -> Self {
        Self(self.0.wrapping_sub(1) & 3)
    }
}

/// The tag half the tag space away from `tag`; no open epoch can have it.
fn of_no_open_epoch(EpochTag(tag): EpochTag) -> EpochTag {
    EpochTag(tag ^ 1 << (EPOCH_BITS - 1))
}

/// A tag two plans away from that of `tag`: neither the current plan nor the previous one.
fn of_no_plan(EpochTag(tag): EpochTag) -> EpochTag {
    EpochTag(tag ^ 2 << EPOCH_BITS)
}

/// Least delay for which tags are checked, a power of two of ticks, so that any such delay in a burst shows
/// in the disjunction of all delays, as does a negative one.
fn doubtful_ticks(schedule: &EpochSchedule) -> u64 {
    1 << schedule.interval_ticks().saturating_mul(3).ilog2().min(62)
}

/// Whether an instant is before `start` by more than an epoch; cores may differ by some ticks.
fn is_before(instant: Ticks, start: Ticks, interval_ticks: u64) -> bool {
    start.signed_since(instant) > interval_ticks.cast_signed()
}

// Tags of arriving packets.

/// Tags of the current epoch.
#[derive(Debug, Clone, Copy)]
pub struct Tagging<'m> {
    hasher: &'m Hasher,
    plan: Option<&'m Plan>,
    epoch: EpochTag,
}

impl<'m> Tagging<'m> {
    /// Hashes to compute for each packet; `None` if nothing is measured.
    #[inline]
    pub fn hashing(self) -> Option<Hashing> {
        self.plan.map(|plan| plan.hashing)
    }

    /// Whether packets that leave immediately need no tags: none is stamped individually, and references,
    /// which are placed by frame lengths, find those in the parsed members.
    #[inline]
    pub fn takes_batches(self) -> bool {
        self.plan.is_none_or(|plan| {
            let knows_lengths = plan.hashing > Hashing::None;
            !plan.stamps_packets && (knows_lengths || plan.references.is_none())
        })
    }

    /// The epoch in which packets are counted.
    #[inline]
    pub fn epoch(self) -> EpochTag {
        self.epoch
    }

    /// Whether the clock is read for every packet.
    #[inline]
    pub fn stamps_packets(self) -> bool {
        self.plan.is_some_and(|plan| plan.stamps_packets)
    }

    /// The flows with counters of their own, if any.
    #[inline]
    pub fn flows(self) -> Option<&'m Flows> {
        self.plan?.flows.as_ref()
    }

    /// The segments that lead from one port to another, by class.
    #[inline]
    pub fn segments(self, ingress: PortIndex, egress: PortIndex) -> Segments {
        match self.plan {
            Some(plan) => plan.segments.between(ingress, egress),
            None => NO_SEGMENTS,
        }
    }

    /// The tag of an unmeasured packet of `class`, first seen at `now`.
    #[inline]
    pub fn blank_tag(self, len_bytes: u32, class: ClassIndex, now: Ticks) -> Tag {
        Tag {
            flow: FlowHash(0),
            packet: PacketHash(0),
            arrived: now,
            len_bytes,
            segment: NO_SEGMENT,
            epoch: self.epoch,
            class,
        }
    }

    /// Parses the frame that begins with `head`, and hashes its flow; without `PACKET`, the packet's hash is
    /// meaningless.
    #[inline]
    pub fn parse<const PACKET: bool>(self, head: &[u8], len_bytes: u32) -> Parsed {
        self.hasher.parse_as::<PACKET>(head, len_bytes)
    }
}
