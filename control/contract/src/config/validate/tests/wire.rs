use super::*;
use crate::config::{
    RliMethod, RliPolicy, Wire, WireAdaptiveLda, WireKey, WireLda, WireLds, WirePeer, WireRli,
    WireSwitch,
};

/// The demo with a wire at its first port.
fn wired() -> Config {
    let mut config = Config::demo().unwrap();
    config.measurement.hash_seed = Some("00".repeat(16));
    config.wire = Some(WireSwitch {
        switch: 7,
        keys: vec![key(1)],
        key: None,
        clock: crate::config::WireClock::default(),
    });
    config.ports[0].device = Device::Dpdk("net_ring0".to_owned());
    config.ports[0].egress = crate::config::Egress::default();
    config.ports[0].wire = Some(Wire::default());
    config
}

fn key(id: u16) -> WireKey {
    WireKey {
        id,
        file: "wire.key".into(),
    }
}

fn peer() -> WirePeer {
    WirePeer {
        local: "192.0.2.1".parse().unwrap(),
        remote: "192.0.2.2".parse().unwrap(),
        gateway: "02:00:00:00:00:01".parse().unwrap(),
        source_mac: None,
        udp_port: 34_997,
    }
}

fn refused(change: impl FnOnce(&mut Config)) -> String {
    error_of(wired(), change)
}

fn refused_wire(change: impl FnOnce(&mut Wire)) -> String {
    refused(|config| change(config.ports[0].wire.as_mut().unwrap()))
}

fn refused_peer(change: impl FnOnce(&mut WirePeer)) -> String {
    refused_wire(|wire| change(wire.peer.insert(peer())))
}

#[test]
fn a_wire_needs_a_device_a_seed_a_number_and_keys() {
    let cases = [
        (
            refused(|c| c.ports[0].device = Device::Sink),
            "ports[0].wire: expected no such key here: only a DPDK device",
        ),
        (
            refused(|c| c.measurement.enabled = false),
            "ports[0].wire: expected `measurement.enabled`",
        ),
        (
            refused(|c| c.measurement.hash_seed = None),
            "ports[0].wire: expected `measurement.hash_seed`, the same at both ends",
        ),
        (
            refused(|c| c.wire = None),
            "ports[0].wire: expected `wire.switch`, this switch's number",
        ),
        (
            refused(|c| c.wire.as_mut().unwrap().keys.clear()),
            "ports[0].wire.trusted: expected `keys` here, or `wire.keys` beside `ports`, or true, got \
             false",
        ),
        (
            refused(|c| c.ports[0].rx_queues = Some(2)),
            "ports[0].rx_queues: expected 1, or no such key",
        ),
        (
            refused(|c| c.ports[0].mtu = 575),
            "ports[0].mtu: expected 576 to 9000, got 575",
        ),
    ];
    for (error, expected) in cases {
        assert!(error.starts_with(expected), "{expected:?} in {error}");
    }
    let mut trusted = wired();
    trusted.wire.as_mut().unwrap().keys.clear();
    trusted.ports[0].wire.as_mut().unwrap().trusted = true;
    validate(&trusted).unwrap();
}

#[test]
fn one_worker_has_both_directions_of_a_wire() {
    let error = refused(|config| {
        config.workers = vec![config.workers[0].clone(); 2];
        config.ports[0].egress.owner = Some(1);
    });
    assert!(
        error.starts_with("ports[0].egress.owner: expected 0, the worker that serves the port"),
        "{error}"
    );
}

