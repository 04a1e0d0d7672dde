//! The control core: takes sealed shards from the workers, assembles epochs, estimates and publishes.
//!
//! ```text
//!  worker 0 --sealed shards--> +-------------+        +-----------+        +-----------+ --> HTTP
//!  worker 1 --sealed shards--> | Measurement |-epoch->| FlowState |------->| Publisher | --> table
//!           <--empty shards--- | generations |        | directory |        |           |
//!           ---new flows-----> | assembly    |        | decoder   |   +--->|           |
//!           <--forget, give--- | segments    |        +-----------+   |    +-----------+
//!                              +-------------+     Wires, Workers, Clocks
//! ```
//!
//! The [`DataPlane`] handles ports, links, and generations on their way to the workers. The core polls it
//! and applies the events that it returns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use measure::packet::Hasher;
use measure::time::{EpochSchedule, TickRate};

use crate::contain::{Part, contain};
use crate::data_plane::{DataPlane, Event};
use crate::published::{Lookup, Published};
use contract::change::{Change, ChangeError, CoreStatus};
use contract::counters::WorkerCounters;
use contract::wire::clock::SharedLine;
use records::snapshot::{Labelled, Snapshot, State};

mod clocks;
mod flow_state;
mod measurement;
pub mod neighbours;
mod publisher;
mod segments;
mod wires;
mod workers;

use clocks::Clocks;
use flow_state::FlowState;
use measurement::Measurement;
use publisher::Publisher;
use wires::Wires;
pub use wires::settings as wire_settings;
use workers::Workers;

/// Pause between two polls.
const REST: Duration = Duration::from_millis(5);

/// Time to estimate an epoch's figures and publish the snapshot: a metric of the process.
pub const PUBLISH_SECONDS: &str = "vernier_snapshot_publish_seconds";

/// Interval at which counters are published and rates are computed, at least.
const REFRESH: Duration = Duration::from_secs(1);

/// Initial state of a control core.
#[derive(Debug)]
pub struct Setup {
    /// Rate of the time stamp counter.
    pub rate: TickRate,
    /// When epochs begin, for as long as the switch runs.
    pub schedule: EpochSchedule,
    /// The hasher by which workers identify flows.
    pub hasher: Hasher,
    /// Counters of each worker; the data plane can [add](Event::WorkerAdded) workers.
    pub counters: Vec<Arc<WorkerCounters>>,
    /// The clock by which workers read TAI, for segments on the wire.
    pub line: Arc<SharedLine>,
    /// The generation that the workers start with.
    pub first: Change,
}

/// The control core; `'f` is the lifetime of the [`DataPlane`].
pub struct ControlCore<'f> {
    data_plane: Box<dyn DataPlane + 'f>,
    clocks: Clocks,
    workers: Workers,
    measurement: Measurement,
    flows: FlowState,
    wires: Wires,
    publisher: Publisher,
}

impl<'f> ControlCore<'f> {
    /// Makes a control core over `data_plane`, and publishes a first snapshot.
    ///
    /// # Errors
    /// [`ChangeError`] if the first generation is inconsistent.
    pub fn new(setup: Setup, mut data_plane: impl DataPlane + 'f) -> Result<Self, ChangeError> {
        let rate = setup.rate;
        let clocks = Clocks::new(rate, setup.schedule, setup.line, &mut data_plane);
        let now = clocks.monotonic();
        let decoding = data_plane.decoding();
        let mut core = Self {
            data_plane: Box::new(data_plane),
            clocks,
            workers: Workers::new(setup.counters, now),
            measurement: Measurement::new(rate),
            flows: FlowState::new(rate, setup.hasher, decoding),
            wires: Wires::new(rate, decoding),
            publisher: Publisher::new(now),
        };
        core.change(setup.first)?;
        core.publish();
        Ok(core)
    }

    /// The published snapshots.
    pub fn published(&self) -> Arc<Published> {
        Arc::clone(self.publisher.published())
    }

