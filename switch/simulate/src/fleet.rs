//! A simulated fleet that reports to stations, with some hostile senders: JetStream in memory, the real owners and
//! answers of stations, and simulated time. Everything is drawn from one seed.
//!
//! ```text
//!  honest switches --+                        +--> owners of two stations --> values, minutes
//!                    +--> JetStream (faults) -+                                     |
//!  hostile senders --+                        +--> fleet of each station <----------+
//!                                                        |
//!              after each quiet time: compared with the truth of every honest switch
//! ```
//!
//! Faults occur for [`FAULTY_S`], then none for [`QUIET_S`]; hostile senders never stop. At the end of a quiet time
//! every honest switch must be shown correctly and up to date, none may be shown as failed, and memory must be within its
//! limits. At the end of the world one switch dies, and every station must name it.
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
use report::msp::{Health, Kind, Neighbour, Report, Segment};
use report::subject;
use station::blame::Blamer;
use station::bus::{Bus, StoreError};
use station::fleet::Fleet;
use station::histories::Room;
use station::owner::{self, Work};
use station::path::Network;
use station::simulated::{Fault, Server};
use station::state::State;
use station::store::STATES;
use station::values;

use crate::outcome::{Check, Count, Figures, Outcome, Trace, holds};

/// Duration of a time with faults.
pub const FAULTY_S: u64 = 40;

/// Duration of the quiet time after it.
pub const QUIET_S: u64 = 10;

/// Duration of a world: two closed minutes, and the time after a switch has died.
pub const LIFE_S: u64 = 200 + DEATH_S;

/// Time within which a switch that died must be named.
const DEATH_S: u64 = 30;

const SECOND_NS: u64 = 1_000_000_000;
const BEGIN_NS: u64 = 1_700_000_000 * SECOND_NS;
const HONEST: usize = 5;
const HOSTILE: usize = 3;
const STATIONS: usize = 2;

/// Largest number of segments with histories at a station.
const LOCATED_MAX: u64 = 600;

/// Largest size of minutes at a station, in bytes.
const MINUTES_MAX: usize = 4 << 20;

/// Largest size of states, in bytes, that a hostile sender may make a station keep.
const STATE_BYTES_MAX: usize = station::state::BYTES_MAX;

type Owner = Pin<Box<dyn Future<Output = Result<(), StoreError>>>>;

struct Site {
    work: Arc<Work>,
    room: Arc<Room>,
    fleet: Fleet,
    /// Position in the server's writes.
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
    /// The stations that own the partitions with even and with odd numbers.
    owner_of: [usize; 2],
    /// The honest switch that has died.
    dead: Option<usize>,
    trace: Trace,
    figures: Figures,
    now_s: u64,
}

impl World {
    /// Creates the world of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Pcg64::seed_from_u64(seed);
        let honest = (0..HONEST).map(|n| Honest {
            name: format!("edge-{}.{}", random.random_range(0..1_000_u32), n + 1),
            number: n as u32 + 1,
            // The state of the last switch has several parts.
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
            dead: None,
            trace: Trace::new(),
            figures: Figures::default(),
            now_s: 0,
            random,
        }
    }

