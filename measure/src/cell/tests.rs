use proptest::prelude::*;

use super::*;
use crate::observation::SegmentIndex;
use crate::packet::FlowHash;
use crate::time::EpochTag;

/// What is known of a packet.
#[derive(Debug, Clone, Copy)]
enum Fate {
    /// As it left.
    Passed,
    /// At both ends, one by one.
    SeenTwice,
    /// At the sender's end, in another shard than at the receiver's.
    SeenApart,
    Lost,
}

#[derive(Debug, Clone, Copy)]
struct Packet {
    observation: Observation,
    weight: u32,
    fate: Fate,
}

fn packets() -> impl Strategy<Value = Vec<Packet>> {
    let fate = prop_oneof![
        5 => Just(Fate::Passed),
        2 => Just(Fate::SeenTwice),
        2 => Just(Fate::SeenApart),
        1 => Just(Fate::Lost),
    ];
    let weight = prop_oneof![Just(1_u32), 1..=65_535_u32];
    let delay = prop_oneof![0..1_u64 << 40, any::<u64>()];
    let one = (any::<u64>(), any::<u64>(), delay, weight, fate);
    let one = one.prop_map(|(hash, time, delay, weight, fate)| Packet {
        observation: Observation {
            flow: FlowHash(0),
            packet: PacketHash(hash),
            time,
            delay,
            bytes: 64,
            segment: SegmentIndex(0),
            epoch: EpochTag(0),
        },
        weight,
        fate,
    });
    proptest::collection::vec(one, 0..12)
}

fn sent(observation: &Observation) -> Observation {
    Observation {
        time: observation.time.wrapping_sub(observation.delay),
        delay: 0,
        ..*observation
    }
}

/// What a packet that passed adds to either kind of cell.
trait Pass: BothEnds {
    fn pass(&mut self, observation: &Observation, weight: u32);
}

impl Pass for CellPair {
    fn pass(&mut self, observation: &Observation, weight: u32) {
        self.record(End::Sender, &sent(observation), weight);
        self.record(End::Receiver, observation, weight);
    }
}

impl Pass for PassedCell {
    fn pass(&mut self, observation: &Observation, weight: u32) {
        self.pass_all(weight, observation.delay.wrapping_mul(weight.into()));
    }
}

/// A cell of some kind with these packets, merged of as many shards as there are.
fn cell_of<C: Pass>(packets: &[Packet], shards: usize) -> C {
    let mut parts = vec![C::default(); shards];
    for (n, packet) in packets.iter().enumerate() {
        let Packet {
            observation,
            weight,
            fate,
        } = packet;
        let (here, there) = (n % shards, (n + 1) % shards);
        match fate {
            Fate::Passed => parts[here].pass(observation, *weight),
            Fate::SeenTwice => {
                parts[here].record(End::Sender, &sent(observation), *weight);
                parts[here].record(End::Receiver, observation, *weight);
            }
            Fate::SeenApart => {
                parts[here].record(End::Receiver, observation, *weight);
                parts[there].record(End::Sender, &sent(observation), *weight);
            }
            Fate::Lost => parts[here].record(End::Sender, &sent(observation), *weight),
        }
    }
    let mut sum = C::default();
    for part in &parts {
        sum.merge(part);
    }
    sum
}

#[test]
fn a_packet_that_passed_is_two_additions() {
    let [packet, other] = [3, 5].map(|delay| Observation {
        flow: FlowHash(1),
        packet: PacketHash(u64::MAX),
        time: 100,
        delay,
        bytes: 64,
        segment: SegmentIndex(0),
        epoch: EpochTag(0),
    });
    let mut cell = PassedCell::default();
    cell.pass(&packet, 1);
    cell.pass(&other, 10);
    let expected = PassedCell {
        delay_sum: 53,
        received: 11,
        lost: 0,
    };
    assert_eq!((cell, cell.delay_sum()), (expected, Some(53)));
    cell.record(End::Sender, &packet, 2);
    assert_eq!((cell.received, cell.lost, cell.delay_sum()), (11, 2, None));
    cell.record(End::Receiver, &packet, 2);
    assert_eq!((cell.received, cell.delay_sum()), (13, Some(53)));
}

#[test]
fn a_loss_and_a_packet_from_nowhere_are_told_by_digests_only() {
    let observation = |hash| Observation {
        packet: PacketHash(hash),
        ..crate::observation::tests::observation_with_delay(0)
    };
    let mut pair = CellPair::default();
    pair.record(End::Sender, &observation(1 << 32), 1);
    pair.record(End::Receiver, &observation(2 << 32), 1);
    assert_eq!(pair.sender.count, pair.receiver.count);
    assert_eq!(pair.delay_sum(), None);
}

proptest! {
    #[test]
    fn both_kinds_say_the_same(packets in packets(), shards in 1_usize..4) {
        let pair: CellPair = cell_of(&packets, shards);
        let passed: PassedCell = cell_of(&packets, shards);
        prop_assert_eq!(passed.delay_sum(), pair.delay_sum());
        prop_assert_eq!(passed.received, pair.receiver.count);
        prop_assert_eq!(passed.received.wrapping_add(passed.lost), pair.sender.count);
        // As estimators see it.
        let (sender, receiver) = passed.halves();
        prop_assert_eq!(CellPair { sender, receiver }.delay_sum(), pair.delay_sum());
        prop_assert_eq!((sender.count, receiver.count), (pair.sender.count, pair.receiver.count));
    }

    #[test]
    fn merging_is_in_any_order(packets in packets(), shards in 1_usize..4) {
        let one: PassedCell = cell_of(&packets, 1);
        prop_assert_eq!(cell_of::<PassedCell>(&packets, shards), one);
        let mut reversed = packets;
        reversed.reverse();
        prop_assert_eq!(cell_of::<PassedCell>(&reversed, shards), one);
    }
}
