//! Makes devices and the workers' parts from a configuration.
//!
//! ```text
//!  devices (EAL, pools, ports) -> cpus -> workers (plans, lanes, queues, wires)
//!                                           |  rings: shards, FDB, generations
//!                                         links: state, and what is taken down
//! ```
//!
//! Everything that can fail fails here, before the first packet: capture files, EAL, memory, devices.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use contract::change::Change;
use contract::config::{self, Config, Device, Idle, PORTS_MAX, RING_PACKETS, WireKeys};
use contract::counters::{WireCounters, WorkerCounters};
use contract::fdb::{DELTAS, FdbMaster, REPORTS, ReplicaEnd, fdb_rings};
use contract::handover::{ControlEnd, handover};
use contract::ids::{GenerationId, PortIndex, WorkerIndex};
use contract::wire::clock::SharedLine;
use contract::wire::handover::{WireControlEnd, wire_handover};
use dpdk_bindings::{Eal, Port};
use measure::packet::{Hasher, Hashing};
use measure::shard::ShardLayout;
use measure::time::{Epoch, EpochSchedule, TickRate, Ticks};
use rtrb::{Consumer, Producer};
use wire::{Receiver, Sender};

use crate::decide::Decide;
use crate::egress::{EgressLayout, Lane, Relayed};
use crate::flows::Flows;
use crate::generation::{Generation, Generations, Measuring, WorkerGenerations, generations};
use crate::idle::IdlePolicy;
use crate::meter::{Arounds, Devices, Meter, Plan, SegmentMap};
use crate::packet_io::dpdk::{DpdkIo, Handles, Inlet};
use crate::packet_io::{PacketIo, PortHandles};
use crate::references::{References, ReferencesLayout};
use crate::source::Source;
use crate::wire::{
    Envelope, HelloGate, Recording, Route, Share, WirePort, WireSetup, Wires, source_address,
};
use crate::worker::Worker;
use cpus::{Cpu, near};
use devices::Pools;

pub mod cpus;
pub mod devices;
pub mod links;
pub mod memif;

/// How long a stopping worker sends its queued packets.
const DRAIN: Duration = Duration::from_millis(200);

/// A random seed for values that must not be predictable.
///
/// # Errors
/// If the system provides no randomness.
pub fn random_seed() -> Result<[u8; 16]> {
    let mut seed = [0; 16];
    getrandom::fill(&mut seed)
        .map_err(|error| anyhow!("the system provides no random seed for the hash: {error}"))?;
    Ok(seed)
}

// Most memory for everything but packets, if the configuration has no budget.

/// The budget of a switch that starts now in MiB: half of the machine's free memory (`MemAvailable`,
/// proc(5)); `None` if unknown.
pub fn budget_of_machine() -> Option<usize> {
    available_mib(Path::new("/")).map(|free| free / 2)
}

/// The machine's free memory in MiB, from `/proc` below `root`.
pub fn available_mib(root: &Path) -> Option<usize> {
    parse_meminfo(&fs::read_to_string(root.join("proc/meminfo")).ok()?)
}

fn parse_meminfo(meminfo: &str) -> Option<usize> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024)
}

// A generation, for all workers and for the control core.

