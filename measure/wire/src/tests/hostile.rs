//! Frames that must not be accepted, and senders that must not be trusted.

use std::hash::Hasher;

use proptest::prelude::*;
use siphasher::sip::SipHasher24;

use super::*;
use crate::codec::{Put, Shape};
use crate::frame::{Body, EpochFate, Reference, Report, Request, Sealer, Subject};
use measure::cell::CellPair;

/// A receiver that was sent nothing wrong, in an epoch with packets.
fn receiver(pool: &mut path::Pool) -> Receiver {
    let mut receiver = Receiver::new(&layout(), keys()).unwrap();
    receiver.begin(session(1));
    let mut sealer = sealer();
    for epoch in [7, 8] {
        let frame = seal(&mut sealer, 0, epoch, &marker(0));
        assert_eq!(
            receiver.control(&frame, 100, 5, pool),
            Control::Taken(Kind::Marker)
        );
    }
    receiver.received(&[observation(1, 0, 5), observation(2, 1, 5)]);
    receiver
}

fn marker(packets_since: u32) -> Marker {
    Marker {
        copy: 0,
        packets_since,
        lda: lda(0.1),
    }
}

fn sealer() -> Sealer {
    let mut sealer = Sealer::new(7, 1, &keys(), KeyId(3)).unwrap();
    sealer.begin(session(1));
    sealer
}

fn seal(sealer: &mut Sealer, segment: u16, epoch: u64, body: &impl Body) -> Vec<u8> {
    let mut buffer = vec![0; 1_500];
    let subject = Subject {
        segment,
        epoch: Epoch(epoch),
        tai_ns: 3,
    };
    let len = sealer.seal(subject, body, &mut buffer).unwrap();
    buffer.truncate(len);
    buffer
}

/// Content of the next marker.
fn sealed(receiver: &mut Receiver, pool: &mut path::Pool, marker: &[u8]) -> SealedWire {
    assert_eq!(
        receiver.control(marker, 100, 6, pool),
        Control::Taken(Kind::Marker)
    );
    pool.sealed.pop().unwrap()
}

/// A marker that means nothing.
struct Garbage;

impl Body for Garbage {
    const KIND: Kind = Kind::Marker;

    fn emit(&self, out: &mut impl Put) {
        out.put_number(9_u8);
    }
}

#[test]
fn replayed_frames_are_refused_and_change_nothing() {
    let run = |replays: bool| {
        let mut wire = Wire::begun(Path::perfect(), 41);
        for _ in 0..5 {
            wire.epochs(1);
            wire.settle();
            let now_ns = wire.now_ns;
            for frame in wire.frames.clone() {
                if replays {
                    let control = wire.control(&frame.bytes, now_ns);
                    assert_eq!(control, Control::Refused(Refusal::Replayed));
                }
            }
        }
        wire
    };
    let (clean, attacked) = (run(false), run(true));
    assert_eq!(attacked.received.epochs(), clean.received.epochs());
    for (mine, theirs) in attacked.received.sealed.iter().zip(&clean.received.sealed) {
        assert_eq!(mine.shard.marks, theirs.shard.marks);
    }
    for epoch in [42, 43, 44].map(Epoch) {
        attacked.assert_exact(epoch);
    }
}

#[test]
fn a_marker_that_means_nothing_is_refused() {
    let mut pool = path::Pool::new(&layout(), End::Receiver);
    let mut receiver = receiver(&mut pool);
    let mut late = sealer();
    (0..2).for_each(|_| drop(seal(&mut late, 0, 9, &marker(0))));
    let garbage = seal(&mut late, 0, 9, &Garbage);
    let control = receiver.control(&garbage, 100, 6, &mut pool);
    assert_eq!(control, Control::Refused(Refusal::Malformed));
    assert_eq!((pool.taken, pool.sealed.len()), (2, 1));
}

