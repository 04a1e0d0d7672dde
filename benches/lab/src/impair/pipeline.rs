//! One direction: what arrives, what becomes of it, and when it leaves.
//!
//! All of a packet's dice are thrown as it arrives; from then on it waits for its time. Each kind of
//! dice has a stream of its own, so that one impairment does not change what another does.

use std::collections::VecDeque;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use reporting::statistics;

use crate::impair::rule::Rule;
use crate::transits::{Fate, NEVER, Transit};

#[cfg(test)]
mod tests;

/// Bytes that may wait for a rate limit; more are dropped.
const QUEUE_BYTES: f64 = 1_500_000.0;

/// How long a packet is held back at most, however few overtake it.
const HELD_NS_MAX: u64 = 1_000_000;

/// One direction of the box, for packets of type `P`.
#[derive(Debug)]
pub struct Pipeline<P> {
    direction: u8,
    rule: Rule,
    loss: Pcg64Mcg,
    hold_back: Pcg64Mcg,
    jitter: Pcg64Mcg,
    /// When the link behind is done with all before.
    free_ns: u64,
    /// When the last packet is due.
    last_due_ns: u64,
    /// In order, each with the time when it is due.
    under_way: VecDeque<(u64, (P, Transit))>,
    /// Packets that left and were not held back.
    passed: u64,
    held: VecDeque<Held<P>>,
    /// Most packets that are here at a time.
    room: usize,
    arrived: u32,
    left: u32,
}

/// A packet that waits for others to overtake it.
#[derive(Debug)]
struct Held<P> {
    /// It leaves when so many have ...
    passed: u64,
    /// ... or at this time.
    until_ns: u64,
    packet: (P, Transit),
}

impl<P> Pipeline<P> {
    /// A direction (0 to the right, 1 to the left) under `rule`, with room for as many packets.
    pub fn new(direction: u8, rule: &Rule, seed: u64, room: usize) -> Self {
        let stream = |purpose| stream([seed, direction.into(), 0, purpose]);
        Self {
            direction,
            rule: rule.clone(),
            loss: stream(0),
            hold_back: stream(1),
            jitter: stream(2),
            free_ns: 0,
            last_due_ns: 0,
            under_way: VecDeque::new(),
            passed: 0,
            held: VecDeque::new(),
            room,
            arrived: 0,
            left: 0,
        }
    }

    /// Takes a packet in, whose transit lacks direction and ranks; `ended` gets it if it goes no further.
    pub fn arrive(&mut self, mut transit: Transit, packet: P, ended: impl FnOnce(Transit)) {
        transit.direction = self.direction;
        transit.arrived = self.arrived;
        transit.left = NEVER;
        self.arrived = self.arrived.wrapping_add(1);
        let end = |fate| ended(Transit { fate, ..transit });
        if transit.fate != Fate::Passed {
            return end(transit.fate);
        }
        if self.loss.random_bool(self.rule.loss) {
            return end(Fate::Lost);
        }
        if self.under_way.len() + self.held.len() >= self.room {
            return end(Fate::Overrun);
        }
        let Some(due_ns) = self.due_ns(transit.arrival_ns, transit.bytes) else {
            return end(Fate::Queue);
        };
        transit.is_held_back = self.hold_back.random_bool(self.rule.reorder);
        self.under_way.push_back((due_ns, (packet, transit)));
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
        let most_us = self.rule.jitter_us;
        let delay_us = self.rule.delay_us + self.jitter.random_range(-most_us..=most_us);
        self.last_due_ns = self.last_due_ns.max(at_ns + whole(delay_us * 1e3));
        Some(self.last_due_ns)
    }

    /// The next packet whose time has come; its transit lacks the time and the rank of departure,
    /// which [`leave`](Self::leave) fills in once it is gone.
    pub fn next(&mut self, now_ns: u64) -> Option<(P, Transit)> {
        loop {
            let passed = self.passed;
            let is_free = |held: &mut Held<P>| held.passed <= passed || held.until_ns <= now_ns;
            if let Some(held) = self.held.pop_front_if(is_free) {
                return Some(held.packet);
            }
            let is_due = |(due_ns, _): &mut (u64, _)| *due_ns <= now_ns;
            let (due_ns, packet) = self.under_way.pop_front_if(is_due)?;
            if !packet.1.is_held_back {
                self.passed += 1;
                return Some(packet);
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
        let under_way = self.under_way.front().map(|(due_ns, _)| *due_ns);
        let held = self.held.front().map(|held| held.until_ns);
        held.into_iter().chain(under_way).min()
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
        let under_way = self.under_way.drain(..).map(|(_, packet)| packet);
        for (_, transit) in held.chain(under_way) {
            let fate = Fate::Overrun;
            ended(Transit { fate, ..transit });
        }
    }
}

/// The nearest whole number, at least 0.
pub fn whole(number: f64) -> u64 {
    statistics::whole(number.round()) as u64
}

/// A stream of random numbers with a name: neighbours' are as far apart as any.
pub fn stream(names: [u64; 4]) -> Pcg64Mcg {
    let mut state = 0;
    for name in names {
        let mut step = Pcg64Mcg::seed_from_u64(state ^ name);
        state = step.random();
    }
    Pcg64Mcg::seed_from_u64(state)
}
