//! The one filtering database that all replicas follow.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use super::shares::Shares;
use super::{
    FdbDelta, FdbSettings, FdbStats, Learned, Limits, MasterEnd, REFRESHES_PER_AGE, REPORTS,
    StationKey,
};
use crate::ids::{PortIndex, WorkerIndex};
use crate::limits::PORTS_MAX;

/// All workers.
const EVERYONE: u64 = u64::MAX;

/// How often entries that are too old are looked for.
const SWEEP: Duration = Duration::from_secs(1);

/// What the control core knows of all stations. It never waits and never grows beyond what it
/// was made for: at most so many stations, and for each worker a queue of stations still to be sent.
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
pub(super) struct Known {
    port: PortIndex,
    /// Of its entry to the port's [`Shares`]; 0 where it is static.
    pub(super) ticket: u64,
    worker: WorkerIndex,
    is_static: bool,
    seen: Duration,
    /// When it was last sent to the workers.
    sent: Duration,
    /// The workers in whose queue it waits, one bit each.
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

/// One worker: the rings to it, and what it has not been sent yet. Of a station only the key waits:
/// what is sent is what holds when there is room.
#[derive(Debug)]
struct Line {
    end: MasterEnd,
    queue: VecDeque<StationKey>,
    /// Ports whose link state it is to be sent, one bit each; these go first.
    links: u64,
    /// Ports that it is to flush.
    flushes: u64,
    is_restarting: bool,
}

/// One entry, as it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FdbEntry {
    /// The station.
    pub station: StationKey,
    /// The port it is behind.
    pub port: PortIndex,
    /// Whether it is from the configuration: then it never ages and never moves.
    pub is_static: bool,
    /// The worker that reported it last; of no meaning for a static entry.
    pub worker: WorkerIndex,
    /// How long ago that was. A station in steady use is reported a few times an ageing time.
    pub unreported: Duration,
}

