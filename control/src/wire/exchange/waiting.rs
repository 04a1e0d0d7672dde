//! An epoch that waits for the sender's halves, and its fate.

use measure::time::Epoch;
use wire::frame::{ClockState, EpochFate, Mismatch};
use wire::{ClockBound, Reconciled, SegmentOutcome, WireShard};

use super::settings::{ClockView, Moment, Settings};
use records::snapshot::WirePeer;

/// What an epoch is judged by, beside itself.
#[derive(Clone, Copy)]
pub(super) struct Circumstances<'a> {
    pub settings: &'a Settings,
    pub now: Moment,
    pub clock: ClockView,
    pub peer: Option<&'a WirePeer>,
    pub mismatch: Option<Mismatch>,
}

impl Circumstances<'_> {
    /// Without anything new for so long, what is missing was lost.
    pub fn quiet_ns(&self) -> u64 {
        (self.settings.epoch_ns / 8).max(20_000_000)
    }

    /// A moment of the monotonic clock, not later than now, in seconds since 1970 (UTC).
    pub fn unix_s(&self, monotonic_ns: u64) -> f64 {
        let ago_ns = self.now.monotonic_ns.saturating_sub(monotonic_ns);
        let tai_ns = self.now.tai_ns.saturating_sub(ago_ns);
        tai_ns as f64 / 1e9 - f64::from(self.clock.tai_utc_s)
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
    /// Its least delay was sent a second time.
    pub is_told_again: bool,
    /// Its packets are counted in the epoch that they were sent in, as far as this end knows.
    pub is_settled: bool,
}

impl Waiting {
    /// Whether every packet around the rollover from this epoch to `next` is counted where it belongs.
    /// Lists cannot tell packets that are alike apart; those are where they belong if nothing shows that
    /// any packet overtook another, or that the marker came late.
    pub fn is_rollover_settled(&self, next: &Self, reconciled: &Reconciled) -> bool {
        let shows_order = reconciled.to_earlier + reconciled.to_later == 0
            && next.shard.marks.late_marker_packets == 0
            && self.shard.is_fifo()
            && next.shard.is_fifo();
        reconciled.is_proven && (shows_order || !reconciled.has_alike)
    }

    /// The epoch whose rollover ended it.
    pub fn ended_by(&self) -> Epoch {
        let epochs = self.shard.marks.turns_missed.saturating_add(1);
        Epoch(self.epoch.0.saturating_add(epochs))
    }

    /// Its fate by what is known before its halves are paired; [`EpochFate::Usable`] where nothing is
    /// against it.
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

/// The fate of a segment's epoch by its cells.
pub(super) fn fate_of(outcome: &SegmentOutcome, moved: u64) -> EpochFate {
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
