//! Delays over the last minute, ten minutes and hour, in bounded memory: a pyramid of
//! buckets of 1, 10 and 60 seconds, 60 of each.

use std::collections::VecDeque;
use std::sync::Arc;

use contract::limits::HISTORY_BYTES;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Widths of buckets in seconds. A longer epoch has a bucket of its own.
pub const WIDTHS_S: [u32; 3] = [1, 10, 60];

/// Most buckets of each width, including the open one.
pub const BUCKETS_MAX: usize = 60;

/// Most bytes of one history.
const BYTES_MAX: usize = size_of::<History>() + WIDTHS_S.len() * BUCKETS_MAX * size_of::<Sums>();

// The memory budget counts exactly this.
const _: () = assert!(BYTES_MAX == HISTORY_BYTES);

/// One epoch of a segment or a flow.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sample {
    /// Packets whose delay is known.
    pub packets: u64,
    /// Packets lost.
    pub lost_packets: u64,
    /// Sum of delays in nanoseconds.
    pub sum_ns: f64,
    /// Sum of squared delays.
    pub squares_ns2: f64,
    /// Greatest delay; 0 if unknown.
    pub max_ns: f64,
    /// Median; 0 where it is not known.
    pub p50_ns: f64,
    /// 99th percentile; 0 where it is not known.
    pub p99_ns: f64,
    /// Estimate of the mean, with its bound.
    pub estimate_ns: Option<(f64, f64)>,
}

/// Sums over the epochs of a bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sums {
    /// Index of the bucket among those of its width, counted from the first epoch.
    index: u64,
    epochs: u32,
    /// Counts and sums are added, `p50_ns` as a sum over packets; of the rest the greatest.
    sample: Sample,
    /// Packets of epochs with an estimate; sum of n times mean; sum of squares of n times bound.
    estimated: (f64, f64, f64),
}

impl Sums {
    fn add(&mut self, sample: &Sample) {
        let sum = &mut self.sample;
        self.epochs += 1;
        sum.packets += sample.packets;
        sum.lost_packets += sample.lost_packets;
        sum.sum_ns += sample.sum_ns;
        sum.squares_ns2 += sample.squares_ns2;
        sum.max_ns = sum.max_ns.max(sample.max_ns);
        sum.p50_ns += sample.packets as f64 * sample.p50_ns;
        sum.p99_ns = sum.p99_ns.max(sample.p99_ns);
        if let Some((mean, bound)) = sample.estimate_ns {
            let packets = sample.packets as f64;
            self.estimated.0 += packets;
            self.estimated.1 += packets * mean;
            self.estimated.2 += (packets * bound).powi(2);
        }
    }
}

/// Delays of the last minute, ten minutes and hour. Cheap to clone, because complete buckets are shared.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    open: [Option<Sums>; WIDTHS_S.len()],
    /// The buckets of each width, oldest first.
    closed: [Arc<VecDeque<Sums>>; WIDTHS_S.len()],
}

/// Buckets of one width.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Course {
    /// Their width in seconds.
    pub width_s: u32,
    /// The buckets with packets, oldest first. The last is still open.
    pub buckets: Vec<Bucket>,
}

/// The packets of a span of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bucket {
    /// When it began, in seconds since 1970 (UTC).
    pub start_unix_s: f64,
    /// Epochs in it.
    pub epochs: u32,
    /// Packets whose delay is known.
    pub packets: u64,
    /// Packets lost.
    pub lost_packets: u64,
    /// Their mean delay in nanoseconds, by stamps.
    pub mean_ns: f64,
    /// Its standard deviation.
    pub stddev_ns: f64,
    /// Greatest delay; `None` if unknown.
    pub max_ns: Option<f64>,
    /// Mean of the medians of its epochs, weighted by packets; `None` where they are not known.
    #[serde(default)]
    pub p50_ns: Option<f64>,
    /// The greatest 99th percentile of its epochs; `None` where it is not known.
    pub p99_max_ns: Option<f64>,
    /// The estimated mean over the epochs with an estimate.
    pub estimated_mean_ns: Option<f64>,
    /// Half-width of the nominal 98 % interval around it, assuming independent epochs.
    pub bound_ns: Option<f64>,
}

impl History {
    /// Adds an epoch; `interval_ms` is the length of epochs. Epochs come in order; an earlier one is added
    /// to the open bucket.
    pub fn add(&mut self, epoch: u64, interval_ms: u32, sample: &Sample) {
        let start_ms = u128::from(epoch) * u128::from(interval_ms);
        for ((open, closed), width_s) in self.open.iter_mut().zip(&mut self.closed).zip(WIDTHS_S) {
            let index = u64::try_from(start_ms / u128::from(width_s * 1_000)).unwrap_or(u64::MAX);
            let is_over = |open: &mut Sums| open.index < index;
            if let Some(over) = open.take_if(is_over) {
                let closed = Arc::make_mut(closed);
                if closed.len() + 1 >= BUCKETS_MAX {
                    closed.pop_front();
                }
                closed.push_back(over);
            }
            let fresh = || Sums {
                index,
                ..Sums::default()
            };
            open.get_or_insert_with(fresh).add(sample);
        }
    }

