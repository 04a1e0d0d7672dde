//! Packets, loss, variance.

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64;

use super::*;

fn key(packet: &Packet) -> (FlowHash, SegmentIndex) {
    (FlowHash(packet.flow), SegmentIndex(packet.segment))
}

proptest! {
    #[test]
    fn counts_are_upper_bounds_and_exact_for_a_flow_alone(
        layout in layouts(),
        packets in packets(1..200),
    ) {
        let delays = lds_of(&layout, &packets).delays();
        let any_full_row = (0..layout.rows()).any(|row| layout.takes_all(row));
        for packet in &packets {
            let own = || packets.iter().filter(|other| key(other) == key(packet));
            let received = own().filter(|packet| !packet.lost);
            let received = received.count() as u64;
            let lost = i64::try_from(own().filter(|packet| packet.lost).count()).unwrap();
            let (flow, segment) = key(packet);
            let mined = |cells: &DelayCells| (cells.packets(flow, segment), cells.lost(flow, segment));
            let all = mined(&delays);
            prop_assert_eq!(all.0.is_some(), any_full_row);
            if any_full_row {
                prop_assert!(all.0 >= Some(received));
                prop_assert!(all.1 >= Some(lost));
                // The same flow alone.
                let own: Vec<_> = own().copied().collect();
                let alone = mined(&lds_of(&layout, &own).delays());
                prop_assert_eq!(alone, (Some(received), Some(lost)));
            }
        }
    }
}

#[test]
fn a_row_of_which_cells_are_missing_counts_nothing() {
    let layout = plain(1, 2);
    let lds = lds_of(&layout, &[Packet::of(1, 2, 3)]);
    let halves = |missing: usize| {
        let cells = lds.cells().iter().enumerate();
        let halves: Vec<_> = cells
            .map(|(cell, pair)| {
                (
                    Some(pair.sender),
                    (cell != missing).then_some(pair.receiver),
                )
            })
            .collect();
        DelayCells::from_arrived(&layout, halves)
    };
    assert_eq!(halves(1).packets_at(&[0, 0]), Some(1));
    assert_eq!(
        halves(1).packets_at(&[1, 0]),
        None,
        "no such column, a missing cell"
    );
    assert_eq!(halves(0).lost_at(&[0]), None);
}

/// Mean and relative scatter of mined variances of one flow over many hashes.
fn variances(layout: &LdsLayout, packets: u64, others: u64) -> Vec<f64> {
    let mut rng = Pcg64::seed_from_u64(5);
    (0..300)
        .map(|_| {
            let mut stream = Vec::new();
            for _ in 0..packets {
                let delay: f64 = Exp1.sample(&mut rng);
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "small"
                )]
                stream.push(Packet::of(7, rng.random(), (delay * 1e4) as u64));
            }
            for _ in 0..others {
                // Flows of 10 packets, far away.
                let flow = rng.random();
                stream.extend((0..10).map(|_| Packet::of(flow, rng.random(), 500_000)));
            }
            let columns = layout.base_columns(FlowHash(7), SegmentIndex(0));
            let variance = lds_of(layout, &stream).delays().variance_at(&columns);
            variance.unwrap() / f64::from(layout.weight(SegmentIndex(0)))
        })
        .collect()
}

#[test]
fn variance_is_unbiased_for_a_flow_alone() {
    for weights in [&[1_u32][..], &[9]] {
        let layout = LdsLayout::new(1_000, 8, &[0.5, 1.0, 1.0]).unwrap();
        let layout = layout.with_weights(weights).unwrap();
        let found = variances(&layout, 2_000, 0);
        let mean = found.iter().sum::<f64>() / found.len() as f64;
        // Exponential delays: variance 1e8. 7 degrees of freedom at least, 300 times.
        assert!((mean / 1e8 - 1.0).abs() < 0.1, "{mean}");
    }
}

#[test]
fn variance_is_taken_where_a_flow_has_least_to_share() {
    // 20 other flows, most rows are clean of them.
    let layout = LdsLayout::new(1_000, 8, &[1.0; 4]).unwrap();
    let mut found = variances(&layout, 500, 20);
    let median = crate::statistics::median(&mut found).unwrap();
    assert!((median / 1e8 - 1.0).abs() < 0.15, "{median}");
}

#[test]
fn variance_needs_two_cells_in_a_row() {
    let packets: Vec<_> = (0..100).map(|n| Packet::of(1, n << 32, n)).collect();
    let mined = |layout: &LdsLayout| {
        let columns = layout.base_columns(FlowHash(1), SegmentIndex(0));
        lds_of(layout, &packets).delays().variance_at(&columns)
    };
    assert_eq!(mined(&plain(10, 4)), None);
    let split = LdsLayout::new(10, 5, &[1.0]).unwrap();
    assert!(mined(&split).is_some());
}
