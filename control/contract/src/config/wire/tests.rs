use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use measure::observation::SegmentIndex;
use measure::rli::Policy;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::config::LayoutError;

/// A switch with classes and a wire at port 0.
fn config(wire: &Value, keys: &Value, interval_ms: u32) -> Config {
    let text = json!({
        "ports": [
            { "name": "a", "device": "net_ring0", "rx_queues": 1, "wire": wire },
            { "name": "b", "device": "net_ring1", "rx_queues": 1 },
        ],
        "forwarding": { "mode": "patch", "pairs": [["a", "b"]] },
        "classes": [{ "name": "gold", "lds_weight": 9 }, { "name": "silver" }, { "name": "rest" }],
        "rules": [{ "class": "gold", "dscp": [46, 34] }, { "class": "silver", "pcp": [5] }],
        "measurement": {
            "interval_ms": interval_ms,
            "hash_seed": "000102030405060708090a0b0c0d0e0f",
        },
        "wire": { "switch": 7, "keys": keys, "key": null },
        "workers": [{}, {}],
    });
    Config::parse(&text.to_string(), "v.json").unwrap()
}

fn keyed(wire: &Value) -> Config {
    config(wire, &json!([{ "id": 1, "file": "k" }]), 1_000)
}

fn peer() -> Value {
    json!({ "local": "192.0.2.1", "remote": "192.0.2.2", "gateway": "02:00:00:00:00:01" })
}

#[test]
fn a_direct_link_measures_all_classes_together() {
    let config = keyed(&json!({}));
    assert_eq!(config.wire_segments(0), ["all"]);
    assert_eq!(config.wire_segment_of_class(0), [Some(0); CLASSES_MAX]);
    assert_eq!(config.wire_dscps(0), [0]);
    assert_eq!(config.wire_frame_bytes(0), 1_500);
    assert_eq!(config.wire_segments(1), [""; 0]);
    assert_eq!(config.wire_segment_of_class(1), [None; CLASSES_MAX]);
    assert_eq!(config.wire_layout(1), Err(LayoutError::NoWire { port: 1 }));
    assert_eq!(
        config.wires().map(|(port, _)| port).collect::<Vec<_>>(),
        [0]
    );
}

#[test]
fn a_virtual_segment_measures_the_classes_that_it_lists() {
    let mut wire = json!({ "peer": peer() });
    let all = keyed(&wire);
    assert_eq!(all.wire_segments(0), ["gold", "silver", "rest"]);
    assert_eq!(all.wire_dscps(0), [46, 0, 0]);
    wire["classes"] = json!(["rest", "gold"]);
    let some = keyed(&wire);
    assert_eq!(some.wire_segments(0), ["rest", "gold"]);
    let places = some.wire_segment_of_class(0);
    assert_eq!(places[..4], [Some(1), None, Some(0), None]);
    assert_eq!(some.wire_dscps(0), [0, 46]);
    assert_eq!(some.wire_frame_bytes(0), 1_472);
    assert_eq!(some.wire_layout(0).unwrap().segments, 2);
    let weights = |config: &Config| {
        let lds = config.wire_layout(0).unwrap().lds.unwrap();
        [0, 1, 2].map(|segment| lds.weight(SegmentIndex(segment)))
    };
    assert_eq!((weights(&all), weights(&some)), ([9, 1, 1], [1, 9, 1]));
    assert_eq!(weights(&keyed(&json!({}))), [1, 1, 1], "no classes");
}

#[test]
fn a_port_with_a_wire_is_owned_by_the_worker_that_serves_its_one_queue() {
    let config = keyed(&json!({}));
    assert_eq!(config.rx_queues(0), 1);
    assert_eq!(config.owner(0), Some(0));
    assert_eq!(config.owner(1), None);
    assert!(config.assignment()[0].contains(&(0, 0)));
}

#[test]
fn sizes_follow_from_the_share_of_the_link() {
    let of = |bps: u64| {
        let config = keyed(&json!({ "capacity_bps": bps }));
        let layout = config.wire_layout(0).unwrap();
        let lds = layout.lds.as_ref().unwrap();
        let rows: Vec<u32> = layout.lda.banks().map(|bank| bank.rows).collect();
        assert_eq!((lds.rows(), lds.virtual_cells()), (4, 5));
        assert_eq!(config.wire_bytes(0).unwrap().excess(), 0);
        (layout.stash_packets, rows, lds.columns(), layout)
    };
    let (stash, rows, columns, layout) = of(10_000_000_000);
    assert_eq!((stash, &rows[..]), (256, &[96, 96, 832][..]));
    assert!((42_000..44_000).contains(&columns), "{columns}");
    let policy = layout.references.unwrap().policy;
    assert!(matches!(policy, Policy::Adaptive(_)), "{policy:?}");
    // Prepared for 20 %, 3.2 % and 0.5 % of 1.25 million packets.
    let probabilities: Vec<f64> = layout.lda.banks().map(|bank| bank.probability).collect();
    let expected = [96.0 / 250_000.0, 96.0 / 39_528.0, 832.0 / 6_250.0];
    for (probability, expected) in probabilities.iter().zip(expected) {
        assert!(
            (probability / expected - 1.0).abs() < 1e-3,
            "{probabilities:?}"
        );
    }
    let (stash, rows, columns, _) = of(100_000_000);
    assert_eq!((stash, &rows[..]), (128, &[96, 96, 832][..]));
    assert!((16..500).contains(&columns), "{columns}");
    let (stash, rows, columns, _) = of(20_000_000);
    assert_eq!((stash, &rows[..], columns), (16, &[12, 12, 104][..], 16));
}

