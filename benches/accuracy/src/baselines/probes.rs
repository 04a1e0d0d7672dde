//! Poisson active probes: packets of their own that sample the segment's delay.

use rand::SeedableRng;
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64;
use reporting::statistics::whole;

use crate::queue::Crossing;
use crate::traffic::supply::CAPACITY_BPS;
use crate::traffic::{PS_PER_NS, PS_PER_S, serialisation_ps};
use crate::truth::Truth;

/// A probe frame on the wire.
const PROBE_BYTES: u32 = 64;
/// The most probes of a run.
const PROBES_MAX: usize = 10_000_000;

/// What probes found, in order of time.
#[derive(Debug, Clone, Default)]
pub struct Probes {
    sent_ps: Vec<u64>,
    /// Sum of the delays of the probes before each, and of all: one more entry than probes.
    sums_ns: Vec<f64>,
}

impl Probes {
    /// Sends `rate_hz` probes a second, at random, through a FIFO queue that `crossings` went
    /// through. They see the queue as it was and do not lengthen it: a favour, since 10,000 of
    /// them a second take 0.05 % of the link.
    pub fn send(crossings: &[Crossing], rate_hz: f64, seed: u64) -> Self {
        let mut rng = Pcg64::seed_from_u64(seed);
        let mut probes = Self {
            sent_ps: Vec::new(),
            sums_ns: vec![0.0],
        };
        let mut gap_ps = || {
            let gap: f64 = Exp1.sample(&mut rng);
            whole(gap / rate_hz * PS_PER_S as f64) as u64
        };
        let serialisation_ps = serialisation_ps(PROBE_BYTES, CAPACITY_BPS);
        let mut next_ps = gap_ps();
        let mut free_at_ps = 0_u64;
        let mut sum_ns = 0.0;
        for crossing in crossings {
            while next_ps < crossing.sent_ps && probes.sent_ps.len() < PROBES_MAX {
                let delay_ps = free_at_ps.saturating_sub(next_ps) + serialisation_ps;
                sum_ns += delay_ps as f64 / PS_PER_NS as f64;
                probes.sent_ps.push(next_ps);
                probes.sums_ns.push(sum_ns);
                next_ps = next_ps.saturating_add(gap_ps());
            }
            free_at_ps = crossing.received_ps.unwrap_or(free_at_ps);
        }
        probes
    }

    /// Mean delay of the probes sent from `first_ps` to `last_ps` in nanoseconds; not a number
    /// where there are none.
    fn mean_ns(&self, first_ps: u64, last_ps: u64) -> f64 {
        let from = self.sent_ps.partition_point(|&at_ps| at_ps < first_ps);
        let to = self.sent_ps.partition_point(|&at_ps| at_ps <= last_ps);
        match (self.sums_ns.get(from), self.sums_ns.get(to)) {
            (Some(before), Some(behind)) => (behind - before) / (to - from) as f64,
            _ => f64::NAN,
        }
    }

    /// The mean delay of each flow in nanoseconds: that of the probes during its life, or of all
    /// where none was sent then.
    pub fn estimates_ns<'a>(&'a self, truth: &'a Truth) -> impl Iterator<Item = f64> + 'a {
        let overall_ns = self.mean_ns(0, u64::MAX);
        truth.flows.iter().map(move |flow| {
            let mean_ns = self.mean_ns(flow.first_ps, flow.last_ps);
            if mean_ns.is_nan() {
                overall_ns
            } else {
                mean_ns
            }
        })
    }
}
