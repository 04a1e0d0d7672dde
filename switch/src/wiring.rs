//! From a configuration to a running switch, and down again in the right order.
//!
//! Everything that can fail fails here, before the first packet: capture files, the HTTP address,
//! EAL, memory, devices. The order of shutdown is that of the borrows: the worker returns its
//! queues, ports stop and close, the pool is freed, EAL is cleaned up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use control::config::{Config, Device, Forwarding, Segment, Stamps, Worker as WorkerConfig};
use control::core::{ControlCore, PortFacts, WorkerLink};
use control::counters::WorkerCounters;
use control::handover::{WorkerEnd, handover};
use control::http;
use control::snapshot::{Pool, PortFact, Snapshot};
use dpdk_bindings::{Eal, EalOptions, Mempool, Port, PortConfig, allowed_cpus, tsc};
use measure::lda::{Bank, LdaLayout};
use measure::packet::Hasher;
use measure::shard::{Shard, ShardLayout};
use measure::time::{EpochSchedule, TickRate};
use serde::Serialize;

use crate::decide::fdb::Fdb;
use crate::decide::{Bridge, Decide, PatchPanel};
use crate::egress::EgressLayout;
use crate::generation::generations;
use crate::idle::IdlePolicy;
use crate::live;
use crate::meter::{Meter, Plan, SegmentMap};
use crate::packet_io::dpdk::{DpdkIo, Handles, Inlet};
use crate::packet_io::{ClassIndex, PortIndex};
use crate::preflight;
use crate::source::Source;
use crate::worker::{Lane, Worker};

pub mod cpus;
pub mod links;
pub mod service;
pub mod watchdog;

/// Room for data in a packet buffer, besides DPDK's headroom of 128 bytes; longer frames are
/// chained.
const DATA_ROOM_BYTES: u16 = 2048;

/// Descriptors of a queue, where the device has them.
const DESCRIPTORS: u16 = 1024;

/// Buffers that a worker's pool cache keeps.
const POOL_CACHE: u32 = 512;

/// How long a stopping worker goes on sending what waits.
const DRAIN: Duration = Duration::from_millis(200);

/// How a switch is run.
#[derive(Debug, Clone, Default)]
pub struct RunOptions {
    /// End after this long.
    pub duration: Option<Duration>,
    /// Show a live table, and a summary at the end.
    pub live: bool,
}

/// What a run came to.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// Seconds for which the worker received.
    pub elapsed_s: f64,
    /// The last snapshot.
    pub snapshot: Snapshot,
}

/// Builds the switch, runs it until `stop` is set or the duration is over, and takes it down.
///
/// # Errors
/// Whatever keeps it from starting, in words for its user; nothing is left behind then.
pub fn run(config: &Config, options: &RunOptions, stop: &AtomicBool) -> Result<Outcome> {
    let sources = open_sources(config)?;
    let server = config.http.listen.map(http::Server::bind).transpose()?;
    let worker_config = &config.workers[0];
    let cpu = worker_cpu(worker_config)?;
    for warning in preflight::warnings(config, &[cpu]) {
        tracing::warn!("{warning}");
    }

    let eal = Eal::init("vernierd", &eal_options(config))?;
    let rate = TickRate::from_hz(eal.tsc_hz());
    let pool = eal.mempool("vernier", config.dpdk.mbufs, POOL_CACHE, DATA_ROOM_BYTES)?;
    let ports = start_ports(config, &eal, &pool)?;
    let port_ios = port_ios(config, &ports, sources)?;

    let layout = lda_layout(config)?;
    let segments = config.segments();
    let layout = ShardLayout {
        lda: Some(layout),
        ..ShardLayout::new(rate, segments.len())
    };
    let (worker_end, control_end) = handover(0, &layout);
    let blank = Shard::new(&layout);
    let schedule = EpochSchedule::new(
        tsc::now(),
        rate.ticks_in(config.measurement.interval()),
        rate.ticks_in(config.measurement.grace()),
    );
    let counters = Arc::new(WorkerCounters::new(ports.len()));
    let link = WorkerLink {
        end: control_end,
        counters: Arc::clone(&counters),
    };
    let facts = Facts {
        ports: &ports,
        pool: &pool,
    };
    let mut core = ControlCore::new(config, rate, blank, vec![link], facts);
    let published = core.published();
    let serving = server
        .map(|server| server.serve(Arc::clone(&published)))
        .transpose()?;
    if let Some(serving) = &serving {
        tracing::info!("metrics at http://{}/metrics", serving.address());
    }

    let stopping = AtomicBool::new(false);
    let (_generations, worker_generations) = generations();
    let (elapsed, snapshot) = thread::scope(|scope| -> Result<_> {
        let worker = spawn(scope, "vernier-worker", || -> Result<Duration> {
            let _lcore = eal.register_thread(cpu)?;
            let io = DpdkIo::new(port_ios, &pool, rate);
            let meter = meter(config, &segments, schedule, worker_end)?;
            let decide = Box::new(decide(config, rate)?);
            let worker = Worker::new(
                io,
                lanes(config, rate),
                decide,
                meter,
                counters,
                worker_generations,
                Arc::new(AtomicUsize::new(1)),
                rate.hz(),
            );
            let began = Instant::now();
            drop(worker.run(
                &stopping,
                IdlePolicy::new(worker_config.idle),
                rate.ticks_in(DRAIN),
            ));
            Ok(began.elapsed())
        })?;
        let control = spawn(scope, "vernier-control", || {
            core.run(&stopping);
            core
        })?;
        let is_over = || stop.load(Ordering::Relaxed) || worker.is_finished();
        let shown = live::attend(options, &published, is_over);
        stopping.store(true, Ordering::Relaxed);
        let elapsed = worker.join().map_err(|_| anyhow!("the worker panicked"))?;
        let core = control
            .join()
            .map_err(|_| anyhow!("the control core panicked"))?;
        shown?;
        Ok((elapsed?, core.finish()))
    })?;
    drop(serving);
    let outcome = Outcome {
        elapsed_s: elapsed.as_secs_f64(),
        snapshot: Arc::unwrap_or_clone(snapshot),
    };
    if options.live {
        live::summarise(&outcome.snapshot);
    }
    Ok(outcome)
}

fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn_scoped(scope, work)
        .with_context(|| format!("cannot start the thread {name}"))
}

fn open_sources(config: &Config) -> Result<Vec<Option<Source>>> {
    let open = |port: &control::config::Port| {
        let source =
            Source::open(&port.device, port.mtu).with_context(|| format!("port {}", port.name))?;
        for warning in source.iter().flat_map(Source::warnings) {
            tracing::warn!("port {}: {warning}", port.name);
        }
        Ok(source)
    };
    config.ports.iter().map(open).collect()
}

/// The CPU for a worker: the configured one, or the last that this process may use, since the
/// first serves the kernel's housekeeping on most machines.
fn worker_cpu(config: &WorkerConfig) -> Result<usize> {
    let allowed = allowed_cpus();
    match config.core {
        Some(cpu) if !allowed.contains(&cpu) => Err(anyhow!(
            "workers[0].core: CPU {cpu} is not among those this process may use ({allowed:?}); \
             choose one of them, or change its affinity (taskset)"
        )),
        Some(cpu) => Ok(cpu),
        None => allowed
            .last()
            .copied()
            .context("this process may use no CPU"),
    }
}

fn eal_options(config: &Config) -> EalOptions {
    let is_pci = |port: &control::config::Port| match &port.device {
        Device::Dpdk(device) => {
            device.starts_with(|first: char| first.is_ascii_hexdigit()) && device.contains(':')
        }
        _ => false,
    };
    EalOptions {
        hugepages: config.dpdk.hugepages,
        memory_mib: config.dpdk.memory_mib,
        pci: config.ports.iter().any(is_pci),
        extra: config.dpdk.eal_args.clone(),
    }
}

/// Attaches and starts all ports. A port with a source of ours, and a sink, is a `net_null` that
/// receives nothing.
fn start_ports<'pool>(
    config: &Config,
    eal: &'pool Eal,
    pool: &'pool Mempool<'pool>,
) -> Result<Vec<Port<'pool>>> {
    let start = |(n, port): (usize, &control::config::Port)| {
        let device = match &port.device {
            Device::Dpdk(device) => device.clone(),
            _ => format!("net_null_{n},no-rx=1"),
        };
        let port_config = PortConfig {
            rx_descriptors: DESCRIPTORS,
            tx_descriptors: DESCRIPTORS,
            mtu: port.mtu,
            ..PortConfig::default()
        };
        let attached = eal
            .attach(&device)
            .with_context(|| format!("port {}", port.name))?;
        attached
            .start(&port_config, pool)
            .with_context(|| format!("port {}", port.name))
    };
    config.ports.iter().enumerate().map(start).collect()
}

