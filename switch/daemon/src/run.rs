//! Runs a switch: builds it from a configuration, waits for its end, and shuts it down in the right order.
//!
//! Everything that can fail fails before the first packet: capture files, the HTTP address, EAL, memory,
//! devices. The borrows determine the order of shutdown: workers return their queues, ports stop and close,
//! pools are freed, EAL is cleaned up.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use api::http;
use contract::config::{self, Config, Device};
use control::core::{ControlCore, Setup};
use control::published::Published;
use dpdk_bindings::{AttachedPort, Eal, Port, tsc};
use measure::time::{EpochSchedule, TickRate, Ticks};
use records::snapshot::Snapshot;
use report::sender::{self, Sender};
use serde::Serialize;
use switch::meter::Devices;
use switch::packet_io::dpdk::DpdkIo;
use switch::preflight;
use switch::reconfigurer::{Orders, Running};
use switch::source::Source;
use switch::wire::Recording;
use switch::wiring::cpus::{self, Wish};
use switch::wiring::devices::{self, Pools};
use switch::wiring::{DpdkSite, Site, WorkerSetup, Workers, budget_of_machine, random_seed};

use crate::data_plane::SwitchDataPlane;
use crate::options::RunOptions;
use crate::platform::Dpdk;
use crate::resources::Resources;
use crate::{live, privileges};

/// Result of a run.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// Seconds for which the workers received.
    pub elapsed_s: f64,
    /// The captures that ports replayed.
    pub captures: Vec<Replayed>,
    /// The last snapshot.
    pub snapshot: Snapshot,
}

/// Why a switch stopped unexpectedly.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It could not start, and will not until something is changed.
    #[error(transparent)]
    Start(anyhow::Error),
    /// Something failed while it ran.
    #[error(transparent)]
    Run(anyhow::Error),
}

/// Builds the switch, runs it until it is stopped or the duration is over, and shuts it down.
///
/// # Errors
/// [`RunError::Start`], in words for the user, with nothing left behind. [`RunError::Run`].
pub fn run(
    config: &Config,
    resources: Resources,
    options: &RunOptions<'_>,
) -> Result<Outcome, RunError> {
    let mut has_started = false;
    build(config, resources, options, &mut has_started).map_err(|error| {
        if has_started {
            RunError::Run(error)
        } else {
            RunError::Start(error)
        }
    })
}

fn build(
    config: &Config,
    resources: Resources,
    options: &RunOptions<'_>,
    has_started: &mut bool,
) -> Result<Outcome> {
    let mut config = config.clone();
    let recording = (options.arguments.wire_record.as_ref())
        .map(|file| {
            Recording::begin(file).with_context(|| format!("cannot write {}", file.display()))
        })
        .transpose()?;

    let budget_mib = budget_of_machine();
    // Before EAL starts threads.
    privileges::give_up(&config)?;
    let eal = Eal::init("vernierd", &devices::eal_options(&config))?;
    let attached = attach_all(&mut config, &eal)?;
    let usable = cpus::usable();
    let cpus = cpus::place(&wishes(&config, &attached), &usable)?;
    for warning in preflight::warnings(&config, &cpus) {
        tracing::warn!("{warning}");
    }
    let pools = Pools::new(&eal, config.dpdk.mbufs, &cpus, &usable)?;
    let rate = TickRate::from_hz(eal.tsc_hz());
    let site = Site {
        cpus: &cpus,
        usable: &usable,
        rate,
        schedule: EpochSchedule::new(
            Ticks(tsc::now()),
            rate.ticks_in(config.measurement.interval()),
            rate.ticks_in(config.measurement.grace()),
        ),
        line: &Arc::default(),
        devices: &Devices::default(),
        recording: recording.as_ref(),
        seed: random_number()?,
    };
    let dpdk = DpdkSite {
        site,
        eal: &eal,
        pools: &pools,
    };
    let attached = attached.into_iter().enumerate();
    let start = |(place, attached)| devices::start(&config, place, attached, dpdk);
    let ports: Vec<Port<'_>> = attached.map(start).collect::<Result<_>>()?;

    *has_started = true;
    let captures = planned(&config, &resources.sources);
    let (elapsed, snapshot) = switch(dpdk, &config, ports, resources, options, budget_mib)?;
    let outcome = Outcome {
        elapsed_s: elapsed.as_secs_f64(),
        captures: finished(captures, &snapshot),
        snapshot,
    };
    if options.arguments.live {
        live::summarise(&outcome.snapshot);
    }
    Ok(outcome)
}

