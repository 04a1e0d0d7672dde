//! Epochs that roll over.

use super::*;

/// Three epochs of a session that began before the first, and a turn that ends the last.
fn run(
    layout: WireLayout,
    path: Path,
    seed: u64,
    drops: impl FnMut(&Frame) -> bool + 'static,
) -> Wire {
    let mut wire = Wire::new(layout, path, seed);
    wire.drops = Box::new(drops);
    wire.begin(1);
    wire.epochs(4);
    wire.turn();
    wire.settle();
    wire
}

fn received_of(shard: &WireShard) -> u64 {
    shard
        .segments
        .iter()
        .map(|segment| segment.tally.received)
        .sum()
}

fn truth_of(wire: &Wire, epoch: u64) -> u64 {
    wire.truth(Epoch(epoch))
        .iter()
        .map(|truth| truth.received)
        .sum()
}

#[test]
fn without_loss_everything_about_an_epoch_is_exact() {
    for (seed, clock_ns) in [(1, 0), (2, -2_000_000), (3, 1_000_000_000)] {
        let path = Path {
            clock_ns,
            ..Path::perfect()
        };
        let wire = run(layout(), path, seed, |_| false);
        assert_eq!(wire.sent.epochs(), [41, 42, 43, 44]);
        assert_eq!(wire.received.epochs(), [41, 42, 43, 44]);
        assert!(
            wire.controls
                .iter()
                .all(|control| matches!(control, Control::Taken(_)))
        );
        for epoch in [42, 43, 44].map(Epoch) {
            wire.assert_exact(epoch);
            let shard = wire.received.of(epoch);
            assert_eq!(wire.sent.of(epoch).marks, Marks::default());
            assert!(!shard.marks.is_partial && shard.marks.turns_missed == 0);
            assert_eq!(shard.marks.late_marker_packets, 0);
            assert_eq!(shard.marks.disordered_intervals, 0);
            // By the policy, two hundred for each segment at most.
            assert!(
                (40..400).contains(&shard.marks.references),
                "{:?}",
                shard.marks
            );
            let least_ns = shard.marks.least_delay_ns.unwrap() - clock_ns;
            assert!((30_000..70_000).contains(&least_ns), "{least_ns}");
        }
    }
}

#[test]
fn flows_are_counted_and_estimated_one_by_one() {
    let wire = run(layout(), Path::perfect(), 4, |_| false);
    for epoch in [42, 43, 44].map(Epoch) {
        let shard = wire.received.of(epoch);
        let truth = wire.truth(epoch);
        let flows = shard.flows.flows();
        assert_eq!(
            flows.len(),
            truth.iter().map(|truth| truth.flows.len()).sum::<usize>()
        );
        assert_eq!(shard.flows.other_packets(), 0);
        let bytes: u64 = flows.iter().map(|flow| flow.bytes).sum();
        let received = shard.segments.iter().map(|one| one.tally.received_bytes);
        assert_eq!(bytes, received.sum());
        let mut sum_ns = 0.0;
        for flow in flows {
            let packets = truth[usize::from(flow.segment.0)].flows[&flow.flow.0];
            assert_eq!(flow.packets, packets);
            assert_eq!(
                flow.delay.packets(),
                packets,
                "all of them before the marker"
            );
            sum_ns += flow.delay.sum_ns();
        }
        let exact_ns: i64 = truth.iter().map(|truth| truth.delay_sum_ns).sum();
        let off = sum_ns / exact_ns as f64 - 1.0;
        assert!(off.abs() < 1e-6, "intervals end with the epoch: {off}");
    }
}

