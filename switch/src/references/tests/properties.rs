//! Any arrivals, departures and losses: what holds of every one of them.

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Arrive {
        gap: u64,
        segments: Vec<u16>,
    },
    Depart {
        gap: u64,
        packets: usize,
    },
    /// References go astray.
    Lose(u16),
}

fn steps(loses: bool) -> impl Strategy<Value = Vec<Step>> {
    let mixed = proptest::collection::vec(0..=SEGMENTS, 1..32);
    let alike = (0..SEGMENTS, 1_usize..32).prop_map(|(segment, n)| vec![segment; n]);
    let arrive = (0_u64..60_000, prop_oneof![mixed, alike])
        .prop_map(|(gap, segments)| Step::Arrive { gap, segments });
    let depart =
        (0_u64..60_000, 0_usize..64).prop_map(|(gap, packets)| Step::Depart { gap, packets });
    let lose = (0..SEGMENTS).prop_map(Step::Lose);
    proptest::collection::vec(
        prop_oneof![8 => arrive, 8 => depart, u32::from(loses) => lose],
        1..150,
    )
}

fn policy() -> impl Strategy<Value = Policy> {
    let interval_ns = |ns| NonZeroU64::new(ns).unwrap();
    let packets = |n| NonZeroU32::new(n).unwrap();
    prop_oneof![
        (8_u32..200).prop_map(one_in),
        (20_000_u64..400_000).prop_map(move |ns| Policy::Time {
            interval_ns: interval_ns(ns)
        }),
        (8_u32..200, 20_000_u64..400_000).prop_map(move |(n, ns)| Policy::Either {
            packets: packets(n),
            interval_ns: interval_ns(ns),
        }),
        Just(Policy::Adaptive(Adaptive::default())),
    ]
}

fn methods() -> impl Strategy<Value = Method> {
    proptest::sample::select(Method::ALL.to_vec())
}

fn run(tube: &mut Tube, steps: &[Step], seals: bool) {
    for step in steps {
        match step {
            Step::Arrive { gap, segments } => {
                tube.now += gap;
                tube.overdue();
                tube.arrive(segments.iter().copied());
            }
            Step::Depart { gap, packets } => {
                tube.now += gap;
                tube.overdue();
                tube.depart(*packets);
            }
            Step::Lose(segment) => {
                let is_lost = |entry: &Entry| matches!(entry, Entry::Reference(lost) if lost.segment.0 == *segment);
                tube.queue.retain(|entry| !is_lost(entry));
            }
        }
        let previous = tube.epoch().0 - 1;
        if seals && tube.now % EPOCH_NS > EPOCH_NS / 3 && tube.shards.open.contains_key(&previous) {
            tube.seal(previous);
        }
    }
    tube.finish();
}

proptest! {
    #[test]
    fn the_mean_of_a_segment_is_exact_between_references(
        policy in policy(),
        method in methods(),
        steps in steps(false),
    ) {
        let mut tube = Tube::new(&layout(policy, method));
        run(&mut tube, &steps, false);
        for segment in 0..SEGMENTS {
            let (packets, exact, sum) = tube.mean_of(segment);
            let truth = tube.referenced[usize::from(segment)];
            prop_assert_eq!((packets, exact), (truth.packets, truth.packets));
            prop_assert!((sum - truth.sum as f64).abs() < 1e-3, "{} for {:?}", sum, truth);
        }
        let counters = tube.references.counters();
        prop_assert_eq!(counters.injected, counters.received);
        prop_assert_eq!(counters.left_out, 0);
    }

    #[test]
    fn every_packet_has_one_estimate(
        policy in policy(),
        method in methods(),
        steps in steps(true),
        seals: bool,
    ) {
        let mut tube = Tube::new(&layout(policy, method));
        run(&mut tube, &steps, seals);
        let (estimated, _) = tube.estimated();
        let departed: u64 = tube.departed.iter().map(|truth| truth.packets).sum();
        let late = tube.references.counters().late_estimates;
        // A lost first reference leaves packets without one.
        let lost = steps.iter().any(|step| matches!(step, Step::Lose(_)));
        prop_assert!(estimated + late <= departed);
        prop_assert!(lost || estimated + late == departed);
        prop_assert!(seals || late == 0);
    }

    #[test]
    fn a_queue_whose_delay_does_not_change_is_estimated_exactly(
        policy in policy(),
        method in methods(),
        bursts in proptest::collection::vec((0..SEGMENTS, 1_usize..32), 1..200),
        delay in 1_u64..300,
    ) {
        let mut tube = Tube::new(&layout(policy, method));
        for (segment, packets) in bursts {
            tube.now += 5_000;
            tube.arrive(std::iter::repeat_n(segment, packets));
            tube.now += delay;
            tube.depart(usize::MAX);
        }
        tube.finish();
        for (slot, truth) in tube.flows.iter().enumerate() {
            let (mut packets, mut sum) = (0, 0.0);
            for shard in tube.shards.open.values() {
                let flow = shard.flows().unwrap().estimates(Slot(slot as u32)).unwrap();
                packets += flow.packets();
                sum += flow.delay().sum_ns();
            }
            prop_assert_eq!((packets, sum.round()), (truth.packets, truth.sum as f64));
        }
    }
}
