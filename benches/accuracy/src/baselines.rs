//! Other methods for per-flow delays, on the same packets.
//!
//! | baseline | estimate for a flow |
//! |---|---|
//! | overall mean | the true mean of all packets, whatever the flow: no estimate of the segment alone is better |
//! | LDA | likewise, as it estimates that mean |
//! | Poisson probes | the mean of the probes sent during the flow's life |
//! | trajectory sampling | the mean of the flow's sampled packets |
//! | MPE | the mean over the flow's life of the line through all recorded packets |
//!
//! Without a probe or sample for a flow, a method uses its estimate of the overall mean. Probes and samples are used as
//! in their own systems: taking a flow's delay from packets before and after its own is the idea of RLI, for which
//! 10,000 probes a second would serve as well as references. Exact matching of every packet at both ends is the truth.

use anyhow::Result;
use measure::rli::Method;
use rand::SeedableRng;
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64;
use reporting::Limit;
use reporting::statistics::{quantile, whole};

use crate::experiment::{Found, Plan};
use crate::queue::LinkConfig;
use crate::rli::exchange::Exchange;
use crate::rli::{UTILISATIONS, lda_mean_ns, one_in};
use crate::traffic::{
    CAPACITY_BPS, Crossing, Kind, PS_PER_NS, PS_PER_S, Supply, Wander, in_words, mix,
    serialisation_ps,
};
use crate::truth::{FlowTruth, Truth};

const SEEDS: u32 = 3;
/// By what factor RLI must be better than probes and samples of affordable bandwidth.
const TIMES_BETTER: Limit = Limit::AtLeast(10.0);

/// A probe frame on the wire.
const PROBE_BYTES: u32 = 64;
/// Largest number of probes in a run.
const PROBES_MAX: usize = 10_000_000;

/// A method, how many times better RLI must be, and its errors in per cent over all flows of a run.
type Errors = (&'static str, Option<Limit>, Vec<f64>);

pub fn plan<'a>(supply: &'a Supply, plan: &mut Plan<'a>) {
    let seeds = supply.setting.traffic_seeds(SEEDS);
    plan.table(
        "RLI beside other methods",
        format!(
            "Median error of flows' mean delays over all flows (and the 95th percentile), on the \
             same packets through a FIFO queue with tail drop; means of {}. RLI as in \
             its paper, with one reference for 100 packets. The limit is on the ratio to RLI's median: under heavy modulation at 93 % RLI is at least ten times better than \
             probes of 7 and 144 Hz (the bandwidth of LDA) and 0.1 % sampling.",
            in_words(seeds)
        ),
    );
    for utilisation in UTILISATIONS {
        for &wander in supply.wanders() {
            plan.case(seeds, move |seed, found| {
                let errors = errors(supply, utilisation, wander, seed)?;
                rows(utilisation, wander, &errors, found);
                Ok(())
            });
        }
    }
}

/// A row for each method; heavy modulation at a high load is judged.
fn rows(utilisation: f64, wander: Wander, errors: &[Errors], found: &mut Found) {
    let is_high = utilisation > 0.9;
    let name = format!("{:.0} %, {}", 100.0 * utilisation, wander.label());
    let is_judged = is_high && wander == Wander::Heavy;
    let mut rli = None;
    for (method, limit, errors) in errors {
        let of_flows = |share| quantile(errors.iter().copied(), share);
        let (median, p95) = (of_flows(0.5), of_flows(0.95));
        let row = match rli {
            None => {
                let row = found.row(0, format!("{method}: {name}"), "%", median);
                row.paper(is_high.then_some(12.0))
            }
            Some(rli) => {
                let row = found.ratio(0, format!("{method} / RLI: {name}"), median, [rli]);
                row.limit(limit.filter(|_| is_judged))
                    .other("median, %", median)
            }
        };
        row.other("95th percentile", p95);
        rli = rli.or(Some(median));
    }
}

/// Errors of every method on one run; the first is RLI.
fn errors(supply: &Supply, utilisation: f64, wander: Wander, seed: u64) -> Result<Vec<Errors>> {
    let traffic = supply.traffic(utilisation, wander, seed);
    let link = LinkConfig::ACCEPTANCE;
    let exchange = Exchange::send(&traffic, &link, one_in(100), seed)?;
    let crossings = &exchange.crossings;
    let truth = Truth::of(crossings, traffic.flows);
    let flows = truth.flows.len();

    let mut all = Vec::new();
    let mut add = |name, limit, estimates_ns: Vec<f64>| {
        all.push((name, limit, truth.errors(estimates_ns, FlowTruth::mean_ns)));
    };
    let judged = Some(TIMES_BETTER);
    let rli = |method| Ok::<_, anyhow::Error>(exchange.receive(method)?.means_ns().collect());
    add("RLI", None, rli(Method::Linear)?);
    add("RLI-AS", None, rli(Method::AnchoredSums)?);
    add("overall mean", None, vec![truth.segment.mean_ns(); flows]);
    let lda_ns = lda_mean_ns(crossings, &truth)?.unwrap_or(f64::NAN);
    add("LDA", None, vec![lda_ns; flows]);
    for (name, rate_hz, limit) in [
        ("7 Hz probes", 7.0, judged),
        ("144 Hz probes", 144.0, judged),
        ("10 kHz probes", 10_000.0, None),
    ] {
        let probes = Probes::send(crossings, rate_hz, seed);
        add(name, limit, probes.estimates_ns(&truth).collect());
    }
    for (name, share, limit) in [
        ("0.1 % sampling", 0.001, judged),
        ("1 % sampling", 0.01, None),
    ] {
        let estimates_ns = trajectories_ns(crossings, traffic.flows, share, seed);
        add(name, limit, estimates_ns);
    }
    for (name, share) in [("MPE 1 %", 0.01), ("MPE 10 %", 0.1)] {
        let packets = crossings.iter().filter(|c| c.kind == Kind::Regular);
        let packets = packets.filter_map(|c| Some((c.flow, c.sent_ps, c.delay_ns()?)));
        let estimates_ns = multi_point_ns(packets, flows, share, seed);
        add(name, None, estimates_ns);
    }
    Ok(all)
}

