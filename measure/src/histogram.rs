//! Distribution of a delay in log-linear buckets of whole nanoseconds.

use std::ops::RangeInclusive;

use crate::moments::Moments;
use crate::synopsis::ShapeMismatch;
use crate::time::TickRate;

/// Logarithm of the buckets in an octave.
const SUB_BITS: u32 = 3;
/// Buckets in an octave: the width of a bucket is at most an eighth of its lower bound.
const SUB_BUCKETS: usize = 1 << SUB_BITS;
/// Buckets for all 64-bit nanoseconds: one for each of the first two times eight values, eight for each
/// further octave.
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) * SUB_BUCKETS;

/// Counts of stamped delays at the receiver's end, over the whole range of 64 bits. 4 KiB.
///
/// A delay of `d` ns, rounded down, falls into the octave `(2^k, 2^(k+1)]`, which is divided into eight
/// equal buckets; delays up to 16 ns have a bucket each. Bounds are powers of two in nanoseconds on every
/// host, whatever its counter's rate: Prometheus's `le` bounds are exact, and histograms of different hosts
/// add up.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    rate: TickRate,
    counts: [u64; BUCKETS],
}

/// Index of a delay's bucket, with `2^BITS` buckets an octave; below [`BUCKETS`] for eight.
///
/// Indices start at 1, so that a power of two is the last value of its octave: `le` bounds are inclusive.
#[inline]
fn bucket_of<const BITS: u32>(delay_ns: u64) -> usize {
    let from_one = delay_ns.saturating_sub(1);
    let octave = (from_one | 1 << BITS).ilog2() - BITS;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "under two octaves' buckets"
    )]
    let position = (from_one >> octave) as usize;
    // From the second octave on, `position` itself counts the buckets of one octave below.
    ((octave as usize) << BITS) + position
}

/// Least and greatest delay of a bucket.
fn bounds_ns<const BITS: u32>(bucket: usize) -> RangeInclusive<u64> {
    let octave = (bucket >> BITS).saturating_sub(1);
    let position = (bucket - (octave << BITS)) as u64;
    let least = position << octave;
    let greatest = least + ((1 << octave) - 1);
    let shift = u64::from(bucket > 0);
    least + shift..=greatest.saturating_add(1)
}

/// The middle of a bucket; its delays differ from it by at most half its width.
fn middle_ns<const BITS: u32>(bucket: usize) -> u64 {
    let bounds = bounds_ns::<BITS>(bucket);
    bounds.start().midpoint(*bounds.end())
}

/// The middle in ns of the bucket of a [`Histogram`] for this delay.
pub fn bucket_middle_ns(delay_ns: u64) -> u64 {
    middle_ns::<SUB_BITS>(bucket_of::<SUB_BITS>(delay_ns))
}

/// The rank, among `count` packets with the fastest as 1, of the delay that a share `q` of them do not
/// exceed.
fn rank(q: f64, count: u64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a count of packets; casts saturate"
    )]
    let rank = (q.clamp(0.0, 1.0) * count as f64).ceil() as u64;
    rank.max(1)
}

/// Non-empty buckets from index `first` on: the greatest delay in ns, and the packets.
fn filled(first: usize, counts: &[u64]) -> impl Iterator<Item = (u64, u64)> + '_ {
    let filled = (first..).zip(counts).filter(|(_, packets)| **packets > 0);
    filled.map(|(bucket, &packets)| (*bounds_ns::<SUB_BITS>(bucket).end(), packets))
}

/// The middle in ns of the bucket of the packet with some rank.
fn ranked_ns<const BITS: u32>(mut counts: impl Iterator<Item = u64>, rank: u64) -> Option<u64> {
    let mut below = 0;
    let bucket = counts.position(|packets| {
        below += packets;
        below >= rank
    });
    bucket.map(middle_ns::<BITS>)
}

/// The counts of a histogram from its first non-empty bucket to the last, for keeping many sums.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trimmed {
    first: usize,
    counts: Vec<u64>,
}

impl Trimmed {
    /// Most bytes: those of delays from 1 ns to all 64 bits. From 1 us to 10 ms there are 107 buckets, 856 bytes.
    pub const BYTES_MAX: usize = size_of::<Self>() + BUCKETS * size_of::<u64>();

