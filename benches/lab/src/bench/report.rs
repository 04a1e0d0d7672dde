//! The page with a comparison's results: a section for every model of CPU, which the next run on that model replaces.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use reporting::statistics::{Spread, median};
use reporting::{Machine, Table, now_utc, output_of};

use crate::bench::plan::{Claim, Comparison, Goal};
use crate::bench::rounds::{Absence, Series, ratio};
use crate::bench::setting::Bench;

/// Headings of a section's parts: of the first, ratios and rates, steps, and sources.
pub const RATIOS: &str = "";
pub const STEPS: &str = "What each step costs";
pub const SOURCES: &str = "Where it goes, with everything on";

/// The page of a comparison in a folder.
#[derive(Debug, PartialEq, Eq)]
pub struct Page {
    file: PathBuf,
    /// Everything above the sections: text written by hand, and a mark.
    head: String,
    /// By model of CPU.
    sections: BTreeMap<String, Section>,
}

/// Results on one model of CPU, in Markdown by heading.
pub type Section = BTreeMap<String, String>;

impl Page {
    /// The existing page, if there is one.
    pub fn load(folder: &Path, comparison: &Comparison) -> Self {
        let file = folder.join(comparison.name).with_extension("md");
        let text = fs::read_to_string(&file).unwrap_or_default();
        let target = comparison.target;
        let mark = format!("<!-- Below, all is written by `make {target}`. -->\n");
        let (head, body) = match text.split_once(&mark) {
            Some((head, body)) => (head.trim_end().to_owned(), body),
            None => (format!("# {}", comparison.heading), ""),
        };
        let sections = body.split("\n## ").skip(1).filter_map(|section| {
            let (cpu, text) = section.split_once('\n')?;
            let parts = text
                .split("\n### ")
                .filter_map(|part| part.split_once('\n'));
            let parts = parts.map(|(heading, text)| (heading.to_owned(), text.to_owned()));
            Some((cpu.to_owned(), parts.collect()))
        });
        Self {
            file,
            head: format!("{head}\n\n{mark}"),
            sections: sections.collect(),
        }
    }

    /// The section of this machine's CPU.
    pub fn section(&mut self) -> &mut Section {
        self.sections.entry(Machine::of_this_run().cpu).or_default()
    }

    /// The whole page.
    fn markdown(&self) -> String {
        let sections = self.sections.iter();
        let sections = sections.map(|(cpu, section)| format!("\n## {cpu}\n{}", markdown(section)));
        self.head.clone() + &sections.collect::<String>()
    }

    /// Writes it.
    pub fn write(&self) -> Result<()> {
        let file = self.file.display();
        fs::write(&self.file, self.markdown()).with_context(|| format!("cannot write {file}"))
    }
}

/// The text of a section below its own heading.
pub fn markdown(section: &Section) -> String {
    let parts = section.iter();
    let parts = parts.map(|(heading, text)| match heading.as_str() {
        RATIOS => format!("\n{text}"),
        heading => format!("\n### {heading}\n{text}"),
    });
    parts.collect()
}

/// Machine, commits and day of figures measured just now.
pub fn source(bench: &Bench) -> String {
    let machine = Machine::of_this_run();
    let base = bench.base.as_ref();
    let base = base.map_or_else(String::new, |base| format!(", base {}", base.commit));
    let dpdk = output_of(Command::new("pkg-config").args(["--modversion", "libdpdk"]));
    let date = now_utc();
    format!(
        "{}, commit {}{base}; {} CPUs, {}, Linux {}, DPDK {dpdk}, {}",
        date.split('T').next().unwrap_or(&date),
        machine.commit,
        machine.cpus,
        machine.os,
        machine.kernel,
        if bench.hugepages {
            "hugepages"
        } else {
            "ordinary pages"
        }
    )
}

/// A figure with this number of decimals; `-` without a figure.
fn figure(figure: Option<f64>, decimals: usize) -> String {
    figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.decimals$}"))
}

/// Limit, aim, and result.
fn outcome(goal: Option<Goal>, figure: Result<f64, &Absence>) -> [String; 3] {
    let verdict = match (figure, goal) {
        (Err(Absence::Skipped(why)), _) => format!("skipped: {why}"),
        (Err(Absence::Failed(why)), _) => format!("**failed**: {why}"),
        (_, None) => String::new(),
        (Ok(figure), Some(goal)) if !goal.is_reached(figure, goal.must) => "**missed**".to_owned(),
        (Ok(figure), Some(goal)) if goal.is_reached(figure, goal.aim) => "aim reached".to_owned(),
        _ => "kept".to_owned(),
    };
    let bound = |bound: fn(Goal) -> f64| goal.map_or("-".to_owned(), |of| bound(of).to_string());
    [bound(|of| of.must), bound(|of| of.aim), verdict]
}

