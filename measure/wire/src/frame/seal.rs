//! Makes and checks frames, with tags, sessions and sequence numbers.

use super::{Body, FRAME_BYTES_MAX, Frame, HEADER_BYTES, Header, Kind, Refusal, TAG_BYTES};
use crate::codec::Slot;
use crate::session::{Key, KeyId, KeyRing, Session, SessionId};
use measure::time::Epoch;

/// Why a frame cannot be sealed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The buffer is too small.
    #[error("a control frame of {needed} bytes does not fit the buffer of {room}")]
    NoRoom {
        /// Bytes of the frame.
        needed: usize,
        /// Bytes of the buffer, or [`FRAME_BYTES_MAX`].
        room: usize,
    },
    /// Only hellos can be sent before both ends know each other.
    #[error("no session yet: exchange hellos first")]
    NoSession,
    /// The key is not in the ring.
    #[error("no key {} to seal with", id.0)]
    UnknownKey {
        /// The id asked for.
        id: KeyId,
    },
    /// All sequence numbers are used.
    #[error("sequence numbers used up: begin a new session")]
    Exhausted,
}

/// Context of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subject {
    /// The sender's index of the segment.
    pub segment: u16,
    /// The epoch.
    pub epoch: Epoch,
    /// Now: nanoseconds of TAI since 1970-01-01.
    pub tai_ns: i64,
}

/// Seals frames that one port sends to one peer.
///
/// Each kind has its own sequence, so two sealers may share a session if they send different kinds (a
/// worker its markers and references, the control core the rest). Two sealers of one kind would make each
/// other's frames look replayed.
#[derive(Debug, Clone)]
pub struct Sealer {
    switch: u32,
    port: u16,
    id: KeyId,
    /// The wire's.
    key: Key,
    session: Option<Sealing>,
    sealed: [u64; Kind::COUNT],
}

/// A session for sealing frames.
#[derive(Debug, Clone)]
struct Sealing {
    session: Session,
    id: SessionId,
    key: Key,
}

impl Sealing {
    fn new(session: Session, wire: &Key) -> Self {
        Self {
            session,
            id: session.id(),
            key: wire.of_session(session),
        }
    }
}

impl Sealer {
    /// Seals for a port of a switch, with the ring's key `id`.
    ///
    /// # Errors
    /// [`SealError::UnknownKey`] if the ring does not have it; [`KeyId::NONE`] is only in rings that trust.
    pub fn new(switch: u32, port: u16, keys: &KeyRing, id: KeyId) -> Result<Self, SealError> {
        Ok(Self {
            switch,
            port,
            id,
            key: keys.get(id).ok_or(SealError::UnknownKey { id })?.clone(),
            session: None,
            sealed: [0; Kind::COUNT],
        })
    }

    /// Begins a session: sequences start again.
    pub fn begin(&mut self, session: Session) {
        self.session = Some(Sealing::new(session, &self.key));
        self.sealed = [0; Kind::COUNT];
    }

    /// Seals with the ring's key `id` from now on. The session and its sequences continue.
    ///
    /// # Errors
    /// [`SealError::UnknownKey`] if the ring does not have it; nothing is changed then.
    pub fn set_key(&mut self, keys: &KeyRing, id: KeyId) -> Result<(), SealError> {
        self.key = keys.get(id).ok_or(SealError::UnknownKey { id })?.clone();
        self.id = id;
        if let Some(sealing) = &mut self.session {
            *sealing = Sealing::new(sealing.session, &self.key);
        }
        Ok(())
    }

    /// Ends the session: only hellos can be sealed.
    pub fn end(&mut self) {
        self.session = None;
    }

