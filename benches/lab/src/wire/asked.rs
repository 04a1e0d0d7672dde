//! Queries every flow of a path by name, as a person would: `vernier flow --json`, at the switch where it arrives. Each
//! answer is compared with the fate of the flow's packets in the epoch of the answer.
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
use records::snapshot::{FlowAnswer, FlowFigures, WireFlow};
use reporting::{Checks, Table};
use serde_json::{Value, json};
use testkit::process::{beside_this_program, output, wait};

use crate::wire::report::{
    REFERENCES_MAX, Report, TAIL_ERROR_MAX, judged, packets_between, percent,
};
use crate::wire::switch::{Setting, Switch, hasher, memif_config, with_box};
use crate::wire::truth::{Epochs, FlowTruth, Packets};
use crate::wire::verdict::{Judged, ROUNDING_NS, TAIL_PACKETS_MIN, low};
use crate::wire::watch;

/// Flows that are sent.
const FLOWS: usize = 20_000;

/// Packets a second: 246 Mbit/s of IMIX.
const RATE_PPS: f64 = 90e3;

/// Rate of the box's queue, which is the path's capacity.
const CAPACITY_BPS: u64 = 300_000_000;

/// Packets from one reference to the next: a reference of 118 bytes is .17 % of the data.
const PACKETS_PER_REFERENCE: u32 = 200;

/// Long enough that almost every flow sends packets in each epoch.
const INTERVAL_MS: u32 = 5_000;

/// Epochs before the first query.
const EPOCHS_BEFORE: u32 = 8;

/// Flows by their number of packets in the epoch, and last all flows.
const SIZES: [RangeInclusive<u64>; 5] = [1..=9, 10..=99, 100..=999, 1_000..=u64::MAX, 0..=u64::MAX];

/// Least number of a flow's packets for its deviation to be judged.
const DEVIATION_PACKETS_MIN: u64 = 100;

/// Largest median error of a flow's standard deviation.
const DEVIATION_ERROR_MAX: f64 = 0.25;

/// Least share of all queried flows whose mean is within its bound.
const WITHIN_MIN: f64 = 0.96;

/// Results.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Flows asked for.
    pub asked: usize,
    /// Queried flows with an answer.
    pub answered: usize,
    /// Flows without an answer that had packets in every epoch to which the query may refer.
    pub missed: usize,
    /// Share of packets that were lost.
    pub loss: f64,
    /// Bytes of references divided by bytes of data.
    pub references_of_data: f64,
    /// Flows by size, and last all of them.
    pub sizes: [Answers; SIZES.len()],
    /// Flows of [`DEVIATION_PACKETS_MIN`] packets and more.
    pub deviation: Judged,
    /// The 99th percentile, flows of [`TAIL_PACKETS_MIN`] packets and more.
    pub p99: Judged,
}

/// Answers about flows of similar size.
#[derive(Debug, Clone)]
pub struct Answers {
    /// Packets that arrived in the epoch.
    pub packets: RangeInclusive<u64>,
    pub mean: Judged,
    /// Flows whose bound holds their true mean.
    pub within: usize,
    /// Flows with a bound.
    pub bounded: usize,
    /// Flows whose number of received packets equals that in the answer.
    pub received_exact: usize,
    /// Flows that lost at most as many packets as in the answer,
    pub lost_exact: usize,
    /// and flows that lost more, which must not happen.
    pub lost_more: usize,
}

/// A query: the flow's hash, and the answer, if any.
type Question = (u64, Option<WireFlow>);

/// An answer, and the truth of its epoch.
type Answer<'a> = (&'a WireFlow, &'a FlowTruth);

pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let rule = format!(
        "--to-right=delay_us=1000,loss=0.01,rate_mbps={}",
        CAPACITY_BPS / 1_000_000
    );
    let (switches, impair) = with_box(&setting.folder, config, true, &[rule])?;
    // The first epoch of a session is incomplete; percentiles are available after all shards have been in use once.
    wait(Duration::from_millis((EPOCHS_BEFORE * INTERVAL_MS).into()))?;
    let [sender, receiver] = switches.each_ref().map(|one| &one.client);
    let keys = names(sender)?;
    let questions = ask_all(receiver, &keys)?;
    let sent = watch::ask(sender)?.total;
    impair.end()?;
    let truths = Switch::join(switches)?;
    let [truth, _] = truths.context("a switch's record is not complete")?;
    let outcome = Outcome {
        references_of_data: sent.reference_bytes as f64 / sent.data_bytes.max(1) as f64,
        ..judge(&questions, &truth)
    };
    outcome.add_to(report);
    Ok(())
}

fn config(index: usize, socket: &Path) -> Value {
    let traffic = format!("flows={FLOWS},size=imix,burst=8,pareto=1.3,rate={RATE_PPS:.0}");
    let mut config = memif_config(index, socket, "server", CAPACITY_BPS, &traffic);
    let policy = json!({ "kind": "count", "packets": PACKETS_PER_REFERENCE });
    config["ports"][1]["wire"]["rli"] = json!({ "policy": policy });
    config["ports"][1]["wire"]["flows"] = json!(2 * FLOWS);
    config["measurement"]["interval_ms"] = INTERVAL_MS.into();
    config["measurement"]["flows"]["slots"] = 65_536.into();
    config
}

/// The flows seen by `switch`.
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

