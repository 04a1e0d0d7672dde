//! The directory of flows: every flow that some worker has a slot for, and what has been counted of it.
//!
//! ```text
//!  worker's reports --> SlotTable (slot -> flow) --> Directory (flow: key, segment, totals)
//!  sealed flow slots ---^   |
//!  forget, give <-----------+  idle flows; the smallest, where only the top ones are kept
//! ```
//!
//! A flow is in the directory as long as some slot counts it, so that there are never more
//! flows than slots, over all workers and over the two generations that a change may have alive.
//! What is counted is exact and cumulative: it does not matter whether the epoch was usable.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use contract::limits::{DIRECTORY_BYTES_PER_SLOT, ESTIMATE_BYTES};
use hashbrown::HashTable;
use measure::flows::{FlowCounters, FlowEstimates};
use measure::histogram::SmallHistogram;
use measure::moments::Moments;
use measure::packet::FlowKey;
use measure::rli::FlowDelay;
use measure::time::{Epoch, TickRate};

use records::snapshot::{ENDED_MAX, FlowEstimate, FlowRecord};

mod table;
mod top;

pub(crate) use table::{SlotTable, Upkeep};
pub(crate) use top::{Top, TopSettings};

/// Bytes for each slot of each worker, without estimates: the flow, its entries in tables, and two published lists
/// with it, the one in use and the next.
const BYTES_PER_SLOT: usize = size_of::<Flow>()
    + table::LINK_BYTES
    + 2 * size_of::<FlowNumber>()
    + 2 * size_of::<FlowRecord>();

// The memory budget allows for as much as is taken.
const _: () = assert!(BYTES_PER_SLOT == DIRECTORY_BYTES_PER_SLOT);
const _: () = assert!(size_of::<FlowEstimate>() == ESTIMATE_BYTES);

/// A flow's index in the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FlowNumber(u32);

impl FlowNumber {
    /// No flow's.
    const NONE: Self = Self(u32::MAX);
}

/// Exact sums over packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FlowSums {
    pub packets: u64,
    pub bytes: u64,
    pub lost: u64,
    pub sum_ticks: u128,
    pub sum_of_squares_ticks2: u128,
}

impl From<&FlowCounters> for FlowSums {
    fn from(counters: &FlowCounters) -> Self {
        Self {
            packets: counters.packets(),
            bytes: counters.bytes(),
            lost: counters.lost(),
            sum_ticks: counters.sum_ticks().into(),
            sum_of_squares_ticks2: counters.sum_of_squares_ticks2(),
        }
    }
}

impl FlowSums {
    /// All packets of a segment.
    pub fn of_segment(moments: &Moments, bytes: u64, lost: u64) -> Self {
        Self {
            packets: moments.count(),
            bytes,
            lost,
            sum_ticks: moments.sum_ticks(),
            sum_of_squares_ticks2: moments.sum_of_squares_ticks2(),
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.lost += other.lost;
        self.sum_ticks += other.sum_ticks;
        self.sum_of_squares_ticks2 = self
            .sum_of_squares_ticks2
            .wrapping_add(other.sum_of_squares_ticks2);
    }

    /// Without a part of it.
    pub fn less(&self, part: &Self) -> Self {
        Self {
            packets: self.packets.saturating_sub(part.packets),
            bytes: self.bytes.saturating_sub(part.bytes),
            lost: self.lost.saturating_sub(part.lost),
            sum_ticks: self.sum_ticks.saturating_sub(part.sum_ticks),
            sum_of_squares_ticks2: self
                .sum_of_squares_ticks2
                .wrapping_sub(part.sum_of_squares_ticks2),
        }
    }

    /// Mean delay; `None` without packets.
    pub fn mean_ticks(&self) -> Option<f64> {
        (self.packets > 0).then(|| self.sum_ticks as f64 / self.packets as f64)
    }

    /// Standard deviation of the delays (over n); `None` without packets.
    pub fn stddev_ticks(&self) -> Option<f64> {
        let mean = self.mean_ticks()?;
        let square = self.sum_of_squares_ticks2 as f64 / self.packets as f64;
        Some((square - mean * mean).max(0.0).sqrt())
    }
}

/// A flow on a segment.
#[derive(Debug, Clone)]
pub(crate) struct Flow {
    /// The flow's addresses and the like.
    pub key: FlowKey,
    /// The number that the control core gave its segment.
    pub segment: u32,
    /// Slots that count it.
    links: u32,
    /// The first epoch in which it had packets, or that of its report.
    pub first: Epoch,
    /// The last epoch in which it had packets.
    pub last: Epoch,
    /// What was counted in that epoch.
    pub recent: FlowSums,
    /// What was counted since it was reported.
    pub total: FlowSums,
    /// What references say of its last epoch, and of all since it was reported.
    pub recent_references: FlowDelay,
    pub total_references: FlowDelay,
    /// What was counted in epochs whose sketches are still to be decoded in a sum.
    pub pending: FlowSums,
    /// What references say of that.
    pub pending_references: FlowDelay,
    /// The estimate to use, and behind it those of each method.
    pub estimates: Option<Arc<[FlowEstimate]>>,
}

impl Flow {
    fn new(key: FlowKey, segment: u32, epoch: Epoch) -> Self {
        Self {
            key,
            segment,
            links: 0,
            first: epoch,
            last: epoch,
            recent: FlowSums::default(),
            total: FlowSums::default(),
            recent_references: FlowDelay::default(),
            total_references: FlowDelay::default(),
            pending: FlowSums::default(),
            pending_references: FlowDelay::default(),
            estimates: None,
        }
    }

