//! The one published answer: an immutable snapshot that every view reads, so that all agree.

use std::sync::Arc;

use contract::config::Config;
use contract::counters::{ClassReading, QueueReading, WorkerReading};
use contract::fdb::FdbStats;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::history::History;

mod example;
mod flows;
mod wire;

pub use contract::counters::{
    ExceptionReading as Exceptions, PortReading, ReferenceReading as References,
};
pub use flows::{
    AnsweredFlow, Credit, Decoding, ENDED_MAX, Flow, FlowAnswer, FlowEstimate, FlowFigures,
    FlowList, FlowMethod, FlowOrder, FlowQuery, FlowRecord, FlowTotals, Flows, OtherFlows,
    SegmentName, SketchedFlow, TopFlow,
};

pub use wire::{
    Wire, WireClock, WireEstimate, WireFigures, WireFlow, WireFlows, WirePeer, WireSegment,
    WireTotals,
};

/// What a switch knows at the end of an epoch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// The switch's name.
    pub switch: String,
    /// Version of the program.
    pub version: String,
    /// Version of the packet hash: estimates of different versions cannot be compared.
    pub hash_version: u32,
    /// What the switch is doing.
    pub state: State,
    /// Whether anything is measured; if not there are no segments and no epochs.
    pub measuring: bool,
    /// Number of the last epoch that closed, usable or not; `None` before the first.
    pub epoch: Option<u64>,
    /// Its end in seconds since 1970 (UTC), to within a few milliseconds.
    pub epoch_end_unix_s: Option<f64>,
    /// The system's clock, as it was seen to be set.
    pub clock: Clock,
    /// Length of an epoch in milliseconds.
    pub interval_ms: u32,
    /// Seconds since the switch started.
    pub uptime_s: f64,
    /// Faults of this program (panics) that were contained since the process started.
    #[serde(default)]
    pub contained_panics: u64,
    /// Measured segments, in the order of the configuration.
    pub segments: Vec<Segment>,
    /// The sketches (LDS), one for each egress port; none where none are kept.
    pub sketches: Vec<Sketch>,
    /// The flows that are tracked; `None` where none are.
    pub flows: Option<Flows>,
    /// Ports that measure the path to another switch, in the order of the configuration.
    #[serde(default)]
    pub wires: Vec<Wire>,
    /// The clock that they go by; `None` where there are none.
    #[serde(default)]
    pub wire_clock: Option<WireClock>,
    /// Ports, in the order of the configuration.
    pub ports: Vec<Port>,
    /// Packets whose measurement is not as that of others.
    #[serde(default)]
    pub exceptions: Exceptions,
    /// Workers, by number, up to the last that has begun; none in a host, which has cores of its own.
    pub workers: Vec<Worker>,
    /// The pools of packet buffers.
    pub pools: Vec<Pool>,
    /// The bridge's filtering database, where there is one.
    pub fdb: Option<Fdb>,
    /// The generation of what is measured: 0 at start, more with every change.
    pub generation: u32,
    /// The last reload that somebody asked for; `None` before the first.
    pub reload: Option<Reload>,
    /// The configuration that holds; `None` before the first generation.
    #[serde(skip)]
    pub config: Option<Arc<Config>>,
}

/// Steps of the system's clock (UTC), which somebody has set while the switch ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Clock {
    /// Jumps of more than 100 ms against the monotonic clock, since the switch started.
    pub steps: u64,
    /// The last of them in seconds, negative for backward; 0 before the first.
    pub last_step_s: f64,
}

/// A reload of the configuration, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reload {
    /// Reloads since the switch started, this one included.
    pub number: u64,
    /// How far it got.
    pub outcome: ReloadOutcome,
    /// What was wrong with it, or what changed; empty where there is nothing to say.
    pub message: String,
}

/// How far a reload got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReloadOutcome {
    /// The file is being read and the change prepared.
    Reading,
    /// Refused whole: nothing has changed.
    Refused,
    /// It says what holds already.
    Unchanged,
    /// The workers are taking it up.
    UnderWay,
    /// It holds.
    Done,
}

/// What a switch is doing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Getting ready.
    #[default]
    Starting,
    /// Switching.
    Running,
    /// Stopping: what is queued still leaves.
    Draining,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Starting, Self::Running, Self::Draining];

    /// Its name in labels and JSON.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Draining => "draining",
        }
    }
}

