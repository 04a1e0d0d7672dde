//! The share of a link for control frames.

use measure::time::{TickRate, Ticks};
use wire::ReferenceShare;

/// Share that may be used at once after a quiet time, in milliseconds,
const SAVED_MS: f64 = 20.0;

/// and at least this many bytes: a few whole frames, so that slow links carry any.
const SAVED_BYTES_LEAST: f64 = 6_000.0;

/// Two token buckets in bytes on the link: for all control frames of a port, and for the references among
/// them, so that these leave the rest to the exchange.
#[derive(Debug, Clone)]
pub struct Share {
    all: Bucket,
    references: Bucket,
}

#[derive(Debug, Clone)]
struct Bucket {
    bytes_per_tick: f64,
    saved_bytes_max: f64,
    saved_bytes: f64,
    at: Ticks,
}

impl Share {
    /// Starts with `share` (over 0, up to 1) of a link of `capacity_bps` at `now`; references may use
    /// `of_share` of it.
    pub fn new(capacity_bps: u64, share: f64, of_share: f64, rate: TickRate, now: Ticks) -> Self {
        let bytes_per_s = capacity_bps as f64 * share / 8.0;
        Self {
            all: Bucket::new(bytes_per_s, rate, now),
            references: Bucket::new(bytes_per_s * of_share, rate, now),
        }
    }

    /// Whether a frame that can wait may be sent at `now`.
    #[inline]
    pub fn allows(&mut self, now: Ticks) -> bool {
        self.all.allows(now)
    }

    /// Whether a reference may be sent at `now`, regardless of other frames: if it waited for them, it would
    /// not directly follow its packet.
    #[inline]
    pub fn of_references(&mut self, now: Ticks) -> ReferenceShare {
        if self.references.allows(now) {
            ReferenceShare::Left
        } else {
            ReferenceShare::Spent
        }
    }

    /// Counts a frame of this many bytes on the link, allowed or not: frames that can wait compensate for
    /// those that cannot.
    #[inline]
    pub fn spend(&mut self, link_bytes: u32) {
        self.all.spend(link_bytes);
    }

    /// The same for a reference.
    #[inline]
    pub fn spend_reference(&mut self, link_bytes: u32) {
        self.spend(link_bytes);
        self.references.spend(link_bytes);
    }
}

impl Bucket {
    fn new(bytes_per_s: f64, rate: TickRate, now: Ticks) -> Self {
        let saved_bytes_max = (bytes_per_s * SAVED_MS / 1e3).max(SAVED_BYTES_LEAST);
        Self {
            bytes_per_tick: bytes_per_s / rate.hz() as f64,
            saved_bytes_max,
            saved_bytes: saved_bytes_max,
            at: now,
        }
    }

    #[inline]
    fn allows(&mut self, now: Ticks) -> bool {
        let ticks = now.signed_since(self.at).max(0);
        self.at = now;
        let saved_bytes = self.saved_bytes + ticks as f64 * self.bytes_per_tick;
        self.saved_bytes = saved_bytes.min(self.saved_bytes_max);
        self.saved_bytes > 0.0
    }

    #[inline]
    fn spend(&mut self, link_bytes: u32) {
        self.saved_bytes -= f64::from(link_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_time_no_more_than_the_share_goes_whatever_is_offered() {
        let rate = TickRate::from_hz(1_000_000_000);
        let mut share = Share::new(1_000_000_000, 0.005, 0.4, rate, Ticks(0));
        let mut sent = 0_u64;
        for now in (0..2_000_000_000_u64).step_by(2_000) {
            // What cannot wait is a part of it.
            if now % 10_000_000 == 0 || share.allows(Ticks(now)) {
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
        let mut share = Share::new(1_000_000_000, 0.005, 0.4, rate, Ticks(1_000));
        share.spend(1_000_000);
        assert!(!share.allows(Ticks(0)));
        assert!(!share.allows(Ticks(1_000)));
    }

    #[test]
    fn references_leave_the_rest_to_others() {
        let rate = TickRate::from_hz(1_000_000_000);
        let mut share = Share::new(1_000_000_000, 0.005, 0.4, rate, Ticks(0));
        let (mut references, mut others) = (0_u64, 0_u64);
        for now in (0..2_000_000_000_u64).step_by(1_000) {
            if share.of_references(Ticks(now)) == ReferenceShare::Left {
                share.spend_reference(142);
                references += 142;
            }
            if share.allows(Ticks(now)) {
                share.spend(1_538);
                others += 1_538;
            }
        }
        assert!(references <= 500_000 + 6_000 + 142, "{references}");
        assert!(others >= 750_000 - 1_538, "{others}");
    }
}
