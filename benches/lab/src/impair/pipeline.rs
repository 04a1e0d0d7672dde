//! One direction: what arrives, what becomes of it, and when it leaves.
//!
//! All of a packet's dice are thrown as it arrives; from then on it waits for its time. Each kind of
//! dice has a stream of its own, so that one impairment does not change what another does.

use std::collections::{BTreeMap, VecDeque};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::impair::rule::Rule;
use crate::transits::{Fate, NEVER, Transit};

#[cfg(test)]
mod tests;

/// Bytes that may wait for a rate limit; more are dropped.
const QUEUE_BYTES: f64 = 1_500_000.0;

/// How long a packet is held back at most, however few overtake it.
const HELD_NS_MAX: u64 = 1_000_000;

/// A packet that has just come in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    pub now_ns: u64,
    pub packet: u64,
    pub bytes: u32,
    /// The kind of a control frame; 0 for data.
    pub kind: u8,
    /// Whether the box made it up.
    pub is_made_up: bool,
    /// Whether its time to live is over.
    pub is_expired: bool,
}

/// One direction of the box, for packets of type `P`.
#[derive(Debug)]
pub struct Pipeline<P> {
    direction: u8,
    rule: Rule,
    dice: Dice,
    /// When the link behind is done with all before.
    free_ns: u64,
    /// When the last packet is due.
    last_due_ns: u64,
    /// By the time when it is due, and its serial number.
    under_way: BTreeMap<(u64, u64), (P, Transit)>,
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
    pub fn arrive(&mut self, arrival: Arrival, packet: P, ended: impl FnOnce(Transit)) {
        let Arrival { now_ns, .. } = arrival;
        let mut transit = Transit {
            packet: arrival.packet,
            arrival_ns: now_ns,
            departure_ns: 0,
            arrived: self.arrived,
            left: NEVER,
            bytes: arrival.bytes,
            direction: self.direction,
            fate: Fate::Passed,
            kind: arrival.kind,
            is_held_back: false,
            is_made_up: arrival.is_made_up,
        };
        self.arrived = self.arrived.wrapping_add(1);
        let end = |fate| ended(Transit { fate, ..transit });
        if arrival.is_expired {
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
        transit.is_held_back = self.dice.hold_back.falls();
        let key = (due_ns, u64::from(transit.arrived));
        self.under_way.insert(key, (packet, transit));
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
            let passed = self.passed;
            let is_free = |held: &mut Held<P>| held.passed <= passed || held.until_ns <= now_ns;
            if let Some(held) = self.held.pop_front_if(is_free) {
                return Some(held.packet);
            }
            let first = self.under_way.first_entry()?;
            let (due_ns, _) = *first.key();
            if due_ns > now_ns {
                return None;
            }
            let packet = first.remove();
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
        let under_way = self.under_way.first_key_value();
        let under_way = under_way.map(|((due_ns, _), _)| *due_ns);
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
        let under_way = std::mem::take(&mut self.under_way);
        for (_, transit) in held.chain(under_way.into_values()) {
            let fate = Fate::Overrun;
            ended(Transit { fate, ..transit });
        }
    }
}

/// The nearest whole number, at least 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rounded; what is less than nothing becomes nothing"
)]
pub fn whole(number: f64) -> u64 {
    number.round() as u64
}

/// The dice of one rule, a stream for each purpose.
#[derive(Debug)]
struct Dice {
    loss: Chance,
    hold_back: Chance,
    delay_ns: f64,
    /// To either side of the delay.
    jitter_ns: f64,
    jitter_random: Pcg64Mcg,
}

impl Dice {
    /// Dice of a rule; `names` tell it from the other direction's.
    fn new(rule: &Rule, names: [u64; 2]) -> Self {
        let stream = |purpose| stream([names[0], names[1], 0, purpose]);
        let chance = |share, purpose| Chance {
            share,
            random: stream(purpose),
        };
        Self {
            loss: chance(rule.loss, 0),
            hold_back: chance(rule.reorder, 1),
            delay_ns: rule.delay_us * 1e3,
            jitter_ns: rule.jitter_us * 1e3,
            jitter_random: stream(2),
        }
    }

    /// This packet's delay with its jitter.
    fn delay_ns(&mut self) -> u64 {
        let most = self.jitter_ns;
        let jitter_ns = if most > 0.0 {
            self.jitter_random.random_range(-most..=most)
        } else {
            0.0
        };
        whole((self.delay_ns + jitter_ns).max(0.0))
    }
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

/// Falls for a share of all throws.
#[derive(Debug)]
struct Chance {
    share: f64,
    random: Pcg64Mcg,
}

impl Chance {
    fn falls(&mut self) -> bool {
        self.share > 0.0 && self.random.random_bool(self.share)
    }
}
