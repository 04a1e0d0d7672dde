//! A whole switch: its workers and its control core, from a start to a kill.

use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use contract::config::Config;
use contract::counters::{PortCounters, WorkerCounters};
use contract::ids::PortIndex;
use control::core::{ControlCore, Setup};
use control::published::Published;
use measure::time::{Epoch, EpochSchedule, TickRate, Ticks};
use rand::RngExt;
use rand_pcg::Pcg64;
use records::snapshot::Snapshot;
use switch::packet_io::PacketIo;
use switch::packet_io::memory::MemoryIo;
use switch::reconfigurer::{Reconfigurer, Running};
use switch::wiring::links::LinkWatch;
use switch::wiring::plans::present;
use switch::wiring::platform::Platform;
use switch::wiring::workers::{WorkerSetup, Workers};
use switch::worker::Worker;

use super::clock::Clocks;
use super::data_plane::{Memory, MemoryDataPlane, NodeState, OpenPort, Shared};

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

/// What a switch by `config` runs on that starts as `state` says.
fn memory(config: &Config, state: Shared, seed: u64) -> Memory {
    let rate = TickRate::from_hz(HZ);
    let measurement = &config.measurement;
    let schedule = EpochSchedule::new(
        state.lock().ticks,
        rate.ticks_in(measurement.interval()),
        rate.ticks_in(measurement.grace()),
    );
    Memory {
        cpus: vec![0; config.workers.len()].into(),
        rate,
        schedule,
        line: Arc::default(),
        devices: Arc::default(),
        seed,
        state,
    }
}

/// The workers of a switch, and its ports.
fn build(memory: &Memory, config: &Config) -> anyhow::Result<(Workers<MemoryIo>, Vec<OpenPort>)> {
    let start = |place| memory.start(&mut config.clone(), place);
    let ports: Vec<OpenPort> = present(config).map(start).collect::<Result<_, _>>()?;
    let sources = ports.iter().map(|_| None).collect();
    let keys = config.read_wire_keys()?;
    let workers = Workers::build(memory, config, &ports, sources, keys)?;
    Ok((workers, ports))
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
        let began = Instant::now();
        let state = Shared::new(NodeState {
            tai_ns: clocks.tai_ns(now),
            has_link,
            ..NodeState::new(config, (ticks, began), random.random())
        });
        let memory = memory(config, state.clone(), random.random());
        let (rate, schedule) = (memory.rate, memory.schedule);
        config.measurement.hash_key().ok_or("no hash_seed")?;
        let (built, ports) = build(&memory, config).map_err(|e| format!("{e:#}"))?;
        let mut links = LinkWatch::new();
        for place in present(config) {
            links.watch(place, None, began);
        }
        let setup = Setup {
            rate,
            schedule,
            line: Arc::clone(&memory.line),
            counters: built.counters(),
            hasher: built.hasher,
            first: built.first,
        };
        let start = |(number, setup): (u64, WorkerSetup<MemoryIo>)| {
            let skew_ticks = number * skew_ticks;
            let counters = Arc::clone(&setup.counters);
            let mut io = MemoryIo::new(0);
            io.set_now(ticks.plus(skew_ticks));
            SimWorker {
                worker: setup.start(io, schedule, schedule.interval_ticks() / 2),
                counters,
                skew_ticks,
                stalled_until: 0,
            }
        };
        let workers = (0..).zip(built.setups).map(start).collect();
        let data_plane = MemoryDataPlane {
            state: state.clone(),
            running: Running::new(memory, config, ports, built.generations),
            reconfigurer: Reconfigurer::default(),
            master: built.master,
            began,
            links,
            looked_at: None,
            from: Epoch(0),
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
        let serves = |one: &mut SimWorker| one.worker.io_mut().inlets().contains(&port);
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
