//! The configuration, as written in `vernier.json`.
//!
//! [`Config::parse`] is the only way in from text: its result has passed every range check in the
//! fields' documentation.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

mod change;
mod class;
pub mod device;
pub mod document;
mod host;
mod measurement;
pub mod memory;
mod port;
mod resolve;
mod serving;
mod shape;
mod validate;
mod wire;

pub use crate::address::{MacAddress, Prefix};
pub use crate::limits::{CLASSES_MAX, PORTS_MAX};
pub use change::Change;
pub use class::{Class, FlowRule, Protocol, Rule};
pub use device::Device;
pub use document::{Candidate, ConfigError, Fault, Position};
pub use host::HostConfig;
pub use measurement::*;
pub use port::{Egress, Port, Queue, QueueService, Red, Vlan, VlanIds};
pub use resolve::{LayoutError, Resolved, Segment};
pub use serving::{Http, Ipfix, Nats, Prometheus, Report, Transport};
pub use shape::{SCHEMA_ID, schema};
pub use wire::{
    REFERENCES_OF_SHARE, Wire, WireAdaptiveLda, WireBytes, WireClock, WireKey, WireKeyError,
    WireKeys, WireLda, WireLds, WirePeer, WireRli, WireSwitch,
};

/// Most workers of one switch.
pub const WORKERS_MAX: usize = 64;

/// Packets that a ring between a worker and the owner of a port can hold.
pub const RING_PACKETS: usize = 1_024;

/// A whole configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The switch's name in measurement points (`edge-1/p0/rx`) and labels: 1 to 64 letters,
    /// digits, `.`, `_` or `-`.
    #[serde(default = "default_name")]
    #[schemars(regex(pattern = "^[A-Za-z0-9._-]{1,64}$"))]
    pub name: String,
    /// The ports, in order; 1 to 64.
    #[schemars(length(min = 1, max = PORTS_MAX))]
    pub ports: Vec<Port>,
    /// How packets are forwarded between them.
    pub forwarding: Forwarding,
    /// Traffic classes, at most 8; packets that match no rule belong to the last. If empty, there
    /// is one class, `all`.
    #[serde(default)]
    #[schemars(length(max = CLASSES_MAX))]
    pub classes: Vec<Class>,
    /// Which packets belong to which class; the first matching rule decides. At most 256.
    #[serde(default)]
    #[schemars(length(max = 256))]
    pub rules: Vec<Rule>,
    /// What is measured.
    #[serde(default)]
    pub measurement: Measurement,
    /// This switch's identity towards switches at the other end of a wire; needed if a port has a
    /// `wire`.
    #[serde(default)]
    pub wire: Option<WireSwitch>,
    /// The workers, 1 to 64. If omitted, one for each port, as far as there are CPUs after one is
    /// left to the control core.
    #[serde(default)]
    #[schemars(length(max = WORKERS_MAX))]
    pub workers: Vec<Worker>,
    /// Most memory in MiB for everything but packets (synopses, flow tables, FDB, queues), 1 to
    /// 1,048,576; a configuration or change that needs more is rejected. If omitted, half of what
    /// the machine has free at start.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_048_576))]
    pub memory_budget_mib: Option<u32>,
    /// The HTTP server.
    #[serde(default)]
    pub http: Http,
    /// Which metrics are written for Prometheus.
    #[serde(default)]
    pub prometheus: Prometheus,
    /// Reports of every epoch to NATS JetStream, for a `vernier-station`. If omitted, none are
    /// sent.
    #[serde(default)]
    pub report: Option<Report>,
    /// Export of flows and segments to an IPFIX collector. If omitted, nothing is exported.
    #[serde(default)]
    pub ipfix: Option<Ipfix>,
    /// How DPDK is started.
    #[serde(default)]
    pub dpdk: Dpdk,
}

/// How packets are forwarded; `mode` is `patch` or `bridge`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "mode", rename_all = "snake_case", deny_unknown_fields)]
pub enum Forwarding {
    /// A transparent patch panel: every packet received on one port of a pair leaves by the other.
    Patch {
        /// Pairs of port names; a port is in one pair at most.
        #[schemars(length(min = 1, max = PORTS_MAX / 2))]
        pairs: Vec<(String, String)>,
        /// Take a port of a pair down when the other one loses its link, if the device can; default
        /// false.
        #[serde(default)]
        link_loss_forwarding: bool,
    },
    /// One VLAN-aware learning bridge over all ports, 2 at least.
    Bridge {
        /// Seconds after which an address that was not seen is forgotten, 1 to 1,000,000; default
        /// 300 (IEEE 802.1D).
        #[serde(default = "number::<u32, 300>")]
        #[schemars(range(min = 1, max = 1_000_000))]
        ageing_s: u32,
        /// Most addresses that are remembered, 1 to 1,048,576; default 65,536.
        #[serde(default = "number::<u32, 65_536>")]
        #[schemars(range(min = 1, max = 1_048_576))]
        fdb_entries: u32,
        /// Addresses that are known from the start, never age and never move. At most
        /// `fdb_entries`.
        #[serde(default)]
        stations: Vec<Station>,
        /// Most frames a second that are flooded from each ingress port, 1 to 1,000,000,000;
        /// default 100,000. More are dropped as `storm`.
        #[serde(default = "number::<u32, 100_000>")]
        #[schemars(range(min = 1, max = 1_000_000_000))]
        flood_limit_pps: u32,
    },
    /// A program that Vernier is loaded into decides. Never in a configuration file.
    #[serde(skip_deserializing)]
    #[schemars(skip)]
    Host,
}

