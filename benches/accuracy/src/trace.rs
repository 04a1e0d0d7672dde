//! A trace with exact truth: packets flow by flow, each with its delay.
//!
//! ```text
//!  Scenario + seed --> generate ---+                            +--> LDS, LDA, hybrid
//!                                  +--> Trace --- Losses -------+
//!  crossings of a capture ---------+    flows, packets,         +--> Truth (exact means, counts)
//!                                       references
//! ```
//!
//! Sums commute, so packets need no order in time, and all configurations of a sketch share one
//! trace of a seed: 16 bytes a packet.

use std::collections::HashMap;

use measure::moments::Moments;
use measure::packet::{FlowHash, PacketHash};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, StandardNormal};
use rand_pcg::Pcg64;
use reporting::statistics::{error_percent, median, whole};

use crate::traffic::{Crossing, mix};

/// Epoch of the acceptance trace in nanoseconds: 287 s (LDS paper, section 5: 7.76 million packets
/// at 27,000 a second).
const DURATION_NS: u64 = 287_000_000_000;
/// Flows at scale 1 (LDS paper, section 5).
const FLOWS: f64 = 146_000.0;
/// Packets of a flow on average.
const MEAN_PACKETS: f64 = 53.15;
/// The unit of delays: 100 us.
const UNIT_NS: f64 = 100_000.0;
/// Correlation time of a queue.
const QUEUE_NS: f64 = 20e6;
/// Points of a queue's process: fine beside the references' spacing, so that what happens between
/// two of them is as hard to guess as it should be.
const STEP_NS: f64 = 1e5;
/// One reference each millisecond.
const REFERENCE_NS: f64 = 1e6;

/// Flows by their packets sent: from so many on, and fewer than so many.
pub type Sizes = (f64, f64);
pub const ALL: Sizes = (0.0, f64::INFINITY);
pub const HUNDREDS: Sizes = (100.0, f64::INFINITY);
pub const THOUSANDS: Sizes = (1000.0, f64::INFINITY);

/// A packet with its delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// When the sender's end saw it, in nanoseconds since the epoch's start.
    pub sent_ns: u64,
    /// Its delay in nanoseconds, under [`DROPPED`]; that mark where the queue dropped it.
    delay_ns: u32,
    /// Bytes on the wire.
    pub bytes: u32,
}

/// The mark of a packet that has no delay.
pub const DROPPED: u32 = u32::MAX;

impl Packet {
    /// Its delay in nanoseconds; `None`: the queue dropped it.
    #[inline]
    pub fn delay_ns(self) -> Option<u32> {
        (self.delay_ns != DROPPED).then_some(self.delay_ns)
    }
}

/// A reference packet of RLI.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reference {
    /// When the receiver's end saw it, in nanoseconds since the epoch's start.
    pub received_ns: f64,
    /// Its delay in nanoseconds.
    pub delay_ns: f64,
}

/// Packets of one epoch, flow by flow.
#[derive(Debug, Clone)]
pub struct Trace {
    packets: Vec<Packet>,
    /// Where each flow's packets start, and the end of the last: flows + 1 entries.
    starts: Vec<usize>,
    /// References on path 0, in the order of their arrival.
    pub references: Vec<Reference>,
    /// Flows whose packets all wait in the references' queue; empty: none is known to.
    with_references: Vec<bool>,
    /// The epoch's length in nanoseconds.
    pub duration_ns: u64,
    seed: u64,
}

impl Trace {
    /// Draws the acceptance trace with the delays of `scenario`. `scale` is 1 for 146,000 flows
    /// over 287 s; less gives fewer flows over less time at the same packet rate.
    pub fn generate(scenario: &Scenario, seed: u64, scale: f64) -> Self {
        Self::with_references_each(scenario, seed, scale, REFERENCE_NS)
    }

