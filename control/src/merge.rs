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

/// Most epochs that wait for a worker; the oldest is given up for another. More than a worker can
/// have under way would mean that one of them hangs.
const WAITING_MAX: usize = SHARDS_PER_WORKER;

/// Most sums that are kept for further epochs.
const SPARE_MAX: usize = WAITING_MAX + 1;

/// Most worker sets that are kept. That so many come while not one epoch closes means that workers come
/// and go who measure nothing.
const WORKER_SETS_MAX: usize = 64;

/// Epochs under assembly.
#[derive(Debug)]
pub(crate) struct Assembly<S> {
    /// The newest epoch that each worker gave.
    newest: Vec<Option<Epoch>>,
    /// In order of epochs.
    waiting: VecDeque<Waiting<S>>,
    /// Emptied sums, to be used again, and their generation.
    spare: Vec<(GenerationId, S)>,
    /// The epoch to be closed next; `None` before the first shard.
    next: Option<Epoch>,
    /// In order of epochs; of those before the oldest nothing is expected.
    worker_sets: VecDeque<WorkerSet>,
}

/// Who measures.
#[derive(Debug)]
struct WorkerSet {
    /// The first epoch that it holds for; the next worker set ends it.
    from: Epoch,
    /// By worker; nobody beyond.
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

/// What became of the epochs that closed.
#[derive(Debug, PartialEq)]
pub(crate) enum Closed<'s, S> {
    /// Every worker's shard of this generation is in the sum.
    Whole(Epoch, GenerationId, &'s S),
    /// This many epochs, up to the one named, lack a worker's shard.
    Missed(Epoch, u64),
    /// The workers measured the epoch in different generations.
    Mixed(Epoch),
    /// A shard was left half added to the epoch's sum.
    Spoiled(Epoch),
}

impl<S: Synopsis> Assembly<S> {
    /// Before the first worker set nobody measures.
    pub(crate) fn new() -> Self {
        Self {
            newest: Vec::new(),
            waiting: VecDeque::new(),
            spare: Vec::new(),
            next: None,
            worker_sets: VecDeque::new(),
        }
    }

    /// From epoch `from` on exactly the workers measure that are `present`, by number; where there
    /// are none such epochs are not missed.
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

    /// Who is to measure an epoch.
    fn workers_of(&self, epoch: Epoch) -> impl Iterator<Item = WorkerIndex> {
        let worker_set = self.worker_set(epoch);
        worker_set.into_iter().flat_map(WorkerSet::workers)
    }