/// Starts the workers and the control core, waits for the end, and stops them.
fn switch<'pool>(
    dpdk: DpdkSite<'pool>,
    config: &Config,
    ports: Vec<Port<'pool>>,
    resources: Resources,
    options: &RunOptions<'_>,
    budget_mib: Option<usize>,
) -> Result<(Duration, Snapshot)> {
    let Resources {
        sources,
        server,
        sender,
        wire_keys,
    } = resources;
    let orders = Orders {
        wanted: Arc::clone(&options.reload),
        file: options.arguments.config.clone(),
    };
    let stopping = &AtomicBool::new(false);
    thread::scope(|scope| {
        let stop = StopOnDrop(stopping);
        let platform = Dpdk { dpdk, scope };
        let workers = Workers::build(&platform, config, &ports, sources, wire_keys)?;
        let setup = Setup {
            rate: dpdk.site.rate,
            schedule: dpdk.site.schedule,
            line: Arc::clone(dpdk.site.line),
            counters: workers.counters(),
            hasher: workers.hasher,
            first: workers.first,
        };
        let threads = start(platform, config, workers.setups, stopping)?;
        cpus::keep_off(dpdk.site.cpus, dpdk.site.usable);
        let (cpus, usable) = (dpdk.site.cpus.to_vec(), dpdk.site.usable.to_vec());
        options.log.run(move || cpus::keep_off(&cpus, &usable));

        let running = Running::new(platform, config, ports, workers.generations);
        let data_plane = SwitchDataPlane::new(running, workers.master, orders, budget_mib);
        let mut core = ControlCore::new(setup, data_plane)?;
        let published = core.published();
        let serving = server.map(|server| serve(server, options, &published));
        let serving = serving.transpose()?;
        let sending = send(sender, config.ipfix.clone(), &published)?;
        let control = spawn(scope, "vernier-control", move || {
            core.run(stopping);
            core
        })?;

        // Packets are forwarded whether the control core works or not.
        let is_over = || {
            let has_ended = threads.iter().any(ScopedJoinHandle::is_finished);
            has_ended || options.stop.load(Ordering::Relaxed)
        };
        let shown = live::attend(options, &published, is_over);
        drop(stop);
        let (elapsed, _ports) = join(threads)?;
        let core = control
            .join()
            .map_err(|_| anyhow!("the control core panicked"))?;
        shown?;
        drop(serving);
        let snapshot = core.finish();
        drop(sending);
        Ok((elapsed, Arc::unwrap_or_clone(snapshot)))
    })
}

/// Starts a thread for each worker.
fn start<'scope, 'pool: 'scope>(
    Dpdk { dpdk, scope }: Dpdk<'scope, '_, 'pool>,
    config: &Config,
    workers: Vec<WorkerSetup<DpdkIo<'pool>>>,
    stopping: &'scope AtomicBool,
) -> Result<Vec<ScopedJoinHandle<'scope, Worked<'pool>>>> {
    let places = dpdk.site.cpus.iter().zip(&config.workers);
    let workers = workers.into_iter().zip(places).enumerate();
    let start = |(n, (worker, (&cpu, config))): (usize, (WorkerSetup<_>, (_, &config::Worker)))| {
        let idle = config.idle;
        let work = move || worker.work(dpdk, cpu, idle, stopping);
        spawn(scope, &format!("vernier-work-{n}"), work)
    };
    workers.map(start).collect()
}

/// Waits for the workers; returns the longest working time, and their ports, which stay open until the control
/// core has read them for the last time.
fn join<'pool>(
    threads: Vec<ScopedJoinHandle<'_, Worked<'pool>>>,
) -> Worked<'pool, Vec<DpdkIo<'pool>>> {
    let mut elapsed = Duration::ZERO;
    let mut ports = Vec::new();
    for worker in threads {
        let (worked, io) = worker.join().map_err(|_| anyhow!("a worker panicked"))??;
        elapsed = elapsed.max(worked);
        ports.push(io);
    }
    Ok((elapsed, ports))
}

/// How long a worker worked, and its ports.
type Worked<'pool, T = DpdkIo<'pool>> = Result<(Duration, T)>;

