//! A frame of every sort.

use super::frames::{Frame, L4, arp, ethernet};
use crate::packet::Kind;

/// A frame with its name, the kind it must be taken for, and its flow.
pub type Specimen = (&'static str, Vec<u8>, Kind, &'static str);

const TCP4: &str = "10.0.0.1:443>10.0.0.2:55000/tcp";
const UDP4: &str = "10.0.0.1:53>10.0.0.2:40000/udp";
const TCP6: &str = "[2001:db8::1]:443>[2001:db8::2]:55000/tcp";
const UDP6: &str = "[2001:db8::1]:53>[2001:db8::2]:40000/udp";
const SCTP6: &str = "[2001:db8::1]:2905>[2001:db8::2]:2906/sctp";
const UDP4_FRAGMENT: &str = "10.0.0.1>10.0.0.2/udp";
const UDP6_FRAGMENT: &str = "[2001:db8::1]>[2001:db8::2]/udp";

fn tcp() -> L4 {
    L4::tcp(443, 55_000, b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n")
}

fn udp() -> L4 {
    L4::udp(53, 40_000, b"twelve bytes")
}

fn sctp() -> L4 {
    L4::sctp(2905, 2906)
}

pub fn specimens() -> Vec<Specimen> {
    [
        transports(),
        encapsulations(),
        fragments_and_extensions(),
        others(),
        broken(),
    ]
    .concat()
}

fn transports() -> Vec<Specimen> {
    vec![
        ("TCP", Frame::v4(tcp()).bytes(), Kind::Tcp, TCP4),
        ("UDP", Frame::v4(udp()).bytes(), Kind::Udp, UDP4),
        (
            "SCTP",
            Frame::v4(sctp()).bytes(),
            Kind::Sctp,
            "10.0.0.1:2905>10.0.0.2:2906/sctp",
        ),
        (
            "ICMP",
            Frame::v4(L4::icmp(1)).bytes(),
            Kind::Icmp,
            "10.0.0.1>10.0.0.2/icmp",
        ),
        (
            "GRE",
            Frame::v4(L4::other(47)).bytes(),
            Kind::OtherIp,
            "10.0.0.1>10.0.0.2/47",
        ),
        ("TCP over IPv6", Frame::v6(tcp()).bytes(), Kind::Tcp, TCP6),
        ("UDP over IPv6", Frame::v6(udp()).bytes(), Kind::Udp, UDP6),
        (
            "ICMPv6",
            Frame::v6(L4::icmp(58)).bytes(),
            Kind::Icmp,
            "[2001:db8::1]>[2001:db8::2]/icmpv6",
        ),
    ]
}

fn encapsulations() -> Vec<Specimen> {
    let four = [(0x8100, 7), (0x9100, 8), (0x88a8, 9), (0x88a8, 10)];
    let tagged = |tags: &[(u16, u16)]| {
        tags.iter()
            .fold(Frame::v6(udp()), |frame, &(kind, id)| frame.tag(kind, id))
            .bytes()
    };
    vec![
        (
            "one VLAN tag",
            Frame::v4(tcp()).tag(0x8100, 7).bytes(),
            Kind::Tcp,
            TCP4,
        ),
        ("four VLAN tags", tagged(&four), Kind::Udp, UDP6),
        (
            "five VLAN tags",
            tagged(&[(0x8100, 4); 5]),
            Kind::NonIp,
            "02:00:00:00:00:01>02:00:00:00:00:02/0x8100/vlan4",
        ),
        ("MPLS", Frame::v4(tcp()).mpls(3).bytes(), Kind::Tcp, TCP4),
        (
            "MPLS, most labels",
            Frame::v6(tcp()).mpls(8).bytes(),
            Kind::Tcp,
            TCP6,
        ),
        (
            "MPLS, too many labels",
            Frame::v4(tcp()).mpls(9).bytes(),
            Kind::NonIp,
            "02:00:00:00:00:01>02:00:00:00:00:02/0x8847",
        ),
        (
            "pseudowire that looks like IPv4",
            ethernet(
                0x8847,
                &[[0, 0, 0x11, 0x40].as_slice(), &[0x44; 40]].concat(),
            ),
            Kind::NonIp,
            "02:00:00:00:00:01>02:00:00:00:00:02/0x8847",
        ),
    ]
}

fn fragments_and_extensions() -> Vec<Specimen> {
    let fragment6 = Frame::v6(udp()).extension(44, 8);
    let behind_others = fragment6.clone().extension(0, 16).fragment(185, true);
    let four = [(51, 24), (60, 8), (43, 24), (0, 8)];
    let extended = four
        .into_iter()
        .fold(Frame::v6(sctp()), |frame, (kind, bytes)| {
            frame.extension(kind, bytes)
        });
    let nine = (0..9).fold(Frame::v6(udp()), |frame, _| frame.extension(60, 8));
    let first = Frame::v4(udp()).fragment(0, true);
    let later = Frame::v4(udp()).fragment(185, false);
    vec![
        (
            "IPv4 options",
            Frame::v4(tcp()).options(3).bytes(),
            Kind::Tcp,
            TCP4,
        ),
        (
            "first fragment",
            first.bytes(),
            Kind::Fragment,
            UDP4_FRAGMENT,
        ),
        (
            "later fragment",
            later.bytes(),
            Kind::Fragment,
            UDP4_FRAGMENT,
        ),
        (
            "IPv6 fragment behind other extensions",
            behind_others.bytes(),
            Kind::Fragment,
            UDP6_FRAGMENT,
        ),
        (
            "IPv6 atomic fragment (RFC 6946)",
            fragment6.bytes(),
            Kind::Udp,
            UDP6,
        ),
        ("IPv6 extensions", extended.bytes(), Kind::Sctp, SCTP6),
        (
            "IPv6, too many extensions",
            nine.bytes(),
            Kind::OtherIp,
            "[2001:db8::1]>[2001:db8::2]/60",
        ),
    ]
}

fn others() -> Vec<Specimen> {
    vec![
        (
            "ARP",
            arp(),
            Kind::NonIp,
            "02:00:00:00:00:01>ff:ff:ff:ff:ff:ff/0x0806",
        ),
        (
            "LLC",
            ethernet(38, &[0x42; 46]),
            Kind::NonIp,
            "02:00:00:00:00:01>02:00:00:00:00:02/0x0026",
        ),
    ]
}

fn broken() -> Vec<Specimen> {
    let v4_pair = "02:00:00:00:00:01>02:00:00:00:00:02/0x0800";
    let v6_pair = "02:00:00:00:00:01>02:00:00:00:00:02/0x86dd";
    let total = |bytes| Frame::v4(tcp()).patch(16, 0).patch(17, bytes).bytes();
    let cut_udp = Frame::v4(udp()).bytes()[..40].to_vec();
    let runt = vec![2, 0, 0, 0, 0, 9, 2];
    vec![
        (
            "runt",
            runt,
            Kind::Truncated,
            "02:00:00:00:00:00>02:00:00:00:00:09/0x0000",
        ),
        ("cut inside UDP", cut_udp, Kind::Truncated, UDP4_FRAGMENT),
        (
            "IHL under 5",
            Frame::v4(tcp()).patch(14, 0x44).bytes(),
            Kind::Malformed,
            v4_pair,
        ),
        (
            "IP version 5",
            Frame::v6(tcp()).patch(14, 0x50).bytes(),
            Kind::Malformed,
            v6_pair,
        ),
        (
            "total length under the header's",
            total(19),
            Kind::Malformed,
            v4_pair,
        ),
        (
            "total length under TCP's",
            total(39),
            Kind::Malformed,
            "10.0.0.1>10.0.0.2/tcp",
        ),
        (
            "TCP offset under 5",
            Frame::v4(tcp()).patch(46, 0x40).bytes(),
            Kind::Malformed,
            TCP4,
        ),
    ]
}
