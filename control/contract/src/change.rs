//! Changes while packets flow, sent from the data plane to the control core, and the published outcome of a
//! reload.
//!
//! ```text
//!  data plane                        control core
//!    CoreStatus  <------------------ at every poll
//!    Change      ------------------> checked, and taken whole or not at all
//!    answer      <------------------ nothing, or a ChangeError
//!    Reload      ------------------> published with the next snapshot
//! ```

use measure::shard::ShardLayout;
use measure::time::Epoch;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Config, WireKeys};
use crate::handover::ControlEnd;
use crate::ids::{GenerationId, PortIndex};
use crate::wire::handover::WireControlEnd;

/// State of the control core at a poll, before it applies any event of that poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoreStatus {
    /// The present epoch.
    pub epoch: Epoch,
    /// The newest generation.
    pub generation: GenerationId,
    /// Whether the previous generation is still being read; a [`Change`] would be rejected.
    pub is_busy: bool,
    /// Workers that have made no pass for a second.
    pub stalled_workers: usize,
}

/// A generation of the measurement, with what the control core needs to know about it. Workers switch to it
/// at the rollover to epoch `from`, or a later one; an epoch that they measure in different generations is
/// unusable. From then on an epoch waits only for workers with an end.
#[derive(Debug)]
pub struct Change {
    /// Its number, greater than all before.
    pub number: GenerationId,
    /// The first epoch of the generation. Two epochs after the current one leave time to pass it on.
    pub from: Epoch,
    /// The configuration: ports by index, segments in the order of the shards'.
    pub config: Config,
    /// Layout of all workers' shards together.
    pub layout: ShardLayout,
    /// For each worker, the source of its shards, whole or [parts](ShardLayout::part); `None` or missing at
    /// the end for a worker that measures nothing.
    pub ends: Vec<Option<ControlEnd>>,
    /// Ports whose segment on the wire is new or changed, with the source of their counts. Other wires stay
    /// as they are; one without configuration ends.
    pub wires: Vec<(PortIndex, WireControlEnd)>,
    /// The keys of these wires.
    pub keys: WireKeys,
}

/// Why the control core rejected a change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The previous generation is still being read.
    #[error("generation {number} is not over yet; try again after the next epoch")]
    Busy {
        /// The previous generation.
        number: GenerationId,
    },
    /// Numbers of generations must rise.
    #[error("generation {number} is not newer than the present one, {present}")]
    Stale {
        /// The number given.
        number: GenerationId,
        /// The newest generation.
        present: GenerationId,
    },
    /// More ends than workers.
    #[error("{ends} ends for {workers} workers; a worker has one at most")]
    Ends {
        /// Ends given.
        ends: usize,
        /// Workers.
        workers: usize,
    },
    /// A segment on the wire cannot be measured.
    #[error("the wire of port {}: {message}", port.0)]
    Wire {
        /// The port.
        port: PortIndex,
        /// The reason.
        message: String,
    },
    /// Configuration and layout have different segments.
    #[error("the configuration has {configured} segments, the shards have {laid_out}")]
    Segments {
        /// Segments of the configuration.
        configured: usize,
        /// Segments of the layout.
        laid_out: usize,
    },
    /// Applying it panicked.
    #[error("a fault of this program ended it: the log says more")]
    Fault,
}

/// A reload of the configuration, and its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reload {
    /// Number of reloads since the switch started, including this one.
    pub number: u64,
    /// Its state.
    pub outcome: ReloadOutcome,
    /// What was wrong, or what changed; may be empty.
    pub message: String,
}

/// State of a reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReloadOutcome {
    /// The file is being read and the change prepared.
    Reading,
    /// Rejected as a whole; nothing has changed.
    Refused,
    /// Equal to the current configuration.
    Unchanged,
    /// Workers are switching to it.
    UnderWay,
    /// In use.
    Done,
}
