//! The filtering database: which station is at which port (IEEE 802.1Q clause 8.8).
//!
//! ```text
//!  worker: replica --- Learned ---> control core: master --- FdbDelta ---> every worker's replica
//!          learns at once           puts reports in order                  agrees with the master
//! ```
//!
//! Each worker forwards by a replica of its own, which learns from frames at once and reports what it
//! learns. The [`FdbMaster`] receives the reports of all workers and forwards them to the others in one
//! order. A move is sent to all workers, including the one that reported it, so that replicas which saw two
//! moves in different orders end up alike. Reports and deltas travel through bounded lock-free rings; a
//! replica whose report finds no room repeats it with the station's next frame.
//!
//! Ports share the table fairly: when it is full, a station of the port with the most is evicted for one of
//! a port with fewer. Master and replicas evict by their own counts, a replica among the four stations of a
//! bucket. `max_stations` of a port limits its learnt stations.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rtrb::{Consumer, Producer, RingBuffer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::address::MacAddress;
use crate::ids::{PortIndex, WorkerIndex};
use crate::limits::PORTS_MAX;
use crate::metric::Counter;
use crate::record;

/// Most stations that may be learned behind each port; `u32::MAX` for no limit.
pub type Limits = [u32; PORTS_MAX];

/// Settings of a filtering database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FdbSettings {
    /// Most stations.
    pub stations_max: usize,
    /// A station that is not seen for this long is forgotten.
    pub ageing: Duration,
    /// Stations that never age and never move, with their ports.
    pub statics: Vec<(StationKey, PortIndex)>,
    /// Most stations that may be learned behind each port.
    pub limits: Limits,
    /// Whether a port exists at each index.
    pub are_present: [bool; PORTS_MAX],
}

impl FdbSettings {
    /// Without static stations, limits and absent ports.
    pub fn new(stations_max: usize, ageing: Duration) -> Self {
        Self {
            stations_max,
            ageing,
            statics: Vec::new(),
            limits: [u32::MAX; PORTS_MAX],
            are_present: [true; PORTS_MAX],
        }
    }
}

record! {
    /// Counters of master and replicas.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    pub struct FdbStats {
        /// Times that an address moved to another port.
        #[metric(Counter = "vernier_fdb_moves_total", unit = moves, counted_in = "contract")]
        pub moves: u64,
        /// Reports of new addresses that found no room in the table.
        #[metric(Counter = "vernier_fdb_overflows_total", unit = reports, counted_in = "contract")]
        pub overflows: u64,
        /// Times that a worker had no room for an address; frames to it are flooded.
        #[metric(Counter = "vernier_fdb_replica_overflows_total", unit = times, counted_in = "decide")]
        pub replica_overflows: u64,
        /// Addresses evicted from the full table for one of a port that has fewer.
        #[serde(default)]
        #[metric(Counter = "vernier_fdb_evictions_total", unit = addresses, counted_in = "contract")]
        pub evictions: u64,
        /// Times that a worker evicted an address for one of a port that has fewer.
        #[serde(default)]
        #[metric(Counter = "vernier_fdb_replica_evictions_total", unit = times, counted_in = "decide")]
        pub replica_evictions: u64,
        /// Times that an address was not learnt because its port already had `max_stations`.
        #[serde(default)]
        #[metric(Counter = "vernier_fdb_limited_total", unit = times, counted_in = "contract")]
        pub limited: u64,
        /// Reports of addresses that did not fit into their ring; they are sent again.
        #[metric(Counter = "vernier_fdb_reports_lost_total", unit = reports, counted_in = "contract")]
        pub reports_lost: u64,
        /// Times that a worker that had fallen behind was sent every address again.
        #[metric(Counter = "vernier_fdb_restarts_total", unit = times, counted_in = "contract")]
        pub restarts: u64,
    }
}

/// Most reports in flight from one worker.
pub const REPORTS: usize = 4_096;

/// Most deltas in flight to one worker.
pub const DELTAS: usize = 4_096;

/// While a station is seen, a replica reports it again each time this fraction of the ageing time has
/// passed. Thus the other replicas never age a station that one of them sees.
pub const REFRESHES_PER_AGE: u32 = 4;

