//! A whole switch: its workers and its control core, from a start to a kill.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant, UNIX_EPOCH};

use contract::config::{Config, PORTS_MAX};
use contract::counters::{PortCounters, WorkerCounters};
use contract::fdb::{DELTAS, FdbMaster, MasterEnd, REPORTS, fdb_rings};
use contract::ids::{GenerationId, PortIndex};
use control::core::{ControlCore, Setup};
use control::published::Published;
use measure::packet::Hasher;
use measure::time::{EpochSchedule, TickRate, Ticks};
use rand::RngExt;
use rand_pcg::Pcg64;
use records::snapshot::Snapshot;
use switch::egress::Lane;
use switch::generation::{Generations, generations};
use switch::meter::Meter;
use switch::packet_io::memory::MemoryIo;
use switch::wire::Wires;
use switch::wiring::links::LinkWatch;
use switch::wiring::plans::present;
use switch::worker::Worker;

use super::clock::Clocks;
use super::data_plane::{MemoryDataPlane, NodeState, Shared, Site, WorkerParts};

/// Nominal rate of all counters: a tick is a nanosecond.
const HZ: u64 = 1_000_000_000;

/// A worker, and what holds it up.
pub(super) struct SimWorker {
    pub worker: Worker<MemoryIo>,
    pub counters: Arc<WorkerCounters>,
    /// What its counter is ahead of the first worker's.
    pub skew_ticks: u64,
    pub stalled_until: u64,
}

/// The workers of a switch, and the control core's ends of what leads to them.
struct WorkerSet {
    workers: Vec<SimWorker>,
    ends: Vec<MasterEnd>,
    generations: Vec<Generations<MemoryIo>>,
}

impl WorkerSet {
    /// Workers of these parts, each with a counter `skew_ticks` ahead of the one before it; that of the
    /// first reads `first`.
    fn build(
        site: &Site,
        config: &Config,
        parts: Vec<WorkerParts>,
        hasher: &Hasher,
        (first, skew_ticks): (Ticks, u64),
    ) -> Self {
        let receiving = Arc::new(AtomicUsize::new(site.workers));
        let mut set = Self {
            workers: Vec::new(),
            ends: Vec::new(),
            generations: Vec::new(),
        };
        for (number, parts) in (0..).zip(parts) {
            let (replica, master) = fdb_rings(REPORTS, DELTAS);
            set.ends.push(master);
            let (generations, worker_generations) = generations();
            set.generations.push(generations);
            let skew_ticks = number * skew_ticks;
            let started = first.plus(skew_ticks);
            let mut io = MemoryIo::with_inlets(config.ports.len(), parts.inlets);
            io.set_now(started);
            let counters = Arc::new(WorkerCounters::new(PORTS_MAX));
            let lanes: Vec<Lane<_>> = parts.lanes.into_iter().map(|(_, lane)| lane).collect();
            let worker = Worker::new(
                io,
                lanes,
                site.decide(config, Some(replica)),
                Meter::new(hasher.clone(), site.schedule, parts.plan, started),
                Arc::clone(&counters),
                worker_generations,
                Arc::clone(&receiving),
                site.schedule.interval_ticks() / 2,
            );
            set.workers.push(SimWorker {
                worker: worker.with_wires(Wires::with(config.ports.len(), parts.wires)),
                counters,
                skew_ticks,
                stalled_until: 0,
            });
        }
        set
    }
}

/// A switch that runs.
pub(super) struct Node {
    pub clocks: Clocks,
    pub schedule: EpochSchedule,
    pub state: Shared,
    pub workers: Vec<SimWorker>,
    pub published: Arc<Published>,
    pub stalled_until: u64,
    /// The ports' number at the last pass of any worker.
    pub ports: usize,
    core: ControlCore<'static>,
    began: Instant,
    born: Ticks,
}

/// What does not change while a switch by `config` lives, which starts at `ticks`.
fn site(config: &Config, ticks: Ticks, seed: u64) -> Site {
    let rate = TickRate::from_hz(HZ);
    let measurement = &config.measurement;
    Site {
        rate,
        schedule: EpochSchedule::new(
            ticks,
            rate.ticks_in(measurement.interval()),
            rate.ticks_in(measurement.grace()),
        ),
        line: Arc::default(),
        devices: Arc::default(),
        workers: config.workers.len(),
        seed,
    }
}

