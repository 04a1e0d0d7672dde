//! Measured segments inside the switch: counts, exact delays, and estimates.

use std::sync::Arc;

use contract::metric::{Each, Shown};
use contract::record;
use measure::histogram::Trimmed;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FlowMethod, SegmentName};
use crate::history::History;

/// One measured segment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Segment {
    /// Name of the ingress port; around a device `device:port`, where packets enter it.
    pub ingress: String,
    /// Name of the egress port; around a device `device:port`, where packets return from it.
    pub egress: String,
    /// The class of packets; `all` unless classes are configured.
    pub class: String,
    /// Whether it leads around another device, instead of through this switch.
    #[serde(default)]
    pub is_around: bool,
    /// Figures of the last usable epoch in which packets passed.
    pub last: Option<EpochFigures>,
    /// Delays of the last minute: those of usable epochs that ended in the last 55 to 60 seconds (of epochs longer
    /// than that, the last one). `None` without packets.
    #[serde(default)]
    pub last_minute: Option<Delays>,
    /// The finished parts of the last minute.
    #[serde(skip)]
    pub minute_parts: Vec<MinutePart>,
    /// Totals since the switch started.
    pub total: Totals,
    /// Delays of the last minute, ten minutes and hour.
    #[serde(skip)]
    pub history: History,
}

impl Segment {
    /// `east>west`.
    pub fn name(&self) -> String {
        format!("{}>{}", self.ingress, self.egress)
    }

    /// Its ports and class.
    pub fn segment_name(&self) -> SegmentName {
        SegmentName {
            ingress: self.ingress.clone(),
            egress: self.egress.clone(),
            class: self.class.clone(),
        }
    }

    /// Ingress port, egress port, class.
    pub fn names(&self) -> [&str; 3] {
        [&self.ingress, &self.egress, &self.class]
    }

    /// `east>west`, or `east>west gold` with classes.
    pub fn title(&self) -> String {
        title(&self.ingress, &self.egress, &self.class)
    }
}

/// `east>west`, or `east>west gold` for one of several classes.
pub fn title(from: &str, to: &str, class: &str) -> String {
    match class {
        "all" => format!("{from}>{to}"),
        class => format!("{from}>{to} {class}"),
    }
}

/// Stamped delays of the epochs that ended in a span of five seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct MinutePart {
    /// Index of the span, counted from the first epoch.
    pub index: u64,
    /// Its delays.
    pub histogram: Arc<Trimmed>,
}

impl MinutePart {
    /// Length of a part.
    pub const SECONDS: u32 = 5;
}

/// One segment over one epoch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EpochFigures {
    /// The epoch's number.
    pub epoch: u64,
    /// Plain counts.
    pub counts: Counts,
    /// Exact delays, from the stamps in the packets.
    pub stamped: Option<Stamped>,
    /// Delays as estimated by the LDA; `None` without an LDA, or if too few cells were usable.
    pub lda: Option<Estimate>,
    /// The mean delay from reference packets; `None` without any.
    pub references: Option<ReferenceEstimate>,
}

/// The delay of some packets, by any method, for reports and exports. Unknown figures are absent.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Delay<'r> {
    /// `stamped`, or the method of the estimate.
    pub method: &'r str,
    /// The last epoch that it covers.
    pub epoch: u64,
    /// Packets in the mean.
    pub samples: Option<u64>,
    /// Mean in nanoseconds; on wires signed.
    pub mean_ns: f64,
    /// Half-width of the nominal 98 % interval around the mean.
    pub bound_ns: Option<f64>,
    /// Standard deviation.
    pub stddev_ns: Option<f64>,
    /// Least delay.
    pub min_ns: Option<f64>,
    /// Greatest delay.
    pub max_ns: Option<f64>,
    /// Percentiles 50, 90, 99, 99.9 and 99.99.
    pub quantiles_ns: [Option<f64>; 5],
}

impl EpochFigures {
    /// The stamped delay.
    pub fn stamped_delay(&self) -> Option<Delay<'static>> {
        let stamped = self.stamped?;
        Some(Delay {
            method: "stamped",
            epoch: self.epoch,
            samples: Some(self.counts.received_packets),
            mean_ns: stamped.mean_ns,
            bound_ns: Some(0.0),
            stddev_ns: Some(stamped.stddev_ns),
            min_ns: Some(stamped.min_ns),
            max_ns: Some(stamped.max_ns),
            quantiles_ns: [
                stamped.p50_ns,
                stamped.p90_ns,
                stamped.p99_ns,
                stamped.p999_ns,
                stamped.p9999_ns,
            ]
            .map(Some),
        })
    }

    /// Estimates by synopses, with their methods.
    pub fn estimates(&self) -> impl Iterator<Item = (&'static str, &Estimate)> + Clone {
        [("lda", &self.lda)]
            .into_iter()
            .filter_map(|(method, estimate)| Some((method, estimate.as_ref()?)))
    }

    /// The delay as estimated by the LDA.
    pub fn estimated_delay(&self) -> Option<Delay<'static>> {
        let lda = self.lda?;
        Some(Delay {
            method: "lda",
            epoch: self.epoch,
            samples: Some(lda.effective_samples),
            mean_ns: lda.mean_ns,
            bound_ns: Some(lda.bound_ns),
            stddev_ns: lda.stddev_ns,
            ..Delay::default()
        })
    }
}

