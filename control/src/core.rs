//! The control core: takes sealed shards from the workers, puts epochs together, estimates and
//! publishes.
//!
//! ```text
//!  worker 0 --sealed shards--> +------------+         +----------+        +-----------+ --> HTTP
//!  worker 1 --sealed shards--> | Generation | --sum-> | Segments | -----> | Published | --> table
//!           <--empty shards--- | Assembly   |         +----------+        +-----------+
//!           ---new flows-----> | Directory  | --flows---------------------^
//!           <--forget, give--- +------------+
//! ```
//!
//! Ports, links, and generations on their way to the workers belong to the [`DataPlane`], which is
//! given a [`CoreHandle`] at every poll.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use measure::packet::{HASH_VERSION, Hasher};
use measure::time::{Epoch, EpochSchedule, TickRate, Ticks};

use crate::contain::{Part, contain};
use crate::data_plane::{Change, ChangeError, DataPlane};
use crate::decode::{Decoder, Sketches};
use crate::flows::Directory;
use crate::merge::Assembly;
use crate::published::Published;
use contract::config::Port;
use contract::counters::WorkerCounters;
use contract::ids::{GenerationId, WorkerIndex};
use contract::wire::clock::SharedLine;
use records::snapshot::{Snapshot, State};

mod clock;
mod flows;
mod generation;
mod rates;
mod read;
mod segment;
mod segments;
mod watch;
mod wires;

use clock::ClockWatch;
pub use clock::Reading;
use flows::{FlowViews, top_settings};
use generation::Generation;
use rates::Rates;
use read::describe;
use segments::Segments;
use watch::Watch;
use wires::Wires;

/// How long the core sleeps when there is nothing to take.
const REST: Duration = Duration::from_millis(5);

/// Time to estimate an epoch's figures and publish the snapshot: a metric of the process.
pub const PUBLISH_SECONDS: &str = "vernier_snapshot_publish_seconds";

/// Counters are published at least so often, and rates are taken over so long.
const REFRESH: Duration = Duration::from_secs(1);

/// What a control core starts from.
#[derive(Debug)]
pub struct Setup {
    /// How fast the time stamp counter runs.
    pub rate: TickRate,
    /// When epochs turn, for as long as the switch runs.
    pub schedule: EpochSchedule,
    /// The hash that the workers know flows by.
    pub hasher: Hasher,
    /// What each worker counts; further ones can be [added](CoreHandle::add_worker).
    pub counters: Vec<Arc<WorkerCounters>>,
    /// The line that workers read TAI by, where there are segments on the wire.
    pub line: Arc<SharedLine>,
    /// The generation that the workers start with.
    pub first: Change,
}

/// The control core; `'f` is the life of what the [`DataPlane`] holds.
pub struct ControlCore<'f> {
    data_plane: Box<dyn DataPlane + 'f>,
    state: CoreState,
}

/// All that the control core keeps.
struct CoreState {
    rate: TickRate,
    schedule: EpochSchedule,
    /// The counter at the last poll, and the epoch that it was in.
    now: Ticks,
    present: Epoch,
    /// The clocks at the last poll.
    clocks: Reading,
    counters: Vec<Arc<WorkerCounters>>,
    /// The newest is the last; there are two while the one before is still being read.
    generations: VecDeque<Generation>,
    /// A generation came since the last snapshot.
    has_changed: bool,
    /// By worker: epochs that it missed in generations that are over.
    missed_epochs: Vec<u64>,
    assembly: Assembly<measure::shard::Shard>,
    segments: Segments,
    flows: Directory,
    hasher: Hasher,
    decoder: Decoder,
    /// The sketches of the epoch whose flows are to be published next.
    coming: Option<Arc<Sketches>>,
    /// The epoch whose flows wait for their estimates before they are published.
    awaited: Option<Epoch>,
    /// What is published of flows, as it was at the end of an epoch.
    flow_views: FlowViews,
    wires: Wires,
    watch: Watch,
    clock: ClockWatch,
    began: Instant,
    rates: Rates,
    /// The snapshot in the making: every port by place, absent ones too; segments, sketches and
    /// flows are filled in when it is published.
    draft: Snapshot,
    is_present: Vec<bool>,
    published: Arc<Published>,
    published_at: Instant,
}

