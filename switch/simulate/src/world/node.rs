//! A complete switch, with workers and control core, from a start to a kill.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use contract::change::{Change, ChangeError, CoreStatus, Reload};
use contract::config::{Config, Forwarding};
use contract::fdb::FdbMaster;
use contract::ids::PortIndex;
use control::core::{ControlCore, Setup};
use control::data_plane::{DataPlane, Event as CoreEvent, KernelClock, ResultMode, SystemTime};
use control::published::Published;
use measure::time::{Epoch, EpochSchedule, Ticks};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use records::snapshot::{Fdb, PortFact, Snapshot};
use switch::reconfigurer::{Difference, Draft, Progress, Reconfigurer, Running};
use switch::wiring::links::{Event, LinkWatch};
use switch::wiring::{Platform, present};

use crate::rack::{Memory, RackWorkers, Started, rate};

/// A running switch.
pub(super) struct Node {
    pub clocks: Clocks,
    pub memory: Memory,
    pub state: Shared,
    pub workers: RackWorkers,
    pub published: Arc<Published>,
    pub stalled_until: u64,
    /// Number of ports at the last pass of any worker.
    pub ports: usize,
    core: ControlCore<'static>,
    began: Instant,
    born: Ticks,
}

impl Node {
    /// Starts a switch by `config`, with the present clocks.
    ///
    /// # Errors
    /// In words: a configuration that makes no switch.
    pub fn start(
        config: &Config,
        clocks: Clocks,
        now: u64,
        skew_ticks: u64,
        has_link: Vec<bool>,
        random: &mut Pcg64,
    ) -> Result<Self, String> {
        let ticks = clocks.ticks(now);
        let began = Instant::now();
        let state = NodeState {
            monotonic: began,
            tai_ns: clocks.tai_ns(now),
            has_link,
            wanted: None,
            running: config.clone(),
            changes: (0, 0),
            refused: Vec::new(),
            random: Pcg64::seed_from_u64(random.random()),
        };
        let state = Shared(Arc::new(Mutex::new(state)));
        let measurement = &config.measurement;
        let schedule = EpochSchedule::new(
            ticks,
            rate().ticks_in(measurement.interval()),
            rate().ticks_in(measurement.grace()),
        );
        let memory = Memory::new(config.workers.len(), schedule, ticks, random.random());
        measurement.hash_key().ok_or("no hash_seed")?;
        let gauge_ticks = schedule.interval_ticks() / 2;
        let started = Started::new(memory.clone(), config, skew_ticks, gauge_ticks);
        let started = started.map_err(|e| format!("{e:#}"))?;
        let mut links = LinkWatch::new();
        for place in present(config) {
            links.watch(place, None, began);
        }
        let counters = started.workers.iter().map(|one| Arc::clone(&one.counters));
        let setup = Setup {
            rate: rate(),
            schedule,
            line: Arc::clone(&memory.line),
            counters: counters.collect(),
            hasher: started.hasher,
            first: started.first,
        };
        let data_plane = MemoryDataPlane {
            state: state.clone(),
            running: started.running,
            reconfigurer: Reconfigurer::default(),
            master: started.master,
            began,
            links,
            looked_at: None,
            from: Epoch(0),
        };
        let core = ControlCore::new(setup, data_plane).map_err(|e| e.to_string())?;
        Ok(Self {
            clocks,
            memory,
            state,
            workers: started.workers,
            published: core.published(),
            stalled_until: 0,
            ports: config.ports.len(),
            core,
            began,
            born: ticks,
        })
    }

    /// The counter, as a worker reads it.
    pub fn ticks(&self, worker: usize, now: u64) -> Ticks {
        (self.clocks.ticks(now)).plus(self.workers[worker].skew_ticks)
    }

    /// Polls the control core; returns its snapshot.
    pub fn poll(&mut self, now: u64) -> Arc<Snapshot> {
        let ticks = self.clocks.ticks(now);
        {
            self.memory.set_now(ticks);
            let state = &mut *self.state.lock();
            state.monotonic = self.began + Duration::from_nanos(ticks.since(self.born));
            state.tai_ns = self.clocks.tai_ns(now);
        }
        self.core.poll();
        self.published.read()
    }

