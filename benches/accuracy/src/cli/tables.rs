//! `vernier-accuracy tables`: runs experiments, prints and writes what they found.

use std::io::{IsTerminal, Write, stdout};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use indicatif::{ProgressBar, ProgressStyle};

use super::Kept;
use crate::report::{Report, Section, Style, table_as_text};
use crate::{EXPERIMENTS, Experiment, Setting, Source};

/// Run the experiments, print their tables, and write accuracy.md, accuracy.json and figures
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
    #[arg(long, value_name = "DIR", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../results"))]
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
    let chosen: Vec<_> = EXPERIMENTS
        .iter()
        .filter(|each| arguments.names.is_empty() || arguments.names.iter().any(|n| n == each.name))
        .collect();
    let source = match &arguments.capture {
        None => Source::Generated,
        Some(file) if file.is_file() => Source::Capture(file.clone()),
        Some(file) => bail!("{}: no such file", file.display()),
    };
    let setting = Setting {
        source,
        seeds: arguments.seeds,
        scale: arguments.scale,
    };
    let style = Style {
        width: 100,
        colour: stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
    };
    let report = run_all(&chosen, setting, style, &mut stdout().lock())?;
    report.write(&arguments.results)?;
    let mut out = stdout().lock();
    for line in report.verdict() {
        writeln!(out, "{line}")?;
    }
    let written = arguments.results.join(report.stem());
    writeln!(out, "Written: {}.md, .json and figures.", written.display())?;
    Ok(report.holds())
}

/// Runs `experiments` in turn and prints the tables of each when it is done.
fn run_all(
    experiments: &[&Experiment],
    setting: Setting,
    style: Style,
    out: &mut impl Write,
) -> Result<Report> {
    let mut report = Report::new(setting);
    for experiment in experiments {
        let section = run_one(experiment, &report.setting)
            .with_context(|| format!("experiment {}", experiment.name))?;
        for table in &section.tables {
            out.write_all(table_as_text(table, style).as_bytes())?;
        }
        out.flush()?;
        report.sections.push(section);
    }
    Ok(report)
}

fn run_one(experiment: &Experiment, setting: &Setting) -> Result<Section> {
    let bar = ProgressBar::new((experiment.steps)(setting));
    bar.set_style(ProgressStyle::with_template(
        "{msg} {wide_bar} {pos}/{len} [{elapsed} of about {duration}]",
    )?);
    bar.set_message(experiment.title);
    if bar.is_hidden() {
        eprintln!("{}: {} ...", experiment.name, experiment.title);
    }
    let begin = Instant::now();
    let found = (experiment.run)(setting, &|| bar.inc(1));
    let seconds = begin.elapsed().as_secs_f64();
    if bar.is_hidden() {
        eprintln!("{}: {seconds:.0} s", experiment.name);
    }
    bar.finish_and_clear();
    let found = found?;
    Ok(Section {
        name: experiment.name,
        title: experiment.title,
        seconds,
        tables: found.tables,
        figures: found.figures,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Findings;
    use crate::table::{Limit, Row, Table};

    const HALF: Experiment = Experiment {
        name: "half",
        title: "Half of the scale",
        steps: |_| 2,
        run: |setting, step| {
            step();
            step();
            let row = Row::new("half", "1", setting.scale / 2.0);
            Ok(Findings {
                tables: vec![Table {
                    title: "Halves".into(),
                    about: "One row.".into(),
                    rows: vec![row.limit(setting.judged(Limit::AtMost(0.4)))],
                }],
                figures: Vec::new(),
            })
        },
    };

    const FAILS: Experiment = Experiment {
        name: "fails",
        title: "Always fails",
        steps: |_| 1,
        run: |_, _| bail!("no luck"),
    };

    fn report(experiments: &[&Experiment], scale: f64) -> Result<(Report, String)> {
        let setting = Setting {
            source: Source::Generated,
            seeds: Some(1),
            scale,
        };
        let style = Style {
            width: 100,
            colour: false,
        };
        let mut out = Vec::new();
        let report = run_all(experiments, setting, style, &mut out)?;
        Ok((report, String::from_utf8(out)?))
    }

    #[test]
    fn experiments_are_run_and_judged() {
        let (run, printed) = report(&[&HALF, &HALF], 1.0).unwrap();
        assert_eq!(run.sections.len(), 2);
        assert!(!run.holds());
        assert_eq!(printed.matches("MISSED").count(), 2, "{printed}");

        let (run, printed) = report(&[&HALF], 0.5).unwrap();
        assert!(run.holds());
        assert!(!printed.contains("kept"), "not judged: {printed}");
    }

    #[test]
    fn a_failure_names_the_experiment() {
        let error = report(&[&HALF, &FAILS], 1.0).unwrap_err();
        assert_eq!(format!("{error:#}"), "experiment fails: no luck");
    }

    #[test]
    fn names_are_unique() {
        let names: std::collections::HashSet<_> = EXPERIMENTS.iter().map(|e| e.name).collect();
        assert_eq!(names.len(), EXPERIMENTS.len());
    }
}
