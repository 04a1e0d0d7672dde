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
//! No end uses a nonce of its own for two sessions: an old hello can neither end a session nor
//! bring one back.
//!
//! An end in a session draws one spare nonce (d above) and says it to all who come with a new
//! nonce, recordings among them, until someone says it back. It is not drawn anew for the next who
//! comes: B may have begun its session with d by then, and says d back ever after. An A that knew
//! only some e would hold that for a recording, as B would what A says, and neither would answer.

use super::Hello;
use super::key::{Nonce, SessionId};

/// Sessions in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sessions {
    /// For what this end sends.
    pub sending: SessionId,
    /// For what it receives.
    pub receiving: SessionId,
}

/// The two nonces that a hello says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nonces {
    /// The sender's own.
    pub own: Nonce,
    /// The one heard from the other end; `None` before.
    pub peer: Option<Nonce>,
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
    /// Drawn for the next session, and said to all who may be the peer after a restart: whoever
    /// says it back is. One for all of them, so that a recording cannot take it away.
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
            spare: None,
        }
    }

    /// What the next hello says, sent from time to time.
    pub fn nonces(&self) -> Nonces {
        Nonces {
            own: self.own,
            peer: self.peer,
        }
    }

    /// Whether there is a session.
    pub fn is_established(&self) -> bool {
        self.established
    }

    /// Takes note of a hello from `switch` whose tag was right. `draw` gives a random nonce.
    pub fn hear(&mut self, switch: u32, hello: &Hello, draw: impl FnOnce() -> Nonce) -> Heard {
        let Nonces {
            own: peer,
            peer: echo,
        } = hello.nonces;
        if switch == self.switch || peer == self.own {
            return Heard::Loop;
        }
        if !self.established {
            self.peer = Some(peer);
            if echo == Some(self.own) {
                return self.establish(self.own, peer);
            }
            return Heard::Answer(self.nonces());
        }
        if self.peer == Some(peer) {
            return match echo {
                Some(echo) if echo == self.own => Heard::Alive,
                Some(_) => Heard::Stale,
                // It has not heard the answer yet.
                None => Heard::Answer(self.nonces()),
            };
        }
        match echo {
            Some(echo) if self.spare == Some(echo) => self.establish(echo, peer),
            Some(echo) if echo != self.own => Heard::Stale,
            // It has heard nothing from here, or only what this end says to its peer.
            _ => Heard::Answer(Nonces {
                own: *self.spare.get_or_insert_with(draw),
                peer: Some(peer),
            }),
        }
    }

    fn establish(&mut self, own: Nonce, peer: Nonce) -> Heard {
        self.own = own;
        self.peer = Some(peer);
        self.established = true;
        self.spare = None;
        Heard::Established(Sessions {
            sending: SessionId::new(own, peer),
            receiving: SessionId::new(peer, own),
        })
    }
}
