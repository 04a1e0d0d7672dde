//! One wire port's part of the control core: it maintains the session, sends this end's sealed epochs,
//! reassembles those of the other end, and estimates from both.
//!
//! ```text
//!             +-- session ---- hellos, answers, silence, loops
//!  heard ---->+-- incoming --- lists, fragments -----+
//!             +-- outgoing <-- requests              v
//!             +-- sending <--- reports    epochs: reconcile, pair, fate --> receiving, reports
//!  sealed --->  own shards ------------------------> ^                  \--> flows to be decoded
//! ```
//!
//! It does no I/O and never blocks: the caller passes in the worker's shards and frames, and takes out frames,
//! orders, used shards and flows to decode. Its memory is bounded: two epochs of each end wait, three of the other
//! end's are reassembled, and what does not fit is counted.

use std::collections::VecDeque;

use crate::frame::{
    Body, FRAME_BYTES_DEFAULT, Frame, Header, Hello, Kind, Message, PortName, SealError, Sealer,
    Subject, VERSION_MINOR,
};
use crate::frame::{ClockState, EpochFate};
use crate::session::{KeyId, KeyRing, Nonce, Nonces, Session as Direction, Sessions};
use crate::{SealedWire, Span, WireLayout, WireShard};
use measure::InvalidArgument;
use measure::lda::LdaLayout;
use measure::lda::adaptive::AdaptiveOptions;
use measure::observation::End;
use measure::packet::HASH_VERSION;
use measure::time::Epoch;

mod adaptation;
mod epochs;
mod incoming;
mod outgoing;
mod session;
mod status;

pub use epochs::EpochFlows;
pub use session::Peer;
pub use status::{
    ExchangeCounters, MeasuredEpoch, OffsetView, ReportedEpoch, SegmentStatus, SessionState,
    WireStatus,
};

use adaptation::Adaptation;
use epochs::{Circumstances, Epochs};
use outgoing::Outgoing;
use session::{Begins, Session};

/// Smaller frames would be mostly headers.
const FRAME_BYTES_MIN: usize = 512;

/// The settings of an exchange.
#[derive(Debug, Clone)]
pub struct Settings {
    /// This end.
    pub own: OwnEnd,
    /// Whether the other end is across routers.
    pub is_routed: bool,
    /// The end that must be at the other side.
    pub expected: Expected,
    /// Lifetime of a session's keys, in nanoseconds.
    pub renew_ns: u64,
    /// Accepted keys.
    pub keys: KeyRing,
    /// The key that frames are sealed with.
    pub key: KeyId,
    /// Layout at both ends.
    pub layout: WireLayout,
    /// How banks of the LDA adapt to losses; if `None`, they stay as in `layout`.
    pub adaptive: Option<AdaptiveOptions>,
    /// [`seed_check`](crate::frame::seed_check) of the deployment's seed.
    pub seed_check: u64,
    /// Length of an epoch.
    pub epoch_ns: u64,
    /// Size and rate of control frames.
    pub frames: FrameSettings,
    /// Epochs without a packet after which a flow is forgotten.
    pub idle_epochs: u64,
    /// K, the components of the prior that flows are decoded with.
    pub components: usize,
    /// Resolution of the switches' stamps in nanoseconds.
    pub resolution_ns: f64,
    /// Least possible delay from one end to the other, in nanoseconds; 0 if unknown.
    pub delay_min_ns: u32,
}

/// This end, as identified in hellos.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnEnd {
    /// The switch's number,
    pub switch: u32,
    /// the port's,
    pub port: u16,
    /// and the port's name.
    pub port_name: PortName,
}

/// Size and rate of control frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameSettings {
    /// Most bytes of a frame, from magic to tag; no more than [`FRAME_BYTES_DEFAULT`].
    pub bytes_max: usize,
    /// Bytes on the link around a frame: headers, preamble, frame check sequence, gap.
    pub overhead_bytes: usize,
    /// Bytes a second on the link that frames may take.
    pub bytes_per_s: u64,
}

/// The configured part of the identity of the other end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Expected {
    /// Its switch.
    pub switch: Option<u32>,
    /// Its name for its port.
    pub port: Option<PortName>,
}

impl Expected {
    fn is_met(&self, header: &Header, hello: &Hello) -> bool {
        let is_switch = self.switch.is_none_or(|switch| switch == header.switch);
        is_switch && self.port.is_none_or(|port| port == hello.port_name)
    }
}

