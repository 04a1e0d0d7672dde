//! A limit of rates by source address, in memory of fixed size.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::Duration;

/// Buckets: addresses that share one share its limit.
const BUCKETS: usize = 4_096;

/// Token buckets, each as deep as a second's packets.
#[derive(Debug)]
pub(super) struct Limit {
    pps: u32,
    hasher: RandomState,
    /// Tokens left, and when that was.
    buckets: Vec<(f64, Duration)>,
}

impl Limit {
    pub(super) fn new(pps: u32) -> Self {
        Self {
            pps,
            hasher: RandomState::new(),
            buckets: vec![(f64::from(pps), Duration::ZERO); BUCKETS],
        }
    }

    /// Whether a packet of this source is within the limit; it counts then.
    pub(super) fn takes(&mut self, source: IpAddr, now: Duration) -> bool {
        // Of keys that nobody outside knows.
        let at = self.hasher.hash_one(source) % BUCKETS as u64;
        let bucket = usize::try_from(at)
            .ok()
            .and_then(|at| self.buckets.get_mut(at));
        let Some((tokens, since)) = bucket else {
            return false;
        };
        let pps = f64::from(self.pps);
        *tokens = (*tokens + now.saturating_sub(*since).as_secs_f64() * pps).min(pps);
        *since = now;
        let takes = *tokens >= 1.0;
        *tokens -= f64::from(u8::from(takes));
        takes
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
