use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use config::{Class, Protocol};
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::*;
use super::{Ip, NO_PORT};

fn ports() -> Vec<config::Port> {
    let port = |n| config::Port {
        name: format!("p{n}"),
        ..Config::demo().unwrap().ports[0].clone()
    };
    (0..4).map(port).collect()
}

fn classes() -> Vec<Class> {
    let class = |name: &str| Class {
        name: name.to_owned(),
        lds_weight: 1,
    };
    ["voice", "video", "bulk", "rest"].map(class).to_vec()
}

/// One rule after the other, as the configuration's documentation has it.
fn naive(rules: &[Rule], from: PortIndex, fields: &Fields) -> ClassIndex {
    let is_in = |prefix: Prefix, address: IpAddr| match (prefix.address, address) {
        (IpAddr::V4(net), IpAddr::V4(address)) => {
            (0..prefix.bits).all(|n| (net.to_bits() ^ address.to_bits()) << n >> 31 == 0)
        }
        (IpAddr::V6(net), IpAddr::V6(address)) => {
            (0..prefix.bits).all(|n| (net.to_bits() ^ address.to_bits()) << n >> 127 == 0)
        }
        _ => false,
    };
    let addresses = |ip: &Ip| match ip.addresses {
        Addresses::V4 {
            source,
            destination,
        } => (
            IpAddr::V4(Ipv4Addr::from_bits(source)),
            IpAddr::V4(Ipv4Addr::from_bits(destination)),
        ),
        Addresses::V6 {
            source,
            destination,
        } => (
            IpAddr::V6(Ipv6Addr::from_bits(source)),
            IpAddr::V6(Ipv6Addr::from_bits(destination)),
        ),
    };
    let matches = |rule: &&Rule| {
        let ip = fields.ip.as_ref();
        let of_ip = |agrees: &dyn Fn(&Ip) -> bool| ip.is_some_and(agrees);
        let has_port = |(first, last): (u16, u16), port: u32| {
            u32::from(first) <= port && port <= u32::from(last)
        };
        rule.ingress
            .as_ref()
            .is_none_or(|names| names.contains(&format!("p{}", from.0)))
            && rule
                .pcp
                .as_ref()
                .is_none_or(|list| list.iter().any(|&p| usize::from(p) == fields.pcp))
            && rule
                .dscp
                .as_ref()
                .is_none_or(|list| of_ip(&|ip| list.iter().any(|&d| usize::from(d) == ip.dscp)))
            && rule
                .protocol
                .is_none_or(|one| of_ip(&|ip| usize::from(one.number()) == ip.protocol))
            && rule
                .source
                .is_none_or(|net| of_ip(&|ip| is_in(net, addresses(ip).0)))
            && rule
                .destination
                .is_none_or(|net| of_ip(&|ip| is_in(net, addresses(ip).1)))
            && rule
                .source_ports
                .is_none_or(|range| of_ip(&|ip| has_port(range, ip.source_port)))
            && rule
                .destination_ports
                .is_none_or(|range| of_ip(&|ip| has_port(range, ip.destination_port)))
    };
    let class = rules
        .iter()
        .find(matches)
        .map_or("rest", |rule| rule.class.as_str());
    class_index(classes().iter().position(|one| one.name == class).unwrap())
}

/// Small worlds, so that rules and packets meet.
fn v4() -> impl Strategy<Value = u32> {
    (0u32..4, 0u32..4).prop_map(|(net, host)| 0x0a00_0000 | net << 16 | host)
}

fn v6() -> impl Strategy<Value = u128> {
    (0u128..4, 0u128..4).prop_map(|(net, host)| 0x2001_0db8 << 96 | net << 80 | host)
}

fn prefix() -> impl Strategy<Value = Prefix> {
    let of_v4 = (
        v4(),
        prop_oneof![Just(0u8), Just(8), Just(15), Just(16), Just(31), Just(32)],
    );
    let of_v6 = (
        v6(),
        prop_oneof![Just(0u8), Just(47), Just(48), Just(127), Just(128)],
    );
    prop_oneof![
        of_v4.prop_map(|(a, bits)| Prefix {
            address: IpAddr::V4(Ipv4Addr::from_bits(a)),
            bits
        }),
        of_v6.prop_map(|(a, bits)| Prefix {
            address: IpAddr::V6(Ipv6Addr::from_bits(a)),
            bits
        }),
    ]
}

fn port_range() -> impl Strategy<Value = (u16, u16)> {
    prop_oneof![
        (0u16..6, 0u16..4).prop_map(|(first, more)| (first, first + more)),
        Just((0, u16::MAX)),
        Just((u16::MAX, u16::MAX)),
    ]
}

