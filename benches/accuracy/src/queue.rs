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

use std::collections::VecDeque;

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Weibull};
use rand_pcg::Pcg64;
use reporting::statistics::whole;

use crate::traffic::{CAPACITY_BPS, Crossing, Kind, PS_PER_NS, Traffic, mix, serialisation_ps};

/// A link and the queues in front of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkConfig {
    pub capacity_bps: u64,
    /// Capacity of each queue, including the packet on the link; further packets are dropped (tail drop).
    pub buffer_bytes: u64,
    /// What is dropped before that.
    pub dropping: Dropping,
    /// Queues, one or more, the first served first; a packet of a class past the last joins the last.
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
    fn offer(&mut self, arrival: Crossing) {
        let index = self.crossings.len();
        self.crossings.push(arrival);
        self.serve(arrival.sent_ps);
        let class = usize::from(arrival.class).min(self.queues.len() - 1);
        let queue = &mut self.queues[class];
        if queue.admits(&arrival, self.capacity_bps, &mut self.rng) {
            queue.waiting.push_back(index);
            queue.backlog_bytes += u64::from(arrival.bytes);
            // An idle link takes it at once.
            self.serve(arrival.sent_ps);
        }
    }

    /// Starts every packet that the link can take by `now_ps`. Whatever waits came while the link was
    /// busy, so that it starts when the link is free.
    fn serve(&mut self, now_ps: u64) {
        while self.free_at_ps <= now_ps {
            if let Some((class, bytes)) = self.in_service.take() {
                self.queues[class].leave(bytes, self.free_at_ps);
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
    fn admits(&mut self, arrival: &Crossing, capacity_bps: u64, rng: &mut Pcg64) -> bool {
        let red = self.red.as_mut();
        let is_dropped = red
            .is_some_and(|red| red.drops(self.backlog_bytes, arrival.sent_ps, capacity_bps, rng));
        !is_dropped && self.backlog_bytes + u64::from(arrival.bytes) <= self.buffer_bytes
    }

    fn leave(&mut self, bytes: u32, at_ps: u64) {
        self.backlog_bytes = self.backlog_bytes.saturating_sub(u64::from(bytes));
        if self.backlog_bytes == 0
            && let Some(red) = &mut self.red
        {
            red.idle_from_ps = Some(at_ps);
        }
    }
}

/// Sends traffic through a link, in the order in which it arrives.
///
/// `inject` is called for each regular packet, and returns the bytes of a reference that follows it immediately, if one
/// is due. References wait, take bandwidth and are dropped like any other packet.
pub fn cross(
    traffic: &Traffic,
    link: &LinkConfig,
    seed: u64,
    mut inject: impl FnMut(&Crossing) -> Option<u32>,
) -> Vec<Crossing> {
    let mut link = Link::new(link, seed);
    link.crossings.reserve(traffic.arrivals.len());
    for arrival in &traffic.arrivals {
        link.offer(*arrival);
        if arrival.kind == Kind::Regular
            && let Some(bytes) = inject(arrival)
        {
            link.offer(Crossing {
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

/// Weight of the newest length of the queue in its average.
const RED_WEIGHT: f64 = 0.002;
/// The highest probability of a drop between the thresholds.
const RED_PROBABILITY_MAX: f64 = 0.1;
/// Size of the packets that an idle link is assumed to have sent.
const RED_IDLE_BYTES: u32 = 500;

/// Random early detection (Floyd and Jacobson, IEEE/ACM Transactions on Networking 1993).
#[derive(Debug, Clone)]
struct Red {
    /// Nothing is dropped below this average backlog, in bytes,
    least_bytes: f64,
    /// and everything above this one.
    most_bytes: f64,
    average_bytes: f64,
    /// Packets let in since the last drop, while between the thresholds.
    since_drop: u32,
    /// Since when the queue is empty, if it is.
    idle_from_ps: Option<u64>,
}

impl Red {
    /// Between a quarter and three quarters of a buffer.
    fn new(buffer_bytes: u64) -> Self {
        Self {
            least_bytes: 0.25 * buffer_bytes as f64,
            most_bytes: 0.75 * buffer_bytes as f64,
            average_bytes: 0.0,
            since_drop: 0,
            idle_from_ps: None,
        }
    }

    /// Whether a packet that finds `backlog_bytes` is dropped.
    fn drops(
        &mut self,
        backlog_bytes: u64,
        now_ps: u64,
        capacity_bps: u64,
        rng: &mut Pcg64,
    ) -> bool {
        if let Some(idle_from_ps) = self.idle_from_ps.take() {
            // As if small packets had found the queue empty all the while.
            let packet_ps = serialisation_ps(RED_IDLE_BYTES, capacity_bps).max(1);
            let packets = now_ps.saturating_sub(idle_from_ps) as f64 / packet_ps as f64;
            self.average_bytes *= (1.0 - RED_WEIGHT).powf(packets);
        }
        self.average_bytes += RED_WEIGHT * (backlog_bytes as f64 - self.average_bytes);
        let span = self.most_bytes - self.least_bytes;
        let above = self.average_bytes - self.least_bytes;
        if above < 0.0 {
            self.since_drop = 0;
            return false;
        }
        if above >= span {
            self.since_drop = 0;
            return true;
        }
        // Spread evenly: the drop probability rises with each packet let in.
        let base = RED_PROBABILITY_MAX * above / span;
        let left = 1.0 - f64::from(self.since_drop) * base;
        let drop = left <= base || rng.random::<f64>() < base / left;
        self.since_drop = if drop { 0 } else { self.since_drop + 1 };
        drop
    }
}

/// Which of `paths` a flow takes: the same one for all its packets.
pub fn path_of(flow: u32, paths: usize, seed: u64) -> usize {
    let hash = mix(u64::from(flow) ^ seed.rotate_left(32));
    let path = (u128::from(hash) * paths as u128) >> 64;
    // Less than `paths`.
    usize::try_from(path).unwrap_or(0)
}

/// The packets of flows that take a path.
pub fn share_of(traffic: &Traffic, path: usize, paths: usize, seed: u64) -> Traffic {
    let takes = |arrival: &&Crossing| path_of(arrival.flow, paths, seed) == path;
    Traffic {
        arrivals: traffic.arrivals.iter().filter(takes).copied().collect(),
        ..*traffic
    }
}

/// Sends traffic over equal-cost paths, flow by flow, and returns the packets in the order in
/// which they were sent. Each path has a link, and adds its `propagation_ps` to every delay.
pub fn cross_paths(
    traffic: &Traffic,
    link: &LinkConfig,
    propagation_ps: &[u64],
    seed: u64,
) -> Vec<Crossing> {
    let mut crossings = Vec::with_capacity(traffic.arrivals.len());
    for (number, &more_ps) in propagation_ps.iter().enumerate() {
        let share = share_of(traffic, number, propagation_ps.len(), seed);
        let seed = seed.wrapping_add(number as u64);
        let mut crossed = cross(&share, link, seed, |_| None);
        delay(&mut crossed, || more_ps);
        crossings.extend(crossed);
    }
    crossings.sort_by_key(|crossing| crossing.sent_ps);
    crossings
}

/// Loses packets that arrived, each with the probability `share`.
pub fn lose(crossings: &mut [Crossing], share: f64, seed: u64) {
    let mut rng = Pcg64::seed_from_u64(seed);
    for crossing in crossings {
        if rng.random_bool(share) {
            crossing.received_ps = None;
        }
    }
}

/// Delays each packet that arrives by a Weibull draw of its own: packets may overtake one another.
pub fn jitter(crossings: &mut [Crossing], delay_ns: &Weibull<f64>, seed: u64) {
    let mut rng = Pcg64::seed_from_u64(seed);
    delay(crossings, || {
        whole(delay_ns.sample(&mut rng) * PS_PER_NS as f64) as u64
    });
}

/// Adds to the delay of each packet that arrives.
fn delay(crossings: &mut [Crossing], mut more_ps: impl FnMut() -> u64) {
    for received_ps in crossings.iter_mut().filter_map(|c| c.received_ps.as_mut()) {
        *received_ps = received_ps.saturating_add(more_ps());
    }
}

#[cfg(test)]
mod tests;