    /// Writes a whole frame to the front of `buffer` and returns its length. Allocates nothing.
    ///
    /// # Errors
    /// [`SealError`]; no sequence number is used then.
    pub fn seal<B: Body>(
        &mut self,
        subject: Subject,
        body: &B,
        buffer: &mut [u8],
    ) -> Result<usize, SealError> {
        let (session, sequence) = self.next(B::KIND)?;
        let header = Header {
            key: self.id,
            switch: self.switch,
            port: self.port,
            segment: subject.segment,
            session,
            sequence,
            epoch: subject.epoch,
            tai_ns: subject.tai_ns,
        };
        let room = buffer.len().min(FRAME_BYTES_MAX);
        let buffer = buffer.get_mut(..room).unwrap_or_default();

        let (head, rest) = buffer.split_at_mut(room.min(HEADER_BYTES));
        let mut slot = Slot::new(rest);
        body.emit(&mut slot);
        let body_bytes = slot.len();
        let needed = (HEADER_BYTES + TAG_BYTES).saturating_add(body_bytes);
        let no_room = SealError::NoRoom { needed, room };
        let body_length = u16::try_from(body_bytes).map_err(|_| no_room.clone())?;
        header.emit(B::KIND, body_length, &mut Slot::new(head));

        let frame = buffer.get_mut(..needed).ok_or(no_room.clone())?;
        let (tagged, tag) = frame.split_last_chunk_mut().ok_or(no_room)?;
        let of_session = self.session.as_ref().filter(|_| session.is_some());
        *tag = of_session.map_or(&self.key, |one| &one.key).tag(tagged);
        if session.is_some() {
            self.sealed[B::KIND.index()] = sequence;
        }
        Ok(needed)
    }

    /// The session and sequence number of the next frame of a kind.
    fn next(&self, kind: Kind) -> Result<(Option<SessionId>, u64), SealError> {
        if kind == Kind::Hello {
            return Ok((None, 0));
        }
        let session = self.session.as_ref().ok_or(SealError::NoSession)?.id;
        let sequence = self.sealed[kind.index()]
            .checked_add(1)
            .ok_or(SealError::Exhausted)?;
        Ok((Some(session), sequence))
    }
}

/// A session whose frames are accepted.
#[derive(Debug, Clone)]
struct Hearing {
    session: Session,
    id: SessionId,
    keys: KeyRing,
    windows: [ReplayWindow; Kind::COUNT],
}

impl Hearing {
    fn new(session: Session, wire: &KeyRing) -> Self {
        Self {
            session,
            id: session.id(),
            keys: wire.of_session(session),
            windows: [ReplayWindow::default(); Kind::COUNT],
        }
    }
}

/// Checks frames that one port receives from one peer.
#[derive(Debug, Clone)]
pub struct Verifier {
    keys: KeyRing,
    present: Option<Hearing>,
    /// The session before the last renewal, whose frames may still be in flight.
    previous: Option<Hearing>,
}

impl Verifier {
    /// Accepts frames under any of `keys`.
    pub fn new(keys: KeyRing) -> Self {
        Self {
            keys,
            present: None,
            previous: None,
        }
    }

    /// Begins a session: frames of any other are rejected, sequences start again.
    pub fn begin(&mut self, session: Session) {
        self.previous = None;
        self.present = Some(Hearing::new(session, &self.keys));
    }

    /// Continues with a session after the current one. Frames of the current one are accepted as well until
    /// it is [forgotten](Self::forget).
    pub fn renew(&mut self, session: Session) {
        let next = Hearing::new(session, &self.keys);
        self.previous = self.present.replace(next);
    }

    /// Rejects frames of the previous session from now on.
    pub fn forget(&mut self) {
        self.previous = None;
    }

    /// Accepts only frames under any of `keys` from now on. Sessions and sequences continue.
    pub fn set_keys(&mut self, keys: KeyRing) {
        self.keys = keys;
        for hearing in [&mut self.present, &mut self.previous]
            .into_iter()
            .flatten()
        {
            hearing.keys = self.keys.of_session(hearing.session);
        }
    }

    /// Ends the session: only hellos are accepted.
    pub fn end(&mut self) {
        self.present = None;
        self.previous = None;
    }

