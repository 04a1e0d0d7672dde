//! A testbed of two hosts, two switches and an impairment box between them. The switches' reports on the path between
//! them are compared with the fate of each packet.
//!
//! ```text
//!  namespace a          the testbed's own namespace, no way out            namespace b
//!   eth0 ------ l1 [switch 1] w1 ------ x1 [box] x2 ------ w2 [switch 2] l2 ------ eth0
//!   10.9.0.1          | stamps          | transits          | stamps         10.9.0.2
//!                     '------> truth: joined by packet hash <'
//! ```
//!
//! - [`namespaces`], [`switch`], [`traffic`], [`attack`], [`capture`]: what runs.
//! - [`watch`]: reports of switches; [`truth`]: fates of packets.
//! - [`verdict`]: reports compared with the truth, and with predictions from probability.
//! - [`scenario`]: runs over veth; [`memif`]: over shared memory; [`around`]: one switch around the box; [`asked`]: one flow
//!   after the other; [`flood`]: under a replayed hello.
//! - [`report`]: the page and the checks.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use testkit::process::{check_wanted, stop_on_signals};

use crate::wire::report::Report;
use crate::wire::scenario::SCENARIOS;
use crate::wire::switch::Setting;

mod around;
mod asked;
mod attack;
mod capture;
mod flood;
mod memif;
mod namespaces;
mod report;
mod scenario;
mod switch;
mod traffic;
mod truth;
mod verdict;
mod watch;

/// Compare the reports of two switches, with an impaired path between them, with the fate of each packet (needs root)
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 all limits kept, 1 one was missed or a run failed, 2 bad usage."
)]
pub struct Arguments {
    #[command(subcommand)]
    part: Option<Part>,

    /// Only runs with these names, such as `memif` and `flood`; no results are written
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
    /// How long traffic flows in each run, seconds
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u16).range(2..))]
    flow_seconds: u16,
    /// Duration of the attacks, and of the run for comparison, in seconds
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u16).range(5..))]
    attack_seconds: u16,
    /// Folder in which to keep all files of the runs [default: none]
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
}

/// A run that is not over veth.
type Run = fn(&Setting, &mut Report) -> Result<()>;

/// The runs by name, each with a description.
const OTHERS: [(&str, &str, Run); 4] = [
    ("memif", "at full speed", memif::run),
    (
        "around",
        "a box between two ports of one switch",
        around::run,
    ),
    ("asked", "every flow asked for by name", asked::run),
    ("flood", "one recorded hello, replayed", flood::run),
];

/// Commands of this program inside a host.
#[derive(Debug, Subcommand)]
enum Part {
    /// Sends a mix of flows to the other host
    #[command(hide = true)]
    Mix(traffic::Mix),
    /// Receives the mix
    #[command(hide = true)]
    Sink {
        /// Its own address
        address: String,
    },
}

/// Runs everything, or a part of one run; returns whether all limits are kept.
pub fn run(arguments: &Arguments) -> Result<bool> {
    match &arguments.part {
        Some(Part::Mix(mix)) => mix.send().map(|_| true),
        Some(Part::Sink { address }) => traffic::sink(address).map(|()| true),
        None => {
            testkit::namespace::enter()?;
            run_all(arguments)
        }
    }
}

/// Runs all runs, one after the other; returns whether all limits are kept.
fn run_all(arguments: &Arguments) -> Result<bool> {
    stop_on_signals()?;
    let temporary = tempfile::tempdir().context("cannot make a temporary folder")?;
    let folder = arguments.keep.as_deref().unwrap_or(temporary.path());
    namespaces::build().context("cannot build the testbed")?;
    let mut report = Report::default();
    let mut attempt =
        |name: &str, words: &str, run: &dyn Fn(&Setting, &mut Report) -> Result<()>| {
            if !arguments.only.is_empty() && !arguments.only.iter().any(|wanted| wanted == name) {
                return anyhow::Ok(());
            }
            eprintln!("{name}: {words} ...");
            let setting = Setting {
                flow_duration: Duration::from_secs(arguments.flow_seconds.into()),
                attack_duration: Duration::from_secs(arguments.attack_seconds.into()),
                folder: folder.join(name),
            };
            let made = fs::create_dir_all(&setting.folder);
            let made = made.context("cannot make a folder for the files of a run");
            if let Err(error) = made.and_then(|()| run(&setting, &mut report)) {
                check_wanted()?;
                eprintln!("{name}: {error:#}");
                let why = format!("{error:#}");
                let why = why.lines().next().unwrap_or_default();
                let what = format!("{name}: ends");
                report.checks.add(what, why, false);
            }
            Ok(())
        };
    for scenario in &SCENARIOS {
        attempt(scenario.name, scenario.words, &|setting, report| {
            scenario.run(setting, report)
        })?;
    }
    for (name, words, run) in OTHERS {
        attempt(name, words, &run)?;
    }
    report.check_chooser();
    let page = report.markdown();
    println!("{page}");
    for line in report.checks.verdict() {
        eprintln!("{line}");
    }
    if arguments.only.is_empty() {
        reporting::write_page(reporting::RESULTS.as_ref(), "wire", &page)?;
    }
    Ok(report.checks.hold())
}
