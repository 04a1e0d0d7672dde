//! Limits of rates, in memory of fixed size.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::Duration;

/// Buckets: addresses that share one share its limit.
const BUCKETS: usize = 4_096;

/// Bytes that are hashed each second for HMACs that turn out to be wrong: at most a tenth of a CPU.
const WRONG_BYTES_PER_S: f64 = (16 << 20) as f64;

/// Bytes that a check hashes in addition to the packet: a block for the key and one for the outer hash.
const CHECK_BYTES: usize = 128;

/// A token bucket, as deep as a second's tokens.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    per_s: f64,
    left: f64,
    /// When it was filled last.
    filled: Duration,
}

impl Bucket {
    fn full(per_s: f64) -> Self {
        Self {
            per_s,
            left: per_s,
            filled: Duration::ZERO,
        }
    }

    /// Adds the tokens of the time that has passed, and returns what there is.
    fn left(&mut self, now: Duration) -> f64 {
        let passed = now.saturating_sub(self.filled).as_secs_f64();
        self.left = (self.left + passed * self.per_s).min(self.per_s);
        self.filled = self.filled.max(now);
        self.left
    }
}

/// A limit of packets a second by source address.
#[derive(Debug)]
pub(super) struct Limit {
    hasher: RandomState,
    buckets: Vec<Bucket>,
}

impl Limit {
    pub(super) fn new(pps: u32) -> Self {
        Self {
            hasher: RandomState::new(),
            buckets: vec![Bucket::full(f64::from(pps)); BUCKETS],
        }
    }

    /// Whether a packet of this source is within the limit; it counts then.
    pub(super) fn takes(&mut self, source: IpAddr, now: Duration) -> bool {
        // Of keys that nobody outside knows.
        let at = self.hasher.hash_one(source) % BUCKETS as u64;
        let bucket = usize::try_from(at)
            .ok()
            .and_then(|at| self.buckets.get_mut(at));
        let Some(bucket) = bucket else {
            return false;
        };
        let takes = bucket.left(now) >= 1.0;
        bucket.left -= f64::from(u8::from(takes));
        takes
    }
}

/// A limit of the work for HMACs that are wrong, over all sources: addresses are easily forged. Right ones cost nothing here.
#[derive(Debug)]
pub(super) struct Checks(Bucket);

impl Checks {
    pub(super) fn new() -> Self {
        Self(Bucket::full(WRONG_BYTES_PER_S))
    }

    /// Whether another HMAC may be checked.
    pub(super) fn are_left(&mut self, now: Duration) -> bool {
        self.0.left(now) > 0.0
    }

    /// Charges a wrong HMAC over this many bytes.
    pub(super) fn was_wrong(&mut self, bytes: usize) {
        self.0.left -= (bytes + CHECK_BYTES) as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_gets_its_rate_and_no_more() {
        let mut limit = Limit::new(10);
        let (one, other) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let at = |ms| Duration::from_millis(ms);
        let taken = (0..1_000).filter(|_| limit.takes(one, at(0))).count();
        assert_eq!(taken, 10, "a second's packets at once");
        // Unless the two share a bucket: one of 4,096.
        let _ = limit.takes(other, at(0));
        let taken = (0..2_000).filter(|ms| limit.takes(one, at(*ms))).count();
        assert!((19..=20).contains(&taken), "{taken}");
        assert!(
            !limit.takes(one, at(1_000)),
            "time that goes back gives nothing"
        );
    }
}
