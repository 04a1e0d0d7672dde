//! A complete switch in memory, built like `vernierd`: several workers by one configuration, each with its own view of
//! the ports, the control core's end of everything, and a simulated clock.
#![allow(
    missing_docs,
    missing_debug_implementations,
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "it is for tests, which state plainly what must hold"
)]

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use contract::change::Change;
use contract::config::{Config, Segment, WireKeys};
use contract::counters::{Counter, DropReason, PortCounters, WorkerCounters};
use contract::fdb::FdbMaster;
use contract::handover::{ControlEnd, SealedShard};
use contract::ids::PortIndex;
use contract::wire::clock::SharedLine;
use contract::wire::handover::WireControlEnd;
use measure::packet::Hasher;
use measure::packet::header::{ethernet, ethertype, ipv4, protocol, udp};
use measure::shard::{Shard, ShardLayout, Tally};
use measure::synopsis::Synopsis;
use measure::time::{Epoch, EpochSchedule, TickRate, Ticks};
use switch::meter::Devices;
use switch::packet_io::PacketIo;
use switch::packet_io::memory::{MemoryHandles, MemoryIo, Outlet};
use switch::reconfigurer::{Draft, Job, Next, Preparation, Prepare, Preparing, Running, Target};
use switch::source::Source;
use switch::wiring::{Platform, Site, WorkerSetup, Workers, present};
use switch::worker::Worker;

pub mod wired;

/// Ticks of 1 ns.
pub const GHZ: u64 = 1_000_000_000;

/// Epochs of 1 ms with 0.2 ms of grace.
pub const INTERVAL: u64 = 1_000_000;
pub const GRACE: u64 = 200_000;

pub fn rate() -> TickRate {
    TickRate::from_hz(GHZ)
}

/// Seed of the hashes, unless a configuration sets one.
pub fn hasher() -> Hasher {
    Hasher::new([7; 16])
}

