//! Ports: devices, VLANs, egress queues.

use std::collections::{HashMap, HashSet};

use super::{Check, KeyPath, all, class_names, ensure, known, name, suggestion, unique, within};
use crate::config::device::{is_of_dpdk, pci_address};
use crate::config::{Config, Device, Egress, Forwarding, Port, Queue, Red, Vlan, VlanIds};

/// Most bytes that wait in a queue: 1 GiB.
const BYTES_MAX: u32 = 1 << 30;

/// What a frame may have beside its layer-3 packet: addresses, two VLAN tags, type.
const HEADER_BYTES: u32 = 22;

pub(super) fn ports(path: &KeyPath, config: &Config) -> Check {
    let ports = &config.ports;
    let (mut names, mut devices) = (HashSet::new(), HashSet::new());
    let mut interfaces = HashSet::new();
    all(ports.iter().enumerate().map(|(index, port)| {
        let path = path.index(index);
        let of_name = path.key("name");
        let by_name = name(of_name.clone(), &port.name)
            .and_then(|()| unique(&mut names, &port.name, of_name, "a name of its own"));
        let device = match &port.device {
            Device::Dpdk(device) if config.forwarding != Forwarding::Host => {
                let path = path.key("device");
                let interface = received_from(device).map_or(Ok(()), |interface| {
                    let what = "an interface that no other port receives from";
                    unique(&mut interfaces, interface, path.clone(), what)
                });
                known_device(path.clone(), device)
                    .and_then(|()| {
                        let expected = "a device of its own, such as net_pcap0 and net_pcap1";
                        unique(&mut devices, device_name(device), path, expected)
                    })
                    .and(interface)
            }
            _ => Ok(()),
        };
        all([
            by_name,
            device,
            rx_queues(path.key("rx_queues"), port),
            of_bridge(&path, port, &config.forwarding),
            egress(&path.key("egress"), port, config),
        ])
    }))
}

/// What DPDK knows a device by: two ports cannot have the same, whatever follows it.
fn device_name(device: &str) -> String {
    let name = device.split(',').next().unwrap_or_default();
    pci_address(name).unwrap_or_else(|| name.to_owned())
}

/// The interface of the kernel that a device receives from, and which queue where it does not take all. Two such devices
/// would share its frames by chance, or both receive each.
fn received_from(device: &str) -> Option<String> {
    let mut parts = device.split(',');
    let name = parts.next()?;
    let arguments: HashMap<_, _> = parts.filter_map(|part| part.split_once('=')).collect();
    let interface = arguments.get("iface")?;
    if name.starts_with("net_af_xdp") {
        let queue = arguments.get("start_queue").unwrap_or(&"0");
        return Some(format!("{interface}, queue {queue}"));
    }
    let takes_all = name.starts_with("net_af_packet") || name.starts_with("net_pcap");
    takes_all.then(|| (*interface).to_owned())
}

/// A device of DPDK: on one of its buses, or the name of a virtual one.
fn known_device(path: KeyPath, device: &str) -> Check {
    let text = device.split(',').next().unwrap_or_default();
    let scheme = text.split_once(':').map_or(text, |(scheme, _)| scheme);
    let kinds = ["sink", "replay", "generate", "net_null", "net_pcap"]
        .into_iter()
        .chain(["net_af_packet", "net_af_xdp", "net_memif", "net_tap"]);
    let expected = "sink, replay:FILE, generate:KEY=VALUE,..., a PCI address (0000:03:00.0) or a virtual device of DPDK's \
                    (net_af_packet0,iface=eth1)";
    let got = format!("{device:?}{}", suggestion(scheme, kinds));
    ensure(is_of_dpdk(text), path, expected, got)
}

/// Keys that mean something for the ports of a bridge alone.
fn of_bridge(path: &KeyPath, port: &Port, forwarding: &Forwarding) -> Check {
    let bridges = matches!(forwarding, Forwarding::Bridge { .. });
    let vlan = port.vlan.as_ref().map_or(Ok(()), |vlan| {
        let path = path.key("vlan");
        let expected = "no VLANs in mode patch, which passes every frame as it is";
        ensure(bridges, path.clone(), expected, "some")?;
        self::vlan(&path, vlan)
    });
    let stations = port.max_stations.map_or(Ok(()), |max| {
        let path = path.key("max_stations");
        let expected = "none in mode patch, which learns no stations";
        ensure(bridges, path, expected, max)
    });
    all([vlan, stations])
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
    let each = vlans.iter().enumerate();
    all(each.map(|(n, id)| unique(&mut seen, id, path.index(n), "a VLAN once")))?;
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
    let last = config.workers.len().saturating_sub(1);
    let owner = |owner| within(path.key("owner"), owner, 0..=last);
    all([
        ensure(is_shaped, path.key("burst_bytes"), expected, "none"),
        bytes(path.key("queue_bytes"), egress.queue_bytes, port.mtu),
        egress.owner.map_or(Ok(()), owner),
        if egress.queues.is_empty() {
            Ok(())
        } else {
            class_queues(path, port, config)
        },
    ])
}

/// Queues of classes.
fn class_queues(path: &KeyPath, port: &Port, config: &Config) -> Check {
    let egress = &port.egress;
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
    all(queues.iter().enumerate().map(|(index, queue)| {
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
        let red = |red| self::red(&path.key("red"), red, queue);
        queue.red.as_ref().map_or(Ok(()), red)
    }))?;
    let missing = names.into_iter().find(|name| !taken.contains(name));
    let expected = format!("a queue for class {}", missing.unwrap_or_default());
    ensure(missing.is_none(), path.clone(), expected, "none")
}

fn red(path: &KeyPath, red: &Red, queue: &Queue) -> Check {
    within(path.key("max_packets"), red.max_packets, 1..=queue.packets)?;
    let last = red.max_packets - 1;
    within(path.key("min_packets"), red.min_packets, 0..=last)
}
