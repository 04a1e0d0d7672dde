use super::*;
use crate::estimate::tests::rate;
use contract::handover::{ControlEnd, FlowCommand, NewFlow, WorkerEnd, handover};
use measure::flows::{FlowId, FlowTable, Slot};
use measure::lds::LdsLayout;
use measure::observation::{Observation, SegmentIndex};
use measure::packet::FlowHash;
use measure::shard::{Shard, ShardLayout};
use measure::synopsis::Synopsis;
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

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

/// A worker and what the control core keeps of it.
struct Pair {
    worker: Worker,
    end: ControlEnd,
    table: SlotTable,
    /// All that was read, added up.
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
                Some(FlowCommand::Give(slot)) => worker.flows.give(slot).unwrap(),
                None => break,
            }
        }
    }

    /// What the control core does at a poll.
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
            self.table.settle(directory, sealed.commands_before());
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
    /// In any order of packets, rollovers, commands and polls: no packet is ever counted for
    /// another flow, what a flow lost by being forgotten is all that is missing, and the sketch has
    /// each packet as if it had recorded them one by one.
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
