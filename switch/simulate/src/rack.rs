//! A whole switch in a test tube: several workers by one configuration, each with its own view of
//! ports in memory, the control core's end of everything, and a clock turned by hand.
#![allow(
    missing_docs,
    missing_debug_implementations,
    clippy::missing_panics_doc,
    clippy::return_self_not_must_use,
    clippy::new_without_default,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "it is for tests, and says what must hold in the plainest way"
)]

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use contract::config::Config;
use contract::counters::{Counter, DropReason, PortCounters, WorkerCounters};
use contract::fdb::{DELTAS, FdbMaster, MasterEnd, REPORTS, ReplicaEnd, fdb_rings};
use contract::handover::{ControlEnd, handover};
use contract::ids::PortIndex;
use measure::packet::header::{ethernet, ethertype, ipv4, protocol, udp};
use measure::packet::{Hasher, Hashing};
use measure::shard::{Shard, ShardLayout, Tally};
use measure::synopsis::Synopsis;
use measure::time::{EpochSchedule, TickRate, Ticks};
use switch::decide::Decide;
use switch::egress::EgressLayout;
use switch::egress::Lane;
use switch::generation::{WorkerEnds, generations};
use switch::meter::{Arounds, Devices, Meter, Plan, SegmentMap};
use switch::packet_io::memory::{MemoryIo, MemoryPacket};
use switch::wiring::{egress_layout, ways_to};
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

pub fn hasher() -> Hasher {
    Hasher::new([7; 16])
}

