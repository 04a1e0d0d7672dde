//! Output of the accuracy tables: a page for people, JSON for programs.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use reporting::{Checks, Limit, Machine, given, now_utc, significant};
use serde::Serialize;

use crate::experiment::Setting;

/// Columns of other methods, beyond which they are all in one.
const OTHER_COLUMNS_MAX: usize = 6;

/// A table of one experiment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table {
    pub title: String,
    /// A few sentences about the setting, its data and number of runs, and the meaning of the figures.
    pub about: String,
    pub rows: Vec<Row>,
}

/// One line of a table: a check, or a figure without a limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Row {
    /// What was measured.
    pub check: String,
    /// Unit of all its figures: `%`, `ratio`, `us`.
    pub unit: &'static str,
    /// Figure of the paper (or of its method in our implementation).
    pub paper: Option<f64>,
    /// Limit for our figure; `None` for a figure without a check.
    pub limit: Option<Limit>,
    /// What we measured.
    pub ours: f64,
    /// Other methods on the same packets.
    pub others: Vec<Other>,
    /// Whether the limit is kept; `None` without one.
    pub pass: Option<bool>,
    /// Divisors: the least of their means divides the mean of `ours`.
    #[serde(skip)]
    pub over: Vec<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Other {
    pub method: String,
    /// The figure, in the unit of the row unless the name has one.
    pub figure: f64,
}

impl Row {
    /// A figure of ours, without anything to compare it with yet.
    pub fn new(check: impl Into<String>, unit: &'static str, ours: f64) -> Self {
        Self {
            check: check.into(),
            unit,
            ours,
            ..Self::default()
        }
    }

    /// What the paper gives.
    pub fn paper(&mut self, paper: impl Into<Option<f64>>) -> &mut Self {
        self.paper = paper.into();
        self
    }

    /// Sets the limit for our figure.
    pub fn limit(&mut self, limit: impl Into<Option<Limit>>) -> &mut Self {
        self.limit = limit.into();
        self
    }

    /// What the paper gives, and the most that ours may be.
    pub fn at_most(&mut self, judged: impl Into<Option<(f64, f64)>>) -> &mut Self {
        let (paper, most) = judged.into().unzip();
        self.paper(paper).limit(most.map(Limit::AtMost))
    }

    /// Another method's figure on the same packets.
    pub fn other(&mut self, method: impl Into<String>, figure: f64) -> &mut Self {
        self.others([(method, figure)])
    }

    /// Other methods' figures on the same packets.
    pub fn others<S: Into<String>>(
        &mut self,
        others: impl IntoIterator<Item = (S, f64)>,
    ) -> &mut Self {
        let others = others.into_iter();
        self.others.extend(others.map(|(method, figure)| Other {
            method: method.into(),
            figure,
        }));
        self
    }

    /// Divides ours by the least of the divisors, if there are any.
    pub fn divided(mut self) -> Self {
        if let Some(least) = self.over.drain(..).reduce(f64::min) {
            self.ours /= least;
        }
        self
    }

    /// Checks our figure if limits apply to the setting.
    pub fn judged(mut self, setting: &Setting) -> Self {
        self.limit = self.limit.filter(|_| setting.is_judged());
        self.pass = self.limit.map(|limit| limit.holds(self.ours));
        self
    }
}

/// Results and duration of one experiment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Section {
    pub name: &'static str,
    pub title: &'static str,
    pub seconds: f64,
    pub tables: Vec<Table>,
}

/// Everything about one run, for programs.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    date: String,
    machine: Machine,
    settings: Setting,
    limits: usize,
    missed: usize,
    experiments: Vec<Section>,
    /// Results of the limits.
    #[serde(skip)]
    pub checks: Checks,
}

impl Report {
    /// Of this machine and moment.
    pub fn new(settings: Setting, experiments: Vec<Section>) -> Self {
        let mut checks = Checks::default();
        for table in experiments.iter().flat_map(|section| &section.tables) {
            for row in &table.rows {
                if let Some(limit) = row.limit {
                    let what = format!("{}: {}", table.title, row.check);
                    checks.limit(what, row.ours, row.unit, limit);
                }
            }
        }
        Self {
            date: now_utc(),
            machine: Machine::of_this_run(),
            settings,
            limits: checks.0.len(),
            missed: checks.missed().count(),
            experiments,
            checks,
        }
    }

