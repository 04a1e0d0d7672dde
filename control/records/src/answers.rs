//! What the JSON paths answer, made from one snapshot each.

use std::borrow::Cow;

use contract::address::Prefix;
use contract::counters::ClassReading;
use contract::labelled_enum;
use measure::packet::FiveTuple;
use schemars::JsonSchema;
use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer, Serialize};

use crate::history::Course;
use crate::snapshot::{
    Counts, Decoding, DelayBucket, Delays, Exceptions, Fdb, Flow, FlowList, FlowTotals,
    JudgedEstimates, MinutePart, Pool, Port, Reload, Segment, Snapshot, State, Wire, WireClock,
    Worker, select,
};

/// An error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// What is wrong, where, and what to do.
    pub error: String,
}

/// Answer of `/api/v1/status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// The switch's name.
    pub switch: String,
    /// Version of the program.
    pub version: String,
    /// Version of the packet hash: estimates of different versions cannot be compared.
    pub hash_version: u32,
    /// What the switch is doing.
    pub state: State,
    /// Why it is not ready; empty when it is.
    pub unready: Vec<String>,
    /// Whether anything is measured.
    pub measuring: bool,
    /// Number of the last epoch that closed; `None` before the first.
    pub epoch: Option<u64>,
    /// Its end in seconds since 1970 (UTC).
    pub epoch_end_unix_s: Option<f64>,
    /// Length of an epoch in milliseconds.
    pub interval_ms: u32,
    /// Seconds since the switch started.
    pub uptime_s: f64,
    /// Faults of this program (panics) that were contained since the process started.
    #[serde(default)]
    pub contained_panics: u64,
    /// Generation of the measurement: 0 at start, greater with every change.
    pub generation: u32,
    /// The last reload that was asked for; `None` before the first.
    pub reload: Option<Reload>,
    /// Packets that are not measured as others are.
    #[serde(default)]
    pub exceptions: Exceptions,
    /// Workers.
    pub workers: Vec<Worker>,
    /// The pools of packet buffers.
    pub pools: Vec<Pool>,
    /// The bridge's filtering database, where there is one.
    pub fdb: Option<Fdb>,
    /// The flows that are tracked, in numbers; `None` where none are.
    pub flows: Option<FlowTotals>,
    /// Joint decoding; `None` where there is none.
    pub decoding: Option<Decoding>,
    /// How estimates of flows compare with stamps, by method and size of flows.
    #[serde(default)]
    pub judged: Vec<JudgedEstimates>,
}

impl From<&Snapshot> for Status {
    fn from(snapshot: &Snapshot) -> Self {
        let flows = snapshot.flows.as_ref();
        Self {
            switch: snapshot.switch.clone(),
            version: snapshot.version.clone(),
            hash_version: snapshot.hash_version,
            state: snapshot.state,
            unready: snapshot.unready(),
            measuring: snapshot.measuring,
            epoch: snapshot.epoch,
            epoch_end_unix_s: snapshot.epoch_end_unix_s,
            interval_ms: snapshot.interval_ms,
            uptime_s: snapshot.uptime_s,
            contained_panics: snapshot.contained_panics,
            generation: snapshot.generation,
            reload: snapshot.reload.clone(),
            exceptions: snapshot.exceptions,
            workers: snapshot.workers.clone(),
            pools: snapshot.pools.clone(),
            fdb: snapshot.fdb,
            flows: flows.map(|flows| flows.totals.clone()),
            decoding: flows.and_then(|flows| flows.decoding),
            judged: flows.map_or_else(Vec::new, |flows| flows.judged.clone()),
        }
    }
}

/// Answer of `/api/v1/ports`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ports {
    /// Number of the last epoch that closed.
    pub epoch: Option<u64>,
    /// The ports, in the order of the configuration.
    pub ports: Vec<Port>,
}

