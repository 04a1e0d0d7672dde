//! The directory of flows: every flow with a slot at some worker, and its counts.
//!
//! ```text
//!  worker's reports --> SlotTable (slot -> flow) --> Directory (flow: key, segment, totals)
//!  sealed flow slots ---^   |
//!  forget, give <-----------+  idle flows; the smallest, if only the top ones are kept
//! ```
//!
//! A flow is in the directory as long as some slot counts it, so there are never more flows than slots,
//! over all workers and over the two generations that may be alive during a change. Counts are exact and
//! cumulative: it does not matter whether an epoch was usable.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use contract::config::FlowRule;
use contract::handover::{ControlEnd, FlowCommand, NewFlow};
use contract::labelled_enum;
use contract::limits::{DIRECTORY_BYTES_PER_SLOT, ESTIMATE_BYTES};
use hashbrown::{HashMap, HashSet, HashTable};
use measure::flows::{FlowCounters, FlowEstimates, FlowId, FlowSlots, Slot};
use measure::histogram::SmallHistogram;
use measure::moments::Moments;
use measure::observation::SegmentIndex;
use measure::packet::{FlowHash, FlowKey};
use measure::rli::FlowDelay;
use measure::time::{Epoch, TickRate};
use records::history::{History, Sample};
use records::snapshot::{ENDED_MAX, FlowEstimate, FlowQuantiles, FlowRecord};

/// Bytes for each slot of each worker, without estimates: the flow, its table entries, and its places in two
/// published lists, the current and the next.
const BYTES_PER_SLOT: usize = size_of::<Flow>()
    + size_of::<Link>()
    + 2 * size_of::<FlowNumber>()
    + 2 * size_of::<FlowRecord>();

// The memory budget allows exactly this much.
const _: () = assert!(BYTES_PER_SLOT == DIRECTORY_BYTES_PER_SLOT);
const _: () = assert!(size_of::<FlowEstimate>() == ESTIMATE_BYTES);

/// A flow's index in the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FlowNumber(u32);

impl FlowNumber {
    /// The index of no flow.
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
    /// The sums of all packets of a segment.
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

    /// Subtracts a part.
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
    /// The flow's addresses, ports and protocol.
    pub key: FlowKey,
    /// The control core's number of its segment.
    pub segment: u32,
    /// Slots that count it.
    links: u32,
    /// The first epoch in which it had packets, or the epoch of its report.
    pub first: Epoch,
    /// The last epoch in which it had packets.
    pub last: Epoch,
    /// Counts of that epoch.
    pub recent: FlowSums,
    /// Counts since it was reported.
    pub total: FlowSums,
    /// Estimates by references for its last epoch, and since it was reported.
    pub recent_references: FlowDelay,
    pub total_references: FlowDelay,
    /// Counts of epochs whose sketches are still to be decoded in a sum.
    pub pending: FlowSums,
    /// Estimates by references for these epochs.
    pub pending_references: FlowDelay,
    /// The best estimate, followed by those of each method.
    pub estimates: Option<Arc<[FlowEstimate]>>,
}

impl Flow {
    /// The best estimate.
    pub fn estimate(&self) -> Option<&FlowEstimate> {
        self.estimates.as_deref()?.first()
    }

    fn add(&mut self, epoch: Epoch, sums: &FlowSums, estimates: Option<&FlowEstimates>) {
        self.total.add(sums);
        if sums.packets + sums.lost > 0 {
            self.first = self.first.min(epoch);
            // A flow may be reported in the epoch after that of its first packet.
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

/// Counters of new and forgotten flows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Comings {
    /// New flows.
    pub new: u64,
    /// Flows that were idle, or whose generation ended.
    pub expired: u64,
    /// Flows that were evicted for others.
    pub evicted: u64,
}

/// All flows with a slot at some worker.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    flows: Vec<Flow>,
    /// Unused indices in `flows`.
    vacant: Vec<FlowNumber>,
    /// By key and segment.
    index: HashTable<FlowNumber>,
    hasher: RandomState,
    comings: Comings,
    /// Recently forgotten flows.
    ended: VecDeque<Flow>,
    top: Top,
}

/// The hash for [`Directory::index`].
fn hash_of(hasher: &RandomState, flow: &Flow) -> u64 {
    hasher.hash_one((flow.key, flow.segment))
}

impl Directory {
    /// Allocates room for the flows of this many slots over all workers.
    pub fn reserve(&mut self, slots: usize) {
        self.flows
            .reserve_exact(slots.saturating_sub(self.flows.len()));
        let (flows, hasher) = (&self.flows, &self.hasher);
        let more = slots.saturating_sub(self.index.len());
        self.index
            .reserve(more, |number| hash_of(hasher, &flows[number.0 as usize]));
    }