/// This end's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockView {
    /// Its state.
    pub state: ClockState,
    /// The error that it claims.
    pub error_ns: u32,
    /// Its offset of TAI from UTC, in seconds.
    pub tai_utc_s: i16,
    /// Its PTP domain.
    pub ptp_domain: u8,
}

/// Time of a poll, and the clock's quality at that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Nanoseconds of TAI since 1970-01-01.
    pub tai_ns: u64,
    /// Nanoseconds of a clock that never steps.
    pub monotonic_ns: u64,
    /// The clock that TAI is read from.
    pub clock: ClockView,
}

/// Why an exchange cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ExchangeError {
    /// Frames could not be sealed.
    #[error(transparent)]
    Key(#[from] SealError),
    /// Banks cannot adapt to losses.
    #[error(transparent)]
    Adaptive(#[from] InvalidArgument),
    /// An unusable size of frames.
    #[error("control frames of {frame_bytes} bytes are too small or too large; allow 512 to 1,500")]
    Frames {
        /// The size given.
        frame_bytes: usize,
    },
}

impl Settings {
    /// This end's hello.
    fn hello(&self, nonces: Nonces, now: Moment) -> Hello {
        let clock = now.clock;
        Hello {
            hash_version: HASH_VERSION,
            seed_check: self.seed_check,
            epoch_ns: self.epoch_ns,
            nonces,
            clock_error_ns: clock.error_ns,
            tai_utc_s: clock.tai_utc_s,
            clock: clock.state,
            ptp_domain: clock.ptp_domain,
            stash_packets: self.layout.stash_packets,
            port_name: self.own.port_name,
            shapes: self.layout.shapes(),
        }
    }

    /// The sealer of this end's frames.
    fn sealer(&self) -> Result<Sealer, SealError> {
        Sealer::new(self.own.switch, self.own.port, &self.keys, self.key)
    }
}

/// An order of the control core to the worker's part of a wire. Keys and layouts are moved into the order, so that
/// the worker frees no memory.
#[derive(Debug, Clone)]
pub enum Order {
    /// A session begins: send and accept markers and references under it.
    Begin(Sessions),
    /// The session continues: also accept frames of this one.
    Hear(Direction),
    /// The session continues: send in this one.
    Send(Direction),
    /// Accept no more frames of the previous session.
    Forget,
    /// The session is over: only data and hellos.
    End,
    /// Spread departing packets over the LDAs' banks like this from the next rollover on.
    Spread(LdaLayout),
    /// Other keys of the wire. The session continues.
    Keys {
        /// The accepted keys.
        keys: KeyRing,
        /// The key to seal with.
        key: KeyId,
    },
}

/// Output of an exchange, to be taken after each call.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Used shards, to be emptied for the worker.
    pub shards: VecDeque<(End, Box<WireShard>)>,
    /// Flows to decode.
    pub flows: VecDeque<EpochFlows>,
    /// Orders to the worker: few, because one that begins or ends a session replaces the previous ones.
    pub orders: VecDeque<Order>,
    /// Counts of frames and epochs.
    pub counters: ExchangeCounters,
}

impl Outbox {
    /// Adds an order, which replaces all previous orders of sessions, and no others.
    fn order(&mut self, order: Order) {
        self.orders
            .retain(|before| matches!(before, Order::Keys { .. } | Order::Spread(_)));
        self.orders.push_back(order);
    }
}

/// One wire port.
#[derive(Debug)]
pub struct Exchange {
    settings: Settings,
    sealer: Sealer,
    session: Option<Session>,
    outgoing: Outgoing,
    epochs: Epochs,
    sending: Vec<SegmentStatus<ReportedEpoch>>,
    adaptation: Option<Adaptation>,
    /// The LDA of departing epochs, as last sent to the worker.
    lda: LdaLayout,
    /// The clock as it was at the last poll.
    clock: Option<ClockView>,
    /// Output for the caller.
    pub outbox: Outbox,
}

impl Exchange {
    /// An exchange of a port.
    ///
    /// # Errors
    /// [`ExchangeError`] for unusable settings.
    pub fn new(settings: Settings) -> Result<Self, ExchangeError> {
        let frame_bytes = settings.frames.bytes_max;
        if !(FRAME_BYTES_MIN..=FRAME_BYTES_DEFAULT).contains(&frame_bytes) {
            return Err(ExchangeError::Frames { frame_bytes });
        }
        let segments = settings.layout.segments;
        let adaptive = settings.adaptive.clone();
        let adaptation = adaptive.map(|options| Adaptation::new(options, segments));
        Ok(Self {
            sealer: settings.sealer()?,
            session: None,
            outgoing: Outgoing::default(),
            epochs: Epochs::new(&settings),
            sending: vec![SegmentStatus::default(); segments.into()],
            adaptation: adaptation.transpose()?,
            lda: settings.layout.lda.clone(),
            clock: None,
            outbox: Outbox::default(),
            settings,
        })
    }

