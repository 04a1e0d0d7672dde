//! Any packets, capacities and pauses, compared with a slow, simple model.

use super::*;

#[derive(Debug, Clone)]
enum Op {
    Offer { class: u8, len_bytes: u32, age: u64 },
    Reference { class: u8 },
    Advance,
    Take { packets: usize },
}

fn ops() -> impl Strategy<Value = Vec<(u64, Op)>> {
    let class = 0..8u8;
    let len_bytes = prop_oneof![Just(60), 60..1_522u32, Just(9_018)];
    let op = prop_oneof![
        12 => (class.clone(), len_bytes, 0..200_000u64)
            .prop_map(|(class, len_bytes, age)| Op::Offer { class, len_bytes, age }),
        2 => class.prop_map(|class| Op::Reference { class }),
        6 => Just(Op::Advance),
        4 => (0..80usize).prop_map(|packets| Op::Take { packets }),
    ];
    // Mostly at once, mostly close together, now and then after a long silence.
    let step =
        prop_oneof![4 => Just(0u64), 4 => 0..2_000u64, 1 => 0..100_000u64, 1 => 0..4_000_000u64];
    vec((step, op), 1..400)
}

/// A capacity at which a byte takes a whole number of ticks, and that number.
fn pace() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![Just(None), (0..6u32).prop_map(|n| Some(1 << n))]
}