/// Serves the published snapshots.
fn serve(
    server: http::Server,
    options: &RunOptions<'_>,
    published: &Arc<Published>,
) -> Result<http::Running> {
    let server = match &options.arguments.config {
        Some(_) => server.with_reload(Arc::clone(&options.reload)),
        None => server,
    };
    let serving = server.serve(Arc::clone(published))?;
    tracing::info!("metrics at http://{}/metrics", serving.address());
    Ok(serving)
}

/// Sends the published snapshots to the configured destinations.
fn send(
    sender: Option<Sender>,
    ipfix: Option<config::Ipfix>,
    published: &Arc<Published>,
) -> Result<(Option<sender::Running>, Option<ipfix::Running>)> {
    let reporting = sender.map(|sender| sender.start(Arc::clone(published)));
    let exporting = ipfix.map(|settings| ipfix::start(settings, Arc::clone(published)));
    Ok((
        reporting.transpose().context("cannot send reports")?,
        exporting.transpose().context("cannot export flows")?,
    ))
}

/// Stops all threads when dropped.
struct StopOnDrop<'s>(&'s AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
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

/// Finds all devices, and resolves settings that depend on them.
fn attach_all<'eal>(config: &mut Config, eal: &'eal Eal) -> Result<Vec<AttachedPort<'eal>>> {
    let places = 0..config.ports.len();
    let attach = |place| {
        let attached = devices::attach(config, place, eal)?;
        devices::settle(config, place, &attached);
        Ok(attached)
    };
    places.map(attach).collect()
}

/// The CPU of each worker: as configured, or else near most of its queues.
fn wishes(config: &Config, ports: &[AttachedPort<'_>]) -> Vec<Wish> {
    let node_of = |(place, _): &(usize, u16)| ports[*place].info().numa_socket;
    let wish = |(worker, queues): (&config::Worker, Vec<(usize, u16)>)| {
        let nodes: Vec<u16> = queues.iter().filter_map(node_of).collect();
        let share = |node: u16| nodes.iter().filter(|&&other| other == node).count();
        Wish {
            cpu: worker.core,
            node: nodes.iter().copied().max_by_key(|&node| share(node)),
        }
    };
    config
        .workers
        .iter()
        .zip(config.assignment())
        .map(wish)
        .collect()
}

fn random_number() -> Result<u64> {
    let seed = u128::from_le_bytes(random_seed()?);
    Ok(u64::try_from(seed >> 64)?)
}

// Result of replayed captures.

// Progress of the captures that ports replay.

/// A capture, and how much of it was replayed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Replayed {
    /// Name of the port.
    pub port: String,
    /// The capture.
    pub file: PathBuf,
    /// Packets in all its loops; for an endlessly played capture those of one loop.
    pub packets: u64,
    /// Packets among them that were not due before the switch stopped.
    pub left_packets: u64,
}

/// The captures at the start of a switch; `sources` are by port.
pub fn planned(config: &Config, sources: &[Option<Source>]) -> Vec<Replayed> {
    let ports = config.ports.iter().zip(sources);
    let replayed = ports.filter_map(|(port, source)| {
        let Device::Replay(spec) = &port.device else {
            return None;
        };
        let packets = source.as_ref()?.planned_packets()?;
        Some(Replayed {
            port: port.name.clone(),
            file: spec.file.clone(),
            packets,
            left_packets: packets,
        })
    });
    replayed.collect()
}

/// Counts the remaining packets at the end. Ports that were removed meanwhile are left out.
pub fn finished(mut captures: Vec<Replayed>, snapshot: &Snapshot) -> Vec<Replayed> {
    captures.retain_mut(|capture| {
        let is_it = |port: &&records::snapshot::Port| port.name == capture.port && !port.is_absent;
        let port = snapshot.ports.iter().find(is_it);
        port.is_some_and(|port| {
            capture.left_packets = capture.packets.saturating_sub(port.counts.rx_packets);
            true
        })
    });
    for capture in captures.iter().filter(|capture| capture.left_packets > 0) {
        tracing::warn!(
            "port {}: {} of {} packets of the capture {} were not replayed: they were not due yet",
            capture.port,
            capture.left_packets,
            capture.packets,
            capture.file.display()
        );
    }
    captures
}
