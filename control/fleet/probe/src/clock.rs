//! Tells clocks that were set from a network that changed. This machine's clock is compared with one that never
//! steps, the reflector's with the delays of both directions.
//!
//! ```text
//!                        least forward   least backward   least round trip
//!  path gets longer             + d               0                + d
//!  both directions do           + d             + e            + d + e
//!  other clock is set           + s             - s                  0
//! ```
//!
//! A session's least delays of an interval are compared with the medians of earlier intervals. Half the difference of
//! what both directions rose by may be a step; the rise of the least round trip is due to the network. A network
//! whose paths only get longer, or only shorter, changes the round trip by at least twice that half difference; a
//! step does not. The same is true of the interval in which the clock is set: there, the least delay of one direction
//! is from before the step, and that of the other from after it. The threshold of a step is a multiple of the
//! offset's usual deviation, so that neither jitter nor a drifting clock counts as one.

use std::collections::VecDeque;
use std::time::Instant;

use serde::Serialize;

use crate::wire::UnixNs;

/// This machine's clock was set if it differs by more than this from a clock that never steps. The kernel cannot slew
/// it by as much in one loop.
const LOCAL_STEP_NS_MIN: f64 = 100_000.0;

/// Two readings of clocks further apart than this are ignored.
const READING_NS_MAX: u128 = 20_000;

/// Steps of this machine's system clock.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LocalClock {
    /// How often it was set since the start.
    pub steps: u32,
    /// The last step in ns; positive if the clock was set ahead.
    pub step_ns: f64,
    /// The system's clock minus the one that never steps, in ns.
    ahead_ns: Option<f64>,
}

impl LocalClock {
    /// Compares the system's clock with the one that never steps, since `start`.
    pub fn watch(&mut self, start: Instant) {
        let before = Instant::now();
        let wall = UnixNs::now();
        if before.elapsed().as_nanos() > READING_NS_MAX {
            return;
        }
        let monotonic = before.duration_since(start).as_secs_f64() * 1e9;
        // Both are below 2^61, so that their difference is exact to a quarter of a microsecond.
        let ahead_ns = wall.0 as f64 - monotonic;
        let moved_ns = self.ahead_ns.map_or(0.0, |before| ahead_ns - before);
        if moved_ns.abs() > LOCAL_STEP_NS_MIN {
            self.steps = self.steps.wrapping_add(1);
            self.step_ns = moved_ns;
            tracing::warn!(
                "the clock of this machine was set by {:.6} s",
                moved_ns / 1e9
            );
        }
        self.ahead_ns = Some(ahead_ns);
    }
}

/// Limit of earlier intervals that the present one is compared with.
const HISTORY: usize = 16;

/// With fewer intervals there is no verdict.
const HISTORY_MIN: usize = 3;

/// A step is at least this many times the median deviation of the offset,
const DEVIATIONS: f64 = 8.0;

/// and at least this. Timestamps taken by programs differ by less if they wait for a busy CPU.
const STEP_NS_MIN: f64 = 500_000.0;

/// What the difference of two clocks did in an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ClockState {
    /// There are too few intervals with replies since the start, or since a step.
    #[default]
    Unknown,
    /// As in the intervals before, or drifting steadily.
    Steady,
    /// The clock of the session-sender's machine was set in this interval.
    SenderStepped,
    /// The difference of the clocks has stepped without a step of the sender's clock: the reflector's was
    /// set.
    ReflectorStepped,
}

impl ClockState {
    /// Whether a clock was set.
    pub fn has_stepped(self) -> bool {
        matches!(self, Self::SenderStepped | Self::ReflectorStepped)
    }
}

/// The difference of both clocks in an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Offset {
    /// Whether a clock was set.
    pub state: ClockState,
    /// The reflector's clock minus the sender's in ns, if both directions take equally long: half the difference of
    /// the least delays. `None` without replies.
    pub offset_ns: Option<f64>,
    /// The step in ns, if there was one and its size is known.
    pub step_ns: Option<f64>,
}

