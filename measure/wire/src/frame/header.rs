//! The frame that every kind of control message travels in.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0..4 | magic | `VRNR` |
//! | 4 | version | 2 |
//! | 5 | kind | see [`Kind`] |
//! | 6..8 | key | which key of the wire the tag, or the session's key, was made with; 0: none |
//! | 8..10 | body length | b, in bytes |
//! | 10..12 | port | of the sender |
//! | 12..16 | switch | the sender |
//! | 16..18 | segment | the sender's index of it; in a hello the minor version of its protocol, which 2.0 always has as 0 and does not look at |
//! | 18..26 | session | 0 in a hello, which makes it |
//! | 26..34 | sequence | counts frames of one kind in one session, from 1; 0 in a hello |
//! | 34..42 | epoch | that the body speaks of |
//! | 42..50 | time | when it was sealed: TAI, ns since 1970-01-01 TAI, signed |
//! | 50..50+b | body | by kind |
//! | 50+b..66+b | tag | SipHash-2-4-128 of all bytes before it, as its authors order them: under the wire's key in a hello, else under the session's ([`Key::of_session`](crate::session::Key::of_session)) |
//!
//! Behind an Ethernet header every 64-bit field is aligned, and the body starts with the frame's
//! second cache line. No frame is as short as to be padded, so that bytes behind the tag are an
//! error.

use super::FrameError;
use crate::codec::{Number, Put};
use crate::session::{KeyId, SessionId, TAG_BYTES};
use measure::time::Epoch;

/// The first four bytes of every control frame.
pub const MAGIC: [u8; 4] = *b"VRNR";
/// Version of the protocol: frames of another are refused.
pub const VERSION: u8 = 2;
/// Minor version: rises with every kind of frame that is added, which is sent only to ends that have it.
pub const VERSION_MINOR: u16 = 1;
/// Bytes before the body.
pub const HEADER_BYTES: usize = 50;
/// Most bytes of a control frame, header and tag included: the payload of a jumbo frame.
pub const FRAME_BYTES_MAX: usize = 9_000;
/// Most bytes of a control frame where nothing else is configured: the payload of an Ethernet
/// frame.
pub const FRAME_BYTES_DEFAULT: usize = 1_500;

/// Bytes of the largest body that a frame of `frame_bytes` holds; 0 where it holds none.
pub const fn body_room(frame_bytes: usize) -> usize {
    frame_bytes.saturating_sub(HEADER_BYTES + TAG_BYTES)
}

/// Where the kind is.
pub(super) const KIND_AT: usize = field::KIND;

/// Where fields begin.
mod field {
    pub const VERSION: usize = 4;
    pub const KIND: usize = 5;
    pub const KEY: usize = 6;
    pub const BODY_LENGTH: usize = 8;
    pub const PORT: usize = 10;
    pub const SWITCH: usize = 12;
    pub const SEGMENT: usize = 16;
    pub const SESSION: usize = 18;
    pub const SEQUENCE: usize = 26;
    pub const EPOCH: usize = 34;
    pub const TIME: usize = 42;
}

/// What a control frame is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Who is there, how it is configured, and which session this is: [`Hello`](super::Hello).
    Hello = 1,
    /// An epoch turns here: [`Marker`](super::Marker).
    Marker = 2,
    /// Packets around the turn: [`Stash`](super::Stash).
    Stash = 3,
    /// A range of a sealed synopsis: [`Fragment`](crate::codec::Fragment).
    Fragment = 4,
    /// A packet that carries its own time: [`Reference`](super::Reference).
    Reference = 5,
    /// Ranges to be sent once more: [`Request`](super::Request).
    Request = 6,
    /// What came out of an epoch: [`Report`](super::Report).
    Report = 7,
    /// The least delay of an epoch: [`Floor`](super::Floor).
    Floor = 8,
}

impl Kind {
    /// Number of kinds.
    pub const COUNT: usize = Self::ALL.len();

    /// Every kind, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Hello,
        Self::Marker,
        Self::Stash,
        Self::Fragment,
        Self::Reference,
        Self::Request,
        Self::Report,
        Self::Floor,
    ];

    /// Its name in tables and labels.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Hello => "hello",
            Self::Marker => "marker",
            Self::Stash => "stash",
            Self::Fragment => "fragment",
            Self::Reference => "reference",
            Self::Request => "request",
            Self::Report => "report",
            Self::Floor => "floor",
        }
    }

    /// The minor version of the protocol that has it first.
    pub const fn since_minor(self) -> u16 {
        match self {
            Self::Floor => 1,
            _ => 0,
        }
    }

    /// Its place in [`ALL`](Self::ALL).
    pub const fn index(self) -> usize {
        self as usize - 1
    }

    fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&kind| kind as u8 == number)
    }
}