impl Ports {
    /// The ports of that name, or all.
    pub fn of(snapshot: &Snapshot, name: Option<&str>) -> Self {
        let ports = snapshot.ports.iter();
        let ports = ports.filter(|port| name.is_none_or(|name| port.name == name));
        Self {
            epoch: snapshot.epoch,
            ports: ports.cloned().collect(),
        }
    }
}

/// Answer of `/api/v1/segments`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Segments<'s> {
    /// Number of the last epoch that closed.
    pub epoch: Option<u64>,
    /// Its end in seconds since 1970 (UTC).
    pub epoch_end_unix_s: Option<f64>,
    /// Length of an epoch in milliseconds.
    pub interval_ms: u32,
    /// The segments, in the order of the configuration.
    pub segments: Vec<Cow<'s, Segment>>,
}

impl<'s> Segments<'s> {
    /// The selected segments.
    pub fn of(snapshot: &'s Snapshot, filter: &SegmentFilter) -> Self {
        let segments = snapshot.segments.iter();
        let segments = segments.filter(|segment| filter.selects(segment.names()));
        Self {
            epoch: snapshot.epoch,
            epoch_end_unix_s: snapshot.epoch_end_unix_s,
            interval_ms: snapshot.interval_ms,
            segments: segments.map(Cow::Borrowed).collect(),
        }
    }
}

impl<'s> From<&'s Snapshot> for Segments<'s> {
    fn from(snapshot: &'s Snapshot) -> Self {
        Self::of(snapshot, &SegmentFilter::default())
    }
}

/// Answer of `/api/v1/wires`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Wires {
    /// Number of the last epoch of this switch that closed; wires count those of the sender.
    pub epoch: Option<u64>,
    /// The clock that one-way delays are measured by; `None` where there are no wires.
    pub clock: Option<WireClock>,
    /// Ports with a segment on the wire, in the order of the configuration.
    pub wires: Vec<Wire>,
}

impl From<&Snapshot> for Wires {
    fn from(snapshot: &Snapshot) -> Self {
        Self {
            epoch: snapshot.epoch,
            clock: snapshot.wire_clock.clone(),
            wires: snapshot.wires.clone(),
        }
    }
}

/// Answer of `/api/v1/classes`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Classes {
    /// Number of the last epoch that closed.
    pub epoch: Option<u64>,
    /// The classes, in the order of the configuration.
    pub classes: Vec<ClassTotals>,
}

/// A class of packets over all ports and segments, since the switch started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassTotals {
    /// The class; `all` unless classes are configured.
    pub class: String,
    /// What workers count of it, over all ports.
    #[serde(flatten)]
    pub egress: ClassReading,
    /// Segments that are measured in this class.
    pub segments: u64,
    /// Counts of these.
    pub counts: Counts,
    /// Packets of these whose delay is known, by stamps.
    pub stamped_packets: u64,
    /// Their mean delay in nanoseconds; `None` without any.
    pub mean_ns: Option<f64>,
    /// Its standard deviation; likewise.
    pub stddev_ns: Option<f64>,
    /// Their delays in the last usable epoch, if that is not long ago.
    #[serde(default)]
    pub last: Option<Delays>,
    /// Their delays in the last minute; `None` without packets.
    #[serde(default)]
    pub last_minute: Option<Delays>,
}

impl From<&Snapshot> for Classes {
    fn from(snapshot: &Snapshot) -> Self {
        let by_port = snapshot.ports.iter().flat_map(|port| &port.classes);
        let of_ports = by_port.map(|counts| &counts.class);
        let of_segments = snapshot.segments.iter().map(|segment| &segment.class);
        let mut names: Vec<&String> = Vec::new();
        for name in of_ports.chain(of_segments) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let totals = names
            .into_iter()
            .map(|name| ClassTotals::of(snapshot, name));
        Self {
            epoch: snapshot.epoch,
            classes: totals.collect(),
        }
    }
}

