use proptest::prelude::*;

use super::*;
use crate::lda::{Bank, LdaLayout};
use crate::lds::LdsLayout;
use crate::packet::PacketHash;
use crate::sight::{SegmentIndex, Sight};
use crate::synopsis::Synopsis;
use crate::time::EpochTag;
use crate::wire::WireLayout;

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

fn sight(number: u64) -> Sight {
    Sight {
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
fn counted(stash_packets: u16, sights: &[Sight]) -> WireShard {
    let mut shard = WireShard::new(&layout(stash_packets), End::Receiver);
    for one in sights {
        shard.record(End::Receiver, &[*one]);
        shard.flows.count(one.flow, one.segment);
    }
    shard
}

/// The sender's lists.
fn listed(stash_packets: usize, before: &[Sight], after: &[Sight]) -> [Vec<Stashed>; 2] {
    let stashed = |sight: &Sight| Stashed::new(sight.flow, sight.packet, sight.time - 500);
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
            .map(|flow| (flow.flow, flow.segment, flow.packets))
            .collect();
        flows.sort_unstable();
        flows
    };
    assert_eq!(flows(found), flows(expected));
}

fn sights(numbers: impl IntoIterator<Item = u64>) -> Vec<Sight> {
    numbers.into_iter().map(sight).collect()
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
    let (before, after) = (sights(0..20), sights(20..40));
    let lists = listed(8, &before, &after);
    // 18 is late, 21 and 23 are early.
    let mut earlier = counted(8, &sights((0..20).filter(|n| *n != 18).chain([21, 23])));
    let late = [20, 18].into_iter().chain((22..40).filter(|n| *n != 23));
    let mut later = counted(8, &sights(late));
    let moved = run(8, &mut earlier, &mut later, &lists);
    assert_eq!((moved.to_later, moved.to_earlier), (2, 1));
    // The lists reach a little further back, and ahead, than the sender's.
    assert_eq!(moved.unexplained, 1);
    assert_same(&earlier, &counted(8, &before));
    assert_same(&later, &counted(8, &after));
}

#[test]
fn what_no_list_has_stays() {
    let (before, after) = (sights(0..20), sights(20..40));
    // 30 came before the turn, which is further than the lists reach.
    let mut earlier = counted(4, &sights((0..20).chain([30])));
    let mut later = counted(4, &sights((20..40).filter(|n| *n != 30)));
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
    let before: Vec<Sight> = sights([1, 7, 2, 7]);
    let after: Vec<Sight> = sights([7, 7, 3, 7]);
    let lists = listed(8, &before, &after);
    let mut earlier = counted(8, &sights([1, 7, 2, 7, 7]));
    let mut later = counted(8, &sights([7, 3, 7]));
    let moved = run(8, &mut earlier, &mut later, &lists);
    assert_eq!((moved.to_later, moved.to_earlier), (1, 0));
    assert_same(&earlier, &counted(8, &before));
    assert_same(&later, &counted(8, &after));

    // With one of them lost nobody can tell which side it was from.
    let mut earlier = counted(8, &sights([1, 7, 2, 7, 7]));
    let mut later = counted(8, &sights([7, 3]));
    let moved = run(8, &mut earlier, &mut later, &lists);
    assert_eq!(moved, Reconciled::default());
}

#[test]
fn a_packet_that_the_network_repeated_is_not_moved() {
    let (before, after) = (sights(0..6), sights(6..12));
    let mut earlier = counted(8, &sights((0..6).chain([6])));
    let mut later = counted(8, &sights(6..12));
    let moved = run(8, &mut earlier, &mut later, &listed(8, &before, &after));
    assert_eq!((moved.to_later, moved.to_earlier), (0, 0));
    assert_eq!(moved.unexplained, 1);
}

#[test]
fn a_packet_is_not_moved_twice_in_a_short_epoch() {
    // All of the middle epoch is in both of its lists.
    let [first, middle, last] = [sights(0..5), sights(5..8), sights(8..12)];
    let mut one = counted(8, &sights(0..4));
    let mut two = counted(8, &sights(4..8));
    let mut three = counted(8, &last);
    let moved = run(8, &mut one, &mut two, &listed(8, &first, &middle));
    assert_eq!((moved.to_later, moved.to_earlier), (0, 1));
    let moved = run(8, &mut two, &mut three, &listed(8, &middle, &last));
    assert_eq!(moved, Reconciled::default());
    assert_same(&one, &counted(8, &first));
    assert_same(&two, &counted(8, &middle));
}

proptest! {
    /// Whatever is lost, whichever lists arrive and however the few packets around a turn are mixed:
    /// no packet is made or lost, and with whole lists all are where the sender counted them.
    #[test]
    fn packets_are_neither_made_nor_lost(
        misplaced in proptest::collection::btree_set(10_u64..30, 0..8),
        lost in proptest::collection::btree_set(0_u64..40, 0..8),
        has_lists in any::<[bool; 2]>(),
    ) {
        let (before, after) = (sights(0..20), sights(20..40));
        let mut lists = listed(16, &before, &after);
        for (list, is_there) in lists.iter_mut().zip(has_lists) {
            if !is_there {
                list.clear();
            }
        }
        let arrived = |n: &u64| !lost.contains(n);
        let is_early = |n: u64| (n < 20) != misplaced.contains(&n);
        let mut earlier = counted(16, &sights((0..40).filter(|n| arrived(n) && is_early(*n))));
        let mut later = counted(16, &sights((0..40).filter(|n| arrived(n) && !is_early(*n))));
        let mut both = earlier.lds.clone().unwrap();
        both.merge(later.lds.as_ref().unwrap()).unwrap();
        run(16, &mut earlier, &mut later, &lists);
        let mut sum = earlier.lds.clone().unwrap();
        sum.merge(later.lds.as_ref().unwrap()).unwrap();
        prop_assert_eq!(sum, both);
        if has_lists == [true; 2] {
            assert_same(&earlier, &counted(16, &sights((0..20).filter(arrived))));
            assert_same(&later, &counted(16, &sights((20..40).filter(arrived))));
        }
    }
}
