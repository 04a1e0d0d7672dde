//! Which flow each of one worker's slots counts in one generation, and which flows lose their slots.

use std::collections::VecDeque;

use measure::flows::{FlowId, FlowSlots, Slot};
use measure::observation::SegmentIndex;
use measure::packet::FlowHash;
use measure::time::Epoch;

use super::{Directory, FlowNumber, Forgotten};
use contract::handover::{ControlEnd, FlowCommand, NewFlow};

/// Links looked at for idle flows at a time, which takes well under a millisecond.
const SCAN: usize = 65_536;

/// Where only the top flows are kept, one of so many slots is free, or about to be, for new flows. With a
/// share that rises with the number of new flows, every slot would get another flow.
const ROOM: usize = 4;

/// Memory of a link.
pub(super) const LINK_BYTES: usize = size_of::<Link>();

/// A slot and the flow that it counts.
#[derive(Debug, Clone, Copy)]
struct Link {
    id: FlowId,
    segment: SegmentIndex,
    /// The last epoch in which packets were counted, or that of the report.
    last: Epoch,
    flow: FlowNumber,
    /// Recent packets: those of the last epoch, and half of what this was before.
    recent: u32,
    state: State,
}

/// What happens to a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Has no flow, or is free for the worker to give.
    Vacant,
    /// Counts a flow.
    Held,
    /// The flow is to be forgotten: it was idle.
    Idle,
    /// The flow is to be forgotten: it makes room for others.
    Small,
}

impl State {
    /// Why its flow loses the slot.
    fn why(self) -> Forgotten {
        match self {
            Self::Small => Forgotten::Evicted,
            Self::Vacant | Self::Held | Self::Idle => Forgotten::Expired,
        }
    }
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Upkeep {
    /// Epochs without a packet after which a flow is forgotten.
    pub idle_epochs: u64,
    /// Whether the smallest flows make room where slots run out.
    pub keeps_top: bool,
}

/// One worker's slots.
#[derive(Debug)]
pub(crate) struct SlotTable {
    upkeep: Upkeep,
    links: Box<[Link]>,
    /// Slots that the worker cannot give to new flows.
    taken: usize,
    /// The newest epoch that was read.
    newest: Option<Epoch>,
    /// Slots whose flows are to be forgotten, not yet commanded.
    leaving: VecDeque<Slot>,
    /// Slots whose flows the worker was commanded to forget, and by which command.
    forgotten: VecDeque<(u64, Slot)>,
    /// Slots to be given back, not yet commanded.
    returning: VecDeque<Slot>,
    /// Commands so far.
    commands: u64,
    /// Slots whose flows have series of their own.
    named: Vec<Slot>,
    /// The slot at which the search for idle flows continues; at the end of the links it is done.
    scanned: usize,
}

impl SlotTable {
    /// For a worker with `slots` slots.
    pub fn new(slots: usize, upkeep: Upkeep) -> Self {
        Self {
            upkeep,
            links: vec![VACANT; slots].into_boxed_slice(),
            taken: 0,
            newest: None,
            leaving: VecDeque::new(),
            forgotten: VecDeque::new(),
            returning: VecDeque::new(),
            commands: 0,
            named: Vec::new(),
            scanned: slots,
        }
    }

    /// Takes a worker's report at `epoch`; `segment` is the number that the control core gave the
    /// segment.
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

    /// Adds what a sealed shard counted, after the reports that came before it.
    pub fn read(&mut self, flows: &mut Directory, epoch: Epoch, slots: &FlowSlots) {
        self.newest = self.newest.max(Some(epoch));
        self.named.clear();
        for (slot, link) in (0..).map(Slot).zip(&mut self.links) {
            if link.state == State::Vacant {
                continue;
            }
            if flows.top.is_named(link.flow) {
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

    /// The flow that each slot counts for, and the segment, as the worker knows it.
    pub fn flows(&self) -> impl Iterator<Item = (Slot, FlowId, SegmentIndex)> {
        let links = (0..).map(Slot).zip(&self.links);
        let links = links.filter(|(_, link)| link.state != State::Vacant);
        links.map(|(slot, link)| (slot, link.id, link.segment))
    }

    /// Slots whose flows had series of their own when a shard was last read.
    pub fn named(&self) -> impl Iterator<Item = Slot> {
        self.named.iter().copied()
    }

    /// Marks the smallest flows to be forgotten, if slots run out.
    fn make_room(&mut self, epoch: Epoch) {
        let free = self.links.len() - self.taken;
        let coming = self.leaving.len() + self.forgotten.len();
        let wanted = (self.links.len() / ROOM).max(1);
        let missing = wanted.saturating_sub(free + coming);
        if missing == 0 {
            return;
        }
        // One that was reported after this epoch has had no time to show its size.
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

    /// A shard came that was still empty when the worker had taken so many commands: slots
    /// forgotten by then are free of their flows, and go back.
    pub fn settle(&mut self, flows: &mut Directory, commands_before: u64) {
        while let Some(&(command, slot)) = self.forgotten.front()
            && command <= commands_before
        {
            self.forgotten.pop_front();
            let link = &mut self.links[slot.0 as usize];
            flows.unlink(link.flow, link.state.why());
            *link = VACANT;
            self.returning.push_back(slot);
        }
    }

    /// Looks for idle flows, a bounded number at a time, and sends commands as far as there is
    /// room.
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

    /// The directory has forgotten all flows: none counts any more, and all are to be forgotten by the
    /// worker, too.
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

    /// The worker has left the generation: its flows lose their slots.
    pub fn end(self, flows: &mut Directory) {
        for link in self.links {
            if link.state != State::Vacant {
                flows.unlink(link.flow, link.state.why());
            }
        }
    }

    /// Slots.
    pub fn slots(&self) -> usize {
        self.links.len()
    }
}
