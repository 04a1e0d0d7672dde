use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;

use super::*;

const TIMEOUT: u64 = 1_000;

fn entered(at: u64, port: u8) -> Entered {
    Entered {
        at: Ticks(at),
        port,
        class: port % 8,
    }
}

/// Hashes that are unlike in their bits, as those of packets are.
fn hash(n: u64) -> PacketHash {
    let mut hash = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    PacketHash(hash ^ hash >> 31)
}

#[derive(Debug, Clone)]
enum Step {
    In(u64, u8),
    Out(u64),
    Back(u64),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..40_u64, 0..16_u8).prop_map(|(packet, port)| Step::In(packet, port)),
        4 => (0..40_u64).prop_map(Step::Out),
        1 => (0..40_u64).prop_map(Step::Back),
        3 => (0..400_u64).prop_map(Step::Wait),
    ]
}

proptest! {
    /// Against a queue for each hash: what went in first comes out first, and what stays is lost, once.
    #[test]
    fn a_table_with_room_is_a_queue_for_each_hash(
        start in any::<u64>(),
        steps in prop::collection::vec(step(), 0..300),
    ) {
        let table = DigestTable::new(1 << 14, TIMEOUT);
        let mut now = Ticks(start);
        let mut sweep = Sweep::new(now);
        let mut inside: HashMap<u64, VecDeque<Entered>> = HashMap::new();
        for step in steps {
            match step {
                Step::In(packet, port) => {
                    let queue = inside.entry(packet).or_default();
                    // Eight alike fill a bucket.
                    if queue.len() < 4 {
                        let one = Entered { at: now, ..entered(0, port) };
                        prop_assert_eq!(table.insert(hash(packet), one), None);
                        queue.push_back(one);
                    }
                }
                Step::Out(packet) => {
                    let queue = inside.entry(packet).or_default();
                    let out = table.take(hash(packet), now);
                    // Of those that went in at one time either may be first.
                    prop_assert_eq!(out.map(|one| one.at), queue.front().map(|one| one.at));
                    let place = queue.iter().position(|one| Some(*one) == out);
                    prop_assert_eq!(place.is_some(), out.is_some());
                    place.and_then(|place| queue.remove(place));
                }
                Step::Back(packet) => {
                    let last = inside.entry(packet).or_default().pop_back();
                    if let Some(last) = last {
                        prop_assert!(table.withdraw(hash(packet), last));
                    }
                }
                Step::Wait(ticks) => {
                    now = now.plus(ticks);
                    let mut lost = Vec::new();
                    // All of the table, whatever is due.
                    for _ in 0..(table.buckets.len() / SWEPT_MAX) {
                        sweep.sweep(&table, now, &mut |one| lost.push(one));
                    }
                    let mut expected = Vec::new();
                    for queue in inside.values_mut() {
                        queue.retain(|one| {
                            let is_lost = now.since(one.at) >= TIMEOUT;
                            expected.extend(is_lost.then_some(*one));
                            !is_lost
                        });
                    }
                    let key = |one: &Entered| (one.at, one.port);
                    lost.sort_by_key(key);
                    expected.sort_by_key(key);
                    prop_assert_eq!(lost, expected);
                }
            }
        }
    }

    #[test]
    fn delays_are_exact_to_the_resolution(
        timeout in 1..1_u64 << 40,
        at in any::<u64>(),
        percent in 0..100_u64,
    ) {
        let table = DigestTable::new(16, timeout);
        let delay = timeout / 100 * percent;
        table.insert(hash(1), entered(at, 3));
        let out = table.take(hash(1), Ticks(at).plus(delay)).unwrap();
        let measured = Ticks(at).plus(delay).since(out.at);
        prop_assert!(measured.abs_diff(delay) < 1 << table.time_shift);
        prop_assert_eq!((out.port, out.class), (3, 3));
    }
}

#[test]
fn a_second_is_known_to_a_few_ticks() {
    for ghz in 1..=5 {
        let table = DigestTable::new(16, ghz * 1_000_000_000);
        assert!(table.time_shift <= 2, "{ghz} GHz: {}", table.time_shift);
    }
}

#[test]
fn where_there_is_no_room_the_oldest_makes_way() {
    let table = DigestTable::new(16, TIMEOUT);
    for n in 0..8 {
        assert_eq!(table.insert(hash(7), entered(n, 0)), None);
    }
    assert_eq!(table.insert(hash(7), entered(8, 1)), Some(entered(0, 0)));
    let out: Vec<u64> = (0..8)
        .map(|_| table.take(hash(7), Ticks(9)).unwrap().at.0)
        .collect();
    assert_eq!(out, (1..9).collect::<Vec<_>>());
    assert_eq!(table.take(hash(7), Ticks(9)), None);
}

#[test]
fn a_counter_of_another_core_may_be_behind() {
    let table = DigestTable::new(16, TIMEOUT);
    table.insert(hash(7), entered(1_000, 0));
    assert_eq!(table.take(hash(7), Ticks(990)).unwrap().at, Ticks(990));
}

#[test]
fn a_whole_table_is_swept_in_a_quarter_of_a_timeout() {
    let timeout = 1_000_000;
    let table = DigestTable::new(1 << 16, timeout);
    let mut sweep = Sweep::new(Ticks(0));
    for n in 0..10_000 {
        table.insert(hash(n), entered(0, 0));
    }
    let mut lost = 0;
    for now in (0..=timeout * 5 / 4).step_by(100) {
        sweep.tick(&table, Ticks(now), &mut |_| lost += 1);
        assert!(now >= timeout || lost == 0);
    }
    assert_eq!(lost, 10_000);
}

#[test]
fn no_entry_is_lost_or_taken_twice_between_threads() {
    const PACKETS: u64 = 5_000;
    // So large that both of each kind have room however far one thread is ahead of another.
    let table = DigestTable::new(1 << 20, u64::MAX / 8);
    for _ in 0..2 {
        assert!((0..PACKETS).all(|n| table.insert(hash(n), entered(n, 0)).is_none()));
    }
    for n in 0..2 * PACKETS {
        assert!(table.take(hash(n / 2), Ticks(n)).is_some());
    }
    let (sent, taken) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for port in 0..2 {
            let (table, sent) = (&table, &sent);
            scope.spawn(move || {
                for n in 0..PACKETS {
                    // The same from both: two of a kind each.
                    assert_eq!(table.insert(hash(n), entered(n, port)), None);
                    sent.fetch_add(1, Ordering::Relaxed);
                }
            });
            let taken = &taken;
            scope.spawn(move || {
                for n in 0..PACKETS {
                    while table.take(hash(n), Ticks(n)).is_none() {
                        std::thread::yield_now();
                    }
                    taken.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(sent.into_inner(), taken.into_inner());
    let mut entries = table.buckets.iter().flat_map(|bucket| &bucket.0);
    assert!(entries.all(|slot| slot.load(Relaxed) == 0));
}
