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
        /// Whether it was removed from the configuration, and is shown for its counters only.
        #[serde(default)]
        pub is_absent: bool,
        /// Its device.
        pub facts: PortFact,
        /// Its counters, over all workers.
        #[serde(flatten)]
        pub counts: PortReading,
        /// Packets a second received, over the last second or so.
        pub rx_pps: f64,
        /// Packets a second sent, over the last second or so.
        pub tx_pps: f64,
        /// Packets dropped, by reason; drops at the egress queue count at the egress port.
        #[metric(Counter = "vernier_port_dropped_packets_total", label = "reason")]
        pub drops: Vec<Labelled>,
        /// Received packets that were parsed (for flows, LDS and wires), by what the parser found.
        #[metric(Counter = "vernier_port_parsed_packets_total", label = "kind")]
        pub kinds: Vec<Labelled>,
        /// Transmitted and dropped packets, by class.
        pub classes: Vec<ClassCounts>,
        /// Its egress queues.
        pub queues: Vec<QueueCounts>,
        /// The device that it leads to, if packets are measured around one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub around: Option<AroundCounts>,
        /// Neighbours at the other end of its link.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub neighbours: Vec<LldpNeighbour>,
    }
}

/// A neighbour of a port, as it describes itself by LLDP (IEEE 802.1AB). Texts have at most 64 characters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LldpNeighbour {
    /// Its system name, or its chassis if it has none.
    pub system: String,
    /// Its chassis: a MAC address, or a name.
    pub chassis: String,
    /// Its port: a MAC address, or a name.
    pub port: String,
    /// When it was last heard, in seconds since 1970.
    pub heard_unix_s: f64,
    /// Seconds for which its information stays valid.
    pub ttl_s: u16,
}

/// Packets that enter another device by a port of this switch, and return by it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AroundCounts {
    /// The device.
    pub device: String,
    /// Counters of the workers.
    #[serde(flatten)]
    pub counts: AroundReading,
}

/// Packets of one class that left by a port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClassCounts {
    /// The class; `all` unless classes are configured.
    pub class: String,
    /// Counters of the workers.
    #[serde(flatten)]
    pub counts: ClassReading,
}

record! {
    /// One egress queue of a port.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct QueueCounts {
        /// Its classes, `gold+silver`; `all` if it is the only queue.
        pub queue: String,
        /// Counters of the workers.
        #[serde(flatten)]
        pub counts: QueueReading,
        /// Packets dropped at the egress queue, by reason.
        #[metric(Counter = "vernier_queue_dropped_packets_total", label = "reason")]
        pub drops: Vec<Labelled>,
    }
}

impl Port {
    /// Whether it has counted received, transmitted, dropped or copied packets.
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
        /// Whether the device is gone, so that its other figures are the last known ones. A port that was unplugged
        /// is not used again before a restart; a deleted interface or an ended `net_memif` server is used again when
        /// it is back.
        #[serde(default)]
        #[metric(Gauge = "vernier_port_removed")]
        pub is_removed: bool,
        /// Times that the link went down.
        #[metric(Counter = "vernier_port_link_flaps_total")]
        pub link_flaps: u64,
        /// Counters of the device; absent if the device belongs to the host program.
        #[serde(flatten)]
        pub device: Option<DeviceCounts>,
    }
}

record! {
    /// Counters of the device behind a port, in addition to passing packets.
    #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct DeviceCounts {
        /// Packets that the device dropped because no descriptor was free.
        #[metric(Counter = "vernier_port_device_missed_packets_total")]
        pub missed_packets: u64,
        /// Erroneous packets that the device received.
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
        /// Its counters.
        #[serde(flatten)]
        pub counts: WorkerReading,
        /// Share of the last second or so that the worker spent on packets, 0 to 1.
        #[metric(Gauge = "vernier_worker_busy_ratio")]
        pub busy_ratio: f64,
        /// Time that the worker spent on packets.
        #[metric(Counter = "vernier_worker_busy_seconds_total")]
        pub busy_s: f64,
        /// Longest recent time between two polls of a port, which is the resolution of its stamps.
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

/// Bursts up to one size, and larger than the next smaller size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bursts {
    /// Most packets of such a burst; `None` for no limit.
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
        /// Capacity of the filtering database, in addresses.
        #[metric(Gauge = "vernier_fdb_capacity")]
        pub capacity: u64,
        /// Its counters.
        #[serde(flatten)]
        pub stats: FdbStats,
    }
}

/// A pool of packet buffers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pool {
    /// Its name, after its NUMA node: `node0`.
    pub name: String,
    /// Buffers in use.
    pub used: u64,
    /// Buffers in total.
    pub size: u64,
}
