//! Segments on the wire.

use std::collections::HashSet;
use std::net::IpAddr;

use measure::packet::header::ethertype;

use super::measurement::{self, row_holds};
use super::{Check, KeyPath, all, class_names, ensure, known, laid_out, name, unique, within};
use crate::config::{Config, Device, Port, RliMethod, Wire, WireKey, WirePeer};
use crate::units::rate;

/// Least MTU of a port with a wire: what every IPv4 router passes whole.
const MTU_MIN: u16 = 576;

pub(super) fn switch(path: &KeyPath, config: &Config) -> Check {
    let Some(wire) = &config.wire else {
        return Ok(());
    };
    all([keys(path, &wire.keys), key(path, wire.key, &wire.keys)])
}

fn keys(path: &KeyPath, keys: &[WireKey]) -> Check {
    let path = path.key("keys");
    let mut ids = HashSet::new();
    all(keys.iter().enumerate().map(|(index, key)| {
        let path = path.index(index);
        unique(&mut ids, key.id, path.key("id"), "a number of its own")?;
        let is_named = !key.file.as_os_str().is_empty();
        ensure(is_named, path.key("file"), "a file's name", "none")?;
        let text = key.file.as_os_str().as_encoded_bytes();
        let is_key = text.len() == 32 && text.iter().all(u8::is_ascii_hexdigit);
        let expected = "the name of the file that holds the key";
        ensure(!is_key, path.key("file"), expected, "what looks like a key")
    }))
}

/// The key to send under is one of `keys`.
fn key(path: &KeyPath, key: Option<u16>, keys: &[WireKey]) -> Check {
    let Some(key) = key else { return Ok(()) };
    let is_known = keys.iter().any(|known| known.id == key);
    ensure(is_known, path.key("key"), "the `id` of one of `keys`", key)
}

pub(super) fn wires(path: &KeyPath, config: &Config) -> Check {
    let mut peers = HashSet::new();
    all(config.ports.iter().enumerate().map(|(index, port)| {
        let Some(wire) = &port.wire else {
            return Ok(());
        };
        let path = path.index(index);
        around(&path, index, port, config)?;
        let path = path.key("wire");
        self::wire(&path, wire, config)?;
        if let Some(peer) = &wire.peer {
            let ends = (peer.local, peer.remote, peer.udp_port);
            let expected = "ends of its own";
            unique(&mut peers, ends, path.key("peer"), expected)?;
        }
        sizes(&path, index, wire, config)
    }))
}

/// What has to be there besides.
fn around(path: &KeyPath, index: usize, port: &Port, config: &Config) -> Check {
    let wire = path.key("wire");
    let is_real = matches!(port.device, Device::Dpdk(_));
    let expected = "no such key here: only a DPDK device has another end";
    ensure(is_real, wire.clone(), expected, &port.device)?;
    let measurement = &config.measurement;
    let expected = "`measurement.enabled` with a segment on the wire";
    ensure(measurement.enabled, wire.clone(), expected, "false")?;
    let is_seeded = measurement.hash_seed.is_some();
    let expected = "`measurement.hash_seed`, the same at both ends of a segment on the wire";
    ensure(is_seeded, wire.clone(), expected, "none")?;
    let expected = "`wire.switch`, this switch's number, beside `ports`";
    ensure(config.wire.is_some(), wire.clone(), expected, "none")?;
    within(path.key("mtu"), port.mtu, MTU_MIN..=9_000)?;
    let rx_queues = port.rx_queues.unwrap_or(1);
    let expected = "1, or no such key, where there is a segment on the wire: packets are counted in \
                    their order";
    ensure(rx_queues == 1, path.key("rx_queues"), expected, rx_queues)?;
    let assignment = config.assignment();
    let server = assignment.iter().position(|of| of.contains(&(index, 0)));
    let owner = config.owner(index);
    let expected = format!(
        "{}, the worker that serves the port: a segment on the wire has one for both directions",
        server.unwrap_or_default()
    );
    let got = owner.unwrap_or_default();
    let is_served = owner.is_none() || owner == server;
    ensure(is_served, path.key("egress").key("owner"), expected, got)
}

