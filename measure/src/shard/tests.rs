use proptest::prelude::*;

use super::*;
use crate::batch::{Member, Members};
use crate::flows::{FlowId, Slot};
use crate::lda::{Bank, LdaLayout};
use crate::lds::LdsLayout;
use crate::packet::{FlowHash, Hashing, PacketHash, RandomHashes};
use crate::time::{Epoch, EpochTag, TickRate};

const SEGMENTS: usize = 3;
const SLOTS: u32 = 5;
fn rate() -> TickRate {
    TickRate::from_hz(1_000_000_000)
}

fn lda(rows: u32) -> LdaLayout {
    let one = |rows, probability| Bank { rows, probability };
    LdaLayout::new(&[one(rows, 1.0), one(3, 0.1)]).unwrap()
}

fn lds(columns: u32) -> LdsLayout {
    LdsLayout::new(columns, 1, &[1.0; 3]).unwrap()
}

/// Segments with an LDA of this number of rows.
fn segment(rows: u32) -> SegmentLayout {
    SegmentLayout {
        lda: Some(lda(rows)),
    }
}

/// Everything, with two segments at one egress port.
fn layout() -> ShardLayout {
    ShardLayout {
        sketch_of: vec![1, 0, 1],
        sketches: 2,
        segment: segment(16),
        lds: Some(lds(13)),
        flow_slots: SLOTS as usize,
        ..ShardLayout::new(rate(), SEGMENTS)
    }
}

fn shard() -> Shard {
    Shard::new(&layout())
}

fn observation(segment: u16, hash: u64, time: u64, delay: u64) -> Observation {
    Observation {
        flow: FlowHash(hash % 7),
        packet: PacketHash(hash),
        time,
        delay,
        bytes: 100,
        segment: SegmentIndex(segment),
        epoch: EpochTag(0),
    }
}

/// The same packet at the sender's end.
fn at_sender(observation: &Observation) -> Observation {
    Observation {
        time: observation.time.wrapping_sub(observation.delay),
        delay: 0,
        ..*observation
    }
}

/// Adds a packet at one end to all synopses with separate ends.
fn record(shard: &mut Shard, end: End, observation: &Observation) {
    let burst = std::slice::from_ref(observation);
    if let Some(segment) = shard.segment_mut(observation.segment) {
        segment.tally.record(end, burst);
        segment.lda.as_mut().unwrap().record(end, burst);
        if end == End::Receiver {
            segment.moments.add_delays(observation.delay, 1);
            segment.histogram.add_delays(observation.delay, 1);
        }
    }
    let sketch = shard.sketch_of(observation.segment);
    if let Some(sketch) = sketch.and_then(|sketch| shard.sketches.get_mut(sketch)) {
        sketch.record(end, burst);
    }
}

/// What becomes of a burst.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Passed,
    Lost,
    LostLate,
    Late,
}

/// One flow in six has a slot; as many have a slot that is in no shard.
fn slot_of(observation: &Observation) -> Slot {
    let flow = u32::from(observation.segment.0) * 7 + u32::try_from(observation.flow.0).unwrap();
    match flow % 6 {
        0 => Slot(flow / 6),
        1 => Slot(SLOTS + flow),
        _ => Slot::OTHER,
    }
}

/// The flows that have slots.
fn tracked() -> impl Iterator<Item = (Slot, FlowId, SegmentIndex)> {
    let observations =
        (0..4).flat_map(|segment| (0..7).map(move |hash| observation(segment, hash, 0, 0)));
    observations
        .map(|observation| {
            (
                slot_of(&observation),
                FlowId::of(&observation),
                observation.segment,
            )
        })
        .filter(|(slot, ..)| slot.0 < SLOTS)
}

/// The control core's processing of a shard.
fn sketched(shard: &Shard) -> Shard {
    let mut sealed = Box::new(shard.clone()).seal(Epoch(0));
    Shard::clone(&sealed.complete(tracked()))
}

