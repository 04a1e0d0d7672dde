//! The workers' heartbeats: a worker whose passes stand still has stalled.

use std::sync::Arc;
use std::time::{Duration, Instant};

use contract::counters::WorkerCounters;

/// A worker without a pass for so long has stalled.
const STALLED_AFTER: Duration = Duration::from_secs(1);

/// Most that one look adds to a worker's silence: when the control core itself was held up, nobody
/// knows what the workers did meanwhile.
const LOOK_MAX: Duration = Duration::from_millis(100);

/// Watches all workers.
#[derive(Debug)]
pub(super) struct Watch {
    looked_at: Instant,
    pulses: Vec<Pulse>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Pulse {
    passes: u64,
    silent: Duration,
}

impl Pulse {
    fn is_stalled(&self) -> bool {
        self.silent >= STALLED_AFTER
    }
}

impl Watch {
    pub fn new(workers: usize, now: Instant) -> Self {
        Self {
            looked_at: now,
            pulses: vec![Pulse::default(); workers],
        }
    }

    /// Watches one worker more.
    pub fn add(&mut self) {
        self.pulses.push(Pulse::default());
    }

    /// Looks at the workers' passes. A worker that has not made its first is not silent yet.
    pub fn look(&mut self, counters: &[Arc<WorkerCounters>], now: Instant) {
        let elapsed = now.saturating_duration_since(self.looked_at).min(LOOK_MAX);
        self.looked_at = now;
        for (worker, (pulse, counters)) in self.pulses.iter_mut().zip(counters).enumerate() {
            let passes = counters.passes.get();
            let was_stalled = pulse.is_stalled();
            if passes != pulse.passes {
                *pulse = Pulse {
                    passes,
                    silent: Duration::ZERO,
                };
            } else if passes > 0 {
                pulse.silent += elapsed;
            }
            match (was_stalled, pulse.is_stalled()) {
                (false, true) => tracing::error!(worker, "worker has made no pass for a second"),
                (true, false) => tracing::warn!(worker, "worker goes on"),
                _ => (),
            }
        }
    }

    pub fn is_stalled(&self, worker: usize) -> bool {
        self.pulses.get(worker).is_some_and(Pulse::is_stalled)
    }

    pub fn stalled(&self) -> impl Iterator<Item = usize> {
        (0..self.pulses.len()).filter(|&worker| self.is_stalled(worker))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_stalled_after_a_second_without_a_pass_and_until_the_next() {
        let counters = [(); 2].map(|()| Arc::new(WorkerCounters::new(0)));
        let mut now = Instant::now();
        let mut watch = Watch::new(2, now);
        let mut look = |counters: &[Arc<WorkerCounters>; 2], times| {
            for _ in 0..times {
                now += Duration::from_millis(90);
                watch.look(counters, now);
                counters[0].passes.add(1);
            }
            watch.stalled().collect::<Vec<_>>()
        };
        assert_eq!(
            look(&counters, 20),
            [0; 0],
            "neither has begun, or both go on"
        );
        counters[1].passes.add(1);
        assert_eq!(look(&counters, 12), [0; 0]);
        assert_eq!(look(&counters, 1), [1]);
        counters[1].passes.add(1);
        assert_eq!(look(&counters, 1), [0; 0]);
    }

    #[test]
    fn a_held_up_control_core_accuses_nobody() {
        let counters = [Arc::new(WorkerCounters::new(0))];
        counters[0].passes.add(1);
        let now = Instant::now();
        let mut watch = Watch::new(1, now);
        watch.look(&counters, now);
        watch.look(&counters, now + Duration::from_hours(1));
        assert!(!watch.is_stalled(0));
    }
}
