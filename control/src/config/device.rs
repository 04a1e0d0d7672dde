//! Device strings: where a port's packets come from and go to.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A port's device. In JSON it is one string ([`std::fmt::Display`] and [`std::str::FromStr`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Device {
    /// `sink`: receives nothing, swallows what it is sent.
    Sink,
    /// `replay:FILE[?speed=X&loop=N]`: receives a capture with its own timing.
    Replay(Replay),
    /// `generate:KEY=VALUE,...`: receives seeded traffic.
    Generate(Generate),
    /// Anything else: a DPDK device string (`0000:03:00.0`, `net_af_packet0,iface=veth0`, ...).
    Dpdk(String),
}

/// A capture to be received.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// A pcap or pcapng file of Ethernet frames.
    pub file: PathBuf,
    /// `speed`: times the capture's own pace, over 0 to 1,000,000; default 1.
    pub speed: f64,
    /// `loop`: how often it is played, 0 for ever; default 1.
    pub loops: u64,
}

/// Seeded traffic.
#[derive(Debug, Clone, PartialEq)]
pub struct Generate {
    /// `flows`: how many, 1 to 10,000,000; default 1,000.
    pub flows: u32,
    /// `size`: frame sizes; default `imix`.
    pub size: FrameSize,
    /// `rate`: mean packets a second, over 0 to 100,000,000; default 100,000.
    pub rate_pps: f64,
    /// `burst`: mean packets that come back to back (geometric), 1 to 1,000; default 1 (Poisson).
    pub burst: f64,
    /// `pareto`: shape of the heavy-tailed (Pareto) flow sizes, over 0 to 10; default 1.2;
    /// smaller is more uneven.
    pub pareto: f64,
    /// `seed`: the same seed gives the same packets; default 1.
    pub seed: u64,
    /// `macs`: source and destination addresses on each side, 1 to 65,536; default 16.
    pub macs: u32,
    /// `side`: 0 or 1; side 1 answers side 0 (addresses swapped); default 0.
    pub side: u8,
}

/// Frame sizes in bytes on the wire, without the frame check sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameSize {
    /// 60, 590 and 1514 bytes in the ratio 7 : 4 : 1 (64, 594 and 1518 with FCS).
    Imix,
    /// Always this many bytes, 60 to 9,014.
    Fixed(u16),
}
