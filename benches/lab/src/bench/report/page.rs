//! The page of results.

use reporting::Table;

use super::{Costs, Outcome, Part, Rate, Report, Row, Setting, Step, Verdict};
use crate::bench::plan::Comparison;

/// A page with what `before` has above its mark, which a person wrote, and all reports.
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
    let reports = reports.map(|report| format!("\n{}", self::report(report)));
    format!("{head}\n\n{mark}\n{}", reports.collect::<String>())
}

/// The section of one model of CPU.
pub fn report(report: &Report) -> String {
    let Report {
        setting, rounds, ..
    } = report;
    let mut text = format!("## {}\n", setting.machine.cpu);
    if !report.rates.is_empty() {
        let (ratios, rates) = (ratios(&report.rows), rates(&report.rates));
        let source = source(setting);
        let heading = format!("\n{source}; {rounds} rounds in turn.\n\n");
        text += &[heading, ratios, "\n".to_owned(), rates].concat();
    }
    if let Some(Costs { setting, costs }) = &report.steps {
        text += &section("What each step costs", setting, &steps(costs));
    }
    if let Some(Costs { setting, costs }) = &report.parts {
        text += &section("Where it goes, with everything on", setting, &parts(costs));
    }
    text
}

fn section(heading: &str, setting: &Setting, table: &str) -> String {
    format!("\n### {heading}\n\n{}.\n\n{table}", source(setting))
}

fn source(setting: &Setting) -> String {
    let Setting {
        machine,
        base,
        dpdk,
        memory,
        date,
    } = setting;
    let day = date.split('T').next().unwrap_or(date);
    let base = base.as_ref();
    let base = base.map_or_else(String::new, |base| format!(", base {base}"));
    format!(
        "{day}, commit {}{base}; {} CPUs, {}, Linux {}, DPDK {dpdk}, {memory}",
        machine.commit, machine.cpus, machine.os, machine.kernel
    )
}

/// A figure with so many decimals; `-` without one.
fn figure(figure: Option<f64>, decimals: usize) -> String {
    figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.decimals$}"))
}

fn ratios(rows: &[Row]) -> String {
    let mut table = Table::default()
        .words(["ratio"])
        .figures(["median", "least to greatest", "must", "aim"])
        .words([""]);
    for row in rows {
        let [must, aim, verdict] = outcome(&row.outcome);
        table.row(&[
            &row.label,
            &figure(row.median, 2),
            &format!("{} to {}", figure(row.min, 2), figure(row.max, 2)),
            &must,
            &aim,
            &verdict,
        ]);
    }
    table.markdown()
}

/// Limit, aim, and what came of them.
fn outcome(outcome: &Outcome) -> [String; 3] {
    let goal = |goal: Option<f64>| goal.map_or_else(|| "-".to_owned(), |goal| goal.to_string());
    let verdict = match &outcome.verdict {
        Verdict::Shown => String::new(),
        Verdict::Aim => "aim reached".to_owned(),
        Verdict::Must => "kept".to_owned(),
        Verdict::Missed => "**missed**".to_owned(),
        Verdict::Skipped(why) => format!("skipped: {why}"),
        Verdict::Failed(why) => format!("**failed**: {why}"),
    };
    [goal(outcome.must), goal(outcome.aim), verdict]
}

/// One line for each contender, one column for each load: Mpps, and nanoseconds a packet.
fn rates(rates: &[Rate]) -> String {
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
    let mut table = Table::default()
        .words(["median Mpps (ns a packet)"])
        .figures(loads.iter().copied());
    for (id, label) in contenders {
        let cells = loads.iter().map(|load| {
            let mut of_id = rates.iter().filter(|rate| rate.id == id);
            let rate = of_id.find(|rate| rate.load == *load);
            rate.map_or_else(String::new, |rate| {
                let mpps = rate.mpps();
                format!("{mpps:.1} ({:.1})", 1e3 / mpps)
            })
        });
        table.push(std::iter::once(label.to_owned()).chain(cells).collect());
    }
    table.markdown()
}

fn steps(steps: &[Step]) -> String {
    let mut table = Table::default()
        .words(["per packet"])
        .figures([
            "ns",
            "added ns",
            "instructions",
            "added",
            "must, at most",
            "aim",
        ])
        .words([""]);
    let mut before = None;
    for step in steps {
        let both = step.instructions.zip(before);
        // What a peer takes is not compared with the step before.
        let both = both.filter(|_| step.added_ns.is_some());
        let added = both.map(|(instructions, before)| instructions - before);
        before = step.instructions;
        let [must, aim, verdict] = outcome(&step.outcome);
        table.row(&[
            &step.label,
            &figure(Some(step.ns), 1),
            &figure(step.added_ns, 1),
            &figure(step.instructions, 0),
            &figure(added, 0),
            &must,
            &aim,
            &verdict,
        ]);
    }
    table.markdown()
}

/// One line for each source.
pub fn parts(parts: &[Part]) -> String {
    let mut table = Table::default()
        .words(["per packet"])
        .figures(["ns", "instructions"]);
    for part in parts {
        let (ns, instructions) = (figure(part.ns, 1), figure(part.instructions, 0));
        table.row(&[&part.source, &ns, &instructions]);
    }
    table.markdown()
}
