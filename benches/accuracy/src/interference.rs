//! What references do to the traffic that they measure (the RLI slides 25 to 27).
//!
//! The same arrivals go through the same queue with and without references: more packets are lost
//! and the others wait longer, since references take bandwidth and buffer.

use std::num::NonZeroU32;

use anyhow::Result;
use measure::rli::{Adaptive, Policy};
use rayon::prelude::*;

use super::queue::{BUFFER_BYTES, Crossing, LinkConfig, cross};
use super::rli::exchange::{Exchange, REFERENCE_BYTES};
use super::table::{Limit, Row, Table};
use super::traffic::supply::{CAPACITY_BPS, Supply, in_words, seeds};
use super::traffic::{Kind, PS_PER_S, Traffic};
use super::truth::Truth;
use super::{Experiment, Findings, Setting};
use reporting::statistics::mean;

/// The load of the slides.
const UTILISATION: f64 = 0.8;
/// Seeds that the limit is a mean of.
const SEEDS: u32 = 10;
/// Points of loss that adaptive injection may cost.
const LOSS_LIMIT: Limit = Limit::AtMost(0.005);

/// Policies, the adaptive one first.
fn policies() -> [(&'static str, Policy); 3] {
    let one_in = |n: u32| Policy::Count {
        packets: NonZeroU32::MIN.saturating_add(n - 1),
    };
    [
        ("adaptive", Policy::Adaptive(Adaptive::default())),
        ("1-in-10", one_in(10)),
        ("1-in-100", one_in(100)),
    ]
}

/// What a policy changed, over one seed.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Change {
    /// Lost regular and cross packets without references, in per cent.
    lost_percent: f64,
    /// Points that references add.
    lost_more_points: f64,
    /// Mean delay of regular packets without references, in microseconds.
    delay_us: f64,
    /// Microseconds that references add.
    delay_more_us: f64,
    /// Bandwidth of references in per cent of the link.
    bandwidth_percent: f64,
}

/// This experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "interference",
    title: "Interference of references with the traffic",
    steps,
    run,
};

fn steps(setting: &Setting) -> u64 {
    let wanders = Supply::wanders(&setting.source).len() as u64;
    u64::from(seeds(setting, SEEDS)) * wanders
}

fn run(setting: &Setting, step: &(dyn Fn() + Sync)) -> Result<Findings> {
    let supply = Supply::new(setting)?;
    let mut rows = Vec::new();
    let seeds = seeds(setting, SEEDS);
    for &wander in Supply::wanders(&setting.source) {
        let runs: Vec<Vec<Change>> = (0..seeds)
            .into_par_iter()
            .map(|seed| {
                let traffic = supply.traffic(UTILISATION, wander, u64::from(seed));
                let changes = changes(&traffic, u64::from(seed));
                step();
                changes
            })
            .collect::<Result<_>>()?;
        for (case, queue) in ["tail drop", "RED"].into_iter().enumerate() {
            for (number, (policy, _)) in policies().into_iter().enumerate() {
                let place = case * policies().len() + number;
                let changes: Vec<Change> = runs
                    .iter()
                    .filter_map(|run| run.get(place).copied())
                    .collect();
                let of = |figure: fn(&Change) -> f64| mean(changes.iter().map(figure));
                let name = format!("{policy}, {}, {queue}", wander.label());
                let judged = number == 0 && case == 0;
                rows.push(
                    Row::new(
                        format!("loss added: {name}"),
                        "points",
                        of(|c| c.lost_more_points),
                    )
                    .paper((number == 0).then_some(0.001))
                    .limit(judged.then_some(LOSS_LIMIT).and_then(|l| setting.judged(l)))
                    .other("lost without, %", of(|c| c.lost_percent))
                    .other("references, % of the link", of(|c| c.bandwidth_percent)),
                );
                rows.push(
                    Row::new(
                        format!("delay added: {name}"),
                        "us",
                        of(|c| c.delay_more_us),
                    )
                    .other("without", of(|c| c.delay_us)),
                );
            }
        }
    }
    let seeds = in_words(seeds);
    let about = format!(
        "The same packets through the same queue, with and without references of {REFERENCE_BYTES} \
         bytes, at {:.0} % load: points of loss over all packets but references, and the mean delay \
         of measured packets; means of {seeds}. Paper: slide 27, at most 0.001 % at about \
         80 %; slide 25, less than 0.2 % of the link.",
        100.0 * UTILISATION,
    );
    Ok(Findings {
        tables: vec![Table {
            title: "Interference of references with the traffic".to_owned(),
            about,
            rows,
        }],
        figures: Vec::new(),
    })
}

/// Every policy's change, with tail drop and then with RED.
fn changes(traffic: &Traffic, seed: u64) -> Result<Vec<Change>> {
    let tail = LinkConfig::fifo(CAPACITY_BPS, BUFFER_BYTES);
    let mut changes = Vec::new();
    for link in [tail.clone(), tail.with_red()] {
        let alone = cross(traffic, &link, seed, |_| None);
        let (lost_percent, delay_us) = (lost_percent(&alone), mean_us(&alone, traffic.flows));
        drop(alone);
        for (_, policy) in policies() {
            let exchange = Exchange::send(traffic, &link, policy, seed)?;
            let crossings = &exchange.crossings;
            let seconds = traffic.duration_ps as f64 / PS_PER_S as f64;
            let bits = 8.0 * f64::from(REFERENCE_BYTES) * exchange.references() as f64;
            changes.push(Change {
                lost_percent,
                lost_more_points: self::lost_percent(crossings) - lost_percent,
                delay_us,
                delay_more_us: mean_us(crossings, traffic.flows) - delay_us,
                bandwidth_percent: 100.0 * bits / (seconds * CAPACITY_BPS as f64),
            });
        }
    }
    Ok(changes)
}

/// Lost packets in per cent, references apart.
fn lost_percent(crossings: &[Crossing]) -> f64 {
    let data = crossings.iter().filter(|c| c.kind != Kind::Reference);
    let (lost, all) = data.fold((0_u64, 0_u64), |(lost, all), c| {
        (lost + u64::from(c.received_ps.is_none()), all + 1)
    });
    100.0 * lost as f64 / all as f64
}

fn mean_us(crossings: &[Crossing], flows: u32) -> f64 {
    Truth::of(crossings, flows).segment.mean_ns() / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Source;

    #[test]
    fn references_cost_the_bandwidth_that_they_take() {
        let setting = Setting {
            source: Source::Generated,
            seeds: Some(2),
            scale: 0.05,
        };
        let findings = run(&setting, &|| ()).unwrap();
        let rows = &findings.tables[0].rows;
        let figure = |check: &str| {
            let row = rows.iter().find(|row| row.check == check).unwrap();
            (row.ours, row.others.clone())
        };
        let (delay, _) = figure("delay added: 1-in-10, heavy, tail drop");
        let (less, _) = figure("delay added: 1-in-100, heavy, tail drop");
        assert!(delay > less && less > 0.0, "{delay} {less}");
        // 80 % of the link, of that a third of the packets, a tenth of them; of 740.8 bytes each.
        let percent = 80.0 * 0.33 * 0.1 * f64::from(REFERENCE_BYTES) / 740.8;
        let (_, others) = figure("loss added: 1-in-10, heavy, tail drop");
        assert!((others[1].1 / percent - 1.0).abs() < 0.05, "{others:?}");
        assert!(
            rows.iter().all(|row| row.limit.is_none()),
            "not at this scale"
        );
        assert_eq!(findings.tables, run(&setting, &|| ()).unwrap().tables);
    }
}
