//! Limits, and whether they are kept.

use std::fmt;

use serde::Serialize;

use crate::statistics::{given, significant};
use crate::table::Table;

/// The limit of a figure.
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
    /// Whether `value` keeps the limit; NaN never does.
    pub fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
            Self::Between(least, most) => (least..=most).contains(&value),
        }
    }
}

/// `<= 0.3`, `>= 96`, `2 to 12`.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::AtMost(most) => write!(f, "<= {}", given(most)),
            Self::AtLeast(least) => write!(f, ">= {}", given(least)),
            Self::Between(least, most) => write!(f, "{} to {}", given(least), given(most)),
        }
    }
}

/// A check of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Description of the check.
    pub what: String,
    /// What was found.
    pub got: String,
    /// Whether it holds.
    pub holds: bool,
}

/// All checks of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Checks(pub Vec<Check>);

impl Checks {
    /// Adds a check with its result.
    pub fn add(&mut self, what: impl Into<String>, got: impl fmt::Display, holds: bool) {
        self.0.push(Check {
            what: what.into(),
            got: got.to_string(),
            holds,
        });
    }

    /// Adds a figure and its limit.
    pub fn limit(&mut self, what: impl Into<String>, value: f64, unit: &str, limit: Limit) {
        let got = format!("{} {unit}, limit {limit}", significant(value));
        self.add(what, got, limit.holds(value));
    }

    /// Failed checks.
    pub fn missed(&self) -> impl Iterator<Item = &Check> {
        self.0.iter().filter(|check| !check.holds)
    }

    /// Whether all hold.
    pub fn hold(&self) -> bool {
        self.missed().next().is_none()
    }

    /// A sentence, then a line for each missed limit.
    pub fn verdict(&self) -> Vec<String> {
        let summary = match (self.0.len(), self.missed().count()) {
            (0, _) => "No limit applies to this setting: figures for information.".to_owned(),
            (limits, 0) => format!("All {limits} limits are kept."),
            (limits, missed) => format!("{missed} of {limits} limits are missed:"),
        };
        let missed = self
            .missed()
            .map(|Check { what, got, .. }| format!("{what}: {got}"));
        std::iter::once(summary).chain(missed).collect()
    }

    /// A line for each check.
    pub fn table(&self) -> Table {
        let mut table = Table::default().words(["what", "found"]);
        for Check { what, got, holds } in &self.0 {
            table.row(&[what, got]).judge(Some(*holds));
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_shown_as_they_were_written() {
        assert_eq!(Limit::AtMost(0.035).to_string(), "<= 0.035");
        assert_eq!(Limit::AtLeast(96.0).to_string(), ">= 96");
        assert_eq!(Limit::Between(2.0, 12.0).to_string(), "2 to 12");
    }

    #[test]
    fn not_a_number_keeps_no_limit() {
        let all = [
            Limit::AtMost(1.0),
            Limit::AtLeast(0.0),
            Limit::Between(0.0, 1.0),
        ];
        for limit in all {
            assert!(!limit.holds(f64::NAN));
            assert!(limit.holds(0.5));
        }
    }

    #[test]
    fn the_verdict_names_what_is_missed() {
        let mut checks = Checks::default();
        assert!(checks.hold());
        assert_eq!(
            checks.verdict(),
            ["No limit applies to this setting: figures for information."]
        );
        checks.limit("error", 0.3, "%", Limit::AtMost(0.32));
        assert_eq!(checks.verdict(), ["All 1 limits are kept."]);
        checks.limit("a pipe | error", 0.04, "%", Limit::AtMost(0.035));
        assert!(!checks.hold());
        assert_eq!(
            checks.verdict(),
            [
                "1 of 2 limits are missed:",
                "a pipe | error: 0.0400 %, limit <= 0.035"
            ]
        );
        let table = checks.table().markdown();
        let missed = "| a pipe \\| error | 0.0400 %, limit <= 0.035 | **missed** |";
        assert!(table.contains(missed), "{table}");
    }
}
