//! A link with a queue in front: packets in order of arrival in, times of departure out.
//!
//! ```text
//! arrivals --+--> class 0: buffer, tail drop or RED --+--> strict priority --> link --> departures
//!            +--> class 1                           --+    one packet at a time
//! ```
//!
//! A packet leaves when its last bit has left: its delay is its wait plus its serialisation. The
//! simulation is exact (whole picoseconds) and sequential: each arrival first lets the link do all
//! that comes before it. With one class it is a FIFO queue.

pub mod paths;
pub mod red;

use std::collections::VecDeque;

use rand::SeedableRng;
use rand_pcg::Pcg64;

use crate::traffic::supply::CAPACITY_BPS;
use crate::traffic::{Arrival, Kind, PS_PER_NS, Traffic, serialisation_ps};
use red::Red;

/// A link and the queues in front of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkConfig {
    pub capacity_bps: u64,
    /// What each queue holds, the packet on the link included. More is dropped (tail drop).
    pub buffer_bytes: u64,
    /// What is dropped before that.
    pub dropping: Dropping,
    /// Queues, the first served first; a packet of a class past the last joins the last.
    pub queues: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropping {
    /// When it is full.
    TailDrop,
    /// Also at random, between a quarter and three quarters of its buffer.
    Red,
}

impl Dropping {
    /// Both, in the order of tables.
    pub const ALL: [Self; 2] = [Self::TailDrop, Self::Red];

    /// In a word, for tables.
    pub fn label(self) -> &'static str {
        match self {
            Self::TailDrop => "tail drop",
            Self::Red => "RED",
        }
    }
}

impl LinkConfig {
    /// The link of the RLI acceptance runs: a FIFO queue with tail drop.
    pub const ACCEPTANCE: Self = Self {
        capacity_bps: CAPACITY_BPS,
        buffer_bytes: 1_500_000,
        dropping: Dropping::TailDrop,
        queues: 1,
    };
}

/// A link at work.
#[derive(Debug)]
struct Link {
    capacity_bps: u64,
    queues: Vec<Queue>,
    /// When the packet on the link has left.
    free_at_ps: u64,
    /// The packet on the link: its queue and its bytes.
    in_service: Option<(usize, u32)>,
    rng: Pcg64,
    /// Every packet so far.
    crossings: Vec<Crossing>,
}

#[derive(Debug, Clone)]
struct Queue {
    /// Indices of packets.
    waiting: VecDeque<usize>,
    backlog_bytes: u64,
    buffer_bytes: u64,
    red: Option<Red>,
}

impl Link {
    /// An idle link; `seed` is RED's.
    fn new(config: &LinkConfig, seed: u64) -> Self {
        let queue = Queue {
            waiting: VecDeque::new(),
            backlog_bytes: 0,
            buffer_bytes: config.buffer_bytes,
            red: (config.dropping == Dropping::Red).then(|| Red::new(config.buffer_bytes)),
        };
        Self {
            capacity_bps: config.capacity_bps,
            queues: vec![queue; config.queues],
            free_at_ps: 0,
            in_service: None,
            rng: Pcg64::seed_from_u64(seed),
            crossings: Vec::new(),
        }
    }

    /// A packet arrives, not earlier than any before it.
    fn offer(&mut self, arrival: &Arrival) {
        let index = self.crossings.len();
        self.crossings.push(Crossing {
            flow: arrival.flow,
            bytes: arrival.bytes,
            kind: arrival.kind,
            class: arrival.class,
            sent_ps: arrival.at_ps,
            received_ps: None,
        });
        self.serve(arrival.at_ps);
        let last = self.queues.len().saturating_sub(1);
        let class = usize::from(arrival.class).min(last);
        let Some(queue) = self.queues.get_mut(class) else {
            return;
        };
        if queue.admits(arrival, self.capacity_bps, &mut self.rng) {
            queue.waiting.push_back(index);
            queue.backlog_bytes += u64::from(arrival.bytes);
            // An idle link takes it at once.
            self.serve(arrival.at_ps);
        }
    }