impl<'f> ControlCore<'f> {
    /// A control core over `data_plane`. Publishes a first snapshot.
    ///
    /// # Errors
    /// [`ChangeError`] when the first generation does not fit together.
    pub fn new(setup: Setup, mut data_plane: impl DataPlane + 'f) -> Result<Self, ChangeError> {
        let Setup {
            rate,
            schedule,
            hasher,
            counters,
            line,
            first,
        } = setup;
        let draft = Snapshot {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            hash_version: HASH_VERSION,
            ..Snapshot::default()
        };
        let workers = counters.len();
        let clocks = data_plane.clocks();
        let now = clocks.monotonic[0];
        let waits = data_plane.waits_for_decoding();
        let mut state = CoreState {
            rate,
            schedule,
            now: Ticks(0),
            present: Epoch(0),
            clocks,
            counters,
            generations: VecDeque::new(),
            has_changed: false,
            missed_epochs: vec![0; workers],
            assembly: Assembly::new(),
            segments: Segments::new(rate),
            flows: Directory::default(),
            hasher,
            decoder: Decoder::new(waits),
            coming: None,
            awaited: None,
            flow_views: FlowViews::default(),
            wires: Wires::new(rate, line, waits),
            watch: Watch::new(workers, now),
            clock: ClockWatch::new(),
            began: now,
            rates: Rates::default(),
            published: Arc::new(Published::new(draft.clone())),
            published_at: now,
            draft,
            is_present: Vec::new(),
        };
        state.now = data_plane.now();
        state.present = schedule.epoch_at(state.now);
        state.change(first)?;
        let mut core = Self {
            data_plane: Box::new(data_plane),
            state,
        };
        core.publish();
        Ok(core)
    }

    /// Where the snapshots appear.
    pub fn published(&self) -> Arc<Published> {
        Arc::clone(&self.state.published)
    }

    /// Polls until `stop` is set, then says that the switch is draining.
    pub fn run(&mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            self.poll();
            std::thread::sleep(REST);
        }
        self.state.draft.state = State::Draining;
        self.publish();
    }

    /// Lets the data plane do its upkeep, takes what the workers have sealed, never waits, and publishes
    /// when an epoch has closed. A panic costs the part that it is in, and is counted.
    pub fn poll(&mut self) {
        contain(Part::Core, || self.step());
        self.state.published.beat();
    }

    fn step(&mut self) {
        if self.state.draft.state == State::Starting {
            self.state.draft.state = State::Running;
            self.publish();
        }
        self.state
            .look_at_clocks(self.data_plane.now(), self.data_plane.clocks());
        contain(Part::Upkeep, || {
            self.data_plane.tend(&mut CoreHandle {
                state: &mut self.state,
            });
        });
        let monotonic = self.state.since(self.state.began);
        // The other ends' epochs end when they like: each is shown.
        self.state.has_changed |= self.state.wires.poll(&mut *self.data_plane, monotonic);
        let has_closed = self.state.take_shards();
        let has_decoded = self.state.with_flows(CoreState::take_estimates);
        self.state.tend_flows();
        self.state.with_flows(CoreState::retire);
        self.state.has_changed |= self.data_plane.reload() != self.state.draft.reload;
        let is_due = self.state.since(self.state.published_at) >= REFRESH;
        let has_decoded = has_decoded == Some(true);
        if has_closed || has_decoded || is_due || std::mem::take(&mut self.state.has_changed) {
            self.publish();
        }
    }

    /// Takes the last shards of workers that have ended and publishes the final totals.
    pub fn finish(mut self) -> Arc<Snapshot> {
        self.state.draft.state = State::Draining;
        self.state.take_shards();
        self.publish();
        self.state.published.read()
    }

    fn publish(&mut self) {
        let began = Instant::now();
        let done = contain(Part::Publish, || {
            self.state.read_data_plane(&mut *self.data_plane);
            self.state.publish();
        });
        if done.is_none() {
            self.state.describe_again();
        }
        metrics::histogram!(PUBLISH_SECONDS).record(began.elapsed());
    }
}

/// What a [`DataPlane`] may ask of the control core, and has to tell it.
pub struct CoreHandle<'c> {
    state: &'c mut CoreState,
}

impl CoreHandle<'_> {
    /// The present epoch.
    pub fn epoch(&self) -> Epoch {
        self.state.present
    }

    /// The newest generation.
    pub fn generation(&self) -> GenerationId {
        (self.state.newest()).map_or(GenerationId::default(), |newest| newest.number)
    }

    /// Whether the generation before the newest is still being read: then no further one is taken.
    pub fn is_busy(&self) -> bool {
        self.state.generations.len() > 1
    }

    /// One worker more, of the number that is returned. It is in no generation until a
    /// [change](Self::change) names it.
    pub fn add_worker(&mut self, counters: Arc<WorkerCounters>) -> WorkerIndex {
        self.state.counters.push(counters);
        self.state.missed_epochs.push(0);
        self.state.watch.add();
        WorkerIndex::new(self.state.counters.len() - 1)
    }

    /// Takes a new generation. To be called before any worker can take it up.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing has changed then.
    pub fn change(&mut self, change: Change) -> Result<(), ChangeError> {
        self.state.change(change)
    }

    /// The link of a port went down or came up: the present epoch and the one before give no
    /// figures for its segments and its sketch.
    pub fn disturb(&mut self, port: usize) {
        self.state.segments.disturb(port, self.state.present);
    }

    /// Workers that have made no pass for a second.
    pub fn stalled(&self) -> impl Iterator<Item = usize> {
        self.state.watch.stalled()
    }
}

impl CoreState {
    fn newest(&self) -> Option<&Generation> {
        self.generations.back()
    }