impl FdbMaster {
    /// A database of `stations_max` stations at most, each forgotten after `ageing` without an
    /// observation, sent to the worker at each of `ends`. `statics`, as (station, port), never age and
    /// never move. All ports are taken to have a link, and no limit of their own.
    pub fn new(
        stations_max: usize,
        ageing: Duration,
        statics: impl IntoIterator<Item = (StationKey, PortIndex)>,
        ends: Vec<MasterEnd>,
    ) -> Self {
        let mut stations = HashMap::with_capacity(stations_max);
        for (station, port) in statics.into_iter().take(stations_max) {
            stations.insert(station, Known::fixed(port));
        }
        let line = |end| Line {
            end,
            queue: VecDeque::new(),
            links: 0,
            flushes: 0,
            is_restarting: false,
        };
        let mut master = Self {
            stations,
            stations_max,
            shares: Shares::new(&[u32::MAX; PORTS_MAX]),
            ageing,
            workers: ends.into_iter().map(line).collect(),
            up: u64::MAX,
            swept: Duration::ZERO,
            stats: FdbStats::default(),
        };
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

    /// A database by a configuration's settings.
    pub fn from_settings(settings: FdbSettings, ends: Vec<MasterEnd>) -> Self {
        let FdbSettings {
            stations_max,
            ageing,
            statics,
            limits,
            ..
        } = settings;
        Self::new(stations_max, ageing, statics, ends).with_limits(&limits)
    }

    /// With so many stations learnt behind each port at most: to be called before any is.
    #[must_use]
    pub fn with_limits(self, limits: &Limits) -> Self {
        Self {
            shares: Shares::new(limits),
            ..self
        }
    }

    /// Goes on with other settings, in which ports have the indices that they had: with other
    /// limits, other static stations, and without those behind ports that are gone. Before an
    /// index goes to another port, the caller flushes it. Workers ask for what they need once they have taken up the
    /// generation.
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
                known.ticket = self.shares.enter(known.port, station, &self.stations);
                self.stations.insert(station, known);
            }
        }
        let fixed = statics.into_iter().take(stations_max);
        self.stations
            .extend(fixed.map(|(station, port)| (station, Known::fixed(port))));
    }

    /// Bytes that a database of so many stations takes, queues for `workers` workers included.
    pub const fn size_bytes(stations_max: usize, workers: usize) -> usize {
        // A hash table is at most 7/8 full and has a power of two of entries.
        let entries = (stations_max * 8).div_ceil(7).next_power_of_two();
        let queue = 2 * stations_max * size_of::<StationKey>();
        let table = entries * (size_of::<(StationKey, Known)>() + 1);
        table + Shares::size_bytes(stations_max) + workers * queue
    }

    /// Hears all workers, forgets who was not seen for too long, and sends what is new: as much as
    /// the rings have room for. `now` is any clock that only rises.
    pub fn poll(&mut self, now: Duration) {
        for worker in self.all_workers() {
            let wants_all = self.workers[worker.index()].end.takes_wish();
            for _ in 0..REPORTS {
                let Some(learned) = self.workers[worker.index()].end.next_report() else {
                    break;
                };
                self.hear(worker, learned, now);
            }
            // After its earlier reports, which it may have forgotten.
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
        // Said before the replica knew that the link is gone.
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
            // The replica did not know yet how many others had learnt.
            return self.queue_gone(station, !others);
        }
        if self.stations.len() >= self.stations_max && !self.make_room(port, now) {
            self.stats.overflows += 1;
            return;
        }
        let known = Known {
            port,
            ticket: self.shares.enter(port, station, &self.stations),
            worker,
            is_static: false,
            seen: now,
            sent: now,
            queued: 0,
        };
        self.stations.insert(station, known);
        self.queue(station, others, now);
    }

    /// A station that is known was seen behind another port.
    fn move_to(&mut self, port: PortIndex, station: StationKey, now: Duration) {
        if self.shares.is_full(port) {
            self.stats.limited += 1;
            // It is not where it was, and may not be where it is: that is unknown.
            self.forget(station, now);
            return;
        }
        let ticket = self.shares.enter(port, station, &self.stations);
        if let Some(known) = self.stations.get_mut(&station) {
            self.shares.leave(known.port);
            (known.port, known.ticket) = (port, ticket);
        }
        self.queue(station, EVERYONE, now);
    }

    /// Makes room for a station behind `port`, if that has fewer than another port.
    fn make_room(&mut self, port: PortIndex, now: Duration) -> bool {
        let Some(station) = self.shares.evict(port, &self.stations) else {
            return false;
        };
        self.stats.evictions += 1;
        self.forget(station, now)
    }

    /// Lets a station that is not in the table be forgotten by those `workers`.
    fn queue_gone(&mut self, station: StationKey, workers: u64) {
        for worker in self.all_workers() {
            if workers & worker_bit(worker) == 0 {
                continue;
            }
            if self.workers[worker.index()].queue.len() >= 2 * self.stations_max {
                self.restart(worker);
            } else {
                self.workers[worker.index()].queue.push_back(station);
            }
        }
    }

    /// Lets `station` be sent to those `workers` in whose queues it does not wait already.
    fn queue(&mut self, station: StationKey, workers: u64, now: Duration) {
        for worker in self.all_workers() {
            let bit = worker_bit(worker);
            let Some(known) = self.stations.get_mut(&station) else {
                return;
            };
            known.sent = now;
            if workers & bit == 0 || known.queued & bit != 0 {
                continue;
            }
            // Stations in the table wait once at most; others, that are to be forgotten, may pile up
            // where a worker does not listen.
            if self.workers[worker.index()].queue.len() >= 2 * self.stations_max {
                self.restart(worker);
            } else {
                known.queued |= bit;
                self.workers[worker.index()].queue.push_back(station);
            }
        }
    }

    /// Lets a worker be sent everything anew.
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
        let Self {
            workers,
            stations,
            up,
            ..
        } = self;
        let line = &mut workers[worker.index()];
        if line.is_restarting && !line.end.send(FdbDelta::Restart) {
            return;
        }
        line.is_restarting = false;
        for port in ports_in(line.links) {
            let is_up = *up & port_bit(port) != 0;
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
        while line.end.has_room() {
            let Some(station) = line.queue.pop_front() else {
                return;
            };
            let delta = match stations.get_mut(&station) {
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

    /// A station that a replica sees is reported every quarter of the ageing time; so one that was
    /// not for one and a quarter is too old everywhere, and no worker need hear of it.
    fn forget_the_old(&mut self, now: Duration) {
        let limit = self.ageing + self.ageing / REFRESHES_PER_AGE;
        self.keep(|known| now.saturating_sub(known.seen) <= limit);
    }

    /// Keeps static stations, and of the others those that `stays` is true of.
    fn keep(&mut self, stays: impl Fn(&Known) -> bool) {
        let shares = &mut self.shares;
        self.stations.retain(|_, known| {
            let stays = known.is_static || stays(known);
            if !stays {
                shares.leave(known.port);
            }
            stays
        });
    }

    /// Forgets a station everywhere; false if it was not known, or is static.
    pub fn forget(&mut self, station: StationKey, now: Duration) -> bool {
        let is_known = self.stations.get(&station);
        if is_known.is_none_or(|known| known.is_static) {
            return false;
        }
        self.queue(station, EVERYONE, now);
        let known = self.stations.remove(&station);
        known.is_some_and(|known| {
            self.shares.leave(known.port);
            true
        })
    }

    /// Forgets all stations behind a port, static ones excepted, everywhere.
    pub fn flush(&mut self, port: PortIndex) {
        self.keep(|known| known.port != port);
        for line in &mut self.workers {
            line.flushes |= port_bit(port);
        }
    }

    /// The port got its link, or lost it; then the stations behind it are forgotten everywhere, and
    /// frames go there no more.
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

    /// All entries, in no order.
    pub fn entries(&self, now: Duration) -> impl Iterator<Item = FdbEntry> {
        self.stations.iter().map(move |(&station, known)| FdbEntry {
            station,
            port: known.port,
            is_static: known.is_static,
            worker: known.worker,
            unreported: now.saturating_sub(known.seen),
        })
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.stations.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.stations.is_empty()
    }

    /// What it and the replicas have counted.
    pub fn stats(&self) -> FdbStats {
        let mut stats = self.stats;
        for Line { end, .. } in &self.workers {
            let replica = end.counts();
            stats.reports_lost += end.lost();
            stats.replica_overflows += replica.overflows;
            stats.replica_evictions += replica.evictions;
            stats.limited += replica.limited;
        }
        stats
    }

    /// The ends to all workers, for a master made anew.
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

#[cfg(test)]
mod tests;
