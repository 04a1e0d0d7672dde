//! Ports: devices, VLANs, egress queues.

use std::collections::HashSet;

use super::{Check, KeyPath, class_names, ensure, known, name, unique, within};
use crate::config::{Config, Device, Egress, Forwarding, Port, Queue, Red, Vlan, VlanIds};

/// Most bytes that wait in a queue: 1 GiB.
const BYTES_MAX: u32 = 1 << 30;

/// What a frame may have beside its layer-3 packet: addresses, two VLAN tags, type.
const HEADER_BYTES: u32 = 22;

pub(super) fn ports(path: &KeyPath, config: &Config) -> Check {
    let ports = &config.ports;
    let (mut names, mut devices) = (HashSet::new(), HashSet::new());
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        name(path.key("name"), &port.name)?;
        unique(
            &mut names,
            &port.name,
            path.key("name"),
            "a name of its own",
        )?;
        if let Device::Dpdk(device) = &port.device {
            unique(
                &mut devices,
                device,
                path.key("device"),
                "a device of its own",
            )?;
        }
        rx_queues(path.key("rx_queues"), port)?;
        if let Some(vlan) = &port.vlan {
            let path = path.key("vlan");
            let bridges = matches!(config.forwarding, Forwarding::Bridge { .. });
            let expected = "no VLANs in mode patch, which passes every frame as it is";
            ensure(bridges, path.clone(), expected, "some")?;
            self::vlan(&path, vlan)?;
        }
        if let Some(max) = port.max_stations {
            let path = path.key("max_stations");
            let bridges = matches!(config.forwarding, Forwarding::Bridge { .. });
            let expected = "none in mode patch, which learns no stations";
            ensure(bridges, path, expected, max)?;
        }
        egress(&path.key("egress"), port, config)?;
    }
    Ok(())
}

fn rx_queues(path: KeyPath, port: &Port) -> Check {
    let Some(rx_queues) = port.rx_queues else {
        return Ok(());
    };
    let is_real = matches!(port.device, Device::Dpdk(_));
    let expected = "1, since only DPDK devices have more";
    ensure(is_real || rx_queues == 1, path, expected, rx_queues)
}

fn vlan(path: &KeyPath, vlan: &Vlan) -> Check {
    let Vlan::Trunk {
        vlans: VlanIds::Listed(vlans),
        native,
    } = vlan
    else {
        return Ok(());
    };
    let path = path.key("vlans");
    let mut seen = HashSet::new();
    let mut each = vlans.iter().enumerate();
    each.try_for_each(|(n, id)| unique(&mut seen, id, path.index(n), "a VLAN once"))?;
    let passes = !vlans.is_empty() || native.is_some();
    ensure(passes, path, "one VLAN at least, or a `native` one", "none")
}

fn egress(path: &KeyPath, port: &Port, config: &Config) -> Check {
    let egress = &port.egress;
    let Egress {
        capacity_bps,
        burst_bytes,
        ..
    } = egress;
    let is_shaped = capacity_bps.is_some() || *burst_bytes == 0;
    let expected = "`capacity_bps` beside it";
    ensure(is_shaped, path.key("burst_bytes"), expected, "none")?;
    bytes(path.key("queue_bytes"), egress.queue_bytes, port.mtu)?;
    if let Some(owner) = egress.owner {
        let last = config.workers.len().saturating_sub(1);
        within(path.key("owner"), owner, 0..=last)?;
    }
    if egress.queues.is_empty() {
        return Ok(());
    }
    let lone = Egress::default();
    let expected = "no such key beside `queues`, which have their own `packets` and `bytes`";
    let packets = egress.queue_packets;
    let is_default = packets == lone.queue_packets;
    ensure(is_default, path.key("queue_packets"), expected, packets)?;
    let bytes = egress.queue_bytes;
    let got = bytes.unwrap_or_default();
    ensure(bytes.is_none(), path.key("queue_bytes"), expected, got)?;
    queues(&path.key("queues"), port, config)
}

/// A bound that no frame fits under would drop them all.
fn bytes(path: KeyPath, bytes: Option<u32>, mtu: u16) -> Check {
    let frame = u32::from(mtu) + HEADER_BYTES;
    let Some(bytes) = bytes else {
        return Ok(());
    };
    let expected = format!("{frame} (a frame of the MTU) to {BYTES_MAX}");
    ensure((frame..=BYTES_MAX).contains(&bytes), path, expected, bytes)
}

fn queues(path: &KeyPath, port: &Port, config: &Config) -> Check {
    let queues = &port.egress.queues;
    let names = class_names(config);
    let mut taken = HashSet::new();
    for (index, queue) in queues.iter().enumerate() {
        let path = path.index(index);
        let classes = path.key("classes");
        let expected = "one class at least";
        ensure(!queue.classes.is_empty(), classes.clone(), expected, "none")?;
        for (index, name) in queue.classes.iter().enumerate() {
            known(classes.index(index), name, "class", &names)?;
            let expected = "a class that is in no queue yet";
            let is_new = taken.insert(name.as_str());
            ensure(is_new, classes.index(index), expected, format!("{name:?}"))?;
        }
        bytes(path.key("bytes"), queue.bytes, port.mtu)?;
        if let Some(red) = &queue.red {
            self::red(&path.key("red"), red, queue)?;
        }
    }
    let missing = names.into_iter().find(|name| !taken.contains(name));
    let expected = format!("a queue for class {}", missing.unwrap_or_default());
    ensure(missing.is_none(), path.clone(), expected, "none")
}

fn red(path: &KeyPath, red: &Red, queue: &Queue) -> Check {
    within(path.key("max_packets"), red.max_packets, 1..=queue.packets)?;
    let last = red.max_packets - 1;
    within(path.key("min_packets"), red.min_packets, 0..=last)
}