    /// The estimate to use.
    pub fn estimate(&self) -> Option<&FlowEstimate> {
        self.estimates.as_deref()?.first()
    }

    fn add(&mut self, epoch: Epoch, sums: &FlowSums, estimates: Option<&FlowEstimates>) {
        self.total.add(sums);
        if sums.packets + sums.lost > 0 {
            self.first = self.first.min(epoch);
            // A flow may have been reported in the epoch after that of its first packet.
            if epoch > self.last || self.recent == FlowSums::default() {
                self.last = epoch;
                self.recent = FlowSums::default();
                self.recent_references = FlowDelay::default();
            }
            if epoch == self.last {
                self.recent.add(sums);
            }
        }
        if let Some(estimates) = estimates {
            let delay = estimates.delay();
            self.total_references.merge(&delay);
            if epoch == self.last {
                self.recent_references.merge(&delay);
            }
        }
    }
}

/// Flows that came and went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Comings {
    /// Flows that were new.
    pub new: u64,
    /// Flows that were [forgotten](Forgotten::Expired).
    pub expired: u64,
    /// Flows that were [forgotten](Forgotten::Evicted).
    pub evicted: u64,
}

/// Why a flow lost a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forgotten {
    /// It was idle, or its generation ended.
    Expired,
    /// It made room for others.
    Evicted,
}

/// All flows that some worker has a slot for.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    flows: Vec<Flow>,
    /// Indices in `flows` that no flow has.
    vacant: Vec<FlowNumber>,
    /// By key and segment.
    index: HashTable<FlowNumber>,
    hasher: RandomState,
    comings: Comings,
    /// Flows that were forgotten last.
    ended: VecDeque<Flow>,
    top: Top,
}

/// As [`Directory::index`] has it.
fn hash_of(hasher: &RandomState, flow: &Flow) -> u64 {
    hasher.hash_one((flow.key, flow.segment))
}

impl Directory {
    /// Makes room for the flows of so many slots, over all workers, at once.
    pub fn reserve(&mut self, slots: usize) {
        self.flows
            .reserve_exact(slots.saturating_sub(self.flows.len()));
        let (flows, hasher) = (&self.flows, &self.hasher);
        let more = slots.saturating_sub(self.index.len());
        self.index
            .reserve(more, |number| hash_of(hasher, &flows[number.0 as usize]));
    }

    /// Forgets all flows, and which have series. Settings have to be set again.
    pub fn start_anew(&mut self) {
        *self = Self {
            comings: self.comings,
            ..Self::default()
        };
    }

    /// The flow of that key and segment, new or not, with a slot more.
    fn link(&mut self, key: FlowKey, segment: u32, epoch: Epoch) -> FlowNumber {
        let hash = self.hasher.hash_one((key, segment));
        let flows = &self.flows;
        let is_same = |number: &FlowNumber| {
            let flow = &flows[number.0 as usize];
            flow.key == key && flow.segment == segment
        };
        if let Some(&number) = self.index.find(hash, is_same) {
            self.flows[number.0 as usize].links += 1;
            return number;
        }
        self.comings.new += 1;
        let flow = Flow {
            links: 1,
            ..Flow::new(key, segment, epoch)
        };
        let number = if let Some(number) = self.vacant.pop() {
            self.flows[number.0 as usize] = flow;
            number
        } else {
            // There are as many flows as slots: under 2^32.
            let number = u32::try_from(self.flows.len()).map_or(FlowNumber::NONE, FlowNumber);
            assert_ne!(number, FlowNumber::NONE, "too many flows");
            self.flows.push(flow);
            number
        };
        let (flows, hasher) = (&self.flows, &self.hasher);
        let hash_of = |number: &FlowNumber| hash_of(hasher, &flows[number.0 as usize]);
        self.index.insert_unique(hash, number, hash_of);
        number
    }

