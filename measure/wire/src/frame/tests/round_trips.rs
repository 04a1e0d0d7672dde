//! Bodies are the same after writing and reading them, and after reading and writing them.

use super::*;
use measure::cell::Cell;
use measure::lds::{DelayCells, LdsLayout};
use measure::observation::{End, Observation, SegmentIndex};
use measure::packet::{FlowHash, PacketHash};
use measure::rli::StreamSums;
use measure::shard::Tally;
use measure::time::EpochTag;

fn nonces() -> impl Strategy<Value = Nonces> {
    let other = || proptest::option::of(1_u64..);
    (1_u64.., other(), other()).prop_map(|(own, peer, renews)| Nonces {
        own: Nonce::from_random(own),
        peer: peer.map(Nonce::from_random),
        renews: renews.map(Nonce::from_random),
    })
}

prop_compose! {
    fn hellos()(
        (hash_version, seed_check, epoch_ns) in any::<(u32, u64, u64)>(),
        nonces in nonces(),
        (clock_error_ns, tai_utc_s, ptp_domain, stash_packets) in any::<(u32, i16, u8, u16)>(),
        clock in prop_oneof![
            Just(ClockState::Free), Just(ClockState::HoldingOver), Just(ClockState::Locked)
        ],
        port_name in "[!-~]{0,64}",
        shapes in proptest::collection::vec(shapes(), 0..=8),
    ) -> Hello {
        Hello {
            hash_version,
            seed_check,
            epoch_ns,
            nonces,
            clock_error_ns,
            tai_utc_s,
            clock,
            ptp_domain,
            stash_packets,
            port_name: PortName::from(&port_name).unwrap(),
            shapes: shapes.into_iter().collect(),
        }
    }
}