/// A static entry of the bridge's filtering database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Station {
    /// Its address, `02:00:00:00:00:01`; no group's.
    pub address: MacAddress,
    /// The VLAN it is in, 1 to 4094; 0 where no port has VLANs.
    #[serde(default)]
    #[schemars(range(max = 4_094))]
    pub vlan: u16,
    /// The port it is behind.
    pub port: String,
}

/// A worker: one core, one loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Worker {
    /// The CPU it is pinned to; by default the last one this process may use that is not another
    /// worker's.
    #[serde(default)]
    pub core: Option<usize>,
    /// What it does when there is nothing to do.
    #[serde(default)]
    pub idle: Idle,
    /// The receive queues it serves, as (port name, queue number from 0); given for all workers or
    /// for none. If omitted, queues are assigned in turn, as `vernierd --check` shows.
    #[serde(default)]
    pub queues: Option<Vec<(String, u16)>>,
}

/// What a worker does when a pass brought no packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Idle {
    /// Polls on at once: least latency, a whole core.
    #[default]
    Spin,
    /// One `pause` instruction between polls: a little kinder to an SMT sibling.
    Pause,
    /// Sleeps for up to 50 us after a while without packets: for shared machines.
    Sleep,
}

/// How DPDK's environment abstraction layer is started.
#[derive(Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Dpdk {
    /// Use hugepages (needed for physical NICs); off: ordinary memory, no privileges needed.
    pub hugepages: bool,
    /// Memory for packets in MiB, 16 to 1,048,576.
    #[schemars(range(min = 16, max = 1_048_576))]
    #[default = 512]
    pub memory_mib: u32,
    /// Packet buffers in the pool, 1,024 to 4,194,304: as many at least as queues, descriptors and workers may
    /// hold at once, which `vernierd --check` says.
    #[schemars(range(min = 1_024, max = 4_194_304))]
    #[default = 65_535]
    pub mbufs: u32,
    /// Further arguments for EAL, passed on as they are.
    pub eal_args: Vec<String>,
}

impl Config {
    /// Two ports of seeded traffic patched together (`control/contract/src/config/demo.json`): needs
    /// neither a NIC, nor root, nor hugepages.
    ///
    /// # Errors
    /// Those of [`Config::parse`].
    pub fn demo() -> Result<Self, ConfigError> {
        Self::parse(include_str!("config/demo.json"), "demo.json")
    }

    /// The capture `pcap`, replayed for ever, patched to a port that swallows it
    /// (`control/contract/src/config/demo-replay.json`): needs no NIC, no root and no hugepages.
    ///
    /// # Errors
    /// Those of [`Config::parse`].
    pub fn demo_replay(pcap: impl Into<PathBuf>) -> Result<Self, ConfigError> {
        let pcap = pcap.into();
        let mut config = Self::parse(include_str!("config/demo-replay.json"), "demo-replay.json")?;
        for port in &mut config.ports {
            if let Device::Replay(replay) = &mut port.device {
                replay.file.clone_from(&pcap);
            }
        }
        Ok(config)
    }

    /// The number of traffic classes: 1 where none is configured.
    pub fn class_count(&self) -> usize {
        self.classes.len().max(1)
    }

    /// The name of a class; `all` where none is configured.
    pub fn class_name(&self, class: usize) -> &str {
        self.classes
            .get(class)
            .map_or("all", |class| class.name.as_str())
    }

    /// The name of the port at `index`; empty where there is none.
    pub fn port_name(&self, index: usize) -> &str {
        self.ports.get(index).map_or("", |port| port.name.as_str())
    }

    /// Index of the port of that name, also of one that is absent.
    pub fn port_index(&self, name: &str) -> Option<usize> {
        self.ports.iter().position(|port| port.name == name)
    }
}

/// The default of [`Config::name`].
fn default_name() -> String {
    "vernier".to_owned()
}

/// A number that is a key's default.
pub fn number<T: TryFrom<u32> + Default, const N: u32>() -> T {
    T::try_from(N).unwrap_or_default()
}
