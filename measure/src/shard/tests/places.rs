//! Cells that are kept from the prefetch until packets have passed: they change nothing.

use super::*;

/// A burst that is longer than what places are kept of.
fn long_burst(packets: u64) -> Vec<Observation> {
    (0..packets).map(|n| observation(0, n, n, 1)).collect()
}

#[test]
fn places_are_kept_of_64_packets() {
    let expected = |observations: &[Observation]| {
        let mut shard = shard();
        shard.passed(observations, &[], &NOWHERE);
        shard
    };
    let mut places = BurstCells::new();
    for (packets, kept) in [(0, false), (1, true), (64, true), (65, false), (200, false)] {
        let observations = long_burst(packets);
        let mut shard = shard();
        shard.prepare(&observations, &[], &mut places);
        assert_eq!(places.begin_with(&observations), kept);
        shard.passed(&observations, &[], &places);
        assert_eq!(shard, expected(&observations));
    }
    // More than were prepared, and none.
    let (few, many) = (long_burst(3), long_burst(5));
    let mut shard = shard();
    shard.prepare(&few, &[], &mut places);
    shard.passed(&many, &[], &places);
    shard.passed(&[], &[], &places);
    assert_eq!(shard, expected(&many));
}

#[test]
fn places_of_others_are_of_no_use() {
    let observations = [observation(0, 1, 1, 1), observation(2, 2, 2, 2)];
    let with_sketch = |sketch: Option<LdsLayout>| {
        Shard::new(&ShardLayout {
            lds: sketch,
            ..layout()
        })
    };
    let others = [
        with_sketch(None),
        with_sketch(Some(lds(14))),
        with_sketch(Some(lds(13).with_bytes())),
        with_sketch(Some(LdsLayout::new(13, 1, &[1.0; 2]).unwrap())),
    ];
    let mut expected = shard();
    expected.passed(&observations, &[], &NOWHERE);
    for other in others {
        let mut places = BurstCells::new();
        other.prepare(&observations, &[], &mut places);
        let mut mine = shard();
        mine.passed(&observations, &[], &places);
        assert_eq!(mine, expected, "of a sketch of other sizes");
        // The other way round.
        mine.prepare(&observations, &[], &mut places);
        let (mut with, mut without) = (other.clone(), other);
        with.passed(&observations, &[], &places);
        without.passed(&observations, &[], &NOWHERE);
        assert_eq!(with, without);
    }
    let mut places = BurstCells::new();
    let mut mine = shard();
    mine.prepare(
        &[observation(0, 2, 2, 2), observations[1]],
        &[],
        &mut places,
    );
    mine.passed(&observations, &[], &places);
    assert_eq!(mine, expected, "of a burst that begins with another flow");
    let mut mine = shard();
    let had_slots = [0, 1].map(|slot| FlowObservation {
        slot: Slot(slot),
        ..FlowObservation::EMPTY
    });
    mine.prepare(&observations, &had_slots, &mut places);
    mine.passed(&observations, &[], &places);
    assert_eq!(mine, expected, "of packets that were somebody else's");
    mine.prepare(&observations, &[], &mut places);
    places.clear();
    assert!(!places.begin_with(&observations));
}

#[test]
fn which_sketch_a_segment_has_is_no_part_of_a_place() {
    // One has no sketch where the other has, and other ones besides.
    let of = |sketch_of: &[u16]| {
        Shard::new(&ShardLayout {
            sketch_of: sketch_of.to_vec(),
            ..layout()
        })
    };
    let observations: Vec<_> = (0..20)
        .map(|n| observation(n % 4, n.into(), 9, 1))
        .collect();
    let mut places = BurstCells::new();
    of(&[9, 1, 0]).prepare(&observations, &[], &mut places);
    assert!(places.begin_with(&observations));
    let (mut with, mut without) = (of(&[0, 0, 1]), of(&[0, 0, 1]));
    with.passed(&observations, &[], &places);
    without.passed(&observations, &[], &NOWHERE);
    assert_eq!(with, without);
}

proptest! {
    #[test]
    fn places_change_nothing(bursts in bursts(), sketch in sketches(), cut in 0_usize..32) {
        let layout = ShardLayout { lds: sketch, ..layout() };
        let (mut with, mut cut_short) = (Shard::new(&layout), Shard::new(&layout));
        let (mut without, mut twice) = (Shard::new(&layout), Shard::new(&layout));
        let mut places = BurstCells::new();
        for (_, burst) in &bursts {
            let (observations, flows): (Vec<_>, Vec<_>) = burst.iter().copied().unzip();
            let cut = cut.min(observations.len());
            with.prepare(&observations, &flows, &mut places);
            with.passed(&observations, &flows, &places);
            // The driver refused the rest, which is prepared anew.
            cut_short.passed(&observations[..cut], &flows[..cut], &places);
            cut_short.prepare(&observations[cut..], &flows[cut..], &mut places);
            cut_short.passed(&observations[cut..], &flows[cut..], &places);
            without.passed(&observations, &flows, &NOWHERE);
            twice.record(End::Sender, &observations.iter().map(at_sender).collect::<Vec<_>>());
            twice.record(End::Receiver, &observations);
            if let Some(slots) = twice.flows_mut() {
                slots.record(End::Receiver, &flows);
            }
        }
        prop_assert_eq!(&with, &without);
        prop_assert_eq!(&cut_short, &without);
        prop_assert_eq!(&twice, &sketched(&without));
    }
}
