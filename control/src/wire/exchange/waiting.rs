//! An epoch that waits for the sender's halves, and what becomes of it.

use measure::time::Epoch;
use measure::wire::frame::{ClockState, EpochFate, Mismatch};
use measure::wire::{ClockBound, Reconciled, SegmentOutcome, WireShard};

use super::settings::{ClockView, Moment, Settings};
use super::status::PeerView;

/// What an epoch is judged by, beside itself.
#[derive(Clone, Copy)]
pub(super) struct Circumstances<'a> {
    pub settings: &'a Settings,
    pub now: Moment,
    pub clock: ClockView,
    pub peer: Option<&'a PeerView>,
    pub mismatch: Option<Mismatch>,
}

impl Circumstances<'_> {
    /// Without anything new for so long, what is missing was lost.
    pub fn quiet_ns(&self) -> u64 {
        (self.settings.epoch_ns / 8).max(20_000_000)
    }

    pub fn clocks(&self) -> ClockBound {
        let peer = self.peer.map_or(0, |peer| peer.clock_error_ns);
        ClockBound {
            error_ns: f64::from(self.clock.error_ns) + f64::from(peer),
            resolution_ns: self.settings.resolution_ns,
        }
    }
}

/// An epoch that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub epoch: Epoch,
    pub shard: Box<WireShard>,
    pub sealed_ns: u64,
    pub moved: u64,
    /// Its packets are counted in the epoch that they were sent in, as far as this end can tell.
    pub is_settled: bool,
}

impl Waiting {
    /// Whether every packet around the turn from this epoch to `next` is counted where it belongs. Of
    /// packets that are alike lists cannot tell; those are where they belong if nothing shows that any
    /// packet overtook another, or that the marker came late.
    pub fn is_turn_settled(&self, next: &Self, reconciled: &Reconciled) -> bool {
        let shows_order = reconciled.to_earlier + reconciled.to_later == 0
            && next.shard.marks.late_marker_packets == 0
            && self.shard.is_fifo()
            && next.shard.is_fifo();
        reconciled.is_proven && (shows_order || !reconciled.has_alike)
    }

    /// The epoch whose turn ended it.
    pub fn ended_by(&self) -> Epoch {
        let epochs = self.shard.marks.turns_missed.saturating_add(1);
        Epoch(self.epoch.0.saturating_add(epochs))
    }

    /// What cannot be said of it whatever arrives; [`EpochFate::Usable`] where nothing is against it.
    pub fn fate(&self, around: &Circumstances<'_>) -> EpochFate {
        let marks = &self.shard.marks;
        let is_free = around.clock.state == ClockState::Free;
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

/// What became of a segment's epoch by what its cells say.
pub(super) fn fate_of(outcome: &SegmentOutcome, moved: u64) -> EpochFate {
    let tally = outcome.tally;
    let is_told = outcome
        .chosen
        .is_some_and(|chosen| chosen.bound_ns.is_some());
    if !outcome.is_sent_known && outcome.cells.missing == outcome.cells.cells {
        EpochFate::NoFragments
    } else if outcome.is_sent_known && tally.sent == 0 && tally.received == 0 {
        EpochFate::Idle
    } else if tally.received == 0 || is_told {
        EpochFate::Usable
    } else if moved > 0 && outcome.lost().is_some_and(|lost| lost == 0) {
        EpochFate::Reordered
    } else {
        EpochFate::TooFewCells
    }
}
