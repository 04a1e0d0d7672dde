//! Draws the acceptance trace.

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, StandardNormal};
use rand_pcg::Pcg64;
use reporting::statistics::whole;

use super::{DURATION_NS, Packet, Reference, Scenario, Trace, ends_of, stored};

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
pub(super) const REFERENCE_NS: f64 = 1e6;

/// Packets do not depend on how often there is a reference.
pub(super) fn trace(scenario: &Scenario, seed: u64, scale: f64, reference_ns: f64) -> Trace {
    let mut rng = Pcg64::seed_from_u64(seed);
    let flows = whole(FLOWS * scale).max(1);
    let duration_ns = (DURATION_NS as f64 * scale.min(1.0)).max(REFERENCE_NS);
    let sizes = sizes(flows, &mut rng);
    let queues: Vec<Queue> = scenario
        .modes
        .iter()
        .map(|_| Queue::draw(duration_ns, &mut rng))
        .collect();
    let delays = Delays {
        scenario,
        queues: &queues,
    };

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
    Trace {
        packets,
        starts,
        references: references(&delays, duration_ns, reference_ns, &mut rng),
        with_references,
        duration_ns: whole(duration_ns) as u64,
        seed,
    }
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
    let (large, small) = drawn.iter().fold((0.0, 0.0), |(large, small), &size| {
        if size > 1000.0 {
            (large + size, small)
        } else {
            (large, small + size)
        }
    });
    // Few flows may hold none over 1000, or too many packets in the others: the mean is a matter
    // of scale 1.
    let factor = ((MEAN_PACKETS * flows as f64 - small) / large).max(0.1);
    drawn
        .into_iter()
        .map(|size| whole(if size > 1000.0 { size * factor } else { size }.round()).max(1))
        .collect()
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
    queues: &'a [Queue],
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
        let base = self
            .scenario
            .modes
            .get(mode)
            .map_or(1.0, |base| base * factor);
        let queue = self.queues.get(mode).map_or(0.0, |queue| queue.at(sent_ns));
        let noise: f64 = Exp1.sample(rng);
        UNIT_NS * (base + self.scenario.queue_weight * queue + self.scenario.noise * noise)
    }
}

/// What one queue holds over time: exp(.7 OU - .245), of mean 1.
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
