//! One wire port's part of the control core: it keeps the session, sends what this end has sealed,
//! puts together what the other one sends, and measures by both.
//!
//! ```text
//!             +-- session ---- hellos, answers, silence, loops
//!  heard ---->+-- incoming --- lists, fragments -----+
//!             +-- outgoing <-- requests              v
//!             +-- sending <--- reports    epochs: reconcile, pair, fate --> receiving, reports
//!  sealed --->  own shards ------------------------> ^                  \--> decoding --> flows
//! ```
//!
//! It is polled every few milliseconds, never waits and never grows: two epochs of each end wait, three
//! of the other end's are put together, and what does not fit is counted.

use std::collections::VecDeque;

use measure::lda::LdaLayout;
use measure::observation::End;
use measure::time::Epoch;
use wire::frame::{Body, ClockState, Frame, Kind, Message, Sealer, Subject, VERSION_MINOR};
use wire::session::{KeyId, KeyRing, Nonce, Sessions};

mod adaptation;
mod causality;
mod decoding;
mod epochs;
mod floors;
mod held;
mod incoming;
mod outgoing;
mod report;
mod restart;
mod seen;
mod session;
mod settings;
mod status;
mod waiting;

pub use seen::SeenFlow;
pub(crate) use settings::clock_label;
pub use settings::{ClockView, ExchangeError, Expected, FrameSettings, Moment, OwnEnd, Settings};
pub use status::{
    ExchangeCounters, FloorView, MeasuredEpoch, OffsetView, ReportedEpoch, SegmentStatus,
    SessionState, WireFlowsView, WireStatus,
};

use adaptation::Adaptation;
use decoding::Decoding;
use epochs::{Epochs, Resources};
use outgoing::Outgoing;
use report::note;
use restart::Restart;
use session::{Begins, Session};
use waiting::Circumstances;

use crate::background::ResultMode;
use crate::contain::{Part, contain};
use contract::wire::handover::{FRAME_ROOM, FRAMES_MAX, FrameBox, Order, WireControlEnd};

/// Smaller frames would be mostly headers.
const FRAME_BYTES_MIN: usize = 512;

/// A frame was taken; sessions may begin with it.
struct Heard {
    begins: Option<Begins>,
}

/// One wire port.
#[derive(Debug)]
pub struct Exchange {
    settings: Settings,
    end: WireControlEnd,
    sealer: Sealer,
    session: Option<Session>,
    /// Orders that the worker has not got yet: few, since one that begins or ends a session replaces
    /// those before it.
    orders: VecDeque<Order>,
    outgoing: Outgoing,
    epochs: Epochs,
    decoding: Decoding,
    sending: Vec<SegmentStatus<ReportedEpoch>>,
    adaptation: Option<Adaptation>,
    /// The LDA of the epochs that leave, as the worker got it last.
    lda: LdaLayout,
    counters: ExchangeCounters,
    /// The clock as it was at the last poll.
    clock: Option<ClockView>,
    restart: Restart,
}

impl Exchange {
    /// An exchange over one end of a handover.
    ///
    /// # Errors
    /// [`ExchangeError`] for settings with which nothing can be exchanged.
    pub fn new(settings: Settings, end: WireControlEnd) -> Result<Self, ExchangeError> {
        let frame_bytes = settings.frames.bytes_max;
        if !(FRAME_BYTES_MIN..=FRAME_ROOM).contains(&frame_bytes) {
            return Err(ExchangeError::Frames { frame_bytes });
        }
        let sealer = Sealer::new(
            settings.own.switch,
            settings.own.port,
            &settings.keys,
            settings.key,
        )?;
        let segments = settings.layout.segments;
        let adaptive = settings.adaptive.clone();
        let adaptation = adaptive.map(|options| Adaptation::new(options, segments));
        Ok(Self {
            sealer,
            session: None,
            orders: VecDeque::new(),
            outgoing: Outgoing::default(),
            epochs: Epochs::new(&settings)?,
            decoding: Decoding::new(&settings, ResultMode::Polled),
            sending: vec![SegmentStatus::default(); segments.into()],
            adaptation: adaptation.transpose()?,
            lda: settings.layout.lda.clone(),
            counters: ExchangeCounters::default(),
            clock: None,
            restart: Restart::default(),
            end,
            settings,
        })
    }