    /// Checks the frame in `bytes`: form, key, session, sequence and tag, in this order; a tag is only
    /// computed if everything else is right.
    ///
    /// A hello belongs to no session and may be a replay, which [`Handshake`](crate::session::Handshake)
    /// detects.
    ///
    /// # Errors
    /// [`Refusal`]; such a frame changes nothing.
    pub fn open<'a>(&mut self, bytes: &'a [u8]) -> Result<Frame<'a>, Refusal> {
        let frame = Frame::parse(bytes)?;
        let header = frame.header();
        let id = header.key;
        let wire = self.keys.get(id).ok_or(Refusal::UnknownKey)?;
        let is_right = |key: &Key| key.verify(frame.tagged(), frame.tag());
        if frame.kind() == Kind::Hello {
            return match header.session {
                Some(_) => Err(Refusal::Session),
                None if is_right(wire) => Ok(frame),
                None => Err(Refusal::Tag),
            };
        }
        let mut sessions = [&mut self.present, &mut self.previous]
            .into_iter()
            .flatten();
        let hearing = sessions.find(|hearing| header.session == Some(hearing.id));
        let hearing = hearing.ok_or(Refusal::Session)?;
        let sequence = header.sequence;
        let window = &mut hearing.windows[frame.kind().index()];
        if !window.is_new(sequence) {
            return Err(Refusal::Replayed);
        }
        if !hearing.keys.get(id).is_some_and(is_right) {
            return Err(Refusal::Tag);
        }
        window.accept(sequence);
        Ok(frame)
    }
}

/// The latest sequence numbers seen (RFC 4303, section 3.4.3 and appendix A2): the greatest, and one bit
/// for each of the 64 up to it. Older ones count as seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplayWindow {
    /// 0 before the first.
    greatest: u64,
    /// Bit i: `greatest - i` was seen.
    seen: u64,
}

impl ReplayWindow {
    /// How far a frame may fall behind.
    pub const WIDTH: u64 = 64;

    /// Whether a sequence number is not 0, not older than the window, and was not seen.
    pub fn is_new(&self, sequence: u64) -> bool {
        let behind = self.greatest.saturating_sub(sequence);
        let is_known = behind >= Self::WIDTH || self.seen >> behind & 1 == 1;
        sequence > self.greatest || sequence != 0 && !is_known
    }

    /// Notes a sequence number; returns `false` if it is not [new](Self::is_new).
    ///
    /// Only call this after the frame has proved authentic, or anyone could move the window.
    pub fn accept(&mut self, sequence: u64) -> bool {
        if !self.is_new(sequence) {
            return false;
        }
        if sequence > self.greatest {
            let ahead = sequence - self.greatest;
            let kept = if ahead < Self::WIDTH {
                self.seen << ahead
            } else {
                0
            };
            self.seen = kept | 1;
            self.greatest = sequence;
            return true;
        }
        self.seen |= 1 << (self.greatest - sequence);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn numbers_beyond_the_window_are_refused() {
        let mut window = ReplayWindow::default();
        assert!(!window.accept(0));
        assert!(window.accept(100));
        assert!(window.accept(37));
        assert!(!window.accept(36));
        assert!(!window.accept(100));
        assert!(window.accept(u64::MAX));
        assert!(!window.accept(101));
        assert!(window.accept(u64::MAX - 63));
    }

    proptest! {
        #[test]
        fn a_window_is_a_set_of_the_latest(sequences in proptest::collection::vec(0_u64..200, 0..300)) {
            let mut window = ReplayWindow::default();
            let (mut seen, mut greatest) = (HashSet::new(), 0);
            for sequence in sequences {
                let fresh = sequence > 0 && sequence + 64 > greatest && seen.insert(sequence);
                greatest = greatest.max(sequence);
                prop_assert_eq!(window.is_new(sequence), fresh, "{}", sequence);
                prop_assert_eq!(window.accept(sequence), fresh, "{}", sequence);
            }
        }
    }
}