    /// Writes `accuracy.md` and `accuracy.json`, or `accuracy-` and the capture's name.
    pub fn write(&self, folder: &Path) -> Result<()> {
        reporting::write(folder, &stem(&self.settings), &self.markdown(), self)
    }

    fn markdown(&self) -> String {
        let (machine, settings) = (&self.machine, in_words(&self.settings));
        let mut text = format!(
            "# Accuracy\n\nEvery method compared with the exact truth. The columns are the figure of the *paper*, the *limit* for our figure, our figure (*ours*), and other methods on the same packets.\n\nRun on {} with {settings}.\nCommit {}; {machine}.\n\n",
            self.date, machine.commit
        );
        let verdict = self.checks.verdict();
        let [summary, missed @ ..] = &verdict[..] else {
            return text;
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "**{summary}**");
        if !missed.is_empty() {
            let _ = writeln!(text, "\n- {}", missed.join("\n- "));
        }
        text.extend(self.experiments.iter().map(Section::markdown));
        text
    }
}

impl Section {
    /// Its part of the page.
    pub fn markdown(&self) -> String {
        let mut text = format!(
            "\n## {}\n\n`vernier-accuracy tables {}`, {:.0} s.\n",
            self.title, self.name, self.seconds
        );
        for table in &self.tables {
            let (title, about, rows) = (&table.title, &table.about, printed(table).markdown());
            let _ = write!(text, "\n### {title}\n\n{about}\n\n{rows}");
        }
        text
    }
}

pub fn stem(setting: &Setting) -> String {
    let name = setting.capture.as_deref().and_then(Path::file_stem);
    name.map_or_else(
        || "accuracy".to_owned(),
        |name| format!("accuracy-{}", name.to_string_lossy()),
    )
}

fn in_words(setting: &Setting) -> String {
    let name = setting.capture.as_deref().and_then(Path::file_name);
    let source = name.map_or_else(
        || "generated traffic".to_owned(),
        |name| {
            let name = name.to_string_lossy();
            format!("packets of {name} through the queue simulator")
        },
    );
    let seeds = match setting.seeds {
        None => "seeds as each limit asks".to_owned(),
        Some(seeds) => format!("{seeds} seeds"),
    };
    format!("{source}; {seeds}; scale {}", setting.scale)
}

/// Other methods have columns of their own, in the order of their first appearance, or are all in one.
fn printed(table: &Table) -> reporting::Table {
    let mut methods: Vec<&str> = Vec::new();
    for other in table.rows.iter().flat_map(|row| &row.others) {
        if !methods.contains(&other.method.as_str()) {
            methods.push(&other.method);
        }
    }
    let are_collapsed = methods.len() > OTHER_COLUMNS_MAX;
    let headings = if are_collapsed {
        &["others"]
    } else {
        &methods[..]
    };
    let mut printed = reporting::Table::default()
        .words(["check", "unit"])
        .figures(["paper", "limit", "ours"])
        .figures(headings.iter().copied());
    for row in &table.rows {
        let others = methods.iter().map(|method| {
            let other = row.others.iter().find(|other| other.method == *method);
            other.map_or_else(String::new, |other| significant(other.figure))
        });
        let mut fields = vec![
            row.check.clone(),
            row.unit.to_owned(),
            row.paper.map(given).unwrap_or_default(),
            row.limit.map(|limit| limit.to_string()).unwrap_or_default(),
            significant(row.ours),
        ];
        if are_collapsed {
            let known = methods
                .iter()
                .zip(others)
                .filter(|(_, figure)| !figure.is_empty());
            let named: Vec<_> = known
                .map(|(method, figure)| format!("{method} {figure}"))
                .collect();
            fields.push(named.join(", "));
        } else {
            fields.extend(others);
        }
        printed.push(fields).judge(row.pass);
    }
    printed
}

#[cfg(test)]
mod tests;
