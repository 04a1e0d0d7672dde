//! Answers of a station, which combines the reports of many switches.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The state of each switch, as known to a station.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Switches {
    /// The switches, by name.
    pub switches: Vec<SwitchState>,
}

contract::record! {
    /// A switch, according to its reports.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub struct SwitchState {
        /// Its name.
        pub switch: String,
        /// Random number of its run, 16 hexadecimal digits.
        pub incarnation: String,
        /// Last epoch reported.
        pub epoch: u64,
        /// End of that epoch in seconds since 1970 (UTC).
        #[metric(
            Gauge = "vernier_station_switch_epoch_end_timestamp_seconds",
            help = "End of the last epoch that the switch reported."
        )]
        pub epoch_end_unix_s: f64,
        /// Length of an epoch in seconds.
        pub interval_s: f64,
        /// Since when it has been silent, in seconds since 1970 (UTC): the end of its last epoch; `None` while it
        /// reports.
        #[metric(
            Gauge = "vernier_station_switch_silent_since_timestamp_seconds",
            help = "Time since which the switch has been silent; absent while it reports."
        )]
        pub silent_since_unix_s: Option<f64>,
        /// Why the last report's epochs cannot be trusted: reasons, stalled workers, parts that are not ready,
        /// evicted or set-aside data. Empty if they can.
        pub problems: Vec<String>,
        /// State of the clock of its wires; empty without wires.
        pub clock: String,
        /// Reports counted.
        #[metric(Counter = "vernier_station_switch_reports_total")]
        pub reports: u64,
        /// Reports counted before, received again.
        #[metric(Counter = "vernier_station_switch_duplicate_reports_total")]
        pub duplicates: u64,
        /// Epochs not covered by any report.
        #[metric(Counter = "vernier_station_switch_missed_epochs_total")]
        pub missed_epochs: u64,
        /// Reports that the switch dropped in this run because its spool was full.
        pub dropped_reports: u64,
        /// Times that the switch restarted.
        #[metric(Counter = "vernier_station_switch_restarts_total")]
        pub restarts: u64,
        /// Segments evicted because the switch has too many.
        #[serde(default)]
        #[metric(Counter = "vernier_station_switch_evicted_segments_total")]
        pub evicted_segments: u64,
        /// Times that data of it was set aside so that other switches are served: a value that could not be read or
        /// written, or a report on which the station panicked.
        #[serde(default)]
        #[metric(
            Counter = "vernier_station_switch_set_aside_total",
            help = "Times that data of the switch was set aside so that other switches are served."
        )]
        pub set_aside: u64,
        /// The last gaps, at most 8, oldest first.
        pub gaps: Vec<Gap>,
    }
}

/// Epochs not covered by any report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gap {
    /// The first.
    pub first_epoch: u64,
    /// The last.
    pub last_epoch: u64,
    /// End of the last in seconds since 1970 (UTC).
    pub end_unix_s: f64,
}

/// Missing reports: silent switches, and gaps of the others.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Missing {
    /// Switches that have reported.
    pub known: u64,
    /// Switches that are silent or whose reports have gaps, by name.
    pub switches: Vec<SwitchState>,
    /// Routers of the topology that have never reported, by name.
    pub unreported: Vec<String>,
    /// Switches whose last values in JetStream cannot be read, by name.
    #[serde(default)]
    pub unreadable: Vec<Unreadable>,
}

/// A switch whose last values cannot be read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unreadable {
    /// Its name.
    pub switch: String,
    /// The reason.
    pub why: String,
}

/// Segments of many switches.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StationSegments {
    /// Number of matching segments.
    pub matching: u64,
    /// One page of them (`offset` and `limit`), by switch.
    pub segments: Vec<StationSegment>,
}

/// Figures of a segment over some time. Delays in nanoseconds, on wires signed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SegmentFigures {
    /// Packets that entered it.
    pub packets: u64,
    /// Of these, packets lost; signed on wires.
    pub lost: i64,
    /// Packets with a known delay.
    pub samples: u64,
    /// Mean delay; `None` if unknown.
    pub mean_ns: Option<f64>,
    /// Half-width of the nominal 98 % interval around the mean; `None` if unknown.
    pub bound_ns: Option<f64>,
    /// Standard deviation; `None` if unknown.
    pub stddev_ns: Option<f64>,
    /// 99th percentile, over several epochs the greatest of theirs; `None` if unknown.
    pub p99_ns: Option<f64>,
    /// Greatest delay; `None` if unknown.
    pub max_ns: Option<f64>,
}

