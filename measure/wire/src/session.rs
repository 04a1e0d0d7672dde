//! Sessions between two ends of a wire: keys, nonces, and the handshake that starts a session.
//!
//! Without a key, nobody can make a frame that is accepted (SipHash-2-4-128 as a MAC; forging succeeds with
//! probability 2^-128 a try) or replay an old one (sessions from mutual nonces, with derived keys; a replay
//! window for each kind of frame). Frames are not secret. Without keys they are accepted on trusted ports
//! only ([`KeyRing::trusting`]), and the tag is a mere checksum.

use std::fmt;
use std::num::NonZeroU64;

use arrayvec::ArrayVec;
use siphasher::{sip, sip128};
use zeroize::Zeroize;

/// Bytes of a tag.
pub const TAG_BYTES: usize = 16;

/// Identifies a key, so that keys can be changed at one end after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub u16);

impl KeyId {
    /// No key: such frames are only accepted on trusted ports.
    pub const NONE: Self = Self(0);
}

/// A key of 128 bits: of a wire, shared by its two ends, or of one direction of a session. Its bytes are
/// overwritten when it is dropped.
#[derive(Clone)]
pub struct Key([u8; 16]);

impl Key {
    /// A key with these bytes, which should be random.
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

    /// Derives the key of a session, which nobody can compute without this key, and which reveals nothing
    /// about it: SipHash-2-4-128, a pseudorandom function, of `vernier session key` and the nonces of
    /// sender and receiver, big-endian. No frame begins like that, so no tag equals a session's key.
    #[must_use]
    pub fn of_session(&self, session: Session) -> Self {
        Self(self.tag(&session.labelled(b"vernier session key")))
    }

    /// Whether the tag is correct. Takes constant time: the tags are compared as one number, without
    /// branches.
    pub(crate) fn verify(&self, bytes: &[u8], tag: [u8; TAG_BYTES]) -> bool {
        u128::from_ne_bytes(self.tag(bytes)) ^ u128::from_ne_bytes(tag) == 0
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// Hides the key from logs.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").finish_non_exhaustive()
    }
}

/// Why keys cannot be held together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyRingError {
    /// More than [`KeyRing::KEYS_MAX`].
    #[error(
        "more than {} keys; remove those that no switch uses any more",
        KeyRing::KEYS_MAX
    )]
    Full,
    /// Id 0, which means no key.
    #[error("key id 0 means no key; number keys from 1")]
    Zero,
    /// Two keys with the same id.
    #[error("key {} is listed twice; give each key a unique id", id.0)]
    Twice {
        /// The id.
        id: KeyId,
    },
}

/// The keys under which frames are accepted.
#[derive(Debug, Clone, Default)]
pub struct KeyRing {
    keys: ArrayVec<(KeyId, Key), { Self::KEYS_MAX }>,
    /// The key of frames without a key, if they are accepted. Everybody knows it, so their tag is only a
    /// checksum.
    public: Option<Key>,
}

impl KeyRing {
    /// Most keys.
    pub const KEYS_MAX: usize = 16;

    /// No keys: nothing is accepted.
    pub fn new() -> Self {
        Self::default()
    }

    /// Accepts frames without a key as well, for a port that the operator marked trusted.
    #[must_use]
    pub fn trusting(mut self) -> Self {
        self.public = Some(Key([0; 16]));
        self
    }

    /// Adds a key.
    ///
    /// # Errors
    /// [`KeyRingError`] if there is no room, or `id` is 0 or taken.
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

    /// The key with this id, if its frames are accepted.
    pub fn get(&self, id: KeyId) -> Option<&Key> {
        if id == KeyId::NONE {
            return self.public.as_ref();
        }
        self.keys
            .iter()
            .find_map(|(held, key)| (*held == id).then_some(key))
    }

    /// The session keys derived from each of these.
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

/// A random number used once, neither predictable nor ever repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Nonce(pub NonZeroU64);

impl Nonce {
    /// A nonce from random bits.
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

/// One direction of a session, by the nonces of both ends. Each direction has its own name and key, so that
/// a frame reflected to its sender is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Session {
    /// The nonce of the sending end.
    pub sender: Nonce,
    /// The nonce of the receiving end.
    pub receiver: Nonce,
}

impl Session {
    /// Its name in frames: SipHash-2-4 under key 0 of `vernier session` and both nonces, big-endian; 1
    /// instead of 0.
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

/// A session's name in frames; not secret.
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
    /// For frames that this end sends.
    pub sending: Session,
    /// For frames that it receives.
    pub receiving: Session,
}

impl Sessions {
    /// The sessions of an end that drew `own`, with one that drew `peer`.
    pub fn new(own: Nonce, peer: Nonce) -> Self {
        let direction = |sender, receiver| Session { sender, receiver };
        Self {
            sending: direction(own, peer),
            receiving: direction(peer, own),
        }
    }
}

/// The nonces in a hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nonces {
    /// The sender's own.
    pub own: Nonce,
    /// The nonce received from the other end; `None` before the first.
    pub peer: Option<Nonce>,
    /// The nonce that `own` replaces: the sender still has its counts since it drew that nonce. `None`
    /// after a start.
    pub renews: Option<Nonce>,
}

