//! Which frames on a link are control frames, and their kind.

use measure::wire::frame::{HEADER_BYTES, MAGIC};

/// The `EtherType` of control frames on a direct link, unless another is configured: IEEE 802's first
/// for local experiments.
pub const ETHERTYPE: u16 = 0x88b5;

/// Kinds of control frames, by number; the first is no kind.
pub const KINDS: [&str; 8] = [
    "data",
    "hello",
    "marker",
    "stash",
    "fragment",
    "reference",
    "request",
    "report",
];

/// The number of hellos' kind.
pub const HELLO: u8 = 1;

/// The number of markers' kind.
pub const MARKER: u8 = 2;

/// Where a control frame says its kind.
const KIND_AT: usize = 5;

const ADDRESSES_BYTES: usize = 12;
const IPV6_BYTES: usize = 40;
const UDP_BYTES: usize = 8;
const UDP: u8 = 17;

/// What a frame is, as far as its bytes tell: nobody's tag is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Class {
    /// The kind of a control frame, as it is on the wire; 0 for data.
    pub kind: u8,
    /// Which copy of a marker it is; 0 for all else.
    pub copy: u8,
}

impl Class {
    /// Data.
    pub const DATA: Self = Self { kind: 0, copy: 0 };

    /// Of a frame with these first bytes.
    pub fn of(frame: &[u8], ethertype: u16) -> Self {
        let Some(body) = control(frame, ethertype) else {
            return Self::DATA;
        };
        let kind = body.get(KIND_AT).copied().unwrap_or(u8::MAX);
        let copy = match kind {
            MARKER => body.get(HEADER_BYTES).copied().unwrap_or(0),
            _ => 0,
        };
        // A control frame of kind 0 is none, and data neither.
        Self {
            kind: if kind == 0 { u8::MAX } else { kind },
            copy,
        }
    }

    /// Whether it is a control frame.
    pub fn is_control(self) -> bool {
        self.kind != 0
    }
}

/// The control frame that an Ethernet frame carries, from its magic on: of this `EtherType`, or in UDP.
pub fn control(frame: &[u8], ethertype: u16) -> Option<&[u8]> {
    let (found, layer3) = ethertype_of(frame)?;
    let body = match found {
        found if found == ethertype => layer3,
        0x0800 => udp(
            layer3,
            usize::from(layer3.first()? & 15) * 4,
            *layer3.get(9)?,
        )?,
        0x86dd => udp(layer3, IPV6_BYTES, *layer3.get(6)?)?,
        _ => return None,
    };
    body.starts_with(&MAGIC).then_some(body)
}

/// The `EtherType` behind up to two VLAN tags, and what follows it.
fn ethertype_of(frame: &[u8]) -> Option<(u16, &[u8])> {
    let mut rest = frame.get(ADDRESSES_BYTES..)?;
    for _ in 0..3 {
        let (found, behind) = rest.split_first_chunk::<2>()?;
        match u16::from_be_bytes(*found) {
            0x8100 | 0x88a8 | 0x9100 => rest = behind.get(2..)?,
            found => return Some((found, behind)),
        }
    }
    None
}

fn udp(layer3: &[u8], header_bytes: usize, protocol: u8) -> Option<&[u8]> {
    if protocol != UDP {
        return None;
    }
    layer3.get(header_bytes + UDP_BYTES..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(kind: u8, copy: u8) -> Vec<u8> {
        let mut body = vec![0; HEADER_BYTES + 20];
        body[..4].copy_from_slice(&MAGIC);
        body[KIND_AT] = kind;
        body[HEADER_BYTES] = copy;
        body
    }

    fn ethernet(ethertype: u16, body: &[u8]) -> Vec<u8> {
        let mut frame = vec![2; ADDRESSES_BYTES];
        frame.extend(ethertype.to_be_bytes());
        frame.extend(body);
        frame
    }

    fn ipv4(body: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; 20 + UDP_BYTES];
        packet[0] = 0x45;
        packet[9] = UDP;
        packet.extend(body);
        packet
    }

    #[test]
    fn control_frames_are_told_from_data_by_their_magic() {
        let marker = Class {
            kind: MARKER,
            copy: 2,
        };
        for frame in [
            ethernet(ETHERTYPE, &body(MARKER, 2)),
            ethernet(0x0800, &ipv4(&body(MARKER, 2))),
            ethernet(
                0x8100,
                &[&[0, 5, 8, 0][..], &ipv4(&body(MARKER, 2))].concat(),
            ),
            ethernet(
                0x86dd,
                &[
                    &[0x60, 0, 0, 0, 0, 0, UDP, 64][..],
                    &[0; 32 + 8],
                    &body(2, 2),
                ]
                .concat(),
            ),
        ] {
            assert_eq!(Class::of(&frame, ETHERTYPE), marker, "{frame:02x?}");
        }
        for frame in [
            vec![],
            ethernet(ETHERTYPE, b"VRN"),
            ethernet(ETHERTYPE, b"something else"),
            ethernet(0x9000, &body(1, 0)),
            ethernet(0x0800, &[0x45]),
        ] {
            assert_eq!(Class::of(&frame, ETHERTYPE), Class::DATA, "{frame:02x?}");
        }
        let hello = Class::of(&ethernet(ETHERTYPE, &body(1, 2)), ETHERTYPE);
        assert_eq!((hello.kind, hello.copy), (1, 0), "only markers have copies");
        assert!(Class::of(&ethernet(ETHERTYPE, &body(0, 0)), ETHERTYPE).is_control());
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_are_too_odd(frame: Vec<u8>) {
            let class = Class::of(&frame, ETHERTYPE);
            proptest::prop_assert_eq!(class.is_control(), control(&frame, ETHERTYPE).is_some());
        }
    }
}
