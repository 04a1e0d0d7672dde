//! Test packets: timestamps and HMACs, base packets (RFC 8762, sections 4.2 and 4.3) with the SSID of RFC 8972, section 3, and the
//! TLVs that follow them (RFC 8972, section 4).
//!
//! ```text
//!  base packet: 44 bytes, or 112 with an HMAC
//!  +-+-+-+-----+------+--------+-------+
//!  |U|M|I| 0   | type | length | value |   TLV: flags 1 byte, type 1, length 2, value as long as length says
//!  +-+-+-+-----+------+--------+-------+
//! ```

use std::fmt;
use std::path::Path;
use std::time::UNIX_EPOCH;

use contract::secret::{self, SecretFault};
use hmac::{Hmac, KeyInit, Mac};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use zeroize::Zeroizing;

/// Seconds from 1900, the epoch of NTP, to 1970.
const NTP_UNIX_S: u64 = 2_208_988_800;

const NS_PER_S: u64 = 1_000_000_000;

/// Nanoseconds since 1970 by the system's clock (`CLOCK_REALTIME`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixNs(pub u64);

impl UnixNs {
    /// Now, by the system's clock as programs read it.
    pub fn now() -> Self {
        let since = UNIX_EPOCH.elapsed().unwrap_or_default();
        Self(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Nanoseconds since `earlier`; negative if that is later.
    pub const fn since(self, earlier: Self) -> i64 {
        self.0.wrapping_sub(earlier.0).cast_signed()
    }
}

/// Source of a clock's time (RFC 8972, table 7).
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ClockSource {
    /// NTP.
    Ntp = 1,
    /// PTP.
    Ptp,
    /// Synchronisation supply unit, or building integrated timing supply.
    Ssu,
    /// A satellite system or radio.
    Satellite,
    /// None: it runs freely.
    #[default]
    Local,
}

impl ClockSource {
    /// From its number in a timestamp information TLV.
    pub fn of(number: u8) -> Option<Self> {
        use ClockSource::{Local, Ntp, Ptp, Satellite, Ssu};
        let mut all = [Ntp, Ptp, Ssu, Satellite, Local].into_iter();
        all.find(|source| *source as u8 == number)
    }
}

/// Format of timestamps: the Z bit of the error estimate (RFC 8186, section 2.3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// Seconds since 1900 and parts of 2^32 of a second (RFC 5905): the default.
    #[default]
    Ntp,
    /// Seconds since 1970 and nanoseconds, truncated to 64 bits (IEEE 1588).
    Ptp,
}

impl Format {
    /// Encodes a time as 64 bits.
    pub fn encode(self, time: UnixNs) -> u64 {
        let (seconds, ns) = (time.0 / NS_PER_S, time.0 % NS_PER_S);
        let (seconds, fraction) = match self {
            // Rounded up, so that decoding, which rounds down, returns the same nanosecond.
            Self::Ntp => (seconds + NTP_UNIX_S, (ns << 32).div_ceil(NS_PER_S)),
            Self::Ptp => (seconds, ns),
        };
        seconds << 32 | fraction
    }

    /// Decodes a time, in the era nearest to `near`. `None` if its nanoseconds are a second or more.
    pub fn decode(self, bits: u64, near: UnixNs) -> Option<UnixNs> {
        let (seconds, fraction) = (bits >> 32, bits & 0xffff_ffff);
        let (from, ns) = match self {
            Self::Ntp => (NTP_UNIX_S, (fraction * NS_PER_S) >> 32),
            Self::Ptp => (0, fraction),
        };
        let near_s = near.0 / NS_PER_S + from;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "seconds are compared modulo 2^32"
        )]
        let ahead_s = (seconds as u32).wrapping_sub(near_s as u32).cast_signed();
        let seconds = near_s.checked_add_signed(i64::from(ahead_s))?;
        let whole = seconds.checked_sub(from)?.checked_mul(NS_PER_S)?;
        (ns < NS_PER_S).then(|| whole.checked_add(ns))?.map(UnixNs)
    }
}