    /// The same packets with a reference each `reference_ns`.
    pub fn with_references_each(
        scenario: &Scenario,
        seed: u64,
        scale: f64,
        reference_ns: f64,
    ) -> Self {
        let mut rng = Pcg64::seed_from_u64(seed);
        let flows = whole(FLOWS * scale).max(1);
        let duration_ns = (DURATION_NS as f64 * scale.min(1.0)).max(REFERENCE_NS);
        let sizes = sizes(flows, &mut rng);
        let queues = (scenario.modes.iter()).map(|_| Queue::draw(duration_ns, &mut rng));
        let queues = queues.collect();
        let delays = Delays { scenario, queues };

        let starts = ends_of(&sizes);
        let mut packets = Vec::with_capacity(sizes.iter().sum());
        let mut with_references = Vec::with_capacity(sizes.len());
        for &size in &sizes {
            let (begin_ns, length_ns) = life(size, duration_ns, &mut rng);
            let mode = delays.flow_mode(&mut rng);
            with_references.push(mode == 0 && scenario.random_mode_share <= 0.0);
            let factor = (scenario.spread * normal(&mut rng)).exp();
            for _ in 0..size {
                let sent_ns = begin_ns + length_ns * rng.random::<f64>();
                let delay_ns = delays.packet(mode, factor, sent_ns, &mut rng);
                packets.push(packet(sent_ns, delay_ns, &mut rng));
            }
        }
        Self {
            packets,
            starts,
            references: references(&delays, duration_ns, reference_ns, &mut rng),
            with_references,
            duration_ns: whole(duration_ns) as u64,
            seed,
        }
    }

    /// Takes packets that a queue let through or dropped, and references in the order of their
    /// arrival. Flows are numbered anew, in the order of their first packets.
    pub fn from_crossings(crossings: &[Crossing], references: Vec<Reference>, seed: u64) -> Self {
        let mut numbers = HashMap::new();
        let mut flows: Vec<Vec<Packet>> = Vec::new();
        for crossing in crossings {
            let number = *numbers.entry(crossing.flow).or_insert(flows.len());
            if number == flows.len() {
                flows.push(Vec::new());
            }
            flows[number].push(Packet::from(crossing));
        }
        let counts: Vec<_> = flows.iter().map(Vec::len).collect();
        let packets = flows.concat();
        let duration_ns = packets.iter().map(|packet| packet.sent_ns + 1).max();
        Self {
            starts: ends_of(&counts),
            packets,
            references,
            with_references: Vec::new(),
            duration_ns: duration_ns.unwrap_or(1),
            seed,
        }
    }

    pub fn flows(&self) -> usize {
        self.starts.len() - 1
    }

    pub fn packets(&self) -> usize {
        self.packets.len()
    }

    /// Whether all packets of a flow wait in the references' queue, as a switch that spreads flows
    /// over queues can tell.
    pub fn shares_reference_queue(&self, flow: usize) -> bool {
        self.with_references.get(flow).copied().unwrap_or(false)
    }

    /// A flow's packets, each with its hash.
    pub fn of_flow(&self, flow: usize) -> impl Iterator<Item = (PacketHash, Packet)> + '_ {
        let bounds = self.starts.get(flow).zip(self.starts.get(flow + 1));
        let range = bounds.map_or(0..0, |(&start, &end)| start..end);
        let seed = self.seed.rotate_left(32);
        let numbered = range.clone().zip(&self.packets[range]);
        numbered.map(move |(n, &packet)| (PacketHash(mix(seed ^ n as u64)), packet))
    }

    pub fn flow_hash(&self, flow: usize) -> FlowHash {
        FlowHash(mix(!self.seed.rotate_left(32) ^ flow as u64))
    }
}

impl From<&Crossing> for Packet {
    fn from(crossing: &Crossing) -> Self {
        let sent_ns = crossing.sent_ns();
        let received_ns = crossing.received_ns();
        Self {
            sent_ns,
            delay_ns: received_ns.map_or(DROPPED, |at_ns| stored(at_ns.saturating_sub(sent_ns))),
            bytes: crossing.bytes,
        }
    }
}

/// A delay that no packet's mark is confused with.
pub fn stored(delay_ns: u64) -> u32 {
    u32::try_from(delay_ns).map_or(DROPPED - 1, |delay_ns| delay_ns.min(DROPPED - 1))
}

/// Running sums of `counts` from 0: one entry more.
fn ends_of(counts: &[usize]) -> Vec<usize> {
    let sums = counts.iter().scan(0, |sum, &count| {
        *sum += count;
        Some(*sum)
    });
    std::iter::once(0).chain(sums).collect()
}

/// Parameters of a delay model, in units of 100 us.
///
/// A flow takes one mode (a queue or path). Its packets meet the mode's delay, scaled by a factor
/// of the flow, plus what the mode's queue holds at the moment, plus noise.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// As it is named on the command line and in files.
    pub name: &'static str,
    /// In words.
    pub title: &'static str,
    /// Delay of each mode; references take the first.
    pub modes: &'static [f64],
    /// Share of flows that take the first mode, 0 to 1; the others share the rest alike.
    pub first_mode_share: f64,
    /// Deviation of the logarithm of a flow's own factor.
    pub spread: f64,
    /// Weight of the queue: its part is weight x exp(.7 OU - .245), of mean weight.
    pub queue_weight: f64,
    /// Mean of the exponential noise of each packet.
    pub noise: f64,
    /// Share of packets that take any mode instead of their flow's, 0 to 1.
    pub random_mode_share: f64,
}

