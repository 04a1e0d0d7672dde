//! Probabilities that change, clocks that step, links that go down, ends that cannot be.

use super::*;

#[test]
fn both_ends_take_up_other_probabilities_at_one_turn() {
    let mut wire = Wire::new(layout(), Path::perfect(), 25);
    wire.begin(1);
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
        assert_exact(&wire.pair(epoch), &wire.truth(epoch), "adapted");
    }
}

#[test]
fn a_marker_that_is_lost_costs_no_epoch_after_it_its_probabilities() {
    let mut wire = Wire::new(layout(), Path::perfect(), 27);
    // Of one turn two copies are lost, of another all three.
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
    assert_exact(&wire.pair(epoch), &wire.truth(epoch), "after a lost turn");
}

#[test]
fn a_session_that_begins_anew_keeps_the_probabilities() {
    let mut wire = Wire::new(layout(), Path::perfect(), 28);
    wire.begin(1);
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
        assert_exact(&wire.pair(epoch), &wire.truth(epoch), "in another session");
    }
}

#[test]
fn steps_of_clocks_and_links_that_go_down_are_marked() {
    let mut wire = Wire::new(layout(), Path::perfect(), 26);
    wire.begin(1);
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
    assert_exact(&wire.pair(Epoch(44)), &wire.truth(Epoch(44)), "afterwards");
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
