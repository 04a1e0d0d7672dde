//! Many flows at once: a list, and the part and order of it that somebody wants.

use std::cmp::Ordering;
use std::sync::Arc;

use measure::packet::FlowKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(doc)]
use super::Flow;
use super::{FlowEstimate, FlowFigures};

/// One flow of a [`FlowList`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlowRecord {
    /// The flow.
    pub key: FlowKey,
    /// Place of its segment's names in [`FlowList::segments`].
    pub segment: u32,
    /// See [`Flow::first_epoch`].
    pub first_epoch: u64,
    /// See [`Flow::last_epoch`].
    pub last_epoch: u64,
    /// See [`Flow::last`].
    pub last: FlowFigures,
    /// See [`Flow::total`].
    pub total: FlowFigures,
    /// See [`Flow::estimate`].
    pub estimate: Option<FlowEstimate>,
    /// See [`Flow::rli_mean_ns`].
    pub rli_mean_ns: Option<f64>,
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
}

/// By what flows are ordered, the greatest first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlowOrder {
    /// Packets in its last epoch.
    #[default]
    Packets,
    /// Bytes in its last epoch.
    Bytes,
    /// Mean delay in its last epoch.
    Mean,
    /// Standard deviation in its last epoch.
    Stddev,
    /// Packets lost in its last epoch.
    Lost,
    /// Packets since it was first seen.
    TotalPackets,
    /// Packets lost since it was first seen.
    TotalLost,
    /// The estimate's mean.
    Estimate,
    /// Half-width of the estimate's interval.
    Bound,
    /// The epoch in which it was first seen.
    First,
    /// The last epoch in which it had packets.
    Last,
}

/// Which flows of a list are wanted, and in which order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FlowQuery {
    /// By what they are ordered.
    pub sort: FlowOrder,
    /// The least first.
    pub ascending: bool,
    /// How many are left out at the beginning.
    pub offset: usize,
    /// How many are wanted, at most.
    pub limit: Option<usize>,
    /// Only of this ingress port.
    pub ingress: Option<String>,
    /// Only of this egress port.
    pub egress: Option<String>,
    /// Only of this class.
    pub class: Option<String>,
    /// Only those in whose name this text is.
    pub contains: Option<String>,
}

impl FlowRecord {
    /// What it is ordered by.
    fn rank(&self, order: FlowOrder) -> f64 {
        match order {
            FlowOrder::Packets => self.last.packets as f64,
            FlowOrder::Bytes => self.last.bytes as f64,
            FlowOrder::Mean => self.last.mean_ns,
            FlowOrder::Stddev => self.last.stddev_ns,
            FlowOrder::Lost => self.last.lost_packets as f64,
            FlowOrder::TotalPackets => self.total.packets as f64,
            FlowOrder::TotalLost => self.total.lost_packets as f64,
            FlowOrder::Estimate => self.estimate.map_or(f64::MIN, |estimate| estimate.mean_ns),
            FlowOrder::Bound => {
                let bound = self.estimate.and_then(|estimate| estimate.bound_ns);
                bound.unwrap_or(f64::MIN)
            }
            FlowOrder::First => self.first_epoch as f64,
            FlowOrder::Last => self.last_epoch as f64,
        }
    }
}

impl FlowList {
    /// The flows that are wanted, with how many there are before `offset` and `limit` are heeded.
    /// Equals are in an order of their own that does not change from epoch to epoch.
    pub fn select(&self, query: &FlowQuery) -> (usize, Vec<&FlowRecord>) {
        let is_wanted = |wanted: &Option<String>, name: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == name)
        };
        let segments: Vec<bool> = self
            .segments
            .iter()
            .map(|name| {
                is_wanted(&query.ingress, &name.ingress)
                    && is_wanted(&query.egress, &name.egress)
                    && is_wanted(&query.class, &name.class)
            })
            .collect();
        let mut wanted: Vec<&FlowRecord> = self
            .flows
            .iter()
            .filter(|flow| segments.get(flow.segment as usize) == Some(&true))
            .filter(|flow| {
                let part = query.contains.as_ref();
                part.is_none_or(|part| flow.key.to_string().contains(part.as_str()))
            })
            .collect();
        let matching = wanted.len();
        let order = |a: &&FlowRecord, b: &&FlowRecord| -> Ordering {
            let (a_rank, b_rank) = (a.rank(query.sort), b.rank(query.sort));
            let ordering = if query.ascending {
                a_rank.total_cmp(&b_rank)
            } else {
                b_rank.total_cmp(&a_rank)
            };
            ordering.then_with(|| (a.key, a.segment).cmp(&(b.key, b.segment)))
        };
        let end = query
            .limit
            .map_or(matching, |limit| query.offset.saturating_add(limit));
        if end < matching {
            if end > 0 {
                wanted.select_nth_unstable_by(end - 1, order);
            }
            wanted.truncate(end);
        }
        wanted.sort_unstable_by(order);
        wanted.drain(..query.offset.min(wanted.len()));
        (matching, wanted)
    }

    /// All flows of that key: one on each segment that it passes.
    pub fn of(&self, key: &FlowKey) -> impl Iterator<Item = &FlowRecord> {
        self.flows.iter().filter(move |flow| flow.key == *key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(flows: &[&FlowRecord]) -> Vec<u16> {
        let port = |flow: &&FlowRecord| match flow.key {
            FlowKey::V4 { source_port, .. } => source_port - 1_024,
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
        let all = list.select(&FlowQuery::default());
        assert_eq!(all.0, 100);
        let paged = (0..100).step_by(7).flat_map(|offset| {
            let query = FlowQuery {
                offset,
                limit: Some(7),
                ..FlowQuery::default()
            };
            list.select(&query).1
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
        assert_eq!(ports(&list.select(&query).1), [9, 7, 5, 3, 1]);
        let query = FlowQuery {
            contains: Some(":1027>".to_owned()),
            ..FlowQuery::default()
        };
        let (matching, found) = list.select(&query);
        assert_eq!((matching, ports(&found)), (1, vec![3]));
        let beyond = FlowQuery {
            offset: 1_000,
            limit: Some(0),
            ..FlowQuery::default()
        };
        assert_eq!(list.select(&beyond), (10, vec![]));
    }
}
