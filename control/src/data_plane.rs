//! What the control core has to do with the data plane, that is ports, buffers and workers' generations,
//! which it knows by this alone.
//!
//! ```text
//!             ControlCore::poll
//!  DataPlane::tend(handle) -----------+        every few milliseconds: links, FDB, generations
//!    handle.disturb(port)             |
//!    handle.change(change)            v
//!  DataPlane::port, pools, fdb ---> snapshot   when one is published
//! ```

use std::hash::{BuildHasher, Hasher as _, RandomState};

use measure::shard::ShardLayout;
use measure::time::{Epoch, Ticks};

use crate::core::{CoreHandle, Reading};
use crate::wire::clock::{KernelClock, SystemTime};
use contract::config::{Config, WireKeys};
use contract::handover::ControlEnd;
use contract::ids::GenerationId;
use contract::wire::handover::WireControlEnd;
use records::snapshot::{Fdb, Pool, PortFact, Reload};

/// Ports, buffers, and whatever else the data plane has besides the workers' counters. All is
/// called on the control core's thread.
pub trait DataPlane: Send {
    /// The counter that epochs are cut from, now.
    fn now(&mut self) -> Ticks;

    /// The port at `index` of the configuration.
    fn port(&mut self, index: usize) -> PortFact;

    /// The pools of packet buffers.
    fn pools(&mut self) -> Vec<Pool>;

    /// The bridge's filtering database, where there is one.
    fn fdb(&mut self) -> Option<Fdb> {
        None
    }

    /// The last reload that somebody asked for.
    fn reload(&mut self) -> Option<Reload> {
        None
    }

    /// What the kernel says of the system's clock, which times on the wire go by; `None` where it is
    /// not asked: then the clock is not known to be kept.
    fn kernel_clock(&mut self) -> Option<KernelClock> {
        None
    }

    /// The monotonic clock and the system's, both at once. All that the control core times it times by these; a
    /// simulation turns them by hand.
    fn clocks(&mut self) -> Reading {
        Reading::now()
    }

    /// TAI by the system's clock.
    fn system_time(&mut self) -> SystemTime {
        SystemTime::now()
    }

    /// 64 random bits, not to be guessed: nonces of sessions with other switches.
    fn random(&mut self) -> u64 {
        // Where the system has none for us it had some for the standard library's hash tables.
        getrandom::u64().unwrap_or_else(|_| RandomState::new().build_hasher().finish())
    }

    /// Whether the control core waits for flows to be decoded, and takes it for having taken no time. For
    /// simulations, in which nothing may depend on when a thread runs; a switch would take its shards late.
    fn waits_for_decoding(&self) -> bool {
        false
    }

    /// The data plane's own upkeep, at every poll of the control core: some hundred times a second.
    fn tend(&mut self, handle: &mut CoreHandle<'_>) {
        let _ = handle;
    }
}

/// A generation of what is measured, as the control core needs to know it. Workers take it up at
/// the turn to epoch `from`, or at a later one: an epoch that they do not all measure in one
/// generation is unusable. From then on an epoch waits for the workers that have an end, and for
/// no other.
#[derive(Debug)]
pub struct Change {
    /// The generation, greater than all before.
    pub number: GenerationId,
    /// The first epoch of the generation. Two after the present one leave time to pass it on.
    pub from: Epoch,
    /// The configuration: ports by place, segments in the order of the shards'.
    pub config: Config,
    /// What the shards of all workers together hold.
    pub layout: ShardLayout,
    /// For each worker where its shards come from, whole or [parts](ShardLayout::part); `None`, or
    /// left out at the end, for one that measures nothing. Empty where nobody does.
    pub ends: Vec<Option<ControlEnd>>,
    /// Ports whose segment on the wire is new, or has changed, and where what they count comes from.
    /// One that is not named here goes on; one that has no wire in the configuration ends.
    pub wires: Vec<(usize, WireControlEnd)>,
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
    /// A segment on the wire cannot be had.
    #[error("the wire of port {port}: {message}")]
    Wire {
        /// The port's index.
        port: usize,
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
}
