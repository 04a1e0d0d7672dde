//! The published state of a wire.

use super::ClockView;
use super::session::Peer;
use crate::floor::FloorView;
use crate::frame::{EpochFate, Header, Mismatch, Report};
use crate::{OffsetBounds, OffsetWatch, SegmentOutcome};
use measure::labelled_enum;

labelled_enum! {
    /// The state of a session.
    pub enum SessionState {
        /// No peer was heard yet, or it does not receive this end's hellos.
        Waiting = "waiting",
        /// The ends do not agree, so there are no figures.
        Mismatch = "mismatch",
        /// Both ends measure.
        Established = "established",
        /// The peer went silent.
        Lost = "lost",
        /// This end receives its own hellos: ports are looped, or two switches share a number.
        Loop = "loop",
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident = $label:literal,)*) => {
        /// Counters of frames and epochs over the life of an exchange.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct ExchangeCounters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl ExchangeCounters {
            /// Every counter with its event's name.
            pub fn events(&self) -> [(&'static str, u64); [$($label),*].len()] {
                [$(($label, self.$name)),*]
            }
        }
    };
}

counters! {
    /// Sessions that began.
    sessions = "session_begun",
    /// Sessions whose peer went silent.
    sessions_lost = "session_lost",
    /// Sessions that continued under new keys.
    renewals = "session_renewed",
    /// Own hellos that returned.
    loops = "loop_seen",
    /// Hellos of another end than the expected one.
    strangers = "wrong_peer_heard",
    /// Authenticated frames that could not be read.
    frames_malformed = "frame_malformed",
    /// Authenticated frames without use: of other sessions, epochs or shapes.
    frames_useless = "frame_useless",
    /// Lists and fragments that were too late to be sent.
    fragments_unsent = "fragment_unsent",
    /// Epochs that were not sent, because they were partial or the clock was set.
    withheld_epochs = "epoch_withheld",
    /// Requests sent.
    requests_sent = "request_sent",
    /// Requests answered.
    requests_answered = "request_answered",
    /// Requests for data that is gone, or was already sent.
    requests_ignored = "request_ignored",
    /// Reports passed to the worker.
    reports_sent = "report_sent",
    /// Reports received.
    reports_heard = "report_heard",
    /// Packets moved to the previous epoch, at rollovers.
    moved_to_earlier = "packet_moved_to_earlier",
    /// Packets moved to the next epoch.
    moved_to_later = "packet_moved_to_later",
    /// Packets in this end's lists but not in the sender's.
    unexplained = "packet_unexplained",
    /// Epochs whose flows were not decoded, because another decoding was in progress, or decoding failed.
    decodes_skipped = "decode_skipped",
    /// Steps of the clocks' offset shown by the floor.
    clock_steps = "clock_step_seen",
    /// Epochs with delays that contradict the clocks' claims.
    clock_contradictions = "clock_contradicted",
    /// Panics after which the exchange restarted.
    restarts = "restarted",
}

/// Whether an epoch with this outcome counts in totals if the counts of both ends are known; counts depend on no
/// clock.
pub(super) fn is_counted(fate: EpochFate) -> bool {
    fate != EpochFate::NoFragments
}

/// One segment in one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct SegmentStatus<E> {
    /// Packets sent in epochs whose counts are known at both ends,
    pub sent: u64,
    /// packets received in them,
    pub received: u64,
    /// and packets lost.
    pub lost: i64,
    /// Epochs by [`EpochFate::ALL`].
    pub fates: [u64; EpochFate::COUNT],
    /// The latest epoch of all.
    pub latest: Option<E>,
    /// The latest usable one.
    pub usable: Option<E>,
}

impl<E> Default for SegmentStatus<E> {
    fn default() -> Self {
        Self {
            sent: 0,
            received: 0,
            lost: 0,
            fates: [0; EpochFate::COUNT],
            latest: None,
            usable: None,
        }
    }
}

impl<E: Clone> SegmentStatus<E> {
    pub(super) fn count(&mut self, fate: EpochFate, epochs: u64) {
        if let Some(count) = self.fates.get_mut(fate as usize) {
            *count = count.saturating_add(epochs);
        }
    }

    pub(super) fn add(&mut self, fate: EpochFate, counts: Option<(u64, u64, i64)>, latest: E) {
        self.count(fate, 1);
        if let Some((sent, received, lost)) = counts {
            self.sent = self.sent.wrapping_add(sent);
            self.received = self.received.wrapping_add(received);
            self.lost = self.lost.wrapping_add(lost);
        }
        if matches!(fate, EpochFate::Usable) {
            self.usable = Some(latest.clone());
        }
        self.latest = Some(latest);
    }
}

