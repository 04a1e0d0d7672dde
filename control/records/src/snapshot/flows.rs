//! Flows, as they are published.

use std::cmp::Ordering;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::sync::Arc;

use contract::metric::{Each, Shown};
use contract::{labelled_enum, record};
use measure::packet::{FlowKey, FlowKeyError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::segment::title;
use super::{Delay, Labelled, Snapshot, WireFlow};
use crate::history::{Course, History};
use crate::query::{FEW_PACKETS, FlowOrder, FlowQuery, selects};

/// The tracked flows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Flows {
    /// Their totals.
    #[serde(flatten)]
    pub totals: FlowTotals,
    /// The flows with series of their own, the largest first.
    pub top: Vec<TopFlow>,
    /// For each segment with flows, the credits of flows without series of their own.
    pub other: Vec<OtherFlows>,
    /// Joint decoding; `None` if it is off.
    pub decoding: Option<Decoding>,
    /// Accuracy of estimates against stamps, by method and size of flows.
    #[serde(default)]
    pub judged: Vec<JudgedEstimates>,
    /// Every flow in the directory at the end of an epoch.
    #[serde(skip)]
    pub list: Arc<FlowList>,
    /// Recently forgotten flows with their final figures, the latest last; at most [`ENDED_MAX`].
    #[serde(skip)]
    pub ended: Arc<FlowList>,
}

record! {
    /// Totals of the tracked flows.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct FlowTotals {
        /// Flows that have a slot.
        #[metric(Gauge = "vernier_flows_tracked")]
        pub tracked: u64,
        /// Slots of all workers.
        #[metric(Gauge = "vernier_flow_slots")]
        pub slots: u64,
        /// Free slots.
        #[metric(Gauge = "vernier_flow_slots_free")]
        pub free_slots: u64,
        /// New flows.
        #[metric(Counter = "vernier_flows_new_total")]
        pub new: u64,
        /// Flows that lost their slot because they were idle.
        pub expired: u64,
        /// Flows that lost their slot to other flows.
        pub evicted: u64,
        /// Packets of untracked flows, by reason.
        #[metric(Counter = "vernier_flows_untracked_packets_total", label = "reason")]
        pub untracked: Vec<Labelled>,
        /// Flows with packets in an epoch but without series of their own, added up in flow="other"; summed over
        /// epochs.
        #[metric(Counter = "vernier_flows_folded_total")]
        pub folded: u64,
    }
}

/// Most flows that are remembered after they were forgotten.
pub const ENDED_MAX: usize = 4_096;

record! {
    /// A flow on a segment, inside the switch or of a wire.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub struct Flow {
        /// `10.0.0.1:1024>10.0.0.2:80/tcp`; or `#` and its hash, 16 hexadecimal digits, if only a wire has seen it.
        pub flow: String,
        /// Name of the ingress port; on a wire `port:peer`, the port at the other end.
        pub ingress: String,
        /// Name of the egress port; on a wire, the port where packets arrive.
        pub egress: String,
        /// Its class.
        pub class: String,
        /// Whether the segment arrives by a wire. If so, epochs are the sender's, and there are no stamps.
        #[serde(default)]
        pub is_on_wire: bool,
        /// The epoch in which it was first seen, or first seen again after it was forgotten.
        pub first_epoch: u64,
        /// The last epoch in which it had packets.
        pub last_epoch: u64,
        /// Beginning of the first epoch, in seconds since 1970 (UTC).
        pub first_seen_unix_s: f64,
        /// End of the last epoch, likewise.
        pub last_seen_unix_s: f64,
        /// Figures of its last epoch.
        pub last: FlowFigures,
        /// Figures since it was first seen; on a wire, over the decoded epochs.
        pub total: FlowFigures,
        /// Percentiles of the flow's stamped delay in its last epoch, exact to an eighth; its exact maximum as
        /// `share="1"`.
        #[serde(default)]
        #[metric(Gauge = "vernier_flow_delay_last_epoch_seconds", label = "share", per_unit = 1e9)]
        pub quantiles: Option<FlowQuantiles>,
        /// The best estimate of its mean: the one with the smallest bound, or `combined` if two are similar; `None`
        /// without any.
        pub estimate: Option<FlowEstimate>,
        /// Estimates of all methods.
        #[serde(default)]
        pub estimates: Vec<FlowEstimate>,
        /// On a wire, the mean since it was first seen; `None` inside the switch, or without any.
        #[serde(default)]
        pub running: Option<RunningMean>,
        /// Estimates from references (RLI) inside the switch; `None` without any, and on wires.
        #[serde(default)]
        pub references: Option<FlowReferences>,
    }
}

