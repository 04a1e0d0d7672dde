//! A world with faults: complete switches with their control cores, wires between them, sending hosts, and faults, in
//! one sequence of events drawn from one seed. Nothing runs concurrently, so a seed determines the run.
//!
//! ```text
//!  hosts --> switch --> wire (faults) --> switch --> hosts        events: offer, arrive, pass, poll, fault, start
//!               \________ ledger: the true state ______/
//!                              |
//!            after each step: rules --> a violation, or the next event
//! ```
//!
//! Faults occur for [`FAULTY_NS`], then none for [`QUIET_NS`], after which everything must have recovered. This repeats
//! for [`LIFE_NS`].
#![allow(
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::match_bool,
    clippy::semicolon_if_nothing_returned,
    missing_debug_implementations,
    reason = "a world is made of as many switches and links as it was made with, its times are small, and it is for tests"
)]

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use measure::time::Ticks;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use records::snapshot::Snapshot;
use serde_json::Value;
use std::sync::Arc;
use wire::testing::Network;

use crate::outcome::{Check, Count, Figures, Outcome, Trace, holds};
use configure::{INTERVAL_MS, Shape};
use ledger::Ledger;
use node::{Clocks, Node};

mod calm;
mod checks;
mod configure;
mod faults;
mod ledger;
mod node;
mod rules;

pub use calm::{Cable, Calm, Departure};
pub use faults::Fault;

/// Duration of a time with faults.
pub const FAULTY_NS: u64 = 3_000_000_000;

/// Duration of a quiet time, after which everything must have recovered: enough for hello, clock (eight readings),
/// links (300 ms) and [`RECOVERED_EPOCHS`].
pub const QUIET_NS: u64 = 3_000_000_000;

/// At the end of a quiet time, one of this number of last epochs must be usable.
pub const RECOVERED_EPOCHS: u64 = 12;

/// Duration of a world.
pub const LIFE_NS: u64 = 12_500_000_000;

const EPOCH_NS: u64 = INTERVAL_MS * 1_000_000;

/// Approximate time between two polls of a control core.
const POLL_NS: u64 = 5_000_000;

/// Longest time between two passes of a worker.
const PASS_NS: u64 = 200_000;

/// Something that happens.
enum Event {
    /// A host sends a packet.
    Offer,
    /// A worker passes: switch, life, worker.
    Pass(usize, u32, usize),
    /// A control core polls: switch, life.
    Poll(usize, u32),
    /// A frame arrives at a port of a switch; for data, with its number and transmission.
    Arrive(usize, usize, Vec<u8>, Option<(u64, ledger::Sending)>),
    /// A fault comes.
    Fault(Fault),
    /// A switch starts.
    Start(usize),
    /// A link is back.
    LinkUp(usize),
    /// A port accepts all packets again: switch, life, port.
    PortFree(usize, u32, usize),
    /// The clocks' drift changes, and old ledger entries are removed.
    Second,
    /// Faults stop, or begin again.
    Phase,
}

/// A place for a switch, and the world's records of it.
struct Place {
    shape: Shape,
    base: Value,
    node: Option<Node>,
    clocks: Clocks,
    life: u32,
    seen: Arc<Snapshot>,
    /// By wire port: control frames that its peer has sent since this life began, by kind.
    genuine: Vec<BTreeMap<String, u64>>,
    /// Time until which the clock's last step may be undetected.
    clock_disturbed_until: u64,
    /// Data frames received and sent, by port.
    received: BTreeMap<usize, u64>,
    sent: BTreeMap<usize, u64>,
    /// By segment name: the epoch checked last.
    checked: BTreeMap<String, u64>,
    /// Since when its links have been up, and its workers and core not delayed.
    calm_since: u64,
}

/// A world.
pub struct World {
    random: Pcg64,
    now: u64,
    menu: faults::Menu,
    is_quiet: bool,
    places: Vec<Place>,
    links: Vec<faults::Link>,
    events: Network<Event>,
    ledger: Ledger,
    trace: Trace,
    figures: Figures,
    gap_ns: u64,
}

