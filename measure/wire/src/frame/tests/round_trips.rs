//! What is written is read, and what is read is written again.

use super::*;
use measure::packet::FlowHash;
use measure::rli::StreamSums;

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

/// Sends a body over; `parsed` is asked for what came out of it.
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
        (fate, method) in (0..EpochFate::COUNT, proptest::option::of(0..report::METHODS.len())),
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
                method: report::METHODS[method],
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
