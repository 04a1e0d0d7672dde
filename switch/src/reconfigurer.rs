//! Applies a changed configuration while packets flow: as a whole or not at all, at a rollover.
//!
//! ```text
//!  begin -> read (a separate thread: files, compare)
//!        -> prepared (by the target: attach, allocate) -> offered to the control core
//!        -> applied: the target's workers switch to it at the rollover, and release old parts -> done
//!  any error before it is applied -> refused; nothing has changed
//! ```
//!
//! `vernierd`, the plugin and the simulation use it. Each has a [`Target`]: a switch of workers
//! ([`Running`]), or another program with its queues.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use contract::change::{Change, ChangeError, CoreStatus, Reload, ReloadOutcome};
use contract::config::memory::keep_budget;
use contract::config::{self, Config, WireKeys};
use contract::ids::{GenerationId, PortIndex};
#[cfg(feature = "planted")]
use measure::planted;
use measure::time::Epoch;

use crate::egress::EgressLayout;
use crate::generation::{Generation, Generations, WorkerEnds};
use crate::source::Source;
use crate::wiring::Platform;
use crate::wiring::{changed_wires, egress_layout, hand_out};
use crate::wiring::{is_present, open_source, present};

/// Epochs from the current one to the first one of a generation: enough time for all workers to receive it.
const EPOCHS_AHEAD: u64 = 2;

/// The source of reloads.
#[derive(Debug, Clone)]
pub struct Orders {
    /// Set by a signal or a request.
    pub wanted: Arc<AtomicBool>,
    /// The configuration's file; without one it cannot change.
    pub file: Option<PathBuf>,
}

/// A generation being prepared, with the control core's part of it.
pub type Preparing<G> = Job<(Change, G)>;

/// What a reconfigurer changes, one generation after the other.
pub trait Target {
    /// A configuration that was read.
    type Draft: Send + 'static;
    /// Everything needed to apply a prepared generation.
    type Generation;

    /// Whether it needs a generation without a request.
    fn needs_generation(&self) -> bool {
        false
    }

    /// Starts to prepare a generation from a draft, or else from the current configuration, with the control core's
    /// part of it; returns `None` if the draft changes nothing.
    ///
    /// # Errors
    /// Why it cannot be applied.
    fn prepare(
        &mut self,
        draft: Option<Self::Draft>,
    ) -> Result<Option<Preparing<Self::Generation>>>;

    /// Sends a generation that begins with epoch `from` to all workers; the control core has its part. Returns the
    /// changes.
    fn apply(&mut self, generation: Self::Generation, from: Epoch) -> Difference;

    /// Frees the parts replaced by the last generation that are no longer used at epoch `present`; returns whether
    /// those are all.
    fn release(&mut self, present: Epoch) -> bool;
}

/// The changes of a reload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    /// Keys of the configuration.
    pub keys: Vec<String>,
    /// New ports.
    pub come: Vec<PortIndex>,
    /// Ports that are no longer used.
    pub gone: Vec<PortIndex>,
}

/// Progress of a reload.
#[derive(Debug)]
pub enum Progress {
    /// Nothing new.
    Pending,
    /// The configuration is being read.
    Reading,
    /// It cannot be applied; nothing has changed.
    Refused(anyhow::Error),
    /// It changes nothing.
    Unchanged,
    /// The control core must accept a change; [`Reconfigurer::answer`] follows.
    Offered(Box<Change>),
    /// The configuration is in effect, and the workers are switching to it.
    Begun(Difference),
    /// The previous configuration is no longer in use anywhere.
    Done,
    /// A generation [needed by the target](Target::needs_generation), not requested, cannot be applied.
    Failed(anyhow::Error),
}

/// Reloads of a target, one at a time.
pub struct Reconfigurer<T: Target> {
    reader: Reader<Option<T::Draft>>,
    /// A draft, until a generation of it can be prepared.
    draft: Option<T::Draft>,
    stage: Stage<T::Generation>,
    record: Record,
    /// Set while it works; still set after a panic.
    is_at_work: bool,
}

