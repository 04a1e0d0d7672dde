use super::*;
use crate::estimate::tests::rate;
use contract::handover::{ControlEnd, FlowCommand, NewFlow, WorkerEnd, handover};
use measure::flows::{FlowId, FlowTable, Slot};
use measure::lds::LdsLayout;
use measure::observation::{Observation, SegmentIndex};
use measure::packet::{FiveTuple, FlowHash};
use measure::shard::{Shard, ShardLayout};
use measure::synopsis::Synopsis;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

const ALL: Upkeep = Upkeep {
    idle_epochs: 2,
    keeps_top: false,
};

fn key(n: u64) -> FlowKey {
    FlowKey::Ethernet {
        source: [2; 6],
        destination: [4; 6],
        vlan: 0,
        ethertype: u16::try_from(n).unwrap(),
    }
}

/// A worker as the directory meets it: real table, real slots, real handover. Two shards are open,
/// as in the switch.
struct Worker {
    end: WorkerEnd,
    flows: FlowTable,
    open: VecDeque<Box<Shard>>,
    epoch: u64,
}

/// A worker, and the control core's state for it.
struct Pair {
    worker: Worker,
    end: ControlEnd,
    table: SlotTable,
    /// Sums of everything that was read.
    sum: Shard,
    /// All packets, as if no flow were tracked.
    packets: Shard,
}

impl Pair {
    fn new(slots: usize, upkeep: Upkeep) -> Self {
        let layout = ShardLayout {
            flow_slots: slots,
            flow_estimates: true,
            lds: Some(LdsLayout::new(5, 1, &[1.0; 2]).unwrap()),
            ..ShardLayout::new(rate(), 1)
        };
        let (mut end, control) = handover(&layout);
        let open = VecDeque::from([end.take_empty().unwrap()]);
        let sum = Shard::new(&layout.without_flows());
        Self {
            worker: Worker {
                end,
                flows: FlowTable::new(slots),
                open,
                epoch: 0,
            },
            end: control,
            table: SlotTable::new(slots, upkeep),
            sum: sum.clone(),
            packets: sum,
        }
    }