/// Whether the limit is kept, or there is none, or the figure cannot be measured here.
pub fn holds(goal: Option<Goal>, figure: Result<f64, &Absence>) -> bool {
    match figure {
        Ok(figure) => goal.is_none_or(|goal| goal.is_reached(figure, goal.must)),
        Err(absence) => matches!(absence, Absence::Skipped(_)),
    }
}

/// Ratios of the claims about runs that took place, and whether all limits are kept.
pub fn ratios(claims: &[Claim], base: Option<&str>, all: &[Series]) -> (Table, bool) {
    let mut table = Table::default()
        .words(["ratio"])
        .figures(["median", "least to greatest", "must", "aim"])
        .words([""]);
    let mut hold = true;
    for claim in claims {
        let Some(ratio) = ratio(claim, all) else {
            continue;
        };
        let (goal, median) = (claim.goal(base), ratio.as_ref().map(|ratio| ratio.median));
        hold &= holds(goal, median);
        let [must, aim, verdict] = outcome(goal, median);
        let ratio = |of: fn(&Spread) -> f64| figure(ratio.as_ref().ok().map(of), 2);
        let range = format!("{} to {}", ratio(|of| of.min), ratio(|of| of.max));
        let median = ratio(|of| of.median);
        table.row(&[&claim.label, &median, &range, &must, &aim, &verdict]);
    }
    (table, hold)
}

/// One line for each contender, one column for each load: Mpps, and nanoseconds a packet.
pub fn rates(all: &[Series]) -> Table {
    let (mut loads, mut contenders) = (Vec::new(), Vec::new());
    for Series { run, .. } in all.iter().filter(|series| series.rates_pps.is_ok()) {
        if !loads.contains(&run.load) {
            loads.push(run.load);
        }
        if !contenders.contains(&run.contender) {
            contenders.push(run.contender);
        }
    }
    let mut table = Table::default()
        .words(["median Mpps (ns a packet)"])
        .figures(loads.iter().map(|load| load.label));
    for contender in contenders {
        let cells = loads.iter().map(|load| {
            let is_it = |of: &&Series| of.run.contender == contender && of.run.load == *load;
            let of = all.iter().find(is_it);
            let rates_pps = of.and_then(|of| of.rates_pps.as_ref().ok());
            rates_pps.map_or_else(String::new, |rates_pps| {
                let mpps = median(rates_pps.iter().copied()) / 1e6;
                format!("{mpps:.1} ({:.1})", 1e3 / mpps)
            })
        });
        table.push(std::iter::once(contender.label()).chain(cells).collect());
    }
    table
}

/// Cost of one step of the fast path per packet.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Description of the steps up to this one.
    pub label: String,
    /// Time of all steps up to this one in nanoseconds, the median of rounds.
    pub ns: f64,
    /// Time that this step adds, the median of the rounds' differences; `None` for the first step and for peers.
    pub added_ns: Option<f64>,
    /// Instructions of the forwarding thread in all steps up to this one.
    pub instructions: Result<f64, Absence>,
    /// The limit on instructions.
    pub goal: Option<Goal>,
}

pub fn steps(steps: &[Step]) -> Table {
    let mut table = Table::default()
        .words(["per packet"])
        .figures(["ns", "added ns", "instructions", "added"])
        .figures(["must, at most", "aim"])
        .words([""]);
    let mut before = None;
    for step in steps {
        let instructions = step.instructions.as_ref().ok().copied();
        // A peer is not compared with the previous step.
        let both = instructions.zip(before).filter(|_| step.added_ns.is_some());
        before = instructions;
        let [must, aim, verdict] = outcome(step.goal, step.instructions.as_ref().copied());
        table.row(&[
            &step.label,
            &figure(Some(step.ns), 1),
            &figure(step.added_ns, 1),
            &figure(instructions, 0),
            &figure(both.map(|(instructions, before)| instructions - before), 0),
            &must,
            &aim,
            &verdict,
        ]);
    }
    table
}

#[cfg(test)]
mod tests;