#[test]
fn copies_of_a_marker_make_up_for_each_other() {
    for lost in [&[][..], &[0], &[1], &[2], &[0, 1], &[0, 2], &[1, 2]] {
        let drops = move |frame: &Frame| (42..=45).any(|turn| frame.is_copy(Epoch(turn), lost));
        let wire = run(layout(), Path::perfect(), 5, drops);
        let first = (0..3).find(|copy| !lost.contains(copy)).unwrap();
        let late = |turn: u64| {
            let is_first = |frame: &&Frame| frame.is_copy(Epoch(turn), &[first]);
            let frame = wire.frames.iter().find(is_first);
            u64::from(frame.unwrap().marker.as_ref().unwrap().packets_since)
        };
        // Data after the last marker end the sending of its copies.
        for epoch in 42..=43 {
            let shard = wire.received.of(Epoch(epoch));
            assert_eq!(
                u64::from(shard.marks.late_marker_packets),
                late(epoch),
                "{lost:?}"
            );
            assert!(!shard.marks.is_partial && shard.marks.turns_missed == 0);
            let counted = received_of(shard) + late(epoch) - late(epoch + 1);
            assert_eq!(counted, truth_of(&wire, epoch), "{lost:?}");
            // Both are in reach of a stash.
            assert!(late(epoch) <= u64::from(STASH), "{}", late(epoch));
            assert!((late(epoch) == 0) == (first == 0));
        }
    }
}

#[test]
fn where_all_copies_are_lost_an_epoch_is_partial_and_the_next_is_exact() {
    let drops = |frame: &Frame| frame.is_copy(Epoch(43), &[0, 1, 2]);
    let wire = run(layout(), Path::perfect(), 6, drops);
    assert_eq!(wire.received.epochs(), [41, 42, 44]);
    let both = wire.received.of(Epoch(42));
    assert_eq!((both.marks.is_partial, both.marks.turns_missed), (true, 1));
    assert_eq!(received_of(both), truth_of(&wire, 42) + truth_of(&wire, 43));
    assert!(!wire.received.of(Epoch(44)).marks.is_partial);
    wire.assert_exact(Epoch(44));
}

#[test]
fn epochs_that_the_sender_skips_are_partial_at_both_ends() {
    let mut wire = Wire::begun(Path::perfect(), 7);
    wire.epochs(2);
    wire.turn_to(Epoch(45));
    wire.traffic(EPOCH_NS);
    wire.turn();
    wire.settle();
    assert_eq!(wire.sent.epochs(), wire.received.epochs());
    for shard in [wire.sent.of(Epoch(42)), wire.received.of(Epoch(42))] {
        assert_eq!(
            (shard.marks.is_partial, shard.marks.turns_missed),
            (true, 2)
        );
    }
    wire.assert_exact(Epoch(45));
}

#[test]
fn copies_go_after_packets_or_after_a_while() {
    let mut wire = Wire::begun(Path::perfect(), 8);
    let copies = |wire: &Wire| {
        let markers = wire.frames.iter().filter_map(|frame| frame.marker.as_ref());
        markers
            .map(|marker| (marker.copy, marker.packets_since))
            .collect::<Vec<_>>()
    };
    wire.turn();
    assert_eq!(copies(&wire), [(0, 0)]);
    let one = [observation(1, 0, wire.now_ns)];
    for _ in 0..15 {
        wire.send(&one);
    }
    assert_eq!(copies(&wire).len(), 1);
    wire.send(&one);
    assert_eq!(copies(&wire)[1..], [(1, 16)]);
    wire.now_ns += 1_999_999;
    wire.send(&one);
    assert_eq!(copies(&wire).len(), 2);
    wire.now_ns += 1;
    wire.send_due();
    assert_eq!(copies(&wire)[2..], [(2, 17)]);
    // Nor are there more. Where the clock is set back, nobody waits for it.
    wire.now_ns += 5_000_000;
    wire.send_due();
    assert_eq!(copies(&wire).len(), 3);
    wire.turn();
    wire.now_ns -= 1;
    wire.send_due();
    assert_eq!(copies(&wire)[3..], [(0, 0), (1, 0), (2, 0)]);
}