impl World {
    /// Creates the world of a seed; `key` is a file with a key that the switches share.
    ///
    /// # Errors
    /// In words: a configuration that makes no switch.
    pub fn new(seed: u64, key: &Path) -> Result<Self, String> {
        let mut random = Pcg64::seed_from_u64(seed);
        let menu = faults::Menu::draw(&mut random);
        let is_patch = random.random_range(0..4) == 0;
        Self::made(random, menu, is_patch, key)
    }

    fn made(
        mut random: Pcg64,
        menu: faults::Menu,
        is_patch: bool,
        key: &Path,
    ) -> Result<Self, String> {
        let switches = random.random_range(2..4);
        let places = (0..switches).map(|number| {
            let shape = Shape {
                number: u32::try_from(number).unwrap_or(0) + 1,
                workers: random.random_range(1..3),
                wires: if number == 0 || number == switches - 1 {
                    1
                } else {
                    2
                },
                is_patch,
                is_owned: random.random(),
            };
            let base = configure::base(&shape, key);
            let genuine = vec![BTreeMap::new(); shape.wires];
            Place {
                shape,
                base,
                node: None,
                clocks: Clocks::new(0, Ticks(random.random_range(1..1 << 50)), 0, 0),
                life: 0,
                seen: Arc::default(),
                genuine,
                clock_disturbed_until: 0,
                received: BTreeMap::new(),
                sent: BTreeMap::new(),
                checked: BTreeMap::new(),
                calm_since: 0,
            }
        });
        let places: Vec<Place> = places.collect();
        let mut world = Self {
            now: 0,
            is_quiet: false,
            links: faults::chain(switches, &mut random),
            places,
            menu,
            events: Network::default(),
            ledger: Ledger::default(),
            trace: Trace::new(),
            figures: Figures::default(),
            gap_ns: random.random_range(100_000..400_000),
            random,
        };
        for number in 0..switches {
            world.start(number)?;
        }
        world.push(1_000, Event::Offer);
        world.push(FAULTY_NS, Event::Phase);
        world.push(1_000_000_000, Event::Second);
        world.draw_faults();
        Ok(world)
    }

    /// Runs until the end, or until a rule is broken.
    pub fn run(self) -> Outcome {
        self.run_until(LIFE_NS)
    }

    fn run_until(mut self, end: u64) -> Outcome {
        let mut violation = None;
        while self.now < end
            && let Some((at, _, event)) = self.events.arrive(u64::MAX)
        {
            self.now = at;
            if let Err(broken) = self.happen(event) {
                violation = Some(broken);
                break;
            }
        }
        self.figures.simulated_s = self.now as f64 / 1e9;
        let violation = violation.or_else(|| self.figures.coverage.check().err());
        self.trace.end(self.figures, violation)
    }

    fn push(&mut self, after_ns: u64, event: Event) {
        self.events.send(0, self.now + after_ns, event);
    }

    fn note(&mut self, what: fmt::Arguments<'_>) {
        self.trace.note(self.now, what);
    }

    fn happen(&mut self, event: Event) -> Check {
        match event {
            Event::Offer => self.offer(),
            Event::Pass(switch, life, worker) => self.pass_due(switch, life, worker)?,
            Event::Poll(switch, life) => self.poll(switch, life)?,
            Event::Arrive(switch, port, frame, number) => self.arrive(switch, port, frame, number),
            Event::Fault(fault) => self.fault(fault),
            Event::Start(switch) => {
                if self.places[switch].node.is_none() {
                    let started = self.start(switch);
                    holds("start", started.is_ok(), || format!("{started:?}"))?;
                }
            }
            Event::LinkUp(link) => self.set_link(link, true),
            Event::PortFree(switch, life, port) => self.set_room(switch, life, port, None),
            Event::Second => self.second(),
            Event::Phase => self.phase()?,
        }
        Ok(())
    }