/// Results of active Poisson probes, separate packets that sample the segment's delay, in order of time.
#[derive(Debug, Clone, Default)]
struct Probes {
    sent_ps: Vec<u64>,
    /// Sum of the delays of the probes before each, and of all: one more entry than probes.
    sums_ns: Vec<f64>,
}

impl Probes {
    /// Sends `rate_hz` probes a second, at random, through a FIFO queue that `crossings` went through. They do not
    /// lengthen the queue, which favours them slightly: 10,000 of them a second take 0.05 % of the link.
    fn send(crossings: &[Crossing], rate_hz: f64, seed: u64) -> Self {
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
        (self.sums_ns[to] - self.sums_ns[from]) / (to - from) as f64
    }

    /// The mean delay of each flow in nanoseconds: that of the probes during its life, or of all
    /// where none was sent then.
    fn estimates_ns<'a>(&'a self, truth: &'a Truth) -> impl Iterator<Item = f64> + 'a {
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

/// Whether a hash falls into a share of all: both ends pick the same packets, or the same flows.
fn picks(hash: u64, share: f64) -> bool {
    (hash as f64) < share * 2.0_f64.powi(64)
}

/// Trajectory sampling (Duffield and Grossglauser 2001): a share of all packets is stamped at both ends. A flow's mean
/// is that of its samples; for a flow without samples, it is the mean of all samples.
fn trajectories_ns(crossings: &[Crossing], flows: u32, share: f64, seed: u64) -> Vec<f64> {
    let regular = crossings
        .iter()
        .filter(|crossing| crossing.kind == Kind::Regular);
    let picked = regular
        .zip(0_u64..)
        .filter(|(_, number)| picks(mix(number ^ seed.rotate_left(32)), share));
    let picked: Vec<Crossing> = picked.map(|(crossing, _)| *crossing).collect();
    let samples = Truth::of(&picked, flows);
    let overall_ns = samples.segment.mean_ns();
    let mean_ns = |flow: &FlowTruth| {
        if flow.packets > 0 {
            flow.mean_ns()
        } else {
            overall_ns
        }
    };
    samples.flows.iter().map(mean_ns).collect()
}

/// The multi-point estimator (Lee, Duffield, Kompella, INFOCOM 2010): of a share of all flows the first and the last
/// packet are stamped at both ends, as `NetFlow` records have them. The delay over time is taken to be the line through
/// all these samples, and a flow's mean is the mean of the line over its life, or over the whole run for a flow that is
/// not sampled. Each of the received `packets` has its flow, time of sending and delay.
pub fn multi_point_ns(
    packets: impl Iterator<Item = (u32, u64, f64)>,
    flows: usize,
    share: f64,
    seed: u64,
) -> Vec<f64> {
    let mut ends: Vec<Option<[(u64, f64); 2]>> = vec![None; flows];
    for (flow, at, delay_ns) in packets {
        if picks(mix(u64::from(flow) ^ seed.rotate_left(16)), share)
            && let Some(ends) = ends.get_mut(flow as usize)
        {
            let packet = (at, delay_ns);
            let [first, last] = ends.get_or_insert([packet; 2]);
            if at < first.0 {
                *first = packet;
            }
            if at > last.0 {
                *last = packet;
            }
        }
    }
    let mut samples: Vec<(u64, f64)> = ends.iter().flatten().flatten().copied().collect();
    samples.sort_by_key(|&(at, _)| at);
    let line = Line::through(samples);
    let overall_ns = line.mean_ns(0, u64::MAX);
    let mean_ns = |ends: Option<[(u64, f64); 2]>| {
        ends.map_or(overall_ns, |[first, last]| line.mean_ns(first.0, last.0))
    };
    ends.into_iter().map(mean_ns).collect()
}

/// A line through samples of the delay, in order of time.
struct Line {
    samples: Vec<Sample>,
}

struct Sample {
    at: u64,
    delay_ns: f64,
    /// Area under the line up to here, in ns times the unit of time.
    area: f64,
}

impl Line {
    fn through(samples: impl IntoIterator<Item = (u64, f64)>) -> Self {
        let mut line: Vec<Sample> = Vec::new();
        for (at, delay_ns) in samples {
            let area = line.last().map_or(0.0, |last| {
                let height_ns = f64::midpoint(last.delay_ns, delay_ns);
                last.area + height_ns * at.saturating_sub(last.at) as f64
            });
            line.push(Sample { at, delay_ns, area });
        }
        Self { samples: line }
    }

    /// Its mean from the first sample not before `first` to the last not after `last`; not a
    /// number where there are none.
    fn mean_ns(&self, first: u64, last: u64) -> f64 {
        let from = self.samples.partition_point(|s| s.at < first);
        let to = self.samples.partition_point(|s| s.at <= last);
        let within = self.samples.get(from..to).unwrap_or_default();
        match within {
            [] => f64::NAN,
            [first, .., last] if last.at > first.at => {
                let length = (last.at - first.at) as f64;
                (last.area - first.area) / length
            }
            same => same.iter().map(|s| s.delay_ns).sum::<f64>() / same.len() as f64,
        }
    }
}

#[cfg(test)]
mod tests;