/// The last figures of a segment that its switch reported.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StationSegment {
    /// The switch that reports it.
    pub switch: String,
    /// `inside`, `wire`, `around`, `probe` or `round_trip`: there and back.
    pub kind: String,
    /// Where packets enter it.
    pub from: String,
    /// Where they leave it.
    pub to: String,
    /// The class.
    pub class: String,
    /// Its method.
    pub method: String,
    /// Age of the figures: seconds since the end of their epoch.
    pub age_s: f64,
    /// Since when the switch is silent and the figures are out of date, in seconds since 1970 (UTC); `None` if it reports.
    #[serde(default)]
    pub silent_since_unix_s: Option<f64>,
    /// The figures.
    #[serde(flatten)]
    pub figures: SegmentFigures,
}

/// The history of a segment by minute, as localisation uses it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SegmentHistory {
    /// Oldest first.
    pub minutes: Vec<SegmentMinute>,
}

/// A segment over one minute.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SegmentMinute {
    /// Beginning of the minute in seconds since 1970 (UTC).
    pub start_unix_s: u64,
    /// Kind, ends and class.
    pub segment: String,
    /// The figures.
    #[serde(flatten)]
    pub figures: SegmentFigures,
}

/// The network that paths are found in: of the topology's file, of OSPF, or as switches report it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NetworkMap {
    /// Routers, by name.
    pub routers: Vec<MapRouter>,
    /// Links, each once, regardless of directions and parallel links.
    pub links: Vec<MapLink>,
    /// Reported links beyond the limits of 2,048 routers and 16,384 links.
    #[serde(default)]
    pub left_out: u64,
}

/// A router.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MapRouter {
    /// Its name.
    pub name: String,
    /// Whether a switch or prober at it has ever reported.
    pub reports: bool,
}

/// A link between two routers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MapLink {
    /// The router whose name comes first.
    pub from: String,
    /// The other router.
    pub to: String,
    /// The greatest mean delay on the wires between them, of the last reports; `None` where no wire measures the link.
    #[serde(default)]
    pub mean_ns: Option<f64>,
    /// The greatest share of packets lost on them, 0 to 1; likewise.
    #[serde(default)]
    pub loss_ratio: Option<f64>,
}

/// All shortest paths from one switch to another.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Paths {
    /// The first switch.
    pub from: String,
    /// The last one.
    pub to: String,
    /// Whether some paths are not listed.
    pub is_cut: bool,
    /// The paths.
    pub paths: Vec<PathAnswer>,
}

/// One path: its segments in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathAnswer {
    /// The switches, in order.
    pub switches: Vec<String>,
    /// Its segments.
    pub chain: Vec<Hop>,
    /// The sum of the segments that are measured now. Means, variances and bounds add; the share of packets that pass is the
    /// product. `packets` and `samples` are the smallest of all segments. The percentile of a sum is unknown.
    pub sum: SegmentFigures,
    /// Share of packets lost on these segments, 0 to 1.
    pub loss_ratio: f64,
    /// Whether every segment is measured now. If not, the sum is incomplete.
    pub is_covered: bool,
    /// Switches and wires on the path that have failed.
    #[serde(default)]
    pub failed: Vec<Failure>,
    /// End-to-end measurements, if any.
    pub end_to_end: Vec<StationSegment>,
}

/// A part of a path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hop {
    /// Its name: `edge-1: lan>wan`, `edge-1:wan > edge-2:wan`, or `a > router > b` for probes.
    pub title: String,
    /// `inside`, `wire`, `around`, `probe`, `round_trip` (half of a probe's round trip, because clocks are not
    /// synchronised) or `uncovered` (nothing measures it).
    pub kind: String,
    /// What would cover an uncovered part, that the figures are of a round trip, or why they are out of date.
    pub hint: Option<String>,
    /// Since when the figures are out of date, in seconds since 1970 (UTC), because the switch sends no reports or the wire's
    /// session is lost. The sum excludes them. `None` if they are current.
    #[serde(default)]
    pub stale_since_unix_s: Option<f64>,
    /// Age of the figures: seconds since the end of their epoch, the oldest if several segments were combined.
    pub age_s: Option<f64>,
    /// Combined over classes, and over all ports where packets may have arrived.
    pub figures: Option<SegmentFigures>,
    /// The segments that were combined.
    #[serde(default)]
    pub joined: Vec<Joined>,
}

