//! Answers to the TLVs of a request, in place (RFC 8972, section 4).

use std::net::IpAddr;

use super::{Settings, State};
use crate::arrival::{Arrival, Stamped};
use crate::wire::tlv::{
    HEADER_BYTES, INTEGRITY, Integrity, Kind, MALFORMED, Tlv, UNRECOGNISED, Walk, integrity,
};

/// What answers are made of.
pub(super) struct Facts<'f> {
    pub(super) arrival: &'f Arrival,
    pub(super) settings: &'f Settings,
    /// Of the session, this request counted; `None`: stateless.
    pub(super) state: Option<&'f State>,
    pub(super) is_authenticated: bool,
}

/// What came of it.
pub(super) struct Answered {
    /// DSCP and ECN of the reply.
    pub(super) traffic_class: u8,
    /// Offset of an HMAC TLV that has to be made anew.
    pub(super) hmac_at: Option<usize>,
    pub(super) is_not_authentic: bool,
    pub(super) is_malformed: bool,
}

/// How a timestamp was taken (RFC 8972, table 9).
pub(crate) fn method(stamped: Stamped) -> u8 {
    match stamped {
        Stamped::Hardware => 1,
        Stamped::Kernel | Stamped::Program => 2,
    }
}

/// Answers all TLVs of `tail`, what follows the base packet.
pub(super) fn answer(tail: &mut [u8], sequence: &[u8], facts: &Facts) -> Answered {
    let mut answered = Answered {
        // Without a class of service TLV the way back is as the way there; ECN is not set.
        traffic_class: facts.arrival.dscp() << 2,
        hmac_at: None,
        is_not_authentic: false,
        is_malformed: false,
    };
    let key = facts.settings.tlv_key.as_ref();
    let integrity = integrity(key, sequence, tail);
    let is_missing = integrity == Integrity::Absent && needs_hmac(tail, facts);
    if integrity == Integrity::Wrong || is_missing {
        answered.is_not_authentic = true;
        let mut at = 0;
        while let Some(tlv) = next(tail, at) {
            set_flags(tail, &tlv, recognition(&tlv) | INTEGRITY);
            at = tlv.value().end;
        }
        return answered;
    }
    if let Integrity::Right(at) = integrity {
        answered.hmac_at = Some(at);
    }
    let mut at = 0;
    while let Some(tlv) = next(tail, at) {
        at = tlv.value().end;
        set_flags(tail, &tlv, recognition(&tlv));
        if !tlv.is_well_formed {
            // The rest is copied as it is.
            answered.is_malformed = true;
            if tlv.kind == Some(Kind::FollowUpTelemetry) {
                let value = tail.get_mut(tlv.value()).unwrap_or_default();
                value.iter_mut().take(12).for_each(|byte| *byte = 0);
            }
            break;
        }
        if let Some(kind) = tlv.kind {
            answer_one(tail, &tlv, kind, facts, &mut answered);
        }
    }
    answered
}

/// The TLV at `at`. Answers change no length and no type, so the walk is the same before and after.
fn next(tail: &[u8], at: usize) -> Option<Tlv> {
    if at == 0 {
        return Walk::new(tail).next();
    }
    let rest = tail.get(at..)?;
    Walk::behind(rest).next().map(|tlv| Tlv {
        at: at + tlv.at,
        ..tlv
    })
}

/// TLVs of authenticated packets need an HMAC of their own, but for padding alone (RFC 8972, section 4.8).
fn needs_hmac(tail: &[u8], facts: &Facts) -> bool {
    let mut walk = Walk::new(tail);
    let first = walk.next();
    let is_padding_alone =
        first.is_none_or(|tlv| tlv.kind == Some(Kind::ExtraPadding)) && walk.next().is_none();
    facts.is_authenticated && !is_padding_alone
}

fn recognition(tlv: &Tlv) -> u8 {
    let unrecognised = if tlv.kind.is_none() { UNRECOGNISED } else { 0 };
    let malformed = if tlv.is_well_formed { 0 } else { MALFORMED };
    unrecognised | malformed
}

fn set_flags(tail: &mut [u8], tlv: &Tlv, flags: u8) {
    if let Some(place) = tail.get_mut(tlv.at) {
        *place = flags;
    }
}