impl Site<'_> {
    /// Makes the workers' and the control core's parts of generation `number`: lanes of the ports at `lanes_of`,
    /// which replace lanes with layouts `old`, wires of those at `wires_of`, and the measuring of all. `now` is the
    /// counter's reading.
    ///
    /// # Errors
    /// Invalid sizes of synopses, keys that were not read, no threads.
    pub fn generations<I: PacketIo<Packet: Send>>(
        &self,
        number: GenerationId,
        config: &Config,
        [lanes_of, wires_of]: [&[usize]; 2],
        old: &[Option<EgressLayout>],
        keys: WireKeys,
        now: Ticks,
    ) -> Result<(Vec<Generation<I>>, Change)> {
        let unchanged = |_| Generation::unchanged(number);
        let mut generations: Vec<_> = self.cpus.iter().map(unchanged).collect();
        self.add_lanes(&mut generations, config, lanes_of, old)?;
        let layout = config.shard_layout(self.rate)?;
        let ends = self.add_plans(&mut generations, config, &layout)?;
        let wires = self.add_wires(&mut generations, config, &keys, wires_of, now)?;
        let change = Change {
            number,
            from: Epoch(0),
            config: config.clone(),
            layout,
            ends,
            wires,
            keys,
        };
        Ok((generations, change))
    }

    /// Adds lanes of the ports at `places`; `old` are the layouts of the lanes that they replace.
    fn add_lanes<I: PacketIo<Packet: Send>>(
        &self,
        generations: &mut [Generation<I>],
        config: &Config,
        places: &[usize],
        old: &[Option<EgressLayout>],
    ) -> Result<()> {
        let mut ways: Vec<Vec<_>> = self.cpus.iter().map(|_| Vec::new()).collect();
        for &place in places {
            for (worker, way) in ways.iter_mut().zip(ways_to(config, place)) {
                worker.push((place, way));
            }
        }
        for (worker, (generation, ways)) in generations.iter_mut().zip(ways).enumerate() {
            let lane = |(place, way): (usize, Way<I::Packet>)| {
                let old = old.get(place).and_then(Option::as_ref);
                let seed = self.seed ^ ((worker as u64) << 32 | place as u64);
                (place, way.lane(config, place, old, self.rate, seed))
            };
            let make = || ways.into_iter().map(lane).collect();
            generation.lanes = near(self.cpus[worker], self.usable, make)?;
        }
        Ok(())
    }

    /// Adds plans, and returns the other ends of their shards; none if nothing is measured.
    fn add_plans<I: PacketIo>(
        &self,
        generations: &mut [Generation<I>],
        config: &Config,
        layout: &ShardLayout,
    ) -> Result<Vec<Option<ControlEnd>>> {
        let mut ends = Vec::new();
        let arounds = self.devices.of(config, self.rate);
        for (worker, (generation, arounds)) in generations.iter_mut().zip(arounds).enumerate() {
            let mut planned = None;
            if config.measurement.enabled {
                let index = WorkerIndex::new(worker);
                let make = || plan(config, index, generation.number, layout, arounds);
                let (plan, end) = near(self.cpus[worker], self.usable, make)??;
                planned = Some(Box::new(plan));
                ends.push(Some(end));
            }
            generation.measuring = Measuring::Changed(planned);
        }
        Ok(ends)
    }

    /// Adds the wires of the ports at `places`, each at the worker that owns its port, or `None` for ports
    /// without a wire.
    fn add_wires<I: PacketIo<Packet: Send>>(
        &self,
        generations: &mut [Generation<I>],
        config: &Config,
        keys: &WireKeys,
        places: &[usize],
        now: Ticks,
    ) -> Result<Vec<(PortIndex, WireControlEnd)>> {
        let mut ends = Vec::new();
        for &place in places {
            let (owner, port) = (config.owner(place).unwrap_or(0), PortIndex::new(place));
            for (worker, generation) in generations.iter_mut().enumerate() {
                let Some(wire) = config.wire(place).filter(|_| worker == owner) else {
                    generation.wires.push((place, None));
                    continue;
                };
                let make = || self.wire(config, keys, (place, wire), now);
                let (wire, end) = near(self.cpus[worker], self.usable, make)?
                    .with_context(|| format!("port {}: wire", config.ports[place].name))?;
                generation.wires.push((place, Some(Box::new(wire))));
                ends.push((port, end));
            }
        }
        Ok(ends)
    }
}

/// Gives each worker its handles of a new port.
pub(crate) fn hand_out<I: PacketIo>(generations: &mut [Generation<I>], handles: Vec<I::Handles>) {
    assert_eq!(generations.len(), handles.len(), "a part for each worker");
    for (generation, handles) in generations.iter_mut().zip(handles) {
        generation.come.push(handles);
    }
}

// Ways out: for each worker a lane for each port, and rings from receiving workers to a port's owner.

/// How one worker reaches one port.
#[derive(Debug)]
pub enum Way<P> {
    /// Directly; others send it their packets through these rings.
    Own(Vec<Consumer<Relayed<P>>>),
    /// Through the worker that owns the port.
    Owner(Producer<Relayed<P>>),
    /// The port is absent.
    Closed,
}

