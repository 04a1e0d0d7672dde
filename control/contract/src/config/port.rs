//! A port: its device, its VLANs, its egress queues.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use super::device::{argument, is_of_dpdk, pci_address};
use super::document::{Check, KeyPath, all, each, ensure, known, suggestion, unique, within};
use super::validate::class_names;
use super::{CLASSES_MAX, Config, Device, Forwarding, Wire, number};

/// One port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Its name in labels: unique, 1 to 64 letters, digits, `.`, `_` or `-`.
    #[schemars(regex(pattern = "^[A-Za-z0-9._-]{1,64}$"))]
    pub name: String,
    /// Where its packets come from and go to.
    pub device: Device,
    /// Largest layer-3 packet in bytes, 68 to 9000.
    #[serde(default = "number::<u16, MTU>")]
    #[schemars(range(min = 68, max = 9_000))]
    pub mtu: u16,
    /// Receive queues over which the device spreads flows (RSS), 1 to 64. If omitted, one for each
    /// worker, or those that the workers name, up to what the device has. `sink`, `replay` and
    /// `generate` have one.
    #[serde(default)]
    #[schemars(range(min = 1, max = 64))]
    pub rx_queues: Option<u16>,
    /// VLANs of the port, in mode `bridge` only. If omitted, every frame passes unchanged, and all
    /// such ports form one LAN.
    #[serde(default)]
    pub vlan: Option<Vlan>,
    /// Most MAC addresses that the bridge learns at this port, 1 to 1,048,576; frames to further ones are
    /// flooded. If omitted, ports share the table fairly: once it is full, an address of the port with the
    /// most is evicted.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_048_576))]
    pub max_stations: Option<u32>,
    /// Its egress side.
    #[serde(default)]
    pub egress: Egress,
    /// The segment on the wire between this port and a port of another switch. If omitted, nothing is
    /// measured beyond the port.
    #[serde(default)]
    pub wire: Option<Wire>,
}

impl Port {
    /// A port of a host program, or one that is gone: every setting at its default.
    pub(super) fn bare(name: String, device: Device) -> Self {
        Self {
            name,
            device,
            mtu: number::<_, MTU>(),
            rx_queues: None,
            vlan: None,
            max_stations: None,
            egress: Egress::default(),
            wire: None,
        }
    }

    /// Whether the port is present, not removed.
    pub fn is_present(&self) -> bool {
        self.device != Device::Absent
    }
}

impl Config {
    /// Whether packets of others pass: a port has a device other than generated traffic, a capture or a sink.
    pub fn has_devices(&self) -> bool {
        let mut ports = self.ports.iter();
        ports.any(|port| matches!(port.device, Device::Dpdk(_)))
    }
}

/// VLANs of a bridged port (IEEE 802.1Q). Frames with an outer tag of type 0x88A8 are passed as
/// untagged ones: QinQ is left to the endpoints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "mode", rename_all = "snake_case", deny_unknown_fields)]
pub enum Vlan {
    /// Frames on this port are untagged and belong to one VLAN. Tagged frames (except priority
    /// tags) are dropped; so are frames to the port that have a second tag behind the one that is
    /// removed.
    Access {
        /// The VLAN, 1 to 4094.
        #[schemars(range(min = 1, max = 4_094))]
        vlan: u16,
    },
    /// Frames on this port are tagged.
    Trunk {
        /// VLANs that may pass.
        #[serde(default)]
        vlans: VlanIds,
        /// The VLAN of untagged frames, 1 to 4094. Its frames leave untagged, unless that would
        /// bring another tag to the front. If omitted, untagged frames are dropped.
        #[serde(default)]
        #[schemars(range(min = 1, max = 4_094))]
        native: Option<u16>,
    },
}