/// One measured segment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Segment {
    /// Name of the ingress port.
    pub ingress: String,
    /// Name of the egress port.
    pub egress: String,
    /// The class of packets; `all` unless classes are configured.
    pub class: String,
    /// Figures of the last usable epoch in which packets passed.
    pub last: Option<EpochFigures>,
    /// Since the switch started.
    pub total: Totals,
    /// Its course.
    #[serde(skip)]
    pub history: History,
}

impl Segment {
    /// `east>west`.
    pub fn name(&self) -> String {
        format!("{}>{}", self.ingress, self.egress)
    }

    /// `east>west`, and `east>west gold` where there are classes.
    pub fn title(&self) -> String {
        match self.class.as_str() {
            "all" => self.name(),
            class => format!("{} {class}", self.name()),
        }
    }
}

/// One segment over one epoch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EpochFigures {
    /// The epoch's number.
    pub epoch: u64,
    /// Plain counts.
    pub counts: Counts,
    /// Delays as stamps in the packets tell them: exact.
    pub stamped: Option<Stamped>,
    /// Delays as the LDA estimates them; `None` when too few cells were usable, or there is none.
    pub lda: Option<Estimate>,
    /// The mean delay as reference packets tell it; `None` without any.
    pub references: Option<ReferenceEstimate>,
}

/// What reference packets (RLI) say of the mean delay of one segment over one epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReferenceEstimate {
    /// Mean delay in nanoseconds, from the sums that references carry (RLI-S), whatever the method of
    /// the flows' estimates.
    pub mean_ns: f64,
    /// Packets that it speaks for.
    pub packets: u64,
    /// Of these, packets between references where none was lost: their mean is exact.
    pub exact_packets: u64,
    /// (estimate - stamped mean) / stamped mean; `None` where that mean is 0.
    pub error_ratio: Option<f64>,
}

/// Plain counts of a segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Packets that entered the segment.
    pub sent_packets: u64,
    /// Bytes of these, without frame check sequences.
    pub sent_bytes: u64,
    /// Packets that left it in time.
    pub received_packets: u64,
    /// Bytes of these.
    pub received_bytes: u64,
    /// Packets lost between its ends.
    pub dropped_packets: u64,
    /// Packets that left it after their epoch was sealed: neither measured nor lost.
    pub late_packets: u64,
}

/// Exact figures of the stamped delay, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stamped {
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation.
    pub stddev_ns: f64,
    /// Least.
    pub min_ns: f64,
    /// Greatest.
    pub max_ns: f64,
    /// Median, to the histogram's resolution.
    pub p50_ns: f64,
    /// 90th percentile, to the histogram's resolution.
    pub p90_ns: f64,
    /// 99th percentile, to the histogram's resolution.
    pub p99_ns: f64,
}

/// What an estimator says of one segment over one epoch, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Estimate {
    /// Mean delay.
    pub mean_ns: f64,
    /// Half-width of the nominal 98 % interval around the mean, the clock's resolution at least.
    pub bound_ns: f64,
    /// Standard deviation, unbiased; `None` with fewer than two usable cells.
    pub stddev_ns: Option<f64>,
    /// Standard deviation by the LDA paper's equation 5.
    pub stddev_paper_ns: Option<f64>,
    /// Packets that the estimate rests on.
    pub effective_samples: u64,
    /// Cells that lost no packet, and that are not empty.
    pub usable_cells: u64,
    /// All cells.
    pub cells: u64,
    /// Estimate of the packets lost.
    pub lost_packets: f64,
    /// (estimate - stamped mean) / stamped mean; `None` where that mean is 0.
    pub error_ratio: Option<f64>,
    /// Whether the stamped mean lies within the bound.
    pub is_within_bound: bool,
}

impl Estimate {
    /// The nominal 98 % interval of the mean.
    pub fn interval_ns(&self) -> (f64, f64) {
        (self.mean_ns - self.bound_ns, self.mean_ns + self.bound_ns)
    }
}