/// A station in its VLAN, in 60 bits: VLAN id above 48 bits of address, whose first octet on the
/// wire is the most significant. Learning is independent for each VLAN (802.1Q clause 8.8.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StationKey(pub u64);

impl StationKey {
    /// The station `address` (48 bits) in `vlan` (12 bits; 0: the LAN of ports without VLANs).
    #[inline]
    pub const fn new(vlan: u16, address: u64) -> Self {
        Self((vlan as u64) << 48 | address)
    }

    /// The same for an address from the configuration.
    pub fn of(vlan: u16, address: MacAddress) -> Self {
        let octets = address.0.iter();
        Self::new(
            vlan,
            octets.fold(0, |sum, &octet| sum << 8 | u64::from(octet)),
        )
    }

    /// Its VLAN.
    pub const fn vlan(self) -> u16 {
        (self.0 >> 48) as u16 & 0x0fff
    }

    /// Its address.
    pub fn address(self) -> MacAddress {
        let [_, _, octets @ ..] = self.0.to_be_bytes();
        MacAddress(octets)
    }
}

impl fmt::Display for StationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in VLAN {}", self.address(), self.vlan())
    }
}

/// A replica's report: it saw a frame from a station that is new, has moved, or was not reported for a
/// while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Learned {
    /// The station.
    pub station: StationKey,
    /// The port it is behind.
    pub port: PortIndex,
}

/// A change that the control core sends to a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FdbDelta {
    /// A station is behind `port`, and was seen now.
    Learn {
        /// The station.
        station: StationKey,
        /// The port it is behind.
        port: PortIndex,
    },
    /// A station was forgotten.
    Forget(StationKey),
    /// All stations at this port were forgotten, except static ones.
    Flush(PortIndex),
    /// All but the static entries were forgotten, and all ports have a link; known entries follow.
    Restart,
    /// The link of the port changed. Without a link it is neither flooded nor forwarded to.
    Link {
        /// The port.
        port: PortIndex,
        /// Whether it has one.
        is_up: bool,
    },
}

/// A worker's end of its two rings.
#[derive(Debug)]
pub struct ReplicaEnd {
    reports: Producer<Learned>,
    deltas: Consumer<FdbDelta>,
    shared: Arc<Shared>,
}

/// The control core's end of the same.
#[derive(Debug)]
pub struct MasterEnd {
    reports: Consumer<Learned>,
    deltas: Producer<FdbDelta>,
    shared: Arc<Shared>,
}

/// Shared by both sides in addition to the rings; written by the replica, except that the master clears the
/// request.
#[derive(Debug, Default)]
struct Shared {
    lost: Counter,
    overflows: Counter,
    evictions: Counter,
    limited: Counter,
    wants_all: AtomicBool,
}

/// Counters of a replica since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplicaCounts {
    /// Times that a station found no room, because its bucket was full of live ones of ports with no more
    /// stations.
    pub overflows: u64,
    /// Stations evicted for one of a port that has fewer.
    pub evictions: u64,
    /// Times that a station was not learnt because its port has its limit.
    pub limited: u64,
}

/// Makes both ends for one worker, with room for this many reports and deltas.
pub fn fdb_rings(reports: usize, deltas: usize) -> (ReplicaEnd, MasterEnd) {
    let upwards = RingBuffer::new(reports);
    let downwards = RingBuffer::new(deltas);
    let shared = Arc::new(Shared::default());
    let replica = ReplicaEnd {
        reports: upwards.0,
        deltas: downwards.1,
        shared: Arc::clone(&shared),
    };
    let master = MasterEnd {
        reports: upwards.1,
        deltas: downwards.0,
        shared,
    };
    (replica, master)
}

impl ReplicaEnd {
    /// Reports a station if there is room; otherwise counts it, and the caller reports it again later.
    #[inline]
    pub fn report(&mut self, learned: Learned) -> bool {
        let is_sent = self.reports.push(learned).is_ok();
        if !is_sent {
            self.shared.lost.add(1);
        }
        is_sent
    }

    /// Publishes the replica's counts so far.
    pub fn show(&self, counts: ReplicaCounts) {
        let shared = &self.shared;
        shared.overflows.set(counts.overflows);
        shared.evictions.set(counts.evictions);
        shared.limited.set(counts.limited);
    }

