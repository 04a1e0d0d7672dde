//! What the accuracy tables leave behind: a table for people, JSON for programs, figures as SVG.

mod figure;
mod markdown;
mod plot;
mod text;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

pub use text::{Style, table as table_as_text};

use super::table::{Figure, Limit, Row, Table};
use super::{Setting, Source};
use reporting::{Machine, now_utc};

/// What one experiment found, and how long it took.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// Its name on the command line.
    pub name: &'static str,
    /// In words.
    pub title: &'static str,
    /// Seconds of wall-clock time.
    pub seconds: f64,
    /// Tables.
    pub tables: Vec<Table>,
    /// Figures.
    pub figures: Vec<Figure>,
}

/// Everything about one run.
#[derive(Debug, Clone)]
pub struct Report {
    /// Where and of what.
    pub machine: Machine,
    /// When it began, in UTC.
    pub date: String,
    /// How experiments were run.
    pub setting: Setting,
    /// What each found.
    pub sections: Vec<Section>,
}

impl Report {
    /// A report of this machine and moment, with nothing found yet.
    pub fn new(setting: Setting) -> Self {
        Self {
            machine: Machine::of_this_run(),
            date: now_utc(),
            setting,
            sections: Vec::new(),
        }
    }

    /// Rows that have a limit.
    fn checks(&self) -> impl Iterator<Item = (&Table, &Row, bool)> {
        let tables = self.sections.iter().flat_map(|section| &section.tables);
        tables.flat_map(|table| {
            let judged = table.rows.iter();
            judged.filter_map(move |row| row.pass().map(|pass| (table, row, pass)))
        })
    }

    /// Whether every limit is kept.
    pub fn holds(&self) -> bool {
        self.checks().all(|(.., pass)| pass)
    }

    /// In one sentence, then one line for each limit that is missed.
    pub fn verdict(&self) -> Vec<String> {
        let limits = self.checks().count();
        let missed: Vec<_> = self.checks().filter(|(.., pass)| !pass).collect();
        let summary = match (limits, missed.len()) {
            (0, _) => "No limit applies to this setting: figures for information.".to_owned(),
            (_, 0) => format!("All {limits} limits are kept."),
            (_, missed) => format!("{missed} of {limits} limits are missed:"),
        };
        let missed = missed.into_iter().map(|(table, row, _)| {
            let limit = row.limit.map(figure::limit).unwrap_or_default();
            let ours = figure::measured(row.ours);
            format!(
                "{}: {}: {ours} {}, limit {limit}",
                table.title, row.check, row.unit
            )
        });
        std::iter::once(summary).chain(missed).collect()
    }

    /// Stem of the files: `accuracy`, or `accuracy-` and the capture's.
    pub fn stem(&self) -> String {
        match &self.setting.source {
            Source::Generated => "accuracy".to_owned(),
            Source::Capture(file) => {
                let stem = file.file_stem().unwrap_or_default().to_string_lossy();
                format!("accuracy-{stem}")
            }
        }
    }

    /// How it was run, in words.
    fn settings(&self) -> String {
        let Setting {
            source,
            seeds,
            scale,
        } = &self.setting;
        let source = match source {
            Source::Generated => "generated traffic".to_owned(),
            Source::Capture(file) => {
                let name = file.file_name().unwrap_or_default().to_string_lossy();
                format!("packets of {name} through the queue simulator")
            }
        };
        let seeds = seeds.map_or_else(
            || "seeds as each limit asks".to_owned(),
            |seeds| format!("{seeds} seeds"),
        );
        format!("{source}; {seeds}; scale {scale}")
    }

