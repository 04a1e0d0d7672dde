//! Sessions between two ends of a wire: keys, nonces, and the handshake that makes a session of them.
//!
//! Someone who does not hold a key can neither make a frame that is accepted (SipHash-2-4-128 as a
//! MAC; forging succeeds with probability 2^-128 a try) nor have an old one accepted once more
//! (sessions from mutual nonces, with keys of their own; a replay window for each kind of frame).
//! Frames are not secret. Without a key they are accepted on trusted ports only
//! ([`KeyRing::trusting`]), and the tag is a mere checksum.

use std::fmt;
use std::num::NonZeroU64;

use arrayvec::ArrayVec;
use siphasher::{sip, sip128};
use zeroize::Zeroize;

/// Bytes of a tag.
pub const TAG_BYTES: usize = 16;

/// Names a key, so that keys can be changed one end after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub u16);

impl KeyId {
    /// No key: such frames are accepted on ports marked trusted only.
    pub const NONE: Self = Self(0);
}

/// A key of 128 bits: of a wire, shared by its two ends, or of one direction of a session. Its bytes are
/// overwritten when it goes.
#[derive(Clone)]
pub struct Key([u8; 16]);

impl Key {
    /// A key of these bytes, which should be random.
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// SipHash-2-4 with 128 bits (Aumasson and Bernstein 2012, and their reference
    /// implementation).
    pub(crate) fn tag(&self, bytes: &[u8]) -> [u8; TAG_BYTES] {
        sip128::SipHasher24::new_with_key(&self.0)
            .hash(bytes)
            .as_bytes()
    }

    /// The key of a session, which nobody can compute without this one, and which reveals nothing of it:
    /// SipHash-2-4-128, a pseudorandom function, of `vernier session key` and the nonces of sender and
    /// receiver, big-endian. No frame begins like that, so that no tag is a session's key.
    #[must_use]
    pub fn of_session(&self, session: Session) -> Self {
        Self(self.tag(&session.labelled(b"vernier session key")))
    }

    /// Whether the tag is right. Takes equally long wherever the two differ: they are compared as
    /// one number, with no branch.
    pub(crate) fn verify(&self, bytes: &[u8], tag: [u8; TAG_BYTES]) -> bool {
        u128::from_ne_bytes(self.tag(bytes)) ^ u128::from_ne_bytes(tag) == 0
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// Shows nothing of the key: it must not get into logs.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").finish_non_exhaustive()
    }
}

/// Keys that cannot be held together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyRingError {
    /// More than [`KeyRing::KEYS_MAX`].
    #[error(
        "more than {} keys; remove those that no switch uses any more",
        KeyRing::KEYS_MAX
    )]
    Full,
    /// 0 means that there is no key.
    #[error("key id 0 means no key; number keys from 1")]
    Zero,
    /// Two keys of one id.
    #[error("key {} is there twice; give each key an id of its own", id.0)]
    Twice {
        /// The id.
        id: KeyId,
    },
}

/// The keys whose frames are accepted.
#[derive(Debug, Clone, Default)]
pub struct KeyRing {
    keys: ArrayVec<(KeyId, Key), { Self::KEYS_MAX }>,
    /// The key of frames that have none, where they are accepted: everybody knows it, so that their tag
    /// is only a checksum.
    public: Option<Key>,
}

impl KeyRing {
    /// Most keys.
    pub const KEYS_MAX: usize = 16;

    /// No keys: nothing is accepted.
    pub fn new() -> Self {
        Self::default()
    }

    /// Accepts frames without a key as well: for a port that the operator marked trusted.
    #[must_use]
    pub fn trusting(mut self) -> Self {
        self.public = Some(Key([0; 16]));
        self
    }

    /// Adds a key.
    ///
    /// # Errors
    /// [`KeyRingError`] when there is no room, or `id` is 0 or taken.
    pub fn with(mut self, id: KeyId, key: Key) -> Result<Self, KeyRingError> {
        if id == KeyId::NONE {
            return Err(KeyRingError::Zero);
        }
        if self.keys.iter().any(|(taken, _)| *taken == id) {
            return Err(KeyRingError::Twice { id });
        }
        self.keys
            .try_push((id, key))
            .map_err(|_| KeyRingError::Full)?;
        Ok(self)
    }