#[test]
fn loss_doubles_and_overtaking_lose_no_count() {
    for seed in 10..20 {
        let path = Path {
            loss: 0.05,
            doubles: 0.02,
            overtakes: true,
            ..Path::perfect()
        };
        let mut wire = Wire::begun(path, seed);
        // The path is ready from the second turn on, so that each packet has an epoch.
        wire.turn();
        wire.settle();
        assert_eq!(wire.received.taken, 1, "seed {seed}: copy 0 of the first");
        wire.traffic(EPOCH_NS);
        wire.epochs(5);
        wire.settle();
        let arrived = wire.arrived;
        // The last marker of all is not lost, and nothing is on the way.
        wire.path.loss = 0.0;
        wire.turn();
        wire.settle();
        let counted: u64 = wire
            .received
            .sealed
            .iter()
            .map(|sealed| received_of(&sealed.shard))
            .sum();
        assert_eq!(counted, arrived, "seed {seed}");
        let flows = |shard: &WireShard| {
            let known: u64 = shard.flows.flows().iter().map(|flow| flow.packets).sum();
            known + shard.flows.other_packets()
        };
        for sealed in &wire.received.sealed {
            assert_eq!(flows(&sealed.shard), received_of(&sealed.shard));
        }
        // One epoch's packets may have come in another's, but few did.
        for sealed in wire
            .received
            .sealed
            .iter()
            .filter(|sealed| !sealed.shard.marks.is_partial)
        {
            let truth = truth_of(&wire, sealed.epoch.0);
            let counted = received_of(&sealed.shard);
            assert!(
                counted.abs_diff(truth) <= u64::from(STASH),
                "{counted}, {truth}"
            );
            let marks = sealed.shard.marks;
            assert!(marks.disordered_intervals > 2, "seed {seed}: {marks:?}");
        }
    }
}

#[test]
fn an_epoch_without_an_empty_shard_goes_unmeasured_and_spoils_no_other() {
    let mut wire = Wire::begun(Path::perfect(), 21);
    wire.epochs(2);
    let empty = std::mem::take(&mut wire.sent.empty);
    wire.epochs(1);
    wire.sent.empty = empty;
    wire.epochs(1);
    wire.settle();
    let empty = std::mem::take(&mut wire.received.empty);
    wire.epochs(1);
    wire.settle();
    wire.received.empty = empty;
    wire.epochs(3);
    wire.settle();
    assert_eq!(wire.sent.epochs(), [41, 42, 44, 45, 46, 47]);
    assert_eq!(wire.received.epochs(), [41, 42, 43, 44, 46, 47]);
    for epoch in [42, 44, 47].map(Epoch) {
        assert!(!wire.received.of(epoch).marks.is_partial);
        wire.assert_exact(epoch);
    }
    // What overtook its marker would be nowhere.
    assert!(wire.received.of(Epoch(46)).marks.is_partial);
    let truth = wire.truth(Epoch(43));
    for (segment, truth) in wire.received.of(Epoch(43)).segments.iter().zip(&truth) {
        assert_eq!(
            segment.rli.exact_packets(),
            truth.received,
            "references went on"
        );
    }
}

#[test]
fn withheld_references_are_counted_and_markers_are_not_withheld() {
    let mut wire = Wire::begun(Path::perfect(), 22);
    wire.epochs(2);
    assert_eq!(wire.sender.take_withheld(), 0);
    wire.share = ReferenceShare::Spent;
    let before = wire.frames.len();
    wire.epochs(2);
    let withheld = wire.sender.take_withheld();
    assert!(withheld > 20, "all that were due: {withheld}");
    assert!(
        wire.frames[before..]
            .iter()
            .all(|frame| frame.due.kind == Kind::Marker)
    );
    assert_eq!(wire.frames[before..].len(), 6);
    wire.share = ReferenceShare::Left;
    wire.epochs(2);
    wire.turn();
    wire.settle();
    assert_eq!(wire.sender.take_withheld(), 0);
    let without = wire.received.of(Epoch(43)).marks;
    assert_eq!((without.references, without.least_delay_ns), (0, None));
    let closing = wire.received.of(Epoch(44)).marks;
    assert_eq!(closing.references, 2);
    wire.assert_exact(Epoch(46));
}

