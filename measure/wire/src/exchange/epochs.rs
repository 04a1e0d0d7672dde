//! The receiver's part: this end's sealed epochs wait for the sender's halves, are reconciled at their
//! rollovers, paired, and end with one outcome each.
//!
//! ```text
//!  own epoch e ---> waits for fragments of e (asked for once), for own e+1 and the lists around
//!                   the rollover between them, or for a deadline ---> reconcile, pair, fate, report
//! ```
//!
//! At most two epochs wait: when a third is sealed, the first is finished with what has arrived.

use std::collections::VecDeque;

use super::incoming::{Incoming, Slot};
use super::status::{ExchangeCounters, MeasuredEpoch, SegmentStatus, is_counted, report};
use super::{Moment, Outbox, Settings};
use crate::codec::Shape;
use crate::floor::{FloorView, Floors};
use crate::frame::{ClockState, EpochFate, Floor, Mismatch, Report, Request};
use crate::{
    ClockBound, DecodeJob, OffsetWatch, Reconciled, SealedWire, SegmentOutcome, SenderLists, Span,
    WireShard, flow_cells, pair, reconcile,
};
use measure::lds::DelayCells;
use measure::observation::End;
use measure::time::Epoch;

/// Most waiting epochs. The other two shards are the one that the worker fills and an empty one for the
/// next rollover.
const WAITING: usize = 2;

/// Most reports queued for sending, in epochs.
const REPORTED: usize = 4;

/// Conditions under which an epoch is judged.
#[derive(Clone, Copy)]
pub(super) struct Circumstances<'a> {
    pub settings: &'a Settings,
    pub now: Moment,
    /// Error that the other end's clock claims.
    pub peer_error_ns: u32,
    pub mismatch: Option<Mismatch>,
}

impl Circumstances<'_> {
    /// Time without arrivals after which missing parts count as lost.
    pub fn quiet_ns(&self) -> u64 {
        (self.settings.epoch_ns / 8).max(20_000_000)
    }

    /// Converts a moment of the monotonic clock, not later than now, to seconds since 1970 (UTC).
    pub fn unix_s(&self, monotonic_ns: u64) -> f64 {
        let ago_ns = self.now.monotonic_ns.saturating_sub(monotonic_ns);
        let tai_ns = self.now.tai_ns.saturating_sub(ago_ns);
        tai_ns as f64 / 1e9 - f64::from(self.now.clock.tai_utc_s)
    }

    pub fn clocks(&self) -> ClockBound {
        ClockBound {
            error_ns: f64::from(self.now.clock.error_ns) + f64::from(self.peer_error_ns),
            resolution_ns: self.settings.resolution_ns,
        }
    }
}

/// A waiting epoch.
#[derive(Debug)]
struct Waiting {
    pub epoch: Epoch,
    pub shard: Box<WireShard>,
    pub sealed_ns: u64,
    pub moved: u64,
    /// Whether its least delay was sent a second time.
    pub is_told_again: bool,
    /// Whether its packets are counted in the epoch in which they were sent, as far as this end knows.
    pub is_settled: bool,
}

impl Waiting {
    /// Whether every packet around the rollover from this epoch to `next` is counted in the right one.
    /// Lists cannot distinguish identical packets; those are assumed right if there is no sign that packets
    /// overtook each other, or that the marker was late.
    pub fn is_rollover_settled(&self, next: &Self, reconciled: &Reconciled) -> bool {
        let shows_order = reconciled.to_earlier + reconciled.to_later == 0
            && next.shard.marks.late_marker_packets == 0
            && self.shard.is_fifo()
            && next.shard.is_fifo();
        reconciled.is_proven && (shows_order || !reconciled.has_alike)
    }

    /// The epoch that began at its end.
    pub fn ended_by(&self) -> Epoch {
        let epochs = self.shard.marks.turns_missed.saturating_add(1);
        Epoch(self.epoch.0.saturating_add(epochs))
    }

    /// Its outcome by what is known before its halves are paired; [`EpochFate::Usable`] if there is no
    /// objection.
    pub fn fate(&self, around: &Circumstances<'_>) -> EpochFate {
        let marks = &self.shard.marks;
        let is_free = around.now.clock.state == ClockState::Free;
        match around.mismatch {
            Some(Mismatch::FreeClock | Mismatch::TaiOffset | Mismatch::PtpDomain) => {
                EpochFate::Clock
            }
            Some(_) => EpochFate::Mismatch,
            None if is_free || marks.is_clock_set => EpochFate::Clock,
            None if marks.is_link_lost => EpochFate::Link,
            None if marks.turns_missed > 0 => EpochFate::NoMarkers,
            None if marks.is_partial => EpochFate::Partial,
            None => EpochFate::Usable,
        }
    }
}

