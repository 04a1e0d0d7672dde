//! Tables of all runs, and what was to hold.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, ensure};
use serde::Serialize;

use super::flood;
use super::memif;
use super::outcome::{AttackOutcome, Outcome, Way};
use super::verdict::{CHOSEN, FlowClass, FlowErrors, Means, Verdict, mean};
use crate::machine::Machine;

/// Least share of epochs in which the truth is within a bound of nominal 98 %.
const WITHIN_MIN: f64 = 0.93;
/// Least number of epochs for this to be reported.
const EPOCHS_MIN: usize = 100;
/// Least number of flows, each in an epoch, for a median to be reported.
const FLOWS_MIN: usize = 100;
/// Most by which the chooser's error may exceed the best single method's, for flows of one size in one run.
const CHOOSER_MAX: f64 = 1.1;
/// And by the geometric mean over all of them: far better known, so far closer.
const CHOOSER_MEAN_MAX: f64 = 1.03;
/// Least number of sizes of flows, over all runs, for this mean to be reported.
const CLASSES_MIN: usize = 20;
/// Most that references may take of the data's bytes at high load.
const REFERENCES_MAX: f64 = 0.002;
/// Names of the directions.
const ARROWS: [&str; 2] = ["a > b", "b > a"];

/// All runs.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Where.
    pub machine: Machine,
    /// Release or development.
    pub build: &'static str,
    /// Over veth.
    pub runs: Vec<Outcome>,
    /// Over shared memory.
    pub memif: Option<memif::Outcome>,
    /// Under a replayed hello.
    pub flood: Option<flood::Outcome>,
    /// Runs that came to no end, and why.
    pub failed: Vec<(String, String)>,
}

/// Something that had to hold, and whether it did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// What.
    pub what: String,
    /// The figure.
    pub got: String,
    /// Whether it holds.
    pub holds: bool,
}

fn limit(what: String, got: String, holds: bool) -> Limit {
    Limit { what, got, holds }
}

/// Limits on one direction of one run, but for what only some runs have.
fn verdict_limits(name: &str, verdict: &Verdict, limits: &mut Vec<Limit>) {
    let enough = verdict.usable >= EPOCHS_MIN;
    let got = format!("{} of {}", verdict.usable, verdict.epochs);
    limits.push(limit(
        format!("{name}: usable epochs, {EPOCHS_MIN} at least"),
        got,
        enough,
    ));
    if let Some(chosen) = means(verdict, CHOSEN) {
        let share = chosen.within_share();
        let what = format!("{name}: truth within the bound of the mean, 93 % at least");
        limits.push(limit(what, percent(share), share >= WITHIN_MIN));
    }
    let (exact, counted) = (verdict.counts_exact, verdict.counted);
    let what = format!("{name}: sent, received and lost packets exact wherever they are told");
    limits.push(limit(
        what,
        format!("{exact} of {counted}"),
        exact == counted && counted > 0,
    ));
    let judged: Vec<_> = judged(verdict).collect();
    let what = format!("{name}: flow sizes with flows enough to judge the chooser");
    let got = judged.len().to_string();
    limits.push(limit(what, got, !judged.is_empty()));
    for (class, chosen, best) in judged {
        let holds = chosen.error_at_least <= best.error * CHOOSER_MAX;
        let what = format!(
            "{name}: median error over flows of {} packets by the chooser, as far as so many flows tell, the best method's + 10 % at most",
            packets_of(class)
        );
        let got = format!(
            "{}, {} at least ({} {})",
            percent(chosen.error),
            percent(chosen.error_at_least),
            best.method,
            percent(best.error)
        );
        limits.push(limit(what, got, holds));
    }
}

/// Flow sizes with flows enough to judge the chooser, with its errors and the best single method's.
fn judged(verdict: &Verdict) -> impl Iterator<Item = (&FlowClass, &FlowErrors, &FlowErrors)> {
    let classes = verdict.flows.iter().filter(|class| !class.is_all());
    let compared = classes.filter_map(|class| {
        let (chosen, best) = class.chosen_and_best()?;
        Some((class, chosen, best))
    });
    compared.filter(|(_, chosen, _)| chosen.flows >= FLOWS_MIN)
}