    /// Begins a poll. `random` returns 64 unpredictable random bits.
    pub fn begin_poll(&mut self, now: Moment, random: &mut impl FnMut() -> u64) {
        self.clock = Some(now.clock);
        let settings = &self.settings;
        self.session
            .get_or_insert_with(|| Session::new(settings, Nonce::from_random(random())));
    }

    /// Takes an epoch that the worker has sealed at an end; without a session it is returned at once.
    pub fn take_sealed(&mut self, end: End, sealed: SealedWire, now: Moment) {
        if !self.is_established() {
            self.outbox.shards.push_back((end, sealed.shard));
            return;
        }
        match end {
            End::Sender => {
                // If the clock was set, the other end cannot say anything about it.
                if !sealed.shard.marks.is_clock_set {
                    let span = Span::until(now.monotonic_ns, self.settings.epoch_ns);
                    self.epochs.offset.depart(sealed.epoch, span);
                }
                self.outgoing.take(sealed, &self.settings, &mut self.outbox);
            }
            End::Receiver => {
                let (around, epochs, outbox) = self.parts(now);
                epochs.take(sealed, around, outbox);
            }
        }
    }

    /// Takes a frame accepted by the worker.
    pub fn hear(&mut self, frame: &[u8], now: Moment, random: &mut impl FnMut() -> u64) {
        let message = Frame::parse(frame).ok();
        let message =
            message.and_then(|frame| Some((frame.header(), Message::parse(&frame).ok()?)));
        let Some((header, message)) = message else {
            self.outbox.counters.frames_malformed += 1;
            return;
        };
        let Some(session) = &mut self.session else {
            return;
        };
        if let Message::Hello(hello) = &message {
            let draw = || Nonce::from_random(random());
            match session.hear(&header, hello, &self.settings, now, draw) {
                Some(Begins::Anew(sessions)) => self.begin(sessions, now),
                Some(Begins::Renewed(sessions)) => self.renew(sessions),
                None => {}
            }
            return;
        }
        let is_useful = session.belongs(&header, now) && self.take(&header, &message, now);
        self.outbox.counters.frames_useless += u64::from(!is_useful);
    }

    /// Takes a frame of the session; returns `false` if it is useless.
    fn take(&mut self, header: &Header, message: &Message<'_>, now: Moment) -> bool {
        let at_ns = now.monotonic_ns;
        let (epoch, segment) = (header.epoch, header.segment);
        let incoming = &mut self.epochs.incoming;
        match message {
            Message::Stash(part) => incoming.stash(epoch, part, at_ns),
            Message::Fragment(part) => incoming.fragment((epoch, segment), part, at_ns),
            Message::Request(request) => {
                let counters = &mut self.outbox.counters;
                (self.outgoing).answer((epoch, segment), request, &self.settings, counters);
                true
            }
            Message::Report(report) => {
                self.outbox.counters.reports_heard += 1;
                let knows_floors = self.has(Kind::Floor);
                let offset = &mut self.epochs.offset;
                let is_known =
                    status::note(&mut self.sending, header, report, offset, knows_floors);
                let adaptation = self.adaptation.as_mut().filter(|_| is_known);
                let lda = adaptation.and_then(|one| one.hear(epoch, report)).cloned();
                if let Some(lda) = lda {
                    self.spread(lda);
                }
                is_known
            }
            Message::Floor(floor) => {
                let least_ns = floor.least_delay_ns as f64;
                self.epochs.offset.hear(epoch, least_ns);
                true
            }
            Message::Hello(_) | Message::Marker(_) | Message::Reference(_) => false,
        }
    }

    /// Does everything due: ends or renews sessions, ends epochs.
    pub fn tick(&mut self, now: Moment, random: &mut impl FnMut() -> u64) {
        self.keep_session(now, random);
        let (around, epochs, outbox) = self.parts(now);
        epochs.tick(around, outbox);
        self.outgoing.refill(now, &self.settings);
        let is_established = self.is_established();
        let (around, epochs, _) = self.parts(now);
        if is_established {
            epochs.request(around);
        }
    }

