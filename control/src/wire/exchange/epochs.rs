//! The receiver's part: this end's sealed epochs wait for the sender's halves, are reconciled at
//! their turns, paired, and end in one fate each.
//!
//! ```text
//!  own epoch e ---> waits for fragments of e (asked for once), for own e+1 and the lists around
//!                   the turn between them, or for a deadline ---> reconcile, pair, fate, report
//! ```
//!
//! Two epochs wait at most: when a third is sealed the first is done, with what has arrived.

use std::collections::VecDeque;

use measure::cell::Cell;
use measure::codec::{Shape, TooLarge};
use measure::observation::End;
use measure::time::Epoch;
use measure::wire::frame::{EpochFate, Report, Request};
use measure::wire::{
    DecodeJob, SealedWire, SegmentOutcome, SenderLists, flow_cells, pair, reconcile,
};

use super::decoding::{Decoding, EpochFlows};
use super::floors::Floors;
use super::incoming::{Incoming, Slot};
use super::report::report;
use super::settings::Settings;
use super::status::{ExchangeCounters, FloorView, MeasuredEpoch, SegmentStatus};
use super::waiting::{Circumstances, Waiting, fate_of};
use crate::contain::{Point, inject};
use contract::wire::handover::WireControlEnd;

/// Epochs that wait; with the one that the worker fills and an empty one for the next turn that is
/// all there are.
const WAITING: usize = 2;

/// Reports that wait to be sent, at most, as epochs.
const REPORTED: usize = 4;

/// What the rest of the exchange does for epochs.
pub(super) struct Resources<'a> {
    pub end: &'a mut WireControlEnd,
    pub decoding: &'a mut Decoding,
    pub counters: &'a mut ExchangeCounters,
}

/// All epochs of what arrives here.
#[derive(Debug)]
pub(super) struct Epochs {
    pub incoming: Incoming,
    waiting: VecDeque<Waiting>,
    /// The epoch that is to be sealed next; not known after one that a session began in, which may
    /// be of an older session.
    next: Option<Epoch>,
    floors: Floors,
    segments: Vec<SegmentStatus<MeasuredEpoch>>,
    reports: VecDeque<(Epoch, u16, Report)>,
}

impl Epochs {
    pub fn new(settings: &Settings) -> Result<Self, TooLarge> {
        let segments = usize::from(settings.layout.segments);
        Ok(Self {
            incoming: Incoming::new(&settings.layout)?,
            waiting: VecDeque::with_capacity(WAITING),
            next: None,
            floors: Floors::default(),
            segments: vec![SegmentStatus::default(); segments],
            reports: VecDeque::new(),
        })
    }

    pub fn segments(&self) -> &[SegmentStatus<MeasuredEpoch>] {
        &self.segments
    }

    pub fn floor(&self) -> FloorView {
        self.floors.view()
    }

    /// Takes an epoch that this end has sealed.
    pub fn take(
        &mut self,
        sealed: SealedWire,
        around: Circumstances<'_>,
        resources: &mut Resources<'_>,
    ) {
        while self.waiting.len() >= WAITING {
            self.finish(around, resources);
        }
        let SealedWire { epoch, shard } = sealed;
        let before = self.waiting.back();
        let waiting = Waiting {
            epoch,
            shard,
            sealed_ns: around.now.monotonic_ns,
            moved: 0,
            // Otherwise nobody holds the lists against the turn that it began with.
            is_settled: before.is_some_and(|before| before.ended_by() == epoch),
        };
        if let Some(next) = self.next {
            // Nobody had memory for those between.
            self.count(EpochFate::Unmeasured, epoch.0.saturating_sub(next.0));
        }
        self.count(EpochFate::NoMarkers, waiting.shard.marks.turns_missed);
        let marks = &waiting.shard.marks;
        let is_known = !marks.is_partial || marks.turns_missed > 0;
        self.next = is_known.then(|| waiting.ended_by());
        self.incoming.turn(epoch);
        self.waiting.push_back(waiting);
    }

    /// Counts epochs of all segments.
    pub fn count(&mut self, fate: EpochFate, epochs: u64) {
        for segment in &mut self.segments {
            segment.count(fate, epochs);
        }
    }

    /// Finishes what can be.
    pub fn tick(&mut self, around: Circumstances<'_>, resources: &mut Resources<'_>) {
        while self.is_first_ready(around) {
            self.finish(around, resources);
        }
    }