fn answer_one(tail: &mut [u8], tlv: &Tlv, kind: Kind, facts: &Facts, answered: &mut Answered) {
    let Some(value) = tail.get_mut(tlv.value()) else {
        return;
    };
    match kind {
        Kind::ExtraPadding | Kind::Hmac => {}
        Kind::Location => location(value, facts.arrival),
        Kind::TimestampInformation => {
            let (clock, arrival) = (facts.settings.clock.number(), facts.arrival);
            let out = method(Stamped::Program);
            value.copy_from_slice(&[clock, method(arrival.stamped), clock, out]);
        }
        Kind::ClassOfService => class_of_service(value, facts, answered),
        Kind::DirectMeasurement => {
            let (received, sent) = facts
                .state
                .map_or((0, 0), |state| (state.received, state.sent.wrapping_add(1)));
            put(value, 4, &received.to_be_bytes());
            put(value, 8, &sent.to_be_bytes());
        }
        Kind::AccessReport => {
            // Networks are 1 (3GPP) and 2 (others); another number is discarded: not understood.
            let network = value.first().map_or(0, |byte| byte >> 4);
            put(value, 2, &[0, 0]);
            if !(1..=2).contains(&network) {
                set_flags(tail, tlv, UNRECOGNISED);
            }
        }
        Kind::FollowUpTelemetry => {
            value.fill(0);
            let last = facts.state.and_then(|state| state.last);
            if let Some((sequence, at, stamped)) = last {
                let at = facts.settings.error.format.encode(at);
                put(value, 0, &sequence.to_be_bytes());
                put(value, 4, &at.to_be_bytes());
                put(value, 12, &[method(stamped)]);
            }
        }
    }
}

fn put(value: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = value.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

/// DSCP1 (6 bits), DSCP2 (6), ECN (2), RP (2), reserved (16); RFC 8972, section 4.4, with erratum 8199.
fn class_of_service(value: &mut [u8], facts: &Facts, answered: &mut Answered) {
    let wanted = value.first().map_or(0, |byte| byte >> 2);
    let (dscp, ecn) = (facts.arrival.dscp(), facts.arrival.traffic_class & 3);
    let is_allowed = facts.settings.dscp_allowed >> wanted & 1 == 1;
    if is_allowed {
        answered.traffic_class = wanted << 2;
    }
    let reverse = u8::from(!is_allowed);
    let first = wanted << 2 | dscp >> 4;
    put(
        value,
        0,
        &[first, (dscp & 0xf) << 4 | ecn << 2 | reverse, 0, 0],
    );
}

/// Ports, then sub-TLVs that ask for an address each (RFC 8972, section 4.2).
fn location(value: &mut [u8], arrival: &Arrival) {
    put(value, 0, &arrival.to.port().to_be_bytes());
    put(value, 2, &arrival.from.port().to_be_bytes());
    let mut at = 4;
    while let Some(&[_, kind, high, low]) = value
        .get(at..)
        .and_then(|rest| rest.first_chunk::<HEADER_BYTES>())
    {
        let bytes = usize::from(u16::from_be_bytes([high, low]));
        let address = match kind {
            4 => Some((arrival.destination(), 5)),
            7 => Some((arrival.from.ip(), 8)),
            _ => None,
        };
        let expected = match kind {
            1 => 8,
            4 | 7 => 16,
            _ => bytes,
        };
        let Some(sub) = value.get_mut(at..at + HEADER_BYTES + bytes) else {
            put(value, at, &[MALFORMED]);
            return;
        };
        if bytes != expected {
            put(sub, 0, &[MALFORMED]);
            return;
        }
        match (kind, address) {
            // The address of the link is not known here: an EUI-64 of zeros (section 4.2.2).
            (1, _) => {
                put(sub, 0, &[0, 3]);
                put(sub, HEADER_BYTES, &[0; 8]);
            }
            (_, Some((address, kind))) => put_address(sub, address, kind),
            _ => put(sub, 0, &[UNRECOGNISED]),
        }
        at += HEADER_BYTES + bytes;
    }
}

/// An address as a sub-TLV of type `kind`, where it is IPv4, or of the next.
fn put_address(sub: &mut [u8], address: IpAddr, kind: u8) {
    put(sub, HEADER_BYTES, &[0; 16]);
    match address.to_canonical() {
        IpAddr::V4(address) => {
            put(sub, 0, &[0, kind]);
            put(sub, HEADER_BYTES, &address.octets());
        }
        IpAddr::V6(address) => {
            put(sub, 0, &[0, kind + 1]);
            put(sub, HEADER_BYTES, &address.octets());
        }
    }
}
