//! The open epochs of a worker, and their plans.
//!
//! Epochs roll over by the clock, not by traffic. Two are open at any time: the current one, and the
//! previous one until its grace ends. If the control core has not returned a shard in time, the next epoch
//! is not measured (and counted as missed); a worker never waits.

use contract::ids::PortIndex;
use measure::packet::Hashing;
use measure::shard::Shard;
use measure::time::{Epoch, EpochSchedule, EpochTag, Ticks};

use super::around::Device;
use super::{NO_SEGMENTS, Plan, Segments};
use super::{PlanNumber, is_before, of_no_open_epoch, of_no_plan};
use crate::departing::Departing;
use crate::egress::QueuedReference;
use crate::references::OpenShards;

/// An epoch that still accepts packets; without a shard it is not measured.
#[derive(Debug)]
pub(super) struct Open {
    pub epoch: Epoch,
    pub tag: EpochTag,
    pub start: Ticks,
    pub shard: Option<Box<Shard>>,
}

impl Open {
    fn new(
        schedule: &EpochSchedule,
        plan: Option<&mut Plan>,
        epoch: Epoch,
        number: PlanNumber,
    ) -> Self {
        Self {
            epoch,
            tag: number.tag(epoch),
            start: schedule.start_of(epoch),
            shard: plan.and_then(|plan| plan.handover.take_empty()),
        }
    }
}

/// Open epochs and their plans.
#[derive(Debug)]
pub struct Epochs {
    schedule: EpochSchedule,
    /// `None` if nothing is measured.
    pub(super) plan: Option<Box<Plan>>,
    pub(super) current: Open,
    previous: Option<Open>,
    /// The plan of the previous epoch, if it was another one.
    pub(super) retiring: Option<Box<Plan>>,
    /// A plan without an open epoch.
    retired: Option<Box<Plan>>,
    /// Time of the next seal or rollover.
    next_event: Ticks,
    /// Of the present plan.
    number: PlanNumber,
    /// Start of its first epoch.
    plan_began: Ticks,
}

impl Epochs {
    /// Starts with the epoch of `schedule` at `now`; without a plan nothing is measured.
    pub(super) fn new(schedule: EpochSchedule, mut plan: Option<Box<Plan>>, now: Ticks) -> Self {
        let number = PlanNumber::default();
        let epoch = schedule.epoch_at(now);
        let current = Open::new(&schedule, plan.as_deref_mut(), epoch, number);
        Self {
            schedule,
            plan,
            plan_began: current.start,
            current,
            previous: None,
            retiring: None,
            retired: None,
            next_event: schedule.start_of(epoch.next()),
            number,
        }
    }

    /// Whether anything is measured, or still to be recorded.
    #[inline]
    pub fn are_measured(&self) -> bool {
        self.plan.is_some() || self.retiring.is_some()
    }

    /// Whether a previous plan is still in use.
    pub fn are_retiring(&self) -> bool {
        self.retiring.is_some()
    }

    /// Whether a tag belongs to the current plan.
    #[inline]
    pub(super) fn is_of_plan(&self, tag: EpochTag) -> bool {
        self.number.is_of(tag)
    }

    /// The plan under which packets were tagged like this, while it exists.
    #[inline]
    pub(super) fn plan_of(&mut self, tag: EpochTag) -> Option<&mut Plan> {
        if self.number.is_of(tag) {
            return self.plan.as_deref_mut();
        }
        let before = self.number.before();
        self.retiring.as_deref_mut().filter(|_| before.is_of(tag))
    }

    /// The device that a port currently leads to, and the port's index at the device.
    #[inline]
    pub(super) fn device(&mut self, port: PortIndex) -> Option<(&mut Device, u8)> {
        self.plan.as_mut()?.arounds.as_mut()?.at(port)
    }

    /// Whether packets with this tag have packet hashes.
    #[inline]
    pub(super) fn knows_packets(&self, tag: EpochTag) -> bool {
        let plan = self.plan_for(tag);
        plan.is_some_and(|plan| plan.hashing == Hashing::Packet)
    }

    /// The open epoch of this tag.
    #[inline]
    pub(super) fn open(&mut self, tag: EpochTag) -> Option<&mut Open> {
        open(&mut self.current, self.previous.as_mut(), tag)
    }

    /// The first tick of the open epoch of this tag.
    #[inline]
    pub(super) fn start_of(&self, tag: EpochTag) -> Ticks {
        if tag == self.current.tag {
            self.current.start
        } else {
            self.previous_start()
        }
    }

