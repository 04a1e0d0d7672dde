//! Packets at both ends of a segment, recorded into a synopsis.

use measure::observation::{End, Observation, SegmentIndex};
use measure::packet::{FlowHash, PacketHash};
use measure::time::EpochTag;

/// Observations are recorded in bursts, as a switch does.
const BURST: usize = 64;

/// A packet at both ends; times are in ticks of the caller's choice, modulo 2^64.
#[derive(Debug, Clone, Copy)]
pub struct Packet {
    pub flow: FlowHash,
    pub hash: PacketHash,
    pub segment: SegmentIndex,
    pub bytes: u32,
    /// When the sender's end saw it.
    pub sent: u64,
    /// How much later the receiver's end saw it; `None`: lost.
    pub delay: Option<u64>,
}

impl Packet {
    /// A packet of a segment whose flows do not matter.
    pub fn of_segment(hash: PacketHash, sent: u64, delay: Option<u64>) -> Self {
        Self {
            flow: FlowHash(0),
            hash,
            segment: SegmentIndex(0),
            bytes: 0,
            sent,
            delay,
        }
    }

    /// As an end sees it so much after it was sent.
    pub fn at(self, delay: u64) -> Observation {
        Observation {
            flow: self.flow,
            packet: self.hash,
            time: self.sent.wrapping_add(delay),
            delay,
            bytes: self.bytes,
            segment: self.segment,
            epoch: EpochTag(0),
        }
    }
}

/// Records `packets` at both ends.
pub fn record(
    mut record: impl FnMut(End, &[Observation]),
    packets: impl IntoIterator<Item = Packet>,
) {
    let (mut sent, mut received) = (Vec::with_capacity(BURST), Vec::with_capacity(BURST));
    let mut flush = |sent: &mut Vec<_>, received: &mut Vec<_>| {
        record(End::Sender, sent);
        record(End::Receiver, received);
        sent.clear();
        received.clear();
    };
    for packet in packets {
        sent.push(packet.at(0));
        received.extend(packet.delay.map(|delay| packet.at(delay)));
        if sent.len() == BURST {
            flush(&mut sent, &mut received);
        }
    }
    flush(&mut sent, &mut received);
}
