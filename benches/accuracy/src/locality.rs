//! Delay locality: how close the mean delay around a flow's packets is to the flow's own (the RLI slides 10 and 11).
//!
//! Each packet's delay is replaced by the mean over all measured packets sent within a window around it. If packets
//! share one queue, a short window loses little, on which RLI relies; if they do not, no window helps.

use anyhow::Result;
use rand_distr::Weibull;
use reporting::statistics::mean;

use crate::experiment::Plan;
use crate::queue::{LinkConfig, cross, cross_paths, jitter};
use crate::rli::UTILISATIONS;
use crate::traffic::{CAPACITY_BPS, Crossing, Kind, Supply, Traffic, Wander, in_words, mix};
use crate::truth::Truth;

/// Windows of 0.1 ms, 10 ms and 1 s, in picoseconds.
const WINDOWS_PS: [u64; 3] = [100_000_000, 10_000_000_000, 1_000_000_000_000];
/// What the slide gives for the first.
const SLIDE: f64 = 0.054;
/// Packets from which on a flow counts: one small packet that found the link idle is a delay of
/// 51 ns, next to which any mean is infinitely wrong.
const PACKETS_MIN: u64 = 10;
const SEEDS: u32 = 3;

/// What makes the delay, in words, and how packets cross it.
type Segment = (
    &'static str,
    fn(Traffic, LinkConfig, u64) -> Result<Vec<Crossing>>,
);

const FIFO: Segment = ("one FIFO queue", |traffic, link, seed| {
    Ok(cross(&traffic, &link, seed, |_| None))
});

const OTHERS: [Segment; 3] = [
    // Of half the rate each, one 100 us longer.
    ("two equal-cost paths", |mut traffic, mut link, seed| {
        link.capacity_bps /= 2;
        spread_cross_traffic(&mut traffic);
        Ok(cross_paths(&traffic, &link, &[0, 100_000_000], seed))
    }),
    ("two priorities", |mut traffic, mut link, seed| {
        link.queues = 2;
        spread_cross_traffic(&mut traffic);
        for arrival in &mut traffic.arrivals {
            arrival.class = u8::from(mix(arrival.flow.into()) & 1 == 1);
        }
        Ok(cross(&traffic, &link, seed, |_| None))
    }),
    // No queue: the link is so fast that no packet waits.
    (
        "delays of their own (Weibull)",
        |traffic, mut link, seed| {
            link.capacity_bps = CAPACITY_BPS * 1_000;
            let mut crossings = cross(&traffic, &link, seed, |_| None);
            jitter(&mut crossings, &Weibull::new(100_000.0, 0.6)?, seed);
            Ok(crossings)
        },
    ),
];

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
fn cases(supply: &Supply) -> Vec<(Segment, f64, Wander)> {
    let wanders = supply.wanders();
    let loads = wanders
        .iter()
        .flat_map(|&wander| UTILISATIONS.map(|utilisation| (utilisation, wander)));
    let fifo = loads.clone().map(|(load, wander)| (FIFO, load, wander));
    // The heaviest.
    let last = loads.last();
    let others = OTHERS.into_iter();
    let others = others.filter_map(|segment| last.map(|(load, wander)| (segment, load, wander)));
    fifo.chain(others).collect()
}

pub fn plan<'a>(supply: &'a Supply, plan: &mut Plan<'a>) {
    let seeds = supply.setting.traffic_seeds(SEEDS);
    plan.table(
        "Delay locality",
        format!(
            "Root mean square, over flows of at least {PACKETS_MIN} packets, of the relative error that \
             a flow's mean delay has when each packet's delay is replaced by the mean over all measured \
             packets sent within a window of 0.1 ms about it (and of 10 ms and of 1 s); means of \
             {}. RLI works well where 0.1 ms is far better than 1 s, and not where it is no better. Paper: slide 11, 0.054, 0.16 and 1.72, a real router and a synthetic queue of other \
             loads.",
            in_words(seeds)
        ),
    );
    for ((name, cross), utilisation, wander) in cases(supply) {
        plan.case(seeds, move |seed, found| {
            let traffic = supply.traffic(utilisation, wander, seed);
            let flows = traffic.flows;
            let crossings = cross(traffic, LinkConfig::ACCEPTANCE, seed)?;
            let [short, middle, long] =
                WINDOWS_PS.map(|window_ps| rmsre(&crossings, flows, window_ps, PACKETS_MIN));
            let (load, wander) = (100.0 * utilisation, wander.label());
            let row = found.row(0, format!("{name}, {load:.0} %, {wander}"), "RMSRE", short);
            row.paper((name == FIFO.0).then_some(SLIDE));
            row.others([("10 ms", middle), ("1 s", long)]);
            Ok(())
        });
    }
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
        let sent_ps = |index: usize| packets.get(index).map(|packet| packet.1);
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

    #[test]
    fn a_window_of_nothing_is_the_packet_itself_and_one_of_everything_the_mean() {
        let packet = |flow, sent_ps, delay_ps| Crossing {
            sent_ps,
            received_ps: Some(sent_ps + delay_ps),
            ..Crossing::of_ns(flow, 0, None)
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
}