/// What a frame says of itself, beside its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Which key the tag was made with.
    pub key: KeyId,
    /// The sender.
    pub switch: u32,
    /// Its port.
    pub port: u16,
    /// Its index of the segment that the body speaks of; in a hello the minor version of its protocol.
    pub segment: u16,
    /// The session; `None` in a hello.
    pub session: Option<SessionId>,
    /// Which frame of its kind it is in the session, from 1; 0 in a hello.
    pub sequence: u64,
    /// The epoch that the body speaks of.
    pub epoch: Epoch,
    /// When it was sealed: nanoseconds of TAI since 1970-01-01.
    pub tai_ns: i64,
}

impl Header {
    /// Appends it, as that of a frame with a body of `body_bytes`.
    pub fn emit(&self, kind: Kind, body_bytes: u16, out: &mut impl Put) {
        out.put(&MAGIC);
        out.put_number(VERSION);
        out.put_number(kind as u8);
        out.put_number(self.key.0);
        out.put_number(body_bytes);
        out.put_number(self.port);
        out.put_number(self.switch);
        out.put_number(self.segment);
        out.put_number(self.session.map_or(0, SessionId::number));
        out.put_number(self.sequence);
        out.put_number(self.epoch.0);
        out.put_number(self.tai_ns);
    }
}

/// A view of a control frame: its lengths, magic, version and kind are checked, its tag is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    kind: Kind,
    header: &'a [u8; HEADER_BYTES],
    body: &'a [u8],
    tag: &'a [u8; TAG_BYTES],
    /// Header and body.
    tagged: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Looks at `bytes`, which are a control frame and nothing else: what follows an Ethernet or
    /// UDP header.
    ///
    /// # Errors
    /// [`FrameError`] for all but one whole frame of this version and a known kind.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, FrameError> {
        if !bytes.starts_with(&MAGIC) {
            return Err(FrameError::Magic);
        }
        let truncated = FrameError::Truncated { bytes: bytes.len() };
        let (header, _) = bytes
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or(truncated.clone())?;
        let version = number(header, field::VERSION);
        if version != VERSION {
            return Err(FrameError::Version { version });
        }
        if bytes.len() > FRAME_BYTES_MAX {
            return Err(FrameError::Oversized { bytes: bytes.len() });
        }
        let (tagged, tag) = bytes
            .split_last_chunk::<TAG_BYTES>()
            .ok_or(truncated.clone())?;
        let announced = usize::from(number::<u16, 2>(header, field::BODY_LENGTH));
        let body = tagged.get(HEADER_BYTES..).ok_or(truncated.clone())?;
        if body.len() < announced {
            return Err(truncated);
        }
        if body.len() > announced {
            return Err(FrameError::Trailing {
                left: body.len() - announced,
            });
        }
        let kind = number(header, field::KIND);
        Ok(Self {
            kind: Kind::from_number(kind).ok_or(FrameError::Kind { kind })?,
            header,
            body,
            tag,
            tagged,
        })
    }

    /// What it is for.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What its header says.
    pub fn header(&self) -> Header {
        Header {
            key: KeyId(number(self.header, field::KEY)),
            switch: number(self.header, field::SWITCH),
            port: number(self.header, field::PORT),
            segment: number(self.header, field::SEGMENT),
            session: SessionId::from_number(number(self.header, field::SESSION)),
            sequence: number(self.header, field::SEQUENCE),
            epoch: Epoch(number(self.header, field::EPOCH)),
            tai_ns: number(self.header, field::TIME),
        }
    }

    /// Its body: parse it with [`Message::parse`](super::Message::parse).
    pub fn body(&self) -> &'a [u8] {
        self.body
    }

    /// Its tag.
    pub fn tag(&self) -> [u8; TAG_BYTES] {
        *self.tag
    }

    /// The bytes that the tag is made of.
    pub(super) fn tagged(&self) -> &'a [u8] {
        self.tagged
    }
}

/// The number at a field's place. Places are constants under [`HEADER_BYTES`] less a number's size,
/// so that the zeros for what lies beyond are never used.
fn number<T: Number<N>, const N: usize>(header: &[u8; HEADER_BYTES], at: usize) -> T {
    T::from_bytes(std::array::from_fn(|byte| {
        header.get(at + byte).copied().unwrap_or(0)
    }))
}