type Bursts = Vec<(Fate, Vec<(Observation, Slot)>)>;

/// Bursts of packets, often of one delay, some of a segment that is not there.
fn bursts() -> impl Strategy<Value = Bursts> {
    let fate = prop_oneof![
        5 => Just(Fate::Passed),
        1 => Just(Fate::Lost),
        1 => Just(Fate::LostLate),
        1 => Just(Fate::Late),
    ];
    let delay = prop_oneof![Just(77_u64), 0_u64..1 << 40];
    let one = (0_u16..4, any::<u64>(), any::<u64>(), delay);
    let one = one.prop_map(|(segment, hash, time, delay)| {
        let observation = observation(segment, hash, time, delay);
        (observation, slot_of(&observation))
    });
    proptest::collection::vec((fate, proptest::collection::vec(one, 0..32)), 0..6)
}

/// What packets of one segment, epoch and delay have in common.
fn batch_of(run: &[Observation]) -> Batch {
    Batch {
        packets: run.len(),
        bytes: run
            .iter()
            .map(|observation| u64::from(observation.bytes))
            .sum(),
        arrived: Ticks(0),
        delay: run[0].delay,
        segment: run[0].segment,
        epoch: run[0].epoch,
    }
}

/// Batches of at most 64 packets, in order.
fn pass(shard: &mut Shard, hashing: Hashing, observations: &[Observation], slots: &[Slot]) {
    let mut members = Members::new();
    let mut spread = RandomHashes::default();
    let like = |a: &Observation, b: &Observation| {
        (a.segment, a.epoch, a.delay) == (b.segment, b.epoch, b.delay)
    };
    let mut given = slots.iter().copied();
    for run in observations
        .chunk_by(like)
        .flat_map(|run| run.chunks(BURST_MAX))
    {
        members.begin(hashing);
        members.fill::<true>(run.iter().map(|observation| Member {
            flow: observation.flow,
            packet: observation.packet,
            bytes: observation.bytes,
        }));
        let (_, slots) = members.slots_mut(0..run.len());
        for slot in slots {
            *slot = given.next().unwrap_or(Slot::OTHER);
        }
        shard.passed(&batch_of(run), members.part(0..run.len()), &mut spread);
    }
}

fn add(shard: &mut Shard, fate: Fate, burst: &[(Observation, Slot)]) {
    let (observations, slots): (Vec<_>, Vec<_>) = burst.iter().copied().unzip();
    match fate {
        Fate::Passed => pass(shard, Hashing::Packet, &observations, &slots),
        Fate::Lost => observations
            .iter()
            .for_each(|observation| shard.lost(observation, Slot::OTHER)),
        Fate::LostLate => observations
            .iter()
            .for_each(|observation| shard.lost_late(observation)),
        Fate::Late => observations
            .iter()
            .for_each(|observation| shard.late(&batch_of(&[*observation]))),
    }
}

fn shard_of(bursts: &[(Fate, Vec<(Observation, Slot)>)]) -> Shard {
    let mut shard = shard();
    for (fate, burst) in bursts {
        add(&mut shard, *fate, burst);
    }
    shard
}

/// All but the flow slots, which do not add up.
fn without_flows(mut shard: Shard) -> Shard {
    shard.flows = None;
    shard
}

#[test]
fn each_segment_gets_its_packets() {
    let mut shard = shard();
    pass(
        &mut shard,
        Hashing::Packet,
        &[observation(0, 1, 15, 5), observation(2, 3, 37, 7)],
        &[],
    );
    shard.lost(&observation(0, 2, 20, 0), Slot::OTHER);
    shard.late(&batch_of(&[observation(0, 4, 40, 0)]));

    let first = shard.segment(SegmentIndex(0)).unwrap();
    let expected = Tally {
        sent: 3,
        sent_bytes: 300,
        received: 1,
        received_bytes: 100,
        dropped: 1,
        late: 1,
    };
    assert_eq!(first.tally, expected);
    assert_eq!(first.moments.sum_ticks(), 5);
    assert_eq!(first.histogram.count(), 1);
    let lda = |shard: &Shard, segment: usize| shard.segments()[segment].lda.clone().unwrap();
    assert!((lda(&shard, 0).estimate(1).lost_estimate - 1.0).abs() < 1e-9);
    assert_eq!(lda(&shard, 2).estimate(1).mean_ticks, Some(7.0));
    assert_eq!(
        shard.segments()[1],
        SegmentSynopsis::new(&segment(16), rate())
    );
}

