//! What follows a base packet: type, length and value (RFC 8972, section 4).
//!
//! ```text
//!  +-+-+-+-----+------+--------+-------+
//!  |U|M|I| 0   | type | length | value |   flags 1 byte, type 1, length 2, value as long as length says
//!  +-+-+-+-----+------+--------+-------+
//! ```

use super::key::{Key, TAG_BYTES};

/// Bytes before the value.
pub const HEADER_BYTES: usize = 4;

/// The type is not known to who answered; a sender sets it.
pub const UNRECOGNISED: u8 = 0x80;
/// The length is wrong.
pub const MALFORMED: u8 = 0x40;
/// The HMAC TLV is wrong, or where it may not be.
pub const INTEGRITY: u8 = 0x20;

/// Types (RFC 8972, table 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Bytes of no meaning.
    ExtraPadding,
    /// Addresses and ports at the reflector.
    Location,
    /// How the reflector's clock is synchronised and how it takes timestamps.
    TimestampInformation,
    /// DSCP and ECN on the way there, DSCP of the way back.
    ClassOfService,
    /// Packets sent and received at both ends.
    DirectMeasurement,
    /// State of an access network.
    AccessReport,
    /// When the last reply was really sent.
    FollowUpTelemetry,
    /// HMAC of the TLVs before it.
    Hmac,
}

impl Kind {
    const ALL: [(Self, u8); 8] = [
        (Self::ExtraPadding, 1),
        (Self::Location, 2),
        (Self::TimestampInformation, 3),
        (Self::ClassOfService, 4),
        (Self::DirectMeasurement, 5),
        (Self::AccessReport, 6),
        (Self::FollowUpTelemetry, 7),
        (Self::Hmac, 8),
    ];

    /// The type on the wire.
    pub fn number(self) -> u8 {
        let found = Self::ALL.iter().find(|(kind, _)| *kind == self);
        found.map_or(0, |(_, number)| *number)
    }

    fn of(number: u8) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, known)| *known == number);
        found.map(|(kind, _)| *kind)
    }

    /// Whether a value may have so many bytes.
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

/// One TLV, by where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tlv {
    /// Offset of its flags.
    pub at: usize,
    /// Its flags.
    pub flags: u8,
    /// Its type; `None`: not one of ours.
    pub kind: Option<Kind>,
    /// Its type on the wire.
    pub number: u8,
    /// Bytes of its value, as many as there are.
    pub bytes: usize,
    /// Whether the length is right for the type and within the packet. Behind one that is not, nothing is read.
    pub is_well_formed: bool,
}

impl Tlv {
    /// Where its value is.
    pub fn value(&self) -> std::ops::Range<usize> {
        let begin = self.at + HEADER_BYTES;
        begin..begin + self.bytes
    }
}

/// The TLVs of what follows a base packet, one after the other. Fewer than four bytes are none.
#[derive(Debug, Clone)]
pub struct Walk<'p> {
    tail: &'p [u8],
    at: usize,
}

impl<'p> Walk<'p> {
    /// Of all that follows the base packet.
    pub fn new(tail: &'p [u8]) -> Self {
        // Zeros are padding of TWAMP Light (RFC 8762, section 4.6): type 0 is reserved.
        let is_padding = tail.iter().all(|byte| *byte == 0);
        Self {
            tail: if is_padding { &[] } else { tail },
            at: 0,
        }
    }

    /// Of what follows a TLV.
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

/// Whether the HMAC TLV is there, and right (RFC 8972, section 4.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Integrity {
    /// There is none.
    Absent,
    /// It is right: the offset of its flags.
    Right(usize),
    /// It is wrong, elsewhere than behind all but padding, or there is no key to verify it by.
    Wrong,
}

/// Verifies the HMAC TLV: of the base packet's sequence number, its first four bytes, and the TLVs before.
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

/// Writes the HMAC TLV whose flags are at `at`.
pub fn sign(key: &Key, sequence: &[u8], tail: &mut [u8], at: usize) {
    let Some((before, rest)) = tail.split_at_mut_checked(at) else {
        return;
    };
    if let Some(place) = rest.get_mut(HEADER_BYTES..HEADER_BYTES + TAG_BYTES) {
        place.copy_from_slice(&key.tag(&[sequence, before]));
    }
}