    /// A packet of flow `n` passes with that delay; whether it is tracked. It counts in the present
    /// epoch, or the one before while that is open.
    fn packet(&mut self, n: u64, delay: u64, in_previous: bool) -> bool {
        let Worker {
            end, flows, open, ..
        } = &mut self.worker;
        let observation = Observation {
            flow: FlowHash(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            packet: measure::packet::PacketHash(n),
            time: delay,
            delay,
            bytes: 100,
            segment: SegmentIndex(0),
            epoch: measure::time::EpochTag(0),
        };
        let mut slots = [Slot::OTHER];
        flows.look_up(
            std::iter::once(FlowId::of(&observation)),
            &mut slots,
            |_| true,
            |new| {
                end.report_flow(NewFlow {
                    id: new.id,
                    slot: new.slot,
                    segment: SegmentIndex(0),
                    key: key(n),
                })
            },
        );
        let index = open.len() - 1 - usize::from(in_previous && open.len() > 1);
        open[index].passed_one(&observation, slots[0]);
        self.packets.passed_one(&observation, Slot::OTHER);
        slots[0] != Slot::OTHER
    }

    /// The worker's next epoch begins, the one before the last is sealed, and some commands are applied.
    fn rollover(&mut self, commands: usize) {
        let worker = &mut self.worker;
        let next = worker.end.take_empty().unwrap();
        worker.open.push_back(next);
        worker.epoch += 1;
        if worker.open.len() > 2 {
            let shard = worker.open.pop_front().unwrap();
            worker.end.give_sealed(shard.seal(Epoch(worker.epoch - 2)));
        }
        for _ in 0..commands {
            match worker.end.next_command() {
                Some(FlowCommand::Forget(id)) => assert!(worker.flows.forget(id).is_some()),
                Some(FlowCommand::Give(slot)) => assert!(worker.flows.give(slot)),
                None => break,
            }
        }
    }

    /// The control core's actions at a poll.
    fn poll(&mut self, directory: &mut Directory) {
        loop {
            let sealed = self.end.take_sealed();
            while let Some(new) = self.end.next_report() {
                self.table
                    .report(directory, &new, 0, Epoch(self.worker.epoch));
            }
            let Some(mut sealed) = sealed else { break };
            self.table
                .read(directory, sealed.epoch(), sealed.flows().unwrap());
            self.sum
                .merge(&sealed.complete(self.table.flows()))
                .unwrap();
            self.table.settle(directory, sealed.commands_before);
            self.end.give_back(sealed, []);
        }
        self.table.command(&mut self.end);
    }
}

fn packets_of(directory: &Directory) -> BTreeMap<FlowKey, u64> {
    let flows = directory.iter();
    flows.map(|flow| (flow.key, flow.total.packets)).collect()
}

#[test]
fn what_is_counted_for_a_flow_is_exact_over_epochs_and_workers() {
    let mut directory = Directory::default();
    let mut pairs = [Pair::new(16, ALL), Pair::new(16, ALL)];
    for epoch in 0..4 {
        for (n, pair) in (0..).zip(&mut pairs) {
            for delay in 1..=10 {
                assert!(pair.packet(7, delay + n, false));
            }
            assert!(pair.packet(8 + n, 5, false));
            pair.rollover(16);
            pair.poll(&mut directory);
        }
        assert_eq!(directory.len(), 3, "epoch {epoch}");
    }
    let flow = directory.iter().find(|flow| flow.key == key(7)).unwrap();
    // Epochs 0 to 2 are sealed.
    let delays: Vec<u128> = (1..=10).chain(2..=11).collect();
    assert_eq!((flow.total.packets, flow.total.bytes), (60, 6_000));
    assert_eq!(flow.total.sum_ticks, 3 * delays.iter().sum::<u128>());
    let squares = delays.iter().map(|delay| delay * delay).sum::<u128>();
    assert_eq!(flow.total.sum_of_squares_ticks2, 3 * squares);
    assert_eq!((flow.first, flow.last), (Epoch(0), Epoch(2)));
    assert_eq!(flow.recent.packets, 20);
    assert!((flow.total.mean_ticks().unwrap() - 6.0).abs() < 1e-12);
    let deviation = (squares as f64 / 20.0 - 36.0).sqrt();
    assert!((flow.total.stddev_ticks().unwrap() - deviation).abs() < 1e-12);
    assert_eq!(flow.total_references.mean_ns(), None);
    assert_eq!(directory.comings().new, 3);
}

#[test]
fn idle_flows_give_their_slots_back_and_are_new_when_they_return() {
    let (mut directory, mut pair) = (Directory::default(), Pair::new(4, ALL));
    for n in 0..4 {
        assert!(pair.packet(n, 1, false));
    }
    assert!(!pair.packet(9, 1, false), "no slot is free");
    for _ in 0..12 {
        assert!(pair.packet(0, 1, false), "flow 0 still has packets");
        pair.rollover(16);
        pair.poll(&mut directory);
    }
    assert_eq!(packets_of(&directory).len(), 1);
    assert_eq!(directory.comings().expired, 3);
    assert_eq!(pair.worker.flows.free_slots(), 3);
    assert!(pair.packet(9, 1, false) && pair.packet(1, 1, false));
    pair.rollover(16);
    pair.poll(&mut directory);
    assert_eq!(directory.comings().new, 6);
    assert_eq!(directory.len(), 3);
}

#[test]
fn the_smallest_make_room_for_others() {
    let top = Upkeep {
        idle_epochs: 100,
        keeps_top: true,
    };
    let (mut directory, mut pair) = (Directory::default(), Pair::new(64, top));
    let mut mouse = 100;
    for _ in 0..30 {
        // Eight elephants, and mice that never come again.
        for n in 0..8 {
            for _ in 0..50 {
                pair.packet(n, 1, false);
            }
        }
        for _ in 0..3 {
            mouse += 1;
            pair.packet(mouse, 1, false);
        }
        pair.rollover(64);
        pair.poll(&mut directory);
    }
    let packets = packets_of(&directory);
    for n in 0..8 {
        assert_eq!(packets.get(&key(n)), Some(&(29 * 50)), "elephant {n}");
    }
    assert!(directory.comings().evicted > 20);
    // The first mice fill the table before any elephant is known.
    let untracked = pair.worker.flows.untracked().without_free_slot;
    assert!(untracked < 9, "{untracked} of 90 mice");
}

#[test]
fn a_generation_s_end_forgets_flows_that_no_other_has() {
    let mut directory = Directory::default();
    let (mut old, mut new) = (Pair::new(8, ALL), Pair::new(8, ALL));
    for n in 0..4 {
        old.packet(n, 1, false);
    }
    new.packet(2, 1, false);
    old.poll(&mut directory);
    new.poll(&mut directory);
    assert_eq!(directory.len(), 4);
    old.table.end(&mut directory);
    assert_eq!(
        packets_of(&directory).keys().copied().collect::<Vec<_>>(),
        [key(2)]
    );
    new.table.end(&mut directory);
    assert_eq!((directory.len(), directory.comings().expired), (0, 4));
}

#[test]
fn a_report_in_a_slot_that_is_taken_or_not_there_is_refused() {
    let (mut directory, mut table) = (Directory::default(), SlotTable::new(2, ALL));
    let report = |slot, n| NewFlow {
        id: FlowId::new(FlowHash(n), SegmentIndex(0)),
        slot: Slot(slot),
        segment: SegmentIndex(0),
        key: key(n),
    };
    for (slot, n) in [(1, 5), (1, 6), (2, 7), (u32::MAX, 8)] {
        table.report(&mut directory, &report(slot, n), 0, Epoch(0));
    }
    assert_eq!(
        packets_of(&directory).keys().copied().collect::<Vec<_>>(),
        [key(5)]
    );
}

#[derive(Debug, Clone)]
enum Step {
    Packet { flow: u64, delay: u64, late: bool },
    Turn { commands: usize },
    Poll,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..12u64, 0..1_000u64, any::<bool>())
            .prop_map(|(flow, delay, late)| Step::Packet { flow, delay, late }),
        2 => (0..8usize).prop_map(|commands| Step::Turn { commands }),
        1 => Just(Step::Poll),
    ]
}