#[test]
fn what_is_for_the_control_core_is_passed_on() {
    let mut pool = path::Pool::new(&layout(), End::Receiver);
    let mut receiver = receiver(&mut pool);
    let mut sealer = sealer();
    let report = seal(&mut sealer, 1, 8, &Report::unusable(EpochFate::Link));
    let request = seal(
        &mut sealer,
        1,
        8,
        &Request::new(&Shape::Tally, std::iter::once(0..1)).unwrap(),
    );
    for (frame, kind) in [(report, Kind::Report), (request, Kind::Request)] {
        assert_eq!(
            receiver.control(&frame, 100, 6, &mut pool),
            Control::Pass(kind)
        );
        let again = receiver.control(&frame, 100, 6, &mut pool);
        assert_eq!(again, Control::Refused(Refusal::Replayed));
    }
}

#[test]
fn markers_of_epochs_that_are_over_are_left_alone() {
    let mut pool = path::Pool::new(&layout(), End::Receiver);
    let mut receiver = receiver(&mut pool);
    let mut sealer = sealer();
    (0..2).for_each(|_| drop(seal(&mut sealer, 0, 9, &marker(0))));
    pool.sealed.clear();
    for epoch in [0, 7, 8] {
        let frame = seal(&mut sealer, 0, epoch, &marker(500));
        assert_eq!(
            receiver.control(&frame, 100, 6, &mut pool),
            Control::Taken(Kind::Marker)
        );
    }
    assert!(pool.sealed.is_empty());
    let next = seal(&mut sealer, 0, 9, &marker(3));
    let eighth = sealed(&mut receiver, &mut pool, &next);
    assert_eq!(
        (eighth.epoch, eighth.shard.marks),
        (Epoch(8), Marks::default())
    );
}

fn frames() -> impl Strategy<Value = Vec<u8>> {
    let reference = any::<(u8, u8, u32)>().prop_map(|(worker, queue, sequence)| Reference {
        worker,
        queue,
        sequence,
        sums: rli::StreamSums::default(),
    });
    // Key and session: one is wrong.
    let wrong = prop_oneof![Just((1_u8, 1_u64)), Just((0, 2)), Just((1, 2))];
    (wrong, any::<(u16, u64, bool)>(), reference, 1_usize..20).prop_map(
        |((key, n), (segment, epoch, is_marker), reference, skipped)| {
            let ring = KeyRing::new().with(KeyId(3), Key::new([key; 16])).unwrap();
            let ring = if key == 0 { keys() } else { ring };
            let mut sealer = Sealer::new(7, 1, &ring, KeyId(3)).unwrap();
            sealer.begin(session(n));
            (0..skipped)
                .map(|_| {
                    if is_marker {
                        seal(&mut sealer, segment, epoch, &marker(1))
                    } else {
                        seal(&mut sealer, segment, epoch, &reference)
                    }
                })
                .last()
                .unwrap()
        },
    )
}

/// Actions of a faulty but authentic sender.
#[derive(Debug, Clone)]
enum Act {
    Marker {
        epoch: u64,
        packets_since: u32,
        rows: u32,
        sampled: f64,
    },
    Reference {
        segment: u16,
        reference: Reference,
        tai_ns: u64,
    },
    Data {
        packets: Vec<(u64, u64, u16, u32)>,
        tai_ns: u64,
    },
    Begin,
    End,
    ClockSet,
    NoEmpty(bool),
}