/// Percentiles of a flow's delays in one epoch. For flows with series of their own they are off by an eighth or a
/// nanosecond at most; for a wire's largest flows they come from references, if enough arrived.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowQuantiles {
    /// Median.
    pub p50_ns: f64,
    /// 90th percentile.
    pub p90_ns: f64,
    /// 99th percentile.
    pub p99_ns: f64,
    /// The exact maximum; `None` if delays are interpolated between references instead of stamped.
    pub max_ns: Option<f64>,
}

impl Shown for FlowQuantiles {
    /// Percentiles by their shares.
    fn show(&self, per_unit: f64, each: Each<'_>) {
        let percentiles = [
            ("0.5", self.p50_ns),
            ("0.9", self.p90_ns),
            ("0.99", self.p99_ns),
        ];
        let max = self.max_ns.map(|max_ns| ("1", max_ns));
        for (share, value_ns) in percentiles.into_iter().chain(max) {
            each(share, value_ns / per_unit);
        }
    }
}

/// Counts of a flow, and its delays by stamps; exact, except on wires as noted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowFigures {
    /// Packets that left the segment.
    pub packets: u64,
    /// Bytes of these, without frame check sequences.
    pub bytes: u64,
    /// Packets lost. On a wire an upper limit, and `None` if no row of the sketch takes every packet.
    pub lost_packets: Option<u64>,
    /// Mean of the stamped delays in nanoseconds; `None` without packets, and on wires.
    pub mean_ns: Option<f64>,
    /// Standard deviation of delays in nanoseconds; on a wire from references (RLI), `None` if they give none.
    pub stddev_ns: Option<f64>,
}

/// A mean over several epochs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunningMean {
    /// Its epochs: those whose estimates had a bound.
    pub epochs: u64,
    /// The flow's packets in them.
    pub packets: u64,
    /// Mean delay of these packets in nanoseconds.
    pub mean_ns: f64,
    /// Half-width of the nominal 98 % interval: the mean of the epochs' bounds weighted by packets, because all may
    /// be off in the same direction, as clocks are.
    pub bound_ns: f64,
}

/// A flow's delays from references (RLI).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowReferences {
    /// How delays between references are estimated: `rli-l`, `rli`, `rli-s` or `rli-as`.
    pub method: FlowMethod,
    /// Figures of its last epoch; `None` if none of its packets was estimated.
    pub last: Option<ReferenceFigures>,
    /// Since it was first seen.
    pub total: ReferenceFigures,
}

/// Figures of delays estimated from references.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReferenceFigures {
    /// Packets whose delay was estimated.
    pub packets: u64,
    /// Their mean in nanoseconds.
    pub mean_ns: f64,
    /// Half-width of the nominal 98 % interval around it.
    pub bound_ns: f64,
    /// Their standard deviation.
    pub stddev_ns: f64,
}

labelled_enum! {
    /// The method of a flow's estimate.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum FlowMethod {
        /// Joint decoding of one epoch's sketch.
        LdsJoint = "lds-joint",
        /// Joint decoding of the sum of several epochs' sketches.
        LdsJointSum = "lds-joint-sum",
        /// The LDS paper's estimator, as fallback of joint decoding; without a bound.
        LdsPaper = "lds-paper",
        /// The mean of the other flows, without a bound: the flow lost packets in each of its cells, so none is
        /// usable.
        LdsPrior = "lds-prior",
        /// Joint decoding that starts from the references' estimate of each flow.
        Hybrid = "hybrid",
        /// The hybrid and references, weighted by their bounds.
        Combined = "combined",
        /// References: the delay of the reference before (RLI-L).
        RliL = "rli-l",
        /// References: on the line between two references (RLI).
        Rli = "rli",
        /// References: on a curve that matches the sums they carry (RLI-S).
        RliS = "rli-s",
        /// References: on a curve through the ends of idle times as well (RLI-AS).
        RliAs = "rli-as",
    }
}

