//! What experiments hand over: tables of checks, and figures of curves.

use serde::Serialize;

use reporting::statistics::mean;

/// What a figure of ours is held against.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
    /// Between both.
    Between(f64, f64),
}

impl Limit {
    /// Whether `value` keeps the limit; not a number never does.
    pub fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
            Self::Between(least, most) => (least..=most).contains(&value),
        }
    }
}

/// One line of a table: a check, or a figure without a limit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// What was measured.
    pub check: String,
    /// Unit of all its figures: `%`, `ratio`, `us`.
    pub unit: &'static str,
    /// What the paper (or its method, as we ran it) gives.
    pub paper: Option<f64>,
    /// What ours must keep; `None`: a figure, not a check.
    pub limit: Option<Limit>,
    /// What we measured.
    pub ours: f64,
    /// Other methods on the same packets: (name, figure).
    pub others: Vec<(String, f64)>,
}

impl Row {
    /// A figure of ours, with nothing to hold it against yet.
    pub fn new(check: impl Into<String>, unit: &'static str, ours: f64) -> Self {
        Self {
            check: check.into(),
            unit,
            paper: None,
            limit: None,
            ours,
            others: Vec::new(),
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
    pub fn other(mut self, name: impl Into<String>, figure: f64) -> Self {
        self.others.push((name.into(), figure));
        self
    }

    /// Whether the limit is kept; `None` without one.
    pub fn pass(&self) -> Option<bool> {
        self.limit.map(|limit| limit.holds(self.ours))
    }
}

/// The mean, figure by figure, of rows that are alike.
pub fn mean_rows(by_seed: &[Vec<Row>]) -> Vec<Row> {
    let Some(first) = by_seed.first() else {
        return Vec::new();
    };
    let place = |place: usize| by_seed.iter().filter_map(move |rows| rows.get(place));
    first
        .iter()
        .enumerate()
        .map(|(n, row)| {
            let others = row.others.iter().enumerate().map(|(other, (name, _))| {
                let figures = place(n).filter_map(|row| row.others.get(other));
                (name.clone(), mean(figures.map(|&(_, figure)| figure)))
            });
            Row {
                ours: mean(place(n).map(|row| row.ours)),
                others: others.collect(),
                ..row.clone()
            }
        })
        .collect()
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

/// A figure: curves over one pair of axes, drawn as SVG.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Stem of the file: `lds-fig10-by-size`.
    pub name: String,
    /// Heading.
    pub title: String,
    /// Name and unit of the horizontal axis.
    pub x_label: String,
    /// Name and unit of the vertical axis.
    pub y_label: String,
    /// Logarithmic horizontal axis.
    pub x_log: bool,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// One curve of a figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// Its name in the legend.
    pub label: String,
    /// Points in the order of drawing.
    pub points: Vec<(f64, f64)>,
}

impl Curve {
    /// The cumulative distribution of `values`, as the papers draw errors: at most 200 points.
    pub fn cdf(label: impl Into<String>, mut values: Vec<f64>) -> Self {
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        let last = values.len().saturating_sub(1);
        let steps = last.min(199);
        let points = (0..=steps)
            .filter_map(|step| {
                let rank = (step * last).checked_div(steps).unwrap_or(0);
                let share = (rank + 1) as f64 / values.len() as f64;
                values.get(rank).map(|&value| (value, share))
            })
            .collect();
        Self {
            label: label.into(),
            points,
        }
    }
}
