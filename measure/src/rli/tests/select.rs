//! Flow selection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::packet::{FiveTuple, FlowHash, FlowKey};
use crate::rli::{FlowRule, FlowSample, FlowSelection, Prefix};

fn tcp(source: [u8; 4], destination_port: u16) -> FlowKey {
    FlowKey::Ip(FiveTuple {
        source: source.into(),
        destination: [192, 0, 2, 1].into(),
        source_port: 40_000,
        destination_port,
        protocol: 6,
    })
}

fn prefix(address: impl Into<IpAddr>, bits: u8) -> Prefix {
    Prefix::new(address.into(), bits).unwrap()
}

#[test]
fn rules_name_flows() {
    let rule = FlowRule {
        source: Some(prefix([10, 1, 0, 0], 16)),
        protocol: Some(6),
        destination_ports: Some((80, 443)),
        ..FlowRule::default()
    };
    assert!(rule.selects(&tcp([10, 1, 200, 3], 80)));
    assert!(rule.selects(&tcp([10, 1, 0, 0], 443)));
    assert!(!rule.selects(&tcp([10, 2, 200, 3], 80)));
    assert!(!rule.selects(&tcp([10, 1, 200, 3], 444)));
    let selection = FlowSelection::Rules(vec![rule]);
    assert!(selection.selects(FlowHash(0), &tcp([10, 1, 2, 3], 100)));
    assert!(!FlowSelection::Rules(Vec::new()).selects(FlowHash(0), &tcp([10, 1, 2, 3], 100)));
}

#[test]
fn prefixes_keep_to_their_family() {
    let v6 = FlowKey::Ip(FiveTuple {
        source: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
        destination: Ipv6Addr::LOCALHOST.into(),
        source_port: 1,
        destination_port: 2,
        protocol: 17,
    });
    let from = |source| FlowRule {
        source: Some(source),
        ..FlowRule::default()
    };
    assert!(from(prefix(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32)).selects(&v6));
    assert!(!from(prefix(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 128)).selects(&v6));
    assert!(from(prefix(Ipv6Addr::UNSPECIFIED, 0)).selects(&v6));
    assert!(!from(prefix(Ipv4Addr::UNSPECIFIED, 0)).selects(&v6));
    let ethernet = FlowKey::parse(&[0; 14]);
    assert!(matches!(ethernet, FlowKey::Ethernet { .. }));
    assert!(FlowRule::default().selects(&ethernet));
    assert!(!from(prefix(Ipv4Addr::UNSPECIFIED, 0)).selects(&ethernet));
    let long = Prefix::new(Ipv4Addr::LOCALHOST.into(), 33).unwrap_err();
    assert_eq!(
        long.to_string(),
        "127.0.0.1/33: an address of this family has 32 bits"
    );
}

#[test]
fn a_sample_is_the_share_asked_for() {
    let key = tcp([10, 0, 0, 1], 80);
    for share in [0.0, 0.25, 1.0] {
        let selection = FlowSelection::Sampled(FlowSample::new(share).unwrap());
        let chosen = (0..10_000_u64)
            .filter(|i| selection.selects(FlowHash(i.wrapping_mul(0x9e37_79b9_7f4a_7c15)), &key))
            .count();
        assert!(
            (chosen as f64 / 1e4 - share).abs() < 0.01,
            "{chosen} of {share}"
        );
    }
    assert!(FlowSample::new(1.01).is_err());
    assert!(FlowSample::new(f64::NAN).is_err());
    assert!(FlowSelection::All.selects(FlowHash(1), &key));
}