prop_compose! {
    fn rule()(
        class in 0usize..3,
        ingress in prop::option::weighted(0.2, prop::collection::vec(0u8..4, 1..3)),
        pcp in prop::option::weighted(0.2, prop::collection::vec(0u8..8, 1..5)),
        dscp in prop::option::weighted(0.3, prop::collection::vec(0u8..4, 1..3)),
        source in prop::option::weighted(0.4, prefix()),
        destination in prop::option::weighted(0.4, prefix()),
        protocol in prop::option::weighted(0.3, prop_oneof![Just(6u8), Just(17), Just(44), Just(1)]),
        source_ports in prop::option::weighted(0.3, port_range()),
        destination_ports in prop::option::weighted(0.3, port_range()),
    ) -> Rule {
        Rule {
            class: classes()[class].name.clone(),
            ingress: ingress.map(|ports| ports.iter().map(|n| format!("p{n}")).collect()),
            pcp, dscp, source, destination,
            protocol: protocol.map(Protocol::Number),
            source_ports, destination_ports,
        }
    }
}

/// Ethernet's type and an IPv4 header without options.
fn ipv4_header(
    addresses: Addresses,
    dscp: u8,
    fragment: Option<u16>,
    protocol: u8,
    payload: usize,
) -> Vec<u8> {
    let Addresses::V4 {
        source,
        destination,
    } = addresses
    else {
        unreachable!("IPv4 addresses");
    };
    let total = 20 + u16::try_from(payload).unwrap();
    // More fragments, and the offset.
    let field = fragment.map_or(0, |offset| 0x2000 | offset);
    let mut header = vec![0x08, 0x00, 0x45, dscp << 2 | 1];
    header.extend(total.to_be_bytes());
    header.extend([1, 2]);
    header.extend(field.to_be_bytes());
    header.extend([64, protocol, 0, 0]);
    header.extend(source.to_be_bytes());
    header.extend(destination.to_be_bytes());
    header
}

/// Ethernet's type, an IPv6 header and its extension headers, the last a fragment header if there is an offset.
fn ipv6_headers(
    addresses: Addresses,
    dscp: u8,
    chain: &[u8],
    fragment: Option<u16>,
    protocol: u8,
    payload: usize,
) -> Vec<u8> {
    let Addresses::V6 {
        source,
        destination,
    } = addresses
    else {
        unreachable!("IPv6 addresses");
    };
    // An extension header's number, and its bytes behind "next header".
    let extension = |&number: &u8| match number {
        51 => (number, [vec![1], vec![0; 10]].concat()),
        _ => (number, vec![0; 7]),
    };
    let mut extensions: Vec<(u8, Vec<u8>)> = chain.iter().map(extension).collect();
    if let Some(offset) = fragment {
        let field = (offset << 3 | 1).to_be_bytes();
        extensions.push((44, vec![0, field[0], field[1], 0, 0, 0, 9]));
    }
    let next: Vec<u8> = extensions
        .iter()
        .map(|(number, _)| *number)
        .chain([protocol])
        .collect();
    let extensions: Vec<u8> = extensions
        .iter()
        .zip(&next[1..])
        .flat_map(|((_, rest), next)| [&[*next][..], rest].concat())
        .collect();
    let payload = u16::try_from(extensions.len() + payload).unwrap();
    let mut header = vec![0x86, 0xdd, 0x60 | dscp >> 2, dscp << 6, 0, 0];
    header.extend(payload.to_be_bytes());
    header.extend([next[0], 64]);
    header.extend(source.to_be_bytes());
    header.extend(destination.to_be_bytes());
    header.extend(extensions);
    header
}

/// A frame, and the fields that it was built from.
fn built() -> impl Strategy<Value = (Vec<u8>, Fields)> {
    let tags = prop::collection::vec((0usize..3, any::<u16>()), 0..3);
    let addresses = prop_oneof![
        (v4(), v4()).prop_map(|(source, destination)| Addresses::V4 {
            source,
            destination
        }),
        (v6(), v6()).prop_map(|(source, destination)| Addresses::V6 {
            source,
            destination
        }),
    ];
    let ports = prop_oneof![(0u16..8, 0u16..8), Just((u16::MAX, u16::MAX))];
    let protocol = prop_oneof![4 => Just(6u8), 4 => Just(17), 1 => Just(1), 1 => Just(132)];
    let chain = prop::collection::vec(prop_oneof![Just(0u8), Just(60), Just(51), Just(43)], 0..4);
    let fragment = prop::option::weighted(0.3, 0u16..2);
    (tags, addresses, ports, protocol, 0u8..4, chain, fragment).prop_map(
        |(tags, addresses, ports, protocol, dscp, chain, fragment)| {
            let mut frame = vec![2; 12];
            for (tpid, tci) in &tags {
                frame.extend([[0x81, 0x00], [0x88, 0xa8], [0x91, 0x00]][*tpid]);
                frame.extend(tci.to_be_bytes());
            }
            let has_ports = protocol != 1 && fragment != Some(1);
            let transport = [&ports.0.to_be_bytes()[..], &ports.1.to_be_bytes(), &[0; 36]].concat();
            match addresses {
                Addresses::V4 { .. } => frame.extend(ipv4_header(
                    addresses,
                    dscp,
                    fragment,
                    protocol,
                    transport.len(),
                )),
                Addresses::V6 { .. } => {
                    frame.extend(ipv6_headers(
                        addresses,
                        dscp,
                        &chain,
                        fragment,
                        protocol,
                        transport.len(),
                    ));
                }
            }
            frame.extend(transport);
            let port = |port| if has_ports { u32::from(port) } else { NO_PORT };
            let fields = Fields {
                pcp: tags
                    .first()
                    .map_or(NO_PCP, |(_, tci)| usize::from(tci >> 13)),
                ip: Some(Ip {
                    dscp: usize::from(dscp),
                    protocol: usize::from(protocol),
                    addresses,
                    source_port: port(ports.0),
                    destination_port: port(ports.1),
                }),
            };
            (frame, fields)
        },
    )
}

