//! Which flows have series of their own in Prometheus, and what they are credited with.
//!
//! Every packet that workers counted is credited once: to its flow, where that has series of its own at
//! the time, else to `other` of its segment. Flows that rules pin have series, those with most packets
//! and those with the longest delays of an epoch; a flow keeps its series for a while even if others
//! are greater, so that they are worth drawing.

use contract::config::FlowRule;
use hashbrown::{HashMap, HashSet};
use measure::histogram::SmallHistogram;
use measure::packet::FlowKey;
use measure::time::{Epoch, TickRate};

use super::{Directory, Flow, FlowNumber, FlowSums};
use records::history::{History, Sample};
use records::snapshot::FlowQuantiles;

/// Packets that a flow must have in an epoch to be among those with the longest delays.
const PACKETS_FOR_DELAY: u64 = 10;

/// Which flows get series of their own.
#[derive(Debug, Clone, Default)]
pub(crate) struct TopSettings {
    /// Most flows with series of their own.
    pub flows_max: usize,
    /// Epochs for which a flow keeps its series at least.
    pub hold_epochs: u64,
    /// Flows that come first.
    pub pinned: Vec<FlowRule>,
}

/// Why a flow has series of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A rule names it.
    Pinned,
    /// It had many packets.
    Packets,
    /// Its packets were delayed for long.
    Delay,
}

impl Reason {
    /// Its name in JSON.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Pinned => "pinned",
            Self::Packets => "packets",
            Self::Delay => "delay",
        }
    }
}

/// A flow with series of its own.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    /// The flow.
    pub key: FlowKey,
    /// The number of its segment.
    pub segment: u32,
    /// Why it has series.
    pub reason: Reason,
    /// The first epoch that it was credited with.
    pub since: Epoch,
    /// What it was credited with.
    pub credited: FlowSums,
    /// Its delays in the last epoch that it was credited with, which may not have closed yet, as far as histograms
    /// were kept of them.
    delays: (Epoch, SmallHistogram),
    /// Percentiles in its last epoch that closed; `None` where not all of its packets were in a histogram.
    pub quantiles: Option<FlowQuantiles>,
    /// Its index in the directory, when it last had packets.
    number: FlowNumber,
    /// Its figures over time.
    pub history: History,
    /// The flow as it was at the end of its last epoch.
    pub flow: Flow,
}

impl Held {
    /// An epoch has closed with `flow` in it, which has that index.
    fn close(&mut self, flow: &Flow, number: FlowNumber) {
        self.flow = flow.clone();
        self.number = number;
        self.quantiles = self.closed_quantiles();
    }

    fn closed_quantiles(&self) -> Option<FlowQuantiles> {
        let (epoch, delays) = &self.delays;
        let is_whole = *epoch == self.flow.last && delays.count() == self.flow.recent.packets;
        let ns = |q| Some(delays.quantile_ns(q)? as f64);
        let quantiles = || {
            Some(FlowQuantiles {
                p50_ns: ns(0.5)?,
                p90_ns: ns(0.9)?,
                p99_ns: ns(0.99)?,
                max_ns: Some(ns(1.0)?),
            })
        };
        is_whole.then(quantiles).flatten()
    }
}

/// What a segment's packets were credited to.
#[derive(Debug, Clone, Copy, Default)]
struct Account {
    all: FlowSums,
    /// Of these, packets of flows with series.
    named: FlowSums,
}

/// All flows with series of their own.
#[derive(Debug, Default)]
pub(crate) struct Top {
    settings: TopSettings,
    held: HashMap<(FlowKey, u32), Held>,
    /// The indices of these flows in the directory.
    named: HashSet<FlowNumber>,
    /// By segment.
    accounts: HashMap<u32, Account>,
    folded: u64,
}

impl Top {
    /// Takes new settings. Flows that are too many lose their series as the settings allow.
    pub fn set(&mut self, settings: TopSettings) {
        self.settings = settings;
    }

    /// All that a shard has of a segment; its flows come after it.
    pub fn credit_segment(&mut self, segment: u32, sums: &FlowSums) {
        self.accounts.entry(segment).or_default().all.add(sums);
    }

    /// What a shard of an epoch has of a flow on a segment.
    pub fn credit(
        &mut self,
        of @ (_, segment): (FlowKey, u32),
        epoch: Epoch,
        sums: &FlowSums,
        delays: Option<&SmallHistogram>,
    ) {
        if let Some(held) = self.held.get_mut(&of) {
            held.credited.add(sums);
            if held.delays.0 != epoch {
                held.delays = (epoch, SmallHistogram::default());
            }
            if let Some(delays) = delays {
                held.delays.1.merge(delays);
            }
            self.accounts.entry(segment).or_default().named.add(sums);
        }
    }

    /// Whether the flow of this index has series of its own. Another flow that took the index since the last
    /// epoch closed may be taken for it.
    pub fn is_named(&self, number: FlowNumber) -> bool {
        self.named.contains(&number)
    }

    /// These flows, by the numbers of packets in their last epochs, the greatest first.
    pub fn iter(&self) -> impl Iterator<Item = &Held> {
        let mut held: Vec<&Held> = self.held.values().collect();
        held.sort_unstable_by_key(|held| {
            let packets = std::cmp::Reverse(held.flow.recent.packets);
            (packets, held.key, held.segment)
        });
        held.into_iter()
    }

    /// Percentiles of a flow on a segment; `None` where it has no series of its own, too.
    pub fn quantiles(&self, key: FlowKey, segment: u32) -> Option<FlowQuantiles> {
        self.held.get(&(key, segment))?.quantiles
    }

