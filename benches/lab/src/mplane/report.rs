//! The page of results, and the limits.

use std::fmt::Write as _;

use records::station::Risen;
use reporting::{BUILD, Checks, Machine, Table, now_utc};

use crate::mplane::Arguments;
use crate::mplane::run::{Outcome, REPORTS_MAX};
use crate::mplane::truth::{Blamed, Relation, Verdict};

/// Numbers of faults that must be located correctly, and of all faults.
const RIGHT: usize = 28;
const OF: usize = 30;

/// Results of the run.
#[derive(Debug)]
pub struct Report<'a> {
    pub arguments: &'a Arguments,
    pub outcomes: Vec<Outcome>,
    /// Segments blamed without a fault, with the seconds since the beginning; `None` before that part was run.
    pub alarms: Option<Vec<(f64, Risen)>>,
}

impl Report<'_> {
    /// The checks.
    pub fn checks(&self) -> Checks {
        let mut checks = Checks::default();
        let right = self.right();
        let all = self.outcomes.len();
        if all > 0 {
            let needed = all * RIGHT / OF;
            let what = format!("faults located correctly within {REPORTS_MAX} reports");
            let got = format!("{right} of {all}, limit {needed}");
            checks.add(what, got, right >= needed);
        }
        if let Some(alarms) = &self.alarms {
            let minutes = self.arguments.quiet_minutes;
            let what = format!("blamed in {minutes} minutes without a fault");
            let got = format!("{} segments, limit 0", alarms.len());
            checks.add(what, got, alarms.is_empty());
        }
        checks
    }

    fn right(&self) -> usize {
        let right = |outcome: &&Outcome| outcome.verdict == Verdict::Right;
        self.outcomes.iter().filter(right).count()
    }

    pub fn page(&self) -> String {
        let machine = Machine::of_this_run();
        let mut page = format!(
            "# Faults in a network, located by the station\n\n\
             Written by `make mplane` at {}, commit {}, {BUILD} build, on {}.\n\n\
             The network has six FRR routers with OSPF (figures 7 and 8 of MPLANE), C and F with `vernierd` on all sides, the others with \
             `vernier-probe`; an interval is {} ms. See [the testbed and how to read the results](../../docs/mplane.md). Seed {}.\n\n",
            now_utc(),
            machine.commit,
            machine,
            self.arguments.interval_ms,
            self.arguments.seed
        );
        page += &self.checks().table().markdown();
        page += "\n## Faults\n\n";
        page += &self.faults();
        page += "\n## Without a fault\n\n";
        page += &self.quiet();
        page
    }

    fn faults(&self) -> String {
        let words = ["place", "kind", "size", "cut", "blamed", "signal", "others"];
        let mut table = Table::default()
            .figures(["number"])
            .words(words)
            .figures(["reports"])
            .words(["verdict"]);
        for outcome in &self.outcomes {
            let fault = &outcome.fault;
            let cut = fault.cut.map(|(from, to)| format!("{from}-{to}"));
            let first = outcome.first();
            let of = |get: fn(&Blamed) -> String| first.map_or_else(String::new, get);
            table.row(&[
                &fault.number,
                &fault.place,
                &fault.kind.word(),
                &fault.kind,
                &cut.unwrap_or_default(),
                &of(|blamed| blamed.risen.title.clone()),
                &of(|blamed| blamed.risen.signal.clone()),
                &others(outcome),
                &of(|blamed| format!("{:.0}", blamed.reports)),
                &outcome.error.as_deref().unwrap_or(outcome.verdict.word()),
            ]);
        }
        table.markdown()
    }

    fn quiet(&self) -> String {
        let Some(alarms) = &self.alarms else {
            return "Not run.\n".to_owned();
        };
        if alarms.is_empty() {
            let minutes = self.arguments.quiet_minutes;
            return format!("Nothing was blamed in {minutes} minutes.\n");
        }
        let mut table = Table::default()
            .figures(["after, s"])
            .words(["blamed", "signal"])
            .figures(["now", "usual"]);
        for (after_s, risen) in alarms {
            table.row(&[
                &format!("{after_s:.0}"),
                &risen.title,
                &risen.signal,
                &format!("{:.4}", risen.now),
                &format!("{:.4}", risen.usual),
            ]);
        }
        table.markdown()
    }
}

/// A fault in a line.
pub fn line(outcome: &Outcome) -> String {
    let fault = &outcome.fault;
    let mut line = format!(
        "{:2} {}: {}, {}: {}",
        fault.number,
        fault.place,
        fault.kind.word(),
        fault.kind,
        outcome.verdict.word()
    );
    for blamed in &outcome.blamed {
        let (risen, relation, reports) = (&blamed.risen, blamed.relation, blamed.reports);
        let _ = write!(
            line,
            "\n     {relation:?}, {reports} reports: {} {} ({:.4} -> {:.4})",
            risen.signal, risen.title, risen.usual, risen.now
        );
    }
    if let Some(error) = &outcome.error {
        let _ = write!(line, "\n     {error}");
    }
    line
}

/// Number of other blamed segments by kind.
fn others(outcome: &Outcome) -> String {
    let count = |relation: Relation| {
        let blamed = outcome.blamed.iter();
        blamed.filter(|of| of.relation == relation).count()
    };
    let narrowest = count(Relation::Narrowest).saturating_sub(1);
    let parts = [
        (narrowest, "as narrow"),
        (count(Relation::Wider), "wider"),
        (count(Relation::Innocent), "elsewhere"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let words = parts.map(|(count, what)| format!("{count} {what}"));
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::mplane::fault::faults;

    /// The limits, their results, and the page.
    fn report(right: usize, alarms: Option<Vec<(f64, Risen)>>) -> (bool, String) {
        let arguments = crate::Arguments::parse_from(["vernier-lab", "mplane"]);
        let crate::Command::Mplane(arguments) = &arguments.command else {
            unreachable!("another command");
        };
        let outcome = |(index, fault)| Outcome {
            fault,
            verdict: if index < right {
                Verdict::Right
            } else {
                Verdict::Missed
            },
            blamed: Vec::new(),
            error: None,
        };
        let report = Report {
            arguments,
            outcomes: (faults(1, 30).into_iter().enumerate().map(outcome)).collect(),
            alarms,
        };
        (report.checks().hold(), report.page())
    }

    #[test]
    fn limits_are_28_of_30_and_nothing_without_a_fault() {
        assert!(report(28, Some(Vec::new())).0);
        assert!(!report(27, Some(Vec::new())).0);
        let alarm = Risen {
            title: "A > B".to_owned(),
            ..Risen::default()
        };
        let (hold, page) = report(30, Some(vec![(1.0, alarm)]));
        assert!(!hold);
        assert!(
            page.contains("30 of 30, limit 28") && page.contains("A > B"),
            "{page}"
        );
    }

    #[test]
    fn a_page_does_not_claim_a_part_that_was_not_run() {
        let (_, page) = report(30, None);
        assert!(
            page.contains("Not run.") && !page.contains("30 minutes"),
            "{page}"
        );
    }
}
