//! One direction: what arrives, what becomes of it, and when it leaves.
//!
//! All of a packet's dice are thrown as it arrives; from then on it waits for its time. Each kind of
//! dice of each rule has a stream of its own, so that one impairment does not change what another
//! does.

use std::collections::{BTreeMap, VecDeque};

use testkit::frames::Class;
use testkit::transits::{Done, Fate, NEVER, Transit};

use crate::frame::Frame;
use crate::impairment::Impairment;
use crate::rewrite::rewrite;

mod dice;
#[cfg(test)]
mod tests;

use dice::Dice;
pub use dice::{stream, whole};

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
    /// The last takes all.
    lanes: Vec<Lane<P>>,
    /// By the time when it is due, and its serial number.
    under_way: BTreeMap<(u64, u64), UnderWay<P>>,
    /// Packets that are held back, in all lanes.
    held: usize,
    /// Most packets that are here at a time.
    room: usize,
    arrived: u32,
    left: u32,
    /// Tells those apart that are due at the same time.
    serial: u64,
}

/// A rule at work.
#[derive(Debug)]
struct Lane<P> {
    rule: Impairment,
    dice: Dice,
    /// When the link behind is done with all before.
    free_ns: u64,
    /// When the last packet that stays in order is due.
    last_due_ns: u64,
    /// Packets that left and were not held back.
    passed: u64,
    held: VecDeque<Held<P>>,
}

/// A packet that waits for its time.
#[derive(Debug)]
struct UnderWay<P> {
    lane: usize,
    transit: Transit,
    packet: P,
}

/// A packet that waits for others to overtake it.
#[derive(Debug)]
struct Held<P> {
    /// It leaves when so many of its lane have ...
    passed: u64,
    /// ... or at this time.
    until_ns: u64,
    transit: Transit,
    packet: P,
}

impl<P: Frame> Pipeline<P> {
    /// A direction (0 to the right, 1 to the left) under `rules`, with room for as many packets.
    pub fn new(direction: u8, rules: &[Impairment], seed: u64, room: usize) -> Self {
        let all = Impairment::default();
        let rules = rules.iter().chain([&all]);
        let lanes = rules.zip(0..).map(|(rule, lane)| Lane {
            rule: rule.clone(),
            dice: Dice::new(rule, [seed, u64::from(direction), lane]),
            free_ns: 0,
            last_due_ns: 0,
            passed: 0,
            held: VecDeque::new(),
        });
        Self {
            direction,
            lanes: lanes.collect(),
            under_way: BTreeMap::new(),
            held: 0,
            room,
            arrived: 0,
            left: 0,
            serial: 0,
        }
    }

    /// Takes a packet in; `ended` gets it, or its copy, if it goes no further.
    pub fn arrive(&mut self, arrival: Arrival, mut packet: P, mut ended: impl FnMut(Transit)) {
        let Arrival { now_ns, class, .. } = arrival;
        let mut transit = Transit {
            packet: arrival.packet,
            arrival_ns: now_ns,
            departure_ns: 0,
            arrived: self.arrived,
            left: NEVER,
            bytes: packet.len_bytes(),
            direction: self.direction,
            fate: Fate::Passed,
            class,
            done: Done {
                is_made_up: arrival.is_made_up,
                ..Done::default()
            },
        };
        self.arrived = self.arrived.wrapping_add(1);
        let mut lanes = self.lanes.iter_mut().enumerate();
        let taking = lanes.find(|(_, lane)| lane.rule.only.takes(class));
        debug_assert!(taking.is_some(), "the last lane takes all");
        let Some((number, lane)) = taking else {
            return;
        };
        let mut end = |transit: Transit, fate| ended(Transit { fate, ..transit });
        if rewrite(&lane.rule, &mut packet).is_err() {
            return end(transit, Fate::Expired);
        }
        transit.bytes = packet.len_bytes();
        if lane.dice.loss.loses() {
            return end(transit, Fate::Lost);
        }
        if let Some(bit) = lane.dice.corrupts(packet.head().len()) {
            if let Some(byte) = packet.head_mut().get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
            transit.done.is_corrupted = true;
        }
        let copy = lane.dice.duplicate.falls().then(|| {
            let mut transit = transit;
            transit.done.is_duplicate = true;
            (packet.copy(), transit)
        });
        let once = [(Some(packet), transit)];
        for (packet, transit) in once.into_iter().chain(copy) {
            let is_full = self.under_way.len() + self.held >= self.room;
            let Some(packet) = packet.filter(|_| !is_full) else {
                end(transit, Fate::Overrun);
                continue;
            };
            let Some((due_ns, is_held_back)) = lane.due(now_ns, transit.bytes) else {
                end(transit, Fate::Queue);
                continue;
            };
            let mut transit = transit;
            transit.done.is_held_back = is_held_back;
            self.serial += 1;
            let under_way = UnderWay {
                lane: number,
                transit,
                packet,
            };
            self.under_way.insert((due_ns, self.serial), under_way);
        }
    }