/// Error estimate of a clock, and whether it is synchronised (RFC 4656, section 4.1.2; RFC 8762, figure 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErrorEstimate {
    /// The S bit: the clock is synchronised to UTC by an outside source.
    pub is_synchronised: bool,
    /// The Z bit: the format of timestamps.
    pub format: Format,
    /// Exponent, 0 to 63.
    pub scale: u8,
    /// Factor; 0 is not allowed on the wire, and marks the estimate as void.
    pub multiplier: u8,
}

impl ErrorEstimate {
    /// The smallest estimate that is at least `error_ns`.
    pub fn new(is_synchronised: bool, format: Format, error_ns: u64) -> Self {
        // In units of 2^-32 seconds.
        let mut units = (u128::from(error_ns) << 32).div_ceil(u128::from(NS_PER_S));
        let mut scale = 0;
        while units > 255 {
            units = units.div_ceil(2);
            scale += 1;
        }
        Self {
            is_synchronised,
            format,
            scale,
            multiplier: u8::try_from(units.max(1)).unwrap_or(u8::MAX),
        }
    }

    /// Encodes it for the wire.
    pub fn to_bits(self) -> u16 {
        let flags =
            u16::from(self.is_synchronised) << 15 | u16::from(self.format == Format::Ptp) << 14;
        flags | u16::from(self.scale & 0x3f) << 8 | u16::from(self.multiplier)
    }

    /// Decodes it from the wire.
    pub fn from_bits(bits: u16) -> Self {
        let [high, multiplier] = bits.to_be_bytes();
        let is_ptp = high & 0x40 != 0;
        Self {
            is_synchronised: high & 0x80 != 0,
            format: if is_ptp { Format::Ptp } else { Format::Ntp },
            scale: high & 0x3f,
            multiplier,
        }
    }

    /// The error in nanoseconds: multiplier times 2^(scale - 32) seconds.
    pub fn error_ns(self) -> f64 {
        f64::from(self.multiplier) * 2_f64.powi(i32::from(self.scale) - 32) * 1e9
    }
}

/// Bytes of a tag.
pub const TAG_BYTES: usize = 16;

/// Bytes of a key, which a file has as hexadecimal digits on one line.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 16..=64;

/// A key, ready to use.
#[derive(Clone)]
pub struct Key(Hmac<Sha256>);

/// Why a key could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read, or other users may read or change it.
    #[error(transparent)]
    Secret(#[from] SecretFault),
    /// The file does not contain a key.
    #[error(
        "expected 32 to 128 hexadecimal digits in one line, an even number, got {got}; make a key with \
         `(umask 077; openssl rand -hex 32 > FILE)`"
    )]
    NoKey {
        /// What it contains instead; never the content itself.
        got: String,
    },
}

impl fmt::Debug for Key {
    /// Omits the key, which does not belong in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// A key of any number of bytes.
    pub fn new(bytes: &[u8]) -> Self {
        // Longer keys are hashed (RFC 2104), so that every length is valid.
        Self(
            Hmac::new_from_slice(bytes)
                .unwrap_or_else(|_| Hmac::new(&hmac::digest::Key::<Hmac<Sha256>>::default())),
        )
    }

    /// Reads a key from a file with one line that other users can neither read nor change.
    ///
    /// # Errors
    /// [`KeyError`]
    pub fn load(file: &Path) -> Result<Self, KeyError> {
        let text = Zeroizing::new(secret::read_line(file, 2 * KEY_BYTES.end())?);
        let no_key = |got: String| KeyError::NoKey { got };
        let digits = text.iter().map(|byte| char::from(*byte).to_digit(16));
        let digits = digits.collect::<Option<Vec<u32>>>().map(Zeroizing::new);
        let digits = digits.ok_or_else(|| no_key("other characters".to_owned()))?;
        if digits.len() > 2 * KEY_BYTES.end() {
            return Err(no_key("more".to_owned()));
        }
        if digits.len() % 2 != 0 || !KEY_BYTES.contains(&(digits.len() / 2)) {
            return Err(no_key(digits.len().to_string()));
        }
        let pairs = digits.chunks_exact(2);
        let bytes = pairs.map(|pair| u8::try_from(pair[0] << 4 | pair[1]).unwrap_or(0));
        Ok(Self::new(&Zeroizing::new(bytes.collect::<Vec<_>>())))
    }

