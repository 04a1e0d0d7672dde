//! Sessions that begin and end in the middle.

use super::*;

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
        assert_exact(&wire.pair(epoch), &wire.truth(epoch), "whole");
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
    assert_exact(&wire.pair(Epoch(44)), &wire.truth(Epoch(44)), "whole");
}

#[test]
fn another_session_gives_up_the_epoch_in_progress() {
    let mut wire = Wire::new(layout(), Path::perfect(), 34);
    wire.begin(1);
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
        assert_exact(
            &wire.pair(epoch),
            &wire.truth(epoch),
            "of the other session",
        );
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
    let mut wire = Wire::new(layout(), Path::perfect(), 35);
    wire.begin(1);
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
    assert_exact(&wire.pair(Epoch(46)), &wire.truth(Epoch(46)), "afterwards");
}