    /// The published status; `None` before the first poll.
    pub fn status(&self) -> Option<WireStatus> {
        let session = self.session.as_ref()?;
        let counters = self.outbox.counters;
        Some(WireStatus {
            session: session.state(),
            mismatch: session.mismatch(),
            is_blocked: session.is_blocked(),
            peer: session.peer().cloned(),
            clock: self.clock?,
            counters: ExchangeCounters {
                loops: counters.loops + session.loops(),
                strangers: counters.strangers + session.strangers(),
                ..counters
            },
            receiving: self.epochs.segments().to_vec(),
            sending: self.sending.clone(),
            floor: self.epochs.floor(),
            offset: self.epochs.offset.view(),
        })
    }

    /// Whether data must not pass because the port is looped.
    pub fn is_blocked(&self) -> bool {
        self.session.as_ref().is_some_and(Session::is_blocked)
    }

    /// The last arriving epoch that has ended.
    pub fn latest(&self) -> Option<u64> {
        let latest = self.epochs.segments().first()?.latest.as_ref()?;
        Some(latest.epoch)
    }

    /// The LDA of departing epochs, as last announced or next; and the lost packets of an epoch that its first
    /// bank is prepared for, if banks adapt.
    pub fn lda(&self) -> (&LdaLayout, Option<f64>) {
        let adaptation = self.adaptation.as_ref();
        (&self.lda, adaptation.map(Adaptation::prepared_losses))
    }

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    fn is_established(&self) -> bool {
        self.session.as_ref().is_some_and(Session::is_established)
    }

    /// Whether the other end knows frames of this kind.
    fn has(&self, kind: Kind) -> bool {
        self.session.as_ref().is_some_and(|one| one.has(kind))
    }

    /// The conditions for judging epochs, the epochs, and the destination of results.
    fn parts(&mut self, now: Moment) -> (Circumstances<'_>, &mut Epochs, &mut Outbox) {
        let session = self.session.as_ref();
        let peer = session.and_then(Session::peer);
        let around = Circumstances {
            settings: &self.settings,
            now,
            peer_error_ns: peer.map_or(0, |peer| peer.hello.clock_error_ns),
            mismatch: session.and_then(Session::mismatch),
        };
        (around, &mut self.epochs, &mut self.outbox)
    }

    /// Ends or renews the session if due, and forgets the previous one.
    fn keep_session(&mut self, now: Moment, random: &mut impl FnMut() -> u64) {
        let Some(session) = &mut self.session else {
            return;
        };
        let mut draw = || Nonce::from_random(random());
        if session.expire(now, &mut draw) {
            self.outbox.counters.sessions_lost += 1;
            self.reset(now);
            self.sealer.end();
            self.outbox.order(Order::End);
            return;
        }
        session.renew(now, self.settings.renew_ns, draw);
        let orders = &mut self.outbox.orders;
        if let Some(sending) = session.take_sending() {
            self.sealer.begin(sending);
            orders.push_back(Order::Send(sending));
        }
        if session.forget(now) {
            orders.push_back(Order::Forget);
        }
    }

    /// Begins a session: nothing of an old one is valid.
    fn begin(&mut self, sessions: Sessions, now: Moment) {
        self.reset(now);
        self.outbox.counters.sessions += 1;
        self.sealer.begin(sessions.sending);
        self.outbox.order(Order::Begin(sessions));
    }

    /// Continues the session under another name and key. This end sends in it as soon as the other one
    /// receives in it.
    fn renew(&mut self, sessions: Sessions) {
        self.outbox.counters.renewals += 1;
        let orders = &mut self.outbox.orders;
        orders.push_back(Order::Hear(sessions.receiving));
        if self.session.as_ref().is_some_and(Session::is_sending) {
            self.sealer.begin(sessions.sending);
            orders.push_back(Order::Send(sessions.sending));
        }
    }

    /// Changes how departing packets are spread over the LDA's banks from the next rollover on.
    fn spread(&mut self, lda: LdaLayout) {
        let orders = &mut self.outbox.orders;
        orders.retain(|before| !matches!(before, Order::Spread(_)));
        orders.push_back(Order::Spread(lda.clone()));
        self.lda = lda;
    }