enum Stage<G> {
    Idle,
    Preparing(Cause, Preparing<G>),
    /// Begins with that epoch.
    Offered(Cause, G, Epoch),
    UnderWay(Cause),
}

/// Reason for a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Reload,
    Need,
}

impl Cause {
    fn failure(self, error: anyhow::Error) -> Progress {
        match self {
            Self::Reload => Progress::Refused(error),
            Self::Need => Progress::Failed(error),
        }
    }
}

impl<T: Target> Default for Reconfigurer<T> {
    fn default() -> Self {
        Self {
            reader: Reader::new(),
            draft: None,
            stage: Stage::Idle,
            record: Record::default(),
            is_at_work: false,
        }
    }
}

impl<T: Target> Reconfigurer<T> {
    /// The last reload; `None` before the first.
    pub fn last(&self) -> Option<Reload> {
        self.record.last()
    }

    /// Whether a reload can start.
    pub fn is_idle(&self) -> bool {
        !self.record.is_open()
    }

    /// Starts a reload if it [is idle](Self::is_idle): `read`, on a separate thread, returns a draft, or none if
    /// nothing has changed.
    pub fn begin(
        &mut self,
        read: Result<impl FnOnce() -> Result<Option<T::Draft>> + Send + 'static>,
        now: Instant,
    ) -> Progress {
        let begun = read.and_then(|read| self.reader.begin(read, now));
        self.note(begun.map_or_else(Progress::Refused, |()| Progress::Reading))
    }

    /// The same with a draft that was already read: a simulation waits for no thread.
    pub fn begin_with(&mut self, read: Result<Option<T::Draft>>, now: Instant) -> Progress {
        self.reader.follow(Job::done(read), now);
        self.note(Progress::Reading)
    }

    /// Continues, without waiting.
    pub fn step(&mut self, target: &mut T, core: CoreStatus, now: Instant) -> Progress {
        let has_panicked = std::mem::replace(&mut self.is_at_work, true);
        let progress = if has_panicked && self.record.is_open() {
            self.draft = None;
            Progress::Refused(ChangeError::Fault.into())
        } else {
            self.proceed(target, core, now)
        };
        self.is_at_work = false;
        self.note(progress)
    }

    fn proceed(&mut self, target: &mut T, core: CoreStatus, now: Instant) -> Progress {
        // After an error or a panic, no stage is left.
        match std::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Idle => (self.prepare(target, core, now)).unwrap_or_else(|end| end),
            Stage::Preparing(cause, job) => self.offer(cause, job, core),
            // A panic lost the change, or the answer.
            Stage::Offered(cause, ..) => cause.failure(ChangeError::Fault.into()),
            Stage::UnderWay(Cause::Reload) if target.release(core.epoch) => Progress::Done,
            Stage::UnderWay(Cause::Need) if target.release(core.epoch) => Progress::Pending,
            under_way @ Stage::UnderWay(_) => {
                self.stage = under_way;
                Progress::Pending
            }
        }
    }

    /// Takes the draft, and prepares a generation as soon as the control core can accept another one.
    fn prepare(
        &mut self,
        target: &mut T,
        core: CoreStatus,
        now: Instant,
    ) -> Result<Progress, Progress> {
        if self.draft.is_none()
            && let Some(read) = self.reader.take(now)
        {
            let draft = read.map_err(Progress::Refused)?;
            self.draft = Some(draft.ok_or(Progress::Unchanged)?);
        }
        if core.is_busy || self.draft.is_none() && !target.needs_generation() {
            return Ok(Progress::Pending);
        }
        let draft = self.draft.take();
        let cause = draft.as_ref().map_or(Cause::Need, |_| Cause::Reload);
        let job = (target.prepare(draft)).map_err(|error| cause.failure(error))?;
        Ok(self.offer(cause, job.ok_or(Progress::Unchanged)?, core))
    }

    /// Offers a prepared generation to the control core.
    fn offer(&mut self, cause: Cause, job: Preparing<T::Generation>, core: CoreStatus) -> Progress {
        match job.poll() {
            None => {
                self.stage = Stage::Preparing(cause, job);
                Progress::Pending
            }
            Some(Err(error)) => cause.failure(error),
            Some(Ok((mut change, generation))) => {
                change.from = Epoch(core.epoch.0 + EPOCHS_AHEAD);
                self.stage = Stage::Offered(cause, generation, change.from);
                Progress::Offered(Box::new(change))
            }
        }
    }

    /// Processes the control core's answer to the offered change.
    pub fn answer(&mut self, answer: Result<(), ChangeError>, target: &mut T) -> Progress {
        let Stage::Offered(cause, generation, from) =
            std::mem::replace(&mut self.stage, Stage::Idle)
        else {
            return Progress::Pending;
        };
        let progress = match answer {
            Ok(()) => {
                self.is_at_work = true;
                let difference = target.apply(generation, from);
                self.is_at_work = false;
                self.stage = Stage::UnderWay(cause);
                match cause {
                    Cause::Reload => Progress::Begun(difference),
                    Cause::Need => Progress::Pending,
                }
            }
            // It is offered again.
            Err(ChangeError::Busy { .. }) if cause == Cause::Need => Progress::Pending,
            Err(error) => cause.failure(error.into()),
        };
        self.note(progress)
    }

    fn note(&mut self, progress: Progress) -> Progress {
        self.record.note(&progress);
        progress
    }
}

