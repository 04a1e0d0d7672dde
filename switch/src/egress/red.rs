//! Random early detection: Floyd and Jacobson, "Random Early Detection Gateways for Congestion
//! Avoidance", IEEE/ACM Transactions on Networking 1(4), 1993, figure 2.

use contract::config;
use measure::time::Ticks;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg32;

/// Averages below this count as 0.
const AVERAGE_MIN: f64 = 1e-6;

/// Decides which packets are dropped early, by the average length of a queue over time.
///
/// The average is the paper's: updated by each arrival, and after an idle time by as many packets as could
/// have left meanwhile. Drops are spaced by count (section 7, method 2): between two of them are 0 to 1/p
/// packets, each number equally likely, where p rises with the average. So the share of dropped packets is
/// 2p/(1 + p). (Figure 2 counts the first packet after a drop as the second; this follows the analysis.)
#[derive(Debug, Clone)]
pub struct Red {
    min_packets: f64,
    max_packets: f64,
    /// p at `max_packets`: the paper's `max_p`.
    probability: f64,
    /// The paper's `w_q`, and ln(1 - `w_q`).
    weight: f64,
    ln_keep: f64,
    /// Time of a typical packet on the link: the paper's `s`.
    packet_ticks: f64,
    average_packets: f64,
    /// Packets accepted since the last drop: the paper's `count`.
    since_drop: u32,
    idle_since: Ticks,
    rng: Pcg32,
}

impl Red {
    /// RED with these `settings`, with randomness from `seed`, on a link where a typical packet takes
    /// `packet_ticks`.
    pub fn new(settings: &config::Red, packet_ticks: u64, seed: u64) -> Self {
        let weight = 0.5f64.powi(i32::from(settings.weight_log2));
        Self {
            min_packets: f64::from(settings.min_packets),
            max_packets: f64::from(settings.max_packets),
            probability: settings.probability,
            weight,
            ln_keep: (-weight).ln_1p(),
            packet_ticks: packet_ticks.max(1) as f64,
            average_packets: 0.0,
            since_drop: 0,
            idle_since: Ticks(0),
            rng: Pcg32::seed_from_u64(seed),
        }
    }

    /// Counts a packet that arrives at `now` at a queue of `queue_packets`. Returns true if it must be
    /// dropped.
    pub fn drops(&mut self, queue_packets: usize, now: Ticks) -> bool {
        self.renew_average(queue_packets, now);
        let drops = if self.average_packets < self.min_packets {
            self.since_drop = 0;
            return false;
        } else if self.average_packets >= self.max_packets {
            true
        } else {
            let span = self.max_packets - self.min_packets;
            let p = self.probability * (self.average_packets - self.min_packets) / span;
            let left = 1.0 - f64::from(self.since_drop) * p;
            left <= p || self.rng.random::<f64>() * left < p
        };
        self.since_drop = if drops {
            0
        } else {
            self.since_drop.saturating_add(1)
        };
        drops
    }

    /// Notes that a packet was dropped for another reason, which spaces the next drop, too.
    pub fn dropped_otherwise(&mut self) {
        self.since_drop = 0;
    }

    /// Notes that the last packet left at `now`.
    pub fn emptied(&mut self, now: Ticks) {
        self.idle_since = now;
    }

    /// The average length, in packets.
    pub fn average_packets(&self) -> f64 {
        self.average_packets
    }

    /// Takes over the state of `old`.
    pub fn succeed(&mut self, old: &Self) {
        self.average_packets = old.average_packets;
        self.since_drop = old.since_drop;
        self.idle_since = old.idle_since;
    }

    fn renew_average(&mut self, queue_packets: usize, now: Ticks) {
        if queue_packets > 0 {
            self.average_packets += self.weight * (queue_packets as f64 - self.average_packets);
            return;
        }
        // Limits the exponent, because 0 * infinity, at a weight of 1, is NaN.
        let idle_packets = now.saturating_since(self.idle_since) as f64 / self.packet_ticks;
        if self.average_packets > 0.0 && idle_packets > 0.0 {
            self.average_packets *= (idle_packets * self.ln_keep).exp();
            if self.average_packets < AVERAGE_MIN {
                self.average_packets = 0.0;
            }
        }
        self.idle_since = now;
    }
}

#[cfg(test)]
mod tests;
