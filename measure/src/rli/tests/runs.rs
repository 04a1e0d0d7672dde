//! Runs of packets, against the same packets one by one.

use std::num::{NonZeroU32, NonZeroU64};

use proptest::prelude::*;

use super::{STREAM, byte_a_ns};
use crate::packet::PacketHash;
use crate::rli::{
    Adaptive, Estimates, Injector, Method, Policy, Receiver, ReceiverConfig, ReferenceSender, Run,
    StreamSums,
};
use crate::time::EpochTag;

/// Packets that come together and leave together.
#[derive(Debug, Clone, Copy)]
struct Train {
    gap_ns: u64,
    packets: u32,
    bytes: u32,
    delay_ns: i64,
    lost: bool,
    /// Whether a reference follows.
    referenced: bool,
}

fn trains() -> impl Strategy<Value = Vec<Train>> {
    let train = (
        40_000_u64..200_000,
        1_u32..20,
        64_u32..1_500,
        0_i64..300_000,
        proptest::bool::weighted(0.05),
        proptest::bool::weighted(0.3),
    );
    let train = train.prop_map(
        |(gap_ns, packets, bytes, delay_ns, lost, referenced)| Train {
            gap_ns,
            packets,
            bytes,
            delay_ns,
            lost,
            referenced,
        },
    );
    proptest::collection::vec(train, 1..60)
}

fn hash(flow: u32) -> u64 {
    u64::from(flow).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// All trains through both ends; the estimated delay and the interval of each packet, by its number.
fn estimates(trains: &[Train], config: ReceiverConfig, together: bool) -> Vec<(u32, f64, u32)> {
    let mut sender = ReferenceSender::new(STREAM);
    let mut receiver = Receiver::new(config).unwrap();
    let mut estimated = Vec::new();
    let mut sink = |Estimates { flows, estimate }: Estimates<'_, u32>| {
        let (delay_ns, interval) = (estimate.delay_ns, estimate.interval);
        estimated.extend(flows.iter().map(|&flow| (flow, delay_ns, interval)));
    };
    let (mut now_ns, mut first) = (1_u64 << 40, 0);
    let mut sent_ns = now_ns;
    receiver.reference(&sender.reference(now_ns), 100, now_ns, &mut sink);
    for train in trains {
        now_ns += train.gap_ns;
        // None overtakes another.
        sent_ns = sent_ns.max(now_ns.wrapping_add_signed(-train.delay_ns));
        let flows: Vec<_> = (first..first + train.packets).collect();
        first += train.packets;
        let digest = flows.iter().fold(0, |digest, &flow| digest ^ hash(flow));
        let run = Run {
            flows: &flows,
            digest,
            bytes: train.bytes,
            received_ns: now_ns,
            epoch: EpochTag(0),
        };
        if together {
            sender.record_run(train.packets, digest, sent_ns);
        } else {
            for &flow in &flows {
                sender.record(PacketHash(hash(flow)), sent_ns);
            }
        }
        match (train.lost, together) {
            (true, _) => {}
            (false, true) => receiver.regular_run(&run, &mut sink),
            (false, false) => {
                for (n, flow) in flows.iter().enumerate() {
                    let one = Run {
                        flows: &[*flow],
                        digest: hash(*flow),
                        // Neighbours of different epochs are kept apart.
                        epoch: EpochTag(n as u8 % 2),
                        ..run
                    };
                    receiver.regular_run(&one, &mut sink);
                }
            }
        }
        if train.referenced {
            receiver.reference(&sender.reference(sent_ns), 100, now_ns, &mut sink);
        }
    }
    receiver.flush(&mut sink);
    estimated.sort_by_key(|&(flow, ..)| flow);
    estimated
}

/// Numbers of the packets behind which references are due.
fn due(trains: &[Train], policy: Policy, together: bool) -> Vec<u32> {
    let mut injector = Injector::new(policy, byte_a_ns()).unwrap();
    let (mut now_ns, mut sent) = (0, 0);
    let mut due = Vec::new();
    for train in trains {
        now_ns += train.gap_ns;
        let mut left = train.packets;
        while left > 0 {
            let part = if together {
                u32::try_from(injector.packets_to_go(now_ns)).map_or(left, |to_go| left.min(to_go))
            } else {
                1
            };
            let bytes = u64::from(part) * u64::from(train.bytes);
            sent += part;
            left -= part;
            if injector.run(part, bytes, now_ns) {
                injector.injected(now_ns);
                due.push(sent);
            }
        }
    }
    due
}

fn policy() -> impl Strategy<Value = Policy> {
    let packets = |n| NonZeroU32::new(n).unwrap();
    let interval_ns = |ns| NonZeroU64::new(ns).unwrap();
    prop_oneof![
        (1_u32..100).prop_map(move |n| Policy::Count {
            packets: packets(n)
        }),
        (1_u64..1_000_000).prop_map(move |ns| Policy::Time {
            interval_ns: interval_ns(ns)
        }),
        (1_u32..100, 1_u64..1_000_000).prop_map(move |(n, ns)| Policy::Either {
            packets: packets(n),
            interval_ns: interval_ns(ns),
        }),
        Just(Policy::Adaptive(Adaptive::default())),
    ]
}

