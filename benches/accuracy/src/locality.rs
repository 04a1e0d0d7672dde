//! Delay locality: how near the mean delay around a flow's packets lies to the flow's own (the RLI
//! slides 10 and 11).
//!
//! Each packet's delay is replaced by the mean over all measured packets that were sent within a
//! window about it. Where packets share one queue, a short window loses little, and that is what
//! RLI lives on. Where they do not, no window helps.

use anyhow::Result;
use rayon::prelude::*;

use super::queue::paths::{Jitter, Path, cross_paths};
use super::queue::{BUFFER_BYTES, Crossing, LinkConfig, cross};
use super::table::{Row, Table};
use super::traffic::mix;
use super::traffic::supply::{CAPACITY_BPS, Supply, Wander, in_words, seeds};
use super::traffic::{Kind, Traffic};
use super::truth::Truth;
use super::{Experiment, Findings, Setting};
use reporting::statistics::mean;

/// Windows of 0.1 ms, 10 ms and 1 s, in picoseconds.
const WINDOWS_PS: [u64; 3] = [100_000_000, 10_000_000_000, 1_000_000_000_000];
/// What the slide gives for the first.
const SLIDE: f64 = 0.054;
/// Packets from which on a flow counts: one small packet that found the link idle is a delay of
/// 51 ns, next to which any mean is infinitely wrong.
const PACKETS_MIN: u64 = 10;
const SEEDS: u32 = 3;

/// What makes the delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Segment {
    /// One queue.
    Fifo,
    /// Two equal-cost paths of half the rate each, one 100 us longer.
    TwoPaths,
    /// Two queues by priority.
    Priorities,
    /// No queue: each packet's delay is its own, Weibull of shape 0.6.
    Independent,
}

impl Segment {
    const ALL: [Self; 4] = [
        Self::Fifo,
        Self::TwoPaths,
        Self::Priorities,
        Self::Independent,
    ];

    fn label(self) -> &'static str {
        match self {
            Self::Fifo => "one FIFO queue",
            Self::TwoPaths => "two equal-cost paths",
            Self::Priorities => "two priorities",
            Self::Independent => "delays of their own (Weibull)",
        }
    }

    fn cross(self, mut traffic: Traffic, seed: u64) -> Vec<Crossing> {
        let mut link = LinkConfig::fifo(CAPACITY_BPS, BUFFER_BYTES);
        match self {
            Self::Fifo => cross(&traffic, &link, seed, |_| None),
            Self::TwoPaths => {
                link.capacity_bps /= 2;
                spread_cross_traffic(&mut traffic);
                let path = |propagation_ps| Path {
                    link: link.clone(),
                    propagation_ps,
                };
                cross_paths(&traffic, &[path(0), path(100_000_000)], seed)
            }
            Self::Priorities => {
                link.queues = vec![link.queues[0]; 2];
                spread_cross_traffic(&mut traffic);
                for arrival in &mut traffic.arrivals {
                    arrival.class = u8::from(mix(arrival.flow.into()) & 1 == 1);
                }
                cross(&traffic, &link, seed, |_| None)
            }
            Self::Independent => {
                // So fast and so wide that nothing waits.
                link.capacity_bps = CAPACITY_BPS * 1_000;
                let mut crossings = cross(&traffic, &link, seed, |_| None);
                let jitter = Jitter::Weibull {
                    scale_ns: 100_000.0,
                    shape: 0.6,
                };
                jitter.apply(&mut crossings, seed);
                crossings
            }
        }
    }
}

/// Gives cross traffic flows of its own, beyond the measured ones, so that it spreads like them.
fn spread_cross_traffic(traffic: &mut Traffic) {
    let beyond = traffic.flows;
    for (number, arrival) in (0_u32..).zip(&mut traffic.arrivals) {
        if arrival.kind == Kind::Cross {
            arrival.flow = beyond.saturating_add(number % 10_000);
        }
    }
}

/// The segments and loads that are looked at: every load for the queue, one for the others.
fn cases(setting: &Setting) -> Vec<(Segment, f64, Wander)> {
    let wanders = Supply::wanders(&setting.source);
    let mut cases = Vec::new();
    for segment in Segment::ALL {
        for &wander in wanders {
            for utilisation in [0.67, 0.93] {
                let heaviest = wanders.last() == Some(&wander) && utilisation > 0.9;
                if segment == Segment::Fifo || heaviest {
                    cases.push((segment, utilisation, wander));
                }
            }
        }
    }
    cases
}

/// This experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "locality",
    title: "Delay locality",
    steps,
    run,
};

fn steps(setting: &Setting) -> u64 {
    cases(setting).len() as u64 * u64::from(seeds(setting, SEEDS))
}