/// Meaning of a received hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// From this switch: ports are looped, or two switches share a number.
    Loop,
    /// From the peer of the current session, which receives this end's hellos.
    Alive,
    /// From an end that has not proved to be live: answer with these nonces at once.
    Answer(Nonces),
    /// A new session. Start it on sealers and verifier, and send the new nonces in a hello.
    Established(Sessions),
    /// The session continues under new nonces. Send them in a hello.
    Renewed {
        /// Sessions to accept from now on, beside the old ones.
        sessions: Sessions,
        /// Whether the peer already receives in them, so that this end can send in them. If not, wait until
        /// a frame of theirs arrives.
        is_heard: bool,
    },
    /// A reply to an earlier hello; ignore it.
    Stale,
}

/// Mutual nonces: both ends know that the other is live, and not a recording.
///
/// Each end draws a nonce when it starts and sends it in every hello, together with the other's once
/// received. A hello that contains this end's nonce was made after that: it is fresh.
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
/// A session is renewed in the same way without ending it: an end sends a new nonce in its hellos as if it
/// had restarted, and the nonce that it replaces. Both ends then know that the other has kept its counts,
/// and the sessions after the handshake continue the previous ones.
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
/// No end uses one of its nonces for two sessions: an old hello can neither end a session nor revive one.
///
/// An end in a session draws one spare nonce (d above) and sends it to everyone with a new nonce, including
/// recordings, until someone returns it. It does not draw another for the next one. B may already have
/// started its session with d, and returns d from then on; an A that only knew some e would take that for a
/// recording, as B would take A's hellos, and neither would answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Handshake {
    switch: u32,
    own: Nonce,
    /// The other end's nonce, as last received.
    peer: Option<Nonce>,
    /// Whether the peer has returned `own`.
    established: bool,
    /// The nonce that `own` replaces.
    renews: Option<Nonce>,
    /// Drawn for the session that this end wants next, and never sent before.
    renewal: Option<Nonce>,
    /// Drawn for the next session, and sent to everyone who may be the restarted peer: the one that returns
    /// it is. It is the same for all, so that a recording cannot use it up.
    spare: Option<Nonce>,
}

impl Handshake {
    /// Starts with a fresh nonce, on a port of the switch with this number.
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

    /// The nonces of the next hello, to be sent from time to time.
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

    /// The same with a nonce that replaces the current one.
    fn following(&self, next: Nonce, peer: Option<Nonce>) -> Nonces {
        Nonces {
            own: next,
            peer,
            renews: Some(self.own),
        }
    }

    /// Requests a new session after the current one, if there is one. Only call this at one end: if both
    /// want one at once, each waits for the other.
    pub fn renew(&mut self, draw: impl FnOnce() -> Nonce) {
        if self.established {
            self.renewal.get_or_insert_with(draw);
        }
    }

    /// Whether a new session was requested and has not begun.
    pub fn is_renewing(&self) -> bool {
        self.renewal.is_some()
    }

    /// Processes the nonces of an authenticated hello from `switch`. `draw` returns a random nonce.
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
                // It had no session yet when this end requested a new one.
                Some(echo) if self.renewal == Some(echo) => self.establish(echo, peer, renews),
                Some(_) => Heard::Stale,
                // It has not received the answer yet.
                None => Heard::Answer(self.nonces()),
            };
        }
        match echo {
            Some(echo) if [self.spare, self.renewal].contains(&Some(echo)) => {
                self.establish(echo, peer, renews)
            }
            Some(echo) if echo != self.own => Heard::Stale,
            // It has received nothing from here, or only what this end sends to its peer.
            _ => {
                let spare = *self.spare.get_or_insert_with(draw);
                Heard::Answer(self.following(spare, Some(peer)))
            }
        }
    }

    /// `renews` is the nonce that the peer's nonce replaces, according to its hello.
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
                // The other end has received its nonce back, unless this end asked first.
                is_heard: !is_asked_for,
            }
        } else {
            Heard::Established(sessions)
        }
    }
}

#[cfg(test)]
mod tests;
