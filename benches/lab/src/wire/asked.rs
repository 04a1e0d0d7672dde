//! Every flow of a path asked for by name, as a person would: `vernier flow --json`, at the switch where it arrives.
//! Each answer is held against what happened to the flow's packets in the epoch that the answer is of.
//!
//! ```text
//!  [switch 1] ---- memif ---- [box] ---- memif ---- [switch 2] <---- vernier flow NAME --json
//!   20,000 flows, IMIX         1 ms, a queue, 1 % loss
//! ```

use std::ops::RangeInclusive;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use console::client::Client;
use measure::packet::{FlowKey, Hasher};
use records::answers::{FLOWS_MAX, FlowPage, FlowQuery, FlowScope};
use records::snapshot::{FlowAnswer, WireFlow};
use serde_json::json;
use testkit::process::{beside_this_program, output, wait};

use crate::wire::switch::{Plan, Setting, TRUNK, both, hasher, with_box};
use crate::wire::truth::{FlowTruth, Joined};
use crate::wire::verdict::{Judged, ROUNDING_NS, TAIL_PACKETS_MIN, low};
use crate::wire::watch;

/// Flows that are sent.
const FLOWS: usize = 20_000;

/// Packets a second: 246 Mbit/s of IMIX.
const RATE_PPS: f64 = 90e3;

/// What the box's queue forwards, which is the path's capacity.
const CAPACITY_BPS: u64 = 300_000_000;

/// Packets from one reference to the next: 118 bytes for 340 times as many, .17 % of the data.
const PACKETS_PER_REFERENCE: u32 = 200;

/// Long enough that hardly a flow sends nothing in an epoch.
const INTERVAL_MS: u32 = 5_000;

/// Epochs before the first question.
const EPOCHS_BEFORE: u32 = 8;

/// Flows by their packets in the epoch.
const SIZES: [RangeInclusive<u64>; 4] = [1..=9, 10..=99, 100..=999, 1_000..=u64::MAX];

/// Least number of a flow's packets for its deviation to be judged.
pub const DEVIATION_PACKETS_MIN: u64 = 100;

/// What came of it.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Flows asked for.
    pub asked: usize,
    /// Flows of these for which there was an answer.
    pub answered: usize,
    /// Flows without an answer that had packets in every epoch that may have been asked.
    pub missed: usize,
    /// Share of packets that were lost.
    pub loss: f64,
    /// Bytes of references by bytes of data.
    pub references_of_data: f64,
    /// Flows by size, and last all of them.
    pub sizes: Vec<Answers>,
    /// Flows of [`DEVIATION_PACKETS_MIN`] packets and more.
    pub deviation: Judged,
    /// The 99th percentile, flows of [`TAIL_PACKETS_MIN`] packets and more.
    pub p99: Judged,
}

/// Answers about flows of like size.
#[derive(Debug, Clone)]
pub struct Answers {
    /// Packets that arrived in the epoch.
    pub packets: RangeInclusive<u64>,
    pub mean: Judged,
    /// Flows whose bound holds their true mean.
    pub within: usize,
    /// Flows with a bound.
    pub bounded: usize,
    /// Flows whose packets that arrived are exactly as many as the answer says.
    pub received_exact: usize,
    /// Flows that lost as many packets as the answer says at most,
    pub lost_exact: usize,
    /// and flows that lost more, which must not be.
    pub lost_more: usize,
}

/// A question: the flow's hash, and the answer, if any.
type Question = (u64, Option<WireFlow>);

pub fn run(setting: &Setting<'_>) -> Result<Outcome> {
    let stop = setting.stop;
    let rule = format!(
        "--to-right=delay_us=1000,loss=0.01,rate_mbps={}",
        CAPACITY_BPS / 1_000_000
    );
    let (switches, impair) = with_box(setting, "asked", plan, &[rule])?;
    // The first epoch of a session is not whole; then all shards go round once until there are percentiles.
    wait(
        Duration::from_millis((EPOCHS_BEFORE * INTERVAL_MS).into()),
        stop,
    )?;
    let [sender, receiver] = switches.each_ref().map(|one| &one.client);
    let keys = names(sender)?;
    let questions = ask_all(receiver, &keys)?;
    let sent = watch::ask(sender)?.total;
    impair.end(stop)?;
    let [sent_stamps, received_stamps] = both(switches, |switch| {
        let stamps = switch.end(stop)?;
        stamps.context("a switch's record is not complete")
    })?;
    let joined = Joined::new(&sent_stamps, TRUNK, &received_stamps, TRUNK);
    Ok(Outcome {
        references_of_data: sent.reference_bytes as f64 / sent.data_bytes.max(1) as f64,
        ..judge(&questions, &joined)
    })
}

fn plan(index: usize, socket: &Path) -> Plan {
    let mut plan = Plan::memif(index, socket, "server", CAPACITY_BPS, RATE_PPS);
    if index == 0 {
        plan.lan =
            format!("generate:flows={FLOWS},size=imix,burst=8,pareto=1.3,rate={RATE_PPS:.0}");
    }
    let policy = json!({ "kind": "count", "packets": PACKETS_PER_REFERENCE });
    plan.wire_keys["rli"] = json!({ "policy": policy });
    plan.wire_keys["flows"] = json!(2 * FLOWS);
    Plan {
        interval_ms: INTERVAL_MS,
        flow_slots: 65_536,
        is_recorded: true,
        ..plan
    }
}