fn port_ios<'pool>(
    config: &Config,
    ports: &[Port<'pool>],
    sources: Vec<Option<Source>>,
) -> Result<Vec<Handles<'pool>>> {
    let take = |((port, source), settings): ((&Port<'pool>, _), &control::config::Port)| {
        let queues = port.rx_queue(0).zip(port.tx_queue(0));
        let (rx, tx) = queues.with_context(|| format!("port {}: no queue", settings.name))?;
        let inlet = match source {
            Some(source) => Inlet::Source {
                source: Box::new(source),
                started: None,
            },
            None => Inlet::Queue(rx),
        };
        Ok(Handles {
            inlets: vec![inlet],
            outlet: Some(tx),
        })
    };
    ports
        .iter()
        .zip(sources)
        .zip(&config.ports)
        .map(take)
        .collect()
}

fn lda_layout(config: &Config) -> Result<LdaLayout> {
    let banks = config.measurement.lda.iter().flat_map(|lda| &lda.banks);
    let banks: Vec<_> = banks
        .map(|bank| Bank {
            rows: bank.rows,
            probability: bank.probability,
        })
        .collect();
    LdaLayout::new(&banks).context("measurement.lda.banks")
}

fn meter(
    config: &Config,
    segments: &[Segment],
    schedule: EpochSchedule,
    handover: WorkerEnd,
) -> Result<Meter> {
    let seed = config.measurement.hash_key().map_or_else(random_seed, Ok)?;
    let places = segments.iter().map(|segment| {
        #[expect(clippy::cast_possible_truncation, reason = "8 classes at most")]
        let class = ClassIndex(segment.class as u8);
        (
            port_index(segment.ingress),
            port_index(segment.egress),
            class,
        )
    });
    let plan = config.measurement.enabled.then(|| {
        Box::new(Plan {
            handover,
            segments: SegmentMap::new(config.ports.len(), places),
            flows: None,
            stamps_packets: config.measurement.stamps == Stamps::Packet,
        })
    });
    let now = tsc::now();
    Ok(Meter::new(0, Hasher::new(seed), schedule, plan, now))
}

fn random_seed() -> Result<[u8; 16]> {
    let mut seed = [0; 16];
    getrandom::fill(&mut seed)
        .map_err(|error| anyhow!("the system gives no random seed for the hash: {error}"))?;
    Ok(seed)
}

fn decide(config: &Config, rate: TickRate) -> Result<Decide> {
    let index = |name: &str| {
        config
            .ports
            .iter()
            .position(|port| port.name == name)
            .map(port_index)
    };
    Ok(match &config.forwarding {
        Forwarding::Patch { pairs, .. } => {
            let pairs: Vec<_> = pairs
                .iter()
                .filter_map(|(a, b)| index(a).zip(index(b)))
                .collect();
            Decide::Patch(PatchPanel::new(config.ports.len(), &pairs))
        }
        Forwarding::Bridge {
            ageing_s,
            fdb_entries,
            ..
        } => {
            let seed = random_seed()?;
            let (_, seed) = seed.split_last_chunk().context("a seed has 16 bytes")?;
            let fdb = Fdb::new(
                *fdb_entries as usize,
                Duration::from_secs(u64::from(*ageing_s)),
                rate,
                u64::from_le_bytes(*seed),
            );
            Decide::Bridge(Bridge::new(config.ports.len(), fdb))
        }
    })
}

fn lanes<P>(config: &Config, rate: TickRate) -> Vec<Lane<P>> {
    let lane = |(seed, port): (u64, &control::config::Port)| {
        let layout = EgressLayout::from_config(&port.egress, port.mtu, &config.classes);
        Lane::own(&layout, port.mtu, rate, seed, Vec::new())
    };
    (0..).zip(&config.ports).map(lane).collect()
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a configuration has 64 ports at most"
)]
fn port_index(index: usize) -> PortIndex {
    PortIndex(index as u8)
}

/// What devices and pool say of themselves.
struct Facts<'f, 'pool> {
    ports: &'f [Port<'pool>],
    pool: &'f Mempool<'pool>,
}

impl PortFacts for Facts<'_, '_> {
    fn port(&mut self, index: usize) -> PortFact {
        let Some(port) = self.ports.get(index) else {
            return PortFact::default();
        };
        let stats = port.stats();
        PortFact {
            driver: port.info().driver.clone(),
            is_up: port.link().up,
            missed_packets: stats.rx_missed,
            rx_error_packets: stats.rx_errors,
            tx_error_packets: stats.tx_errors,
            no_buffer_packets: stats.rx_no_mbuf,
        }
    }

    fn pool(&mut self) -> Option<Pool> {
        let size = u64::from(self.pool.capacity());
        let used = size.saturating_sub(u64::from(self.pool.available()));
        Some(Pool { used, size })
    }
}