proptest! {
    /// In any order of packets, rollovers, commands and polls: no packet is ever counted for another flow, only packets
    /// of removed flows are missing, and the sketch is the same as if it had recorded the packets one by one.
    #[test]
    fn slots_never_mix_flows(
        slots in 1..8usize,
        keeps_top in any::<bool>(),
        steps in prop::collection::vec(step(), 1..400),
    ) {
        let upkeep = Upkeep { idle_epochs: 1, keeps_top };
        let (mut directory, mut pair) = (Directory::default(), Pair::new(slots, upkeep));
        // Each flow's delays are multiples of its own number.
        let delay_of = |flow: u64, delay: u64| 12 * delay + flow;
        let mut tracked: BTreeMap<FlowKey, u64> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Packet { flow, delay, late } => {
                    if pair.packet(flow, delay_of(flow, delay), late) {
                        *tracked.entry(key(flow)).or_default() += 1;
                    }
                }
                Step::Turn { commands } => {
                    // A worker without an empty shard would only miss epochs.
                    pair.poll(&mut directory);
                    pair.rollover(commands);
                }
                Step::Poll => pair.poll(&mut directory),
            }
            prop_assert!(directory.len() <= slots);
        }
        for flow in directory.iter() {
            let FlowKey::Ethernet { ethertype, .. } = flow.key else { unreachable!() };
            let rest = flow.total.packets * u64::from(ethertype) % 12;
            prop_assert_eq!(
                u64::try_from(flow.total.sum_ticks % 12).unwrap(), rest,
                "a packet of another flow was counted"
            );
            prop_assert!(flow.total.packets <= tracked[&flow.key]);
        }
        for _ in 0..3 {
            pair.poll(&mut directory);
            pair.rollover(0);
        }
        pair.poll(&mut directory);
        prop_assert_eq!(&pair.sum, &pair.packets);
        // Without eviction or idling nothing is missing.
        let comings = directory.comings();
        if comings.expired + comings.evicted == 0 {
            prop_assert_eq!(packets_of(&directory), tracked);
        }
    }
}

fn flow_of(n: u8) -> FlowKey {
    FlowKey::Ip(FiveTuple {
        source: [10, 0, 0, n].into(),
        destination: [10, 0, 1, 1].into(),
        source_port: 7,
        destination_port: 80,
        protocol: 17,
    })
}

fn top_settings(flows_max: usize, hold_epochs: u64) -> TopSettings {
    TopSettings {
        flows_max,
        hold_epochs,
        pinned: Vec::new(),
    }
}

/// `packets` packets that took `delay` ticks each.
fn flow_sums(packets: u64, delay: u64) -> FlowSums {
    FlowSums {
        packets,
        bytes: 100 * packets,
        lost: packets / 10,
        sum_ticks: (packets * delay).into(),
        sum_of_squares_ticks2: (packets * delay * delay).into(),
    }
}

/// A directory, fed without workers.
struct Bench {
    directory: Directory,
    numbers: Vec<FlowNumber>,
}