// The published state of reloads: the last one and its outcome.

/// Most keys that are named; of further ones only the number is given.
const KEYS_MAX: usize = 64;

/// The last requested reload.
#[derive(Debug, Default)]
struct Record(Option<Reload>);

impl Record {
    /// The last reload; `None` before the first.
    pub fn last(&self) -> Option<Reload> {
        self.0.clone()
    }

    /// Whether the last reload is still in progress.
    pub fn is_open(&self) -> bool {
        self.0.as_ref().is_some_and(|last| is_open(last.outcome))
    }

    /// Records progress.
    pub fn note(&mut self, progress: &Progress) {
        let number = match &self.0 {
            Some(last) if is_open(last.outcome) => last.number,
            Some(last) => last.number + 1,
            None => 1,
        };
        let (outcome, message) = match progress {
            Progress::Pending | Progress::Offered(_) | Progress::Failed(_) => return,
            Progress::Reading => (ReloadOutcome::Reading, String::new()),
            Progress::Refused(error) => (ReloadOutcome::Refused, format!("{error:#}")),
            Progress::Unchanged => (ReloadOutcome::Unchanged, String::new()),
            Progress::Begun(difference) => (ReloadOutcome::UnderWay, difference.named()),
            Progress::Done => {
                let keys = self.0.take().map(|begun| begun.message);
                (ReloadOutcome::Done, keys.unwrap_or_default())
            }
        };
        self.0 = Some(Reload {
            number,
            outcome,
            message,
        });
    }
}

/// Whether it is still in progress.
fn is_open(outcome: ReloadOutcome) -> bool {
    matches!(outcome, ReloadOutcome::Reading | ReloadOutcome::UnderWay)
}

impl Difference {
    /// The keys, for display.
    pub fn named(&self) -> String {
        let more = self.keys.len().saturating_sub(KEYS_MAX);
        let named = self.keys[..self.keys.len() - more].join(", ");
        match more {
            0 => named,
            more => format!("{named} and {more} more"),
        }
    }
}

// Reads settings and the files that they name while packets flow, on a separate thread that nobody waits for. A file
// system that hangs delays neither later reloads nor the end of the switch.

/// Longest time to read; captures of gigabytes take a while.
pub const READING_MAX: Duration = Duration::from_mins(1);

/// Work on another thread with a single result.
#[derive(Debug)]
pub struct Job<T> {
    result: Receiver<Result<T>>,
    /// Its name in case of a panic.
    name: &'static str,
}