    /// The tag of several parts, concatenated.
    pub fn tag(&self, parts: &[&[u8]]) -> [u8; TAG_BYTES] {
        let whole = self.over(parts).finalize().into_bytes();
        let mut tag = [0; TAG_BYTES];
        tag.iter_mut().zip(whole).for_each(|(to, from)| *to = from);
        tag
    }

    /// Whether `tag` is that of the parts. Takes constant time wherever it differs.
    pub fn verifies(&self, parts: &[&[u8]], tag: &[u8]) -> bool {
        tag.len() == TAG_BYTES && self.over(parts).verify_truncated_left(tag).is_ok()
    }

    fn over(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut hmac = self.0.clone();
        for part in parts {
            hmac.update(part);
        }
        hmac
    }
}

/// Whether base packets have an HMAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Unauthenticated: 44 bytes.
    Open,
    /// Authenticated: 112 bytes; the last 16 are an HMAC of the others.
    Authenticated,
}

/// Bytes before the HMAC of an authenticated packet.
const SIGNED: usize = 96;

/// A field of a base packet after its sequence number.
#[derive(Debug, Clone, Copy)]
enum Field {
    Timestamp,
    Error,
    Ssid,
    Received,
    SenderSequence,
    SenderTimestamp,
    SenderError,
    SenderTtl,
}

/// Offsets of the fields of each mode.
const OPEN: [usize; 8] = [4, 12, 14, 16, 24, 28, 36, 40];
const AUTHENTICATED: [usize; 8] = [16, 24, 26, 32, 48, 64, 72, 80];

impl Mode {
    /// With or without an HMAC.
    pub fn of(is_authenticated: bool) -> Self {
        if is_authenticated {
            Self::Authenticated
        } else {
            Self::Open
        }
    }

    /// Bytes of a base packet, in either direction.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Open => 44,
            Self::Authenticated => 112,
        }
    }

    /// Bytes of a reply with everything that a sender needs. Reflectors of TWAMP Light answer with 41 bytes (RFC
    /// 5357, section 4.2.1) or fewer; of the 44 bytes of RFC 8762, the last needed are the sender's timestamp.
    pub const fn reply_bytes_min(self) -> usize {
        match self {
            Self::Open => self.at(Field::SenderError),
            Self::Authenticated => self.bytes(),
        }
    }

    const fn at(self, field: Field) -> usize {
        match self {
            Self::Open => OPEN[field as usize],
            Self::Authenticated => AUTHENTICATED[field as usize],
        }
    }

    /// The `N` bytes of a field; zeros past the end of the packet.
    fn read<const N: usize>(self, packet: &[u8], field: Field) -> [u8; N] {
        let rest = packet.get(self.at(field)..).unwrap_or_default();
        rest.first_chunk().copied().unwrap_or([0; N])
    }
}

/// The fields that a session-sender writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Counts packets from 0, modulo 2^32.
    pub sequence: u32,
    /// When it was sent, in the format of `error`.
    pub timestamp: u64,
    /// The sender's clock.
    pub error: ErrorEstimate,
    /// Distinguishes sessions between the same addresses and ports; 0: not used.
    pub ssid: u16,
}

/// The fields that a session-reflector writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// The same fields as in a request: the reflector's own count of the session's packets if it keeps state, else
    /// the request's sequence number; when the reply was sent; its clock; the request's SSID, or 0 if it does not
    /// implement RFC 8972.
    pub own: Request,
    /// When the request arrived, in the same format.
    pub received: u64,
    /// The request's sequence number.
    pub sender_sequence: u32,
    /// The request's timestamp.
    pub sender_timestamp: u64,
    /// The request's error estimate.
    pub sender_error: ErrorEstimate,
    /// Time to live (hop limit) of the request on arrival; 0 in a reply that is too short for it.
    pub sender_ttl: u8,
}

