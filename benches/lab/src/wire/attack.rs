//! Attackers, and the fate of their frames.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use records::snapshot::WireTotals;
use serde_json::Value;
use testkit::process::Process;

use crate::wire::namespaces::WIRES;
use crate::wire::report::{ARROWS, Report, list, whole};
use crate::wire::watch::{Counts, Seen, since};

/// Results of the attacks.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Frames that the box forged, for switch 2.
    pub made_up: u64,
    /// Frames sent by scapy, by trick. Both switches receive them: scapy is on the link between.
    pub sent: BTreeMap<String, u64>,
    /// Reactions of switch 1 and switch 2.
    pub at: [Refused; 2],
    /// Epochs lost in each direction, by fate.
    pub epochs_lost: [Counts; 2],
}

impl Outcome {
    /// Adds the checks and the section.
    pub fn add_to(&self, report: &mut Report) {
        let by_scapy: u64 = self.sent.values().sum();
        // Genuine hellos among these, sent again: their tags are right, and they must have no effect.
        let old_hellos = self.sent.get("old hello").copied().unwrap_or(0);
        let checks = &mut report.checks;
        let sent = [by_scapy, by_scapy + self.made_up];
        for ((switch, sent), refused) in (1..).zip(sent).zip(&self.at) {
            let frames = refused.frames();
            let least = sent - old_hellos;
            checks.add(
                format!("attack: frames sent to switch {switch}, all counted as refused, but for some old hellos"),
                format!("{frames} of {sent}"),
                (least.max(1)..=sent).contains(&frames),
            );
            checks.add(
                format!("attack: useless frames that switch {switch} accepted"),
                refused.useless,
                refused.useless == 0,
            );
        }
        for (arrow, lost) in ARROWS.into_iter().zip(&self.epochs_lost) {
            let what = format!("attack: epochs lost, {arrow}");
            checks.add(what, list(lost), lost.is_empty());
        }
        let tcp = |name: &str| {
            let mut runs = report.runs.iter();
            let bps = runs
                .find(|run| run.name == name)
                .and_then(|run| run.tcp_bps);
            bps.map_or("?".to_owned(), |bps| whole(bps / 1e6))
        };
        let tricks: Vec<_> = self.sent.clone().into_iter().collect();
        let [at_1, at_2] = self.at.each_ref().map(|refused| list(&refused.by_reason));
        let [to_right, to_left] = self.epochs_lost.each_ref().map(|lost| list(lost));
        let section = format!(
            "## Under attack\n\n\
             {} frames made up by the box from genuine ones, for switch 2, and {by_scapy} sent by scapy on the link between box \
             and switch 2, for both: {}.\n\n\
             Refused by switch 1: {at_1}; by switch 2: {at_2}.\n\n\
             Epochs lost: {to_right} (a > b), {to_left} (b > a).\n\n\
             TCP through the switches: {} Mbit/s under attack, {} Mbit/s without.",
            self.made_up,
            list(&tricks),
            tcp("attack"),
            tcp("idle"),
        );
        report.sections.push(section);
    }
}

/// A switch's reaction to frames that it had to reject.
#[derive(Debug, Clone, Default)]
pub struct Refused {
    /// Frames that it did not authenticate, by reason.
    pub by_reason: Counts,
    /// Frames that it authenticated, but could not use.
    pub useless: u64,
}

impl Refused {
    /// While a switch was watched.
    pub fn during(seen: &Seen) -> Self {
        let reports = seen.reports.as_ref();
        reports.map_or_else(Self::default, |(first, last)| {
            Self::since(&first.total, &last.total)
        })
    }

    pub fn since(before: &WireTotals, after: &WireTotals) -> Self {
        let events = since(&before.events, &after.events).into_iter();
        let useless = events.filter(|(event, _)| event.contains("useless"));
        Self {
            by_reason: since(&before.disbelieved_frames, &after.disbelieved_frames),
            useless: useless.map(|(_, count)| count).sum(),
        }
    }

    /// Frames that it did not authenticate.
    pub fn frames(&self) -> u64 {
        self.by_reason.iter().map(|(_, count)| count).sum()
    }
}

/// The attacker's script.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/wire/attack.py");

/// The script at work.
#[derive(Debug)]
pub struct Attacker {
    process: Process,
    counts: PathBuf,
}

impl Attacker {
    pub fn begin(folder: &Path, duration: Duration) -> Result<Self> {
        let counts = folder.join("attack.json");
        let (victim, own) = WIRES[1];
        let seconds = duration.as_secs().saturating_sub(3).to_string();
        // Debian's own Python has Debian's scapy.
        let process = Process::start_quiet(
            Command::new("/usr/bin/python3")
                .arg(SCRIPT)
                .args(["--interface", own, "--victim", victim])
                .args(["--seconds", &seconds])
                .arg("--counts")
                .arg(&counts),
            folder.join("attack.log"),
        )?;
        Ok(Self { process, counts })
    }

    /// Waits for its end; returns the frames that it sent, by trick.
    pub fn end(mut self) -> Result<BTreeMap<String, u64>> {
        self.process.wait().context("the attacker")?;
        let counts = fs::read(&self.counts).context("the attacker left no counts")?;
        let mut report: Value = serde_json::from_slice(&counts)?;
        Ok(serde_json::from_value(report["thrown"].take())?)
    }
}