record! {
    /// An estimate of a flow's mean delay.
    #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub struct FlowEstimate {
        /// Its method.
        pub method: FlowMethod,
        /// The last epoch that it is for.
        pub epoch: u64,
        /// Epochs in the estimate: 1, or the number in a sum if decoding takes long.
        #[metric(Gauge = "vernier_flow_estimated_epochs")]
        pub epochs: u32,
        /// The flow's packets in these epochs.
        pub packets: u64,
        /// Mean delay of the flow over the epochs in the estimate.
        #[metric(Gauge = "vernier_flow_estimated_delay_mean_seconds", per_unit = 1e9)]
        pub mean_ns: f64,
        /// Half-width of the nominal 98 % interval around the estimated mean, at least the clock's resolution; absent
        /// if the error is unknown.
        #[metric(Gauge = "vernier_flow_delay_bound_seconds", per_unit = 1e9)]
        pub bound_ns: Option<f64>,
        /// Whether the stamped mean of the same packets is within the bound; `None` without a bound.
        pub is_within_bound: Option<bool>,
    }
}

/// A flow with series of its own in Prometheus.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopFlow {
    /// The flow, at its last epoch.
    #[serde(flatten)]
    pub flow: Flow,
    /// Why it has series of its own: `pinned`, `packets` or `delay`.
    pub reason: String,
    /// The first epoch that was credited to it.
    pub since_epoch: u64,
    /// Its credits since then.
    pub credited: Credit,
    /// Its delays of the last minute, ten minutes and hour.
    #[serde(skip)]
    pub history: History,
}

/// Credits of all flows without series of their own, on one segment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OtherFlows {
    /// Its ports and class.
    #[serde(flatten)]
    pub segment: SegmentName,
    /// Since the switch started.
    pub credited: Credit,
}

record! {
    /// Sums that only rise. Every measured packet is credited to one flow, or to `other`.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub struct Credit {
        /// Packets.
        pub packets: u64,
        /// Sum of their stamped delays in seconds.
        pub delay_sum_s: f64,
        /// Lost packets of the flow while it had series of its own.
        #[metric(Counter = "vernier_flow_lost_packets_total")]
        pub lost_packets: u64,
    }
}

record! {
    /// Joint decoding of the flows' delays.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub struct Decoding {
        /// The last epoch of the last decoding; `None` before the first.
        pub epoch: Option<u64>,
        /// Epochs that it covered as one sum; 1 if decoding keeps up with every epoch.
        pub epochs: u32,
        /// Flows in the last joint decoding.
        #[metric(Gauge = "vernier_decode_flows")]
        pub flows: u64,
        /// Duration of the last decoding.
        #[metric(Gauge = "vernier_decode_duration_seconds")]
        pub duration_s: f64,
        /// Decodings since the switch started.
        #[metric(Counter = "vernier_decode_runs_total")]
        pub runs: u64,
        /// Epochs that were decoded in a sum with other epochs.
        #[metric(Counter = "vernier_decode_summed_epochs_total")]
        pub summed_epochs: u64,
        /// Epochs that were not decoded because one of the switch's sketches was unusable or a decoding failed.
        #[metric(Counter = "vernier_decode_skipped_epochs_total")]
        pub skipped_epochs: u64,
    }
}

record! {
    /// Accuracy of flow estimates against the stamped means of the same packets, for one method and one size of
    /// flows.
    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub struct JudgedEstimates {
        /// The method; `chosen` for the best estimates, whatever their method.
        pub method: String,
        /// Packets of a flow in the epochs of its estimate: `1-9`, `10-99`, `100-999` or `1000-`.
        pub size: String,
        /// Estimates with a bound that contained the stamped mean, since the switch started.
        pub within_bound: u64,
        /// Estimates with a bound that did not.
        pub beyond_bound: u64,
        /// Estimates of flows without a bound, because their error is unknown, by method and packets of the flow.
        #[metric(Counter = "vernier_flow_estimates_without_bound_total")]
        pub without_bound: u64,
        /// Median over flows of |estimate - stamped mean| / stamped mean, in the last epochs with such flows.
        #[metric(Gauge = "vernier_flow_estimate_error_median_ratio")]
        pub error_ratio_median: Option<f64>,
    }
}

