//! Coordinated sampling: both ends pick the same packets, or the same flows, by hash.

use crate::queue::Crossing;
use crate::trace::Trace;
use crate::traffic::{Kind, mix};
use crate::truth::{FlowTruth, Truth};

/// Whether a hash falls into a share of all.
fn picks(hash: u64, share: f64) -> bool {
    (hash as f64) < share * 2.0_f64.powi(64)
}

/// Trajectory sampling (Duffield and Grossglauser 2001): a share of all packets is stamped at both
/// ends. A flow's mean is that of its samples; of a flow without any, that of all samples.
pub fn trajectories_ns(crossings: &[Crossing], flows: u32, share: f64, seed: u64) -> Vec<f64> {
    let picked: Vec<Crossing> = crossings
        .iter()
        .filter(|crossing| crossing.kind == Kind::Regular)
        .zip(0_u64..)
        .filter(|(_, number)| picks(mix(number ^ seed.rotate_left(32)), share))
        .map(|(crossing, _)| *crossing)
        .collect();
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

/// The multi-point estimator (Lee, Duffield, Kompella, INFOCOM 2010): of a share of all flows the
/// first and the last packet are stamped at both ends, as `NetFlow` records have them. The delay
/// over time is taken to be the line through all these samples, and a flow's mean is the mean of
/// the line over its life; of a flow that is not sampled, the mean of the line over the run.
pub fn multi_point_ns(crossings: &[Crossing], truth: &Truth, share: f64, seed: u64) -> Vec<f64> {
    let sampled = |flow: u32| picks_flow(flow.into(), share, seed);
    let line = Line::through(crossings.iter().filter_map(|crossing| {
        let flow = truth.flows.get(crossing.flow as usize)?;
        let at_ps = crossing.sent_ps;
        let recorded = crossing.kind == Kind::Regular
            && sampled(crossing.flow)
            && (at_ps == flow.first_ps || at_ps == flow.last_ps);
        Some((at_ps, crossing.delay_ns().filter(|_| recorded)?))
    }));
    let lives = (0..).zip(&truth.flows);
    let lives =
        lives.map(|(number, flow)| sampled(number).then_some((flow.first_ps, flow.last_ps)));
    line.of_lives(lives)
}

/// The same for a trace, whose packets are sorted by flow.
pub fn multi_point_of_trace_ns(trace: &Trace, share: f64, seed: u64) -> Vec<f64> {
    let (mut samples, mut lives) = (Vec::new(), Vec::new());
    for flow in 0..trace.flows() {
        let arrived = trace.of_flow(flow).filter_map(|(_, packet)| {
            let delay_ns = packet.delay_ns().map(f64::from);
            Some((packet.sent_ns, delay_ns?))
        });
        let is_sampled = picks_flow(flow as u64, share, seed);
        let ends = arrived.fold(None, |ends: Option<[(u64, f64); 2]>, packet| {
            let [first, last] = ends.unwrap_or([packet; 2]);
            let first = if packet.0 < first.0 { packet } else { first };
            let last = if packet.0 > last.0 { packet } else { last };
            Some([first, last])
        });
        let ends = ends.filter(|_| is_sampled);
        lives.push(ends.map(|[first, last]| (first.0, last.0)));
        samples.extend(ends.into_iter().flatten());
    }
    samples.sort_by_key(|(sent_ns, _)| *sent_ns);
    Line::through(samples.into_iter()).of_lives(lives)
}

/// Whether a flow is among the share that is sampled.
fn picks_flow(flow: u64, share: f64, seed: u64) -> bool {
    picks(mix(flow ^ seed.rotate_left(16)), share)
}

/// A line through samples of the delay, in order of time.
struct Line {
    samples: Vec<Sample>,
}

struct Sample {
    at_ps: u64,
    delay_ns: f64,
    /// Area under the line up to here, in ns ps.
    area: f64,
}

impl Line {
    fn through(samples: impl Iterator<Item = (u64, f64)>) -> Self {
        let mut line: Vec<Sample> = Vec::new();
        for (at_ps, delay_ns) in samples {
            let area = line.last().map_or(0.0, |last| {
                let height_ns = f64::midpoint(last.delay_ns, delay_ns);
                last.area + height_ns * at_ps.saturating_sub(last.at_ps) as f64
            });
            line.push(Sample {
                at_ps,
                delay_ns,
                area,
            });
        }
        Self { samples: line }
    }

    /// Its mean over the life of each flow, or over the whole run where that is not known.
    fn of_lives(&self, lives: impl IntoIterator<Item = Option<(u64, u64)>>) -> Vec<f64> {
        let overall_ns = self.mean_ns(0, u64::MAX);
        let lives = lives.into_iter();
        let mean_ns = |life: Option<(u64, u64)>| {
            life.map_or(overall_ns, |(first_ps, last_ps)| {
                self.mean_ns(first_ps, last_ps)
            })
        };
        lives.map(mean_ns).collect()
    }

    /// Its mean from the first sample not before `first_ps` to the last not after `last_ps`; not a
    /// number where there are none.
    fn mean_ns(&self, first_ps: u64, last_ps: u64) -> f64 {
        let from = self.samples.partition_point(|s| s.at_ps < first_ps);
        let to = self.samples.partition_point(|s| s.at_ps <= last_ps);
        let within = self.samples.get(from..to).unwrap_or_default();
        match within {
            [] => f64::NAN,
            [first, .., last] if last.at_ps > first.at_ps => {
                let length_ps = (last.at_ps - first.at_ps) as f64;
                (last.area - first.area) / length_ps
            }
            same => same.iter().map(|s| s.delay_ns).sum::<f64>() / same.len() as f64,
        }
    }
}
