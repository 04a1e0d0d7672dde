//! The true fate of every packet.

use std::collections::VecDeque;
use std::collections::btree_map::{BTreeMap, Entry};

use contract::ids::PortIndex;
use measure::packet::FlowKey;
use rand_pcg::Pcg64;

use rand::RngExt;

use super::configure::HOSTS;
use crate::rack::between;

/// A data packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet {
    pub from: Station,
    to: Station,
    flow: u16,
    len_bytes: usize,
    born: u64,
}

/// A host, by its switch and its number there.
pub(super) type Station = (usize, usize);

/// True figures of one segment in one epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Truth {
    pub sent: u64,
    /// Packets that were received, without copies.
    pub received: u64,
    /// Further copies of them that arrived, in whichever epoch.
    pub doubled: u64,
    /// Sum of the delays of received packets, in nanoseconds or ticks.
    pub delays: i128,
}

impl Truth {
    pub fn mean(&self) -> f64 {
        self.delays as f64 / self.received as f64
    }
}

/// A segment inside a switch in one epoch of one life: switch, life, ingress, egress, epoch.
pub(super) type Inside = (usize, u32, PortIndex, PortIndex, u64);

/// One direction of a wire in one epoch of one life of its sender: switch, life, port, epoch.
pub(super) type OnWire = (usize, u32, PortIndex, u64);

/// One transmission of a packet on a wire.
pub(super) type Sending = u64;

/// A packet on a wire.
#[derive(Debug, Clone, Copy)]
struct UnderWay {
    since: u64,
    wire: OnWire,
    sent_ns: u64,
    has_arrived: bool,
}

/// How long entries are kept, in the world's nanoseconds.
const KEPT_NS: u64 = 4_000_000_000;

/// The ledger.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    packets: BTreeMap<u64, Packet>,
    next: u64,
    pub inside: BTreeMap<Inside, (u64, Truth)>,
    /// By segment, epoch and flow: the delays of its packets, in ticks.
    pub flows: BTreeMap<(Inside, FlowKey), (u64, Vec<u64>)>,
    pub wires: BTreeMap<OnWire, (u64, Truth)>,
    /// By transmission: its epoch, and TAI when it left. A packet that arrived twice is sent twice.
    under_way: BTreeMap<Sending, UnderWay>,
    sendings: Sending,
    /// By switch, port and number of a packet: packets that reached the port but were not received yet.
    waiting: BTreeMap<(usize, usize, u64), VecDeque<Sending>>,
}

fn address((switch, host): Station) -> [u8; 6] {
    let byte = |n: usize| u8::try_from(n).unwrap_or(u8::MAX);
    [2, 0, 0, 0, byte(switch), byte(host)]
}

impl Ledger {
    /// A packet of a random flow between any two hosts.
    pub fn make(&mut self, now: u64, switches: usize, random: &mut Pcg64) -> (u64, Packet) {
        let station = |random: &mut Pcg64| {
            (
                random.random_range(0..switches),
                random.random_range(0..HOSTS),
            )
        };
        let (from, mut to) = (station(random), station(random));
        if from == to {
            to.0 = (to.0 + 1) % switches;
        }
        // Zipf-like: flow n has a share of 1/n.
        let flow = 50.0_f64.powf(random.random::<f64>()) as u16;
        let packet = Packet {
            from,
            to,
            flow,
            len_bytes: 60 + usize::from(flow) * 20,
            born: now,
        };
        let number = self.next;
        self.next += 1;
        self.packets.insert(number, packet);
        (number, packet)
    }

    /// The frame of packet `number`.
    pub fn frame(number: u64, packet: &Packet) -> Vec<u8> {
        let Packet {
            from,
            to,
            flow,
            len_bytes,
            ..
        } = *packet;
        between(address(to), address(from), flow, number as u32, len_bytes)
    }

    /// Whether a frame equals packet `number`; `None` if that was removed.
    pub fn is_whole(&self, number: u64, frame: &[u8]) -> Option<bool> {
        let packet = self.packets.get(&number)?;
        Some(Self::frame(number, packet) == frame)
    }

    /// Enters a packet that left a switch within its epoch, `ticks` after it arrived.
    pub fn passed(&mut self, now: u64, segment: Inside, frame: &[u8], ticks: u64) {
        let flow = (segment, FlowKey::parse(frame));
        let (_, delays) = self.flows.entry(flow).or_insert((now, Vec::new()));
        delays.push(ticks);
        let truth = self.inside.entry(segment);
        let (_, truth) = truth.or_insert((now, Truth::default()));
        truth.received += 1;
        truth.delays += i128::from(ticks);
    }

    /// Enters a packet that was sent on a wire.
    pub fn sent(&mut self, now: u64, wire: OnWire, tai_ns: u64) -> Sending {
        let (_, truth) = self.wires.entry(wire).or_insert((now, Truth::default()));
        truth.sent += 1;
        let packet = UnderWay {
            since: now,
            wire,
            sent_ns: tai_ns,
            has_arrived: false,
        };
        self.sendings += 1;
        self.under_way.insert(self.sendings, packet);
        self.sendings
    }

    /// Enters a transmission that arrived at a port of a switch, as packet `number`.
    pub fn came(&mut self, switch: usize, port: usize, number: u64, sending: Sending) {
        let waiting = self.waiting.entry((switch, port, number)).or_default();
        waiting.push_back(sending);
    }

    /// Enters that a switch was killed: packets that arrived are never received.
    pub fn killed(&mut self, switch: usize) {
        self.waiting.retain(|&(at, ..), _| at != switch);
    }

    /// Enters that a switch received packet `number` at a port.
    pub fn arrived(&mut self, switch: usize, port: usize, number: u64, tai_ns: u64) {
        let Entry::Occupied(mut waiting) = self.waiting.entry((switch, port, number)) else {
            return;
        };
        let sending = waiting.get_mut().pop_front();
        if waiting.get().is_empty() {
            waiting.remove();
        }
        let Some(packet) = sending.and_then(|sending| self.under_way.get_mut(&sending)) else {
            return;
        };
        let Some((_, truth)) = self.wires.get_mut(&packet.wire) else {
            return;
        };
        if std::mem::replace(&mut packet.has_arrived, true) {
            truth.doubled += 1;
            return;
        }
        truth.received += 1;
        truth.delays += i128::from(tai_ns) - i128::from(packet.sent_ns);
    }

    /// Returns the true figures of a wire in an epoch; `None` if nothing was sent.
    pub fn of_wire(&self, wire: OnWire) -> Option<Truth> {
        self.wires.get(&wire).map(|(_, truth)| *truth)
    }

    /// Removes old entries.
    pub fn forget(&mut self, now: u64) {
        let kept = now.saturating_sub(KEPT_NS);
        self.packets.retain(|_, packet| packet.born >= kept);
        self.inside.retain(|_, (at, _)| *at >= kept);
        self.flows.retain(|_, (at, _)| *at >= kept);
        self.wires.retain(|_, (at, _)| *at >= kept);
        self.under_way.retain(|_, packet| packet.since >= kept);
        let oldest = self.under_way.keys().next().copied();
        self.waiting
            .retain(|_, waiting| waiting.back().copied() >= oldest && oldest.is_some());
    }

    /// Number of entries in all tables.
    pub fn len(&self) -> usize {
        self.packets.len()
            + self.inside.len()
            + self.flows.len()
            + self.wires.len()
            + self.under_way.len()
            + self.waiting.len()
    }
}
