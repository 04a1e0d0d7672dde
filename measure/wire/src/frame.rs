//! The control frames of a wire segment, version 2.1.
//!
//! ```text
//!  Hello, Marker, Stash, Reference ----+                        +--> Handshake (session)
//!                                      v                        |
//!  fragments (codec) ----------> Sealer::seal ==> Verifier::open --+--> Message --> Assembler (codec)
//!                   ^         header, tag      tag, session,    |                    |
//!                   |                          replay           |                    v
//!                   +-------------- Request <-------------------+--------------- missing ranges
//! ```
//!
//! Two switches that share a wire segment exchange *control frames*: a header, a body by [`Kind`], a tag.
//! The byte formats are documented beside their types: [`Header`] (header and tag), [`Hello`], [`Marker`],
//! [`Stash`], [`codec::fragment`](crate::codec::fragment), [`Reference`], [`Request`], [`Report`],
//! [`Floor`]. Test vectors from another implementation are in `frame/golden`.
//!
//! - Everything is big-endian, like the protocols around it. Tags are the bytes in the order that SipHash's authors
//!   output them.
//! - Every body has a representation with `parse` and `emit` (large ones also have a view of the received bytes), and
//!   a single form: what parses is emitted again byte for byte.
//! - Additions that do not change existing parts raise the minor version, which hellos carry. A kind of frame is only
//!   sent to ends whose minor version has it. Version 2.0 is that of 0.1.0 up to 78f1034.
//! - Nothing is accepted before its tag, session and sequence are checked.
//! - Writing allocates nothing: frames are sealed in the buffer they are sent from.

use crate::codec::{Element, Fragment, FragmentView, ParseError, Put, Reader};
use crate::session::{KeyId, SessionId};
use measure::labelled_enum;
use measure::time::Epoch;

mod epoch;
mod hello;
mod in_band;
mod seal;

pub use super::session::TAG_BYTES;
pub use epoch::{EpochFate, Floor, RANGES_MAX, Report, Request, Side, Stash, StashView, Stashed};
pub use hello::{Claim, ClockState, Hello, Mismatch, NAME_MAX, PortName, SHAPES_MAX, seed_check};
pub use in_band::{FRAME_BYTES as REFERENCE_FRAME_BYTES, Marker, Reference};
pub use seal::{ReplayWindow, SealError, Sealer, Subject, Verifier};

/// The first four bytes of every control frame.
pub const MAGIC: [u8; 4] = *b"VRNR";
/// Version of the protocol: frames of other versions are rejected.
pub const VERSION: u8 = 2;
/// Minor version, incremented with every added kind of frame, which is only sent to ends that have it.
pub const VERSION_MINOR: u16 = 1;
/// Bytes before the body.
pub const HEADER_BYTES: usize = 50;
/// Most bytes of a control frame, header and tag included: the payload of a jumbo frame.
pub const FRAME_BYTES_MAX: usize = 9_000;
/// Most bytes of a control frame by default: the payload of an Ethernet frame.
pub const FRAME_BYTES_DEFAULT: usize = 1_500;

/// Bytes of the largest body in a frame of `frame_bytes`; 0 if there is no room.
pub const fn body_room(frame_bytes: usize) -> usize {
    frame_bytes.saturating_sub(HEADER_BYTES + TAG_BYTES)
}

/// Where the kind is.
const KIND_AT: usize = 5;

labelled_enum! {
    /// Purpose of a control frame.
    #[derive(PartialOrd, Ord)]
    pub enum Kind {
        /// Identity, configuration and session: [`Hello`].
        Hello = "hello",
        /// A rollover: [`Marker`].
        Marker = "marker",
        /// Packets around a rollover: [`Stash`].
        Stash = "stash",
        /// A range of a sealed synopsis: `codec::Fragment`.
        Fragment = "fragment",
        /// A packet that carries its own time: [`Reference`].
        Reference = "reference",
        /// Ranges to retransmit: [`Request`].
        Request = "request",
        /// Results of an epoch: [`Report`].
        Report = "report",
        /// The least delay of an epoch: [`Floor`].
        Floor = "floor",
    }
}

impl Kind {
    /// Number of kinds.
    pub const COUNT: usize = Self::ALL.len();

    /// The first minor version of the protocol that has it.
    pub const fn since_minor(self) -> u16 {
        match self {
            Self::Floor => 1,
            _ => 0,
        }
    }