    /// Asks for every entry: the replica is new and empty.
    pub fn ask_for_all(&self) {
        self.shared.wants_all.store(true, Ordering::Release);
    }

    /// Reports in flight.
    pub fn unheard(&self) -> usize {
        self.reports.buffer().capacity() - self.reports.slots()
    }

    /// Whether a delta is queued; costs one load if none is.
    #[inline]
    pub fn has_news(&self) -> bool {
        !self.deltas.is_empty()
    }

    /// The next delta.
    #[inline]
    pub fn next_delta(&mut self) -> Option<FdbDelta> {
        self.deltas.pop().ok()
    }
}

impl MasterEnd {
    /// Sends, if there is room.
    fn send(&mut self, delta: FdbDelta) -> bool {
        self.deltas.push(delta).is_ok()
    }

    /// Whether the replica has asked for everything since the last call.
    fn takes_wish(&self) -> bool {
        let wants_all = &self.shared.wants_all;
        wants_all.load(Ordering::Relaxed) && wants_all.swap(false, Ordering::Acquire)
    }
}

/// All workers.
const EVERYONE: u64 = u64::MAX;

/// How often old entries are looked for.
const SWEEP: Duration = Duration::from_secs(1);

/// The control core's table of all stations. It never blocks and never exceeds its size: a number of
/// stations, and for each worker a queue of stations still to send.
#[derive(Debug)]
pub struct FdbMaster {
    stations: HashMap<StationKey, Known>,
    stations_max: usize,
    shares: Shares,
    ageing: Duration,
    workers: Vec<Line>,
    /// Ports with a link, one bit each.
    up: u64,
    swept: Duration,
    stats: FdbStats,
}

/// One station.
#[derive(Debug, Clone, Copy)]
struct Known {
    port: PortIndex,
    /// Its number in the port's [`Shares`]; 0 for a static station.
    ticket: u64,
    worker: WorkerIndex,
    is_static: bool,
    seen: Duration,
    /// When it was last sent to the workers.
    sent: Duration,
    /// The workers whose queue contains it, one bit each.
    queued: u64,
}

impl Known {
    fn fixed(port: PortIndex) -> Self {
        Self {
            port,
            ticket: 0,
            worker: WorkerIndex(0),
            is_static: true,
            seen: Duration::ZERO,
            sent: Duration::ZERO,
            queued: 0,
        }
    }
}

/// One worker: the rings to it, and changes not yet sent. The queue contains keys only; the state is read
/// when there is room to send it.
#[derive(Debug)]
struct Line {
    end: MasterEnd,
    queue: VecDeque<StationKey>,
    /// Ports whose link state must be sent, one bit each; these go first.
    links: u64,
    /// Ports that it must flush.
    flushes: u64,
    is_restarting: bool,
}

/// One published entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FdbEntry {
    /// The station.
    pub station: StationKey,
    /// The port it is behind.
    pub port: PortIndex,
    /// Whether it is configured; such an entry never ages and never moves.
    pub is_static: bool,
    /// The worker that reported it last; meaningless for a static entry.
    pub worker: WorkerIndex,
    /// Time since that report. A station in steady use is reported a few times in an ageing time.
    pub unreported: Duration,
}

impl FdbMaster {
    /// Makes a database, and sends it to the worker at each of `ends`. All ports are assumed to have a link.
    pub fn new(settings: FdbSettings, ends: Vec<MasterEnd>) -> Self {
        let line = |end| Line {
            end,
            queue: VecDeque::new(),
            links: 0,
            flushes: 0,
            is_restarting: false,
        };
        let mut master = Self {
            stations: HashMap::new(),
            stations_max: 0,
            shares: Shares::new(&settings.limits),
            ageing: settings.ageing,
            workers: ends.into_iter().map(line).collect(),
            up: u64::MAX,
            swept: Duration::ZERO,
            stats: FdbStats::default(),
        };
        master.reconfigure(settings);
        // Replicas may be older than this master.
        for worker in master.all_workers() {
            master.restart(worker);
        }
        master.stats.restarts = 0;
        master
    }

    fn all_workers(&self) -> impl Iterator<Item = WorkerIndex> + use<> {
        (0..self.workers.len()).map(WorkerIndex::new)
    }

