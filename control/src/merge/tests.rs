use super::*;
use measure::synopsis::ShapeMismatch;

/// A synopsis that is one number.
#[derive(Debug, Clone, PartialEq)]
struct Sum(u64);

impl Synopsis for Sum {
    fn merge(&mut self, other: &Self) -> Result<(), ShapeMismatch> {
        self.0 += other.0;
        Ok(())
    }

    fn clear(&mut self) {
        self.0 = 0;
    }
}

/// Epoch and sum of a complete epoch, epoch and number of missed shards, or epoch measured in two generations.
#[derive(Debug, PartialEq)]
enum Seen {
    Whole(u64, u64),
    Missed(u64, u64),
    Mixed(u64),
    Spoiled(u64),
}
use Seen::{Missed, Mixed, Spoiled, Whole};

/// Shards as worker, generation, epoch, value.
fn feed_generations(assembly: &mut Assembly<Sum>, shards: &[(usize, u32, u64, u64)]) -> Vec<Seen> {
    let mut seen = Vec::new();
    for &(worker, generation, epoch, value) in shards {
        let shard = &Sum(value);
        let from = (WorkerIndex::new(worker), GenerationId(generation));
        assembly.add(from, Epoch(epoch), shard, || Sum(0));
        while let Some(closed) = assembly.next_closed() {
            seen.push(match closed {
                Closed::Whole(epoch, _, sum) => Whole(epoch.0, sum.0),
                Closed::Missed(epoch, epochs) => Missed(epoch.0, epochs),
                Closed::Mixed(epoch) => Mixed(epoch.0),
                Closed::Spoiled(epoch) => Spoiled(epoch.0),
            });
        }
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
    // It has no part in epoch 1, in which only the first worker measures.
    assert_eq!(feed(&mut assembly, &[(0, 0, 1)]), [Whole(0, 1)]);
    begin(&mut assembly, 2, &[0, 2]);
    let seen = feed(
        &mut assembly,
        &[(2, 1, 100), (0, 1, 2), (0, 2, 3), (1, 2, 10)],
    );
    assert_eq!(seen, [Whole(1, 2)]);
    assert_eq!(feed(&mut assembly, &[(2, 2, 200)]), [Whole(2, 203)]);
    // Another worker is added while epochs wait, the first two are removed, and one comes back.
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
