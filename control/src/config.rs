//! The configuration, as `vernier.json` spells it.
//!
//! [`Config::parse`] is the only way in from text: what it returns has passed every range check
//! that the fields' documentation states.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub mod device;
mod parse;
mod validate;

pub use device::Device;
pub use parse::ConfigError;

/// Most ports of one switch.
pub const PORTS_MAX: usize = 64;

/// A whole configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The switch's name in measurement points (`edge-1/p0/rx`) and labels: 1 to 64 letters,
    /// digits, `.`, `_` or `-`.
    #[serde(default = "defaults::name")]
    pub name: String,
    /// The ports, in order; 1 to [`PORTS_MAX`].
    pub ports: Vec<Port>,
    /// What happens between them.
    pub forwarding: Forwarding,
    /// What is measured.
    #[serde(default)]
    pub measurement: Measurement,
    /// Who does the work; this release runs exactly one worker.
    #[serde(default = "defaults::workers")]
    pub workers: Vec<Worker>,
    /// Where the answers are served.
    #[serde(default)]
    pub http: Http,
    /// How DPDK is started.
    #[serde(default)]
    pub dpdk: Dpdk,
}

/// One port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Its name in labels: unique, 1 to 64 letters, digits, `.`, `_` or `-`.
    pub name: String,
    /// Where its packets come from and go to.
    pub device: Device,
    /// Largest layer-3 packet in bytes, 68 to 9000.
    #[serde(default = "defaults::mtu")]
    pub mtu: u16,
    /// Its egress queue.
    #[serde(default)]
    pub egress: Egress,
}

/// The egress side of a port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Egress {
    /// Bit rate at which the port sends, counting preamble, frame check sequence and gap
    /// (24 bytes a frame), 1,000 to 1,000,000,000,000; none: as fast as the device takes packets.
    #[serde(default)]
    pub capacity_bps: Option<u64>,
    /// Most packets that wait, 1 to 65536.
    #[serde(default = "defaults::queue_packets")]
    pub queue_packets: u32,
}

/// How packets find their way; in JSON told apart by `mode`, `patch` or `bridge`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case")]
#[serde(try_from = "parse::ForwardingKeys")]
pub enum Forwarding {
    /// A transparent patch panel: all that enters one port of a pair leaves by the other.
    Patch {
        /// Pairs of port names; a port is in one pair at most.
        pairs: Vec<(String, String)>,
    },
    /// One learning bridge over all ports, of which there are 2 at least.
    Bridge {
        /// Seconds after which an address that was not seen is forgotten, 1 to 1,000,000; default
        /// 300 (IEEE 802.1D).
        ageing_s: u32,
        /// Most addresses that are remembered, 1 to 1,048,576; default 65,536.
        fdb_entries: u32,
    },
}

/// What is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Measurement {
    /// Off: packets are forwarded, nothing is parsed, stamped or recorded.
    pub enabled: bool,
    /// Length of an epoch, 10 to 60,000 ms.
    pub interval_ms: u32,
    /// How long an epoch waits for packets still queued after its end, under half of
    /// `interval_ms`; by default 100 ms or two fifths of the interval, whichever is less.
    pub grace_ms: Option<u32>,
    /// Seed of the packet and flow hashes, as 32 hexadecimal digits; random at every start when
    /// absent.
    pub hash_seed: Option<String>,
    /// The estimator at both ends of every segment.
    pub lda: Lda,
}

/// A Lossy Difference Aggregator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Lda {
    /// One bank for each loss rate to be prepared for, 1 to 16.
    pub banks: Vec<LdaBank>,
}

/// A bank of an LDA.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LdaBank {
    /// Rows, 1 to 65,536.
    pub rows: u32,
    /// Share of packets sampled into this bank, over 0 to 1. Samples are disjoint: probabilities
    /// of all banks add up to 1 at most.
    pub probability: f64,
}

