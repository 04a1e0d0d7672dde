//! Connects a worker with the control core: bounded lock-free rings, one pair of ends for each worker and
//! each generation. Nothing is shared and neither side waits.
//!
//! ```text
//!  worker                                        control core
//!  take_empty   <------- empty shards ---------  give_back
//!  give_sealed  -------- sealed shards ------->  take_sealed
//!  report_flow  -------- new flows ----------->  next_report
//!  next_command <------- forget, give ---------  command
//! ```
//!
//! A shard returns through the end it came from, so that shards of two generations, which may differ in
//! everything, never mix. A worker that has switched to the next generation keeps the old end until its last
//! shard is sealed, then drops it; from then on the control core's end is [over](ControlEnd::is_over).
//!
//! # How a slot changes its flow
//!
//! Counters of an epoch know slots, not flows. The control core sends [`FlowCommand::Forget`], and waits for a
//! shard that was still empty when the worker applied the command ([`SealedShard::commands_before`]): everything
//! that may count the old flow has arrived before it. Then it returns the slot with [`FlowCommand::Give`].

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use measure::flows::{FlowId, Slot};
use measure::observation::SegmentIndex;
use measure::packet::FlowKey;
use measure::shard::{Sealed, Shard, ShardLayout};

use crate::metric::Counter;
use crate::sync::{
    Consumer, Emptier, Filler, Ordering, Producer, RingBuffer, circulate, fence, put,
};

/// Shards in circulation for each worker: two open (the current epoch and the one in its grace), one in
/// transit.
pub const SHARDS_PER_WORKER: usize = 3;

/// Most new flows queued for the control core, which polls every few milliseconds. A flow that does not fit
/// is reported again with its next packet.
pub const FLOW_REPORTS_MAX: usize = 16_384;

/// Most commands queued for a worker.
pub const FLOW_COMMANDS_MAX: usize = 1_024;

/// A flow that has just been given a slot by a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewFlow {
    /// The flow's identifier in the worker's table.
    pub id: FlowId,
    /// Its slot.
    pub slot: Slot,
    /// Its segment in this generation.
    pub segment: SegmentIndex,
    /// The flow's addresses, ports and protocol.
    pub key: FlowKey,
}

/// A command of the control core to a worker's flow table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowCommand {
    /// [`FlowTable::forget`](measure::flows::FlowTable::forget): the flow's slot is reserved.
    Forget(FlowId),
    /// [`FlowTable::give`](measure::flows::FlowTable::give): the slot is free again.
    Give(Slot),
}

/// The worker's end.
#[derive(Debug)]
pub struct WorkerEnd {
    shards: Filler<SealedShard, Box<Shard>>,
    reports: Producer<NewFlow>,
    commands: Consumer<FlowCommand>,
    /// Commands taken so far.
    commands_taken: u64,
    /// For each shard in use, in order: commands taken before it. Never longer than [`SHARDS_PER_WORKER`].
    out: VecDeque<u64>,
    missed_epochs: Arc<Counter>,
}

/// The control core's end.
#[derive(Debug)]
pub struct ControlEnd {
    shards: Emptier<SealedShard, Box<Shard>>,
    reports: Consumer<NewFlow>,
    commands: Producer<FlowCommand>,
    missed_epochs: Arc<Counter>,
}

/// A sealed shard in transit; dereferences to the shard.
#[derive(Debug)]
pub struct SealedShard {
    shard: Sealed,
    /// Commands that the worker had taken when the shard was still empty. Flows forgotten by them are
    /// counted neither in this shard nor in a later one.
    pub commands_before: u64,
}

impl Deref for SealedShard {
    type Target = Sealed;

    fn deref(&self) -> &Sealed {
        &self.shard
    }
}

impl DerefMut for SealedShard {
    fn deref_mut(&mut self) -> &mut Sealed {
        &mut self.shard
    }
}

