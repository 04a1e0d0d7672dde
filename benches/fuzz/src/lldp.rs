//! LLDP frames, from the port to the list of its neighbours.
//!
//! Oracle: a port has at most eight neighbours, sorted, without duplicates and without expired ones; their texts have at most
//! 64 characters and no control characters.

use std::collections::BTreeSet;

use arbitrary::Arbitrary;
use contract::lldp::{FRAME_BYTES, LldpSlot};
use control::core::neighbours::renew;
use records::snapshot::LldpNeighbour;

use crate::read;

/// Most neighbours of a port, and characters of a text.
const MAX: (usize, usize) = (8, 64);

#[derive(Debug, Arbitrary)]
struct Input {
    heard: Vec<Heard>,
}

#[derive(Debug, Arbitrary)]
enum Heard {
    /// Behind the header of Ethernet.
    Lldp(Vec<u8>),
    /// Type and value of each part.
    Parts(Vec<(u8, Vec<u8>)>),
    Frame(Vec<u8>),
    Later(u16),
}

/// The bytes are frames and the time between them; a first byte 0 begins one frame.
pub fn lldp(bytes: &[u8]) {
    let (mut neighbours, mut now_unix_s) = (Vec::new(), 1e9);
    if let Some((0, frame)) = bytes.split_first() {
        return hear(&mut neighbours, frame, now_unix_s);
    }
    for heard in read::<Input>(bytes).iter().flat_map(|input| &input.heard) {
        match heard {
            Heard::Lldp(rest) => hear(&mut neighbours, &[HEADER, rest].concat(), now_unix_s),
            Heard::Parts(parts) => hear(&mut neighbours, &frame(parts), now_unix_s),
            Heard::Frame(frame) => hear(&mut neighbours, frame, now_unix_s),
            Heard::Later(seconds) => now_unix_s += f64::from(*seconds),
        }
    }
}

/// To the nearest bridge, from a locally administered address.
const HEADER: &[u8] = &[1, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 1, 0x88, 0xcc];

fn frame(parts: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut frame = HEADER.to_vec();
    for (number, value) in parts {
        let value = &value[..value.len().min(0x1ff)];
        let head = u16::from(number % 128) << 9 | u16::try_from(value.len()).unwrap();
        frame.extend(head.to_be_bytes());
        frame.extend(value);
    }
    frame
}

fn hear(neighbours: &mut Vec<LldpNeighbour>, frame: &[u8], now_unix_s: f64) {
    let slot = LldpSlot::default();
    slot.offer(frame);
    let taken = slot.take();
    assert!(
        taken
            .as_ref()
            .is_none_or(|taken| taken.len() <= FRAME_BYTES && frame.starts_with(taken))
    );
    assert_eq!(slot.take(), None);
    renew(neighbours, taken.into_iter(), now_unix_s);
    assert!(neighbours.len() <= MAX.0);
    let ids: BTreeSet<_> = neighbours
        .iter()
        .map(|one| (&one.chassis, &one.port))
        .collect();
    assert_eq!(ids.len(), neighbours.len(), "{neighbours:?}");
    assert!(neighbours.is_sorted_by_key(|one| (&one.system, &one.port)));
    for one in neighbours {
        assert!(
            now_unix_s < one.heard_unix_s + f64::from(one.ttl_s),
            "{one:?}"
        );
        for text in [&one.system, &one.chassis, &one.port] {
            assert!((1..=MAX.1).contains(&text.chars().count()), "{one:?}");
            assert!(!text.chars().any(char::is_control), "{one:?}");
        }
    }
}

/// Frames of switches and hosts, and malformed ones.
pub(crate) fn examples() -> Vec<Vec<u8>> {
    let mac = vec![4, 2, 0, 0, 0, 0, 1];
    let name = |subtype: u8, name: &str| [&[subtype], name.as_bytes()].concat();
    let network = vec![5, 1, 192, 0, 2, 1];
    let ttl = |seconds: u16| (3, seconds.to_be_bytes().to_vec());
    let frames = [
        vec![
            (1, mac.clone()),
            (2, name(5, "eth0")),
            ttl(120),
            (5, b"core-1".to_vec()),
            (0, Vec::new()),
        ],
        vec![(1, network), (2, name(7, "7")), ttl(0), (0, Vec::new())],
        vec![
            (1, name(7, "host\u{1b}[2J")),
            (2, mac),
            ttl(65_535),
            (5, vec![b' '; 511]),
        ],
        vec![(2, name(5, "eth0")), ttl(120)],
        vec![(127, vec![0, 0x80, 0xc2, 1])],
    ];
    let seed = |parts: &Vec<(u8, Vec<u8>)>| [&[0], &frame(parts)[..]].concat();
    frames.iter().map(seed).collect()
}