#[test]
fn what_is_given_is_taken() {
    let config = keyed(&json!({
        "capacity_bps": 1_000_000_000,
        "stash_packets": 32,
        "lda": { "banks": [{ "rows": 64, "probability": 0.5 }] },
        "lds": { "cells": 800, "rows": [0.5, 1], "virtual_cells": 2 },
        "rli": null,
        "flows": 99,
    }));
    let layout = config.wire_layout(0).unwrap();
    let lds = layout.lds.unwrap();
    assert_eq!(
        (lds.rows(), lds.columns(), lds.virtual_cells()),
        (2, 400, 2)
    );
    assert_eq!((layout.lda.cells(), layout.stash_packets), (64, 32));
    assert_eq!((layout.flows, layout.references), (99, None));
    assert_eq!(config.wire_adaptive_lda(0), None);
    let adaptive = json!({ "lda": { "adaptive": { "rows": 64, "worst_loss": 0.001 } } });
    let adaptive = keyed(&adaptive).wire_adaptive_lda(0).unwrap();
    assert_eq!(adaptive.bank_rows, [52, 6, 6]);
    assert_eq!((adaptive.first_loss, adaptive.worst_loss), (0.001, 0.001));
    let none = keyed(&json!({ "lds": null })).wire_layout(0).unwrap();
    assert_eq!(none.lds, None);
}

/// Frames of the sizes that are reckoned with, sealed.
#[test]
fn what_frames_take_is_what_is_reckoned() {
    use measure::{
        cell::Cell, observation::End, packet::FlowHash, packet::PacketHash, time::Epoch,
    };
    use wire::codec::{Shape, fragments};
    use wire::frame::{Sealer, Side, Stash, Stashed, Subject, body_room};
    use wire::session::Sessions;

    let config = keyed(&json!({ "capacity_bps": 100_000_000 }));
    let layout = config.wire_layout(0).unwrap();
    let frame_bytes = config.wire_frame_bytes(0);
    let ring = KeyRing::new().trusting();
    let mut sealer = Sealer::new(7, 0, &ring, KeyId::NONE).unwrap();
    let nonce = wire::session::Nonce::from_random;
    sealer.begin(Sessions::new(nonce(1), nonce(2)).sending);
    let subject = Subject {
        segment: 0,
        epoch: Epoch(1),
        tai_ns: 0,
    };
    let mut buffer = [0; 1_500];
    let on_link = |frame: usize| frame as u64 + 14 + 24;
    let bytes = config.wire_bytes(0).unwrap();

    let shapes = layout.shapes();
    let sent: Vec<u64> = shapes
        .iter()
        .map(|shape: &Shape| {
            let range = 0..shape.elements();
            fragments(shape, End::Sender, [range], body_room(frame_bytes), |_| {
                Cell::default()
            })
            .map(|body| on_link(sealer.seal(subject, &body, &mut buffer).unwrap()))
            .sum()
        })
        .collect();
    assert_eq!(sent, [bytes.lda, bytes.lds]);

    let packet = Stashed::new(FlowHash(1), PacketHash(2), 3);
    let list = vec![packet; usize::from(layout.stash_packets)];
    let parts = Stash::parts(Side::Before, &list, frame_bytes);
    let stash: u64 = parts
        .map(|part| on_link(sealer.seal(subject, &part, &mut buffer).unwrap()))
        .sum();
    // Both lists, twice.
    assert_eq!(4 * stash, bytes.stash);
}

const DIGITS: &str = "00112233445566778899aabbccddeeff";

/// A file with a key, or with an invalid one.
fn key_file(folder: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
    let file = folder.join(name);
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    file
}

/// The configuration of one wire, with these keys of all.
fn with_keys(wire: &Value, files: &[(u16, &Path)]) -> Config {
    let keys = files
        .iter()
        .map(|(id, file)| json!({ "id": id, "file": file }));
    config(wire, &keys.collect(), 1_000)
}

#[test]
fn keys_are_read_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = key_file(folder.path(), "once", &format!("{DIGITS}\n"), 0o640);
    let config = with_keys(&json!({}), &[(5, &file), (6, &file)]);
    let read = config.read_wire_keys().unwrap();
    fs::remove_file(file).unwrap();
    let (ring, id) = config.wire_keys(0, &read).unwrap();
    assert_eq!(id, KeyId(5));
    assert!(ring.get(KeyId(5)).is_some() && ring.get(KeyId(6)).is_some());
    assert!(ring.get(KeyId::NONE).is_none());
    assert!(config.wire_keys(0, &WireKeys::default()).is_err());
}