proptest! {
    #[test]
    fn estimates_are_those_of_packets_one_by_one(
        method in proptest::sample::select(Method::ALL.to_vec()),
        buffer_packets in prop_oneof![1_usize..60, Just(4_096)],
        trains in trains(),
    ) {
        let mut config = ReceiverConfig::new(STREAM, method, byte_a_ns());
        config.buffer_packets = buffer_packets;
        let ours = estimates(&trains, config, true);
        let single = estimates(&trains, config, false);
        prop_assert_eq!(ours.len(), single.len());
        for (ours, single) in ours.iter().zip(&single) {
            prop_assert_eq!((ours.0, ours.2), (single.0, single.2));
            prop_assert!((ours.1 - single.1).abs() < 1e-2, "{:?} for {:?}", ours, single);
        }
    }

    #[test]
    fn idle_times_may_be_told(trains in trains()) {
        let config = ReceiverConfig::new(STREAM, Method::AnchoredSums, byte_a_ns());
        let mut sender = ReferenceSender::new(STREAM);
        let delays = [false, true].map(|idle_is_told| {
            let config = ReceiverConfig { idle_is_told, ..config };
            let mut receiver = Receiver::new(config).unwrap();
            let mut delays = Vec::new();
            let mut sink = |Estimates { estimate, .. }: Estimates<'_, u32>| {
                delays.push(estimate.delay_ns.to_bits());
            };
            let (mut now_ns, mut departed_ns) = (0, None);
            let mut sent_ns = 0;
            for (flow, train) in (0..).zip(&trains) {
                now_ns += u64::from(train.bytes) + train.gap_ns / 100 % 1_000;
                sent_ns = sent_ns.max(now_ns.saturating_sub(train.delay_ns.unsigned_abs()));
                let served_ns = now_ns - u64::from(train.bytes);
                let idle_from_ns = departed_ns.replace(now_ns).filter(|from_ns| from_ns + 2 < served_ns);
                if let (true, Some(from_ns)) = (idle_is_told, idle_from_ns) {
                    receiver.idle(from_ns, served_ns);
                }
                if train.referenced {
                    receiver.reference(&sender.reference(sent_ns), train.bytes, now_ns, &mut sink);
                } else {
                    let hash = PacketHash(hash(flow));
                    sender.record(hash, sent_ns);
                    receiver.regular(flow, hash, train.bytes, now_ns, &mut sink);
                }
            }
            receiver.flush(&mut sink);
            sender = ReferenceSender::new(STREAM);
            delays
        });
        prop_assert_eq!(&delays[0], &delays[1]);
    }

    #[test]
    fn sums_are_those_of_packets_one_by_one(
        start in any::<[u64; 4]>(),
        runs in proptest::collection::vec((0_u32..100, any::<u64>()), 0..20),
    ) {
        let [count, time_ns, ranked_time_ns, digest] = start;
        let mut ours = StreamSums { count, time_ns, ranked_time_ns, digest };
        let mut single = ours;
        let mut hashes = 1_u64..;
        for (packets, time_ns) in runs {
            let mut digest = 0;
            for hash in hashes.by_ref().take(packets as usize) {
                digest ^= hash;
                single.add(PacketHash(hash), time_ns);
            }
            ours.add_run(packets, digest, time_ns);
        }
        prop_assert_eq!(ours, single);
    }

    #[test]
    fn references_are_due_where_packets_one_by_one_bring_them(
        policy in policy(),
        trains in trains(),
    ) {
        prop_assert_eq!(due(&trains, policy, true), due(&trains, policy, false));
    }
}

#[test]
fn an_epoch_that_ends_lets_go_of_its_packets() {
    let config = ReceiverConfig::new(STREAM, Method::Linear, byte_a_ns());
    let mut receiver = Receiver::new(config).unwrap();
    let mut sender = ReferenceSender::new(STREAM);
    let mut estimated = Vec::new();
    let mut sink = |Estimates { flows, estimate }: Estimates<'_, u32>| {
        estimated.extend(flows.iter().map(|&flow| (flow, estimate.epoch)));
    };
    for flow in 0..4_u32 {
        let now_ns = u64::from(flow) * 1_000;
        receiver.reference(&sender.reference(now_ns), 100, now_ns + 500, &mut sink);
        let run = Run {
            flows: &[flow],
            digest: 0,
            bytes: 100,
            received_ns: now_ns + 700,
            epoch: EpochTag(if flow < 3 { 7 } else { 8 }),
        };
        sender.record_run(1, 0, now_ns);
        receiver.regular_run(&run, &mut sink);
    }
    // Packet 3 stays: it waits for a reference, and its time is not over.
    receiver.flush_epoch(EpochTag(7), &mut sink);
    receiver.flush_epoch(EpochTag(9), &mut sink);
    receiver.flush_epoch(EpochTag(8), &mut sink);
    receiver.flush_epoch(EpochTag(8), &mut sink);
    let (old, new) = (EpochTag(7), EpochTag(8));
    assert_eq!(estimated, [(0, old), (1, old), (2, old), (3, new)]);
}

fn sums_of(start: StreamSums, times_ns: &[u64]) -> StreamSums {
    let mut sums = start;
    for (hash, &time_ns) in (1..).zip(times_ns) {
        sums.add(PacketHash(hash), time_ns);
    }
    sums
}

#[test]
fn ranks_count_from_the_interval_on() {
    let sums = sums_of(StreamSums::default(), &[10, 20, 40]);
    assert_eq!(
        (sums.count, sums.time_ns, sums.ranked_time_ns),
        (3, 70, 100)
    );
    assert_eq!(sums.digest, 1 ^ 2 ^ 3);
}

proptest! {
    #[test]
    fn differences_forget_what_came_before(
        before in any::<[u64; 4]>(),
        times_ns in proptest::collection::vec(any::<u64>(), 0..20),
    ) {
        let [count, time_ns, ranked_time_ns, digest] = before;
        let before = StreamSums { count, time_ns, ranked_time_ns, digest };
        prop_assert_eq!(
            sums_of(before, &times_ns).since(&before),
            sums_of(StreamSums::default(), &times_ns)
        );
    }
}
