//! Neighbours of ports, by what they say of themselves in LLDP frames (IEEE 802.1AB-2016, clauses 8 and 9).

use std::net::{Ipv4Addr, Ipv6Addr};

use contract::address::MacAddress;
use contract::text::is_shown;
use measure::packet::header::ethernet;
use records::snapshot::LldpNeighbour;

/// Most neighbours of a port: on a link there is one, on a segment with a hub there are more.
const NEIGHBOURS_MAX: usize = 8;

/// Most characters of a text.
const TEXT_MAX: usize = 64;

/// Types of what a frame consists of (table 8-1).
mod tlv {
    pub const END: u16 = 0;
    pub const CHASSIS: u16 = 1;
    pub const PORT: u16 = 2;
    pub const TTL: u16 = 3;
    pub const SYSTEM_NAME: u16 = 5;
}

/// Takes up frames that came in by a port, and forgets the neighbours that were not heard in time.
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

/// What a frame says; `None` where something mandatory is missing.
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

/// The name of a chassis or a port (tables 8-2 and 8-3), whose subtypes for Ethernet and network addresses differ.
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

/// A text that can be shown; `None` where nothing is left of it.
fn text(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let shown = text.chars().filter(|&c| is_shown(c));
    let shown: String = shown.take(TEXT_MAX).collect();
    let shown = shown.trim();
    (!shown.is_empty()).then(|| shown.to_owned())
}

#[cfg(test)]
mod tests;