#[test]
fn keys_are_read_from_files_of_the_operators_own() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str, mode| key_file(folder.path(), name, text, mode);
    let refused = |file: PathBuf| {
        let config = with_keys(&json!({}), &[(5, &file)]);
        config.read_wire_keys().unwrap_err().to_string()
    };
    let public = refused(file("public", DIGITS, 0o644));
    assert!(public.contains("mode 644 gives every user"), "{public}");
    let foreign = file("foreign", DIGITS, 0o600);
    // Only root can give a file to another user.
    if chown(&foreign, Some(54_321), None).is_ok() {
        let foreign = refused(foreign);
        assert!(foreign.contains("belongs to user 54321"), "{foreign}");
    }
    let missing = refused(folder.path().join("missing"));
    assert!(missing.contains("wire.keys[0].file"), "{missing}");
    assert!(missing.contains("cannot be read"), "{missing}");
    for text in [
        "",
        "0011",
        &format!("{DIGITS}0"),
        &DIGITS.replace('0', "+"),
        &DIGITS.replace('0', "é"),
    ] {
        let bad = refused(file("bad", text, 0o600));
        assert!(bad.contains("expected 32 hexadecimal digits"), "{bad}");
        assert!(!bad.contains("2233"), "a secret in {bad}");
    }
}

#[test]
fn a_wire_with_keys_of_its_own_has_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let good = key_file(folder.path(), "good", DIGITS, 0o600);
    let of_all: [(u16, &Path); 2] = [(5, &good), (6, &good)];
    let own = json!({ "keys": [{ "id": 7, "file": good }, { "id": 8, "file": good }], "key": 8 });
    let own = with_keys(&own, &of_all);
    let (ring, id) = own.wire_keys(0, &own.read_wire_keys().unwrap()).unwrap();
    assert_eq!(id, KeyId(8));
    assert!(ring.get(KeyId(7)).is_some() && ring.get(KeyId(5)).is_none());
    let sends = with_keys(&json!({ "key": 6 }), &of_all);
    let read = sends.read_wire_keys().unwrap();
    assert_eq!(sends.wire_keys(0, &read).unwrap().1, KeyId(6));
    let gone = json!({ "keys": [{ "id": 7, "file": folder.path().join("gone") }] });
    let gone = with_keys(&gone, &of_all).read_wire_keys().unwrap_err();
    let gone = gone.to_string();
    assert!(gone.contains("ports[0].wire.keys[0].file"), "{gone}");
    let trusting = with_keys(&json!({ "trusted": true }), &[]);
    let (ring, id) = trusting.wire_keys(0, &WireKeys::default()).unwrap();
    assert!(ring.get(id).is_some() && id == KeyId::NONE);
}

#[test]
fn a_wire_goes_on_with_other_keys_and_with_nothing_else() {
    let config = keyed(&json!({}));
    let mut other = config.clone();
    let wire = |config: &mut Config| config.ports[0].wire.take().unwrap();
    let mut all = other.wire.take().unwrap();
    let (old, mut new) = (wire(&mut config.clone()), wire(&mut other));
    new.keys.clone_from(&all.keys);
    new.key = Some(1);
    assert!(old.is_same_but_for_keys(&new));
    new.lda = Some(WireLda {
        adaptive: Some(WireAdaptiveLda::default()),
        ..WireLda::default()
    });
    assert!(!old.is_same_but_for_keys(&new));
    new.lda = None;
    new.peer_switch = Some(9);
    assert!(!old.is_same_but_for_keys(&new));
    all.keys.clear();
    assert!(config.wire.as_ref().unwrap().is_same_but_for_keys(&all));
    all.switch += 1;
    assert!(!config.wire.as_ref().unwrap().is_same_but_for_keys(&all));
}

proptest! {
    /// Whatever the link, sizes that follow from its share fit it, or are refused by name.
    #[test]
    fn default_sizes_fit_or_are_refused(
        capacity_bps in 1_000_000_u64..400_000_000_000,
        share in 0.0005..0.1_f64,
        interval_ms in 10_u32..10_000,
        mtu in 576_u16..9_000,
        is_virtual in any::<bool>(),
    ) {
        let mut config = keyed(&json!({}));
        config.measurement.interval_ms = interval_ms;
        config.ports[0].mtu = mtu;
        let wire = config.ports[0].wire.as_mut().unwrap();
        wire.capacity_bps = Some(capacity_bps);
        wire.share = share;
        wire.peer = is_virtual.then(|| serde_json::from_value(peer()).unwrap());
        let bytes = config.wire_bytes(0).unwrap();
        let layout = config.wire_layout(0).unwrap();
        let columns = layout.lds.as_ref().unwrap().columns();
        // Only the least sizes of all may be too much.
        prop_assert!(bytes.excess() == 0 || columns == 16, "{bytes:?} {layout:?}");
        if columns > 16 {
            prop_assert!(bytes.lds + bytes.lda + bytes.stash + bytes.signals <= bytes.share * 3 / 5);
        }
    }
}
