mod estimates;
mod layout;
mod mining;
mod points;
mod update;

use proptest::prelude::*;

use super::*;
use crate::cell::PassedCell;
use crate::observation::{End, Observation, SegmentIndex};
use crate::packet::{FlowHash, PacketHash};
use crate::synopsis::Synopsis;
use crate::time::EpochTag;

/// A packet in a test.
#[derive(Debug, Clone, Copy)]
struct Packet {
    flow: u64,
    segment: u16,
    hash: u64,
    sent: u64,
    delay: u64,
    bytes: u32,
    lost: bool,
}

impl Packet {
    /// Of a flow in segment 0, sent at 0, that arrives.
    fn of(flow: u64, hash: u64, delay: u64) -> Self {
        Self {
            flow,
            segment: 0,
            hash,
            sent: 0,
            delay,
            bytes: 64,
            lost: false,
        }
    }

    fn sender_observation(&self) -> Observation {
        Observation {
            flow: FlowHash(self.flow),
            packet: PacketHash(self.hash),
            time: self.sent,
            delay: 0,
            bytes: self.bytes,
            segment: SegmentIndex(self.segment),
            epoch: EpochTag(0),
        }
    }

    fn receiver_observation(&self) -> Option<Observation> {
        let observation = Observation {
            time: self.sent.wrapping_add(self.delay),
            delay: self.delay,
            ..self.sender_observation()
        };
        (!self.lost).then_some(observation)
    }
}

fn sender_observations(packets: &[Packet]) -> Vec<Observation> {
    packets.iter().map(Packet::sender_observation).collect()
}

fn receiver_observations(packets: &[Packet]) -> Vec<Observation> {
    packets
        .iter()
        .filter_map(Packet::receiver_observation)
        .collect()
}

fn lds_of(layout: &LdsLayout, packets: &[Packet]) -> LdsPair {
    let mut lds = LdsPair::new(layout);
    lds.record(End::Sender, &sender_observations(packets));
    lds.record(End::Receiver, &receiver_observations(packets));
    lds
}

/// The one-ended form, in which cells add delays (section 2.2).
fn sds_of(layout: &LdsLayout, packets: &[Packet]) -> LdsPair<PassedCell> {
    let mut sds = LdsPair::empty(layout);
    sds.record_passed(&receiver_observations(packets));
    sds
}

/// Neither virtual LDAs nor sampling or weights.
fn plain(columns: u32, rows: usize) -> LdsLayout {
    LdsLayout::new(columns, 1, &[1.0; ROWS_MAX][..rows]).unwrap()
}

fn layouts() -> impl Strategy<Value = LdsLayout> {
    let probability = prop_oneof![Just(1.0), 0.01..1.0_f64];
    let any = (
        1_u32..60,
        1_u32..60,
        proptest::collection::vec(probability, 1..=ROWS_MAX),
        proptest::collection::vec(1_u32..=LdsLayout::WEIGHT_MAX, 0..4),
    );
    let any = any.prop_map(|(columns, virtual_cells, probabilities, weights)| {
        let layout = LdsLayout::new(columns, virtual_cells.min(columns), &probabilities).unwrap();
        layout.with_weights(&weights).unwrap()
    });
    prop_oneof![
        any,
        (1_u32..60, 1..=ROWS_MAX).prop_map(|(columns, rows)| plain(columns, rows))
    ]
}

/// Packets of up to ten flows in up to five segments, one in twenty lost.
fn packets(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Packet>> {
    let flows = proptest::collection::vec(any::<u64>(), 10);
    let packet = (
        0_usize..10,
        0_u16..5,
        any::<u64>(),
        any::<u64>(),
        0_u64..1 << 36,
        60_u32..9_000,
        proptest::bool::weighted(0.05),
    );
    (flows, proptest::collection::vec(packet, count)).prop_map(|(flows, packets)| {
        let packet =
            |(flow, segment, hash, sent, delay, bytes, lost): (usize, _, _, _, _, _, _)| Packet {
                flow: flows[flow],
                segment,
                hash,
                sent,
                delay,
                bytes,
                lost,
            };
        packets.into_iter().map(packet).collect()
    })
}

/// The same packets, none lost.
fn all_arrive(packets: Vec<Packet>) -> Vec<Packet> {
    let arrives = |packet| Packet {
        lost: false,
        ..packet
    };
    packets.into_iter().map(arrives).collect()
}