impl<T> Job<T> {
    /// A job, and the channel for its result.
    pub fn new(name: &'static str) -> (Sender<Result<T>>, Self) {
        let (sender, result) = mpsc::channel();
        (sender, Self { result, name })
    }

    /// A job that is already done.
    pub fn done(result: Result<T>) -> Self {
        let (sender, job) = Self::new("it");
        // The other end is here.
        let _ = sender.send(result);
        job
    }

    /// The result, once; `None` while there is none.
    ///
    /// # Errors
    /// The job's, or a panic of its thread.
    pub fn poll(&self) -> Option<Result<T>> {
        match self.result.try_recv() {
            Ok(result) => Some(result),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(anyhow!("{} panicked", self.name))),
        }
    }
}

/// Reads one thing at a time, on a thread that may outlive its owner.
#[derive(Debug)]
struct Reader<T> {
    reading: Option<Reading<T>>,
}

#[derive(Debug)]
struct Reading<T> {
    job: Job<T>,
    since: Instant,
    /// Whether it took too long and may still be running; its result is ignored.
    is_abandoned: bool,
}

impl<T: Send + 'static> Reader<T> {
    /// A reader without anything to read.
    pub fn new() -> Self {
        Self { reading: None }
    }

    /// Starts to read.
    ///
    /// # Errors
    /// If the previous thread has not ended, or the system cannot start a thread.
    pub fn begin(
        &mut self,
        read: impl FnOnce() -> Result<T> + Send + 'static,
        now: Instant,
    ) -> Result<()> {
        if self
            .reading
            .as_ref()
            .is_some_and(|earlier| earlier.job.poll().is_none())
        {
            return Err(overdue());
        }
        let (result, job) = Job::new("reading it");
        let work = move || {
            // Nobody receives it if the switch has stopped, or has waited too long.
            let _ = result.send(read());
        };
        Builder::new()
            .name("vernier-reload".to_owned())
            .spawn(work)
            .context("cannot start a thread to read it")?;
        self.follow(job, now);
        Ok(())
    }

    /// Waits for the result of `job`.
    pub fn follow(&mut self, job: Job<T>, now: Instant) {
        self.reading = Some(Reading {
            job,
            since: now,
            is_abandoned: false,
        });
    }

    /// The result, once; `None` while reading, and if nothing was started.
    ///
    /// # Errors
    /// Those of reading, a panic there, and a read that takes longer than [`READING_MAX`].
    pub fn take(&mut self, now: Instant) -> Option<Result<T>> {
        let reading = self
            .reading
            .as_mut()
            .filter(|reading| !reading.is_abandoned)?;
        let result = reading.job.poll();
        if result.is_some() {
            self.reading = None;
        } else if now.saturating_duration_since(reading.since) >= READING_MAX {
            reading.is_abandoned = true;
            return Some(Err(overdue()));
        }
        result
    }
}

fn overdue() -> anyhow::Error {
    let limit_s = READING_MAX.as_secs();
    anyhow!(
        "it, or a file that it names, was not read within {limit_s} s; check whether its file system responds"
    )
}

// A changed configuration, and the files that it names.

/// A configuration that may be applied, with everything read from its files.
pub struct Draft {
    /// The configuration, with each port at its index.
    pub config: Config,
    /// Its changes.
    pub difference: Difference,
    /// Sources of new ports, if any.
    pub sources: Vec<Option<Source>>,
    /// Ports whose wire is new, has changed, or ends.
    pub wires: Vec<usize>,
    /// Keys of the wires, if one of them changes.
    pub wire_keys: WireKeys,
}

impl Draft {
    /// Reads `file` for a switch that runs `running`; returns `None` if nothing has changed.
    ///
    /// # Errors
    /// Files that cannot be read or are invalid, and as [`Draft::of`].
    pub fn read(file: &Path, running: &Config, budget_mib: Option<usize>) -> Result<Option<Self>> {
        Self::of(Config::load_again(file, running)?, running, budget_mib)
    }

