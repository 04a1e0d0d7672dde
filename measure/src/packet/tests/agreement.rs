//! Two points agree on a packet whatever hops did to it, and tell different packets apart.

use std::ops::Range;

use proptest::prelude::*;

use super::frames::{self, Frame, L4};
use super::hasher;
use crate::packet::Parsed;

fn parse(frame: &[u8]) -> Parsed {
    hasher().parse(frame, u32::try_from(frame.len()).unwrap())
}

/// A frame, where its IP header begins, and which bytes a router may rewrite.
fn routed() -> Vec<(Vec<u8>, usize, Vec<usize>)> {
    let tcp = L4::tcp(443, 55_000, b"hello");
    let udp = L4::udp(
        53,
        40_000,
        b"a payload of more than thirty-two bytes in all",
    );
    // Type of service, TTL, header checksum; traffic class in halves, hop limit.
    let v4 = |more: &[usize]| [&[15, 22, 24, 25], more].concat();
    let v6 = |more: &[usize]| [&[21], more].concat();
    vec![
        (Frame::v4(tcp.clone()).bytes(), 14, v4(&[50, 51])),
        (Frame::v4(udp.clone()).bytes(), 14, v4(&[40, 41])),
        (Frame::v4(L4::sctp(1, 2)).bytes(), 14, v4(&[42, 43, 44, 45])),
        (Frame::v4(L4::icmp(1)).bytes(), 14, v4(&[36, 37])),
        (Frame::v4(L4::other(47)).bytes(), 14, v4(&[])),
        (
            Frame::v4(udp.clone()).fragment(0, true).bytes(),
            14,
            v4(&[40, 41]),
        ),
        (Frame::v6(tcp).bytes(), 14, v6(&[70, 71])),
        (Frame::v6(udp).bytes(), 14, v6(&[60, 61])),
        (Frame::v6(L4::icmp(58)).bytes(), 14, v6(&[56, 57])),
    ]
}

fn with_tag(frame: &[u8], id: u16) -> Vec<u8> {
    let mut tagged = frame[..12].to_vec();
    tagged.extend([0x81, 0x00]);
    tagged.extend(id.to_be_bytes());
    tagged.extend(&frame[12..]);
    tagged
}

/// A frame after a router: with other MAC addresses, TTL, DSCP and checksums, other tags or labels, and bytes after the
/// packet.
fn reroute(
    original: &(Vec<u8>, usize, Vec<usize>),
    noise: [u8; 32],
    tags: &[u16],
    trailer: &[u8],
    labels: u8,
) -> Vec<u8> {
    let (original, ip, rewritten) = original;
    let mut frame = original.clone();
    let mut noise = noise.into_iter().cycle();
    // MAC addresses, then the fields of IP and above, then DSCP and ECN of IPv6.
    for at in (0..12).chain(rewritten.iter().copied()) {
        frame[at] = noise.next().unwrap();
    }
    if frame[*ip] >> 4 == 6 {
        frame[*ip] = 0x60 | noise.next().unwrap() & 0x0f;
        frame[ip + 1] = frame[ip + 1] & 0x0f | noise.next().unwrap() & 0xf0;
    }
    frame.extend(trailer);
    if labels > 0 {
        let mut labelled = frame[..12].to_vec();
        labelled.extend([0x88, 0x47]);
        for label in 1..=labels {
            labelled.extend([noise.next().unwrap(), 0, u8::from(label == labels), 9]);
        }
        labelled.extend(&frame[14..]);
        frame = labelled;
    }
    for &id in tags {
        frame = with_tag(&frame, id);
    }
    frame
}

/// A frame as it was sent, and as it came out of routers.
pub(crate) fn passages() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let parts = (
        proptest::sample::select(routed()),
        any::<[u8; 32]>(),
        proptest::collection::vec(0_u16..4096, 0..5),
        proptest::collection::vec(any::<u8>(), 0..20),
        0_u8..3,
    );
    parts.prop_map(|(original, noise, tags, trailer, labels)| {
        let rerouted = reroute(&original, noise, &tags, &trailer, labels);
        (original.0, rerouted)
    })
}

proptest! {
    #[test]
    fn what_routers_rewrite_does_not_count((original, rerouted) in passages()) {
        prop_assert!(rerouted.len() >= original.len());
        prop_assert_eq!(parse(&rerouted), parse(&original));
    }

    #[test]
    fn padding_of_short_ip_packets_does_not_count(padding in any::<[u8; 12]>()) {
        let original = Frame::v4(L4::udp(1, 2, b"tiny")).bytes();
        let mut frame = original.clone();
        frame[48..].copy_from_slice(&padding);
        prop_assert_eq!(parse(&frame), parse(&original));
        prop_assert_eq!(parse(&frame[..46]), parse(&original));
    }
}

#[test]
fn tags_and_padding_of_other_frames_do_not_count_for_the_packet() {
    for frame in [frames::arp(), frames::ethernet(38, &[0x42; 46])] {
        let original = parse(&frame);
        let tagged = with_tag(&frame, 5);
        assert_eq!(parse(&tagged).packet, original.packet);
        assert_ne!(
            parse(&tagged).flow,
            original.flow,
            "the VLAN is part of the flow"
        );
        // Tagged and cut back to the least length; padded with something else.
        assert_eq!(parse(&tagged[..60]).packet, original.packet);
        let mut padded = frame.clone();
        padded[54..].fill(0xff);
        assert_eq!(parse(&padded).packet, original.packet);
    }
}