    /// Takes up other settings (limits, static stations) and drops stations at ports that are gone. Ports keep their
    /// indices. Before an index is given to another port, the caller flushes it. Workers ask for the entries they
    /// need when they take up the generation.
    pub fn reconfigure(&mut self, settings: FdbSettings) {
        let FdbSettings {
            stations_max,
            ageing,
            statics,
            limits,
            are_present,
        } = settings;
        (self.stations_max, self.ageing) = (stations_max, ageing);
        let is_there = |port: PortIndex| are_present.get(port.index()) == Some(&true);
        let fixed: HashSet<StationKey> = statics.iter().map(|(station, _)| *station).collect();
        let room = stations_max.saturating_sub(statics.len());
        self.shares = Shares::new(&limits);
        let old = std::mem::replace(&mut self.stations, HashMap::with_capacity(stations_max));
        for (station, mut known) in old {
            let is_learnt = !known.is_static && !fixed.contains(&station);
            let has_room = self.stations.len() < room && !self.shares.is_full(known.port);
            if is_learnt && is_there(known.port) && has_room {
                known.ticket = self.shares.enter(known.port, station);
                self.stations.insert(station, known);
            }
        }
        let fixed = statics.into_iter().take(stations_max);
        self.stations
            .extend(fixed.map(|(station, port)| (station, Known::fixed(port))));
    }

    /// Bytes of a database of this many stations, with queues for `workers` workers.
    pub const fn size_bytes(stations_max: usize, workers: usize) -> usize {
        // A hash table is at most 7/8 full and has a power of two of entries.
        let entries = (stations_max * 8).div_ceil(7).next_power_of_two();
        let queue = 2 * stations_max * size_of::<StationKey>();
        let table = entries * (size_of::<(StationKey, Known)>() + 1);
        table + Shares::size_bytes(stations_max) + workers * queue
    }

    /// Reads the reports of all workers, forgets old stations, and sends as many changes as the rings have
    /// room for. `now` is any monotonic clock.
    pub fn poll(&mut self, now: Duration) {
        for worker in self.all_workers() {
            let wants_all = self.workers[worker.index()].end.takes_wish();
            for _ in 0..REPORTS {
                let Ok(learned) = self.workers[worker.index()].end.reports.pop() else {
                    break;
                };
                self.hear(worker, learned, now);
            }
            // After its earlier reports, which the worker may have forgotten.
            if wants_all {
                self.restart(worker);
            }
        }
        if now.saturating_sub(self.swept) >= SWEEP {
            self.swept = now;
            self.forget_the_old(now);
        }
        for worker in self.all_workers() {
            self.send(worker);
        }
    }

    fn hear(&mut self, worker: WorkerIndex, learned: Learned, now: Duration) {
        let Learned { station, port } = learned;
        // Sent before the replica knew that the link is down.
        if self.up & port_bit(port) == 0 {
            return;
        }
        let others = !worker_bit(worker);
        if let Some(known) = self.stations.get_mut(&station) {
            if known.is_static {
                return;
            }
            (known.seen, known.worker) = (now, worker);
            if known.port != port {
                self.stats.moves += 1;
                self.move_to(port, station, now);
            } else if now.saturating_sub(known.sent) >= self.ageing / REFRESHES_PER_AGE / 2 {
                self.queue(station, others, now);
            }
            return;
        }
        if self.shares.is_full(port) {
            self.stats.limited += 1;
            // The replica did not yet know how many stations other workers had learnt.
            return self.queue(station, !others, now);
        }
        if self.stations.len() >= self.stations_max && !self.make_room(port, now) {
            self.stats.overflows += 1;
            return;
        }
        let known = Known {
            port,
            ticket: self.shares.enter(port, station),
            worker,
            is_static: false,
            seen: now,
            sent: now,
            queued: 0,
        };
        self.stations.insert(station, known);
        self.queue(station, others, now);
    }

    /// A known station was seen at another port.
    fn move_to(&mut self, port: PortIndex, station: StationKey, now: Duration) {
        if self.shares.is_full(port) {
            self.stats.limited += 1;
            // It is not at its old port, and must not be at the new one: its place is unknown.
            self.forget(station, now);
            return;
        }
        let ticket = self.shares.enter(port, station);
        if let Some(known) = self.stations.get_mut(&station) {
            self.shares.leave(known);
            (known.port, known.ticket) = (port, ticket);
        }
        self.queue(station, EVERYONE, now);
    }

