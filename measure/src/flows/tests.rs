use std::collections::HashMap;

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;
use crate::histogram::SmallHistogram;
use crate::observation::tests::observation_with_delay;
use crate::rli::{Estimate, Estimates, FlowDelay, Method};
use crate::time::{EpochTag, TickRate};

fn id(hash: u64) -> FlowId {
    FlowId::new(FlowHash(hash), SegmentIndex(0))
}

fn observation(flow: u64, delay: u64) -> Observation {
    Observation {
        flow: FlowHash(flow),
        ..observation_with_delay(delay)
    }
}

/// Sends a burst through a table into slots; every new flow's report is noted and accepted.
fn pass(
    table: &mut FlowTable,
    slots: &mut FlowSlots,
    observations: &[Observation],
) -> Vec<NewFlow> {
    let mut news = Vec::new();
    for burst in observations.chunks(32) {
        let mut found = [Slot::OTHER; 32];
        let flows = burst.iter().map(FlowId::of);
        table.look_up(
            flows,
            &mut found,
            |_| true,
            |new| {
                news.push(new);
                true
            },
        );
        for (observation, slot) in burst.iter().zip(found) {
            slots.add(observation.delay, &[slot], &[observation.bytes]);
        }
    }
    news
}

#[test]
fn one_flow_differs_on_any_two_segments() {
    let mut ids: Vec<FlowId> = (0..=u16::MAX)
        .map(|segment| FlowId::new(FlowHash(12_345), SegmentIndex(segment)))
        .collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 1 << 16);
    let observation = Observation {
        segment: SegmentIndex(3),
        ..observation(12_345, 0)
    };
    let by_hand = FlowId::new(FlowHash(12_345), SegmentIndex(3));
    assert_eq!(FlowId::of(&observation), by_hand);
}

/// Share of flows that find no place where an index is filled to what it was made for.
#[test]
fn nearly_all_flows_that_an_index_was_made_for_find_a_place() {
    let flows = 100_000;
    let mut rng = Pcg64::seed_from_u64(7);
    let mut index = FlowIndex::for_flows(flows);
    let (mut known, mut refused) = (Vec::new(), 0_u32);
    for slot in 0..100_000 {
        let id = id(rng.random());
        if index.insert(id, Slot(slot)) {
            known.push((id, Slot(slot)));
        } else {
            refused += 1;
        }
    }
    println!("{refused} of {flows} refused, {} bytes", index.size_bytes());
    assert!(refused <= 100, "{refused}");
    assert_eq!(index.len() + refused as usize, flows);
    assert!(
        known
            .iter()
            .all(|&(id, slot)| index.look_up(id) == Some(slot))
    );
}

/// As many flows come as go: an index that grew, or kept tombstones, would refuse ever more.
#[test]
fn churn_leaves_no_trace() {
    let mut rng = Pcg64::seed_from_u64(8);
    let mut index = FlowIndex::for_flows(2_000);
    let bytes = index.size_bytes();
    let mut held: Vec<FlowId> = Vec::new();
    let mut refused = 0;
    for turn in 0..400_000_u32 {
        if held.len() == 2_000 {
            let gone = held.swap_remove(rng.random_range(0..held.len()));
            assert!(index.remove(gone).is_some());
            assert_eq!(index.look_up(gone), None);
        }
        let id = id(rng.random());
        if index.insert(id, Slot(turn)) {
            held.push(id);
        } else {
            refused += 1;
        }
    }
    assert!(refused < 1_000, "{refused} of 400,000 refused");
    for id in held {
        assert!(index.remove(id).is_some());
    }
    assert!(index.is_empty());
    assert_eq!(index.size_bytes(), bytes);
    // As good as new: nothing spilled is remembered, every place is free.
    let many: Vec<FlowId> = (0..10).map(id).collect();
    let placed = many.iter().filter(|&&id| index.insert(id, Slot(1)));
    assert_eq!(placed.count(), 5, "small hashes all share both buckets");
}

#[test]
fn what_spilled_is_found_when_its_first_bucket_has_room_again() {
    let mut index = FlowIndex::for_flows(4);
    // Two buckets: the top bit says which of the first, bit 31 which of the second.
    let flow = |n: u64| id(n | 1 << 31);
    for n in 0..6 {
        assert!(index.insert(flow(n), Slot(10)));
    }
    index.remove(flow(0)).unwrap();
    assert_eq!(index.look_up(flow(5)), Some(Slot(10)), "it spilled");
    assert!(!index.insert(flow(5), Slot(11)), "it is there");
    assert_eq!(index.remove(flow(5)), Some(Slot(10)));
    assert_eq!(index.remove(flow(5)), None);
    assert!(!index.insert(flow(5), Slot::OTHER));
    assert_eq!(index.len(), 4);
}

