//! The control core's way to ports and workers in memory: links, the filtering database, reloads, and the clocks.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;
use contract::change::{Change, ChangeError, CoreStatus, Reload};
use contract::config::{Config, Forwarding};
use contract::fdb::FdbMaster;
use contract::ids::PortIndex;
use contract::wire::clock::SharedLine;
use control::data_plane::{DataPlane, Event as CoreEvent, Reading, ResultMode};
use control::wire::clock::{KernelClock, SystemTime as Tai};
use measure::time::{Epoch, EpochSchedule, TickRate, Ticks};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use records::snapshot::{Fdb, Pool, PortFact};
use switch::meter::Devices;
use switch::packet_io::memory::{MemoryHandles, MemoryIo, Outlet};
use switch::reconfigurer::{
    Difference, Draft, Job, Next, Preparation, Prepare, Preparing, Progress, Reconfigurer, Running,
};
use switch::source::Source;
use switch::wiring::links::{Event, LinkWatch};
use switch::wiring::plans::Site;
use switch::wiring::platform::Platform;

/// As in the daemon.
const LINKS_EVERY: Duration = Duration::from_millis(100);

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
    /// Ports that were closed while a worker had a part of them.
    pub closed_in_use: Vec<usize>,
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
            closed_in_use: Vec::new(),
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

/// What a switch in memory runs on.
#[derive(Debug, Clone)]
pub(super) struct Memory {
    /// All are on the one that there is.
    pub cpus: Arc<[usize]>,
    pub rate: TickRate,
    pub schedule: EpochSchedule,
    pub line: Arc<SharedLine>,
    pub devices: Arc<Devices>,
    pub seed: u64,
    pub state: Shared,
}

/// A port in memory.
pub(super) struct OpenPort {
    place: usize,
    outlet: Outlet,
    state: Shared,
}

impl Drop for OpenPort {
    fn drop(&mut self) {
        if Arc::strong_count(&self.outlet) > 1 {
            self.state.lock().closed_in_use.push(self.place);
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
            rate: self.rate,
            schedule: self.schedule,
            line: &self.line,
            devices: &self.devices,
            recording: None,
            seed: self.seed,
        }
    }

    fn now(&self) -> Ticks {
        self.state.lock().ticks
    }

    fn start(&self, _: &mut Config, place: usize) -> Result<OpenPort> {
        Ok(OpenPort {
            place,
            outlet: Outlet::default(),
            state: self.state.clone(),
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

/// The data plane.
pub(super) struct MemoryDataPlane {
    pub state: Shared,
    pub running: Running<Memory>,
    pub reconfigurer: Reconfigurer<Running<Memory>>,
    pub master: FdbMaster,
    pub began: Instant,
    pub links: LinkWatch,
    pub looked_at: Option<Instant>,
    /// The first epoch of the last change that was offered.
    pub from: Epoch,
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

    /// Continues a reload; the change of the control core, once it is to be taken.
    fn change(&mut self, core: CoreStatus) -> Option<Box<Change>> {
        let now = self.state.lock().monotonic;
        let is_idle = self.reconfigurer.is_idle();
        let wanted = is_idle.then(|| self.state.lock().wanted.take()).flatten();
        if let Some(wanted) = wanted {
            let running = &self.running.config;
            let config = wanted.in_place_of(running).map_err(Into::into);
            let draft = config.and_then(|config| Draft::of(config, running, None));
            self.reconfigurer.begin_with(draft, now);
            return None;
        }
        match self.reconfigurer.step(&mut self.running, core, now) {
            Progress::Offered(change) => {
                self.from = change.from;
                Some(change)
            }
            progress => {
                self.follow_reload(progress, core.epoch);
                None
            }
        }
    }

    /// Does what a reload's progress requires, as the daemon does.
    fn follow_reload(&mut self, progress: Progress, present: Epoch) {
        let state = &mut *self.state.lock();
        match progress {
            Progress::Refused(error) | Progress::Failed(error) => {
                state.refused.push(format!("{error:#}"));
            }
            Progress::Begun(Difference { come, gone, .. }) => {
                state.running = self.running.config.clone();
                state.changes = (self.from.0, u64::MAX);
                self.master.reconfigure(state.running.fdb_settings());
                for port in gone {
                    self.master.set_link(port, false);
                    self.links.forget(port.index(), state.monotonic);
                }
                for port in come {
                    self.links.watch(port.index(), None, state.monotonic);
                    self.master.set_link(port, true);
                }
            }
            Progress::Done => state.changes.1 = present.0 + 1,
            _ => {}
        }
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
        said.extend(self.change(core).map(CoreEvent::Change));
        said
    }

    fn reload(&mut self) -> Option<Reload> {
        self.reconfigurer.last()
    }

    fn answer(&mut self, answer: Result<(), ChangeError>) {
        let progress = self.reconfigurer.answer(answer, &mut self.running);
        self.follow_reload(progress, self.from);
    }
}