/// A configuration with `ports` in JSON, `workers` workers, and the `rest` of the document. There are enough packets
/// for queues of any length, because none are allocated here.
pub fn config(workers: usize, ports: &str, rest: &str) -> Config {
    let workers = vec!["{}"; workers].join(", ");
    let dpdk = r#""dpdk": {"mbufs": 1048576}"#;
    let json = format!(r#"{{"workers": [{workers}], "ports": [{ports}], {dpdk}, {rest}}}"#);
    let mut config = Config::parse(&json, "test.json").unwrap();
    let seed = &mut config.measurement.hash_seed;
    seed.get_or_insert_with(|| "07".repeat(16));
    config
}

/// A port with this name and further keys.
pub fn port(name: &str, keys: &str) -> String {
    format!(r#"{{"name": "{name}", "device": "net_null_{name}", {keys} "mtu": 1500}}"#)
}

/// The platform of a switch in memory.
#[derive(Debug, Clone)]
pub struct Memory {
    /// All workers are on the only CPU.
    cpus: Arc<[usize]>,
    pub schedule: EpochSchedule,
    pub line: Arc<SharedLine>,
    devices: Arc<Devices>,
    seed: u64,
    ticks: Arc<AtomicU64>,
    closed_in_use: Arc<Mutex<Vec<usize>>>,
}

impl Memory {
    /// A platform for `workers` workers, with the counter at `now`.
    pub fn new(workers: usize, schedule: EpochSchedule, now: Ticks, seed: u64) -> Self {
        Self {
            cpus: vec![0; workers].into(),
            schedule,
            line: Arc::default(),
            devices: Arc::default(),
            seed,
            ticks: Arc::new(now.0.into()),
            closed_in_use: Arc::default(),
        }
    }

    /// Sets the counter that the control core reads.
    pub fn set_now(&self, now: Ticks) {
        self.ticks.store(now.0, Ordering::Relaxed);
    }

    /// Ports that were closed while a worker still used them.
    pub fn take_closed_in_use(&self) -> Vec<usize> {
        std::mem::take(&mut self.closed_in_use.lock().unwrap())
    }
}

/// A port in memory.
pub struct OpenPort {
    place: usize,
    outlet: Outlet,
    closed_in_use: Arc<Mutex<Vec<usize>>>,
}

impl Drop for OpenPort {
    fn drop(&mut self) {
        if Arc::strong_count(&self.outlet) > 1 {
            self.closed_in_use.lock().unwrap().push(self.place);
        }
    }
}

impl Platform for Memory {
    type Io = MemoryIo;
    type Port = OpenPort;

    fn site(&self) -> Site<'_> {
        Site {
            cpus: &self.cpus,
            usable: &[],
            rate: rate(),
            schedule: self.schedule,
            line: &self.line,
            devices: &self.devices,
            recording: None,
            seed: self.seed,
        }
    }

    fn now(&self) -> Ticks {
        Ticks(self.ticks.load(Ordering::Relaxed))
    }

    fn start(&self, _: &mut Config, place: usize) -> Result<OpenPort> {
        Ok(OpenPort {
            place,
            outlet: Outlet::default(),
            closed_in_use: Arc::clone(&self.closed_in_use),
        })
    }

    fn handles(
        &self,
        config: &Config,
        place: usize,
        port: &OpenPort,
        _: Option<Source>,
    ) -> Result<Vec<MemoryHandles>> {
        let handles = |queues: Vec<(usize, u16)>| {
            let inlets = queues.into_iter().filter(|(of, _)| *of == place);
            MemoryHandles {
                port: PortIndex::new(place),
                inlets: inlets.map(|_| VecDeque::new()).collect(),
                outlet: Some(Outlet::clone(&port.outlet)),
            }
        };
        Ok(config.assignment().into_iter().map(handles).collect())
    }
}

impl Prepare for Memory {
    fn prepare(&self, preparation: Preparation<Self>) -> Result<Preparing<Next<Self>>> {
        Ok(Job::done(preparation.make()))
    }
}

/// One worker and its delays.
pub struct RackWorker {
    pub worker: Worker<MemoryIo>,
    pub counters: Arc<WorkerCounters>,
    /// By how much its counter is ahead of the first worker's.
    pub skew_ticks: u64,
    pub stalled_until: u64,
}

/// The workers of a switch.
pub struct RackWorkers(Vec<RackWorker>);

impl Deref for RackWorkers {
    type Target = Vec<RackWorker>;

    fn deref(&self) -> &Vec<RackWorker> {
        &self.0
    }
}

impl DerefMut for RackWorkers {
    fn deref_mut(&mut self) -> &mut Vec<RackWorker> {
        &mut self.0
    }
}

impl RackWorkers {
    /// Delivers a frame to the queue selected by the device's hash.
    pub fn arrive(&mut self, port: usize, frame: Vec<u8>) {
        self.arrive_as(port, frame, None);
    }

    /// Like `offer`, with a numbered frame; returns whether a worker receives it.
    pub fn arrive_as(&mut self, port: usize, frame: Vec<u8>, number: Option<u64>) -> bool {
        let hash = (frame.iter()).fold(0_u32, |hash, &byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        let port = PortIndex::new(port);
        let ios = self.iter_mut().map(|one| one.worker.io_mut());
        let mut serving: Vec<_> = ios.filter(|io| io.inlets().contains(&port)).collect();
        let picked = hash as usize % serving.len().max(1);
        let io = serving.get_mut(picked);
        io.is_some_and(|io| io.arrive_as(port, frame, number))
    }

    /// Delivers a frame to a worker's queue of a port.
    pub fn arrive_at(&mut self, worker: usize, port: usize, frame: Vec<u8>) {
        let io = self.0[worker].worker.io_mut();
        io.arrive(PortIndex::new(port), frame);
    }

    /// Lets a port accept `room` more packets from each worker; `None` is unlimited.
    pub fn set_room(&mut self, port: usize, room: Option<usize>) {
        for one in &mut self.0 {
            one.worker.io_mut().set_room(PortIndex::new(port), room);
        }
    }

    /// Takes the frames that a port has sent since the last call, with their times.
    pub fn departed(&mut self, port: usize) -> Vec<(u64, Vec<u8>)> {
        let ios = self.iter_mut().map(|one| one.worker.io_mut());
        let departed = ios.flat_map(|io| io.departed(PortIndex::new(port)));
        departed.map(|(at, p)| (at.0, p.bytes().to_vec())).collect()
    }

    /// Takes the frames that a port has sent, without times.
    pub fn frames(&mut self, port: usize) -> Vec<Vec<u8>> {
        let departed = self.departed(port).into_iter();
        departed.map(|(_, frame)| frame).collect()
    }

    /// A counter, summed over all ports and workers.
    pub fn sum(&self, of: impl Fn(&PortCounters) -> u64) -> u64 {
        let ports = self.iter().flat_map(|one| &one.counters.ports);
        ports.map(of).sum()
    }

    /// A counter of one port, summed over all workers.
    pub fn sum_at(&self, port: usize, of: impl Fn(&PortCounters) -> u64) -> u64 {
        let ports = self.iter().map(|one| &one.counters.ports[port]);
        ports.map(of).sum()
    }

    pub fn dropped(&self, port: usize, reason: DropReason) -> u64 {
        self.sum_at(port, |port| port.drops[reason as usize].get())
    }

    /// All counters of a port that do not depend on how its work is divided among workers.
    pub fn counters_of(&self, port: usize) -> Vec<u64> {
        let mut sums = Vec::new();
        for one in &self.0 {
            let port = &one.counters.ports[port];
            let received = [&port.rx_packets, &port.rx_bytes, &port.copies];
            let sent = [&port.tx_packets, &port.tx_bytes, &port.queued_packets];
            let classes = port.classes.iter();
            let classes = classes.flat_map(|c| [&c.tx_packets, &c.tx_bytes, &c.dropped_packets]);
            let all = received.into_iter().chain(sent).chain(classes);
            let all = all.chain(&port.kinds).chain(&port.drops);
            let counts: Vec<u64> = all.map(Counter::get).collect();
            sums.resize(counts.len(), 0);
            sums.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
        }
        sums
    }

    /// received + copies = transmitted + dropped + queued, over all ports.
    pub fn assert_conserved(&self) {
        let came = self.sum(|port| port.rx_packets.get() + port.copies.get());
        let went = self.sum(|port| port.tx_packets.get() + port.dropped_total());
        assert_eq!(came, went + self.sum(|port| port.queued_packets.get()));
    }

    /// Packets that exist anywhere.
    pub fn live_packets(&mut self) -> usize {
        let ios = self.iter_mut().map(|one| one.worker.io_mut());
        ios.map(|io| io.live_packets()).sum()
    }
}

/// A started switch, and the control core's ends of its connections.
pub struct Started {
    pub workers: RackWorkers,
    pub running: Running<Memory>,
    pub master: FdbMaster,
    pub hasher: Hasher,
    pub first: Change,
}

impl Started {
    /// Starts a switch by `config`. Each worker's counter is `skew_ticks` ahead of the previous worker's; gauges are
    /// updated every `gauge_ticks`.
    pub fn new(memory: Memory, config: &Config, skew_ticks: u64, gauge_ticks: u64) -> Result<Self> {
        let start = |place| memory.start(&mut config.clone(), place);
        let ports: Vec<OpenPort> = present(config).map(start).collect::<Result<_, _>>()?;
        let sources = ports.iter().map(|_| None).collect();
        let built = Workers::build(&memory, config, &ports, sources, config.read_wire_keys()?)?;
        let start = |(number, setup): (u64, WorkerSetup<MemoryIo>)| {
            let skew_ticks = number * skew_ticks;
            let counters = Arc::clone(&setup.counters);
            let mut io = MemoryIo::default();
            io.set_now(memory.now().plus(skew_ticks));
            RackWorker {
                worker: setup.start(io, memory.schedule, gauge_ticks),
                counters,
                skew_ticks,
                stalled_until: 0,
            }
        };
        Ok(Self {
            workers: RackWorkers((0..).zip(built.setups).map(start).collect()),
            running: Running::new(memory, config, ports, built.generations),
            master: built.master,
            hasher: built.hasher,
            first: built.first,
        })
    }
}

/// The control core's ends of a generation's shards, and their segments.
struct Ends {
    segments: Vec<Segment>,
    /// Each with the last epoch received.
    ends: Vec<(ControlEnd, Option<Epoch>)>,
}

impl Ends {
    fn of(change: &mut Change) -> Self {
        Self {
            segments: change.config.segments(),
            ends: (change.ends.drain(..).flatten())
                .map(|end| (end, None))
                .collect(),
        }
    }
}

pub struct Rack {
    pub workers: RackWorkers,
    pub running: Running<Memory>,
    pub master: FdbMaster,
    pub now: u64,
    /// The control core's ends of the wires.
    pub wires: Vec<(PortIndex, WireControlEnd)>,
    pub keys: WireKeys,
    /// By generation.
    ends: Vec<Ends>,
    /// Epochs that workers missed in finished generations.
    missed_epochs: u64,
    layout: ShardLayout,
    /// The sums of all workers by epoch, and the number of workers.
    sums: BTreeMap<u64, (usize, Shard)>,
    /// Packets sent, received, dropped and late, by ingress and egress, over all epochs and generations.
    pub tallies: BTreeMap<(usize, usize), Tally>,
}

impl Deref for Rack {
    type Target = RackWorkers;

    fn deref(&self) -> &RackWorkers {
        &self.workers
    }
}

impl DerefMut for Rack {
    fn deref_mut(&mut self) -> &mut RackWorkers {
        &mut self.workers
    }
}

impl Rack {
    pub fn new(config: &Config) -> Self {
        Self::with(config, EpochSchedule::new(Ticks(0), INTERVAL, GRACE))
    }

    /// A switch whose epochs differ from its configuration.
    pub fn with(config: &Config, schedule: EpochSchedule) -> Self {
        let seed = 0x9e37_79b9_7f4a_7c15;
        let memory = Memory::new(config.workers.len(), schedule, Ticks(0), seed);
        let gauge_ticks = 10 * schedule.interval_ticks();
        let mut started = Started::new(memory, config, 0, gauge_ticks).unwrap();
        Self {
            workers: started.workers,
            running: started.running,
            master: started.master,
            now: 0,
            ends: vec![Ends::of(&mut started.first)],
            missed_epochs: 0,
            layout: started.first.layout,
            wires: started.first.wires,
            keys: started.first.keys,
            sums: BTreeMap::new(),
            tallies: BTreeMap::new(),
        }
    }

    /// Runs one pass of every worker, the last first, so that packets passed to the first worker leave in the same
    /// pass. Returns the number of packets that each worker moved.
    pub fn pass(&mut self, now: u64) -> Vec<usize> {
        self.now = now;
        self.running.platform.set_now(Ticks(now));
        let mut moved: Vec<usize> = Vec::new();
        for one in self.workers.iter_mut().rev() {
            one.worker.io_mut().set_now(Ticks(now));
            moved.insert(0, one.worker.pass());
        }
        moved
    }

    /// Runs one pass of every worker, then adds up the shards received.
    pub fn pass_at(&mut self, now: u64) -> Vec<usize> {
        let moved = self.pass(now);
        self.collect();
        moved
    }

    /// Lets the control core receive reports of addresses and distribute them.
    pub fn poll_master(&mut self) {
        self.master.poll(Duration::from_nanos(self.now));
    }

    /// Sends all workers a generation by `config` that begins with epoch `from`, as a reload does. Returns `false`
    /// while another generation is in progress, or if nothing changes.
    pub fn reload(&mut self, config: Config, from: Epoch) -> bool {
        if !self.running.release(Epoch(0)) {
            return false;
        }
        let draft = Draft::of(config, &self.running.config, None).unwrap();
        let Some(job) = self.running.prepare(draft).unwrap() else {
            return false;
        };
        let (mut change, next) = job.poll().unwrap().unwrap();
        self.ends.push(Ends::of(&mut change));
        self.running.apply(next, from);
        let settings = self.running.config.fdb_settings();
        self.master.reconfigure(settings);
        true
    }

    /// Passes each received shard with the segments of its generation to `see`, and returns the shards.
    pub fn take_sealed(&mut self, look: impl FnMut(&[Segment], &mut SealedShard)) {
        self.missed_epochs += take_sealed(&mut self.ends, look);
    }

    /// Epochs that workers could not measure.
    pub fn missed_epochs(&self) -> u64 {
        let ends = self.ends.iter().flat_map(|ends| &ends.ends);
        self.missed_epochs + ends.map(|(end, _)| end.missed_epochs()).sum::<u64>()
    }

    /// The tally of segment `segment` in each epoch that one worker has sealed.
    pub fn sealed_tallies(&mut self, segment: usize) -> Vec<(u64, Tally)> {
        let mut sealed = Vec::new();
        self.take_sealed(|_, shard| {
            sealed.push((shard.epoch().0, shard.segments()[segment].tally));
        });
        sealed
    }

    /// Adds up the received shards.
    pub fn collect(&mut self) {
        self.missed_epochs += take_sealed(&mut self.ends, |segments, shard| {
            for (segment, synopsis) in segments.iter().zip(shard.segments()) {
                let of = (segment.ingress, segment.egress);
                let tally: &mut Tally = self.tallies.entry(of).or_default();
                tally.merge(&synopsis.tally);
            }
            let blank = || (0, Shard::new(&self.layout));
            let sums = self.sums.entry(shard.epoch().0);
            let (workers, sum) = sums.or_insert_with(blank);
            // Shards of another shape have been added to the tallies.
            if sum.merge(&shard.complete([])).is_ok() {
                *workers += 1;
            }
        });
    }

    /// Packets sent, received, dropped and late.
    pub fn ledger(&self) -> Tally {
        sum(self.tallies.values())
    }

    /// The sums of epochs that every worker has sealed, once.
    pub fn take_epochs(&mut self) -> Vec<(u64, Shard)> {
        let all = self.workers.len();
        let whole = self.sums.extract_if(.., |_, (workers, _)| *workers == all);
        whole.map(|(epoch, (_, sum))| (epoch, sum)).collect()
    }

    /// Lets all queued packets leave, and seals the open epochs.
    pub fn settle(&mut self) {
        for port in 0..self.running.config.ports.len() {
            self.set_room(port, None);
        }
        for _ in 0..100_000 {
            self.pass_at(self.now + INTERVAL / 10);
            if self.sum(|port| port.queued_packets.get()) == 0 {
                break;
            }
        }
        for _ in 0..6 {
            self.pass_at(self.now + INTERVAL);
        }
        assert_eq!(self.sum(|port| port.queued_packets.get()), 0);
    }
}

/// Passes on shards and returns them; returns the epochs missed in finished generations.
fn take_sealed(ends: &mut Vec<Ends>, mut look: impl FnMut(&[Segment], &mut SealedShard)) -> u64 {
    let mut missed = 0;
    ends.retain_mut(|Ends { segments, ends }| {
        ends.retain_mut(|(end, last)| {
            let is_over = end.is_over();
            while let Some(mut shard) = end.take_sealed() {
                let epoch = Some(shard.epoch());
                assert!(last.replace(shard.epoch()) < epoch, "an epoch comes once");
                look(segments, &mut shard);
                end.give_back(shard, []);
            }
            missed += if is_over { end.missed_epochs() } else { 0 };
            !is_over
        });
        !ends.is_empty()
    });
    missed
}

fn sum<'t>(tallies: impl IntoIterator<Item = &'t Tally>) -> Tally {
    let mut sum = Tally::default();
    for tally in tallies {
        sum.merge(tally);
    }
    sum
}

/// Packets sent, received, dropped and late, over all segments and epochs.
pub fn ledger<'s>(shards: impl IntoIterator<Item = &'s Shard>) -> Tally {
    let segments = shards.into_iter().flat_map(Shard::segments);
    sum(segments.map(|segment| &segment.tally))
}