/// A segment that is part of a hop.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Joined {
    /// The switch that reports it.
    pub switch: String,
    /// Where packets enter it.
    pub from: String,
    /// Where they leave it.
    pub to: String,
    /// The class.
    pub class: String,
    /// Packets that entered it.
    pub packets: u64,
}

impl Hop {
    /// Whether it has current figures.
    pub fn is_covered(&self) -> bool {
        self.figures.is_some() && self.stale_since_unix_s.is_none()
    }
}

/// A dead switch, whose reports stopped while other switches report, or a wire that nothing passes. Finding it takes no history.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// The switch, `edge-2`, or the wire in one direction, `edge-1:wan > edge-2:wan`.
    pub place: String,
    /// `switch` or `wire`.
    pub kind: String,
    /// Time of the failure, in seconds since 1970 (UTC).
    pub since_unix_s: f64,
    /// Why the station concludes that, in words.
    pub words: String,
}

/// All risen delays and losses in the fleet, and faults of measuring.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Blame {
    /// Monitored segments.
    pub segments: u64,
    /// Of these, segments whose history is still too short to detect a rise of their delay (three minutes with
    /// packets).
    pub learning: u64,
    /// Number of risen delays and losses.
    pub matching: u64,
    /// The worst of them, at most `limit`. To compare with delays, a share of lost packets counts as that share of a
    /// second, the least time after which TCP retransmits (RFC 6298, section 2.4).
    pub risen: Vec<Risen>,
    /// Switches and wires that have failed, by place.
    #[serde(default)]
    pub failed: Vec<Failure>,
    /// Faults of measuring, by place.
    pub faults: Vec<MeasuringFault>,
}

/// A segment whose delay or loss has risen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Risen {
    /// Its name, as in a path's chain.
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
    /// Current value: nanoseconds, or share of packets lost, 0 to 1.
    pub now: f64,
    /// Usual value, likewise.
    pub usual: f64,
    /// Difference between the two.
    pub rise: f64,
    /// Probability that the true rise is at least half of this, from its standard error, 0 to 1.
    pub confidence: f64,
    /// Start of the rise, in seconds since 1970 (UTC).
    pub since_unix_s: f64,
}

/// A fault of measuring, not of the network.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuringFault {
    /// `silent`, `clock_unsynchronised`, `clock_step` or `wire_session`.
    pub what: String,
    /// The affected switch or segment.
    pub place: String,
    /// Start of the fault, in seconds since 1970 (UTC); `None` if unknown.
    pub since_unix_s: Option<f64>,
    /// Description for people.
    pub words: String,
}

/// An analysis of the paths from one switch to another.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathBlames {
    /// The first switch.
    pub from: String,
    /// The last one.
    pub to: String,
    /// Whether some paths are not listed.
    pub is_cut: bool,
    /// Each shortest path separately.
    pub paths: Vec<PathBlame>,
}

/// An analysis of one path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PathBlame {
    /// The switches, in order.
    pub switches: Vec<String>,
    /// Its segments, in order.
    pub chain: Vec<BlamedHop>,
    /// Their sum; means and bounds add. `None` if a segment has no current figures.
    pub sum: Option<Level>,
    /// End-to-end measurement, by a probe or a wire between the ends.
    pub end_to_end: Option<BlamedHop>,
    /// The end-to-end delay minus the sum, in nanoseconds.
    pub difference_ns: Option<f64>,
    /// Largest difference that the bounds of both allow.
    pub difference_bound_ns: Option<f64>,
    /// Whether the difference is within that bound. If not, something between the segments is not measured, or a
    /// clock is off.
    pub is_difference_explained: Option<bool>,
    /// Switches and wires that have failed.
    #[serde(default)]
    pub failed: Vec<Failure>,
    /// Segments that rose, largest share first.
    pub causes: Vec<BlameCause>,
    /// Share of the end-to-end delay's rise not found in any segment, 0 to 1; `None` if it did not rise.
    pub unexplained_share: Option<f64>,
    /// The same for losses.
    pub unexplained_loss_share: Option<f64>,
    /// Faults of measuring; affected segments are not counted as causes.
    pub faults: Vec<MeasuringFault>,
    /// Unmeasured parts.
    pub uncovered: Vec<UncoveredHop>,
}