/// A worker: one core, one loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Worker {
    /// The CPU it is pinned to; by default the last one this process may use.
    #[serde(default)]
    pub core: Option<usize>,
    /// What it does when there is nothing to do.
    #[serde(default)]
    pub idle: Idle,
}

/// What a worker does when a pass brought no packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
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

/// The HTTP server: Prometheus and JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// Address and port, loopback unless you mean it; none: no server.
    pub listen: Option<std::net::SocketAddr>,
}

/// How DPDK's environment abstraction layer is started.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Dpdk {
    /// Use hugepages (needed for physical NICs); off: ordinary memory, no privileges needed.
    pub hugepages: bool,
    /// Memory for packets in MiB, 16 to 1,048,576.
    pub memory_mib: u32,
    /// Packet buffers in the pool, 1,024 to 4,194,304.
    pub mbufs: u32,
    /// Further arguments for EAL, passed on as they are.
    pub eal_args: Vec<String>,
}

impl Config {
    /// Two ports of seeded traffic patched together (`control/src/config/demo.json`): needs
    /// neither a NIC, nor root, nor hugepages.
    ///
    /// # Errors
    /// Those of [`Config::parse`].
    pub fn demo() -> Result<Self, ConfigError> {
        Self::parse(include_str!("config/demo.json"), "demo.json")
    }

    /// The capture `pcap` for ever, patched to a port that swallows it and answers with a little
    /// seeded traffic (`control/src/config/demo-replay.json`): needs neither a NIC, nor root, nor
    /// hugepages.
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

    /// The measured segments as (ingress, egress) indices into [`Config::ports`]: both directions
    /// of every patched pair, or every ordered pair of the bridge's ports (at most 4,032).
    ///
    /// The order is that of the shards' segments. Empty when measurement is off.
    pub fn segments(&self) -> Vec<(usize, usize)> {
        if !self.measurement.enabled {
            return Vec::new();
        }
        match &self.forwarding {
            Forwarding::Patch { pairs } => {
                let index = |name: &str| self.ports.iter().position(|port| port.name == name);
                let ends = pairs
                    .iter()
                    .filter_map(|(a, b)| Some((index(a)?, index(b)?)));
                ends.flat_map(|(a, b)| [(a, b), (b, a)]).collect()
            }
            Forwarding::Bridge { .. } => {
                let ports = 0..self.ports.len();
                let from = |a| ports.clone().filter(move |&b| b != a).map(move |b| (a, b));
                ports.clone().flat_map(from).collect()
            }
        }
    }
}

impl Measurement {
    /// Length of an epoch.
    pub fn interval(&self) -> Duration {
        Duration::from_millis(self.interval_ms.into())
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

mod defaults {
    pub fn name() -> String {
        "vernier".to_owned()
    }
    pub fn mtu() -> u16 {
        1500
    }
    pub fn queue_packets() -> u32 {
        1024
    }
    pub fn ageing_s() -> u32 {
        300
    }
    pub fn fdb_entries() -> u32 {
        65_536
    }
    pub fn workers() -> Vec<super::Worker> {
        vec![super::Worker {
            core: None,
            idle: super::Idle::default(),
        }]
    }
}

impl Default for Egress {
    fn default() -> Self {
        Self {
            capacity_bps: None,
            queue_packets: defaults::queue_packets(),
        }
    }
}

impl Default for Measurement {
    fn default() -> Self {
        Self {
            enabled: true,
            interval_ms: 1000,
            grace_ms: None,
            hash_seed: None,
            lda: Lda::default(),
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

impl Default for Http {
    fn default() -> Self {
        Self {
            listen: Some(std::net::SocketAddr::from(([127, 0, 0, 1], 9464))),
        }
    }
}

impl Default for Dpdk {
    fn default() -> Self {
        Self {
            hugepages: false,
            memory_mib: 512,
            mbufs: 65_535,
            eal_args: Vec::new(),
        }
    }
}