    /// Takes decoded flows as `mode` says; [polled](ResultMode::Polled) unless it is set.
    #[must_use]
    pub(crate) fn decoding(self, mode: ResultMode) -> Self {
        let decoding = Decoding::new(&self.settings, mode);
        Self { decoding, ..self }
    }

    /// Does what is due. `random` gives 64 random bits that cannot be guessed. After a panic the
    /// exchange starts anew.
    pub fn poll(&mut self, now: Moment, clock: &ClockView, random: &mut impl FnMut() -> u64) {
        if self.may_poll(now) && contain(Part::Wire, || self.step(now, *clock, random)).is_none() {
            self.start_anew();
        }
    }

    fn step(&mut self, now: Moment, clock: ClockView, random: &mut impl FnMut() -> u64) {
        self.clock = Some(clock);
        let settings = &self.settings;
        self.session
            .get_or_insert_with(|| Session::new(settings, Nonce::from_random(random())));
        self.take_sealed(now, clock);
        self.end.keep_clock(clock.state == ClockState::Locked);
        // Frames that come in meanwhile wait for the next poll: no flood makes this one endless.
        for _ in 0..FRAMES_MAX {
            let Some(Heard { begins }) = self.hear(now, clock, random) else {
                break;
            };
            match begins {
                Some(Begins::Anew(sessions)) => self.begin(sessions, now, clock),
                Some(Begins::Renewed(sessions)) => self.renew(sessions),
                None => {}
            }
            // A shard is given before the frames that come after its rollover.
            self.take_sealed(now, clock);
        }
        self.keep_session(now, clock, random);
        self.send_orders();
        self.end.block(self.is_blocked());
        let (around, epochs, mut resources) = self.parts(now, clock);
        epochs.tick(around, &mut resources);
        self.send(now, clock);
        self.counters.decodes_skipped += u64::from(!self.decoding.poll());
    }

    /// The last epoch that has ended of what arrives here.
    pub fn latest(&self) -> Option<u64> {
        let latest = self.epochs.segments().first()?.latest.as_ref()?;
        Some(latest.epoch)
    }

    /// What is shown; `None` before the first poll.
    pub fn status(&self) -> Option<WireStatus> {
        let session = self.session.as_ref()?;
        Some(WireStatus {
            session: session.state(),
            mismatch: session.mismatch(),
            is_blocked: session.is_blocked(),
            peer: session.peer().cloned(),
            clock: self.clock?,
            counters: ExchangeCounters {
                loops: self.counters.loops + session.loops(),
                strangers: self.counters.strangers + session.strangers(),
                ..self.counters
            },
            receiving: self.epochs.segments().to_vec(),
            sending: self.sending.clone(),
            floor: self.epochs.floor(),
            offset: self.epochs.causality.view(),
            flows: self.decoding.latest(),
        })
    }

    /// Whether data must not pass: the port is looped.
    pub fn is_blocked(&self) -> bool {
        self.session.as_ref().is_some_and(Session::is_blocked)
    }

    /// Whether the worker has dropped its end: the exchange is over.
    pub fn is_over(&self) -> bool {
        self.end.is_over()
    }

    /// The handover to the worker, with its counters.
    pub fn end(&self) -> &WireControlEnd {
        &self.end
    }

    /// What epochs are judged by, the epochs, and what they use.
    fn parts(
        &mut self,
        now: Moment,
        clock: ClockView,
    ) -> (Circumstances<'_>, &mut Epochs, Resources<'_>) {
        let session = self.session.as_ref();
        let around = Circumstances {
            settings: &self.settings,
            now,
            clock,
            peer: session.and_then(Session::peer),
            mismatch: session.and_then(Session::mismatch),
        };
        let resources = Resources {
            end: &mut self.end,
            decoding: &mut self.decoding,
            counters: &mut self.counters,
        };
        (around, &mut self.epochs, resources)
    }

