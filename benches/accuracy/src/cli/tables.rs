//! `vernier-accuracy tables`: runs experiments, prints and writes what they found.

use std::io::{Write, stdout};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use indicatif::{ProgressBar, ProgressStyle};

use super::Kept;
use crate::EXPERIMENTS;
use crate::experiment::{Experiment, Findings, Setting};
use crate::report::{Report, Section, stem};

/// Run the experiments, print their tables, and write accuracy.md and accuracy.json
///
/// With a capture the files are called accuracy-<its name>, and no limit applies.
#[derive(Debug, Args)]
pub(super) struct Tables {
    /// Experiments to run; all of them by default
    #[arg(value_parser = names())]
    names: Vec<String>,

    /// Packets of a pcap file, through the queue simulator, instead of generated traffic
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,

    /// Seeds to average over; by default as many as each limit asks for
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    seeds: Option<u32>,

    /// Size of the traffic; limits are for 1, less is for a quick look
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = scale)]
    scale: f64,

    /// Where to write
    #[arg(long, value_name = "DIR", default_value = reporting::RESULTS)]
    results: PathBuf,
}

fn names() -> PossibleValuesParser {
    let names = EXPERIMENTS.iter();
    names
        .map(|each| PossibleValue::new(each.name).help(each.title))
        .collect::<Vec<_>>()
        .into()
}

fn scale(text: &str) -> Result<f64, String> {
    let scale = text.parse().ok();
    scale
        .filter(|scale| (1e-4..=100.0).contains(scale))
        .ok_or_else(|| "give a number from 0.0001 to 100".to_owned())
}

pub(super) fn run(arguments: &Tables) -> Result<Kept> {
    let is_chosen = |name| arguments.names.is_empty() || arguments.names.iter().any(|n| n == name);
    if let Some(file) = arguments.capture.as_ref().filter(|file| !file.is_file()) {
        bail!("{}: no such file", file.display());
    }
    let setting = Setting {
        capture: arguments.capture.clone(),
        seeds: arguments.seeds,
        scale: arguments.scale,
    };
    let mut sections = Vec::new();
    for experiment in EXPERIMENTS.iter().filter(|each| is_chosen(each.name)) {
        let Experiment { name, title, .. } = *experiment;
        let began = Instant::now();
        let found = run_one(experiment, &setting).with_context(|| format!("experiment {name}"))?;
        let section = Section {
            name,
            title,
            seconds: began.elapsed().as_secs_f64(),
            tables: found.tables,
        };
        stdout().write_all(section.markdown().as_bytes())?;
        sections.push(section);
    }
    let written = arguments.results.join(stem(&setting));
    let report = Report::new(setting, sections);
    report.write(&arguments.results)?;
    let mut out = stdout().lock();
    for line in report.checks.verdict() {
        writeln!(out, "{line}")?;
    }
    writeln!(out, "Written: {}.md and .json.", written.display())?;
    Ok(report.checks.hold())
}

fn run_one(experiment: &Experiment, setting: &Setting) -> Result<Findings> {
    let plan = (experiment.plan)(setting)?;
    let bar = ProgressBar::new(plan.steps());
    bar.set_style(ProgressStyle::with_template(
        "{msg} {wide_bar} {pos}/{len} [{elapsed} of about {duration}]",
    )?);
    bar.set_message(experiment.title);
    if bar.is_hidden() {
        eprintln!("{}: {} ...", experiment.name, experiment.title);
    }
    let began = Instant::now();
    let found = plan.run(setting, &|| bar.inc(1));
    bar.finish_and_clear();
    if bar.is_hidden() {
        eprintln!(
            "{}: {:.0} s",
            experiment.name,
            began.elapsed().as_secs_f64()
        );
    }
    found
}
