//! Epochs by the clock: they begin, turn and are sealed, and another plan takes over between two.

use measure::time::{Epoch, EpochSchedule, EpochTag, Ticks};

use super::age::PlanNumber;
use super::{Meter, Open, OpenEpochs, Plan};

impl Meter {
    /// Seals and turns epochs whose time has come at `now`. To be called once a pass.
    #[inline]
    pub fn tick(&mut self, now: Ticks) {
        if now >= self.next_event {
            self.turn(now);
        }
        if let Some(plan) = &mut self.plan {
            plan.apply_commands();
        }
    }

    #[cold]
    fn turn(&mut self, now: Ticks) {
        if self.is_due(now) {
            self.seal_previous();
        }
        let epoch = self.schedule.epoch_at(now);
        if epoch > self.current.epoch {
            self.begin(epoch, now);
        }
        self.await_next();
    }

    /// The epoch that begins at `now`, if the present one is over.
    #[inline]
    pub fn turns_to(&self, now: Ticks) -> Option<Epoch> {
        if now < self.next_event {
            return None;
        }
        let epoch = self.schedule.epoch_at(now);
        (epoch > self.current.epoch).then_some(epoch)
    }

    /// Turns to the epoch at `now`, which [must be another](Self::turns_to), and measures by another
    /// plan from there on, or nothing.
    #[cold]
    pub fn replan(&mut self, plan: Option<Box<Plan>>, now: Ticks) {
        self.seal_previous();
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

    /// The plan before the present one, once its last epoch is sealed.
    #[inline]
    pub fn take_retired(&mut self) -> Option<Box<Plan>> {
        self.retired.take()
    }

    fn begin(&mut self, epoch: Epoch, now: Ticks) {
        if self.previous.is_some() {
            // Only after a stall of most of an epoch is the previous one still there.
            self.seal_previous();
        }
        let next = Open::new(&self.schedule, self.plan.as_deref_mut(), epoch, self.number);
        self.previous = Some(std::mem::replace(&mut self.current, next));
        if self.is_due(now) {
            self.seal_previous();
        }
    }

    fn is_due(&self, now: Ticks) -> bool {
        self.previous
            .as_ref()
            .is_some_and(|previous| now >= self.schedule.sealed_from(previous.epoch))
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

    /// Seals everything: the switch stops. The last epoch is handed over as far as it got.
    pub fn finish(&mut self) {
        self.seal_previous();
        self.settle(self.current.tag);
        if let (Some(shard), Some(plan)) = (self.current.shard.take(), &mut self.plan) {
            plan.handover.give_sealed(shard.seal(self.current.epoch));
        }
    }

    /// Estimates what packets of an epoch that is about to be sealed still wait for.
    fn settle(&mut self, epoch: EpochTag) {
        let Self {
            plan,
            retiring,
            current,
            previous,
            schedule,
            ..
        } = self;
        let mut open = OpenEpochs {
            current,
            previous: previous.as_mut(),
            interval_ticks: schedule.interval_ticks(),
        };
        for plan in plan.iter_mut().chain(retiring) {
            if let Some(references) = &mut plan.references {
                references.sealing(epoch, &mut open);
            }
        }
    }
}

impl Open {
    pub(super) fn new(
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