impl Scenario {
    /// Two uncorrelated queues: the trace of the acceptance checks.
    pub const ACCEPTANCE: Self = Self {
        name: "two-queues",
        title: "two uncorrelated queues",
        modes: &[1.0, 1.6],
        first_mode_share: 0.6,
        spread: 0.05,
        queue_weight: 0.15,
        noise: 0.15,
        random_mode_share: 0.1,
    };

    /// The best case for references: all packets wait in one queue.
    pub const FIFO: Self = Self {
        name: "fifo",
        title: "one FIFO queue",
        modes: &[1.0],
        first_mode_share: 1.0,
        spread: 0.0,
        queue_weight: 0.6,
        noise: 0.03,
        random_mode_share: 0.0,
    };

    /// Two paths of equal cost, each with a queue; references see one.
    pub const ECMP: Self = Self {
        name: "ecmp",
        title: "ECMP over two paths",
        modes: &[1.0, 1.3],
        first_mode_share: 0.6,
        spread: 0.0,
        queue_weight: 0.5,
        noise: 0.05,
        random_mode_share: 0.0,
    };

    /// A little of everything.
    pub const MIXED: Self = Self {
        name: "mixed",
        title: "mixed",
        modes: &[1.0, 1.15],
        first_mode_share: 0.6,
        spread: 0.02,
        queue_weight: 0.5,
        noise: 0.15,
        random_mode_share: 0.05,
    };

    /// The four scenarios of the hybrid, in the order of the report.
    pub const ALL: [Self; 4] = [Self::FIFO, Self::ACCEPTANCE, Self::ECMP, Self::MIXED];
}

/// Packets of each flow: with probability .9563 the next whole number over a Pareto(.3) truncated
/// to [1, 50], else a Pareto(.8) on [50, 4.4e5]; flows over 1000 are scaled by one factor to give
/// the mean.
fn sizes(flows: usize, rng: &mut Pcg64) -> Vec<usize> {
    let drawn: Vec<f64> = (0..flows)
        .map(|_| {
            if rng.random_bool(0.9563) {
                pareto(0.3, 1.0, 50.0, rng).ceil()
            } else {
                pareto(0.8, 50.0, 4.4e5, rng).round()
            }
        })
        .collect();
    let (large, small): (Vec<f64>, Vec<f64>) = drawn.iter().partition(|&&size| size > 1000.0);
    let [large, small] = [large, small].map(|sizes| sizes.into_iter().sum::<f64>());
    // Few flows may hold none over 1000, or too many packets in the others: the mean is a matter
    // of scale 1.
    let factor = ((MEAN_PACKETS * flows as f64 - small) / large).max(0.1);
    let scaled = |size: f64| if size > 1000.0 { size * factor } else { size };
    let sizes = drawn.into_iter().map(scaled);
    sizes.map(|size| whole(size.round()).max(1)).collect()
}

/// A Pareto distribution of this shape, truncated to `least..=most`, by inversion.
fn pareto(shape: f64, least: f64, most: f64, rng: &mut Pcg64) -> f64 {
    let cut = 1.0 - (least / most).powf(shape);
    least * (1.0 - cut * rng.random::<f64>()).powf(-1.0 / shape)
}

/// When a flow begins and how long it lasts: min(.98 T, .5 sqrt(size) exp N(0, 1.2)) seconds.
fn life(size: usize, duration_ns: f64, rng: &mut Pcg64) -> (f64, f64) {
    let drawn_ns = 0.5e9 * (size as f64).sqrt() * (1.2 * normal(rng)).exp();
    let length_ns = drawn_ns.min(0.98 * duration_ns);
    let begin_ns = (duration_ns - length_ns) * rng.random::<f64>();
    (begin_ns, length_ns)
}

/// Bytes at .4/.2/.4 for 64/576/1500.
fn packet(sent_ns: f64, delay_ns: f64, rng: &mut Pcg64) -> Packet {
    let bytes = match rng.random_range(0..5) {
        0 | 1 => 64,
        2 => 576,
        _ => 1500,
    };
    Packet {
        sent_ns: whole(sent_ns) as u64,
        delay_ns: stored(whole(delay_ns) as u64),
        bytes,
    }
}

