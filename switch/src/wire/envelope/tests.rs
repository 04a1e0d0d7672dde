use proptest::prelude::*;

use super::*;

const PAYLOAD: &[u8] = b"VRNR and what follows";

fn link() -> Envelope {
    Envelope::Link {
        ethertype: 0x88B5,
        source: source_address(7, PortIndex(3)),
    }
}

fn route(local: &str, remote: &str) -> Envelope {
    Envelope::Route {
        route: Route {
            local: local.parse().unwrap(),
            remote: remote.parse().unwrap(),
            gateway: [2, 0, 0, 0, 0, 9],
            udp_port: 34_997,
            dscp: vec![0, 46],
        },
        source: source_address(7, PortIndex(3)),
    }
}

fn back(envelope: &Envelope) -> Envelope {
    match envelope.clone() {
        Envelope::Route { mut route, source } => {
            std::mem::swap(&mut route.local, &mut route.remote);
            Envelope::Route { route, source }
        }
        link @ Envelope::Link { .. } => link,
    }
}

fn closed(envelope: &Envelope, segment: u16, payload: &[u8]) -> Vec<u8> {
    let mut buffer = vec![0xAA; envelope.bytes() + payload.len()];
    buffer[envelope.bytes()..].copy_from_slice(payload);
    let len = envelope.close(segment, payload.len(), &mut buffer).unwrap();
    assert_eq!(len, buffer.len());
    buffer
}

fn all() -> [Envelope; 3] {
    [
        link(),
        route("10.0.0.1", "10.0.1.1"),
        route("fd00::1", "fd00:1::1"),
    ]
}

#[test]
fn what_one_end_closes_the_other_opens() {
    for envelope in all() {
        for payload in [PAYLOAD, &PAYLOAD[..20]] {
            let frame = closed(&envelope, 1, payload);
            assert_eq!(back(&envelope).open(&frame), Some(payload), "{envelope:?}");
        }
    }
}

#[test]
fn without_the_magic_it_is_data() {
    for envelope in all() {
        let frame = closed(&envelope, 0, b"vrnr and what follows");
        assert_eq!(back(&envelope).open(&frame), None);
    }
}

#[test]
fn for_another_address_port_or_type_it_is_data() {
    let frame = closed(&route("10.0.0.1", "10.0.1.1"), 0, PAYLOAD);
    assert_eq!(route("10.0.1.2", "10.0.0.1").open(&frame), None);
    assert_eq!(link().open(&frame), None);
    let mut other_port = frame;
    other_port[ethernet::BYTES + ipv4::BYTES + 3] ^= 1;
    assert_eq!(route("10.0.1.1", "10.0.0.1").open(&other_port), None);
    let mut other_type = closed(&link(), 0, PAYLOAD);
    other_type[13] ^= 1;
    assert_eq!(link().open(&other_type), None);
}

#[test]
fn on_a_link_only_what_is_for_the_neighbour_is_a_control_frame() {
    let frame = closed(&link(), 0, PAYLOAD);
    assert_eq!(link().open(&frame), Some(PAYLOAD));
    let broadcast = [0xFF; 6];
    let station = [0x02, 0, 0, 0, 0, 9];
    let other_group = [0x01, 0x80, 0xC2, 0, 0, 0x0F];
    for destination in [broadcast, station, other_group] {
        let mut frame = frame.clone();
        frame[..6].copy_from_slice(&destination);
        assert_eq!(link().open(&frame), None, "{destination:02x?}");
    }
}

#[test]
fn a_frame_to_the_neighbour_is_for_no_bridge_to_pass_on() {
    let frame = closed(&link(), 0, PAYLOAD);
    assert_eq!(frame[..5], [0x01, 0x80, 0xC2, 0, 0]);
    assert_eq!(frame[6..12], [0x02, 0, 0, 0, 7, 3]);
}

#[test]
fn ip_headers_are_as_routers_check_them() {
    let frame = closed(&route("10.0.0.1", "10.0.1.1"), 1, PAYLOAD);
    let (ip, udp) = frame[ethernet::BYTES..].split_at(ipv4::BYTES);
    assert_eq!(Sum::default().add(ip).finish(), 0, "the header's checksum");
    assert_eq!(ip[1] >> 2, 46);
    let udp_bytes = u16::try_from(udp.len()).unwrap();
    let pseudo = Sum::pseudo_header(&ip[12..20], 17, udp_bytes);
    assert_eq!(pseudo.add(udp).finish(), 0, "UDP's");
    let frame = closed(&route("fd00::1", "fd00:1::1"), 1, PAYLOAD);
    let (ip, udp) = frame[ethernet::BYTES..].split_at(ipv6::BYTES);
    assert_eq!((ip[0] & 0x0F) << 2 | ip[1] >> 6, 46);
    let pseudo = Sum::pseudo_header(&ip[8..40], 17, udp_bytes);
    assert_eq!(pseudo.add(udp).finish(), 0);
}

#[test]
fn what_a_router_rewrites_does_not_matter() {
    let mut frame = closed(&route("10.0.0.1", "10.0.1.1"), 1, PAYLOAD);
    frame[..12].fill(0x42);
    frame[ethernet::BYTES + ipv4::field::DSCP_AND_ECN] = 0;
    frame[ethernet::BYTES + ipv4::field::TTL] -= 1;
    // A tag, and padding at the end.
    frame.splice(12..12, [0x81, 0x00, 0x00, 0x07]);
    frame.extend([0; 9]);
    assert_eq!(route("10.0.1.1", "10.0.0.1").open(&frame), Some(PAYLOAD));
}

#[test]
fn a_buffer_without_room_is_left() {
    for envelope in all() {
        let mut short = vec![0; envelope.bytes() + 3];
        assert_eq!(envelope.close(0, 4, &mut short), None);
    }
}

proptest! {
    #[test]
    fn whatever_comes_is_opened_or_data(
        bytes in proptest::collection::vec(any::<u8>(), 0..120),
        cut in 0_usize..120,
        flips in proptest::collection::vec((0_usize..110, any::<u8>()), 0..4),
    ) {
        for envelope in all() {
            let _ = envelope.open(&bytes);
            let mut frame = closed(&back(&envelope), 0, PAYLOAD);
            for &(at, flip) in &flips {
                if let Some(byte) = frame.get_mut(at) {
                    *byte ^= flip;
                }
            }
            frame.truncate(cut);
            if let Some(opened) = envelope.open(&frame) {
                prop_assert!(opened.starts_with(&MAGIC));
            }
        }
    }
}
