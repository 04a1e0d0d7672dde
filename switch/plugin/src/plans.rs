//! Plans on their way from the control core to a transmit queue, and back when they are no longer used.

use measure::time::{Epoch, Ticks};
use rtrb::{Consumer, Producer, RingBuffer};
use switch::meter::{Epochs, Plan};

/// Plans under way to a queue at most; none is sent while there is no room for it.
const PLANS_MAX: usize = 2;

/// Another way to measure, from an epoch on; none: not at all.
#[derive(Debug)]
pub struct PlanChange {
    pub from: Epoch,
    pub plan: Option<Box<Plan>>,
}

/// The control core's end.
#[derive(Debug)]
pub struct PlanSender {
    coming: Producer<PlanChange>,
    gone: Consumer<Box<Plan>>,
}

/// The queue's end.
#[derive(Debug)]
pub struct PlanReceiver {
    coming: Consumer<PlanChange>,
    gone: Producer<Box<Plan>>,
}

/// Both ends.
pub fn plan_changes() -> (PlanSender, PlanReceiver) {
    let (coming_in, coming) = RingBuffer::new(PLANS_MAX);
    // All that can be under way, and the one in use.
    let (gone, gone_out) = RingBuffer::new(PLANS_MAX + 1);
    let sender = PlanSender {
        coming: coming_in,
        gone: gone_out,
    };
    (sender, PlanReceiver { coming, gone })
}

impl PlanSender {
    /// Whether another plan can be sent.
    pub fn has_room(&self) -> bool {
        !self.coming.is_full()
    }

    /// Sends a plan; to be called only while there [is room](Self::has_room).
    pub fn send(&mut self, change: PlanChange) {
        let is_sent = self.coming.push(change).is_ok();
        assert!(is_sent, "the caller asked for room");
    }

    /// Frees plans that are no longer in use.
    pub fn free_gone(&mut self) {
        while self.gone.pop().is_ok() {}
    }
}

impl PlanReceiver {
    /// Rolls over and seals epochs if it is time at `now`, and takes up a plan at the rollover to its
    /// epoch or a later one.
    #[inline]
    pub fn roll_over(&mut self, epochs: &mut Epochs, now: Ticks) {
        if let Some(epoch) = epochs.rollover_at(now)
            && !epochs.are_retiring()
            && self.coming.peek().is_ok_and(|next| next.from <= epoch)
            && let Ok(next) = self.coming.pop()
        {
            epochs.replan(next.plan, now);
        }
        epochs.tick(now);
        if let Some(old) = epochs.take_retired() {
            let is_sent = self.gone.push(old).is_ok();
            debug_assert!(is_sent, "there is room for all plans under way");
        }
    }
}
