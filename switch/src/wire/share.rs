//! The share of a link that control frames may take.

use measure::time::TickRate;

/// How much may go at once after a quiet time, in milliseconds of the share.
const SAVED_MS: f64 = 20.0;

/// And in bytes at least: a few whole frames, so that slow links carry any.
const SAVED_BYTES_LEAST: f64 = 6_000.0;

/// A token bucket over all control frames of a port, in bytes on the link.
#[derive(Debug, Clone)]
pub struct Share {
    bytes_per_tick: f64,
    saved_bytes_max: f64,
    saved_bytes: f64,
    at: u64,
}

impl Share {
    /// `share` (over 0, up to 1) of a link of `capacity_bps`, from `now` on.
    pub fn new(capacity_bps: u64, share: f64, rate: TickRate, now: u64) -> Self {
        let bytes_per_s = capacity_bps as f64 * share / 8.0;
        let saved_bytes_max = (bytes_per_s * SAVED_MS / 1e3).max(SAVED_BYTES_LEAST);
        Self {
            bytes_per_tick: bytes_per_s / rate.hz() as f64,
            saved_bytes_max,
            saved_bytes: saved_bytes_max,
            at: now,
        }
    }

    /// Whether a frame that can wait may go at `now`.
    #[inline]
    pub fn allows(&mut self, now: u64) -> bool {
        let ticks = now.wrapping_sub(self.at).cast_signed().max(0);
        self.at = now;
        let saved_bytes = self.saved_bytes + ticks as f64 * self.bytes_per_tick;
        self.saved_bytes = saved_bytes.min(self.saved_bytes_max);
        self.saved_bytes > 0.0
    }

    /// A frame of so many bytes on the link has gone, allowed or not: what could not wait is made up
    /// for by what can.
    #[inline]
    pub fn spend(&mut self, link_bytes: u32) {
        self.saved_bytes -= f64::from(link_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_time_no_more_than_the_share_goes_whatever_is_offered() {
        let rate = TickRate::from_hz(1_000_000_000);
        let mut share = Share::new(1_000_000_000, 0.005, rate, 0);
        let mut sent = 0_u64;
        for now in (0..2_000_000_000_u64).step_by(2_000) {
            // What cannot wait is a part of it.
            if now % 10_000_000 == 0 || share.allows(now) {
                share.spend(1_538);
                sent += 1_538;
            }
        }
        let (saved, allowed) = (12_500, 1_250_000);
        assert!(sent <= allowed + saved + 2 * 1_538, "{sent}");
        assert!(sent >= allowed - 1_538, "{sent}");
    }

    #[test]
    fn a_clock_that_goes_back_gives_nothing() {
        let rate = TickRate::from_hz(1_000_000_000);
        let mut share = Share::new(1_000_000_000, 0.005, rate, 1_000);
        share.spend(1_000_000);
        assert!(!share.allows(0));
        assert!(!share.allows(1_000));
    }
}