/// VLANs of a trunk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected a list of VLANs, or null for all")]
pub enum VlanIds {
    /// All, 1 to 4094.
    #[default]
    All,
    /// These.
    Listed(#[schemars(inner(range(min = 1, max = 4_094)))] Vec<u16>),
}

/// The egress side of a port.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Egress {
    /// Bit rate at which the port sends, counting preamble, frame check sequence and gap (24 bytes
    /// a frame), 1,000 to 1,000,000,000,000. If omitted, as fast as the device takes packets.
    #[schemars(range(min = 1_000, max = 1_000_000_000_000_u64))]
    pub capacity_bps: Option<u64>,
    /// Bytes on the wire that may leave at once after an idle time, 0 to 16,777,216; needs
    /// `capacity_bps`. Default 0, as on a link.
    #[schemars(range(max = 16_777_216))]
    pub burst_bytes: u32,
    /// Most packets queued at a port without `queues`, 1 to 65536.
    #[schemars(range(min = 1, max = 65_536))]
    #[default(QUEUE_PACKETS)]
    pub queue_packets: u32,
    /// Most bytes queued there: a frame of the MTU (`mtu` and 22) to 1,073,741,824. If omitted, the
    /// size of `queue_packets` frames of the MTU.
    #[schemars(range(max = 1_073_741_824))]
    pub queue_bytes: Option<u32>,
    /// Longest stay in microseconds, 1 to 60,000,000; packets that wait longer are dropped. If omitted, no
    /// limit.
    #[schemars(range(min = 1, max = 60_000_000))]
    pub max_residency_us: Option<u32>,
    /// Queues by class, at most 8, together holding every class once, in place of `queue_packets`
    /// and `queue_bytes`. If empty, all classes share one queue.
    #[schemars(length(max = CLASSES_MAX))]
    pub queues: Vec<Queue>,
    /// The worker (index) that transmits for all workers; needed if several send and the port has a
    /// capacity or queues. Default: the worker that serves the port's first receive queue.
    pub owner: Option<usize>,
}

/// A queue of one or more classes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    /// Its classes, by name.
    #[schemars(length(min = 1))]
    pub classes: Vec<String>,
    /// How the scheduler serves it.
    #[serde(default)]
    pub service: QueueService,
    /// Most packets in the queue, 1 to 65536.
    #[serde(default = "number::<u32, QUEUE_PACKETS>")]
    #[schemars(range(min = 1, max = 65_536))]
    pub packets: u32,
    /// Most bytes in the queue: a frame of the MTU (`mtu` and 22) to 1,073,741,824. If omitted, the
    /// size of `packets` frames of the MTU.
    #[serde(default)]
    #[schemars(range(max = 1_073_741_824))]
    pub bytes: Option<u32>,
    /// Random early detection. If omitted, tail drop alone.
    #[serde(default)]
    pub red: Option<Red>,
}

/// How the scheduler serves a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, SmartDefault, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueService {
    /// Before every later queue in the list and all weighted queues.
    Strict,
    /// Deficit round robin (Shreedhar and Varghese 1995): this many times 1,522 bytes a round, 1 to
    /// 1,000.
    #[default]
    Weight(
        #[default = 1]
        #[schemars(range(min = 1, max = 1_000))]
        u16,
    ),
}

/// Random early detection (Floyd and Jacobson 1993, "gentle" not included).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Red {
    /// Average queue length in packets above which packets are dropped early, 0 and up, under
    /// `max_packets`.
    pub min_packets: u32,
    /// Average queue length from which every packet is dropped, at most the queue's `packets`.
    #[schemars(range(min = 1, max = 65_536))]
    pub max_packets: u32,
    /// The paper's `max_p`, over 0 to 1. Because drops are spaced evenly, 2p / (1 + p) of all
    /// packets are dropped just below `max_packets`.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub probability: f64,
    /// Weight of the newest length in the average, as a power of one half: 0 to 16, default 9.
    #[serde(default = "number::<u8, 9>")]
    #[schemars(range(max = 16))]
    pub weight_log2: u8,
}

const MTU: u32 = 1_500;
const QUEUE_PACKETS: u32 = 1_024;

/// Most bytes in a queue: 1 GiB.
const BYTES_MAX: u32 = 1 << 30;

/// What a frame may have in addition to its layer-3 packet: addresses, two VLAN tags, type.
const HEADER_BYTES: u32 = 22;

pub(super) fn ports(path: &KeyPath, config: &Config) -> Check {
    let (mut names, mut devices) = (HashSet::new(), HashSet::new());
    let mut interfaces = HashSet::new();
    let mut device = |path: KeyPath, device: &Device| {
        let device = match device {
            Device::Dpdk(device) => device.as_str(),
            Device::Absent => return known_device(path, "absent"),
            _ => return Ok(()),
        };
        let interface = received_from(device).map_or(Ok(()), |interface| {
            let what = "an interface that no other port receives from";
            unique(&mut interfaces, interface, path.clone(), what)
        });
        known_device(path.clone(), device)?;
        let expected = "a unique device, such as net_pcap0 and net_pcap1";
        unique(&mut devices, device_name(device), path, expected)?;
        interface
    };
    each(path, &config.ports, |path, port| {
        let is_own = config.forwarding != Forwarding::Host;
        all([
            unique(&mut names, &port.name, path.key("name"), "a unique name"),
            if is_own {
                device(path.key("device"), &port.device)
            } else {
                Ok(())
            },
            rx_queues(path.key("rx_queues"), port),
            of_bridge(&path, port, &config.forwarding),
            egress(&path.key("egress"), port, config),
        ])
    })
}