impl ClassTotals {
    fn of(snapshot: &Snapshot, class: &str) -> Self {
        let by_port = snapshot.ports.iter().flat_map(|port| &port.classes);
        let by_port = by_port.filter(|counts| counts.class == class);
        let mut totals = Self {
            class: class.to_owned(),
            egress: by_port.map(|counts| counts.counts).sum(),
            ..Self::default()
        };
        if let Some(delays) = snapshot.classes.iter().find(|one| one.class == class) {
            totals.last = snapshot.is_fresh(delays.epoch).then_some(delays.last);
            totals.last_minute = delays.last_minute;
        }
        let (mut sum_s, mut squares_s2) = (0.0, 0.0);
        let segments = snapshot.segments.iter();
        for segment in segments.filter(|segment| segment.class == class && !segment.is_around) {
            let total = &segment.total;
            totals.counts += total.counts;
            totals.segments += 1;
            let stamped = total.buckets.iter().map(|bucket| bucket.packets);
            totals.stamped_packets += stamped.sum::<u64>();
            sum_s += total.delay_sum_s;
            squares_s2 += total.delay_squared_sum_s2;
        }
        if totals.stamped_packets > 0 {
            let packets = totals.stamped_packets as f64;
            let mean_s = sum_s / packets;
            let variance_s2 = (squares_s2 / packets - mean_s.powi(2)).max(0.0);
            totals.mean_ns = Some(1e9 * mean_s);
            totals.stddev_ns = Some(1e9 * variance_s2.sqrt());
        }
        totals
    }
}

/// Answer of `/api/v1/epochs`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Epochs {
    /// Number of the last epoch that closed.
    pub epoch: Option<u64>,
    /// Its end in seconds since 1970 (UTC).
    pub epoch_end_unix_s: Option<f64>,
    /// Length of an epoch in milliseconds.
    pub interval_ms: u32,
    /// When the first epoch, number 0, began, likewise; `None` before it has closed.
    pub origin_unix_s: Option<f64>,
    /// Segments selected in all.
    pub matching: u64,
    /// How many of them come before those listed here.
    pub offset: u64,
    /// The segments, in the order of the configuration.
    pub segments: Vec<SegmentCourses>,
}

/// The delays of one segment over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SegmentCourses {
    /// Name of the ingress port.
    pub ingress: String,
    /// Name of the egress port.
    pub egress: String,
    /// The class.
    pub class: String,
    /// Its last minute, ten minutes and hour, or the selected one.
    pub courses: Vec<Course>,
}

impl Epochs {
    /// The selected courses.
    pub fn of(snapshot: &Snapshot, query: &CourseQuery) -> Self {
        let origin_unix_s = snapshot.origin_unix_s();
        let courses = |segment: &Segment| {
            let mut courses = segment.history.courses(origin_unix_s);
            let width_s = query.width_s.map(Width::seconds);
            courses.retain(|course| width_s.is_none_or(|width_s| course.width_s == width_s));
            SegmentCourses {
                ingress: segment.ingress.clone(),
                egress: segment.egress.clone(),
                class: segment.class.clone(),
                courses,
            }
        };
        let segments = snapshot.segments.iter();
        let matching = segments.filter(|segment| query.selects(segment.names()));
        let part = matching.clone().skip(query.offset).take(query.limit);
        Self {
            epoch: snapshot.epoch,
            epoch_end_unix_s: snapshot.epoch_end_unix_s,
            interval_ms: snapshot.interval_ms,
            origin_unix_s: snapshot.epoch.map(|_| origin_unix_s),
            matching: matching.count() as u64,
            offset: query.offset as u64,
            segments: part.map(courses).collect(),
        }
    }
}

/// Answer of `/api/v1/distributions`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distributions {
    /// Number of the last epoch that closed.
    pub epoch: Option<u64>,
    /// Its end in seconds since 1970 (UTC).
    pub epoch_end_unix_s: Option<f64>,
    /// Segments selected in all; the first 100 of them are listed.
    pub matching: u64,
    /// The segments, in the order of the configuration.
    pub segments: Vec<SegmentDistributions>,
}