#[test]
fn a_quiet_wire_goes_on_turning() {
    let mut wire = Wire::begun(Path::perfect(), 23);
    for _ in 0..5 {
        wire.turn();
        for _ in 0..100 {
            wire.now_ns += EPOCH_NS / 100;
            wire.send_due();
        }
    }
    wire.settle();
    assert_eq!(wire.received.epochs(), [41, 42, 43, 44]);
    for epoch in [42, 43, 44].map(Epoch) {
        let shard = wire.received.of(epoch);
        assert_eq!(received_of(shard), 0);
        assert!(
            (30..50).contains(&shard.marks.references),
            "{:?}",
            shard.marks
        );
        assert!(
            shard
                .segments
                .iter()
                .all(|segment| segment.rli.packets() == 0)
        );
    }
}

#[test]
fn a_wire_without_references_counts_all_the_same() {
    let plain = WireLayout {
        references: None,
        lds: None,
        flows: 0,
        stash_packets: 0,
        ..layout()
    };
    let wire = run(plain, Path::perfect(), 24, |_| false);
    for epoch in [42, 43, 44].map(Epoch) {
        let pair = wire.pair(epoch);
        for (segment, truth) in pair.segments.iter().zip(wire.truth(epoch)) {
            let lda = segment.lda.estimate(segment.tally.received);
            assert_eq!(lda.effective_samples, truth.received);
            assert!((lda.mean_ticks.unwrap() / truth.mean_ns() - 1.0).abs() < 1e-9);
        }
        let shard = wire.received.of(epoch);
        assert_eq!(shard.flows.other_packets(), received_of(shard));
        assert_eq!(shard.marks.references, 0);
    }
}

#[test]
fn both_ends_take_up_other_probabilities_at_one_turn() {
    let mut wire = Wire::begun(Path::perfect(), 25);
    let shares = [0.3, 0.05, 0.2, 0.02, 0.4];
    for share in shares {
        assert!(wire.sender.set_coming(&lda(share)));
        wire.epochs(1);
    }
    wire.turn();
    wire.settle();
    let bank = |rows, probability| Bank { rows, probability };
    let other = LdaLayout::new(&[bank(31, 0.1), bank(97, 1.0)]).unwrap();
    assert!(!wire.sender.set_coming(&other), "other sizes");
    // Said during an epoch, announced at the next turn, for the epoch that begins there.
    let expected = [0.3, 0.05, 0.2, 0.02, 0.4].map(lda);
    for (epoch, expected) in (41..).map(Epoch).zip(&expected) {
        for shard in [wire.sent.of(epoch), wire.received.of(epoch)] {
            assert_eq!(&shard.layout().lda, expected, "{epoch:?}");
            let all = |segment: &WireSegment| segment.lda.layout() == expected;
            assert!(shard.segments.iter().all(all));
        }
    }
    for epoch in [42, 43, 44, 45].map(Epoch) {
        wire.assert_exact(epoch);
    }
}

#[test]
fn a_marker_that_is_lost_costs_no_epoch_after_it_its_probabilities() {
    let mut wire = Wire::new(layout(), Path::perfect(), 27);
    // One marker loses two of its copies, another all three.
    wire.drops =
        Box::new(|frame| frame.is_copy(Epoch(42), &[0, 1]) || frame.is_copy(Epoch(44), &[0, 1, 2]));
    wire.begin(1);
    for share in [0.3, 0.05, 0.2, 0.02, 0.4, 0.07] {
        assert!(wire.sender.set_coming(&lda(share)));
        wire.epochs(1);
    }
    wire.turn();
    wire.settle();
    for (epoch, share) in [(42, 0.05), (45, 0.4), (46, 0.07)] {
        let epoch = Epoch(epoch);
        for shard in [wire.sent.of(epoch), wire.received.of(epoch)] {
            assert_eq!(shard.layout().lda, lda(share), "{epoch:?}");
        }
    }
    assert!(!wire.received.epochs().contains(&44));
    let epoch = Epoch(45);
    wire.assert_exact(epoch);
}