    /// Polls until `stop` is set, then publishes that the switch is draining.
    pub fn run(&mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            self.poll();
            std::thread::sleep(REST);
        }
        self.publisher.draft.state = State::Draining;
        self.publish();
    }

    /// Polls the data plane, takes the workers' sealed shards without waiting, and publishes if an epoch
    /// has closed. A panic only costs its part, and is counted.
    pub fn poll(&mut self) {
        contain(Part::Core, || self.step());
        self.publisher.published().beat();
    }

    fn step(&mut self) {
        if self.publisher.draft.state == State::Starting {
            self.publisher.draft.state = State::Running;
            self.publish();
        }
        let has_wires = self.wires.has_any();
        self.publisher.draft.clock = self.clocks.look(&mut *self.data_plane, has_wires);
        self.workers.look(self.clocks.monotonic());
        self.poll_data_plane();
        // The other ends' epochs end at any time; each is shown.
        let has_ended = self.wires.poll(&mut *self.data_plane, &self.clocks);
        let has_closed = self.take_shards();
        let decoded = self.keep_flows(|core| core.flows.take_estimates(&core.measurement.segments));
        let has_decoded = decoded == Some(true);
        self.keep_flows(|core| core.measurement.command());
        self.keep_flows(|core| {
            (core.measurement).retire(&mut core.workers, &mut core.flows.directory);
        });
        let has_reloaded = self.data_plane.reload() != self.publisher.draft.reload;
        self.publisher.has_news |= has_ended || has_closed || has_decoded || has_reloaded;
        if self.publisher.take_due(&self.clocks) {
            self.publish();
        }
    }

    /// Takes the last shards of stopped workers and publishes the final totals.
    pub fn finish(mut self) -> Arc<Snapshot> {
        self.publisher.draft.state = State::Draining;
        self.take_shards();
        self.publish();
        self.publisher.published().read()
    }

    /// Lets the data plane do its upkeep, and applies its events.
    fn poll_data_plane(&mut self) {
        let status = CoreStatus {
            epoch: self.clocks.epoch,
            generation: self.measurement.newest().unwrap_or_default(),
            is_busy: self.measurement.is_busy(),
            stalled_workers: self.workers.stalled(),
        };
        let events = contain(Part::Upkeep, || self.data_plane.poll(status));
        // After a panic it returns the rest at the next poll.
        for event in events.unwrap_or_default() {
            match event {
                Event::WorkerAdded { worker, counters } => self.workers.add(worker, counters),
                Event::Disturbed { port } => {
                    (self.measurement.segments).disturb(port, self.clocks.epoch);
                }
                Event::Change(change) => {
                    let taken = contain(Part::Upkeep, || self.change(*change));
                    let answer = taken.unwrap_or(Err(ChangeError::Fault));
                    contain(Part::Upkeep, || self.data_plane.answer(answer));
                }
            }
        }
    }

    /// Applies a new generation, or rejects it as a whole.
    fn change(&mut self, mut change: Change) -> Result<(), ChangeError> {
        self.measurement.check(&change, self.workers.len())?;
        let ends = std::mem::take(&mut change.wires);
        let keys = std::mem::take(&mut change.keys);
        let now = self.clocks.monotonic();
        let wires = (self.wires).prepare(&change.config, ends, &keys, now)?;
        self.wires.begin(&change.config, wires);
        (self.clocks.system).configure(change.config.wire_clock());
        self.publisher.begin(&change.config, change.number);
        self.flows.begin(&change.config);
        self.measurement.begin(change);
        (self.flows.directory).reserve(self.measurement.flow_slots());
        Ok(())
    }

    /// Takes reports and sealed shards of all workers; returns whether an epoch has closed.
    fn take_shards(&mut self) -> bool {
        let taken = (self.measurement).take(&mut self.flows.directory, self.clocks.epoch);
        if !taken.are_flows_whole {
            self.forget_flows();
        }
        let Some(epoch) = taken.closed else {
            return false;
        };
        self.publisher.draft.epoch = Some(epoch.0);
        self.publisher.draft.epoch_end_unix_s = Some(self.clocks.end_unix_s(epoch));
        let now = self.clocks.monotonic();
        self.keep_flows(|core| {
            (core.flows).close(epoch, &mut core.measurement.segments, now);
        });
        true
    }

    /// Works on flows; after a panic they start again.
    fn keep_flows<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let done = contain(Part::Flows, || work(self));
        if done.is_none() {
            self.forget_flows();
        }
        done
    }

    fn forget_flows(&mut self) {
        self.flows.start_anew();
        self.measurement.forget_flows(&mut self.flows.directory);
    }

    fn publish(&mut self) {
        let began = Instant::now();
        if contain(Part::Publish, || self.make_snapshot()).is_none() {
            self.publisher.describe_again();
        }
        metrics::histogram!(PUBLISH_SECONDS).record(began.elapsed());
    }

    fn make_snapshot(&mut self) {
        let (measurement, flows, clocks) = (&self.measurement, &self.flows, &self.clocks);
        (self.publisher).read(&mut *self.data_plane, &self.workers, measurement, clocks);
        let mut snapshot = self.publisher.snapshot(clocks.uptime());
        let (segments, slots) = (&measurement.segments, measurement.flow_slots());
        snapshot.segments = segments.publish(clocks.epoch);
        snapshot.classes = segments.publish_classes(clocks.epoch);
        snapshot.sketches = segments.sketches();
        snapshot.flows = flows.publish(&snapshot, slots, segments, &self.workers);
        snapshot.wire_clock = self.wires.clock(clocks.status);
        let mut lookup = Lookup {
            sketches: flows.sketches(),
            wires: Vec::new(),
        };
        (snapshot.wires, lookup.wires) = self.wires.publish(flows, clocks.monotonic());
        (self.publisher).publish(snapshot, lookup, clocks.monotonic());
    }
}

fn labelled(label: &str, packets: u64) -> Labelled {
    Labelled {
        label: label.to_owned(),
        packets,
    }
}

#[cfg(test)]
mod tests;
