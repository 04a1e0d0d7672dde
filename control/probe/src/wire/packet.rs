//! Base test packets (RFC 8762, sections 4.2 and 4.3), with the SSID of RFC 8972, section 3.

use super::key::Key;
use super::time::ErrorEstimate;

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

/// Where the fields of a mode are.
struct Offsets {
    timestamp: usize,
    error: usize,
    ssid: usize,
    received: usize,
    sender_sequence: usize,
    sender_timestamp: usize,
    sender_error: usize,
    sender_ttl: usize,
}

const OPEN: Offsets = Offsets {
    timestamp: 4,
    error: 12,
    ssid: 14,
    received: 16,
    sender_sequence: 24,
    sender_timestamp: 28,
    sender_error: 36,
    sender_ttl: 40,
};

const AUTHENTICATED: Offsets = Offsets {
    timestamp: 16,
    error: 24,
    ssid: 26,
    received: 32,
    sender_sequence: 48,
    sender_timestamp: 64,
    sender_error: 72,
    sender_ttl: 80,
};

impl Mode {
    /// Bytes of a base packet, in either direction.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Open => 44,
            Self::Authenticated => 112,
        }
    }

    /// Bytes of a reply that has all that a sender needs. Reflectors of TWAMP Light answer with 41 bytes (RFC 5357, section
    /// 4.2.1) or fewer; of the 44 of RFC 8762 the last that matter are those of the sender's timestamp.
    pub const fn reply_bytes_min(self) -> usize {
        match self {
            Self::Open => OPEN.sender_error,
            Self::Authenticated => self.bytes(),
        }
    }

    const fn offsets(self) -> &'static Offsets {
        match self {
            Self::Open => &OPEN,
            Self::Authenticated => &AUTHENTICATED,
        }
    }
}

/// What a session-sender writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// From 0, one more with each packet, modulo 2^32.
    pub sequence: u32,
    /// When it was sent, in the format that `error` says.
    pub timestamp: u64,
    /// The sender's clock.
    pub error: ErrorEstimate,
    /// The session among those between the same addresses and ports; 0: not used.
    pub ssid: u16,
}

/// What a session-reflector writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// The request's, or where the reflector keeps state its own count.
    pub sequence: u32,
    /// When the reply was sent, in the format that `error` says.
    pub timestamp: u64,
    /// The reflector's clock.
    pub error: ErrorEstimate,
    /// The request's; 0 from a reflector that does not know RFC 8972.
    pub ssid: u16,
    /// When the request arrived, in the same format.
    pub received: u64,
    /// The request's sequence number.
    pub sender_sequence: u32,
    /// The request's timestamp.
    pub sender_timestamp: u64,
    /// The request's error estimate.
    pub sender_error: ErrorEstimate,
    /// Time to live (hop limit) with which the request arrived; 0 in a reply that is too short for it.
    pub sender_ttl: u8,
}

/// The `N` bytes at `at`; zeros beyond the end, where callers do not look.
fn field<const N: usize>(packet: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    if let Some(found) = packet.get(at..at + N) {
        bytes.copy_from_slice(found);
    }
    bytes
}

fn put(packet: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = packet.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

impl Request {
    /// Reads the base packet; `None` of fewer bytes than the mode's. What must be zero is ignored, and no HMAC verified.
    pub fn read(mode: Mode, packet: &[u8]) -> Option<Self> {
        (packet.len() >= mode.bytes()).then(|| Self::head(mode, packet))
    }

    /// Reads the fields that requests and replies share; fields beyond the packet's end are zero.
    fn head(mode: Mode, packet: &[u8]) -> Self {
        let at = mode.offsets();
        Self {
            sequence: u32::from_be_bytes(field(packet, 0)),
            timestamp: u64::from_be_bytes(field(packet, at.timestamp)),
            error: ErrorEstimate::from_bits(u16::from_be_bytes(field(packet, at.error))),
            ssid: u16::from_be_bytes(field(packet, at.ssid)),
        }
    }

    /// Writes the base packet over the first bytes of `packet`, which has as many as the mode's; all that must be zero is
    /// zero, the HMAC too.
    pub fn write(&self, mode: Mode, packet: &mut [u8]) {
        debug_assert!(packet.len() >= mode.bytes(), "room for the base packet");
        let at = mode.offsets();
        packet
            .iter_mut()
            .take(mode.bytes())
            .for_each(|byte| *byte = 0);
        put(packet, 0, &self.sequence.to_be_bytes());
        put(packet, at.timestamp, &self.timestamp.to_be_bytes());
        put(packet, at.error, &self.error.to_bits().to_be_bytes());
        put(packet, at.ssid, &self.ssid.to_be_bytes());
    }
}

impl Reply {
    /// Reads the base packet; `None` of fewer bytes than [`Mode::reply_bytes_min`]. What must be zero is ignored, and no HMAC
    /// verified.
    pub fn read(mode: Mode, packet: &[u8]) -> Option<Self> {
        if packet.len() < mode.reply_bytes_min() {
            return None;
        }
        let at = mode.offsets();
        let Request {
            sequence,
            timestamp,
            error,
            ssid,
        } = Request::head(mode, packet);
        let sender_error = u16::from_be_bytes(field(packet, at.sender_error));
        Some(Self {
            sequence,
            timestamp,
            error,
            ssid,
            received: u64::from_be_bytes(field(packet, at.received)),
            sender_sequence: u32::from_be_bytes(field(packet, at.sender_sequence)),
            sender_timestamp: u64::from_be_bytes(field(packet, at.sender_timestamp)),
            sender_error: ErrorEstimate::from_bits(sender_error),
            sender_ttl: u8::from_be_bytes(field(packet, at.sender_ttl)),
        })
    }

    /// Writes the base packet, as [`Request::write`] does.
    pub fn write(&self, mode: Mode, packet: &mut [u8]) {
        let request = Request {
            sequence: self.sequence,
            timestamp: self.timestamp,
            error: self.error,
            ssid: self.ssid,
        };
        request.write(mode, packet);
        let at = mode.offsets();
        let sender_error = self.sender_error.to_bits();
        put(packet, at.received, &self.received.to_be_bytes());
        put(
            packet,
            at.sender_sequence,
            &self.sender_sequence.to_be_bytes(),
        );
        put(
            packet,
            at.sender_timestamp,
            &self.sender_timestamp.to_be_bytes(),
        );
        put(packet, at.sender_error, &sender_error.to_be_bytes());
        put(packet, at.sender_ttl, &[self.sender_ttl]);
    }
}

/// Writes when the packet is sent.
pub fn set_timestamp(mode: Mode, packet: &mut [u8], timestamp: u64) {
    put(packet, mode.offsets().timestamp, &timestamp.to_be_bytes());
}

/// Writes the HMAC of an authenticated base packet.
pub fn sign(key: &Key, packet: &mut [u8]) {
    let Some((signed, rest)) = packet.split_at_mut_checked(SIGNED) else {
        return;
    };
    put(rest, 0, &key.tag(&[signed]));
}

/// Whether the HMAC of an authenticated base packet is right, in a time that does not depend on where it is wrong.
pub fn is_authentic(key: &Key, packet: &[u8]) -> bool {
    let base = packet.get(..Mode::Authenticated.bytes());
    base.is_some_and(|base| {
        let (signed, tag) = base.split_at(SIGNED);
        key.verifies(&[signed], tag)
    })
}

#[cfg(test)]
mod tests;
