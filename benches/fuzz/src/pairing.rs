//! Epochs of a wire, reconciled around a rollover by lists that may be false, and paired with arbitrary cells.
//!
//! Oracle: reconciling moves packets between two epochs, and adds or removes none: the tallies and flows of both epochs
//! together do not change, and no more packets are moved than are in the lists. With correct ends and lists the counts
//! equal those of the sender. Whatever is paired, cells add up, means are finite, and bounds are finite and at least
//! the error of the clocks.

use arbitrary::Arbitrary;
use measure::cell::Cell;
use measure::lda::{Bank, LdaLayout};
use measure::lds::LdsLayout;
use measure::observation::{End, Observation, SegmentIndex};
use measure::packet::{FlowHash, PacketHash};
use measure::shard::Tally;
use measure::time::EpochTag;
use wire::frame::Stashed;
use wire::{
    CellCounts, ClockBound, Placed, SegmentHalves, SenderHalves, SenderLists, WireLayout,
    WireShard, flow_cells, pair, reconcile,
};

use crate::read;

/// Largest number of packets in an epoch.
const PACKETS_MAX: usize = 256;

#[derive(Debug, Arbitrary)]
struct Input {
    segments: u8,
    stash_packets: u8,
    flows: u8,
    error_ns: u32,
    resolution_ns: u16,
    /// Times two: before the rollover, and after it.
    packets: [Vec<Packet>; 2],
    /// Changes to the sender's lists.
    forged: [Vec<(u64, u32, u64)>; 2],
    is_honest: bool,
    tally: Option<[u64; 4]>,
    cells: Vec<Option<(u64, u32, u32)>>,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
struct Packet {
    flow: u8,
    hash: u16,
    bytes: u16,
    segment: u8,
    delay_ns: u32,
    time_ns: u64,
    fate: u8,
}

/// Fate of a packet.
enum Fate {
    /// Counted at both ends in the epoch in which it was sent.
    Arrived,
    /// Counted at the receiver's end on the other side of the rollover.
    Misplaced,
    Lost,
    Doubled,
}

impl Packet {
    fn fate(self) -> Fate {
        match self.fate {
            0..160 => Fate::Arrived,
            160..200 => Fate::Misplaced,
            200..230 => Fate::Lost,
            230.. => Fate::Doubled,
        }
    }

    fn observation(self, segments: u16, delay_ns: u32) -> Observation {
        Observation {
            flow: FlowHash(u64::from(self.flow) << 20),
            packet: PacketHash(u64::from(self.hash) << 40),
            time: self.time_ns.wrapping_add(delay_ns.into()),
            delay: 0,
            bytes: self.bytes.into(),
            segment: SegmentIndex(u16::from(self.segment) % segments),
            epoch: EpochTag::default(),
        }
    }
}

/// The bytes are packets, lists and cells.
pub fn pairing(bytes: &[u8]) {
    let Some(input) = read::<Input>(bytes) else {
        return;
    };
    let layout = layout(&input);
    let mut ends = Ends::of(&input, &layout);
    ends.reconcile(&input);
    check_pairs(&input, &ends, &layout);
}

fn layout(input: &Input) -> WireLayout {
    let bank = |probability| Bank {
        rows: 8,
        probability,
    };
    WireLayout {
        segments: u16::from(input.segments % 4) + 1,
        lda: LdaLayout::new(&[bank(0.5), bank(1.0)]).unwrap(),
        lds: Some(LdsLayout::new(16, 2, &[0.5, 1.0]).unwrap()),
        stash_packets: input.stash_packets.into(),
        flows: u32::from(input.flows),
        references: None,
    }
}

/// Two epochs at both ends.
struct Ends {
    sent: [WireShard; 2],
    received: [WireShard; 2],
}

impl Ends {
    fn of(input: &Input, layout: &WireLayout) -> Self {
        let pair = |end| [WireShard::new(layout, end), WireShard::new(layout, end)];
        let mut ends = Self {
            sent: pair(End::Sender),
            received: pair(End::Receiver),
        };
        for (epoch, packets) in input.packets.iter().enumerate() {
            for packet in packets.iter().take(PACKETS_MAX) {
                let sent = packet.observation(layout.segments, 0);
                let came = packet.observation(layout.segments, packet.delay_ns);
                ends.sent[epoch].record(End::Sender, &[sent]);
                match packet.fate() {
                    Fate::Arrived => ends.receive(epoch, &came),
                    Fate::Misplaced => ends.receive(1 - epoch, &came),
                    Fate::Lost => {}
                    Fate::Doubled => [0, 1].into_iter().for_each(|_| ends.receive(epoch, &came)),
                }
            }
        }
        ends
    }

    fn receive(&mut self, epoch: usize, observation: &Observation) {
        let shard = &mut self.received[epoch];
        shard.record(End::Receiver, std::slice::from_ref(observation));
        (shard.flows).count(observation.flow, observation.segment, observation.bytes);
    }

    /// Packets and bytes received, by segment, and packets of all flows: of both epochs together.
    fn totals(&self) -> (Vec<(u64, u64)>, u64) {
        let [earlier, later] = &self.received;
        let tallies = earlier.segments.iter().zip(&later.segments);
        let tallies = tallies.map(|(one, other)| {
            let sum = |one: u64, other: u64| one.wrapping_add(other);
            let (one, other) = (one.tally, other.tally);
            (
                sum(one.received, other.received),
                sum(one.received_bytes, other.received_bytes),
            )
        });
        let flows = self.received.each_ref().map(|shard| {
            let counted: u64 = shard.flows.flows().iter().map(|flow| flow.packets).sum();
            counted + shard.flows.other_packets()
        });
        (tallies.collect(), flows.iter().sum())
    }