#[test]
fn each_sketch_gets_the_packets_of_its_egress_port() {
    let mut shard = shard();
    let observations = [
        observation(0, 1, 10, 2),
        observation(2, 2, 20, 3),
        observation(1, 3, 30, 4),
        observation(0, 4, 40, 5),
    ];
    pass(&mut shard, Hashing::Packet, &observations, &[]);
    let counted = |sketch: &LdsPair<PassedCell>| {
        let cells = sketch.cells().iter();
        cells.map(|cell| cell.received).sum::<u32>()
    };
    assert_eq!(
        shard.sketches().iter().map(counted).collect::<Vec<_>>(),
        [3, 9]
    );
    assert_eq!(shard.sketch_of(SegmentIndex(2)), Some(1));
    assert_eq!(shard.sketch_of(SegmentIndex(3)), None);
}

#[test]
fn segments_and_sketches_that_are_not_there_are_ignored() {
    let layout = ShardLayout {
        sketch_of: vec![0, 9],
        ..layout()
    };
    let mut shard = Shard::new(&layout);
    pass(
        &mut shard,
        Hashing::Packet,
        &[observation(2, 1, 1, 0), observation(u16::MAX, 1, 1, 0)],
        &[],
    );
    shard.lost(&observation(2, 1, 1, 0), Slot::OTHER);
    assert_eq!(
        without_flows(shard.clone()),
        without_flows(Shard::new(&layout))
    );
    pass(&mut shard, Hashing::Packet, &[observation(1, 1, 1, 0)], &[]);
    assert_eq!(shard.sketches(), Shard::new(&layout).sketches());
    assert_eq!(shard.segments()[1].tally.received, 1);
}

#[test]
fn packets_without_hashes_count_as_much() {
    let bank = |rows, probability| Bank { rows, probability };
    for banks in [vec![bank(7, 1.0)], vec![bank(7, 1.0), bank(5, 0.25)]] {
        let layout = ShardLayout {
            segment: SegmentLayout {
                lda: Some(LdaLayout::new(&banks).unwrap()),
            },
            ..ShardLayout::new(rate(), 2)
        };
        let (mut batched, mut single) = (Shard::new(&layout), Shard::new(&layout));
        for (segment, delay, packets) in [(0, 5, 32), (1, 7, 1), (0, 9, 500), (9, 1, 3)] {
            let observations = vec![observation(segment, 0, 1_000, delay); packets];
            pass(&mut single, Hashing::Packet, &observations, &[]);
            pass(&mut batched, Hashing::None, &observations, &[]);
        }
        for (batched, single) in batched.segments().iter().zip(single.segments()) {
            assert_eq!(batched.tally, single.tally);
            assert_eq!(batched.moments, single.moments);
            assert_eq!(batched.histogram, single.histogram);
            let cells = batched.lda.as_ref().unwrap().cells();
            let sampled: u32 = cells.iter().map(|cell| cell.received).sum();
            let delays: u64 = cells.iter().map(|cell| cell.delay_sum).sum();
            let all = batched.moments.count();
            if banks.len() == 1 {
                assert_eq!(u64::from(sampled), all);
                assert_eq!(u128::from(delays), batched.moments.sum_ticks());
            }
            assert!(u64::from(sampled) <= all && cells.iter().all(|cell| cell.lost == 0));
        }
        // Some rows in each bank are taken.
        let lda = batched.segments()[0].lda.as_ref().unwrap();
        let mut taken = lda
            .cells()
            .chunks(7)
            .map(|bank| bank.iter().any(|cell| cell.received > 0));
        assert!(taken.all(|is_taken| is_taken));
    }
}

