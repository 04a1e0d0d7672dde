//! The papers' estimators, and cells of several epochs.

use super::*;
use crate::cell::Cell;

/// One row a list: (count, sum of delays), `None` for an unusable cell.
fn delays(layout: LdsLayout, rows: &[&[Option<(u64, i64)>]]) -> DelayCells {
    let cell = |cell: &Option<(u64, i64)>| {
        let (count, delay_sum) = cell.unwrap_or_default();
        DelayCell {
            sent: count + u64::from(cell.is_none()),
            received: count,
            count,
            delay_sum,
            usable: cell.is_some(),
            ..DelayCell::default()
        }
    };
    let cells = rows.iter().copied().flatten().map(cell).collect();
    DelayCells::new(layout, cells).unwrap()
}

fn mean(estimate: Option<FlowEstimate>) -> Option<f64> {
    estimate.map(|estimate| estimate.mean_ticks)
}

#[test]
fn cells_near_the_smallest_are_read() {
    let cells = delays(
        plain(2, 4),
        &[
            &[Some((100, 1_000)), None],
            &[Some((110, 2_200)), Some((0, 0))],
            &[Some((111, 9_990)), None],
            &[None, Some((50, 100))],
        ],
    );
    // 100 and 110 packets, but not 111.
    let expected = FlowEstimate {
        mean_ticks: 3_200.0 / 210.0,
        packets: 210,
    };
    assert_eq!(cells.estimate_at(&[0, 0, 0, 0]), Some(expected));
    // Unusable and empty cells give no information.
    assert_eq!(mean(cells.estimate_at(&[1, 1, 1, 1])), Some(2.0));
    assert_eq!(cells.estimate_at(&[1, 1, 1, 0]), None);
    // Fewer columns, or such as there are none, are no cells.
    assert_eq!(mean(cells.estimate_at(&[0])), Some(10.0));
    assert_eq!(cells.estimate_at(&[2, u32::MAX, 7, 2, 0]), None);
}

#[test]
fn counts_of_sampled_rows_are_inverted() {
    let layout = LdsLayout::new(1, 1, &[0.25, 1.0]).unwrap();
    // 30 of 120 packets, against 100.
    let cells = delays(layout, &[&[Some((30, 30))], &[Some((100, 200))]]);
    assert_eq!(mean(cells.estimate_at(&[0, 0])), Some(2.0));
}

#[test]
fn shares_that_are_no_power_of_two_move_no_cell_over_the_limit() {
    // 1 of 10 packets, and 11: on the limit, though 0.1 is kept as a little more.
    for (sampled, whole, read) in [(1, 11, 12), (1, 12, 1), (10, 110, 120), (10, 111, 10)] {
        let layout = LdsLayout::new(1, 1, &[0.1, 1.0]).unwrap();
        let cells = delays(layout, &[&[Some((sampled, 0))], &[Some((whole, 0))]]);
        let estimate = cells.estimate_at(&[0, 0]).unwrap();
        assert_eq!(estimate.packets, read, "{sampled} {whole}");
    }
}

#[test]
fn the_cells_of_a_flow_go_round_the_row() {
    let layout = LdsLayout::new(4, 3, &[1.0]).unwrap();
    let cells = delays(
        layout,
        &[&[
            Some((10, 10)),
            Some((9, 99)),
            Some((10, 30)),
            Some((10, 20)),
        ]],
    );
    // Columns 2, 3 and 0.
    let expected = FlowEstimate {
        mean_ticks: 2.0,
        packets: 30,
    };
    assert_eq!(cells.estimate_at(&[2]), Some(expected));
}

#[test]
fn means_are_signed() {
    let cells = delays(plain(1, 1), &[&[Some((4, -10))]]);
    assert_eq!(mean(cells.estimate_at(&[0])), Some(-2.5));
    assert_eq!(cells.segment_mean_ticks(), Some(-2.5));
}

#[test]
fn the_segments_mean_is_of_the_rows_that_sample_most() {
    let layout = || LdsLayout::new(2, 1, &[0.5, 1.0, 1.0]).unwrap();
    let sampled: &[_] = &[Some((1, 7)), Some((1, 7))];
    let cells = delays(
        layout(),
        &[sampled, &[Some((2, 4)), None], &[None, Some((4, 20))]],
    );
    assert_eq!(cells.segment_mean_ticks(), Some(4.0));
    // Where every cell of these is spoilt, a row that sampled less has to do.
    let cells = delays(layout(), &[sampled, &[None, None], &[None, Some((0, 0))]]);
    assert_eq!(cells.segment_mean_ticks(), Some(7.0));
    let cells = delays(layout(), &[&[None, None][..]; 3]);
    assert_eq!(cells.segment_mean_ticks(), None);
}

