//! Changes while packets flow, from the data plane to the control core, and what is published of a reload.
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

/// The control core at a poll, before it applies any event of that poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoreStatus {
    /// The present epoch.
    pub epoch: Epoch,
    /// The newest generation.
    pub generation: GenerationId,
    /// The generation before the newest is still being read: a [`Change`] would be refused.
    pub is_busy: bool,
    /// Workers that have made no pass for a second.
    pub stalled_workers: usize,
}

/// A generation of what is measured, as the control core needs to know it. Workers take it up at
/// the rollover to epoch `from`, or at a later one: an epoch that they do not all measure in one
/// generation is unusable. From then on an epoch waits for the workers that have an end, and for
/// no other.
#[derive(Debug)]
pub struct Change {
    /// The generation, greater than all before.
    pub number: GenerationId,
    /// The first epoch of the generation. Two after the present one leave time to pass it on.
    pub from: Epoch,
    /// The configuration: ports by index, segments in the order of the shards'.
    pub config: Config,
    /// What the shards of all workers together hold.
    pub layout: ShardLayout,
    /// For each worker where its shards come from, whole or [parts](ShardLayout::part); `None`, or
    /// left out at the end, for one that measures nothing.
    pub ends: Vec<Option<ControlEnd>>,
    /// Ports whose segment on the wire is new, or has changed, and where what they count comes from.
    /// A wire that is not named here stays as it is; one that the configuration does not have ends.
    pub wires: Vec<(PortIndex, WireControlEnd)>,
    /// The keys of the wires that are named here.
    pub keys: WireKeys,
}

/// A change that the control core does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The generation before the newest is still being read.
    #[error("generation {number} is not over yet; try again after the next epoch")]
    Busy {
        /// The generation that is not over.
        number: GenerationId,
    },
    /// The numbers of generations rise.
    #[error("generation {number} is not newer than the present one, {present}")]
    Stale {
        /// The number given.
        number: GenerationId,
        /// That of the newest generation.
        present: GenerationId,
    },
    /// There cannot be more ends than workers.
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
        /// Why not.
        message: String,
    },
    /// The segments of configuration and layout differ.
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
    /// Reloads since the switch started, this one included.
    pub number: u64,
    /// How far it got.
    pub outcome: ReloadOutcome,
    /// What was wrong with it, or what changed; may be empty.
    pub message: String,
}

/// How far a reload got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReloadOutcome {
    /// The file is being read and the change prepared.
    Reading,
    /// Refused as a whole: nothing has changed.
    Refused,
    /// It is the configuration in use already.
    Unchanged,
    /// The workers are changing to it.
    UnderWay,
    /// It is in use.
    Done,
}