    /// Reads the files that `config` names, whose ports are in the order of those of `running`; returns `None` if
    /// nothing has changed.
    ///
    /// # Errors
    /// Files that cannot be read, changes that are impossible while the switch runs, memory beyond `budget_mib`.
    pub fn of(config: Config, running: &Config, budget_mib: Option<usize>) -> Result<Option<Self>> {
        let changes = running.diff(&config);
        if changes.is_empty() {
            return Ok(None);
        }
        refuse_fixed(&changes)?;
        keep_budget(&config, budget_mib)?;

        let places = |of: &Config, not_of: &Config| -> Vec<PortIndex> {
            let places = present(of).filter(|&place| !is_present(not_of, place));
            places.map(PortIndex::new).collect()
        };
        let come = places(&config, running);
        let sources = come.iter();
        let sources = sources.map(|port| open_source(&config.ports[port.index()]));
        let sources = sources.collect::<Result<_>>()?;
        let wires = changed_wires(running, &config);
        // Wires that stay may have other keys.
        let are_wires_other = running.wire != config.wire || running.wires().ne(config.wires());
        let is_any_new = wires.iter().any(|&place| config.wire(place).is_some());
        let wire_keys = if is_any_new || are_wires_other {
            config.read_wire_keys()?
        } else {
            WireKeys::default()
        };
        Ok(Some(Self {
            difference: Difference {
                keys: changes.into_iter().map(|change| change.path).collect(),
                gone: places(running, &config),
                come,
            },
            sources,
            wires,
            wire_keys,
            config,
        }))
    }
}

/// Rejects changes that are impossible while the switch runs.
fn refuse_fixed(changes: &[config::Change]) -> Result<()> {
    let fixed: Vec<String> = changes
        .iter()
        .filter(|change| !change.is_live())
        .map(ToString::to_string)
        .collect();
    if !fixed.is_empty() {
        bail!("{}", fixed.join("; "));
    }
    Ok(())
}

// A switch of workers as seen by reloads: the current configuration, its ports, and the ends to the workers.

/// A platform on which generations are prepared while packets flow.
pub trait Prepare: Platform {
    /// Starts a preparation.
    ///
    /// # Errors
    /// If it cannot start.
    fn prepare(&self, preparation: Preparation<Self>) -> Result<Preparing<Next<Self>>>;
}

/// The current configuration, and everything made from it.
pub struct Running<P: Platform> {
    /// The platform.
    pub platform: P,
    /// The configuration, with ports by index.
    pub config: Config,
    /// By port index.
    pub ports: Vec<Option<P::Port>>,
    /// Number of the generation.
    pub number: GenerationId,
    /// The ends to the workers.
    pub workers: WorkerEnds<P::Io>,
    /// The egress side of each port, by index.
    layouts: Vec<Option<EgressLayout>>,
    /// Ports to close when all workers have returned them.
    gone: Vec<PortIndex>,
}

impl<P: Platform> Running<P> {
    /// The initial state, with a port at each index.
    pub fn new(
        platform: P,
        config: &Config,
        ports: Vec<P::Port>,
        workers: Vec<Generations<P::Io>>,
    ) -> Self {
        let layouts = (0..ports.len()).map(|place| Some(egress_layout(config, place, None)));
        Self {
            platform,
            config: config.clone(),
            layouts: layouts.collect(),
            ports: ports.into_iter().map(Some).collect(),
            number: GenerationId::default(),
            workers: WorkerEnds::new(workers),
            gone: Vec::new(),
        }
    }

    fn close_gone(&mut self) {
        for port in std::mem::take(&mut self.gone) {
            self.ports[port.index()] = None;
        }
    }
}

/// A generation that is ready for the workers.
pub struct Next<P: Platform> {
    config: Config,
    difference: Difference,
    /// One for each worker. Dropped before the ports, whose queues they contain.
    generations: Vec<Generation<P::Io>>,
    /// The new ones.
    ports: Vec<P::Port>,
    layouts: Vec<Option<EgressLayout>>,
}