/// A UDP datagram of flow `flow` distinguished from others by `n`, `len_bytes` long (60 at least).
pub fn udp(flow: u16, n: u32, len_bytes: usize) -> Vec<u8> {
    between([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], flow, n, len_bytes)
}

/// The same datagram, from one station to another.
pub fn between(
    destination: [u8; 6],
    source: [u8; 6],
    flow: u16,
    n: u32,
    len_bytes: usize,
) -> Vec<u8> {
    let len_bytes = len_bytes.max(ethernet::FRAME_BYTES_MIN);
    let segment_bytes = len_bytes - ethernet::BYTES - ipv4::BYTES;
    let [here, there] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(Ipv4Addr::from);
    let ethernet = ethernet::Repr {
        destination,
        source,
        ethertype: ethertype::IPV4,
    };
    let [.., high, low] = n.to_be_bytes();
    let ip = ipv4::Repr {
        id: u16::from_be_bytes([high, low]),
        fragment: 0,
        ..ipv4::Repr::new(here, there, protocol::UDP, segment_bytes)
    };
    let udp = udp::Repr::new(flow, 53, segment_bytes - udp::BYTES);
    let mut frame = [
        &ethernet.emit()[..],
        &ip.emit(),
        &udp.emit(),
        &n.to_be_bytes(),
    ]
    .concat();
    frame.resize(len_bytes, 0);
    frame
}
