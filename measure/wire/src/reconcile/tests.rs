use proptest::prelude::*;

use super::*;
use crate::WireLayout;
use measure::lda::{Bank, LdaLayout};
use measure::lds::LdsLayout;
use measure::observation::{Observation, SegmentIndex};
use measure::packet::PacketHash;
use measure::synopsis::Synopsis;
use measure::time::EpochTag;

fn layout(stash_packets: u16) -> WireLayout {
    let bank = Bank {
        rows: 16,
        probability: 1.0,
    };
    WireLayout {
        segments: 2,
        lda: LdaLayout::new(&[bank]).unwrap(),
        lds: Some(LdsLayout::new(32, 3, &[0.5, 1.0]).unwrap()),
        stash_packets,
        flows: 64,
        references: None,
    }
}

fn observation(number: u64) -> Observation {
    Observation {
        flow: FlowHash(number % 5 * 0x1234_5678_9abc),
        packet: PacketHash(number.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
        time: 1_000 + number,
        delay: 0,
        bytes: 100,
        segment: SegmentIndex(u16::from(number.is_multiple_of(2))),
        epoch: EpochTag(0),
    }
}

/// The receiver's shard of these packets.
fn counted(stash_packets: u16, observations: &[Observation]) -> WireShard {
    let mut shard = WireShard::new(&layout(stash_packets), End::Receiver);
    for one in observations {
        shard.record(End::Receiver, &[*one]);
        shard.flows.count(one.flow, one.segment, one.bytes);
    }
    shard
}

/// The sender's lists.
fn listed(
    stash_packets: usize,
    before: &[Observation],
    after: &[Observation],
) -> [Vec<Stashed>; 2] {
    let stashed = |observation: &Observation| {
        Stashed::new(observation.flow, observation.packet, observation.time - 500)
    };
    let last = &before[before.len().saturating_sub(stash_packets)..];
    let first = &after[..after.len().min(stash_packets)];
    [last, first].map(|list| list.iter().map(stashed).collect())
}

fn assert_same(found: &WireShard, expected: &WireShard) {
    for (found, expected) in found.segments.iter().zip(&expected.segments) {
        assert_eq!(found.tally, expected.tally);
        assert_eq!(found.lda, expected.lda);
    }
    assert_eq!(found.lds, expected.lds);
    let flows = |shard: &WireShard| {
        let flows = shard.flows.flows().iter().filter(|flow| flow.packets > 0);
        let mut flows: Vec<_> = flows
            .map(|flow| (flow.flow, flow.segment, flow.packets, flow.bytes))
            .collect();
        flows.sort_unstable();
        flows
    };
    assert_eq!(flows(found), flows(expected));
}

fn observations(numbers: impl IntoIterator<Item = u64>) -> Vec<Observation> {
    numbers.into_iter().map(observation).collect()
}

fn run(
    stash: u16,
    earlier: &mut WireShard,
    later: &mut WireShard,
    lists: &[Vec<Stashed>; 2],
) -> Reconciled {
    assert!(lists.iter().all(|list| list.len() <= stash.into()));
    let [last, first] = lists;
    reconcile(earlier, later, SenderLists { last, first })
}

#[test]
fn packets_on_the_wrong_side_are_moved_exactly() {
    let (before, after) = (observations(0..20), observations(20..40));
    let lists = listed(8, &before, &after);
    // 18 is late, 21 and 23 are early.
    let mut earlier = counted(
        8,
        &observations((0..20).filter(|n| *n != 18).chain([21, 23])),
    );
    let late = [20, 18].into_iter().chain((22..40).filter(|n| *n != 23));
    let mut later = counted(8, &observations(late));
    let moved = run(8, &mut earlier, &mut later, &lists);
    assert_eq!((moved.to_later, moved.to_earlier), (2, 1));
    // The lists reach a little further back, and ahead, than the sender's.
    assert_eq!(moved.unexplained, 1);
    assert_same(&earlier, &counted(8, &before));
    assert_same(&later, &counted(8, &after));
}

#[test]
fn what_no_list_has_stays() {
    let (before, after) = (observations(0..20), observations(20..40));
    // 30 came before the turn, which is further than the lists reach.
    let mut earlier = counted(4, &observations((0..20).chain([30])));
    let mut later = counted(4, &observations((20..40).filter(|n| *n != 30)));
    let copies = (earlier.clone(), later.clone());
    let moved = run(4, &mut earlier, &mut later, &listed(4, &before, &after));
    assert_eq!((moved.to_later, moved.to_earlier), (0, 0));
    assert_eq!(moved.unexplained, 1);
    assert_same(&earlier, &copies.0);
    assert_same(&later, &copies.1);
}

#[test]
fn packets_that_look_the_same_are_moved_by_number_where_all_are_accounted_for() {
    // Packet 7 five times: the sender sent two before the turn and three after it.
    let before: Vec<Observation> = observations([1, 7, 2, 7]);
    let after: Vec<Observation> = observations([7, 7, 3, 7]);
    let lists = listed(8, &before, &after);
    let mut earlier = counted(8, &observations([1, 7, 2, 7, 7]));
    let mut later = counted(8, &observations([7, 3, 7]));
    let moved = run(8, &mut earlier, &mut later, &lists);
    assert_eq!((moved.to_later, moved.to_earlier), (1, 0));
    assert_same(&earlier, &counted(8, &before));
    assert_same(&later, &counted(8, &after));

    // If one of them is lost, it is unknown which side it was from.
    let mut earlier = counted(8, &observations([1, 7, 2, 7, 7]));
    let mut later = counted(8, &observations([7, 3]));
    let moved = run(8, &mut earlier, &mut later, &lists);
    assert_eq!((moved.to_later, moved.to_earlier), (0, 0));
    assert!(moved.has_alike);
}

#[test]
fn copies_that_the_network_made_count_where_the_packet_was_sent() {
    let (before, after) = (observations(0..6), observations(6..12));
    let lists = listed(8, &before, &after);
    // 6 came on both sides of the marker, 7 twice before it, 4 once more behind it.
    let mut earlier = counted(8, &observations((0..6).chain([6, 7, 7])));
    let mut later = counted(8, &observations([4, 6, 8, 9, 10, 11]));
    let moved = run(8, &mut earlier, &mut later, &lists);
    assert_eq!((moved.to_later, moved.to_earlier), (3, 1));
    assert_eq!(moved.unexplained, 3);
    assert!(moved.is_proven && !moved.has_alike);
    assert_same(&earlier, &counted(8, &observations((0..6).chain([4]))));
    assert_same(&later, &counted(8, &observations((6..12).chain([6, 7]))));
}

#[test]
fn one_list_proves_that_nothing_is_misplaced_and_none_proves_nothing() {
    let (before, after) = (observations(0..40), observations(40..80));
    let [last, first] = listed(8, &before, &after);
    // 35 and 43 are lost, so that the receiver's lists reach farther than the sender's.
    let receive = |misplaced: &[u64]| {
        let came = |n: &u64| ![35, 43].contains(n);
        let is_early = |n: &u64| (*n < 40) != misplaced.contains(n);
        let all = || (0..80).filter(came);
        let earlier = counted(8, &observations(all().filter(is_early)));
        (
            earlier,
            counted(8, &observations(all().filter(|n| !is_early(n)))),
        )
    };
    let proves = |misplaced: &[u64], lists: [&[Stashed]; 2]| {
        let (mut earlier, mut later) = receive(misplaced);
        run(8, &mut earlier, &mut later, &lists.map(<[Stashed]>::to_vec)).is_proven
    };
    for lists in [[&last[..], &first], [&last, &[]], [&[], &first]] {
        assert!(proves(&[], lists), "{lists:?}");
    }
    assert!(!proves(&[], [&[], &[]]));
    // Data that overtook the marker, and a marker that overtook data: shown by the list of either side.
    for misplaced in [&[40, 41, 42][..], &[38, 39]] {
        let (mut earlier, mut later) = receive(misplaced);
        let lists = [last.clone(), first.clone()];
        assert!(run(8, &mut earlier, &mut later, &lists).is_proven);
        let came = |n: &u64| ![35, 43].contains(n);
        assert_same(&earlier, &counted(8, &observations((0..40).filter(came))));
        assert_same(&later, &counted(8, &observations((40..80).filter(came))));
    }
    assert!(!proves(&[40, 41, 42], [&last, &[]]));
    assert!(!proves(&[38, 39], [&[], &first]));
}

#[test]
fn more_misplaced_packets_than_a_list_holds_are_not_proven() {
    let (before, after) = (observations(0..40), observations(40..80));
    let lists = listed(8, &before, &after);
    for late in [8, 9, 12, 16, 20, 30] {
        let mut earlier = counted(8, &observations(0..40 + late));
        let mut later = counted(8, &observations(40 + late..80));
        assert!(
            !run(8, &mut earlier, &mut later, &lists).is_proven,
            "{late}"
        );
        let mut earlier = counted(8, &observations(0..40 - late));
        let mut later = counted(8, &observations(40 - late..80));
        assert!(
            !run(8, &mut earlier, &mut later, &lists).is_proven,
            "{late}"
        );
    }
}

#[test]
fn packets_that_look_the_same_on_both_sides_are_said() {
    let sevens = |n: usize| observations(std::iter::repeat_n(7, n));
    let lists = listed(8, &sevens(4), &sevens(4));
    let alike = |before: usize, after: usize| {
        let (mut earlier, mut later) = (counted(8, &sevens(before)), counted(8, &sevens(after)));
        run(8, &mut earlier, &mut later, &lists).has_alike
    };
    assert!(!alike(4, 4) && !alike(5, 3), "all are accounted for");
    assert!(alike(4, 3) && alike(4, 5));
    // The lists end: what lies beyond them may look the same.
    let lists = listed(8, &sevens(20), &sevens(20));
    let (mut earlier, mut later) = (counted(8, &sevens(23)), counted(8, &sevens(17)));
    assert!(run(8, &mut earlier, &mut later, &lists).has_alike);
}

#[test]
fn a_packet_is_not_moved_twice_in_a_short_epoch() {
    // All of the middle epoch is in both of its lists.
    let [first, middle, last] = [observations(0..5), observations(5..8), observations(8..12)];
    let mut one = counted(8, &observations(0..4));
    let mut two = counted(8, &observations(4..8));
    let mut three = counted(8, &last);
    let moved = run(8, &mut one, &mut two, &listed(8, &first, &middle));
    assert_eq!((moved.to_later, moved.to_earlier), (0, 1));
    let moved = run(8, &mut two, &mut three, &listed(8, &middle, &last));
    assert_eq!((moved.to_later, moved.to_earlier), (0, 0));
    assert_same(&one, &counted(8, &first));
    assert_same(&two, &counted(8, &middle));
}

proptest! {
    /// Whatever is lost, whichever lists arrive and however the few packets around a rollover are mixed: no packet is
    /// added or removed, and with complete lists all are in the epoch in which the sender counted them.
    #[test]
    fn packets_are_neither_made_nor_lost(
        misplaced in proptest::collection::btree_set(10_u64..30, 0..8),
        lost in proptest::collection::btree_set(0_u64..40, 0..8),
        has_lists in any::<[bool; 2]>(),
    ) {
        let (before, after) = (observations(0..20), observations(20..40));
        let mut lists = listed(16, &before, &after);
        for (list, is_there) in lists.iter_mut().zip(has_lists) {
            if !is_there {
                list.clear();
            }
        }
        let arrived = |n: &u64| !lost.contains(n);
        let is_early = |n: u64| (n < 20) != misplaced.contains(&n);
        let mut earlier = counted(16, &observations((0..40).filter(|n| arrived(n) && is_early(*n))));
        let mut later = counted(16, &observations((0..40).filter(|n| arrived(n) && !is_early(*n))));
        let mut both = earlier.lds.clone().unwrap();
        both.merge(later.lds.as_ref().unwrap()).unwrap();
        run(16, &mut earlier, &mut later, &lists);
        let mut sum = earlier.lds.clone().unwrap();
        sum.merge(later.lds.as_ref().unwrap()).unwrap();
        prop_assert_eq!(sum, both);
        if has_lists == [true; 2] {
            assert_same(&earlier, &counted(16, &observations((0..20).filter(arrived))));
            assert_same(&later, &counted(16, &observations((20..40).filter(arrived))));
        }
    }

    /// A marker that is early or late by some packets, packets lost, held back and duplicated, and any parts of the
    /// sender's lists: counts reported as proven equal those of the sender. Lists are longer than packets and copies
    /// are late.
    #[test]
    fn what_is_proven_is_true(
        marker in 5_u64..55,
        lost in proptest::collection::btree_set(0_u64..60, 0..12),
        held in proptest::collection::btree_map(0_u64..60, 1_usize..5, 0..6),
        doubled in proptest::collection::btree_map(0_u64..60, 0_usize..4, 0..6),
        has_lists in any::<[bool; 2]>(),
        stash in 16_u16..40,
    ) {
        let (before, after) = (observations(0..30), observations(30..60));
        let mut lists = listed(stash.into(), &before, &after);
        for (list, is_there) in lists.iter_mut().zip(has_lists) {
            if !is_there {
                list.clear();
            }
        }
        // In order of arrival; copies come a few packets later.
        let mut arrivals: Vec<u64> = (0..60).filter(|n| !lost.contains(n)).collect();
        for (packet, after) in &held {
            if let Some(at) = arrivals.iter().position(|n| n == packet) {
                let packet = arrivals.remove(at);
                arrivals.insert((at + after).min(arrivals.len()), packet);
            }
        }
        for (packet, after) in &doubled {
            if let Some(at) = arrivals.iter().position(|n| n == packet) {
                arrivals.insert((at + 1 + after).min(arrivals.len()), *packet);
            }
        }
        let turn = arrivals.iter().position(|n| *n >= marker).unwrap_or(arrivals.len());
        let mut earlier = counted(stash, &observations(arrivals[..turn].iter().copied()));
        let mut later = counted(stash, &observations(arrivals[turn..].iter().copied()));
        if run(stash, &mut earlier, &mut later, &lists).is_proven {
            let sent = |is_before: bool| {
                observations(arrivals.iter().copied().filter(move |n| (*n < 30) == is_before))
            };
            assert_same(&earlier, &counted(stash, &sent(true)));
            assert_same(&later, &counted(stash, &sent(false)));
        }
    }
}
