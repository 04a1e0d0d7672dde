//! What jobs hand over, and how it becomes tables and figures.

use anyhow::Result;

use super::Seed;
use crate::table::{Curve, Figure, Limit, Row, Table, mean_rows};
use crate::{Findings, Setting, Source};
use reporting::statistics::median;

/// A piece of work on one trace.
pub(super) type Job = fn(&Seed<'_>) -> Result<Vec<Part>>;

/// A row of a table or a curve of a figure.
#[derive(Debug, Clone)]
pub(super) enum Part {
    /// Of this table.
    Row(TableOf, Row),
    /// Of the figure of this name.
    Curve(FigureOf, Curve),
}

/// The tables, in the order of printing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TableOf {
    Checks,
    Memory,
    Loss,
    Weights,
    Mined,
    Bounds,
}

/// A figure that curves of several jobs may share: stem of its file, and what follows the
/// experiment's name in its heading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FigureOf {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) axes: Axes,
}

/// What a figure's axes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Axes {
    /// Errors, and the share of flows under them.
    Cdf,
    /// Packets of a flow, and errors.
    BySize,
    /// Delay beside the mean of all flows, and errors.
    ByDelay,
}

/// Errors of one group of flows: their median under the name of its decoder.
pub(super) fn row_of_medians(
    check: impl Into<String>,
    ours: Vec<f64>,
    others: Vec<(&str, Vec<f64>)>,
) -> Row {
    let row = Row::new(check, "%", median(ours));
    others
        .into_iter()
        .fold(row, |row, (name, errors)| row.other(name, median(errors)))
}

/// The acceptance check of a row: what the prototype gave for the paper's decoder, and the limit.
pub(super) fn checked(seed: &Seed<'_>, row: Row, paper: impl Into<Option<f64>>, most: f64) -> Part {
    let limit = seed.setting.judged(Limit::AtMost(most));
    Part::Row(TableOf::Checks, row.paper(paper).limit(limit))
}

const TABLES: [(TableOf, &str, &str); 6] = [
    (
        TableOf::Checks,
        "LDS: checks",
        "Median relative errors of per-flow means unless said otherwise. Paper: the paper's \
         decoder, from its text (section 5.1) or from the prototype that the limits come from.",
    ),
    (
        TableOf::Memory,
        "LDS: three memories",
        "Median relative errors; the reference sketch, a tenth and ten times its memory (fig. 9). \
         Ours: joint decoding with K = 2.",
    ),
    (
        TableOf::Loss,
        "LDS: under loss",
        "Median relative errors of flows of at least 1000 packets, k = 5, 87500 x 4 (fig. 11). \
         Ours: joint decoding, K = 1. With one bank and p = 1 losses spoil nearly all cells of \
         large flows.",
    ),
    (
        TableOf::Weights,
        "LDS: weights",
        "Median relative errors over all flows: gold 1 %, silver 9 %, bronze 90 % of them, drawn \
         at random (fig. 12). Ours: joint decoding, K = 1.",
    ),
    (
        TableOf::Mined,
        "LDS: mined",
        "What else the cells tell (section 4.3). Median relative errors.",
    ),
    (
        TableOf::Bounds,
        "LDS: flows whose bound holds their true mean",
        "Joint decoding; the bound is 3 sqrt(xv), nominally 98 %.",
    ),
];

/// Rows are means over seeds; figures are those of the first seed.
pub(super) fn assemble(setting: &Setting, seeds: u32, by_seed: Vec<Vec<Part>>) -> Findings {
    let packets = match &setting.source {
        Source::Generated => "acceptance trace".to_owned(),
        Source::Capture(path) => format!(
            "packets of {} over two paths, sketches scaled to its flows",
            path.display()
        ),
    };
    let mut findings = Findings::default();
    let rows: Vec<Vec<(TableOf, &Row)>> = by_seed
        .iter()
        .map(|parts| {
            let rows = parts.iter().filter_map(|part| match part {
                Part::Row(table, row) => Some((*table, row)),
                Part::Curve(..) => None,
            });
            rows.collect()
        })
        .collect();
    for (table, title, about) in TABLES {
        let of_table = |rows: &Vec<(TableOf, &Row)>| -> Vec<Row> {
            let mine = rows.iter().filter(|(of, _)| *of == table);
            mine.map(|&(_, row)| row.clone()).collect()
        };
        findings.tables.push(Table {
            title: title.to_owned(),
            about: format!("{about} Mean of {seeds} seeds; {packets}."),
            rows: mean_rows(&rows.iter().map(of_table).collect::<Vec<_>>()),
        });
    }
    for part in by_seed.into_iter().next().unwrap_or_default() {
        if let Part::Curve(figure, curve) = part {
            add_curve(&mut findings.figures, figure, curve);
        }
    }
    findings
}

fn add_curve(figures: &mut Vec<Figure>, of: FigureOf, curve: Curve) {
    if let Some(figure) = figures.iter_mut().find(|figure| figure.name == of.name) {
        figure.curves.push(curve);
        return;
    }
    let (x_label, y_label, x_log) = match of.axes {
        Axes::Cdf => ("relative error (%)", "share of flows", true),
        Axes::BySize => ("packets of a flow", "relative error (%)", true),
        Axes::ByDelay => ("delay / mean of all flows", "relative error (%)", false),
    };
    figures.push(Figure {
        name: of.name.to_owned(),
        title: format!("LDS: {}", of.title),
        x_label: x_label.to_owned(),
        y_label: y_label.to_owned(),
        x_log,
        curves: vec![curve],
    });
}
