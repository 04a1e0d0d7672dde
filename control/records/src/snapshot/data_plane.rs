//! Ports, workers, the filtering database and the pools of packet buffers.

use contract::counters::{AroundReading, ClassReading, QueueReading, WorkerReading};
use contract::fdb::FdbStats;
use contract::metric::{Each, Shown};
use contract::record;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use contract::counters::{
    ExceptionReading as Exceptions, PortReading, ReferenceReading as References,
};

record! {
    /// One port.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub struct Port {
        /// Its name.
        pub name: String,
        /// It was removed from the configuration, and is shown for what it has counted.
        #[serde(default)]
        pub is_absent: bool,
        /// The device behind it.
        pub facts: PortFact,
        /// What its workers count.
        #[serde(flatten)]
        pub counts: PortReading,
        /// Packets a second received, over the last second or so.
        pub rx_pps: f64,
        /// Packets a second sent, over the last second or so.
        pub tx_pps: f64,
        /// Packets dropped, by reason; those of the egress queue count at its port.
        #[metric(Counter = "vernier_port_dropped_packets_total", label = "reason")]
        pub drops: Vec<Labelled>,
        /// Packets received and parsed, by what the parser found; they are parsed for flows, LDS and wires.
        #[metric(Counter = "vernier_port_parsed_packets_total", label = "kind")]
        pub kinds: Vec<Labelled>,
        /// What left by the port, by class.
        pub classes: Vec<ClassCounts>,
        /// Its egress queues.
        pub queues: Vec<QueueCounts>,
        /// The device that it leads to, where packets are measured around one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub around: Option<AroundCounts>,
        /// Who is at the other end of its link.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub neighbours: Vec<LldpNeighbour>,
    }
}

/// A neighbour of a port, as it says of itself by LLDP (IEEE 802.1AB). Texts have at most 64 characters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LldpNeighbour {
    /// Its system name; its chassis where it has none.
    pub system: String,
    /// Its chassis: an Ethernet address, or a name.
    pub chassis: String,
    /// Its port: an Ethernet address, or a name.
    pub port: String,
    /// When it was heard last, in seconds since 1970.
    pub heard_unix_s: f64,
    /// Seconds for which that holds, from then on.
    pub ttl_s: u16,
}

/// What enters a device of others by a port of this switch, and comes back by it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AroundCounts {
    /// The device.
    pub device: String,
    /// What the workers count.
    #[serde(flatten)]
    pub counts: AroundReading,
}

/// What left by a port, of one class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClassCounts {
    /// The class; `all` unless classes are configured.
    pub class: String,
    /// What its workers count.
    #[serde(flatten)]
    pub counts: ClassReading,
}

record! {
    /// One egress queue of a port.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct QueueCounts {
        /// Its classes, `gold+silver`; `all` for the only one.
        pub queue: String,
        /// What its workers count.
        #[serde(flatten)]
        pub counts: QueueReading,
        /// Packets dropped at the egress queue, by reason.
        #[metric(Counter = "vernier_queue_dropped_packets_total", label = "reason")]
        pub drops: Vec<Labelled>,
    }
}

impl Port {
    /// Whether packets came in by it, were to leave by it, or were copied.
    pub fn has_counted(&self) -> bool {
        let dropped = self.drops.iter().any(|drops| drops.packets > 0);
        self.counts.rx_packets + self.counts.tx_packets + self.counts.copies > 0 || dropped
    }

    /// All drops.
    pub fn dropped_packets(&self) -> u64 {
        self.drops.iter().map(|drop| drop.packets).sum()
    }
}

/// A count with the value of its label.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Labelled {
    /// The value of the label.
    pub label: String,
    /// Packets.
    pub packets: u64,
}

impl Shown for Labelled {
    fn show(&self, per_unit: f64, each: Each<'_>) {
        each(&self.label, self.packets as f64 / per_unit);
    }
}