    /// Forgets all flows, and which have series. Settings must be applied again.
    pub fn start_anew(&mut self) {
        *self = Self {
            comings: self.comings,
            ..Self::default()
        };
    }

    /// Returns the flow with that key and segment, new or not, and counts another slot.
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
            key,
            segment,
            links: 1,
            first: epoch,
            last: epoch,
            recent: FlowSums::default(),
            total: FlowSums::default(),
            recent_references: FlowDelay::default(),
            total_references: FlowDelay::default(),
            pending: FlowSums::default(),
            pending_references: FlowDelay::default(),
            estimates: None,
        };
        let number = if let Some(number) = self.vacant.pop() {
            self.flows[number.0 as usize] = flow;
            number
        } else {
            // There are as many flows as slots: fewer than 2^32.
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

    /// Removes a slot, in `state`, from the flow. Without slots it is forgotten, and counted.
    fn unlink(&mut self, number: FlowNumber, state: State) {
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
        match state {
            State::Small => self.comings.evicted += 1,
            State::Vacant | State::Held | State::Idle => self.comings.expired += 1,
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

    /// Adds a shard's counts of a segment, before those of its flows.
    pub fn add_segment(&mut self, segment: u32, sums: &FlowSums) {
        (self.top.accounts.entry(segment).or_default().all).add(sums);
    }

    /// Flows with series of their own.
    pub fn top(&self) -> &Top {
        &self.top
    }

    /// Sets which flows get series of their own. Surplus flows lose theirs when the settings allow.
    pub fn set_top(&mut self, settings: TopSettings) {
        self.top.settings = settings;
    }

    /// Ends an epoch, whose estimates are known.
    pub fn close(&mut self, epoch: Epoch, rate: TickRate, interval_ms: u32) {
        let mut top = std::mem::take(&mut self.top);
        top.close(epoch, self, rate, interval_ms);
        self.top = top;
    }

    /// Forgets flows of unmeasured segments.
    pub fn forget_segments(&mut self, is_known: impl Fn(u32) -> bool) {
        self.ended.retain(|flow| is_known(flow.segment));
        self.top.forget_segments(is_known);
    }

    /// Recently forgotten flows, the latest last.
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

    /// Whether the index still belongs to this flow.
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
        let is_of = self.is_of(number, key, segment);
        is_of.then(|| &mut self.flows[number.0 as usize])
    }

    /// Every flow with its index, mutable.
    pub fn numbered_mut(&mut self) -> impl Iterator<Item = (FlowNumber, &mut Flow)> {
        let numbers = (0..).map(FlowNumber);
        let numbered = numbers.zip(&mut self.flows);
        numbered.filter(|(_, flow)| flow.links > 0)
    }

    /// Flows in it.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Counters of new and forgotten flows.
    pub fn comings(&self) -> Comings {
        self.comings
    }

    /// Every flow, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Flow> {
        self.numbered().map(|(_, flow)| flow)
    }
}

/// Links checked for idle flows at a time, which takes well under a millisecond.
const SCAN: usize = 65_536;

/// If only the top flows are kept, one of this many slots is free, or about to be, for new flows. With a
/// share that rises with the number of new flows, every slot would get another flow.
const ROOM: usize = 4;

/// A slot and its flow.
#[derive(Debug, Clone, Copy)]
struct Link {
    id: FlowId,
    segment: SegmentIndex,
    /// The last epoch with counted packets, or that of the report.
    last: Epoch,
    flow: FlowNumber,
    /// Recent packets: those of the last epoch, plus half of the previous value.
    recent: u32,
    state: State,
}

/// State of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Without a flow, or free for the worker to assign.
    Vacant,
    /// Counts a flow.
    Held,
    /// Its flow was idle and must be forgotten.
    Idle,
    /// Its flow is evicted and must be forgotten.
    Small,
}

const VACANT: Link = Link {
    id: FlowId::new(FlowHash(0), SegmentIndex(0)),
    segment: SegmentIndex(0),
    last: Epoch(0),
    flow: FlowNumber::NONE,
    recent: 0,
    state: State::Vacant,
};

