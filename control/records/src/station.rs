//! Answers of a station, which joins the reports of many switches.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a station knows of each switch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Switches {
    /// By name.
    pub switches: Vec<SwitchState>,
}

contract::record! {
    /// A switch, by its reports.
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
        /// Since when it is silent, in seconds since 1970 (UTC): the end of its last epoch; `None` while it reports.
        #[metric(
            Gauge = "vernier_station_switch_silent_since_timestamp_seconds",
            help = "Since when the switch is silent; absent while it reports."
        )]
        pub silent_since_unix_s: Option<f64>,
        /// Why the last report's epochs cannot be trusted: reasons, stalled workers, what is not ready; what was evicted or set aside.
        /// Empty: they can.
        pub problems: Vec<String>,
        /// What the clock of its wires follows; empty without wires.
        pub clock: String,
        /// Reports counted.
        #[metric(Counter = "vernier_station_switch_reports_total")]
        pub reports: u64,
        /// Reports that had been counted before.
        #[metric(Counter = "vernier_station_switch_duplicate_reports_total")]
        pub duplicates: u64,
        /// Epochs that no report covers.
        #[metric(Counter = "vernier_station_switch_missed_epochs_total")]
        pub missed_epochs: u64,
        /// Reports that the switch dropped in this run because its spool was full.
        pub dropped_reports: u64,
        /// Times that the switch began anew.
        #[metric(Counter = "vernier_station_switch_restarts_total")]
        pub restarts: u64,
        /// Segments evicted because the switch has too many.
        #[serde(default)]
        #[metric(Counter = "vernier_station_switch_evicted_segments_total")]
        pub evicted_segments: u64,
        /// Times that something of it was set aside so that other switches go on: a value that could not be read or written, a
        /// report on which the station panicked.
        #[serde(default)]
        #[metric(
            Counter = "vernier_station_switch_set_aside_total",
            help = "Times that something of the switch was set aside so that others go on."
        )]
        pub set_aside: u64,
        /// The last gaps, at most 8, the oldest first.
        pub gaps: Vec<Gap>,
    }
}

/// Epochs that no report covers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gap {
    /// The first.
    pub first_epoch: u64,
    /// The last.
    pub last_epoch: u64,
    /// End of the last in seconds since 1970 (UTC).
    pub end_unix_s: f64,
}

/// What is missing: switches that are silent, and gaps of the others.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Missing {
    /// Switches that have reported.
    pub known: u64,
    /// Those that are silent, or whose reports have gaps, by name.
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
    /// The switch.
    pub switch: String,
    /// Why.
    pub why: String,
}

/// Segments of many switches.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StationSegments {
    /// How many match.
    pub matching: u64,
    /// Those asked for, by switch, in the order of `offset` and `limit`.
    pub segments: Vec<StationSegment>,
}

/// Figures of a segment over some time. Delays in nanoseconds, on wires signed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SegmentFigures {
    /// Packets that entered it.
    pub packets: u64,
    /// Of these, packets lost; signed on wires.
    pub lost: i64,
    /// Packets whose delay is known.
    pub samples: u64,
    /// Mean delay; `None` where none is known.
    pub mean_ns: Option<f64>,
    /// Half-width of the nominal 98 % interval around the mean; `None` where it is not known.
    pub bound_ns: Option<f64>,
    /// Standard deviation; `None` where it is not known.
    pub stddev_ns: Option<f64>,
    /// 99th percentile; over more than one epoch the greatest of theirs. `None` where it is not known.
    pub p99_ns: Option<f64>,
    /// Greatest delay; `None` where it is not known.
    pub max_ns: Option<f64>,
}

/// A segment as its switch reported it last.
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
    /// By which method.
    pub method: String,
    /// Seconds since the end of the epoch that the figures are of.
    pub age_s: f64,
    /// The figures.
    #[serde(flatten)]
    pub figures: SegmentFigures,
}

/// The minutes of a segment: what localisation compares.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SegmentHistory {
    /// The oldest first.
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
    /// Links, each once, whatever its directions and however many are parallel.
    pub links: Vec<MapLink>,
    /// Links of reports for which there is no room: a network has at most 2,048 routers and 16,384 links.
    #[serde(default)]
    pub left_out: u64,
}

/// A router.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MapRouter {
    /// Its name.
    pub name: String,
    /// Whether a switch or a prober of it has ever reported.
    pub reports: bool,
}

/// A link between two routers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MapLink {
    /// The router whose name comes first.
    pub from: String,
    /// The other.
    pub to: String,
    /// The greatest mean delay on the wires between them, of the last reports; `None` where no wire measures the link.
    #[serde(default)]
    pub mean_ns: Option<f64>,
    /// The greatest share of packets lost on them, 0 to 1; likewise.
    #[serde(default)]
    pub loss_ratio: Option<f64>,
}

/// All paths of least cost from one switch to another.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Paths {
    /// The first switch.
    pub from: String,
    /// The last one.
    pub to: String,
    /// Whether there are more paths than are listed.
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
    /// The sum of the segments that are covered. Means, variances and bounds add; the share of packets that pass all is the
    /// product. `packets` and `samples` are the least of them. A percentile of a sum is not known.
    pub sum: SegmentFigures,
    /// Share of packets lost on the covered segments, 0 to 1.
    pub loss_ratio: f64,
    /// Whether every segment is covered.
    pub is_covered: bool,
    /// What was measured from end to end, where something was.
    pub end_to_end: Vec<StationSegment>,
}

/// A part of a path.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hop {
    /// In words: `edge-1: lan>wan`, `edge-1:wan > edge-2:wan`, `a > router > b` of probes.
    pub title: String,
    /// `inside`, `wire`, `around` or `probe`; `round_trip`: half of a probe's, as clocks are not synchronised; `uncovered`
    /// where nothing measures it.
    pub kind: String,
    /// What would cover it, where nothing does; what the figures are of, where that is a round trip.
    pub hint: Option<String>,
    /// Seconds since the end of the epoch that the figures are of; the oldest where several segments were joined.
    pub age_s: Option<f64>,
    /// Joined over classes, and over all ports by which packets may have come.
    pub figures: Option<SegmentFigures>,
    /// The segments that were joined.
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
