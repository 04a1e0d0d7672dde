//! Any delays and losses: what holds of every one of them.

use super::*;

/// What happens next on a link, with times that go on.
#[derive(Debug, Clone, Copy)]
enum Step {
    Regular {
        bytes: u32,
        delay_ns: i64,
        lost: bool,
    },
    Reference {
        delay_ns: i64,
        lost: bool,
    },
    Cross {
        bytes: u32,
    },
}

fn step(delays: impl Strategy<Value = i64> + Clone, losses: f64) -> impl Strategy<Value = Step> {
    let lost = || proptest::bool::weighted(losses);
    prop_oneof![
        6 => (64_u32..1_500, delays.clone(), lost())
            .prop_map(|(bytes, delay_ns, lost)| Step::Regular { bytes, delay_ns, lost }),
        1 => (delays, lost()).prop_map(|(delay_ns, lost)| Step::Reference { delay_ns, lost }),
        2 => (64_u32..1_500).prop_map(|bytes| Step::Cross { bytes }),
    ]
}

fn steps(
    delays: impl Strategy<Value = i64> + Clone,
    losses: f64,
) -> impl Strategy<Value = Vec<(u64, Step)>> {
    proptest::collection::vec((1_500_u64..4_000, step(delays, losses)), 1..150)
}

/// Runs the steps between two references that arrive and waited `wait_ns`; flows are numbered by packet. Gives the
/// delays of the packets received, too.
fn run(mut wire: Wire, steps: &[(u64, Step)], wait_ns: i64) -> (Wire, Vec<i64>) {
    let mut now_ns = 1 << 40;
    let mut truth = Vec::new();
    wire.reference(now_ns, wait_ns + 100);
    for &(gap_ns, step) in steps {
        now_ns += gap_ns;
        match step {
            Step::Regular {
                delay_ns,
                lost: true,
                ..
            } => {
                wire.send(now_ns.wrapping_add_signed(-delay_ns));
            }
            Step::Regular {
                bytes, delay_ns, ..
            } => {
                wire.regular(
                    truth.len() as u32,
                    bytes,
                    now_ns,
                    delay_ns + i64::from(bytes),
                );
                truth.push(delay_ns + i64::from(bytes));
            }
            Step::Reference {
                delay_ns,
                lost: true,
            } => {
                wire.sender.reference(now_ns.wrapping_add_signed(-delay_ns));
            }
            Step::Reference { delay_ns, .. } => wire.reference(now_ns, delay_ns + 100),
            Step::Cross { bytes } => wire.receiver.cross(bytes, now_ns),
        }
    }
    wire.reference(now_ns + 4_000, wait_ns + 100);
    (wire, truth)
}