/// Method of an older switch, which does not name it: it always called it this.
fn method_of_older_switches() -> FlowMethod {
    FlowMethod::RliS
}

record! {
    /// The mean delay of one segment over one epoch, from reference packets (RLI).
    #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub struct ReferenceEstimate {
        /// The method in use at the egress port: `rli-l`, `rli`, `rli-s` or `rli-as`. It is used for flows; the
        /// segment's mean always comes from the sums that references carry.
        #[serde(default = "method_of_older_switches")]
        pub method: FlowMethod,
        /// Mean delay from the sums that references carry.
        #[metric(Gauge = "vernier_segment_estimated_delay_mean_seconds", per_unit = 1e9)]
        pub mean_ns: f64,
        /// Number of packets in the estimated mean.
        #[metric(Gauge = "vernier_segment_estimated_delay_effective_samples")]
        pub packets: u64,
        /// Of these, packets between references without losses: their mean is exact.
        pub exact_packets: u64,
        /// (estimate - stamped mean) / stamped mean; `None` if the stamped mean is 0.
        #[metric(Gauge = "vernier_estimator_error_ratio")]
        pub error_ratio: Option<f64>,
    }
}

record! {
    /// Plain counts of a segment.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct Counts {
        /// Packets that entered the segment.
        #[metric(Counter = "vernier_segment_packets_total")]
        pub sent_packets: u64,
        /// Bytes that entered the segment, without frame check sequences.
        #[metric(Counter = "vernier_segment_bytes_total")]
        pub sent_bytes: u64,
        /// Packets that left the segment in time.
        pub received_packets: u64,
        /// Bytes of the packets that left in time.
        pub received_bytes: u64,
        /// Packets lost on the segment.
        #[metric(Counter = "vernier_segment_lost_packets_total")]
        pub dropped_packets: u64,
        /// Packets that left the segment after their epoch was sealed; counted neither as measured nor as
        /// lost.
        #[metric(Counter = "vernier_segment_late_packets_total")]
        pub late_packets: u64,
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.sent_packets += other.sent_packets;
        self.sent_bytes += other.sent_bytes;
        self.received_packets += other.received_packets;
        self.received_bytes += other.received_bytes;
        self.dropped_packets += other.dropped_packets;
        self.late_packets += other.late_packets;
    }
}

/// Exact figures of the stamped delay, in nanoseconds.
///
/// Percentiles are exact to an eighth of an octave (9 %), and at most the maximum. With too few packets for a
/// percentile (99.99 %: fewer than 10,000) it equals the maximum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stamped {
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation.
    pub stddev_ns: f64,
    /// Least.
    pub min_ns: f64,
    /// Greatest.
    pub max_ns: f64,
    /// Median, to the histogram's resolution.
    pub p50_ns: f64,
    /// 90th percentile, to the histogram's resolution.
    pub p90_ns: f64,
    /// 99th percentile, to the histogram's resolution.
    pub p99_ns: f64,
    /// 99.9th percentile, to the histogram's resolution.
    #[serde(default)]
    pub p999_ns: f64,
    /// 99.99th percentile, to the histogram's resolution.
    #[serde(default)]
    pub p9999_ns: f64,
}

impl Shown for Stamped {
    /// Percentiles and the maximum, by their shares.
    fn show(&self, per_unit: f64, each: Each<'_>) {
        for (share, value_ns) in [
            ("0.5", self.p50_ns),
            ("0.9", self.p90_ns),
            ("0.99", self.p99_ns),
            ("0.999", self.p999_ns),
            ("0.9999", self.p9999_ns),
            ("1", self.max_ns),
        ] {
            each(share, value_ns / per_unit);
        }
    }
}

record! {
    /// Stamped delays of some packets.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub struct Delays {
        /// Packets whose delay is known.
        pub packets: u64,
        /// Percentiles of the stamped delay over the last minute, exact to an eighth of an octave (9 %); its maximum as
        /// `share="1"`.
        #[serde(flatten)]
        #[metric(Gauge = "vernier_segment_delay_last_minute_seconds", label = "share", per_unit = 1e9)]
        pub stamped: Stamped,
    }
}

/// Stamped delays of one class over all segments that are measured in it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassDelays {
    /// The class; `all` unless classes are configured.
    pub class: String,
    /// The last epoch in which its packets passed.
    pub epoch: u64,
    /// Delays in this epoch.
    pub last: Delays,
    /// Delays of the last minute, as for a segment; `None` without packets.
    pub last_minute: Option<Delays>,
}

