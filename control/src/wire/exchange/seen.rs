//! Flows that arrived by a wire lately: since when, and what was counted and estimated of them.

use hashbrown::HashMap;
use measure::observation::SegmentIndex;
use measure::packet::FlowHash;
use wire::FlowOutcome;

use contract::limits::{WIRE_SEEN_ENTRY_BYTES, WIRE_SEEN_FLOW_BYTES};
use records::snapshot::RunningMean;

// The memory budget allows for as much as is taken.
const _: () = assert!(size_of::<SeenFlow>() == WIRE_SEEN_FLOW_BYTES);
const _: () = assert!(size_of::<(Key, SeenFlow)>() == WIRE_SEEN_ENTRY_BYTES);

type Key = (FlowHash, SegmentIndex);

/// A flow since it was first seen, over the epochs that were decoded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeenFlow {
    /// The first epoch in which it had packets,
    pub first: u64,
    /// and the last.
    pub last: u64,
    /// Packets that arrived.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets lost, at most; `None` where that was not known in every epoch.
    pub lost_max: Option<u64>,
    /// Epochs whose estimate had a bound,
    bounded_epochs: u64,
    /// the packets in them,
    bounded_packets: u64,
    /// and the sums over these packets of means and of bounds, in nanoseconds.
    mean_sum_ns: f64,
    bound_sum_ns: f64,
}

impl SeenFlow {
    fn new(epoch: u64) -> Self {
        Self {
            first: epoch,
            last: epoch,
            packets: 0,
            bytes: 0,
            lost_max: Some(0),
            bounded_epochs: 0,
            bounded_packets: 0,
            mean_sum_ns: 0.0,
            bound_sum_ns: 0.0,
        }
    }

    fn add(&mut self, epoch: u64, of: &FlowOutcome) {
        self.last = epoch;
        self.packets += of.packets;
        self.bytes += of.bytes;
        let lost = self.lost_max.zip(of.lost_max);
        self.lost_max = lost.map(|(before, now)| before + now);
        let chosen = of.chosen.as_ref();
        if let Some((chosen, bound_ns)) = chosen.and_then(|one| Some((one, one.bound_ns?))) {
            let packets = of.packets as f64;
            self.bounded_epochs += 1;
            self.bounded_packets += of.packets;
            self.mean_sum_ns += packets * chosen.mean_ns;
            self.bound_sum_ns += packets * bound_ns;
        }
    }

    /// Its mean over the epochs whose estimate had a bound; `None` without any.
    pub fn running(&self) -> Option<RunningMean> {
        let packets = self.bounded_packets as f64;
        (self.bounded_packets > 0).then(|| RunningMean {
            epochs: self.bounded_epochs,
            packets: self.bounded_packets,
            mean_ns: self.mean_sum_ns / packets,
            bound_ns: self.bound_sum_ns / packets,
        })
    }
}

/// Flows by hash and segment. One without a packet for long is forgotten; where there is no room for the flows of
/// an epoch, those that were silent longest are.
#[derive(Debug)]
pub(super) struct SeenFlows {
    /// Flows at most: those of an epoch always fit.
    room: usize,
    idle_epochs: u64,
    flows: HashMap<Key, SeenFlow>,
    newest: Option<u64>,
}

impl SeenFlows {
    pub fn new(flows: u32, idle_epochs: u64) -> Self {
        Self {
            room: flows as usize,
            idle_epochs,
            flows: HashMap::new(),
            newest: None,
        }
    }

    /// Adds an epoch's flows, at most as many as there is room for; gives each as it is known now.
    pub fn add(&mut self, epoch: u64, outcomes: &[FlowOutcome]) -> Vec<SeenFlow> {
        if self.newest.is_some_and(|newest| epoch <= newest) {
            // A sender that was started anew counts from 0.
            self.flows.clear();
        }
        self.newest = Some(epoch);
        let (flows, idle_epochs) = (&mut self.flows, self.idle_epochs);
        flows.retain(|_, seen| epoch - seen.last <= idle_epochs);
        let mut new = 0;
        for of in outcomes {
            match flows.get_mut(&(of.flow, of.segment)) {
                Some(seen) => seen.last = epoch,
                None => new += 1,
            }
        }
        self.make_room(epoch, new);
        let seen = outcomes.iter().map(|of| {
            let seen = self.flows.entry((of.flow, of.segment));
            let seen = seen.or_insert_with(|| SeenFlow::new(epoch));
            seen.add(epoch, of);
            *seen
        });
        seen.collect()
    }

