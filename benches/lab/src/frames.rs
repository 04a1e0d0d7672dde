//! Which frames on a link are control frames, and their kind.

use measure::packet::header::{ethertype, ipv4, ipv6, protocol, udp};
use measure::packet::walk::Link;
use measure::wire::frame::MAGIC;

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

/// What a frame is by its bytes alone: no tag is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Class {
    /// The kind of a control frame, as it is on the wire; 0 for data.
    pub kind: u8,
}

impl Class {
    /// Data.
    pub const DATA: Self = Self { kind: 0 };

    /// Of a frame that begins with these bytes.
    pub fn of(frame: &[u8]) -> Self {
        let Some(body) = control(frame) else {
            return Self::DATA;
        };
        let kind = body.get(KIND_AT).copied().unwrap_or(u8::MAX);
        // Kind 0 means data here: a control frame that claims it counts as of an unknown kind.
        Self {
            kind: if kind == 0 { u8::MAX } else { kind },
        }
    }

    /// Whether it is a control frame.
    pub fn is_control(self) -> bool {
        self.kind != 0
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
    use measure::wire::frame::HEADER_BYTES;

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
        let hello = Class { kind: HELLO };
        let in_ipv4 = ipv4(&body_of_hello);
        let ipv6 = [0x60, 0, 0, 0, 0, 0, protocol::UDP, 64];
        let in_ipv6 = [&ipv6[..], &[0; 32 + udp::BYTES], &body_of_hello].concat();
        let tagged = [&[0, 5, 8, 0], &*in_ipv4].concat();
        let unknown = Class { kind: u8::MAX };
        for (ethertype, payload, class) in [
            (ETHERTYPE, &*body_of_hello, hello),
            (0x0800, &in_ipv4, hello),
            (0x8100, &tagged, hello),
            (0x86dd, &in_ipv6, hello),
            (ETHERTYPE, &body(0), unknown),
            (ETHERTYPE, b"VRN", Class::DATA),
            (ETHERTYPE, b"something else", Class::DATA),
            (0x9000, &body(HELLO), Class::DATA),
            (0x0800, &[0x45], Class::DATA),
        ] {
            let frame = ethernet(ethertype, payload);
            assert_eq!(Class::of(&frame), class, "{frame:02x?}");
        }
        assert_eq!(Class::of(&[]), Class::DATA);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_have_a_class(frame: Vec<u8>) {
            let class = Class::of(&frame);
            proptest::prop_assert_eq!(class.is_control(), control(&frame).is_some());
        }
    }
}
