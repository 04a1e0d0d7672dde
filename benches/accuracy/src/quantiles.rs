//! Quantiles of flows' delays from RLI's estimates of their packets, against the exact ones.

use std::ops::Range;

use anyhow::Result;
use measure::rli::{Estimate, FlowDistribution, Method};
use measure::time::EpochTag;
use reporting::Limit;
use reporting::statistics::{error_percent, mean, median, percent_of, whole};

use crate::experiment::{Found, Plan};
use crate::interpolation::interpolate;
use crate::queue::LinkConfig;
use crate::rli::exchange::{Exchange, REFERENCE_BYTES};
use crate::rli::one_in;
use crate::trace::{Reference, Scenario, Trace};
use crate::traffic::{Kind, Supply, Wander};

const SEEDS: u32 = 2;
/// References' part of the measured bytes, in per cent. The first is that of the limits.
const PERCENTS: [f64; 3] = [0.2, 0.1, 1.0];
const SHARES: [f64; 3] = [0.5, 0.9, 0.99];
const NAMES: [&str; 3] = ["p50", "p90", "p99"];
/// Flows by the packets that arrived.
const GROUPS: [(Range<usize>, &str); 2] = [
    (100..1_000, "100 to 999 packets"),
    (1_000..usize::MAX, ">= 1000 packets"),
];
/// How far p99 of flows of 1000 packets and more may be off in the middle, in per cent.
const P99_MOST: Limit = Limit::AtMost(30.0);
const TABLE: usize = 0;
const WITHHELD: usize = 1;

pub fn plan<'a>(supply: &'a Supply, plan: &mut Plan<'a>) {
    let (seeds, scale) = (supply.setting.traffic_seeds(SEEDS), supply.setting.scale);
    plan.table(
        "RLI: quantiles of flows",
        format!(
            "Median relative errors of flows' quantiles, from a histogram of the estimates of each flow's packets (520 bytes), \
             multiplied so that their mean is the flow's true one (which the hybrid decodes to within 0.02 % for 1000 packets and more); \
             references of {REFERENCE_BYTES} bytes are 0.2 % of the measured bytes, or 0.1 or 1 %. Not multiplied: the plain estimates, at 0.2 %. Mean: the flow's true mean instead of the quantile. Traces: RLI's line between references of the first queue; one \
             queue at 93 %: RLI-AS in the simulator. Mean of {seeds} seeds. No paper has such figures."
        ),
    );
    plan.table(
        "RLI: quantiles that are withheld",
        format!(
            "Share of flows of 100 packets and more whose packets lie in fewer than {} intervals between references: these have no quantiles; and the median error of the p99 of the others; 0.2 % of bytes.",
            FlowDistribution::INTERVALS_MIN
        ),
    );
    if supply.setting.capture.is_none() {
        for scenario in &Scenario::ALL {
            plan.case(seeds, move |seed, found| {
                let flows = of_trace(scenario, seed, scale);
                rows(scenario.name, &flows, found);
                Ok(())
            });
        }
    }
    for &wander in supply.wanders() {
        plan.case(seeds, move |seed, found| {
            let flows = of_queue(supply, wander, seed)?;
            rows(&format!("queue, {}", wander.label()), &flows, found);
            Ok(())
        });
    }
}

/// A flow of 100 packets and more: what is true, and what is said with references of each of [`PERCENTS`].
struct Flow {
    packets: usize,
    exact_ns: [f64; 3],
    mean_ns: f64,
    said: [FlowDistribution; 3],
    /// The mean of the estimates with references of the first of [`PERCENTS`].
    estimated_mean_ns: f64,
}

impl Flow {
    fn new(mut delays_ns: Vec<f64>) -> Self {
        delays_ns.sort_unstable_by(f64::total_cmp);
        let packets = delays_ns.len();
        let exact_ns = SHARES.map(|share| {
            let rank = whole((share * packets as f64).ceil()).max(1);
            delays_ns.get(rank - 1).copied().unwrap_or(f64::NAN)
        });
        Self {
            packets,
            exact_ns,
            mean_ns: mean(delays_ns),
            said: Default::default(),
            estimated_mean_ns: f64::NAN,
        }
    }

    fn add(&mut self, number: usize, estimates: &[Estimate]) {
        for estimate in estimates {
            self.said[number].add(estimate);
        }
        if number == 0 {
            let delays = estimates.iter().map(|estimate| estimate.delay_ns.max(0.0));
            self.estimated_mean_ns = mean(delays);
        }
    }
}