/// The limit on the chooser over everything that was judged, where that is enough.
fn chooser_limit<'v>(verdicts: impl Iterator<Item = &'v Verdict>) -> Option<Limit> {
    let judged = verdicts.flat_map(judged);
    let ratios = judged.map(|(_, chosen, best)| (chosen.error / best.error).ln());
    let ratios: Vec<_> = ratios.collect();
    let excess = mean(ratios.iter().copied()).exp();
    let what = "error of the chooser by the best method's, geometric mean over all sizes of flows judged, 1.03 at most";
    let got = format!("{excess:.3} ({} sizes)", ratios.len());
    (ratios.len() >= CLASSES_MIN).then(|| limit(what.to_owned(), got, excess <= CHOOSER_MEAN_MAX))
}

fn attack_limits(attack: &AttackOutcome, limits: &mut Vec<Limit>) {
    let by_hand = attack.by_hand();
    let switches = [
        ("1", by_hand, &attack.at_1),
        ("2", by_hand + attack.made_up, &attack.at_2),
    ];
    for (switch, thrown, refused) in switches {
        let what = format!(
            "attack: frames thrown at switch {switch}, all counted as not believed, but for some old hellos"
        );
        let got = refused.frames();
        let least = thrown - attack.old_hellos();
        let holds = (least.max(1)..=thrown).contains(&got);
        limits.push(limit(what, format!("{got} of {thrown}"), holds));
        let what = format!("attack: frames that switch {switch} believed, of no use");
        limits.push(limit(
            what,
            refused.useless.to_string(),
            refused.useless == 0,
        ));
    }
    for (arrow, lost) in ARROWS.into_iter().zip(&attack.epochs_lost) {
        let what = format!("attack: epochs lost, {arrow}");
        limits.push(limit(what, list(lost), lost.is_empty()));
    }
}

fn flood_limits(flood: &flood::Outcome, limits: &mut Vec<Limit>) {
    let (epochs, missed) = flood.epochs();
    limits.push(limit(
        format!("flood: epochs missed, of {EPOCHS_MIN} at least"),
        format!("{missed} of {epochs}"),
        missed == 0 && epochs >= EPOCHS_MIN as u64,
    ));
    let what = "flood: sessions kept".to_owned();
    let got = if flood.is_session_kept { "yes" } else { "no" };
    limits.push(limit(what, got.to_owned(), flood.is_session_kept));
    let lost = flood.lost_packets;
    let what = "flood: packets lost beside it".to_owned();
    limits.push(limit(what, lost.to_string(), lost == 0));
    let what = "flood: hellos, all counted as believed or refused".to_owned();
    let counted = flood.believed + flood.refused.frames();
    let sent = flood.replayed + flood.hellos;
    let got = format!("{counted} of {sent}");
    limits.push(limit(what, got, counted == sent && flood.replayed > 0));
}

fn means<'v>(verdict: &'v Verdict, method: &str) -> Option<&'v Means> {
    verdict.means.iter().find(|means| means.method == method)
}

fn percent(share: f64) -> String {
    match share.abs() {
        share if share < 1e-4 => format!("{:.5} %", share * 100.0),
        share if share < 0.01 => format!("{:.3} %", share * 100.0),
        _ => format!("{:.1} %", share * 100.0),
    }
}

/// Share of the epochs with packets that was usable.
fn usable_share(fates: &[(String, u64)]) -> f64 {
    let count = |of: fn(&str) -> bool| {
        let counts = fates.iter().filter(|(fate, _)| of(fate));
        counts.map(|(_, count)| count).sum::<u64>() as f64
    };
    count(|fate| fate == "usable") / count(|fate| fate != "idle").max(1.0)
}

fn us(ns: f64) -> String {
    format!("{:.2}", ns / 1e3)
}

fn list(counts: &[(String, u64)]) -> String {
    let counts = counts.iter().map(|(name, count)| format!("{name} {count}"));
    let counts: Vec<_> = counts.collect();
    if counts.is_empty() {
        return "none".to_owned();
    }
    counts.join(", ")
}

impl Report {
    /// Of this machine and build, with nothing in it.
    pub fn new() -> Self {
        Self {
            machine: Machine::of_this_run(),
            build: if cfg!(debug_assertions) {
                "development"
            } else {
                "release"
            },
            runs: Vec::new(),
            memif: None,
            flood: None,
            failed: Vec::new(),
        }
    }