    fn is_first_ready(&self, around: Circumstances<'_>) -> bool {
        let now = around.now.monotonic_ns;
        let quiet_ns = around.quiet_ns();
        let Some(first) = self.waiting.front() else {
            return false;
        };
        let age_ns = now.saturating_sub(first.sealed_ns);
        if age_ns
            >= around
                .settings
                .epoch_ns
                .saturating_mul(2)
                .saturating_add(quiet_ns)
        {
            return true;
        }
        let Some(next) = self.waiting.get(1) else {
            return false;
        };
        let slot = self.incoming.slot(first.epoch);
        let is_whole = slot.is_some_and(Slot::is_complete);
        let is_given_up = slot.and_then(|slot| slot.requested_ns.max(slot.heard_ns));
        let was_asked = slot.is_some_and(|slot| slot.requested_ns.is_some());
        let is_given_up =
            was_asked && is_given_up.is_some_and(|since| now >= since.saturating_add(quiet_ns * 2));
        let is_condemned = first.fate(&around) != EpochFate::Usable;
        let before = next.epoch.0.checked_sub(1).map(Epoch);
        let last = before.and_then(|before| self.incoming.slot(before));
        let after = self.incoming.slot(next.epoch);
        let are_listed = last.is_some_and(|slot| slot.last.is_complete())
            && after.is_some_and(|slot| slot.first.is_complete());
        let listed_ns = after.and_then(|slot| slot.listed_ns).unwrap_or(0);
        let is_late = now >= next.sealed_ns.max(listed_ns).saturating_add(quiet_ns);
        let is_silent = slot.is_none() && is_late;
        (is_whole || is_given_up || is_condemned || is_silent) && (are_listed || is_late)
    }

    /// What is to be asked for now: epoch, segment and request. Each is asked for once.
    pub fn requests(&mut self, around: Circumstances<'_>) -> Vec<(Epoch, u16, Request)> {
        let now = around.now.monotonic_ns;
        let mut requests = Vec::new();
        for waiting in &self.waiting {
            if waiting.fate(&around) != EpochFate::Usable {
                continue;
            }
            let Some(slot) = self.incoming.slot_to_ask(waiting.epoch) else {
                continue;
            };
            let since_ns = slot.heard_ns.unwrap_or(0).max(waiting.sealed_ns);
            if slot.requested_ns.is_some()
                || slot.is_complete()
                || now < since_ns.saturating_add(around.quiet_ns())
            {
                continue;
            }
            slot.requested_ns = Some(now);
            let epoch = waiting.epoch;
            let missing = slot.requests(around.settings.frame_bytes);
            requests.extend(missing.map(|(segment, request)| (epoch, segment, request)));
        }
        requests
    }

    /// The next report to send.
    pub fn next_report(&mut self) -> Option<(Epoch, u16, Report)> {
        self.reports.pop_front()
    }

