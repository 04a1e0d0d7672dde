//! Cells that are kept from asking the cache until packets have passed: they change nothing.

use super::*;

/// A burst that is longer than what cells are kept of.
fn long_burst(packets: u64) -> Vec<Observation> {
    (0..packets).map(|n| observation(0, n, n, 1)).collect()
}

#[test]
fn cells_are_kept_of_64_packets() {
    let mut cells = BurstCells::new();
    for (packets, kept) in [(0, false), (1, true), (64, true), (65, false), (200, false)] {
        let observations = long_burst(packets);
        let (mut prepared, mut expected) = (shard(), shard());
        let burst = prepared.prepare(&observations, &[], &mut cells);
        assert_eq!(burst.cells().is_some(), kept);
        prepared.passed(burst);
        expected.passed(Prepared::without_cells(&observations, &[]));
        assert_eq!(prepared, expected);
    }
}

#[test]
fn cells_of_a_sketch_of_other_sizes_are_not_used() {
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
    let mut cells = BurstCells::new();
    for mut other in others {
        for _ in 0..2 {
            let (mut with, mut without) = (shard(), shard());
            with.passed(other.prepare(&observations, &[], &mut cells));
            without.passed(Prepared::without_cells(&observations, &[]));
            assert_eq!(with, without);
            // The other way round.
            let mut expected = other.clone();
            other.passed(with.prepare(&observations, &[], &mut cells));
            expected.passed(Prepared::without_cells(&observations, &[]));
            assert_eq!(other, expected);
        }
    }
}

#[test]
fn which_sketch_a_segment_has_is_no_part_of_a_cell_index() {
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
    let mut cells = BurstCells::new();
    let burst = of(&[9, 1, 0]).prepare(&observations, &[], &mut cells);
    assert!(burst.cells().is_some());
    let (mut with, mut without) = (of(&[0, 0, 1]), of(&[0, 0, 1]));
    with.passed(burst);
    without.passed(Prepared::without_cells(&observations, &[]));
    assert_eq!(with, without);
}

#[test]
fn cells_of_packets_that_had_slots_are_found_anew() {
    let observations = [observation(0, 1, 1, 1), observation(2, 2, 2, 2)];
    let flows = [0, 1].map(|slot| FlowObservation {
        slot: Slot(slot),
        ..FlowObservation::EMPTY
    });
    let mut slotless = Shard::new(&layout().without_flows());
    let mut expected = slotless.clone();
    let mut cells = BurstCells::new();
    slotless.passed(shard().prepare(&observations, &flows, &mut cells));
    expected.passed(Prepared::without_cells(&observations, &flows));
    assert_eq!(slotless, expected);
}

proptest! {
    #[test]
    fn cells_change_nothing(bursts in bursts(), sketch in sketches(), cut in 0_usize..32) {
        let layout = ShardLayout { lds: sketch, ..layout() };
        let (mut with, mut cut_short) = (Shard::new(&layout), Shard::new(&layout));
        let (mut without, mut twice) = (Shard::new(&layout), Shard::new(&layout));
        let mut cells = BurstCells::new();
        for (_, burst) in &bursts {
            let (observations, flows): (Vec<_>, Vec<_>) = burst.iter().copied().unzip();
            let cut = cut.min(observations.len());
            let prepared = with.prepare(&observations, &flows, &mut cells);
            with.passed(prepared);
            // The driver refused the rest, which is prepared anew.
            cut_short.passed(prepared.first(cut));
            let rest = cut_short.prepare(&observations[cut..], &flows[cut..], &mut cells);
            cut_short.passed(rest);
            without.passed(Prepared::without_cells(&observations, &flows));
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
