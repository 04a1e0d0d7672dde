//! Neighbours of ports, as they describe themselves in LLDP frames (IEEE 802.1AB-2016, clauses 8 and 9).

use std::net::{Ipv4Addr, Ipv6Addr};

use contract::address::MacAddress;
use contract::text::is_shown;
use measure::packet::header::ethernet;
use records::snapshot::LldpNeighbour;

/// Most neighbours of a port: a link has one, a segment with a hub more.
const NEIGHBOURS_MAX: usize = 8;

/// Most characters of a text.
const TEXT_MAX: usize = 64;

/// Types of a frame's parts (table 8-1).
mod tlv {
    pub const END: u16 = 0;
    pub const CHASSIS: u16 = 1;
    pub const PORT: u16 = 2;
    pub const TTL: u16 = 3;
    pub const SYSTEM_NAME: u16 = 5;
}

/// Processes frames received on a port, and forgets neighbours whose information has expired.
pub fn renew(
    known: &mut Vec<LldpNeighbour>,
    frames: impl Iterator<Item = Vec<u8>>,
    now_unix_s: f64,
) {
    for heard in frames.filter_map(|frame| read(&frame, now_unix_s)) {
        known.retain(|old| (&old.chassis, &old.port) != (&heard.chassis, &heard.port));
        if known.len() < NEIGHBOURS_MAX {
            known.push(heard);
        }
    }
    known.retain(|neighbour| now_unix_s < neighbour.heard_unix_s + f64::from(neighbour.ttl_s));
    known.sort_by(|a, b| (&a.system, &a.port).cmp(&(&b.system, &b.port)));
}

/// Parses a frame; `None` if something mandatory is missing.
fn read(frame: &[u8], now_unix_s: f64) -> Option<LldpNeighbour> {
    let (mut chassis, mut port, mut ttl_s, mut system) = (None, None, None, None);
    let mut rest = frame.get(ethernet::BYTES..)?;
    while let Some((&head, after)) = rest.split_first_chunk() {
        // 7 bits of type, 9 of length.
        let head = u16::from_be_bytes(head);
        let Some((value, after)) = after.split_at_checked(usize::from(head & 0x1ff)) else {
            break;
        };
        match head >> 9 {
            tlv::END => break,
            tlv::CHASSIS => chassis = id(value, 4, 5),
            tlv::PORT => port = id(value, 3, 4),
            tlv::TTL => ttl_s = value.first_chunk().copied().map(u16::from_be_bytes),
            tlv::SYSTEM_NAME => system = text(value),
            _ => {}
        }
        rest = after;
    }
    let chassis = chassis?;
    Some(LldpNeighbour {
        system: system.unwrap_or_else(|| chassis.clone()),
        chassis,
        port: port?,
        heard_unix_s: now_unix_s,
        ttl_s: ttl_s?,
    })
}

/// The name of a chassis or a port (tables 8-2 and 8-3), whose subtypes for MAC and network addresses differ.
fn id(value: &[u8], ethernet: u8, network: u8) -> Option<String> {
    let (&subtype, name) = value.split_first()?;
    let address = |name: &[u8]| match name.split_first()? {
        // IANA, "Address Family Numbers".
        (1, octets) => Some(Ipv4Addr::from(<[u8; 4]>::try_from(octets).ok()?).to_string()),
        (2, octets) => Some(Ipv6Addr::from(<[u8; 16]>::try_from(octets).ok()?).to_string()),
        _ => None,
    };
    if subtype == ethernet {
        let octets = name.try_into().ok()?;
        Some(MacAddress(octets).to_string())
    } else if subtype == network {
        address(name)
    } else {
        text(name)
    }
}

/// A cleaned text; `None` if nothing is left of it.
fn text(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let shown = text.chars().filter(|&c| is_shown(c));
    let shown: String = shown.take(TEXT_MAX).collect();
    let shown = shown.trim();
    (!shown.is_empty()).then(|| shown.to_owned())
}