    /// Ends the first epoch that waits.
    fn finish(&mut self, around: Circumstances<'_>, resources: &mut Resources<'_>) {
        let Some(mut first) = self.waiting.pop_front() else {
            return;
        };
        self.reconcile(&mut first, resources.counters);
        let fate = first.fate(&around);
        let slot = self.incoming.slot(first.epoch);
        let slot = slot.filter(|slot| fate == EpochFate::Usable && slot.heard_ns.is_some());
        let Some(slot) = slot else {
            let fate = match fate {
                EpochFate::Usable => EpochFate::NoFragments,
                fate => fate,
            };
            for segment in 0..self.segments.len() {
                self.end(&first, segment, fate, None);
            }
            return resources.end.give_back(End::Receiver, first.shard);
        };
        inject::point(Point::Pairing);
        let mut halves = slot.halves();
        let segments = first.shard.segments.iter().zip(&mut halves.segments);
        for (index, (own, sender)) in segments.enumerate() {
            // Spread otherwise than here: none of its cells has a counterpart.
            let own = Shape::Lda(own.lda.layout().clone());
            if slot.lda_shape(index) != Some(&own) {
                sender.lda = &[] as &[Option<Cell>];
            }
        }
        let clocks = around.clocks();
        let mut outcomes = pair(&first.shard, &halves, clocks);
        for outcome in &mut outcomes {
            outcome.are_counts_settled = first.is_settled;
        }
        let cells = flow_cells(&first.shard, &halves);
        let is_trusted = self.floors.see(
            (first.epoch, first.sealed_ns),
            first.shard.marks.least_delay_ns,
            &outcomes,
            clocks.error_ns,
            resources.counters,
        );
        let mut is_usable = false;
        for (segment, outcome) in outcomes.iter().enumerate() {
            let fate = if is_trusted {
                fate_of(outcome, first.moved)
            } else {
                EpochFate::Clock
            };
            is_usable |= fate == EpochFate::Usable;
            self.end(&first, segment, fate, Some(outcome));
        }
        if let Some((cells, _)) = cells.filter(|_| is_usable) {
            let flows = first.shard.flows.flows().iter();
            let job = DecodeJob {
                cells,
                flows: flows.filter(|flow| flow.packets > 0).copied().collect(),
                method: around.settings.layout.references.map(|plan| plan.method),
                is_fifo: first.shard.is_fifo(),
                clocks,
                components: around.settings.components,
            };
            let flows = EpochFlows {
                epoch: first.epoch,
                other_packets: first.shard.flows.other_packets(),
                job,
            };
            resources.counters.decodes_skipped += u64::from(!resources.decoding.give(flows));
        }
        resources.end.give_back(End::Receiver, first.shard);
    }

    /// Moves packets around the turn that ended an epoch.
    fn reconcile(&mut self, first: &mut Waiting, counters: &mut ExchangeCounters) {
        let ended_by = first.ended_by();
        let next = self
            .waiting
            .front_mut()
            .filter(|next| next.epoch == ended_by);
        let Some(next) = next else {
            first.is_settled = false;
            return;
        };
        let before = ended_by.0.checked_sub(1).map(Epoch);
        let last = before.and_then(|before| self.incoming.slot(before));
        let after = self.incoming.slot(ended_by);
        let last = last.map(|slot| slot.last.trailing()).unwrap_or_default();
        let after = after.map(|slot| slot.first.leading()).unwrap_or_default();
        let lists = SenderLists {
            last: &last,
            first: &after,
        };
        let reconciled = reconcile(&mut first.shard, &mut next.shard, lists);
        if !first.is_turn_settled(next, &reconciled) {
            first.is_settled = false;
            next.is_settled = false;
        }
        let moved = reconciled.to_earlier + reconciled.to_later;
        first.moved += moved;
        next.moved += moved;
        counters.moved_to_earlier += reconciled.to_earlier;
        counters.moved_to_later += reconciled.to_later;
        counters.unexplained += reconciled.unexplained;
    }

    /// One segment's epoch has come to its end.
    fn end(
        &mut self,
        waiting: &Waiting,
        segment: usize,
        fate: EpochFate,
        outcome: Option<&SegmentOutcome>,
    ) {
        let measured = MeasuredEpoch {
            epoch: waiting.epoch.0,
            fate,
            moved: waiting.moved,
            outcome: outcome.copied(),
        };
        let is_counted = !matches!(fate, EpochFate::Clock | EpochFate::NoFragments);
        let counts = outcome.filter(|_| is_counted).and_then(|outcome| {
            let tally = outcome.tally;
            Some((tally.sent, tally.received, outcome.lost()?))
        });
        if let Some(status) = self.segments.get_mut(segment) {
            status.add(fate, counts, measured);
        }
        if self.reports.len() >= REPORTED * self.segments.len() {
            self.reports.pop_front();
        }
        let segment = u16::try_from(segment).unwrap_or(u16::MAX);
        self.reports
            .push_back((waiting.epoch, segment, report(&measured)));
    }

    /// Forgets everything but what was counted; what waits is lost.
    pub fn start_anew(&mut self, settings: &Settings) {
        // It could be made at first, with the same settings.
        if let Ok(new) = Self::new(settings) {
            let segments = std::mem::replace(self, new).segments;
            self.segments = segments;
        }
    }

    /// The session is over: what waits ends as it is.
    pub fn reset(&mut self, around: Circumstances<'_>, resources: &mut Resources<'_>) {
        while !self.waiting.is_empty() {
            self.finish(around, resources);
        }
        self.incoming.reset();
        self.floors.reset();
        self.reports.clear();
        self.next = None;
    }
}
