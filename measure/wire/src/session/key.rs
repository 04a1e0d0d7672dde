//! Keys, tags, and the names of sessions.

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