#[test]
fn without_anything_but_segments_exact_figures_are_kept() {
    let mut shard = Shard::new(&ShardLayout::new(rate(), 1));
    pass(&mut shard, Hashing::Packet, &[observation(0, 1, 9, 4)], &[]);
    shard.lost(&observation(0, 1, 9, 4), Slot::OTHER);
    let segment = &shard.segments()[0];
    assert_eq!((segment.tally.sent, segment.moments.sum_ticks()), (2, 4));
    assert_eq!((segment.lda.as_ref(), shard.flows()), (None, None));
    assert!(shard.sketches().is_empty());
}

#[test]
fn shards_of_other_shapes_are_refused_whole() {
    let changed = |change: &dyn Fn(&mut ShardLayout)| {
        let mut other = layout();
        change(&mut other);
        Shard::new(&other)
    };
    let mut odd_last = shard();
    odd_last.segments[2] = SegmentSynopsis::new(&segment(17), rate());
    let mut odd_sketch = shard();
    odd_sketch.sketches[1] = LdsPair::empty(&lds(14));
    let two_ghz = TickRate::from_hz(2_000_000_000);
    for (mut wrong, what) in [
        (changed(&|l| l.sketch_of.push(0)), "end of segments"),
        (changed(&|l| l.first_segment = 1), "end of segments"),
        (changed(&|l| l.sketch_of[2] = 0), "sketch of a segment"),
        (changed(&|l| l.rate = two_ghz), "tick rate"),
        (changed(&|l| l.segment.lda = None), "LDA of a segment"),
        (changed(&|l| l.lds = None), "number of LDS"),
        (odd_last, "rows of a bank"),
        (odd_sketch, "columns"),
    ] {
        pass(&mut wrong, Hashing::Packet, &[observation(0, 1, 1, 0)], &[]);
        let mut target = shard();
        assert_eq!(target.merge(&wrong).unwrap_err().what, what);
        assert_eq!(target, shard(), "nothing was added");
    }
    let mut part = Shard::new(&layout().part(1..3));
    let error = part.merge(&shard()).unwrap_err();
    assert_eq!(
        (error.what, error.left, error.right),
        ("first segment", 1, 0)
    );
}

#[test]
fn flow_slots_are_left_alone_by_merging() {
    let (mut a, mut b) = (shard(), shard());
    pass(
        &mut a,
        Hashing::Packet,
        &[observation(0, 1, 1, 1)],
        &[Slot(0)],
    );
    pass(
        &mut b,
        Hashing::Packet,
        &[observation(0, 2, 1, 1)],
        &[Slot(1)],
    );
    let before = a.flows().cloned();
    a.merge(&b).unwrap();
    assert_eq!(a.flows().cloned(), before);
    assert_eq!(a.segments()[0].tally.received, 2);
    let mut sum = Shard::new(&layout().without_flows());
    sum.merge(&a).unwrap();
    assert_eq!(sum.flows(), None);
    a.clear();
    assert_eq!(a, shard());
}

