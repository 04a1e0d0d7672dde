//! The control core's way to ports and workers in memory: links, the filtering database, reloads, and the clocks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use contract::change::{Change, ChangeError, CoreStatus};
use contract::config::{Config, Device, Forwarding, WireKeys};
use contract::fdb::FdbMaster;
use contract::ids::{GenerationId, PortIndex, WorkerIndex};
use contract::wire::clock::SharedLine;
use contract::wire::handover::WireControlEnd;
use control::data_plane::{DataPlane, Event as CoreEvent, Reading, ResultMode};
use control::wire::clock::{KernelClock, SystemTime as Tai};
use measure::time::{Epoch, EpochSchedule, TickRate, Ticks};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use records::snapshot::{Fdb, Pool, PortFact};
use switch::decide::Decide;
use switch::egress::EgressLayout;
use switch::egress::Lane;
use switch::generation::{Generation, Generations, Measuring};
use switch::meter::{Devices, Plan};
use switch::packet_io::memory::{MemoryChange, MemoryIo, MemoryPacket};
use switch::wire::WireChange;
use switch::wiring::lanes;
use switch::wiring::links::{Event, LinkWatch};
use switch::wiring::plans::{plan, present};
use switch::wiring::wires::{Origin, changed, wire_port};

/// As in the daemon.
const LINKS_EVERY: Duration = Duration::from_millis(100);
const EPOCHS_AHEAD: u64 = 2;

/// What the world and its data plane share.
#[derive(Debug)]
pub(super) struct NodeState {
    pub ticks: Ticks,
    pub monotonic: Instant,
    pub system: SystemTime,
    pub tai_ns: u64,
    pub has_link: Vec<bool>,
    /// A configuration that is to be taken up.
    pub wanted: Option<Config>,
    /// The configuration that holds.
    pub running: Config,
    /// Epochs in which generations change: from the first to the last, while workers still take one up to none.
    pub changes: (u64, u64),
    /// Refused reloads, in words.
    pub refused: Vec<String>,
    pub random: Pcg64,
}

impl NodeState {
    /// A switch by `config` that starts at an instant of the counter and of the monotonic clock.
    pub fn new(config: &Config, (ticks, monotonic): (Ticks, Instant), seed: u64) -> Self {
        Self {
            ticks,
            monotonic,
            system: SystemTime::UNIX_EPOCH,
            tai_ns: 0,
            has_link: Vec::new(),
            wanted: None,
            running: config.clone(),
            changes: (0, 0),
            refused: Vec::new(),
            random: Pcg64::seed_from_u64(seed),
        }
    }
}

/// Both sides' way to it.
#[derive(Debug, Clone)]
pub(super) struct Shared(Arc<Mutex<NodeState>>);

impl Shared {
    pub fn new(state: NodeState) -> Self {
        Self(Arc::new(Mutex::new(state)))
    }

