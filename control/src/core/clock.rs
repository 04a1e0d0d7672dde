//! The system's clock beside the monotonic one: whether somebody has set it.
//!
//! Epochs and delays go by the time stamp counter, which nobody sets. All that follows the system's
//! clock is what is said in its terms, such as the end of an epoch.

use std::time::{Duration, Instant, SystemTime};

use records::snapshot::Clock;

/// Least difference between the two clocks that is a step. Slewing (`adjtime(3)`, 500 ppm) takes more
/// than three minutes for that, and is never seen from one look to the next.
const STEP_MIN: Duration = Duration::from_millis(100);

/// A reading in which the monotonic clock went on for longer says nothing: the thread was held up
/// in its middle.
const READING_MAX: Duration = Duration::from_millis(10);

/// Both clocks at once.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// The monotonic clock before the system's clock was read, and after.
    pub monotonic: [Instant; 2],
    /// The system's clock.
    pub system: SystemTime,
}

impl Reading {
    /// Reads both.
    pub fn now() -> Self {
        let before = Instant::now();
        let system = SystemTime::now();
        Self {
            monotonic: [before, Instant::now()],
            system,
        }
    }

    fn is_tight(&self) -> bool {
        let [before, after] = self.monotonic;
        after.saturating_duration_since(before) <= READING_MAX
    }

    /// Seconds by which the system's clock was set forward since `earlier`; negative for backward.
    fn step_s_since(&self, earlier: &Self) -> f64 {
        let by_system_s = match self.system.duration_since(earlier.system) {
            Ok(forward) => forward.as_secs_f64(),
            Err(backward) => -backward.duration().as_secs_f64(),
        };
        let passed = self.monotonic[0].saturating_duration_since(earlier.monotonic[0]);
        by_system_s - passed.as_secs_f64()
    }
}

/// Compares the two clocks from one look to the next.
#[derive(Debug)]
pub(super) struct ClockWatch {
    last: Option<Reading>,
    seen: Clock,
}

impl ClockWatch {
    /// A watch that has not looked yet.
    pub fn new() -> Self {
        Self {
            last: None,
            seen: Clock::default(),
        }
    }

    /// Looks at both clocks, and logs a step. Returns what was seen since the first look.
    pub fn look(&mut self, now: Reading) -> Clock {
        if !now.is_tight() {
            return self.seen;
        }
        let step_s = self.last.map_or(0.0, |last| now.step_s_since(&last));
        self.last = Some(now);
        if step_s.abs() > STEP_MIN.as_secs_f64() {
            self.seen.steps += 1;
            self.seen.last_step_s = step_s;
            tracing::warn!(
                step_s,
                "the system's clock was set: epochs and delays do not go by it, times of day do"
            );
        }
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clocks that are turned by hand.
    struct ByHand {
        watch: ClockWatch,
        now: Reading,
    }

    impl ByHand {
        fn new() -> Self {
            let mut watch = ClockWatch::new();
            let now = Reading::now();
            let now = Reading {
                monotonic: [now.monotonic[0]; 2],
                ..now
            };
            assert_eq!(watch.look(now), Clock::default());
            Self { watch, now }
        }

        fn pass(&mut self, time: Duration) {
            self.now.monotonic = self.now.monotonic.map(|clock| clock + time);
            self.now.system += time;
        }

        fn look(&mut self) -> (u64, f64) {
            let seen = self.watch.look(self.now);
            (seen.steps, seen.last_step_s)
        }
    }

    const POLL: Duration = Duration::from_millis(5);

    #[test]
    fn a_step_is_counted_once_in_either_direction() {
        let mut clocks = ByHand::new();
        clocks.pass(POLL);
        clocks.now.system += Duration::from_hours(1);
        let (count, step_s) = clocks.look();
        assert!(count == 1 && (step_s - 3_600.0).abs() < 1e-6, "{step_s}");
        clocks.pass(POLL);
        assert_eq!(clocks.look().0, 1);
        clocks.pass(POLL);
        clocks.now.system -= Duration::from_millis(250);
        let (count, step_s) = clocks.look();
        assert!(count == 2 && (step_s + 0.25).abs() < 1e-6, "{step_s}");
    }

    #[test]
    fn slewing_and_a_control_core_that_was_held_up_are_no_steps() {
        let mut clocks = ByHand::new();
        for _ in 0..100 {
            clocks.pass(Duration::from_secs(1));
            clocks.now.system += Duration::from_millis(1);
            assert_eq!(clocks.look().0, 0);
        }
        clocks.pass(Duration::from_hours(2));
        assert_eq!(clocks.look().0, 0);
        // Held up in the middle of a reading, before the system's clock was read.
        clocks.now.monotonic[1] += Duration::from_secs(3);
        clocks.now.system += Duration::from_secs(3);
        assert_eq!(clocks.look().0, 0);
        clocks.now.monotonic[0] = clocks.now.monotonic[1];
        clocks.pass(POLL);
        assert_eq!(clocks.look().0, 0);
    }
}
