use std::collections::VecDeque;

use super::*;
use crate::egress::layout::WIRE_OVERHEAD_BYTES;
use crate::egress::queue::QueueCounts;
use crate::packet_io::NO_SEGMENT;
use contract::config::{Class, Egress, Queue as QueueSettings, QueueService};
use contract::counters::DropReason;
use contract::ids::GenerationId;
use measure::packet::{FlowHash, PacketHash};
use measure::time::EpochTag;
use model::{Entry, Model};
use proptest::collection::vec;
use proptest::prelude::*;

mod model;

const GHZ: u64 = 1_000_000_000;

fn rate() -> TickRate {
    TickRate::from_hz(GHZ)
}

fn tag(entry: &Entry) -> Tag {
    Tag {
        flow: FlowHash(u64::from(entry.number)),
        packet: PacketHash(0),
        arrived: Ticks(entry.arrived),
        len_bytes: entry.len_bytes,
        segment: NO_SEGMENT,
        epoch: EpochTag(0),
        class: ClassIndex(entry.class),
    }
}

fn reference(entry: &Entry) -> QueuedReference {
    QueuedReference {
        sequence: entry.number,
        generation: GenerationId(0),
        arrived: Ticks(entry.arrived),
        segment: NO_SEGMENT,
        class: ClassIndex(entry.class),
        epoch: EpochTag(0),
    }
}

fn packet(number: u32, class: u8, len_bytes: u32, arrived: u64) -> Entry {
    Entry {
        number,
        class,
        len_bytes,
        arrived,
    }
}

fn classes() -> Vec<Class> {
    let class = |n| Class {
        name: format!("c{n}"),
        lds_weight: 1,
    };
    (0..8).map(class).collect()
}

fn queue(classes: &[u8], service: QueueService, packets: u32) -> QueueSettings {
    QueueSettings {
        classes: classes.iter().map(|n| format!("c{n}")).collect(),
        service,
        packets,
        bytes: None,
        red: None,
    }
}

fn layout(egress: &Egress) -> EgressLayout {
    EgressLayout::from_config(egress, 1500, &classes())
}

/// Offers a packet whose number is its content.
fn offer(egress: &mut PortEgress<u32>, entry: Entry, now: u64) -> Result<(), DropReason> {
    let offered = egress.offer(entry.number, tag(&entry), Ticks(now));
    offered.map_err(|refused| {
        assert_eq!((refused.packet, refused.tag), (entry.number, tag(&entry)));
        refused.reason
    })
}

fn never(packet: u32, _: Tag) {
    panic!("packet {packet} expired");
}

/// The driver takes all of the head.
fn take_all(egress: &mut PortEgress<u32>) -> Vec<u32> {
    let taken: Vec<u32> = egress.head.drain(..).collect();
    egress.taken(taken.len());
    taken
}

/// Head and references in one order.
fn head_of(egress: &PortEgress<u32>) -> Vec<u32> {
    assert_eq!(egress.head.len(), egress.tags.len());
    let mut references = egress.references.iter().peekable();
    let mut order = Vec::new();
    for index in 0..=egress.head.len() {
        while let Some((_, reference)) = references.next_if(|(before, _)| *before == index) {
            order.push(reference.sequence);
        }
        if let Some(&packet) = egress.head.get(index) {
            assert_eq!(u64::from(packet), egress.tags[index].flow.0, "its own tag");
            order.push(packet);
        }
    }
    assert!(references.next().is_none());
    order
}

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

#[test]
fn a_free_port_transmits_a_burst_as_it_is() {
    let mut egress = PortEgress::new(&layout(&Egress::default()), rate(), 1);
    let offer_all = |egress: &mut PortEgress<u32>, packets: &mut Burst<u32>| {
        egress.offer_all(packets, |packets, tags| {
            tags.extend(packets.iter().map(|&n| tag(&packet(n, 0, 60, 0))));
        })
    };
    let mut packets: Burst<u32> = (0..40).collect();
    assert!(offer_all(&mut egress, &mut packets));
    assert!(packets.is_empty());
    let mut packets: Burst<u32> = (40..65).collect();
    assert!(
        !offer_all(&mut egress, &mut packets),
        "25 on top of 40 do not fit"
    );
    assert_eq!(
        (packets.len(), egress.len(), egress.tags.len()),
        (25, 40, 40)
    );
    packets.pop();
    assert!(offer_all(&mut egress, &mut packets));
    assert_eq!(head_of(&egress), (0..64).collect::<Vec<_>>());
    offer(&mut egress, packet(64, 0, 60, 0), 0).unwrap();
    assert_eq!(egress.queues().next().unwrap().waiting.packets, 1);
    take_all(&mut egress);
    let mut packets: Burst<u32> = (65..66).collect();
    assert!(!offer_all(&mut egress, &mut packets), "64 is ahead");
    offer(&mut egress, packet(65, 0, 60, 0), 0).unwrap();
    egress.advance(Ticks(0), &mut never);
    assert_eq!(take_all(&mut egress), [64, 65]);
    assert!(offer_all(&mut egress, &mut packets));
}

