//! Reassembles the sender's epochs as they arrive: a fixed number at a time, each of the size agreed on by
//! both ends.

use std::ops::Range;

use crate::codec::{Assembler, FragmentView, Shape, SketchShape};
use crate::frame::{HEADER_BYTES, RANGES_MAX, Request, Side, StashView, Stashed, TAG_BYTES};
use crate::{SegmentHalves, SenderHalves, WireLayout};
use measure::cell::Cell;
use measure::observation::End;
use measure::shard::Tally;
use measure::time::Epoch;

/// Epochs that are reassembled at a time: two that wait for each other, and the next.
pub(super) const EPOCHS: usize = 3;

/// One of the sender's lists, as far as it has arrived.
#[derive(Debug)]
pub(super) struct List {
    total: Option<u16>,
    packets: Vec<Option<Stashed>>,
    arrived: usize,
}

impl List {
    fn new(room: u16) -> Self {
        Self {
            total: None,
            packets: vec![None; room.into()],
            arrived: 0,
        }
    }

    /// Adds a part; returns `false` if it is not part of this list.
    fn add(&mut self, part: &StashView<'_>) -> bool {
        let total = usize::from(part.total());
        if total > self.packets.len() || self.total.is_some_and(|known| known != part.total()) {
            return false;
        }
        self.total = Some(part.total());
        let packets = self.packets.iter_mut().skip(part.first().into());
        for (known, packet) in packets.zip(part.packets()) {
            if known.is_none() {
                *known = Some(packet);
                self.arrived += 1;
            }
        }
        true
    }

    pub fn is_complete(&self) -> bool {
        let total = self.total.map(usize::from);
        self.packets.is_empty() || total.is_some_and(|total| self.arrived >= total)
    }

    /// Its packets from the first up to the first gap.
    pub fn leading(&self) -> Vec<Stashed> {
        self.packets.iter().map_while(|packet| *packet).collect()
    }

    /// Its packets from the last gap to the last.
    pub fn trailing(&self) -> Vec<Stashed> {
        let total = self.total.unwrap_or(0).into();
        let list = self.packets.get(..total).unwrap_or_default();
        let known = list.iter().rev().map_while(|packet| *packet);
        let mut known: Vec<Stashed> = known.collect();
        known.reverse();
        known
    }

    fn clear(&mut self) {
        self.total = None;
        self.packets.fill(None);
        self.arrived = 0;
    }
}

/// One epoch.
#[derive(Debug)]
pub(super) struct Slot {
    epoch: Option<Epoch>,
    tallies: Vec<Assembler<Tally>>,
    ldas: Vec<Assembler<Cell>>,
    lds: Option<Assembler<Cell>>,
    /// Its first packets, and its last.
    pub first: List,
    pub last: List,
    /// When a part of its synopses last arrived.
    pub heard_ns: Option<u64>,
    /// When a part of its lists last arrived.
    pub listed_ns: Option<u64>,
    /// When missing parts were requested.
    pub requested_ns: Option<u64>,
}

impl Slot {
    fn new(layout: &WireLayout) -> Self {
        let segments = usize::from(layout.segments);
        let assembler = |shape| Assembler::new(shape, End::Sender);
        let lda = assembler(Shape::Lda(layout.lda.clone()));
        let lds = layout.lds.as_ref();
        Self {
            epoch: None,
            tallies: vec![Assembler::new(Shape::Tally, End::Sender); segments],
            ldas: vec![lda; segments],
            lds: lds.map(|lds| assembler(Shape::Lds(SketchShape::new(lds)))),
            first: List::new(layout.stash_packets),
            last: List::new(layout.stash_packets),
            heard_ns: None,
            listed_ns: None,
            requested_ns: None,
        }
    }

    fn clear(&mut self) {
        self.epoch = None;
        self.tallies.iter_mut().for_each(Assembler::clear);
        self.ldas.iter_mut().for_each(Assembler::clear);
        self.lds.iter_mut().for_each(Assembler::clear);
        self.first.clear();
        self.last.clear();
        self.heard_ns = None;
        self.listed_ns = None;
        self.requested_ns = None;
    }

    /// Adds a fragment; returns `false` if it is useless here.
    fn add(&mut self, segment: u16, fragment: &FragmentView<'_>) -> bool {
        let index = usize::from(segment);
        let added = match fragment.shape() {
            Shape::Tally => self.tallies.get_mut(index).map(|one| one.add(fragment)),
            Shape::Lda(_) => self.ldas.get_mut(index).map(|one| {
                respread(one, fragment.shape());
                one.add(fragment)
            }),
            Shape::Lds(_) if segment == 0 => self.lds.as_mut().map(|one| one.add(fragment)),
            Shape::Lds(_) => None,
        };
        added.flatten().is_some()
    }

    /// Whether missing parts were requested and nothing arrived for this long since.
    pub fn is_given_up(&self, now_ns: u64, quiet_ns: u64) -> bool {
        self.requested_ns.is_some_and(|requested_ns| {
            let since_ns = requested_ns.max(self.heard_ns.unwrap_or(0));
            now_ns >= since_ns.saturating_add(quiet_ns)
        })
    }

    /// Whether all synopses have arrived.
    pub fn is_complete(&self) -> bool {
        self.missing_elements() == 0
    }

    fn missing_elements(&self) -> u64 {
        let tallies = self.tallies.iter().map(Assembler::missing_elements);
        let cells = self.ldas.iter().chain(&self.lds);
        let cells = cells.map(Assembler::missing_elements);
        tallies.chain(cells).map(u64::from).sum()
    }