record! {
    /// An estimate of one segment's delay over one epoch.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub struct Estimate {
        /// Estimated mean delay of the last usable epoch.
        #[metric(Gauge = "vernier_segment_estimated_delay_mean_seconds", per_unit = 1e9)]
        pub mean_ns: f64,
        /// Half-width of the nominal 98 % interval around the estimated mean, at least the clock's resolution.
        #[metric(Gauge = "vernier_segment_estimated_delay_bound_seconds", per_unit = 1e9)]
        pub bound_ns: f64,
        /// Estimated standard deviation of the delay in the last usable epoch, unbiased; unknown with fewer than two
        /// usable cells.
        #[metric(Gauge = "vernier_segment_estimated_delay_stddev_seconds", per_unit = 1e9)]
        pub stddev_ns: Option<f64>,
        /// Standard deviation by the LDA paper's equation 5.
        pub stddev_paper_ns: Option<f64>,
        /// Number of packets in the estimated mean.
        #[metric(Gauge = "vernier_segment_estimated_delay_effective_samples")]
        pub effective_samples: u64,
        /// Cells with packets, none of them lost.
        pub usable_cells: u64,
        /// All cells.
        pub cells: u64,
        /// Estimated packets lost in the last usable epoch.
        #[metric(Gauge = "vernier_segment_estimated_lost_packets")]
        pub lost_packets: f64,
        /// Error of the estimated mean relative to the stamped mean: (estimate - stamped) / stamped; unknown if
        /// the stamped mean is 0.
        #[metric(Gauge = "vernier_estimator_error_ratio")]
        pub error_ratio: Option<f64>,
        /// Whether the stamped mean is within the bound.
        pub is_within_bound: bool,
    }
}

record! {
    /// Totals of a segment since the switch started. All of them only rise.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub struct Totals {
        /// Plain counts.
        pub counts: Counts,
        /// Sum of the stamped delays in seconds.
        pub delay_sum_s: f64,
        /// Sum of squared delays in seconds squared; with the sum and count of delays it gives the standard deviation
        /// over any window.
        #[metric(Counter = "vernier_segment_delay_squared_seconds_total")]
        pub delay_squared_sum_s2: f64,
        /// Distribution of the stamped delay: packets in each eighth of an octave, ascending, without empty
        /// buckets.
        pub buckets: Vec<DelayBucket>,
        /// Epochs without figures, by reason.
        #[metric(Counter = "vernier_segment_unusable_epochs_total", label = "reason")]
        pub unusable_epochs: UnusableEpochs,
        /// Epochs with an LDA estimate.
        pub estimated_epochs: u64,
        /// Of these, epochs in which the stamped mean was within the estimate's bound.
        pub within_bound_epochs: u64,
    }
}

/// A bucket of a histogram, an eighth of an octave: packets that took longer than the previous bucket's bound, up to
/// this one's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DelayBucket {
    /// Upper bound in nanoseconds: `2^k + i 2^k / 8`, and every number up to 16.
    pub le_ns: u64,
    /// Packets in the bucket.
    pub packets: u64,
}

/// Epochs of one segment without figures, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnusableEpochs {
    /// A worker had no empty shard, or stalled, so part of the epoch was not measured.
    pub missed_shard: u64,
    /// Workers measured it in different generations.
    pub generation: u64,
    /// The link of its ingress or egress port went down or came up.
    pub link: u64,
    /// Packets passed, but too few of the LDA's cells were usable for an estimate with a bound; the stamped
    /// figures are valid.
    pub too_few_cells: u64,
    /// A panic of this program was contained while its figures were computed.
    #[serde(default)]
    pub internal: u64,
}

impl UnusableEpochs {
    /// Every reason's label and count.
    pub fn by_reason(&self) -> [(&'static str, u64); 5] {
        [
            ("missed_shard", self.missed_shard),
            ("generation", self.generation),
            ("link", self.link),
            ("too_few_cells", self.too_few_cells),
            ("internal", self.internal),
        ]
    }
}

impl Shown for UnusableEpochs {
    fn show(&self, per_unit: f64, each: Each<'_>) {
        for (reason, epochs) in self.by_reason() {
            each(reason, epochs as f64 / per_unit);
        }
    }
}

record! {
    /// The sketch (LDS) of one egress port in its last usable epoch.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub struct Sketch {
        /// The port's name.
        pub port: String,
        /// The epoch's number.
        pub epoch: u64,
        /// Cells of the sketch of per-flow delays.
        #[metric(Gauge = "vernier_sketch_cells")]
        pub cells: u64,
        /// Cells in which packets were counted.
        pub filled_cells: u64,
        /// Of these, cells whose two ends agree.
        pub usable_cells: u64,
        /// Mean delay of all packets to the port, by class weight, from the sketch; unknown without packets, or if
        /// usable cells hold less than 99 % of them.
        #[metric(Gauge = "vernier_sketch_estimated_delay_mean_seconds", per_unit = 1e9)]
        pub mean_ns: Option<f64>,
        /// Error of the sketch's mean relative to the stamped mean: (mean - stamped) / stamped; unknown without a
        /// mean.
        #[metric(Gauge = "vernier_sketch_error_ratio")]
        pub error_ratio: Option<f64>,
    }
}