/// Adds a TLV as a sender writes it: with the U flag (RFC 8972, section 4), of at most 65,535 bytes.
pub fn append(tail: &mut Vec<u8>, kind: Kind, value: &[u8]) {
    let bytes = u16::try_from(value.len()).unwrap_or(u16::MAX);
    tail.extend([UNRECOGNISED, kind.number()]);
    tail.extend(bytes.to_be_bytes());
    tail.extend(value.iter().take(usize::from(bytes)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> Key {
        Key::new(&[9; 32])
    }

    #[test]
    fn a_wrong_length_ends_the_walk() {
        let mut tail = Vec::new();
        append(&mut tail, Kind::ClassOfService, &[0; 4]);
        append(&mut tail, Kind::DirectMeasurement, &[0; 11]);
        append(&mut tail, Kind::ExtraPadding, &[1; 3]);
        let found: Vec<_> = Walk::new(&tail)
            .map(|tlv| (tlv.at, tlv.is_well_formed))
            .collect();
        assert_eq!(found, [(0, true), (8, false)]);
        // Longer than the packet.
        let found: Vec<_> = Walk::new(&[0x80, 1, 0, 9, 5]).collect();
        assert_eq!(
            (found.len(), found[0].bytes, found[0].is_well_formed),
            (1, 1, false)
        );
    }

    #[test]
    fn what_is_no_tlv_is_none() {
        assert_eq!(Walk::new(&[0; 100]).count(), 0);
        assert_eq!(Walk::new(&[1, 2, 3]).count(), 0);
        let unknown = Walk::new(&[0x80, 99, 0, 1, 5]).next().unwrap();
        assert_eq!(
            (unknown.kind, unknown.number, unknown.is_well_formed),
            (None, 99, true)
        );
    }

    #[test]
    fn an_hmac_stands_behind_all_but_padding() {
        let sequence = [0, 0, 0, 7];
        let mut tail = Vec::new();
        append(&mut tail, Kind::ClassOfService, &[1; 4]);
        assert_eq!(integrity(Some(&key()), &sequence, &tail), Integrity::Absent);
        append(&mut tail, Kind::Hmac, &[0; 16]);
        append(&mut tail, Kind::ExtraPadding, &[3; 5]);
        sign(&key(), &sequence, &mut tail, 8);
        assert_eq!(
            integrity(Some(&key()), &sequence, &tail),
            Integrity::Right(8)
        );
        assert_eq!(integrity(None, &sequence, &tail), Integrity::Wrong);
        assert_eq!(
            integrity(Some(&key()), &[0, 0, 0, 8], &tail),
            Integrity::Wrong
        );
        let mut changed = tail.clone();
        changed[5] ^= 1;
        assert_eq!(
            integrity(Some(&key()), &sequence, &changed),
            Integrity::Wrong
        );
        append(&mut tail, Kind::ClassOfService, &[1; 4]);
        assert_eq!(integrity(Some(&key()), &sequence, &tail), Integrity::Wrong);
    }

    proptest! {
        #[test]
        fn any_bytes_are_walked_to_their_end(tail in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut at = 0;
            for tlv in Walk::new(&tail) {
                prop_assert_eq!(tlv.at, at);
                at = tlv.value().end;
                prop_assert!(at <= tail.len());
            }
            let _ = integrity(Some(&key()), &[0; 4], &tail);
        }

        #[test]
        fn what_is_appended_is_found(
            values in proptest::collection::vec((0_usize..8, proptest::collection::vec(any::<u8>(), 0..40)), 1..9)
        ) {
            let mut tail = Vec::new();
            let mut expected = Vec::new();
            for (index, value) in &values {
                let kind = Kind::ALL[*index].0;
                append(&mut tail, kind, value);
                expected.push((Some(kind), value.clone()));
                if !kind.takes(value.len()) {
                    break;
                }
            }
            let found = Walk::new(&tail);
            let found: Vec<_> = found.map(|tlv| (tlv.kind, tail[tlv.value()].to_vec())).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
