//! What is shown of a wire.

use std::sync::Arc;
use std::time::Duration;

use measure::wire::frame::{ClockState, EpochFate, Header, Hello, Mismatch, PortName, Report};
use measure::wire::{Drift, FlowOutcome, SegmentOutcome, Step};

use super::settings::ClockView;

/// How a wire's ends stand to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    /// No peer was heard yet, or it does not hear this end.
    Waiting,
    /// The ends do not agree: no numbers.
    Mismatch,
    /// They measure.
    Established,
    /// The peer went silent.
    Lost,
    /// This end hears itself: ports are looped, or two switches share a number.
    Loop,
}

impl SessionState {
    /// Its name in tables and labels.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Mismatch => "mismatch",
            Self::Established => "established",
            Self::Lost => "lost",
            Self::Loop => "loop",
        }
    }
}

/// What the other end last said of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerView {
    /// Its switch,
    pub switch: u32,
    /// and port,
    pub port: u16,
    /// as it names that.
    pub port_name: PortName,
    /// What its clock follows.
    pub clock: ClockState,
    /// It is off by this much at most.
    pub clock_error_ns: u32,
    /// Offset of TAI from UTC that it reckons with, in seconds.
    pub tai_utc_s: i16,
    /// PTP domain of its clock.
    pub ptp_domain: u8,
}

impl PeerView {
    pub(super) fn new(header: &Header, hello: &Hello) -> Self {
        Self {
            switch: header.switch,
            port: header.port,
            port_name: hello.port_name,
            clock: hello.clock,
            clock_error_ns: hello.clock_error_ns,
            tai_utc_s: hello.tai_utc_s,
            ptp_domain: hello.ptp_domain,
        }
    }
}

/// What happened to frames and epochs, over the life of an exchange.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ExchangeCounters {
    /// Sessions that began.
    pub sessions: u64,
    /// Sessions whose peer went silent.
    pub sessions_lost: u64,
    /// Sessions that went on under new keys.
    pub renewals: u64,
    /// Own hellos that came back.
    pub loops: u64,
    /// Hellos of another end than the one that is expected.
    pub strangers: u64,
    /// Accepted frames that could not be read.
    pub frames_malformed: u64,
    /// Accepted frames that were of no use: other sessions, epochs or shapes.
    pub frames_useless: u64,
    /// Hellos given to the worker.
    pub hellos_sent: u64,
    /// Lists and fragments given to the worker.
    pub bulk_sent: u64,
    /// Lists and fragments that came too late to be sent.
    pub fragments_unsent: u64,
    /// Epochs that were not sent: partial, or the clock was set in them.
    pub withheld_epochs: u64,
    /// Requests sent.
    pub requests_sent: u64,
    /// Requests answered.
    pub requests_answered: u64,
    /// Requests for what is gone, or was sent once more already.
    pub requests_ignored: u64,
    /// Reports given to the worker.
    pub reports_sent: u64,
    /// Reports heard.
    pub reports_heard: u64,
    /// Packets moved to the epoch before, at turns.
    pub moved_to_earlier: u64,
    /// Packets moved to the epoch after.
    pub moved_to_later: u64,
    /// Packets in this end's lists that the sender's did not have.
    pub unexplained: u64,
    /// Epochs whose flows were not decoded, since others still were, or it failed.
    pub decodes_skipped: u64,
    /// Steps of the clocks' offset that the floor showed.
    pub clock_steps: u64,
    /// Faults of this program after which the exchange started anew.
    pub restarts: u64,
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

/// An epoch of a segment, measured here. Unless its fate is usable, nothing but counts is to be
/// shown of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredEpoch {
    /// The sender's epoch.
    pub epoch: u64,
    /// What became of it.
    pub fate: EpochFate,
    /// Packets that were counted in a neighbouring epoch at first.
    pub moved: u64,
    /// What both ends' halves say; `None` where they were not paired.
    pub outcome: Option<SegmentOutcome>,
}

/// An epoch of a segment, as the other end measured what this one sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReportedEpoch {
    /// This end's epoch.
    pub epoch: u64,
    /// What the other end says.
    pub report: Report,
}

/// The flows of the latest epoch that was decoded.
#[derive(Debug, Clone, PartialEq)]
pub struct WireFlowsView {
    /// The sender's epoch.
    pub epoch: u64,
    /// Its flows.
    pub flows: Vec<FlowOutcome>,
    /// Packets of flows that had no place.
    pub other_packets: u64,
    /// How long decoding took.
    pub duration: Duration,
}

/// What the least delays of epochs say of the clocks.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FloorView {
    /// The latest, in nanoseconds.
    pub floor_ns: Option<i64>,
    /// The latest step.
    pub step: Option<Step>,
    /// How the clocks run apart, where that is more than noise.
    pub drift: Option<Drift>,
}

/// A wire port.
#[derive(Debug, Clone, PartialEq)]
pub struct WireStatus {
    /// How its ends stand to each other.
    pub session: SessionState,
    /// Why the ends do not agree.
    pub mismatch: Option<Mismatch>,
    /// Data does not pass: the port is looped.
    pub is_blocked: bool,
    /// The other end.
    pub peer: Option<PeerView>,
    /// This end's clock.
    pub clock: ClockView,
    /// What happened.
    pub counters: ExchangeCounters,
    /// By segment, what arrives here.
    pub receiving: Vec<SegmentStatus<MeasuredEpoch>>,
    /// By segment, what this end sends, as the other one reports it.
    pub sending: Vec<SegmentStatus<ReportedEpoch>>,
    /// The clocks, as what arrives here shows them.
    pub floor: FloorView,
    /// Flows of what arrives here.
    pub flows: Option<Arc<WireFlowsView>>,
}
