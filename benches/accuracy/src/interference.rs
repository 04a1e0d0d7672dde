//! The effect of references on the traffic that they measure (the RLI slides 25 to 27).
//!
//! The same arrivals go through the same queue with and without references: more packets are lost and others wait
//! longer, because references take bandwidth and buffer.

use anyhow::Result;
use measure::rli::{Adaptive, Policy};
use reporting::Limit;
use reporting::statistics::percent_of;

use crate::experiment::{Found, Plan};
use crate::queue::{Dropping, LinkConfig, cross};
use crate::rli::exchange::{Exchange, REFERENCE_BYTES};
use crate::rli::one_in;
use crate::traffic::{Crossing, Kind, Supply, Traffic, in_words};
use crate::truth::Truth;

/// The load of the slides.
const UTILISATION: f64 = 0.8;
/// Number of seeds over which the limit is a mean.
const SEEDS: u32 = 10;

/// Percentage points of loss that adaptive injection may add.
const LOSS_LIMIT: Limit = Limit::AtMost(0.005);

fn policies() -> [(&'static str, Policy); 3] {
    [
        ("adaptive", Policy::Adaptive(Adaptive::default())),
        ("1-in-10", one_in(10)),
        ("1-in-100", one_in(100)),
    ]
}

pub fn plan<'a>(supply: &'a Supply, plan: &mut Plan<'a>) {
    let seeds = supply.setting.traffic_seeds(SEEDS);
    plan.table(
        "Interference of references with the traffic",
        format!(
            "The same packets through the same queue, with and without references of {REFERENCE_BYTES} \
             bytes, at {:.0} % load: percentage points of loss over all packets except references, and the mean delay \
             of measured packets; means of {}. Paper: slide 27, at most 0.001 % at about \
             80 %; slide 25, less than 0.2 % of the link.",
            100.0 * UTILISATION,
            in_words(seeds)
        ),
    );
    for &wander in supply.wanders() {
        plan.case(seeds, move |seed, found| {
            let traffic = supply.traffic(UTILISATION, wander, seed);
            for (dropping, limit) in [
                (Dropping::TailDrop, Some(LOSS_LIMIT)),
                (Dropping::Red, None),
            ] {
                let link = LinkConfig {
                    dropping,
                    ..LinkConfig::ACCEPTANCE
                };
                let name = format!("{}, {}", wander.label(), dropping.label());
                compare(&traffic, &link, &name, limit, seed, found)?;
            }
            Ok(())
        });
    }
}

/// The effect of every policy.
fn compare(
    traffic: &Traffic,
    link: &LinkConfig,
    name: &str,
    limit: Option<Limit>,
    seed: u64,
    found: &mut Found,
) -> Result<()> {
    let alone = cross(traffic, link, seed, |_| None);
    let (lost, delay_us) = (lost_percent(&alone), mean_us(&alone, traffic.flows));
    drop(alone);
    for (policy_name, policy) in policies() {
        let is_adaptive = matches!(policy, Policy::Adaptive(_));
        let exchange = Exchange::send(traffic, link, policy, seed)?;
        let crossings = &exchange.crossings;
        let check = format!("loss added: {policy_name}, {name}");
        let row = found.row(0, check, "points", lost_percent(crossings) - lost);
        row.paper(is_adaptive.then_some(0.001));
        row.limit(limit.filter(|_| is_adaptive)).others([
            ("lost without, %", lost),
            ("references, % of the link", exchange.bandwidth_percent()),
        ]);
        let check = format!("delay added: {policy_name}, {name}");
        let added_us = mean_us(crossings, traffic.flows) - delay_us;
        let row = found.row(0, check, "us", added_us);
        row.other("without", delay_us);
    }
    Ok(())
}

/// Lost packets in per cent, references apart.
fn lost_percent(crossings: &[Crossing]) -> f64 {
    let data = crossings.iter().filter(|c| c.kind != Kind::Reference);
    percent_of(data.map(|c| c.received_ps.is_none()))
}

fn mean_us(crossings: &[Crossing], flows: u32) -> f64 {
    Truth::of(crossings, flows).segment.mean_ns() / 1_000.0
}