    /// Adds a worker's shard of an epoch and a generation and closes what can be closed; `blank` makes an empty
    /// sum of that generation. A shard of an epoch that has closed without it is ignored, as is that of
    /// a worker that the epoch's worker set does not have.
    pub(crate) fn add(
        &mut self,
        worker: WorkerIndex,
        generation: GenerationId,
        (epoch, shard): (Epoch, &S),
        blank: impl FnOnce() -> S,
        mut on_closed: impl FnMut(Closed<'_, S>),
    ) {
        if let Some(newest) = self.newest.get_mut(worker.index()) {
            *newest = (*newest).max(Some(epoch));
        }
        let is_expected = self
            .worker_set(epoch)
            .is_some_and(|worker_set| worker_set.has(worker));
        if is_expected && self.next.is_none_or(|next| epoch >= next) {
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
        while let Some(waiting) = self.pop_closable() {
            self.close(waiting, &mut on_closed);
        }
    }

    /// A panic came while a shard of the epoch was added: its sum is not to be used. `false` where
    /// it waits no more.
    pub(crate) fn spoil(&mut self, epoch: Epoch) -> bool {
        let waiting = self.waiting.iter_mut().find(|one| one.epoch == epoch);
        waiting.map(|waiting| waiting.is_spoiled = true).is_some()
    }

    fn close(&mut self, waiting: Waiting<S>, on_closed: &mut impl FnMut(Closed<'_, S>)) {
        let epoch = waiting.epoch;
        let next = self.next.unwrap_or(epoch);
        let missed = self.measured(next.0..epoch.0);
        if missed > 0 {
            on_closed(Closed::Missed(Epoch(epoch.0 - 1), missed));
        }
        self.next = Some(epoch.next());
        let is_complete = self
            .workers_of(epoch)
            .all(|worker| waiting.has_given[worker.index()]);
        // Only the last worker set that begins up to the next epoch is still needed, and those after it.
        while self
            .worker_sets
            .get(1)
            .is_some_and(|second| second.from <= epoch.next())
        {
            self.worker_sets.pop_front();
        }
        on_closed(if !is_complete {
            Closed::Missed(epoch, 1)
        } else if waiting.is_spoiled {
            Closed::Spoiled(epoch)
        } else if waiting.is_mixed {
            Closed::Mixed(epoch)
        } else {
            Closed::Whole(epoch, waiting.generation, &waiting.sum)
        });
        let Waiting {
            mut sum,
            generation,
            ..
        } = waiting;
        // Sums of the generations before are not needed again.
        self.spare.retain(|&(other, _)| other >= generation);
        if self.spare.len() < SPARE_MAX {
            sum.clear();
            self.spare.push((generation, sum));
        }
    }

    /// How many of these epochs were to be measured.
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
        let place = self
            .waiting
            .partition_point(|waiting| waiting.epoch < epoch);
        if self
            .waiting
            .get(place)
            .is_none_or(|waiting| waiting.epoch != epoch)
        {
            let mut spare = self.spare.iter();
            let sum = match spare.position(|&(other, _)| other == generation) {
                Some(place) => self.spare.swap_remove(place).1,
                None => blank(),
            };
            self.waiting.insert(
                place,
                Waiting {
                    epoch,
                    generation,
                    sum,
                    has_given: vec![false; self.newest.len()],
                    is_mixed: false,
                    is_spoiled: false,
                },
            );
        }
        &mut self.waiting[place]
    }

    fn pop_closable(&mut self) -> Option<Waiting<S>> {
        let oldest = self.waiting.front()?;
        let is_past = self.workers_of(oldest.epoch).all(|worker| {
            let newest = self.newest.get(worker.index()).copied().flatten();
            newest >= Some(oldest.epoch)
        });
        let is_closable = is_past || self.waiting.len() > WAITING_MAX;
        if is_closable {
            self.waiting.pop_front()
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::observation::{End, Observation};
    use measure::synopsis::ShapeMismatch;

    /// A synopsis that is one number.
    #[derive(Debug, Clone, PartialEq)]
    struct Sum(u64);

    impl Synopsis for Sum {
        type Item = Observation;

        fn record(&mut self, _: End, observations: &[Observation]) {
            self.0 += observations.len() as u64;
        }

        fn merge(&mut self, other: &Self) -> Result<(), ShapeMismatch> {
            self.0 += other.0;
            Ok(())
        }

        fn clear(&mut self) {
            self.0 = 0;
        }
    }

    /// Epoch and sum of what closed whole, epoch and number of what was missed, or epoch of what
    /// was measured in two generations.
    #[derive(Debug, PartialEq)]
    enum Seen {
        Whole(u64, u64),
        Missed(u64, u64),
        Mixed(u64),
        Spoiled(u64),
    }
    use Seen::{Missed, Mixed, Spoiled, Whole};

    /// Shards as worker, generation, epoch, value.
    fn feed_generations(
        assembly: &mut Assembly<Sum>,
        shards: &[(usize, u32, u64, u64)],
    ) -> Vec<Seen> {
        let mut seen = Vec::new();
        for &(worker, generation, epoch, value) in shards {
            assembly.add(
                WorkerIndex::new(worker),
                GenerationId(generation),
                (Epoch(epoch), &Sum(value)),
                || Sum(0),
                |closed| {
                    seen.push(match closed {
                        Closed::Whole(epoch, _, sum) => Whole(epoch.0, sum.0),
                        Closed::Missed(epoch, epochs) => Missed(epoch.0, epochs),
                        Closed::Mixed(epoch) => Mixed(epoch.0),
                        Closed::Spoiled(epoch) => Spoiled(epoch.0),
                    });
                },
            );
        }
        seen
    }

    /// From an epoch on the workers measure that are named.
    fn begin(assembly: &mut Assembly<Sum>, from: u64, workers: &[usize]) {
        let most = workers.iter().max().map_or(0, |most| most + 1);
        let present = (0..most).map(|worker| workers.contains(&worker));
        assembly.begin(Epoch(from), present.collect());
    }

    fn of(workers: usize) -> Assembly<Sum> {
        let mut assembly = Assembly::new();
        assembly.begin(Epoch(0), vec![true; workers]);
        assembly
    }

    fn feed(assembly: &mut Assembly<Sum>, shards: &[(usize, u64, u64)]) -> Vec<Seen> {
        let shards = shards
            .iter()
            .map(|&(worker, epoch, value)| (worker, 0, epoch, value));
        feed_generations(assembly, &shards.collect::<Vec<_>>())
    }

    #[test]
    fn one_worker_closes_each_epoch_at_once() {
        let mut assembly = of(1);
        let seen = feed(&mut assembly, &[(0, 5, 10), (0, 6, 20)]);
        assert_eq!(seen, [Whole(5, 10), Whole(6, 20)]);
        assert_eq!(assembly.spare.len(), 1, "one sum is enough");
    }

    #[test]
    fn epochs_that_a_worker_skipped_are_counted_not_looped_over() {
        let mut assembly = of(1);
        let far = u64::MAX - 1;
        let seen = feed(&mut assembly, &[(0, 0, 1), (0, 3, 2), (0, far, 3)]);
        assert_eq!(
            seen,
            [
                Whole(0, 1),
                Missed(2, 2),
                Whole(3, 2),
                Missed(far - 1, far - 4),
                Whole(far, 3)
            ]
        );
    }

    #[test]
    fn an_epoch_waits_for_every_worker() {
        let mut assembly = of(2);
        assert_eq!(feed(&mut assembly, &[(0, 0, 1), (0, 1, 2)]), []);
        let seen = feed(&mut assembly, &[(1, 0, 10), (1, 1, 20)]);
        assert_eq!(seen, [Whole(0, 11), Whole(1, 22)]);
    }

    #[test]
    fn an_epoch_that_a_worker_moved_past_is_missed() {
        let mut assembly = of(2);
        let seen = feed(&mut assembly, &[(0, 0, 1), (0, 1, 2), (1, 1, 20)]);
        assert_eq!(seen, [Missed(0, 1), Whole(1, 22)]);
    }

    #[test]
    fn a_hanging_worker_stops_nobody_and_its_late_shard_is_ignored() {
        let mut assembly = of(2);
        let shards: Vec<_> = (0..10).map(|epoch| (0, epoch, 1)).collect();
        let seen = feed(&mut assembly, &shards);
        assert_eq!(
            seen,
            (0..7).map(|epoch| Missed(epoch, 1)).collect::<Vec<_>>()
        );
        assert_eq!(feed(&mut assembly, &[(1, 0, 50)]), []);
        let seen = feed(&mut assembly, &[(1, 9, 5)]);
        assert_eq!(seen, [Missed(7, 1), Missed(8, 1), Whole(9, 6)]);
        assert!(assembly.spare.len() <= WAITING_MAX + 1);
    }
    #[test]
    fn an_epoch_in_two_generations_gives_no_numbers() {
        let mut assembly = of(2);
        let shards = [
            (0, 0, 3, 1),
            (1, 0, 3, 10),
            // The second worker takes the new generation up an epoch later than the first.
            (0, 1, 4, 2),
            (1, 0, 4, 20),
            (1, 1, 5, 30),
            (0, 1, 5, 3),
        ];
        let seen = feed_generations(&mut assembly, &shards);
        assert_eq!(seen, [Whole(3, 11), Mixed(4), Whole(5, 33)]);
        assert!(
            assembly
                .spare
                .iter()
                .all(|&(generation, _)| generation == GenerationId(1))
        );
    }

    #[test]
    fn epochs_that_were_not_to_be_measured_are_not_missed() {
        let mut assembly = of(1);
        assert_eq!(feed(&mut assembly, &[(0, 0, 1)]), [Whole(0, 1)]);
        // Off from 2 to 5 and from 6 to 9; epochs 1 and 5 are missing, 2 to 4 and 6 to 8 are not.
        begin(&mut assembly, 2, &[]);
        begin(&mut assembly, 5, &[0]);
        begin(&mut assembly, 6, &[]);
        begin(&mut assembly, 9, &[0]);
        let seen = feed(&mut assembly, &[(0, 9, 2), (0, 10, 3), (0, 12, 4)]);
        assert_eq!(
            seen,
            [
                Missed(8, 2),
                Whole(9, 2),
                Whole(10, 3),
                Missed(11, 1),
                Whole(12, 4)
            ]
        );
        assert_eq!(assembly.worker_sets.len(), 1);
    }

    #[test]
    fn a_worker_that_goes_is_not_waited_for_and_its_last_shards_are_ignored() {
        let mut assembly = of(2);
        begin(&mut assembly, 2, &[1]);
        let seen = feed(
            &mut assembly,
            &[(0, 0, 1), (1, 0, 10), (1, 1, 20), (1, 2, 30)],
        );
        assert_eq!(seen, [Whole(0, 11)], "epoch 1 is still that of both");
        let seen = feed(
            &mut assembly,
            &[(0, 1, 2), (0, 2, 3), (1, 3, 40), (0, 4, 5)],
        );
        assert_eq!(seen, [Whole(1, 22), Whole(2, 30), Whole(3, 40)]);
        assert_eq!(assembly.worker_sets.len(), 1);
    }

    #[test]
    fn a_worker_that_comes_is_waited_for_from_its_first_epoch_on() {
        let mut assembly = of(1);
        // It has no part in epoch 1: the first worker's shard of it waits already for another.
        assert_eq!(feed(&mut assembly, &[(0, 0, 1)]), [Whole(0, 1)]);
        begin(&mut assembly, 2, &[0, 2]);
        let seen = feed(
            &mut assembly,
            &[(2, 1, 100), (0, 1, 2), (0, 2, 3), (1, 2, 10)],
        );
        assert_eq!(seen, [Whole(1, 2)]);
        assert_eq!(feed(&mut assembly, &[(2, 2, 200)]), [Whole(2, 203)]);
        // Another comes while epochs wait, the first two go, and one comes back.
        assert_eq!(feed(&mut assembly, &[(2, 3, 300)]), []);
        begin(&mut assembly, 4, &[3]);
        begin(&mut assembly, 6, &[0, 3]);
        let seen = feed(&mut assembly, &[(3, 4, 1_000), (3, 5, 2_000), (0, 3, 4)]);
        assert_eq!(seen, [Whole(3, 304), Whole(4, 1_000), Whole(5, 2_000)]);
        let seen = feed(&mut assembly, &[(3, 6, 3_000), (3, 7, 1), (0, 7, 1)]);
        assert_eq!(seen, [Missed(6, 1), Whole(7, 2)]);
    }

    #[test]
    fn a_later_word_on_the_same_epochs_holds() {
        let mut assembly = of(1);
        begin(&mut assembly, 5, &[]);
        begin(&mut assembly, 3, &[0, 1]);
        let seen = feed(&mut assembly, &[(0, 2, 1), (0, 6, 2), (1, 6, 20)]);
        assert_eq!(seen, [Whole(2, 1), Missed(5, 3), Whole(6, 22)]);
    }

    #[test]
    fn without_a_worker_set_nobody_is_heard() {
        let mut assembly = Assembly::new();
        assert_eq!(feed(&mut assembly, &[(0, 0, 1), (7, 1, 1)]), []);
        begin(&mut assembly, 3, &[1]);
        assert_eq!(feed(&mut assembly, &[(1, 2, 1), (0, 3, 1)]), []);
        assert_eq!(feed(&mut assembly, &[(1, 3, 5)]), [Whole(3, 5)]);
    }

    #[test]
    fn worker_sets_are_bounded_while_no_epoch_closes() {
        let mut assembly = of(1);
        assert_eq!(feed(&mut assembly, &[(0, 0, 1)]), [Whole(0, 1)]);
        for from in 1..1_000 {
            begin(&mut assembly, from, &[usize::from(from % 2 == 1)]);
            assert!(assembly.worker_sets.len() <= WORKER_SETS_MAX);
        }
        let seen = feed(&mut assembly, &[(1, 999, 1)]);
        assert_eq!(
            seen,
            [Missed(998, WORKER_SETS_MAX as u64 - 1), Whole(999, 1)]
        );
        assert_eq!(assembly.worker_sets.len(), 1);
    }
}
