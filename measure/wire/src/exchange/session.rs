//! Hellos: detect the peer, check that the ends agree, and start and end sessions.

use super::status::SessionState;
use super::{Moment, Settings};
use crate::frame::{Header, Hello, Kind, Mismatch};
use crate::session::{Handshake, Heard, Nonce, Nonces, Session as Direction, SessionId, Sessions};

/// Interval of hellos without a session, and within one.
const HELLO_NS: (u64, u64) = (250_000_000, 1_000_000_000);
/// Least interval of answers to ends that have not proved to be live, so that recordings cannot cause a
/// flood.
const ANSWER_NS: u64 = 50_000_000;
/// Without an authenticated frame for this long, the peer is gone.
const SILENCE_NS: u64 = 5_000_000_000;
/// A peer heard within this time is present: an own hello that returns shows no loop.
const LOOP_SILENCE_NS: u64 = 2_500_000_000;

/// Without an own hello for this long, the loop is over.
const LOOP_NS: u64 = 3_000_000_000;
/// An own hello older than this is a recording, not a sign of a loop.
const FRESH_NS: i64 = 3_000_000_000;
/// This many consecutive own hellos show a loop; copies of a single one do not.
const LOOP_ECHOES: u32 = 3;

/// After the peer was heard in a new session, frames of the previous one are accepted for this long, many
/// times the longest delay.
const OVERLAP_NS: u64 = 5_000_000_000;

/// Sessions started by a hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begins {
    /// Sessions that invalidate everything from previous ones.
    Anew(Sessions),
    /// Sessions that continue the previous ones.
    Renewed(Sessions),
}

/// A renewal in progress.
#[derive(Debug, Clone, Copy)]
struct Renewal {
    /// The previous session's name for arriving frames.
    receiving: SessionId,
    /// Whether this end sends in the new session.
    is_sending: bool,
    /// When the peer was first heard in the new session.
    heard_ns: Option<u64>,
}

/// Own hellos that returned.
#[derive(Debug, Default)]
struct Echoes {
    /// Their number.
    total: u64,
    /// Fresh ones, each counted once, at intervals of less than [`LOOP_NS`].
    fresh: u32,
    /// When the last of these was sealed (TAI), and when it arrived (monotonic).
    last: Option<(i64, u64)>,
}

impl Echoes {
    /// Notes one that was sealed at `sealed_ns` (TAI).
    fn hear(&mut self, sealed_ns: i64, now: Moment) {
        self.total += 1;
        let age_ns = now.tai_ns.cast_signed().wrapping_sub(sealed_ns);
        let is_new = self.last.is_none_or(|(latest_ns, _)| sealed_ns > latest_ns);
        if is_new && age_ns.saturating_abs() <= FRESH_NS {
            self.fresh = self.fresh.saturating_add(1);
            self.last = Some((sealed_ns, now.monotonic_ns));
        }
    }

    /// Forgets them if none arrived for a while.
    fn expire(&mut self, now: Moment) {
        let is_over = |(_, heard_ns)| now.monotonic_ns.saturating_sub(heard_ns) >= LOOP_NS;
        if self.last.is_some_and(is_over) {
            self.fresh = 0;
            self.last = None;
        }
    }

    fn show_loop(&self) -> bool {
        self.fresh >= LOOP_ECHOES
    }
}

/// Due hellos.
#[derive(Debug, Default)]
struct Due {
    /// Time of the next one.
    hello_ns: u64,
    /// The answer to an end that has not proved to be live, and the earliest time to send it.
    answer: Option<Nonces>,
    answer_ns: u64,
}

/// The other end, as its last hello described it.
#[derive(Debug, Clone, PartialEq)]
pub struct Peer {
    /// The hello's header.
    pub header: Header,
    /// The hello.
    pub hello: Hello,
}

impl Peer {
    fn new(header: &Header, hello: &Hello) -> Self {
        Self {
            header: *header,
            hello: hello.clone(),
        }
    }
}

/// The peer, as last heard.
#[derive(Debug)]
struct Last {
    peer: Option<Peer>,
    mismatch: Option<Mismatch>,
    /// When a frame of the session was last heard.
    heard_ns: u64,
    /// When its last hello was sealed; older ones are recordings.
    hello_tai_ns: i64,
}

/// One end's view of its peer.
#[derive(Debug)]
pub(super) struct Session {
    switch: u32,
    handshake: Handshake,
    sessions: Option<Sessions>,
    /// The last renewal, until the previous session is forgotten.
    renewal: Option<Renewal>,
    /// When the current keys were made.
    keyed_ns: u64,
    was_established: bool,
    last: Last,
    due: Due,
    echoes: Echoes,
    strangers: u64,
    /// Across routers anyone can send a hello back, so it blocks nothing there.
    is_routed: bool,
}