    /// A run came to no end; others may.
    ///
    /// # Errors
    /// When the user has had enough.
    pub fn fail(&mut self, name: &str, why: &anyhow::Error, stop: &AtomicBool) -> Result<()> {
        ensure!(!stop.load(Ordering::Relaxed), "interrupted");
        eprintln!("{name}: {why:#}");
        let why = format!("{why:#}")
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned();
        self.failed.push((name.to_owned(), why));
        Ok(())
    }

    fn ways(&self) -> impl Iterator<Item = (&Outcome, &'static str, &Way)> {
        self.runs.iter().flat_map(|run| {
            let ways = ARROWS.into_iter().zip(&run.ways);
            ways.map(move |(arrow, way)| (run, arrow, way))
        })
    }

    /// All that had to hold.
    pub fn limits(&self) -> Vec<Limit> {
        let failed = self.failed.iter();
        let failed = failed.map(|(name, why)| {
            let what = format!("{name}: comes to an end");
            limit(what, why.clone(), false)
        });
        let mut limits: Vec<_> = failed.collect();
        for (run, arrow, way) in self.ways() {
            let name = format!("{}, {arrow}", run.name);
            verdict_limits(&name, &way.verdict, &mut limits);
            if let Some(compared) = way.compared {
                let got = format!("{} of {}", compared.changed, compared.received);
                let holds = compared.changed == 0 && compared.received > 0;
                limits.push(limit(format!("{name}: data packets changed"), got, holds));
            }
            let what = format!("{name}: control frames that got out of a switch");
            limits.push(limit(what, way.leaked.to_string(), way.leaked == 0));
            let Way { overhead, .. } = way;
            let what = format!("{name}: control frames, of the bits that they may take");
            let share = overhead.control_bps / overhead.share_bps;
            limits.push(limit(what, percent(share), share <= 1.0));
        }
        for run in &self.runs {
            if let Some(attack) = &run.attack {
                attack_limits(attack, &mut limits);
            }
        }
        if let Some(memif) = &self.memif {
            verdict_limits("memif", &memif.verdict, &mut limits);
            let what = "memif: control frames, of the bits that they may take".to_owned();
            let holds = memif.control_of_share <= 1.0;
            limits.push(limit(what, percent(memif.control_of_share), holds));
            let what = "memif: references at the highest rate with IMIX, of the data's bytes, 0.2 % at most";
            let share = memif.references_of_data;
            limits.push(limit(
                what.to_owned(),
                percent(share),
                share < REFERENCES_MAX,
            ));
        }
        let of_memif = self.memif.iter().map(|memif| &memif.verdict);
        let verdicts = self.ways().map(|(.., way)| &way.verdict).chain(of_memif);
        limits.extend(chooser_limit(verdicts));
        if let Some(flood) = &self.flood {
            flood_limits(flood, &mut limits);
        }
        limits
    }

    /// As `wire.md` has it.
    pub fn markdown(&self) -> String {
        let mut text = PREFACE.to_owned();
        let Machine {
            cpu,
            cpus,
            os,
            kernel,
            commit,
        } = &self.machine;
        // Writing to a string never fails.
        let _ = writeln!(
            text,
            "{cpu}; {cpus} CPUs, {os}, Linux {kernel}; {} build of {commit}.\n",
            self.build
        );
        self.usability(&mut text);
        self.means(&mut text);
        self.flows(&mut text);
        self.paths(&mut text);
        self.overheads(&mut text);
        self.attacks(&mut text);
        if let Some(memif) = &self.memif {
            shared_memory(memif, &mut text);
        }
        if let Some(flood) = &self.flood {
            replayed_hello(flood, &mut text);
        }
        text += "\n## What had to hold\n\n| | | |\n|---|---|---|\n";
        for Limit { what, got, holds } in self.limits() {
            let holds = if holds { "yes" } else { "**no**" };
            let _ = writeln!(text, "| {what} | {got} | {holds} |");
        }
        text
    }

