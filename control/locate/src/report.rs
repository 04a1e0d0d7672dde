//! What comes in, and what is noticed.

use serde::{Deserialize, Serialize};

/// What was measured of a segment over one interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// End of the interval, milliseconds since 1970 (UTC).
    pub time_ms: u64,
    /// Its length in milliseconds, above 0.
    pub interval_ms: u32,
    /// Packets whose delay was measured; without any the figures of delay say nothing.
    pub packets: u64,
    /// Mean delay in nanoseconds. It can be negative where clocks differ.
    pub mean_ns: f64,
    /// Half-width of the mean's nominal 98 % interval in nanoseconds; `None` if it is not known, 0 if it is exact.
    pub bound_ns: Option<f64>,
    /// Standard deviation of the packets' delays, in nanoseconds.
    pub deviation_ns: Option<f64>,
    /// Their 99th percentile, in nanoseconds.
    pub p99_ns: Option<f64>,
    /// Packets that entered the segment; `None` if losses are not known.
    pub sent: Option<u64>,
    /// How many of these were lost.
    pub lost: u64,
    /// The two ends' clocks are not synchronised: the delays are not used.
    pub clock_unsynchronised: bool,
}

/// What can rise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// The mean delay.
    Delay,
    /// The share of packets lost.
    Loss,
}

/// What was noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// What it is of.
    pub signal: Signal,
    /// What happened.
    pub kind: EventKind,
    /// When: of a rise the time from which it is dated, else that of the report; milliseconds since 1970.
    pub time_ms: u64,
}

/// What happened to a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// It is above what its history explains.
    Rose,
    /// It is back.
    Ended,
    /// It has stayed so long that it counts as usual from now on.
    Accepted,
}

/// Something that is wrong with measuring, not with the network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// The segment, by its name.
    pub segment: String,
    /// What is wrong.
    pub kind: FaultKind,
    /// Since when, milliseconds since 1970.
    pub since_ms: u64,
}

/// What can be wrong with measuring.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "what")]
pub enum FaultKind {
    /// No report for more than three intervals, or none at all: the switch is down, or cannot be reached.
    Silent,
    /// The ends' clocks are not synchronised.
    ClockUnsynchronised,
    /// A clock was set: the two directions of a link shifted by the same amount in opposite senses.
    ClockStep {
        /// By how much this direction was shifted, in nanoseconds.
        shift_ns: f64,
    },
}