/// The outcome of a segment's epoch according to its cells.
fn fate_of(outcome: &SegmentOutcome, moved: u64) -> EpochFate {
    let tally = outcome.tally;
    let is_bounded = outcome
        .chosen
        .is_some_and(|chosen| chosen.bound_ns.is_some());
    if !outcome.is_sent_known && outcome.cells.missing == outcome.cells.cells {
        EpochFate::NoFragments
    } else if outcome.is_sent_known && tally.sent == 0 && tally.received == 0 {
        EpochFate::Idle
    } else if tally.received == 0 || is_bounded {
        EpochFate::Usable
    } else if moved > 0 && outcome.lost().is_some_and(|lost| lost == 0) {
        EpochFate::Reordered
    } else {
        EpochFate::TooFewCells
    }
}

/// An epoch's flows, ready for decoding.
#[derive(Debug)]
pub struct EpochFlows {
    /// The sender's epoch.
    pub epoch: Epoch,
    /// When it ended, in seconds since 1970 (UTC), to within some milliseconds.
    pub ended_unix_s: f64,
    /// Packets of flows without a slot.
    pub other_packets: u64,
    /// The job that decodes them.
    pub job: DecodeJob,
}

impl EpochFlows {
    fn new(of: &Waiting, cells: DelayCells, around: &Circumstances<'_>) -> Self {
        let settings = around.settings;
        let flows = &of.shard.flows;
        let counted = flows.flows().iter().filter(|flow| flow.packets > 0);
        let named = flows.flows().iter().zip(flows.delays());
        let named = named.filter(|(flow, _)| flow.packets > 0);
        Self {
            epoch: of.epoch,
            ended_unix_s: around.unix_s(of.sealed_ns),
            other_packets: flows.other_packets(),
            job: DecodeJob {
                cells,
                flows: counted.copied().collect(),
                delays: named.map(|(_, delays)| delays.clone()).collect(),
                method: settings.layout.references.map(|plan| plan.method),
                is_fifo: of.shard.is_fifo(),
                clocks: around.clocks(),
                components: settings.components,
            },
        }
    }
}

/// All epochs of arriving packets.
#[derive(Debug)]
pub(super) struct Epochs {
    pub incoming: Incoming,
    waiting: VecDeque<Waiting>,
    /// The epoch to seal next. Unknown after an epoch in which a session began, which may be of an older
    /// session.
    next: Option<Epoch>,
    floors: Floors,
    pub offset: OffsetWatch,
    segments: Vec<SegmentStatus<MeasuredEpoch>>,
    /// Requests to send, once each.
    pub requests: VecDeque<(Epoch, u16, Request)>,
    /// Reports to send.
    pub reports: VecDeque<(Epoch, u16, Report)>,
    /// Least delays to send, twice each.
    pub least: VecDeque<(Epoch, Floor)>,
}

impl Epochs {
    pub fn new(settings: &Settings) -> Self {
        let segments = usize::from(settings.layout.segments);
        Self {
            incoming: Incoming::new(&settings.layout),
            waiting: VecDeque::with_capacity(WAITING),
            next: None,
            floors: Floors::default(),
            offset: OffsetWatch::new(settings.delay_min_ns.into()),
            segments: vec![SegmentStatus::default(); segments],
            requests: VecDeque::new(),
            reports: VecDeque::new(),
            least: VecDeque::new(),
        }
    }

    pub fn segments(&self) -> &[SegmentStatus<MeasuredEpoch>] {
        &self.segments
    }

    pub fn floor(&self) -> FloorView {
        self.floors.view()
    }

    /// Takes an epoch that this end has sealed.
    pub fn take(&mut self, sealed: SealedWire, around: Circumstances<'_>, outbox: &mut Outbox) {
        while self.waiting.len() >= WAITING {
            self.finish(around, outbox);
        }
        let SealedWire { epoch, shard } = sealed;
        let before = self.waiting.back();
        let waiting = Waiting {
            epoch,
            shard,
            sealed_ns: around.now.monotonic_ns,
            moved: 0,
            is_told_again: false,
            // Otherwise the rollover at its beginning is not reconciled.
            is_settled: before.is_some_and(|before| before.ended_by() == epoch),
        };
        if let Some(next) = self.next {
            // There was no empty shard for the epochs between.
            self.count(EpochFate::Unmeasured, epoch.0.saturating_sub(next.0));
        }
        self.count(EpochFate::NoMarkers, waiting.shard.marks.turns_missed);
        let marks = &waiting.shard.marks;
        let is_known = !marks.is_partial || marks.turns_missed > 0;
        self.next = is_known.then(|| waiting.ended_by());
        self.incoming.rollover(epoch);
        tell_floor(&mut self.least, &waiting);
        self.waiting.push_back(waiting);
    }

