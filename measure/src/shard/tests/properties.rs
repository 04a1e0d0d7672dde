//! Any bursts: what holds of every shard.

use super::*;

proptest! {

    #[test]
    fn parts_of_several_workers_are_the_whole(
        bursts in bursts(),
        sketch in sketches(),
        sketch_of in proptest::collection::vec(0_u16..3, SEGMENTS),
        cut in 0_u16..4,
    ) {
        let whole = ShardLayout { lds: sketch, sketch_of, ..layout() };
        let mut expected = Shard::new(&whole);
        // Every observation comes to all workers, and each takes its own.
        let mut parts = [0..cut, cut..4, 4..9].map(|range| Shard::new(&whole.part(range)));
        for (fate, burst) in &bursts {
            add(&mut expected, *fate, burst);
            for part in &mut parts {
                let observations: Vec<_> = burst.iter().map(|(observation, _)| *observation).collect();
                match fate {
                    Fate::Passed => pass(part, Hashing::Packet, &observations, &[]),
                    _ => add(part, *fate, burst),
                }
            }
        }
        let mut sum = Shard::new(&whole.without_flows());
        for part in &parts {
            sum.merge(part).unwrap();
        }
        prop_assert_eq!(sum, without_flows(sketched(&expected)));
    }

    #[test]
    fn a_packet_that_passed_is_one_at_both_ends(bursts in bursts(), sketch in sketches()) {
        let layout = ShardLayout { lds: sketch, ..layout() };
        let (mut once, mut twice) = (Shard::new(&layout), Shard::new(&layout));
        for (_, burst) in &bursts {
            let (observations, flows): (Vec<_>, Vec<_>) = burst.iter().copied().unzip();
            pass(&mut once, Hashing::Packet, &observations, &flows);
            twice.record(End::Sender, &observations.iter().map(at_sender).collect::<Vec<_>>());
            twice.record(End::Receiver, &observations);
            if let Some(slots) = twice.flows_mut() {
                slots.record(End::Receiver, &flows);
            }
        }
        prop_assert_eq!(sketched(&once), twice);
    }

    #[test]
    fn a_lost_packet_is_one_at_the_senders_end(bursts in bursts()) {
        let (mut lost, mut sent) = (shard(), shard());
        for observation in bursts.iter().flat_map(|(_, burst)| burst).map(|(observation, _)| observation) {
            lost.lost(observation, Slot::OTHER);
            sent.record(End::Sender, &[at_sender(observation)]);
            if let Some(segment) = sent.segment_mut(observation.segment) {
                segment.tally.dropped += 1;
            }
        }
        let lost_of = |slot| lost.flows().map(|slots| slots.counters(slot).lost());
        let dropped: u64 = lost.segments().iter().map(|segment| segment.tally.dropped).sum();
        prop_assert_eq!(lost_of(Slot::OTHER), Some(dropped));
        prop_assert_eq!(without_flows(lost), without_flows(sent));
    }

    #[test]
    fn the_ledger_is_kept(bursts in bursts()) {
        for segment in shard_of(&bursts).segments() {
            let Tally { sent, received, dropped, late, .. } = segment.tally;
            prop_assert_eq!(sent, received + dropped + late);
            prop_assert_eq!(segment.moments.count(), received);
            prop_assert_eq!(segment.histogram.count(), received);
        }
    }

    #[test]
    fn merging_is_the_synopsis_of_the_union(bursts in bursts(), cuts in (0_usize..6, 0_usize..6)) {
        let (low, high) = (cuts.0.min(cuts.1).min(bursts.len()), cuts.0.max(cuts.1).min(bursts.len()));
        let (a, b, c) = (&bursts[..low], &bursts[low..high], &bursts[high..]);
        let union = without_flows(shard_of(&bursts));
        let mut left = shard_of(a);
        left.merge(&shard_of(b)).unwrap();
        left.merge(&shard_of(c)).unwrap();
        prop_assert_eq!(&without_flows(left), &union);
        let mut right = shard_of(c);
        right.merge(&shard_of(b)).unwrap();
        right.merge(&shard_of(a)).unwrap();
        prop_assert_eq!(&without_flows(right), &union);
    }

    #[test]
    fn how_bursts_are_cut_does_not_matter(bursts in bursts()) {
        let singles: Bursts = bursts
            .iter()
            .flat_map(|(fate, burst)| burst.iter().map(|one| (*fate, vec![*one])))
            .collect();
        prop_assert_eq!(shard_of(&singles), shard_of(&bursts));
    }
}
