use proptest::prelude::*;

use super::*;
use crate::lda::Bank;
use crate::packet::{FlowHash, PacketHash};
use crate::time::{Epoch, EpochTag};

const SEGMENTS: usize = 3;

fn layout() -> LdaLayout {
    LdaLayout::new(&[Bank {
        rows: 16,
        probability: 1.0,
    }])
    .unwrap()
}

fn shard() -> Shard {
    Shard::new(SEGMENTS, &layout(), TickRate::from_hz(1_000_000_000))
}

fn sight(segment: u16, hash: u64, time: u64, delay: u64) -> Sight {
    Sight {
        flow: FlowHash(0),
        packet: PacketHash(hash),
        time,
        delay,
        bytes: 100,
        segment: SegmentIndex(segment),
        epoch: EpochTag(0),
    }
}

/// Bursts of sights, some of a segment that is not there.
fn bursts() -> impl Strategy<Value = Vec<(End, Vec<Sight>)>> {
    let end = prop_oneof![Just(End::Sender), Just(End::Receiver)];
    let one = (0_u16..4, any::<u64>(), any::<u64>(), 0_u64..1 << 40)
        .prop_map(|(segment, hash, time, delay)| sight(segment, hash, time, delay));
    proptest::collection::vec((end, proptest::collection::vec(one, 0..32)), 0..6)
}

fn shard_of<'s>(bursts: impl IntoIterator<Item = &'s (End, Vec<Sight>)>) -> Shard {
    let mut shard = shard();
    for (end, sights) in bursts {
        shard.record(*end, sights);
    }
    shard
}

#[test]
fn each_segment_gets_its_sights() {
    let mut shard = shard();
    let sights = [
        sight(0, 1, 10, 0),
        sight(0, 2, 20, 0),
        sight(2, 3, 30, 0),
        sight(0, 4, 40, 0),
    ];
    shard.record(End::Sender, &sights);
    shard.record(End::Receiver, &[sight(0, 1, 15, 5), sight(2, 3, 37, 7)]);

    let first = shard.segment(SegmentIndex(0)).unwrap();
    let expected = Tally {
        sent: 3,
        sent_bytes: 300,
        received: 1,
        received_bytes: 100,
        ..Tally::default()
    };
    assert_eq!(first.tally, expected);
    assert_eq!(first.moments.sum_ticks(), 5);
    assert_eq!(first.histogram.count(), 1);
    assert!((first.lda.estimate(1).lost_estimate - 2.0).abs() < 1e-9);
    assert_eq!(
        shard.segments()[1],
        SegmentSynopsis::new(&layout(), TickRate::from_hz(1_000_000_000))
    );
    assert_eq!(shard.segments()[2].lda.estimate(1).mean_ticks, Some(7.0));
}

#[test]
fn segments_that_are_not_there_are_ignored() {
    let mut recorded = shard();
    recorded.record(End::Sender, &[sight(3, 1, 1, 0), sight(u16::MAX, 1, 1, 0)]);
    assert_eq!(recorded, shard());
    assert_eq!(recorded.tally_mut(SegmentIndex(3)), None);
}

#[test]
fn drops_and_late_packets_are_tallied() {
    let mut shard = shard();
    let tally = shard.tally_mut(SegmentIndex(1)).unwrap();
    tally.dropped += 2;
    tally.late += 1;
    let mut sum = shard.clone();
    sum.merge(&shard).unwrap();
    let expected = Tally {
        dropped: 4,
        late: 2,
        ..Tally::default()
    };
    assert_eq!(sum.segments()[1].tally, expected);
}

#[test]
fn shards_of_other_shapes_are_refused_whole() {
    let rate = TickRate::from_hz(1_000_000_000);
    let mut odd_last = shard();
    odd_last.record(End::Sender, &[sight(0, 1, 1, 0)]);
    let other = LdaLayout::new(&[Bank {
        rows: 17,
        probability: 1.0,
    }])
    .unwrap();
    odd_last.segments[2] = SegmentSynopsis::new(&other, rate);
    for (wrong, what) in [
        (Shard::new(2, &layout(), rate), "number of segments"),
        (
            Shard::new(SEGMENTS, &layout(), TickRate::from_hz(2_000_000_000)),
            "tick rate",
        ),
        (odd_last, "rows of a bank"),
    ] {
        let mut target = shard();
        assert_eq!(target.merge(&wrong).unwrap_err().what, what);
        assert_eq!(target, shard(), "nothing was added");
    }
}

#[test]
fn a_sealed_shard_reopens_empty() {
    let mut recorded = shard();
    recorded.record(End::Sender, &[sight(0, 1, 1, 0)]);
    let sealed = Box::new(recorded).seal(Epoch(7));
    assert_eq!(sealed.epoch(), Epoch(7));
    assert_eq!(sealed.segments()[0].tally.sent, 1);
    assert_eq!(*sealed.reopen(), shard());
}

#[test]
fn the_binary_form_is_its_parts() {
    let shard = shard_of(&[(End::Sender, vec![sight(1, 5, 6, 0)])]);
    let mut out = Vec::new();
    shard.encode(&mut out);
    let mut expected = vec![0, 0, 0, 3];
    for SegmentSynopsis {
        tally,
        moments,
        histogram,
        lda,
    } in shard.segments()
    {
        tally.encode(&mut expected);
        moments.encode(&mut expected);
        histogram.encode(&mut expected);
        lda.encode(&mut expected);
    }
    assert_eq!(out, expected);
}

proptest! {
    #[test]
    fn merging_is_the_synopsis_of_the_union(bursts in bursts(), cuts in (0_usize..6, 0_usize..6)) {
        let (low, high) = (cuts.0.min(cuts.1).min(bursts.len()), cuts.0.max(cuts.1).min(bursts.len()));
        let (a, b, c) = (&bursts[..low], &bursts[low..high], &bursts[high..]);
        let union = shard_of(&bursts);
        let mut left = shard_of(a);
        left.merge(&shard_of(b)).unwrap();
        left.merge(&shard_of(c)).unwrap();
        prop_assert_eq!(&left, &union);
        let mut right = shard_of(c);
        right.merge(&shard_of(b)).unwrap();
        let mut swapped = right.clone();
        swapped.merge(&shard_of(a)).unwrap();
        prop_assert_eq!(&swapped, &union);
    }

    #[test]
    fn how_bursts_are_cut_does_not_matter(bursts in bursts()) {
        let singles: Vec<_> = bursts
            .iter()
            .flat_map(|(end, sights)| sights.iter().map(|sight| (*end, vec![*sight])))
            .collect();
        prop_assert_eq!(shard_of(&singles), shard_of(&bursts));
    }
}