#[test]
fn new_flows_take_slots_until_none_is_free() {
    let mut table = FlowTable::new(2);
    let mut slots = FlowSlots::new(2);
    let news = pass(
        &mut table,
        &mut slots,
        &[
            observation(1, 10),
            observation(2, 20),
            observation(1, 30),
            observation(3, 40),
            observation(3, 50),
        ],
    );
    let expected = [
        NewFlow {
            id: id(1),
            slot: Slot(0),
            position: 0,
        },
        NewFlow {
            id: id(2),
            slot: Slot(1),
            position: 1,
        },
    ];
    assert_eq!(news, expected);
    assert_eq!((table.tracked(), table.free_slots()), (2, 0));
    let untracked = Untracked {
        without_free_slot: 2,
        ..Untracked::default()
    };
    assert_eq!(table.untracked(), untracked);

    assert_eq!(slots.counters(Slot(0)).sum_ticks(), 40);
    assert_eq!(slots.counters(Slot(1)).packets(), 1);
    assert_eq!(slots.counters(Slot::OTHER).sum_ticks(), 90);
    let filled: Vec<Slot> = slots.filled().map(|(slot, _)| slot).collect();
    assert_eq!(filled, [Slot(0), Slot(1)]);
}

#[test]
fn a_slot_serves_again_once_it_is_given_back() {
    let mut table = FlowTable::new(1);
    let mut slots = FlowSlots::new(1);
    pass(&mut table, &mut slots, &[observation(1, 1)]);
    assert!(!table.give(Slot(0)), "it is a flow's");
    assert_eq!(table.forget(id(2)), None);
    assert_eq!(table.forget(id(1)), Some(Slot(0)));
    assert_eq!(table.slot_of(id(1)), None);

    // Away: epochs in which it is the old flow's are still on their way.
    assert_eq!(pass(&mut table, &mut slots, &[observation(2, 1)]), []);
    assert!(table.give(Slot(0)));
    assert!(!table.give(Slot(0)), "it is free");
    assert!(!table.give(Slot(1)), "there is none");
    assert_eq!(pass(&mut table, &mut slots, &[observation(2, 1)]).len(), 1);
    assert_eq!(table.slot_of(id(2)), Some(Slot(0)));
}

#[test]
fn a_flow_that_cannot_be_reported_is_tried_again() {
    let mut table = FlowTable::new(4);
    let mut slots = [Slot(9); 3];
    let mut asked = 0;
    table.look_up(
        [id(1); 3].into_iter(),
        &mut slots,
        |_| true,
        |_| {
            asked += 1;
            asked == 2
        },
    );
    assert_eq!(slots, [Slot::OTHER, Slot(0), Slot(0)]);
    assert_eq!(table.untracked().unreported, 1);
    assert_eq!((table.tracked(), table.free_slots()), (1, 3));
}

#[test]
fn as_many_are_looked_up_as_there_is_room_for() {
    let mut table = FlowTable::new(4);
    let mut slots = [Slot::OTHER; 2];
    table.look_up(
        [1, 2, 3].map(id).into_iter(),
        &mut slots,
        |_| true,
        |_| true,
    );
    assert_eq!((table.tracked(), slots), (2, [Slot(0), Slot(1)]));
}

#[test]
fn a_table_without_slots_counts_everything_as_other() {
    let mut table = FlowTable::new(0);
    let mut slots = FlowSlots::new(0);
    pass(
        &mut table,
        &mut slots,
        &[observation(1, 7), observation(2, 8)],
    );
    assert_eq!(slots.counters(Slot::OTHER).sum_ticks(), 15);
    assert_eq!(
        slots.counters(Slot(0)).sum_ticks(),
        15,
        "beyond the slots is other"
    );
    assert_eq!(slots.filled().count(), 0);
}

/// What happens to an index.
#[derive(Debug, Clone, Copy)]
enum Step {
    Insert(u64, u32),
    Remove(u64),
}

/// Flows of an index of few buckets: many share both of theirs.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let hash = (0_u64..4, 0_u64..2, 0_u64..6)
        .prop_map(|(top, middle, low)| top << 62 | middle << 31 | low);
    let step = prop_oneof![
        3 => (hash.clone(), 0_u32..1_000).prop_map(|(hash, slot)| Step::Insert(hash, slot)),
        2 => hash.prop_map(Step::Remove),
    ];
    proptest::collection::vec(step, 0..400)
}