    /// Evicts a station for one at `port`, if `port` has fewer than another port.
    fn make_room(&mut self, port: PortIndex, now: Duration) -> bool {
        let Some(station) = self.shares.evict(port) else {
            return false;
        };
        self.stats.evictions += 1;
        self.forget(station, now)
    }

    /// Queues `station` for those of `workers` whose queue does not contain it. If it is not in the table, they will
    /// forget it.
    fn queue(&mut self, station: StationKey, workers: u64, now: Duration) {
        if let Some(known) = self.stations.get_mut(&station) {
            known.sent = now;
        }
        for worker in self.all_workers() {
            let bit = worker_bit(worker);
            let known = self.stations.get_mut(&station);
            let waits = known.as_ref().is_some_and(|known| known.queued & bit != 0);
            if workers & bit == 0 || waits {
                continue;
            }
            let queue = &mut self.workers[worker.index()].queue;
            // A station in the table is queued once at most; forgotten stations may pile up if a worker
            // does not read.
            if queue.len() >= 2 * self.stations_max {
                self.restart(worker);
                continue;
            }
            queue.push_back(station);
            if let Some(known) = known {
                known.queued |= bit;
            }
        }
    }

    /// Sends every entry to a worker again.
    pub fn restart(&mut self, worker: WorkerIndex) {
        let Some(line) = self.workers.get_mut(worker.index()) else {
            return;
        };
        self.stats.restarts += 1;
        line.is_restarting = true;
        line.flushes = 0;
        line.links = !self.up;
        line.queue.clear();
        for (&station, known) in &mut self.stations {
            if !known.is_static {
                known.queued |= worker_bit(worker);
                line.queue.push_back(station);
            }
        }
    }

    fn send(&mut self, worker: WorkerIndex) {
        let line = &mut self.workers[worker.index()];
        if line.is_restarting && !line.end.send(FdbDelta::Restart) {
            return;
        }
        line.is_restarting = false;
        for port in ports_in(line.links) {
            let is_up = self.up & port_bit(port) != 0;
            if !line.end.send(FdbDelta::Link { port, is_up }) {
                return;
            }
            line.links &= !port_bit(port);
        }
        for port in ports_in(line.flushes) {
            if !line.end.send(FdbDelta::Flush(port)) {
                return;
            }
            line.flushes &= !port_bit(port);
        }
        while !line.end.deltas.is_full() {
            let Some(station) = line.queue.pop_front() else {
                return;
            };
            let delta = match self.stations.get_mut(&station) {
                Some(known) => {
                    known.queued &= !worker_bit(worker);
                    let port = known.port;
                    FdbDelta::Learn { station, port }
                }
                None => FdbDelta::Forget(station),
            };
            line.end.send(delta);
        }
    }

    /// A replica reports a station that it sees every quarter of the ageing time. A station not reported
    /// for one and a quarter ageing times is too old everywhere, so workers need no message.
    fn forget_the_old(&mut self, now: Duration) {
        let limit = self.ageing + self.ageing / REFRESHES_PER_AGE;
        self.keep(|known| now.saturating_sub(known.seen) <= limit);
    }

    /// Keeps static stations, and others for which `stays` returns true.
    fn keep(&mut self, stays: impl Fn(&Known) -> bool) {
        let shares = &mut self.shares;
        self.stations.retain(|_, known| {
            let stays = known.is_static || stays(known);
            if !stays {
                shares.leave(known);
            }
            stays
        });
    }

    /// Forgets a station everywhere; returns false if it is unknown or static.
    pub fn forget(&mut self, station: StationKey, now: Duration) -> bool {
        let is_known = self.stations.get(&station);
        if is_known.is_none_or(|known| known.is_static) {
            return false;
        }
        self.queue(station, EVERYONE, now);
        let known = self.stations.remove(&station);
        known.is_some_and(|known| {
            self.shares.leave(&known);
            true
        })
    }

    /// Forgets all stations at a port everywhere, except static ones.
    pub fn flush(&mut self, port: PortIndex) {
        self.keep(|known| known.port != port);
        for line in &mut self.workers {
            line.flushes |= port_bit(port);
        }
    }

