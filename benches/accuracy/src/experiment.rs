//! What an experiment is, and the one runner of all of them.

use std::path::PathBuf;

use anyhow::Result;
use rayon::prelude::*;
use reporting::Limit;
use reporting::statistics::mean;
use serde::Serialize;

/// How experiments are run.
#[derive(Debug, Clone, Serialize)]
pub struct Setting {
    /// The packets of a pcap file, through the queue simulator; `None`: generated traffic.
    pub capture: Option<PathBuf>,
    /// Seeds to average over; `None`: as many as the limit asks for.
    pub seeds: Option<u32>,
    /// 1 for the size that limits hold for; less for a quick look, which no limit judges.
    pub scale: f64,
}

impl Setting {
    /// Whether limits hold for it: generated packets at scale 1.
    fn is_judged(&self) -> bool {
        self.capture.is_none() && self.scale >= 1.0
    }

    /// Seeds of hashes and losses: as many as asked for, else `usual`.
    pub fn seeds(&self, usual: u32) -> u32 {
        self.seeds.unwrap_or(usual).max(1)
    }

    /// Seeds of traffic: of a capture one, unless more are asked for, since its packets stay.
    pub fn traffic_seeds(&self, usual: u32) -> u32 {
        self.seeds(if self.capture.is_some() { 1 } else { usual })
    }
}

/// One experiment: a name on the command line, and what it runs.
pub struct Experiment {
    /// As on the command line: `lda`, `lds`, `rli`.
    pub name: &'static str,
    /// In words, for the progress bar and the report.
    pub title: &'static str,
    /// What is to be run.
    pub plan: fn(&Setting) -> Result<Plan>,
}

/// Tables and figures, and the cases that fill them.
#[derive(Default)]
pub struct Plan {
    /// Tables without rows, in the order of printing.
    pub tables: Vec<Table>,
    /// Figures without curves.
    pub figures: Vec<Figure>,
    cases: Vec<Case>,
}

struct Case {
    seeds: u32,
    run: Box<Run>,
}

type Run = dyn Fn(u64, &mut Found) -> Result<()> + Send + Sync;

impl Plan {
    /// Adds a table; its number is the order of adding, from 0.
    pub fn table(&mut self, title: impl Into<String>, about: impl Into<String>) {
        self.tables.push(Table {
            title: title.into(),
            about: about.into(),
            rows: Vec::new(),
        });
    }

    /// Adds a case that is run once for each seed, from 0; its rows are means over seeds, its curves
    /// those of the first.
    pub fn case(
        &mut self,
        seeds: u32,
        run: impl Fn(u64, &mut Found) -> Result<()> + Send + Sync + 'static,
    ) {
        let run = Box::new(run);
        self.cases.push(Case { seeds, run });
    }

    /// Runs of all cases.
    pub fn steps(&self) -> u64 {
        self.cases.iter().map(|case| u64::from(case.seeds)).sum()
    }

    /// Runs all cases with all seeds in parallel; `step` is called after each.
    ///
    /// # Errors
    /// The first that a case gives.
    pub fn run(mut self, setting: &Setting, step: &(dyn Fn() + Sync)) -> Result<Findings> {
        let runs: Vec<(&Case, u64)> = (self.cases.iter())
            .flat_map(|case| (0..u64::from(case.seeds)).map(move |seed| (case, seed)))
            .collect();
        let mut found = runs
            .into_par_iter()
            .map(|(case, seed)| {
                let mut found = Found::default();
                (case.run)(seed, &mut found)?;
                step();
                Ok(found)
            })
            .collect::<Result<Vec<Found>>>()?
            .into_iter();
        for case in &self.cases {
            let of_case: Vec<Found> = found.by_ref().take(case.seeds as usize).collect();
            for (table, row) in mean_rows(&of_case) {
                if let Some(table) = self.tables.get_mut(table) {
                    table.rows.push(row.judged(setting));
                }
            }
            let curves = of_case.into_iter().next().unwrap_or_default().curves;
            for (figure, curve) in curves {
                if let Some(figure) = self.figures.get_mut(figure) {
                    figure.add(curve);
                }
            }
        }
        Ok(Findings {
            tables: self.tables,
            figures: self.figures,
        })
    }
}

/// What one run of a case found.
#[derive(Default)]
pub struct Found {
    rows: Vec<(usize, Row)>,
    curves: Vec<(usize, Curve)>,
}

impl Found {
    /// A row of the table of this number.
    pub fn row(&mut self, table: usize, row: Row) {
        self.rows.push((table, row));
    }

    /// A curve of the figure of this number, or further points of one of this name.
    pub fn curve(&mut self, figure: usize, label: impl Into<String>, points: Vec<(f64, f64)>) {
        let label = label.into();
        self.curves.push((figure, Curve { label, points }));
    }

    /// The cumulative distribution of `values`, as the papers draw errors.
    pub fn cdf(&mut self, figure: usize, label: impl Into<String>, values: Vec<f64>) {
        self.curve(figure, label, cdf(values));
    }
}

/// At most 200 points of the cumulative distribution.
fn cdf(mut values: Vec<f64>) -> Vec<(f64, f64)> {
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    let steps = last.min(199);
    let points = (0..=steps).filter_map(|step| {
        let rank = (step * last).checked_div(steps).unwrap_or(0);
        let share = (rank + 1) as f64 / values.len() as f64;
        values.get(rank).map(|&value| (value, share))
    });
    points.collect()
}