fn wire(path: &KeyPath, wire: &Wire, config: &Config) -> Check {
    if let Some(peer) = &wire.peer {
        self::peer(&path.key("peer"), peer)?;
    }
    classes(&path.key("classes"), wire, config)?;
    // Types that this switch gives another meaning.
    let taken = [
        ethertype::IPV4,
        ethertype::ARP,
        ethertype::VLAN,
        ethertype::IPV6,
        ethertype::MAC_CONTROL,
        ethertype::QINQ,
    ];
    let is_free = !taken.contains(&wire.ethertype);
    let expected = "a type that no other protocol has, such as 34997";
    ensure(is_free, path.key("ethertype"), expected, wire.ethertype)?;
    within(
        path.key("delay_min_ns"),
        wire.delay_min_ns,
        0..=1_000_000_000,
    )?;
    keys(path, &wire.keys)?;
    let of_all = config.wire.as_ref().map_or(&[][..], |all| &all.keys);
    let in_force = if wire.keys.is_empty() {
        of_all
    } else {
        &wire.keys
    };
    key(path, wire.key, in_force)?;
    if let Some(port) = &wire.peer_port {
        name(path.key("peer_port"), port)?;
    }
    let is_other = wire
        .peer_switch
        .is_none_or(|peer| peer != config.wire_switch());
    let expected = "another switch's number than `wire.switch`";
    let got = wire.peer_switch.unwrap_or_default();
    ensure(is_other, path.key("peer_switch"), expected, got)?;
    let expected = "`keys` here, or `wire.keys` beside `ports`, or true";
    ensure(
        !in_force.is_empty() || wire.trusted,
        path.key("trusted"),
        expected,
        "false",
    )?;
    if let Some(lda) = &wire.lda {
        let path = path.key("lda");
        let (is_adaptive, has_banks) = (lda.adaptive.is_some(), !lda.banks.is_empty());
        let expected = "either `adaptive` (`{}` for its defaults) or `banks`";
        let got = if has_banks { "both" } else { "neither" };
        ensure(is_adaptive != has_banks, path.clone(), expected, got)?;
        if has_banks {
            measurement::lda(&path, &lda.fixed())?;
        }
    }
    if let Some(lds) = &wire.lds
        && let Some(cells) = lds.cells
    {
        row_holds(&path.key("lds"), lds.virtual_cells, cells, lds.rows.len())?;
    }
    let method = wire.rli.as_ref().map(|rli| rli.method);
    let is_for_wires = method != Some(RliMethod::AnchoredSums);
    let expected = "auto, sums, linear or left: anchored_sums is for queues inside the switch";
    let path = path.key("rli").key("method");
    ensure(is_for_wires, path, expected, "anchored_sums")
}

fn peer(path: &KeyPath, peer: &WirePeer) -> Check {
    let usable = |address: &IpAddr| {
        !address.is_unspecified() && !address.is_multicast() && !address.is_loopback()
    };
    let expected = "an address of one station";
    for (key, address) in [("local", peer.local), ("remote", peer.remote)] {
        ensure(usable(&address), path.key(key), expected, address)?;
    }
    let is_alike = peer.local.is_ipv4() == peer.remote.is_ipv4();
    let expected = "an address of the family of `local`";
    ensure(is_alike, path.key("remote"), expected, peer.remote)?;
    let is_other = peer.local != peer.remote;
    let expected = "another address than `local`";
    ensure(is_other, path.key("remote"), expected, peer.remote)?;
    let of_one = |mac: &[u8; 6]| mac[0] & 1 == 0 && *mac != [0; 6];
    let expected = "an Ethernet address of one station";
    let mut addresses = vec![("gateway", peer.gateway)];
    addresses.extend(peer.source_mac.map(|mac| ("source_mac", mac)));
    for (key, mac) in addresses {
        ensure(of_one(&mac.0), path.key(key), expected, mac)?;
    }
    Ok(())
}

fn classes(path: &KeyPath, wire: &Wire, config: &Config) -> Check {
    let is_direct = wire.peer.is_none();
    let expected = "no such key on a direct link, where all classes are measured together";
    let none = wire.classes.is_empty();
    ensure(none || !is_direct, path.clone(), expected, "some")?;
    let names = class_names(config);
    let mut seen = HashSet::new();
    for (index, name) in wire.classes.iter().enumerate() {
        let path = path.index(index);
        known(path.clone(), name, "class", &names)?;
        unique(&mut seen, name, path, "a class once")?;
    }
    Ok(())
}

/// All that is sent in an epoch fits the share.
fn sizes(path: &KeyPath, index: usize, wire: &Wire, config: &Config) -> Check {
    let bytes = config.wire_bytes(index);
    let bytes = laid_out(path.clone(), bytes, "sizes that can be laid out")?;
    let capacity_bps = config.wire_capacity_bps(index);
    ensure(
        bytes.excess() == 0,
        path.key("share"),
        format!(
            "control frames of {} bytes an epoch at most ({} of {}bit/s for {} ms)",
            bytes.share,
            wire.share,
            rate(capacity_bps as f64),
            config.measurement.interval_ms,
        ),
        format!(
            "{} bytes too many: markers and the like {}, stash {}, LDA {}, LDS {}, references {}; \
             allow a larger share, longer epochs or smaller sizes",
            bytes.excess(),
            bytes.signals,
            bytes.stash,
            bytes.lda,
            bytes.lds,
            bytes.references,
        ),
    )
}