/// How each worker reaches the port at `place`.
pub fn ways_to<P>(config: &Config, place: usize) -> Vec<Way<P>> {
    let workers = 0..config.workers.len();
    if config.ports[place].device == Device::Absent {
        return workers.map(|_| Way::Closed).collect();
    }
    let Some(owner) = config.owner(place) else {
        return workers.map(|_| Way::Own(Vec::new())).collect();
    };
    let mut entrances = Vec::with_capacity(workers.len());
    let mut ways: Vec<Way<P>> = workers
        .map(|worker| {
            if worker == owner {
                return Way::Closed;
            }
            let (ring, entrance) = Lane::ring(RING_PACKETS);
            entrances.push(entrance);
            Way::Owner(ring)
        })
        .collect();
    ways[owner] = Way::Own(entrances);
    ways
}

impl<P> Way<P> {
    /// The lane to the port at `place`. If it replaces another lane, `old` is its layout; `seed` is for
    /// random drops.
    pub fn lane(
        self,
        config: &Config,
        place: usize,
        old: Option<&EgressLayout>,
        rate: TickRate,
        seed: u64,
    ) -> Lane<P> {
        let mtu = config.ports[place].mtu;
        match self {
            Self::Own(entrances) => Lane::own(
                &egress_layout(config, place, old),
                mtu,
                rate,
                seed,
                entrances,
            ),
            Self::Owner(ring) => Lane::relay(ring, mtu),
            Self::Closed => Lane::closed(),
        }
    }
}

/// The egress side of the port at `place`; if it replaces another, `old` is its layout.
pub fn egress_layout(config: &Config, place: usize, old: Option<&EgressLayout>) -> EgressLayout {
    let port = &config.ports[place];
    let layout = EgressLayout::from_config(&port.egress, port.mtu, &config.classes);
    match old {
        Some(old) => layout.to_succeed(old),
        None => layout,
    }
}

// The parts of each worker. They are made on the worker's NUMA node, from the configuration alone: at
// start, and again for every generation.

/// The place of the workers, and everything that does not change while they run.
#[derive(Debug, Clone, Copy)]
pub struct Site<'s> {
    /// The workers' CPUs.
    pub cpus: &'s [usize],
    /// All usable CPUs.
    pub usable: &'s [Cpu],
    /// Rate of the counter.
    pub rate: TickRate,
    /// When epochs begin.
    pub schedule: EpochSchedule,
    /// The clock for TAI, shared with the control core.
    pub line: &'s Arc<SharedLine>,
    /// Other devices that packets are measured around.
    pub devices: &'s Devices,
    /// Where every packet of every wire is recorded, for tests.
    pub recording: Option<&'s Recording>,
    /// Seed of everything random except the packet hash.
    pub seed: u64,
}

/// A site whose packets are DPDK's.
#[derive(Debug, Clone, Copy)]
pub struct DpdkSite<'s> {
    /// The site.
    pub site: Site<'s>,
    /// DPDK.
    pub eal: &'s Eal,
    /// Packet buffers.
    pub pools: &'s Pools<'s>,
}

impl Site<'_> {
    /// A worker's replica of the forwarding, connected to its master by `end`; without `end`, that of a
    /// later generation, which takes over from its predecessor.
    pub fn replica(&self, config: &Config, end: Option<ReplicaEnd>) -> Box<Decide> {
        Box::new(Decide::from_config(config, self.rate, self.seed, end))
    }
}

/// The measuring of a worker in a generation, and the other end of its shards.
///
/// # Errors
/// Invalid sizes of synopses, flows or references.
pub fn plan(
    config: &Config,
    worker: WorkerIndex,
    generation: GenerationId,
    layout: &ShardLayout,
    arounds: Option<Box<Arounds>>,
) -> Result<(Plan, ControlEnd)> {
    let (worker_end, control_end) = handover(layout);
    let flows = config.measurement.flows.as_ref();
    let flows = flows.map(|flows| Flows::new(flows.slots as usize, flows.select.clone()));
    let references = ReferencesLayout::from_config(config, worker, layout.rate, generation);
    let references = references.map(|layout| References::new(&layout));
    let references = references.transpose().context("measurement.rli")?;
    let plan = Plan {
        handover: worker_end,
        segments: SegmentMap::inside(config),
        hashing: if config.wires().next().is_some() || arounds.is_some() {
            Hashing::Packet
        } else {
            layout.hashing()
        },
        flows,
        stamps_packets: config.measurement.stamps == config::Stamps::Packet,
        arounds,
        references: references.map(Box::new),
    };
    Ok((plan, control_end))
}