/// The number in the four bytes at `at`; `None` past the end.
pub(crate) fn number(packet: &[u8], at: usize) -> Option<u32> {
    let bytes = packet.get(at..)?.first_chunk()?;
    Some(u32::from_be_bytes(*bytes))
}

/// Writes `bytes` at `at`; does nothing past the end.
pub(crate) fn put(packet: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = packet.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

impl Request {
    /// Reads the base packet; `None` if it is shorter than the mode requires. Must-be-zero fields are ignored, and no
    /// HMAC is verified.
    pub fn read(mode: Mode, packet: &[u8]) -> Option<Self> {
        (packet.len() >= mode.bytes()).then(|| Self::head(mode, packet))
    }

    /// Reads the fields that requests and replies share; fields past the packet's end are zero.
    fn head(mode: Mode, packet: &[u8]) -> Self {
        let error = u16::from_be_bytes(mode.read(packet, Field::Error));
        Self {
            sequence: number(packet, 0).unwrap_or_default(),
            timestamp: u64::from_be_bytes(mode.read(packet, Field::Timestamp)),
            error: ErrorEstimate::from_bits(error),
            ssid: u16::from_be_bytes(mode.read(packet, Field::Ssid)),
        }
    }

    /// Writes the base packet to the start of `packet`, which is at least as long as the mode requires. All
    /// must-be-zero fields are zero, and so is the HMAC.
    pub fn write(&self, mode: Mode, packet: &mut [u8]) {
        debug_assert!(packet.len() >= mode.bytes(), "room for the base packet");
        packet
            .iter_mut()
            .take(mode.bytes())
            .for_each(|byte| *byte = 0);
        put(packet, 0, &self.sequence.to_be_bytes());
        set_timestamp(mode, packet, self.timestamp);
        let error = self.error.to_bits();
        put(packet, mode.at(Field::Error), &error.to_be_bytes());
        put(packet, mode.at(Field::Ssid), &self.ssid.to_be_bytes());
    }
}

impl Reply {
    /// Reads the base packet; `None` if it is shorter than [`Mode::reply_bytes_min`]. Must-be-zero fields are
    /// ignored, and no HMAC is verified.
    pub fn read(mode: Mode, packet: &[u8]) -> Option<Self> {
        if packet.len() < mode.reply_bytes_min() {
            return None;
        }
        let sender_error = u16::from_be_bytes(mode.read(packet, Field::SenderError));
        Some(Self {
            own: Request::head(mode, packet),
            received: u64::from_be_bytes(mode.read(packet, Field::Received)),
            sender_sequence: u32::from_be_bytes(mode.read(packet, Field::SenderSequence)),
            sender_timestamp: u64::from_be_bytes(mode.read(packet, Field::SenderTimestamp)),
            sender_error: ErrorEstimate::from_bits(sender_error),
            sender_ttl: u8::from_be_bytes(mode.read(packet, Field::SenderTtl)),
        })
    }

    /// Writes the base packet, as [`Request::write`] does.
    pub fn write(&self, mode: Mode, packet: &mut [u8]) {
        self.own.write(mode, packet);
        let fields: [(Field, &[u8]); 5] = [
            (Field::Received, &self.received.to_be_bytes()),
            (Field::SenderSequence, &self.sender_sequence.to_be_bytes()),
            (Field::SenderTimestamp, &self.sender_timestamp.to_be_bytes()),
            (
                Field::SenderError,
                &self.sender_error.to_bits().to_be_bytes(),
            ),
            (Field::SenderTtl, &[self.sender_ttl]),
        ];
        for (field, bytes) in fields {
            put(packet, mode.at(field), bytes);
        }
    }
}

/// Writes the time at which the packet is sent.
pub fn set_timestamp(mode: Mode, packet: &mut [u8], timestamp: u64) {
    put(packet, mode.at(Field::Timestamp), &timestamp.to_be_bytes());
}

/// Writes the HMAC of an authenticated base packet.
pub fn sign_base(key: &Key, packet: &mut [u8]) {
    let Some((signed, rest)) = packet.split_at_mut_checked(SIGNED) else {
        return;
    };
    put(rest, 0, &key.tag(&[signed]));
}

/// Whether the HMAC of an authenticated base packet is right. Takes constant time wherever it is wrong.
pub fn is_authentic(key: &Key, packet: &[u8]) -> bool {
    let base = packet.get(..Mode::Authenticated.bytes());
    base.is_some_and(|base| {
        let (signed, tag) = base.split_at(SIGNED);
        key.verifies(&[signed], tag)
    })
}

/// Bytes before the value.
pub const HEADER_BYTES: usize = 4;

/// The reflector does not know the type; a sender sets this flag.
pub const UNRECOGNISED: u8 = 0x80;
/// The length is wrong.
pub const MALFORMED: u8 = 0x40;
/// The HMAC TLV is wrong or misplaced.
pub const INTEGRITY: u8 = 0x20;

/// Types (RFC 8972, table 2), by their numbers on the wire. Those that a session may request have names in the
/// configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Padding.
    #[serde(skip)]
    ExtraPadding = 1,
    /// Addresses and ports at the reflector.
    Location,
    /// The reflector's clock, and its method of taking timestamps.
    TimestampInformation,
    /// DSCP and ECN of the request on arrival, DSCP of the reply.
    ClassOfService,
    /// Packets sent and received at both ends.
    DirectMeasurement,
    /// State of an access network.
    #[serde(skip)]
    AccessReport,
    /// When the last reply was actually sent.
    FollowUpTelemetry,
    /// HMAC of the TLVs before it.
    #[serde(skip)]
    Hmac,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::ExtraPadding,
        Self::Location,
        Self::TimestampInformation,
        Self::ClassOfService,
        Self::DirectMeasurement,
        Self::AccessReport,
        Self::FollowUpTelemetry,
        Self::Hmac,
    ];

    fn of(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Whether a value may have this many bytes.
    fn takes(self, bytes: usize) -> bool {
        match self {
            Self::ExtraPadding => true,
            Self::Location => bytes >= 4,
            Self::TimestampInformation | Self::ClassOfService | Self::AccessReport => bytes == 4,
            Self::DirectMeasurement => bytes == 12,
            Self::FollowUpTelemetry => bytes == 16,
            Self::Hmac => bytes == TAG_BYTES,
        }
    }
}