    /// Requests for missing parts, in frames of this size: segment and request.
    pub fn requests(&self, frame_bytes: usize) -> impl Iterator<Item = (u16, Request)> + '_ {
        let ask = move |shape, missing: &mut dyn Iterator<Item = Range<u32>>| {
            Request::new(shape, joined(missing, frame_bytes))
        };
        let tallies = (0..).zip(&self.tallies);
        let tallies = tallies.map(move |(at, one)| (at, ask(one.shape(), &mut one.missing())));
        let sketch = self.lds.iter().map(|sketch| (0, sketch));
        let cells = (0..).zip(self.ldas.iter()).chain(sketch);
        let cells = cells.map(move |(at, one)| (at, ask(one.shape(), &mut one.missing())));
        tallies
            .chain(cells)
            .filter_map(|(segment, request)| Some((segment, request?)))
    }

    /// The shape of a segment's LDA at the sender.
    pub fn lda_shape(&self, segment: usize) -> Option<&Shape> {
        self.ldas.get(segment).map(Assembler::shape)
    }

    pub fn halves(&self) -> SenderHalves<'_> {
        let segments = self.tallies.iter().zip(&self.ldas);
        SenderHalves {
            segments: segments
                .map(|(tally, lda)| SegmentHalves {
                    tally: tally.elements().first().copied().flatten(),
                    lda: lda.elements(),
                })
                .collect(),
            lds: self.lds.as_ref().map_or(&[], |lds| lds.elements()),
        }
    }
}

/// As many ranges as a frame holds; the last one covers all further ones.
fn joined(missing: impl Iterator<Item = Range<u32>>, frame_bytes: usize) -> Vec<Range<u32>> {
    const FIXED_BYTES: usize = HEADER_BYTES + TAG_BYTES + 2;
    const RANGE_BYTES: usize = 8;
    let most = (frame_bytes.saturating_sub(FIXED_BYTES) / RANGE_BYTES).clamp(1, RANGES_MAX);
    let mut ranges: Vec<Range<u32>> = Vec::with_capacity(most);
    for range in missing {
        let is_full = ranges.len() >= most;
        match ranges.last_mut().filter(|_| is_full) {
            Some(last) => last.end = range.end,
            None => ranges.push(range),
        }
    }
    ranges
}

/// The probabilities of an LDA may change between epochs, its sizes may not: the first fragment decides.
fn respread(assembler: &mut Assembler<Cell>, shape: &Shape) {
    let mine = assembler.shape();
    let is_empty = assembler.missing_elements() == mine.elements();
    if is_empty && mine != shape && mine.same_sizes(shape) {
        *assembler = Assembler::new(shape.clone(), End::Sender);
    }
}

/// The epochs being reassembled.
#[derive(Debug)]
pub(super) struct Incoming {
    slots: Vec<Slot>,
    /// The latest epoch sealed by this end.
    latest: Option<Epoch>,
}

impl Incoming {
    pub fn new(layout: &WireLayout) -> Self {
        Self {
            slots: (0..EPOCHS).map(|_| Slot::new(layout)).collect(),
            latest: None,
        }
    }

    /// Notes that this end has sealed an epoch: much earlier ones are no longer reassembled.
    pub fn rollover(&mut self, epoch: Epoch) {
        self.latest = Some(epoch);
        let expected = self.expected();
        for slot in &mut self.slots {
            if slot.epoch.is_some_and(|epoch| !expected.contains(&epoch.0)) {
                slot.clear();
            }
        }
    }

    /// Epochs that may arrive: at most as many as there are slots, so that none replaces another.
    fn expected(&self) -> Range<u64> {
        self.latest.map_or(0..0, |Epoch(latest)| {
            latest.saturating_sub(1)..latest.saturating_add(2)
        })
    }

    pub fn slot(&self, epoch: Epoch) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.epoch == Some(epoch))
    }

    /// The slot of an epoch; assigns a free one to a new epoch.
    pub fn open(&mut self, epoch: Epoch) -> Option<&mut Slot> {
        if !self.expected().contains(&epoch.0) {
            return None;
        }
        let known = self.slots.iter().position(|slot| slot.epoch == Some(epoch));
        let free = self.slots.iter().position(|slot| slot.epoch.is_none());
        let slot = self.slots.get_mut(known.or(free)?)?;
        slot.epoch = Some(epoch);
        Some(slot)
    }

    /// Takes a fragment; returns `false` if it is useless.
    pub fn fragment(
        &mut self,
        (epoch, segment): (Epoch, u16),
        fragment: &FragmentView<'_>,
        now_ns: u64,
    ) -> bool {
        let Some(slot) = self.open(epoch) else {
            return false;
        };
        let is_added = slot.add(segment, fragment);
        if is_added {
            slot.heard_ns = Some(now_ns);
        }
        is_added
    }

    /// Takes a part of a list around the rollover to `coming`; returns `false` if it is useless.
    pub fn stash(&mut self, coming: Epoch, part: &StashView<'_>, now_ns: u64) -> bool {
        let epoch = match part.side() {
            Side::After => Some(coming),
            Side::Before => coming.0.checked_sub(1).map(Epoch),
        };
        let Some(slot) = epoch.and_then(|epoch| self.open(epoch)) else {
            return false;
        };
        let list = match part.side() {
            Side::After => &mut slot.first,
            Side::Before => &mut slot.last,
        };
        let is_added = list.add(part);
        if is_added {
            slot.listed_ns = Some(now_ns);
        }
        is_added
    }

    /// Clears everything.
    pub fn reset(&mut self) {
        self.latest = None;
        self.slots.iter_mut().for_each(Slot::clear);
    }
}
