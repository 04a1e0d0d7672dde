//! Shards of one epoch, put together over all workers.
//!
//! An epoch closes when every worker gave its shard or has moved past it. Shards are added into a
//! sum of the control core's own as they come, so that a worker gets its memory back at once,
//! however late the others are.

use std::collections::VecDeque;

use measure::synopsis::{Sealed, Synopsis};
use measure::time::Epoch;

use crate::handover::SHARDS_PER_WORKER;

/// Most epochs that wait for a worker; the oldest is given up for another. More than a worker can
/// have under way would mean that one of them hangs.
const WAITING_MAX: usize = SHARDS_PER_WORKER;

/// Epochs under assembly.
#[derive(Debug)]
pub(crate) struct Assembly<S> {
    blank: S,
    /// The newest epoch that each worker gave.
    newest: Vec<Option<Epoch>>,
    /// In order of epochs.
    waiting: VecDeque<Waiting<S>>,
    /// Emptied sums, to be used again.
    spare: Vec<S>,
    /// The epoch to be closed next; `None` before the first shard.
    next: Option<Epoch>,
}

#[derive(Debug)]
struct Waiting<S> {
    epoch: Epoch,
    sum: S,
    /// Which workers gave their shard.
    has_given: Vec<bool>,
}

/// What became of the epochs that closed.
#[derive(Debug, PartialEq)]
pub(crate) enum Closed<'s, S> {
    /// Every worker's shard is in the sum.
    Whole(Epoch, &'s S),
    /// This many epochs, of which the last is named, lack a worker's shard.
    Missed(Epoch, u64),
}

impl<S: Synopsis + Clone> Assembly<S> {
    /// For `workers` workers, whose shards are shaped like `blank`.
    pub(crate) fn new(workers: usize, blank: S) -> Self {
        Self {
            blank,
            newest: vec![None; workers],
            waiting: VecDeque::new(),
            spare: Vec::new(),
            next: None,
        }
    }

    /// Adds a worker's shard and closes what can be closed. A shard of an epoch that has closed
    /// without it is ignored.
    pub(crate) fn add(
        &mut self,
        worker: usize,
        shard: &Sealed<S>,
        mut on_closed: impl FnMut(Closed<'_, S>),
    ) {
        let epoch = shard.epoch();
        self.newest[worker] = Some(epoch);
        if self.next.is_some_and(|next| epoch < next) {
            return;
        }
        let waiting = self.waiting_for(epoch);
        match waiting.sum.merge(shard) {
            Ok(()) => waiting.has_given[worker] = true,
            Err(error) => tracing::error!(worker, epoch = epoch.0, "shard not added: {error}"),
        }
        while let Some(waiting) = self.pop_closable() {
            let next = self.next.unwrap_or(waiting.epoch);
            if waiting.epoch > next {
                on_closed(Closed::Missed(
                    Epoch(waiting.epoch.0 - 1),
                    waiting.epoch.0 - next.0,
                ));
            }
            self.next = Some(waiting.epoch.next());
            if waiting.has_given.iter().all(|&given| given) {
                on_closed(Closed::Whole(waiting.epoch, &waiting.sum));
            } else {
                on_closed(Closed::Missed(waiting.epoch, 1));
            }
            let mut sum = waiting.sum;
            sum.clear();
            self.spare.push(sum);
        }
    }

    fn waiting_for(&mut self, epoch: Epoch) -> &mut Waiting<S> {
        let place = self
            .waiting
            .partition_point(|waiting| waiting.epoch < epoch);
        if self
            .waiting
            .get(place)
            .is_none_or(|waiting| waiting.epoch != epoch)
        {
            let sum = self.spare.pop().unwrap_or_else(|| self.blank.clone());
            let has_given = vec![false; self.newest.len()];
            self.waiting.insert(
                place,
                Waiting {
                    epoch,
                    sum,
                    has_given,
                },
            );
        }
        &mut self.waiting[place]
    }

    fn pop_closable(&mut self) -> Option<Waiting<S>> {
        let oldest = self.waiting.front()?;
        let mut workers = oldest.has_given.iter().zip(&self.newest);
        let is_past = workers.all(|(&given, &newest)| given || newest >= Some(oldest.epoch));
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
    use measure::codec::{ParseError, Put, Reader};
    use measure::sight::{End, Sight};
    use measure::synopsis::ShapeMismatch;

    /// A synopsis that is one number.
    #[derive(Debug, Clone, PartialEq)]
    struct Sum(u64);

    impl Synopsis for Sum {
        type Item = Sight;

        fn record(&mut self, _: End, sights: &[Sight]) {
            self.0 += sights.len() as u64;
        }

        fn merge(&mut self, other: &Self) -> Result<(), ShapeMismatch> {
            self.0 += other.0;
            Ok(())
        }

        fn clear(&mut self) {
            self.0 = 0;
        }

        fn encode(&self, out: &mut Vec<u8>) {
            out.put_number(self.0);
        }

        fn decode(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
            reader.number("count").map(Self)
        }
    }

    /// Epoch and sum of what closed whole, or epoch and number of what was missed.
    #[derive(Debug, PartialEq)]
    enum Seen {
        Whole(u64, u64),
        Missed(u64, u64),
    }
    use Seen::{Missed, Whole};

    fn feed(assembly: &mut Assembly<Sum>, shards: &[(usize, u64, u64)]) -> Vec<Seen> {
        let mut seen = Vec::new();
        for &(worker, epoch, value) in shards {
            let shard = Box::new(Sum(value)).seal(Epoch(epoch));
            assembly.add(worker, &shard, |closed| {
                seen.push(match closed {
                    Closed::Whole(epoch, sum) => Whole(epoch.0, sum.0),
                    Closed::Missed(epoch, epochs) => Missed(epoch.0, epochs),
                });
            });
        }
        seen
    }

    #[test]
    fn one_worker_closes_each_epoch_at_once() {
        let mut assembly = Assembly::new(1, Sum(0));
        let seen = feed(&mut assembly, &[(0, 5, 10), (0, 6, 20)]);
        assert_eq!(seen, [Whole(5, 10), Whole(6, 20)]);
        assert_eq!(assembly.spare.len(), 1, "one sum is enough");
    }

    #[test]
    fn epochs_that_a_worker_skipped_are_counted_not_looped_over() {
        let mut assembly = Assembly::new(1, Sum(0));
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
        let mut assembly = Assembly::new(2, Sum(0));
        assert_eq!(feed(&mut assembly, &[(0, 0, 1), (0, 1, 2)]), []);
        let seen = feed(&mut assembly, &[(1, 0, 10), (1, 1, 20)]);
        assert_eq!(seen, [Whole(0, 11), Whole(1, 22)]);
    }

    #[test]
    fn an_epoch_that_a_worker_moved_past_is_missed() {
        let mut assembly = Assembly::new(2, Sum(0));
        let seen = feed(&mut assembly, &[(0, 0, 1), (0, 1, 2), (1, 1, 20)]);
        assert_eq!(seen, [Missed(0, 1), Whole(1, 22)]);
    }

    #[test]
    fn a_hanging_worker_stops_nobody_and_its_late_shard_is_ignored() {
        let mut assembly = Assembly::new(2, Sum(0));
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
}