    /// Makes room for `new` flows in `epoch`.
    fn make_room(&mut self, epoch: u64, new: usize) {
        let excess = (self.flows.len() + new).saturating_sub(self.room);
        let Some(index) = excess.checked_sub(1) else {
            return;
        };
        let silent = self.flows.values().map(|seen| seen.last);
        let mut silent: Vec<u64> = silent.filter(|&last| last < epoch).collect();
        if index < silent.len() {
            let (_, &mut last, _) = silent.select_nth_unstable(index);
            self.flows.retain(|_, seen| seen.last > last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::chooser::Method;
    use wire::Estimate;

    fn outcome(flow: u64, packets: u64, bound_ns: Option<f64>) -> FlowOutcome {
        FlowOutcome {
            flow: FlowHash(flow),
            segment: SegmentIndex(0),
            packets,
            bytes: 100 * packets,
            lost_max: Some(1),
            stddev_ns: None,
            quantiles_ns: None,
            estimates: [].into_iter().collect(),
            chosen: Some(Estimate {
                method: Method::Hybrid,
                mean_ns: 1_000.0 * packets as f64,
                bound_ns,
            }),
        }
    }

    #[test]
    fn means_and_bounds_are_weighted_by_packets_where_there_is_a_bound() {
        let mut seen = SeenFlows::new(4, 10);
        seen.add(7, &[outcome(1, 10, Some(20.0))]);
        seen.add(8, &[outcome(1, 50, None)]);
        let [flow] = seen.add(9, &[outcome(1, 30, Some(40.0))])[..] else {
            panic!("one flow");
        };
        assert_eq!((flow.first, flow.last), (7, 9));
        assert_eq!(
            (flow.packets, flow.bytes, flow.lost_max),
            (90, 9_000, Some(3))
        );
        let running = flow.running().unwrap();
        assert_eq!((running.epochs, running.packets), (2, 40));
        assert!((running.mean_ns - 25_000.0).abs() < 1e-9, "{running:?}");
        assert!((running.bound_ns - 35.0).abs() < 1e-9, "{running:?}");
        let mut unknown = outcome(1, 1, None);
        unknown.lost_max = None;
        assert_eq!(seen.add(10, &[unknown])[0].lost_max, None);
    }

    #[test]
    fn idle_flows_and_those_of_another_start_of_the_sender_are_forgotten() {
        let mut seen = SeenFlows::new(4, 10);
        let one = [outcome(1, 10, None)];
        seen.add(100, &one);
        assert_eq!(seen.add(110, &one)[0].first, 100);
        assert_eq!(seen.add(121, &one)[0].first, 121);
        assert_eq!(seen.add(3, &one)[0].first, 3);
    }

    #[test]
    fn there_are_never_more_than_slots_and_the_longest_silent_go_first() {
        let mut seen = SeenFlows::new(4, 100);
        for epoch in 1..=4 {
            seen.add(epoch, &[outcome(epoch, 1, None)]);
        }
        seen.add(5, &[outcome(2, 1, None), outcome(5, 1, None)]);
        let mut known: Vec<u64> = seen.flows.keys().map(|(flow, _)| flow.0).collect();
        known.sort_unstable();
        assert_eq!(known, [2, 3, 4, 5]);
        let all: Vec<FlowOutcome> = (10..14).map(|n| outcome(n, 1, None)).collect();
        assert_eq!(seen.add(6, &all).len(), 4);
        assert_eq!(seen.flows.len(), 4);
        assert!(seen.add(7, &[]).is_empty());
    }
}