/// The least delays of an interval, in ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Least {
    /// To the reflector.
    pub forward_ns: f64,
    /// Back from it.
    pub backward_ns: f64,
    /// There and back, of the same packet.
    pub round_trip_ns: f64,
    /// The offset by the last reply: after the step, if there was one.
    pub last_offset_ns: f64,
}

impl Least {
    fn offset_ns(self) -> f64 {
        (self.forward_ns - self.backward_ns) / 2.0
    }
}

/// Watches the clocks of one session.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    history: VecDeque<Least>,
}

impl Watch {
    /// Records an interval: its least delays, if there were replies, and the step of the sender's clock in it, if
    /// any.
    pub fn take(&mut self, least: Option<Least>, sender_step_ns: Option<f64>) -> Offset {
        if let Some(step_ns) = sender_step_ns {
            self.history.clear();
            return Offset {
                state: ClockState::SenderStepped,
                // A clock that is set ahead makes the other fall behind.
                step_ns: Some(-step_ns),
                ..Offset::default()
            };
        }
        let Some(least) = least else {
            return Offset::default();
        };
        let mut offset = Offset {
            offset_ns: Some(least.offset_ns()),
            ..Offset::default()
        };
        if self.history.len() >= HISTORY_MIN {
            let step_ns = self.step_ns(least);
            if step_ns.is_some() {
                // This interval mixes delays from before and after the step; the next starts a new history.
                self.history.clear();
                return Offset {
                    state: ClockState::ReflectorStepped,
                    offset_ns: Some(least.last_offset_ns),
                    step_ns,
                };
            }
            offset.state = ClockState::Steady;
        }
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(least);
        offset
    }

    /// By how much the offset stepped, if it did.
    fn step_ns(&self, least: Least) -> Option<f64> {
        let of = |of: fn(&Least) -> f64| median(self.history.iter().map(of));
        let forward_ns = least.forward_ns - of(|least| least.forward_ns);
        let backward_ns = least.backward_ns - of(|least| least.backward_ns);
        let usual_ns = of(|least| least.offset_ns());
        let deviation_ns =
            median((self.history.iter()).map(|least| (least.offset_ns() - usual_ns).abs()));
        let moved_ns = (forward_ns - backward_ns) / 2.0;
        let network_ns = least.round_trip_ns - of(|least| least.round_trip_ns);
        let threshold_ns = STEP_NS_MIN.max(DEVIATIONS * deviation_ns);
        let is_step = moved_ns.abs() > threshold_ns && network_ns.abs() < moved_ns.abs();
        is_step.then_some(least.last_offset_ns - usual_ns)
    }
}

