//! A port: its device, its VLANs, its egress queues.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CLASSES_MAX, Device, Wire};

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
    #[serde(default = "mtu")]
    #[schemars(range(min = 68, max = 9_000))]
    pub mtu: u16,
    /// Receive queues over which the device spreads flows (RSS), 1 to 64. None: as many as there
    /// are workers, or as the workers name, as far as the device has them. Sources of ours and
    /// `sink` have one.
    #[serde(default)]
    #[schemars(range(min = 1, max = 64))]
    pub rx_queues: Option<u16>,
    /// Its VLANs, where the switch bridges; none: every frame passes as it is, and all such ports
    /// are one LAN.
    #[serde(default)]
    pub vlan: Option<Vlan>,
    /// Most stations that the bridge learns behind this port, 1 to 1,048,576; frames to others are flooded. None: as
    /// many as it has room for, which it shares out fairly: once full, it forgets those of the port that has most.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_048_576))]
    pub max_stations: Option<u32>,
    /// Its egress side.
    #[serde(default)]
    pub egress: Egress,
    /// The segment on the wire between this port and one of another switch; none: nothing is measured
    /// beyond the port.
    #[serde(default)]
    pub wire: Option<Wire>,
}

impl Port {
    /// A port whose device belongs to a host, or is gone: all that can be configured is left out.
    pub(super) fn bare(name: String, device: Device) -> Self {
        Self {
            name,
            device,
            mtu: mtu(),
            rx_queues: None,
            vlan: None,
            max_stations: None,
            egress: Egress::default(),
            wire: None,
        }
    }

    /// Whether the port is there: not one that was taken away.
    pub fn is_present(&self) -> bool {
        self.device != Device::Absent
    }
}

/// VLANs of a bridged port (IEEE 802.1Q). Frames with an outer tag of type 0x88A8 are passed as
/// untagged ones: QinQ belongs to those who use it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "mode", rename_all = "snake_case", deny_unknown_fields)]
pub enum Vlan {
    /// Frames have no tag on this port; all are of one VLAN. Tagged frames (but priority tags) are
    /// dropped, and so are frames to it that have a second tag behind the one that they would lose.
    Access {
        /// The VLAN, 1 to 4094.
        #[schemars(range(min = 1, max = 4_094))]
        vlan: u16,
    },
    /// Frames have tags on this port.
    Trunk {
        /// VLANs that may pass.
        #[serde(default)]
        vlans: VlanIds,
        /// The VLAN of frames without a tag, 1 to 4094, sent without a tag too, unless another tag
        /// would then come first; none: they are dropped.
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Egress {
    /// Bit rate at which the port sends, counting preamble, frame check sequence and gap
    /// (24 bytes a frame), 1,000 to 1,000,000,000,000; none: as fast as the device takes packets.
    #[schemars(range(min = 1_000, max = 1_000_000_000_000_u64))]
    pub capacity_bps: Option<u64>,
    /// What may leave at once after an idle time, in bytes on the wire, 0 to 16,777,216, where there
    /// is a capacity; by default 0: a link saves nothing up.
    #[schemars(range(max = 16_777_216))]
    pub burst_bytes: u32,
    /// Most packets that wait in the one queue of a port without `queues`, 1 to 65536.
    #[schemars(range(min = 1, max = 65_536))]
    pub queue_packets: u32,
    /// Most bytes that wait there: a frame of the MTU (`mtu` and 22) to 1,073,741,824; none: as many
    /// as `queue_packets` frames of the MTU have.
    #[schemars(range(max = 1_073_741_824))]
    pub queue_bytes: Option<u32>,
    /// Longest stay in microseconds, 1 to 60,000,000; what waits longer is dropped. None: no limit.
    #[schemars(range(min = 1, max = 60_000_000))]
    pub max_residency_us: Option<u32>,
    /// Class queues, at most 8, together holding every class once, instead of the one of
    /// `queue_packets` and `queue_bytes`. Empty: that one for all.
    #[schemars(length(max = CLASSES_MAX))]
    pub queues: Vec<Queue>,
    /// The worker (index) that transmits for all: needed where more than one worker sends and the
    /// port has a capacity or queues; by default the worker that serves its first receive queue.
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
    /// Most packets that wait, 1 to 65536.
    #[serde(default = "queue_packets")]
    #[schemars(range(min = 1, max = 65_536))]
    pub packets: u32,
    /// Most bytes that wait: a frame of the MTU (`mtu` and 22) to 1,073,741,824; none: `packets`
    /// frames of the MTU.
    #[serde(default)]
    #[schemars(range(max = 1_073_741_824))]
    pub bytes: Option<u32>,
    /// Random early detection; none: tail drop alone.
    #[serde(default)]
    pub red: Option<Red>,
}

/// How the scheduler serves a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueService {
    /// Before all that follow in the list and all weighted queues.
    Strict,
    /// Deficit round robin (Shreedhar and Varghese 1995): this many times 1,522 bytes a round, 1 to
    /// 1,000.
    Weight(#[schemars(range(min = 1, max = 1_000))] u16),
}

/// Random early detection (Floyd and Jacobson 1993, "gentle" not included).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Red {
    /// Average length in packets from which on packets are dropped, 0 and up, under `max_packets`.
    pub min_packets: u32,
    /// Average length from which on all are, at most the queue's packets.
    #[schemars(range(min = 1, max = 65_536))]
    pub max_packets: u32,
    /// The paper's `max_p`, over 0 to 1. By its spacing of drops 2p / (1 + p) of all packets are
    /// dropped just below `max_packets`.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub probability: f64,
    /// Weight of the newest length in the average, as a power of a half: 0 to 16, default 9.
    #[serde(default = "red_weight")]
    #[schemars(range(max = 16))]
    pub weight_log2: u8,
}

fn mtu() -> u16 {
    1500
}

fn queue_packets() -> u32 {
    1024
}

fn red_weight() -> u8 {
    9
}

impl Default for QueueService {
    fn default() -> Self {
        Self::Weight(1)
    }
}

impl Default for Egress {
    fn default() -> Self {
        Self {
            capacity_bps: None,
            burst_bytes: 0,
            queue_packets: queue_packets(),
            queue_bytes: None,
            max_residency_us: None,
            queues: Vec::new(),
            owner: None,
        }
    }
}