fn run(setting: &Setting, step: &(dyn Fn() + Sync)) -> Result<Findings> {
    let supply = Supply::new(setting)?;
    let seeds = seeds(setting, SEEDS);
    let mut rows = Vec::new();
    for (segment, utilisation, wander) in cases(setting) {
        let runs: Vec<[f64; WINDOWS_PS.len()]> = (0..seeds)
            .into_par_iter()
            .map(|seed| {
                let traffic = supply.traffic(utilisation, wander, u64::from(seed));
                let flows = traffic.flows;
                let crossings = segment.cross(traffic, u64::from(seed));
                let figures =
                    WINDOWS_PS.map(|window_ps| rmsre(&crossings, flows, window_ps, PACKETS_MIN));
                step();
                figures
            })
            .collect();
        let case = format!(
            "{}, {:.0} %, {}",
            segment.label(),
            100.0 * utilisation,
            wander.label(),
        );
        let [short, middle, long] =
            [0, 1, 2].map(|window| mean(runs.iter().map(|figures| figures[window])));
        rows.push(
            Row::new(case, "RMSRE", short)
                .paper((segment == Segment::Fifo).then_some(SLIDE))
                .other("10 ms", middle)
                .other("1 s", long),
        );
    }
    let seeds = in_words(seeds);
    let about = format!(
        "Root mean square, over flows of at least {PACKETS_MIN} packets, of the relative error that \
         a flow's mean delay has when each packet's delay is replaced by the mean over all measured \
         packets sent within a window of 0.1 ms about it (and of 10 ms and of 1 s); means of \
         {seeds}. RLI is at home where 0.1 ms is far better than 1 s, and has nothing to say where it \
         is not. Paper: slide 11, 0.054, 0.16 and 1.72, a real router and a synthetic queue of other \
         loads.",
    );
    Ok(Findings {
        tables: vec![Table {
            title: "Delay locality".to_owned(),
            about,
            rows,
        }],
        figures: Vec::new(),
    })
}

/// Root mean square relative error of the local means of flows of at least `packets_min` packets.
fn rmsre(crossings: &[Crossing], flows: u32, window_ps: u64, packets_min: u64) -> f64 {
    let truth = Truth::of(crossings, flows);
    // (flow, time of sending, sum of delays before) of every measured packet that arrived.
    let mut packets: Vec<(u32, u64)> = Vec::new();
    let mut sums_ns = vec![0.0];
    let mut total_ns = 0.0;
    for crossing in crossings {
        if let (Kind::Regular, Some(delay_ns)) = (crossing.kind, crossing.delay_ns()) {
            total_ns += delay_ns;
            packets.push((crossing.flow, crossing.sent_ps));
            sums_ns.push(total_ns);
        }
    }
    let mut local_ns = vec![0.0; flows as usize];
    let (mut from, mut to) = (0, 0);
    for &(flow, at_ps) in &packets {
        let sent_ps = |place: usize| packets.get(place).map(|packet| packet.1);
        while sent_ps(from).is_some_and(|sent| sent + window_ps / 2 < at_ps) {
            from += 1;
        }
        while sent_ps(to).is_some_and(|sent| sent <= at_ps + window_ps / 2) {
            to += 1;
        }
        if let Some(local) = local_ns.get_mut(flow as usize) {
            *local += (sums_ns[to] - sums_ns[from]) / (to - from) as f64;
        }
    }
    let squares = truth
        .flows
        .iter()
        .zip(local_ns)
        .filter(|(flow, _)| flow.packets >= packets_min.max(1))
        .map(|(flow, local_sum_ns)| (local_sum_ns / flow.sum_ns - 1.0).powi(2));
    mean(squares).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Source;

    #[test]
    fn a_window_of_nothing_is_the_packet_itself_and_one_of_everything_the_mean() {
        let packet = |flow, sent_ps, delay_ps| Crossing {
            flow,
            bytes: 64,
            kind: Kind::Regular,
            class: 0,
            sent_ps,
            received_ps: Some(sent_ps + delay_ps),
        };
        // Means 2 and 4 us; the local mean over everything is 3 us for either.
        let crossings = [
            packet(0, 0, 1_000_000),
            packet(1, 10, 4_000_000),
            packet(0, 20, 3_000_000),
            packet(1, 30, 4_000_000),
        ];
        assert!(rmsre(&crossings, 2, 0, 2) < 1e-12);
        let expected = (f64::midpoint(0.25, 0.0625)).sqrt();
        assert!((rmsre(&crossings, 2, 1_000, 2) - expected).abs() < 1e-12);
    }

    #[test]
    fn a_queue_is_local_and_independent_delays_are_not() {
        let setting = Setting {
            source: Source::Generated,
            seeds: Some(1),
            scale: 0.05,
        };
        let findings = run(&setting, &|| ()).unwrap();
        let rows = &findings.tables[0].rows;
        assert_eq!(rows.len() as u64, steps(&setting));
        for row in rows {
            let long = row.others[1].1;
            assert!(row.ours.is_finite() && long.is_finite(), "{row:?}");
            let local = row.ours < 0.5 * long;
            let expected = row.check.starts_with("one FIFO");
            assert!(local == expected || row.check.contains("two"), "{row:?}");
        }
    }
}