/// Everything known about one flow, tracked or not.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowAnswer {
    /// `10.0.0.1:1024>10.0.0.2:80/tcp`; `#` and 16 hexadecimal digits if requested by its hash.
    pub flow: String,
    /// The last epoch that closed.
    pub epoch: Option<u64>,
    /// Its end in seconds since 1970 (UTC).
    #[serde(default)]
    pub epoch_end_unix_s: Option<f64>,
    /// Where it is tracked.
    pub tracked: Vec<AnsweredFlow>,
    /// Where it was tracked until recently.
    pub ended: Vec<Flow>,
    /// Estimates from sketches on segments where it is not tracked but may have had packets. If a sketch
    /// shows none, it had none.
    pub sketched: Vec<SketchedFlow>,
    /// The flow on segments of wires that arrive here, in each one's last decoded epoch, where it may have
    /// had packets.
    #[serde(default)]
    pub wires: Vec<WireFlow>,
}

impl FlowAnswer {
    /// Whether nothing is currently known of the flow.
    pub fn says_nothing(&self) -> bool {
        self.tracked.is_empty() && self.sketched.is_empty() && self.wires.is_empty()
    }
}

/// A flow that is tracked, with its course.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AnsweredFlow {
    /// The flow.
    #[serde(flatten)]
    pub flow: Flow,
    /// Its last minute, ten minutes and hour; empty unless it has series of its own.
    pub courses: Vec<Course>,
}

/// An untracked flow, as seen in a sketch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SketchedFlow {
    /// Its ports and class.
    #[serde(flatten)]
    pub segment: SegmentName,
    /// Most packets in the epochs of the estimate.
    pub packets_max: u64,
    /// Most packets lost in them.
    pub lost_packets_max: u64,
    /// Mean delay, estimated jointly with all tracked flows or by the paper's estimator; `None` if no
    /// usable cell contains a packet of it.
    pub estimate: Option<FlowEstimate>,
}

impl Flow {
    /// Its segment: `east>west`, or `east>west gold` with classes.
    pub fn segment_title(&self) -> String {
        title(&self.ingress, &self.egress, &self.class)
    }

    /// Whether the other is the same flow on the same segment.
    pub fn is_alike(&self, other: &Self) -> bool {
        let [a, b] = [self, other];
        (&a.flow, &a.ingress, &a.egress, &a.class) == (&b.flow, &b.ingress, &b.egress, &b.class)
    }
}

impl Snapshot {
    /// Start of an epoch, in seconds since 1970 (UTC), by the clock as of the last closed epoch.
    pub fn epoch_start_unix_s(&self, epoch: u64) -> f64 {
        self.epoch_times().start_unix_s(epoch)
    }

    /// When epochs begin and end.
    pub fn epoch_times(&self) -> EpochTimes {
        EpochTimes {
            next: self.epoch.map_or(0, |closed| closed + 1),
            next_unix_s: self.epoch_end_unix_s.unwrap_or_default(),
            interval_s: f64::from(self.interval_ms) / 1e3,
        }
    }

    /// When the first epoch, number 0, began.
    pub fn origin_unix_s(&self) -> f64 {
        self.epoch_start_unix_s(0)
    }

    /// All that is known of a flow where it is, or was, tracked.
    pub fn answer(&self, name: FlowName) -> FlowAnswer {
        let flows = self.flows.as_ref();
        let named = |list: &FlowList| -> Vec<Flow> {
            list.of(name).map(|flow| self.flow(list, flow)).collect()
        };
        let tracked = flows.map_or_else(Vec::new, |flows| named(&flows.list));
        let courses = |flow: &Flow| {
            let mut top = flows.into_iter().flat_map(|flows| &flows.top);
            let top = top.find(|top| top.flow.is_alike(flow));
            top.map_or_else(Vec::new, |top| top.history.courses(self.origin_unix_s()))
        };
        FlowAnswer {
            flow: name.to_string(),
            epoch: self.epoch,
            epoch_end_unix_s: self.epoch_end_unix_s,
            tracked: tracked
                .into_iter()
                .map(|flow| AnsweredFlow {
                    courses: courses(&flow),
                    flow,
                })
                .collect(),
            ended: flows.map_or_else(Vec::new, |flows| named(&flows.ended)),
            sketched: Vec::new(),
            wires: Vec::new(),
        }
    }