    #[cold]
    fn previous_start(&self) -> Ticks {
        (self.previous.as_ref()).map_or(self.current.start, |previous| previous.start)
    }

    /// The segments from one port to another by the plan of the epoch of `tag`, if it still exists.
    #[inline]
    pub fn segments_of(&self, tag: EpochTag, ingress: PortIndex, egress: PortIndex) -> Segments {
        let plan = self.plan_for(tag);
        plan.map_or(NO_SEGMENTS, |plan| plan.segments.between(ingress, egress))
    }

    #[inline]
    fn plan_for(&self, tag: EpochTag) -> Option<&Plan> {
        if self.number.is_of(tag) {
            self.plan.as_deref()
        } else {
            let before = self.number.before();
            self.retiring.as_deref().filter(|_| before.is_of(tag))
        }
    }

    /// The epoch tag of a packet without a tag that was first seen at `arrived`, no later than the last tick.
    #[inline]
    pub fn epoch_of(&self, arrived: Ticks) -> EpochTag {
        if arrived >= self.current.start {
            return self.current.tag;
        }
        self.epoch_before(arrived)
    }

    #[cold]
    fn epoch_before(&self, arrived: Ticks) -> EpochTag {
        if let Some(previous) = self.previous.as_ref().filter(|open| arrived >= open.start) {
            return previous.tag;
        }
        let sealed = of_no_open_epoch(self.current.tag);
        if arrived < self.plan_began {
            return of_no_plan(sealed);
        }
        sealed
    }

    /// The effective tag of a packet first seen at `arrived`: its own, or one of no open epoch if its own
    /// only appears to be open; or one of no plan if the packet is older than the plan of its tag.
    pub(super) fn checked_tag(&self, tag: EpochTag, arrived: Ticks) -> EpochTag {
        let mut checked = tag;
        let mut open = std::iter::once(&self.current).chain(&self.previous);
        let named = open.find(|open| open.tag == tag);
        if named.is_some_and(|open| self.is_before(arrived, open.start)) {
            checked = of_no_open_epoch(checked);
        }
        if self.number.is_of(tag) && self.is_before(arrived, self.plan_began) {
            checked = of_no_plan(checked);
        }
        checked
    }

    fn is_before(&self, instant: Ticks, start: Ticks) -> bool {
        is_before(instant, start, self.schedule.interval_ticks())
    }

    /// Whether an epoch must be sealed or rolled over.
    #[inline]
    pub fn is_due(&self, now: Ticks) -> bool {
        now >= self.next_event
    }

    /// Seals and rolls over, if due at `now`. Called once in each pass.
    #[inline]
    pub fn tick(&mut self, now: Ticks) {
        if self.is_due(now) {
            self.roll_over(now);
        }
        if let Some(plan) = &mut self.plan {
            plan.apply_commands();
        }
    }

    #[cold]
    fn roll_over(&mut self, now: Ticks) {
        if self.is_previous_due(now) {
            self.seal_previous();
        }
        let epoch = self.schedule.epoch_at(now);
        if epoch > self.current.epoch {
            self.begin(epoch, now);
        }
        self.await_next();
    }

    /// The epoch that begins at `now`, if the current one is over.
    #[inline]
    pub fn rollover_at(&self, now: Ticks) -> Option<Epoch> {
        if !self.is_due(now) {
            return None;
        }
        let epoch = self.schedule.epoch_at(now);
        (epoch > self.current.epoch).then_some(epoch)
    }

    /// Rolls over to the epoch at `now` and measures it by another plan, or not at all.
    ///
    /// # Panics
    /// In debug builds, if [no epoch begins](Self::rollover_at) or a plan is still retiring.
    #[cold]
    pub fn replan(&mut self, plan: Option<Box<Plan>>, now: Ticks) {
        debug_assert!(
            self.rollover_at(now).is_some(),
            "plans change at a rollover"
        );
        self.seal_previous();
        debug_assert!(self.retiring.is_none(), "one plan retires at a time");
        self.retiring = std::mem::replace(&mut self.plan, plan);
        if let (Some(new), Some(old)) = (&mut self.plan, &self.retiring)
            && let (Some(new), Some(old)) = (&mut new.flows, &old.flows)
        {
            new.succeed(old);
        }
        self.number = self.number.next();
        self.begin(self.schedule.epoch_at(now), now);
        self.plan_began = self.current.start;
        self.await_next();
    }