/// A delay and a share of losses, current and usual.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Level {
    /// Mean delay in nanoseconds, since it rose or else over the last five reports.
    pub mean_ns: f64,
    /// Half-width of its 98 % interval.
    pub bound_ns: f64,
    /// Usual mean delay at this time, in nanoseconds.
    pub usual_ns: f64,
    /// Share of packets lost, 0 to 1, over the same time.
    pub loss: f64,
    /// Half-width of its 98 % interval.
    pub loss_bound: f64,
    /// Usual share of packets lost.
    pub usual_loss: f64,
}

/// A segment of a path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlamedHop {
    /// Its name.
    pub title: String,
    /// `inside`, `wire`, `around`, `probe` or `round_trip`.
    pub kind: String,
    /// `None` if its switch is silent, or there were no packets.
    pub level: Option<Level>,
    /// Standard deviation of delays in the last report with delays, in nanoseconds; the greatest if several segments
    /// were combined.
    pub stddev_ns: Option<f64>,
    /// Their 99th percentile, likewise.
    pub p99_ns: Option<f64>,
    /// Seconds since the end of that report's epoch; the oldest if several were combined.
    pub age_s: Option<f64>,
    /// Whether its history is long enough to detect a rise of its delay.
    pub is_ready: bool,
}

/// A segment that accounts for a rise.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlameCause {
    /// Name of the segment.
    pub title: String,
    /// `delay` or `loss`.
    pub signal: String,
    /// This segment's part of the path's rise, in per cent.
    pub share_percent: f64,
    /// Size of the rise: nanoseconds, or share of packets.
    pub rise: f64,
    /// Probability that the true rise is at least half of this, from its standard error, 0 to 1.
    pub confidence: f64,
    /// Start of the rise, in seconds since 1970 (UTC).
    pub since_unix_s: f64,
}

/// A part that nothing measures.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UncoveredHop {
    /// Its name.
    pub title: String,
    /// What would cover it.
    pub cover: String,
    /// Whether over a fifth of the end-to-end rise was found in no measured segment, so that it may be
    /// here.
    pub is_suspect: bool,
}

/// The flows that switches report.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StationFlows {
    /// How many match.
    pub matching: u64,
    /// Those with most packets, at most `limit`.
    pub flows: Vec<StationFlow>,
}

/// A flow, joined over the switches that report it among their top flows. Delays are inside the switches, without wires.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StationFlow {
    /// `10.0.0.1:1024>10.0.0.2:80/tcp`.
    pub flow: String,
    /// Segments that report it.
    pub segments: u64,
    /// The most packets that one of them had in its last report.
    pub packets: u64,
    /// Packets lost in all of them.
    pub lost: u64,
    /// Sum of their mean delays in nanoseconds; `None` where none is known.
    pub mean_ns: Option<f64>,
}

/// A flow, hop by hop over the switches that saw it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowPath {
    /// `10.0.0.1:1024>10.0.0.2:80/tcp`.
    pub flow: String,
    /// Whether the order is known from links between the switches; if not, hops are sorted by name.
    pub is_ordered: bool,
    /// In the order of the path.
    pub hops: Vec<FlowHop>,
    /// Index in `hops` of the one with the greatest mean; `None` without delays.
    pub slowest: Option<usize>,
    /// Its share of the sum of all means, in per cent.
    pub slowest_percent: Option<f64>,
}

/// A hop of a flow: through a switch, or on a wire to the next switch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowHop {
    /// Its name.
    pub title: String,
    /// `inside` or `wire`.
    pub kind: String,
    /// Whether the figures are of this flow alone; on wires they are of all packets of its class.
    pub is_of_flow: bool,
    /// Packets in the last report.
    pub packets: u64,
    /// Of these, packets lost; `None` if unknown.
    pub lost: Option<i64>,
    /// Mean delay in nanoseconds; `None` if unknown.
    pub mean_ns: Option<f64>,
    /// Standard deviation, likewise.
    pub stddev_ns: Option<f64>,
    /// 99th percentile, likewise.
    pub p99_ns: Option<f64>,
    /// Age of the figures: seconds since the end of their epoch.
    pub age_s: f64,
}