/// How flows lose their slots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Upkeep {
    /// Epochs without a packet after which a flow is forgotten.
    pub idle_epochs: u64,
    /// Whether the smallest flows are evicted when slots run out.
    pub keeps_top: bool,
}

/// One worker's slots.
#[derive(Debug, Default)]
pub(crate) struct SlotTable {
    upkeep: Upkeep,
    links: Box<[Link]>,
    /// Slots that the worker cannot assign to new flows.
    taken: usize,
    /// The newest epoch read.
    newest: Option<Epoch>,
    /// Slots whose flows must be forgotten, before the command.
    leaving: VecDeque<Slot>,
    /// Slots whose flows the worker was commanded to forget, with the number of the command.
    forgotten: VecDeque<(u64, Slot)>,
    /// Slots to return, before the command.
    returning: VecDeque<Slot>,
    /// Commands so far.
    commands: u64,
    /// Slots whose flows have series of their own.
    named: Vec<Slot>,
    /// The slot at which the search for idle flows continues; it is finished at the end of the links.
    scanned: usize,
}

impl SlotTable {
    /// For a worker with `slots` slots.
    pub fn new(slots: usize, upkeep: Upkeep) -> Self {
        Self {
            upkeep,
            links: vec![VACANT; slots].into_boxed_slice(),
            scanned: slots,
            ..Self::default()
        }
    }

    /// Processes a worker's report at `epoch`; `segment` is the control core's number of the segment.
    pub fn report(&mut self, flows: &mut Directory, new: &NewFlow, segment: u32, epoch: Epoch) {
        let Some(link) = self.links.get_mut(new.slot.0 as usize) else {
            tracing::error!(slot = new.slot.0, "a flow was reported in no slot");
            return;
        };
        if link.state != State::Vacant {
            tracing::error!(slot = new.slot.0, "a slot was given to two flows");
            return;
        }
        *link = Link {
            id: new.id,
            segment: new.segment,
            last: epoch,
            flow: flows.link(new.key, segment, epoch),
            recent: 0,
            state: State::Held,
        };
        self.taken += 1;
    }

    /// Adds the counts of a sealed shard, after the reports that arrived before it.
    pub fn read(&mut self, flows: &mut Directory, epoch: Epoch, slots: &FlowSlots) {
        self.newest = self.newest.max(Some(epoch));
        self.named.clear();
        for (slot, link) in (0..).map(Slot).zip(&mut self.links) {
            if link.state == State::Vacant {
                continue;
            }
            if flows.top.named.contains(&link.flow) {
                self.named.push(slot);
            }
            let counters = slots.counters(slot);
            let packets = u32::try_from(counters.packets()).unwrap_or(u32::MAX);
            link.recent = (link.recent / 2).saturating_add(packets);
            let estimates = slots.estimates(slot).filter(|sums| sums.packets() > 0);
            let is_seen = packets > 0 || counters.lost() > 0;
            if is_seen {
                link.last = link.last.max(epoch);
            }
            if is_seen || estimates.is_some() {
                let histogram = slots.histogram(slot);
                flows.add(link.flow, epoch, counters, estimates, histogram);
            }
        }
        if self.scanned == self.links.len() {
            self.scanned = 0;
        }
        if self.upkeep.keeps_top {
            self.make_room(epoch);
        }
    }

    /// The flow of each slot, and the segment, as identified by the worker.
    pub fn flows(&self) -> impl Iterator<Item = (Slot, FlowId, SegmentIndex)> {
        let links = (0..).map(Slot).zip(&self.links);
        let links = links.filter(|(_, link)| link.state != State::Vacant);
        links.map(|(slot, link)| (slot, link.id, link.segment))
    }

    /// Slots whose flows had series of their own when a shard was last read.
    pub fn named(&self) -> impl Iterator<Item = Slot> {
        self.named.iter().copied()
    }

    /// Marks the smallest flows for eviction if slots run out.
    fn make_room(&mut self, epoch: Epoch) {
        let free = self.links.len() - self.taken;
        let coming = self.leaving.len() + self.forgotten.len();
        let wanted = (self.links.len() / ROOM).max(1);
        let missing = wanted.saturating_sub(free + coming);
        if missing == 0 {
            return;
        }
        // A flow reported after this epoch has had no time to show its size.
        let links = (0u32..).zip(&self.links);
        let mut known: Vec<(u32, u32)> = links
            .filter(|(_, link)| link.state == State::Held && link.last <= epoch)
            .map(|(slot, link)| (link.recent, slot))
            .collect();
        if missing < known.len() {
            known.select_nth_unstable(missing);
        }
        for &(_, slot) in known.iter().take(missing) {
            self.leave(slot as usize, State::Small);
        }
    }