    /// Its index in [`ALL`](Self::ALL).
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Its number in a frame, from 1.
    pub const fn number(self) -> u8 {
        self as u8 + 1
    }

    fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number.checked_sub(1)?)).copied()
    }
}

/// The envelope of every control message.
///
/// | bytes | field | |
/// |---|---|---|
/// | 0..4 | magic | `VRNR` |
/// | 4 | version | 2 |
/// | 5 | kind | see [`Kind`] |
/// | 6..8 | key | id of the wire's key from which the tag, or the session's key, was made; 0: none |
/// | 8..10 | body length | b, in bytes |
/// | 10..12 | port | of the sender |
/// | 12..16 | switch | the sender |
/// | 16..18 | segment | the sender's index of it; in a hello the minor version of its protocol; 2.0 always sends 0 and ignores it |
/// | 18..26 | session | 0 in a hello, which makes it |
/// | 26..34 | sequence | counts frames of one kind in one session, from 1; 0 in a hello |
/// | 34..42 | epoch | of the body |
/// | 42..50 | time | when it was sealed: TAI, ns since 1970-01-01 TAI, signed |
/// | 50..50+b | body | by kind |
/// | 50+b..66+b | tag | SipHash-2-4-128 of all bytes before it, as its authors order them: under the wire's key in a hello, else under the session's ([`Key::of_session`](crate::session::Key::of_session)) |
///
/// Behind an Ethernet header every 64-bit field is aligned, and the body starts with the frame's second
/// cache line. No frame is short enough to be padded, so bytes behind the tag are an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The key from which the tag was made.
    pub key: KeyId,
    /// The sender.
    pub switch: u32,
    /// Its port.
    pub port: u16,
    /// Its index of the body's segment; in a hello the minor version of its protocol.
    pub segment: u16,
    /// The session; `None` in a hello.
    pub session: Option<SessionId>,
    /// Its number among frames of its kind in the session, from 1; 0 in a hello.
    pub sequence: u64,
    /// The epoch of the body.
    pub epoch: Epoch,
    /// Time of sealing: nanoseconds of TAI since 1970-01-01.
    pub tai_ns: i64,
}

impl Header {
    /// Appends the header of a frame with a body of `body_bytes`.
    pub fn emit(&self, kind: Kind, body_bytes: u16, out: &mut impl Put) {
        out.put(&MAGIC);
        out.put_number(VERSION);
        out.put_number(kind.number());
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

/// A view of a control frame: its lengths, magic, version and kind are checked, but not its tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    kind: Kind,
    header: Header,
    body: &'a [u8],
    tag: &'a [u8; TAG_BYTES],
    /// Header and body.
    tagged: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Parses `bytes`, which must be exactly a control frame: the bytes behind an Ethernet or UDP header.
    ///
    /// # Errors
    /// [`Refusal`] for all but one whole frame of this version and a known kind.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Refusal> {
        if !bytes.starts_with(&MAGIC) {
            return Err(Refusal::Malformed);
        }
        let head = bytes.first_chunk::<HEADER_BYTES>();
        let version = head.ok_or(Refusal::Malformed)?[MAGIC.len()];
        if version != VERSION {
            return Err(Refusal::Version(version));
        }
        let (tagged, tag) = bytes
            .split_last_chunk::<TAG_BYTES>()
            .filter(|_| bytes.len() <= FRAME_BYTES_MAX)
            .ok_or(Refusal::Malformed)?;
        let mut reader = Reader::new(tagged);
        reader.bytes("magic and version", MAGIC.len() + 1)?;
        let kind = Kind::from_number(reader.number("kind")?).ok_or(Refusal::Malformed)?;
        let key = KeyId(reader.number("key")?);
        let body_bytes: u16 = reader.number("body length")?;
        let port = reader.number("port")?;
        let header = Header {
            key,
            port,
            switch: reader.number("switch")?,
            segment: reader.number("segment")?,
            session: SessionId::from_number(reader.number("session")?),
            sequence: reader.number("sequence")?,
            epoch: Epoch(reader.number("epoch")?),
            tai_ns: reader.number("time")?,
        };
        let body = reader.bytes("body", body_bytes.into())?;
        reader.end("frame")?;
        Ok(Self {
            kind,
            header,
            body,
            tag,
            tagged,
        })
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its header.
    pub fn header(&self) -> Header {
        self.header
    }

    /// Its body: parse it with [`Message::parse`].
    pub fn body(&self) -> &'a [u8] {
        self.body
    }

