//! The published snapshot: immutable, and read by every view, so that all views agree.

use std::net::Ipv4Addr;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

pub use contract::change::{Reload, ReloadOutcome};
use contract::config::Config;
use contract::metric::{Each, Shown};
use contract::{labelled_enum, record};
use measure::packet::{FiveTuple, FlowKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

mod data_plane;
mod flows;
mod segment;
mod wire;

use crate::query::selects;

pub use data_plane::*;
pub use flows::*;
pub use segment::*;
pub use wire::*;

record! {
    /// The switch at the end of an epoch, without its lists: the part that `/api/v1/status` returns.
    #[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub struct Status {
        /// The switch's name.
        pub switch: String,
        /// Version of the program.
        pub version: String,
        /// Version of the packet hash: estimates of different versions cannot be compared.
        pub hash_version: u32,
        /// State of the switch; the metric is 1 for this state, and 0 for the others.
        #[metric(Gauge = "vernier_state", label = "state")]
        pub state: State,
        /// Whether anything is measured; if not, there are no segments and no epochs.
        pub measuring: bool,
        /// Number of the last epoch that closed, usable or not; `None` before the first.
        pub epoch: Option<u64>,
        /// End of the last epoch that closed, in seconds since 1970 (UTC), to within a few milliseconds.
        #[metric(Gauge = "vernier_epoch_end_timestamp_seconds")]
        pub epoch_end_unix_s: Option<f64>,
        /// Length of an epoch.
        #[metric(Gauge = "vernier_epoch_interval_seconds", per_unit = 1e3)]
        pub interval_ms: u32,
        /// Time since the switch started.
        #[metric(Gauge = "vernier_uptime_seconds")]
        pub uptime_s: f64,
        /// Panics of this program that were contained since the process started.
        #[serde(default)]
        pub contained_panics: u64,
        /// Packets measured in an exceptional way.
        #[serde(default)]
        pub exceptions: Exceptions,
        /// Workers, by number, up to the last that has started; none in a host program, which has cores of its
        /// own.
        pub workers: Vec<Worker>,
        /// The pools of packet buffers.
        pub pools: Vec<Pool>,
        /// The bridge's filtering database, if any.
        pub fdb: Option<Fdb>,
        /// Generation of the measurement: 0 at start, greater with every change.
        #[metric(Gauge = "vernier_generation")]
        pub generation: u32,
        /// The last requested reload; `None` before the first.
        pub reload: Option<Reload>,
    }
}

/// The switch at the end of an epoch: its [`Status`], and its lists.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// Its status.
    #[serde(flatten)]
    pub status: Status,
    /// The system's clock.
    pub clock: Clock,
    /// Measured segments, in the order of the configuration.
    pub segments: Vec<Segment>,
    /// Delays of each class with packets, over all its segments.
    #[serde(default)]
    pub classes: Vec<ClassDelays>,
    /// The sketches (LDS), one for each egress port; none without `measurement.lds`.
    pub sketches: Vec<Sketch>,
    /// The tracked flows; `None` without `measurement.flows`.
    pub flows: Option<Flows>,
    /// Ports that measure the path to another switch, in the order of the configuration.
    #[serde(default)]
    pub wires: Vec<Wire>,
    /// The clock of these ports; `None` without any.
    #[serde(default)]
    pub wire_clock: Option<WireClock>,
    /// Ports, in the order of the configuration.
    pub ports: Vec<Port>,
    /// Reports to NATS JetStream; `None` if not configured.
    #[serde(default)]
    pub reports: Option<Reports>,
    /// Export to an IPFIX collector; `None` if not configured.
    #[serde(default)]
    pub ipfix: Option<IpfixExport>,
    /// The configuration in use; `None` before the first generation.
    #[serde(skip)]
    pub config: Option<Arc<Config>>,
}

/// A snapshot with empty lists.
impl From<Status> for Snapshot {
    fn from(status: Status) -> Self {
        Self {
            status,
            ..Self::default()
        }
    }
}

/// A snapshot contains a status.
impl Deref for Snapshot {
    type Target = Status;

    fn deref(&self) -> &Status {
        &self.status
    }
}

impl DerefMut for Snapshot {
    fn deref_mut(&mut self) -> &mut Status {
        &mut self.status
    }
}

record! {
    /// Steps of the system's clock (UTC) while the switch ran.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    pub struct Clock {
        /// Times that the system's clock was set by more than 0.1 s since the switch started.
        #[metric(Counter = "vernier_clock_steps_total")]
        pub steps: u64,
        /// The last step in seconds, negative for backward; 0 before the first.
        pub last_step_s: f64,
    }
}

labelled_enum! {
    /// State of a switch.
    #[derive(Default, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum State {
        /// Starting.
        #[default]
        Starting = "starting",
        /// Forwarding.
        Running = "running",
        /// Stopping; queued packets are still sent.
        Draining = "draining",
    }
}

impl Shown for State {
    fn show(&self, _: f64, each: Each<'_>) {
        for state in Self::ALL {
            each(state.label(), f64::from(u8::from(state == *self)));
        }
    }
}

/// Age at which figures are too old to be shown, in seconds.
pub const FRESH_S: f64 = 10.0;

