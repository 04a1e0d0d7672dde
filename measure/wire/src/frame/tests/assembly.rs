//! Synopses in pieces.

use super::*;
use measure::cell::Cell;
use measure::lds::{DelayCells, LdsLayout};
use measure::observation::{End, Observation, SegmentIndex};
use measure::packet::{FlowHash, PacketHash};
use measure::shard::Tally;
use measure::synopsis::Synopsis;
use measure::time::EpochTag;

fn cell(index: u32) -> Cell {
    Cell {
        sum: u64::from(index) << 40,
        count: index,
        digest: !index,
    }
}

fn bodies(shape: &Shape, ranges: &[std::ops::Range<u32>], frame_bytes: usize) -> Vec<Vec<u8>> {
    fragments(
        shape,
        End::Sender,
        ranges.iter().cloned(),
        body_room(frame_bytes),
        cell,
    )
    .unwrap()
    .map(|fragment| {
        let (mut sealer, _) = pair();
        assert!(seal(&mut sealer, &fragment).len() <= frame_bytes);
        let mut body = Vec::new();
        fragment.emit(&mut body);
        body
    })
    .collect()
}

fn lds(columns: u32) -> Shape {
    Shape::Lds(SketchShape::new(
        &LdsLayout::new(columns, 1, &[1.0, 1.0]).unwrap(),
    ))
}

#[test]
fn frames_are_filled() {
    let shape = lds(35_000);
    let bodies = bodies(&shape, &[0..70_000], FRAME_BYTES_DEFAULT);
    assert_eq!(bodies.len(), 70_000_usize.div_ceil(86));
    let frame = HEADER_BYTES + bodies[0].len() + TAG_BYTES;
    assert!(
        (FRAME_BYTES_DEFAULT - 15..=FRAME_BYTES_DEFAULT).contains(&frame),
        "{frame}"
    );
}

#[test]
fn fragments_of_other_synopses_are_refused() {
    let mut assembler = Assembler::<Cell>::new(lds(10), End::Receiver, 20).unwrap();
    let before = assembler.clone();
    let other = bodies(&lds(11), &[0..22], 1_500);
    let other = FragmentView::parse(&other[0]).unwrap();
    assert_eq!(assembler.add(&other), Err(AssembleError::Shape));
    let other_half = bodies(&lds(10), &[0..20], 1_500);
    let other_half = FragmentView::parse(&other_half[0]).unwrap();
    let (expected, found) = (End::Receiver, End::Sender);
    assert_eq!(
        assembler.add(&other_half),
        Err(AssembleError::End { expected, found })
    );
    assert_eq!(assembler, before);
    assert!(Assembler::<Cell>::new(lds(10), End::Sender, 19).is_err());

    let mut tallies = Assembler::<Tally>::new(lds(10), End::Sender, 20).unwrap();
    let wrong = FragmentError::WrongElement {
        given: 48,
        expected: 16,
    };
    assert_eq!(
        tallies.add(&other_half),
        Err(AssembleError::Element(wrong.clone()))
    );
    let cut = fragments(&lds(10), End::Sender, [0..1], 1_400, |_| Tally::default()).map(drop);
    assert_eq!(cut, Err(wrong));
    let least = 12 + 34 + 16;
    let small = fragments(&lds(10), End::Sender, [0..1], least - 1, cell).map(drop);
    let bytes_max = least - 1;
    assert_eq!(small, Err(FragmentError::TooSmall { bytes_max, least }));
}

/// Both ends of a wire: the receiver decodes what arrives of the sender's half, and a lost
/// fragment costs its own cells only.
#[test]
fn a_lost_fragment_costs_its_cells_only() {
    let layout = LdsLayout::new(50, 1, &[1.0, 1.0]).unwrap();
    let (mut sent, mut received) = (
        measure::lds::LdsPair::new(&layout),
        measure::lds::LdsPair::new(&layout),
    );
    for flow in 0..40_u64 {
        let hash = flow.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let observation = |time| Observation {
            flow: FlowHash(hash),
            packet: PacketHash(!hash),
            time,
            delay: 0,
            bytes: 64,
            segment: SegmentIndex(0),
            epoch: EpochTag(0),
        };
        sent.record(End::Sender, &[observation(100)]);
        received.record(End::Receiver, &[observation(130)]);
    }
    let shape = Shape::Lds(SketchShape::new(&layout));
    let element = |index: u32| sent.cells()[index as usize].sender;
    let mut assembler = Assembler::new(shape.clone(), End::Sender, 100).unwrap();
    for fragment in fragments(&shape, End::Sender, [0..100], 300, element).unwrap() {
        if fragment.range().contains(&20) {
            continue;
        }
        let mut body = Vec::new();
        fragment.emit(&mut body);
        assembler.add(&FragmentView::parse(&body).unwrap()).unwrap();
    }
    let lost: Vec<_> = assembler.missing().collect();
    assert_eq!(lost.len(), 1);
    let halves = assembler
        .elements()
        .iter()
        .zip(received.cells())
        .map(|(sender, own)| (*sender, Some(own.receiver)));
    let delays = DelayCells::from_arrived(&layout, halves);
    for (index, cell) in (0..).zip(delays.cells()) {
        assert_eq!(cell.usable, !lost[0].contains(&index));
        assert_eq!(cell.delay_sum, 30 * i64::try_from(cell.count).unwrap());
    }
}

proptest! {
    #[test]
    fn lost_fragments_are_asked_for(
        columns in 1_u32..400,
        frame_bytes in 150_usize..2_000,
        lost: Vec<bool>,
        seed: u64,
    ) {
        use rand::{SeedableRng, seq::SliceRandom};
        let shape = lds(columns);
        let elements = shape.elements();
        let mut assembler = Assembler::<Cell>::new(shape.clone(), End::Sender, elements).unwrap();
        let mut first_round = bodies(&shape, &[0..elements], frame_bytes);
        let mut lost = lost.into_iter();
        first_round.retain(|_| !lost.next().unwrap_or(false));
        // Some twice, all in any order.
        let twice: Vec<_> = first_round.iter().step_by(3).cloned().collect();
        first_round.extend(twice);
        first_round.shuffle(&mut rand_pcg::Pcg32::seed_from_u64(seed));
        let mut arrived = 0;
        for body in &first_round {
            arrived += assembler.add(&FragmentView::parse(body).unwrap()).unwrap();
        }
        prop_assert_eq!(arrived, elements - assembler.missing_elements());
        let missing: Vec<_> = assembler.missing().collect();
        prop_assert_eq!(
            missing.iter().map(|range| range.end - range.start).sum::<u32>(),
            assembler.missing_elements()
        );
        if let Some(request) = Request::new(&shape, missing) {
            for body in bodies(&shape, request.ranges(), frame_bytes) {
                assembler.add(&FragmentView::parse(&body).unwrap()).unwrap();
            }
        }
        prop_assert_eq!(assembler.missing_elements(), 0);
        prop_assert_eq!(assembler.missing().count(), 0);
        prop_assert!(assembler.elements().iter().copied().eq((0..elements).map(cell).map(Some)));
        assembler.clear();
        prop_assert!(assembler.missing().eq([0..elements]));
    }
}
