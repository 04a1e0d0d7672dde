//! Hellos: who is there, whether the ends agree, when a session begins and when it is over.

use measure::wire::frame::{Header, Hello, Mismatch};
use measure::wire::session::{
    Handshake, Heard, Nonce, Nonces, Session as Direction, SessionId, Sessions,
};

use super::settings::{ClockView, Moment, Settings};
use super::status::{PeerView, SessionState};

/// Between hellos while there is no session, and within one.
const HELLO_NS: (u64, u64) = (250_000_000, 1_000_000_000);
/// Between answers to those who have not proved to be there: recordings must not cause a flood.
const ANSWER_NS: u64 = 50_000_000;
/// Without an accepted frame for so long, the peer is gone.
const SILENCE_NS: u64 = 5_000_000_000;
/// A peer that was heard within this time is there: an own hello that comes back is not taken to
/// show a loop.
const LOOP_SILENCE_NS: u64 = 2_500_000_000;

/// Without an own hello for so long, there is no loop any more.
const LOOP_NS: u64 = 3_000_000_000;
/// An own hello that is older than this is a recording: no sign of a loop.
const FRESH_NS: i64 = 3_000_000_000;
/// So many own hellos, one after the other, show a loop: copies of one do not.
const LOOP_ECHOES: u32 = 3;

/// After the peer was heard in a new session, frames of the one before are accepted for so long: many
/// times what any is under way.
const OVERLAP_NS: u64 = 5_000_000_000;

/// What a hello begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begins {
    /// Sessions: all of the old ones is over.
    Anew(Sessions),
    /// Sessions that go on where those before stop.
    Renewed(Sessions),
}

/// How far a renewal is.
#[derive(Debug, Clone, Copy)]
struct Renewal {
    /// What arrives in the session before the present one.
    receiving: SessionId,
    /// This end sends in the new one.
    is_sending: bool,
    /// When the peer was first heard in the new one.
    heard_ns: Option<u64>,
}

/// Own hellos that come back.
#[derive(Debug, Default)]
struct Echoes {
    /// All of them.
    total: u64,
    /// Fresh ones, each counted once, with less than [`LOOP_NS`] from one to the next.
    fresh: u32,
    /// When the last of these was sealed, and when it came.
    last: Option<(i64, u64)>,
}

impl Echoes {
    /// One came that was sealed at `sealed_ns` (TAI).
    fn hear(&mut self, sealed_ns: i64, now: Moment) {
        self.total += 1;
        let age_ns = now.tai_ns.cast_signed().wrapping_sub(sealed_ns);
        let is_new = self.last.is_none_or(|(latest_ns, _)| sealed_ns > latest_ns);
        if is_new && age_ns.saturating_abs() <= FRESH_NS {
            self.fresh = self.fresh.saturating_add(1);
            self.last = Some((sealed_ns, now.monotonic_ns));
        }
    }

    /// Forgets them where none came for a while.
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

/// One end's view of its peer.
#[derive(Debug)]
pub(super) struct Session {
    switch: u32,
    handshake: Handshake,
    sessions: Option<Sessions>,
    /// The last renewal, until the session before it is forgotten.
    renewal: Option<Renewal>,
    /// When the present keys were made.
    keyed_ns: u64,
    was_established: bool,
    peer: Option<PeerView>,
    mismatch: Option<Mismatch>,
    /// When a hello is due.
    hello_ns: u64,
    /// What is to be said to someone who has not proved to be there, and from when on.
    answer: Option<Nonces>,
    answer_ns: u64,
    /// When a frame of the session was last accepted.
    heard_ns: u64,
    /// When the peer's last hello was sealed: older ones are recordings.
    hello_tai_ns: i64,
    echoes: Echoes,
    strangers: u64,
    /// Across routers anybody can throw a hello back: that blocks nothing there.
    is_routed: bool,
}

impl Session {
    pub fn new(settings: &Settings, nonce: Nonce) -> Self {
        let switch = settings.switch;
        Self {
            switch,
            handshake: Handshake::new(switch, nonce),
            sessions: None,
            renewal: None,
            keyed_ns: 0,
            was_established: false,
            peer: None,
            mismatch: None,
            hello_ns: 0,
            answer: None,
            answer_ns: 0,
            heard_ns: 0,
            hello_tai_ns: i64::MIN,
            echoes: Echoes::default(),
            strangers: 0,
            is_routed: settings.is_routed,
        }
    }