#[test]
fn a_part_has_its_own_segments_and_their_sketches_only() {
    let whole = layout();
    let of = |segments| {
        let part = whole.part(segments);
        (part.first_segment, part.sketch_of, part.sketches)
    };
    assert_eq!(whole.part(0..3), whole);
    assert_eq!(of(0..1), (0, vec![0], 1));
    assert_eq!(of(1..3), (1, vec![0, 1], 2));
    assert_eq!(of(2..9), (2, vec![0], 1), "what there is of it");
    assert_eq!(of(3..9), (3, vec![], 0));
    assert_eq!(whole.part(1..3).part(2..3), whole.part(2..3));
    let nowhere = ShardLayout {
        sketch_of: vec![9, 1],
        ..layout()
    };
    assert_eq!(nowhere.part(0..2).sketch_of, [u16::MAX, 0]);
    let mut part = Shard::new(&whole.part(2..3));
    pass(
        &mut part,
        Hashing::Packet,
        &[
            observation(1, 1, 1, 1),
            observation(2, 2, 2, 2),
            observation(3, 3, 3, 3),
        ],
        &[],
    );
    let received = part
        .numbered_segments()
        .map(|(index, segment)| (index, segment.tally.received));
    assert_eq!(received.collect::<Vec<_>>(), [(SegmentIndex(2), 1)]);
    let there: Vec<_> = (0..4)
        .map(|n| part.segment(SegmentIndex(n)).is_some())
        .collect();
    assert_eq!(there, [false, false, true, false]);
    assert_eq!(part.sketch_of(SegmentIndex(2)), Some(0));
}

#[test]
#[should_panic(expected = "once")]
fn a_sealed_shard_gets_its_flows_once() {
    let mut sealed = Box::new(shard()).seal(Epoch(7));
    assert_eq!(sealed.complete(tracked()).epoch(), Epoch(7));
    sealed.complete(tracked());
}

#[test]
fn a_sealed_shard_reopens_empty() {
    let mut recorded = shard();
    recorded.lost(&observation(0, 1, 1, 0), Slot::OTHER);
    let sealed = Box::new(recorded).seal(Epoch(7));
    assert_eq!(sealed.epoch(), Epoch(7));
    assert_eq!(sealed.segments()[0].tally.sent, 1);
    assert_eq!(*sealed.reopen([]), shard());
}

#[test]
fn memory_is_said_by_purpose() {
    let bytes = layout().size_bytes();
    let expected = |segments: usize, sketches: usize| ShardBytes {
        segments: [
            (
                "counts, moments and histograms",
                segments * size_of::<SegmentSynopsis>(),
            ),
            ("LDA", segments * 19 * 16),
        ],
        lds: sketches * 39 * 16,
        flows: 6 * 32,
    };
    assert_eq!(bytes, expected(3, 2));
    let with_estimates = ShardLayout {
        flow_estimates: true,
        ..layout()
    };
    assert_eq!(with_estimates.size_bytes().flows, 6 * 64);
    assert_eq!(layout().part(1..2).size_bytes(), expected(1, 1));
    let none = layout().without_flows().size_bytes();
    assert_eq!(none.total(), bytes.total() - bytes.flows);
    assert_eq!(ShardLayout::new(rate(), 0).size_bytes().total(), 0);
}

/// Sketches of every kind: plain ones of 1 to 4 rows, and others.
fn sketches() -> impl Strategy<Value = Option<LdsLayout>> {
    let plain = (1_usize..=4, 1_u32..40)
        .prop_map(|(rows, columns)| LdsLayout::new(columns, 1, &[1.0; 4][..rows]).unwrap());
    prop_oneof![
        1 => Just(None),
        8 => plain.prop_map(Some),
        1 => Just(Some(LdsLayout::new(9, 2, &[1.0; 2]).unwrap())),
        1 => Just(Some(LdsLayout::new(9, 1, &[0.5, 1.0]).unwrap())),
        1 => Just(Some(lds(9).with_weights(&[1, 3, 2]).unwrap())),
    ]
}