/// How the delays of one segment were distributed in the last minute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SegmentDistributions {
    /// Name of the ingress port.
    pub ingress: String,
    /// Name of the egress port.
    pub egress: String,
    /// The class.
    pub class: String,
    /// Every five seconds with packets, the oldest first; without those that have not ended.
    pub parts: Vec<Distribution>,
}

/// Stamped delays of the epochs that ended in some seconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distribution {
    /// When these began, in seconds since 1970 (UTC).
    pub start_unix_s: f64,
    /// How many there are.
    pub width_s: u32,
    /// Packets in each eighth of an octave, least first, none that is empty.
    pub buckets: Vec<DelayBucket>,
}

/// Most segments of an answer with distributions.
pub const DISTRIBUTIONS_MAX: usize = 100;

impl Distributions {
    /// Those of the selected segments.
    pub fn of(snapshot: &Snapshot, filter: &SegmentFilter) -> Self {
        let origin_unix_s = snapshot.origin_unix_s();
        let distribution = |part: &MinutePart| Distribution {
            start_unix_s: origin_unix_s + part.index as f64 * f64::from(MinutePart::SECONDS),
            width_s: MinutePart::SECONDS,
            buckets: (part.histogram.buckets())
                .map(|(le_ns, packets)| DelayBucket { le_ns, packets })
                .collect(),
        };
        let segments = snapshot.segments.iter();
        let selected = segments.filter(|segment| filter.selects(segment.names()));
        let listed = selected.clone().take(DISTRIBUTIONS_MAX);
        Self {
            epoch: snapshot.epoch,
            epoch_end_unix_s: snapshot.epoch_end_unix_s,
            matching: selected.count() as u64,
            segments: listed
                .map(|segment| SegmentDistributions {
                    ingress: segment.ingress.clone(),
                    egress: segment.egress.clone(),
                    class: segment.class.clone(),
                    parts: segment.minute_parts.iter().map(distribution).collect(),
                })
                .collect(),
        }
    }
}

/// Answer of `/api/v1/flows`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowPage {
    /// Number of the epoch at whose end the flows inside the switch were listed.
    pub epoch: Option<u64>,
    /// End of the last epoch that closed, in seconds since 1970 (UTC).
    #[serde(default)]
    pub epoch_end_unix_s: Option<f64>,
    /// Where these flows are listed.
    #[serde(default)]
    pub scope: FlowScope,
    /// Which flows these are.
    pub state: FlowState,
    /// Flows selected in all.
    pub matching: u64,
    /// How many of them come before those listed here.
    pub offset: u64,
    /// The flows, in the requested order.
    pub flows: Vec<Flow>,
}

impl FlowPage {
    /// The selected flows, of the switch and of `wires`.
    pub fn of(snapshot: &Snapshot, wires: &[FlowList], query: &FlowQuery) -> Self {
        let inside = snapshot.flows.as_ref().map(|flows| match query.state {
            FlowState::Active => &*flows.list,
            FlowState::Ended => &*flows.ended,
        });
        let epoch = inside.and_then(|list| list.epoch).or(snapshot.epoch);
        let inside = inside.filter(|_| query.scope != FlowScope::Wires);
        let wires = wires.iter().filter(|_| query.lists_wires());
        let lists: Vec<&FlowList> = inside.into_iter().chain(wires).collect();
        let (matching, flows) = select(&lists, query);
        let times = snapshot.epoch_times();
        let flows = flows.into_iter().map(|flow| flow.flow(&times));
        Self {
            epoch,
            epoch_end_unix_s: snapshot.epoch_end_unix_s,
            scope: query.scope,
            state: query.state,
            matching: matching as u64,
            offset: query.offset as u64,
            flows: flows.collect(),
        }
    }
}

/// Answer of `POST /api/v1/reload`: the reload is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reloading {
    /// Reloads up to now. Once `reload.number` of `/api/v1/status` is greater, its `outcome` is that of this request.
    pub after: u64,
}

