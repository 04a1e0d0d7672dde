//! Shards of one epoch, put together over all workers.
//!
//! An epoch's worker set says which workers measure it. The epoch closes when each of them gave its
//! shard or has moved past it. Shards are added into a sum of the control core's own as they come,
//! so that a worker gets its memory back at once, however late the others are. Shards of different
//! generations cannot be added: an epoch that the workers did not measure alike gives no numbers.

use std::collections::VecDeque;
use std::ops::Range;

use measure::synopsis::Synopsis;
use measure::time::Epoch;

use contract::handover::SHARDS_PER_WORKER;
use contract::ids::{GenerationId, WorkerIndex};

/// Most epochs that wait for a worker; the oldest is given up for another. No worker has more under way
/// unless another hangs.
const WAITING_MAX: usize = SHARDS_PER_WORKER;

/// Most sums that are kept for further epochs.
const SPARE_MAX: usize = WAITING_MAX + 1;

/// Most worker sets that are kept. So many begin while no epoch closes only where workers come and go that
/// measure nothing.
const WORKER_SETS_MAX: usize = 64;

/// Epochs under assembly.
#[derive(Debug)]
pub(crate) struct Assembly<S> {
    /// The newest epoch that each worker gave.
    newest: Vec<Option<Epoch>>,
    /// In order of epochs.
    waiting: VecDeque<Waiting<S>>,
    /// The epoch that closed last, until what is in it has been read.
    closing: Option<Waiting<S>>,
    /// Emptied sums, to be used again, and their generation.
    spare: Vec<(GenerationId, S)>,
    /// The epoch to be closed next; `None` before the first shard.
    next: Option<Epoch>,
    /// In order of epochs; no worker measures before the oldest.
    worker_sets: VecDeque<WorkerSet>,
}

/// The workers that measure from an epoch on.
#[derive(Debug)]
struct WorkerSet {
    /// The first epoch that it holds for; the next worker set ends it.
    from: Epoch,
    /// By worker; none beyond.
    is_in: Vec<bool>,
}

impl WorkerSet {
    fn has(&self, worker: WorkerIndex) -> bool {
        self.is_in.get(worker.index()) == Some(&true)
    }

    fn workers(&self) -> impl Iterator<Item = WorkerIndex> {
        let all = (0..).map(WorkerIndex).take(self.is_in.len());
        all.filter(|&worker| self.has(worker))
    }
}

#[derive(Debug)]
struct Waiting<S> {
    epoch: Epoch,
    generation: GenerationId,
    sum: S,
    /// Which workers gave their shard.
    has_given: Vec<bool>,
    /// Some worker's shard is of another generation.
    is_mixed: bool,
    /// A shard was left half added.
    is_spoiled: bool,
}

/// Outcome of closed epochs.
#[derive(Debug, PartialEq)]
pub(crate) enum Closed<'s, S> {
    /// The sum contains every worker's shard of this generation.
    Whole(Epoch, GenerationId, &'s S),
    /// The last of this many epochs without some worker's shard.
    Missed(Epoch, u64),
    /// The workers measured the epoch in different generations.
    Mixed(Epoch),
    /// A shard was left half added to the epoch's sum.
    Spoiled(Epoch),
}

impl<S: Synopsis> Assembly<S> {
    /// Starts without a worker set; no worker measures before the first.
    pub(crate) fn new() -> Self {
        Self {
            newest: Vec::new(),
            waiting: VecDeque::new(),
            closing: None,
            spare: Vec::new(),
            next: None,
            worker_sets: VecDeque::new(),
        }
    }

    /// Sets the workers that measure from epoch `from` on: those `present`, by index; without any, epochs
    /// are not missed.
    pub(crate) fn begin(&mut self, from: Epoch, present: Vec<bool>) {
        let workers = self.newest.len().max(present.len());
        self.newest.resize(workers, None);
        for waiting in &mut self.waiting {
            waiting.has_given.resize(workers, false);
        }
        self.worker_sets.retain(|worker_set| worker_set.from < from);
        if self.worker_sets.len() == WORKER_SETS_MAX {
            self.worker_sets.pop_front();
        }
        self.worker_sets.push_back(WorkerSet {
            from,
            is_in: present,
        });
    }

    fn worker_set(&self, epoch: Epoch) -> Option<&WorkerSet> {
        let mut worker_sets = self.worker_sets.iter().rev();
        worker_sets.find(|worker_set| worker_set.from <= epoch)
    }

    /// The workers that measure an epoch.
    fn workers_of(&self, epoch: Epoch) -> impl Iterator<Item = WorkerIndex> {
        let worker_set = self.worker_set(epoch);
        worker_set.into_iter().flat_map(WorkerSet::workers)
    }