/// A segment since the switch started. Everything in it only rises.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// Plain counts.
    pub counts: Counts,
    /// Sum of the stamped delays in seconds.
    pub delay_sum_s: f64,
    /// Sum of their squares in seconds squared.
    pub delay_squared_sum_s2: f64,
    /// Distribution of the stamped delay: packets in each octave, least first.
    pub octaves: Vec<Octave>,
    /// Epochs that gave no numbers.
    pub unusable_epochs: UnusableEpochs,
    /// Epochs with an LDA estimate.
    pub estimated_epochs: u64,
    /// Of these, epochs in which the stamped mean lay within the estimate's bound.
    pub within_bound_epochs: u64,
}

/// One bucket of a histogram: packets that took longer than the previous bucket's bound, and no
/// longer than this one's.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Octave {
    /// Upper bound in nanoseconds, a power of two.
    pub le_ns: u64,
    /// Packets in the bucket.
    pub packets: u64,
}

/// Epochs of one segment that gave no numbers, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnusableEpochs {
    /// A worker had no empty shard, or stalled: part of the epoch went unmeasured.
    pub missed_shard: u64,
    /// The workers measured it in different generations.
    pub generation: u64,
    /// The link of its ingress or egress port went down or came up.
    pub link: u64,
    /// Packets passed, but too few of the LDA's cells were usable for an estimate with a bound; the
    /// stamped figures stand.
    pub too_few_cells: u64,
    /// A fault of this program (a panic) was contained while its figures were made.
    #[serde(default)]
    pub internal: u64,
}

impl UnusableEpochs {
    /// Every reason's label and count.
    pub fn by_reason(&self) -> [(&'static str, u64); 5] {
        [
            ("missed_shard", self.missed_shard),
            ("generation", self.generation),
            ("link", self.link),
            ("too_few_cells", self.too_few_cells),
            ("internal", self.internal),
        ]
    }
}

/// What the sketch (LDS) of one egress port held in its last usable epoch.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sketch {
    /// The port's name.
    pub port: String,
    /// The epoch's number.
    pub epoch: u64,
    /// Cells.
    pub cells: u64,
    /// Cells in which packets were counted.
    pub filled_cells: u64,
    /// Of these, cells whose two ends agree.
    pub usable_cells: u64,
    /// Mean delay in nanoseconds of all packets, with their weights; `None` without any, or where
    /// usable cells hold less than 99 % of them.
    pub mean_ns: Option<f64>,
    /// (mean - stamped mean) / stamped mean; `None` where there is none.
    pub error_ratio: Option<f64>,
}

/// One port.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// It was taken away, and is shown for what it has counted.
    #[serde(default)]
    pub is_absent: bool,
    /// What the device behind it says.
    pub facts: PortFact,
    /// What its workers count.
    #[serde(flatten)]
    pub counts: PortReading,
    /// Packets a second received, over the last second or so.
    pub rx_pps: f64,
    /// Packets a second sent, over the last second or so.
    pub tx_pps: f64,
    /// Drops, each reason in the order of [`contract::counters::DropReason::ALL`].
    pub drops: Vec<Labelled>,
    /// Frames by what the parser found, in the order of `measure::packet::Kind::ALL`.
    pub kinds: Vec<Labelled>,
    /// What left by the port, by class.
    pub classes: Vec<ClassCounts>,
    /// Its egress queues.
    pub queues: Vec<QueueCounts>,
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

/// One egress queue of a port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueueCounts {
    /// Its classes, `gold+silver`; `all` for the only one.
    pub queue: String,
    /// What its workers count.
    #[serde(flatten)]
    pub counts: QueueReading,
    /// Packets dropped, by reason.
    pub drops: Vec<Labelled>,
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

/// What the device behind a port says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortFact {
    /// The driver's name.
    pub driver: String,
    /// Whether the link is up.
    pub is_up: bool,
    /// Whether the device was pulled while the switch ran: it has been let go, and its port is used no
    /// more before a restart. What is said here of the device is what it said last.
    #[serde(default)]
    pub is_removed: bool,
    /// How often the link went down.
    pub link_flaps: u64,
    /// What the device counts; none where it belongs to a host, whose driver is not ours to ask.
    #[serde(flatten)]
    pub device: Option<DeviceCounts>,
}