/// The median; 0 if there are no values.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    measure::statistics::median(&mut values.collect::<Vec<_>>()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn least(forward_us: f64, backward_us: f64) -> Least {
        Least {
            forward_ns: forward_us * 1e3,
            backward_ns: backward_us * 1e3,
            round_trip_ns: (forward_us + backward_us) * 1e3,
            last_offset_ns: (forward_us - backward_us) * 500.0,
        }
    }

    fn watched(intervals: usize) -> Watch {
        let mut watch = Watch::default();
        for index in 0..intervals {
            let noise = (index % 3) as f64;
            watch.take(Some(least(100.0 + noise, 120.0 - noise / 2.0)), None);
        }
        watch
    }

    #[test]
    fn a_step_is_flagged_once_and_measured() {
        for step_us in [1_500.0, -1_500.0, 1e6, -3.6e9] {
            let mut watch = watched(10);
            let offset = watch.take(Some(least(100.0 + step_us, 120.0 - step_us)), None);
            assert_eq!(offset.state, ClockState::ReflectorStepped);
            let step_ns = offset.step_ns.unwrap();
            assert!((step_ns / 1e3 - step_us).abs() < 5.0, "{step_ns}");
            for expected in [
                ClockState::Unknown,
                ClockState::Unknown,
                ClockState::Unknown,
                ClockState::Steady,
            ] {
                let offset = watch.take(Some(least(100.0 + step_us, 120.0 - step_us)), None);
                assert_eq!(offset.state, expected);
            }
        }
    }

    #[test]
    fn a_step_within_an_interval_is_flagged_there() {
        let mut watch = watched(10);
        // Set ahead by 2 ms: the least forward delay is from before, the least backward delay from after.
        let mixed = Least {
            forward_ns: 100e3,
            backward_ns: 120e3 - 2e6,
            round_trip_ns: 220e3,
            last_offset_ns: -10e3 + 2e6,
        };
        let offset = watch.take(Some(mixed), None);
        assert_eq!(offset.state, ClockState::ReflectorStepped);
        assert!((offset.step_ns.unwrap() - 2e6).abs() < 5e3);
        for _ in 0..20 {
            let offset = watch.take(Some(least(2_100.0, -1_880.0)), None);
            assert!(!offset.state.has_stepped());
        }
    }

    #[test]
    fn a_network_that_changes_is_no_step() {
        let changes = [
            (5_000.0, 0.0),
            (0.0, 5_000.0),
            (3_000.0, 7_000.0),
            (-50.0, 0.0),
            (-90.0, -20.0),
        ];
        for (forward_us, backward_us) in changes {
            let mut watch = watched(10);
            for _ in 0..20 {
                let offset = watch.take(Some(least(100.0 + forward_us, 120.0 + backward_us)), None);
                assert_eq!(
                    offset.state,
                    ClockState::Steady,
                    "{forward_us} {backward_us}"
                );
            }
        }
    }

    #[test]
    fn a_clock_that_drifts_is_no_step_and_one_that_steps_besides_is() {
        let mut watch = Watch::default();
        let drift_us = |interval: u32| 50.0 * f64::from(interval);
        for interval in 0..40 {
            let offset = watch.take(
                Some(least(
                    100.0 + drift_us(interval),
                    100.0 - drift_us(interval),
                )),
                None,
            );
            assert!(!offset.state.has_stepped(), "{interval}");
        }
        let there_us = drift_us(40) + 10_000.0;
        let offset = watch.take(Some(least(100.0 + there_us, 100.0 - there_us)), None);
        assert_eq!(offset.state, ClockState::ReflectorStepped);
    }

    #[test]
    fn the_senders_own_step_is_its_own() {
        let mut watch = watched(10);
        let offset = watch.take(Some(least(1_100.0, -880.0)), Some(-1e6));
        assert_eq!(offset.state, ClockState::SenderStepped);
        assert_eq!(offset.step_ns, Some(1e6));
        assert_eq!(
            watch.take(Some(least(1_100.0, -880.0)), None).state,
            ClockState::Unknown
        );
    }

    #[test]
    fn without_replies_nothing_is_said_and_nothing_forgotten() {
        let mut watch = watched(10);
        assert_eq!(watch.take(None, None), Offset::default());
        assert_eq!(
            watch.take(Some(least(100.0, 120.0)), None).state,
            ClockState::Steady
        );
    }

    proptest! {
        /// Queues make delays longer than the minimum, in each direction independently, whatever the seed.
        #[test]
        fn queues_are_no_steps(
            queues in proptest::collection::vec((1e-9..1.0_f64, 1e-9..1.0_f64), 4..200), mean_us in 1.0..1e5_f64,
        ) {
            let mut watch = Watch::default();
            for (forward, backward) in queues {
                let delay = |share: f64| 100.0 - mean_us * share.ln();
                let offset = watch.take(Some(least(delay(forward), delay(backward))), None);
                // With few intervals, the deviation is a guess.
                if watch.history.len() == HISTORY {
                    prop_assert!(!offset.state.has_stepped());
                }
            }
        }
    }
}