impl Bench {
    /// With flows 0 to `flows`, on segment 0 or 1 by their parity.
    fn new(flows: u8, settings: TopSettings) -> Self {
        let mut directory = Directory::default();
        directory.set_top(settings);
        let numbers = (0..flows).map(|n| directory.link(flow_of(n), u32::from(n % 2), Epoch(0)));
        Self {
            numbers: numbers.collect(),
            directory,
        }
    }

    /// An epoch in which each flow has this number of packets with this delay, and other flows have no slots.
    fn epoch(&mut self, epoch: u64, flows: &[(u64, u64)], untracked: u64) {
        let Self { directory, numbers } = self;
        for segment in 0..2 {
            let mut all = flow_sums(untracked, 3);
            for (n, &(packets, delay)) in flows.iter().enumerate() {
                if n % 2 == segment {
                    all.add(&flow_sums(packets, delay));
                }
            }
            directory.add_segment(u32::try_from(segment).unwrap(), &all);
        }
        for (&number, &(packets, delay)) in numbers.iter().zip(flows) {
            let flow = &mut directory.flows[number.0 as usize];
            let sums = flow_sums(packets, delay);
            flow.add(Epoch(epoch), &sums, None);
            let mut delays = SmallHistogram::default();
            delays.add(delay, packets.try_into().unwrap());
            let is_kept = directory.top.named.contains(&number);
            let delays = is_kept.then_some(&delays);
            let of = (flow.key, flow.segment);
            directory.top.credit(of, Epoch(epoch), &sums, delays);
        }
        directory.close(Epoch(epoch), rate(), 1_000);
    }

    fn held(&self) -> Vec<(FlowKey, Reason)> {
        let mut held: Vec<_> = self
            .directory
            .top
            .iter()
            .map(|held| (held.flow.key, held.reason))
            .collect();
        held.sort_unstable_by_key(|(key, _)| *key);
        held
    }
}

#[test]
fn the_largest_and_the_slowest_share_the_series() {
    let mut bench = Bench::new(5, top_settings(3, 10));
    // Flow 4 is the slowest, but has too few packets to count as such.
    let flows = [(50, 5), (900, 5), (20, 70), (800, 6), (2, 900)];
    bench.epoch(0, &flows, 0);
    let expected = [
        (flow_of(1), Reason::Packets),
        (flow_of(2), Reason::Delay),
        (flow_of(3), Reason::Packets),
    ];
    assert_eq!(bench.held(), expected);
    assert_eq!(bench.directory.top.folded(), 5, "no flow had series before");
    bench.epoch(1, &flows, 0);
    assert_eq!(bench.directory.top.folded(), 5 + 2);
}

#[test]
fn pinned_flows_come_first() {
    let mut pinned = top_settings(2, 10);
    pinned.pinned.push(FlowRule {
        source: Some("10.0.0.4/31".parse().unwrap()),
        ..FlowRule::default()
    });
    let mut bench = Bench::new(6, pinned);
    bench.epoch(
        0,
        &[(1_000, 1), (900, 1), (800, 1), (700, 1), (1, 1), (0, 0)],
        0,
    );
    let expected = [(flow_of(0), Reason::Packets), (flow_of(4), Reason::Pinned)];
    assert_eq!(bench.held(), expected, "flow 5 had no packets");
}

#[test]
fn series_are_kept_for_a_while_and_given_up_when_others_are_greater() {
    let mut bench = Bench::new(2, top_settings(1, 3));
    bench.epoch(0, &[(10, 1), (5, 1)], 0);
    for epoch in 1..4 {
        bench.epoch(epoch, &[(1, 1), (500, 1)], 0);
        assert_eq!(
            bench.held(),
            [(flow_of(0), Reason::Packets)],
            "epoch {epoch}"
        );
    }
    bench.epoch(4, &[(1, 1), (500, 1)], 0);
    assert_eq!(bench.held(), [(flow_of(1), Reason::Packets)]);
    // Greater flows keep their series for as long as they are.
    for epoch in 5..20 {
        bench.epoch(epoch, &[(1, 1), (500, 1)], 0);
        assert_eq!(bench.held().len(), 1);
    }
    let held = bench.directory.top.iter().next().unwrap();
    assert_eq!((held.since, held.credited.packets), (Epoch(5), 15 * 500));
    let course = &held.history.courses(0.0)[0];
    assert_eq!(course.buckets.last().unwrap().packets, 500);
}