proptest! {

    #[test]
    fn parts_of_several_workers_are_the_whole(
        bursts in bursts(),
        sketch in sketches(),
        sketch_of in proptest::collection::vec(0_u16..3, SEGMENTS),
        cut in 0_u16..4,
    ) {
        let whole = ShardLayout { lds: sketch, sketch_of, ..layout() };
        let mut expected = Shard::new(&whole);
        // All workers get every observation, and each records its own.
        let mut parts = [0..cut, cut..4, 4..9].map(|range| Shard::new(&whole.part(range)));
        for (fate, burst) in &bursts {
            add(&mut expected, *fate, burst);
            for part in &mut parts {
                let observations: Vec<_> = burst.iter().map(|(observation, _)| *observation).collect();
                match fate {
                    Fate::Passed => pass(part, Hashing::Packet, &observations, &[]),
                    _ => add(part, *fate, burst),
                }
            }
        }
        let mut sum = Shard::new(&whole.without_flows());
        for part in &parts {
            sum.merge(part).unwrap();
        }
        prop_assert_eq!(sum, without_flows(sketched(&expected)));
    }

    #[test]
    fn a_packet_that_passed_is_one_at_both_ends(bursts in bursts(), sketch in sketches()) {
        let layout = ShardLayout { lds: sketch, ..layout() };
        let (mut once, mut twice) = (Shard::new(&layout), Shard::new(&layout));
        for (_, burst) in &bursts {
            let (observations, slots): (Vec<_>, Vec<_>) = burst.iter().copied().unzip();
            pass(&mut once, Hashing::Packet, &observations, &slots);
            for (observation, slot) in burst {
                record(&mut twice, End::Sender, &at_sender(observation));
                record(&mut twice, End::Receiver, observation);
                if let Some(slots) = twice.flows_mut() {
                    slots.add(observation.delay, &[*slot], &[observation.bytes]);
                }
            }
        }
        prop_assert_eq!(sketched(&once), twice);
    }

    #[test]
    fn a_lost_packet_is_one_at_the_senders_end(bursts in bursts()) {
        let (mut lost, mut sent) = (shard(), shard());
        for observation in bursts.iter().flat_map(|(_, burst)| burst).map(|(observation, _)| observation) {
            lost.lost(observation, Slot::OTHER);
            record(&mut sent, End::Sender, &at_sender(observation));
            if let Some(segment) = sent.segment_mut(observation.segment) {
                segment.tally.dropped += 1;
            }
        }
        let lost_of = |slot| lost.flows().map(|slots| slots.counters(slot).lost());
        let dropped: u64 = lost.segments().iter().map(|segment| segment.tally.dropped).sum();
        prop_assert_eq!(lost_of(Slot::OTHER), Some(dropped));
        prop_assert_eq!(without_flows(lost), without_flows(sent));
    }

    #[test]
    fn the_ledger_is_kept(bursts in bursts()) {
        for segment in shard_of(&bursts).segments() {
            let Tally { sent, received, dropped, late, .. } = segment.tally;
            prop_assert_eq!(sent, received + dropped + late);
            prop_assert_eq!(segment.moments.count(), received);
            prop_assert_eq!(segment.histogram.count(), received);
        }
    }

    #[test]
    fn merging_is_the_synopsis_of_the_union(bursts in bursts(), cuts in (0_usize..6, 0_usize..6)) {
        let (low, high) = (cuts.0.min(cuts.1).min(bursts.len()), cuts.0.max(cuts.1).min(bursts.len()));
        let (a, b, c) = (&bursts[..low], &bursts[low..high], &bursts[high..]);
        let union = without_flows(shard_of(&bursts));
        let mut left = shard_of(a);
        left.merge(&shard_of(b)).unwrap();
        left.merge(&shard_of(c)).unwrap();
        prop_assert_eq!(&without_flows(left), &union);
        let mut right = shard_of(c);
        right.merge(&shard_of(b)).unwrap();
        right.merge(&shard_of(a)).unwrap();
        prop_assert_eq!(&without_flows(right), &union);
    }

    #[test]
    fn how_bursts_are_cut_does_not_matter(bursts in bursts()) {
        let singles: Bursts = bursts
            .iter()
            .flat_map(|(fate, burst)| burst.iter().map(|one| (*fate, vec![*one])))
            .collect();
        prop_assert_eq!(shard_of(&singles), shard_of(&bursts));
    }
}