fn observations() -> impl Strategy<Value = Vec<Observation>> {
    let observation =
        (0_u64..40, 0_u64..1 << 44).prop_map(|(flow, delay)| observation(flow << 58, delay));
    proptest::collection::vec(observation, 0..300)
}

proptest! {
    #[test]
    fn an_index_does_what_a_map_does(steps in steps()) {
        let mut index = FlowIndex::for_flows(8);
        let mut map: HashMap<u64, u32> = HashMap::new();
        for step in steps {
            match step {
                Step::Insert(hash, slot) => {
                    if index.insert(id(hash), Slot(slot)) {
                        prop_assert_eq!(map.insert(hash, slot), None);
                    } else {
                        prop_assert!(map.contains_key(&hash) || map.len() >= 5);
                    }
                }
                Step::Remove(hash) => {
                    prop_assert_eq!(index.remove(id(hash)), map.remove(&hash).map(Slot));
                }
            }
            prop_assert_eq!(index.len(), map.len());
        }
        let hashes = [0, 1 << 62, 3 << 62 | 1 << 31 | 5, 2 << 62 | 4];
        let mut slots = [Slot(7); 3];
        let is_one_missing = index.look_up_all(hashes.map(id).into_iter(), &mut slots);
        let expected: Vec<_> = hashes[..3].iter().map(|hash| map.get(hash).copied().map(Slot)).collect();
        prop_assert_eq!(is_one_missing, expected.contains(&None));
        for (slot, expected) in slots.into_iter().zip(expected) {
            prop_assert_eq!(slot, expected.unwrap_or(Slot::OTHER));
        }
        for top in 0..4 {
            for middle in 0..2 {
                for low in 0..6 {
                    let hash = top << 62 | middle << 31 | low;
                    prop_assert_eq!(index.look_up(id(hash)), map.get(&hash).copied().map(Slot));
                }
            }
        }
    }

    #[test]
    fn every_packet_counts_for_its_flow_or_for_other(observations in observations(), room in 0_usize..50) {
        let (mut table, mut slots) = (FlowTable::new(room), FlowSlots::new(room));
        pass(&mut table, &mut slots, &observations);

        let mut delays: HashMap<Slot, Vec<u64>> = HashMap::new();
        for observation in &observations {
            let slot = table.slot_of(FlowId::of(observation)).unwrap_or(Slot::OTHER);
            delays.entry(slot).or_default().push(observation.delay);
        }
        prop_assert_eq!(delays.len(), slots.filled().count()
            + usize::from(slots.counters(Slot::OTHER).packets() > 0));
        for (slot, delays) in delays {
            let counters = slots.counters(slot);
            let n = delays.len() as f64;
            let mean = delays.iter().sum::<u64>() as f64 / n;
            let variance = delays.iter().map(|&d| (d as f64 - mean).powi(2)).sum::<f64>() / n;
            prop_assert_eq!(counters.packets(), delays.len() as u64);
            prop_assert_eq!(counters.bytes(), 64 * delays.len() as u64);
            prop_assert_eq!(counters.mean_ticks(), Some(mean));
            let stddev = counters.stddev_ticks().unwrap();
            prop_assert!((stddev - variance.sqrt()).abs() <= 1e-6 * (1.0 + variance.sqrt()));
        }
    }

}

#[test]
fn losses_count_beside_bytes_and_stop_at_their_greatest() {
    let mut slots = FlowSlots::new(2).with_estimates();
    for _ in 0..3 {
        slots.record_lost(Slot(1));
        slots.add(7, &[Slot(1)], &[1_500]);
    }
    slots.record_lost(Slot(77));
    let counters = slots.counters(Slot(1));
    assert_eq!(
        (counters.lost(), counters.bytes(), counters.packets()),
        (3, 4_500, 3)
    );
    assert_eq!(slots.counters(Slot::OTHER).lost(), 1);
    assert_eq!(slots.counters(Slot(0)), &FlowCounters::default());

    for _ in 0..1 << 23 {
        slots.record_lost(Slot(1));
    }
    let counters = slots.counters(Slot(1));
    assert_eq!((counters.lost(), counters.bytes()), ((1 << 23) - 1, 4_500));
}