#[test]
fn fewer_series_are_kept_once_they_need_not_be_held() {
    let mut bench = Bench::new(4, top_settings(4, 2));
    let flows = [(40, 1), (30, 1), (20, 1), (10, 1)];
    bench.epoch(0, &flows, 0);
    assert_eq!(bench.held().len(), 4);
    bench.directory.set_top(top_settings(1, 2));
    bench.epoch(1, &flows, 0);
    bench.epoch(2, &flows, 0);
    bench.epoch(3, &flows, 0);
    assert_eq!(bench.held(), [(flow_of(0), Reason::Packets)]);
    bench.directory.set_top(top_settings(0, 2));
    bench.epoch(6, &flows, 0);
    assert_eq!(bench.held(), []);
}

#[test]
fn percentiles_are_those_of_epochs_whose_packets_are_all_in_histograms() {
    let mut bench = Bench::new(2, top_settings(1, 10));
    let quantiles = |bench: &Bench| {
        let held = bench.directory.top.iter().next().unwrap();
        held.quantiles
            .map(|quantiles| (quantiles.p99_ns, quantiles.max_ns))
    };
    bench.epoch(0, &[(900, 64), (2, 64)], 0);
    assert_eq!(quantiles(&bench), None, "chosen at the end of the epoch");
    bench.epoch(1, &[(900, 64), (2, 64)], 0);
    // The middle of a bucket, and the exact maximum.
    assert_eq!(quantiles(&bench), Some((60.0, Some(64.0))));
    // One of two workers has no histogram yet.
    let held = bench.directory.top.iter().next().unwrap();
    let of = (held.flow.key, held.flow.segment);
    bench
        .directory
        .top
        .credit(of, Epoch(2), &flow_sums(5, 64), None);
    assert!(quantiles(&bench).is_some(), "until that epoch closes");
    bench.epoch(2, &[(900, 64), (2, 64)], 0);
    let number = bench.numbers[0];
    bench.directory.flows[number.0 as usize].recent.packets += 5;
    bench.directory.close(Epoch(2), rate(), 1_000);
    assert_eq!(quantiles(&bench), None);
    // No packets in this epoch; those of its last epoch do not count either.
    bench.epoch(3, &[(0, 64), (2, 64)], 0);
    assert_eq!(quantiles(&bench), None);
    assert_eq!(bench.directory.top.quantiles(of.0, of.1), None);
}

proptest! {
    #[test]
    fn every_packet_is_credited_once_and_sums_only_rise(
        flows_max in 0_usize..4,
        hold in 1_u64..4,
        epochs in prop::collection::vec(
            (prop::collection::vec((0_u64..50, 1_u64..9), 6), 0_u64..20), 1..12),
    ) {
        let mut bench = Bench::new(6, top_settings(flows_max, hold));
        let mut all = FlowSums::default();
        // By flow: credits in series that it has lost since.
        let mut before: HashMap<(FlowKey, u32), FlowSums> = HashMap::new();
        let mut given_up = FlowSums::default();
        let mut other_before: HashMap<u32, FlowSums> = HashMap::new();
        for (epoch, (flows, untracked)) in (0..).zip(&epochs) {
            for &(packets, delay) in flows {
                all.add(&flow_sums(packets, delay));
            }
            all.add(&flow_sums(*untracked, 3));
            all.add(&flow_sums(*untracked, 3));
            let credits: HashMap<_, _> = bench.directory.top.iter()
                .map(|held| ((held.flow.key, held.flow.segment), held.credited)).collect();
            bench.epoch(epoch, flows, *untracked);
            let now: HashMap<_, _> = bench.directory.top.iter()
                .map(|held| ((held.flow.key, held.flow.segment), held.credited)).collect();
            for (flow, credited) in &credits {
                if let Some(now) = now.get(flow) {
                    prop_assert!(now.packets >= credited.packets);
                    continue;
                }
                // Credited with this epoch before it lost its series.
                let number = usize::from(match flow.0 {
                    FlowKey::Ip(FiveTuple {
                        source: IpAddr::V4(source),
                        ..
                    }) => source.octets()[3],
                    _ => 0,
                });
                let (packets, delay) = flows[number];
                given_up.add(credited);
                given_up.add(&flow_sums(packets, delay));
            }
            before.clone_from(&now);
            let mut credited = given_up;
            for sums in before.values() {
                credited.add(sums);
            }
            for (segment, sums) in bench.directory.top.other() {
                let other = other_before.insert(segment, sums).unwrap_or_default();
                prop_assert!(sums.packets >= other.packets && sums.lost >= other.lost);
                prop_assert!(sums.sum_ticks >= other.sum_ticks);
                credited.add(&sums);
            }
            prop_assert_eq!(credited, all);
            prop_assert!(bench.directory.top.iter().count() <= flows_max);
        }
    }
}