record! {
    /// The device behind a port.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct PortFact {
        /// The driver's name.
        pub driver: String,
        /// Open vSwitch's bridge that the port belongs to; absent in other programs.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        pub bridge: String,
        /// Whether the link is up.
        #[metric(Gauge = "vernier_port_link_up")]
        pub is_up: bool,
        /// Whether the device is not there, and its other figures are the last ones: it was unplugged, and its port is
        /// not used again before a restart; or its interface was deleted, or its `net_memif` server ended, and it is
        /// used again when that is back.
        #[serde(default)]
        #[metric(Gauge = "vernier_port_removed")]
        pub is_removed: bool,
        /// Times that the link went down.
        #[metric(Counter = "vernier_port_link_flaps_total")]
        pub link_flaps: u64,
        /// What the device counts; absent where the device belongs to the host program.
        #[serde(flatten)]
        pub device: Option<DeviceCounts>,
    }
}

record! {
    /// What the device behind a port counts in addition to the packets that pass.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct DeviceCounts {
        /// Packets that the device dropped because no descriptor was free.
        #[metric(Counter = "vernier_port_device_missed_packets_total")]
        pub missed_packets: u64,
        /// Packets that the device received with errors.
        #[metric(Counter = "vernier_port_device_receive_errors_total")]
        pub rx_error_packets: u64,
        /// Packets that the device could not send.
        #[metric(Counter = "vernier_port_device_transmit_errors_total")]
        pub tx_error_packets: u64,
        /// Packets that the device dropped because no buffer was free.
        #[metric(Counter = "vernier_port_device_no_buffer_packets_total")]
        pub no_buffer_packets: u64,
    }
}

record! {
    /// One worker.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub struct Worker {
        /// What it counts.
        #[serde(flatten)]
        pub counts: WorkerReading,
        /// Share of the last second or so that the worker spent on packets, 0 to 1.
        #[metric(Gauge = "vernier_worker_busy_ratio")]
        pub busy_ratio: f64,
        /// Time that the worker spent on packets.
        #[metric(Counter = "vernier_worker_busy_seconds_total")]
        pub busy_s: f64,
        /// Longest recent time between two polls of a port: stamps cannot show less.
        #[metric(Gauge = "vernier_worker_stamp_uncertainty_seconds", per_unit = 1e9)]
        pub poll_gap_max_ns: f64,
        /// Epochs that the worker could not measure because no empty shard was ready.
        #[metric(Counter = "vernier_worker_missed_epochs_total")]
        pub missed_epochs: u64,
        /// Whether the worker has made no pass for a second.
        #[metric(Gauge = "vernier_worker_stalled")]
        pub is_stalled: bool,
        /// Ticks of the time stamp counter that a packet took over the last second or so; 0 without packets.
        #[metric(Gauge = "vernier_worker_cycles_per_packet")]
        pub cycles_per_packet: f64,
        /// Bursts received, by size.
        pub bursts: Vec<Bursts>,
        /// Reference packets.
        pub references: References,
    }
}

/// Bursts of one size, and those smaller that are larger than the size before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bursts {
    /// Most packets of such a burst; `None` where there is no limit.
    pub le_packets: Option<u64>,
    /// Bursts.
    pub bursts: u64,
}

record! {
    /// The bridge's filtering database.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct Fdb {
        /// Addresses in the filtering database.
        #[metric(Gauge = "vernier_fdb_entries")]
        pub entries: u64,
        /// Most addresses that the filtering database holds.
        #[metric(Gauge = "vernier_fdb_capacity")]
        pub capacity: u64,
        /// What happened to them.
        #[serde(flatten)]
        pub stats: FdbStats,
    }
}

/// A pool of packet buffers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pool {
    /// Its name, that of its NUMA node: `node0`.
    pub name: String,
    /// Buffers in use.
    pub used: u64,
    /// Buffers in all.
    pub size: u64,
}