    /// Its tag.
    pub fn tag(&self) -> [u8; TAG_BYTES] {
        *self.tag
    }

    /// The bytes covered by the tag.
    fn tagged(&self) -> &'a [u8] {
        self.tagged
    }
}

/// Contents of a frame.
pub trait Body {
    /// The kind of its frame.
    const KIND: Kind;

    /// Appends it without allocating.
    fn emit(&self, out: &mut impl Put);
}

impl<E: Element, F: Fn(u32) -> E> Body for Fragment<'_, E, F> {
    const KIND: Kind = Kind::Fragment;

    fn emit(&self, out: &mut impl Put) {
        self.write(out);
    }
}

impl Body for FragmentView<'_> {
    const KIND: Kind = Kind::Fragment;

    fn emit(&self, out: &mut impl Put) {
        self.write(out);
    }
}

/// A received body.
#[expect(
    clippy::large_enum_variant,
    reason = "one at a time, on the stack of the code that reads it"
)]
#[derive(Debug, Clone, PartialEq)]
pub enum Message<'a> {
    /// Identity and configuration.
    Hello(Hello),
    /// A rollover.
    Marker(Marker),
    /// Packets around a rollover.
    Stash(StashView<'a>),
    /// A part of a synopsis.
    Fragment(FragmentView<'a>),
    /// A packet with its own time.
    Reference(Reference),
    /// A request for missing ranges.
    Request(Request),
    /// Results of an epoch.
    Report(Report),
    /// The least delay of an epoch.
    Floor(Floor),
}

impl<'a> Message<'a> {
    /// Parses the body of a frame, which should be one accepted by a [`Verifier`].
    ///
    /// # Errors
    /// [`ParseError`] if the body is not as documented for its kind.
    pub fn parse(frame: &Frame<'a>) -> Result<Self, ParseError> {
        Self::parse_body(frame.kind(), frame.body())
    }

    /// Parses a body of this kind.
    ///
    /// # Errors
    /// [`ParseError`] if the body is not as documented for its kind.
    pub fn parse_body(kind: Kind, body: &'a [u8]) -> Result<Self, ParseError> {
        Ok(match kind {
            Kind::Hello => Self::Hello(Hello::parse(body)?),
            Kind::Marker => Self::Marker(Marker::parse(body)?),
            Kind::Stash => Self::Stash(StashView::parse(body)?),
            Kind::Fragment => Self::Fragment(FragmentView::parse(body)?),
            Kind::Reference => Self::Reference(Reference::parse(body)?),
            Kind::Request => Self::Request(Request::parse(body)?),
            Kind::Report => Self::Report(Report::parse(body)?),
            Kind::Floor => Self::Floor(Floor::parse(body)?),
        })
    }

    /// Appends the body unchanged.
    pub fn emit(&self, out: &mut impl Put) {
        match self {
            Self::Hello(hello) => hello.emit(out),
            Self::Marker(marker) => marker.emit(out),
            Self::Stash(stash) => stash.emit(out),
            Self::Fragment(fragment) => fragment.emit(out),
            Self::Reference(reference) => reference.emit(out),
            Self::Request(request) => request.emit(out),
            Self::Report(report) => report.emit(out),
            Self::Floor(floor) => floor.emit(out),
        }
    }
}

/// Why a control frame is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// Not one whole frame of a known kind, or with an invalid body.
    #[error("not one whole control frame of a kind that version {VERSION} has")]
    Malformed,
    /// From a switch of this other version.
    #[error(
        "the other end sends control frames of version {0}, this switch has version {VERSION}: update the older one"
    )]
    Version(u8),
    /// Made with an unknown key, or without one.
    #[error("control frame under a key that is not configured here")]
    UnknownKey,
    /// Wrong tag: the frame is damaged or forged, or the ends have different keys with one id.
    #[error("control frame with a wrong tag: compare the keys of both ends")]
    Tag,
    /// Of another session than the current one, or there is none.
    #[error("control frame of another session: one end was restarted, or the frame is replayed")]
    Session,
    /// A replay, or too old to tell.
    #[error("control frame that was seen before or is too old")]
    Replayed,
}

impl From<ParseError> for Refusal {
    fn from(_: ParseError) -> Self {
        Self::Malformed
    }
}

#[cfg(test)]
mod tests;