/// Each worker's part of a started port: its assigned queues, or the source, and a way out if it needs one.
///
/// # Errors
/// If a queue is missing or taken, which does not happen with a settled configuration.
pub fn handles<'pool>(
    config: &Config,
    index: usize,
    port: &Port<'pool>,
    mut source: Option<Source>,
) -> Result<Vec<Handles<'pool>>> {
    let name = &config.ports[index].name;
    let owner = config.owner(index);
    let mut workers = Vec::new();
    for (worker, queues) in config.assignment().into_iter().enumerate() {
        let mut handles = Handles::room(PortIndex::new(index), queues.len());
        for (_, queue) in queues.into_iter().filter(|(of, _)| *of == index) {
            let rx = port.rx_queue(queue);
            let rx = rx.with_context(|| format!("port {name}: no receive queue {queue}"))?;
            handles.inlets.push(match source.take() {
                Some(source) => Inlet::from(source),
                None => Inlet::Queue(rx),
            });
        }
        if owner.is_none_or(|owner| owner == worker) {
            let queue = if owner.is_some() {
                0
            } else {
                u16::try_from(worker)?
            };
            let tx = port.tx_queue(queue);
            let tx = tx.with_context(|| format!("port {name}: no transmit queue {queue}"))?;
            handles.outlet = Some(tx);
        }
        workers.push(handles);
    }
    Ok(workers)
}

/// Opens the source of a port, if it has one.
///
/// # Errors
/// A capture that cannot be read.
pub fn open_source(port: &config::Port) -> Result<Option<Source>> {
    let source =
        Source::open(&port.device, port.mtu).with_context(|| format!("port {}", port.name))?;
    for warning in source.iter().flat_map(Source::warnings) {
        tracing::warn!("port {}: {warning}", port.name);
    }
    Ok(source)
}

/// Whether `config` has a port at `place`.
pub fn is_present(config: &Config, place: usize) -> bool {
    present(config).any(|present| present == place)
}

/// Indices of present ports.
pub fn present(config: &Config) -> impl Iterator<Item = usize> {
    let is_present =
        |(place, port): (usize, &config::Port)| (port.device != Device::Absent).then_some(place);
    config.ports.iter().enumerate().filter_map(is_present)
}

// Differences between a switch on DPDK and one in memory.

/// What a switch runs on: DPDK, or the memory of a simulation.
pub trait Platform: Clone {
    /// Its packets.
    type Io: PacketIo<Packet: Send>;

    /// A started port, which closes when dropped.
    type Port;

    /// The place of the workers.
    fn site(&self) -> Site<'_>;

    /// The current value of the counter.
    fn now(&self) -> Ticks;

    /// Starts the new port at `place`, and settles what the configuration leaves to its device.
    ///
    /// # Errors
    /// Why it cannot be used, with its name.
    fn start(&self, config: &mut Config, place: usize) -> Result<Self::Port>;

    /// Each worker's part of a started port.
    ///
    /// # Errors
    /// If a queue is missing or taken, which does not happen with a settled configuration.
    fn handles(
        &self,
        config: &Config,
        place: usize,
        port: &Self::Port,
        source: Option<Source>,
    ) -> Result<Vec<<Self::Io as PacketIo>::Handles>>;
}

// Segments on the wire: each worker's part, and the control core's.

/// Ports at which the wire of `config` differs from that of `running`, begins, or ends. Changed keys do not
/// count: the control core sends them to its worker.
pub fn changed_wires(running: &Config, config: &Config) -> Vec<usize> {
    let is_other = |&place: &usize| {
        let (old, new) = (running.wire(place), config.wire(place));
        if old.is_none() && new.is_none() {
            return false;
        }
        let ports = (running.ports.get(place), config.ports.get(place));
        let is_same_port = match ports {
            (Some(old), Some(new)) => {
                (&old.device, old.mtu, &old.egress) == (&new.device, new.mtu, &new.egress)
            }
            _ => false,
        };
        let is_alike = match (old, new) {
            (Some(old), Some(new)) => old.is_same_but_for_keys(new),
            _ => false,
        };
        let are_all_alike = match (&running.wire, &config.wire) {
            (Some(old), Some(new)) => old.is_same_but_for_keys(new),
            (old, new) => old == new,
        };
        let is_same = is_same_port
            && is_alike
            && are_all_alike
            && running.classes == config.classes
            && running.rules == config.rules
            && running.owner(place) == config.owner(place)
            && running.workers.len() == config.workers.len();
        !is_same
    };
    (0..config.ports.len().max(running.ports.len()))
        .filter(is_other)
        .collect()
}

