//! A distribution in half a kilobyte: one for each of many flows.

use super::{bucket_of, middle_ns, rank};

/// Buckets an octave; their logarithm.
const SUB_BITS: u32 = 2;
/// Octaves from 1 ns on: delays over 4.3 s count in the last bucket.
const OCTAVES: u32 = 32;
const BUCKETS: usize = ((OCTAVES - SUB_BITS + 1) << SUB_BITS) as usize;

/// Delays of one flow over one epoch: four buckets an octave up to 4.3 s, and the exact maximum. 504 bytes.
///
/// Counts stay at 2^32 - 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmallHistogram {
    max_ns: u64,
    counts: [u32; BUCKETS],
}

impl Default for SmallHistogram {
    fn default() -> Self {
        Self {
            max_ns: 0,
            counts: [0; BUCKETS],
        }
    }
}

impl SmallHistogram {
    /// Adds `packets` packets of one delay in nanoseconds.
    #[inline]
    pub fn add(&mut self, delay_ns: u64, packets: u32) {
        self.max_ns = self.max_ns.max(delay_ns);
        let bucket = bucket_of::<SUB_BITS>(delay_ns).min(BUCKETS - 1);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count = count.saturating_add(packets);
        }
    }

    /// Adds the packets of another.
    pub fn merge(&mut self, other: &Self) {
        self.max_ns = self.max_ns.max(other.max_ns);
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine = mine.saturating_add(*theirs);
        }
    }

    /// Packets.
    pub fn count(&self) -> u64 {
        self.counts.iter().copied().map(u64::from).sum()
    }

    /// The greatest delay; `None` without packets.
    pub fn max_ns(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.max_ns)
    }

    /// The delay that the share `q` of packets (0 to 1) did not exceed, in ns: the middle of its bucket, at most
    /// an eighth off, or the maximum, where that is less or the packet is the slowest. `None` without packets.
    pub fn quantile_ns(&self, q: f64) -> Option<u64> {
        let count = self.count();
        let rank = rank(q, count);
        if rank >= count {
            return self.max_ns();
        }
        let mut below = 0;
        let bucket = self.counts.iter().position(|&packets| {
            below += u64::from(packets);
            below >= rank
        })?;
        Some(middle_ns::<SUB_BITS>(bucket).min(self.max_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn histogram_of(delays_ns: &[u64]) -> SmallHistogram {
        let mut histogram = SmallHistogram::default();
        for &delay_ns in delays_ns {
            histogram.add(delay_ns, 1);
        }
        histogram
    }

    /// Delays up to 4.3 s of every order of magnitude.
    fn delays() -> impl Strategy<Value = Vec<u64>> {
        let delay = (0_u32..32, any::<u32>()).prop_map(|(shift, bits)| u64::from(bits >> shift));
        proptest::collection::vec(delay, 1..100)
    }

    #[test]
    fn without_packets_nothing_is_said() {
        let empty = SmallHistogram::default();
        assert_eq!((empty.quantile_ns(0.5), empty.max_ns()), (None, None));
    }

    #[test]
    fn the_longest_delays_and_most_packets_stay_in_it() {
        let mut histogram = histogram_of(&[u64::MAX]);
        histogram.add(2, u32::MAX);
        histogram.add(2, 1);
        assert_eq!(histogram.count(), 1 + u64::from(u32::MAX));
        assert_eq!(histogram.quantile_ns(1.0), Some(u64::MAX));
        assert_eq!(histogram.quantile_ns(0.5), Some(2));
        let before = histogram.count();
        histogram.merge(&histogram_of(&[1 << 40]));
        assert_eq!(histogram.count(), before + 1);
    }

    proptest! {
        #[test]
        fn quantiles_are_an_eighth_off_at_most_and_the_maximum_is_exact(
            mut delays in delays(), q in 0.0..=1.0_f64
        ) {
            let histogram = histogram_of(&delays);
            let quantile = histogram.quantile_ns(q).unwrap();
            delays.sort_unstable();
            let rank = usize::try_from(rank(q, delays.len() as u64)).unwrap();
            let exact = delays[rank - 1];
            prop_assert!(quantile.abs_diff(exact) <= (exact / 8).max(1), "{} {}", quantile, exact);
            prop_assert_eq!(histogram.max_ns(), delays.last().copied());
            prop_assert_eq!(histogram.quantile_ns(1.0), histogram.max_ns());
        }

        #[test]
        fn merging_is_the_histogram_of_all(delays in delays(), cut in 0_usize..100) {
            let (a, b) = delays.split_at(cut.min(delays.len()));
            let mut ab = histogram_of(a);
            ab.merge(&histogram_of(b));
            prop_assert_eq!(ab, histogram_of(&delays));
        }
    }
}