    /// The next packet whose time has come; its transit lacks the time and the rank of departure,
    /// which [`leave`](Self::leave) fills in once it is gone.
    pub fn next(&mut self, now_ns: u64) -> Option<(P, Transit)> {
        loop {
            if self.held > 0
                && let Some(released) = self.release(now_ns)
            {
                return Some(released);
            }
            let first = self.under_way.first_entry()?;
            let (due_ns, _) = *first.key();
            if due_ns > now_ns {
                return None;
            }
            let due = first.remove();
            let lane = self.lanes.get_mut(due.lane)?;
            let waits_for_others = due.transit.done.is_held_back && lane.rule.reorder_packets > 0;
            if !waits_for_others {
                lane.passed += 1;
                return Some((due.packet, due.transit));
            }
            self.held += 1;
            lane.held.push_back(Held {
                passed: lane.passed + u64::from(lane.rule.reorder_packets),
                until_ns: due_ns + dice::ns(lane.rule.reorder_us),
                transit: due.transit,
                packet: due.packet,
            });
        }
    }

    /// When there is something to do next, as far as time alone decides.
    pub fn next_ns(&self) -> Option<u64> {
        let under_way = self.under_way.first_key_value();
        let under_way = under_way.map(|((due_ns, _), _)| *due_ns);
        let held = self.lanes.iter().filter(|_| self.held > 0);
        let held = held.filter_map(|lane| lane.held.front());
        held.map(|held| held.until_ns).chain(under_way).min()
    }

    /// A packet that was held back long enough.
    fn release(&mut self, now_ns: u64) -> Option<(P, Transit)> {
        for lane in &mut self.lanes {
            let passed = lane.passed;
            let is_free = |held: &Held<P>| held.passed <= passed || held.until_ns <= now_ns;
            if lane.held.front().is_some_and(is_free) {
                let Held {
                    packet, transit, ..
                } = lane.held.pop_front()?;
                self.held -= 1;
                return Some((packet, transit));
            }
        }
        None
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
        let held = self.lanes.iter_mut().flat_map(|lane| lane.held.drain(..));
        let held = held.map(|held| held.transit);
        let under_way = std::mem::take(&mut self.under_way);
        let under_way = under_way.into_values().map(|due| due.transit);
        for transit in held.chain(under_way) {
            ended(Transit {
                fate: Fate::Overrun,
                ..transit
            });
        }
        self.held = 0;
    }
}

impl<P> Lane<P> {
    /// When a packet that arrives now leaves, or begins to wait for others, and whether it is held back; `None` if the
    /// queue is full.
    fn due(&mut self, now_ns: u64, bytes: u32) -> Option<(u64, bool)> {
        let mut at_ns = now_ns;
        if let Some(rate_mbps) = self.rule.rate_mbps {
            let ns_per_byte = 8_000.0 / rate_mbps;
            let backlog_ns = self.free_ns.saturating_sub(now_ns);
            let backlog_bytes = backlog_ns as f64 / ns_per_byte;
            if backlog_bytes + f64::from(bytes) > self.rule.queue_bytes as f64 {
                return None;
            }
            let wire_ns = dice::whole(f64::from(bytes) * ns_per_byte);
            at_ns = self.free_ns.max(now_ns) + wire_ns;
            self.free_ns = at_ns;
        }
        at_ns += self.dice.delay_ns();
        let is_held_back = self.dice.hold_back.falls();
        if self.rule.keep_order {
            at_ns = at_ns.max(self.last_due_ns);
            self.last_due_ns = at_ns;
        }
        if is_held_back && self.rule.reorder_packets == 0 {
            // Those behind it do not wait for it.
            at_ns += dice::ns(self.rule.reorder_us);
        }
        Some((at_ns, is_held_back))
    }
}
