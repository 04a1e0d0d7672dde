//! Results as a page.

use std::fmt::Write as _;

use super::super::plan::Comparison;
use super::{Costs, Part, Rate, Report, Row, Setting, Step, Verdict};

/// A page with what `before` has above its mark, which is a person's, and all reports.
pub fn page<'r>(
    before: &str,
    comparison: &Comparison,
    reports: impl Iterator<Item = &'r Report>,
) -> String {
    let Comparison {
        target, heading, ..
    } = comparison;
    let mark = format!("<!-- Below, all is written by `make {target}`. -->");
    let head = match before.split_once(&mark) {
        Some((head, _)) => head.trim_end().to_owned(),
        None => format!("# {heading}"),
    };
    let mut text = format!("{head}\n\n{mark}\n");
    for report in reports {
        text.push('\n');
        text.push_str(&self::report(report));
    }
    text
}

/// The section of one model of CPU.
pub fn report(report: &Report) -> String {
    let Report {
        setting,
        rounds,
        rows,
        rates,
        steps,
        parts,
    } = report;
    let mut text = format!("## {}\n", setting.machine.cpu);
    if !rates.is_empty() {
        line(
            &mut text,
            &format!("\n{}; {rounds} rounds in turn.\n", place(setting)),
        );
        ratios(&mut text, rows);
        rates_table(&mut text, rates);
    }
    if let Some(Costs { setting, costs }) = steps {
        text.push_str("\n### What each step costs\n\n");
        line(&mut text, &format!("{}.\n", place(setting)));
        steps_table(&mut text, costs);
    }
    if let Some(Costs { setting, costs }) = parts {
        text.push_str("\n### Where it goes, with everything on\n\n");
        line(&mut text, &format!("{}.\n", place(setting)));
        parts_table(&mut text, costs);
    }
    text
}

fn place(setting: &Setting) -> String {
    let Setting {
        machine,
        dpdk,
        memory,
        date,
    } = setting;
    let day = date.split('T').next().unwrap_or(date);
    format!(
        "{day}, commit {}; {} CPUs, {}, Linux {}, DPDK {dpdk}, {memory}",
        machine.commit, machine.cpus, machine.os, machine.kernel
    )
}

/// Writing to a string cannot fail.
fn line(text: &mut String, line: &str) {
    let _ = writeln!(text, "{line}");
}

fn ratios(text: &mut String, rows: &[Row]) {
    line(
        text,
        "| ratio | median | least to greatest | must | aim | |",
    );
    line(text, "|---|---:|---:|---:|---:|---|");
    for row in rows {
        let goal = |goal: Option<f64>| goal.map_or_else(|| "-".to_owned(), |goal| goal.to_string());
        let ratio = |ratio: Option<f64>| {
            ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"))
        };
        let verdict = match &row.verdict {
            Verdict::Told => String::new(),
            Verdict::Aim => "aim reached".to_owned(),
            Verdict::Must => "kept".to_owned(),
            Verdict::Missed => "**missed**".to_owned(),
            Verdict::Skipped(why) => format!("skipped: {why}"),
            Verdict::Failed(why) => format!("**failed**: {}", why.replace('\n', " ")),
        };
        let spread = format!("{} to {}", ratio(row.min), ratio(row.max));
        let (must, aim) = (goal(row.must), goal(row.aim));
        let median = ratio(row.median);
        line(
            text,
            &format!(
                "| {} | {median} | {spread} | {must} | {aim} | {verdict} |",
                row.label
            ),
        );
    }
}

/// One line for each contender, one column for each load: Mpps, and nanoseconds a packet.
fn rates_table(text: &mut String, rates: &[Rate]) {
    let mut loads: Vec<&str> = Vec::new();
    let mut contenders: Vec<(&str, &str)> = Vec::new();
    for rate in rates {
        if !loads.contains(&&*rate.load) {
            loads.push(&rate.load);
        }
        if !contenders.contains(&(&*rate.id, &*rate.label)) {
            contenders.push((&rate.id, &rate.label));
        }
    }
    line(
        text,
        &format!("\n| median Mpps (ns a packet) | {} |", loads.join(" | ")),
    );
    line(text, &format!("|---|{}", "---:|".repeat(loads.len())));
    for (id, label) in contenders {
        let cells = loads.iter().map(|load| {
            let rate = rates
                .iter()
                .find(|rate| rate.id == id && rate.load == *load);
            rate.map_or_else(String::new, |rate| {
                let mpps = rate.mpps();
                format!("{mpps:.1} ({:.1})", 1e3 / mpps)
            })
        });
        let cells: Vec<String> = cells.collect();
        line(text, &format!("| {label} | {} |", cells.join(" | ")));
    }
}

fn number(number: Option<f64>, decimals: usize) -> String {
    number.map_or_else(|| "-".to_owned(), |number| format!("{number:.decimals$}"))
}

fn steps_table(text: &mut String, steps: &[Step]) {
    line(
        text,
        "| per packet | ns | added ns | instructions | added |",
    );
    line(text, "|---|---:|---:|---:|---:|");
    let mut before = None;
    for step in steps {
        let added = step
            .instructions
            .zip(before)
            .map(|(instructions, before)| instructions - before);
        before = step.instructions;
        line(
            text,
            &format!(
                "| {} | {:.1} | {} | {} | {} |",
                step.label,
                step.ns,
                number(step.added_ns, 1),
                number(step.instructions, 0),
                number(added, 0)
            ),
        );
    }
}

fn parts_table(text: &mut String, parts: &[Part]) {
    line(text, "| per packet | ns | instructions |");
    line(text, "|---|---:|---:|");
    for part in parts {
        let (ns, instructions) = (number(part.ns, 1), number(part.instructions, 0));
        line(text, &format!("| {} | {ns} | {instructions} |", part.place));
    }
}