/// Flows of an answer, unless `limit` is given.
pub const FLOWS_DEFAULT: usize = 100;

/// Most flows of an answer.
pub const FLOWS_MAX: usize = 10_000;

/// Segments with courses of an answer, unless `limit` is given.
pub const COURSES_DEFAULT: usize = 100;

/// Most segments with courses of an answer.
pub const COURSES_MAX: usize = 500;

/// Which segments are selected.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SegmentFilter {
    /// Only of this ingress port.
    pub ingress: Option<String>,
    /// Only of this egress port.
    pub egress: Option<String>,
    /// Only of this class.
    pub class: Option<String>,
}

impl SegmentFilter {
    /// Whether it selects the segment of these names.
    pub fn selects(&self, names: [&str; 3]) -> bool {
        selects([&self.ingress, &self.egress, &self.class], names)
    }
}

/// Whether each name is the wanted one; without a wanted one any will do.
fn selects(wanted: [&Option<String>; 3], names: [&str; 3]) -> bool {
    let mut pairs = wanted.into_iter().zip(names);
    pairs.all(|(wanted, name)| wanted.as_ref().is_none_or(|wanted| wanted == name))
}

/// Which courses are selected, of a part of the segments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CourseQuery {
    /// Only of this ingress port.
    pub ingress: Option<String>,
    /// Only of this egress port.
    pub egress: Option<String>,
    /// Only of this class.
    pub class: Option<String>,
    /// Only buckets of so many seconds: 1 (the last minute), 10 (ten minutes) or 60 (an hour).
    pub width_s: Option<Width>,
    /// How many segments are left out at the beginning.
    #[serde(deserialize_with = "number::<_, { usize::MAX }>")]
    pub offset: usize,
    /// How many segments at most.
    #[serde(deserialize_with = "number::<_, COURSES_MAX>")]
    #[schemars(range(max = 500))]
    pub limit: usize,
}

impl Default for CourseQuery {
    fn default() -> Self {
        Self {
            ingress: None,
            egress: None,
            class: None,
            width_s: None,
            offset: 0,
            limit: COURSES_DEFAULT,
        }
    }
}

impl CourseQuery {
    /// Whether it selects the segment of these names.
    pub fn selects(&self, names: [&str; 3]) -> bool {
        selects([&self.ingress, &self.egress, &self.class], names)
    }
}

/// A width of buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Width {
    /// One second.
    #[serde(rename = "1")]
    Second,
    /// Ten seconds.
    #[serde(rename = "10")]
    TenSeconds,
    /// A minute.
    #[serde(rename = "60")]
    Minute,
}

impl Width {
    /// Every width, the smallest first.
    pub const ALL: [Self; 3] = [Self::Second, Self::TenSeconds, Self::Minute];

    /// In seconds.
    pub const fn seconds(self) -> u32 {
        match self {
            Self::Second => 1,
            Self::TenSeconds => 10,
            Self::Minute => 60,
        }
    }
}

/// Which flows are listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlowState {
    /// Those that have a slot, and those of a wire's last epoch.
    #[default]
    Active,
    /// Those that lost their slot last, with their final figures.
    Ended,
}

labelled_enum! {
    /// Where flows are listed.
    #[derive(Default, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum FlowScope {
        /// Inside the switch, and on wires that arrive here: a flow that does both is listed for each segment.
        #[default]
        All = "all",
        /// Inside the switch.
        Switch = "switch",
        /// On wires that arrive here: the flows of each one's last decoded epoch.
        Wires = "wires",
    }
}

