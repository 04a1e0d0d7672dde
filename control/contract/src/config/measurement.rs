//! What is measured, and how.

use std::time::Duration;

use measure::InvalidArgument;
use measure::digest::DEVICE_PORTS_MAX;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Prefix, class::Protocol};

/// What is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Measurement {
    /// Off: packets are forwarded, nothing is hashed, stamped or recorded.
    pub enabled: bool,
    /// Length of an epoch, 10 to 60,000 ms.
    #[schemars(range(min = 10, max = 60_000))]
    pub interval_ms: u32,
    /// How long an epoch waits for packets still queued after its end, under half of
    /// `interval_ms`; by default 100 ms or two fifths of the interval, whichever is less.
    pub grace_ms: Option<u32>,
    /// Seed of the packet and flow hashes, as 32 hexadecimal digits; random at every start when
    /// absent.
    #[schemars(regex(pattern = "^[0-9A-Fa-f]{32}$"))]
    pub hash_seed: Option<String>,
    /// How often the clock is read.
    pub stamps: Stamps,
    /// The segments that are measured, each in every class; none: all that packets can take.
    #[schemars(length(min = 1))]
    pub segments: Option<Vec<SegmentPorts>>,
    /// Devices of others around which packets leave this switch and come back to it, at most 16; none by default.
    #[schemars(length(max = 16))]
    pub around: Vec<Around>,
    /// The estimator at both ends of every segment; `null`: none.
    pub lda: Option<Lda>,
    /// The sketch of per-flow delays at every egress port; none by default.
    pub lds: Option<Lds>,
    /// Reference packets inside the switch; none by default.
    pub rli: Option<Rli>,
    /// Flows with counters of their own; none by default.
    pub flows: Option<Flows>,
}

/// How often the clock is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stamps {
    /// Once for every burst received and every burst sent: packets of a burst share their times.
    #[default]
    Burst,
    /// Once for every packet at both ends.
    Packet,
}

/// The ports of a segment, by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SegmentPorts {
    /// Where its packets come in.
    pub from: String,
    /// Where they leave.
    pub to: String,
}

/// Somebody else's device (a firewall, a router, a cable) with ports of this switch on its sides: what leaves by one of
/// them is awaited at the others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Around {
    /// Its name, like a port's and no port's; its segments lead from `name:port` to `name:port`.
    #[schemars(regex(pattern = "^[A-Za-z0-9._-]{1,64}$"))]
    pub name: String,
    /// The ports of this switch that lead to it, 2 to 16; a port leads to one device only, and has no `wire`.
    #[schemars(length(min = 2, max = DEVICE_PORTS_MAX))]
    pub ports: Vec<String>,
    /// How long a packet is awaited, 1 to 10,000 ms, default 1,000; then it is lost.
    #[serde(default = "defaults::timeout_ms")]
    #[schemars(range(min = 1, max = 10_000))]
    pub timeout_ms: u32,
    /// Packets that are inside the device at a time, lost ones until their time is over, 64 to 67,108,864, default 262,144:
    /// 8 bytes each. The oldest make way for more, and are neither measured nor lost.
    #[serde(default = "defaults::packets")]
    #[schemars(range(min = 64, max = 67_108_864))]
    pub packets: u32,
}

/// A Lossy Difference Aggregator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Lda {
    /// One bank for each loss rate to be prepared for, 1 to 16.
    #[schemars(length(min = 1, max = 16))]
    pub banks: Vec<LdaBank>,
}

/// A bank of an LDA.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LdaBank {
    /// Rows, 1 to 65,536.
    #[schemars(range(min = 1, max = 65_536))]
    pub rows: u32,
    /// Share of packets sampled into this bank, over 0 to 1. Samples are disjoint: probabilities
    /// of all banks add up to 1 at most.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub probability: f64,
}

/// A Lossy Difference Sketch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Lds {
    /// Cells of all rows together, 16 to 16,777,216, default 70,000: about one for every two flows
    /// that are active in an epoch.
    #[schemars(range(min = 16, max = 16_777_216))]
    pub cells: u32,
    /// Share of packets that each row samples, 1 to 4 rows; over 0 to 1 each. Default 3 rows that
    /// take all.
    #[schemars(length(min = 1, max = 4))]
    #[schemars(extend("items" = { "type": "number", "exclusiveMinimum": 0, "maximum": 1 }))]
    pub rows: Vec<f64>,
    /// Cells of a flow in each row (k), 1 to 1,024, default 1: more survive losses.
    #[schemars(range(min = 1, max = 1_024))]
    pub virtual_cells: u32,
    /// Estimates for the flows that are tracked, jointly from all cells; `null`: none, only flows
    /// that a client asks about.
    pub decode: Option<Decode>,
}

/// When and how a sketch is decoded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Decode {
    /// Components of the prior (K), 1 to 3, default 1; more where flows take ways of different
    /// delay.
    #[schemars(range(min = 1, max = 3))]
    pub components: u8,
    /// Where decoding an epoch takes longer than four fifths of an epoch, the sum of the last epochs is
    /// decoded instead, each so many seconds; 1 to 3,600, default 10.
    #[schemars(range(min = 1, max = 3_600))]
    pub interval_s: u32,
}

/// Reference Latency Interpolation inside the switch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rli {
    /// When references are injected into each stream: the packets of a segment that one worker sends.
    pub policy: RliPolicy,
    /// How delays between references are estimated.
    #[serde(default)]
    pub method: RliMethod,
}