    /// The flow has a slot less. With its last one it is forgotten, and counted by `why`.
    fn unlink(&mut self, number: FlowNumber, why: Forgotten) {
        if number == FlowNumber::NONE {
            return;
        }
        let flow = &mut self.flows[number.0 as usize];
        flow.links -= 1;
        if flow.links > 0 {
            return;
        }
        let hash = hash_of(&self.hasher, flow);
        if let Ok(entry) = self.index.find_entry(hash, |&other| other == number) {
            entry.remove();
        }
        self.vacant.push(number);
        if self.ended.len() >= ENDED_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back(flow.clone());
        match why {
            Forgotten::Expired => self.comings.expired += 1,
            Forgotten::Evicted => self.comings.evicted += 1,
        }
    }

    fn add(
        &mut self,
        number: FlowNumber,
        epoch: Epoch,
        counters: &FlowCounters,
        estimates: Option<&FlowEstimates>,
        histogram: Option<&SmallHistogram>,
    ) {
        if number == FlowNumber::NONE {
            return;
        }
        let flow = &mut self.flows[number.0 as usize];
        let sums = FlowSums::from(counters);
        flow.add(epoch, &sums, estimates);
        let of = (flow.key, flow.segment);
        self.top.credit(of, epoch, &sums, histogram);
    }

    /// Counts for a flow as if some worker had a slot for it.
    #[cfg(test)]
    pub fn count_for_tests(
        &mut self,
        key: FlowKey,
        segment: u32,
        epoch: Epoch,
        sums: &FlowSums,
        estimates: Option<&FlowEstimates>,
    ) {
        let number = self.link(key, segment, epoch);
        let flow = &mut self.flows[number.0 as usize];
        flow.add(epoch, sums, estimates);
    }

    /// Takes all that a shard has of a segment, before what it has of flows.
    pub fn add_segment(&mut self, segment: u32, sums: &FlowSums) {
        self.top.credit_segment(segment, sums);
    }

    /// Flows with series of their own.
    pub fn top(&self) -> &Top {
        &self.top
    }

    /// Which flows get series of their own.
    pub fn set_top(&mut self, settings: TopSettings) {
        self.top.set(settings);
    }

    /// An epoch has closed, and what is estimated of its flows is known.
    pub fn close(&mut self, epoch: Epoch, rate: TickRate, interval_ms: u32) {
        let mut top = std::mem::take(&mut self.top);
        top.close(epoch, self, rate, interval_ms);
        self.top = top;
    }

    /// Only these segments are measured.
    pub fn forget_segments(&mut self, is_known: impl Fn(u32) -> bool) {
        self.ended.retain(|flow| is_known(flow.segment));
        self.top.forget_segments(is_known);
    }

    /// Flows that were forgotten last, the last one last.
    pub fn ended(&self) -> impl Iterator<Item = &Flow> {
        self.ended.iter()
    }

    /// Every flow with its index.
    pub fn numbered(&self) -> impl Iterator<Item = (FlowNumber, &Flow)> {
        let numbers = (0..).map(FlowNumber);
        let numbered = numbers.zip(&self.flows);
        numbered.filter(|(_, flow)| flow.links > 0)
    }

    /// The flow at an index.
    pub fn flow(&self, FlowNumber(number): FlowNumber) -> &Flow {
        &self.flows[number as usize]
    }

    /// Whether it is still that flow's index.
    pub fn is_of(&self, FlowNumber(number): FlowNumber, key: FlowKey, segment: u32) -> bool {
        let flow = self.flows.get(number as usize);
        flow.is_some_and(|flow| flow.links > 0 && flow.key == key && flow.segment == segment)
    }

    /// The flow at an index, if it is still there.
    pub fn flow_mut(
        &mut self,
        number: FlowNumber,
        key: FlowKey,
        segment: u32,
    ) -> Option<&mut Flow> {
        self.is_of(number, key, segment)
            .then(|| &mut self.flows[number.0 as usize])
    }

    /// Every flow with its index, to be written to.
    pub fn numbered_mut(&mut self) -> impl Iterator<Item = (FlowNumber, &mut Flow)> {
        let numbers = (0..).map(FlowNumber);
        let numbered = numbers.zip(&mut self.flows);
        numbered.filter(|(_, flow)| flow.links > 0)
    }

    /// Flows in it.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// What came and went.
    pub fn comings(&self) -> Comings {
        self.comings
    }

    /// Every flow, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Flow> {
        self.flows.iter().filter(|flow| flow.links > 0)
    }
}

#[cfg(test)]
mod tests;