    /// Takes what the worker has sealed; without a session it goes back at once.
    fn take_sealed(&mut self, now: Moment, clock: ClockView) {
        let has_session = self.session.as_ref().is_some_and(Session::is_established);
        while let Some(sealed) = self.end.take_sealed(End::Sender) {
            if has_session {
                let causality = &mut self.epochs.causality;
                causality.depart(&sealed, now, self.settings.epoch_ns);
                let (end, counters) = (&mut self.end, &mut self.counters);
                self.outgoing.take(sealed, &self.settings, end, counters);
            } else {
                self.end.give_back(End::Sender, sealed.shard, &[]);
            }
        }
        while let Some(sealed) = self.end.take_sealed(End::Receiver) {
            if has_session {
                let (around, epochs, mut resources) = self.parts(now, clock);
                epochs.take(sealed, around, &mut resources);
            } else {
                self.end.give_back(End::Receiver, sealed.shard, &[]);
            }
        }
    }

    /// Takes one frame; `None` when there is no more.
    fn hear(
        &mut self,
        now: Moment,
        clock: ClockView,
        random: &mut impl FnMut() -> u64,
    ) -> Option<Heard> {
        let Self {
            end,
            session,
            settings,
            outgoing,
            epochs,
            sending,
            adaptation,
            counters,
            ..
        } = self;
        let mut spread = None;
        let session = session.as_mut()?;
        let knows_floors = session.has(Kind::Floor);
        let begins = end.next_heard(|boxed: &FrameBox| {
            let Ok(frame) = Frame::parse(boxed.frame()) else {
                counters.frames_malformed += 1;
                return None;
            };
            let header = frame.header();
            let Ok(message) = Message::parse(&frame) else {
                counters.frames_malformed += 1;
                return None;
            };
            if let Message::Hello(hello) = &message {
                let draw = || Nonce::from_random(random());
                return session.hear(&header, hello, settings, (now, clock), draw);
            }
            let at_ns = now.monotonic_ns;
            let subject = (header.epoch, header.segment);
            let is_useful = session.belongs(&header, now)
                && match &message {
                    Message::Stash(part) => epochs.incoming.stash(header.epoch, part, at_ns),
                    Message::Fragment(part) => epochs.incoming.fragment(subject, part, at_ns),
                    Message::Request(request) => {
                        outgoing.answer(subject, request, settings, counters);
                        true
                    }
                    Message::Report(report) => {
                        counters.reports_heard += 1;
                        let is_known = note(
                            sending,
                            &header,
                            report,
                            &mut epochs.causality,
                            knows_floors,
                        );
                        let adaptation = adaptation.as_mut().filter(|_| is_known);
                        let lda = adaptation.and_then(|one| one.hear(header.epoch, report));
                        spread = lda.cloned();
                        is_known
                    }
                    Message::Floor(floor) => epochs.causality.hear_floor(header.epoch, *floor),
                    Message::Hello(_) | Message::Marker(_) | Message::Reference(_) => false,
                };
            counters.frames_useless += u64::from(!is_useful);
            None
        })?;
        if let Some(lda) = spread {
            self.spread(lda);
        }
        Some(Heard { begins })
    }

    /// What is due of a session whatever was heard: its end, its renewal, the end of the one before.
    fn keep_session(&mut self, now: Moment, clock: ClockView, random: &mut impl FnMut() -> u64) {
        let Some(session) = &mut self.session else {
            return;
        };
        let mut draw = || Nonce::from_random(random());
        if session.expire(now, &mut draw) {
            self.counters.sessions_lost += 1;
            self.reset(now, clock);
            self.sealer.end();
            self.order(Order::End);
            return;
        }
        session.renew(now, self.settings.renew_ns, draw);
        let (sending, is_over) = (session.take_sending(), session.forget(now));
        if let Some(sending) = sending {
            self.sealer.begin(sending);
            self.orders.push_back(Order::Send(sending));
        }
        if is_over {
            self.orders.push_back(Order::Forget);
        }
    }

    /// A session begins: nothing of an old one is valid.
    fn begin(&mut self, sessions: Sessions, now: Moment, clock: ClockView) {
        self.reset(now, clock);
        self.counters.sessions += 1;
        self.sealer.begin(sessions.sending);
        self.order(Order::Begin(sessions));
    }

    /// The session continues under another name and key. This end sends in it as soon as the other one
    /// hears in it.
    fn renew(&mut self, sessions: Sessions) {
        self.counters.renewals += 1;
        self.orders.push_back(Order::Hear(sessions.receiving));
        if self.session.as_ref().is_some_and(Session::is_sending) {
            self.sealer.begin(sessions.sending);
            self.orders.push_back(Order::Send(sessions.sending));
        }
    }