    fn look_at_clocks(&mut self, now: Ticks, clocks: Reading) {
        self.now = now;
        self.present = self.schedule.epoch_at(now);
        self.clocks = clocks;
        self.draft.clock = self.clock.look(clocks);
        self.watch.look(&self.counters, self.monotonic());
    }

    /// The monotonic clock at this poll.
    fn monotonic(&self) -> Instant {
        self.clocks.monotonic[0]
    }

    /// How long ago `then` was at this poll.
    fn since(&self, then: Instant) -> Duration {
        self.monotonic().saturating_duration_since(then)
    }

    fn change(&mut self, mut change: Change) -> Result<(), ChangeError> {
        if let (Some(older), true) = (self.generations.front(), self.generations.len() > 1) {
            return Err(ChangeError::Busy {
                number: older.number,
            });
        }
        let present = self.newest().map(|newest| newest.number);
        Generation::check(&change, present, self.counters.len())?;
        let ends = std::mem::take(&mut change.wires);
        let keys = std::mem::take(&mut change.keys);
        let wires = (self.wires).prepare(&change.config, ends, &keys, self.monotonic())?;
        self.wires.begin(&change.config, wires);
        describe(&change.config, change.number, &mut self.draft);
        self.is_present = change.config.ports.iter().map(Port::is_present).collect();
        self.segments.begin(&change);
        let is_measuring = change.ends.iter().map(Option::is_some);
        self.assembly.begin(change.from, is_measuring.collect());
        let measurement = &change.config.measurement;
        let lds = measurement.lds.as_ref().filter(|_| measurement.enabled);
        // Without flows that are tracked there is nobody to estimate for.
        let decode = lds.and_then(|lds| lds.decode.clone());
        let decode = decode.filter(|_| measurement.flows.is_some());
        self.decoder
            .set(decode, measurement.interval(), &self.hasher, self.rate);
        self.flows.set_top(top_settings(&change.config));
        let generation = Generation::new(change);
        self.flows.reserve(generation.slots());
        self.generations.push_back(generation);
        self.has_changed = true;
        Ok(())
    }

    /// Takes reports and sealed shards of all workers; whether an epoch has closed.
    fn take_shards(&mut self) -> bool {
        let Self {
            generations,
            assembly,
            segments,
            flows,
            present,
            ..
        } = self;
        let mut newest = None;
        let mut are_flows_whole = true;
        for generation in generations {
            let number = generation.number;
            are_flows_whole &= generation.take(
                flows,
                segments,
                *present,
                |segments, worker, shard, blank| {
                    let added = contain(Part::Epoch, || {
                        assembly.add(worker, number, (shard.epoch(), shard), blank, |closed| {
                            newest = newest.max(Some(segments.close(&closed)));
                        });
                    });
                    if added.is_none() && !assembly.spoil(shard.epoch()) {
                        segments.spoil();
                    }
                },
            );
        }
        if !are_flows_whole {
            self.begin_flows_anew();
        }
        let Some(epoch) = newest else {
            return false;
        };
        self.draft.epoch = Some(epoch.0);
        // Its end is as long ago by the system's clock as by the counter, which does not know it.
        let age_ticks = self
            .now
            .saturating_since(self.schedule.start_of(epoch.next()));
        let age = Duration::from_secs_f64(self.rate.to_ns(age_ticks as f64) / 1e9);
        let now = (self.clocks.system)
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        self.draft.epoch_end_unix_s = Some(now.saturating_sub(age).as_secs_f64());
        self.with_flows(|state| state.close_flows(epoch));
        true
    }

    /// Sends commands to the workers' flow tables.
    fn tend_flows(&mut self) {
        self.with_flows(|state| {
            for generation in &mut state.generations {
                generation.tend();
            }
        });
    }

    /// Does what concerns flows; after a panic they begin anew.
    fn with_flows<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let done = contain(Part::Flows, || work(self));
        if done.is_none() {
            self.begin_flows_anew();
        }
        done
    }

    /// Empties the directory. Workers are to forget the flows that they have, and report them with
    /// their next packets.
    fn begin_flows_anew(&mut self) {
        self.flows.start_anew();
        if let Some(config) = &self.draft.config {
            self.flows.set_top(top_settings(config));
        }
        self.decoder.drop_sum();
        for generation in &mut self.generations {
            self.flows.reserve(generation.slots());
            generation.forget_flows();
        }
    }

    /// Lets go of a generation that every worker has left.
    fn retire(&mut self) {
        while self.generations.len() > 1
            && let Some(older) = self.generations.pop_front_if(|older| older.is_over())
        {
            for (missed, epochs) in self.missed_epochs.iter_mut().zip(older.missed_epochs()) {
                *missed += epochs;
            }
            tracing::debug!(generation = older.number.0, "generation is over");
            self.segments.end(older.number);
            older.end(&mut self.flows);
            let segments = &self.segments;
            self.flows
                .forget_segments(|segment| segments.is_known(segment));
        }
    }
}

#[cfg(test)]
mod tests;
