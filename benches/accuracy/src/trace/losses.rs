//! Which packets are lost, the same for every configuration that is tried on a trace.

use measure::packet::PacketHash;
use rand::SeedableRng;
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64;
use reporting::statistics::whole;

use super::Trace;
use crate::traffic::mix;

/// A loss process, besides what the queue dropped.
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
const EPISODE_PACKETS: f64 = 100.0;

/// A loss process on one trace.
#[derive(Debug, Clone)]
pub struct LossMask {
    seed: u64,
    /// Packets whose hash, mixed anew, is under this are lost.
    under: u64,
    /// Begin and end of each episode in nanoseconds, in order, none overlapping.
    episodes: Vec<(u64, u64)>,
}

impl Losses {
    /// Draws which packets of `trace` are lost.
    pub fn on(self, trace: &Trace, seed: u64) -> LossMask {
        let mut mask = LossMask {
            seed,
            under: 0,
            episodes: Vec::new(),
        };
        match self {
            Self::None => {}
            Self::Uniform(share) => mask.under = whole(share * 2.0_f64.powi(64)) as u64,
            Self::Episodes(share) => {
                let packet_ns = trace.duration_ns() as f64 / trace.packets() as f64;
                mask.episodes = episodes(share, packet_ns, trace.duration_ns(), seed);
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
        if self.episodes.is_empty() {
            return false;
        }
        let begun = self
            .episodes
            .partition_point(|&(begin, _)| begin <= sent_ns);
        let last = begun.checked_sub(1).and_then(|n| self.episodes.get(n));
        last.is_some_and(|&(_, end)| sent_ns < end)
    }
}