/// The flows that `switch` has seen.
fn names(switch: &Client) -> Result<Vec<FlowKey>> {
    let mut keys = Vec::new();
    loop {
        let query = FlowQuery {
            scope: FlowScope::Switch,
            offset: keys.len(),
            limit: FLOWS_MAX,
            ..FlowQuery::default()
        };
        let page: FlowPage = switch.ask("/api/v1/flows", &query)?;
        if page.flows.is_empty() {
            break;
        }
        let page = page.flows.iter().map(|flow| flow.flow.parse());
        keys.extend(page.collect::<Result<Vec<FlowKey>, _>>()?);
    }
    keys.sort_unstable();
    keys.dedup();
    ensure!(
        keys.len() * 100 >= FLOWS * 99,
        "of {FLOWS} flows {} are listed",
        keys.len()
    );
    Ok(keys)
}

fn ask_all(switch: &Client, keys: &[FlowKey]) -> Result<Vec<Question>> {
    let vernier = beside_this_program("vernier")?;
    let hasher: Hasher = hasher();
    let questions = keys.iter().map(|key| {
        let mut command = Command::new(&vernier);
        command.args(["flow", &key.to_string(), "--json", "--url", switch.url()]);
        let answer = output(&mut command).with_context(|| format!("asked for {key}"))?;
        let answer: FlowAnswer = serde_json::from_str(&answer)?;
        Ok((hasher.flow_hash(key).0, answer.wires.into_iter().next()))
    });
    questions.collect()
}

fn judge(questions: &[Question], joined: &Joined) -> Outcome {
    let truth = |hash: u64, epoch: u64| joined.epochs.get(&(low(epoch), 0))?.flows.get(&hash);
    let answers = questions.iter().filter_map(|(hash, answer)| {
        let answer = answer.as_ref()?;
        Some((answer, truth(*hash, answer.flow.last_epoch)?))
    });
    let answers: Vec<(&WireFlow, &FlowTruth)> = answers.collect();
    let all = 0..=u64::MAX;
    let sizes = SIZES
        .into_iter()
        .chain([all])
        .map(|packets| Answers::of(packets, &answers));
    let of_size = |least: u64| {
        let answers = answers.iter();
        answers.filter(move |(_, truth)| truth.delays.count >= least)
    };
    let deviation = of_size(DEVIATION_PACKETS_MIN).map(|(answer, truth)| {
        let truth_ns = truth.delays.deviation_ns().unwrap_or(f64::NAN);
        (answer.flow.last.stddev_ns, truth_ns)
    });
    let p99 = of_size(TAIL_PACKETS_MIN).map(|(answer, truth)| {
        let quantiles = answer.flow.quantiles;
        (quantiles.map(|of| of.p99_ns), truth.p99_ns())
    });
    let sum = |of: fn(&FlowTruth) -> u64| answers.iter().map(|(_, truth)| of(truth)).sum::<u64>();
    Outcome {
        asked: questions.len(),
        answered: answers.len(),
        missed: missed(questions, &truth),
        loss: sum(FlowTruth::lost) as f64 / sum(|truth| truth.sent) as f64,
        references_of_data: 0.0,
        sizes: sizes.collect(),
        deviation: Judged::of(deviation),
        p99: Judged::of(p99),
    }
}

/// Flows without an answer although packets of theirs arrived in every epoch from that of the answer before to that of
/// the answer behind.
fn missed<'t>(questions: &[Question], truth: &impl Fn(u64, u64) -> Option<&'t FlowTruth>) -> usize {
    let epoch = |(_, answer): &Question| Some(answer.as_ref()?.flow.last_epoch);
    let is_missed = |at: &usize| {
        let (before, behind) = questions.split_at(*at);
        let (hash, _) = behind[0];
        let first = before.iter().rev().find_map(epoch);
        let last = behind.iter().find_map(epoch);
        let Some((first, last)) = first.or(last).zip(last.or(first)) else {
            return true;
        };
        (first..=last).all(|epoch| truth(hash, epoch).is_some_and(|truth| truth.delays.count > 0))
    };
    let unanswered = (0..questions.len()).filter(|&at| questions[at].1.is_none());
    unanswered.filter(is_missed).count()
}

impl Answers {
    fn of(packets: RangeInclusive<u64>, all: &[(&WireFlow, &FlowTruth)]) -> Self {
        let of_size = |(_, truth): &&(&WireFlow, &FlowTruth)| packets.contains(&truth.delays.count);
        let answers = || all.iter().filter(of_size);
        let means = answers().filter_map(|(answer, truth)| {
            let estimate = answer.flow.estimate.map(|one| one.mean_ns);
            Some((estimate, truth.delays.mean_ns()?))
        });
        let within = answers().filter_map(|(answer, truth)| {
            let estimate = answer.flow.estimate?;
            let error_ns = (estimate.mean_ns - truth.delays.mean_ns()?).abs();
            Some(error_ns <= estimate.bound_ns? + ROUNDING_NS)
        });
        let within: Vec<bool> = within.collect();
        let lost = |is: fn(u64, u64) -> bool| {
            let lost = answers().filter(|(answer, truth)| {
                let said = answer.flow.last.lost_packets;
                said.is_some_and(|said| is(truth.lost(), said))
            });
            lost.count()
        };
        Self {
            mean: Judged::of(means),
            within: within.iter().filter(|is_within| **is_within).count(),
            bounded: within.len(),
            received_exact: answers()
                .filter(|(answer, truth)| answer.flow.last.packets == truth.delays.count)
                .count(),
            lost_exact: lost(|truth, said| truth == said),
            lost_more: lost(|truth, said| truth > said),
            packets,
        }
    }
}

#[cfg(test)]
mod tests;