    /// Sends the worker the orders that it has not got yet.
    fn send_orders(&mut self) {
        while let Some(order) = self.orders.pop_front() {
            if let Err(order) = self.end.order(order) {
                self.orders.push_front(order);
                break;
            }
        }
    }

    /// An order that replaces all orders of sessions before it, and no others.
    fn order(&mut self, order: Order) {
        self.orders
            .retain(|before| matches!(before, Order::Keys { .. } | Order::Spread(_)));
        self.orders.push_back(order);
    }

    /// Accepts and seals under other keys of the wire from now on. The session continues: both ends need
    /// the old key and the new one while they are changed one after the other.
    ///
    /// # Errors
    /// [`ExchangeError::Key`] where `key` is none of `keys`; nothing is changed then.
    pub fn set_keys(&mut self, keys: KeyRing, key: KeyId) -> Result<(), ExchangeError> {
        self.sealer.set_key(&keys, key)?;
        (self.settings.keys, self.settings.key) = (keys.clone(), key);
        self.orders
            .retain(|before| !matches!(before, Order::Keys { .. }));
        self.orders.push_back(Order::Keys { keys, key });
        Ok(())
    }

    fn reset(&mut self, now: Moment, clock: ClockView) {
        let (around, epochs, mut resources) = self.parts(now, clock);
        epochs.reset(around, &mut resources);
        self.outgoing.reset(&mut self.end, &mut self.counters);
        // After a restart epochs have other numbers.
        self.adaptation.iter_mut().for_each(Adaptation::reset);
        for segment in &mut self.sending {
            segment.latest = None;
        }
    }

    /// Sends hellos, requests and reports, then as much of the rest as the link's share allows.
    fn send(&mut self, now: Moment, clock: ClockView) {
        self.outgoing.refill(now, &self.settings);
        let due = self.session.as_ref().and_then(|session| session.due(now));
        if let Some(nonces) = due {
            let hello = self.settings.hello(nonces, clock);
            if self.seal(now, (Epoch(0), VERSION_MINOR), &hello)
                && let Some(session) = &mut self.session
            {
                session.said(now, nonces);
            }
        }
        let session = self.session.as_ref();
        if !session.is_some_and(Session::is_established) {
            return;
        }
        let knows_floors = session.is_some_and(|session| session.has(Kind::Floor));
        let (around, epochs, _) = self.parts(now, clock);
        for (epoch, segment, request) in epochs.requests(around) {
            let is_sent = self.seal(now, (epoch, segment), &request);
            self.counters.requests_sent += u64::from(is_sent);
        }
        while self.end.room() > 0 {
            let Some((epoch, floor)) = self.epochs.next_floor() else {
                break;
            };
            if knows_floors {
                self.seal(now, (epoch, 0), &floor);
            }
        }
        while self.end.room() > 0 {
            let Some((epoch, segment, report)) = self.epochs.next_report() else {
                break;
            };
            let is_sent = self.seal(now, (epoch, segment), &report);
            self.counters.reports_sent += u64::from(is_sent);
        }
        self.outgoing.send(
            now,
            &self.settings,
            &mut self.sealer,
            &mut self.end,
            &mut self.counters,
        );
    }

    /// Seals a frame that does not wait; `false` where it cannot go.
    fn seal<B: Body>(&mut self, now: Moment, (epoch, segment): (Epoch, u16), body: &B) -> bool {
        let Self {
            end,
            sealer,
            outgoing,
            settings,
            ..
        } = self;
        let subject = Subject {
            segment,
            epoch,
            tai_ns: now.tai_ns.cast_signed(),
        };
        let mut length = None;
        // In a hello it is the minor version, of no class.
        let travels_with = if B::KIND == Kind::Hello { 0 } else { segment };
        let is_sent = end.send(travels_with, |buffer| {
            length = sealer.seal(subject, body, buffer).ok();
            length
        });
        outgoing.spend(length.unwrap_or(0) + settings.frames.overhead_bytes);
        is_sent && length.is_some()
    }
}

#[cfg(test)]
mod tests;