    /// Adds a worker's shard of an epoch and a generation; `blank` makes an empty sum of that generation. A
    /// shard of an epoch that has already closed is ignored, and so is one of a worker outside the epoch's
    /// worker set. Call [`Self::next_closed`] until it returns nothing more.
    /// nothing more.
    pub(crate) fn add(
        &mut self,
        (worker, generation): (WorkerIndex, GenerationId),
        epoch: Epoch,
        shard: &S,
        blank: impl FnOnce() -> S,
    ) {
        if let Some(newest) = self.newest.get_mut(worker.index()) {
            *newest = (*newest).max(Some(epoch));
        }
        let is_expected = self
            .worker_set(epoch)
            .is_some_and(|worker_set| worker_set.has(worker));
        if !is_expected || self.next.is_some_and(|next| epoch < next) {
            return;
        }
        let waiting = self.waiting_for(epoch, generation, blank);
        waiting.has_given[worker.index()] = true;
        if waiting.generation != generation {
            waiting.is_mixed = true;
        } else if let Err(error) = waiting.sum.merge(shard) {
            tracing::error!(
                worker = worker.0,
                epoch = epoch.0,
                "shard not added: {error}"
            );
            waiting.is_mixed = true;
        }
    }

    /// Notes that a panic occurred while a shard of the epoch was added, so that its sum is unusable.
    /// Returns `false` if the epoch has closed.
    pub(crate) fn spoil(&mut self, epoch: Epoch) -> bool {
        let waiting = self.waiting.iter_mut().find(|one| one.epoch == epoch);
        waiting.map(|waiting| waiting.is_spoiled = true).is_some()
    }

    /// Closes the next epochs that are ready.
    pub(crate) fn next_closed(&mut self) -> Option<Closed<'_, S>> {
        self.reuse_closing();
        let epoch = self.closable()?;
        let next = self.next.replace(epoch).unwrap_or(epoch);
        let missed = self.measured(next.0..epoch.0);
        if missed > 0 {
            return Some(Closed::Missed(Epoch(epoch.0 - 1), missed));
        }
        let waiting = self.waiting.pop_front()?;
        self.next = Some(epoch.next());
        let is_complete = self
            .workers_of(epoch)
            .all(|worker| waiting.has_given[worker.index()]);
        // Only the last worker set that begins up to the next epoch is still needed, and later ones.
        while self
            .worker_sets
            .get(1)
            .is_some_and(|second| second.from <= epoch.next())
        {
            self.worker_sets.pop_front();
        }
        let closing = self.closing.insert(waiting);
        Some(if !is_complete {
            Closed::Missed(epoch, 1)
        } else if closing.is_spoiled {
            Closed::Spoiled(epoch)
        } else if closing.is_mixed {
            Closed::Mixed(epoch)
        } else {
            Closed::Whole(epoch, closing.generation, &closing.sum)
        })
    }

    /// Empties the sum of the epoch closed last, which has been read, for reuse.
    fn reuse_closing(&mut self) {
        let Some(mut closing) = self.closing.take() else {
            return;
        };
        // Sums of previous generations are not needed again.
        let generation = closing.generation;
        self.spare.retain(|&(other, _)| other >= generation);
        if self.spare.len() < SPARE_MAX {
            closing.sum.clear();
            self.spare.push((generation, closing.sum));
        }
    }

    /// How many of these epochs were measured.
    fn measured(&self, epochs: Range<u64>) -> u64 {
        let nexts = self.worker_sets.iter().skip(1).map(|next| next.from.0);
        let ends = nexts.chain([u64::MAX]);
        let held = self.worker_sets.iter().zip(ends).map(|(worker_set, end)| {
            let first = worker_set.from.0.max(epochs.start);
            let held = end.min(epochs.end).saturating_sub(first);
            if worker_set.workers().next().is_some() {
                held
            } else {
                0
            }
        });
        held.sum()
    }

    fn waiting_for(
        &mut self,
        epoch: Epoch,
        generation: GenerationId,
        blank: impl FnOnce() -> S,
    ) -> &mut Waiting<S> {
        let index = self
            .waiting
            .partition_point(|waiting| waiting.epoch < epoch);
        let is_new = |waiting: &Waiting<S>| waiting.epoch != epoch;
        if self.waiting.get(index).is_none_or(is_new) {
            let mut spare = self.spare.iter();
            let sum = match spare.position(|&(other, _)| other == generation) {
                Some(spare) => self.spare.swap_remove(spare).1,
                None => blank(),
            };
            let waiting = Waiting {
                epoch,
                generation,
                sum,
                has_given: vec![false; self.newest.len()],
                is_mixed: false,
                is_spoiled: false,
            };
            self.waiting.insert(index, waiting);
        }
        &mut self.waiting[index]
    }

    /// The oldest waiting epoch, if every worker has moved past it or too many epochs wait.
    fn closable(&self) -> Option<Epoch> {
        let oldest = self.waiting.front()?;
        let is_past = self.workers_of(oldest.epoch).all(|worker| {
            let newest = self.newest.get(worker.index()).copied().flatten();
            newest >= Some(oldest.epoch)
        });
        (is_past || self.waiting.len() > WAITING_MAX).then_some(oldest.epoch)
    }
}

#[cfg(test)]
mod tests;
