//! One direction: arrival, fate and departure of packets.
//!
//! All random decisions about a packet are made when it arrives; then it waits for its time. Each kind of decision has
//! its own random stream, so that one impairment does not change the others.

use std::collections::VecDeque;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use reporting::statistics;

use crate::impair::rule::Rule;
use crate::transits::{Fate, NEVER, Transit};

#[cfg(test)]
mod tests;

/// Maximum bytes queued at a rate limit; further packets are dropped.
const QUEUE_BYTES: f64 = 1_500_000.0;

/// Longest time for which a packet is held back, however few overtake it.
const HELD_NS_MAX: u64 = 1_000_000;

/// One direction of the box, for packets of type `P`.
#[derive(Debug)]
pub struct Pipeline<P> {
    direction: u8,
    rule: Rule,
    loss: Pcg64Mcg,
    hold_back: Pcg64Mcg,
    jitter: Pcg64Mcg,
    /// When the link has sent all earlier packets.
    free_ns: u64,
    /// When the last packet is due.
    last_due_ns: u64,
    /// Packets in order, each with its due time.
    under_way: VecDeque<(u64, (P, Transit))>,
    /// Packets that left and were not held back.
    passed: u64,
    held: VecDeque<Held<P>>,
    /// Maximum number of packets here at a time.
    room: usize,
    arrived: u32,
    left: u32,
}

/// A packet held back until others have overtaken it.
#[derive(Debug)]
struct Held<P> {
    /// It leaves when so many have ...
    passed: u64,
    /// ... or at this time.
    until_ns: u64,
    packet: (P, Transit),
}

impl<P> Pipeline<P> {
    /// A direction (0 to the right, 1 to the left) with `rule`, and room for this number of packets.
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

    /// Accepts a packet, whose transit lacks direction and ranks; if it goes no further, passes it to `ended`.
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

    /// The time when a packet that arrives now leaves or begins to wait for others; `None` if the queue is full.
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

    /// Returns the next packet that is due; its transit lacks the time and the rank of departure, which
    /// [`leave`](Self::leave) fills in when it has left.
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

    /// The next time at which something is due.
    pub fn next_ns(&self) -> Option<u64> {
        let under_way = self.under_way.front().map(|(due_ns, _)| *due_ns);
        let held = self.held.front().map(|held| held.until_ns);
        held.into_iter().chain(under_way).min()
    }

    /// Completes the transit of a packet that has left.
    pub fn leave(&mut self, transit: Transit, now_ns: u64) -> Transit {
        let left = self.left;
        self.left = self.left.wrapping_add(1);
        Transit {
            departure_ns: now_ns,
            left,
            ..transit
        }
    }

    /// Ends the direction: remaining packets go no further.
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

/// An independent stream of random numbers with a name.
pub fn stream(names: [u64; 4]) -> Pcg64Mcg {
    let mut state = 0;
    for name in names {
        let mut step = Pcg64Mcg::seed_from_u64(state ^ name);
        state = step.random();
    }
    Pcg64Mcg::seed_from_u64(state)
}