    /// As [`Histogram::buckets`].
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        filled(self.first, &self.counts)
    }

    /// Adds all packets of a histogram.
    pub fn add(&mut self, histogram: &Histogram) {
        let is_filled = |count: &u64| *count > 0;
        let counts = &histogram.counts;
        let (Some(mut first), Some(mut last)) = (
            counts.iter().position(is_filled),
            counts.iter().rposition(is_filled),
        ) else {
            return;
        };
        if !self.counts.is_empty() {
            first = first.min(self.first);
            last = last.max(self.first + self.counts.len() - 1);
        }
        if last - first >= self.counts.len() {
            let mut wider = vec![0; last - first + 1];
            let offset = self.first.saturating_sub(first);
            for (new, old) in wider.iter_mut().skip(offset).zip(&self.counts) {
                *new = *old;
            }
            (self.first, self.counts) = (first, wider);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&counts[self.first..]) {
            *mine = mine.wrapping_add(*theirs);
        }
    }
}

impl Histogram {
    /// An empty histogram of delays in ticks of `rate`.
    pub fn new(rate: TickRate) -> Self {
        Self {
            rate,
            counts: [0; BUCKETS],
        }
    }

    /// Packets.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The delay that the share `q` of packets (0 to 1) did not exceed, in ns: the middle of its bucket,
    /// off by at most an eighth. `None` without packets.
    pub fn quantile_ns(&self, q: f64) -> Option<u64> {
        ranked_ns::<SUB_BITS>(self.counts.iter().copied(), rank(q, self.count()))
    }

    /// Several quantiles in ns, within the extremes of `moments`, which must be of the same packets. They rise with
    /// their shares and never exceed the maximum. `None` without packets.
    ///
    /// With fewer than `1 / (1 - q)` packets, quantile `q` is the exact maximum instead of a bucket's middle.
    pub fn quantiles_ns<const N: usize>(
        &self,
        shares: [f64; N],
        moments: &Moments,
    ) -> Option<[f64; N]> {
        let min_ns = self.rate.to_ns(moments.min_ticks()? as f64);
        let max_ns = self.rate.to_ns(moments.max_ticks()? as f64);
        let count = self.count();
        let mut quantiles = [max_ns; N];
        for (quantile_ns, q) in quantiles.iter_mut().zip(shares) {
            if rank(q, count) < count {
                // The middle of a bucket may be outside the range of its delays.
                *quantile_ns = (self.quantile_ns(q)? as f64).clamp(min_ns, max_ns);
            }
        }
        Some(quantiles)
    }

    /// The non-empty buckets in ascending order: the greatest delay in ns of each, and its packets.
    ///
    /// From 16 ns on, every `2^k + i 2^k / 8` is such a bound.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        filled(0, &self.counts)
    }

    /// Adds sums collected from histograms of the same rate.
    pub fn add_trimmed(&mut self, trimmed: &Trimmed) {
        let counts = self.counts.iter_mut().skip(trimmed.first);
        for (mine, theirs) in counts.zip(&trimmed.counts) {
            *mine = mine.wrapping_add(*theirs);
        }
    }

    /// Records `packets` packets of equal delay in ticks, as those of a burst usually are.
    #[inline]
    pub fn add_delays(&mut self, delay: u64, packets: u64) {
        if let Some(count) = self
            .counts
            .get_mut(bucket_of::<SUB_BITS>(self.rate.ticks_to_ns(delay)))
        {
            *count += packets;
        }
    }

    pub(crate) fn same_shape(&self, other: &Self) -> Result<(), ShapeMismatch> {
        if self.rate == other.rate {
            return Ok(());
        }
        Err(ShapeMismatch {
            what: "tick rate",
            left: self.rate.hz(),
            right: other.rate.hz(),
        })
    }

    /// Adds the packets of a histogram of the same tick rate.
    ///
    /// # Errors
    /// [`ShapeMismatch`] when the tick rates differ; nothing is added then.
    pub fn merge(&mut self, other: &Self) -> Result<(), ShapeMismatch> {
        self.same_shape(other)?;
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine = mine.wrapping_add(*theirs);
        }
        Ok(())
    }

    /// Removes all packets.
    pub fn clear(&mut self) {
        self.counts.fill(0);
    }
}

/// Logarithm of the buckets in an octave.
const SMALL_SUB_BITS: u32 = 2;
/// Octaves from 1 ns on; delays over 4.3 s count in the last bucket.
const OCTAVES: u32 = 32;
const SMALL_BUCKETS: usize = ((OCTAVES - SMALL_SUB_BITS + 1) << SMALL_SUB_BITS) as usize;

/// Delays of one flow over one epoch: four buckets an octave up to 4.3 s, and the exact maximum. 504 bytes.
///
/// Counts saturate at 2^32 - 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmallHistogram {
    max_ns: u64,
    counts: [u32; SMALL_BUCKETS],
}