#[test]
fn a_capacity_is_kept_exactly() {
    // 125 bytes on the wire at 1 Gb/s: one microsecond a frame.
    let settings = Egress {
        capacity_bps: Some(GHZ),
        ..Egress::default()
    };
    let mut egress = PortEgress::new(&layout(&settings), rate(), 1);
    for n in 0..1000 {
        offer(&mut egress, packet(n, 0, 101, 500), 500).unwrap();
    }
    let mut departures = Vec::new();
    for now in (500..).step_by(100).take(20_000) {
        egress.advance(Ticks(now), &mut never);
        departures.extend(take_all(&mut egress).into_iter().map(|n| (n, now)));
    }
    assert_eq!(departures.len(), 1000);
    for (n, now) in departures {
        assert_eq!(now, 500 + 1000 * u64::from(n));
    }
}

#[test]
fn red_drops_early_and_every_packet_is_accounted_for() {
    let red = |probability| contract::config::Red {
        min_packets: 5,
        max_packets: 60,
        probability,
        weight_log2: 4,
    };
    let of_class = |class, red| QueueSettings {
        red,
        ..queue(&[class], QueueService::Weight(1), 100)
    };
    let settings = Egress {
        capacity_bps: Some(GHZ),
        queues: vec![of_class(0, Some(red(0.1))), of_class(1, None)],
        ..Egress::default()
    };
    let mut egress = PortEgress::new(&layout(&settings), rate(), 1);
    // Each class alone brings what the link carries: 1 us a frame.
    let (mut offered, mut dropped, mut left) = ([0u64; 2], [[0u64; 2]; 2], 0);
    for now in (0..20_000_000).step_by(1_000) {
        for class in [0, 1] {
            let refused = offer(&mut egress, packet(0, class, 101, now), now).err();
            offered[usize::from(class)] += 1;
            if let Some(reason) = refused {
                dropped[usize::from(class)][usize::from(reason == DropReason::Red)] += 1;
            }
        }
        egress.advance(Ticks(now), &mut never);
        left += take_all(&mut egress).len() as u64;
    }
    let states: Vec<QueueState> = egress.queues().collect();
    for (class, state) in states.iter().enumerate() {
        let counts = state.counts;
        assert_eq!([counts.full.packets, counts.red.packets], dropped[class]);
        let refused = counts.full.packets + counts.red.packets;
        assert_eq!(offered[class], counts.entered.packets + refused);
        let waiting = state.waiting.packets;
        assert_eq!(counts.entered.packets, counts.left.packets + waiting);
    }
    assert_eq!(
        left,
        states
            .iter()
            .map(|state| state.counts.left.packets)
            .sum::<u64>()
    );
    // Half of each must go: with RED early, at an average under its maximum; without at the tail.
    assert!(states[0].counts.red.packets > 9_000 && states[0].waiting.packets < 80);
    assert!(dropped[1][1] == 0 && states[1].waiting.packets >= 99);
    assert!(states[1].counts.full.packets > 9_000);
}

#[test]
fn a_call_does_a_bounded_amount_of_work() {
    let settings = Egress {
        max_residency_us: Some(10),
        queue_packets: 1000,
        ..Egress::default()
    };
    let mut egress = PortEgress::new(&layout(&settings), rate(), 1);
    for n in 0..(64 + 300) {
        let arrived = if n < 64 + 150 { 0 } else { 100_000 };
        offer(&mut egress, packet(n, 0, 60, arrived), arrived).unwrap();
    }
    take_all(&mut egress);
    let mut calls = Vec::new();
    while !egress.is_empty() {
        let mut expired = 0;
        egress.advance(Ticks(100_000), &mut |_, _| expired += 1);
        calls.push((expired, take_all(&mut egress).len()));
    }
    assert_eq!(calls, [(64, 0), (64, 0), (22, 64), (0, 64), (0, 22)]);
}

#[test]
fn memory_is_that_of_the_layout_and_does_not_grow() {
    let settings = Egress {
        capacity_bps: Some(1000),
        queues: vec![
            queue(&[0, 1], QueueService::Strict, 64),
            queue(&[2, 3, 4, 5, 6, 7], QueueService::Weight(1), 3),
        ],
        ..Egress::default()
    };
    let layout = layout(&settings);
    assert_eq!(layout.size_bytes(), (64 + 8 + 3 + 1) * 40);
    let mut egress = PortEgress::new(&layout, rate(), 1);
    let places: Vec<usize> = egress.queues.iter().map(Queue::items_max).collect();
    for n in 0..1000 {
        let entry = packet(n, u8::try_from(n % 8).unwrap(), 60, 0);
        let _ = egress.offer(n, tag(&entry), Ticks(0));
        egress.offer_reference(reference(&packet(n, entry.class, 0, 0)), Ticks(0));
    }
    assert_eq!(egress.len(), 67);
    assert!(egress.queues.iter().map(Queue::items_max).eq(places));
}

#[test]
fn changes_back_and_forth_do_not_ask_for_ever_more_memory() {
    let one = layout(&Egress::default());
    let eight = layout(&Egress {
        queues: (0..8)
            .map(|n| queue(&[n], QueueService::Strict, 1024))
            .collect(),
        ..Egress::default()
    });
    let mut last = one.clone();
    let mut sizes = Vec::new();
    for n in 0..10 {
        let next = if n % 2 == 0 { &eight } else { &one };
        last = next.clone().to_succeed(&last);
        sizes.push(last.size_bytes());
    }
    assert_eq!(sizes[0], eight.size_bytes());
    assert!(
        sizes.iter().all(|&size| size == eight.size_bytes()),
        "{sizes:?}"
    );
}