/// A frame, the bytes in which a flipped bit must show in the packet hash, and those in which it
/// must show in the flow hash.
type Hashed = (Vec<u8>, Vec<Range<usize>>, Range<usize>);

fn hashed_fields() -> Vec<Hashed> {
    let payload = [0x5a; 40];
    vec![
        (
            Frame::v4(L4::tcp(443, 55_000, &payload)).bytes(),
            // Id; addresses and ports; sequence numbers; payload.
            vec![18..20, 26..38, 38..46, 54..70],
            26..38,
        ),
        (
            Frame::v4(L4::udp(53, 40_000, &payload)).bytes(),
            vec![18..20, 26..38, 42..58],
            26..38,
        ),
        (
            Frame::v4(L4::icmp(1)).bytes(),
            vec![18..20, 26..36, 38..58],
            26..34,
        ),
        (
            Frame::v4(L4::sctp(1, 2)).bytes(),
            vec![18..20, 26..42, 46..62],
            26..38,
        ),
        (
            Frame::v4(L4::udp(1, 2, &payload))
                .fragment(100, true)
                .bytes(),
            vec![18..20, 26..34, 54..70],
            26..34,
        ),
        (
            Frame::v6(L4::tcp(443, 55_000, &payload)).bytes(),
            // Flow label; addresses, ports, sequence numbers; payload.
            vec![16..18, 22..66, 74..90],
            22..58,
        ),
        (
            Frame::v6(L4::udp(1, 2, &payload))
                .extension(44, 8)
                .fragment(9, true)
                .bytes(),
            // The fragment's identification.
            vec![16..18, 22..54, 58..62],
            22..54,
        ),
        (frames::arp(), vec![0..12, 14..30], 0..12),
    ]
}

#[test]
fn a_flipped_bit_of_a_hashed_field_shows() {
    for (frame, packet_fields, flow_field) in hashed_fields() {
        let original = parse(&frame);
        for at in packet_fields.into_iter().flatten() {
            for bit in 0..8 {
                let mut flipped = frame.clone();
                flipped[at] ^= 1 << bit;
                let parsed = parse(&flipped);
                assert_ne!(parsed.packet, original.packet, "byte {at} of {frame:02x?}");
                let in_flow = flow_field.contains(&at);
                assert_eq!(
                    parsed.flow != original.flow,
                    in_flow,
                    "byte {at} of {frame:02x?}"
                );
            }
        }
    }
}

#[test]
fn lengths_and_fragment_fields_tell_packets_apart() {
    let udp = |bytes: usize| L4::udp(1, 2, &vec![7; bytes]);
    let hash = |frame: &Frame| parse(&frame.bytes()).packet;
    assert_ne!(hash(&Frame::v4(udp(40))), hash(&Frame::v4(udp(41))));
    assert_ne!(hash(&Frame::v6(udp(40))), hash(&Frame::v6(udp(41))));
    assert_ne!(
        parse(&frames::ethernet(0x88cc, &[1; 60])).packet,
        parse(&frames::ethernet(0x88cc, &[1; 61])).packet
    );
    let v4 = Frame::v4(udp(40));
    assert_ne!(
        hash(&v4.clone().fragment(1, true)),
        hash(&v4.fragment(2, true))
    );
    let v6 = Frame::v6(udp(40)).extension(44, 8);
    assert_ne!(
        hash(&v6.clone().fragment(1, true)),
        hash(&v6.fragment(2, true))
    );
}

#[test]
fn the_fragments_of_a_datagram_are_one_flow() {
    let datagram = Frame::v4(L4::udp(53, 40_000, &[1; 64]));
    let first = parse(&datagram.clone().fragment(0, true).bytes());
    let last = parse(&datagram.clone().fragment(8, false).bytes());
    assert_eq!(first.flow, last.flow);
    assert_ne!(first.packet, last.packet);
    assert_ne!(first.flow, parse(&datagram.bytes()).flow);
}

#[test]
fn a_flow_has_a_direction() {
    let pairs = [
        (
            Frame::v4(L4::tcp(443, 55_000, b"")).bytes(),
            26..30,
            30..34,
            34..36,
            36..38,
        ),
        (
            Frame::v6(L4::udp(443, 55_000, b"")).bytes(),
            22..38,
            38..54,
            54..56,
            56..58,
        ),
    ];
    for (forth, source, destination, source_port, destination_port) in pairs {
        let mut back = forth.clone();
        for (to, from) in [
            (source.clone(), destination.clone()),
            (destination, source),
            (source_port.clone(), destination_port.clone()),
            (destination_port, source_port),
        ] {
            back[to].copy_from_slice(&forth[from]);
        }
        assert_ne!(parse(&forth).flow, parse(&back).flow);
    }
}

#[test]
fn seeds_change_every_hash() {
    let frame = Frame::v4(L4::tcp(443, 55_000, b"")).bytes();
    let other = crate::packet::Hasher::new([1; 16]).parse(&frame, 60);
    let ours = parse(&frame);
    assert_ne!(ours.flow, other.flow);
    assert_ne!(ours.packet, other.packet);
    assert_ne!(ours.flow.0, ours.packet.0, "independent keys");
}