    /// The key of an id, if its frames are accepted.
    pub fn get(&self, id: KeyId) -> Option<&Key> {
        if id == KeyId::NONE {
            return self.public.as_ref();
        }
        self.keys
            .iter()
            .find_map(|(held, key)| (*held == id).then_some(key))
    }

    /// The keys of a session under each of these.
    #[must_use]
    pub fn of_session(&self, session: Session) -> Self {
        let keys = self.keys.iter();
        Self {
            keys: keys
                .map(|(id, key)| (*id, key.of_session(session)))
                .collect(),
            public: self.public.as_ref().map(|key| key.of_session(session)),
        }
    }
}

/// A number drawn at random, used once: not to be guessed, not to be met again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Nonce(pub NonZeroU64);

impl Nonce {
    /// A nonce of random bits.
    pub fn from_random(bits: u64) -> Self {
        Self(NonZeroU64::new(bits).unwrap_or(NonZeroU64::MIN))
    }

    pub(crate) fn number(nonce: Option<Self>) -> u64 {
        nonce.map_or(0, |nonce| nonce.0.get())
    }

    pub(crate) fn from_number(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }
}

/// What one end sends to the other from one handshake to the next, by the nonces of both. Each
/// direction has its own, with a key of its own, so that a frame sent back to its sender is not
/// accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Session {
    /// The nonce of the end that sends in it.
    pub sender: Nonce,
    /// The nonce of the end that receives.
    pub receiver: Nonce,
}

impl Session {
    /// What frames name it by: SipHash-2-4 under the key 0 of `vernier session` and both nonces,
    /// big-endian; 1 in place of 0.
    pub fn id(self) -> SessionId {
        let message = self.labelled(b"vernier session");
        let hash = sip::SipHasher24::new_with_keys(0, 0).hash(&message);
        SessionId(NonZeroU64::new(hash).unwrap_or(NonZeroU64::MIN))
    }

    fn labelled(self, label: &[u8]) -> ArrayVec<u8, 40> {
        let nonces = [self.sender, self.receiver].map(|nonce| nonce.0.get().to_be_bytes());
        let bytes = label.iter().copied().chain(nonces.into_iter().flatten());
        bytes.take(40).collect()
    }
}

/// A session's name in frames: no secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionId(NonZeroU64);

impl SessionId {
    pub(crate) fn number(self) -> u64 {
        self.0.get()
    }

    pub(crate) fn from_number(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }
}

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

/// Mutual nonces: how two ends know that they hear each other now, not a recording.
///
/// Each end draws a nonce when it starts and says it in every hello, with the other's beside it
/// once heard. A hello that says back what this end drew was made after that: it is fresh.
///
/// ```text
///  A draws a                      B draws b
///     | -------- a, none ----------> |
///     | <------- b, a -------------- |   A hears a back: session (a, b)
///     | -------- a, b -------------> |   B hears b back: session (b, a)
///     :                              :
///     :                              B restarts, draws c
///     | <------- c, none ----------- |   may be a recording: challenge it, keep the session
///     | -------- d, c -------------> |   A draws d;  B hears c back: session (c, d)
///     | <------- c, d -------------- |   A hears d back: session (d, c), the old one is over
/// ```
///
/// A session is renewed in the same way, without an end of it: an end says a new nonce in its hellos
/// as if it had been started anew, and which nonce it follows. Both ends know by that that the other
/// has kept what it has counted, and the sessions after the handshake continue those before.
///
/// ```text
///     :  sessions (a, b) and (b, a)  :
///     | -------- c for a, b -------> |   as above: B cannot tell yet, and draws d
///     | <------- d for b, c -------- |   A hears c back, and that B has kept b: hears in (d, c), too
///     | -------- c for a, d -------> |   B hears d back, and that A has kept a: hears in (c, d), too, and
///     | <------- frames (d, c) ----- |   sends in (d, c)
///     | -------- frames (c, d) ----> |   A knows by those that B hears in (c, d)
/// ```
///
/// No end uses a nonce of its own for two sessions: an old hello can neither end a session nor
/// bring one back.
///
/// An end in a session draws one spare nonce (d above) and says it to all who come with a new
/// nonce, recordings among them, until someone says it back. It is not drawn anew for the next who
/// comes: B may have begun its session with d by then, and says d back ever after. An A that knew
/// only some e would hold that for a recording, as B would what A says, and neither would answer.
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

#[cfg(test)]
mod tests;
