//! Many flows at once, and pages of them.

use std::cmp::Ordering;
use std::sync::Arc;

use measure::packet::FlowKey;

#[cfg(doc)]
use super::Flow;
use super::{FlowEstimate, FlowFigures};
use crate::query::{FlowOrder, FlowQuery};

/// One flow of a [`FlowList`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FlowRecord {
    /// The flow.
    pub key: FlowKey,
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

impl FlowRecord {
    /// The number that it is ordered by.
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
    /// The flows of a page, and how many were selected in all. Equals are in an order of their own that does not
    /// change from epoch to epoch.
    pub fn select(&self, query: &FlowQuery) -> (usize, Vec<&FlowRecord>) {
        let segments = self.segments.iter();
        let is_selected =
            segments.map(|name| query.selects([&name.ingress, &name.egress, &name.class]));
        let is_selected: Vec<bool> = is_selected.collect();
        let is_named = |flow: &&FlowRecord| {
            let part = query.contains.as_ref();
            part.is_none_or(|part| flow.key.to_string().contains(part.as_str()))
        };
        let flows = self.flows.iter();
        let mut selected: Vec<&FlowRecord> = flows
            .filter(|flow| is_selected.get(flow.segment as usize) == Some(&true))
            .filter(is_named)
            .collect();
        let matching = selected.len();
        let order = |a: &&FlowRecord, b: &&FlowRecord| -> Ordering {
            let rising = a.rank(query.sort).total_cmp(&b.rank(query.sort));
            let ordering = if query.ascending {
                rising
            } else {
                rising.reverse()
            };
            ordering.then_with(|| (a.key, a.segment).cmp(&(b.key, b.segment)))
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
        (matching, selected)
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
                limit: 7,
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
            limit: 0,
            ..FlowQuery::default()
        };
        assert_eq!(list.select(&beyond), (10, vec![]));
    }
}