    fn usability(&self, text: &mut String) {
        *text += "## How much of it is usable, beside what probability says\n\n\
            | path | way | epochs | compared | usable | should be | counts known | should be | packets | lost | reordered | cells | should be | samples | should be | moved | fates |\n\
            |---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|\n";
        for (run, arrow, way) in self.ways() {
            let v = &way.verdict;
            let _ = writeln!(
                text,
                "| {} | {arrow} | {} | {} | {} | {} | {} | {} | {:.0} | {} | {} | {} | {} | {:.0} | {:.0} | {} | {} |",
                run.words,
                v.epochs,
                v.usable,
                percent(usable_share(&way.fates)),
                percent(v.expected.usable),
                percent(v.counted as f64 / v.usable.max(1) as f64),
                percent(v.expected.counted),
                v.packets,
                percent(v.loss),
                percent(v.reordered),
                percent(v.cells),
                percent(v.expected.cells),
                v.samples,
                v.expected.samples,
                v.moved,
                list(&way.fates),
            );
        }
    }

    fn means(&self, text: &mut String) {
        *text += "\n## Mean delays of epochs\n\n\
            | path | way | true mean, us | deviation, us | method | epochs | median error, us | should be | median bound, us | truth within |\n\
            |---|---|--:|--:|---|--:|--:|--:|--:|--:|\n";
        for (run, arrow, way) in self.ways() {
            let v = &way.verdict;
            for means in &v.means {
                let should = match means.method.as_str() {
                    "lda" => us(v.expected.error_ns),
                    _ => String::new(),
                };
                let _ = writeln!(
                    text,
                    "| {} | {arrow} | {} | {} | {} | {} | {} | {should} | {} | {} |",
                    run.words,
                    us(v.mean_ns),
                    us(v.deviation_ns),
                    means.method,
                    means.epochs,
                    us(means.error_ns),
                    us(means.bound_ns),
                    percent(means.within_share()),
                );
            }
        }
    }

    fn flows(&self, text: &mut String) {
        *text += "\n## Mean delays of flows\n\nMedian relative error over flows in epochs, by their packets in the epoch.\n\n\
            | path | way | packets | errors by method (flows) |\n|---|---|--:|---|\n";
        for (run, arrow, way) in self.ways() {
            for class in &way.verdict.flows {
                let _ = writeln!(
                    text,
                    "| {} | {arrow} | {} | {} |",
                    run.words,
                    packets_of(class),
                    flow_errors(&class.errors)
                );
            }
        }
    }

    fn paths(&self, text: &mut String) {
        *text += "\n## Independent witnesses\n\n\
            | path | way | lost by the box | missed by switch | turned round by the box | by the switches | added by the box, us | seen by switches, us | frames sent by the host | received | changed |\n\
            |---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n";
        for (run, arrow, way) in self.ways() {
            let c = &way.cross_check;
            let hosts = way.compared.map_or_else(
                || " | | ".to_owned(),
                |of| format!("{} | {} | {}", of.sent, of.received, of.changed),
            );
            let _ = writeln!(
                text,
                "| {} | {arrow} | {} | {} | {} | {} | {} | {} | {hosts} |",
                run.words,
                c.box_lost,
                c.switches_lost,
                c.box_reordered,
                c.switches_reordered,
                us(c.box_added_ns),
                us(c.switches_saw_ns),
            );
        }
    }

    fn overheads(&self, text: &mut String) {
        *text += "\n## Control frames on the wire\n\nBits a second with all that Ethernet adds, counted by the box, \
            over the whole run.\n\n\
            | path | way | data, Mbit/s | control, Mbit/s | references, Mbit/s | may take, Mbit/s | by the switch's count, Mbit/s | references kept back |\n\
            |---|---|--:|--:|--:|--:|--:|--:|\n";
        for (run, arrow, way) in self.ways() {
            let o = &way.overhead;
            let mega = |bps: f64| format!("{:.3}", bps / 1e6);
            let _ = writeln!(
                text,
                "| {} | {arrow} | {} | {} | {} | {} | {} | {} |",
                run.words,
                mega(o.data_bps),
                mega(o.control_bps),
                mega(o.reference_bps),
                mega(o.share_bps),
                mega(o.exported_bps),
                o.withheld,
            );
        }
    }

