//! The clocks as they were at the last poll, and whether the system's clock was set meanwhile.
//!
//! Epochs and delays go by the time stamp counter, which nothing sets. Only what is published in the
//! system clock's terms follows that clock, such as the end of an epoch.

use std::time::{Duration, Instant, UNIX_EPOCH};

use measure::time::{Epoch, EpochSchedule, TickRate, Ticks};

use crate::data_plane::{DataPlane, Reading};
use records::snapshot::Clock;

/// Least difference between the two clocks that is a step. Slewing (`adjtime(3)`, 500 ppm) takes more
/// than three minutes for that, and is never seen from one look to the next.
const STEP_MIN: Duration = Duration::from_millis(100);

/// A reading during which the monotonic clock advanced by more shows nothing: the thread was held up
/// in its middle.
const READING_MAX: Duration = Duration::from_millis(10);

/// The counter, the epoch and both clocks at the last poll.
#[derive(Debug)]
pub(super) struct Clocks {
    pub rate: TickRate,
    schedule: EpochSchedule,
    now: Ticks,
    pub epoch: Epoch,
    reading: Reading,
    began: Instant,
    steps: StepWatch,
}

impl Clocks {
    pub fn new(rate: TickRate, schedule: EpochSchedule, data_plane: &mut dyn DataPlane) -> Self {
        let reading = data_plane.clocks();
        let now = data_plane.now();
        Self {
            rate,
            schedule,
            now,
            epoch: schedule.epoch_at(now),
            began: reading.monotonic[0],
            reading,
            steps: StepWatch::default(),
        }
    }

    /// Reads the clocks; returns what is published of the system's.
    pub fn look(&mut self, data_plane: &mut dyn DataPlane) -> Clock {
        self.now = data_plane.now();
        self.epoch = self.schedule.epoch_at(self.now);
        self.reading = data_plane.clocks();
        self.steps.look(self.reading)
    }

    /// The monotonic clock.
    pub fn monotonic(&self) -> Instant {
        self.reading.monotonic[0]
    }

    /// How long ago `then` was.
    pub fn since(&self, then: Instant) -> Duration {
        self.monotonic().saturating_duration_since(then)
    }

    /// How long the control core has run.
    pub fn uptime(&self) -> Duration {
        self.since(self.began)
    }

    /// The end of an epoch by the system's clock, in seconds since 1970.
    pub fn end_unix_s(&self, epoch: Epoch) -> f64 {
        // It is as long ago by the system's clock as by the counter.
        let age_ticks = self
            .now
            .saturating_since(self.schedule.start_of(epoch.next()));
        let age = Duration::from_secs_f64(self.rate.to_ns(age_ticks as f64) / 1e9);
        self.unix().saturating_sub(age).as_secs_f64()
    }

    /// The system's clock, in seconds since 1970.
    pub fn unix_s(&self) -> f64 {
        self.unix().as_secs_f64()
    }

    /// A clock that is set before 1970 shows 1970.
    fn unix(&self) -> Duration {
        let now = self.reading.system.duration_since(UNIX_EPOCH);
        now.unwrap_or_default()
    }
}

fn is_tight(reading: &Reading) -> bool {
    let [before, after] = reading.monotonic;
    after.saturating_duration_since(before) <= READING_MAX
}

/// Seconds by which the system's clock was set forward between two readings; negative for backward.
fn step_s(earlier: &Reading, now: &Reading) -> f64 {
    let by_system_s = match now.system.duration_since(earlier.system) {
        Ok(forward) => forward.as_secs_f64(),
        Err(backward) => -backward.duration().as_secs_f64(),
    };
    let passed = now.monotonic[0].saturating_duration_since(earlier.monotonic[0]);
    by_system_s - passed.as_secs_f64()
}

/// Compares the two clocks from one look to the next.
#[derive(Debug, Default)]
struct StepWatch {
    last: Option<Reading>,
    seen: Clock,
}

impl StepWatch {
    /// Looks at both clocks, and logs a step. Returns all steps since the first look.
    fn look(&mut self, now: Reading) -> Clock {
        if !is_tight(&now) {
            return self.seen;
        }
        let step_s = self.last.map_or(0.0, |last| step_s(&last, &now));
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

    /// Clocks that are set by hand.
    struct ByHand {
        watch: StepWatch,
        now: Reading,
    }

    impl ByHand {
        fn new() -> Self {
            let mut watch = StepWatch::default();
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
