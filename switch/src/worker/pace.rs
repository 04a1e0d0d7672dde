//! What passes cost, and how long queues go unpolled.

use contract::counters::WorkerCounters;
use measure::time::Ticks;

/// What a stamp cannot see: a packet that arrives between two polls is first seen at the second.
#[derive(Debug)]
pub(super) struct Pace {
    pass_began: Ticks,
    /// Packets that moved in the pass.
    moved: usize,
    /// When each receive queue was polled last; 0 before the first time.
    polled_at: Vec<Ticks>,
    gap_ticks_max: u64,
    gauge_at: Ticks,
    gauge_ticks: u64,
}

impl Pace {
    pub fn new(now: Ticks, inlets: usize, gauge_ticks: u64) -> Self {
        Self {
            pass_began: now,
            moved: 0,
            polled_at: vec![Ticks(0); inlets],
            gap_ticks_max: 0,
            gauge_at: now.plus(gauge_ticks),
            gauge_ticks,
        }
    }

    /// The receive queues are others now: `inlets` of them.
    pub fn rewire(&mut self, inlets: usize) {
        self.polled_at.clear();
        self.polled_at.resize(inlets, Ticks(0));
    }

    /// Packets that moved in this pass, so far.
    #[inline]
    pub fn moved(&mut self, packets: usize) {
        self.moved += packets;
    }

    #[inline]
    pub fn polled(&mut self, inlet: usize, now: Ticks) {
        let Some(last) = self.polled_at.get_mut(inlet) else {
            return;
        };
        if *last != Ticks(0) {
            self.gap_ticks_max = self.gap_ticks_max.max(now.saturating_since(*last));
        }
        *last = now;
    }

    /// Accounts for the pass that ends at `now`; true where it is time to renew gauges.
    #[inline]
    pub fn pass_ended(&mut self, counters: &WorkerCounters, now: Ticks) -> bool {
        let ticks = now.saturating_since(std::mem::replace(&mut self.pass_began, now));
        counters.passes.add(1);
        if std::mem::take(&mut self.moved) > 0 {
            counters.busy_ticks.add(ticks);
        } else {
            counters.idle_passes.add(1);
        }
        let is_due = now.signed_since(self.gauge_at) >= 0;
        if is_due {
            self.gauge_at = now.plus(self.gauge_ticks);
            counters
                .poll_gap_ticks_max
                .set(std::mem::take(&mut self.gap_ticks_max));
        }
        is_due
    }
}