labelled_enum! {
    /// By what flows are ordered, the greatest first.
    #[derive(Default, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum FlowOrder {
        /// Packets in its last epoch.
        #[default]
        Packets = "packets",
        /// Bytes in its last epoch.
        Bytes = "bytes",
        /// Mean delay in its last epoch; on wires the estimate's.
        Mean = "mean",
        /// Standard deviation in its last epoch.
        Stddev = "stddev",
        /// 99th percentile of its last epoch.
        P99 = "p99",
        /// Packets lost in its last epoch.
        Lost = "lost",
        /// Packets since it was first seen.
        TotalPackets = "total_packets",
        /// Packets lost since it was first seen.
        TotalLost = "total_lost",
        /// The estimate's mean.
        Estimate = "estimate",
        /// Half-width of the estimate's interval.
        Bound = "bound",
        /// The epoch in which it was first seen.
        First = "first",
        /// The last epoch in which it had packets.
        Last = "last",
    }
}

/// Which flows are selected, and in which order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FlowQuery {
    /// Inside the switch, on wires, or both.
    pub scope: FlowScope,
    /// Those that have a slot, or those that lost it last, which only the switch remembers.
    pub state: FlowState,
    /// By what they are ordered, the greatest first.
    pub sort: FlowOrder,
    /// The least first.
    #[serde(deserialize_with = "yes_or_no")]
    pub ascending: bool,
    /// How many are left out at the beginning.
    #[serde(deserialize_with = "number::<_, { usize::MAX }>")]
    pub offset: usize,
    /// How many at most.
    #[serde(deserialize_with = "number::<_, FLOWS_MAX>")]
    #[schemars(range(max = 10_000))]
    pub limit: usize,
    /// Only of this ingress port.
    pub ingress: Option<String>,
    /// Only of this egress port.
    pub egress: Option<String>,
    /// Only of this class.
    pub class: Option<String>,
    /// Only those whose name contains this text.
    pub contains: Option<String>,
    /// Only those whose source or destination is in this prefix.
    pub prefix: Option<Prefix>,
    /// Only those whose source or destination has this port.
    pub port: Option<u16>,
}

impl Default for FlowQuery {
    fn default() -> Self {
        Self {
            scope: FlowScope::default(),
            state: FlowState::default(),
            sort: FlowOrder::default(),
            ascending: false,
            offset: 0,
            limit: FLOWS_DEFAULT,
            ingress: None,
            egress: None,
            class: None,
            contains: None,
            prefix: None,
            port: None,
        }
    }
}

impl FlowQuery {
    /// Whether it selects flows of these addresses and ports; `None` are those that have none.
    pub(crate) fn selects_ends(&self, flow: impl FnOnce() -> Option<FiveTuple>) -> bool {
        if self.prefix.is_none() && self.port.is_none() {
            return true;
        }
        flow().is_some_and(|flow| {
            let is_in =
                |prefix: Prefix| prefix.contains(flow.source) || prefix.contains(flow.destination);
            let is_at = |port| flow.source_port == port || flow.destination_port == port;
            self.prefix.is_none_or(is_in) && self.port.is_none_or(is_at)
        })
    }

    /// Whether flows of wires are listed.
    pub fn lists_wires(&self) -> bool {
        self.scope != FlowScope::Switch && self.state == FlowState::Active
    }

    /// Whether it selects flows on the segment of these names.
    pub fn selects(&self, names: [&str; 3]) -> bool {
        selects([&self.ingress, &self.egress, &self.class], names)
    }
}

/// A number up to `MAX`, digits only.
fn number<'de, D: Deserializer<'de>, const MAX: usize>(text: D) -> Result<usize, D::Error> {
    let text = String::deserialize(text)?;
    let number = text.parse().ok().filter(|&number| number <= MAX);
    number.ok_or_else(|| {
        let expected = match MAX {
            usize::MAX => "a number".to_owned(),
            most => format!("a number from 0 to {most}"),
        };
        D::Error::invalid_value(Unexpected::Str(&text), &expected.as_str())
    })
}

fn yes_or_no<'de, D: Deserializer<'de>>(text: D) -> Result<bool, D::Error> {
    let text = String::deserialize(text)?;
    let wrong = |_| D::Error::invalid_value(Unexpected::Str(&text), &"`true` or `false`");
    text.parse().map_err(wrong)
}