    fn reconcile(&mut self, input: &Input) {
        let before = self.totals();
        let [ended, begun] = &self.sent;
        let mut last: Vec<Stashed> = ended.stash.last().map(Placed::stashed).collect();
        let mut first: Vec<Stashed> = begun.stash.first().iter().map(Placed::stashed).collect();
        if !input.is_honest {
            for (list, forged) in [&mut last, &mut first].into_iter().zip(&input.forged) {
                let forged = forged.iter().take(PACKETS_MAX);
                list.extend(forged.map(|&(flow, digest, time)| Stashed {
                    flow: FlowHash((flow % 256) << 20),
                    digest,
                    time,
                }));
            }
        }
        let [earlier, later] = &mut self.received;
        let room = [earlier.stash.last().len(), later.stash.first().len()];
        let lists = SenderLists {
            last: &last,
            first: &first,
        };
        let moved = reconcile(earlier, later, lists);
        assert!(moved.to_later <= room[0] as u64 && moved.to_earlier <= room[1] as u64);
        assert!(moved.unexplained <= (room[0] + room[1]) as u64);
        assert_eq!(self.totals(), before, "packets made up, or lost");
        let is_covered = input
            .packets
            .iter()
            .all(|packets| packets.len() <= room_of(input));
        if input.is_honest && is_covered {
            self.check_settled(input);
        }
    }

    /// Every packet around the rollover is in the lists, so unique packets are in the epoch in which the sender counted
    /// them.
    fn check_settled(&self, input: &Input) {
        let all = || input.packets.iter().flatten();
        let is_single = |packet: &Packet| {
            let alike = |other: &&Packet| (other.flow, other.hash) == (packet.flow, packet.hash);
            all().filter(alike).count() == 1
        };
        let is_simple = |packet: &Packet| {
            is_single(packet) && !matches!(packet.fate(), Fate::Lost | Fate::Doubled)
        };
        if !all().all(is_simple) {
            return;
        }
        for (sent, received) in self.sent.iter().zip(&self.received) {
            for (sent, received) in sent.segments.iter().zip(&received.segments) {
                assert_eq!(
                    sent.tally.sent, received.tally.received,
                    "not where it was sent"
                );
            }
        }
    }
}

/// Packets that a list has room for.
fn room_of(input: &Input) -> usize {
    // Those of the other side may be in it, too.
    usize::from(input.stash_packets) / 2
}

fn check_pairs(input: &Input, ends: &Ends, layout: &WireLayout) {
    let cell = |&(sum, count, digest): &(u64, u32, u32)| Cell { sum, count, digest };
    let forged: Vec<Option<Cell>> = input
        .cells
        .iter()
        .map(|given| given.as_ref().map(cell))
        .collect();
    let honest = |shard: &WireShard, segment: usize| -> Vec<Option<Cell>> {
        let cells = shard.segments[segment].lda.cells().iter();
        cells.map(|cell| Some(cell.sender)).collect()
    };
    let tally = input
        .tally
        .map(|[sent, received, sent_bytes, received_bytes]| Tally {
            sent,
            received,
            sent_bytes,
            received_bytes,
            ..Tally::default()
        });
    let clocks = ClockBound {
        error_ns: input.error_ns.into(),
        resolution_ns: input.resolution_ns.into(),
    };
    for (sent, received) in ends.sent.iter().zip(&ends.received) {
        let segments = usize::from(layout.segments);
        let cells: Vec<_> = (0..segments).map(|segment| honest(sent, segment)).collect();
        let halves = (0..segments).map(|segment| {
            if input.is_honest {
                SegmentHalves {
                    tally: Some(sent.segments[segment].tally),
                    lda: &cells[segment],
                }
            } else {
                SegmentHalves {
                    tally,
                    lda: &forged,
                }
            }
        });
        let halves = SenderHalves {
            segments: halves.collect(),
            lds: &forged,
        };
        for outcome in pair(received, &halves, clocks) {
            check_cells(&outcome.cells);
            let shown = [outcome.lda_mean, outcome.rli_mean, outcome.chosen];
            for estimate in shown.iter().flatten() {
                assert!(estimate.mean_ns.is_finite(), "{outcome:?}");
                let is_good = |bound: f64| bound.is_finite() && bound >= clocks.error_ns;
                assert!(estimate.bound_ns.is_none_or(is_good), "{outcome:?}");
            }
            let deviation = outcome.stddev_ns();
            assert!(
                deviation.is_none_or(|ns| ns.is_finite() && ns >= 0.0),
                "{outcome:?}"
            );
        }
        let (cells, counts) = flow_cells(received, &halves).unwrap();
        assert_eq!(cells.cells().len() as u64, counts.cells);
        check_cells(&counts);
    }
}

fn check_cells(counts: &CellCounts) {
    let known = counts.usable + counts.missing + counts.digests_differ;
    assert!(known <= counts.cells, "{counts:?}");
    assert_eq!(counts.unusable() + counts.usable, counts.cells);
}