/// What the device behind a port counts, beside what passes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceCounts {
    /// Packets that the device dropped for want of a free descriptor.
    pub missed_packets: u64,
    /// Packets that it received broken.
    pub rx_error_packets: u64,
    /// Packets that it could not send.
    pub tx_error_packets: u64,
    /// Packets it dropped for want of a buffer.
    pub no_buffer_packets: u64,
}

/// One worker.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Worker {
    /// What it counts.
    #[serde(flatten)]
    pub counts: WorkerReading,
    /// Share of the last second or so spent on packets, 0 to 1.
    pub busy_ratio: f64,
    /// Seconds spent on packets since start.
    pub busy_s: f64,
    /// Longest time between two polls of a port of late, in nanoseconds: what stamps cannot see.
    pub poll_gap_max_ns: f64,
    /// Epochs that it could not measure for want of an empty shard.
    pub missed_epochs: u64,
    /// Whether it has made no pass for a second.
    pub is_stalled: bool,
    /// Ticks of the time stamp counter that a packet took over the last second or so; 0 without
    /// packets.
    pub cycles_per_packet: f64,
    /// Bursts received, by size.
    pub bursts: Vec<Bursts>,
    /// Reference packets.
    pub references: References,
}

/// Bursts of one size, and those smaller that are larger than the size before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bursts {
    /// Most packets of such a burst; `None` where there is no limit.
    pub le_packets: Option<u64>,
    /// Bursts.
    pub bursts: u64,
}

/// The bridge's filtering database.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fdb {
    /// Addresses in it.
    pub entries: u64,
    /// Most addresses.
    pub capacity: u64,
    /// What happened to them.
    #[serde(flatten)]
    pub stats: FdbStats,
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

/// Figures are shown for so long; then an old number is a wrong one.
pub const FRESH_S: f64 = 10.0;

impl Snapshot {
    /// A segment's last figures, unless they are of an epoch more than ten seconds ago: no packet
    /// has passed since, or no epoch was usable.
    pub fn fresh<'s>(&self, segment: &'s Segment) -> Option<&'s EpochFigures> {
        let last = segment.last.as_ref()?;
        self.is_fresh(last.epoch).then_some(last)
    }

    /// Whether an epoch is at most ten seconds ago.
    pub fn is_fresh(&self, epoch: u64) -> bool {
        let epochs = self.epoch.unwrap_or(0).saturating_sub(epoch);
        let age_s = epochs as f64 * f64::from(self.interval_ms) / 1e3;
        age_s <= FRESH_S
    }

    /// Why the switch is not ready to be relied on; empty when it is.
    pub fn unready(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.state != State::Running {
            reasons.push(format!("the switch is {}", self.state.label()));
        }
        for port in self
            .ports
            .iter()
            .filter(|port| !port.facts.is_up && !port.is_absent)
        {
            let what = if port.facts.is_removed {
                "device was removed"
            } else {
                "link is down"
            };
            reasons.push(format!("port {}: {what}", port.name));
        }
        for (index, _) in (self.workers.iter().enumerate()).filter(|(_, worker)| worker.is_stalled)
        {
            reasons.push(format!("worker {index} has stalled"));
        }
        if self.measuring && self.epoch.is_none() {
            reasons.push("the first epoch has not closed yet".to_owned());
        }
        reasons
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_names_everything_that_is_missing() {
        let mut snapshot = Snapshot {
            measuring: true,
            ports: vec![Port {
                name: "east".to_owned(),
                ..Port::default()
            }],
            ..Snapshot::default()
        };
        assert_eq!(
            snapshot.unready(),
            [
                "the switch is starting",
                "port east: link is down",
                "the first epoch has not closed yet"
            ]
        );
        snapshot.state = State::Running;
        snapshot.ports[0].facts.is_removed = true;
        assert_eq!(snapshot.unready()[0], "port east: device was removed");
        snapshot.ports[0].facts.is_up = true;
        snapshot.epoch = Some(0);
        assert!(snapshot.unready().is_empty());
    }

    #[test]
    fn json_gives_the_same_snapshot_back() {
        let json = serde_json::to_string(&Snapshot::example()).unwrap();
        assert_eq!(
            serde_json::from_str::<Snapshot>(&json).unwrap(),
            Snapshot::example()
        );
    }
}