    fn attacks(&self, text: &mut String) {
        let attacked = self
            .runs
            .iter()
            .find_map(|run| Some((run, run.attack.as_ref()?)));
        let Some((run, attack)) = attacked else {
            return;
        };
        *text += "\n## Under attack\n\n";
        let idle = self.runs.iter().find(|run| run.name == "idle");
        let mega = |run: &Outcome| {
            run.tcp_bps
                .map_or("?".to_owned(), |bps| format!("{:.0}", bps / 1e6))
        };
        let mut tricks: Vec<_> = attack.thrown.clone().into_iter().collect();
        tricks.sort();
        let _ = writeln!(
            text,
            "{} frames made up by the box from true ones, for switch 2, and {} thrown by scapy on the link between box and \
             switch 2, for both: {}.\n\n\
             Not believed by switch 1: {}; by switch 2: {}.\n\n\
             Epochs lost: {} (a > b), {} (b > a).\n\n\
             TCP through the switches: {} Mbit/s under attack, {} Mbit/s with nobody attacking.",
            attack.made_up,
            attack.by_hand(),
            list(&tricks),
            list(&attack.at_1.disbelieved),
            list(&attack.at_2.disbelieved),
            list(&attack.epochs_lost[0]),
            list(&attack.epochs_lost[1]),
            mega(run),
            idle.map_or("?".to_owned(), mega),
        );
    }

    /// Writes `wire.md` and `wire.json`.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        fs::write(folder.join("wire.md"), self.markdown())?;
        let json = serde_json::to_string_pretty(self)?;
        fs::write(folder.join("wire.json"), json + "\n")
    }
}

impl Default for Report {
    fn default() -> Self {
        Self::new()
    }
}

fn flow_errors(flows: &[FlowErrors]) -> String {
    let errors = flows
        .iter()
        .map(|of| format!("{} {} ({})", of.method, percent(of.error), of.flows));
    let errors: Vec<_> = errors.collect();
    errors.join(", ")
}

fn packets_of(class: &FlowClass) -> String {
    match (class.packets.start(), class.packets.end()) {
        (min, &u64::MAX) => format!("{min} and more"),
        (min, max) => format!("{min} to {max}"),
    }
}

fn shared_memory(memif: &memif::Outcome, text: &mut String) {
    let v = &memif.verdict;
    let _ = write!(
        text,
        "\n## Over shared memory, as fast as it goes\n\n\
         Two switches, a CPU each, `net_memif` between them, IMIX of 1,000 flows from a generator inside the first.\n\
         Shared memory has no rate of its own: what it carried at first is taken for its capacity, 10 Gbit/s at most.\n\n\
         | | |\n|---|--:|\n\
         | capacity, Mbit/s | {:.0} |\n\
         | packets a second, no record kept | {:.0} |\n\
         | data, Mbit/s | {:.0} |\n\
         | control frames, of the data's bytes | {} |\n\
         | references, of the data's bytes | {} |\n\
         | epochs by fate | {} |\n\
         | packets a second, every packet recorded at both ends | {:.0} |\n\
         | epochs, compared; by fate | {}, {}; {} |\n\
         | packets of an epoch, samples of the LDA | {:.0}, {:.0} |\n\
         | true mean and deviation, us | {}, {} |\n",
        memif.capacity_bps as f64 / 1e6,
        memif.full_pps,
        memif.data_bps / 1e6,
        percent(memif.control_of_data),
        percent(memif.references_of_data),
        list(&memif.fates),
        memif.recorded_pps,
        v.epochs,
        v.usable,
        list(&memif.recorded_fates),
        v.packets,
        v.samples,
        us(v.mean_ns),
        us(v.deviation_ns),
    );
    for means in &v.means {
        let _ = writeln!(
            text,
            "| {}: median error and bound, us; truth within | {}, {}; {} |",
            means.method,
            us(means.error_ns),
            us(means.bound_ns),
            percent(means.within_share()),
        );
    }
    for class in &v.flows {
        let _ = writeln!(
            text,
            "| flows of {} packets | {} |",
            packets_of(class),
            flow_errors(&class.errors)
        );
    }
}

fn replayed_hello(flood: &flood::Outcome, text: &mut String) {
    let _ = write!(
        text,
        "\n## Under a replayed hello\n\n\
         Two switches and the box between them, `net_memif` on both sides. The box records the first hello of switch 1 and sends it to \
         switch 2 over and over, as fast as it makes copies; what is genuine goes first, as on a link that is not full. Nobody has a \
         CPU of his own.\n\n\
         | | before | in the flood |\n\
         |---|--:|--:|\n\
         | replayed hellos a second | 0 | {:.0} |\n\
         | epochs by fate | {} | {} |\n\
         | packets of an epoch | {:.0} | {:.0} |\n\n\
         {} copies of the hello in all; refused: {}.\n",
        flood.replayed_pps,
        list(&flood.quiet_fates),
        list(&flood.fates),
        flood.quiet_packets,
        flood.packets,
        flood.replayed,
        list(&flood.refused.disbelieved),
    );
}

