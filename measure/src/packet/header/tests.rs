use proptest::prelude::*;

use super::checksum::Sum;
use super::*;

proptest! {
    #[test]
    fn what_is_emitted_is_where_its_fields_are(
        macs: [[u8; 6]; 2],
        numbers: (u16, u16, u32, u8, u8),
        v4: [u32; 2],
        v6: [u128; 2],
    ) {
        let (short, other, word, byte, protocol) = numbers;
        let [destination, source] = macs;
        let bytes = ethernet::Repr { destination, source, ethertype: short }.emit();
        let header = ethernet::Header::of(&bytes).unwrap();
        let fields = (header.destination(), header.source(), header.ethertype());
        prop_assert_eq!(fields, (destination, source, short));

        let repr = ipv4::Repr {
            dscp: byte >> 2,
            total_bytes: short,
            id: other,
            fragment: short ^ other,
            ttl: byte,
            protocol,
            source: v4[0].into(),
            destination: v4[1].into(),
        };
        let bytes = repr.emit();
        let header = ipv4::Header::at(&bytes, 0).unwrap();
        let fields = (header.header_bytes(), header.dscp(), header.total_bytes(), header.fragment());
        prop_assert_eq!(fields, (ipv4::BYTES, repr.dscp, usize::from(short), repr.fragment));
        let fields = (header.protocol(), header.source(), header.destination());
        prop_assert_eq!(fields, (protocol, repr.source, repr.destination));
        prop_assert_eq!(&bytes[ipv4::field::ID], &other.to_be_bytes());
        prop_assert_eq!(bytes[ipv4::field::TTL], byte);
        prop_assert_eq!(Sum::default().add(&bytes).finish(), 0);

        let repr = ipv6::Repr {
            dscp: byte >> 2,
            flow_label: word >> 12,
            payload_bytes: short,
            next: protocol,
            hop_limit: byte,
            source: v6[0].into(),
            destination: v6[1].into(),
        };
        let bytes = repr.emit();
        let header = ipv6::Header::at(&bytes, 0).unwrap();
        prop_assert!(header.is_consistent());
        let fields = (header.dscp(), header.next(), header.source(), header.destination());
        prop_assert_eq!(fields, (repr.dscp, protocol, repr.source, repr.destination));
        prop_assert_eq!(u32::from(bytes[1] & 0xf), repr.flow_label >> 16);
        prop_assert_eq!(&bytes[2..4], &repr.flow_label.to_be_bytes()[2..]);
        prop_assert_eq!(&bytes[ipv6::field::PAYLOAD_BYTES], &short.to_be_bytes());
        prop_assert_eq!(bytes[ipv6::field::HOP_LIMIT], byte);
    }

    #[test]
    fn what_is_emitted_above_ip_is_where_its_fields_are(
        numbers: (u16, u16, u32, u32, u8, u8),
    ) {
        let (short, other, word, long, byte, protocol) = numbers;
        let repr = ipv6::Fragment { offset_and_more: short & 0xfff9, id: word };
        let bytes = repr.emit(protocol);
        let header = ipv6::Extension::at(&bytes, 0).unwrap();
        prop_assert_eq!((header.next(), header.as_fragment()), (protocol, repr));

        let bytes = tcp::Repr {
            source_port: short,
            destination_port: other,
            sequence: word,
            acknowledgement: long,
            flags: byte,
            window: short ^ other,
        }
        .emit();
        let expected = [
            &short.to_be_bytes()[..],
            &other.to_be_bytes(),
            &word.to_be_bytes(),
            &long.to_be_bytes(),
            &[5 << 4, byte],
            &(short ^ other).to_be_bytes(),
            &[0; 4],
        ];
        prop_assert_eq!(&bytes[..], &expected.concat()[..]);
        let header = tcp::Header::at(&bytes, 0).unwrap();
        prop_assert_eq!(header.header_bytes(), tcp::BYTES);

        let repr = udp::Repr { source_port: short, destination_port: other, length_bytes: short };
        let bytes = repr.emit();
        let header = udp::Header::at(&bytes, 0).unwrap();
        prop_assert_eq!(&bytes[udp::field::SOURCE_PORT], &short.to_be_bytes());
        let fields = (header.destination_port(), header.length_bytes());
        prop_assert_eq!(fields, (other, usize::from(short)));
    }

    #[test]
    fn checksums_of_segments_hold(
        payload in prop::collection::vec(any::<u8>(), 0..64),
        v4: [u32; 2],
        v6: [u128; 2],
    ) {
        let mut datagram = udp::Repr::new(1, 2, payload.len()).emit().to_vec();
        datagram.extend(&payload);
        let [source, destination] = v4.map(Into::into);
        let ip = ipv4::Repr::new(source, destination, protocol::UDP, datagram.len());
        udp::set_checksum(&mut datagram, ip.pseudo_header());
        prop_assert_eq!(ip.pseudo_header().add(&datagram).finish(), 0);
        prop_assert_ne!(&datagram[udp::field::CHECKSUM], &[0, 0]);

        let mut segment = vec![9; tcp::BYTES];
        segment.extend(&payload);
        let [source, destination] = v6.map(Into::into);
        let ip = ipv6::Repr::new(source, destination, protocol::TCP, segment.len());
        tcp::set_checksum(&mut segment, ip.pseudo_header());
        prop_assert_eq!(ip.pseudo_header().add(&segment).finish(), 0);
    }
}

/// An example that is not ours: Wikipedia, "Internet checksum".
#[test]
fn the_checksum_is_that_of_others() {
    let ip = ipv4::Repr {
        total_bytes: 0x73,
        ..ipv4::Repr::new(
            [0xc0, 0xa8, 0, 1].into(),
            [0xc0, 0xa8, 0, 0xc7].into(),
            protocol::UDP,
            0,
        )
    };
    assert_eq!(ip.emit()[ipv4::field::CHECKSUM], [0xb8, 0x61]);
}

#[test]
fn headers_that_are_cut_have_no_view() {
    let bytes = [0; 100];
    for (name, whole, is_there) in [
        (
            "ethernet",
            14,
            (|b| ethernet::Header::of(b).is_some()) as fn(&[u8]) -> bool,
        ),
        ("vlan", 4, |b| vlan::Header::at(b, 0).is_some()),
        ("mpls", 4, |b| mpls::Header::at(b, 0).is_some()),
        ("ipv4", 20, |b| ipv4::Header::at(b, 0).is_some()),
        ("ipv6", 40, |b| ipv6::Header::at(b, 0).is_some()),
        ("extension", 8, |b| ipv6::Extension::at(b, 0).is_some()),
        ("tcp", 20, |b| tcp::Header::at(b, 0).is_some()),
        ("udp", 8, |b| udp::Header::at(b, 0).is_some()),
    ] {
        assert!(is_there(&bytes[..whole]), "{name}");
        assert!(!is_there(&bytes[..whole - 1]), "{name}");
    }
    assert!(ipv4::Header::at(&bytes, 101).is_none(), "beyond the end");
}