/// Makes both ends of a generation, with [`SHARDS_PER_WORKER`] empty shards ready for the worker.
///
/// The calling thread allocates and touches all memory, so call it on the worker's NUMA node.
pub fn handover(layout: &ShardLayout) -> (WorkerEnd, ControlEnd) {
    let (filler, emptier) = circulate(SHARDS_PER_WORKER, || Box::new(Shard::new(layout)));
    let slots = layout.flow_slots;
    let (reports_in, reports_out) = RingBuffer::new(slots.min(FLOW_REPORTS_MAX));
    let (commands_in, commands_out) = RingBuffer::new(slots.min(FLOW_COMMANDS_MAX));
    let missed_epochs = Arc::new(Counter::default());
    let worker = WorkerEnd {
        shards: filler,
        reports: reports_in,
        commands: commands_out,
        commands_taken: 0,
        out: VecDeque::with_capacity(SHARDS_PER_WORKER),
        missed_epochs: Arc::clone(&missed_epochs),
    };
    let control = ControlEnd {
        shards: emptier,
        reports: reports_out,
        commands: commands_in,
        missed_epochs,
    };
    (worker, control)
}

impl WorkerEnd {
    /// Takes an empty shard for the coming epoch. `None` if the control core has not returned one: the
    /// epoch is not measured, and is counted as missed.
    pub fn take_empty(&mut self) -> Option<Box<Shard>> {
        let shard = self.shards.empty.pop().ok();
        if shard.is_some() {
            self.out.push_back(self.commands_taken);
        } else {
            self.missed_epochs.add(1);
        }
        shard
    }

    /// Passes on a sealed shard; shards must be passed on in the order in which they were taken. Cannot
    /// fail: the ring holds as many as circulate.
    pub fn give_sealed(&mut self, shard: Sealed) {
        debug_assert!(!self.out.is_empty(), "a shard is taken before it is given");
        let commands_before = self.out.pop_front().unwrap_or(0);
        let sealed = SealedShard {
            shard,
            commands_before,
        };
        put(&mut self.shards.full, sealed);
    }

    /// Reports a flow that has just been given a slot. Returns `false` if there is no room; the flow must
    /// not keep the slot then.
    #[inline]
    pub fn report_flow(&mut self, flow: NewFlow) -> bool {
        self.reports.push(flow).is_ok()
    }

    /// The next command, if any. Apply it at once, between two bursts; about 16 per tick are enough.
    #[inline]
    pub fn next_command(&mut self) -> Option<FlowCommand> {
        let command = self.commands.pop().ok()?;
        self.commands_taken += 1;
        Some(command)
    }
}

impl ControlEnd {
    /// The next sealed shard, in order of epochs.
    pub fn take_sealed(&mut self) -> Option<SealedShard> {
        self.shards.full.pop().ok()
    }

    /// Empties a shard and returns it to the worker, which records histograms of these slots in it.
    pub fn give_back(&mut self, sealed: SealedShard, histograms: impl IntoIterator<Item = Slot>) {
        put(&mut self.shards.empty, sealed.shard.reopen(histograms));
    }

    /// The next new flow.
    pub fn next_report(&mut self) -> Option<NewFlow> {
        self.reports.pop().ok()
    }

    /// Sends a command to the worker's flow table; returns `false` if there is no room: try again later.
    pub fn command(&mut self, command: FlowCommand) -> bool {
        self.commands.push(command).is_ok()
    }

    /// Whether the worker has dropped its end and all its shards have been taken.
    pub fn is_over(&self) -> bool {
        let sealed = &self.shards.full;
        let is_dropped = sealed.is_abandoned();
        // Makes everything visible that was passed on before the end was dropped.
        fence(Ordering::Acquire);
        is_dropped && sealed.is_empty() && self.reports.is_empty()
    }

    /// Epochs for which the worker found no empty shard.
    pub fn missed_epochs(&self) -> u64 {
        self.missed_epochs.get()
    }
}

#[cfg(test)]
mod tests;