#[test]
fn cells_that_did_not_arrive_are_not_empty_cells() {
    let half = |count| Cell {
        sum: 5,
        count,
        digest: 1,
    };
    let layout = plain(4, 1);
    let arrived = [
        (Some(half(3)), Some(half(3))),
        (None, Some(half(2))),
        (Some(half(1)), None),
    ];
    let cells = DelayCells::from_arrived(&layout, arrived);
    let seen: Vec<_> = cells
        .cells()
        .iter()
        .map(|cell| {
            (
                cell.sent,
                cell.received,
                cell.count,
                cell.usable,
                cell.missing,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            (3, 3, 3, true, false),
            (0, 2, 0, false, true),
            (1, 0, 0, false, true),
            (0, 0, 0, false, true),
        ]
    );
    // More than there are columns for.
    let halves = std::iter::repeat((half(1), half(1)));
    assert_eq!(DelayCells::from_halves(&layout, halves).cells().len(), 4);
}

#[test]
fn an_epoch_that_spoilt_a_cell_leaves_what_the_others_say() {
    let epoch = |cell| delays(plain(1, 1), &[&[cell]]);
    let (good, late, spoilt) = (epoch(Some((3, 30))), epoch(Some((5, 70))), epoch(None));
    let sum = |epochs: &[&DelayCells]| {
        let mut sum = epochs[0].clone();
        for epoch in &epochs[1..] {
            sum.add_epoch(epoch).unwrap();
        }
        let cell = sum.cells()[0];
        (cell.count, cell.delay_sum, cell.usable, cell.partial)
    };
    assert_eq!(sum(&[&good, &late]), (8, 100, true, false));
    for order in [
        [&good, &spoilt, &late],
        [&spoilt, &good, &late],
        [&late, &good, &spoilt],
    ] {
        assert_eq!(sum(&order), (8, 100, true, true));
    }
    assert_eq!(sum(&[&spoilt, &spoilt]), (0, 0, false, false));
    assert_eq!(sum(&[&spoilt, &spoilt, &good]), (3, 30, true, true));
}

#[test]
fn a_cell_spoilt_in_one_epoch_does_not_pass_for_one_that_few_share() {
    let layout = || plain(1, 2);
    // The cell in row 0 is shared with a flow of 900 packets an epoch, that in row 1 with no flow.
    let mut cells = delays(layout(), &[&[Some((10, 900))], &[Some((100, 100))]]);
    let mut spoilt = delays(layout(), &[&[None], &[Some((100, 100))]]);
    spoilt.cells[0].sent = 1_000;
    cells.add_epoch(&spoilt).unwrap();
    assert_eq!(mean(cells.estimate_at(&[0, 0])), Some(1.0));
}

/// Truth about a flow: mean delay of its packets.
fn true_mean(packets: &[Packet], flow: (u64, u16)) -> f64 {
    let own = packets
        .iter()
        .filter(|packet| (packet.flow, packet.segment) == flow);
    let (count, sum) = own.fold((0_u64, 0_u128), |(count, sum), packet| {
        (count + 1, sum + u128::from(packet.delay))
    });
    sum as f64 / count as f64
}

proptest! {
    #[test]
    fn a_flow_that_is_alone_in_all_rows_comes_out_exact(
        rows in 1..=ROWS_MAX,
        weights in proptest::collection::vec(1_u32..100, 0..4),
        packets in packets(1..200),
    ) {
        let packets = all_arrive(packets);
        let layout = plain(40, rows).with_weights(&weights).unwrap();
        let delays = lds_of(&layout, &packets).delays();
        let flows: std::collections::BTreeSet<_> =
            packets.iter().map(|packet| (packet.flow, packet.segment)).collect();
        let columns = |(flow, segment)| layout.base_columns(FlowHash(flow), SegmentIndex(segment));
        for &flow in &flows {
            let others = flows.iter().filter(|other| **other != flow);
            let is_alone = (0..rows).all(|row| {
                others.clone().all(|&other| columns(other)[row] != columns(flow)[row])
            });
            let estimate = delays.estimate(FlowHash(flow.0), SegmentIndex(flow.1)).unwrap();
            let truth = true_mean(&packets, flow);
            if is_alone {
                prop_assert!((estimate.mean_ticks - truth).abs() <= 1e-9 * truth.max(1.0));
            }
        }
    }

    /// Time is linear: epochs added are one long epoch.
    #[test]
    fn epochs_without_loss_add_up(
        layout in layouts(),
        packets in packets(0..200),
        cut in 0_usize..200,
    ) {
        let packets = all_arrive(packets);
        let (early, late) = packets.split_at(cut.min(packets.len()));
        let mut sum = lds_of(&layout, early).delays();
        sum.add_epoch(&lds_of(&layout, late).delays()).unwrap();
        prop_assert_eq!(sum, lds_of(&layout, &packets).delays());
    }

    #[test]
    fn adding_epochs_commutes(layout in layouts(), one in packets(0..200), other in packets(0..200)) {
        let (one, other) = (lds_of(&layout, &one).delays(), lds_of(&layout, &other).delays());
        let (mut left, mut right) = (one.clone(), other.clone());
        left.add_epoch(&other).unwrap();
        right.add_epoch(&one).unwrap();
        prop_assert_eq!(left, right);
    }
}
