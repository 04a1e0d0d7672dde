//! What experiments find: tables of checks.

use reporting::Limit;
use serde::Serialize;

use super::Setting;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    pub tables: Vec<Table>,
}

/// A table of one experiment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table {
    pub title: String,
    /// What was run, on what, how often, and what the figures mean: a few sentences.
    pub about: String,
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
    pub(super) over: Vec<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Other {
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

    /// Divides ours by the least of the divisors, if there are any.
    pub(super) fn divided(mut self) -> Self {
        if let Some(least) = self.over.drain(..).reduce(f64::min) {
            self.ours /= least;
        }
        self
    }

    /// Judges ours where limits hold for the setting.
    pub(super) fn judged(mut self, setting: &Setting) -> Self {
        self.limit = self.limit.filter(|_| setting.is_judged());
        self.pass = self.limit.map(|limit| limit.holds(self.ours));
        self
    }
}
