//! What happens to packets beyond one queue: equal-cost paths, losses, delays of other making,
//! reordering, clocks that disagree.
//!
//! Each is a step on the list of packets, so that they compose:
//! queue, then loss, then jitter, then the receiver's clock.

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1, Pareto, Weibull};
use rand_pcg::Pcg64;

use super::{Crossing, LinkConfig, cross};
use crate::Passage;
use crate::traffic::mix;
use crate::traffic::{Arrival, PS_PER_NS, Traffic};

/// One of several equal-cost paths.
#[derive(Debug, Clone, PartialEq)]
pub struct Path {
    /// Its slowest link.
    pub link: LinkConfig,
    /// What it adds to every packet's delay.
    pub propagation_ps: u64,
}

/// Which of `paths` a flow takes: the same one for all its packets.
pub fn path_of(flow: u32, paths: usize, seed: u64) -> usize {
    let hash = mix(u64::from(flow) ^ seed.rotate_left(32));
    let place = (u128::from(hash) * paths as u128) >> 64;
    usize::try_from(place).unwrap_or(0)
}

/// Sends traffic over equal-cost paths, flow by flow, and returns the packets in the order in
/// which they were sent; they are received in another.
pub fn cross_paths(traffic: &Traffic, paths: &[Path], seed: u64) -> Vec<Crossing> {
    let mut crossings = Vec::with_capacity(traffic.arrivals.len());
    for (number, path) in paths.iter().enumerate() {
        let chosen = |arrival: &&Arrival| path_of(arrival.flow, paths.len(), seed) == number;
        let share = Traffic {
            arrivals: traffic.arrivals.iter().filter(chosen).copied().collect(),
            flows: traffic.flows,
            duration_ps: traffic.duration_ps,
        };
        let seed = seed.wrapping_add(number as u64);
        crossings.extend(
            cross(&share, &path.link, seed, |_| None)
                .into_iter()
                .map(|crossing| Crossing {
                    received_ps: crossing
                        .received_ps
                        .map(|at_ps| at_ps.saturating_add(path.propagation_ps)),
                    ..crossing
                }),
        );
    }
    crossings.sort_by_key(|crossing| crossing.sent_ps);
    crossings
}

/// How packets are lost on the way, apart from full queues.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Loss {
    /// Each with this probability.
    Uniform(f64),
    /// In episodes that lose every packet.
    Bursts {
        /// The share of packets lost in the long run.
        share: f64,
        /// Packets in an episode, on average, 1 or more (geometric).
        packets_mean: f64,
    },
}

impl Loss {
    /// Loses packets that arrived.
    pub fn apply(self, crossings: &mut [Crossing], seed: u64) {
        let mut rng = Pcg64::seed_from_u64(seed);
        // A chain of two states (Gilbert): probabilities of entering and of leaving an episode.
        let (enter, leave) = match self {
            Self::Uniform(share) => (share, 1.0 - share),
            Self::Bursts {
                share,
                packets_mean,
            } => {
                let leave = 1.0 / packets_mean.max(1.0);
                (leave * share / (1.0 - share).max(f64::MIN_POSITIVE), leave)
            }
        };
        let (enter, leave) = (enter.clamp(0.0, 1.0), leave.clamp(0.0, 1.0));
        let mut losing = false;
        for crossing in crossings {
            losing = rng.random_bool(if losing { 1.0 - leave } else { enter });
            if losing {
                crossing.received_ps = None;
            }
        }
    }
}

/// Delays that no queue made, each packet's for itself: packets may overtake one another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Jitter {
    /// Weibull of this scale and shape.
    Weibull {
        /// Scale in nanoseconds.
        scale_ns: f64,
        /// Shape: 0.6 has the papers' heavy tail.
        shape: f64,
    },
    /// Pareto of this least value and shape.
    Pareto {
        /// The least delay in nanoseconds.
        least_ns: f64,
        /// Shape: 3 has a variance, barely.
        shape: f64,
    },
    /// Some packets are held back for an exponential time, the others not at all.
    Overtaking {
        /// Probability of being held back.
        share: f64,
        /// For how long, on average, in nanoseconds.
        held_ns_mean: f64,
    },
}

impl Jitter {
    /// Adds a delay to each packet that arrives. Does nothing where a parameter is out of range
    /// (a scale, a shape or a least value that is not above 0).
    pub fn apply(self, crossings: &mut [Crossing], seed: u64) {
        let mut rng = Pcg64::seed_from_u64(seed);
        let mut add = |draw: &mut dyn FnMut(&mut Pcg64) -> f64| {
            for crossing in &mut *crossings {
                if let Some(received_ps) = &mut crossing.received_ps {
                    *received_ps = received_ps.saturating_add(picoseconds(draw(&mut rng)));
                }
            }
        };
        match self {
            Self::Weibull { scale_ns, shape } => {
                if let Ok(delays) = Weibull::new(scale_ns, shape) {
                    add(&mut |rng| delays.sample(rng));
                }
            }
            Self::Pareto { least_ns, shape } => {
                if let Ok(delays) = Pareto::new(least_ns, shape) {
                    add(&mut |rng| delays.sample(rng));
                }
            }
            Self::Overtaking {
                share,
                held_ns_mean,
            } => add(&mut |rng| {
                let held = rng.random_bool(share.clamp(0.0, 1.0));
                let time: f64 = Exp1.sample(rng);
                if held { held_ns_mean * time } else { 0.0 }
            }),
        }
    }
}

/// The receiver's clock as the sender's sees it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Clock {
    /// How far it is ahead at the start, in nanoseconds.
    pub offset_ns: i64,
    /// How much faster it runs, in parts in 10^9.
    pub drift_ppb: i64,
}

impl Clock {
    /// The packet with the stamps that both ends set, in whole nanoseconds.
    pub fn passage(self, crossing: &Crossing) -> Passage {
        let exact = crossing.passage();
        let shown = |ns: i64| {
            let drift = i128::from(ns) * i128::from(self.drift_ppb) / 1_000_000_000;
            let drift = i64::try_from(drift).unwrap_or(i64::MAX);
            ns.saturating_add(self.offset_ns).saturating_add(drift)
        };
        Passage {
            received_ns: exact.received_ns.map(shown),
            ..exact
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, and no delay is under 0"
)]
fn picoseconds(ns: f64) -> u64 {
    (ns * PS_PER_NS as f64) as u64
}