/// Sends a body; `parsed` converts the received one.
fn check<B: Body>(body: &B, parsed: impl Fn(Message<'_>) -> bool) -> Result<(), TestCaseError> {
    let (mut sealer, mut verifier) = pair();
    let bytes = seal(&mut sealer, body);
    let frame = verifier.open(&bytes).unwrap();
    prop_assert_eq!(frame.kind(), B::KIND);
    let message = Message::parse(&frame).unwrap();
    let mut again = Vec::new();
    message.emit(&mut again);
    prop_assert_eq!(again, frame.body());
    prop_assert!(parsed(message));
    Ok(())
}

proptest! {
    #[test]
    fn hellos_round(hello in hellos()) {
        check(&hello, |message| message == Message::Hello(hello.clone()))?;
    }

    #[test]
    fn markers_round(copy in 0_u8..3, packets_since: u32, shape in shapes()) {
        let Shape::Lda(lda) = shape else { return Ok(()) };
        let marker = Marker { copy, packets_since, lda };
        check(&marker, |message| message == Message::Marker(marker.clone()))?;
    }

    #[test]
    fn references_round(
        (worker, queue, sequence) in any::<(u8, u8, u32)>(),
        (count, time_ns, ranked_time_ns, digest) in any::<(u64, u64, u64, u64)>(),
    ) {
        let reference = Reference {
            worker,
            queue,
            sequence,
            sums: StreamSums { count, time_ns, ranked_time_ns, digest },
        };
        check(&reference, |message| message == Message::Reference(reference))?;
    }

    #[test]
    fn reports_round(
        (fate, method) in (0..EpochFate::COUNT, proptest::option::of(0..epoch::METHODS.len())),
        (sent, received, lost, moved) in any::<(u64, u64, i64, u32)>(),
        (effective_samples, usable_cells, more_cells) in any::<(u64, u16, u16)>(),
        mean_ns in proptest::option::of(-1e18..1e18),
        (stddev_ns, bound_ns) in (proptest::option::of(0.0..1e18), proptest::option::of(0.0..1e18)),
        (chosen_ns, chosen_bound_ns) in (-1e18..1e18, proptest::option::of(0.0..1e18)),
    ) {
        let report = Report {
            fate: EpochFate::ALL[fate],
            sent,
            received,
            lost,
            moved,
            mean_ns,
            stddev_ns,
            bound_ns,
            effective_samples,
            usable_cells: usable_cells.into(),
            cells: u32::from(usable_cells) + u32::from(more_cells),
            chosen: method.map(|method| crate::Estimate {
                method: epoch::METHODS[method],
                mean_ns: chosen_ns,
                bound_ns: chosen_bound_ns,
            }),
        };
        check(&report, |message| message == Message::Report(report))?;
    }

    #[test]
    fn floors_round(least_delay_ns: i64) {
        let floor = Floor { least_delay_ns };
        check(&floor, |message| message == Message::Floor(floor))?;
    }

    #[test]
    fn requests_round(
        shape in shapes(),
        lengths in proptest::collection::vec((1_u32..1_000, 1_u32..1_000), 1..200),
    ) {
        let mut at = 0;
        let ranges: Vec<_> = lengths
            .iter()
            .map(|(gap, length)| {
                let start = at + gap;
                at = start + length;
                start..at
            })
            .collect();
        let request = Request::new(&shape, ranges.clone()).unwrap();
        prop_assert!(request.is_for(&shape));
        prop_assert_eq!(request.ranges().len(), ranges.len().min(RANGES_MAX));
        let asked = |element: u32| request.ranges().iter().any(|range| range.contains(&element));
        prop_assert!(ranges.into_iter().flatten().all(asked), "nothing is forgotten");
        check(&request, |message| message == Message::Request(request.clone()))?;
    }

    #[test]
    fn stashes_round(
        list in proptest::collection::vec(any::<(u64, u64, u32)>(), 0..200),
        room in 0_usize..2_000,
    ) {
        let list: Vec<_> = list
            .into_iter()
            .map(|(flow, time, digest)| Stashed { flow: FlowHash(flow), time, digest })
            .collect();
        let mut received = Vec::new();
        for part in Stash::parts(Side::After, &list, room) {
            let (mut sealer, mut verifier) = pair();
            let bytes = seal(&mut sealer, &part);
            prop_assert!(bytes.len() <= room);
            let frame = verifier.open(&bytes).unwrap();
            let view = StashView::parse(frame.body()).unwrap();
            prop_assert_eq!(view.side(), Side::After);
            prop_assert_eq!(usize::from(view.total()), list.len());
            prop_assert_eq!(usize::from(view.first()), received.len());
            received.extend(view.packets());
            check(&part, |message| message == Message::Stash(view))?;
        }
        if room >= HEADER_BYTES + 5 + 20 + TAG_BYTES {
            prop_assert_eq!(received, list);
        }
    }

    #[test]
    fn what_parses_is_written_again(
        shape in shapes(),
        frame in proptest::sample::select(golden::frames().to_vec()),
        damage in proptest::collection::vec((HEADER_BYTES..120, any::<u8>()), 0..4),
    ) {
        let mut frame = frame;
        for (at, byte) in damage {
            if let Some(target) = frame.get_mut(at) {
                *target = byte;
            }
        }
        let frame = Frame::parse(&frame).unwrap();
        if let Ok(message) = Message::parse(&frame) {
            let mut again = Vec::new();
            message.emit(&mut again);
            prop_assert_eq!(again, frame.body());
        }
        let mut form = Vec::new();
        shape.emit_around(&[], &mut form);
        prop_assert_eq!(Shape::read(&mut Reader::new(&form)), Ok(shape));
    }
}

#[test]
fn ends_that_differ_are_told_apart() {
    let own = hello();
    assert_eq!(own.agree(&own), Ok(()));
    let other = |change: fn(&mut Hello)| {
        let mut other = hello();
        change(&mut other);
        assert_eq!(own.agree(&other), other.agree(&own));
        own.agree(&other).unwrap_err()
    };
    assert_eq!(other(|hello| hello.hash_version = 2), Mismatch::HashVersion);
    assert_eq!(other(|hello| hello.seed_check ^= 1), Mismatch::Seed);
    assert_eq!(other(|hello| hello.epoch_ns = 1), Mismatch::EpochLength);
    assert_eq!(other(|hello| hello.tai_utc_s = 36), Mismatch::TaiOffset);
    assert_eq!(other(|hello| hello.ptp_domain = 0), Mismatch::PtpDomain);
    assert_eq!(
        other(|hello| hello.clock = ClockState::Free),
        Mismatch::FreeClock
    );
    assert_eq!(other(|hello| hello.stash_packets = 0), Mismatch::Stash);
    assert_eq!(other(|hello| drop(hello.shapes.pop())), Mismatch::Shapes);

    let mut adapted = hello();
    let other_shares = LdaLayout::from_bank_shares(&[(4, 1), (8, 2)]).unwrap();
    adapted.shapes[0] = Shape::Lda(other_shares);
    assert_eq!(
        own.agree(&adapted),
        Ok(()),
        "probabilities follow the losses"
    );
    let other_rows = LdaLayout::from_bank_shares(&[(5, 1 << 29), (8, 7 << 29)]).unwrap();
    adapted.shapes[0] = Shape::Lda(other_rows);
    assert_eq!(own.agree(&adapted), Err(Mismatch::Shapes));
}

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
    let whole = |columns| bodies(&lds(columns), &[0..2 * columns], 1_500).remove(0);
    let mut assembler = Assembler::<Cell>::new(lds(10), End::Receiver);
    let before = assembler.clone();
    for (other, what) in [
        (whole(11), "of another shape"),
        (whole(10), "of the other half"),
    ] {
        let other = FragmentView::parse(&other).unwrap();
        assert_eq!(assembler.add(&other), None, "{what}");
    }
    assert_eq!(assembler, before);
    let mut tallies = Assembler::<Tally>::new(lds(10), End::Sender);
    let of_cells = whole(10);
    let of_cells = FragmentView::parse(&of_cells).unwrap();
    assert_eq!(tallies.add(&of_cells), None, "other elements");
    let (shape, of_tallies) = (lds(10), |_| Tally::default());
    let cut = fragments(&shape, End::Sender, [0..1], 1_400, of_tallies);
    assert_eq!(cut.count(), 0);
    let least = 12 + 34 + 16;
    for (bytes_max, fragments_made) in [(least - 1, 0), (least, 1)] {
        let cut = fragments(&shape, End::Sender, [0..1], bytes_max, cell);
        assert_eq!(cut.count(), fragments_made);
    }
}

/// Both ends of a wire: the receiver decodes the received part of the sender's half, and a lost fragment affects only
/// its own cells.
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
    let mut assembler = Assembler::new(shape.clone(), End::Sender);
    for fragment in fragments(&shape, End::Sender, [0..100], 300, element) {
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
        let mut assembler = Assembler::<Cell>::new(shape.clone(), End::Sender);
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