impl Session {
    pub fn new(settings: &Settings, nonce: Nonce) -> Self {
        let switch = settings.own.switch;
        Self {
            switch,
            handshake: Handshake::new(switch, nonce),
            sessions: None,
            renewal: None,
            keyed_ns: 0,
            was_established: false,
            last: Last {
                peer: None,
                mismatch: None,
                heard_ns: 0,
                hello_tai_ns: i64::MIN,
            },
            due: Due::default(),
            echoes: Echoes::default(),
            strangers: 0,
            is_routed: settings.is_routed,
        }
    }

    /// Processes an authenticated hello; returns the sessions that it starts.
    pub fn hear(
        &mut self,
        header: &Header,
        hello: &Hello,
        settings: &Settings,
        now: Moment,
        draw: impl FnOnce() -> Nonce,
    ) -> Option<Begins> {
        let own = self.handshake.nonces();
        if header.switch == self.switch || hello.nonces.own == own.own {
            // While the peer is present, this is not a looped cable, but an end that reflects what it
            // received.
            if self.sessions.is_none() || self.silence_ns(now) >= LOOP_SILENCE_NS {
                self.echoes.hear(header.tai_ns, now);
            }
            return None;
        }
        let is_expected = settings.expected.is_met(header, hello);
        self.strangers += u64::from(!is_expected);
        let agreed = if is_expected {
            settings.hello(own, now).agree(hello)
        } else {
            Err(Mismatch::Peer)
        };
        let is_peer = self.is_news_of_peer(header, hello.nonces);
        if self.sessions.is_none() || is_peer {
            self.last.mismatch = agreed.err();
            self.last.peer = Some(Peer::new(header, hello));
        }
        if agreed.is_err() && (self.sessions.is_none() || !is_expected) {
            return None;
        }
        let heard = self.handshake.hear(header.switch, hello.nonces, draw);
        let is_alive = matches!(heard, Heard::Alive | Heard::Answer(_));
        if is_peer && is_alive && hello.nonces.peer.is_some() && self.sessions.is_some() {
            self.last.hello_tai_ns = header.tai_ns;
            self.peer_spoke(now);
        }
        match heard {
            Heard::Loop | Heard::Stale | Heard::Alive => None,
            Heard::Answer(nonces) => {
                self.due.answer = Some(nonces);
                None
            }
            Heard::Established(sessions) => {
                self.establish(sessions, header, now);
                self.renewal = None;
                self.last.peer = Some(Peer::new(header, hello));
                self.last.mismatch = agreed.err();
                Some(Begins::Anew(sessions))
            }
            Heard::Renewed { sessions, is_heard } => {
                let before = self.sessions?.receiving.id();
                self.establish(sessions, header, now);
                self.renewal = Some(Renewal {
                    receiving: before,
                    is_sending: is_heard,
                    heard_ns: None,
                });
                Some(Begins::Renewed(sessions))
            }
        }
    }

    /// Whether a hello is the peer's, and newer than its last one; within a session others may be
    /// recordings.
    fn is_news_of_peer(&self, header: &Header, nonces: Nonces) -> bool {
        let own = self.handshake.nonces();
        let is_peer =
            own.peer == Some(nonces.own) || nonces.renews.is_some() && own.peer == nonces.renews;
        is_peer && header.tai_ns > self.last.hello_tai_ns
    }

    fn establish(&mut self, sessions: Sessions, header: &Header, now: Moment) {
        self.sessions = Some(sessions);
        self.was_established = true;
        self.keyed_ns = now.monotonic_ns;
        self.last.hello_tai_ns = header.tai_ns;
        self.peer_spoke(now);
        self.due.hello_ns = 0;
        self.due.answer = None;
    }

    /// Renews a session of this age. Only the end with the lower number requests it.
    pub fn renew(&mut self, now: Moment, renew_ns: u64, draw: impl FnOnce() -> Nonce) {
        let is_mine = self
            .last
            .peer
            .as_ref()
            .is_some_and(|peer| self.switch < peer.header.switch);
        let is_due = now.monotonic_ns.saturating_sub(self.keyed_ns) >= renew_ns;
        let is_free = self.renewal.is_none() && !self.handshake.is_renewing();
        if self.sessions.is_some() && is_mine && is_due && is_free {
            self.handshake.renew(draw);
            self.due.hello_ns = 0;
        }
    }

    /// The session to send in from now on, once the peer has been heard in a renewed one.
    pub fn take_sending(&mut self) -> Option<Direction> {
        let renewal = self.renewal.as_mut()?;
        if renewal.is_sending || renewal.heard_ns.is_none() {
            return None;
        }
        renewal.is_sending = true;
        Some(self.sessions?.sending)
    }