    fn leave(&mut self, slot: usize, state: State) {
        self.links[slot].state = state;
        if let Ok(slot) = u32::try_from(slot) {
            self.leaving.push_back(Slot(slot));
        }
    }

    /// Notes a shard that was still empty when the worker had taken this many commands: slots forgotten by
    /// then are free of their flows, and are returned.
    pub fn settle(&mut self, flows: &mut Directory, commands_before: u64) {
        while let Some(&(command, slot)) = self.forgotten.front()
            && command <= commands_before
        {
            self.forgotten.pop_front();
            let link = &mut self.links[slot.0 as usize];
            flows.unlink(link.flow, link.state);
            *link = VACANT;
            self.returning.push_back(slot);
        }
    }

    /// Searches for idle flows, a bounded number at a time, and sends commands as far as there is room.
    pub fn command(&mut self, end: &mut ControlEnd) {
        self.scan();
        while let Some(&slot) = self.returning.front() {
            if !end.command(FlowCommand::Give(slot)) {
                return;
            }
            self.commands += 1;
            self.taken -= 1;
            self.returning.pop_front();
        }
        while let Some(&slot) = self.leaving.front() {
            if !end.command(FlowCommand::Forget(self.links[slot.0 as usize].id)) {
                return;
            }
            self.commands += 1;
            self.leaving.pop_front();
            self.forgotten.push_back((self.commands, slot));
        }
    }

    fn scan(&mut self) {
        let Some(newest) = self.newest else {
            return;
        };
        let end = self.links.len().min(self.scanned + SCAN);
        for slot in self.scanned..end {
            let link = &self.links[slot];
            let idle_epochs = newest.0.saturating_sub(link.last.0);
            if link.state == State::Held && idle_epochs > self.upkeep.idle_epochs {
                self.leave(slot, State::Idle);
            }
        }
        self.scanned = end;
    }

    /// Resets all slots, because the directory has forgotten all flows; the worker must forget them, too.
    pub fn start_anew(&mut self) {
        self.leaving.clear();
        let mut is_commanded = vec![false; self.links.len()];
        for (_, slot) in &self.forgotten {
            is_commanded[slot.0 as usize] = true;
        }
        let links = (0..).map(Slot).zip(&mut self.links);
        for ((slot, link), is_commanded) in links.zip(is_commanded) {
            if link.state == State::Vacant {
                continue;
            }
            link.flow = FlowNumber::NONE;
            if !is_commanded {
                link.state = State::Idle;
                self.leaving.push_back(slot);
            }
        }
        let vacant = self.links.iter().filter(|link| link.state == State::Vacant);
        self.taken = self.links.len() - vacant.count() + self.returning.len();
    }

    /// Releases the slots of all flows, because the worker has left the generation.
    pub fn end(self, flows: &mut Directory) {
        for link in self.links {
            if link.state != State::Vacant {
                flows.unlink(link.flow, link.state);
            }
        }
    }

    /// Number of slots.
    pub fn slots(&self) -> usize {
        self.links.len()
    }
}

/// Least packets of a flow in an epoch for it to be among those with the longest delays.
const PACKETS_FOR_DELAY: u64 = 10;

/// Which flows get series of their own.
#[derive(Debug, Clone, Default)]
pub(crate) struct TopSettings {
    /// Most flows with series of their own.
    pub flows_max: usize,
    /// Epochs for which a flow keeps its series at least.
    pub hold_epochs: u64,
    /// Flows with priority.
    pub pinned: Vec<FlowRule>,
}

labelled_enum! {
    /// Why a flow has series of its own.
    pub(crate) enum Reason {
        /// A rule selects it.
        Pinned = "pinned",
        /// It had many packets.
        Packets = "packets",
        /// Its packets had long delays.
        Delay = "delay",
    }
}

/// A flow with series of its own.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    /// Why it has series.
    pub reason: Reason,
    /// The first epoch credited to it.
    pub since: Epoch,
    /// Its credits.
    pub credited: FlowSums,
    /// Its delays in the last credited epoch, which may not have closed yet, as far as histograms were kept.
    delays: (Epoch, SmallHistogram),
    /// Percentiles in its last closed epoch; `None` if some of its packets were in no histogram.
    pub quantiles: Option<FlowQuantiles>,
    /// Its index in the directory, when it last had packets.
    number: FlowNumber,
    /// Its figures over time.
    pub history: History,
    /// The flow as it was at the end of its last epoch.
    pub flow: Flow,
}