    /// Runs one pass of worker `worker`.
    pub fn pass(&mut self, worker: usize, now: u64) {
        let ticks = self.ticks(worker, now);
        let one = &mut self.workers[worker];
        one.worker.io_mut().set_now(ticks);
        one.worker.pass();
        self.ports = self.ports.max(self.state.lock().running.ports.len());
    }
}

// The clocks of one switch: a counter that runs slightly fast or slow, and a system clock that drifts and can be set.

/// TAI at the beginning of a world.
const TAI_NS: i128 = 1_800_000_000_000_000_000;

const BILLION: i128 = 1_000_000_000;

/// Both clocks, by the world's time in nanoseconds.
#[derive(Debug, Clone)]
pub(super) struct Clocks {
    /// The time when the counter was at `ticks`.
    since: u64,
    ticks: Ticks,
    counter_ppb: i64,
    /// The time at which the system's clock was ahead by this offset.
    set_at: u64,
    ahead_ns: i64,
    drift_ppb: i64,
}

impl Clocks {
    /// A counter of 1 GHz that is at `ticks` at `now`, with this rate error, and a system clock that is ahead by this
    /// offset.
    pub fn new(now: u64, ticks: Ticks, counter_ppb: i64, ahead_ns: i64) -> Self {
        Self {
            since: now,
            ticks,
            counter_ppb,
            set_at: now,
            ahead_ns,
            drift_ppb: 0,
        }
    }

    /// The counter.
    pub fn ticks(&self, now: u64) -> Ticks {
        let passed = i128::from(now - self.since);
        let ticks = passed * (BILLION + i128::from(self.counter_ppb)) / BILLION;
        self.ticks.plus(u64::try_from(ticks).unwrap_or(0))
    }

    /// TAI by the system's clock.
    pub fn tai_ns(&self, now: u64) -> u64 {
        let tai = TAI_NS + i128::from(now) + i128::from(self.ahead_ns(now));
        u64::try_from(tai).unwrap_or(0)
    }

    /// By how much the system's clock is ahead.
    pub fn ahead_ns(&self, now: u64) -> i64 {
        let drifted = i128::from(now - self.set_at) * i128::from(self.drift_ppb) / BILLION;
        self.ahead_ns + i64::try_from(drifted).unwrap_or(0)
    }

    /// Sets the drift of the system's clock.
    pub fn drift(&mut self, now: u64, ppb: i64) {
        self.ahead_ns = self.ahead_ns(now);
        self.set_at = now;
        self.drift_ppb = ppb;
    }

    /// Steps the system's clock.
    pub fn step(&mut self, now: u64, by_ns: i64) {
        self.drift(now, self.drift_ppb);
        self.ahead_ns += by_ns;
    }
}

// The control core's data plane in memory: links, the filtering database, reloads, and the clocks.

/// As in the daemon.
const LINKS_EVERY: Duration = Duration::from_millis(100);

/// State shared by the world and its data plane.
#[derive(Debug)]
pub(super) struct NodeState {
    pub monotonic: Instant,
    pub tai_ns: u64,
    pub has_link: Vec<bool>,
    /// The configuration to apply.
    pub wanted: Option<Config>,
    /// The configuration in use.
    pub running: Config,
    /// Epochs in which the generation changes, from the first to the last; without a last one while workers are still
    /// changing.
    pub changes: (u64, u64),
    /// Error messages of refused reloads.
    pub refused: Vec<String>,
    pub random: Pcg64,
}

/// Access to it for both sides.
#[derive(Debug, Clone)]
pub(super) struct Shared(Arc<Mutex<NodeState>>);

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, NodeState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Continues a reload; returns the control core's change when it is due.
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

    /// Acts on a reload's progress, as the daemon does.
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
        self.running.platform.now()
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

    fn monotonic(&mut self) -> Instant {
        self.state.lock().monotonic
    }

    fn system_time(&mut self) -> SystemTime {
        SystemTime {
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
