//! Hello: identity and configuration of an end.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0..4 | hash version | of flow and packet hashes |
//! | 4..12 | seed check | SipHash-2-4 of `vernier seed check` under the deployment's seed |
//! | 12..20 | epoch length | ns |
//! | 20..28 | own nonce | never 0 |
//! | 28..36 | peer's nonce | 0: not received yet |
//! | 36..44 | renewed nonce | that the own one replaces; 0: none |
//! | 44..48 | clock error | claimed by the sender's clock, ns |
//! | 48..50 | TAI - UTC | s, signed |
//! | 50 | clock | 0 free, 1 holding over, 2 locked |
//! | 51 | PTP domain | |
//! | 52..54 | stash | packets on each side of a rollover |
//! | 54 | name length | n, 0 to 64 |
//! | 55..55+n | name | of the sender's port: ASCII, no spaces |
//! | 55+n | shapes | how many follow, 0 to 8 |
//! | 56+n.. | shape | synopsis (1 byte), length (2 bytes), shape; see [`Shape`] |

use arrayvec::{ArrayString, ArrayVec};
use siphasher::sip::SipHasher24;

use super::{Body, Frame, KIND_AT, Kind};
use crate::codec::{ParseError, Put, Reader, Shape};
use crate::session::{Nonce, Nonces};
use measure::labelled_enum;

/// Most shapes in a hello.
pub const SHAPES_MAX: usize = 8;
/// Most bytes of a port's name.
pub const NAME_MAX: usize = 64;

/// A port's name.
pub type PortName = ArrayString<NAME_MAX>;

/// Where the state of the clock is in the body.
const CLOCK_AT: usize = 50;

labelled_enum! {
    /// State of the sender's clock.
    pub enum ClockState {
        /// Not synchronised: its times are not TAI.
        Free = "free",
        /// Was synchronised, and keeps its rate.
        HoldingOver = "holding_over",
        /// Synchronised by PTP or NTP.
        Locked = "locked",
    }
}

/// Identity and configuration. Both ends must agree on everything but nonces and clock state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Version of the hashes: [`HASH_VERSION`](measure::packet::HASH_VERSION).
    pub hash_version: u32,
    /// [`seed_check`] of the deployment's seed.
    pub seed_check: u64,
    /// Length of an epoch.
    pub epoch_ns: u64,
    /// The nonces that make the session.
    pub nonces: Nonces,
    /// Error that the sender's clock claims: an estimate or a bound.
    pub clock_error_ns: u32,
    /// Offset of TAI from UTC that the sender uses, in seconds.
    pub tai_utc_s: i16,
    /// State of the sender's clock.
    pub clock: ClockState,
    /// PTP domain of the sender's clock.
    pub ptp_domain: u8,
    /// Packets that a stash lists on each side of a rollover.
    pub stash_packets: u16,
    /// The sender's name of its port: printable ASCII without spaces.
    pub port_name: PortName,
    /// Synopses of the segment, without values that change between epochs.
    pub shapes: ArrayVec<Shape, SHAPES_MAX>,
}

/// The time in a hello, read before its tag is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// Time of sealing: nanoseconds of TAI since 1970-01-01.
    pub tai_ns: i64,
    /// Whether the clock was synchronised by PTP or NTP.
    pub is_locked: bool,
}

impl Claim {
    /// Parses the control frame in `bytes`; `None` if it is not a whole hello.
    #[inline]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        if *bytes.get(KIND_AT)? != Kind::Hello.number() {
            return None;
        }
        let frame = Frame::parse(bytes).ok()?;
        Some(Self {
            tai_ns: frame.header().tai_ns,
            is_locked: *frame.body().get(CLOCK_AT)? == ClockState::Locked as u8,
        })
    }
}

/// Shows whether two ends share the seed, and reveals nothing about it.
pub fn seed_check(seed: [u8; 16]) -> u64 {
    SipHasher24::new_with_key(&seed).hash(b"vernier seed check")
}

/// Why ends cannot be paired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// Hashes of different versions.
    #[error("the ends hash packets by different versions: update the older one")]
    HashVersion,
    /// Different seeds.
    #[error("the ends have different seeds: configure the same `seed` on both")]
    Seed,
    /// Epochs of different length.
    #[error("the ends have epochs of different length: configure the same `interval_ms`")]
    EpochLength,
    /// Different offsets of TAI.
    #[error("the ends reckon with different offsets of TAI from UTC: update the leap seconds")]
    TaiOffset,
    /// Clocks of different PTP domains.
    #[error("the ends' clocks are in different PTP domains")]
    PtpDomain,
    /// A clock that is not synchronised.
    #[error("a clock is not synchronised: no one-way delay can be measured")]
    FreeClock,
    /// Synopses of different shapes.
    #[error(
        "the ends have synopses of different sizes or weights of classes: configure the same ones"
    )]
    Shapes,
    /// Stashes of different sizes.
    #[error("the ends have stashes of different sizes: configure the same one")]
    Stash,
    /// The other end is not the expected one.
    #[error(
        "the other end is not the one that `peer_switch` and `peer_port` name: compare the cables"
    )]
    Peer,
}

