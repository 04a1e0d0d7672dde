//! Two points on a path, each with its own sketch, and frames that routers rewrite in between.

use super::*;
use crate::packet::tests::{agreement, hasher};

/// A point's observation of a frame, from its bytes alone.
fn observation(frame: &[u8], time: u64) -> Observation {
    let bytes = u32::try_from(frame.len()).unwrap();
    let parsed = hasher().parse(frame, bytes);
    Observation {
        flow: parsed.flow,
        packet: parsed.packet,
        time,
        delay: 0,
        bytes,
        segment: SegmentIndex(0),
        epoch: EpochTag(0),
    }
}

proptest! {
    #[test]
    fn both_ends_take_a_rewritten_frame_to_the_same_cells(
        passages in proptest::collection::vec((agreement::passages(), 1_000_u64..1 << 30), 1..40),
        virtual_cells in 1_u32..9,
    ) {
        let layout = LdsLayout::new(30, virtual_cells, &[0.3, 0.7, 1.0]).unwrap();
        let (mut sender, mut receiver) = (LdsPair::new(&layout), LdsPair::new(&layout));
        for ((sent, rerouted), delay) in &passages {
            sender.record(End::Sender, &[observation(sent, 7)]);
            receiver.record(End::Receiver, &[observation(rerouted, 7 + delay)]);
        }
        // The sender's half, as it reaches the receiver.
        let halves = sender.cells().iter().zip(receiver.cells());
        let delays =
            DelayCells::from_halves(&layout, halves.map(|(one, other)| (one.sender, other.receiver)));
        prop_assert!(delays.cells().iter().all(|cell| cell.usable));
        let full_row = &delays.cells()[60..];
        let sum: i64 = full_row.iter().map(|cell| cell.delay_sum).sum();
        prop_assert_eq!(sum.cast_unsigned(), passages.iter().map(|(_, delay)| delay).sum::<u64>());
        let count: u64 = full_row.iter().map(|cell| cell.count).sum();
        prop_assert_eq!(count, passages.len() as u64);
    }
}