#[test]
fn a_session_that_begins_anew_keeps_the_probabilities() {
    let mut wire = Wire::begun(Path::perfect(), 28);
    assert!(wire.sender.set_coming(&lda(0.3)));
    wire.epochs(2);
    wire.settle();
    wire.begin(2);
    wire.epochs(3);
    wire.turn();
    wire.settle();
    let last = *wire.received.epochs().last().unwrap();
    for epoch in [last - 1, last].map(Epoch) {
        assert_eq!(wire.received.of(epoch).layout().lda, lda(0.3));
        wire.assert_exact(epoch);
    }
}

#[test]
fn steps_of_clocks_and_links_that_go_down_are_marked() {
    let mut wire = Wire::begun(Path::perfect(), 26);
    wire.epochs(2);
    wire.settle();
    wire.sender.clock_set();
    wire.receiver.clock_set();
    wire.path.clock_ns = 5_000_000;
    wire.epochs(1);
    wire.settle();
    wire.sender.link_lost();
    wire.receiver.link_lost();
    wire.epochs(1);
    wire.turn();
    wire.settle();
    for pool in [&wire.sent, &wire.received] {
        let marked = |epoch| {
            let marks = pool.of(Epoch(epoch)).marks;
            (marks.is_clock_set, marks.is_link_lost)
        };
        assert_eq!(
            [42, 43, 44].map(marked),
            [(true, false), (false, true), (false, false)]
        );
    }
    wire.assert_exact(Epoch(44));
}

#[test]
fn ends_that_cannot_be_are_refused() {
    let none = WireLayout {
        segments: 0,
        ..layout()
    };
    let many = WireLayout {
        segments: 9,
        ..layout()
    };
    for bad in [none, many] {
        let segments = bad.segments;
        let error = Receiver::new(&bad, keys()).map(drop);
        assert_eq!(error, Err(WireError::Segments { segments }));
    }
    let plan = layout().references.unwrap();
    let with = |plan| WireLayout {
        references: Some(plan),
        ..layout()
    };
    let anchored = with(ReferencePlan {
        method: rli::Method::AnchoredSums,
        ..plan
    });
    let sender = Sender::new(&anchored, 7, 1, &keys(), KeyId(3)).map(drop);
    assert_eq!(sender, Err(WireError::Method));
    let roomless = with(ReferencePlan {
        buffer_packets: 0,
        ..plan
    });
    let receiver = Receiver::new(&roomless, keys()).map(drop);
    assert!(
        matches!(receiver, Err(WireError::Argument(_))),
        "{receiver:?}"
    );
    let sender = Sender::new(&layout(), 7, 1, &keys(), KeyId(4)).map(drop);
    assert!(matches!(sender, Err(WireError::Key(_))), "{sender:?}");
}

fn packets(shard: &WireShard) -> (u64, u64) {
    let of = |count: fn(&WireSegment) -> u64| shard.segments.iter().map(count).sum();
    (
        of(|segment| segment.tally.sent),
        of(|segment| segment.tally.received),
    )
}

#[test]
fn without_a_session_nothing_is_sent_or_recorded() {
    let mut wire = Wire::new(layout(), Path::perfect(), 31);
    wire.epochs(3);
    wire.settle();
    assert!(wire.frames.is_empty());
    assert_eq!(wire.sent.epochs(), [41, 42]);
    assert!(wire.received.sealed.is_empty() && wire.received.taken == 0);
    for sealed in &wire.sent.sealed {
        assert!(sealed.shard.marks.is_partial);
        assert_eq!(packets(&sealed.shard), (0, 0));
    }
}

