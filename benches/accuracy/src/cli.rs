//! The command line of `vernier-accuracy`: the experiments, and a module for each other command.

mod decode;
mod dump;
mod lda;
mod rli;

use std::fs::File;
use std::io::{self, Read, Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Parser};
use indicatif::{ProgressBar, ProgressStyle};

use crate::EXPERIMENTS;
use crate::experiment::{Experiment, Plan, Setting};
use crate::report::{Report, Section, Table, stem};
use crate::traffic::Supply;

/// Compare every method with the exact truth, and run the methods on your own data.
#[derive(Debug, Parser)]
#[command(
    name = "vernier-accuracy",
    version,
    after_help = "Exit codes: 0 all limits kept (or nothing to judge), 1 a limit was missed, \
                  2 bad usage, bad input, or a run that failed."
)]
enum Command {
    Tables(Tables),
    Decode(decode::Decode),
    Dump(dump::Dump),
    Lda(lda::Lda),
    Rli(rli::Rli),
}

/// Parses the arguments and runs.
pub fn main() -> ExitCode {
    let outcome = match Command::parse() {
        Command::Tables(tables) => tables.run(),
        Command::Decode(decode) => decode.run(),
        Command::Dump(dump) => dump.run(),
        Command::Lda(lda) => lda.run(),
        Command::Rli(rli) => rli.run(),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("vernier-accuracy: {error:#}");
        ExitCode::from(2)
    })
}

/// Run the experiments, print their tables, and write accuracy.md and accuracy.json
///
/// With a capture the files are called accuracy-<its name>, and no limit applies.
#[derive(Debug, Args)]
struct Tables {
    /// Experiments to run; all of them by default
    #[arg(value_parser = possible(EXPERIMENTS.iter().map(|each| (each.name, each.title))))]
    names: Vec<String>,

    /// Use the packets of a pcap file, through the queue simulator, instead of generated traffic
    #[arg(long, value_name = "FILE")]
    capture: Option<PathBuf>,

    /// Number of seeds to average over [default: as each limit requires]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000))]
    seeds: Option<u32>,

    /// Size of the traffic; limits are for 1, smaller values for a quick look
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = scale)]
    scale: f64,

    /// Where to write
    #[arg(long, value_name = "DIR", default_value = reporting::RESULTS)]
    results: PathBuf,
}

/// Values by name, with their meanings.
fn possible(values: impl Iterator<Item = (&'static str, &'static str)>) -> PossibleValuesParser {
    values
        .map(|(name, help)| PossibleValue::new(name).help(help))
        .collect::<Vec<_>>()
        .into()
}

fn scale(text: &str) -> Result<f64, String> {
    let scale = text.parse().ok();
    scale
        .filter(|scale| (1e-4..=100.0).contains(scale))
        .ok_or_else(|| "give a number from 0.0001 to 100".to_owned())
}

impl Tables {
    fn run(self) -> Result<ExitCode> {
        if let Some(file) = self.capture.as_ref().filter(|file| !file.is_file()) {
            bail!("{}: no such file", file.display());
        }
        let setting = Setting {
            capture: self.capture,
            seeds: self.seeds,
            scale: self.scale,
        };
        let is_chosen = |name| self.names.is_empty() || self.names.iter().any(|n| n == name);
        let mut sections = Vec::new();
        for experiment in EXPERIMENTS.iter().filter(|each| is_chosen(each.name)) {
            let Experiment { name, title, .. } = *experiment;
            let began = Instant::now();
            let tables =
                run_one(experiment, &setting).with_context(|| format!("experiment {name}"))?;
            let section = Section {
                name,
                title,
                seconds: began.elapsed().as_secs_f64(),
                tables,
            };
            stdout().write_all(section.markdown().as_bytes())?;
            sections.push(section);
        }
        let written = self.results.join(stem(&setting));
        let report = Report::new(setting, sections);
        report.write(&self.results)?;
        let mut out = stdout().lock();
        for line in report.checks.verdict() {
            writeln!(out, "{line}")?;
        }
        writeln!(out, "Written: {}.md and .json.", written.display())?;
        Ok(ExitCode::from(u8::from(!report.checks.hold())))
    }
}

fn run_one(experiment: &Experiment, setting: &Setting) -> Result<Vec<Table>> {
    let Experiment { name, title, plan } = *experiment;
    let supply = Supply::new(setting)?;
    let mut cases = Plan::default();
    plan(&supply, &mut cases);
    let bar = ProgressBar::new(cases.steps());
    bar.set_style(ProgressStyle::with_template(
        "{msg} {wide_bar} {pos}/{len} [{elapsed} of about {duration}]",
    )?);
    bar.set_message(title);
    if bar.is_hidden() {
        eprintln!("{name}: {title} ...");
    }
    let began = Instant::now();
    let found = cases.run(setting, &|| bar.inc(1));
    bar.finish_and_clear();
    if bar.is_hidden() {
        eprintln!("{name}: {:.0} s", began.elapsed().as_secs_f64());
    }
    found
}

/// As a file's name, standard input or output.
const STANDARD: &str = "-";

/// Opens a file for reading; its name in errors comes first.
fn open(path: &Path) -> Result<(String, Box<dyn Read>)> {
    if path.as_os_str() == STANDARD {
        return Ok(("standard input".to_owned(), Box::new(io::stdin().lock())));
    }
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| format!("{name}: cannot be opened"))?;
    Ok((name, Box::new(file)))
}

/// Writes to a file, or to standard output.
fn write_to<E>(path: &Path, write: impl FnOnce(Box<dyn Write>) -> Result<(), E>) -> Result<()>
where
    Result<(), E>: Context<(), E>,
{
    let failed = || format!("{}: cannot be written", path.display());
    let output: Box<dyn Write> = if path.as_os_str() == STANDARD {
        Box::new(stdout().lock())
    } else {
        Box::new(io::BufWriter::new(File::create(path).with_context(failed)?))
    };
    write(output).with_context(failed)
}

/// Writes a CSV file line by line; `header` are the names of its columns between commas.
fn write_lines(
    path: &Path,
    header: &str,
    lines: impl IntoIterator<Item = Vec<String>>,
) -> Result<()> {
    write_to(path, |output| -> csv::Result<()> {
        let mut writer = csv::Writer::from_writer(output);
        writer.write_record(header.split(','))?;
        for line in lines {
            writer.write_record(line)?;
        }
        Ok(writer.flush()?)
    })
}