    /// Counts epochs of all segments.
    pub fn count(&mut self, fate: EpochFate, epochs: u64) {
        for segment in &mut self.segments {
            segment.count(fate, epochs);
        }
    }

    /// Finishes epochs that are ready.
    pub fn tick(&mut self, around: Circumstances<'_>, outbox: &mut Outbox) {
        let (now_ns, quiet_ns) = (around.now.monotonic_ns, around.quiet_ns());
        for waiting in &mut self.waiting {
            // The first copy may have been lost.
            let is_due = now_ns >= waiting.sealed_ns.saturating_add(quiet_ns);
            if is_due && !std::mem::replace(&mut waiting.is_told_again, true) {
                tell_floor(&mut self.least, waiting);
            }
        }
        while self.is_first_ready(around) {
            self.finish(around, outbox);
        }
    }

    /// Whether nothing more is expected.
    fn is_first_ready(&self, around: Circumstances<'_>) -> bool {
        let Some(first) = self.waiting.front() else {
            return false;
        };
        let now = around.now.monotonic_ns;
        let quiet_ns = around.quiet_ns();
        let deadline_ns = around.settings.epoch_ns.saturating_mul(2);
        let age_ns = now.saturating_sub(first.sealed_ns);
        if age_ns >= deadline_ns.saturating_add(quiet_ns) {
            return true;
        }
        let Some(next) = self.waiting.get(1) else {
            return false;
        };
        let after = self.incoming.slot(next.epoch);
        let listed_ns = after.and_then(|slot| slot.listed_ns).unwrap_or(0);
        let is_late = now >= next.sealed_ns.max(listed_ns).saturating_add(quiet_ns);
        let last = previous(next.epoch).and_then(|before| self.incoming.slot(before));
        let are_listed = last.is_some_and(|slot| slot.last.is_complete())
            && after.is_some_and(|slot| slot.first.is_complete());
        (are_listed || is_late)
            && (first.fate(&around) != EpochFate::Usable
                || match self.incoming.slot(first.epoch) {
                    Some(slot) => slot.is_complete() || slot.is_given_up(now, quiet_ns * 2),
                    None => is_late,
                })
    }