    /// Returns a flow of one of this snapshot's lists, with names and times.
    pub fn flow(&self, list: &FlowList, record: &FlowRecord) -> Flow {
        list.flow(record, &self.epoch_times())
    }
}

/// The identity of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlowName {
    /// Its addresses, ports and protocol.
    Key(FlowKey),
    /// Its hash, for a flow that only a wire has seen.
    Hash(u64),
}

impl Display for FlowName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => key.fmt(f),
            Self::Hash(hash) => write!(f, "#{hash:016x}"),
        }
    }
}

/// A text that is not the name of a flow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlowNameError {
    /// Not a key.
    #[error(transparent)]
    Key(#[from] FlowKeyError),
    /// Not a hash.
    #[error("expected # and 16 hexadecimal digits, such as #0123456789abcdef, got {0:?}")]
    Hash(String),
}

impl FromStr for FlowName {
    type Err = FlowNameError;

    /// Parses the displayed form.
    fn from_str(text: &str) -> Result<Self, FlowNameError> {
        let Some(digits) = text.strip_prefix('#') else {
            return Ok(Self::Key(text.parse()?));
        };
        let is_hash = digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let hash = u64::from_str_radix(digits, 16).ok().filter(|_| is_hash);
        hash.map(Self::Hash)
            .ok_or_else(|| FlowNameError::Hash(text.to_owned()))
    }
}

/// One flow of a [`FlowList`].
#[derive(Debug, Clone, PartialEq)]
pub struct FlowRecord {
    /// The flow.
    pub name: FlowName,
    /// Index of its segment's names in [`FlowList::segments`].
    pub segment: u32,
    /// See [`Flow::first_epoch`].
    pub first_epoch: u64,
    /// See [`Flow::last_epoch`].
    pub last_epoch: u64,
    /// See [`Flow::last`].
    pub last: FlowFigures,
    /// See [`Flow::total`].
    pub total: FlowFigures,
    /// See [`Flow::quantiles`].
    pub quantiles: Option<FlowQuantiles>,
    /// [`Flow::estimate`], followed by [`Flow::estimates`].
    pub estimates: Option<Arc<[FlowEstimate]>>,
    /// Figures that exist on one kind of segment only.
    pub more: Option<FlowMore>,
}

/// Figures of a flow that exist on one kind of segment only.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FlowMore {
    /// Inside the switch: see [`Flow::references`].
    References(FlowReferences),
    /// On a wire: see [`Flow::running`].
    Running(RunningMean),
}

/// Ports and class of a segment, by name.
#[derive(
    Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct SegmentName {
    /// Name of the ingress port.
    pub ingress: String,
    /// Name of the egress port.
    pub egress: String,
    /// The class.
    pub class: String,
}

impl SegmentName {
    /// `east>west`, or `east>west gold` with classes.
    pub fn title(&self) -> String {
        title(&self.ingress, &self.egress, &self.class)
    }
}

/// Flows at the end of an epoch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FlowList {
    /// The epoch; `None` before the first.
    pub epoch: Option<u64>,
    /// Names of the segments that flows refer to.
    pub segments: Vec<Arc<SegmentName>>,
    /// The flows, in no particular order.
    pub flows: Vec<FlowRecord>,
    /// On a wire, when the sender's epochs begin and end; `None` inside the switch.
    pub wire_times: Option<EpochTimes>,
}

/// When epochs begin and end.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct EpochTimes {
    /// An epoch.
    pub next: u64,
    /// When it begins, in seconds since 1970 (UTC).
    pub next_unix_s: f64,
    /// Length of an epoch.
    pub interval_s: f64,
}

