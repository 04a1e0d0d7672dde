//! The clocks at the last poll, and steps of the system's clock since.
//!
//! Epochs and delays are based on the time stamp counter, which nobody sets. Only what is published as a
//! time of day, such as the end of an epoch, follows the system's clock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use contract::wire::clock::SharedLine;
use measure::time::{Epoch, EpochSchedule, TickRate, Ticks};

use crate::contain::{Part, contain};
use crate::data_plane::DataPlane;
use crate::wire::clock::{ClockStatus, TaiClock};
use records::snapshot::Clock;

/// Least step of the system's clock that is published, in nanoseconds.
const STEP_NS_MIN: f64 = 1e8;

/// The counter, the epoch and both clocks at the last poll.
#[derive(Debug)]
pub(super) struct Clocks {
    pub rate: TickRate,
    schedule: EpochSchedule,
    now: Ticks,
    pub epoch: Epoch,
    monotonic: Instant,
    began: Instant,
    pub system: TaiClock,
    /// `None` if reading it has panicked.
    pub status: Option<ClockStatus>,
    /// Number of its steps already reported.
    steps: u64,
    seen: Clock,
}

impl Clocks {
    /// Reads the clocks; workers will read TAI from `line`.
    pub fn new(
        rate: TickRate,
        schedule: EpochSchedule,
        line: Arc<SharedLine>,
        data_plane: &mut dyn DataPlane,
    ) -> Self {
        let monotonic = data_plane.monotonic();
        let mut clocks = Self {
            rate,
            schedule,
            now: Ticks::default(),
            epoch: Epoch::default(),
            monotonic,
            began: monotonic,
            system: TaiClock::new(rate, line),
            status: None,
            steps: 0,
            seen: Clock::default(),
        };
        clocks.look(data_plane, false);
        clocks
    }

    /// Reads the clocks; returns the published state of the system's clock. Logs its steps, and their effect on
    /// wires, if there are any.
    pub fn look(&mut self, data_plane: &mut dyn DataPlane, has_wires: bool) -> Clock {
        self.now = data_plane.now();
        self.epoch = self.schedule.epoch_at(self.now);
        self.monotonic = data_plane.monotonic();
        self.status = contain(Part::Clock, || self.system.look(data_plane));
        let Some(status) = self.status else {
            self.system.start_anew();
            return self.seen;
        };
        let is_new = std::mem::replace(&mut self.steps, status.steps) != status.steps;
        if let Some(by_ns) = status.last_step_ns.filter(|_| is_new) {
            if has_wires {
                tracing::warn!(
                    by_ns,
                    "the system's clock was set: epochs on the wire are marked"
                );
            }
            if by_ns.abs() > STEP_NS_MIN {
                let step_s = by_ns / 1e9;
                self.seen.steps += 1;
                self.seen.last_step_s = step_s;
                tracing::warn!(
                    step_s,
                    "the system's clock was set: times of day change; epochs and delays do not depend on it"
                );
            }
        }
        self.seen
    }

    /// The monotonic clock.
    pub fn monotonic(&self) -> Instant {
        self.monotonic
    }

    /// How long ago `then` was.
    pub fn since(&self, then: Instant) -> Duration {
        self.monotonic.saturating_duration_since(then)
    }

    /// How long the control core has run.
    pub fn uptime(&self) -> Duration {
        self.since(self.began)
    }

    /// The end of an epoch in seconds since 1970, by the system's clock.
    pub fn end_unix_s(&self, epoch: Epoch) -> f64 {
        self.unix_s_at(self.schedule.start_of(epoch.next()))
    }

    /// The system's clock, in seconds since 1970.
    pub fn unix_s(&self) -> f64 {
        self.unix_s_at(self.now)
    }

    fn unix_s_at(&self, ticks: Ticks) -> f64 {
        let tai_ns = self.system.line().map_or(0, |line| line.tai_ns(ticks));
        let tai_utc_s = self.status.map_or(0, |status| status.view.tai_utc_s);
        let ahead = Duration::from_secs(u64::try_from(tai_utc_s).unwrap_or(0));
        Duration::from_nanos(tai_ns)
            .saturating_sub(ahead)
            .as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_plane::SystemTime;

    /// Clocks set by hand, in nanoseconds: the counter, and TAI.
    struct ByHand(u64, u64);

    impl DataPlane for ByHand {
        fn now(&mut self) -> Ticks {
            Ticks(self.0)
        }

        fn system_time(&mut self) -> SystemTime {
            SystemTime {
                tai_ns: self.1,
                tai_utc_s: 37,
            }
        }
    }

    #[test]
    fn a_step_of_a_tenth_of_a_second_is_published_once_and_moves_the_ends_of_epochs() {
        let mut by_hand = ByHand(0, 1_800_000_037_000_000_000);
        let schedule = EpochSchedule::new(Ticks(0), 1_000_000_000, 200_000_000);
        let rate = TickRate::from_hz(1_000_000_000);
        let mut clocks = Clocks::new(rate, schedule, Arc::default(), &mut by_hand);
        for (step_ns, steps, last_step_s, end_s) in [
            (0, 0, 0.0, 1.0),
            (5_000_000, 0, 0.0, 1.005),
            (-255_000_000, 1, -0.255, 0.75),
            (0, 1, -0.255, 0.75),
            (3_600_000_000_000, 2, 3_600.0, 3_600.75),
        ] {
            by_hand.1 = by_hand.1.wrapping_add_signed(step_ns);
            for _ in 0..40 {
                (by_hand.0, by_hand.1) = (by_hand.0 + 20_000_000, by_hand.1 + 20_000_000);
                clocks.look(&mut by_hand, true);
            }
            let seen = clocks.look(&mut by_hand, true);
            assert_eq!(seen.steps, steps);
            assert!((seen.last_step_s - last_step_s).abs() < 1e-6, "{seen:?}");
            let off_s = clocks.end_unix_s(Epoch(0)) - 1_800_000_000.0 - end_s;
            assert!(off_s.abs() < 1e-5, "{off_s}");
        }
    }
}
