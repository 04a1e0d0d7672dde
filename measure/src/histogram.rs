//! Distribution of a delay in log-linear buckets of whole nanoseconds.

use std::ops::RangeInclusive;

use crate::observation::{End, Observation};
use crate::synopsis::{ShapeMismatch, Synopsis};
use crate::time::TickRate;

/// Buckets an octave; their logarithm.
const SUB_BITS: u32 = 3;
/// Buckets an octave: a bucket is at most an eighth of its lower bound wide.
const SUB_BUCKETS: usize = 1 << SUB_BITS;
/// Buckets over all 64-bit nanoseconds: one for each of the first two times eight values, eight
/// for each further octave.
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) * SUB_BUCKETS;

/// Counts of stamped delays, from the receiver's end, over the whole range of 64 bits.
///
/// A delay of `d` ns, rounded down, falls in the octave `(2^k, 2^(k+1)]`, cut into eight equal
/// buckets; delays up to 16 ns have a bucket each. Bounds are powers of two in nanoseconds on
/// every host, however fast its counter runs: Prometheus's `le` bounds are exact, and histograms
/// of different hosts add up. 4 KiB.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    rate: TickRate,
    counts: [u64; BUCKETS],
}

/// The bucket of a delay, under [`BUCKETS`].
///
/// Counted from 1, so that powers of two close an octave: `le` bounds include themselves.
#[inline]
fn bucket_of(delay_ns: u64) -> usize {
    let from_one = delay_ns.saturating_sub(1);
    let octave = (from_one | SUB_BUCKETS as u64).ilog2() - SUB_BITS;
    #[expect(clippy::cast_possible_truncation, reason = "under 16")]
    let position = (from_one >> octave) as usize;
    // From the second octave on, `position` itself counts eight of the buckets below.
    octave as usize * SUB_BUCKETS + position
}

/// Least and greatest delay of a bucket.
fn bounds_ns(bucket: usize) -> RangeInclusive<u64> {
    let octave = (bucket / SUB_BUCKETS).saturating_sub(1);
    let position = (bucket - octave * SUB_BUCKETS) as u64;
    let least = position << octave;
    let greatest = least + ((1 << octave) - 1);
    let shift = u64::from(bucket > 0);
    least + shift..=greatest.saturating_add(1)
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

    /// The delay that the share `q` of packets (0 to 1) did not exceed, in ns: the middle of its
    /// bucket, at most an eighth off. `None` without packets.
    pub fn quantile_ns(&self, q: f64) -> Option<u64> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a count of packets; casts saturate"
        )]
        let rank = ((q.clamp(0.0, 1.0) * self.count() as f64).ceil() as u64).max(1);
        let mut below = 0;
        let bucket = self.counts.iter().position(|&count| {
            below += count;
            below >= rank
        })?;
        let bounds = bounds_ns(bucket);
        Some(bounds.start().midpoint(*bounds.end()))
    }

    /// For each k from 0 to 63: the bound `2^k` ns and the packets at most that late.
    pub fn octaves(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let (mut buckets, mut cumulative) = (0, 0);
        (0..u64::BITS).map(move |k| {
            let bound_ns = 1 << k;
            let end = bucket_of(bound_ns) + 1;
            cumulative += self.counts[buckets..end].iter().sum::<u64>();
            buckets = end;
            (bound_ns, cumulative)
        })
    }

    /// Records `packets` packets of equal delay: those of one burst usually are.
    #[inline]
    pub(crate) fn add_delays(&mut self, delay: u64, packets: u64) {
        if let Some(count) = self.counts.get_mut(bucket_of(self.rate.ticks_to_ns(delay))) {
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
}

impl Synopsis for Histogram {
    type Item = Observation;

    #[inline]
    fn record(&mut self, end: End, observations: &[Observation]) {
        if end == End::Sender {
            return;
        }
        for run in observations.chunk_by(|a, b| a.delay == b.delay) {
            self.add_delays(run[0].delay, run.len() as u64);
        }
    }

    fn merge(&mut self, other: &Self) -> Result<(), ShapeMismatch> {
        self.same_shape(other)?;
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine = mine.wrapping_add(*theirs);
        }
        Ok(())
    }

    fn clear(&mut self) {
        self.counts.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::tests::observation_with_delay;
    use proptest::prelude::*;

    /// A tick is a nanosecond.
    fn rate() -> TickRate {
        TickRate::from_hz(1_000_000_000)
    }

    fn histogram_of(delays_ns: &[u64]) -> Histogram {
        let mut histogram = Histogram::new(rate());
        for &delay in delays_ns {
            histogram.record(End::Sender, &[observation_with_delay(delay)]);
            histogram.record(End::Receiver, &[observation_with_delay(delay)]);
        }
        histogram
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
            let bounds = bounds_ns(bucket);
            assert_eq!(*bounds.start(), next, "bucket {bucket}");
            assert_eq!(bucket_of(*bounds.start()), bucket);
            assert_eq!(bucket_of(*bounds.end()), bucket);
            next = bounds.end().wrapping_add(1);
        }
        assert_eq!(next, 0, "the last ends with u64::MAX");
    }

    #[test]
    fn ticks_become_nanoseconds() {
        let mut histogram = Histogram::new(TickRate::from_hz(2_500_000_000));
        histogram.record(End::Receiver, &[observation_with_delay(2_500)]);
        let mut octaves = histogram.octaves().skip(9);
        assert_eq!(octaves.next(), Some((512, 0)));
        assert_eq!(octaves.next(), Some((1_024, 1)));
    }

    #[test]
    fn nothing_seen_is_nothing_said() {
        let empty = histogram_of(&[]);
        assert_eq!(empty.quantile_ns(0.5), None);
        assert_eq!(empty.octaves().last(), Some((1 << 63, 0)));
    }

    #[test]
    fn other_rates_are_refused() {
        let mut histogram = histogram_of(&[5]);
        let before = histogram.clone();
        let other = Histogram::new(TickRate::from_hz(3_000_000_000));
        assert_eq!(histogram.merge(&other).unwrap_err().what, "tick rate");
        assert_eq!(histogram, before);
    }

    proptest! {
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
        fn octave_counts_are_exact(delays in delays()) {
            let histogram = histogram_of(&delays);
            for (k, (bound_ns, cumulative)) in (0..).zip(histogram.octaves()) {
                let exact = delays.iter().filter(|&&delay| delay <= bound_ns).count() as u64;
                prop_assert_eq!(bound_ns, 1 << k);
                prop_assert_eq!(cumulative, exact);
            }
            prop_assert_eq!(histogram.count(), delays.len() as u64);
        }

        #[test]
        fn merging_is_the_synopsis_of_the_union(delays in delays(), cut in 0_usize..100) {
            let (a, b) = delays.split_at(cut.min(delays.len()));
            let (mut ab, mut ba) = (histogram_of(a), histogram_of(b));
            ab.merge(&histogram_of(b)).unwrap();
            ba.merge(&histogram_of(a)).unwrap();
            prop_assert_eq!(&ab, &histogram_of(&delays));
            prop_assert_eq!(&ba, &ab);
            ab.clear();
            prop_assert_eq!(ab, histogram_of(&[]));
        }
    }
}