impl Held {
    /// Ends an epoch that contains `flow`, at this index.
    fn close(&mut self, flow: &Flow, number: FlowNumber) {
        self.flow = flow.clone();
        self.number = number;
        self.quantiles = self.closed_quantiles();
    }

    fn closed_quantiles(&self) -> Option<FlowQuantiles> {
        let (epoch, delays) = &self.delays;
        let is_whole = *epoch == self.flow.last && delays.count() == self.flow.recent.packets;
        let ns = |q| Some(delays.quantile_ns(q).filter(|_| is_whole)? as f64);
        Some(FlowQuantiles {
            p50_ns: ns(0.5)?,
            p90_ns: ns(0.9)?,
            p99_ns: ns(0.99)?,
            max_ns: Some(ns(1.0)?),
        })
    }
}

/// Credits of a segment's packets.
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
    /// The indices of these flows in the directory. A flow that took over an index since the last epoch closed may be
    /// mistaken for one of these.
    named: HashSet<FlowNumber>,
    /// By segment.
    accounts: HashMap<u32, Account>,
    folded: u64,
}

impl Top {
    /// Credits a shard's counts of a flow on a segment.
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

    /// These flows, by packets in their last epochs, descending.
    pub fn iter(&self) -> impl Iterator<Item = &Held> {
        let mut held: Vec<&Held> = self.held.values().collect();
        held.sort_unstable_by_key(|held| {
            let packets = std::cmp::Reverse(held.flow.recent.packets);
            (packets, held.flow.key, held.flow.segment)
        });
        held.into_iter()
    }

    /// Percentiles of a flow on a segment; `None` also if it has no series of its own.
    pub fn quantiles(&self, key: FlowKey, segment: u32) -> Option<FlowQuantiles> {
        self.held.get(&(key, segment))?.quantiles
    }

    /// By segment: credits of flows without series of their own.
    pub fn other(&self) -> impl Iterator<Item = (u32, FlowSums)> {
        let accounts = self.accounts.iter();
        accounts.map(|(&segment, account)| (segment, account.all.less(&account.named)))
    }

    /// Number of times that a flow with packets in an epoch had no series.
    pub fn folded(&self) -> u64 {
        self.folded
    }

    /// Forgets segments that are no longer measured.
    pub fn forget_segments(&mut self, is_known: impl Fn(u32) -> bool) {
        self.accounts.retain(|&segment, _| is_known(segment));
        self.held.retain(|&(_, segment), _| is_known(segment));
    }

    /// Ends an epoch, and assigns series to flows.
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
            let mut wanted = wanted.iter();
            wanted.any(|(number, _)| directory.is_of(*number, key, segment))
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

    /// The flows that should have series: pinned ones, then alternately those with the most packets and
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
        let is_pinned = |number: &FlowNumber| {
            let mut rules = self.settings.pinned.iter();
            rules.any(|rule| rule.selects(&flow(number).key))
        };
        let mut pinned: Vec<FlowNumber> = seen.iter().copied().filter(is_pinned).collect();
        greatest(&mut pinned, most, packets);
        let is_long = |number: &FlowNumber| flow(number).recent.packets >= PACKETS_FOR_DELAY;
        let mut by_delay: Vec<FlowNumber> = seen.iter().copied().filter(is_long).collect();
        greatest(&mut by_delay, most, |number| {
            let flow = flow(number);
            // Whole ticks sort the same, and are totally ordered.
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
    // An estimate over several epochs belongs to none of them.
    let estimate =
        (flow.estimate()).filter(|estimate| (estimate.epoch, estimate.epochs) == (flow.last.0, 1));
    Sample {
        packets: sums.packets,
        lost_packets: sums.lost,
        sum_ns: rate.to_ns(sums.sum_ticks as f64),
        squares_ns2: sums.sum_of_squares_ticks2 as f64 * rate.to_ns(1.0).powi(2),
        max_ns: quantiles.max_ns.unwrap_or_default(),
        p50_ns: quantiles.p50_ns,
        p99_ns: quantiles.p99_ns,
        estimate_ns: estimate.and_then(|estimate| Some((estimate.mean_ns, estimate.bound_ns?))),
    }
}

#[cfg(test)]
mod tests;
