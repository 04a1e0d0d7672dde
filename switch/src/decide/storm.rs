//! The storm limit: how many frames of a port are flooded.

use measure::time::{TickRate, Ticks};

/// Parts of a frame that are counted: 2^-32.
const FRAME: u64 = 1 << 32;

/// Least number of frames that may be flooded at once after a quiet time, so that a burst of
/// broadcasts passes.
const BURST_FRAMES_MIN: u64 = 64;

/// What may be flooded at once, as a share of a second's: a hundredth.
const BURST_SHARE: u64 = 100;

/// A token bucket.
#[derive(Debug, Clone, Copy)]
pub struct StormLimit {
    /// In parts of a frame.
    level: u64,
    level_max: u64,
    per_tick: u64,
    filled_at: Ticks,
}

impl StormLimit {
    /// At most `frames_per_s` a second, and the greater of 64 and a hundredth of that at once.
    pub fn new(frames_per_s: u32, rate: TickRate) -> Self {
        let burst = (u64::from(frames_per_s) / BURST_SHARE).max(BURST_FRAMES_MIN);
        Self {
            level: burst * FRAME,
            level_max: burst * FRAME,
            per_tick: ((u64::from(frames_per_s) << 32) / rate.hz()).max(1),
            filled_at: Ticks(0),
        }
    }

    /// Whether one more frame may be flooded at `now`.
    #[inline]
    pub fn takes(&mut self, now: Ticks) -> bool {
        let ticks = now.saturating_since(self.filled_at);
        self.filled_at = now;
        let gain = ticks.saturating_mul(self.per_tick);
        self.level = self.level.saturating_add(gain).min(self.level_max);
        let is_free = self.level >= FRAME;
        if is_free {
            self.level -= FRAME;
        }
        is_free
    }

    /// Continues from `old`.
    pub fn adopt(&mut self, old: &Self) {
        self.level = old.level.min(self.level_max);
        self.filled_at = old.filled_at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// As many as a bucket of real numbers lets through, but for rounding.
        #[test]
        fn the_rate_is_kept(
            frames_per_s in 1u32..10_000_000,
            pauses in prop::collection::vec(0u64..30_000_000, 1..100),
        ) {
            let rate = TickRate::from_hz(3_000_000_000);
            let mut limit = StormLimit::new(frames_per_s, rate);
            let burst = f64::from((frames_per_s / 100).max(64));
            let (mut now, mut level, mut spent) = (0, burst, 0.0);
            for pause in pauses {
                now += pause;
                level = (level + f64::from(frames_per_s) * pause as f64 / rate.hz() as f64).min(burst);
                // No more than the model has, and no less than a frame under it; the rate is rounded
                // down to a multiple of 0.7 frames a second.
                let rounding = 1.0 + now as f64 / rate.hz() as f64;
                let mut passed = 0.0;
                while limit.takes(Ticks(now)) {
                    passed += 1.0;
                }
                prop_assert!(passed <= level + 1e-6, "{} of {}", passed, level);
                prop_assert!(passed > level - rounding, "{} of {}", passed, level);
                level -= passed;
                spent += passed;
            }
            prop_assert!(spent <= burst + f64::from(frames_per_s) * now as f64 / rate.hz() as f64 + 1e-6);
        }
    }

    #[test]
    fn a_quiet_time_saves_up_no_more_than_the_burst() {
        let mut limit = StormLimit::new(1_000, TickRate::from_hz(1_000_000_000));
        let flooded =
            |limit: &mut StormLimit, now| (0..10_000).filter(|_| limit.takes(Ticks(now))).count();
        assert_eq!(flooded(&mut limit, 0), 64);
        assert_eq!(
            flooded(&mut limit, 10_000_000),
            9,
            "10 ms, and the rate is rounded down"
        );
        assert_eq!(flooded(&mut limit, u64::MAX / 2), 64);
    }
}
