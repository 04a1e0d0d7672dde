//! What the JSON paths answer, made from one snapshot each.

use std::borrow::Cow;

use contract::counters::ClassReading;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::history::Course;
use crate::snapshot::{
    Counts, Decoding, Exceptions, Fdb, Flow, FlowList, FlowQuery, FlowTotals, Pool, Port, Reload,
    Segment, Snapshot, State, Wire, WireClock, Worker,
};

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// What was wrong, where, and what to do.
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
    /// Why it is not ready to be relied on; empty when it is.
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
    /// The generation of what is measured: 0 at start, more with every change.
    pub generation: u32,
    /// The last reload that somebody asked for; `None` before the first.
    pub reload: Option<Reload>,
    /// Packets whose measurement is not as that of others.
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
    /// What joint decoding does; `None` where there is none.
    pub decoding: Option<Decoding>,
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
    /// The segments that are wanted.
    pub fn of(snapshot: &'s Snapshot, wanted: &SegmentFilter) -> Self {
        let segments = wanted.choose(&snapshot.segments);
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
        let (mut sum_s, mut squares_s2) = (0.0, 0.0);
        let segments = snapshot.segments.iter();
        for segment in segments.filter(|segment| segment.class == class) {
            let (sum, total) = (&mut totals.counts, &segment.total);
            sum.sent_packets += total.counts.sent_packets;
            sum.sent_bytes += total.counts.sent_bytes;
            sum.received_packets += total.counts.received_packets;
            sum.received_bytes += total.counts.received_bytes;
            sum.dropped_packets += total.counts.dropped_packets;
            sum.late_packets += total.counts.late_packets;
            totals.segments += 1;
            let stamped = total.octaves.iter().map(|octave| octave.packets);
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
    /// Segments that were asked for; this is a part of them.
    pub matching: u64,
    /// How many of them come before this part.
    pub offset: u64,
    /// The segments, in the order of the configuration.
    pub segments: Vec<SegmentCourses>,
}

/// The course of one segment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SegmentCourses {
    /// Name of the ingress port.
    pub ingress: String,
    /// Name of the egress port.
    pub egress: String,
    /// The class.
    pub class: String,
    /// Its last minute, ten minutes and hour, or that which is wanted.
    pub courses: Vec<Course>,
}

impl Epochs {
    /// The courses that are wanted.
    pub fn of(snapshot: &Snapshot, query: &CourseQuery) -> Self {
        let origin_unix_s = snapshot.origin_unix_s();
        let courses = |segment: &Segment| {
            let mut courses = segment.history.courses(origin_unix_s);
            let is_wanted = |width_s| query.width.is_none_or(|width| width_s == width.seconds());
            courses.retain(|course| is_wanted(course.width_s));
            SegmentCourses {
                ingress: segment.ingress.clone(),
                egress: segment.egress.clone(),
                class: segment.class.clone(),
                courses,
            }
        };
        let matching = query.segments.choose(&snapshot.segments);
        let part = query.segments.choose(&snapshot.segments);
        let part = part.skip(query.offset).take(query.limit);
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

/// Which flows are listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlowState {
    /// Those in the directory.
    #[default]
    Active,
    /// Those that were forgotten last, with their final figures.
    Ended,
}

/// Answer of `/api/v1/flows`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowPage {
    /// Number of the epoch at whose end the flows were so.
    pub epoch: Option<u64>,
    /// Which flows these are.
    pub state: FlowState,
    /// Flows that were asked for; this is a part of them.
    pub matching: u64,
    /// How many of them come before this part.
    pub offset: u64,
    /// The flows, in the order that was wanted.
    pub flows: Vec<Flow>,
}

impl FlowPage {
    /// The flows that are wanted.
    pub fn of(snapshot: &Snapshot, state: FlowState, query: &FlowQuery) -> Self {
        let none = FlowList::default();
        let list = match (&snapshot.flows, state) {
            (None, _) => &none,
            (Some(flows), FlowState::Active) => &*flows.list,
            (Some(flows), FlowState::Ended) => &*flows.ended,
        };
        let (matching, flows) = list.select(query);
        let flows = flows.into_iter().map(|record| snapshot.flow(list, record));
        Self {
            epoch: list.epoch.or(snapshot.epoch),
            state,
            matching: matching as u64,
            offset: query.offset as u64,
            flows: flows.collect(),
        }
    }
}

/// Answer of `POST /api/v1/reload`: the reload is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reloading {
    /// Reloads up to now. Once `reload.number` of `/api/v1/status` is greater, that is the answer.
    pub after: u64,
}

/// Which segments are wanted.
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
    /// Those that are wanted.
    pub fn choose<'s>(&self, segments: &'s [Segment]) -> impl Iterator<Item = &'s Segment> {
        let is_wanted = |wanted: &Option<String>, name: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == name)
        };
        segments.iter().filter(move |segment| {
            is_wanted(&self.ingress, &segment.ingress)
                && is_wanted(&self.egress, &segment.egress)
                && is_wanted(&self.class, &segment.class)
        })
    }
}

/// Which courses are wanted, of a part of the segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CourseQuery {
    /// Of these segments.
    pub segments: SegmentFilter,
    /// Of buckets of this width; `None`: of each.
    pub width: Option<Width>,
    /// Segments that are left out at the beginning.
    pub offset: usize,
    /// Most segments of the answer.
    pub limit: usize,
}

/// A width of buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
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
    /// In seconds.
    pub const fn seconds(self) -> u32 {
        match self {
            Self::Second => 1,
            Self::TenSeconds => 10,
            Self::Minute => 60,
        }
    }
}