impl Hello {
    /// Checks whether an end with this hello can be paired with one that sent `other`.
    ///
    /// # Errors
    /// [`Mismatch`], the first found: no figures may be published then.
    pub fn agree(&self, other: &Self) -> Result<(), Mismatch> {
        let free = [self.clock, other.clock].contains(&ClockState::Free);
        let same_sizes = self.shapes.len() == other.shapes.len()
            && self
                .shapes
                .iter()
                .zip(&other.shapes)
                .all(|(a, b)| a.same_sizes(b));
        let checks = [
            (
                self.hash_version != other.hash_version,
                Mismatch::HashVersion,
            ),
            (self.seed_check != other.seed_check, Mismatch::Seed),
            (self.epoch_ns != other.epoch_ns, Mismatch::EpochLength),
            (!same_sizes, Mismatch::Shapes),
            (self.stash_packets != other.stash_packets, Mismatch::Stash),
            (free, Mismatch::FreeClock),
            (self.ptp_domain != other.ptp_domain, Mismatch::PtpDomain),
            (self.tai_utc_s != other.tai_utc_s, Mismatch::TaiOffset),
        ];
        match checks.into_iter().find(|(differ, _)| *differ) {
            Some((_, mismatch)) => Err(mismatch),
            None => Ok(()),
        }
    }

    /// Parses a body.
    ///
    /// # Errors
    /// [`ParseError`] for anything but what [`emit`](Body::emit) writes.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(body);
        let hash_version = reader.number("hash version")?;
        let seed_check = reader.number("seed check")?;
        let epoch_ns = reader.number("epoch length")?;
        let own = Nonce::from_number(reader.number("own nonce")?).ok_or(ParseError::value(
            "own nonce",
            0_u64,
            "anything but 0",
        ))?;
        let peer = Nonce::from_number(reader.number("peer's nonce")?);
        let renews = Nonce::from_number(reader.number("renewed nonce")?);
        let clock_error_ns = reader.number("clock error")?;
        let tai_utc_s = reader.number("TAI - UTC")?;
        let clock = reader.place("clock state", &ClockState::ALL, "0 to 2")?;
        let ptp_domain = reader.number("PTP domain")?;
        let stash_packets = reader.number("stash")?;
        let port_name = name(&mut reader)?;
        let mut shapes = ArrayVec::new();
        for _ in 0..reader.number::<u8, 1>("number of shapes")? {
            let shape = Shape::read(&mut reader)?;
            shapes
                .try_push(shape)
                .map_err(|_| ParseError::value("number of shapes", 9_u8, "8 at most"))?;
        }
        reader.end("hello")?;
        Ok(Self {
            hash_version,
            seed_check,
            epoch_ns,
            nonces: Nonces { own, peer, renews },
            clock_error_ns,
            tai_utc_s,
            clock,
            ptp_domain,
            stash_packets,
            port_name,
            shapes,
        })
    }
}

/// Parses a port's name, which is displayed and so must contain nothing special to a terminal or a table.
fn name(reader: &mut Reader<'_>) -> Result<PortName, ParseError> {
    let length: u8 = reader.number("length of the name")?;
    let bytes = reader.bytes("name", length.into())?;
    let is_plain = bytes.iter().all(u8::is_ascii_graphic);
    let text = std::str::from_utf8(bytes).ok().filter(|_| is_plain);
    let name = text.and_then(|text| PortName::from(text).ok());
    name.ok_or(ParseError::value(
        "name",
        length,
        "up to 64 printable characters",
    ))
}

impl Body for Hello {
    const KIND: Kind = Kind::Hello;

    fn emit(&self, out: &mut impl Put) {
        out.put_number(self.hash_version);
        out.put_number(self.seed_check);
        out.put_number(self.epoch_ns);
        out.put_number(Nonce::number(Some(self.nonces.own)));
        out.put_number(Nonce::number(self.nonces.peer));
        out.put_number(Nonce::number(self.nonces.renews));
        out.put_number(self.clock_error_ns);
        out.put_number(self.tai_utc_s);
        out.put_number(self.clock as u8);
        out.put_number(self.ptp_domain);
        out.put_number(self.stash_packets);
        #[expect(clippy::cast_possible_truncation, reason = "64 at most")]
        out.put_number(self.port_name.len() as u8);
        out.put(self.port_name.as_bytes());
        #[expect(clippy::cast_possible_truncation, reason = "8 at most")]
        out.put_number(self.shapes.len() as u8);
        for shape in &self.shapes {
            shape.emit_around(&[], out);
        }
    }
}
