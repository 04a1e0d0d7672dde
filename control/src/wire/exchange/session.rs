//! Hellos: who is there, whether the ends agree, when a session begins and when it is over.

use measure::codec::{
    Handshake, Header, Heard, Hello, Mismatch, Nonce, Nonces, SessionId, Sessions,
};

use super::settings::{ClockView, Moment, Settings};
use super::status::{PeerView, SessionState};

/// Between hellos while there is no session, and within one.
const HELLO_NS: (u64, u64) = (250_000_000, 1_000_000_000);
/// Between answers to those who have not proved to be there: recordings must not cause a flood.
const ANSWER_NS: u64 = 50_000_000;
/// Without a believed frame for so long, the peer is gone.
const SILENCE_NS: u64 = 5_000_000_000;
/// A peer that was heard within this time is there: an own hello that comes back is not believed to
/// show a loop.
const LOOP_SILENCE_NS: u64 = 2_500_000_000;

/// Without an own hello for so long, there is no loop any more.
const LOOP_NS: u64 = 3_000_000_000;
/// An own hello that is older than this is a recording: no reason to block the port.
const FRESH_NS: i64 = 3_000_000_000;

/// One end's view of its peer.
#[derive(Debug)]
pub(super) struct Session {
    switch: u32,
    handshake: Handshake,
    sessions: Option<Sessions>,
    was_established: bool,
    peer: Option<PeerView>,
    mismatch: Option<Mismatch>,
    /// When a hello is due.
    hello_ns: u64,
    /// What is to be said to someone who has not proved to be there, and from when on.
    answer: Option<Nonces>,
    answer_ns: u64,
    /// When a frame of the session was last believed.
    heard_ns: u64,
    /// When the peer's last hello was sealed: older ones are recordings.
    hello_tai_ns: i64,
    /// When an own hello last came back that was no recording.
    looped_ns: Option<u64>,
    loops: u64,
}

impl Session {
    pub fn new(switch: u32, nonce: Nonce) -> Self {
        Self {
            switch,
            handshake: Handshake::new(switch, nonce),
            sessions: None,
            was_established: false,
            peer: None,
            mismatch: None,
            hello_ns: 0,
            answer: None,
            answer_ns: 0,
            heard_ns: 0,
            hello_tai_ns: i64::MIN,
            looped_ns: None,
            loops: 0,
        }
    }

    /// Takes note of a believed hello; gives the sessions that begin with it.
    pub fn hear(
        &mut self,
        header: &Header,
        hello: &Hello,
        settings: &Settings,
        (now, clock): (Moment, ClockView),
        draw: impl FnOnce() -> Nonce,
    ) -> Option<Sessions> {
        let own = self.handshake.nonces();
        if header.switch == self.switch || hello.nonces.own == own.own {
            let silence_ns = now.monotonic_ns.saturating_sub(self.heard_ns);
            if self.sessions.is_some() && silence_ns < LOOP_SILENCE_NS {
                // The peer is there: this is no cable that leads back, but somebody who throws back
                // what he saw.
                return None;
            }
            let age_ns = now.tai_ns.cast_signed().wrapping_sub(header.tai_ns);
            self.loops += 1;
            if age_ns.saturating_abs() <= FRESH_NS {
                self.looped_ns = Some(now.monotonic_ns);
            }
            return None;
        }
        let agreed = settings.hello(own, clock).agree(hello);
        // Within a session only the peer's own, newer hellos count: others may be recordings.
        let is_peer = own.peer == Some(hello.nonces.own) && header.tai_ns > self.hello_tai_ns;
        if self.sessions.is_none() || is_peer {
            self.mismatch = agreed.err();
            self.peer = Some(PeerView::new(header, hello));
        }
        if self.sessions.is_none() && agreed.is_err() {
            return None;
        }
        match self.handshake.hear(header.switch, hello, draw) {
            Heard::Loop | Heard::Stale => None,
            Heard::Alive => {
                if is_peer {
                    self.hello_tai_ns = header.tai_ns;
                    self.heard_ns = now.monotonic_ns;
                }
                None
            }
            Heard::Answer(nonces) => {
                self.answer = Some(nonces);
                None
            }
            Heard::Established(sessions) => {
                self.sessions = Some(sessions);
                self.was_established = true;
                self.peer = Some(PeerView::new(header, hello));
                self.mismatch = agreed.err();
                self.hello_tai_ns = header.tai_ns;
                self.heard_ns = now.monotonic_ns;
                self.hello_ns = 0;
                self.answer = None;
                Some(sessions)
            }
        }
    }

    /// Whether a frame that is no hello belongs to the present session; if so the peer is there.
    pub fn belongs(&mut self, header: &Header, now: Moment) -> bool {
        let receiving = self.sessions.map(|sessions| sessions.receiving);
        let belongs = receiving.is_some() && header.session == receiving;
        if belongs {
            self.heard_ns = now.monotonic_ns;
        }
        belongs
    }

    /// Ends a session whose peer is silent; `true` if one ended.
    pub fn expire(&mut self, now: Moment, draw: impl FnOnce() -> Nonce) -> bool {
        if let Some(looped_ns) = self.looped_ns
            && now.monotonic_ns.saturating_sub(looped_ns) >= LOOP_NS
        {
            self.looped_ns = None;
        }
        let silence_ns = now.monotonic_ns.saturating_sub(self.heard_ns);
        if self.sessions.is_none() || silence_ns < SILENCE_NS {
            return false;
        }
        self.sessions = None;
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
            let pause_ns = if self.sessions.is_some() {
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
        self.looped_ns.is_some()
    }

    /// Own hellos that came back.
    pub fn loops(&self) -> u64 {
        self.loops
    }

    /// What the other end last said of itself.
    pub fn peer(&self) -> Option<&PeerView> {
        self.peer.as_ref()
    }

    /// Why no numbers may be published, where the ends do not agree.
    pub fn mismatch(&self) -> Option<Mismatch> {
        self.mismatch
    }

    /// The session of what this end sends.
    pub fn sending(&self) -> Option<SessionId> {
        self.sessions.map(|sessions| sessions.sending)
    }

    pub fn state(&self) -> SessionState {
        if self.looped_ns.is_some() {
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