    /// Runs the world. Owners set timers, which never fire here.
    ///
    /// # Errors
    /// If the system provides no event queue.
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
            let is_quiet = self.now_s > LIFE_S - DEATH_S;
            if is_quiet && self.dead.is_none() {
                self.dead = Some(self.random.random_range(0..HONEST));
            }
            if !is_quiet && (1..FAULTY_S).contains(&in_phase) {
                self.befall();
            } else {
                self.server.lock().faults.clear();
            }
            let lives = |switch: &usize| Some(*switch) != self.dead;
            for switch in (0..HONEST).filter(lives).collect::<Vec<_>>() {
                self.report(switch);
            }
            for sender in 0..self.hostile.len() {
                self.attack(sender);
            }
            self.work();
            if in_phase == 0 || self.now_s == LIFE_S {
                self.figures.count(Count::Checks, 1);
                violation = self.check().err();
            }
        }
        self.figures.simulated_s = self.now_s as f64;
        Ok(self.trace.end(self.figures, violation))
    }

    fn note(&mut self, what: &str) {
        self.trace
            .note(self.now_s * SECOND_NS, format_args!("{what}"));
    }

    /// Injects a fault now and then.
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
        self.figures.count(Count::Faults, 1);
        self.note(&what);
    }

    /// Reads the server's data, like a station that starts.
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

    /// Lets the stations work and watch.
    fn work(&mut self) {
        let names = self.honest.iter().map(|switch| &switch.name);
        let names = names.chain(&self.hostile);
        // And those that receive misplaced reports.
        let partitions = names.map(|name| subject::partition(name));
        let partitions = partitions.flat_map(|own| [own, (own + 1) % subject::PARTITIONS]);
        let partitions: BTreeSet<u16> = partitions.collect();
        let mut context = Context::from_waker(Waker::noop());
        for (number, site) in self.sites.iter_mut().enumerate() {
            let owner_of = self.owner_of;
            let is_owned = |partition: &u16| owner_of[usize::from(partition % 2)] == number;
            site.owners.retain(|partition, _| is_owned(partition));
            // Failures are retried.
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

    /// Checks what must hold after a quiet time.
    fn check(&mut self) -> Check {
        let waiting = self.server.waiting();
        holds("stuck", waiting == 0, || format!("{waiting} reports wait"))?;
        for (number, site) in self.sites.iter().enumerate() {
            let states = site.fleet.states();
            for switch in &self.honest {
                let state = states.iter().find(|state| state.switch == switch.name);
                let known = state.is_some_and(|state| switch.is_known(state));
                holds("honest", known, || {
                    format!("station {number}: {switch:?} is shown as {state:?}")
                })?;
                let counts = state.map(|state| [state.reports, state.segments.len() as u64]);
                self.trace.fold(&counts.unwrap_or_default());
            }
            self.check_path(&states)?;
            self.check_failures(&states)?;
            let bytes = states.iter().map(State::encoded_len).max().unwrap_or(0);
            let (located, minutes) = (site.room.segments(), site.fleet.minutes_bytes());
            let is_small = bytes <= STATE_BYTES_MAX
                && located <= LOCATED_MAX
                && minutes <= MINUTES_MAX
                && states.len() <= HONEST + HOSTILE;
            holds("bounded", is_small, || {
                format!(
                    "station {number}: {} states of {bytes} bytes at most, {located} segments, {minutes} bytes of minutes",
                    states.len()
                )
            })?;
        }
        Ok(())
    }

    /// The path from the first honest switch to the last leads over their wires.
    fn check_path(&self, states: &[State]) -> Check {
        let now_ns = BEGIN_NS + self.now_s * SECOND_NS;
        let network = Network::new(states, None, now_ns);
        let names: Vec<&str> = self.honest.iter().map(|switch| &*switch.name).collect();
        let [from, to] = [(0, "west"), (HONEST - 1, "east")]
            .map(|(switch, port)| format!("{}:{port}", names[switch]));
        let paths = network.paths(&from, &to, None);
        // Each switch, and the wire into it.
        let expected_ns: f64 =
            (1..=HONEST).map(|n| 1_000.0 * n as f64).sum::<f64>() * 2.0 - 1_000.0;
        let is_right = paths.as_ref().is_ok_and(|paths| {
            let path = &paths.paths[0];
            let mean_ns = path.sum.mean_ns.unwrap_or_default();
            let is_sum = (mean_ns - expected_ns).abs() <= 1.0;
            path.switches == names && path.is_covered == is_sum && is_sum == self.dead.is_none()
        });
        holds("path", is_right, || {
            format!("from {from} to {to}: {paths:?}")
        })
    }
}

impl World {
    /// Checks that the honest switch that died has failed, and no other honest switch or wire.
    fn check_failures(&self, states: &[State]) -> Check {
        let now_ns = BEGIN_NS + self.now_s * SECOND_NS;
        let failed = Blamer::new(states, now_ns, |_| true).all(None, 1).failed;
        let is_hostile = |place: &str| self.hostile.iter().any(|name| place.contains(&**name));
        let failed = failed.iter().map(|failed| &*failed.place);
        let failed: Vec<&str> = failed.filter(|place| !is_hostile(place)).collect();
        let dead = self.dead.map(|dead| &*self.honest[dead].name);
        holds("failed", failed == dead.as_slice(), || {
            format!("{failed:?} have failed, and {dead:?} is dead")
        })
    }
}

// Messages of hostile senders.

/// How long each sender acts on its own, and then all act together.
const CONCERTED_S: u64 = 10;

impl World {
    /// Lets a hostile sender, which may publish only under its own name, send something.
    fn attack(&mut self, sender: usize) {
        let name = self.hostile[sender].clone();
        let now_ns = BEGIN_NS + self.now_s * SECOND_NS;
        let is_concerted = self.now_s / CONCERTED_S % 2 == 1;
        let victim = match sender {
            1 if is_concerted => 0,
            2 if is_concerted => HONEST - 1,
            _ => self.random.random_range(0..HONEST),
        };
        let victim = &self.honest[victim];
        // A switch whose state is lost has to claim its number again, which fails if another switch has claimed it.
        let has_number = !victim.is_overwritten;
        let victim = victim.last.clone();
        let mut report = Report {
            switch: name.clone(),
            incarnation: self.random.random(),
            start_unix_ns: now_ns - SECOND_NS,
            wire_switch: Some(number(sender)),
            node: None,
            ..victim.clone()
        };
        let mut subject = subject::of_switch(&name);
        let kind = match sender {
            0 if is_concerted => 8,
            _ if is_concerted => 11,
            _ => self.random.random_range(0..12_u32),
        };
        match kind {
            0 | 1 => self.swell(&mut report),
            // The report of another switch under its own subject, and its own report under another subject.
            2 => report.switch.clone_from(&victim.switch),
            3 => subject = station::simulated::misplaced(&name),
            4 => report.start_unix_ns = now_ns.wrapping_add(self.random.random()),
            5 => {
                (report.epoch, report.epochs, report.length_ns) = (u64::MAX, u64::MAX, u64::MAX);
            }
            6 => (report.epoch, report.epochs) = (u64::MAX - 1, 0),
            7 => self.probe(&mut report, &victim.switch),
            // A shortcut between the first honest switch and the last.
            8 => {
                let wire = |peer| wire(peer % 2, peer, peer % 2);
                report.neighbours = [1, HONEST as u32].map(wire).to_vec();
            }
            9 => {
                let key = format!(
                    "{}{}.{name}",
                    values::KEY,
                    self.random.random_range(0..64_u32)
                );
                let garbage = self.garbage(100);
                self.server.poke(key, garbage);
            }
            // Claims the number of an honest switch, with a wire from there to the accomplice that has the shortcut.
            11 if has_number => {
                let accomplice = number(self.random.random_range(0..HOSTILE));
                let accomplice = if is_concerted { number(0) } else { accomplice };
                report.wire_switch = victim.wire_switch;
                report.neighbours = [0, 1].map(|port| wire(port, accomplice, port)).to_vec();
            }
            _ => {}
        }
        let bytes = match kind {
            10 => self.garbage(1_000),
            _ => report.encode_to_vec(),
        };
        if self.server.publish(subject, bytes) {
            self.figures.count(Count::Hostile, 1);
        }
        self.trace.fold(&[kind.into()]);
    }

    /// A report close to the size limit, with different names every time.
    fn swell(&mut self, report: &mut Report) {
        let tag: u64 = self.random.random();
        let count = self.random.random_range(100..700_u32);
        report.names = (0..count)
            .map(|n| format!("{tag:x}-{n}-\u{1b}[2J"))
            .collect();
        report.segments = (0..count)
            .map(|n| Segment {
                kind: (n % 5).cast_signed(),
                from: n,
                to: count - 1 - n,
                packets: u64::MAX,
                lost: i64::MIN,
                samples: u64::MAX,
                mean_ns: f32::MAX,
                ..Segment::default()
            })
            .collect();
        report.neighbours.clear();
        report.flows.clear();
    }

    /// Probes between honest nodes.
    fn probe(&mut self, report: &mut Report, node: &str) {
        report.node = Some(node.to_owned());
        report.names = self.honest.iter().map(|other| other.name.clone()).collect();
        let count = report.names.len() as u32;
        report.segments = (0..count * count)
            .map(|n| Segment {
                kind: Kind::Probe.into(),
                from: n / count,
                to: n % count,
                packets: 1,
                samples: 1,
                mean_ns: f32::NAN,
                ..Segment::default()
            })
            .collect();
        report.neighbours.clear();
    }
}

/// A hostile sender's own number on wires.
fn number(sender: usize) -> u32 {
    900 + sender as u32
}

fn wire(port: u32, peer_switch: u32, peer_port: u32) -> Neighbour {
    Neighbour {
        port,
        peer_switch,
        peer_port,
        session: "established".to_owned(),
        system: None,
    }
}

// Honest switches, and their expected states.

/// An honest switch and its true figures.
#[derive(Debug)]
struct Honest {
    pub name: String,
    pub number: u32,
    pub segments: u32,
    pub incarnation: u64,
    pub epoch: u64,
    /// Reports, and packets of its first segment, since its state was last created.
    pub reports: u64,
    pub packets: u64,
    pub restarts: u64,
    /// Its state was overwritten, so counts begin again with an unknown report.
    pub is_overwritten: bool,
    pub last: Report,
}

impl World {
    /// Lets an honest switch close an epoch. It has wires to the previous switch and to the next.
    fn report(&mut self, place: usize) {
        let now_ns = BEGIN_NS + self.now_s * SECOND_NS;
        let switch = &mut self.honest[place];
        let mut names: Vec<String> = ["west", "east", "west:peer", "all", "lda"]
            .map(str::to_owned)
            .to_vec();
        let packets = self.random.random_range(1..1_000);
        let mean_ns = 1_000.0 * switch.number as f32;
        let segment = |kind: Kind, from, to| Segment {
            kind: kind.into(),
            from,
            to,
            class: 3,
            method: 4,
            packets,
            samples: packets,
            mean_ns,
            bound_ns: Some(1.0),
            stddev_ns: Some(10.0),
            ..Segment::default()
        };
        let mut segments = vec![segment(Kind::Inside, 0, 1), segment(Kind::Inside, 1, 0)];
        let mut neighbours = Vec::new();
        let dead = self.dead.map(|dead| dead as u32 + 1);
        let mut join = |port, peer| {
            let mut wire = wire(port, peer, 1 - port);
            if dead == Some(peer) {
                "lost".clone_into(&mut wire.session);
            }
            neighbours.push(wire);
        };
        if switch.number > 1 {
            join(0, switch.number - 1);
            segments.push(segment(Kind::Wire, 2, 0));
        }
        if (switch.number as usize) < HONEST {
            join(1, switch.number + 1);
        }
        for port in names.len() as u32..switch.segments {
            names.push(format!("port-{port}"));
            segments.push(segment(Kind::Inside, port, 1));
        }
        switch.last = Report {
            version_major: 1,
            switch: switch.name.clone(),
            incarnation: switch.incarnation,
            epoch: switch.epoch,
            epochs: 1,
            start_unix_ns: now_ns - SECOND_NS,
            length_ns: SECOND_NS,
            health: Some(Health {
                clock: "locked".to_owned(),
                ..Health::default()
            }),
            names,
            segments,
            neighbours,
            wire_switch: Some(switch.number),
            ..Report::default()
        };
        switch.epoch += 1;
        switch.reports += 1;
        switch.packets += packets;
        let subject = subject::of_switch(&switch.name);
        let is_taken = self.server.publish(subject, switch.last.encode_to_vec());
        assert!(is_taken, "an honest report is small enough");
        self.figures.count(Count::Reports, 1);
    }
}

impl Honest {
    /// Whether a state matches the switch.
    fn is_known(&self, state: &State) -> bool {
        let run = state.runs.first().cloned().unwrap_or_default();
        let (known, own) = (&state.segments[0].last, &self.last.segments[0]);
        let is_last = (run.incarnation, run.epoch) == (self.incarnation, self.epoch - 1)
            && [known.from, known.to].map(|index| state.name(index)) == ["west", "east"]
            && known.packets == own.packets
            && known.mean_ns.to_bits() == own.mean_ns.to_bits()
            && state.segments.len() == self.last.segments.len();
        let counted = [state.reports, state.restarts, state.set_aside];
        let is_counted = if self.is_overwritten {
            state.set_aside > 0
        } else {
            counted == [self.reports, self.restarts, 0]
        };
        is_last && is_counted && state.missed_epochs == 0
    }
}