/// When references are injected.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum RliPolicy {
    /// After every `packets` regular packets, 1 to 1,000,000.
    Count {
        /// n of 1-in-n.
        #[schemars(range(min = 1, max = 1_000_000))]
        packets: u32,
    },
    /// `interval_us` after the last reference, 1 to 10,000,000.
    Time {
        /// tau of 1-in-tau.
        #[schemars(range(min = 1, max = 10_000_000))]
        interval_us: u32,
    },
    /// Whichever of both comes first.
    Either {
        /// n.
        #[schemars(range(min = 1, max = 1_000_000))]
        packets: u32,
        /// tau.
        #[schemars(range(min = 1, max = 10_000_000))]
        interval_us: u32,
    },
    /// By the link's utilisation (Lee et al. 2010, Algorithm 1), 1-in-10 to 1-in-300; needs the
    /// egress port's `capacity_bps`.
    Adaptive,
}

/// How delays between references are estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RliMethod {
    /// RLI-AS where the egress point sees the whole port and stamps are per packet, else RLI-S.
    #[default]
    Auto,
    /// RLI-L: the left reference's delay.
    Left,
    /// RLI: linear between references.
    Linear,
    /// RLI-S: linear, and true to the sums that references carry.
    Sums,
    /// RLI-AS: the wait curve, anchored at busy periods.
    AnchoredSums,
}

/// Flows with counters of their own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Flows {
    /// Flows that each worker can track at a time, 16 to 16,777,216, default 65,536; packets of
    /// more are counted together.
    #[schemars(range(min = 16, max = 16_777_216))]
    pub slots: u32,
    /// Which flows.
    pub select: FlowSelection,
    /// Seconds without a packet after which a flow gives its slot back, 1 to 86,400, default 30.
    #[schemars(range(min = 1, max = 86_400))]
    pub idle_s: u32,
}

/// Which flows get counters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlowSelection {
    /// Every flow, as long as there are slots.
    #[default]
    All,
    /// A share of flows by hash, 0 to 1: the same ones at every point.
    Sampled(#[schemars(range(min = 0, max = 1))] f64),
    /// Those that one of at most 256 rules names.
    Rules(#[schemars(length(min = 1, max = 256))] Vec<FlowRule>),
    /// The flows with most packets, as far as there are slots: small ones make room.
    Top,
}

/// Names flows; every key that is given must match.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FlowRule {
    /// Source prefix.
    pub source: Option<Prefix>,
    /// Destination prefix.
    pub destination: Option<Prefix>,
    /// Protocol above IP.
    pub protocol: Option<Protocol>,
    /// First and last source port.
    pub source_ports: Option<(u16, u16)>,
    /// First and last destination port.
    pub destination_ports: Option<(u16, u16)>,
}

/// As flows are selected by it.
impl TryFrom<&FlowRule> for measure::rli::FlowRule {
    type Error = InvalidArgument;

    /// # Errors
    /// [`InvalidArgument`] for a prefix with more bits than its address has, which no configuration
    /// that was checked holds.
    fn try_from(rule: &FlowRule) -> Result<Self, InvalidArgument> {
        let prefix = |prefix: Option<Prefix>| {
            prefix
                .map(|prefix| measure::rli::Prefix::new(prefix.address, prefix.bits))
                .transpose()
        };
        Ok(Self {
            source: prefix(rule.source)?,
            destination: prefix(rule.destination)?,
            protocol: rule.protocol.map(Protocol::number),
            source_ports: rule.source_ports,
            destination_ports: rule.destination_ports,
        })
    }
}

impl Measurement {
    /// Length of an epoch.
    pub fn interval(&self) -> Duration {
        Duration::from_millis(self.interval_ms.into())
    }

    /// Epochs without a packet after which a flow is forgotten, inside the switch and on wires.
    pub fn idle_epochs(&self) -> u64 {
        let unset = Flows::default();
        let seconds = self.flows.as_ref().unwrap_or(&unset).idle_s;
        (u64::from(seconds) * 1_000).div_ceil(u64::from(self.interval_ms.max(1)))
    }

    /// How long an epoch waits for packets still queued after its end.
    pub fn grace(&self) -> Duration {
        let usual_ms = 100.min(self.interval_ms * 2 / 5);
        Duration::from_millis(self.grace_ms.unwrap_or(usual_ms).into())
    }

    /// The configured seed of the hashes; `None` when one is to be drawn at start.
    pub fn hash_key(&self) -> Option<[u8; 16]> {
        let digits = self.hash_seed.as_deref()?;
        u128::from_str_radix(digits, 16).ok().map(u128::to_be_bytes)
    }
}

impl Default for Measurement {
    fn default() -> Self {
        Self {
            enabled: true,
            interval_ms: 1000,
            grace_ms: None,
            hash_seed: None,
            stamps: Stamps::default(),
            segments: None,
            around: Vec::new(),
            lda: Some(Lda::default()),
            lds: None,
            rli: None,
            flows: None,
        }
    }
}

impl Default for Lda {
    fn default() -> Self {
        Self {
            banks: vec![LdaBank {
                rows: 1024,
                probability: 1.0,
            }],
        }
    }
}

impl Default for Lds {
    fn default() -> Self {
        Self {
            cells: 70_000,
            rows: vec![1.0; 3],
            virtual_cells: 1,
            decode: Some(Decode::default()),
        }
    }
}

impl Default for Decode {
    fn default() -> Self {
        Self {
            components: 1,
            interval_s: 10,
        }
    }
}

impl Default for Flows {
    fn default() -> Self {
        Self {
            slots: 65_536,
            select: FlowSelection::default(),
            idle_s: 30,
        }
    }
}

mod defaults {
    pub fn timeout_ms() -> u32 {
        1_000
    }
    pub fn packets() -> u32 {
        262_144
    }
}