/// Of an interval whose exact sum a packet has that share of; 0: the sum is not known.
fn estimate(delay_ns: f64, squared_error_ns2: f64, interval: u32, share_of_sum: f64) -> Estimate {
    Estimate {
        epoch: EpochTag(0),
        received_ns: 0,
        delay_ns,
        squared_error_ns2,
        share_of_sum,
        interval,
    }
}

#[test]
fn estimates_are_signed_and_exact() {
    let record = |slots: &mut FlowSlots, flows: &[Slot], delay_ns| {
        let estimate = estimate(delay_ns, 1.0, 1, 0.0);
        slots.record_estimates(&Estimates { flows, estimate });
    };
    let mut slots = FlowSlots::new(1).with_estimates();
    record(&mut slots, &[Slot(0)], -3.0);
    record(&mut slots, &[Slot(0)], 5.0);
    record(&mut slots, &[Slot(1), Slot(0)], 1.0);
    let sums = slots.estimates(Slot(0)).unwrap().delay();
    assert_eq!(
        (sums.packets(), sums.sum_ns(), sums.sum_of_squares_ns2()),
        (3, 3.0, 35.0)
    );
    assert_eq!(sums.mean_ns(), Some(1.0));
    let stddev = (35.0 / 3.0 - 1.0_f64).sqrt();
    assert!((sums.stddev_ns().unwrap() - stddev).abs() < 1e-12);
    let other = slots.estimates(Slot::OTHER).unwrap().delay();
    assert_eq!((other.packets(), other.mean_ns()), (1, Some(1.0)));

    let mut without = FlowSlots::new(1);
    record(&mut without, &[Slot(0)], 3.0);
    assert_eq!(without, FlowSlots::new(1));
    assert_eq!(without.estimates(Slot(0)), None);
}

proptest! {
    /// 32 bytes say what 48 do: the bound to seven digits.
    #[test]
    fn few_bytes_say_what_many_do(
        packets in proptest::collection::vec((-1e7..1e7_f64, 0.0..1e12_f64, 1_u32..65_536, 1_u32..40), 1..300)
    ) {
        let mut slots = FlowSlots::new(1).with_estimates();
        let mut whole = FlowDelay::default();
        for (delay_ns, squared_error_ns2, interval, packets) in packets {
            // As many as an interval has, or more: what errors add up to never falls below 0.
            let estimate = estimate(delay_ns, squared_error_ns2, interval, 1.0 / f64::from(1_000 * packets));
            slots.record_estimates(&Estimates { flows: &[Slot(0)], estimate });
            whole.add(&estimate);
        }
        let few = slots.estimates(Slot(0)).unwrap().delay();
        prop_assert_eq!(few.mean_ns(), whole.mean_ns());
        prop_assert_eq!(few.variance_ns2(), whole.variance_ns2());
        for method in Method::ALL {
            let [few, many] = [few, whole].map(|delay| delay.bound_ns(method).unwrap());
            prop_assert!((few - many).abs() <= 1e-4 * many, "{} for {}", few, many);
        }
    }
}

#[test]
fn histograms_are_kept_of_the_slots_that_are_named_until_the_next_epoch() {
    let without = FlowSlots::new(4).with_histograms(2, TickRate::from_hz(2_000_000_000));
    for mut slots in [without.clone(), without.with_estimates()] {
        // There is room for two; there is no slot 9, and one that is named twice has one.
        slots.keep_histograms([9, 2, 2, 0, 1].map(Slot));
        for (slot, delay) in [(0, 2_000), (1, 4_000), (2, 6_000), (2, 200), (77, 8_000)] {
            slots.add(delay, &[Slot(slot), Slot(3)], &[64, 64]);
        }
        slots.record_lost(Slot(2));
        let max_ns = |slot| {
            let histogram = slots.histogram(Slot(slot));
            histogram.and_then(SmallHistogram::max_ns)
        };
        let greatest = [0, 1, 2, 3, 9].map(max_ns);
        assert_eq!(greatest, [Some(1_000), None, Some(3_000), None, None]);
        let counters = slots.counters(Slot(2));
        let counted = (counters.packets(), counters.bytes(), counters.lost());
        assert_eq!(counted, (2, 128, 1));
        slots.clear();
        assert_eq!(slots.filled().count(), 0);
        assert!(slots.histogram(Slot(2)).is_none());
        assert_eq!(slots.counters(Slot(2)), &FlowCounters::default());
    }
    let mut none = FlowSlots::new(2);
    none.keep_histograms([Slot(0)]);
    assert!(none.histogram(Slot(0)).is_none());
}