#[test]
fn keys_are_numbered_from_1_and_each_once() {
    let keys = |keys: &[u16]| {
        let keys = keys.iter().copied().map(key).collect();
        refused(|c| c.wire.as_mut().unwrap().keys = keys)
    };
    let cases = [
        (keys(&[0]), "wire.keys[0].id: expected 1 to 65535, got 0"),
        (
            keys(&[3, 3]),
            "wire.keys[1].id: expected a number of its own, got 3 again",
        ),
        (
            keys(&(1..18).collect::<Vec<_>>()),
            "wire.keys: expected 0 to 16 entries, got 17",
        ),
        (
            refused(|c| c.wire.as_mut().unwrap().key = Some(2)),
            "wire.key: expected the `id` of one of `keys`, got 2",
        ),
        (
            refused(|c| c.wire.as_mut().unwrap().keys[0].file = "".into()),
            "wire.keys[0].file: expected a file's name, got none",
        ),
        (
            refused(|c| c.wire.as_mut().unwrap().keys[0].file = "0f".repeat(16).into()),
            "wire.keys[0].file: expected the name of the file that holds the key, got what looks like a key",
        ),
    ];
    for (error, expected) in cases {
        assert_eq!(error, expected);
    }
}

#[test]
fn what_a_wire_says_of_itself_is_checked() {
    let cases = [
        (
            refused_wire(|w| w.ethertype = 0x0800),
            "ports[0].wire.ethertype: expected a type that no other protocol has, such as 34997, \
             got 2048",
        ),
        (
            refused_wire(|w| w.classes = vec!["all".to_owned()]),
            "ports[0].wire.classes: expected no such key on a direct link, where all classes are \
             measured together, got some",
        ),
        (
            refused_wire(|w| {
                w.peer = Some(peer());
                w.classes = vec!["gold".to_owned()];
            }),
            "ports[0].wire.classes[0]: expected the name of a class (all), got \"gold\"",
        ),
        (
            refused_wire(|w| {
                w.peer = Some(peer());
                w.classes = vec!["all".to_owned(); 2];
            }),
            "ports[0].wire.classes[1]: expected a class once, got \"all\" again",
        ),
        (
            refused_wire(|w| {
                w.rli = Some(WireRli {
                    policy: None,
                    method: RliMethod::AnchoredSums,
                });
            }),
            "ports[0].wire.rli.method: expected auto, sums, linear or left: anchored_sums is for \
             queues inside the switch, got anchored_sums",
        ),
        (
            refused_wire(|w| {
                w.lds = Some(WireLds {
                    cells: Some(16),
                    ..WireLds::default()
                });
            }),
            "ports[0].wire.lds.virtual_cells: expected no more than a row has (4 cells), got 5",
        ),
        (
            refused_wire(|w| w.peer_switch = Some(7)),
            "ports[0].wire.peer_switch: expected another switch's number than `wire.switch`, got 7",
        ),
        (
            refused_wire(|w| w.peer_port = Some("a b".to_owned())),
            "ports[0].wire.peer_port: expected 1 to 64 letters, digits, `.`, `_` or `-`, got \"a b\"",
        ),
    ];
    for (error, expected) in cases {
        assert_eq!(error, expected);
    }
}

#[test]
fn a_wire_sends_under_one_of_its_keys() {
    let cases = [
        (
            refused_wire(|w| w.key = Some(9)),
            "ports[0].wire.key: expected the `id` of one of `keys`, got 9",
        ),
        (
            refused_wire(|w| w.keys = vec![key(3), key(3)]),
            "ports[0].wire.keys[1].id: expected a number of its own, got 3 again",
        ),
        (
            // The number of one of the keys that all wires share, which this wire does not have.
            refused_wire(|w| {
                w.keys = vec![key(3)];
                w.key = Some(1);
            }),
            "ports[0].wire.key: expected the `id` of one of `keys`, got 1",
        ),
    ];
    for (error, expected) in cases {
        assert_eq!(error, expected);
    }
}