    pub fn lock(&self) -> MutexGuard<'_, NodeState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What does not change while a switch lives.
#[derive(Debug, Clone)]
pub(super) struct Site {
    pub rate: TickRate,
    pub schedule: EpochSchedule,
    pub line: Arc<SharedLine>,
    pub devices: Arc<Devices>,
    pub workers: usize,
    pub seed: u64,
}

/// What workers get of a generation, and the control core's ends.
pub(super) struct Parts {
    pub workers: Vec<WorkerParts>,
    pub change: Change,
    pub layouts: Vec<Option<EgressLayout>>,
}

/// One worker's part.
pub(super) struct WorkerParts {
    pub lanes: Vec<(usize, Lane<MemoryPacket>)>,
    pub plan: Option<Box<Plan>>,
    pub wires: Vec<WireChange<MemoryPacket>>,
    pub inlets: Vec<PortIndex>,
}

impl Site {
    /// All of a generation: lanes of the ports at `lanes_of`, wires of those at `wires_of`.
    ///
    /// # Errors
    /// In words, as a reload is refused.
    pub fn parts(
        &self,
        config: &Config,
        number: GenerationId,
        (lanes_of, wires_of): (&[usize], &[usize]),
        mut layouts: Vec<Option<EgressLayout>>,
        now: Ticks,
    ) -> Result<Parts, String> {
        let layout = config.shard_layout(self.rate).map_err(|e| e.to_string())?;
        let keys = config.read_wire_keys().map_err(|e| e.to_string())?;
        let (mut workers, mut ends) = (Vec::new(), Vec::new());
        let arounds = self.devices.of(config, self.rate);
        let workers_of = config.assignment().into_iter().zip(arounds).enumerate();
        for (worker, (queues, arounds)) in workers_of {
            let mut measured = None;
            if config.measurement.enabled {
                let (plan, end) = plan(config, WorkerIndex::new(worker), number, &layout, arounds)
                    .map_err(|e| format!("{e:#}"))?;
                ends.push(Some(end));
                measured = Some(Box::new(plan));
            }
            workers.push(WorkerParts {
                lanes: Vec::new(),
                plan: measured,
                wires: Vec::new(),
                inlets: queues
                    .into_iter()
                    .map(|(port, _)| PortIndex::new(port))
                    .collect(),
            });
        }
        for &place in lanes_of {
            let old = layouts.get(place).and_then(Option::as_ref);
            for (worker, way) in lanes::ways(config, place).into_iter().enumerate() {
                let seed = self.seed ^ ((worker as u64) << 32 | place as u64);
                let lane = way.lane(config, place, old, self.rate, seed);
                workers[worker].lanes.push((place, lane));
            }
        }
        layouts.resize_with(config.ports.len(), || None);
        for &place in lanes_of {
            let is_there = config.ports[place].device != Device::Absent;
            layouts[place] =
                is_there.then(|| lanes::layout(config, place, layouts[place].as_ref()));
        }
        let mut wires = Vec::new();
        for &place in wires_of {
            let (wire, end) = self.wire(config, &keys, place, now)?;
            wires.extend(end.map(|end| (PortIndex::new(place), end)));
            let owner = config.owner(place).unwrap_or(0);
            let mut wire = wire;
            for (worker, parts) in workers.iter_mut().enumerate() {
                parts.wires.push((place, wire.take_if(|_| worker == owner)));
            }
        }
        let change = Change {
            number,
            from: Epoch(0),
            config: config.clone(),
            keys,
            layout,
            ends,
            wires,
        };
        Ok(Parts {
            workers,
            change,
            layouts,
        })
    }

    #[expect(
        clippy::type_complexity,
        reason = "both are absent together, and taken apart at once"
    )]
    fn wire(
        &self,
        config: &Config,
        keys: &WireKeys,
        place: usize,
        now: Ticks,
    ) -> Result<
        (
            Option<Box<switch::wire::WirePort<MemoryPacket>>>,
            Option<WireControlEnd>,
        ),
        String,
    > {
        let Some(wire) = config.wire(place) else {
            return Ok((None, None));
        };
        let origin = Origin {
            rate: self.rate,
            schedule: self.schedule,
            line: &self.line,
            recorder: None,
            now,
        };
        let (wire, end) =
            wire_port(config, keys, place, wire, origin).map_err(|e| format!("{e:#}"))?;
        Ok((Some(Box::new(wire)), Some(end)))
    }

    /// A worker's forwarding.
    pub fn decide(&self, config: &Config, end: Option<contract::fdb::ReplicaEnd>) -> Box<Decide> {
        Box::new(Decide::from_config(config, self.rate, self.seed, end))
    }
}

/// Which ports another configuration concerns, by index.
struct PortChanges {
    come: Vec<usize>,
    gone: Vec<usize>,
    /// These, and those whose egress side is another.
    others: Vec<usize>,
}

