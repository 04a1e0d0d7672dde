//! The workers before they begin, and what the control side keeps of each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use anyhow::Result;
use contract::config::{Config, Idle, PORTS_MAX};
use contract::counters::WorkerCounters;
use contract::fdb::{DELTAS, FdbMaster, REPORTS, fdb_rings};
use dpdk_bindings::{Mbuf, Port, tsc};
use measure::packet::Hasher;
use measure::time::Ticks;

use super::cpus::near;
use super::plans::{Site, handles, present, replica};
use super::{DRAIN, random_seed};
use crate::decide::Decide;
use crate::egress::Lane;
use crate::generation::{Generations, WorkerGenerations, generations};
use crate::idle::IdlePolicy;
use crate::meter::{Meter, Plan};
use crate::packet_io::dpdk::{DpdkIo, Handles};
use crate::source::Source;
use crate::wire::{WireChange, Wires};
use crate::worker::Worker;

/// All workers, and the control side's ends to them.
pub struct Workers<'pool> {
    /// What they know flows by.
    pub hasher: Hasher,
    /// The workers.
    pub setups: Vec<WorkerSetup<'pool>>,
    /// What each counts.
    pub counters: Vec<Arc<WorkerCounters>>,
    /// Where its changes go.
    pub generations: Vec<Generations<DpdkIo<'pool>>>,
    /// The filtering database that all follow.
    pub master: FdbMaster,
}

/// One worker: everything but what it measures by.
pub struct WorkerSetup<'pool> {
    site: Site<'pool>,
    cpu: usize,
    idle: Idle,
    handles: Vec<Handles<'pool>>,
    lanes: Vec<Lane<Mbuf<'pool>>>,
    decide: Box<Decide>,
    hasher: Hasher,
    counters: Arc<WorkerCounters>,
    generations: WorkerGenerations<DpdkIo<'pool>>,
    receiving: Arc<AtomicUsize>,
}

impl<'pool> Workers<'pool> {
    /// A worker for each of the site's CPUs, with its share of `ports` and `sources`.
    ///
    /// # Errors
    /// A queue that cannot be had, no randomness, no threads.
    pub fn build(
        site: Site<'pool>,
        config: &Config,
        ports: &[Port<'pool>],
        sources: Vec<Option<Source>>,
    ) -> Result<Self> {
        let hasher = Hasher::new(config.measurement.hash_key().map_or_else(random_seed, Ok)?);
        let mut taken: Vec<Vec<Handles<'pool>>> = site.cpus.iter().map(|_| Vec::new()).collect();
        for (place, (port, source)) in ports.iter().zip(sources).enumerate() {
            for (taken, handles) in taken.iter_mut().zip(handles(config, place, port, source)?) {
                taken.push(handles);
            }
        }
        let places: Vec<usize> = present(config).collect();
        let lanes = site.lanes(config, &places, &[])?;
        let receiving = Arc::new(AtomicUsize::new(site.cpus.len()));
        let (mut replica_ends, mut master_ends) = (Vec::new(), Vec::new());
        for _ in site.cpus {
            let (replica, master) = fdb_rings(REPORTS, DELTAS);
            replica_ends.push(replica);
            master_ends.push(master);
        }
        let mut workers = Self {
            hasher: hasher.clone(),
            setups: Vec::with_capacity(site.cpus.len()),
            counters: Vec::with_capacity(site.cpus.len()),
            generations: Vec::with_capacity(site.cpus.len()),
            master: FdbMaster::from_settings(config.fdb_settings(), master_ends),
        };
        let members = (config.workers.iter())
            .zip(site.cpus)
            .zip(taken)
            .zip(lanes)
            .zip(replica_ends);
        for ((((worker, &cpu), handles), lanes), end) in members {
            let decide = near(cpu, site.usable, || replica(config, site, Some(end)))?;
            let counters = Arc::new(WorkerCounters::new(PORTS_MAX));
            let (generations, worker_generations) = generations();
            workers.counters.push(Arc::clone(&counters));
            workers.generations.push(generations);
            workers.setups.push(WorkerSetup {
                site,
                cpu,
                idle: worker.idle,
                handles,
                lanes: lanes.into_iter().map(|(_, lane)| lane).collect(),
                decide,
                hasher: hasher.clone(),
                counters,
                generations: worker_generations,
                receiving: Arc::clone(&receiving),
            });
        }
        Ok(workers)
    }
}

impl<'pool> WorkerSetup<'pool> {
    /// Works on the calling thread until `stop` is set; how long, and the ports that it had.
    ///
    /// # Errors
    /// When the thread cannot run on its CPU.
    pub fn work(
        self,
        plan: Option<Box<Plan>>,
        wires: Vec<WireChange<Mbuf<'pool>>>,
        stop: &AtomicBool,
    ) -> Result<(Duration, DpdkIo<'pool>)> {
        let Site {
            eal,
            pools,
            usable,
            rate,
            schedule,
            ..
        } = self.site;
        let _lcore = eal.register_thread(self.cpu)?;
        let pool = pools.near(self.cpu, usable)?;
        let io = DpdkIo::new(self.handles, pool, rate);
        let meter = Meter::new(self.hasher, schedule, plan, Ticks(tsc::now()));
        let worker = Worker::new(
            io,
            self.lanes,
            self.decide,
            meter,
            self.counters,
            self.generations,
            self.receiving,
            rate.hz(),
        )
        .with_wires(Wires::with(PORTS_MAX, wires));
        let began = Instant::now();
        let io = worker.run(stop, IdlePolicy::new(self.idle), rate.ticks_in(DRAIN));
        Ok((began.elapsed(), io))
    }
}