    /// Starts a switch with its first configuration.
    fn start(&mut self, switch: usize) -> Result<(), String> {
        let config = configure::parse(&self.places[switch].base)?;
        let ppm = self.menu.counter_ppm;
        let counter_ppb = (self.random.random_range(-1.0..=1.0) * ppm * 1e3) as i64;
        let has_link = self.links_of(switch);
        let place = &mut self.places[switch];
        place.life += 1;
        place.clocks = Clocks::new(
            self.now,
            place.clocks.ticks(self.now),
            counter_ppb,
            place.clocks.ahead_ns(self.now),
        );
        place.seen = Arc::default();
        place.genuine.iter_mut().for_each(BTreeMap::clear);
        place.received.clear();
        place.sent.clear();
        place.checked.clear();
        place.calm_since = self.now;
        let skew = self.menu.skew_ticks;
        let clocks = place.clocks.clone();
        let node = Node::start(&config, clocks, self.now, skew, has_link, &mut self.random)?;
        let (workers, life) = (node.workers.len(), place.life);
        place.node = Some(node);
        for worker in 0..workers {
            let after = self.random.random_range(0..PASS_NS);
            self.push(after, Event::Pass(switch, life, worker));
        }
        let after = self.random.random_range(0..POLL_NS);
        self.push(after, Event::Poll(switch, life));
        self.note(format_args!("switch {switch} starts, life {life}"));
        Ok(())
    }

    /// Lets a host send a packet to its switch, if that is running.
    fn offer(&mut self) {
        let (number, packet) = self
            .ledger
            .make(self.now, self.places.len(), &mut self.random);
        let frame = Ledger::frame(number, &packet);
        let (switch, host) = packet.from;
        self.figures.count(Count::Offered, 1);
        let gap = self.random.random_range(1..2 * self.gap_ns);
        self.push(gap, Event::Offer);
        if let Some(node) = &mut self.places[switch].node {
            node.workers.arrive_as(host, frame, Some(number));
        }
    }

    fn pass_due(&mut self, switch: usize, life: u32, worker: usize) -> Check {
        let place = &self.places[switch];
        let Some(node) = place.node.as_ref().filter(|_| place.life == life) else {
            return Ok(());
        };
        let stalled = node.workers[worker].stalled_until.saturating_sub(self.now);
        let after = stalled + self.random.random_range(PASS_NS / 10..PASS_NS);
        self.push(after, Event::Pass(switch, life, worker));
        if stalled > 0 {
            return Ok(());
        }
        self.pass(switch, worker)
    }

    fn poll(&mut self, switch: usize, life: u32) -> Check {
        let place = &mut self.places[switch];
        let is_alive = place.life == life;
        let Some(node) = place.node.as_mut().filter(|_| is_alive) else {
            return Ok(());
        };
        let stalled = node.stalled_until.saturating_sub(self.now);
        let after = stalled + self.random.random_range(POLL_NS / 2..POLL_NS * 3 / 2);
        if stalled > 0 {
            self.push(after, Event::Poll(switch, life));
            return Ok(());
        }
        node.clocks = place.clocks.clone();
        let snapshot = node.poll(self.now);
        for refused in std::mem::take(&mut node.state.lock().refused) {
            self.trace.note(
                self.now,
                format_args!("switch {switch} refuses a reload: {refused}"),
            );
        }
        let closed = node.memory.take_closed_in_use();
        holds("open-ports", closed.is_empty(), || {
            format!("switch {switch} closes ports {closed:?}, which its workers still use")
        })?;
        self.push(after, Event::Poll(switch, life));
        self.look(switch, &snapshot)
    }

    fn second(&mut self) {
        self.push(1_000_000_000, Event::Second);
        self.ledger.forget(self.now);
        let drift = if self.is_quiet {
            0.0
        } else {
            self.menu.drift_ppm
        };
        for place in &mut self.places {
            let ppb = (self.random.random_range(-1.0..=1.0) * drift * 1e3) as i64;
            place.clocks.drift(self.now, ppb);
        }
    }
}

#[cfg(test)]
mod tests;