/// One TLV, by its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tlv {
    /// Offset of its flags.
    pub at: usize,
    /// Its flags.
    pub flags: u8,
    /// Its type; `None`: unknown.
    pub kind: Option<Kind>,
    /// Its type on the wire.
    pub number: u8,
    /// Bytes of its value that are present.
    pub bytes: usize,
    /// Whether the length is right for the type and within the packet. TLVs after a malformed one are not read.
    pub is_well_formed: bool,
}

impl Tlv {
    /// The position of its value.
    pub fn value(&self) -> std::ops::Range<usize> {
        let begin = self.at + HEADER_BYTES;
        begin..begin + self.bytes
    }
}

/// Iterates over the TLVs after a base packet. Fewer than four bytes are none.
#[derive(Debug, Clone)]
pub struct Walk<'p> {
    tail: &'p [u8],
    at: usize,
}

impl<'p> Walk<'p> {
    /// The TLVs of everything after the base packet.
    pub fn new(tail: &'p [u8]) -> Self {
        // Zeros are padding of TWAMP Light (RFC 8762, section 4.6): type 0 is reserved.
        let is_padding = tail.iter().all(|byte| *byte == 0);
        Self {
            tail: if is_padding { &[] } else { tail },
            at: 0,
        }
    }

    /// The TLVs of everything after another TLV.
    pub fn behind(rest: &'p [u8]) -> Self {
        Self { tail: rest, at: 0 }
    }
}