#[cfg(test)]
mod tests {
    //! Against frames as lldpd and switches send them.

    use super::{read, renew, tlv};

    /// A frame of these types and values, behind an Ethernet header of LLDP.
    fn frame(parts: &[(u16, &[u8])]) -> Vec<u8> {
        let mut frame = b"\x01\x80\xc2\x00\x00\x0e\x02\x00\x00\x00\x00\x01\x88\xcc".to_vec();
        for (kind, value) in parts {
            let length = u16::try_from(value.len()).expect("a value is short");
            frame.extend((kind << 9 | length).to_be_bytes());
            frame.extend(*value);
        }
        frame
    }

    /// A frame of a neighbour with a name, by an interface's name.
    fn named(system: &[u8], port: &[u8], ttl_s: u16) -> Vec<u8> {
        frame(&[
            (tlv::CHASSIS, b"\x04\x02\x00\x00\x00\x00\x01"),
            (tlv::PORT, &[b"\x05", port].concat()),
            (tlv::TTL, &ttl_s.to_be_bytes()),
            (tlv::SYSTEM_NAME, system),
            (tlv::END, b""),
        ])
    }

    #[test]
    fn says_who_is_there_and_for_how_long() {
        let heard = read(&named(b"leaf-3", b"Ethernet1/7", 120), 10.0).expect("all is there");
        assert_eq!(heard.system, "leaf-3");
        assert_eq!(heard.chassis, "02:00:00:00:00:01");
        assert_eq!(heard.port, "Ethernet1/7");
        assert_eq!((heard.heard_unix_s, heard.ttl_s), (10.0, 120));
    }

    #[test]
    fn a_chassis_stands_for_a_name_that_is_not_there() {
        let by_address = frame(&[
            // A network address (subtype 5): IPv4.
            (tlv::CHASSIS, b"\x05\x01\xc0\x00\x02\x07"),
            // An Ethernet address (subtype 3).
            (tlv::PORT, b"\x03\x02\x00\x00\x00\x00\x09"),
            (tlv::TTL, b"\x00\x1e"),
        ]);
        let heard = read(&by_address, 0.0).expect("all is there");
        assert_eq!([heard.system, heard.chassis], ["192.0.2.7", "192.0.2.7"]);
        assert_eq!(heard.port, "02:00:00:00:00:09");
    }

    #[test]
    fn what_is_mandatory_has_to_be_there() {
        let whole = named(b"leaf-3", b"1", 120);
        for bytes in 0..14 + 9 + 4 + 4 {
            assert_eq!(read(&whole[..bytes], 0.0), None, "{bytes} bytes");
        }
        let without_port = frame(&[(tlv::CHASSIS, b"\x07one"), (tlv::TTL, b"\x00\x1e")]);
        assert_eq!(read(&without_port, 0.0), None);
    }

    #[test]
    fn a_neighbour_is_forgotten_when_it_leaves_or_falls_silent() {
        let mut known = Vec::new();
        let two = [named(b"b", b"1", 30), named(b"a", b"2", 120)];
        renew(&mut known, two.into_iter(), 100.0);
        let systems: Vec<_> = known.iter().map(|one| one.system.as_str()).collect();
        assert_eq!(systems, ["a", "b"]);

        renew(&mut known, std::iter::empty(), 131.0);
        assert_eq!(known.len(), 1, "b was silent for longer than 30 s");

        // A shutdown (9.1.2.2).
        renew(&mut known, [named(b"a", b"2", 0)].into_iter(), 132.0);
        assert_eq!(known, []);
    }

    #[test]
    fn a_neighbour_that_is_heard_again_is_the_same() {
        let mut known = Vec::new();
        for second in 0..5_u8 {
            renew(
                &mut known,
                [named(b"a", b"1", 2)].into_iter(),
                second.into(),
            );
            assert_eq!(known.len(), 1);
        }
        assert!((3.5..4.5).contains(&known[0].heard_unix_s));
    }
}