fn of_trace(scenario: &Scenario, seed: u64, scale: f64) -> Vec<Flow> {
    // As often as the most need; the others take some of them.
    let rare = Trace::generate(scenario, seed, scale.min(0.001));
    let packets = (0..rare.flows()).flat_map(|flow| rare.of_flow(flow));
    let bytes: f64 = packets.map(|(_, packet)| f64::from(packet.bytes)).sum();
    let bytes_per_ns = bytes / rare.duration_ns as f64;
    let most = PERCENTS.iter().copied().fold(0.0, f64::max);
    let interval_ns = f64::from(REFERENCE_BYTES) / (bytes_per_ns * most / 100.0);
    let trace = Trace::with_references_each(scenario, seed, scale, interval_ns);
    let references = PERCENTS.map(|percent| {
        let all = trace.references.iter();
        all.step_by(whole((most / percent).round()))
            .copied()
            .collect::<Vec<Reference>>()
    });
    let mut flows = Vec::new();
    for number in 0..trace.flows() {
        let mut packets: Vec<(f64, f64)> = trace
            .of_flow(number)
            .filter_map(|(_, packet)| {
                let delay_ns = f64::from(packet.delay_ns()?);
                Some((packet.sent_ns as f64 + delay_ns, delay_ns))
            })
            .collect();
        if packets.len() < GROUPS[0].0.start {
            continue;
        }
        packets.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let mut flow = Flow::new(packets.iter().map(|packet| packet.1).collect());
        for (number, references) in references.iter().enumerate() {
            let estimate = |&(received_ns, _): &(f64, f64)| {
                let right = references.partition_point(|at| at.received_ns <= received_ns);
                of_packet(interpolate(references, right, received_ns), right)
            };
            flow.add(number, &packets.iter().map(estimate).collect::<Vec<_>>());
        }
        flows.push(flow);
    }
    flows
}

/// The estimate for a packet of an interval, counted from 0.
fn of_packet(delay_ns: f64, interval: usize) -> Estimate {
    Estimate {
        epoch: EpochTag(0),
        received_ns: 0,
        delay_ns,
        squared_error_ns2: 0.0,
        share_of_sum: 0.0,
        interval: u32::try_from(interval + 1).unwrap_or(u32::MAX),
    }
}

fn of_queue(supply: &Supply, wander: Wander, seed: u64) -> Result<Vec<Flow>> {
    let traffic = supply.traffic(0.93, wander, seed);
    let mut flows: Vec<Option<Flow>> = Vec::new();
    for (number, percent) in PERCENTS.into_iter().enumerate() {
        let regular = traffic.arrivals.iter();
        let regular = regular.filter(|arrival| arrival.kind == Kind::Regular);
        let bytes_mean = mean(regular.map(|arrival| f64::from(arrival.bytes)));
        let packets = whole((100.0 * f64::from(REFERENCE_BYTES) / (percent * bytes_mean)).round());
        let policy = one_in(u32::try_from(packets.max(1))?);
        let exchange = Exchange::send(&traffic, &LinkConfig::ACCEPTANCE, policy, seed)?;
        let mut estimates: Vec<Vec<Estimate>> = vec![Vec::new(); traffic.flows as usize];
        exchange.receive_into(Method::AnchoredSums, |said| {
            for &flow in said.flows {
                if let Some(of_flow) = estimates.get_mut(flow as usize) {
                    of_flow.push(said.estimate);
                }
            }
        })?;
        if number == 0 {
            let mut delays: Vec<Vec<f64>> = vec![Vec::new(); traffic.flows as usize];
            for crossing in &exchange.crossings {
                if let (Kind::Regular, Some(delay_ns)) = (crossing.kind, crossing.delay_ns())
                    && let Some(of_flow) = delays.get_mut(crossing.flow as usize)
                {
                    of_flow.push(delay_ns);
                }
            }
            let named =
                |delays: Vec<f64>| (delays.len() >= GROUPS[0].0.start).then(|| Flow::new(delays));
            flows = delays.into_iter().map(named).collect();
        }
        for (flow, estimates) in flows.iter_mut().zip(&estimates) {
            if let Some(flow) = flow {
                flow.add(number, estimates);
            }
        }
    }
    Ok(flows.into_iter().flatten().collect())
}

/// The error of what is said of one quantile of a flow if its mean is `mean_ns`; `None`: withheld.
fn error(flow: &Flow, number: usize, quantile: usize, mean_ns: f64) -> Option<f64> {
    let said = flow.said[number].quantiles_ns(SHARES, mean_ns)?;
    Some(error_percent(said[quantile], flow.exact_ns[quantile]))
}

fn rows(name: &str, flows: &[Flow], found: &mut Found) {
    for (group, (packets, group_name)) in GROUPS.iter().enumerate() {
        let of_group = || flows.iter().filter(|flow| packets.contains(&flow.packets));
        for (quantile, quantile_name) in NAMES.into_iter().enumerate() {
            let errors = |number: usize| {
                median(of_group().filter_map(|flow| error(flow, number, quantile, flow.mean_ns)))
            };
            let plain =
                of_group().filter_map(|flow| error(flow, 0, quantile, flow.estimated_mean_ns));
            let by_mean =
                of_group().map(|flow| error_percent(flow.mean_ns, flow.exact_ns[quantile]));
            let is_judged = group == 1 && quantile == 2;
            let limit = is_judged.then_some(P99_MOST);
            let check = format!("{quantile_name}: {name}, {group_name}");
            let row = found.row(TABLE, check, "%", errors(0));
            row.limit(limit).others([
                ("0.1 % of bytes", errors(1)),
                ("1 %", errors(2)),
                ("not multiplied", median(plain)),
                ("mean", median(by_mean)),
            ]);
        }
    }
    let is_withheld = |flow: &&Flow| flow.said[0].intervals() < FlowDistribution::INTERVALS_MIN;
    let share = percent_of(flows.iter().map(|flow| is_withheld(&flow)));
    let said = flows.iter().filter(|flow| !is_withheld(flow));
    let said = median(said.filter_map(|flow| error(flow, 0, 2, flow.mean_ns)));
    let row = found.row(WITHHELD, format!("withheld: {name}"), "% of flows", share);
    row.other("p99 of the others, %", said);
}