fn settings() -> impl Strategy<Value = (Egress, u64)> {
    let service = prop_oneof![
        Just(QueueService::Strict),
        (1..5u16).prop_map(QueueService::Weight)
    ];
    let queue = (
        service,
        1..40u32,
        prop_oneof![Just(None), (64..40_000u32).prop_map(Some)],
    );
    let residency = prop_oneof![Just(None), (1..300u32).prop_map(Some)];
    let burst = prop_oneof![Just(0), 0..20_000u32];
    (
        vec(queue, 0..=8),
        vec(0..8usize, 8),
        pace(),
        burst,
        residency,
    )
        .prop_map(|(queues, of_class, pace, burst_bytes, max_residency_us)| {
            let mut egress = Egress {
                queue_packets: 30,
                capacity_bps: pace.map(|ticks_per_byte| 8 * GHZ / ticks_per_byte),
                burst_bytes,
                max_residency_us,
                ..Egress::default()
            };
            for (service, packets, bytes) in queues {
                egress.queues.push(QueueSettings {
                    bytes,
                    ..self::queue(&[], service, packets)
                });
            }
            if let queues @ 1.. = egress.queues.len() {
                for (class, of) in of_class.into_iter().enumerate() {
                    egress.queues[of % queues].classes.push(format!("c{class}"));
                }
            }
            (egress, pace.unwrap_or(0))
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_step_is_that_of_the_model((settings, ticks_per_byte) in settings(), ops in ops()) {
        let layout = layout(&settings);
        let mut egress = PortEgress::new(&layout, rate(), 1);
        let mut model = Model::new(layout, ticks_per_byte);
        let mut expired = Vec::new();
        let mut now = 1_000_000;
        for (number, (step, op)) in (0u32..).zip(ops) {
            now += step;
            match op {
                Op::Offer { class, len_bytes, age } => {
                    let entry = packet(number, class, len_bytes, now - age);
                    let refused = offer(&mut egress, entry, now).err();
                    prop_assert_eq!(refused, model.offer(entry, now));
                }
                Op::Reference { class } => {
                    let entry = packet(number, class, 0, now);
                    let is_taken = egress.offer_reference(reference(&entry), Ticks(now));
                    prop_assert_eq!(is_taken, model.offer(entry, now).is_none());
                }
                Op::Advance => {
                    egress.advance(Ticks(now), &mut |packet: u32, tag: Tag| {
                        assert_eq!(u64::from(packet), tag.flow.0);
                        expired.push(packet);
                    });
                    model.advance(now);
                    prop_assert_eq!(&expired, &model.expired);
                }
                Op::Take { packets } => {
                    let before = head_of(&egress);
                    let packets = packets.min(egress.head.len());
                    egress.head.drain(..packets);
                    egress.taken(packets);
                    let taken = model.take(packets);
                    prop_assert_eq!(&before[..taken.len()], &taken);
                }
            }
            let head: Vec<u32> = model.head.iter().map(|entry| entry.number).collect();
            prop_assert_eq!(head_of(&egress), head);
            let of_queue = |queue: &VecDeque<Entry>| {
                let packets = queue.iter().filter(|entry| entry.len_bytes > 0);
                (packets.clone().count() as u64, packets.map(|e| u64::from(e.len_bytes)).sum())
            };
            let waiting: Vec<(u64, u64)> = model.queues.iter().map(of_queue).collect();
            for (state, &(packets, bytes)) in egress.queues().zip(&waiting) {
                prop_assert_eq!((state.waiting.packets, state.waiting.bytes), (packets, bytes));
                let QueueCounts { entered, left, expired, .. } = state.counts;
                prop_assert_eq!(entered.packets, left.packets + expired.packets + packets);
                prop_assert_eq!(entered.bytes, left.bytes + expired.bytes + bytes);
            }
            let queued: u64 = waiting.iter().map(|(packets, _)| packets).sum();
            prop_assert_eq!(egress.len() as u64, model.packets_of_head() as u64 + queued);
            let nothing = model.head.is_empty() && model.queues.iter().all(VecDeque::is_empty);
            prop_assert_eq!(egress.is_empty(), nothing);
        }
    }

    #[test]
    fn a_successor_takes_over_everything_in_order(
        (first, _) in settings(), (second, _) in settings(), ops in ops()
    ) {
        let (first, second) = (layout(&first), layout(&second));
        let mut old = PortEgress::new(&first, rate(), 1);
        let mut now = 1_000_000;
        let mut refused = 0;
        for (number, (step, op)) in (0u32..).zip(&ops) {
            now += step;
            match *op {
                Op::Offer { class, len_bytes, .. } => {
                    let offered = offer(&mut old, packet(number, class, len_bytes, now), now);
                    refused += u64::from(offered.is_err());
                }
                Op::Reference { class } => {
                    old.offer_reference(reference(&packet(number, class, 0, now)), Ticks(now));
                }
                _ => old.advance(Ticks(now), &mut |_, _| {}),
            }
        }
        let waited = old.len();
        let counts = |egress: &PortEgress<u32>| {
            egress.queues().fold(QueueCounts::default(), |mut sum, state| {
                sum += state.counts;
                sum
            })
        };
        let counts_before = counts(&old);
        prop_assert_eq!(counts_before.full.packets, refused);

        let mut new = PortEgress::new(&second.clone().to_succeed(&first), rate(), 1);
        let room: Vec<usize> = new.queues.iter().map(Queue::items_max).collect();
        new.adopt(&mut old);
        prop_assert!(old.is_empty());
        prop_assert_eq!(old.len(), 0);
        prop_assert_eq!(new.len(), waited);
        prop_assert_eq!(counts(&new), counts_before);
        for (queue, room) in new.queues.iter().zip(room) {
            prop_assert!(queue.items() <= room, "{} in {room}", queue.items());
        }
        let mut last = [None; 8];
        let mut out = 0;
        new.drain(|number, tag| {
            out += 1;
            let class = usize::from(tag.class.0);
            assert_eq!(u64::from(number), tag.flow.0);
            assert!(last[class] < Some(number), "class {class}: {number} after {:?}", last[class]);
            last[class] = Some(number);
        });
        prop_assert_eq!(out, waited);
        prop_assert!(new.is_empty());
    }

    #[test]
    fn no_window_has_more_than_capacity_and_burst(
        ticks_per_byte in 1..20u64,
        burst_bytes in prop_oneof![Just(0u32), 0..30_000u32],
        gaps in vec((0..40_000u64, 0..12usize, 60..1_519u32), 50..200),
    ) {
        let settings = Egress {
            capacity_bps: Some(8 * GHZ / ticks_per_byte),
            burst_bytes,
            ..Egress::default()
        };
        let mut egress = PortEgress::new(&layout(&settings), rate(), 1);
        // Of each poll: its time, that of the poll before, and the bytes on the wire that left.
        let mut polls: Vec<(u64, u64, u64)> = Vec::new();
        let mut now = 5_000_000;
        for (gap, packets, len_bytes) in gaps {
            let before = now;
            now += gap;
            for n in 0..packets {
                let entry = packet(u32::try_from(n).unwrap(), 0, len_bytes, now);
                let _ = egress.offer(entry.number, tag(&entry), Ticks(now));
            }
            egress.advance(Ticks(now), &mut never);
            let wire = egress.tags.iter().map(|t| u64::from(t.len_bytes + WIRE_OVERHEAD_BYTES));
            polls.push((now, before, wire.sum()));
            take_all(&mut egress);
        }
        let frame_bytes = u64::from(1_518 + WIRE_OVERHEAD_BYTES);
        for (from, &(_, since, _)) in polls.iter().enumerate() {
            let mut sum = 0;
            for &(until, _, bytes) in &polls[from..] {
                sum += bytes;
                // In units of bytes times ticks per byte, so that nothing is rounded (the capacity
                // is, by under one part in 10^7).
                let most = (until - since) + (u64::from(burst_bytes) + frame_bytes) * ticks_per_byte;
                prop_assert!(sum * ticks_per_byte <= most + most / 10_000_000 + 1);
            }
        }
    }
}
