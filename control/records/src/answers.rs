//! Answers of the JSON paths, each made from one snapshot.

use std::borrow::Cow;

use contract::counters::ClassReading;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::history::Course;
use crate::snapshot::{
    Counts, Decoding, DelayBucket, Delays, Flow, FlowList, FlowTotals, JudgedEstimates, MinutePart,
    Port, Segment, SegmentName, Snapshot, Status, Wire, WireClock, select,
};

pub use crate::query::*;

/// An error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// What is wrong, where, and what to do.
    pub error: String,
}

/// Answer of `/api/v1/status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Status")]
pub struct StatusAnswer {
    /// The status in the snapshot.
    #[serde(flatten)]
    pub status: Status,
    /// Why it is not ready; empty when it is.
    pub unready: Vec<String>,
    /// Totals of the tracked flows; `None` if flows are not tracked.
    pub flows: Option<FlowTotals>,
    /// Joint decoding; `None` if it is off.
    pub decoding: Option<Decoding>,
    /// Accuracy of flow estimates against stamps, by method and size of flows.
    #[serde(default)]
    pub judged: Vec<JudgedEstimates>,
}

impl From<&Snapshot> for StatusAnswer {
    fn from(snapshot: &Snapshot) -> Self {
        let flows = snapshot.flows.as_ref();
        Self {
            status: snapshot.status.clone(),
            unready: snapshot.unready(),
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
    /// Lists the ports of this name, or all.
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
    /// Lists the selected segments.
    pub fn of(snapshot: &'s Snapshot, filter: &SegmentFilter) -> Self {
        let segments = snapshot.selected([&filter.ingress, &filter.egress, &filter.class]);
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
    /// Number of this switch's last epoch that closed; wires count the sender's epochs.
    pub epoch: Option<u64>,
    /// The clock that one-way delays are measured by; `None` without wires.
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
    /// Its counters, over all ports.
    #[serde(flatten)]
    pub egress: ClassReading,
    /// Segments measured in this class.
    pub segments: u64,
    /// Totals of these segments.
    pub counts: Counts,
    /// Packets of these segments with a stamped delay.
    pub stamped_packets: u64,
    /// Their mean delay in nanoseconds; `None` without packets.
    pub mean_ns: Option<f64>,
    /// Their standard deviation, likewise.
    pub stddev_ns: Option<f64>,
    /// Their delays in the last usable epoch, if recent.
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
    /// Number of selected segments.
    pub matching: u64,
    /// Number of selected segments before those listed here.
    pub offset: u64,
    /// The segments, in the order of the configuration.
    pub segments: Vec<SegmentCourses>,
}

/// The delays of one segment over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SegmentCourses {
    /// Its ports and class.
    #[serde(flatten)]
    pub segment: SegmentName,
    /// Its last minute, ten minutes and hour, or the selected course.
    pub courses: Vec<Course>,
}

impl Epochs {
    /// Lists the selected courses.
    pub fn of(snapshot: &Snapshot, query: &CourseQuery) -> Self {
        let origin_unix_s = snapshot.origin_unix_s();
        let courses = |segment: &Segment| {
            let mut courses = segment.history.courses(origin_unix_s);
            let width_s = query.width_s.map(Width::seconds);
            courses.retain(|course| width_s.is_none_or(|width_s| course.width_s == width_s));
            SegmentCourses {
                segment: segment.segment_name(),
                courses,
            }
        };
        let matching = snapshot.selected([&query.ingress, &query.egress, &query.class]);
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
    /// Number of selected segments; the first 100 of them are listed.
    pub matching: u64,
    /// The segments, in the order of the configuration.
    pub segments: Vec<SegmentDistributions>,
}

/// Distribution of one segment's delays over the last minute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SegmentDistributions {
    /// Its ports and class.
    #[serde(flatten)]
    pub segment: SegmentName,
    /// Every span of five seconds with packets, oldest first; without unfinished ones.
    pub parts: Vec<Distribution>,
}

/// Stamped delays of the epochs that ended in a span of time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distribution {
    /// Start of the span, in seconds since 1970 (UTC).
    pub start_unix_s: f64,
    /// Length of the span in seconds.
    pub width_s: u32,
    /// Packets in each eighth of an octave, ascending, without empty buckets.
    pub buckets: Vec<DelayBucket>,
}

/// Most segments in an answer with distributions.
pub const DISTRIBUTIONS_MAX: usize = 100;

impl Distributions {
    /// Lists the distributions of the selected segments.
    pub fn of(snapshot: &Snapshot, filter: &SegmentFilter) -> Self {
        let origin_unix_s = snapshot.origin_unix_s();
        let distribution = |part: &MinutePart| Distribution {
            start_unix_s: origin_unix_s + part.index as f64 * f64::from(MinutePart::SECONDS),
            width_s: MinutePart::SECONDS,
            buckets: (part.histogram.buckets())
                .map(|(le_ns, packets)| DelayBucket { le_ns, packets })
                .collect(),
        };
        let selected = snapshot.selected([&filter.ingress, &filter.egress, &filter.class]);
        let listed = selected.clone().take(DISTRIBUTIONS_MAX);
        Self {
            epoch: snapshot.epoch,
            epoch_end_unix_s: snapshot.epoch_end_unix_s,
            matching: selected.count() as u64,
            segments: listed
                .map(|segment| SegmentDistributions {
                    segment: segment.segment_name(),
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
    /// Whether these are current or ended flows.
    pub state: FlowState,
    /// Number of selected flows.
    pub matching: u64,
    /// Number of selected flows before those listed here.
    pub offset: u64,
    /// The flows, in the requested order.
    pub flows: Vec<Flow>,
}

impl FlowPage {
    /// Lists the selected flows of the switch and of `wires`.
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
        let flows = flows
            .into_iter()
            .map(|(list, flow)| list.flow(flow, &times));
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
    /// Reloads so far. Once `reload.number` of `/api/v1/status` is greater, its `outcome` is that of this request.
    pub after: u64,
}