#[test]
fn a_peer_is_another_station_that_can_be_reached() {
    let cases = [
        (
            refused_peer(|p| p.remote = "2001:db8::1".parse().unwrap()),
            "remote: expected an address of the family of `local`, got 2001:db8::1",
        ),
        (
            refused_peer(|p| p.remote = p.local),
            "remote: expected another address than `local`, got 192.0.2.1",
        ),
        (
            refused_peer(|p| p.local = "224.0.0.1".parse().unwrap()),
            "local: expected an address of one station, got 224.0.0.1",
        ),
        (
            refused_peer(|p| p.gateway = "ff:ff:ff:ff:ff:ff".parse().unwrap()),
            "gateway: expected an Ethernet address of one station, got ff:ff:ff:ff:ff:ff",
        ),
        (
            refused_peer(|p| p.udp_port = 0),
            "udp_port: expected 1 to 65535, got 0",
        ),
    ];
    for (error, expected) in cases {
        assert_eq!(error, format!("ports[0].wire.peer.{expected}"));
    }
    let twice = refused(|config| {
        config.ports[0].wire.as_mut().unwrap().peer = Some(peer());
        config.ports[1] = config.ports[0].clone();
        config.ports[1].name = "west".to_owned();
        config.ports[1].device = Device::Dpdk("net_ring1".to_owned());
    });
    assert!(
        twice.starts_with("ports[1].wire.peer: expected ends of its own"),
        "{twice}"
    );
}

#[test]
fn an_lda_either_follows_the_losses_or_has_banks() {
    let bank = LdaBank {
        rows: 64,
        probability: 0.5,
    };
    let lda = |adaptive: Option<WireAdaptiveLda>, banks: &[LdaBank]| {
        let banks = banks.to_vec();
        move |wire: &mut Wire| wire.lda = Some(WireLda { adaptive, banks })
    };
    let adaptive = Some(WireAdaptiveLda::default());
    let expected =
        "ports[0].wire.lda: expected either `adaptive` (`{}` for its defaults) or `banks`, got ";
    let both = refused_wire(lda(adaptive, std::slice::from_ref(&bank)));
    assert_eq!(both, format!("{expected}both"));
    assert_eq!(refused_wire(lda(None, &[])), format!("{expected}neither"));
    let many = refused_wire(lda(None, &[bank.clone(), bank.clone(), bank]));
    assert!(
        many.starts_with("ports[0].wire.lda.banks: expected probabilities that add up to 1"),
        "{many}"
    );
    let of = |rows, worst_loss| refused_wire(lda(Some(WireAdaptiveLda { rows, worst_loss }), &[]));
    for (error, key) in [
        (of(Some(31), 0.2), "rows: expected 32 to 65536"),
        (of(None, 0.0), "worst_loss: expected"),
        (of(None, 1.5), "worst_loss: expected"),
    ] {
        let expected = format!("ports[0].wire.lda.adaptive.{key}");
        assert!(error.starts_with(&expected), "{error}");
    }
    let mut config = wired();
    lda(adaptive, &[])(config.ports[0].wire.as_mut().unwrap());
    validate(&config).unwrap();
}

#[test]
fn sizes_that_the_share_does_not_hold_are_refused_with_what_they_take() {
    let error = refused_wire(|wire| {
        wire.capacity_bps = Some(1_000_000_000);
        wire.lds = Some(WireLds {
            cells: Some(100_000),
            ..WireLds::default()
        });
    });
    // The demo's epochs: 250 ms.
    let expected = "ports[0].wire.share: expected control frames of 156250 bytes an epoch at most \
                    (0.005 of 1.00 Gbit/s for 250 ms), got ";
    assert!(error.starts_with(expected), "{error}");
    assert!(
        error.contains(" bytes too many: markers and the like "),
        "{error}"
    );
    // References are kept to their part of the share as they are sent, however many are asked for.
    let mut config = wired();
    if let Some(wire) = &mut config.ports[0].wire {
        wire.capacity_bps = Some(1_000_000_000);
        wire.rli = Some(WireRli {
            policy: Some(RliPolicy::Time { interval_us: 10 }),
            method: RliMethod::Auto,
        });
    }
    validate(&config).unwrap();
    assert_eq!(config.wire_bytes(0).unwrap().references, 62_500);
    // So little that not even the least fits.
    let slow = refused_wire(|wire| wire.capacity_bps = Some(1_000));
    assert!(
        slow.contains("control frames of 0 bytes an epoch"),
        "{slow}"
    );
}