impl PortChanges {
    fn of(running: &Config, config: &Config) -> Self {
        let was: Vec<usize> = present(running).collect();
        let is: Vec<usize> = present(config).collect();
        let without = |ports: &[usize], others: &[usize]| -> Vec<usize> {
            let ports = ports.iter().copied();
            ports.filter(|port| !others.contains(port)).collect()
        };
        let (come, gone) = (without(&is, &was), without(&was, &is));
        let is_other = |port: &usize| {
            come.contains(port)
                || gone.contains(port)
                || running.classes != config.classes
                || running.ports[*port].egress != config.ports[*port].egress
        };
        let others = (0..config.ports.len()).filter(is_other).collect();
        Self { come, gone, others }
    }
}

/// The data plane.
pub(super) struct MemoryDataPlane {
    pub site: Site,
    pub state: Shared,
    pub master: FdbMaster,
    pub generations: Vec<Generations<MemoryIo>>,
    pub layouts: Vec<Option<EgressLayout>>,
    pub began: Instant,
    pub links: LinkWatch,
    pub looked_at: Option<Instant>,
    pub number: GenerationId,
    /// Workers that have given back the old parts of what is under way.
    pub returned: Option<usize>,
    /// What follows when the control core has taken the change that it was given.
    pub offered: Option<Offered>,
}

/// A generation that is ready to be taken up.
pub(super) struct Offered {
    config: Config,
    number: GenerationId,
    from: Epoch,
    generations: Vec<Generation<MemoryIo>>,
    layouts: Vec<Option<EgressLayout>>,
    come: Vec<usize>,
    gone: Vec<usize>,
}

impl MemoryDataPlane {
    fn watch_links(&mut self, now: Instant, said: &mut Vec<CoreEvent>) {
        let is_due = |at| now.saturating_duration_since(at) >= LINKS_EVERY;
        if !self.looked_at.is_none_or(is_due) {
            return;
        }
        self.looked_at = Some(now);
        let has_link = self.state.lock().has_link.clone();
        let mut events = Vec::new();
        let has_link = |place: usize| has_link.get(place).copied().unwrap_or(true);
        self.links.look(now, has_link, &mut events);
        for event in events {
            if let Event::Down(place) | Event::Up(place) = event {
                self.master
                    .set_link(PortIndex::new(place), matches!(event, Event::Up(_)));
                said.push(CoreEvent::Disturbed {
                    port: PortIndex::new(place),
                });
            }
        }
    }

    /// Continues a reload, as the daemon does; the change of the control core, once it is to be taken.
    fn change(&mut self, core: CoreStatus) -> Option<Change> {
        if let Some(returned) = &mut self.returned {
            let back = self
                .generations
                .iter_mut()
                .filter_map(Generations::take_gone);
            *returned += back.count();
            if *returned == self.generations.len() {
                self.returned = None;
                let state = &mut *self.state.lock();
                state.changes.1 = core.epoch.0 + 1;
            }
            return None;
        }
        if core.is_busy {
            return None;
        }
        let wanted = self.state.lock().wanted.take()?;
        self.offer(wanted, core.epoch).unwrap_or_else(|refused| {
            self.state.lock().refused.push(refused);
            None
        })
    }