/// An epoch of a segment measured here. Unless its outcome is usable, only its counts may be shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredEpoch {
    /// The sender's epoch.
    pub epoch: u64,
    /// Its outcome.
    pub fate: EpochFate,
    /// Packets first counted in a neighbouring epoch.
    pub moved: u64,
    /// Figures from both ends' halves; `None` if they were not paired.
    pub outcome: Option<SegmentOutcome>,
}

/// An epoch of a segment sent by this end, as measured by the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReportedEpoch {
    /// This end's epoch.
    pub epoch: u64,
    /// The other end's report.
    pub report: Report,
}

/// Range of the other end's clock offset, from the least delays of both directions in the latest epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OffsetView {
    /// In nanoseconds.
    pub bounds: OffsetBounds,
    /// The error claimed by both clocks together, in nanoseconds.
    pub error_ns: f64,
}

impl OffsetView {
    /// Whether the bounds contradict the claims.
    pub fn is_contradicted(&self) -> bool {
        self.bounds.contradicts(self.error_ns)
    }
}

/// A wire port.
#[derive(Debug, Clone, PartialEq)]
pub struct WireStatus {
    /// The session.
    pub session: SessionState,
    /// Why the ends do not agree.
    pub mismatch: Option<Mismatch>,
    /// Whether data does not pass, because the port is looped.
    pub is_blocked: bool,
    /// The other end.
    pub peer: Option<Peer>,
    /// This end's clock.
    pub clock: ClockView,
    /// Counts of frames and epochs.
    pub counters: ExchangeCounters,
    /// Arriving segments.
    pub receiving: Vec<SegmentStatus<MeasuredEpoch>>,
    /// Departing segments, as reported by the other end.
    pub sending: Vec<SegmentStatus<ReportedEpoch>>,
    /// The clocks, as shown by arriving references.
    pub floor: FloorView,
    /// Range of the clocks' offset.
    pub offset: OffsetView,
}

/// The report of a measured epoch: figures of usable ones only, counts of all with known ends.
pub(super) fn report(measured: &MeasuredEpoch) -> Report {
    let Some(outcome) = measured.outcome else {
        return Report::unusable(measured.fate);
    };
    let is_usable = measured.fate == EpochFate::Usable;
    let lda = outcome.lda_mean.filter(|_| is_usable);
    // Fields of a report saturate.
    let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    // The counts of one end alone would not add up.
    let counts = outcome.lost().is_some().then_some(outcome.tally);
    Report {
        sent: counts.map_or(0, |counts| counts.sent),
        received: counts.map_or(0, |counts| counts.received),
        lost: outcome.lost().unwrap_or(0),
        moved: narrow(measured.moved),
        mean_ns: lda.map(|lda| lda.mean_ns),
        stddev_ns: outcome.stddev_ns().filter(|_| is_usable),
        bound_ns: lda.and_then(|lda| lda.bound_ns),
        effective_samples: outcome.lda.effective_samples,
        usable_cells: narrow(outcome.cells.usable),
        cells: narrow(outcome.cells.cells),
        chosen: outcome.chosen.filter(|_| is_usable),
        ..Report::unusable(measured.fate)
    }
}

/// Stores the other end's report of an epoch; returns `false` if there is no such segment. An end of an earlier
/// version reports impossible delays as usable.
pub(super) fn note(
    sending: &mut [SegmentStatus<ReportedEpoch>],
    header: &Header,
    report: &Report,
    offset: &mut OffsetWatch,
    knows_floors: bool,
) -> bool {
    let Some(segment) = sending.get_mut(usize::from(header.segment)) else {
        return false;
    };
    let chosen = report.chosen;
    if let Some(bound_ns) = chosen.and_then(|chosen| chosen.bound_ns) {
        let mean_ns = chosen.map_or(f64::INFINITY, |chosen| chosen.mean_ns);
        offset.hear(header.epoch, mean_ns + bound_ns);
    }
    let mut report = *report;
    let is_possible = chosen.is_none_or(|chosen| offset.is_possible(chosen.mean_ns))
        && (knows_floors || !offset.view().is_contradicted());
    if report.fate == EpochFate::Usable && !is_possible {
        report.fate = EpochFate::Clock;
    }
    let counts = is_counted(report.fate).then_some((report.sent, report.received, report.lost));
    let reported = ReportedEpoch {
        epoch: header.epoch.0,
        report,
    };
    segment.add(report.fate, counts, reported);
    true
}
