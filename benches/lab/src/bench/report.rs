//! The results of a comparison: a JSON file with the latest on every model of CPU, and a page made from it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::{fs, io};

use anyhow::{Context, Result};
use reporting::statistics::{Spread, median};
use reporting::{Machine, now_utc, output_of};
use serde::{Deserialize, Serialize};

use crate::bench::plan::{Claim, Comparison, Goal};
use crate::bench::rounds::{Absence, Series, ratio};
use crate::bench::setting::{Base, Memory};

mod page;

pub use page::parts;

/// Machine, commit and time of the figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    #[serde(flatten)]
    pub machine: Machine,
    /// The commit that ran beside it, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    pub dpdk: String,
    /// Where packets' memory came from: `hugepages` or `ordinary pages`.
    pub memory: String,
    /// When it ended, in UTC.
    pub date: String,
}

impl Setting {
    /// This machine, now.
    pub fn of_this_machine(memory: Memory, base: Option<&Base>) -> Self {
        Self {
            machine: Machine::of_this_run(),
            base: base.map(|base| base.commit.clone()),
            dpdk: output_of(Command::new("pkg-config").args(["--modversion", "libdpdk"])),
            memory: memory.name().to_owned(),
            date: now_utc(),
        }
    }
}

/// One line of the table of ratios.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub label: String,
    /// Median of the rounds' ratios; none where it did not run.
    pub median: Option<f64>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl Row {
    fn new(label: &str, goal: Goal, ratio: Result<Spread, Absence>) -> Self {
        let outcome = Outcome::new(goal, ratio.as_ref().map(|ratio| ratio.median));
        let ratio = ratio.ok();
        Self {
            label: label.to_owned(),
            median: ratio.map(|ratio| ratio.median),
            min: ratio.map(|ratio| ratio.min),
            max: ratio.map(|ratio| ratio.max),
            outcome,
        }
    }
}

/// The limit on a figure, and what came of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Outcome {
    pub must: Option<f64>,
    pub aim: Option<f64>,
    pub verdict: Verdict,
}

/// What came of a limit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    #[default]
    #[serde(rename = "told")]
    Shown,
    Aim,
    /// The limit is kept, the aim not reached.
    Must,
    Missed,
    /// It cannot be measured here: why.
    Skipped(String),
    /// It failed: why.
    Failed(String),
}

impl Outcome {
    pub fn new(goal: Goal, figure: Result<f64, &Absence>) -> Self {
        let (must, aim) = match goal {
            Goal::Shown => (None, None),
            Goal::AtLeast { must, aim } | Goal::AtMost { must, aim } => (Some(must), Some(aim)),
        };
        let verdict = match figure {
            Ok(figure) => Verdict::of(goal, figure),
            Err(Absence::Skipped(why)) => Verdict::Skipped(why.clone()),
            Err(Absence::Failed(why)) => Verdict::Failed(why.clone()),
        };
        Self { must, aim, verdict }
    }

    /// Whether the limit is kept, or there is none, or the figure cannot be measured here.
    pub fn holds(&self) -> bool {
        !matches!(self.verdict, Verdict::Missed | Verdict::Failed(_))
    }
}

impl Verdict {
    fn of(goal: Goal, figure: f64) -> Self {
        let (must, aim) = match goal {
            Goal::Shown => return Self::Shown,
            Goal::AtLeast { must, aim } => (figure >= must, figure >= aim),
            Goal::AtMost { must, aim } => (figure <= must, figure <= aim),
        };
        match (must, aim) {
            (false, _) => Self::Missed,
            (true, false) => Self::Must,
            (true, true) => Self::Aim,
        }
    }
}

/// What one contender reached under one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    pub id: String,
    pub label: String,
    pub load: String,
    /// Packets a second, round by round.
    pub rates_pps: Vec<f64>,
}

impl Rate {
    /// Median of millions of packets a second.
    pub fn mpps(&self) -> f64 {
        median(self.rates_pps.iter().copied()) / 1e6
    }
}

/// What one step of the fast path costs a packet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// What is done up to here.
    pub label: String,
    /// Time of all up to here in nanoseconds, the median of rounds.
    pub ns: f64,
    /// What this step adds, the median of the rounds' differences; none for the first and for
    /// peers.
    pub added_ns: Option<f64>,
    /// Instructions of the thread that forwards, all up to here; none without callgrind.
    pub instructions: Option<f64>,
    /// What came of the limit on instructions.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What a part of the program costs a packet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The source file, or the library.
    #[serde(rename = "place")]
    pub source: String,
    pub ns: Option<f64>,
    pub instructions: Option<f64>,
}

/// Results on one model of CPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub setting: Setting,
    /// Rounds that counted.
    pub rounds: usize,
    pub rows: Vec<Row>,
    pub rates: Vec<Rate>,
    /// What steps cost, and the commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<Costs<Step>>,
    /// Where the time goes with everything on, and the commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Costs<Part>>,
}

/// Costs, and where, when and of what they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Costs<T> {
    pub setting: Setting,
    pub costs: Vec<T>,
}

impl Report {
    /// With all claims about runs that took place.
    pub fn new(setting: Setting, rounds: usize, claims: &[Claim], all: &[Series]) -> Self {
        let base = setting.base.as_deref();
        let rows = claims
            .iter()
            .filter_map(|claim| Some(Row::new(claim.label, claim.goal(base), ratio(claim, all)?)))
            .collect();
        let rates = all.iter().filter_map(|series| {
            Some(Rate {
                id: series.run.contender.id.to_owned(),
                label: series.run.contender.label.to_owned(),
                load: series.run.load.label().to_owned(),
                rates_pps: series.rates_pps.as_ref().ok()?.clone(),
            })
        });
        Self {
            setting,
            rounds,
            rows,
            rates: rates.collect(),
            steps: None,
            parts: None,
        }
    }

    /// Whether every limit is kept.
    pub fn holds(&self) -> bool {
        self.rows.iter().all(|row| row.outcome.holds())
    }

    /// Its part of the page.
    pub fn markdown(&self) -> String {
        page::report(self)
    }
}

/// The latest results on every model of CPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Results(BTreeMap<String, Report>);

impl Results {
    /// The results of a comparison in `folder` so far.
    pub fn load(folder: &Path, comparison: &Comparison) -> Result<Self> {
        let file = folder.join(comparison.name).with_extension("json");
        match fs::read(&file) {
            Ok(json) => serde_json::from_slice(&json)
                .with_context(|| format!("{} is not as it was written", file.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
        }
    }

    /// Replaces the report of its model of CPU, but keeps the costs of steps and parts that it lacks.
    pub fn put(&mut self, mut report: Report) {
        let cpu = report.setting.machine.cpu.clone();
        if let Some(before) = self.0.remove(&cpu) {
            report.steps = report.steps.or(before.steps);
            report.parts = report.parts.or(before.parts);
        }
        self.0.insert(cpu, report);
    }

    /// The report of a model of CPU.
    pub fn of(&self, cpu: &str) -> Option<&Report> {
        self.0.get(cpu)
    }

    /// Writes both files of a comparison into `folder`. The page above its mark, which a person wrote, stays.
    pub fn write(&self, folder: &Path, comparison: &Comparison) -> Result<()> {
        let page = folder.join(comparison.name).with_extension("md");
        // Before the first results there is no page.
        let before = fs::read_to_string(page).unwrap_or_default();
        let page = page::page(&before, comparison, self.0.values());
        reporting::write(folder, comparison.name, &page, self)
    }
}

#[cfg(test)]
mod tests;