    fn offer(&mut self, wanted: Config, present_epoch: Epoch) -> Result<Option<Change>, String> {
        let (running, ticks) = {
            let state = self.state.lock();
            (state.running.clone(), state.ticks)
        };
        let config = wanted.in_place_of(&running).map_err(|e| e.to_string())?;
        let changes = running.diff(&config);
        if changes.is_empty() {
            return Ok(None);
        }
        if let Some(fixed) = changes.iter().find(|change| !change.is_live()) {
            return Err(fixed.to_string());
        }
        let PortChanges { come, gone, others } = PortChanges::of(&running, &config);
        let number = self.number.next();
        let wires = changed(&running, &config);
        let mut parts = self.site.parts(
            &config,
            number,
            (&others, &wires),
            self.layouts.clone(),
            ticks,
        )?;
        let from = Epoch(present_epoch.0 + EPOCHS_AHEAD);
        parts.change.from = from;
        let more_ports = config.ports.len() - running.ports.len();
        let generations = parts.workers.into_iter().map(|parts| Generation {
            number,
            from,
            ports: Some(MemoryChange {
                ports: more_ports,
                inlets: parts.inlets,
            }),
            decide: Some(self.site.decide(&config, None)),
            lanes: parts.lanes,
            measuring: Measuring::Changed(parts.plan),
            wires: parts.wires,
        });
        self.offered = Some(Offered {
            number,
            from,
            generations: generations.collect(),
            layouts: parts.layouts,
            come,
            gone,
            config,
        });
        Ok(Some(parts.change))
    }

    /// The control core has taken a change: sends the workers their parts.
    fn take_up(&mut self, offered: Offered) {
        let now = self.state.lock().monotonic;
        for (worker, generation) in self.generations.iter_mut().zip(offered.generations) {
            assert!(
                worker.send(Box::new(generation)).is_ok(),
                "all before have come back"
            );
        }
        self.number = offered.number;
        self.layouts = offered.layouts;
        self.returned = Some(0);
        self.master.reconfigure(offered.config.fdb_settings());
        for place in offered.gone {
            self.master.set_link(PortIndex::new(place), false);
        }
        for place in offered.come {
            self.links.watch(place, None, now);
            self.master.set_link(PortIndex::new(place), true);
        }
        let state = &mut *self.state.lock();
        state.changes = (offered.from.0, u64::MAX);
        state.running = offered.config;
    }
}

impl DataPlane for MemoryDataPlane {
    fn now(&mut self) -> Ticks {
        self.state.lock().ticks
    }

    fn port(&mut self, port: PortIndex) -> PortFact {
        let index = port.index();
        PortFact {
            driver: "memory".to_owned(),
            is_up: self.links.is_up(index),
            link_flaps: self.links.flaps(index),
            ..PortFact::default()
        }
    }

    fn pools(&mut self) -> Vec<Pool> {
        Vec::new()
    }

    fn fdb(&mut self) -> Option<Fdb> {
        let Forwarding::Bridge { fdb_entries, .. } = self.state.lock().running.forwarding else {
            return None;
        };
        Some(Fdb {
            entries: self.master.len() as u64,
            capacity: u64::from(fdb_entries),
            stats: self.master.stats(),
        })
    }

    fn kernel_clock(&mut self) -> Option<KernelClock> {
        Some(KernelClock {
            is_synchronised: true,
            estimated_error_us: 1,
            error_us_max: 1,
        })
    }

    fn clocks(&mut self) -> Reading {
        let state = self.state.lock();
        Reading {
            monotonic: [state.monotonic; 2],
            system: state.system,
        }
    }

    fn system_time(&mut self) -> Tai {
        Tai {
            tai_ns: self.state.lock().tai_ns,
            tai_utc_s: 37,
        }
    }

    fn random(&mut self) -> u64 {
        self.state.lock().random.random()
    }

    fn decoding(&self) -> ResultMode {
        ResultMode::Awaited
    }

    fn poll(&mut self, core: CoreStatus) -> Vec<CoreEvent> {
        let now = self.state.lock().monotonic;
        let mut said = Vec::new();
        self.watch_links(now, &mut said);
        self.master.poll(now.saturating_duration_since(self.began));
        let change = self.change(core);
        said.extend(change.map(|change| CoreEvent::Change(Box::new(change))));
        said
    }

    fn answer(&mut self, answer: Result<(), ChangeError>) {
        let offered = self.offered.take();
        match answer {
            Ok(()) => offered
                .into_iter()
                .for_each(|offered| self.take_up(offered)),
            Err(error) => self.state.lock().refused.push(error.to_string()),
        }
    }
}