fn judge(questions: &[Question], epochs: &Epochs) -> Outcome {
    let truth = |hash: u64, epoch: u64| epochs.get(&low(epoch))?.flows.get(&hash);
    let answers = questions.iter().filter_map(|(hash, answer)| {
        let answer = answer.as_ref()?;
        Some((answer, truth(*hash, answer.flow.last_epoch)?))
    });
    let answers: Vec<Answer> = answers.collect();
    let sizes = SIZES.map(|packets| Answers::of(packets, &answers));
    let large = answers.iter();
    let large = large.filter(|(_, truth)| truth.packets.received >= DEVIATION_PACKETS_MIN);
    let deviation = large.map(|(answer, truth)| {
        let truth_ns = truth.packets.deviation_ns().unwrap_or(f64::NAN);
        (answer.flow.last.stddev_ns, truth_ns)
    });
    let sum = |of: fn(&Packets) -> u64| {
        let packets = answers.iter().map(|(_, truth)| of(&truth.packets));
        packets.sum::<u64>() as f64
    };
    Outcome {
        asked: questions.len(),
        answered: answers.len(),
        missed: missed(questions, &truth),
        loss: sum(Packets::lost) / sum(|packets| packets.sent),
        references_of_data: 0.0,
        sizes,
        deviation: Judged::of(deviation),
        p99: Judged::tails(answers.iter().copied()),
    }
}

/// Flows without an answer, although their packets arrived in every epoch from that of the previous answer to that of
/// the next.
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
        (first..=last)
            .all(|epoch| truth(hash, epoch).is_some_and(|truth| truth.packets.received > 0))
    };
    let unanswered = (0..questions.len()).filter(|&at| questions[at].1.is_none());
    unanswered.filter(is_missed).count()
}

impl Answers {
    fn of(packets: RangeInclusive<u64>, all: &[Answer]) -> Self {
        let of_size = |(_, truth): &&Answer| packets.contains(&truth.packets.received);
        let answers = || all.iter().filter(of_size);
        let means = answers().filter_map(|(answer, truth)| {
            let estimate = answer.flow.estimate.map(|one| one.mean_ns);
            Some((estimate, truth.packets.mean_ns()?))
        });
        let within = answers().filter_map(|(answer, truth)| {
            let estimate = answer.flow.estimate?;
            let error_ns = (estimate.mean_ns - truth.packets.mean_ns()?).abs();
            Some(error_ns <= estimate.bound_ns? + ROUNDING_NS)
        });
        let count = |is: fn(&FlowFigures, &Packets) -> bool| {
            let answers = answers().filter(|(answer, truth)| is(&answer.flow.last, &truth.packets));
            answers.count()
        };
        Self {
            mean: Judged::of(means),
            bounded: within.clone().count(),
            within: within.filter(|is_within| *is_within).count(),
            received_exact: count(|said, truth| said.packets == truth.received),
            lost_exact: count(|said, truth| said.lost_packets == Some(truth.lost())),
            lost_more: count(|said, truth| said.lost_packets.is_some_and(|n| truth.lost() > n)),
            packets: packets.clone(),
        }
    }
}

impl Outcome {
    /// Adds the section and the checks.
    pub fn add_to(&self, report: &mut Report) {
        self.check(&mut report.checks);
        let mut table = Table::default()
            .words(["packets"])
            .figures(["flows", "median error of the mean", "within the bound"])
            .figures(["packets exact", "losses exact", "more lost than said"]);
        for size in &self.sizes {
            let flows = size.mean.flows;
            let share = |count: usize| percent(count as f64 / flows.max(1) as f64);
            table.row(&[
                &packets_between(&size.packets),
                &flows,
                &percent(size.mean.error),
                &format!("{} of {}", size.within, size.bounded),
                &share(size.received_exact),
                &share(size.lost_exact),
                &size.lost_more,
            ]);
        }
        report.sections.push(format!(
            "## Every flow, asked for by name\n\n\
             Two switches and the box between them, `net_memif` on both sides: IMIX of 20,000 flows from a generator inside the first, \
             epochs of 5 s, a link of 300 Mbit/s with a queue, {} of packets lost. Each flow is asked for by `vernier flow NAME --json` at \
             switch 2; {} of {} were answered, {} of the others had packets in all epochs that may have been asked. References take {} \
             of the data's bytes.\n\n\
             {}\n\
             Median errors of the standard deviation, flows of {DEVIATION_PACKETS_MIN} packets and more: {}; of the 99th percentile, flows of \
             {TAIL_PACKETS_MIN} and more: {}.",
            percent(self.loss),
            self.answered,
            self.asked,
            self.missed,
            percent(self.references_of_data),
            table.markdown(),
            judged(&self.deviation),
            judged(&self.p99),
        ));
    }

    fn check(&self, checks: &mut Checks) {
        checks.add(
            "asked: flows without an answer that had packets",
            format!("{} of {}", self.missed, self.asked),
            self.missed == 0 && self.answered * 100 >= self.asked * 98,
        );
        let [.., all] = &self.sizes;
        let share = all.within as f64 / all.bounded as f64;
        checks.add(
            "asked: flows whose bound holds their mean, 96 % at least, and flows with a bound, 99 % at least",
            format!("{} of {} of {}", percent(share), all.bounded, self.answered),
            share >= WITHIN_MIN && all.bounded * 100 >= self.answered * 99,
        );
        checks.add(
            "asked: flows that lost more packets than reported",
            all.lost_more,
            all.lost_more == 0,
        );
        for (what, of, most) in [
            (
                "standard deviation, flows of 100 packets and more, 25 %",
                &self.deviation,
                DEVIATION_ERROR_MAX,
            ),
            (
                "p99, flows of 1000 packets and more, 30 %",
                &self.p99,
                TAIL_ERROR_MAX,
            ),
        ] {
            checks.add(
                format!("asked: median error of the {what} at most"),
                judged(of),
                of.error <= most && of.known * 2 > of.flows,
            );
        }
        checks.add(
            "asked: references, of the data's bytes, 0.2 % at most",
            percent(self.references_of_data),
            self.references_of_data < REFERENCES_MAX,
        );
    }
}

#[cfg(test)]
mod tests;
