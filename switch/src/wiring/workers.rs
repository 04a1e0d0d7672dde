//! The workers before they begin, and what the control side keeps of each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use anyhow::Result;
use contract::change::Change;
use contract::config::{Config, Idle, PORTS_MAX, WireKeys};
use contract::counters::WorkerCounters;
use contract::fdb::{DELTAS, FdbMaster, REPORTS, fdb_rings};
use contract::ids::GenerationId;
use measure::packet::Hasher;
use measure::time::EpochSchedule;

use super::cpus::near;
use super::generations::hand_out;
use super::plans::{DpdkSite, present};
use super::platform::Platform;
use super::{DRAIN, random_seed};
use crate::decide::Decide;
use crate::generation::{Generation, Generations, Measuring, WorkerGenerations, generations};
use crate::idle::IdlePolicy;
use crate::meter::Meter;
use crate::packet_io::PacketIo;
use crate::packet_io::dpdk::DpdkIo;
use crate::source::Source;
use crate::wire::Wires;
use crate::worker::Worker;

/// All workers, and the control side's ends to them.
pub struct Workers<I: PacketIo> {
    /// What they know flows by.
    pub hasher: Hasher,
    /// The workers.
    pub setups: Vec<WorkerSetup<I>>,
    /// Where its changes go.
    pub generations: Vec<Generations<I>>,
    /// The filtering database that all follow.
    pub master: FdbMaster,
    /// What the control core has of the first generation.
    pub first: Change,
}

/// One worker.
pub struct WorkerSetup<I: PacketIo> {
    /// What it counts.
    pub counters: Arc<WorkerCounters>,
    first: Generation<I>,
    decide: Box<Decide>,
    hasher: Hasher,
    generations: WorkerGenerations<I>,
    receiving: Arc<AtomicUsize>,
}

impl<I: PacketIo<Packet: Send>> Workers<I> {
    /// A worker for each of the site's CPUs, with its share of `ports` and `sources`; `keys` are those of the wires.
    ///
    /// # Errors
    /// A queue that cannot be had, sizes that make no synopsis, no randomness, no threads.
    pub fn build<P: Platform<Io = I>>(
        platform: &P,
        config: &Config,
        ports: &[P::Port],
        sources: Vec<Option<Source>>,
        keys: WireKeys,
    ) -> Result<Self> {
        let site = platform.site();
        let hasher = Hasher::new(config.measurement.hash_key().map_or_else(random_seed, Ok)?);
        let places: Vec<usize> = present(config).collect();
        let number = GenerationId::default();
        let now = platform.now();
        let (mut firsts, first) =
            site.generations(number, config, [&places, &places], &[], keys, now)?;
        for (place, (port, source)) in ports.iter().zip(sources).enumerate() {
            hand_out(&mut firsts, platform.handles(config, place, port, source)?);
        }
        let receiving = Arc::new(AtomicUsize::new(site.cpus.len()));
        let (mut setups, mut ends, mut master_ends) = (Vec::new(), Vec::new(), Vec::new());
        for (first, &cpu) in firsts.into_iter().zip(site.cpus) {
            let (replica, master) = fdb_rings(REPORTS, DELTAS);
            master_ends.push(master);
            let (generations, worker_generations) = generations();
            ends.push(generations);
            setups.push(WorkerSetup {
                counters: Arc::new(WorkerCounters::new(PORTS_MAX)),
                first,
                decide: near(cpu, site.usable, || site.replica(config, Some(replica)))?,
                hasher: hasher.clone(),
                generations: worker_generations,
                receiving: Arc::clone(&receiving),
            });
        }
        Ok(Self {
            hasher,
            setups,
            generations: ends,
            master: FdbMaster::from_settings(config.fdb_settings(), master_ends),
            first,
        })
    }

    /// What each worker counts.
    pub fn counters(&self) -> Vec<Arc<WorkerCounters>> {
        let setups = self.setups.iter();
        setups.map(|setup| Arc::clone(&setup.counters)).collect()
    }
}

impl<I: PacketIo> WorkerSetup<I> {
    /// The worker, with an `io` that has no ports yet. Gauges are renewed every `gauge_ticks`.
    pub fn start(self, mut io: I, schedule: EpochSchedule, gauge_ticks: u64) -> Worker<I> {
        for mut handles in self.first.come {
            io.take_over(&mut handles);
        }
        let plan = match self.first.measuring {
            Measuring::Changed(plan) => plan,
            Measuring::Unchanged => None,
        };
        let meter = Meter::new(self.hasher, schedule, plan, io.now());
        let lanes = self.first.lanes.into_iter().map(|(_, lane)| lane);
        Worker::new(
            io,
            lanes.collect(),
            self.decide,
            meter,
            self.counters,
            self.generations,
            self.receiving,
            gauge_ticks,
        )
        .with_wires(Wires::with(PORTS_MAX, self.first.wires))
    }
}

impl<'pool> WorkerSetup<DpdkIo<'pool>> {
    /// Works on the calling thread, which runs on `cpu`, until `stop` is set; how long, and the ports that it had.
    ///
    /// # Errors
    /// When the thread cannot run on its CPU.
    pub fn work(
        self,
        dpdk: DpdkSite<'pool>,
        cpu: usize,
        idle: Idle,
        stop: &AtomicBool,
    ) -> Result<(Duration, DpdkIo<'pool>)> {
        let DpdkSite { site, eal, pools } = dpdk;
        let _lcore = eal.register_thread(cpu)?;
        let io = DpdkIo::new(Vec::new(), pools.near(cpu, site.usable)?, site.rate);
        let worker = self.start(io, site.schedule, site.rate.hz());
        let began = Instant::now();
        let io = worker.run(stop, IdlePolicy::new(idle), site.rate.ticks_in(DRAIN));
        Ok((began.elapsed(), io))
    }
}