    /// Starts every packet that the link can take by `now_ps`. Whatever waits came while the link was
    /// busy, so that it starts when the link is free.
    fn serve(&mut self, now_ps: u64) {
        while self.free_at_ps <= now_ps {
            if let Some((class, bytes)) = self.in_service.take()
                && let Some(queue) = self.queues.get_mut(class)
            {
                queue.leave(bytes, self.free_at_ps);
            }
            let mut queues = self.queues.iter_mut().enumerate();
            let next = queues.find_map(|(class, queue)| Some((class, queue.waiting.pop_front()?)));
            let Some((class, index)) = next else {
                // Idle from now on, at the earliest.
                if now_ps != u64::MAX {
                    self.free_at_ps = self.free_at_ps.max(now_ps);
                }
                return;
            };
            let packet = &mut self.crossings[index];
            let serialisation_ps = serialisation_ps(packet.bytes, self.capacity_bps);
            self.free_at_ps = self.free_at_ps.saturating_add(serialisation_ps);
            self.in_service = Some((class, packet.bytes));
            packet.received_ps = Some(self.free_at_ps);
        }
    }
}

impl Queue {
    fn admits(&mut self, arrival: &Arrival, capacity_bps: u64, rng: &mut Pcg64) -> bool {
        let red = self.red.as_mut();
        let is_dropped =
            red.is_some_and(|red| red.drops(self.backlog_bytes, arrival.at_ps, capacity_bps, rng));
        !is_dropped && self.backlog_bytes + u64::from(arrival.bytes) <= self.buffer_bytes
    }

    fn leave(&mut self, bytes: u32, at_ps: u64) {
        self.backlog_bytes = self.backlog_bytes.saturating_sub(u64::from(bytes));
        if self.backlog_bytes == 0
            && let Some(red) = &mut self.red
        {
            red.idle_from(at_ps);
        }
    }
}

/// A packet behind the link, with exact truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crossing {
    /// Its flow; 0 where it belongs to none.
    pub flow: u32,
    /// Bytes on the wire.
    pub bytes: u32,
    pub kind: Kind,
    /// Which queue it was in.
    pub class: u8,
    /// When it arrived at the queue, in picoseconds.
    pub sent_ps: u64,
    /// When it had left the link; `None`: dropped or lost.
    pub received_ps: Option<u64>,
}

#[cfg(test)]
impl Crossing {
    /// A measured packet of 100 bytes with these stamps in nanoseconds.
    pub fn of_ns(flow: u32, sent_ns: u64, received_ns: Option<u64>) -> Self {
        Self {
            flow,
            bytes: 100,
            kind: Kind::Regular,
            class: 0,
            sent_ps: sent_ns * PS_PER_NS,
            received_ps: received_ns.map(|at_ns| at_ns * PS_PER_NS),
        }
    }
}

impl Crossing {
    /// When it arrived, in whole nanoseconds, rounded down as stamps are.
    pub fn sent_ns(&self) -> u64 {
        self.sent_ps / PS_PER_NS
    }

    /// When it had left the link, likewise; `None`: lost.
    pub fn received_ns(&self) -> Option<u64> {
        self.received_ps.map(|at_ps| at_ps / PS_PER_NS)
    }

    /// From arrival to departure, in nanoseconds and exact; `None`: lost.
    pub fn delay_ns(&self) -> Option<f64> {
        self.received_ps
            .map(|received| (received as f64 - self.sent_ps as f64) / PS_PER_NS as f64)
    }
}

/// Sends traffic through a link, in the order in which it arrives.
///
/// `inject` sees each regular packet and answers with the bytes of a reference that follows it at
/// once, if one is due. References wait, take bandwidth and are dropped as any other packet.
pub fn cross(
    traffic: &Traffic,
    link: &LinkConfig,
    seed: u64,
    mut inject: impl FnMut(&Arrival) -> Option<u32>,
) -> Vec<Crossing> {
    let mut link = Link::new(link, seed);
    link.crossings.reserve(traffic.arrivals.len());
    for arrival in &traffic.arrivals {
        link.offer(arrival);
        if arrival.kind == Kind::Regular
            && let Some(bytes) = inject(arrival)
        {
            link.offer(&Arrival {
                bytes,
                flow: 0,
                kind: Kind::Reference,
                ..*arrival
            });
        }
    }
    link.serve(u64::MAX);
    link.crossings
}

#[cfg(test)]
mod tests;