    /// By segment: what no flow of its own was credited with.
    pub fn other(&self) -> impl Iterator<Item = (u32, FlowSums)> {
        let accounts = self.accounts.iter();
        accounts.map(|(&segment, account)| (segment, account.all.less(&account.named)))
    }

    /// How often a flow with packets in an epoch had no series.
    pub fn folded(&self) -> u64 {
        self.folded
    }

    /// Forgets segments that are not measured any more.
    pub fn forget_segments(&mut self, is_known: impl Fn(u32) -> bool) {
        self.accounts.retain(|&segment, _| is_known(segment));
        self.held.retain(|&(_, segment), _| is_known(segment));
    }

    /// An epoch has closed: other flows get series.
    pub fn close(&mut self, epoch: Epoch, directory: &Directory, rate: TickRate, interval_ms: u32) {
        let mut folded = 0;
        let mut seen = Vec::new();
        for (number, flow) in directory.numbered() {
            if flow.last != epoch || flow.recent.packets == 0 {
                continue;
            }
            match self.held.get_mut(&(flow.key, flow.segment)) {
                Some(held) => {
                    held.close(flow, number);
                    held.history.add(epoch.0, interval_ms, &sample(held, rate));
                }
                None => folded += 1,
            }
            seen.push(number);
        }
        self.folded += folded;
        let wanted = self.wanted(directory, seen);
        let is_wanted = |key, segment| {
            wanted
                .iter()
                .any(|(number, _)| directory.is_of(*number, key, segment))
        };
        let hold_epochs = self.settings.hold_epochs;
        self.held.retain(|&(key, segment), held| {
            epoch.0.saturating_sub(held.since.0) < hold_epochs || is_wanted(key, segment)
        });
        for (number, reason) in wanted {
            if self.held.len() >= self.settings.flows_max {
                break;
            }
            let flow = directory.flow(number);
            let fresh = || Held {
                key: flow.key,
                segment: flow.segment,
                reason,
                since: epoch.next(),
                credited: FlowSums::default(),
                delays: (epoch, SmallHistogram::default()),
                quantiles: None,
                number,
                history: History::default(),
                flow: flow.clone(),
            };
            let held = self.held.entry((flow.key, flow.segment));
            held.or_insert_with(fresh);
        }
        self.named.clear();
        self.named
            .extend(self.held.values().map(|held| held.number));
    }

    /// The flows that should have series: pinned ones, then alternately those with most packets and
    /// those with the longest delays.
    fn wanted(
        &self,
        directory: &Directory,
        mut seen: Vec<FlowNumber>,
    ) -> Vec<(FlowNumber, Reason)> {
        let most = self.settings.flows_max;
        let flow = |number: &FlowNumber| directory.flow(*number);
        let packets = |number: &FlowNumber| {
            let flow = flow(number);
            let packets = std::cmp::Reverse(flow.recent.packets);
            (packets, flow.key, flow.segment)
        };
        let mut pinned = Vec::new();
        if !self.settings.pinned.is_empty() {
            let is_pinned = |number: &FlowNumber| {
                let mut rules = self.settings.pinned.iter();
                rules.any(|rule| rule.selects(&flow(number).key))
            };
            pinned = seen.iter().copied().filter(is_pinned).collect();
            greatest(&mut pinned, most, packets);
        }
        let mut by_delay: Vec<FlowNumber> = seen
            .iter()
            .copied()
            .filter(|number| flow(number).recent.packets >= PACKETS_FOR_DELAY)
            .collect();
        greatest(&mut by_delay, most, |number| {
            let flow = flow(number);
            // Whole ticks order as well, and are ordered.
            let sum = flow.recent.sum_ticks / u128::from(flow.recent.packets.max(1));
            (std::cmp::Reverse(sum), flow.key, flow.segment)
        });
        greatest(&mut seen, most, packets);
        let mut wanted: Vec<(FlowNumber, Reason)> = Vec::with_capacity(most);
        let mut add = |number: FlowNumber, reason| {
            if wanted.len() < most && !wanted.iter().any(|(other, _)| *other == number) {
                wanted.push((number, reason));
            }
        };
        for number in pinned {
            add(number, Reason::Pinned);
        }
        let mut delays = by_delay.into_iter();
        for number in seen {
            add(number, Reason::Packets);
            if let Some(number) = delays.next() {
                add(number, Reason::Delay);
            }
        }
        for number in delays {
            add(number, Reason::Delay);
        }
        wanted
    }
}

/// The first `most` by a key, in its order.
fn greatest<K: Ord>(numbers: &mut Vec<FlowNumber>, most: usize, key: impl Fn(&FlowNumber) -> K) {
    if most > 0 && numbers.len() > most {
        numbers.select_nth_unstable_by_key(most - 1, &key);
    }
    numbers.truncate(most);
    numbers.sort_unstable_by_key(key);
}

fn sample(held: &Held, rate: TickRate) -> Sample {
    let flow = &held.flow;
    let sums = &flow.recent;
    let quantiles = held.quantiles.unwrap_or_default();
    // One of several epochs together is none of theirs.
    let estimate =
        (flow.estimate()).filter(|estimate| (estimate.epoch, estimate.epochs) == (flow.last.0, 1));
    Sample {
        packets: sums.packets,
        lost_packets: sums.lost,
        sum_ns: rate.to_ns(sums.sum_ticks as f64),
        squares_ns2: sums.sum_of_squares_ticks2 as f64 * rate.to_ns(1.0).powi(2),
        max_ns: quantiles.max_ns.unwrap_or_default(),
        p99_ns: quantiles.p99_ns,
        estimate_ns: estimate.and_then(|estimate| Some((estimate.mean_ns, estimate.bound_ns?))),
    }
}

#[cfg(test)]
mod tests;
