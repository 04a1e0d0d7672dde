//! Results of sessions to one node, as one segment.

use report::msp::{Quantiles, Segment};

use crate::result::{Delays, SessionResult};

/// Half-width of the nominal 98 % interval in standard deviations, as other segments have it.
const WIDTH: f64 = 2.326;

/// Of some sessions in one direction.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    pub packets: u64,
    lost: u64,
    samples: u64,
    sum_ns: f64,
    squares_ns2: f64,
    /// The greatest error of clocks.
    error_ns: f64,
    medians_ns: f64,
    /// All but the median.
    quantiles: Option<Quantiles>,
}

impl Sums {
    pub fn count(&mut self, result: &SessionResult) {
        self.packets += result.counts.sent;
        self.lost += result.counts.lost;
    }

    /// Delays, whose clocks may add so much.
    pub fn add(&mut self, delays: Option<Delays>, error_ns: f64) {
        let Some(delays) = delays else { return };
        let n = delays.samples as f64;
        self.samples += delays.samples;
        self.sum_ns += n * delays.mean_ns;
        self.squares_ns2 += n * (delays.deviation_ns.powi(2) + delays.mean_ns.powi(2));
        self.error_ns = self.error_ns.max(error_ns);
        self.medians_ns += n * delays.p50_ns;
        let ones = Quantiles {
            min_ns: float(delays.min_ns as f64),
            max_ns: float(delays.max_ns as f64),
            p50_ns: 0.0,
            p99_ns: float(delays.p99_ns),
            p999_ns: float(delays.p999_ns),
        };
        let all = self.quantiles.get_or_insert(ones);
        all.min_ns = all.min_ns.min(ones.min_ns);
        all.max_ns = all.max_ns.max(ones.max_ns);
        all.p99_ns = all.p99_ns.max(ones.p99_ns);
        all.p999_ns = all.p999_ns.max(ones.p999_ns);
    }

    /// A segment without names. Of several sessions the median is the mean of theirs, other percentiles are the greatest.
    pub fn segment(&self) -> Segment {
        let counted = Segment {
            packets: self.packets,
            lost: i64::try_from(self.lost).unwrap_or(i64::MAX),
            ..Segment::default()
        };
        let Some(quantiles) = self.quantiles else {
            return counted;
        };
        let n = self.samples as f64;
        let mean_ns = self.sum_ns / n;
        let deviation_ns = (self.squares_ns2 / n - mean_ns.powi(2)).max(0.0).sqrt();
        // One packet says nothing of others.
        let bound_ns = (self.samples > 1).then(|| self.error_ns + WIDTH * deviation_ns / n.sqrt());
        Segment {
            samples: self.samples,
            mean_ns: float(mean_ns),
            bound_ns: bound_ns.map(float),
            stddev_ns: Some(float(deviation_ns)),
            quantiles: Some(Quantiles {
                p50_ns: float(self.medians_ns / n),
                ..quantiles
            }),
            ..counted
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "seven digits are enough for a delay"
)]
pub(super) fn float(value: f64) -> f32 {
    value as f32
}