    /// Whether this end sends in the current sessions, if there are any.
    pub fn is_sending(&self) -> bool {
        self.renewal.is_none_or(|renewal| renewal.is_sending)
    }

    /// Forgets the previous session when none of its frames can be in flight any more; returns `true` if
    /// so.
    pub fn forget(&mut self, now: Moment) -> bool {
        let heard_ns = self.renewal.and_then(|renewal| renewal.heard_ns);
        let is_over = heard_ns.is_some_and(|ns| now.monotonic_ns.saturating_sub(ns) >= OVERLAP_NS);
        if is_over {
            self.renewal = None;
        }
        is_over
    }

    /// Whether a frame other than a hello belongs to the current session; if so, the peer is present.
    pub fn belongs(&mut self, header: &Header, now: Moment) -> bool {
        let Some(sessions) = self.sessions else {
            return false;
        };
        let is_present = header.session == Some(sessions.receiving.id());
        let mut belongs = is_present;
        if let Some(renewal) = &mut self.renewal {
            if is_present {
                renewal.heard_ns.get_or_insert(now.monotonic_ns);
            }
            belongs |= header.session == Some(renewal.receiving);
        }
        if belongs {
            self.peer_spoke(now);
        }
        belongs
    }

    /// Notes that the peer is present: own hellos that returned before did not come over a looped cable.
    fn peer_spoke(&mut self, now: Moment) {
        self.last.heard_ns = now.monotonic_ns;
        self.echoes.fresh = 0;
    }

    /// Time since the peer was last heard.
    fn silence_ns(&self, now: Moment) -> u64 {
        now.monotonic_ns.saturating_sub(self.last.heard_ns)
    }

    /// Ends a session whose peer is silent; returns `true` if one ended.
    pub fn expire(&mut self, now: Moment, draw: impl FnOnce() -> Nonce) -> bool {
        self.echoes.expire(now);
        if self.sessions.is_none() || self.silence_ns(now) < SILENCE_NS {
            return false;
        }
        self.sessions = None;
        self.renewal = None;
        self.last.mismatch = None;
        self.handshake = Handshake::new(self.switch, draw());
        self.last.hello_tai_ns = i64::MIN;
        self.due.hello_ns = 0;
        true
    }

    /// The nonces of the hello that is due now, if any.
    pub fn due(&self, now: Moment) -> Option<Nonces> {
        if now.monotonic_ns >= self.due.hello_ns {
            return Some(self.handshake.nonces());
        }
        self.due
            .answer
            .filter(|_| now.monotonic_ns >= self.due.answer_ns)
    }

    /// That hello was sent.
    pub fn said(&mut self, now: Moment, nonces: Nonces) {
        if nonces == self.handshake.nonces() {
            let (without, within) = HELLO_NS;
            // A silent peer, a loop, or a renewal that has not got through must be noticed soon.
            let is_calm = self.silence_ns(now) < LOOP_SILENCE_NS
                && !self.handshake.is_renewing()
                && self.renewal.is_none_or(|one| one.heard_ns.is_some());
            let pause_ns = if self.sessions.is_some() && is_calm {
                within
            } else {
                without
            };
            self.due.hello_ns = now.monotonic_ns + pause_ns;
        }
        if self.due.answer == Some(nonces) {
            self.due.answer = None;
            self.due.answer_ns = now.monotonic_ns + ANSWER_NS;
        }
    }

    /// Whether data must not pass.
    pub fn is_blocked(&self) -> bool {
        self.echoes.show_loop() && !self.is_routed
    }

    /// Own hellos that came back.
    pub fn loops(&self) -> u64 {
        self.echoes.total
    }

    /// Hellos of another peer than the expected one.
    pub fn strangers(&self) -> u64 {
        self.strangers
    }

    /// The other end, by its last hello.
    pub fn peer(&self) -> Option<&Peer> {
        self.last.peer.as_ref()
    }

    /// Whether the other end knows frames of this kind.
    pub fn has(&self, kind: Kind) -> bool {
        // In a hello it is the minor version of its protocol.
        let minor = self
            .last
            .peer
            .as_ref()
            .map_or(0, |peer| peer.header.segment);
        kind.since_minor() <= minor
    }

    /// Why no numbers may be published, where the ends do not agree.
    pub fn mismatch(&self) -> Option<Mismatch> {
        self.last.mismatch
    }

    /// Whether there is a session.
    pub fn is_established(&self) -> bool {
        self.sessions.is_some()
    }

    pub fn state(&self) -> SessionState {
        if self.echoes.show_loop() {
            SessionState::Loop
        } else if self.last.mismatch.is_some() {
            SessionState::Mismatch
        } else if self.sessions.is_some() {
            SessionState::Established
        } else if self.was_established {
            SessionState::Lost
        } else {
            SessionState::Waiting
        }
    }
}
