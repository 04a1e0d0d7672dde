//! Mutual nonces: how two ends know that they hear each other now, not a recording.
//!
//! Each end draws a nonce when it starts and says it in every hello, with the other's beside it
//! once heard. A hello that says back what this end drew was made after that: it is fresh.
//!
//! ```text
//!  A draws a                      B draws b
//!     | -------- a, none ----------> |
//!     | <------- b, a -------------- |   A hears a back: session (a, b)
//!     | -------- a, b -------------> |   B hears b back: session (b, a)
//!     :                              :
//!     :                              B restarts, draws c
//!     | <------- c, none ----------- |   may be a recording: challenge it, keep the session
//!     | -------- d, c -------------> |   A draws d;  B hears c back: session (c, d)
//!     | <------- c, d -------------- |   A hears d back: session (d, c), the old one is over
//! ```
//!
//! A session is renewed in the same way, without an end of it: an end says a new nonce in its hellos
//! as if it had been started anew, and which nonce it follows. Both ends know by that that the other
//! has kept what it has counted, and the sessions after the handshake continue those before.
//!
//! ```text
//!     :  sessions (a, b) and (b, a)  :
//!     | -------- c for a, b -------> |   as above: B cannot tell yet, and draws d
//!     | <------- d for b, c -------- |   A hears c back, and that B has kept b: hears in (d, c), too
//!     | -------- c for a, d -------> |   B hears d back, and that A has kept a: hears in (c, d), too, and
//!     | <------- frames (d, c) ----- |   sends in (d, c)
//!     | -------- frames (c, d) ----> |   A knows by those that B hears in (c, d)
//! ```
//!
//! No end uses a nonce of its own for two sessions: an old hello can neither end a session nor
//! bring one back.
//!
//! An end in a session draws one spare nonce (d above) and says it to all who come with a new
//! nonce, recordings among them, until someone says it back. It is not drawn anew for the next who
//! comes: B may have begun its session with d by then, and says d back ever after. An A that knew
//! only some e would hold that for a recording, as B would what A says, and neither would answer.

use super::key::{Nonce, Session};

/// Sessions in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sessions {
    /// For what this end sends.
    pub sending: Session,
    /// For what it receives.
    pub receiving: Session,
}

impl Sessions {
    /// Those of an end that drew `own`, with one that drew `peer`.
    pub fn new(own: Nonce, peer: Nonce) -> Self {
        let direction = |sender, receiver| Session { sender, receiver };
        Self {
            sending: direction(own, peer),
            receiving: direction(peer, own),
        }
    }
}

/// The nonces that a hello says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nonces {
    /// The sender's own.
    pub own: Nonce,
    /// The one heard from the other end; `None` before.
    pub peer: Option<Nonce>,
    /// The one that `own` follows: what the sender has counted since it drew that, it still has. `None`
    /// after a start.
    pub renews: Option<Nonce>,
}

/// What a hello meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// From this very switch: ports are looped, or two switches share a number.
    Loop,
    /// From the peer of the present session, which hears this end.
    Alive,
    /// From someone who has not proved to be there now: answer with these nonces at once.
    Answer(Nonces),
    /// A new session. Begin it on sealers and verifier, and say the new nonces in a hello.
    Established(Sessions),
    /// The session goes on under new nonces. Say them in a hello.
    Renewed {
        /// To be heard from now on, beside the old one.
        sessions: Sessions,
        /// The peer hears in them already: they can be sent in at once. If not, when it has been heard
        /// in them.
        is_heard: bool,
    },
    /// An answer to some earlier question. Ignore it.
    Stale,
}

/// One end's part, on one port.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Handshake {
    switch: u32,
    own: Nonce,
    /// The other end's nonce, last heard.
    peer: Option<Nonce>,
    /// Whether the peer has said `own` back.
    established: bool,
    /// The nonce that `own` follows.
    renews: Option<Nonce>,
    /// Drawn for the session that this end wants after the present one, and never said before.
    renewal: Option<Nonce>,
    /// Drawn for the next session, and said to all who may be the peer after a restart:
    /// the one that says it back is. One for all of them, so that a recording cannot take it away.
    spare: Option<Nonce>,
}

impl Handshake {
    /// Starts, with a nonce just drawn, on a port of the switch of this number.
    pub fn new(switch: u32, own: Nonce) -> Self {
        Self {
            switch,
            own,
            peer: None,
            established: false,
            renews: None,
            renewal: None,
            spare: None,
        }
    }

    /// What the next hello says, sent from time to time.
    pub fn nonces(&self) -> Nonces {
        match self.renewal {
            Some(renewal) => self.following(renewal, self.peer),
            None => Nonces {
                own: self.own,
                peer: self.peer,
                renews: self.renews,
            },
        }
    }

    /// With a nonce that follows the present one.
    fn following(&self, next: Nonce, peer: Option<Nonce>) -> Nonces {
        Nonces {
            own: next,
            peer,
            renews: Some(self.own),
        }
    }

    /// Wants a new session after the present one, if there is one. To be asked of one end only: where
    /// both want it at once, each waits for the other.
    pub fn renew(&mut self, draw: impl FnOnce() -> Nonce) {
        if self.established {
            self.renewal.get_or_insert_with(draw);
        }
    }

    /// Whether a new session is wanted that has not begun.
    pub fn is_renewing(&self) -> bool {
        self.renewal.is_some()
    }

    /// Whether there is a session.
    pub fn is_established(&self) -> bool {
        self.established
    }

    /// Takes note of the nonces in a hello from `switch` whose tag was right. `draw` gives a random
    /// nonce.
    pub fn hear(&mut self, switch: u32, nonces: Nonces, draw: impl FnOnce() -> Nonce) -> Heard {
        let Nonces {
            own: peer,
            peer: echo,
            renews,
        } = nonces;
        if switch == self.switch || peer == self.own {
            return Heard::Loop;
        }
        if !self.established {
            self.peer = Some(peer);
            if echo == Some(self.own) {
                return self.establish(self.own, peer, renews);
            }
            return Heard::Answer(self.nonces());
        }
        if self.peer == Some(peer) {
            return match echo {
                Some(echo) if echo == self.own => Heard::Alive,
                // It had no session yet when this end wanted another one.
                Some(echo) if self.renewal == Some(echo) => self.establish(echo, peer, renews),
                Some(_) => Heard::Stale,
                // It has not heard the answer yet.
                None => Heard::Answer(self.nonces()),
            };
        }
        match echo {
            Some(echo) if [self.spare, self.renewal].contains(&Some(echo)) => {
                self.establish(echo, peer, renews)
            }
            Some(echo) if echo != self.own => Heard::Stale,
            // It has heard nothing from here, or only what this end says to its peer.
            _ => {
                let spare = *self.spare.get_or_insert_with(draw);
                Heard::Answer(self.following(spare, Some(peer)))
            }
        }
    }

    /// `renews` is what the peer says that its nonce follows.
    fn establish(&mut self, own: Nonce, peer: Nonce, renews: Option<Nonce>) -> Heard {
        let is_kept = self.established && renews.is_some() && renews == self.peer;
        let is_asked_for = self.renewal.take() == Some(own);
        self.renews = self.established.then_some(self.own);
        self.own = own;
        self.peer = Some(peer);
        self.established = true;
        self.spare = None;
        let sessions = Sessions::new(own, peer);
        if is_kept {
            Heard::Renewed {
                sessions,
                // Who did not ask was asked: the other end has heard its nonce back.
                is_heard: !is_asked_for,
            }
        } else {
            Heard::Established(sessions)
        }
    }
}