/// A configuration: `ports` in JSON, as many workers, and `rest` of the document. There are packets enough for
/// queues of any length, since none are allocated here.
pub fn config(workers: usize, ports: &str, rest: &str) -> Config {
    let workers = vec!["{}"; workers].join(", ");
    let dpdk = r#""dpdk": {"mbufs": 1048576}"#;
    let json = format!(r#"{{"workers": [{workers}], "ports": [{ports}], {dpdk}, {rest}}}"#);
    Config::parse(&json, "test.json").unwrap()
}

/// A port by that name, with further keys.
pub fn port(name: &str, keys: &str) -> String {
    format!(r#"{{"name": "{name}", "device": "net_null_{name}", {keys} "mtu": 1500}}"#)
}

/// One worker and the control side's ends of what leads to it.
pub struct RackWorker {
    pub worker: Worker<MemoryIo>,
    pub counters: Arc<WorkerCounters>,
    /// One for each generation of what is measured.
    pub controls: Vec<ControlEnd>,
}

pub struct Rack {
    pub config: Config,
    pub workers: Vec<RackWorker>,
    /// Where generations go.
    pub ends: WorkerEnds<MemoryIo>,
    pub master: FdbMaster,
    pub now: u64,
    /// Devices of others that packets are measured around.
    pub devices: Devices,
    layout: ShardLayout,
    /// What all workers gave, by epoch, and how many did.
    sums: BTreeMap<u64, (usize, Shard)>,
}

impl Rack {
    pub fn new(config: Config) -> Self {
        let layout = config.shard_layout(rate()).unwrap();
        let receiving = Arc::new(AtomicUsize::new(config.workers.len()));
        let (mut workers, mut ends) = (Vec::new(), Vec::new());
        let mut master_ends: Vec<MasterEnd> = Vec::new();
        let devices = Devices::default();
        let arounds = devices.of(&config, rate());
        let workers_of = config.assignment().into_iter().zip(ways_out(&config));
        for ((queues, lanes), arounds) in workers_of.zip(arounds) {
            let (plan, control) = plan(&config, arounds);
            let schedule = EpochSchedule::new(Ticks(0), INTERVAL, GRACE);
            let meter = Meter::new(hasher(), schedule, Some(plan), Ticks(0));
            let (replica_end, master_end) = fdb_rings(REPORTS, DELTAS);
            master_ends.push(master_end);
            let inlets = queues
                .iter()
                .map(|&(port, _)| PortIndex::new(port))
                .collect();
            let counters = Arc::new(WorkerCounters::new(config.ports.len()));
            let (generations, worker_generations) = generations();
            let worker = Worker::new(
                MemoryIo::with_inlets(config.ports.len(), inlets),
                lanes,
                Box::new(decide(&config, Some(replica_end))),
                meter,
                Arc::clone(&counters),
                worker_generations,
                Arc::clone(&receiving),
                10 * INTERVAL,
            );
            workers.push(RackWorker {
                worker,
                counters,
                controls: vec![control],
            });
            ends.push(generations);
        }
        Self {
            master: FdbMaster::from_settings(config.fdb_settings(), master_ends),
            config,
            workers,
            ends: WorkerEnds::new(ends),
            devices,
            now: 0,
            layout,
            sums: BTreeMap::new(),
        }
    }

    /// Lets a frame come in where the device's hash would put it: by what is in it.
    pub fn arrive(&mut self, port: usize, frame: Vec<u8>) {
        let hash = (frame.iter()).fold(0u32, |hash, &byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        });
        let serving: Vec<usize> = (0..self.workers.len())
            .filter(|&rack_worker| {
                self.config.assignment()[rack_worker]
                    .iter()
                    .any(|q| q.0 == port)
            })
            .collect();
        self.arrive_at(serving[hash as usize % serving.len()], port, frame);
    }

    /// Lets a frame come in by that worker's queue of a port.
    pub fn arrive_at(&mut self, worker: usize, port: usize, frame: Vec<u8>) {
        let io = self.workers[worker].worker.io_mut();
        io.arrive(PortIndex::new(port), frame);
    }

    /// Every worker passes once, the last first, so that what is handed over to the first leaves in
    /// the same pass; then the control core does its work. How many packets each worker moved.
    pub fn pass_at(&mut self, now: u64) -> Vec<usize> {
        self.now = now;
        let mut moved: Vec<usize> = Vec::new();
        for rack_worker in self.workers.iter_mut().rev() {
            rack_worker.worker.io_mut().set_now(Ticks(now));
            moved.insert(0, rack_worker.worker.pass());
        }
        self.collect();
        moved
    }

    /// The control core hears of addresses, and says what it heard.
    pub fn poll_master(&mut self) {
        self.master.poll(Duration::from_nanos(self.now));
    }

    /// Lets a port take `room` more packets of each worker; `None`: all.
    pub fn set_room(&mut self, port: usize, room: Option<usize>) {
        for rack_worker in &mut self.workers {
            rack_worker
                .worker
                .io_mut()
                .set_room(PortIndex::new(port), room);
        }
    }

    /// What a port has sent since it was last asked, each with its time.
    pub fn departed(&mut self, port: usize) -> Vec<(u64, Vec<u8>)> {
        let mut departed = Vec::new();
        for rack_worker in &mut self.workers {
            let packets = rack_worker.worker.io_mut().departed(PortIndex::new(port));
            departed.extend(
                packets
                    .into_iter()
                    .map(|(at, p)| (at.0, p.bytes().to_vec())),
            );
        }
        departed
    }

    /// Adds up the shards that came.
    fn collect(&mut self) {
        for control in self
            .workers
            .iter_mut()
            .flat_map(|rack_worker| &mut rack_worker.controls)
        {
            while let Some(mut shard) = control.take_sealed() {
                let blank = || (0, Shard::new(&self.layout));
                let (workers, sum) = self.sums.entry(shard.epoch().0).or_insert_with(blank);
                // Shards of another shape are of a generation that a test looks after by itself.
                if sum.merge(&shard.complete([])).is_ok() {
                    *workers += 1;
                }
                control.give_back(shard, []);
            }
        }
    }

    /// What was sent, received, dropped and late, over all epochs that nobody took.
    pub fn ledger(&self) -> Tally {
        ledger(self.sums.values().map(|(_, sum)| sum))
    }

    /// The sums of epochs that every worker has sealed, once.
    pub fn take_epochs(&mut self) -> Vec<(u64, Shard)> {
        let all = self.workers.len();
        let whole = self.sums.iter().filter(|(_, (workers, _))| *workers == all);
        let whole: Vec<u64> = whole.map(|(&epoch, _)| epoch).collect();
        let take = |epoch| Some((epoch, self.sums.remove(&epoch)?.1));
        whole.into_iter().filter_map(take).collect()
    }

    /// A counter of all ports and all workers.
    pub fn sum(&self, of: impl Fn(&PortCounters) -> u64) -> u64 {
        let ports = self
            .workers
            .iter()
            .flat_map(|rack_worker| &rack_worker.counters.ports);
        ports.map(of).sum()
    }

    /// A counter of one port, of all workers.
    pub fn sum_at(&self, port: usize, of: impl Fn(&PortCounters) -> u64) -> u64 {
        self.workers
            .iter()
            .map(|rack_worker| of(&rack_worker.counters.ports[port]))
            .sum()
    }

    pub fn dropped(&self, port: usize, reason: DropReason) -> u64 {
        self.sum_at(port, |port| port.drops[reason as usize].get())
    }

    /// All counters of a port that do not depend on how its work is shared out.
    pub fn counters_of(&self, port: usize) -> Vec<u64> {
        let plain = |port: &PortCounters| {
            let PortCounters {
                rx_packets,
                rx_bytes,
                tx_packets,
                tx_bytes,
                copies,
                queued_packets,
                kinds,
                drops,
                classes,
                ..
            } = port;
            let all = [
                rx_packets,
                rx_bytes,
                tx_packets,
                tx_bytes,
                copies,
                queued_packets,
            ];
            let classes = classes
                .iter()
                .flat_map(|c| [&c.tx_packets, &c.tx_bytes, &c.dropped_packets]);
            let all = all.into_iter().chain(kinds).chain(drops).chain(classes);
            all.map(Counter::get).collect::<Vec<u64>>()
        };
        let mut sum = Vec::new();
        for rack_worker in &self.workers {
            let counters = plain(&rack_worker.counters.ports[port]);
            sum.resize(counters.len(), 0);
            sum.iter_mut().zip(counters).for_each(|(sum, n)| *sum += n);
        }
        sum
    }

    /// received + copies = transmitted + dropped + queued, over all ports.
    pub fn assert_conserved(&self) {
        let came = self.sum(|port| port.rx_packets.get() + port.copies.get());
        let went = self.sum(|port| port.tx_packets.get() + port.dropped_total());
        assert_eq!(came, went + self.sum(|port| port.queued_packets.get()));
    }

    /// Lets all that waits leave, and seals the epochs that are open.
    pub fn settle(&mut self) {
        for port in 0..self.config.ports.len() {
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

    /// Packets that exist anywhere.
    pub fn live_packets(&mut self) -> usize {
        let live = |rack_worker: &mut RackWorker| rack_worker.worker.io_mut().live_packets();
        self.workers.iter_mut().map(live).sum()
    }
}

/// What was sent, received, dropped and late, over all segments and epochs.
pub fn ledger<'s>(shards: impl IntoIterator<Item = &'s Shard>) -> Tally {
    let mut sum = Tally::default();
    for tally in shards
        .into_iter()
        .flat_map(Shard::segments)
        .map(|s| &s.tally)
    {
        sum.sent += tally.sent;
        sum.received += tally.received;
        sum.dropped += tally.dropped;
        sum.late += tally.late;
    }
    sum
}

/// How a worker measures in a generation, and the control core's end of it.
pub fn plan(config: &Config, arounds: Option<Box<Arounds>>) -> (Box<Plan>, ControlEnd) {
    let (handover, control) = handover(&config.shard_layout(rate()).unwrap());
    let plan = Plan {
        handover,
        segments: SegmentMap::inside(config),
        // What several workers record can then be compared.
        hashing: Hashing::Packet,
        flows: None,
        stamps_packets: false,
        arounds,
        references: None,
    };
    (Box::new(plan), control)
}

/// The layout of a port's egress side.
pub fn egress(config: &Config, port: usize) -> EgressLayout {
    egress_layout(config, port, None)
}

/// Each worker's ways out.
fn ways_out(config: &Config) -> Vec<Vec<Lane<MemoryPacket>>> {
    let mut workers: Vec<Vec<_>> = config.workers.iter().map(|_| Vec::new()).collect();
    for place in 0..config.ports.len() {
        for (worker, way) in workers.iter_mut().zip(ways_to(config, place)) {
            worker.push(way.lane(config, place, None, rate(), place as u64));
        }
    }
    workers
}

/// A worker's forwarding.
pub fn decide(config: &Config, end: Option<ReplicaEnd>) -> Decide {
    Decide::from_config(config, rate(), 0x9e37_79b9_7f4a_7c15, end)
}

/// A UDP datagram of flow `flow` distinguished from others by `n`, `len_bytes` long (60 at least).
pub fn udp(flow: u16, n: u32, len_bytes: usize) -> Vec<u8> {
    between([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], flow, n, len_bytes)
}

/// The same from one station to another.
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
    let mut frame = ethernet.emit().to_vec();
    frame.extend(ip.emit());
    frame.extend(udp.emit());
    frame.extend(n.to_be_bytes());
    frame.resize(len_bytes, 0);
    frame
}
