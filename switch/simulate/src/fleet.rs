//! A fleet that reports to stations, some of it hostile, in a world of its own: JetStream in memory, the stations' owners and
//! answers as they are, and time as it is set. All is drawn from one seed.
//!
//! ```text
//!  honest switches --+                        +--> owners of two stations --> values, minutes
//!                    +--> JetStream (faults) -+                                     |
//!  hostile senders --+                        +--> fleet of each station <----------+
//!                                                        |
//!              after each quiet time: what is true of every honest switch?
//! ```
//!
//! Faults come for [`FAULTY_S`], then none for [`QUIET_S`]; hostile senders never cease. At the end of a quiet time no honest switch may
//! be shown wrong or stuck, and memory has to be within its limits.
#![allow(
    clippy::missing_panics_doc,
    clippy::cast_possible_truncation,
    clippy::indexing_slicing,
    missing_debug_implementations,
    reason = "a world is made of as many switches as it was made with, and it is for tests"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use futures_util::FutureExt;
use prost::Message;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use report::msp::Report;
use report::subject;
use station::bus::{Bus, StoreError};
use station::fleet::Fleet;
use station::histories::Room;
use station::owner::{self, Work};
use station::path::Network;
use station::simulated::{Fault, Server};
use station::state::State;
use station::store::STATES;
use station::values;

use crate::world::Trace;
use honest::Honest;

mod attack;
mod honest;

/// How long faults come.
pub const FAULTY_S: u64 = 40;

/// How long none come then.
pub const QUIET_S: u64 = 10;

/// How long a world lives: through two closed minutes.
pub const LIFE_S: u64 = 200;

const SECOND_NS: u64 = 1_000_000_000;
const BEGIN_NS: u64 = 1_700_000_000 * SECOND_NS;
const HONEST: usize = 5;
const HOSTILE: usize = 3;
const STATIONS: usize = 2;

/// Segments that a station may have histories of.
const LOCATED_MAX: u64 = 600;

/// Bytes of minutes that a station may have.
const MINUTES_MAX: usize = 4 << 20;

/// Bytes of states that a hostile sender may make a station keep.
const STATE_BYTES_MAX: usize = station::state::BYTES_MAX;

/// What came of a world.
#[derive(Debug)]
pub struct Outcome {
    /// The same for every run of the seed.
    pub hash: u64,
    /// Seconds that it lived.
    pub lived_s: u64,
    /// Reports of honest switches, messages of hostile ones, faults, checks.
    pub counts: [u64; 4],
    /// Which rule was broken, and how.
    pub violation: Option<String>,
    /// The last events.
    pub events: Vec<String>,
}

type Owner = Pin<Box<dyn Future<Output = Result<(), StoreError>>>>;

struct Site {
    work: Arc<Work>,
    room: Arc<Room>,
    fleet: Fleet,
    /// Place in what the server has written.
    watched: usize,
    owners: BTreeMap<u16, Owner>,
}

impl Site {
    fn new() -> Self {
        Self {
            work: Arc::default(),
            room: Arc::new(Room::new(LOCATED_MAX)),
            fleet: Fleet::new(MINUTES_MAX),
            watched: 0,
            owners: BTreeMap::new(),
        }
    }
}

/// A world.
pub struct World {
    random: Pcg64,
    server: Server,
    honest: Vec<Honest>,
    hostile: Vec<String>,
    sites: Vec<Site>,
    /// Which station owns the partitions of even and odd numbers.
    owner_of: [usize; 2],
    trace: Trace,
    counts: [u64; 4],
    now_s: u64,
}

