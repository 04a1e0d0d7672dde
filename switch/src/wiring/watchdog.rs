//! Whether the workers still work: each counts its passes, and one that makes none for a while has
//! stalled (a driver that blocks, a CPU that was taken away, a bug).

use std::time::{Duration, Instant};

/// A worker that made no pass for so long has stalled: far above what a scheduler takes away.
pub const STALL: Duration = Duration::from_secs(2);

/// Watches the pass counters of all workers.
#[derive(Debug)]
pub struct Watchdog {
    workers: Vec<Beat>,
}

#[derive(Debug)]
struct Beat {
    passes: u64,
    at: Instant,
    is_stalled: bool,
}

/// What has changed about a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It made no pass for [`STALL`].
    Stalled,
    /// It works again, after so long.
    Recovered(Duration),
}

impl Watchdog {
    /// Watches `workers` workers from `now` on.
    pub fn new(workers: usize, now: Instant) -> Self {
        let beat = || Beat {
            passes: 0,
            at: now,
            is_stalled: false,
        };
        Self {
            workers: std::iter::repeat_with(beat).take(workers).collect(),
        }
    }

    /// Looks at the counter of a worker; what has changed since the last look, if anything.
    pub fn look(&mut self, worker: usize, passes: u64, now: Instant) -> Option<Change> {
        let beat = self.workers.get_mut(worker)?;
        let silent = now.saturating_duration_since(beat.at);
        if passes != beat.passes {
            (beat.passes, beat.at) = (passes, now);
            let was_stalled = std::mem::replace(&mut beat.is_stalled, false);
            return was_stalled.then_some(Change::Recovered(silent));
        }
        let has_stalled = !beat.is_stalled && silent >= STALL;
        beat.is_stalled |= has_stalled;
        has_stalled.then_some(Change::Stalled)
    }

    /// Whether a worker has stalled.
    pub fn is_stalled(&self, worker: usize) -> bool {
        self.workers.get(worker).is_some_and(|beat| beat.is_stalled)
    }

    /// Whether all workers beat.
    pub fn is_well(&self) -> bool {
        !self.workers.iter().any(|beat| beat.is_stalled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_and_its_end_are_said_once() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut watchdog = Watchdog::new(2, start);
        assert_eq!(watchdog.look(0, 1, at(500)), None);
        for ms in (600..2500).step_by(100) {
            assert_eq!(watchdog.look(0, 1, at(ms)), None);
            assert_eq!(watchdog.look(1, ms, at(ms)), None);
        }
        assert!(watchdog.is_well());
        assert_eq!(watchdog.look(0, 1, at(2500)), Some(Change::Stalled));
        assert_eq!(watchdog.look(0, 1, at(2600)), None);
        assert!(watchdog.is_stalled(0) && !watchdog.is_stalled(1) && !watchdog.is_well());
        let back = Change::Recovered(Duration::from_millis(2500));
        assert_eq!(watchdog.look(0, 2, at(3000)), Some(back));
        assert_eq!(watchdog.look(0, 3, at(3100)), None);
        assert!(watchdog.is_well());
        assert_eq!(watchdog.look(7, 3, at(3100)), None, "no such worker");
    }
}