/// References on path 0, one each `reference_ns`.
fn references(
    delays: &Delays<'_>,
    duration_ns: f64,
    reference_ns: f64,
    rng: &mut Pcg64,
) -> Vec<Reference> {
    (0..=whole(duration_ns / reference_ns))
        .map(|step| {
            let sent_ns = step as f64 * reference_ns;
            let delay_ns = delays.on_mode(0, 1.0, sent_ns, rng);
            Reference {
                received_ns: sent_ns + delay_ns,
                delay_ns,
            }
        })
        .collect()
}

/// What packets meet.
struct Delays<'a> {
    scenario: &'a Scenario,
    queues: Vec<Queue>,
}

impl Delays<'_> {
    fn flow_mode(&self, rng: &mut Pcg64) -> usize {
        match self.scenario.modes.len() {
            0 | 1 => 0,
            modes if rng.random_bool(1.0 - self.scenario.first_mode_share) => {
                rng.random_range(1..modes)
            }
            _ => 0,
        }
    }

    /// Delay in nanoseconds of a packet of a flow with this mode and factor.
    fn packet(&self, mode: usize, factor: f64, sent_ns: f64, rng: &mut Pcg64) -> f64 {
        let share = self.scenario.random_mode_share;
        let stray = share > 0.0 && rng.random_bool(share);
        let mode = if stray {
            rng.random_range(0..self.scenario.modes.len())
        } else {
            mode
        };
        self.on_mode(mode, factor, sent_ns, rng)
    }

    fn on_mode(&self, mode: usize, factor: f64, sent_ns: f64, rng: &mut Pcg64) -> f64 {
        let base = self.scenario.modes[mode] * factor;
        let queue = self.queues[mode].at(sent_ns);
        let noise: f64 = Exp1.sample(rng);
        UNIT_NS * (base + self.scenario.queue_weight * queue + self.scenario.noise * noise)
    }
}

/// The backlog of a queue over time: exp(.7 OU - .245), with mean 1.
struct Queue {
    /// One point each [`STEP_NS`]; between them it changes linearly.
    points: Vec<f64>,
}

impl Queue {
    fn draw(duration_ns: f64, rng: &mut Pcg64) -> Self {
        let keep = (-STEP_NS / QUEUE_NS).exp();
        let renew = (1.0 - keep * keep).sqrt();
        let mut ou = normal(rng);
        let points = (0..whole(duration_ns / STEP_NS) + 2)
            .map(|_| {
                let value = (0.7 * ou - 0.245).exp();
                ou = keep * ou + renew * normal(rng);
                value
            })
            .collect();
        Self { points }
    }

    fn at(&self, time_ns: f64) -> f64 {
        let steps = time_ns / STEP_NS;
        let point = |n: usize| self.points.get(n).copied().unwrap_or(1.0);
        let (left, right) = (point(whole(steps)), point(whole(steps) + 1));
        left + steps.fract() * (right - left)
    }
}

fn normal(rng: &mut Pcg64) -> f64 {
    StandardNormal.sample(rng)
}

/// A loss process, in addition to the queue's drops.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Losses {
    None,
    /// Each packet with this probability, 0 to 1.
    Uniform(f64),
    /// Episodes in which everything is lost, of about 100 packets each, exponentially distributed
    /// (Kompella et al. 2012, section IV-C). This share of the time is lost, 0 to under 1.
    Episodes(f64),
}

/// Packets of a lost episode, on average.
pub const EPISODE_PACKETS: f64 = 100.0;

/// A loss process on one trace.
#[derive(Debug, Clone, Default)]
pub struct LossMask {
    seed: u64,
    /// Packets whose hash, mixed anew, is under this are lost.
    under: u64,
    /// Begin and end of each episode in nanoseconds, in order, none overlapping.
    episodes: Vec<(u64, u64)>,
}

impl Losses {
    /// The share of packets, or of the time, that is lost.
    pub fn share(self) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Uniform(share) | Self::Episodes(share) => share,
        }
    }

    /// Draws which packets of `trace` are lost.
    pub fn on(self, trace: &Trace, seed: u64) -> LossMask {
        let mut mask = LossMask {
            seed,
            ..LossMask::default()
        };
        match self {
            Self::None => {}
            Self::Uniform(share) => mask.under = whole(share * 2.0_f64.powi(64)) as u64,
            Self::Episodes(share) => {
                let packet_ns = trace.duration_ns as f64 / trace.packets() as f64;
                mask.episodes = episodes(share, packet_ns, trace.duration_ns, seed);
            }
        }
        mask
    }
}