proptest! {
    #[test]
    fn a_constant_wait_is_recovered_by_all(
        method in proptest::sample::select(Method::ALL.to_vec()),
        wait_ns in -1_000_000_i64..1_000_000,
        steps in steps(Just(0_i64), 0.1),
    ) {
        let mut shifted = steps;
        for (_, step) in &mut shifted {
            if let Step::Regular { delay_ns, .. } | Step::Reference { delay_ns, .. } = step {
                *delay_ns = wait_ns;
            }
        }
        let (mut wire, truth) = run(Wire::new(method), &shifted, wait_ns);
        let mean_ns = truth.iter().sum::<i64>() as f64 / truth.len() as f64;
        let segment = wire.receiver.take_segment();
        prop_assert_eq!(segment.packets(), truth.len() as u64);
        if segment.exact_packets() == segment.packets() && !truth.is_empty() {
            prop_assert!((segment.mean_ns().unwrap() - mean_ns).abs() < 1e-6);
        }
        for estimate in wire.finish() {
            let exact = truth[estimate.flow as usize] as f64;
            prop_assert!((estimate.delay_ns - exact).abs() < 1e-3, "{estimate:?} for {exact}");
        }
    }

    #[test]
    fn sums_of_delays_are_exact_where_nothing_was_lost(
        steps in steps(0_i64..200_000, 0.0),
    ) {
        let (mut wire, truth) = run(Wire::new(Method::Sums), &steps, 0);
        let sum_ns = truth.iter().sum::<i64>() as f64;
        let segment = wire.receiver.take_segment();
        prop_assert_eq!(segment.exact_packets(), truth.len() as u64);
        prop_assert!((segment.sum_ns() - sum_ns).abs() < 1e-9);
        let estimates = wire.finish();
        let intervals = estimates.iter().map(|estimate| estimate.interval).max().unwrap_or(0);
        for interval in 1..=intervals {
            let (ours, exact) = estimates
                .iter()
                .filter(|estimate| estimate.interval == interval)
                .fold((0.0, 0.0), |(ours, exact), estimate| {
                    (ours + estimate.delay_ns, exact + truth[estimate.flow as usize] as f64)
                });
            prop_assert!((ours - exact).abs() < 1e-3, "{ours} for {exact}");
        }
    }

    #[test]
    fn every_packet_gets_one_estimate(
        method in proptest::sample::select(Method::ALL.to_vec()),
        buffer_packets in 1_usize..20,
        steps in steps(-50_000_i64..200_000, 0.1),
    ) {
        let wire = Wire::with(|config| config.buffer_packets = buffer_packets, method);
        let (wire, truth) = run(wire, &steps, 0);
        let counters = *wire.receiver.counters();
        prop_assert_eq!(counters.packets, truth.len() as u64);
        let mut flows: Vec<_> = wire.finish().iter().map(|estimate| estimate.flow).collect();
        flows.sort_unstable();
        prop_assert!(flows.into_iter().eq(0..truth.len() as u32));
    }

    #[test]
    fn nothing_depends_on_where_clocks_and_counts_begin(
        method in proptest::sample::select(Method::ALL.to_vec()),
        origin_ns in any::<u64>(),
        sequence in any::<u32>(),
        sums in any::<[u64; 4]>(),
        steps in steps(0_i64..200_000, 0.05),
    ) {
        let shifted = |offset_ns: u64, sequence: u32, mut sums: StreamSums| {
            let config = ReceiverConfig::new(STREAM, method, byte_a_ns());
            let mut receiver = Receiver::new(config).unwrap();
            let mut delays = Vec::new();
            let mut sink = |Estimates { flows, estimate }: Estimates<'_, u32>| {
                delays.extend(flows.iter().map(|&flow| (flow, estimate.delay_ns)));
            };
            let (mut now_ns, mut sequence) = (offset_ns, sequence);
            for (i, &(gap_ns, step)) in (0..).zip(&steps) {
                now_ns = now_ns.wrapping_add(gap_ns);
                match step {
                    Step::Regular { bytes, delay_ns, lost } => {
                        let hash = PacketHash(u64::from(i) << 7);
                        sums.add(hash, now_ns.wrapping_add_signed(-delay_ns));
                        if !lost {
                            receiver.regular(i, hash, bytes, now_ns, &mut sink);
                        }
                    }
                    Step::Reference { delay_ns, .. } => {
                        let sent_ns = now_ns.wrapping_add_signed(-delay_ns);
                        let reference = Reference { stream: STREAM, sequence, sent_ns, sums };
                        sequence = sequence.wrapping_add(1);
                        receiver.reference(&reference, 100, now_ns, &mut sink);
                    }
                    Step::Cross { bytes } => receiver.cross(bytes, now_ns),
                }
            }
            receiver.flush(&mut sink);
            delays
        };
        let [count, time_ns, ranked_time_ns, digest] = sums;
        let sums = StreamSums { count, time_ns, ranked_time_ns, digest };
        let plain = shifted(1 << 40, 0, StreamSums::default());
        prop_assert_eq!(plain, shifted(origin_ns, sequence, sums));
    }

    #[test]
    fn any_events_are_taken(
        method in proptest::sample::select(Method::ALL.to_vec()),
        buffer_packets in 1_usize..8,
        events in proptest::collection::vec(
            (0_u8..8, any::<u32>(), any::<u64>(), any::<u64>(), any::<[u64; 4]>(), 0_u64..3),
            1..60,
        ),
    ) {
        let mut config = ReceiverConfig::new(STREAM, method, byte_a_ns());
        config.buffer_packets = buffer_packets;
        let mut receiver = Receiver::new(config).unwrap();
        let mut estimates = 0;
        let mut sink = |Estimates { flows, estimate }: Estimates<'_, ()>| {
            estimates += flows.len() as u64;
            assert!(estimate.delay_ns.is_finite(), "{estimate:?}");
            assert!(estimate.squared_error_ns2.is_finite(), "{estimate:?}");
        };
        for (kind, bytes, at_ns, sent_ns, sums, near) in events {
            // Some times near each other, some anywhere.
            let at_ns = if near > 0 { at_ns % 1_000_000 } else { at_ns };
            let sent_ns = if near > 1 { at_ns.wrapping_sub(sent_ns % 1_000) } else { sent_ns };
            let [count, time_ns, ranked_time_ns, digest] = if near > 0 { [near, 0, 0, 0] } else { sums };
            match kind {
                0..4 => receiver.regular((), PacketHash(digest), bytes, at_ns, &mut sink),
                4 => receiver.cross(bytes, at_ns),
                5 => receiver.restart(&mut sink),
                _ => receiver.reference(
                    &Reference {
                        stream: STREAM,
                        sequence: bytes >> 20,
                        sent_ns,
                        sums: StreamSums { count, time_ns, ranked_time_ns, digest },
                    },
                    bytes,
                    at_ns,
                    &mut sink,
                ),
            }
        }
        receiver.flush(&mut sink);
        let counters = *receiver.counters();
        prop_assert_eq!(estimates, counters.packets - counters.early_packets);
        prop_assert!(receiver.take_segment().mean_ns().is_none_or(f64::is_finite));
    }
}