#[test]
fn a_session_that_begins_amid_an_epoch_is_exact_from_the_second_turn_on() {
    let mut wire = Wire::new(layout(), Path::perfect(), 32);
    wire.turn();
    wire.traffic(EPOCH_NS / 2);
    wire.begin(1);
    wire.traffic(EPOCH_NS / 2);
    assert!(wire.frames.is_empty(), "nothing before a turn");
    wire.epochs(3);
    wire.turn();
    wire.settle();
    assert_eq!(
        wire.frames[0].due.kind,
        Kind::Reference,
        "the first interval begins with the epoch"
    );
    assert_eq!(wire.sent.epochs(), [41, 42, 43, 44]);
    assert_eq!(wire.received.epochs(), [42, 43, 44]);
    let half = wire.sent.of(Epoch(41));
    assert!(half.marks.is_partial);
    assert!(packets(half).0 > 0);
    assert!(!wire.sent.of(Epoch(42)).marks.is_partial);
    assert!(
        wire.received.of(Epoch(42)).marks.is_partial,
        "what overtook its marker is nowhere"
    );
    for epoch in [43, 44].map(Epoch) {
        assert!(!wire.received.of(epoch).marks.is_partial);
        wire.assert_exact(epoch);
    }
}

#[test]
fn the_receiver_may_know_of_the_session_later() {
    let mut wire = Wire::new(layout(), Path::perfect(), 33);
    wire.sender.begin(session(1));
    wire.epochs(2);
    wire.traffic(EPOCH_NS / 3);
    wire.settle();
    let refused = Control::Refused(Refusal::Session);
    assert!(wire.controls.iter().all(|control| *control == refused));
    wire.receiver.begin(session(1));
    wire.epochs(3);
    wire.settle();
    assert_eq!(wire.received.epochs(), [43, 44]);
    wire.assert_exact(Epoch(44));
}

#[test]
fn another_session_gives_up_the_epoch_in_progress() {
    let mut wire = Wire::begun(Path::perfect(), 34);
    wire.epochs(2);
    wire.traffic(EPOCH_NS / 2);
    wire.settle();
    let old = wire.frames.clone();
    wire.begin(2);
    wire.traffic(EPOCH_NS / 2);
    wire.settle();
    // The sender was started anew, and counts epochs from another beginning.
    wire.epoch = Epoch(0);
    wire.epochs(3);
    wire.turn();
    wire.settle();
    assert_eq!(wire.received.epochs(), [41, 42, 1, 2, 3]);
    let given_up = wire.received.of(Epoch(42));
    assert!(given_up.marks.is_partial);
    assert_eq!(given_up.marks.turns_missed, 0);
    assert!(packets(given_up).1 < packets(wire.sent.of(Epoch(42))).0);
    for epoch in [2, 3].map(Epoch) {
        wire.assert_exact(epoch);
    }
    let (given, now_ns) = (wire.received.sealed.len(), wire.now_ns);
    for frame in old {
        let control = wire.control(&frame.bytes, now_ns);
        assert_eq!(control, Control::Refused(Refusal::Session));
    }
    assert_eq!(wire.received.sealed.len(), given);
}

#[test]
fn a_session_that_ends_leaves_no_shard_behind() {
    let mut wire = Wire::begun(Path::perfect(), 35);
    wire.epochs(2);
    wire.settle();
    wire.sender.end();
    wire.receiver.end();
    let frames = wire.frames.len();
    wire.epochs(2);
    wire.settle();
    assert_eq!(wire.frames.len(), frames);
    assert_eq!(packets(wire.sent.of(Epoch(43))), (0, 0));
    wire.begin(2);
    wire.epochs(3);
    wire.settle();
    assert_eq!(wire.received.epochs(), [41, 42, 45, 46]);
    assert!(wire.received.of(Epoch(42)).marks.is_partial);
    let open = 1;
    assert_eq!(
        wire.received.taken,
        wire.received.sealed.len() as u64 + open
    );
    wire.assert_exact(Epoch(46));
}