impl Default for SmallHistogram {
    fn default() -> Self {
        Self {
            max_ns: 0,
            counts: [0; SMALL_BUCKETS],
        }
    }
}

impl SmallHistogram {
    /// Adds `packets` packets of the same delay in nanoseconds.
    #[inline]
    pub fn add(&mut self, delay_ns: u64, packets: u32) {
        self.max_ns = self.max_ns.max(delay_ns);
        let bucket = bucket_of::<SMALL_SUB_BITS>(delay_ns).min(SMALL_BUCKETS - 1);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count = count.saturating_add(packets);
        }
    }

    /// Adds the packets of another histogram.
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

    /// The delay that the share `q` of packets (0 to 1) did not exceed, in ns: the middle of its bucket, off by
    /// at most an eighth, or the maximum, if that is less or the packet is the slowest. `None` without packets.
    pub fn quantile_ns(&self, q: f64) -> Option<u64> {
        let count = self.count();
        let rank = rank(q, count);
        if rank >= count {
            return self.max_ns();
        }
        let counts = self.counts.iter().copied().map(u64::from);
        Some(ranked_ns::<SMALL_SUB_BITS>(counts, rank)?.min(self.max_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A tick is a nanosecond.
    fn rate() -> TickRate {
        TickRate::from_hz(1_000_000_000)
    }

    fn histogram_of(delays_ns: &[u64]) -> Histogram {
        let mut histogram = Histogram::new(rate());
        for &delay in delays_ns {
            histogram.add_delays(delay, 1);
        }
        histogram
    }

    fn moments_of(delays_ns: &[u64]) -> Moments {
        let mut moments = Moments::default();
        for &delay in delays_ns {
            moments.add_delays(delay, 1);
        }
        moments
    }

    /// Delays of every order of magnitude.
    fn delays() -> impl Strategy<Value = Vec<u64>> {
        let delay = (0_u32..64, any::<u64>()).prop_map(|(shift, bits)| bits >> shift);
        proptest::collection::vec(delay, 1..100)
    }

    #[test]
    fn buckets_tile_all_of_64_bits() {
        let mut next = 0;
        for bucket in 0..BUCKETS {
            let bounds = bounds_ns::<SUB_BITS>(bucket);
            assert_eq!(*bounds.start(), next, "bucket {bucket}");
            assert_eq!(bucket_of::<SUB_BITS>(*bounds.start()), bucket);
            assert_eq!(bucket_of::<SUB_BITS>(*bounds.end()), bucket);
            next = bounds.end().wrapping_add(1);
        }
        assert_eq!(next, 0, "the last ends with u64::MAX");
    }

    #[test]
    fn ticks_become_nanoseconds() {
        let mut histogram = Histogram::new(TickRate::from_hz(2_500_000_000));
        histogram.add_delays(2_500, 1);
        assert!(histogram.buckets().eq([(1_024, 1)]));
    }

    #[test]
    fn nothing_seen_is_nothing_said() {
        let empty = histogram_of(&[]);
        assert_eq!(empty.quantile_ns(0.5), None);
        assert_eq!(empty.quantiles_ns([0.5], &Moments::default()), None);
        assert_eq!(empty.buckets().next(), None);
        let small = SmallHistogram::default();
        assert_eq!((small.quantile_ns(0.5), small.max_ns()), (None, None));
    }

    #[test]
    fn other_rates_are_refused() {
        let mut histogram = histogram_of(&[5]);
        let before = histogram.clone();
        let other = Histogram::new(TickRate::from_hz(3_000_000_000));
        assert_eq!(histogram.merge(&other).unwrap_err().what, "tick rate");
        assert_eq!(histogram, before);
    }

    #[test]
    fn of_few_packets_the_tail_is_the_maximum() {
        let delays: Vec<u64> = (0..999).map(|n| 1_000 + n).collect();
        let (histogram, moments) = (histogram_of(&delays), moments_of(&delays));
        let tails = histogram.quantiles_ns([0.99, 0.999, 0.9999], &moments);
        let tails = tails.unwrap();
        let is_maximum = tails.map(|tail| (tail - 1_998.0).abs() < 1e-9);
        assert_eq!(is_maximum, [false, true, true], "{tails:?}");
    }

    proptest! {
        #[test]
        fn many_quantiles_rise_to_the_maximum_and_are_near_the_exact_ones(
            mut delays in delays(), mut shares in [0.0..=1.0_f64, 0.0..=1.0, 0.9..=1.0]
        ) {
            shares.sort_by(f64::total_cmp);
            let (histogram, moments) = (histogram_of(&delays), moments_of(&delays));
            let quantiles = histogram.quantiles_ns(shares, &moments).unwrap();
            delays.sort_unstable();
            prop_assert!(quantiles.is_sorted());
            let max_ns = rate().to_ns(*delays.last().unwrap() as f64);
            prop_assert!(quantiles[2] <= max_ns);
            for (q, quantile) in shares.into_iter().zip(quantiles) {
                let rank = usize::try_from(rank(q, delays.len() as u64)).unwrap();
                let exact = delays[rank - 1] as f64;
                // An eighth of an octave, and the nanosecond by which delays are rounded.
                let most = (2_f64.powf(0.125) - 1.0) * exact + 1.0;
                prop_assert!((quantile - exact).abs() <= most, "{quantile} {exact}");
            }
        }

        #[test]
        fn trimmed_sums_are_the_histogram_of_all(delays in delays(), more in delays()) {
            let mut trimmed = Trimmed::default();
            trimmed.add(&histogram_of(&[]));
            trimmed.add(&histogram_of(&delays));
            trimmed.add(&histogram_of(&more));
            let mut sum = histogram_of(&[]);
            sum.add_trimmed(&trimmed);
            let all = [delays, more].concat();
            prop_assert_eq!(sum, histogram_of(&all));
            let bytes = size_of::<Trimmed>() + trimmed.counts.capacity() * size_of::<u64>();
            prop_assert!(bytes <= Trimmed::BYTES_MAX);
        }

        #[test]
        fn quantiles_are_an_eighth_off_at_most(mut delays in delays(), q in 0.0..=1.0_f64) {
            let quantile = histogram_of(&delays).quantile_ns(q).unwrap();
            delays.sort_unstable();
            #[expect(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "a rank")]
            let rank = (q * delays.len() as f64).ceil().max(1.0) as usize;
            let exact = delays[rank - 1];
            prop_assert!(quantile.abs_diff(exact) <= (exact / 8).max(1));
        }

        #[test]
        fn counts_of_buckets_are_exact(delays in delays()) {
            let histogram = histogram_of(&delays);
            let mut cumulative = 0;
            for (bound_ns, packets) in histogram.buckets() {
                cumulative += packets;
                let exact = delays.iter().filter(|&&delay| delay <= bound_ns).count() as u64;
                prop_assert_eq!(cumulative, exact);
            }
            prop_assert_eq!(histogram.count(), delays.len() as u64);
        }
    }

    fn small_of(delays_ns: &[u64]) -> SmallHistogram {
        let mut histogram = SmallHistogram::default();
        for &delay_ns in delays_ns {
            histogram.add(delay_ns, 1);
        }
        histogram
    }

    /// Delays up to 4.3 s of every order of magnitude.
    fn short_delays() -> impl Strategy<Value = Vec<u64>> {
        let delay = (0_u32..32, any::<u32>()).prop_map(|(shift, bits)| u64::from(bits >> shift));
        proptest::collection::vec(delay, 1..100)
    }

    #[test]
    fn the_longest_delays_and_most_packets_stay_in_it() {
        let mut histogram = small_of(&[u64::MAX]);
        histogram.add(2, u32::MAX);
        histogram.add(2, 1);
        assert_eq!(histogram.count(), 1 + u64::from(u32::MAX));
        assert_eq!(histogram.quantile_ns(1.0), Some(u64::MAX));
        assert_eq!(histogram.quantile_ns(0.5), Some(2));
        let before = histogram.count();
        histogram.merge(&small_of(&[1 << 40]));
        assert_eq!(histogram.count(), before + 1);
    }

    proptest! {
        #[test]
        fn quantiles_are_an_eighth_off_at_most_and_the_maximum_is_exact(
            mut delays in short_delays(), q in 0.0..=1.0_f64
        ) {
            let histogram = small_of(&delays);
            let quantile = histogram.quantile_ns(q).unwrap();
            delays.sort_unstable();
            let rank = usize::try_from(rank(q, delays.len() as u64)).unwrap();
            let exact = delays[rank - 1];
            prop_assert!(quantile.abs_diff(exact) <= (exact / 8).max(1), "{} {}", quantile, exact);
            prop_assert_eq!(histogram.max_ns(), delays.last().copied());
            prop_assert_eq!(histogram.quantile_ns(1.0), histogram.max_ns());
        }

        #[test]
        fn merging_small_ones_is_the_histogram_of_all(delays in short_delays(), cut in 0_usize..100) {
            let (a, b) = delays.split_at(cut.min(delays.len()));
            let mut ab = small_of(a);
            ab.merge(&small_of(b));
            prop_assert_eq!(ab, small_of(&delays));
        }
    }
}
