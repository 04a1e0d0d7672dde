//! The report in Markdown.

use std::fmt::Write as _;

use super::Report;
use super::figure::{given, limit, measured};
use super::text::{other, other_methods};
use crate::table::{Row, Table};
use reporting::Machine;

/// A table with more other methods than this has them all in one column.
const OTHER_COLUMNS_MAX: usize = 6;

pub(super) fn of(report: &Report) -> String {
    let Machine {
        cpu,
        cpus,
        os,
        kernel,
        commit,
    } = &report.machine;
    let (settings, date) = (report.settings(), &report.date);
    let mut text = format!(
        "# Accuracy\n\nEvery method against exact truth, beside the papers' figures: what *paper* \
         says, the *limit* that ours must keep, what *ours* gives, and other methods on the same \
         packets.\n\nRun on {date} with {settings}.\nCommit {commit}; {cpu}, {cpus} CPUs, {os}, \
         Linux {kernel}.\n\n"
    );
    let mut verdict = report.verdict().into_iter();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "**{}**", verdict.next().unwrap_or_default());
    let missed: Vec<_> = verdict.map(|missed| format!("- {missed}\n")).collect();
    if !missed.is_empty() {
        let _ = write!(text, "\n{}", missed.concat());
    }
    for section in &report.sections {
        let _ = writeln!(text, "\n## {}\n", section.title);
        let _ = writeln!(
            text,
            "`vernier-accuracy tables {}`, {:.0} s.",
            section.name, section.seconds
        );
        for each in &section.tables {
            table(&mut text, each);
        }
        for figure in &section.figures {
            let (title, name) = (&figure.title, &figure.name);
            let _ = writeln!(text, "\n![{title}]({}/{name}.svg)", report.stem());
        }
    }
    text
}

fn table(text: &mut String, table: &Table) {
    let _ = writeln!(text, "\n### {}\n\n{}\n", table.title, table.about);
    let names = other_methods(table);
    let in_columns = names.len() <= OTHER_COLUMNS_MAX;
    let headings: Vec<&str> = if in_columns { names } else { vec!["others"] };
    let others = |row: &Row| -> Vec<String> {
        if in_columns {
            headings.iter().map(|name| other(row, name)).collect()
        } else {
            let pairs = row.others.iter();
            let pairs = pairs.map(|(name, figure)| format!("{name} {}", measured(*figure)));
            vec![pairs.collect::<Vec<_>>().join(", ")]
        }
    };
    let mut heading = vec!["check", "unit", "paper", "limit", "ours"];
    heading.extend(&headings);
    heading.push("");
    line(text, heading.iter().map(|&field| field.to_owned()));
    let figures = 3 + headings.len();
    let rule = ["---", "---"].into_iter();
    let rule = rule
        .chain(std::iter::repeat_n("---:", figures))
        .chain(["---"]);
    line(text, rule.map(str::to_owned));
    for row in &table.rows {
        let verdict = match row.pass() {
            None => "",
            Some(true) => "kept",
            Some(false) => "**missed**",
        };
        let fields = [
            row.check.clone(),
            row.unit.to_owned(),
            row.paper.map(given).unwrap_or_default(),
            row.limit.map(limit).unwrap_or_default(),
            measured(row.ours),
        ];
        let others = others(row).into_iter();
        line(
            text,
            fields.into_iter().chain(others).chain([verdict.to_owned()]),
        );
    }
}

fn line(text: &mut String, fields: impl Iterator<Item = String>) {
    let fields: Vec<_> = fields.map(|field| field.replace('|', "\\|")).collect();
    let _ = writeln!(text, "| {} |", fields.join(" | "));
}
