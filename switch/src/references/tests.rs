//! Streams through a scripted queue, against delays that are known.
#![expect(
    clippy::cast_possible_truncation,
    reason = "numbers of small experiments"
)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::{NonZeroU32, NonZeroU64};

use measure::batch::Member;
use measure::flows::Slot;
use measure::packet::{FlowHash, Hashing, PacketHash};
use measure::rli::{Adaptive, Link, Method, Policy};
use measure::shard::{Shard, ShardLayout};
use measure::time::TickRate;
use proptest::prelude::*;

use super::*;
use crate::egress::EgressLayout;
use crate::packet_io::{BURST, Burst, ClassIndex, NO_SEGMENT};

mod idle;
mod layout;
mod properties;

/// A tick is a nanosecond.
const GHZ: u64 = 1_000_000_000;
const EPOCH_NS: u64 = 1_000_000;
const SEGMENTS: u16 = 3;
const SLOTS: u32 = 4_096;
/// Consecutive packets of a flow.
const TRAIN: u64 = 8;
const PORT: PortIndex = PortIndex(1);

fn one_in(packets: u32) -> Policy {
    Policy::Count {
        packets: NonZeroU32::new(packets).unwrap(),
    }
}

/// Streams for all segments, all by one port; the last segment has none.
fn layout(policy: Policy, method: Method) -> ReferencesLayout {
    let stream = |segment| StreamLayout {
        segment: SegmentIndex(segment),
        port: PORT,
        class: ClassIndex(0),
        link: Link::new(8 * GHZ, 0).unwrap(),
        method,
    };
    ReferencesLayout {
        generation: GenerationId(5),
        rate: TickRate::from_hz(GHZ),
        policy,
        buffer_packets: 4_096,
        segments: usize::from(SEGMENTS) + 1,
        keeps_flows: true,
        streams: (0..SEGMENTS).map(stream).collect(),
    }
}

#[derive(Debug, Default)]
struct Shards {
    open: BTreeMap<u8, Shard>,
    sealed: BTreeSet<u8>,
}

impl OpenShards for Shards {
    fn shard(&mut self, EpochTag(epoch): EpochTag) -> Option<&mut Shard> {
        if self.sealed.contains(&epoch) {
            return None;
        }
        Some(self.open.entry(epoch).or_insert_with(|| {
            let mut layout = ShardLayout::new(TickRate::from_hz(GHZ), usize::from(SEGMENTS) + 1);
            layout.flow_slots = SLOTS as usize;
            layout.flow_estimates = true;
            Shard::new(&layout)
        }))
    }