/// What stands above the tables.
const PREFACE: &str = "# Segments on the wire

What two switches say of the path between them, held against what happened to each packet: `make wire`.

Two hosts in namespaces of their own, a switch beside each, and `vernier-impair` between the switches, all joined by veth.
The hosts send each other a mix of UDP flows (200 each way, IMIX, bursts of 6, shares by Zipf's law), TCP (iperf3) and pings. Both
switches write down when they saw each packet; joined by packet hash, that is the truth. The box writes down what it did to each
packet, and tcpdump at both hosts what they saw: two more witnesses. Epochs of 100 ms, an LDA of two banks of 256 rows (80 % and
20 % of packets), sketch and references as large as the share of the link allows (0.5 % of 1 Gbit/s). Switches, box, hosts and
their senders share the machine's CPUs: delays are those of threads that wait for one.

Columns that say *should be* come from probability alone: the loss that the box was told, each frame by itself. A turn is seen unless
all three copies of its marker are lost, and an epoch is usable if both its turns are; the sender's counts and each range of cells
arrive at once or in one round of retransmission; a cell is usable if none of its packets was lost; the error of a mean of so many samples, drawn without
replacement from delays of the deviation seen, is under 0.67 standard errors half the time.

Flows are judged beside flows of their size, 10 to 99 packets in an epoch and 100 or more: TCP at full speed has one great flow with
errors of tenths of a percent and many small ones with several percent, and a median over both lies where there are none. What it is
stands in the table all the same. A median over a hundred flows is itself known to about a fifth only. So the chooser misses its limit for
one size in one run where the lower end of its median's 95 % confidence interval (order statistics) exceeds it; over all of them together,
where chance evens out, it has to be within 3 % of the best.

";

#[cfg(test)]
mod tests {
    use super::*;

    fn means(within: usize) -> Means {
        Means {
            method: CHOSEN.to_owned(),
            epochs: 200,
            within,
            error_ns: 1.0,
            bound_ns: 2.0,
        }
    }

    fn flows(packets: std::ops::RangeInclusive<u64>, error: f64) -> FlowClass {
        let methods = [("joint", 0.02), ("rli", 0.03), (CHOSEN, error)];
        let errors = methods.map(|(method, error)| FlowErrors {
            method: method.to_owned(),
            flows: FLOWS_MIN,
            error,
            error_at_least: error,
        });
        FlowClass {
            packets,
            errors: errors.to_vec(),
        }
    }

    fn refused(frames: u64) -> super::super::outcome::Refused {
        super::super::outcome::Refused {
            disbelieved: vec![("tag".to_owned(), frames)],
            useless: 0,
        }
    }

    fn outcome() -> Outcome {
        let way = || Way {
            verdict: Verdict {
                epochs: 200,
                usable: 200,
                counted: 200,
                counts_exact: 200,
                means: vec![means(190)],
                flows: vec![flows(10..=99, 0.021), flows(100..=u64::MAX, 0.02)],
                ..Verdict::default()
            },
            compared: Some(super::super::outcome::Compared {
                sent: 5,
                received: 5,
                changed: 0,
            }),
            overhead: super::super::outcome::Overhead {
                control_bps: 1.0,
                share_bps: 2.0,
                ..Default::default()
            },
            ..Way::default()
        };
        Outcome {
            name: "attack".to_owned(),
            words: "words".to_owned(),
            ways: [way(), way()],
            tcp_bps: Some(1e9),
            attack: Some(AttackOutcome {
                made_up: 2,
                thrown: [("trick".to_owned(), 3)].into(),
                at_1: refused(3),
                at_2: refused(5),
                ..AttackOutcome::default()
            }),
        }
    }

    fn report(outcome: Outcome) -> Report {
        let mut report = Report::new();
        report.runs.push(outcome);
        report
    }

    #[test]
    fn a_good_run_holds_and_is_shown() {
        let report = report(outcome());
        let limits = report.limits();
        assert!(limits.iter().all(|limit| limit.holds), "{limits:#?}");
        let text = report.markdown();
        assert!(
            text.contains("TCP through the switches: 1000 Mbit/s"),
            "{text}"
        );
        assert!(!text.contains("**no**") && !text.contains("NaN"), "{text}");
    }

    #[test]
    fn a_flood_costs_nothing_or_is_told() {
        let counts = |counts: &[(&str, u64)]| {
            let counts = counts.iter();
            let counts = counts.map(|(name, count)| ((*name).to_owned(), *count));
            counts.collect::<Vec<_>>()
        };
        let flood = flood::Outcome {
            replayed: 5_000,
            believed: 10,
            refused: refused(5_002),
            hellos: 12,
            fates: counts(&[("usable", 120), ("idle", 1)]),
            is_session_kept: true,
            ..flood::Outcome::default()
        };
        let missed = |spoil: fn(&mut flood::Outcome)| {
            let mut flood = flood.clone();
            spoil(&mut flood);
            let mut report = Report::new();
            report.flood = Some(flood);
            assert!(report.markdown().contains("Under a replayed hello"));
            let limits = report.limits().into_iter();
            limits.filter(|limit| !limit.holds).count()
        };
        assert_eq!(missed(|_| ()), 0);
        let spoilers: [fn(&mut flood::Outcome); 5] = [
            |flood| flood.fates.push(("partial".to_owned(), 1)),
            |flood| flood.fates[0].1 = 99,
            |flood| flood.is_session_kept = false,
            |flood| flood.lost_packets = 1,
            |flood| flood.replayed += 1,
        ];
        for (number, spoil) in spoilers.into_iter().enumerate() {
            assert_eq!(missed(spoil), 1, "{number}");
        }
    }

    #[test]
    fn the_chooser_is_judged_over_all_runs() {
        let missed = |error: f64| {
            let mut report = Report::new();
            for _ in 0..CLASSES_MIN / 4 {
                let mut run = outcome();
                for way in &mut run.ways {
                    way.verdict.flows = vec![flows(10..=99, error), flows(100..=u64::MAX, 0.02)];
                }
                report.runs.push(run);
            }
            let limits = report.limits().into_iter().filter(|limit| !limit.holds);
            limits.map(|limit| limit.got).collect::<Vec<_>>()
        };
        assert_eq!(missed(0.021), [""; 0]);
        assert_eq!(missed(0.0219), ["1.046 (20 sizes)"]);
    }

    #[test]
    fn whatever_goes_wrong_is_found() {
        type Spoiler = (&'static str, fn(&mut Outcome));
        let mut failing = report(outcome());
        failing.failed.push(("loss-1".to_owned(), "why".to_owned()));
        assert!(!failing.limits()[0].holds);
        let spoilers: [Spoiler; 10] = [
            ("usable epochs", |run| run.ways[0].verdict.usable = 99),
            ("truth within", |run| {
                run.ways[1].verdict.means = vec![means(185)];
            }),
            ("packets exact", |run| {
                run.ways[0].verdict.counts_exact = 199;
            }),
            ("10 to 99 packets by the chooser", |run| {
                run.ways[0].verdict.flows[0].errors[2].error_at_least = 0.0221;
            }),
            ("enough to judge", |run| run.ways[0].verdict.flows.clear()),
            ("packets changed", |run| {
                run.ways[0].compared.as_mut().unwrap().changed = 1;
            }),
            ("got out", |run| {
                run.ways[1].leaked = 1;
            }),
            ("may take", |run| run.ways[1].overhead.control_bps = 2.1),
            ("all counted", |run| {
                run.attack.as_mut().unwrap().made_up = 3;
            }),
            ("epochs lost", |run| {
                run.attack.as_mut().unwrap().epochs_lost[1] = vec![("partial".to_owned(), 1)];
            }),
        ];
        for (what, spoil) in spoilers {
            let mut run = outcome();
            spoil(&mut run);
            let limits = report(run).limits();
            let missed: Vec<_> = limits.iter().filter(|limit| !limit.holds).collect();
            assert!(
                missed.iter().any(|limit| limit.what.contains(what)),
                "{what}: {missed:#?}"
            );
        }
    }
}