    /// The previous plan, once its last epoch is sealed.
    #[inline]
    pub fn take_retired(&mut self) -> Option<Box<Plan>> {
        self.retired.take()
    }

    fn begin(&mut self, epoch: Epoch, now: Ticks) {
        if self.previous.is_some() {
            // The previous epoch is still there only after a stall of most of an epoch.
            self.seal_previous();
        }
        let next = Open::new(&self.schedule, self.plan.as_deref_mut(), epoch, self.number);
        self.previous = Some(std::mem::replace(&mut self.current, next));
        if self.is_previous_due(now) {
            self.seal_previous();
        }
    }

    fn is_previous_due(&self, now: Ticks) -> bool {
        let previous = self.previous.as_ref();
        previous.is_some_and(|previous| now >= self.schedule.sealed_from(previous.epoch))
    }

    fn await_next(&mut self) {
        self.next_event = match &self.previous {
            Some(previous) => self.schedule.sealed_from(previous.epoch),
            None => self.schedule.start_of(self.current.epoch.next()),
        };
    }

    fn seal_previous(&mut self) {
        if let Some(previous) = &self.previous {
            self.settle(previous.tag);
        }
        if let Some(Open { epoch, shard, .. }) = self.previous.take()
            && let Some(plan) = self.retiring.as_mut().or(self.plan.as_mut())
            && let Some(shard) = shard
        {
            plan.handover.give_sealed(shard.seal(epoch));
        }
        if let Some(plan) = self.retiring.take() {
            self.retired = Some(plan);
        }
    }

    /// Seals everything, because the switch stops. The last epoch is handed over incomplete.
    pub fn finish(&mut self) {
        self.seal_previous();
        self.settle(self.current.tag);
        if let (Some(shard), Some(plan)) = (self.current.shard.take(), &mut self.plan) {
            plan.handover.give_sealed(shard.seal(self.current.epoch));
        }
    }

    /// Estimates from packets that have left by `port`, and from the references of the head that contained
    /// them.
    #[inline]
    pub fn estimate(
        &mut self,
        port: PortIndex,
        packets: &Departing,
        references: &[(usize, QueuedReference)],
        now: Ticks,
    ) {
        let number = self.number;
        let (plan, retiring, mut open) = self.parts();
        if let Some(streams) = plan.and_then(|plan| plan.references.as_mut()) {
            let mine = |tag| number.is_of(tag);
            streams.departed(port, packets, references, now, mine, &mut open);
        }
        if let Some(streams) = retiring.and_then(|plan| plan.references.as_mut()) {
            let mine = |tag| number.before().is_of(tag);
            streams.departed(port, packets, references, now, mine, &mut open);
        }
    }

    /// Estimates packets of an epoch about to be sealed that still wait for a reference.
    fn settle(&mut self, epoch: EpochTag) {
        let (plan, retiring, mut open) = self.parts();
        for plan in plan.into_iter().chain(retiring) {
            if let Some(references) = &mut plan.references {
                references.sealing(epoch, &mut open);
            }
        }
    }

    /// Both plans, and the epochs that accept estimates.
    #[inline]
    fn parts(&mut self) -> (Option<&mut Plan>, Option<&mut Plan>, OpenEpochs<'_>) {
        let open = OpenEpochs {
            current: &mut self.current,
            previous: self.previous.as_mut(),
            interval_ticks: self.schedule.interval_ticks(),
        };
        let (plan, retiring) = (self.plan.as_deref_mut(), self.retiring.as_deref_mut());
        (plan, retiring, open)
    }
}

#[inline]
fn open<'e>(
    current: &'e mut Open,
    previous: Option<&'e mut Open>,
    tag: EpochTag,
) -> Option<&'e mut Open> {
    if current.tag == tag {
        return Some(current);
    }
    previous.filter(|open| open.tag == tag)
}

/// The epochs that accept estimates.
struct OpenEpochs<'m> {
    current: &'m mut Open,
    previous: Option<&'m mut Open>,
    interval_ticks: u64,
}

impl OpenEpochs<'_> {
    #[inline]
    fn open(&mut self, tag: EpochTag) -> Option<&mut Open> {
        open(self.current, self.previous.as_deref_mut(), tag)
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
        let is_its = !is_before(queued, open.start, interval_ticks);
        open.shard.as_deref_mut().filter(|_| is_its)
    }
}
