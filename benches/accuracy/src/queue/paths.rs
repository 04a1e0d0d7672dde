//! What happens to packets beyond one queue: equal-cost paths, losses, delays of each packet's own.

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Weibull};
use rand_pcg::Pcg64;
use reporting::statistics::whole;

use super::{Crossing, LinkConfig, cross};
use crate::traffic::{Arrival, PS_PER_NS, Traffic, mix};

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
    let path = (u128::from(hash) * paths as u128) >> 64;
    // Less than `paths`.
    usize::try_from(path).unwrap_or(0)
}

/// The packets of flows that take a path.
pub fn share_of(traffic: &Traffic, path: usize, paths: usize, seed: u64) -> Traffic {
    let takes = |arrival: &&Arrival| path_of(arrival.flow, paths, seed) == path;
    Traffic {
        arrivals: traffic.arrivals.iter().filter(takes).copied().collect(),
        ..*traffic
    }
}

/// Sends traffic over equal-cost paths, flow by flow, and returns the packets in the order in
/// which they were sent; they are received in another.
pub fn cross_paths(traffic: &Traffic, paths: &[Path], seed: u64) -> Vec<Crossing> {
    let mut crossings = Vec::with_capacity(traffic.arrivals.len());
    for (number, path) in paths.iter().enumerate() {
        let share = share_of(traffic, number, paths.len(), seed);
        let seed = seed.wrapping_add(number as u64);
        let mut crossed = cross(&share, &path.link, seed, |_| None);
        delay(&mut crossed, || path.propagation_ps);
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
