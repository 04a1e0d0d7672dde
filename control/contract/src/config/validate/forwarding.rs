//! Forwarding: pairs of the patch panel, stations of the bridge.

use std::collections::HashSet;

use super::{Check, KeyPath, all, count_within, ensure, known, port_names, unique};
use crate::config::{Config, Forwarding, Port, Station, Vlan, VlanIds};

pub(super) fn forwarding(path: &KeyPath, config: &Config) -> Check {
    match &config.forwarding {
        Forwarding::Patch { pairs, .. } => self::pairs(&path.key("pairs"), pairs, config),
        Forwarding::Bridge {
            fdb_entries,
            stations,
            ..
        } => {
            let ports = config.ports.len();
            let expected = "at least 2 ports to bridge";
            ensure(ports >= 2, path.key("mode"), expected, ports)?;
            let path = path.key("stations");
            let room = *fdb_entries as usize;
            let what = "stations (`fdb_entries`)";
            count_within(path.clone(), stations.len(), 0..=room, what)?;
            self::stations(&path, stations, config)
        }
        Forwarding::Host => Ok(()),
    }
}

fn pairs(path: &KeyPath, pairs: &[(String, String)], config: &Config) -> Check {
    let names = port_names(config);
    let mut taken = HashSet::new();
    let ends = pairs.iter().enumerate().flat_map(|(index, (a, b))| {
        let path = path.index(index);
        [(path.index(0), a), (path.index(1), b)]
    });
    all(ends.map(|(path, name)| {
        known(path.clone(), name, "port", &names)?;
        let expected = "a port that is in no pair yet";
        ensure(taken.insert(name), path, expected, format!("{name:?}"))
    }))
}

fn stations(path: &KeyPath, stations: &[Station], config: &Config) -> Check {
    let names = port_names(config);
    let mut seen = HashSet::new();
    all(stations.iter().enumerate().map(|(index, station)| {
        let path = path.index(index);
        let address = station.address;
        // The lowest bit of the first octet: individual or group (IEEE 802, clause 8.2).
        let is_individual = address.0[0] & 1 == 0 && address.0 != [0; 6];
        let expected = "the address of one station, not of a group and not all zeros";
        ensure(is_individual, path.key("address"), expected, address)?;
        known(path.key("port"), &station.port, "port", &names)?;
        let port = config.ports.iter().find(|port| port.name == station.port);
        if let Some(port) = port {
            vlan_of(path.key("vlan"), station.vlan, port)?;
        }
        unique(
            &mut seen,
            (address.to_string(), station.vlan),
            path.key("address"),
            "an address once in a VLAN",
        )
    }))
}

/// A VLAN that the port has; 0 on a port without VLANs.
fn vlan_of(path: KeyPath, vlan: u16, port: &Port) -> Check {
    let Port { name, .. } = port;
    let (holds, has) = match &port.vlan {
        None => (vlan == 0, "0, since it has no VLANs".to_owned()),
        Some(Vlan::Access { vlan: own }) => (vlan == *own, own.to_string()),
        Some(Vlan::Trunk {
            vlans: VlanIds::All,
            ..
        }) => ((1..=4094).contains(&vlan), "1 to 4094".to_owned()),
        Some(Vlan::Trunk {
            vlans: VlanIds::Listed(listed),
            native,
        }) => {
            let all: Vec<u16> = listed.iter().chain(native).copied().collect();
            let words: Vec<_> = all.iter().map(ToString::to_string).collect();
            (all.contains(&vlan), words.join(", "))
        }
    };
    let expected = format!("a VLAN of port {name} ({has})");
    ensure(holds, path, expected, vlan)
}