impl Node {
    /// Starts a switch by `config`, with clocks as they are.
    ///
    /// # Errors
    /// In words: a configuration that makes no switch.
    pub fn start(
        config: &Config,
        clocks: Clocks,
        now: u64,
        skew_ticks: u64,
        has_link: Vec<bool>,
        random: &mut Pcg64,
    ) -> Result<Self, String> {
        let ticks = clocks.ticks(now);
        let site = site(config, ticks, random.random());
        let (rate, schedule) = (site.rate, site.schedule);
        let places: Vec<usize> = present(config).collect();
        let parts = site.parts(
            config,
            GenerationId::default(),
            (&places, &places),
            Vec::new(),
            ticks,
        )?;
        let hasher = Hasher::new(config.measurement.hash_key().ok_or("no hash_seed")?);
        let WorkerSet {
            workers,
            ends,
            generations,
        } = WorkerSet::build(&site, config, parts.workers, &hasher, (ticks, skew_ticks));
        let began = Instant::now();
        let state = Shared::new(NodeState {
            tai_ns: clocks.tai_ns(now),
            has_link,
            ..NodeState::new(config, (ticks, began), random.random())
        });
        let mut links = LinkWatch::new();
        for place in places {
            links.watch(place, None, began);
        }
        let setup = Setup {
            rate,
            schedule,
            line: Arc::clone(&site.line),
            hasher,
            counters: (workers.iter().map(|one| Arc::clone(&one.counters))).collect(),
            first: parts.change,
        };
        let data_plane = MemoryDataPlane {
            site,
            state: state.clone(),
            master: FdbMaster::from_settings(config.fdb_settings(), ends),
            generations,
            layouts: parts.layouts,
            began,
            links,
            looked_at: None,
            number: GenerationId::default(),
            returned: None,
            offered: None,
        };
        let core = ControlCore::new(setup, data_plane).map_err(|e| e.to_string())?;
        Ok(Self {
            clocks,
            schedule,
            state,
            workers,
            published: core.published(),
            stalled_until: 0,
            ports: config.ports.len(),
            core,
            began,
            born: ticks,
        })
    }

    /// The counter, as a worker reads it.
    pub fn ticks(&self, worker: usize, now: u64) -> Ticks {
        (self.clocks.ticks(now)).plus(self.workers[worker].skew_ticks)
    }

    /// The control core's poll; the snapshot that it leaves.
    pub fn poll(&mut self, now: u64) -> Arc<Snapshot> {
        let ticks = self.clocks.ticks(now);
        {
            let state = &mut *self.state.lock();
            state.ticks = ticks;
            state.monotonic = self.began + Duration::from_nanos(ticks.since(self.born));
            state.tai_ns = self.clocks.tai_ns(now);
            state.system = UNIX_EPOCH + Duration::from_nanos(state.tai_ns - 37_000_000_000);
        }
        self.core.poll();
        self.published.read()
    }

    /// Worker `worker` passes once.
    pub fn pass(&mut self, worker: usize, now: u64) {
        let ticks = self.ticks(worker, now);
        let one = &mut self.workers[worker];
        one.worker.io_mut().set_now(ticks);
        one.worker.pass();
        self.ports = self.ports.max(self.state.lock().running.ports.len());
    }

    /// Lets a frame come in by the queue that its device's hash picks; whether anybody receives it.
    pub fn arrive(&mut self, port: usize, frame: Vec<u8>, number: Option<u64>) -> bool {
        let hash = frame.iter().fold(0_u32, |hash, &byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        let port = PortIndex::new(port);
        let serves = |one: &mut SimWorker| {
            use switch::packet_io::PacketIo;
            one.worker.io_mut().inlets().contains(&port)
        };
        let serving: Vec<usize> = (0..self.workers.len())
            .filter(|&worker| serves(&mut self.workers[worker]))
            .collect();
        let Some(&worker) = serving.get(hash as usize % serving.len().max(1)) else {
            return false;
        };
        self.workers[worker]
            .worker
            .io_mut()
            .arrive_as(port, frame, number)
    }

    /// A counter of all ports and workers.
    pub fn sum(&self, of: impl Fn(&PortCounters) -> u64) -> u64 {
        let ports = self.workers.iter().flat_map(|one| &one.counters.ports);
        ports.map(of).sum()
    }

    /// A counter of one port, of all workers.
    pub fn sum_at(&self, port: PortIndex, of: impl Fn(&PortCounters) -> u64) -> u64 {
        let port = port.index();
        self.workers
            .iter()
            .map(|one| of(&one.counters.ports[port]))
            .sum()
    }
}