/// DPDK's name for a device. Two ports cannot have the same, whatever arguments follow it.
fn device_name(device: &str) -> String {
    let name = device.split(',').next().unwrap_or_default();
    pci_address(name).unwrap_or_else(|| name.to_owned())
}

/// The kernel interface that a device receives from, and the queue unless it receives from all. Two such
/// devices would share its frames at random, or each receive all of them.
fn received_from(device: &str) -> Option<String> {
    let interface = argument(device, "iface")?;
    if device.starts_with("net_af_xdp") {
        let queue = argument(device, "start_queue").unwrap_or("0");
        return Some(format!("{interface}, queue {queue}"));
    }
    let takes_all = device.starts_with("net_af_packet") || device.starts_with("net_pcap");
    takes_all.then(|| interface.to_owned())
}

/// Checks that the device is on one of DPDK's buses, or is the name of a virtual device.
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

/// Checks keys that apply to ports of a bridge only.
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
    let expected = "1, because only DPDK devices have more";
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
    each(&path, vlans, |path, id| {
        unique(&mut seen, id, path, "a VLAN once")
    })?;
    let passes = !vlans.is_empty() || native.is_some();
    ensure(passes, path, "at least one VLAN, or a `native` one", "none")
}

fn egress(path: &KeyPath, port: &Port, config: &Config) -> Check {
    let egress = &port.egress;
    let is_shaped = egress.capacity_bps.is_some() || egress.burst_bytes == 0;
    let expected = "`capacity_bps` beside it";
    let last = config.workers.len().saturating_sub(1);
    let owner = |owner| within(path.key("owner"), owner, 0..=last);
    all([
        ensure(is_shaped, path.key("burst_bytes"), expected, "none"),
        bytes(path.key("queue_bytes"), egress.queue_bytes, port.mtu),
        egress.owner.map_or(Ok(()), owner),
        class_queues(path, port, config),
    ])
}

/// Queues of classes.
fn class_queues(path: &KeyPath, port: &Port, config: &Config) -> Check {
    let egress = &port.egress;
    if egress.queues.is_empty() {
        return Ok(());
    }
    let expected = "no such key beside `queues`, which have their own `packets` and `bytes`";
    let packets = egress.queue_packets;
    let is_default = packets == QUEUE_PACKETS;
    ensure(is_default, path.key("queue_packets"), expected, packets)?;
    let bytes = egress.queue_bytes;
    let got = bytes.unwrap_or_default();
    ensure(bytes.is_none(), path.key("queue_bytes"), expected, got)?;
    queues(&path.key("queues"), port, config)
}

/// Checks that a bound leaves room for one frame.
fn bytes(path: KeyPath, bytes: Option<u32>, mtu: u16) -> Check {
    let frame = u32::from(mtu) + HEADER_BYTES;
    let Some(bytes) = bytes else {
        return Ok(());
    };
    let expected = format!("{frame} (a frame of the MTU) to {BYTES_MAX}");
    ensure((frame..=BYTES_MAX).contains(&bytes), path, expected, bytes)
}

fn queues(path: &KeyPath, port: &Port, config: &Config) -> Check {
    let names = class_names(config);
    let mut taken = HashSet::new();
    each(path, &port.egress.queues, |path, queue| {
        let classes = path.key("classes");
        let expected = "at least one class";
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
    })?;
    let missing = names.into_iter().find(|name| !taken.contains(name));
    let expected = format!("a queue for class {}", missing.unwrap_or_default());
    ensure(missing.is_none(), path.clone(), expected, "none")
}

fn red(path: &KeyPath, red: &Red, queue: &Queue) -> Check {
    within(path.key("max_packets"), red.max_packets, 1..=queue.packets)?;
    let last = red.max_packets - 1;
    within(path.key("min_packets"), red.min_packets, 0..=last)
}