    /// Writes the report as Markdown and JSON and a folder of figures into `folder`, all called by
    /// the [`stem`](Self::stem). Figures of an earlier run in that folder are removed.
    ///
    /// # Errors
    /// When they cannot be written or drawn.
    pub fn write(&self, folder: &Path) -> Result<()> {
        let stem = self.stem();
        let figures = folder.join(&stem);
        fs::create_dir_all(&figures)
            .and_then(|()| remove_figures(&figures))
            .with_context(|| format!("cannot write to {}", figures.display()))?;
        for figure in self.sections.iter().flat_map(|section| &section.figures) {
            let file = figures.join(format!("{}.svg", figure.name));
            let svg = plot::svg(figure).with_context(|| format!("cannot draw {}", figure.name))?;
            fs::write(&file, svg).with_context(|| format!("cannot write {}", file.display()))?;
        }
        let mut json = serde_json::to_string_pretty(&Document::of(self))?;
        json.push('\n');
        for (ending, text) in [("md", markdown::of(self)), ("json", json)] {
            let file = folder.join(format!("{stem}.{ending}"));
            fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        }
        Ok(())
    }
}

fn remove_figures(folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let file = entry?.path();
        if file.extension().is_some_and(|ending| ending == "svg") {
            fs::remove_file(file)?;
        }
    }
    Ok(())
}

/// The report as programs read it.
#[derive(Serialize)]
struct Document<'a> {
    date: &'a str,
    machine: &'a Machine,
    settings: Settings<'a>,
    limits: usize,
    missed: usize,
    experiments: Vec<ExperimentOf<'a>>,
}

#[derive(Serialize)]
struct Settings<'a> {
    /// `null`: generated.
    capture: Option<&'a Path>,
    seeds: Option<u32>,
    scale: f64,
}

#[derive(Serialize)]
struct ExperimentOf<'a> {
    name: &'a str,
    title: &'a str,
    seconds: f64,
    tables: Vec<TableOf<'a>>,
    figures: Vec<FigureOf<'a>>,
}

#[derive(Serialize)]
struct TableOf<'a> {
    title: &'a str,
    about: &'a str,
    rows: Vec<RowOf<'a>>,
}

#[derive(Serialize)]
struct RowOf<'a> {
    check: &'a str,
    unit: &'a str,
    paper: Option<f64>,
    limit: Option<Limit>,
    ours: f64,
    others: Vec<Other<'a>>,
    pass: Option<bool>,
}

#[derive(Serialize)]
struct Other<'a> {
    method: &'a str,
    figure: f64,
}

#[derive(Serialize)]
struct FigureOf<'a> {
    title: &'a str,
    file: String,
}

impl<'a> Document<'a> {
    fn of(report: &'a Report) -> Self {
        let Setting {
            source,
            seeds,
            scale,
        } = &report.setting;
        let stem = report.stem();
        let table = |table: &'a Table| TableOf {
            title: &table.title,
            about: &table.about,
            rows: table.rows.iter().map(row_of).collect(),
        };
        let figure = |figure: &'a Figure| FigureOf {
            title: &figure.title,
            file: format!("{stem}/{}.svg", figure.name),
        };
        let experiment = |section: &'a Section| ExperimentOf {
            name: section.name,
            title: section.title,
            seconds: section.seconds,
            tables: section.tables.iter().map(table).collect(),
            figures: section.figures.iter().map(figure).collect(),
        };
        Self {
            date: &report.date,
            machine: &report.machine,
            settings: Settings {
                capture: match source {
                    Source::Generated => None,
                    Source::Capture(file) => Some(file),
                },
                seeds: *seeds,
                scale: *scale,
            },
            limits: report.checks().count(),
            missed: report.checks().filter(|(.., pass)| !pass).count(),
            experiments: report.sections.iter().map(experiment).collect(),
        }
    }
}

fn row_of(row: &Row) -> RowOf<'_> {
    RowOf {
        check: &row.check,
        unit: row.unit,
        paper: row.paper,
        limit: row.limit,
        ours: row.ours,
        others: row
            .others
            .iter()
            .map(|(method, figure)| Other {
                method,
                figure: *figure,
            })
            .collect(),
        pass: row.pass(),
    }
}

#[cfg(test)]
mod tests;