impl Snapshot {
    /// A segment's last figures, unless their epoch is more than ten seconds ago, because no packet has
    /// passed since or no epoch was usable.
    pub fn fresh<'s>(&self, segment: &'s Segment) -> Option<&'s EpochFigures> {
        let last = segment.last.as_ref()?;
        self.is_fresh(last.epoch).then_some(last)
    }

    /// The segments with these ports and this class; `None` stands for any.
    pub(crate) fn selected<'s>(
        &'s self,
        wanted: [&Option<String>; 3],
    ) -> impl Iterator<Item = &'s Segment> + Clone {
        let segments = self.segments.iter();
        segments.filter(move |segment| selects(wanted, segment.names()))
    }

    /// Whether an epoch is at most ten seconds ago. No epoch ends while all workers are stalled; then none
    /// is.
    pub fn is_fresh(&self, epoch: u64) -> bool {
        if !self.workers.is_empty() && self.workers.iter().all(|worker| worker.is_stalled) {
            return false;
        }
        let epochs = self.epoch.unwrap_or(0).saturating_sub(epoch);
        let age_s = epochs as f64 * f64::from(self.interval_ms) / 1e3;
        age_s <= FRESH_S
    }

    /// The reasons why the switch is not ready; empty if it is ready.
    pub fn unready(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.state != State::Running {
            reasons.push(format!("the switch is {}", self.state.label()));
        }
        let is_down = |port: &&Port| !port.facts.is_up && !port.is_absent;
        for port in self.ports.iter().filter(is_down) {
            let what = if port.facts.is_removed {
                "device was removed"
            } else {
                "link is down"
            };
            reasons.push(format!("port {}: {what}", port.name));
        }
        let workers = self.workers.iter().enumerate();
        for (index, _) in workers.filter(|(_, worker)| worker.is_stalled) {
            reasons.push(format!("worker {index} has stalled"));
        }
        if self.measuring && self.epoch.is_none() {
            reasons.push("the first epoch has not closed yet".to_owned());
        }
        reasons
    }
}

impl Snapshot {
    /// Two patched ports: `east>west` has an estimate, `west>east` has no packet; `west` measures a wire.
    ///
    /// # Panics
    /// If `example.json` is not a snapshot; for tests.
    #[expect(clippy::expect_used, reason = "for tests")]
    pub fn example() -> Self {
        serde_json::from_str(include_str!("snapshot/example.json"))
            .expect("example.json is a snapshot")
    }
}

impl FlowRecord {
    /// A flow on the first segment if `n` is even, else on the second.
    pub fn example(n: u16, packets: u64) -> Self {
        let figures = FlowFigures {
            packets,
            bytes: 100 * packets,
            lost_packets: Some(n.into()),
            mean_ns: Some(1_000.0 / f64::from(n + 1)),
            stddev_ns: Some(10.0),
        };
        Self {
            name: FlowName::Key(FlowKey::Ip(FiveTuple {
                source: Ipv4Addr::new(10, 0, 0, 1).into(),
                destination: Ipv4Addr::new(10, 0, 0, 2).into(),
                source_port: 1_024 + n,
                destination_port: 80,
                protocol: 6,
            })),
            segment: u32::from(n % 2),
            first_epoch: 2,
            last_epoch: 81,
            last: figures,
            total: figures,
            quantiles: None,
            estimates: None,
            more: None,
        }
    }
}

impl FlowList {
    /// Lists these flows, on `east>west` and `west>east`.
    pub fn example(flows: Vec<FlowRecord>) -> Self {
        let name = |ingress: &str, egress: &str| {
            Arc::new(SegmentName {
                ingress: ingress.to_owned(),
                egress: egress.to_owned(),
                class: "all".to_owned(),
            })
        };
        Self {
            epoch: Some(81),
            segments: vec![name("east", "west"), name("west", "east")],
            wire_times: None,
            flows,
        }
    }
}

record! {
    /// Reports to NATS JetStream.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct Reports {
        /// Reports sent, including those sent again.
        #[metric(Counter = "vernier_reports_sent_total")]
        pub sent: u64,
        /// Reports that the server has stored.
        #[metric(Counter = "vernier_reports_acknowledged_total")]
        pub acknowledged: u64,
        /// Reports dropped, oldest first, because the spool was full while no server accepted them.
        #[metric(Counter = "vernier_reports_dropped_total")]
        pub dropped: u64,
        /// Bytes of reports that the server has not stored yet.
        #[metric(Gauge = "vernier_reports_spooled_bytes")]
        pub spooled_bytes: u64,
        /// Whether the switch is connected to NATS.
        #[metric(Gauge = "vernier_reports_connected")]
        pub is_connected: bool,
    }
}

record! {
    /// Export of flows and segments to an IPFIX collector.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct IpfixExport {
        /// Messages sent to the IPFIX collector.
        #[metric(Counter = "vernier_ipfix_messages_total")]
        pub messages: u64,
        /// Data records in these messages, including options records.
        #[metric(Counter = "vernier_ipfix_records_total")]
        pub records: u64,
        /// Data records dropped because their message could not be sent or no collector listened.
        #[metric(Counter = "vernier_ipfix_dropped_records_total")]
        pub dropped_records: u64,
        /// Whether the last message could be sent; over UDP it may still be lost.
        #[metric(Gauge = "vernier_ipfix_connected")]
        pub is_connected: bool,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_names_everything_that_is_missing() {
        let mut snapshot = Snapshot {
            ports: vec![Port {
                name: "east".to_owned(),
                ..Port::default()
            }],
            ..Snapshot::default()
        };
        snapshot.measuring = true;
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
    fn figures_of_an_old_epoch_or_while_all_workers_are_stalled_are_not_fresh() {
        let worker = |is_stalled| Worker {
            is_stalled,
            ..Worker::default()
        };
        let mut snapshot = Snapshot::from(Status {
            epoch: Some(100),
            interval_ms: 1_000,
            workers: vec![worker(true), worker(false)],
            ..Status::default()
        });
        assert!(snapshot.is_fresh(90) && !snapshot.is_fresh(89));
        snapshot.workers[1] = worker(true);
        assert!(!snapshot.is_fresh(100));
        snapshot.workers.clear();
        assert!(
            snapshot.is_fresh(100),
            "a host program has cores of its own"
        );
    }
}