/// Alternating exponential times of passing and of losing.
fn episodes(share: f64, packet_ns: f64, duration_ns: u64, seed: u64) -> Vec<(u64, u64)> {
    let mut rng = Pcg64::seed_from_u64(mix(seed));
    let mut drawn = |mean_ns: f64| -> f64 {
        let unit: f64 = Exp1.sample(&mut rng);
        unit * mean_ns
    };
    let lost_ns = EPISODE_PACKETS * packet_ns;
    if !(share > 0.0 && share < 1.0 && lost_ns.is_finite()) {
        return Vec::new();
    }
    let passed_ns = lost_ns * (1.0 - share) / share;
    let mut episodes = Vec::new();
    let mut now_ns = drawn(passed_ns);
    while now_ns < duration_ns as f64 {
        let end_ns = now_ns + drawn(lost_ns);
        episodes.push((whole(now_ns) as u64, whole(end_ns) as u64));
        now_ns = end_ns + drawn(passed_ns);
    }
    episodes
}

impl LossMask {
    /// Whether a packet of this hash that was sent at this time is lost.
    #[inline]
    pub fn takes(&self, PacketHash(hash): PacketHash, sent_ns: u64) -> bool {
        if self.under > 0 && mix(hash ^ self.seed) < self.under {
            return true;
        }
        let begun = (self.episodes).partition_point(|&(begin, _)| begin <= sent_ns);
        let last = self.episodes[..begun].last();
        last.is_some_and(|&(_, end)| sent_ns < end)
    }
}

/// Exact figures of all flows, one entry a flow.
#[derive(Debug, Clone, Default)]
pub struct Truth {
    /// Mean delay in nanoseconds of the packets that arrived; not a number where none did.
    pub mean_ns: Vec<f64>,
    /// Standard deviation of these packets' delays in nanoseconds; not a number where none did.
    pub stddev_ns: Vec<f64>,
    /// Packets that arrived.
    pub received: Vec<f64>,
    pub sent: Vec<f64>,
}

impl Truth {
    /// Looks at every packet of `trace` that `losses` spare.
    pub fn of(trace: &Trace, losses: &LossMask) -> Self {
        let mut truth = Self::default();
        for flow in 0..trace.flows() {
            let arrived = trace.of_flow(flow).filter_map(|(hash, packet)| {
                (packet.delay_ns()).filter(|_| !losses.takes(hash, packet.sent_ns))
            });
            let arrived = moments(arrived);
            truth.mean_ns.push(arrived.mean_ticks().unwrap_or(f64::NAN));
            truth
                .stddev_ns
                .push(arrived.stddev_ticks().unwrap_or(f64::NAN));
            truth.received.push(arrived.count() as f64);
            truth.sent.push(trace.of_flow(flow).count() as f64);
        }
        truth
    }

    /// Flows with a packet that arrived, by their packets sent.
    pub fn flows(&self, packets: Sizes) -> impl Iterator<Item = usize> + '_ {
        (0..self.sent.len()).filter(move |&flow| {
            self.received[flow] > 0.0 && (packets.0..packets.1).contains(&self.sent[flow])
        })
    }

    /// Relative errors in per cent of mean delays of the flows of this many packets.
    pub fn errors(&self, estimates: &[f64], packets: Sizes) -> Vec<f64> {
        errors(estimates, &self.mean_ns, self.flows(packets))
    }

    pub fn median(&self, estimates: &[f64], packets: Sizes) -> f64 {
        median(self.errors(estimates, packets))
    }
}

/// The exact moments of delays.
pub fn moments(delays: impl IntoIterator<Item = u32>) -> Moments {
    let mut moments = Moments::default();
    for delay in delays {
        moments.add_delays(delay.into(), 1);
    }
    moments
}

/// Relative errors in per cent of `flows`.
pub fn errors(
    estimates: &[f64],
    truth: &[f64],
    flows: impl IntoIterator<Item = usize>,
) -> Vec<f64> {
    let flows = flows.into_iter();
    flows
        .filter_map(|flow| Some(error_percent(*estimates.get(flow)?, *truth.get(flow)?)))
        .collect()
}

#[cfg(test)]
mod tests;