fn acts() -> impl Strategy<Value = Act> {
    let epoch = prop_oneof![0_u64..20, any::<u64>(), Just(u64::MAX)];
    let tai_ns = || prop_oneof![0_u64..1_000, any::<u64>()];
    let marker = (
        epoch,
        any::<u32>(),
        prop_oneof![Just(32_u32), 1_u32..100],
        0.001..0.9,
    )
        .prop_map(|(epoch, packets_since, rows, sampled)| Act::Marker {
            epoch,
            packets_since,
            rows,
            sampled,
        });
    let sums =
        any::<(u64, u64, u64, u64)>().prop_map(|(count, time_ns, ranked_time_ns, digest)| {
            rli::StreamSums {
                count,
                time_ns,
                ranked_time_ns,
                digest,
            }
        });
    let sequence = prop_oneof![0_u32..20, any::<u32>()];
    let reference = (0_u16..4, any::<(u8, u8)>(), sequence, sums, tai_ns()).prop_map(
        |(segment, (worker, queue), sequence, sums, tai_ns)| Act::Reference {
            segment,
            reference: Reference {
                worker,
                queue,
                sequence,
                sums,
            },
            tai_ns,
        },
    );
    let packet = (0_u64..200, any::<u64>(), 0_u16..4, any::<u32>());
    let data = (proptest::collection::vec(packet, 0..200), tai_ns())
        .prop_map(|(packets, tai_ns)| Act::Data { packets, tai_ns });
    prop_oneof![
        6 => marker,
        6 => reference,
        6 => data,
        1 => Just(Act::Begin),
        1 => Just(Act::End),
        1 => Just(Act::ClockSet),
        1 => any::<bool>().prop_map(Act::NoEmpty),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn bytes_and_frames_of_strangers_change_nothing(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        has_magic: bool,
        frame in frames(),
        flip in any::<prop::sample::Index>(),
    ) {
        let mut pool = path::Pool::new(&layout(), End::Receiver);
        let mut receiver = receiver(&mut pool);
        pool.sealed.clear();
        let magic: &[u8] = if has_magic { b"VRNR\x01" } else { b"" };
        let mut sealer = sealer();
        (0..2).for_each(|_| drop(seal(&mut sealer, 0, 9, &marker(0))));
        let next = seal(&mut sealer, 0, 9, &marker(3));
        let mut flipped = next.clone();
        let bit = flip.index(8 * next.len());
        flipped[bit / 8] ^= 1 << (bit % 8);
        for wrong in [[magic, &bytes].concat(), frame, flipped] {
            let control = receiver.control(&wrong, 100, 6, &mut pool);
            prop_assert!(matches!(control, Control::Refused(_)), "{control:?}");
        }
        prop_assert_eq!((pool.taken, pool.sealed.len()), (2, 0));
        let eighth = sealed(&mut receiver, &mut pool, &next);
        prop_assert_eq!((eighth.epoch, eighth.shard.marks), (Epoch(8), Marks::default()));
        let counted = eighth.shard.segments.iter().map(|segment| segment.tally.received);
        prop_assert!(counted.eq([1, 1]));
    }

    #[test]
    fn whatever_an_authentic_sender_says_no_shard_is_lost_and_no_packet_twice(
        acts in proptest::collection::vec(acts(), 0..60),
        buffer_packets in 1_usize..100,
        stash_packets in 0_u16..10,
    ) {
        let plan = ReferencePlan { buffer_packets, ..layout().references.unwrap() };
        let small = WireLayout { stash_packets, references: Some(plan), flows: 8, ..layout() };
        let mut pool = path::Pool::new(&small, End::Receiver);
        let mut receiver = Receiver::new(&small, keys()).unwrap();
        receiver.begin(session(1));
        let mut sealer = sealer();
        let (mut n, mut in_session, mut received) = (1, true, 0);
        for act in acts {
            match act {
                Act::Marker { epoch, packets_since, rows, sampled } => {
                    let bank = |rows, probability| Bank { rows, probability };
                    let lda = LdaLayout::new(&[bank(rows, sampled), bank(96, 1.0)]).unwrap();
                    let body = Marker { copy: 2, packets_since, lda };
                    let frame = seal(&mut sealer, 5, epoch, &body);
                    let control = receiver.control(&frame, u32::MAX, 9, &mut pool);
                    prop_assert_eq!(matches!(control, Control::Taken(_)), in_session);
                }
                Act::Reference { segment, reference, tai_ns } => {
                    let frame = seal(&mut sealer, segment, 1, &reference);
                    let control = receiver.control(&frame, 0, tai_ns, &mut pool);
                    prop_assert_eq!(matches!(control, Control::Taken(_)), in_session);
                }
                Act::Data { packets, tai_ns } => {
                    let observations: Vec<Observation> = packets
                        .into_iter()
                        .map(|(flow, packet, segment, bytes)| Observation {
                            flow: FlowHash(flow),
                            bytes,
                            ..observation(packet, segment, tai_ns)
                        })
                        .collect();
                    received += observations.len() as u64;
                    receiver.received(&observations);
                }
                Act::Begin => {
                    n += 1;
                    in_session = true;
                    sealer.begin(session(n));
                    receiver.begin(session(n));
                }
                Act::End => {
                    in_session = false;
                    receiver.end();
                }
                Act::ClockSet => receiver.clock_set(),
                Act::NoEmpty(is_none) => pool.empty = if is_none { 0 } else { 100 },
            }
            let given = pool.sealed.len() as u64;
            prop_assert!(given == pool.taken || given + 1 == pool.taken);
        }
        let mut counted = 0;
        for SealedWire { shard, .. } in &pool.sealed {
            let flows = shard.flows.flows();
            prop_assert!(flows.len() <= 8 + 4);
            for flow in flows {
                prop_assert!(flow.delay.packets() <= flow.packets);
            }
            let known: u64 = flows.iter().map(|flow| flow.packets).sum();
            counted += known + shard.flows.other_packets();
            prop_assert!(shard.stash.first().len() <= usize::from(stash_packets));
            prop_assert!(shard.stash.last().len() <= usize::from(stash_packets));
        }
        prop_assert!(counted <= received);
    }
}

/// A number for each place, without a generator that a crate may change.
fn scattered(place: u64, salt: u64) -> u64 {
    let mut hasher = SipHasher24::new_with_keys(salt, 0);
    hasher.write_u64(place);
    hasher.finish()
}

/// Sums, counts and digests of all cells of the sender's half, as one number.
fn digest<'c>(cells: impl Iterator<Item = &'c CellPair>) -> u64 {
    let mut hasher = SipHasher24::new();
    for cell in cells {
        let cell = cell.sender;
        hasher.write_u64(cell.sum);
        hasher.write_u32(cell.count);
        hasher.write_u32(cell.digest);
    }
    hasher.finish()
}

