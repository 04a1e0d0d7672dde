//! Checks that types cannot express: ranges, and names that refer to each other.

use std::collections::HashSet;

use super::document::{
    Check, Faults, KeyPath, all, count_within, each, ensure, known, unique, within,
};
use super::memory::{Held, keep_budget};
use super::{Config, Forwarding, Port, Station, Vlan, VlanIds, Worker};
use super::{class, measurement, port, serving, shape, wire};

pub(super) fn port_names(config: &Config) -> Vec<&str> {
    config.ports.iter().map(|port| port.name.as_str()).collect()
}

pub(super) fn class_names(config: &Config) -> Vec<&str> {
    let classes = 0..config.class_count();
    classes.map(|class| config.class_name(class)).collect()
}

/// Checks every range and reference.
///
/// # Errors
/// All faults, except in values that have no meaning until other faults are fixed.
pub(super) fn validate(config: &Config) -> Check {
    let root = KeyPath::default();
    let ranges = shape::ranges(config);
    let names = all([
        class::classes(&root.key("classes"), config),
        port::ports(&root.key("ports"), config),
        forwarding(&root.key("forwarding"), config),
        class::rules(&root.key("rules"), config),
        workers(&root.key("workers"), config),
        wire::switch(&root.key("wire"), config),
        serving::http(&root.key("http"), &config.http),
        serving::prometheus(&root.key("prometheus"), &config.prometheus),
        serving::report(&root.key("report"), config.report.as_ref()),
        serving::ipfix(&root.key("ipfix"), config.ipfix.as_ref()),
    ]);
    if let Err(mut faults) = ranges {
        // Sizes out of range have no layout; each value is reported once.
        let Faults(mut more) = names.err().unwrap_or_default();
        more.retain(|fault| !faults.is_near(&fault.path));
        faults.0.extend(more);
        return Err(faults);
    }
    let measurement = measurement::measurement(&root.key("measurement"), config);
    all([names, measurement])?;
    wire::wires(&root.key("ports"), config)?;
    all([
        packets(root.key("dpdk").key("mbufs"), config),
        keep_budget(config, None),
    ])
}

/// Checks that the pool has more packet buffers than can be in use at once: no port receives from an empty
/// pool.
fn packets(path: KeyPath, config: &Config) -> Check {
    let held = Held::of(config);
    let expected = format!(
        "{} at least ({} in descriptors of {} workers and all ports, {} in queues, {} in rings, {} by workers)",
        held.total(),
        held.descriptors,
        config.workers.len(),
        held.queues,
        held.rings,
        held.workers,
    );
    let mbufs = config.dpdk.mbufs;
    ensure(held.total() <= mbufs as usize, path, expected, mbufs)
}

fn workers(path: &KeyPath, config: &Config) -> Check {
    let workers = &config.workers;
    let mut cores = HashSet::new();
    let named = workers.iter().enumerate();
    let named = named.filter_map(|(index, Worker { core, .. })| Some((index, (*core)?)));
    let cores = all(named.map(|(index, core)| {
        let path = path.index(index).key("core");
        unique(&mut cores, core, path, "a CPU of its own")
    }));
    all([cores, queues(path, config)])
}

/// Checks that one worker serves every receive queue, if workers name any.
fn queues(path: &KeyPath, config: &Config) -> Check {
    if config.workers.iter().all(|worker| worker.queues.is_none()) {
        return Ok(());
    }
    let names = port_names(config);
    let mut served = HashSet::new();
    for (index, worker) in config.workers.iter().enumerate() {
        let path = path.index(index);
        let Some(queues) = &worker.queues else {
            let expected = "`queues` for every worker, or for none";
            return ensure(false, path, expected, "a worker without");
        };
        for (index, (name, queue)) in queues.iter().enumerate() {
            let path = path.key("queues").index(index);
            known(path.index(0), name, "port", &names)?;
            let rx_queues = config.port_index(name).map(|port| config.rx_queues(port));
            let last = rx_queues.unwrap_or_default().saturating_sub(1);
            within(path.index(1), *queue, 0..=last)?;
            let what = "a queue that no worker serves yet";
            unique(&mut served, (name.as_str(), *queue), path, what)?;
        }
    }
    for (port, name) in names.into_iter().enumerate() {
        let mut queues = 0..config.rx_queues(port);
        if let Some(queue) = queues.find(|&queue| !served.contains(&(name, queue))) {
            let expected = format!("a worker with [{name:?}, {queue}] among its `queues`");
            return ensure(false, path.clone(), expected, "none");
        }
    }
    Ok(())
}

fn forwarding(path: &KeyPath, config: &Config) -> Check {
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
    each(path, stations, |path, station| {
        let address = station.address;
        let expected = "a unicast MAC address other than zero";
        ensure(
            address.is_individual(),
            path.key("address"),
            expected,
            address,
        )?;
        known(path.key("port"), &station.port, "port", &names)?;
        let port = config.ports.iter().find(|port| port.name == station.port);
        if let Some(port) = port {
            vlan_of(path.key("vlan"), station.vlan, port)?;
        }
        let (key, place) = (path.key("address"), (address.to_string(), station.vlan));
        unique(&mut seen, place, key, "an address once in a VLAN")
    })
}

/// Checks that the port has the VLAN; 0 for a port without VLANs.
fn vlan_of(path: KeyPath, vlan: u16, port: &Port) -> Check {
    let (holds, has) = match &port.vlan {
        None => (vlan == 0, "0, because it has no VLANs".to_owned()),
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
    let expected = format!("a VLAN of port {} ({has})", port.name);
    ensure(holds, path, expected, vlan)
}

#[cfg(test)]
pub(super) mod tests;
