//! Recognises control frames on a link, and their kind.

use measure::packet::header::{ethertype, ipv4, ipv6, protocol, udp};
use measure::packet::walk::Link;
use wire::frame::MAGIC;

/// The `EtherType` of control frames on a direct link, unless another is configured, as none is here: IEEE 802's
/// first for local experiments.
pub const ETHERTYPE: u16 = 0x88b5;

/// Number of kinds of frames: data, and seven of control frames.
pub const KINDS: usize = 8;

/// The number of hellos' kind.
pub const HELLO: u8 = 1;

/// The number of references' kind.
pub const REFERENCE: u8 = 5;

/// Offset of the kind in a control frame.
const KIND_AT: usize = 5;

/// The kind of a frame on the wire from its bytes alone, without verifying a tag; 0 for data.
pub fn kind(frame: &[u8]) -> u8 {
    let Some(body) = control(frame) else {
        return 0;
    };
    match body.get(KIND_AT) {
        // Kind 0 means data here, so a control frame with kind 0 counts as an unknown kind.
        None | Some(0) => u8::MAX,
        Some(&kind) => kind,
    }
}

/// The control frame that an Ethernet frame carries by its `EtherType` or in UDP, from its magic on.
pub fn control(frame: &[u8]) -> Option<&[u8]> {
    let link = Link::of(frame);
    let at = match link.ethertype {
        ETHERTYPE => link.at,
        ethertype::IPV4 => {
            let ip = ipv4::Header::at(frame, link.at)?;
            link.at + udp_payload(ip.protocol(), ip.header_bytes())?
        }
        ethertype::IPV6 => {
            let ip = ipv6::Header::at(frame, link.at)?;
            link.at + udp_payload(ip.next(), ipv6::BYTES)?
        }
        _ => return None,
    };
    let body = frame.get(at..)?;
    body.starts_with(&MAGIC).then_some(body)
}

/// Offset of UDP's payload from the IP header.
fn udp_payload(protocol: u8, header_bytes: usize) -> Option<usize> {
    (protocol == protocol::UDP).then_some(header_bytes + udp::BYTES)
}

#[cfg(test)]
mod tests {
    use wire::frame::HEADER_BYTES;

    use super::*;

    fn body(kind: u8) -> Vec<u8> {
        let mut body = vec![0; HEADER_BYTES + 20];
        body[..4].copy_from_slice(&MAGIC);
        body[KIND_AT] = kind;
        body
    }

    fn ethernet(ethertype: u16, body: &[u8]) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend(ethertype.to_be_bytes());
        frame.extend(body);
        frame
    }

    fn ipv4(body: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; ipv4::BYTES + udp::BYTES];
        packet[0] = 0x45;
        packet[9] = protocol::UDP;
        packet.extend(body);
        packet
    }

    #[test]
    fn control_frames_are_known_by_their_magic() {
        let body_of_hello = body(HELLO);
        let in_ipv4 = ipv4(&body_of_hello);
        let ipv6 = [0x60, 0, 0, 0, 0, 0, protocol::UDP, 64];
        let in_ipv6 = [&ipv6[..], &[0; 32 + udp::BYTES], &body_of_hello].concat();
        let tagged = [&[0, 5, 8, 0], &*in_ipv4].concat();
        for (ethertype, payload, expected) in [
            (ETHERTYPE, &*body_of_hello, HELLO),
            (0x0800, &in_ipv4, HELLO),
            (0x8100, &tagged, HELLO),
            (0x86dd, &in_ipv6, HELLO),
            (ETHERTYPE, &body(0), u8::MAX),
            (ETHERTYPE, b"VRN", 0),
            (ETHERTYPE, b"something else", 0),
            (0x9000, &body(HELLO), 0),
            (0x0800, &[0x45], 0),
        ] {
            let frame = ethernet(ethertype, payload);
            assert_eq!(super::kind(&frame), expected, "{frame:02x?}");
        }
        assert_eq!(super::kind(&[]), 0);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_have_a_kind(frame: Vec<u8>) {
            proptest::prop_assert_eq!(super::kind(&frame) > 0, control(&frame).is_some());
        }
    }
}