proptest! {
    #[test]
    fn fields_are_read_as_they_were_written((frame, fields) in built()) {
        prop_assert_eq!(Fields::of(&frame), fields);
    }

    #[test]
    fn the_first_rule_that_matches_decides(
        rules in prop_oneof![
            prop::collection::vec(rule(), 1..30),
            prop::collection::vec(rule(), 60..70),
            prop::collection::vec(rule(), 120..256),
        ],
        packets in prop::collection::vec((built(), 0u8..5, 0usize..200), 1..40),
    ) {
        let classifier = Classifier::compile(&rules, &ports(), &classes());
        for ((frame, fields), from, cut) in packets {
            let from = PortIndex(from);
            prop_assert_eq!(classifier.classify(from, &frame), naive(&rules, from, &fields));
            let head = &frame[..cut.min(frame.len())];
            let fields = Fields::of(head);
            prop_assert_eq!(classifier.classify(from, head), naive(&rules, from, &fields));
        }
    }

    #[test]
    fn any_bytes_have_a_class(
        bytes in prop::collection::vec(any::<u8>(), 0..120),
        ethertype in prop_oneof![Just(0x0800u16), Just(0x86dd), Just(0x8100), Just(0x8847), any::<u16>()],
        version in any::<u8>(),
        from in any::<u8>(),
        rules in prop::collection::vec(rule(), 0..20),
    ) {
        let mut bytes = bytes;
        if bytes.len() > 15 {
            bytes[12..14].copy_from_slice(&ethertype.to_be_bytes());
            bytes[14] = version;
        }
        let classifier = Classifier::compile(&rules, &ports(), &classes());
        prop_assert!(classifier.classify(PortIndex(from), &bytes).0 < 4);
    }
}

/// Addresses and protocol are those that distinguish flows, too.
#[test]
fn odd_frames_are_read_as_the_parser_reads_them() {
    use measure::packet::FlowKey;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..2_000 {
        let (frame, _) = built().new_tree(&mut runner).unwrap().current();
        for cut in [14, 20, 34, 40, 54, 60, 70, 200] {
            let head = &frame[..cut.min(frame.len())];
            let ip = Fields::of(head).ip.map(|ip| (ip.addresses, ip.protocol));
            let expected = FlowKey::parse(head).five_tuple().map(|ip| {
                let addresses = match (ip.source, ip.destination) {
                    (IpAddr::V4(source), IpAddr::V4(destination)) => Addresses::V4 {
                        source: source.to_bits(),
                        destination: destination.to_bits(),
                    },
                    (IpAddr::V6(source), IpAddr::V6(destination)) => Addresses::V6 {
                        source: source.to_bits(),
                        destination: destination.to_bits(),
                    },
                    ends => unreachable!("one family: {ends:?}"),
                };
                (addresses, usize::from(ip.protocol))
            });
            assert_eq!(ip, expected, "{head:02x?}");
        }
    }
}

#[test]
fn without_rules_all_is_of_the_last_class() {
    let none = Classifier::compile(&[], &ports(), &classes());
    assert!(none.is_trivial());
    assert_eq!(none.classify(PortIndex(0), &[]), ClassIndex(3));
    let trivial = Classifier::trivial();
    assert_eq!(trivial.classify(PortIndex(0), &[]), ClassIndex(0));
    assert_eq!(none.size_bytes(), 0);
}

#[test]
fn tables_are_bounded() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let rules = prop::collection::vec(rule(), 256)
        .new_tree(&mut runner)
        .unwrap()
        .current();
    let rules: Vec<Rule> = (0..)
        .zip(rules)
        .map(|(n, rule)| Rule {
            source: Some(Prefix {
                address: IpAddr::V4(Ipv4Addr::from_bits(u32::from(n) << 8)),
                bits: 30,
            }),
            destination: Some(Prefix {
                address: IpAddr::V6(Ipv6Addr::from_bits(u128::from(n) << 8)),
                bits: 126,
            }),
            source_ports: Some((n * 3, n * 3 + 1)),
            destination_ports: Some((n * 3, n * 3 + 1)),
            ..rule
        })
        .collect();
    let size = Classifier::compile(&rules, &ports(), &classes()).size_bytes();
    assert!((80_000..180 * 1024).contains(&size), "{size} bytes");
}