    /// Accepts and seals under other keys of the wire from now on. The session continues: both ends need
    /// the old key and the new one while keys are changed at one end after the other.
    ///
    /// # Errors
    /// [`ExchangeError::Key`] if `key` is not in `keys`; nothing is changed then.
    pub fn set_keys(&mut self, keys: KeyRing, key: KeyId) -> Result<(), ExchangeError> {
        self.sealer.set_key(&keys, key)?;
        (self.settings.keys, self.settings.key) = (keys.clone(), key);
        let orders = &mut self.outbox.orders;
        orders.retain(|before| !matches!(before, Order::Keys { .. }));
        orders.push_back(Order::Keys { keys, key });
        Ok(())
    }

    fn reset(&mut self, now: Moment) {
        let (around, epochs, outbox) = self.parts(now);
        epochs.reset(around, outbox);
        self.outgoing.reset(&mut self.outbox);
        self.forget_reports();
    }

    /// After a restart epochs are numbered differently.
    fn forget_reports(&mut self) {
        self.adaptation.iter_mut().for_each(Adaptation::reset);
        for segment in &mut self.sending {
            segment.latest = None;
        }
    }

    /// Restarts as after a restart of the switch, but keeps the counts. For a caller that a panic of this exchange
    /// reached, which may have left everything half changed. `lost` arriving shards are lost with it.
    pub fn start_anew(&mut self, lost: u64) {
        let counters = &mut self.outbox.counters;
        counters.restarts += 1;
        if let Some(session) = self.session.take() {
            counters.loops += session.loops();
            counters.strangers += session.strangers();
        }
        match self.settings.sealer() {
            Ok(sealer) => self.sealer = sealer,
            // It was made with the same settings before.
            Err(_) => self.sealer.end(),
        }
        self.outbox.order(Order::End);
        self.outbox.shards.clear();
        self.outbox.flows.clear();
        self.outgoing = Outgoing::default();
        self.epochs.start_anew(&self.settings);
        self.epochs.count(EpochFate::Unmeasured, lost);
        self.forget_reports();
    }

    /// Writes the next frame that may be sent now to `buffer`: hellos, requests and reports, then as much of the rest
    /// as the link's share allows. Returns the segment to send it with, and its length. The worker has room for
    /// `room` frames.
    pub fn next_frame(
        &mut self,
        now: Moment,
        room: usize,
        buffer: &mut [u8],
    ) -> Option<(u16, usize)> {
        let due = self.session.as_ref().and_then(|session| session.due(now));
        if let Some(nonces) = due {
            let hello = self.settings.hello(nonces, now);
            let sent = self.seal(now, (Epoch(0), VERSION_MINOR), &hello, buffer);
            if let Some(session) = self.session.as_mut().filter(|_| sent.is_some()) {
                session.said(now, nonces);
                return sent;
            }
        }
        if !self.is_established() {
            return None;
        }
        while let Some((epoch, segment, request)) = self.epochs.requests.pop_front() {
            let sent = self.seal(now, (epoch, segment), &request, buffer);
            self.outbox.counters.requests_sent += u64::from(sent.is_some());
            if sent.is_some() {
                return sent;
            }
        }
        while let Some((epoch, floor)) = self.epochs.least.pop_front() {
            let sent = self
                .has(Kind::Floor)
                .then(|| self.seal(now, (epoch, 0), &floor, buffer));
            if let Some(Some(sent)) = sent {
                return Some(sent);
            }
        }
        while let Some((epoch, segment, report)) = self.epochs.reports.pop_front() {
            let sent = self.seal(now, (epoch, segment), &report, buffer);
            self.outbox.counters.reports_sent += u64::from(sent.is_some());
            if sent.is_some() {
                return sent;
            }
        }
        let Self {
            settings,
            sealer,
            outbox,
            ..
        } = self;
        (self.outgoing).next(now, room, settings, sealer, &mut outbox.counters, buffer)
    }

    /// Seals a frame that does not wait; `None` if it cannot be sent.
    fn seal<B: Body>(
        &mut self,
        now: Moment,
        (epoch, segment): (Epoch, u16),
        body: &B,
        buffer: &mut [u8],
    ) -> Option<(u16, usize)> {
        let subject = Subject {
            segment,
            epoch,
            tai_ns: now.tai_ns.cast_signed(),
        };
        let length = self.sealer.seal(subject, body, buffer).ok();
        let overhead_bytes = self.settings.frames.overhead_bytes;
        self.outgoing.spend(length.unwrap_or(0) + overhead_bytes);
        // In a hello it is the minor version, not a class.
        let travels_with = if B::KIND == Kind::Hello { 0 } else { segment };
        Some((travels_with, length?))
    }
}
