//! Delays as a native histogram: exponential buckets, without the empty ones.

use measure::histogram;
use records::snapshot::DelayBucket;

/// Resolution: 2^5 buckets an octave, each 2.2 % wide. A bucket of [`histogram::Histogram`] is added as a whole to
/// the one that contains its middle, so that counts only rise. A quantile that Prometheus computes from that bucket
/// is off by at most 8.4 % (schema 4: 10.8 %, schema 3: 13.9 %); the number of buckets with packets is the same for
/// every schema from 4 on.
pub(super) const SCHEMA: i32 = 5;

/// Delays up to this one, in seconds, are in the zero bucket: those of our first bucket.
pub(super) const ZERO_THRESHOLD_S: f64 = 1e-9;

/// Consecutive buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    /// Empty buckets since the previous span; for the first span, the index of its first bucket. Bucket `i` has the
    /// delays over `2^((i - 1) / 2^SCHEMA)` s and up to `2^(i / 2^SCHEMA)` s.
    pub(super) offset: i32,
    pub(super) length: u32,
}

/// Packets by exponential buckets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Native {
    pub(super) zero_count: u64,
    pub(super) spans: Vec<Span>,
    /// Packets of each bucket of all spans, minus those of the previous bucket.
    pub(super) deltas: Vec<i64>,
}

impl Native {
    /// The distribution of `delays`, in ascending order.
    pub(super) fn of(delays: &[DelayBucket]) -> Self {
        let mut native = Self::default();
        let (mut next, mut before) = (0, 0);
        for bucket in delays {
            let Some(index) = index_of(bucket.le_ns) else {
                native.zero_count += bucket.packets;
                continue;
            };
            match native.spans.last_mut() {
                Some(span) if index == next => span.length += 1,
                _ => native.spans.push(Span {
                    offset: index - next,
                    length: 1,
                }),
            }
            let packets = bucket.packets.cast_signed();
            native.deltas.push(packets.wrapping_sub(before));
            (next, before) = (index + 1, packets);
        }
        native
    }
}

/// The exponential bucket for a bucket of delays up to `le_ns`; `None` for the zero bucket.
fn index_of(le_ns: u64) -> Option<i32> {
    let middle_s = histogram::bucket_middle_ns(le_ns) as f64 / 1e9;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "from -30 to 35 octaves of seconds"
    )]
    let index = (middle_s.log2() * f64::from(1 << SCHEMA)).ceil() as i32;
    (middle_s > ZERO_THRESHOLD_S).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::histogram::Histogram;
    use measure::time::TickRate;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// What the segments' histogram publishes of some delays.
    fn recorded(delays_ns: &[u64]) -> Vec<DelayBucket> {
        let mut histogram = Histogram::new(TickRate::from_hz(1_000_000_000));
        for &delay_ns in delays_ns {
            histogram.add_delays(delay_ns, 1);
        }
        let buckets = histogram.buckets();
        buckets
            .map(|(le_ns, packets)| DelayBucket { le_ns, packets })
            .collect()
    }

    /// Packets by the index of their bucket, as a scraper reads spans and deltas.
    fn read(native: &Native) -> BTreeMap<i32, i64> {
        let mut deltas = native.deltas.iter();
        let (mut index, mut packets) = (0, 0);
        let mut buckets = BTreeMap::new();
        for span in &native.spans {
            index += span.offset;
            for _ in 0..span.length {
                packets += deltas.next().unwrap();
                buckets.insert(index, packets);
                index += 1;
            }
        }
        assert_eq!(deltas.next(), None);
        buckets
    }

    /// `histogram_quantile` of Prometheus 2.42 (promql/quantile.go), in ns: linear within a bucket.
    fn quantile_ns(native: &Native, q: f64) -> f64 {
        let bound = |index: i32| (f64::from(index) / f64::from(1 << SCHEMA)).exp2();
        let buckets = read(native).into_iter();
        let buckets =
            buckets.map(|(index, packets)| (bound(index - 1), bound(index), packets as f64));
        let zero = (0.0, ZERO_THRESHOLD_S, native.zero_count as f64);
        let buckets: Vec<_> = std::iter::once(zero).chain(buckets).collect();
        let mut rank = q * buckets.iter().map(|bucket| bucket.2).sum::<f64>();
        for &(low, high, packets) in &buckets {
            if packets > 0.0 && rank <= packets {
                return (low + (high - low) * rank / packets) * 1e9;
            }
            rank -= packets;
        }
        panic!("{rank} beyond all buckets")
    }

    /// Delays of every order of magnitude, and of one.
    fn delays() -> impl Strategy<Value = Vec<u64>> {
        let any = (0_u32..64, any::<u64>()).prop_map(|(shift, bits)| bits >> shift);
        let alike = 1_u64..2_000;
        prop_oneof![
            proptest::collection::vec(any, 1..200),
            (0_u32..40).prop_flat_map(move |octave| {
                let delay = alike.clone().prop_map(move |delay| delay << octave);
                proptest::collection::vec(delay, 1..200)
            }),
        ]
    }

    #[test]
    fn the_worst_error_is_what_the_resolution_says() {
        let mut worst = 0.0_f64;
        for delay_ns in 8..1 << 15 {
            let native = Native::of(&recorded(&[delay_ns]));
            for q in [0.0, 1.0] {
                let off = quantile_ns(&native, q) / delay_ns as f64 - 1.0;
                worst = worst.max(off.abs());
            }
        }
        assert!((0.08..0.084).contains(&worst), "{worst}");
    }

    #[test]
    fn spans_and_deltas_are_those_of_the_format() {
        // 1 us is among 961 to 1,024 ns; 2^(-638/32) s = 995 ns is the next bound over their middle, and 2.02 ns that over 2 ns.
        let native = Native::of(&recorded(&[0, 1, 2, 1_000, 1_000, 1_000]));
        let expected = Native {
            zero_count: 2,
            spans: vec![
                Span {
                    offset: -924,
                    length: 1,
                },
                Span {
                    offset: -638 + 924 - 1,
                    length: 1,
                },
            ],
            deltas: vec![1, 2],
        };
        assert_eq!(read(&native), read(&expected));
        assert_eq!(native, expected);
        assert_eq!(Native::of(&[]), Native::default());
    }

    proptest! {
        #[test]
        fn quantiles_are_within_an_eighth_of_the_exact_ones(mut delays in delays(), q in 0.0..=1.0_f64) {
            let native = Native::of(&recorded(&delays));
            prop_assert_eq!(
                read(&native).values().sum::<i64>() + native.zero_count.cast_signed(),
                i64::try_from(delays.len()).unwrap()
            );
            delays.sort_unstable();
            let rank = q * delays.len() as f64;
            #[expect(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "a rank")]
            let exact = delays[rank.ceil().max(1.0) as usize - 1] as f64;
            let quantile = quantile_ns(&native, q);
            // Delays are recorded in whole nanoseconds.
            prop_assert!((quantile - exact).abs() <= (exact / 8.0).max(1.0), "{quantile} {exact}");
        }

        /// To Prometheus, a falling count would be a restart.
        #[test]
        fn counts_only_rise(delays in delays(), more in delays()) {
            let before = Native::of(&recorded(&delays));
            let after = Native::of(&recorded(&[delays, more].concat()));
            prop_assert!(after.zero_count >= before.zero_count);
            let after = read(&after);
            for (index, packets) in read(&before) {
                prop_assert!(after.get(&index).is_some_and(|more| *more >= packets));
            }
        }
    }
}