    fn shard_since(&mut self, epoch: EpochTag, _: Ticks) -> Option<&mut Shard> {
        self.shard(epoch)
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Truth {
    packets: u64,
    sum: u64,
}

impl Truth {
    fn add(&mut self, delay: u64) {
        self.packets += 1;
        self.sum += delay;
    }
}

/// A queue between both ends of the streams of a port.
struct Tube {
    references: References,
    queue: VecDeque<Entry>,
    shards: Shards,
    now: u64,
    packets: u64,
    /// Of the packets that departed, by segment; as far as the latest reference, too.
    departed: [Truth; SEGMENTS as usize],
    referenced: [Truth; SEGMENTS as usize],
    /// Estimates are compared with the true delays, by flow.
    flows: Vec<Truth>,
}

#[derive(Debug, Clone, Copy)]
enum Entry {
    Packet(Tag),
    Reference(QueuedReference),
}

fn slot_of(tag: &Tag) -> Slot {
    Slot(tag.flow.0 as u32 % SLOTS)
}

impl Tube {
    fn new(layout: &ReferencesLayout) -> Self {
        Self {
            references: References::new(layout).unwrap(),
            queue: VecDeque::new(),
            shards: Shards::default(),
            now: 10 * EPOCH_NS,
            packets: 0,
            departed: Default::default(),
            referenced: Default::default(),
            flows: vec![Truth::default(); SLOTS as usize],
        }
    }

    fn epoch(&self) -> EpochTag {
        EpochTag((self.now / EPOCH_NS) as u8)
    }

    fn tag(&mut self, segment: SegmentIndex) -> Tag {
        self.packets += 1;
        Tag {
            flow: FlowHash(self.packets / TRAIN),
            packet: PacketHash(self.packets.wrapping_mul(0x2545_f491_4f6c_dd1d)),
            arrived: Ticks(self.now),
            len_bytes: 100,
            segment,
            epoch: self.epoch(),
            class: ClassIndex(0),
        }
    }

    /// A burst arrives; where in it references are due.
    fn arrive(&mut self, segments: impl IntoIterator<Item = u16>) -> Vec<usize> {
        let tags: Vec<_> = segments
            .into_iter()
            .map(|segment| self.tag(SegmentIndex(segment)))
            .collect();
        let mut due = Due::new();
        self.references.queued(&tags, &mut due);
        let places = due.iter().map(|(before, _)| *before).collect();
        let mut due = due.into_iter().peekable();
        for (n, tag) in tags.iter().enumerate() {
            while let Some((_, reference)) = due.next_if(|(before, _)| *before <= n) {
                self.queue.push_back(Entry::Reference(reference));
            }
            self.queue.push_back(Entry::Packet(*tag));
        }
        self.queue
            .extend(due.map(|(_, reference)| Entry::Reference(reference)));
        places
    }

    /// This number of packets depart, a burst at a time, and all references that need not wait.
    fn depart(&mut self, packets: usize) {
        let mut left = packets;
        loop {
            let burst = self.depart_burst(left.min(BURST));
            left -= burst;
            if burst < BURST {
                return;
            }
        }
    }

    fn depart_burst(&mut self, packets: usize) -> usize {
        let (mut references, mut departing) = (Vec::new(), Departing::default());
        departing.begin(Hashing::Flow);
        while let Some(entry) = self.queue.front() {
            let gone = departing.members.len();
            match *entry {
                Entry::Packet(_) if gone == packets => break,
                Entry::Packet(tag) => {
                    let delay = self.now - tag.arrived.0;
                    if tag.segment.0 < SEGMENTS {
                        self.departed[usize::from(tag.segment.0)].add(delay);
                        self.flows[slot_of(&tag).0 as usize].add(delay);
                    }
                    departing.push(Batch {
                        packets: 1,
                        bytes: tag.len_bytes.into(),
                        arrived: tag.arrived,
                        delay,
                        segment: tag.segment,
                        epoch: tag.epoch,
                    });
                    let member = Member {
                        flow: tag.flow,
                        packet: tag.packet,
                        bytes: tag.len_bytes,
                    };
                    departing.members.append::<false>(std::iter::once(member));
                    let (_, slots) = departing.members.slots_mut(gone..gone + 1);
                    slots[0] = slot_of(&tag);
                }
                Entry::Reference(reference) => {
                    references.push((gone, reference));
                    let segment = usize::from(reference.segment.0);
                    self.referenced[segment] = self.departed[segment];
                }
            }
            self.queue.pop_front();
        }
        let gone = departing.members.len();
        // A reference behind a packet that stays.
        references.extend(references.last().map(|&(_, last)| (gone + 1, last)));
        self.references.departed(
            PORT,
            &departing,
            &references,
            Ticks(self.now),
            |_| true,
            &mut self.shards,
        );
        gone
    }

    fn overdue(&mut self) -> usize {
        let (epoch, mut overdue) = (self.epoch(), 0);
        self.references
            .overdue(Ticks(self.now), epoch, &mut |port, reference| {
                assert_eq!(port, PORT);
                self.queue.push_back(Entry::Reference(reference));
                overdue += 1;
            });
        overdue
    }

    /// An epoch takes no more packets.
    fn seal(&mut self, epoch: u8) {
        self.references.sealing(EpochTag(epoch), &mut self.shards);
        self.shards.sealed.insert(epoch);
    }

    /// All queued packets depart, and every epoch is sealed.
    fn finish(&mut self) {
        self.depart(usize::MAX);
        for epoch in 10..=self.epoch().0 {
            self.seal(epoch);
        }
    }

    /// Packets with an estimate, and the sum of these.
    fn estimated(&self) -> (u64, f64) {
        let slots = (0..SLOTS).map(Slot);
        let all = slots.flat_map(|slot| self.shards.open.values().map(move |shard| (shard, slot)));
        all.fold((0, 0.0), |(packets, sum), (shard, slot)| {
            let flow = shard.flows().unwrap().estimates(slot).unwrap();
            (packets + flow.packets(), sum + flow.delay().sum_ns())
        })
    }

    /// Packets that a segment's mean speaks for over all epochs, those of exact intervals, and the
    /// sum of their delays.
    fn mean_of(&self, segment: u16) -> (u64, u64, f64) {
        let means = self.shards.open.values();
        means.fold((0, 0, 0.0), |(packets, exact, sum), shard| {
            let rli = shard.segment(SegmentIndex(segment)).unwrap().rli;
            (
                packets + rli.packets(),
                exact + rli.exact_packets(),
                sum + rli.sum_ns(),
            )
        })
    }
}

#[test]
fn references_go_where_the_policy_wants_them() {
    let mut tube = Tube::new(&layout(one_in(4), Method::Sums));
    // Before the first of an epoch, and behind every fourth of a stream.
    assert_eq!(tube.arrive([0; 10]), [0, 4, 8]);
    assert_eq!(tube.arrive([0, 1, 1, 0, 1, 1, 1]), [1, 4, 6]);
    tube.now += EPOCH_NS;
    assert_eq!(tube.arrive([0, 0, 1, 0, 0]), [0, 2, 5]);
    // None if there is no stream.
    assert!(tube.arrive([SEGMENTS; 20]).is_empty());
    assert!(tube.arrive([NO_SEGMENT.0; 20]).is_empty());
    tube.finish();
    assert_eq!(tube.estimated().0, 22);
}

#[test]
fn a_burst_brings_a_bounded_number() {
    let mut tube = Tube::new(&layout(one_in(1), Method::Linear));
    assert_eq!(tube.arrive([0; 64]).len(), DUE_MAX);
    // The last of them are made up for.
    assert_eq!(tube.arrive([0]), [1]);
    tube.now += 100;
    tube.finish();
    assert_eq!(tube.estimated(), (65, 6_500.0));
    assert_eq!(tube.mean_of(0), (65, 65, 6_500.0));
}

#[test]
fn references_of_another_configuration_say_nothing() {
    let mut old = Tube::new(&layout(one_in(4), Method::Sums));
    old.arrive([0; 10]);
    let mut tube = Tube::new(&ReferencesLayout {
        generation: GenerationId(6),
        ..layout(one_in(4), Method::Sums)
    });
    tube.queue = std::mem::take(&mut old.queue);
    tube.now += 100;
    tube.arrive([0; 4]);
    tube.now += 100;
    tube.finish();
    assert_eq!(tube.references.counters().received, 2);
    assert_eq!(tube.mean_of(0), (4, 4, 400.0));
    assert_eq!(tube.estimated().0, 4);
}

#[test]
fn a_long_queue_holds_a_bounded_number() {
    let mut tube = Tube::new(&layout(one_in(1), Method::Sums));
    for _ in 0..200 {
        tube.now += 1_000;
        tube.arrive([0]);
    }
    let counters = tube.references.counters();
    assert_eq!((counters.injected, counters.left_out), (64, 137));
    tube.depart(usize::MAX);
    assert_eq!(tube.arrive([0]), [1]);
    tube.finish();
    assert_eq!(tube.mean_of(0).0, 201);
    assert_eq!(tube.estimated().0, 201);
}

#[test]
fn references_that_never_come_are_given_up() {
    let mut tube = Tube::new(&layout(one_in(1), Method::Sums));
    for _ in 0..100 {
        tube.arrive([0]);
    }
    tube.queue.clear();
    tube.now += 500_000_000;
    assert!(tube.arrive([0]).is_empty());
    tube.now += 600_000_000;
    // One opens the epoch.
    assert_eq!(tube.arrive([0, 0]), [0, 1, 2]);
    tube.depart(3);
    assert_eq!(tube.references.counters().received, 3);
}

#[test]
fn streams_that_fall_silent_get_their_reference() {
    let mut tube = Tube::new(&layout(one_in(100), Method::Linear));
    tube.arrive([0, 0, 1]);
    tube.overdue();
    tube.now += EPOCH_NS / 2;
    assert_eq!(tube.overdue(), 0, "the count is not reached");
    tube.now += EPOCH_NS / 2;
    assert_eq!(tube.overdue(), 2, "but the epoch is over");
    tube.now += 1_000;
    assert_eq!(tube.overdue(), 0);
    tube.finish();
    let mean = tube.shards.open[&10].segment(SegmentIndex(0)).unwrap().rli;
    assert_eq!((mean.packets(), mean.exact_packets()), (2, 2));
    assert_eq!(mean.mean_ns(), Some(EPOCH_NS as f64 + 1_000.0));
    assert_eq!(tube.references.counters().late_estimates, 0);
}

#[test]
fn a_quiet_link_keeps_its_references() {
    let policy = Policy::Time {
        interval_ns: NonZeroU64::new(100_000).unwrap(),
    };
    let mut tube = Tube::new(&layout(policy, Method::Linear));
    tube.overdue();
    assert_eq!(tube.arrive([0]), [0]);
    let mut overdue = 0;
    for _ in 0..40 {
        tube.now += 10_000;
        overdue += tube.overdue();
    }
    // None where nothing came since.
    assert_eq!(overdue, 1);
}

#[test]
fn a_sweep_is_bounded() {
    let mut many = layout(one_in(100), Method::Left);
    many.segments = 100;
    many.streams = (0..100)
        .map(|segment| StreamLayout {
            segment: SegmentIndex(segment),
            ..many.streams[0]
        })
        .collect();
    let mut tube = Tube::new(&many);
    for segment in 0..100 {
        tube.arrive([segment]);
    }
    tube.now += EPOCH_NS;
    let sweeps: Vec<_> = (0..5).map(|_| tube.overdue()).collect();
    assert_eq!(sweeps, [32, 32, 32, 4, 0]);
}

#[test]
fn queues_take_references_among_packets() {
    let config = contract::config::Egress::default();
    let layout_of = EgressLayout::from_config(&config, 1_500, &[]);
    let mut egress: PortEgress<u32> = PortEgress::new(&layout_of, TickRate::from_hz(GHZ), 1);
    let mut tube = Tube::new(&layout(one_in(4), Method::Sums));
    let mut packets: Burst<u32> = (0..10).collect();
    let tags = (0..10).map(|_| tube.tag(SegmentIndex(0)));
    assert!(egress.offer_all(&mut packets, |_, all| all.extend(tags)));
    tube.references.joined(&mut egress, 0);
    for n in 10..16 {
        let tag = tube.tag(SegmentIndex(1));
        assert!(
            tube.references
                .offer(&mut egress, n, tag, Ticks(tube.now))
                .is_ok()
        );
    }
    let places: Vec<_> = egress
        .references
        .iter()
        .map(|(before, _)| *before)
        .collect();
    assert_eq!(places, [0, 4, 8, 10, 14]);
    assert_eq!(egress.head.len(), 16);
}
