//! Delays as a native histogram: exponential buckets, the empty ones left out.

use measure::histogram;
use records::snapshot::DelayBucket;

/// Resolution: 2^5 buckets an octave, each 2.2 % wide. A bucket of [`histogram::Histogram`] goes whole to the one that
/// holds its middle, so that counts only rise. A quantile, which Prometheus looks up in that bucket, is at most 8.4 % off
/// the delay (schema 4: 10.8 %, schema 3: 13.9 %), and as many buckets have packets as with any other schema from 4 on.
pub(super) const SCHEMA: i32 = 5;

/// Delays up to this one, in seconds, are in the bucket of zero: those of our first bucket.
pub(super) const ZERO_THRESHOLD_S: f64 = 1e-9;

/// Buckets that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    /// Empty buckets since the span before; of the first span the index of its first bucket. The bucket `i` has the
    /// delays over `2^((i - 1) / 2^SCHEMA)` s and up to `2^(i / 2^SCHEMA)` s.
    pub(super) offset: i32,
    pub(super) length: u32,
}

/// Packets by exponential buckets.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Native {
    pub(super) zero_count: u64,
    pub(super) spans: Vec<Span>,
    /// Packets of each bucket of all spans, less those of the bucket before it.
    pub(super) deltas: Vec<i64>,
}

impl Native {
    /// The distribution of `delays`, least first.
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

/// The exponential bucket for delays up to `le_ns` that share a bucket; `None` for that of zero.
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
mod tests;
