//! Sizes, and which flows and packets go where.

use super::*;
use crate::packet::{ROW_MULTIPLIERS, row_of};

#[test]
fn sizes_out_of_range_are_refused() {
    let cases: [(u32, u32, &[f64], &str); 10] = [
        (10, 1, &[], "1 to 4 rows, not 0"),
        (10, 1, &[1.0; 5], "1 to 4 rows, not 5"),
        (0, 1, &[1.0], "0 columns"),
        ((1 << 24) + 1, 1, &[1.0], "16777217 columns"),
        (10, 0, &[1.0], "0 cells in each row of 10"),
        (10, 11, &[1.0], "11 cells in each row of 10"),
        (5_000, 1_025, &[1.0], "1025 cells in each row of 5000"),
        (10, 1, &[1.0, 0.0], "row 1 samples with probability 0;"),
        (10, 1, &[f64::NAN], "row 0 samples with probability NaN;"),
        (
            10,
            1,
            &[1.0, 1.0, 1.5],
            "row 2 samples with probability 1.5;",
        ),
    ];
    for (columns, virtual_cells, probabilities, wanted) in cases {
        let layout = LdsLayout::new(columns, virtual_cells, probabilities);
        let error = layout.unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    for (weights, wanted) in [
        (vec![1, 0], "segment 1 has weight 0;"),
        (vec![65_536], "segment 0 has weight 65536;"),
        (vec![1; 65_537], "65537 weights"),
    ] {
        let error = plain(10, 1).with_weights(&weights).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    let few = DelayCells::new(plain(10, 2), vec![DelayCell::default(); 10]).unwrap_err();
    assert!(few.to_string().starts_with("10 cells for a sketch of 20;"));
}

#[test]
fn a_layout_is_what_was_asked_for() {
    let layout = LdsLayout::new(100, 5, &[0.01, 0.5, 1.0])
        .unwrap()
        .with_weights(&[1, 25, 100])
        .unwrap();
    assert_eq!(
        (
            layout.rows(),
            layout.columns(),
            layout.virtual_cells(),
            layout.cells()
        ),
        (3, 100, 5, 300)
    );
    assert!((layout.row_probability(0) - 0.01).abs() < 1e-9);
    for (row, probability) in [(1, 0.5), (2, 1.0), (3, 0.0)] {
        assert!((layout.row_probability(row) - probability).abs() < f64::EPSILON);
    }
    assert_eq!(
        [0, 1, 2, 3].map(|row| layout.takes_all(row)),
        [false, false, true, false]
    );
    assert_eq!(
        [0, 1, 2, 3].map(|s| layout.weight(SegmentIndex(s))),
        [1, 25, 100, 1]
    );
}

#[test]
fn weights_of_1_are_no_weights() {
    assert_eq!(plain(10, 2).with_weights(&[1, 1]).unwrap(), plain(10, 2));
}

#[test]
fn layouts_that_differ_say_in_what() {
    let one = LdsLayout::new(10, 2, &[0.5, 1.0]).unwrap();
    for (other, what) in [
        (LdsLayout::new(10, 2, &[0.5]).unwrap(), "rows"),
        (LdsLayout::new(11, 2, &[0.5, 1.0]).unwrap(), "columns"),
        (
            LdsLayout::new(10, 1, &[0.5, 1.0]).unwrap(),
            "cells of a flow in a row",
        ),
        (
            LdsLayout::new(10, 2, &[0.25, 1.0]).unwrap(),
            "sampled share of a row in 2^-32",
        ),
        (
            one.clone().with_weights(&[1, 3]).unwrap(),
            "weight of a segment",
        ),
    ] {
        let mut lds = LdsPair::new(&one);
        lds.record(End::Sender, &[Packet::of(1, 2, 3).sender_observation()]);
        let before = lds.clone();
        assert_eq!(lds.merge(&LdsPair::new(&other)).unwrap_err().what, what);
        assert_eq!(lds, before);
        let mut delays = lds.delays();
        let epoch = LdsPair::new(&other).delays();
        assert_eq!(delays.add_epoch(&epoch).unwrap_err().what, what);
        assert_eq!(delays, before.delays());
    }
}

#[test]
fn segment_0_keeps_the_flow_as_it_is() {
    let layout = plain(1_000, 3);
    let columns = layout.base_columns(FlowHash(0xabcd), SegmentIndex(0));
    let expected = [0, 1, 2].map(|row| row_of(0xabcd, ROW_MULTIPLIERS[row], 1_000));
    assert_eq!((&columns[..3], columns[3]), (&expected[..], 0));
}

/// Pairs of one flow's cells in two segments that meet in a row, over all flows and rows: as many
/// as chance gives, and no more often in two rows at once.
#[test]
fn a_flow_in_another_segment_is_another_flow() {
    const FLOWS: u64 = 200_000;
    const COLUMNS: u32 = 1_000;
    let layout = plain(COLUMNS, 4);
    for (first, second) in [(0, 1), (0, 2), (1, 2), (7, 8), (0, 65_535)] {
        let (mut once, mut twice) = (0_u32, 0_u32);
        for flow in 0..FLOWS {
            let flow = FlowHash(flow.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let left = layout.base_columns(flow, SegmentIndex(first));
            let right = layout.base_columns(flow, SegmentIndex(second));
            let meetings = left
                .iter()
                .zip(right)
                .filter(|(left, right)| **left == *right);
            match meetings.count() {
                0 => {}
                1 => once += 1,
                _ => twice += 1,
            }
        }
        // Poisson of mean 800; of mean 1.2.
        let expected = 4.0 * FLOWS as f64 / f64::from(COLUMNS);
        let excess = (f64::from(once) - expected) / expected.sqrt();
        assert!(excess.abs() < 5.0, "{first}, {second}: {excess} deviations");
        assert!(
            twice < 10,
            "{first}, {second}: {twice} flows meet in two rows"
        );
    }
}

proptest! {
    #[test]
    fn samples_nest(
        hash in any::<u64>(),
        mut probabilities in proptest::collection::vec(1e-9..=1.0_f64, 4),
    ) {
        probabilities.sort_by(f64::total_cmp);
        let layout = LdsLayout::new(10, 1, &probabilities).unwrap();
        let sampled = [0, 1, 2, 3].map(|row| layout.samples(row, PacketHash(hash)));
        prop_assert!(sampled.is_sorted(), "{:?}", sampled);
        prop_assert!(!layout.samples(4, PacketHash(hash)));
    }

    #[test]
    fn columns_and_offsets_are_in_range(
        layout in layouts(),
        flow in any::<u64>(),
        segment in any::<u16>(),
        hash in any::<u64>(),
    ) {
        for column in layout.base_columns(FlowHash(flow), SegmentIndex(segment)) {
            prop_assert!(column < layout.columns());
        }
        prop_assert!(layout.offset(PacketHash(hash)) < layout.virtual_cells());
    }
}
