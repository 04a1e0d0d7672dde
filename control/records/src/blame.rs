//! Answers of a station to what is slow, since when, and where.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is risen in all of the fleet, and what is wrong with measuring.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Blame {
    /// Segments that are watched.
    pub segments: u64,
    /// Of these, segments whose history is still too short to find a rise of their delay (three minutes with packets).
    pub learning: u64,
    /// How many delays and losses are risen.
    pub matching: u64,
    /// The worst of them, at most `limit`. A share of packets lost counts as so much of a second, the least time after which
    /// TCP sends a packet again (RFC 6298, section 2.4).
    pub risen: Vec<Risen>,
    /// What is wrong with measuring, by place.
    pub faults: Vec<MeasuringFault>,
}

/// A segment whose delay or loss is risen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Risen {
    /// In words, as in a path's chain.
    pub title: String,
    /// The switch that reports it.
    pub switch: String,
    /// `inside`, `wire`, `around`, `probe` or `round_trip`.
    pub kind: String,
    /// Where packets enter it.
    pub from: String,
    /// Where they leave it.
    pub to: String,
    /// The class.
    pub class: String,
    /// `delay` or `loss`.
    pub signal: String,
    /// Now: nanoseconds, or share of packets lost, 0 to 1.
    pub now: f64,
    /// What is usual, likewise.
    pub usual: f64,
    /// By how much it rose, likewise.
    pub rise: f64,
    /// Probability that at least half of the rise is there, by its standard error, 0 to 1.
    pub confidence: f64,
    /// From when, in seconds since 1970 (UTC).
    pub since_unix_s: f64,
}

/// Something that is wrong with measuring, not with the network.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuringFault {
    /// `silent`, `clock_unsynchronised`, `clock_step` or `wire_session`.
    pub what: String,
    /// The switch, or the segment.
    pub place: String,
    /// Since when in seconds since 1970 (UTC); `None` where it is not known.
    pub since_unix_s: Option<f64>,
    /// The same in words.
    pub words: String,
}

/// Why the paths from one switch to another are as they are.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathBlames {
    /// The first switch.
    pub from: String,
    /// The last one.
    pub to: String,
    /// Whether there are more paths than are listed.
    pub is_cut: bool,
    /// Each path of least cost by itself.
    pub paths: Vec<PathBlame>,
}

/// Why a path is as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathBlame {
    /// The switches, in order.
    pub switches: Vec<String>,
    /// Its segments, in order.
    pub chain: Vec<BlamedHop>,
    /// Their sum: means and bounds add. `None` where one of them says nothing now.
    pub sum: Option<Level>,
    /// What was measured from end to end, by a probe or a wire between the ends.
    pub end_to_end: Option<BlamedHop>,
    /// End to end less the sum, in nanoseconds.
    pub difference_ns: Option<f64>,
    /// What the bounds of both allow it to be.
    pub difference_bound_ns: Option<f64>,
    /// The difference is within that. If it is not, something between the segments is not measured, or a clock is off.
    pub is_difference_explained: Option<bool>,
    /// Segments that rose, the greatest share first.
    pub causes: Vec<BlameCause>,
    /// Share of the end-to-end delay's rise that is in no segment, 0 to 1; `None` if it did not rise.
    pub unexplained_share: Option<f64>,
    /// The same of losses.
    pub unexplained_loss_share: Option<f64>,
    /// What is wrong with measuring: such segments are no causes.
    pub faults: Vec<MeasuringFault>,
    /// Parts that nobody measures.
    pub uncovered: Vec<UncoveredHop>,
}

/// A delay and a share of losses, now and as usual.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Level {
    /// Mean delay since it rose, else over the last five reports, in nanoseconds.
    pub mean_ns: f64,
    /// Half-width of its 98 % interval.
    pub bound_ns: f64,
    /// What is usual at this time, in nanoseconds.
    pub usual_ns: f64,
    /// Share of packets lost, 0 to 1, in the same time.
    pub loss: f64,
    /// Half-width of its 98 % interval.
    pub loss_bound: f64,
    /// What is usual.
    pub usual_loss: f64,
}

/// A segment of a path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlamedHop {
    /// In words.
    pub title: String,
    /// `inside`, `wire`, `around`, `probe` or `round_trip`.
    pub kind: String,
    /// `None` where its switch is silent, or there were no packets.
    pub level: Option<Level>,
    /// Standard deviation of the delays in the last report with delays, in nanoseconds; where several segments were joined the greatest.
    pub stddev_ns: Option<f64>,
    /// Their 99th percentile, likewise.
    pub p99_ns: Option<f64>,
    /// Seconds since the end of the epoch of that report; where several were joined the oldest.
    pub age_s: Option<f64>,
    /// Its history is long enough to find a rise of its delay.
    pub is_ready: bool,
}

/// A segment that accounts for a rise.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlameCause {
    /// The segment, in words.
    pub title: String,
    /// `delay` or `loss`.
    pub signal: String,
    /// The part of the path's rise that is this segment's, in per cent.
    pub share_percent: f64,
    /// By how much it rose: nanoseconds, or share of packets.
    pub rise: f64,
    /// Probability that at least half of this rise is there, by its standard error, 0 to 1.
    pub confidence: f64,
    /// From when, in seconds since 1970 (UTC).
    pub since_unix_s: f64,
}

/// A part that nobody measures.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UncoveredHop {
    /// In words.
    pub title: String,
    /// What would cover it.
    pub cover: String,
    /// Over a fifth of the end-to-end rise is in no segment that is measured, so it may be here.
    pub is_suspect: bool,
}

/// A flow, hop by hop over the switches that saw it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowPath {
    /// `10.0.0.1:1024>10.0.0.2:80/tcp`.
    pub flow: String,
    /// Whether the links between the switches say in which order they saw it; else they are by name.
    pub is_ordered: bool,
    /// In the order of the path.
    pub hops: Vec<FlowHop>,
    /// The place in `hops` of the one with the greatest mean; `None` without delays.
    pub slowest: Option<usize>,
    /// Share of the sum of the means that it has, in per cent.
    pub slowest_percent: Option<f64>,
}

/// A hop of a flow: through a switch, or on a wire to the next.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowHop {
    /// In words.
    pub title: String,
    /// `inside` or `wire`.
    pub kind: String,
    /// Whether the figures are of this flow alone; on wires they are of all packets of its class.
    pub is_of_flow: bool,
    /// Packets in the last report.
    pub packets: u64,
    /// Of these, packets lost; `None` where it is not known.
    pub lost: Option<i64>,
    /// Mean delay in nanoseconds; `None` where it is not known.
    pub mean_ns: Option<f64>,
    /// Standard deviation, likewise.
    pub stddev_ns: Option<f64>,
    /// 99th percentile, likewise.
    pub p99_ns: Option<f64>,
    /// Seconds since the end of the epoch that the figures are of.
    pub age_s: f64,
}