    /// Sets the link state of a port. Without a link its stations are forgotten everywhere, and no frames
    /// are sent there.
    pub fn set_link(&mut self, port: PortIndex, is_up: bool) {
        let bit = port_bit(port);
        if (self.up & bit != 0) == is_up {
            return;
        }
        self.up ^= bit;
        if !is_up {
            self.flush(port);
        }
        for line in &mut self.workers {
            line.links |= bit;
        }
    }

    /// All entries, in no particular order.
    pub fn entries(&self, now: Duration) -> impl Iterator<Item = FdbEntry> {
        self.stations.iter().map(move |(&station, known)| FdbEntry {
            station,
            port: known.port,
            is_static: known.is_static,
            worker: known.worker,
            unreported: now.saturating_sub(known.seen),
        })
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.stations.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.stations.is_empty()
    }

    /// Counters of the master and the replicas.
    pub fn stats(&self) -> FdbStats {
        let mut stats = self.stats;
        for Line { end, .. } in &self.workers {
            stats.reports_lost += end.shared.lost.get();
            stats.replica_overflows += end.shared.overflows.get();
            stats.replica_evictions += end.shared.evictions.get();
            stats.limited += end.shared.limited.get();
        }
        stats
    }

    /// The ends to all workers, for a new master.
    pub fn into_ends(self) -> Vec<MasterEnd> {
        self.workers.into_iter().map(|line| line.end).collect()
    }
}

/// No bit for a port out of range, which no configuration has.
fn port_bit(port: PortIndex) -> u64 {
    1u64.checked_shl(u32::from(port.0)).unwrap_or(0)
}

fn worker_bit(worker: WorkerIndex) -> u64 {
    1 << (worker.0 % 64)
}

fn ports_in(set: u64) -> impl Iterator<Item = PortIndex> {
    (0..64)
        .map(PortIndex)
        .filter(move |&port| set & port_bit(port) != 0)
}

/// The learnt stations, by port.
#[derive(Debug)]
struct Shares {
    ports: Vec<Share>,
    next_ticket: u64,
}

/// One port's.
#[derive(Debug)]
struct Share {
    stations_max: usize,
    /// Its stations by their numbers: in the order in which they were learnt.
    stations: BTreeMap<u64, StationKey>,
}

impl Shares {
    fn new(limits: &Limits) -> Self {
        let share = |&limit: &u32| Share {
            stations_max: limit as usize,
            stations: BTreeMap::new(),
        };
        Self {
            ports: limits.iter().map(share).collect(),
            next_ticket: 0,
        }
    }

    /// Most bytes of the shares of this many stations.
    const fn size_bytes(stations_max: usize) -> usize {
        // Nodes of a B-tree have 11 entries and at least 5 are filled; above the leaves are further nodes.
        (stations_max / 5 + PORTS_MAX) * (12 * size_of::<(u64, StationKey)>()) * 5 / 4
    }

    fn share(&mut self, port: PortIndex) -> &mut Share {
        let last = self.ports.len() - 1;
        &mut self.ports[port.index().min(last)]
    }

    /// Whether a port has its limit of stations.
    fn is_full(&mut self, port: PortIndex) -> bool {
        let share = self.share(port);
        share.stations.len() >= share.stations_max
    }

    /// Adds a station at `port`; returns the number that it keeps.
    fn enter(&mut self, port: PortIndex, station: StationKey) -> u64 {
        self.next_ticket += 1;
        let ticket = self.next_ticket;
        self.share(port).stations.insert(ticket, station);
        ticket
    }

    /// Removes a station from its port.
    fn leave(&mut self, known: &Known) {
        let left = self.share(known.port).stations.remove(&known.ticket);
        debug_assert!(left.is_some(), "{known:?} is not in its port's share");
    }

    /// Evicts the oldest station of the port with the most, unless that port would then have fewer than `port`.
    fn evict(&mut self, port: PortIndex) -> Option<StationKey> {
        let own = self.share(port).stations.len();
        let stations = self.ports.iter().map(|share| &share.stations);
        let busiest = stations.max_by_key(|stations| stations.len())?;
        let oldest = busiest.values().next().copied();
        oldest.filter(|_| busiest.len() > own + 1)
    }
}

#[cfg(test)]
mod tests;