impl Site<'_> {
    /// The wire of the port at `place`, and the control core's end of it. `now` is the counter's reading.
    ///
    /// # Errors
    /// Keys that cannot be read, invalid sizes of synopses.
    pub fn wire<P>(
        &self,
        config: &Config,
        keys: &WireKeys,
        (place, wire): (usize, &config::Wire),
        now: Ticks,
    ) -> Result<(WirePort<P>, WireControlEnd)> {
        let layout = config.wire_layout(place)?;
        let (keys, key) = config.wire_keys(place, keys)?;
        let switch = config.wire_switch();
        let port = PortIndex::new(place);
        let counters = Arc::new(WireCounters::default());
        let (end, control_end) = wire_handover(&layout, Arc::clone(self.line), counters);
        let sender = Sender::new(&layout, switch, port.0.into(), &keys, key)?;
        let receiver = Receiver::new(&layout, keys)?;
        let setup = WireSetup {
            port,
            sender,
            receiver,
            end,
            classes: config.wire_segment_of_class(place),
            envelope: envelope(config, place, wire),
            share: Share::new(
                config.wire_capacity_bps(place),
                wire.share,
                config::REFERENCES_OF_SHARE,
                self.rate,
                now,
            ),
            hellos: HelloGate::new(self.rate, now),
            schedule: self.schedule,
            recorder: (self.recording).map(|recording| recording.recorder(port)),
        };
        Ok((WirePort::new(setup), control_end))
    }
}

fn envelope(config: &Config, place: usize, wire: &config::Wire) -> Envelope {
    let own = source_address(config.wire_switch(), PortIndex::new(place));
    let given = wire.peer.and_then(|peer| peer.source_mac);
    let source = given.map_or(own, |address| address.0);
    match &wire.peer {
        None => Envelope::Link {
            ethertype: wire.ethertype,
            source,
        },
        Some(peer) => Envelope::Route {
            route: Route {
                local: peer.local,
                remote: peer.remote,
                gateway: peer.gateway.0,
                udp_port: peer.udp_port,
                dscp: config.wire_dscps(place),
            },
            source,
        },
    }
}

// The workers before they start, and the control side's ends.

/// All workers, and the control side's ends to them.
pub struct Workers<I: PacketIo> {
    /// The hasher of flows.
    pub hasher: Hasher,
    /// The workers.
    pub setups: Vec<WorkerSetup<I>>,
    /// The channel for its changes.
    pub generations: Vec<Generations<I>>,
    /// The filtering database of all workers.
    pub master: FdbMaster,
    /// The control core's part of the first generation.
    pub first: Change,
}

/// One worker.
pub struct WorkerSetup<I: PacketIo> {
    /// Its counters.
    pub counters: Arc<WorkerCounters>,
    first: Generation<I>,
    decide: Box<Decide>,
    hasher: Hasher,
    generations: WorkerGenerations<I>,
    receiving: Arc<AtomicUsize>,
}

impl<I: PacketIo<Packet: Send>> Workers<I> {
    /// Makes a worker for each of the site's CPUs, with its part of `ports` and `sources`; `keys` are those of the
    /// wires.
    ///
    /// # Errors
    /// Unavailable queues, invalid sizes of synopses, no randomness, no threads.
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
            master: FdbMaster::new(config.fdb_settings(), master_ends),
            first,
        })
    }

    /// Counters of each worker.
    pub fn counters(&self) -> Vec<Arc<WorkerCounters>> {
        let setups = self.setups.iter();
        setups.map(|setup| Arc::clone(&setup.counters)).collect()
    }
}

impl<I: PacketIo> WorkerSetup<I> {
    /// The worker, with an `io` without ports. Gauges are updated every `gauge_ticks`.
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
    /// Works on the calling thread, which runs on `cpu`, until `stop` is set; returns the duration, and the ports
    /// that it had.
    ///
    /// # Errors
    /// If the thread cannot run on its CPU.
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

#[cfg(test)]
mod tests;