impl<P: Prepare> Target for Running<P> {
    type Draft = Draft;
    type Generation = Next<P>;

    fn prepare(&mut self, draft: Option<Draft>) -> Result<Option<Preparing<Next<P>>>> {
        let Some(draft) = draft else { return Ok(None) };
        let preparation = Preparation {
            platform: self.platform.clone(),
            draft,
            running: self.config.clone(),
            layouts: self.layouts.clone(),
            number: self.number.next(),
        };
        self.platform.prepare(preparation).map(Some)
    }

    fn apply(&mut self, mut next: Next<P>, from: Epoch) -> Difference {
        for generation in &mut next.generations {
            generation.from = from;
        }
        self.workers.send(next.generations);
        self.config = next.config;
        self.layouts = next.layouts;
        self.number = self.number.next();
        self.gone.clone_from(&next.difference.gone);
        self.ports.resize_with(self.config.ports.len(), || None);
        for (index, port) in next.difference.come.iter().zip(next.ports) {
            self.ports[index.index()] = Some(port);
        }
        next.difference
    }

    /// Closes removed ports. The workers' handles were freed with the boxes: these are the last.
    fn release(&mut self, _: Epoch) -> bool {
        #[cfg(feature = "planted")]
        if planted::is(planted::Bug::EarlyClose) {
            self.close_gone();
        }
        let is_over = self.workers.collect();
        if is_over {
            self.close_gone();
        }
        is_over
    }
}

/// Inputs of a generation.
pub struct Preparation<P> {
    platform: P,
    draft: Draft,
    running: Config,
    layouts: Vec<Option<EgressLayout>>,
    number: GenerationId,
}

impl<P: Platform> Preparation<P> {
    /// Makes everything needed to change to the configuration.
    ///
    /// # Errors
    /// Unavailable devices, queues, memory or threads.
    pub fn make(self) -> Result<(Change, Next<P>)> {
        let (running, mut layouts) = (self.running, self.layouts);
        let Draft {
            mut config,
            difference,
            sources,
            wires: changed_wires,
            wire_keys,
        } = self.draft;
        let (mut ports, mut handles) = (Vec::new(), Vec::new());
        for (index, source) in difference.come.iter().zip(sources) {
            let port = self.platform.start(&mut config, index.index())?;
            handles.push(
                self.platform
                    .handles(&config, index.index(), &port, source)?,
            );
            ports.push(port);
        }
        let others = changed_ports(&running, &config);
        let places = [others.as_slice(), &changed_wires];
        let (site, now) = (self.platform.site(), self.platform.now());
        let (mut generations, change) =
            site.generations(self.number, &config, places, &layouts, wire_keys, now)?;
        for handles in handles {
            hand_out(&mut generations, handles);
        }
        for generation in &mut generations {
            generation.gone = Generation::<P::Io>::room(&running, &difference.gone);
            generation.decide = Some(site.replica(&config, None));
        }
        layouts.resize_with(config.ports.len(), || None);
        for place in others {
            let is_there = is_present(&config, place);
            layouts[place] =
                is_there.then(|| egress_layout(&config, place, layouts[place].as_ref()));
        }
        let next = Next {
            config,
            difference,
            generations,
            ports,
            layouts,
        };
        Ok((change, next))
    }
}

/// Ports whose egress side has changed, including new and removed ones.
fn changed_ports(before: &Config, config: &Config) -> Vec<usize> {
    let is_changed = |&place: &usize| {
        let [old, new] = [before, config].map(|config| config.ports.get(place));
        before.classes != config.classes
            || is_present(before, place) != is_present(config, place)
            || old.map(|port| &port.egress) != new.map(|port| &port.egress)
    };
    (0..config.ports.len()).filter(is_changed).collect()
}

#[cfg(test)]
mod tests;