    /// The courses of every width; `origin_unix_s` is when the first epoch (number 0) began.
    pub fn courses(&self, origin_unix_s: f64) -> Vec<Course> {
        let levels = self.closed.iter().zip(&self.open).zip(WIDTHS_S);
        let courses = levels.map(|((closed, open), width_s)| {
            let sums = closed.iter().chain(open);
            let buckets = sums.map(|sums| {
                let start_s = sums.index as f64 * f64::from(width_s);
                bucket(sums, origin_unix_s + start_s)
            });
            Course {
                width_s,
                buckets: buckets.collect(),
            }
        });
        courses.collect()
    }
}

fn bucket(sums: &Sums, start_unix_s: f64) -> Bucket {
    let sample = &sums.sample;
    let packets = sample.packets.max(1) as f64;
    let mean_ns = sample.sum_ns / packets;
    let known = |value: f64| (value > 0.0).then_some(value);
    let (estimated, sum, squares) = sums.estimated;
    Bucket {
        start_unix_s,
        epochs: sums.epochs,
        packets: sample.packets,
        lost_packets: sample.lost_packets,
        mean_ns,
        stddev_ns: (sample.squares_ns2 / packets - mean_ns.powi(2))
            .max(0.0)
            .sqrt(),
        max_ns: known(sample.max_ns),
        p50_ns: known(sample.p50_ns / packets),
        p99_max_ns: known(sample.p99_ns),
        estimated_mean_ns: (estimated > 0.0).then(|| sum / estimated),
        bound_ns: (estimated > 0.0).then(|| squares.sqrt() / estimated),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(packets: u64, delay_ns: f64) -> Sample {
        Sample {
            packets,
            lost_packets: 1,
            sum_ns: packets as f64 * delay_ns,
            squares_ns2: packets as f64 * delay_ns.powi(2),
            max_ns: delay_ns,
            p50_ns: delay_ns,
            p99_ns: delay_ns,
            estimate_ns: Some((delay_ns, 4.0)),
        }
    }

    #[test]
    fn buckets_hold_their_epochs_and_the_oldest_go() {
        let mut history = History::default();
        for epoch in 0..4 * 7_200 {
            history.add(epoch, 250, &sample(2, 100.0));
        }
        let courses = history.courses(1_000.0);
        let lengths: Vec<_> = courses.iter().map(|course| course.buckets.len()).collect();
        assert_eq!(lengths, [60, 60, 60]);
        for (course, width_s) in courses.iter().zip(WIDTHS_S) {
            let last = course.buckets.last().unwrap();
            let in_bucket = u64::from(4 * width_s);
            assert_eq!(
                (last.packets, last.lost_packets),
                (2 * in_bucket, in_bucket)
            );
            assert!((last.mean_ns - 100.0).abs() < 1e-9 && last.stddev_ns < 1e-3);
            assert!((last.p50_ns.unwrap() - 100.0).abs() < 1e-9);
            let start_s = 1_000.0 + 7_200.0 - f64::from(width_s);
            assert!((last.start_unix_s - start_s).abs() < 1e-6);
            let epochs = in_bucket as f64;
            assert!((last.bound_ns.unwrap() - 4.0 / epochs.sqrt()).abs() < 1e-9);
        }
    }

    #[test]
    fn long_epochs_have_buckets_of_their_own_and_gaps_are_left_out() {
        let mut history = History::default();
        for epoch in [0, 1, 5] {
            history.add(epoch, 20_000, &sample(10, 50.0));
        }
        let courses = history.courses(0.0);
        let starts = |course: &Course| {
            let buckets = course.buckets.iter();
            buckets
                .map(|bucket| bucket.start_unix_s)
                .collect::<Vec<_>>()
        };
        assert_eq!(starts(&courses[0]), [0.0, 20.0, 100.0]);
        assert_eq!(starts(&courses[2]), [0.0, 60.0]);
        assert_eq!(courses[2].buckets[0].packets, 20);
    }

    #[test]
    fn what_is_not_known_is_not_there() {
        let mut history = History::default();
        history.add(3, 1_000, &Sample::default());
        let bucket = history.courses(0.0)[0].buckets[0];
        assert_eq!(
            (bucket.packets, bucket.max_ns, bucket.bound_ns),
            (0, None, None)
        );
    }
}