    /// Requests missing parts, if due.
    pub fn request(&mut self, around: Circumstances<'_>) {
        let now = around.now.monotonic_ns;
        // Requests that were not sent are outdated.
        self.requests.clear();
        for waiting in &self.waiting {
            if waiting.fate(&around) != EpochFate::Usable {
                continue;
            }
            let Some(slot) = self.incoming.open(waiting.epoch) else {
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
            let missing = slot.requests(around.settings.frames.bytes_max);
            self.requests
                .extend(missing.map(|(segment, request)| (epoch, segment, request)));
        }
    }

    /// Ends the first waiting epoch.
    fn finish(&mut self, around: Circumstances<'_>, outbox: &mut Outbox) {
        let Some(mut first) = self.waiting.pop_front() else {
            return;
        };
        self.reconcile(&mut first, &mut outbox.counters);
        let slot = self.incoming.slot(first.epoch);
        match (
            first.fate(&around),
            slot.filter(|slot| slot.heard_ns.is_some()),
        ) {
            (EpochFate::Usable, Some(slot)) => {
                let paired = Paired::new(&first, slot, around.clocks());
                self.end_paired(&first, paired, around, outbox);
            }
            (EpochFate::Usable, None) => self.end_unpaired(&first, EpochFate::NoFragments),
            (fate, _) => self.end_unpaired(&first, fate),
        }
        outbox.shards.push_back((End::Receiver, first.shard));
    }

    fn end_unpaired(&mut self, first: &Waiting, fate: EpochFate) {
        for segment in 0..self.segments.len() {
            self.end(first, segment, fate, None);
        }
    }

    /// Judges every segment by its figures; flows are decoded if one is usable.
    fn end_paired(
        &mut self,
        first: &Waiting,
        paired: Paired,
        around: Circumstances<'_>,
        outbox: &mut Outbox,
    ) {
        let Paired { outcomes, cells } = paired;
        let clocks = around.clocks();
        let is_steady = self.floors.see(
            (first.epoch, first.sealed_ns),
            first.shard.marks.least_delay_ns,
            &outcomes,
            clocks.error_ns,
            &mut outbox.counters.clock_steps,
        );
        let span = Span::until(first.sealed_ns, around.settings.epoch_ns);
        let least_delay_ns = first.shard.marks.least_delay_ns;
        let is_possible = (self.offset).see(span, least_delay_ns, &outcomes, clocks.error_ns);
        outbox.counters.clock_contradictions += u64::from(!is_possible);
        let is_trusted = is_steady && is_possible;
        let mut is_usable = false;
        for (segment, outcome) in outcomes.iter().enumerate() {
            let chosen = outcome.chosen.map(|chosen| chosen.mean_ns);
            let fate = match fate_of(outcome, first.moved) {
                EpochFate::Idle => EpochFate::Idle,
                _ if !is_trusted => EpochFate::Clock,
                EpochFate::Usable if !chosen.is_none_or(|mean| self.offset.is_possible(mean)) => {
                    EpochFate::Clock
                }
                fate => fate,
            };
            is_usable |= fate == EpochFate::Usable;
            self.end(first, segment, fate, Some(outcome));
        }
        if let Some(cells) = cells.filter(|_| is_usable) {
            let flows = EpochFlows::new(first, cells, &around);
            outbox.flows.push_back(flows);
        }
    }

    /// Moves packets around the rollover at the end of an epoch.
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
        let last = previous(ended_by).and_then(|before| self.incoming.slot(before));
        let after = self.incoming.slot(ended_by);
        let last = last.map(|slot| slot.last.trailing()).unwrap_or_default();
        let after = after.map(|slot| slot.first.leading()).unwrap_or_default();
        let lists = SenderLists {
            last: &last,
            first: &after,
        };
        let reconciled = reconcile(&mut first.shard, &mut next.shard, lists);
        if !first.is_rollover_settled(next, &reconciled) {
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

    /// Ends one segment's epoch.
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
        let counts = outcome.filter(|_| is_counted(fate)).and_then(|outcome| {
            let tally = outcome.tally;
            Some((tally.sent, tally.received, outcome.lost()?))
        });
        if let Some(status) = self.segments.get_mut(segment) {
            status.add(fate, counts, measured);
        }
        if self.reports.len() >= REPORTED * self.segments.len() {
            self.reports.pop_front();
        }
        if let Ok(segment) = u16::try_from(segment) {
            self.reports
                .push_back((waiting.epoch, segment, report(&measured)));
        }
    }

    /// Forgets everything but the counts; waiting epochs are lost.
    pub fn start_anew(&mut self, settings: &Settings) {
        self.segments = std::mem::replace(self, Self::new(settings)).segments;
    }

    /// Ends waiting epochs as they are, because the session is over.
    pub fn reset(&mut self, around: Circumstances<'_>, outbox: &mut Outbox) {
        while !self.waiting.is_empty() {
            self.finish(around, outbox);
        }
        self.incoming.reset();
        self.floors.reset();
        self.offset.reset();
        self.requests.clear();
        self.reports.clear();
        self.least.clear();
        self.next = None;
    }
}

/// Queues the least delay of an epoch for the other end, which judges its own epochs by it.
fn tell_floor(queue: &mut VecDeque<(Epoch, Floor)>, waiting: &Waiting) {
    let marks = &waiting.shard.marks;
    // Meaningless if the clock was set in between.
    let known = marks.least_delay_ns.filter(|_| !marks.is_clock_set);
    if let Some(least_delay_ns) = known {
        if queue.len() >= REPORTED {
            queue.pop_front();
        }
        queue.push_back((waiting.epoch, Floor { least_delay_ns }));
    }
}

/// Both halves of an epoch, paired.
struct Paired {
    outcomes: Vec<SegmentOutcome>,
    cells: Option<DelayCells>,
}

impl Paired {
    fn new(first: &Waiting, slot: &Slot, clocks: ClockBound) -> Self {
        let shard = &first.shard;
        let mut halves = slot.halves();
        let segments = shard.segments.iter().zip(&mut halves.segments);
        for (index, (own, sender)) in segments.enumerate() {
            // Spread differently than here: none of its cells has a counterpart.
            let own = Shape::Lda(own.lda.layout().clone());
            if slot.lda_shape(index) != Some(&own) {
                sender.lda = &[];
            }
        }
        let mut outcomes = pair(shard, &halves, clocks);
        for outcome in &mut outcomes {
            outcome.are_counts_settled = first.is_settled;
        }
        let cells = flow_cells(shard, &halves).map(|(cells, _)| cells);
        Self { outcomes, cells }
    }
}

fn previous(epoch: Epoch) -> Option<Epoch> {
    epoch.0.checked_sub(1).map(Epoch)
}
