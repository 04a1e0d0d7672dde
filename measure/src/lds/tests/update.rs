//! Recording, compared with a second implementation; linearity.

use super::*;
use crate::cell::Cell;
use crate::flows::FlowId;
use crate::packet::{ROW_MULTIPLIERS, row_of};

/// Cells of a packet, spelt out.
fn cells_of(layout: &LdsLayout, packet: &Packet) -> Vec<usize> {
    let columns = layout.columns();
    let key = FlowId::new(FlowHash(packet.flow), SegmentIndex(packet.segment)).bits();
    let offset = row_of(packet.hash, ROW_MULTIPLIERS[3], layout.virtual_cells());
    let sampled = |row: &usize| {
        let share = (packet.hash & 0xffff_ffff) as f64 / 2_f64.powi(32);
        share < layout.row_probability(*row)
    };
    (0..layout.rows())
        .filter(sampled)
        .map(|row| {
            let column = (row_of(key, ROW_MULTIPLIERS[row], columns) + offset) % columns;
            row * columns as usize + column as usize
        })
        .collect()
}

fn add(cell: &mut Cell, packet: &Packet, time: u64, weight: u32) {
    for _ in 0..weight {
        cell.sum = cell.sum.wrapping_add(time);
        cell.count = cell.count.wrapping_add(1);
    }
    cell.digest ^= u32::try_from(packet.hash >> 32).unwrap();
}

/// The expected cells, packet by packet.
fn naive(layout: &LdsLayout, packets: &[Packet]) -> Vec<(Cell, Cell)> {
    let mut halves = vec![(Cell::default(), Cell::default()); layout.cells()];
    for packet in packets {
        let weight = layout.weight(SegmentIndex(packet.segment));
        for cell in cells_of(layout, packet) {
            let (sender, receiver) = &mut halves[cell];
            add(sender, packet, packet.sent, weight);
            if !packet.lost {
                let time = packet.sent.wrapping_add(packet.delay);
                add(receiver, packet, time, weight);
            }
        }
    }
    halves
}

/// Weights low enough to be counted one by one.
fn light_layouts() -> impl Strategy<Value = LdsLayout> {
    (layouts(), proptest::collection::vec(1_u32..5, 0..4))
        .prop_map(|(layout, weights)| layout.with_weights(&weights).unwrap())
}

proptest! {
    #[test]
    fn cells_hold_their_packets(layout in light_layouts(), packets in packets(0..300)) {
        let lds = lds_of(&layout, &packets);
        let ours: Vec<_> = lds.cells().iter().map(|pair| (pair.sender, pair.receiver)).collect();
        prop_assert_eq!(ours, naive(&layout, &packets));
    }

    #[test]
    fn merging_is_the_synopsis_of_the_union(
        layout in layouts(),
        packets in packets(0..200),
        owners in proptest::collection::vec((0_usize..4, 0_usize..4), 200),
    ) {
        // Four workers; a packet's ends need not be seen by the same one.
        let mut shards: Vec<_> = (0..4).map(|_| LdsPair::new(&layout)).collect();
        for (packet, (sender, receiver)) in packets.iter().zip(owners) {
            shards[sender].record(End::Sender, &[packet.sender_observation()]);
            shards[receiver].record(End::Receiver, packet.receiver_observation().as_slice());
        }
        let union = lds_of(&layout, &packets);
        let sum = |order: [usize; 4]| {
            let mut sum = LdsPair::new(&layout);
            for shard in order {
                sum.merge(&shards[shard]).unwrap();
            }
            sum
        };
        prop_assert_eq!(&sum([0, 1, 2, 3]), &union);
        prop_assert_eq!(&sum([3, 1, 0, 2]), &union);
        let (mut left, mut right) = (shards[0].clone(), shards[2].clone());
        left.merge(&shards[1]).unwrap();
        right.merge(&shards[3]).unwrap();
        left.merge(&right).unwrap();
        prop_assert_eq!(&left, &union);
    }

    /// Section 2.3.1: the difference of two LDS is the sketch that adds delays.
    #[test]
    fn without_loss_lds_says_what_sds_does(layout in layouts(), packets in packets(0..200)) {
        let packets = all_arrive(packets);
        let (lds, sds) = (lds_of(&layout, &packets).delays(), sds_of(&layout, &packets).delays());
        prop_assert_eq!(lds, sds);
    }

    #[test]
    fn a_lost_packet_spoils_its_cells_and_no_others(
        layout in layouts(),
        packets in packets(1..200),
        lost in any::<proptest::sample::Index>(),
    ) {
        let mut packets = all_arrive(packets);
        let before = lds_of(&layout, &packets).delays();
        let lost = lost.index(packets.len());
        packets[lost].lost = true;
        let after = lds_of(&layout, &packets).delays();
        let spoilt = cells_of(&layout, &packets[lost]);
        for (cell, (before, after)) in before.cells().iter().zip(after.cells()).enumerate() {
            if spoilt.contains(&cell) {
                prop_assert!(!after.usable);
                prop_assert_eq!((after.count, after.delay_sum), (0, 0));
            } else {
                prop_assert_eq!(before, after);
            }
        }
    }
}