/// The numbers were made by 78f1034 (0.1.0, protocol version 2, hash version 2). A change of them is a new protocol or
/// hash version: the ends of a wire would find no usable cell.
#[test]
fn packets_count_in_the_cells_of_the_first_version() {
    let bank = |rows, probability| Bank { rows, probability };
    let layout = WireLayout {
        segments: 1,
        lda: LdaLayout::new(&[bank(26, 0.2), bank(3, 0.5), bank(3, 0.05)]).unwrap(),
        lds: Some(LdsLayout::new(400, 5, &[0.01, 0.1, 0.5, 1.0]).unwrap()),
        stash_packets: 16,
        flows: 500,
        references: None,
    };
    let mut shard = WireShard::new(&layout, End::Sender);
    for place in 0..10_000 {
        shard.record(
            End::Sender,
            &[Observation {
                flow: FlowHash(scattered(place % 300, 1)),
                ..observation(
                    scattered(place, 2),
                    0,
                    1_800_000_000_000_000_000 + 10_000 * place,
                )
            }],
        );
    }
    let lda = digest(shard.segments[0].lda.cells().iter());
    let lds = digest(shard.lds.as_ref().unwrap().cells().iter());
    assert_eq!(
        (lda, lds),
        (0x9056_9d60_fe47_c2b5, 0x8c64_11b8_3bb5_685c),
        "{lda:#018x} {lds:#018x}"
    );
}