    /// Takes note of an accepted hello; gives the sessions that begin with it.
    pub fn hear(
        &mut self,
        header: &Header,
        hello: &Hello,
        settings: &Settings,
        (now, clock): (Moment, ClockView),
        draw: impl FnOnce() -> Nonce,
    ) -> Option<Begins> {
        let own = self.handshake.nonces();
        if header.switch == self.switch || hello.nonces.own == own.own {
            if self.sessions.is_some() && self.silence_ns(now) < LOOP_SILENCE_NS {
                // The peer is there: this is no cable that leads back, but somebody who throws back
                // what he saw.
                return None;
            }
            self.echoes.hear(header.tai_ns, now);
            return None;
        }
        let is_expected = settings.expected.is_met(header, hello);
        let agreed = if is_expected {
            settings.hello(own, clock).agree(hello)
        } else {
            Err(Mismatch::Peer)
        };
        self.strangers += u64::from(!is_expected);
        // Within a session only the peer's own, newer hellos count: others may be recordings.
        let said = hello.nonces;
        let is_peer = (own.peer == Some(said.own)
            || said.renews.is_some() && own.peer == said.renews)
            && header.tai_ns > self.hello_tai_ns;
        if self.sessions.is_none() || is_peer {
            self.mismatch = agreed.err();
            self.peer = Some(PeerView::new(header, hello));
        }
        if agreed.is_err() && (self.sessions.is_none() || !is_expected) {
            return None;
        }
        let heard = self.handshake.hear(header.switch, hello.nonces, draw);
        let is_alive = matches!(heard, Heard::Alive | Heard::Answer(_)) && said.peer.is_some();
        if is_peer && is_alive && self.sessions.is_some() {
            self.hello_tai_ns = header.tai_ns;
            self.peer_spoke(now);
        }
        match heard {
            Heard::Loop | Heard::Stale | Heard::Alive => None,
            Heard::Answer(nonces) => {
                self.answer = Some(nonces);
                None
            }
            Heard::Established(sessions) => {
                self.establish(sessions, header, now);
                self.renewal = None;
                self.peer = Some(PeerView::new(header, hello));
                self.mismatch = agreed.err();
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

    fn establish(&mut self, sessions: Sessions, header: &Header, now: Moment) {
        self.sessions = Some(sessions);
        self.was_established = true;
        self.keyed_ns = now.monotonic_ns;
        self.hello_tai_ns = header.tai_ns;
        self.peer_spoke(now);
        self.hello_ns = 0;
        self.answer = None;
    }

    /// Renews a session that has lasted so long; one of the ends does so, so that they never both ask.
    pub fn renew(&mut self, now: Moment, renew_ns: u64, draw: impl FnOnce() -> Nonce) {
        let is_mine = self.peer.is_some_and(|peer| self.switch < peer.switch);
        let is_due = now.monotonic_ns.saturating_sub(self.keyed_ns) >= renew_ns;
        let is_free = self.renewal.is_none() && !self.handshake.is_renewing();
        if self.sessions.is_some() && is_mine && is_due && is_free {
            self.handshake.renew(draw);
            self.hello_ns = 0;
        }
    }

    /// The session that is to be sent in from now on, when the peer has been heard in a renewed one.
    pub fn take_sending(&mut self) -> Option<Direction> {
        let renewal = self.renewal.as_mut()?;
        if renewal.is_sending || renewal.heard_ns.is_none() {
            return None;
        }
        renewal.is_sending = true;
        Some(self.sessions?.sending)
    }

    /// Whether this end sends in the present sessions, if it has any.
    pub fn is_sending(&self) -> bool {
        self.renewal.is_none_or(|renewal| renewal.is_sending)
    }

    /// Forgets the session before the present one when frames of it cannot be under way any more;
    /// `true` if so.
    pub fn forget(&mut self, now: Moment) -> bool {
        let heard_ns = self.renewal.and_then(|renewal| renewal.heard_ns);
        let is_over = heard_ns.is_some_and(|ns| now.monotonic_ns.saturating_sub(ns) >= OVERLAP_NS);
        if is_over {
            self.renewal = None;
        }
        is_over
    }

    /// Whether a frame that is no hello belongs to the present session; if so the peer is there.
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

    /// The peer is there: what came back before its time was no cable that leads back.
    fn peer_spoke(&mut self, now: Moment) {
        self.heard_ns = now.monotonic_ns;
        self.echoes.fresh = 0;
    }

    /// How long the peer has been silent.
    fn silence_ns(&self, now: Moment) -> u64 {
        now.monotonic_ns.saturating_sub(self.heard_ns)
    }

    /// Ends a session whose peer is silent; `true` if one ended.
    pub fn expire(&mut self, now: Moment, draw: impl FnOnce() -> Nonce) -> bool {
        self.echoes.expire(now);
        if self.sessions.is_none() || self.silence_ns(now) < SILENCE_NS {
            return false;
        }
        self.sessions = None;
        self.renewal = None;
        self.mismatch = None;
        self.handshake = Handshake::new(self.switch, draw());
        self.hello_tai_ns = i64::MIN;
        self.hello_ns = 0;
        true
    }

    /// The nonces that a hello is to say now, if one is due.
    pub fn due(&self, now: Moment) -> Option<Nonces> {
        if now.monotonic_ns >= self.hello_ns {
            return Some(self.handshake.nonces());
        }
        self.answer.filter(|_| now.monotonic_ns >= self.answer_ns)
    }

    /// That hello was sent.
    pub fn said(&mut self, now: Moment, nonces: Nonces) {
        if nonces == self.handshake.nonces() {
            let (without, within) = HELLO_NS;
            // Whether a silent peer is gone, a loop is there or a renewal has got through is to be known soon.
            let is_calm = self.silence_ns(now) < LOOP_SILENCE_NS
                && !self.handshake.is_renewing()
                && self.renewal.is_none_or(|one| one.heard_ns.is_some());
            let pause_ns = if self.sessions.is_some() && is_calm {
                within
            } else {
                without
            };
            self.hello_ns = now.monotonic_ns + pause_ns;
        }
        if self.answer == Some(nonces) {
            self.answer = None;
            self.answer_ns = now.monotonic_ns + ANSWER_NS;
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

    /// Hellos of others than who is expected.
    pub fn strangers(&self) -> u64 {
        self.strangers
    }

    /// What the other end last said of itself.
    pub fn peer(&self) -> Option<&PeerView> {
        self.peer.as_ref()
    }

    /// Why no numbers may be published, where the ends do not agree.
    pub fn mismatch(&self) -> Option<Mismatch> {
        self.mismatch
    }

    /// Whether there is a session.
    pub fn is_established(&self) -> bool {
        self.sessions.is_some()
    }

    pub fn state(&self) -> SessionState {
        if self.echoes.show_loop() {
            SessionState::Loop
        } else if self.mismatch.is_some() {
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
