//! What no type can say: ranges, and names that refer to each other.

use std::collections::HashSet;

use super::document::{
    Check, Faults, Invalid, KeyPath, all, count_within, ensure, known, name, unique, within,
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
/// All that does not hold, but for what has no meaning before other things hold.
pub(super) fn validate(config: &Config) -> Check {
    let root = KeyPath::default();
    let ranges = shape::ranges(config);
    let names = all([
        name(root.key("name"), &config.name),
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
        // Sizes out of range cannot be laid out, and a value is wrong once.
        let Faults(more) = names.err().unwrap_or(Faults(Vec::new()));
        let is_new =
            |fault: &Invalid| !faults.0.iter().any(|known| known.path.is_near(&fault.path));
        let more: Vec<Invalid> = more.into_iter().filter(is_new).collect();
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

/// The pool has more packet buffers than may be held at once: when it is empty no port receives.
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
    let has_queues = workers.iter().any(|worker| worker.queues.is_some());
    let queues = if has_queues {
        queues(path, config)
    } else {
        Ok(())
    };
    all([cores, queues])
}

/// Every receive queue is served by one worker.
fn queues(path: &KeyPath, config: &Config) -> Check {
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
            unique(
                &mut served,
                (name.as_str(), *queue),
                path,
                "a queue that no worker serves yet",
            )?;
        }
    }
    for (port, name) in names.into_iter().enumerate() {
        let unserved = (0..config.rx_queues(port)).find(|&queue| !served.contains(&(name, queue)));
        let queue = unserved.unwrap_or_default();
        ensure(
            unserved.is_none(),
            path.clone(),
            format!("a worker with [{name:?}, {queue}] among its `queues`"),
            "none",
        )?;
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

#[cfg(test)]
mod tests;
