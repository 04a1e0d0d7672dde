use std::collections::VecDeque;

use contract::config::{Class, Egress, Queue as QueueSettings, QueueService};
use contract::counters::DropReason;
use contract::ids::GenerationId;
use measure::packet::{FlowHash, PacketHash};
use measure::time::EpochTag;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::packet_io::NO_SEGMENT;
use model::{Entry, Model};

mod model;
mod properties;

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
    // Each class alone offers the rate of the link: a frame per microsecond.
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

#[test]
fn strict_queues_go_first_in_their_order() {
    use QueueService::{Strict, Weight};
    let mut scheduler = Scheduler::new([Weight(1), Strict, Weight(2), Strict]);
    assert_eq!(scheduler.choose(0b1111, |_| 100), Some(1));
    assert_eq!(scheduler.choose(0b1101, |_| 100), Some(3));
    assert_eq!(scheduler.choose(0b0100, |_| 100), Some(2));
    assert_eq!(scheduler.choose(0, |_| 100), None);
}

#[test]
fn a_queue_that_emptied_has_saved_nothing() {
    use QueueService::Weight;
    let mut scheduler = Scheduler::new([Weight(1000), Weight(1)]);
    assert_eq!(scheduler.choose(0b01, |_| 100), Some(0));
    scheduler.charge(0, 100);
    scheduler.emptied(0);
    assert_eq!(
        scheduler.choose(0b11, |_| 100),
        Some(1),
        "the turn has passed on with the deficit"
    );
}

proptest! {
    /// Shreedhar and Varghese, lemma 2 and theorem 1: over any time in which queues do not run dry,
    /// m rounds give each m quanta, less what is left of its deficit (under the longest frame).
    #[test]
    fn shares_are_within_a_quantum_and_a_frame_of_the_ideal(
        weights in vec(1..20u16, 2..=8),
        frames in vec(64..9_046u32, 100..3_000),
        from in 0..100usize,
    ) {
        let n = weights.len();
        let mut scheduler = Scheduler::new(weights.iter().map(|&w| QueueService::Weight(w)));
        let waiting = u8::try_from((1u32 << n) - 1).unwrap();
        let mut fronts = [0u32; QUEUES_MAX];
        let mut frames = frames.into_iter().cycle().take(4_000);
        for front in &mut fronts {
            *front = frames.next().unwrap();
        }
        let mut sent = vec![0f64; n];
        for (step, next) in frames.enumerate() {
            if step == from {
                sent.fill(0.0);
            }
            let queue = scheduler.choose(waiting, |queue| fronts[queue]).unwrap();
            scheduler.charge(queue, fronts[queue]);
            sent[queue] += f64::from(fronts[queue]);
            fronts[queue] = next;

            let (total, weight_sum) = (sent.iter().sum::<f64>(), weights.iter().sum::<u16>());
            for (queue, &weight) in weights.iter().enumerate() {
                let share = f64::from(weight) / f64::from(weight_sum);
                let quantum = f64::from(weight) * f64::from(QUANTUM_BYTES);
                let off = (sent[queue] - share * total).abs();
                // A window that begins anywhere has two ends; with others' frames, in proportion.
                let frames = 1.0f64.max((n - 1) as f64 * share);
                let ends = if step >= from && from > 0 { 2.0 } else { 1.0 };
                prop_assert!(off <= ends * (quantum + frames * 9_046.0), "{queue}: {off}");
            }
        }
    }
}