impl EpochTimes {
    /// When an epoch begins, in seconds since 1970 (UTC).
    pub fn start_unix_s(&self, epoch: u64) -> f64 {
        self.next_unix_s + (epoch as f64 - self.next as f64) * self.interval_s
    }
}

impl FlowRecord {
    /// See [`Flow::estimate`].
    pub fn estimate(&self) -> Option<&FlowEstimate> {
        self.estimates.as_deref()?.first()
    }

    /// The stamped delay of its last epoch.
    pub fn stamped_delay(&self) -> Option<Delay<'static>> {
        let quantiles = self.quantiles;
        let known_ns = quantiles.map(|of| [of.p50_ns, of.p90_ns, of.p99_ns].map(Some));
        let [p50_ns, p90_ns, p99_ns] = known_ns.unwrap_or_default();
        Some(Delay {
            method: "stamped",
            epoch: self.last_epoch,
            samples: Some(self.last.packets),
            mean_ns: self.last.mean_ns?,
            stddev_ns: Some(self.last.stddev_ns.unwrap_or_default()),
            max_ns: quantiles.and_then(|of| of.max_ns),
            quantiles_ns: [p50_ns, p90_ns, p99_ns, None, None],
            ..Delay::default()
        })
    }

    /// The estimated delay.
    pub fn estimated_delay(&self) -> Option<Delay<'static>> {
        self.estimate().map(|estimate| Delay {
            method: estimate.method.label(),
            epoch: estimate.epoch,
            samples: Some(estimate.packets),
            mean_ns: estimate.mean_ns,
            bound_ns: estimate.bound_ns,
            ..Delay::default()
        })
    }

    /// Its key, if known.
    pub fn key(&self) -> Option<&FlowKey> {
        match &self.name {
            FlowName::Key(key) => Some(key),
            FlowName::Hash(_) => None,
        }
    }

    /// The number by which `order` sorts it.
    fn rank(&self, order: FlowOrder) -> f64 {
        let estimated_ns = || self.estimate().map(|estimate| estimate.mean_ns);
        let number = match order {
            FlowOrder::Packets => Some(self.last.packets as f64),
            FlowOrder::Bytes => Some(self.last.bytes as f64),
            FlowOrder::Mean => self.last.mean_ns.or_else(estimated_ns),
            FlowOrder::Stddev => self.last.stddev_ns,
            FlowOrder::P99 => self.quantiles.map(|quantiles| quantiles.p99_ns),
            FlowOrder::Lost => self.last.lost_packets.map(|lost| lost as f64),
            FlowOrder::TotalPackets => Some(self.total.packets as f64),
            FlowOrder::TotalLost => self.total.lost_packets.map(|lost| lost as f64),
            FlowOrder::Estimate => estimated_ns(),
            FlowOrder::Bound => self.estimate().and_then(|estimate| estimate.bound_ns),
            FlowOrder::First => Some(self.first_epoch as f64),
            FlowOrder::Last => Some(self.last_epoch as f64),
        };
        number.unwrap_or(f64::MIN)
    }
}

/// Returns one page of flows with their lists, and the number of selected flows in all lists. Flows of equal rank are
/// in an order that does not change from epoch to epoch.
pub fn select<'l>(
    lists: &[&'l FlowList],
    query: &FlowQuery,
) -> (usize, Vec<(&'l FlowList, &'l FlowRecord)>) {
    let mut selected: Vec<(usize, &FlowRecord)> = Vec::new();
    for (number, list) in lists.iter().enumerate() {
        selected.extend(list.selected(query).map(|flow| (number, flow)));
    }
    let matching = selected.len();
    let is_by_delay = query.sort.is_by_delay();
    let order =
        |(list_a, a): &(usize, &FlowRecord), (list_b, b): &(usize, &FlowRecord)| -> Ordering {
            let rising = a.rank(query.sort).total_cmp(&b.rank(query.sort));
            let ordering = if query.ascending {
                rising
            } else {
                rising.reverse()
            };
            let is_last = |flow: &FlowRecord| is_by_delay && flow.last.packets < FEW_PACKETS;
            (is_last(a).cmp(&is_last(b)))
                .then(ordering)
                .then_with(|| (a.name, list_a, a.segment).cmp(&(b.name, list_b, b.segment)))
        };
    let end = query.offset.saturating_add(query.limit);
    if end < matching {
        if end > 0 {
            selected.select_nth_unstable_by(end - 1, order);
        }
        selected.truncate(end);
    }
    selected.sort_unstable_by(order);
    selected.drain(..query.offset.min(selected.len()));
    let flows = selected.into_iter().map(|(list, flow)| (lists[list], flow));
    (matching, flows.collect())
}