impl Iterator for Walk<'_> {
    type Item = Tlv;

    fn next(&mut self) -> Option<Tlv> {
        let at = self.at;
        let &[flags, number, high, low] = self.tail.get(at..)?.first_chunk::<HEADER_BYTES>()?;
        let bytes = usize::from(u16::from_be_bytes([high, low]));
        let room = self.tail.len() - at - HEADER_BYTES;
        let kind = Kind::of(number);
        let is_well_formed = bytes <= room && kind.is_none_or(|kind| kind.takes(bytes));
        self.at = if is_well_formed {
            at + HEADER_BYTES + bytes
        } else {
            self.tail.len()
        };
        Some(Tlv {
            at,
            flags,
            kind,
            number,
            bytes: bytes.min(room),
            is_well_formed,
        })
    }
}

/// Length of a request with these TLVs and no padding.
pub fn least_bytes(mode: Mode, extensions: &[Kind], has_hmac: bool) -> usize {
    let hmac = Some(Kind::Hmac).filter(|_| has_hmac && !extensions.is_empty());
    let values = extensions.iter().copied().chain(hmac);
    let values = values.map(|kind| HEADER_BYTES + value(kind, 0).len());
    mode.bytes() + values.sum::<usize>()
}

/// A value as a sender writes it: all except its own fields is zero (RFC 8972, sections 4.2 to 4.7).
pub(crate) fn value(kind: Kind, dscp: u8) -> Vec<u8> {
    match kind {
        Kind::ExtraPadding => Vec::new(),
        Kind::Location => {
            let mut value = vec![0; 4];
            // Requests destination and source address.
            for sub in [4, 7] {
                value.extend([UNRECOGNISED, sub, 0, 16]);
                value.extend([0; 16]);
            }
            value
        }
        // The same class on the way back as on the way there.
        Kind::ClassOfService => vec![dscp << 2, 0, 0, 0],
        Kind::TimestampInformation => vec![0; 4],
        // The reported network, which is not 3GPP's, is available.
        Kind::AccessReport => vec![2 << 4, 1, 0, 0],
        Kind::DirectMeasurement => vec![0; 12],
        Kind::FollowUpTelemetry | Kind::Hmac => vec![0; 16],
    }
}

/// Whether there is an HMAC TLV, and whether it is right (RFC 8972, section 4.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Integrity {
    /// There is none.
    Absent,
    /// It is right; with the offset of its flags.
    Right(usize),
    /// It is wrong, misplaced (only padding may follow it), or there is no key to verify it.
    Wrong,
}

/// Verifies the HMAC TLV, which covers the base packet's sequence number, its first four bytes, and the
/// TLVs before it.
pub fn integrity(key: Option<&Key>, sequence: &[u8], tail: &[u8]) -> Integrity {
    let mut found: Option<Tlv> = None;
    for tlv in Walk::new(tail) {
        let is_hmac = tlv.kind == Some(Kind::Hmac);
        if found.is_some() && tlv.kind != Some(Kind::ExtraPadding) || is_hmac && !tlv.is_well_formed
        {
            return Integrity::Wrong;
        }
        if is_hmac {
            found = Some(tlv);
        }
    }
    let Some(tlv) = found else {
        return Integrity::Absent;
    };
    let parts = (tail.get(..tlv.at), tail.get(tlv.value()), key);
    match parts {
        (Some(before), Some(tag), Some(key)) if key.verifies(&[sequence, before], tag) => {
            Integrity::Right(tlv.at)
        }
        _ => Integrity::Wrong,
    }
}

/// Writes the HMAC TLV with its flags at `at`.
pub fn sign_tlvs(key: &Key, sequence: &[u8], tail: &mut [u8], at: usize) {
    let Some((before, rest)) = tail.split_at_mut_checked(at) else {
        return;
    };
    put(rest, HEADER_BYTES, &key.tag(&[sequence, before]));
}

/// Appends a TLV of at most 65,535 bytes as a sender does, with the U flag (RFC 8972, section 4).
pub fn append(tail: &mut Vec<u8>, kind: Kind, value: &[u8]) {
    let bytes = u16::try_from(value.len()).unwrap_or(u16::MAX);
    tail.extend([UNRECOGNISED, kind as u8]);
    tail.extend(bytes.to_be_bytes());
    tail.extend(value.iter().take(usize::from(bytes)));
}

#[cfg(test)]
mod tests;
