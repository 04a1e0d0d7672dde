//! One direction: what arrives, what becomes of it, and when it leaves.
//!
//! All of a packet's dice are thrown as it arrives; from then on it waits for its time. Each kind of
//! dice has a stream of its own, so that one impairment does not change what another does.

use std::collections::{BTreeMap, VecDeque};

use crate::frames::Class;
use crate::transits::{Done, Fate, NEVER, Transit};

use crate::impair::frame::Frame;
use crate::impair::impairment::Impairment;
use crate::impair::rewrite::rewrite;

mod dice;
#[cfg(test)]
mod tests;

use dice::Dice;
pub use dice::{stream, whole};

/// Bytes that may wait for a rate limit; more are dropped.
const QUEUE_BYTES: f64 = 1_500_000.0;

/// How long a packet is held back at most, however few overtake it.
const HELD_NS_MAX: u64 = 1_000_000;

/// A packet that has just come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    pub now_ns: u64,
    pub packet: u64,
    pub class: Class,
    /// Whether the box made it up.
    pub is_made_up: bool,
}

/// One direction of the box, for packets of type `P`.
#[derive(Debug)]
pub struct Pipeline<P> {
    direction: u8,
    rule: Impairment,
    dice: Dice,
    /// When the link behind is done with all before.
    free_ns: u64,
    /// When the last packet is due.
    last_due_ns: u64,
    /// By the time when it is due, and its serial number.
    under_way: BTreeMap<(u64, u64), Packet<P>>,
    /// Packets that left and were not held back.
    passed: u64,
    held: VecDeque<Held<P>>,
    /// Most packets that are here at a time.
    room: usize,
    arrived: u32,
    left: u32,
}

/// A packet that waits for its time.
#[derive(Debug)]
struct Packet<P> {
    transit: Transit,
    packet: P,
}

/// A packet that waits for others to overtake it.
#[derive(Debug)]
struct Held<P> {
    /// It leaves when so many have ...
    passed: u64,
    /// ... or at this time.
    until_ns: u64,
    packet: Packet<P>,
}

impl<P: Frame> Pipeline<P> {
    /// A direction (0 to the right, 1 to the left) under `rule`, with room for as many packets.
    pub fn new(direction: u8, rule: &Impairment, seed: u64, room: usize) -> Self {
        Self {
            direction,
            rule: rule.clone(),
            dice: Dice::new(rule, [seed, u64::from(direction)]),
            free_ns: 0,
            last_due_ns: 0,
            under_way: BTreeMap::new(),
            passed: 0,
            held: VecDeque::new(),
            room,
            arrived: 0,
            left: 0,
        }
    }

    /// Takes a packet in; `ended` gets it if it goes no further.
    pub fn arrive(&mut self, arrival: Arrival, mut packet: P, ended: impl FnOnce(Transit)) {
        let Arrival { now_ns, .. } = arrival;
        let mut transit = Transit {
            packet: arrival.packet,
            arrival_ns: now_ns,
            departure_ns: 0,
            arrived: self.arrived,
            left: NEVER,
            bytes: packet.len_bytes(),
            direction: self.direction,
            fate: Fate::Passed,
            class: arrival.class,
            done: Done {
                is_made_up: arrival.is_made_up,
                ..Done::default()
            },
        };
        self.arrived = self.arrived.wrapping_add(1);
        let end = |fate| ended(Transit { fate, ..transit });
        if rewrite(&self.rule, &mut packet).is_err() {
            return end(Fate::Expired);
        }
        if self.dice.loss.falls() {
            return end(Fate::Lost);
        }
        if self.under_way.len() + self.held.len() >= self.room {
            return end(Fate::Overrun);
        }
        let Some(due_ns) = self.due_ns(now_ns, transit.bytes) else {
            return end(Fate::Queue);
        };
        transit.done.is_held_back = self.dice.hold_back.falls();
        let key = (due_ns, u64::from(transit.arrived));
        self.under_way.insert(key, Packet { transit, packet });
    }

    /// When a packet that arrives now leaves, or begins to wait for others; `None` if the queue is full.
    fn due_ns(&mut self, now_ns: u64, bytes: u32) -> Option<u64> {
        let mut at_ns = now_ns;
        if let Some(rate_mbps) = self.rule.rate_mbps {
            let ns_per_byte = 8_000.0 / rate_mbps;
            let backlog_ns = self.free_ns.saturating_sub(now_ns);
            let backlog_bytes = backlog_ns as f64 / ns_per_byte;
            if backlog_bytes + f64::from(bytes) > QUEUE_BYTES {
                return None;
            }
            at_ns = self.free_ns.max(now_ns) + whole(f64::from(bytes) * ns_per_byte);
            self.free_ns = at_ns;
        }
        at_ns += self.dice.delay_ns();
        self.last_due_ns = self.last_due_ns.max(at_ns);
        Some(self.last_due_ns)
    }

    /// The next packet whose time has come; its transit lacks the time and the rank of departure,
    /// which [`leave`](Self::leave) fills in once it is gone.
    pub fn next(&mut self, now_ns: u64) -> Option<(P, Transit)> {
        loop {
            if let Some(released) = self.release(now_ns) {
                return Some((released.packet, released.transit));
            }
            let first = self.under_way.first_entry()?;
            let (due_ns, _) = *first.key();
            if due_ns > now_ns {
                return None;
            }
            let packet = first.remove();
            if !packet.transit.done.is_held_back {
                self.passed += 1;
                return Some((packet.packet, packet.transit));
            }
            self.held.push_back(Held {
                passed: self.passed + u64::from(self.rule.reorder_packets),
                until_ns: due_ns + HELD_NS_MAX,
                packet,
            });
        }
    }

    /// When there is something to do next, as far as time alone decides.
    pub fn next_ns(&self) -> Option<u64> {
        let under_way = self.under_way.first_key_value();
        let under_way = under_way.map(|((due_ns, _), _)| *due_ns);
        let held = self.held.front().map(|held| held.until_ns);
        held.into_iter().chain(under_way).min()
    }

    /// A packet that was held back long enough.
    fn release(&mut self, now_ns: u64) -> Option<Packet<P>> {
        let passed = self.passed;
        let is_free = |held: &mut Held<P>| held.passed <= passed || held.until_ns <= now_ns;
        self.held.pop_front_if(is_free).map(|held| held.packet)
    }

    /// A packet has left: the rest of its transit.
    pub fn leave(&mut self, transit: Transit, now_ns: u64) -> Transit {
        let left = self.left;
        self.left = self.left.wrapping_add(1);
        Transit {
            departure_ns: now_ns,
            left,
            ..transit
        }
    }

    /// The end: what is still here goes no further.
    pub fn end(&mut self, mut ended: impl FnMut(Transit)) {
        let held = self.held.drain(..).map(|held| held.packet);
        let under_way = std::mem::take(&mut self.under_way);
        for packet in held.chain(under_way.into_values()) {
            ended(Transit {
                fate: Fate::Overrun,
                ..packet.transit
            });
        }
    }
}