impl FlowList {
    fn selected(&self, query: &FlowQuery) -> impl Iterator<Item = &FlowRecord> {
        let segments = self.segments.iter();
        let wanted = [&query.ingress, &query.egress, &query.class];
        let is_selected =
            segments.map(|name| selects(wanted, [&name.ingress, &name.egress, &name.class]));
        let is_selected: Vec<bool> = is_selected.collect();
        self.flows.iter().filter(move |flow| {
            is_selected.get(flow.segment as usize) == Some(&true)
                && (query.contains.as_ref())
                    .is_none_or(|part| flow.name.to_string().contains(part.as_str()))
                && query.selects_ends(|| flow.key()?.five_tuple())
        })
    }

    /// All entries of this flow: one for each segment that it passes.
    pub fn of(&self, name: FlowName) -> impl Iterator<Item = &FlowRecord> {
        self.flows.iter().filter(move |flow| flow.name == name)
    }

    /// Returns a flow with names and times; `times` are those of the switch's own epochs.
    pub fn flow(&self, record: &FlowRecord, times: &EpochTimes) -> Flow {
        let name = self.segments.get(record.segment as usize);
        let name = name.map(|name| (**name).clone()).unwrap_or_default();
        let times = self.wire_times.as_ref().unwrap_or(times);
        let (references, running) = match record.more {
            Some(FlowMore::References(references)) => (Some(references), None),
            Some(FlowMore::Running(running)) => (None, Some(running)),
            None => (None, None),
        };
        Flow {
            flow: record.name.to_string(),
            ingress: name.ingress,
            egress: name.egress,
            class: name.class,
            is_on_wire: self.wire_times.is_some(),
            first_epoch: record.first_epoch,
            last_epoch: record.last_epoch,
            first_seen_unix_s: times.start_unix_s(record.first_epoch),
            last_seen_unix_s: times.start_unix_s(record.last_epoch + 1),
            last: record.last,
            total: record.total,
            quantiles: record.quantiles,
            estimate: record.estimate().copied(),
            estimates: (record.estimates.iter())
                .flat_map(|estimates| estimates.iter().skip(1).copied())
                .collect(),
            running,
            references,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_from_the_last_epoch_that_closed() {
        let snapshot = Snapshot::example();
        let list = FlowList::example(vec![FlowRecord::example(0, 1)]);
        let flow = snapshot.flow(&list, &list.flows[0]);
        assert!((flow.last_seen_unix_s - 1_700_000_000.25).abs() < 1e-6);
        assert!((flow.first_seen_unix_s - (1_700_000_000.25 - 20.0)).abs() < 1e-6);
        assert_eq!(flow.ingress, "east");
    }

    fn ports(flows: &[(&FlowList, &FlowRecord)]) -> Vec<u16> {
        let port = |(_, flow): &(&FlowList, &FlowRecord)| match flow.name {
            FlowName::Key(FlowKey::Ip(ip)) => ip.source_port - 1_024,
            _ => 0,
        };
        flows.iter().map(port).collect()
    }

    #[test]
    fn pages_are_parts_of_one_order() {
        let list = FlowList::example(
            (0..100)
                .map(|n| FlowRecord::example(n, u64::from(n % 10)))
                .collect(),
        );
        let all = select(&[&list], &FlowQuery::default());
        assert_eq!(all.0, 100);
        let paged = (0..100).step_by(7).flat_map(|offset| {
            let query = FlowQuery {
                offset,
                limit: 7,
                ..FlowQuery::default()
            };
            select(&[&list], &query).1
        });
        assert_eq!(ports(&paged.collect::<Vec<_>>()), ports(&all.1));
        assert_eq!(ports(&all.1)[..3], [9, 19, 29]);
    }

    #[test]
    fn a_flow_with_few_packets_is_not_a_slow_one() {
        // The smaller `n`, the slower; even flows have too few packets to say so.
        let packets = |n: u16| FEW_PACKETS - u64::from(n.is_multiple_of(2));
        let list = FlowList::example((0..6).map(|n| FlowRecord::example(n, packets(n))).collect());
        let ordered = |sort, ascending| {
            let query = FlowQuery {
                sort,
                ascending,
                ..FlowQuery::default()
            };
            ports(&select(&[&list], &query).1)
        };
        assert_eq!(ordered(FlowOrder::Mean, false), [1, 3, 5, 0, 2, 4]);
        assert_eq!(ordered(FlowOrder::Mean, true), [5, 3, 1, 4, 2, 0]);
        assert_eq!(ordered(FlowOrder::Lost, false), [5, 4, 3, 2, 1, 0]);
    }

    #[test]
    fn flows_are_chosen_by_segment_and_name() {
        let list = FlowList::example((0..10).map(|n| FlowRecord::example(n, 5)).collect());
        let query = FlowQuery {
            sort: FlowOrder::Mean,
            ascending: true,
            ingress: Some("west".to_owned()),
            ..FlowQuery::default()
        };
        assert_eq!(ports(&select(&[&list], &query).1), [9, 7, 5, 3, 1]);
        let query = FlowQuery {
            contains: Some(":1027>".to_owned()),
            ..FlowQuery::default()
        };
        let (matching, found) = select(&[&list], &query);
        assert_eq!((matching, ports(&found)), (1, vec![3]));
        for (prefix, port, expected) in [
            ("10.0.0.2/31", Some(1_027), 1),
            ("10.0.0.2/31", None, 10),
            ("10.0.0.0/31", Some(80), 10),
            ("10.0.0.3", None, 0),
            ("::/0", None, 0),
            ("0.0.0.0/0", Some(81), 0),
        ] {
            let query = FlowQuery {
                prefix: Some(prefix.parse().unwrap()),
                port,
                ..FlowQuery::default()
            };
            assert_eq!(select(&[&list], &query).0, expected, "{prefix} {port:?}");
        }
        let beyond = FlowQuery {
            offset: 1_000,
            limit: 0,
            ..FlowQuery::default()
        };
        let (matching, found) = select(&[&list], &beyond);
        assert_eq!((matching, found.len()), (10, 0));
    }

    #[test]
    fn several_lists_are_one_order_and_each_flow_is_its_own_lists() {
        let inside = FlowList::example((0..4).map(|n| FlowRecord::example(n, 8)).collect());
        let mut wire = FlowList::example((0..4).map(|n| FlowRecord::example(n, 9)).collect());
        let running = |n: u32| RunningMean {
            epochs: 3,
            packets: 20,
            mean_ns: n.into(),
            bound_ns: 1.0,
        };
        wire.wire_times = Some(EpochTimes {
            next: 81,
            next_unix_s: 1_000.0,
            interval_s: 0.5,
        });
        for (n, flow) in (0..).zip(&mut wire.flows) {
            flow.name = FlowName::Hash(0xabc + u64::from(n));
            flow.last.packets = [9, 7, 9, 7][n as usize];
            flow.more = Some(FlowMore::Running(running(n)));
        }
        let (matching, flows) = select(&[&inside, &wire], &FlowQuery::default());
        assert_eq!(matching, 8);
        let own = EpochTimes::default();
        let flows = flows.iter().map(|(list, flow)| list.flow(flow, &own));
        let flows: Vec<Flow> = flows.collect();
        let is_on_wire: Vec<bool> = flows.iter().map(|flow| flow.is_on_wire).collect();
        let [yes, no] = [true, false];
        assert_eq!(is_on_wire, [yes, yes, no, no, no, no, yes, yes]);
        assert_eq!(flows[1].flow, "#0000000000000abe");
        assert_eq!(flows[1].running, Some(running(2)));
        assert_eq!(flows[2].running, None);
        assert!((flows[1].first_seen_unix_s - (1_000.0 - 79.0 * 0.5)).abs() < 1e-9);
    }
}
