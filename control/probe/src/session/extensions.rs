//! The TLVs of a session: those of its requests, and what replies say.

use rand::Rng;
use rand_pcg::Pcg64Mcg;

use super::SessionSettings;
use crate::reflector::ClockSource;
use crate::result::Extensions;
use crate::wire::key::{Key, TAG_BYTES};
use crate::wire::packet::Mode;
use crate::wire::time::{Format, UnixNs};
use crate::wire::tlv::{
    HEADER_BYTES, INTEGRITY, Integrity, Kind, MALFORMED, UNRECOGNISED, Walk, append, integrity,
    sign,
};

/// A length that does not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a length of {least} bytes, or of {padded} to 9,000, got {got}")]
pub struct LengthError {
    /// Bytes with the TLVs and no padding.
    pub least: usize,
    /// Bytes with the shortest padding.
    pub padded: usize,
    /// Bytes that are asked for.
    pub got: usize,
}

/// Most bytes of a request: what a jumbo frame takes, with room for headers.
pub(crate) const LENGTH_MAX: usize = 9_000;

/// Bytes of a request with these TLVs and no padding.
pub fn least_bytes(mode: Mode, extensions: &[Kind], has_hmac: bool) -> usize {
    let values: usize = extensions
        .iter()
        .map(|kind| HEADER_BYTES + value(*kind, 0).len())
        .sum();
    let hmac = HEADER_BYTES + TAG_BYTES;
    mode.bytes()
        + values
        + if has_hmac && !extensions.is_empty() {
            hmac
        } else {
            0
        }
}

/// A value as a sender writes it: all but its own fields is zero (RFC 8972, sections 4.2 to 4.7).
fn value(kind: Kind, dscp: u8) -> Vec<u8> {
    match kind {
        Kind::ExtraPadding => Vec::new(),
        Kind::Location => {
            let mut value = vec![0; 4];
            // Destination and source address are asked for.
            for sub in [4, 7] {
                value.extend([UNRECOGNISED, sub, 0, 16]);
                value.extend([0; 16]);
            }
            value
        }
        // The way back as the way there.
        Kind::ClassOfService => vec![dscp << 2, 0, 0, 0],
        Kind::TimestampInformation => vec![0; 4],
        // The network that is reported, others than 3GPP's, is available.
        Kind::AccessReport => vec![2 << 4, 1, 0, 0],
        Kind::DirectMeasurement => vec![0; 12],
        Kind::FollowUpTelemetry | Kind::Hmac => vec![0; 16],
    }
}

/// Where things are in what follows the base packet.
#[derive(Debug)]
pub(super) struct Tail {
    hmac_at: Option<usize>,
    /// Offset of the sender's count of packets.
    count_at: Option<usize>,
    is_asking: bool,
}

impl Tail {
    /// Adds the TLVs to the base packet.
    pub(super) fn build(
        settings: &SessionSettings,
        mode: Mode,
        packet: &mut Vec<u8>,
        random: &mut Pcg64Mcg,
    ) -> Result<Self, LengthError> {
        let (length, base) = (settings.length, mode.bytes());
        let has_hmac = settings.tlv_key.is_some();
        let least = least_bytes(mode, &settings.extensions, has_hmac);
        let padded = least + HEADER_BYTES;
        if length != least && !(padded..=LENGTH_MAX).contains(&length) {
            return Err(LengthError {
                least,
                padded,
                got: length,
            });
        }
        let (mut hmac_at, mut count_at) = (None, None);
        for &kind in &settings.extensions {
            if kind == Kind::DirectMeasurement {
                count_at = Some(packet.len() - base + HEADER_BYTES);
            }
            append(packet, kind, &value(kind, settings.dscp));
        }
        if has_hmac && !settings.extensions.is_empty() {
            hmac_at = Some(packet.len() - base);
            append(packet, Kind::Hmac, &[0; TAG_BYTES]);
        }
        if length > packet.len() {
            // Pseudorandom, so that links that compress do not (RFC 8972, section 4.1).
            let mut padding = vec![0; length - packet.len() - HEADER_BYTES];
            random.fill_bytes(&mut padding);
            append(packet, Kind::ExtraPadding, &padding);
        }
        Ok(Self {
            hmac_at,
            count_at,
            is_asking: !settings.extensions.is_empty(),
        })
    }

    /// Writes what differs from request to request.
    pub(super) fn finish(&self, tail: &mut [u8], sequence: &[u8], count: u32, key: Option<&Key>) {
        let place = self.count_at.and_then(|at| tail.get_mut(at..at + 4));
        if let Some(place) = place {
            place.copy_from_slice(&count.to_be_bytes());
        }
        if let Some((at, key)) = self.hmac_at.zip(key) {
            sign(key, sequence, tail, at);
        }
    }

    /// What a reply's TLVs say; `None` where none was sent.
    pub(super) fn read(
        &self,
        tail: &[u8],
        sequence: &[u8],
        key: Option<&Key>,
        format: Format,
        near: UnixNs,
    ) -> Option<Extensions> {
        if !self.is_asking {
            return None;
        }
        let mut said = Extensions::default();
        let is_flagged = Walk::new(tail).any(|tlv| tlv.flags & INTEGRITY != 0);
        let integrity = integrity(key, sequence, tail);
        // A reflector that does not know TLVs copies the HMAC, which is still that of the request.
        let is_wrong = key.is_some() && !matches!(integrity, Integrity::Right(_));
        if is_flagged || is_wrong {
            said.is_not_authentic = true;
            return Some(said);
        }
        for tlv in Walk::new(tail) {
            if tlv.flags & UNRECOGNISED != 0 {
                said.unrecognised += 1;
                continue;
            }
            if tlv.flags & MALFORMED != 0 || !tlv.is_well_formed {
                said.is_malformed = true;
                break;
            }
            let value = tail.get(tlv.value()).unwrap_or_default();
            if let Some(kind) = tlv.kind {
                said.take(kind, value, format, near);
            }
        }
        Some(said)
    }
}

fn number(value: &[u8], at: usize) -> Option<u32> {
    let bytes = value.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_be_bytes(*bytes))
}

impl Extensions {
    fn take(&mut self, kind: Kind, value: &[u8], format: Format, near: UnixNs) {
        match (kind, value) {
            (Kind::TimestampInformation, &[source, received, _, sent]) => {
                self.clock = ClockSource::of(source);
                self.received_method = Some(received);
                self.sent_method = Some(sent);
            }
            (Kind::ClassOfService, &[first, second, ..]) => {
                self.dscp_received = Some((first & 3) << 4 | second >> 4);
                self.ecn_received = Some(second >> 2 & 3);
                self.is_dscp_refused = Some(second & 3 != 0);
            }
            (Kind::DirectMeasurement, value) => {
                self.reflector_received = number(value, 4);
                self.reflector_sent = number(value, 8);
            }
            (Kind::FollowUpTelemetry, value) => {
                let bits = number(value, 4).zip(number(value, 8));
                let bits = bits.map(|(high, low)| u64::from(high) << 32 | u64::from(low));
                let bits = bits.filter(|bits| *bits != 0);
                let at = bits.and_then(|bits| format.decode(bits, near));
                self.follow_up = number(value, 0).zip(at.map(|at| at.0));
            }
            (Kind::Location, &[to_high, to_low, from_high, from_low, ..]) => {
                let from = u16::from_be_bytes([from_high, from_low]);
                self.ports = Some((from, u16::from_be_bytes([to_high, to_low])));
            }
            _ => {}
        }
    }
}