impl World {
    /// The world of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Pcg64::seed_from_u64(seed);
        let honest = (0..HONEST).map(|n| Honest {
            name: format!("edge-{}.{}", random.random_range(0..1_000_u32), n + 1),
            number: n as u32 + 1,
            // The state of the last one has several parts.
            segments: if n + 1 == HONEST { 700 } else { 3 },
            incarnation: random.random(),
            epoch: 0,
            reports: 0,
            packets: 0,
            restarts: 0,
            is_overwritten: false,
            last: Report::default(),
        });
        Self {
            honest: honest.collect(),
            hostile: (0..HOSTILE).map(|n| format!("hostile-{n}")).collect(),
            server: Server::new(64 << 10, BEGIN_NS),
            sites: (0..STATIONS).map(|_| Site::new()).collect(),
            owner_of: [0, 1],
            trace: Trace::new(),
            counts: [0; 4],
            now_s: 0,
            random,
        }
    }

    /// Lives. Owners set timers, which never fire here.
    ///
    /// # Errors
    /// Where the system gives no event queue.
    pub fn run(mut self) -> std::io::Result<Outcome> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        let _inside = runtime.enter();
        let mut violation = None;
        while self.now_s < LIFE_S && violation.is_none() {
            self.now_s += 1;
            self.server.lock().now_unix_ns = BEGIN_NS + self.now_s * SECOND_NS;
            let in_phase = self.now_s % (FAULTY_S + QUIET_S);
            if (1..FAULTY_S).contains(&in_phase) {
                self.befall();
            } else {
                self.server.lock().faults.clear();
            }
            for switch in 0..self.honest.len() {
                self.report(switch);
            }
            for sender in 0..self.hostile.len() {
                self.attack(sender);
            }
            self.work();
            if in_phase == 0 {
                self.counts[3] += 1;
                violation = self.check().err();
            }
        }
        Ok(Outcome {
            hash: self.trace.hash(),
            lived_s: self.now_s,
            counts: self.counts,
            violation,
            events: self.trace.last(),
        })
    }

    fn note(&mut self, what: &str) {
        self.trace
            .note(self.now_s * SECOND_NS, format_args!("{what}"));
    }

    /// A fault, now and then.
    fn befall(&mut self) {
        let fault = self.random.random_range(0..60_u32);
        let what = match fault {
            0 => {
                self.server.lose_store();
                for site in &mut self.sites {
                    (site.fleet, site.watched) = (Fleet::new(MINUTES_MAX), 0);
                }
                for switch in &mut self.honest {
                    (switch.reports, switch.packets, switch.restarts) = (0, 0, 0);
                    switch.is_overwritten = false;
                }
                "the server loses its store".to_owned()
            }
            1 => {
                let site = self.random.random_range(0..STATIONS);
                self.sites[site] = Site::new();
                self.recall(site);
                format!("station {site} dies, and another begins")
            }
            2 => {
                self.owner_of = [0; 2].map(|_| self.random.random_range(0..STATIONS));
                format!("partitions go to stations {:?}", self.owner_of)
            }
            3 => {
                let switch = self.random.random_range(0..HONEST);
                let key = values::key(&self.honest[switch].name);
                let garbage = self.garbage(200);
                self.server.poke(key, garbage);
                self.honest[switch].is_overwritten = true;
                format!("garbage over the state of {}", self.honest[switch].name)
            }
            4 => {
                let switch = self.random.random_range(0..HONEST);
                let switch = &mut self.honest[switch];
                (switch.incarnation, switch.epoch) = (self.random.random(), 0);
                switch.restarts += u64::from(switch.reports > 0);
                format!("{} restarts", switch.name)
            }
            5..=9 => {
                let fault = [Fault::Lost, Fault::Unanswered][self.random.random_range(0..2)];
                let nth = self.random.random_range(1..30);
                self.server.lock().faults.push((nth, fault));
                format!("of the next writes the {nth}. is {fault:?}")
            }
            _ => return,
        };
        self.counts[2] += 1;
        self.note(&what);
    }

    /// Reads what a server has, as a station that begins.
    fn recall(&mut self, site: usize) {
        let site = &mut self.sites[site];
        let values = self.server.last(STATES, format!("{}>", values::KEY));
        let values = values.now_or_never().and_then(Result::ok);
        for value in values.unwrap_or_default() {
            site.fleet
                .put_state(&value.subject, value.revision, &value.bytes);
        }
        site.watched = self.server.written(0).1;
    }

    fn garbage(&mut self, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|_| self.random.random()).collect()
    }

    /// The stations work, and watch.
    fn work(&mut self) {
        let names = self.honest.iter().map(|switch| &switch.name);
        let names = names.chain(&self.hostile);
        // And those where misplaced reports go.
        let partitions = names.map(|name| subject::partition(name));
        let partitions = partitions.flat_map(|own| [own, (own + 1) % subject::PARTITIONS]);
        let partitions: BTreeSet<u16> = partitions.collect();
        let mut context = Context::from_waker(Waker::noop());
        for (number, site) in self.sites.iter_mut().enumerate() {
            let owner_of = self.owner_of;
            let is_owned = |partition: &u16| owner_of[usize::from(partition % 2)] == number;
            site.owners.retain(|partition, _| is_owned(partition));
            // What fails is tried again.
            for partition in partitions.iter().filter(|partition| is_owned(partition)) {
                for _ in 0..4 {
                    let owner = site.owners.entry(*partition).or_insert_with(|| {
                        let (server, partition) = (self.server.clone(), *partition);
                        let (work, room) = (Arc::clone(&site.work), Arc::clone(&site.room));
                        Box::pin(async move { owner::own(&server, partition, &work, &room).await })
                    });
                    if owner.as_mut().poll(&mut context).is_pending() {
                        break;
                    }
                    site.owners.remove(partition);
                }
            }
        }
        for site in &mut self.sites {
            let (written, next) = self.server.written(site.watched);
            site.watched = next;
            for (subject, bytes) in written {
                if subject.starts_with(values::KEY) {
                    site.fleet.put_state(&subject, next as u64, &bytes);
                } else if subject.starts_with(values::MINUTES) {
                    site.fleet.put_minute(subject, &bytes);
                }
            }
        }
        self.server.tidy();
    }

    /// What holds after a quiet time.
    fn check(&mut self) -> Result<(), String> {
        let waiting = self.server.waiting();
        if waiting > 0 {
            return Err(format!("stuck: {waiting} reports wait"));
        }
        for (number, site) in self.sites.iter().enumerate() {
            let states = site.fleet.states();
            for switch in &self.honest {
                let state = states.iter().find(|state| state.switch == switch.name);
                let state = state.ok_or_else(|| format!("{} is not known", switch.name))?;
                switch
                    .check(state)
                    .map_err(|what| format!("{} at station {number}: {what}", switch.name))?;
                self.trace
                    .fold(&[state.reports, state.segments.len() as u64]);
            }
            self.check_path(&states)?;
            for state in &states {
                let bytes = state.encoded_len();
                if bytes > STATE_BYTES_MAX {
                    return Err(format!("{} has a state of {bytes} bytes", state.switch));
                }
            }
            let (located, minutes) = (site.room.segments(), site.fleet.minutes_bytes());
            if located > LOCATED_MAX || minutes > MINUTES_MAX {
                let what = format!("{located} segments, {minutes} bytes of minutes");
                return Err(format!("station {number} keeps {what}"));
            }
            if states.len() > HONEST + HOSTILE {
                return Err(format!("station {number} has {} states", states.len()));
            }
        }
        Ok(())
    }

    /// From the first honest switch to the last the path is by their wires.
    fn check_path(&self, states: &[State]) -> Result<(), String> {
        let now_ns = BEGIN_NS + self.now_s * SECOND_NS;
        let network = Network::new(states, None, now_ns);
        let names: Vec<&str> = self.honest.iter().map(|switch| &*switch.name).collect();
        let (from, to) = (
            format!("{}:west", names[0]),
            format!("{}:east", names[HONEST - 1]),
        );
        let paths = network
            .paths(&from, &to, None)
            .map_err(|error| error.to_string())?;
        let path = &paths.paths[0];
        let mean_ns = path.sum.mean_ns.unwrap_or_default();
        // Each switch, and the wire into it.
        let expected_ns: f64 =
            (1..=HONEST).map(|n| 1_000.0 * n as f64).sum::<f64>() * 2.0 - 1_000.0;
        if path.switches != names || (mean_ns - expected_ns).abs() > 1.0 {
            return Err(format!("the path is {:?} with {mean_ns} ns", path.switches));
        }
        Ok(())
    }
}