/// The mean, figure by figure, of the rows of runs that are alike.
fn mean_rows(runs: &[Found]) -> Vec<(usize, Row)> {
    let Some(first) = runs.first() else {
        return Vec::new();
    };
    let rows = first.rows.iter().enumerate().map(|(index, (table, row))| {
        let mean_of = |figure: &dyn Fn(&Row) -> Option<f64>| {
            let alike = runs.iter().filter_map(|run| run.rows.get(index));
            mean(alike.filter_map(|(_, row)| figure(row)))
        };
        let mut row = row.clone();
        row.ours = mean_of(&|row| Some(row.ours));
        for (other, own) in row.others.iter_mut().enumerate() {
            own.figure = mean_of(&|row| Some(row.others.get(other)?.figure));
        }
        for (divisor, own) in row.over.iter_mut().enumerate() {
            *own = mean_of(&|row| row.over.get(divisor).copied());
        }
        if let Some(least) = row.over.drain(..).reduce(f64::min) {
            row.ours /= least;
        }
        (*table, row)
    });
    rows.collect()
}

/// What an experiment found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    /// Tables, in the order of printing.
    pub tables: Vec<Table>,
    /// Figures.
    pub figures: Vec<Figure>,
}

/// A table of one experiment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table {
    /// Heading.
    pub title: String,
    /// What was run, on what, how often, and what the figures mean: a few sentences.
    pub about: String,
    /// Its lines.
    pub rows: Vec<Row>,
}

/// One line of a table: a check, or a figure without a limit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// What was measured.
    pub check: String,
    /// Unit of all its figures: `%`, `ratio`, `us`.
    pub unit: &'static str,
    /// What the paper (or its method, in our implementation) gives.
    pub paper: Option<f64>,
    /// What ours must keep; `None`: a figure, not a check.
    pub limit: Option<Limit>,
    /// What we measured.
    pub ours: f64,
    /// Other methods on the same packets.
    pub others: Vec<Other>,
    /// Whether the limit is kept; `None` without one.
    pub pass: Option<bool>,
    /// Divisors: the least of their means divides the mean of `ours`.
    #[serde(skip)]
    over: Vec<f64>,
}

/// Another method's figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Other {
    /// Its name.
    pub method: String,
    /// The figure, in the unit of the row unless the name has one.
    pub figure: f64,
}

impl Row {
    /// A figure of ours, with nothing to compare it with yet.
    pub fn new(check: impl Into<String>, unit: &'static str, ours: f64) -> Self {
        Self {
            check: check.into(),
            unit,
            paper: None,
            limit: None,
            ours,
            others: Vec::new(),
            pass: None,
            over: Vec::new(),
        }
    }

    /// The mean of `ours` over seeds, divided by the least mean of `over`.
    pub fn ratio(check: impl Into<String>, ours: f64, over: impl Into<Vec<f64>>) -> Self {
        Self {
            over: over.into(),
            ..Self::new(check, "ratio", ours)
        }
    }

    /// With what the paper gives.
    #[must_use]
    pub fn paper(mut self, paper: impl Into<Option<f64>>) -> Self {
        self.paper = paper.into();
        self
    }

    /// With what ours must keep, if anything.
    #[must_use]
    pub fn limit(mut self, limit: impl Into<Option<Limit>>) -> Self {
        self.limit = limit.into();
        self
    }

    /// With another method's figure on the same packets.
    #[must_use]
    pub fn other(self, method: impl Into<String>, figure: f64) -> Self {
        self.others([(method, figure)])
    }

    /// With other methods' figures on the same packets.
    #[must_use]
    pub fn others<S: Into<String>>(mut self, others: impl IntoIterator<Item = (S, f64)>) -> Self {
        let others = others.into_iter();
        self.others.extend(others.map(|(method, figure)| Other {
            method: method.into(),
            figure,
        }));
        self
    }

    fn judged(mut self, setting: &Setting) -> Self {
        self.limit = self.limit.filter(|_| setting.is_judged());
        self.pass = self.limit.map(|limit| limit.holds(self.ours));
        self
    }
}

/// A figure: curves over one pair of axes, drawn as SVG.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Stem of the file: `lds-fig10-by-size`.
    pub name: String,
    /// Heading.
    pub title: String,
    /// Name and unit of the horizontal axis.
    pub x_label: &'static str,
    /// Name and unit of the vertical axis.
    pub y_label: &'static str,
    /// How the horizontal axis is divided.
    pub x_axis: Axis,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// How an axis is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// Evenly.
    Linear,
    /// By decades.
    Logarithmic,
}

/// One curve of a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Its name in the legend.
    pub label: String,
    /// Points in the order of drawing.
    pub points: Vec<(f64, f64)>,
}

impl Figure {
    /// A figure without curves.
    pub fn new(
        name: impl Into<String>,
        title: impl Into<String>,
        (x_label, x_axis): (&'static str, Axis),
        y_label: &'static str,
    ) -> Self {
        Self {
            name: name.into(),
            title: title.into(),
            x_label,
            y_label,
            x_axis,
            curves: Vec::new(),
        }
    }

    /// Cumulative distributions of errors.
    pub fn of_errors(name: impl Into<String>, title: impl Into<String>) -> Self {
        let x = ("relative error (%)", Axis::Logarithmic);
        Self::new(name, title, x, "share of flows")
    }

    fn add(&mut self, curve: Curve) {
        match self.curves.iter_mut().find(|own| own.label == curve.label) {
            Some(own) => own.points.extend(curve.points),
            None => self.curves.push(curve),
        }
    }
}

/// Runs `experiment` in one go, for tests.
#[cfg(test)]
pub fn run(experiment: &Experiment, setting: &Setting) -> Findings {
    let plan = (experiment.plan)(setting).unwrap();
    let steps = plan.steps();
    let taken = std::sync::atomic::AtomicU64::new(0);
    let step = || {
        taken.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    };
    let findings = plan.run(setting, &step).unwrap();
    assert_eq!(taken.into_inner(), steps);
    findings
}

#[cfg(test)]
mod tests;
