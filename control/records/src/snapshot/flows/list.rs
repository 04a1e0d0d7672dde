//! Many flows at once, and pages of them.

use std::cmp::Ordering;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::sync::Arc;

use measure::packet::{FlowKey, FlowKeyError};

use super::{Flow, FlowEstimate, FlowFigures, FlowQuantiles, FlowReferences, RunningMean};
use crate::query::{FlowOrder, FlowQuery};

/// What a flow is known by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlowName {
    /// Its addresses and the like.
    Key(FlowKey),
    /// Its hash: a flow that only a wire has seen.
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

/// A text that names no flow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FlowNameError {
    /// It is no key.
    #[error(transparent)]
    Key(#[from] FlowKeyError),
    /// It is no hash.
    #[error("expected # and 16 hexadecimal digits, such as #0123456789abcdef, got {0:?}")]
    Hash(String),
}

impl FromStr for FlowName {
    type Err = FlowNameError;

    /// As it is displayed.
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
    /// [`Flow::estimate`], and behind it [`Flow::estimates`].
    pub estimates: Option<Arc<[FlowEstimate]>>,
    /// See [`Flow::references`].
    pub references: Option<FlowReferences>,
}

/// Ports and class of a segment, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct SegmentName {
    /// Name of the ingress port.
    pub ingress: String,
    /// Name of the egress port.
    pub egress: String,
    /// The class.
    pub class: String,
}

/// Flows at the end of an epoch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FlowList {
    /// The epoch; `None` before the first.
    pub epoch: Option<u64>,
    /// Names of the segments that flows refer to.
    pub segments: Vec<Arc<SegmentName>>,
    /// The flows, in no order.
    pub flows: Vec<FlowRecord>,
    /// What only flows of a wire have; `None` inside the switch.
    pub wire: Option<WireList>,
}

/// What only flows of a wire have.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WireList {
    /// When the sender's epochs begin and end.
    pub times: EpochTimes,
    /// Of each flow of the list: see [`Flow::running`].
    pub running: Vec<Option<RunningMean>>,
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

    /// Its key, where it is known.
    pub fn key(&self) -> Option<&FlowKey> {
        match &self.name {
            FlowName::Key(key) => Some(key),
            FlowName::Hash(_) => None,
        }
    }

    /// The number that it is ordered by.
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

/// A flow of a list.
#[derive(Debug, Clone, Copy)]
pub struct Selected<'l> {
    /// The list.
    pub list: &'l FlowList,
    /// The flow's index in it.
    pub index: usize,
    /// The flow.
    pub record: &'l FlowRecord,
}

/// The flows of a page, and how many of all lists were selected. Equals are in an order of their own that does not
/// change from epoch to epoch.
pub fn select<'l>(lists: &[&'l FlowList], query: &FlowQuery) -> (usize, Vec<Selected<'l>>) {
    let mut selected: Vec<(usize, Selected)> = Vec::new();
    for (number, list) in lists.iter().enumerate() {
        selected.extend(list.selected(query).map(|flow| (number, flow)));
    }
    let matching = selected.len();
    let order = |(list_a, a): &(usize, Selected), (list_b, b): &(usize, Selected)| -> Ordering {
        let (a, b) = (a.record, b.record);
        let rising = a.rank(query.sort).total_cmp(&b.rank(query.sort));
        let ordering = if query.ascending {
            rising
        } else {
            rising.reverse()
        };
        ordering.then_with(|| (a.name, list_a, a.segment).cmp(&(b.name, list_b, b.segment)))
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
    (
        matching,
        selected.into_iter().map(|(_, flow)| flow).collect(),
    )
}

impl FlowList {
    fn selected(&self, query: &FlowQuery) -> impl Iterator<Item = Selected<'_>> {
        let segments = self.segments.iter();
        let is_selected =
            segments.map(|name| query.selects([&name.ingress, &name.egress, &name.class]));
        let is_selected: Vec<bool> = is_selected.collect();
        let flows = self.flows.iter().enumerate();
        let flows = flows.filter(move |(_, flow)| {
            is_selected.get(flow.segment as usize) == Some(&true)
                && (query.contains.as_ref())
                    .is_none_or(|part| flow.name.to_string().contains(part.as_str()))
                && query.selects_ends(|| flow.key()?.five_tuple())
        });
        flows.map(|(index, record)| Selected {
            list: self,
            index,
            record,
        })
    }

    /// All flows of that name: one on each segment that it passes.
    pub fn of(&self, name: FlowName) -> impl Iterator<Item = &FlowRecord> {
        self.flows.iter().filter(move |flow| flow.name == name)
    }

    /// A flow with names and times; `times` are those of the switch's own epochs.
    pub fn flow(&self, record: &FlowRecord, times: &EpochTimes) -> Flow {
        let name = self.segments.get(record.segment as usize);
        let name = name.map(|name| (**name).clone()).unwrap_or_default();
        let times = self.wire.as_ref().map_or(times, |wire| &wire.times);
        Flow {
            flow: record.name.to_string(),
            ingress: name.ingress,
            egress: name.egress,
            class: name.class,
            is_on_wire: self.wire.is_some(),
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
            running: None,
            references: record.references,
        }
    }
}

impl Selected<'_> {
    /// The flow with names and times; `times` are those of the switch's own epochs.
    pub fn flow(&self, times: &EpochTimes) -> Flow {
        let running = self.list.wire.as_ref().map(|wire| &wire.running);
        Flow {
            running: running.and_then(|running| *running.get(self.index)?),
            ..self.list.flow(self.record, times)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(flows: &[Selected]) -> Vec<u16> {
        let port = |flow: &Selected| match flow.record.name {
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
        wire.wire = Some(WireList {
            times: EpochTimes {
                next: 81,
                next_unix_s: 1_000.0,
                interval_s: 0.5,
            },
            running: (0..4).map(|n| Some(running(n))).collect(),
        });
        for (n, flow) in wire.flows.iter_mut().enumerate() {
            flow.name = FlowName::Hash(0xabc + n as u64);
            flow.last.packets = [9, 7, 9, 7][n];
        }
        let (matching, flows) = select(&[&inside, &wire], &FlowQuery::default());
        assert_eq!(matching, 8);
        let own = EpochTimes::default();
        let flows: Vec<Flow> = flows.iter().map(|flow| flow.flow(&own)).collect();
        let is_on_wire: Vec<bool> = flows.iter().map(|flow| flow.is_on_wire).collect();
        let [yes, no] = [true, false];
        assert_eq!(is_on_wire, [yes, yes, no, no, no, no, yes, yes]);
        assert_eq!(flows[1].flow, "#0000000000000abe");
        assert_eq!(flows[1].running, Some(running(2)));
        assert_eq!(flows[2].running, None);
        assert!((flows[1].first_seen_unix_s - (1_000.0 - 79.0 * 0.5)).abs() < 1e-9);
    }
}
