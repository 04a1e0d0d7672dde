//! A changed configuration, taken up while packets flow: refused whole or taken up whole, at an epoch's rollover.
//!
//! ```text
//!  begin -> read (a thread of its own: files, compare)
//!        -> prepared (by the target: attach, allocate) -> offered to the control core
//!        -> applied: the target's workers take it up at the rollover, and release what they had -> done
//!  any error before it is applied -> refused; nothing has changed
//! ```
//!
//! `vernierd`, the plugin and the simulation run it. What it changes is their [`Target`]: a switch of workers
//! ([`Running`]), or another program with its queues.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::Result;
use contract::change::{Change, ChangeError, CoreStatus, Reload};
use contract::ids::PortIndex;
use measure::time::Epoch;

mod draft;
mod reading;
mod record;
mod running;

pub use draft::Draft;
pub use reading::Job;
pub use running::{Next, Preparation, Prepare, Running};

use reading::Reader;
use record::Record;

/// Epochs from the present one to that with which a generation begins: time for all workers to see
/// it.
const EPOCHS_AHEAD: u64 = 2;

/// Who asks for a reload, and of what.
#[derive(Debug, Clone)]
pub struct Orders {
    /// Set by a signal or a request.
    pub wanted: Arc<AtomicBool>,
    /// The configuration's file; none: it came from nowhere, and cannot change.
    pub file: Option<PathBuf>,
}

/// A generation under preparation, with the control core's part of it.
pub type Preparing<G> = Job<(Change, G)>;

/// What a reconfigurer changes, one generation after the other.
pub trait Target {
    /// A configuration that was read.
    type Draft: Send + 'static;
    /// All that is needed to take up a prepared generation.
    type Generation;

    /// Whether it needs a generation that nobody asks for.
    fn needs_generation(&self) -> bool {
        false
    }

    /// Begins to prepare a generation by a draft, or else by the configuration in use, with the control core's part of
    /// it; `None` if the draft says what holds already.
    ///
    /// # Errors
    /// Why it cannot be taken up.
    fn prepare(
        &mut self,
        draft: Option<Self::Draft>,
    ) -> Result<Option<Preparing<Self::Generation>>>;

    /// Sends a generation that begins with epoch `from` to all who are to take it up: the control core has its part.
    /// Returns what it changes.
    fn apply(&mut self, generation: Self::Generation, from: Epoch) -> Difference;

    /// Frees what the last generation has replaced, as far as nobody uses it any more at epoch `present`; whether that
    /// is all of it.
    fn release(&mut self, present: Epoch) -> bool;
}

/// What a reload changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    /// Keys of the configuration.
    pub keys: Vec<String>,
    /// New ports.
    pub come: Vec<PortIndex>,
    /// Ports that are no longer used.
    pub gone: Vec<PortIndex>,
}

/// What has happened.
#[derive(Debug)]
pub enum Progress {
    /// Nothing.
    Pending,
    /// The configuration is being read.
    Reading,
    /// It cannot be taken up; nothing has changed.
    Refused(anyhow::Error),
    /// It says what holds already.
    Unchanged,
    /// The control core is to take a change; [`Reconfigurer::answer`] follows.
    Offered(Box<Change>),
    /// The configuration holds now, and the workers take it up.
    Begun(Difference),
    /// Nobody uses anything of the configuration before it any more.
    Done,
    /// Not of a reload: a generation that the [target needs](Target::needs_generation) cannot be taken up.
    Failed(anyhow::Error),
}

/// Reloads of a target, one at a time, each as far as it got.
pub struct Reconfigurer<T: Target> {
    reader: Reader<Option<T::Draft>>,
    /// What was read, until a generation of it can be prepared.
    draft: Option<T::Draft>,
    stage: Stage<T::Generation>,
    record: Record,
    /// Set while it works; left set by a panic.
    is_at_work: bool,
}

enum Stage<G> {
    Idle,
    Preparing(Cause, Preparing<G>),
    /// To begin with that epoch.
    Offered(Cause, G, Epoch),
    UnderWay(Cause),
}

/// Why there is a generation.
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

    /// Whether a reload can begin.
    pub fn is_idle(&self) -> bool {
        !self.record.is_open()
    }

    /// Begins a reload while it [is idle](Self::is_idle): `read`, by a thread of its own, gives a draft, or none if
    /// nothing has changed.
    pub fn begin(
        &mut self,
        read: Result<impl FnOnce() -> Result<Option<T::Draft>> + Send + 'static>,
        now: Instant,
    ) -> Progress {
        let begun = read.and_then(|read| self.reader.begin(read, now));
        self.note(begun.map_or_else(Progress::Refused, |()| Progress::Reading))
    }

    /// The same with what was read already: a simulation waits for no thread.
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
        // Where an error or a panic ends it, no stage is left.
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

    /// Takes what was read, and prepares a generation as soon as the control core can take another one.
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

    /// Offers the control core what was prepared, once it is.
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

    /// The control core has taken the change that was offered, or not.
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

#[cfg(test)]
mod tests;
