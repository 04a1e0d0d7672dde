//! Throughput compared with other programs, and the cost of each step.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use reporting::{RESULTS, Table};
use testkit::hugepages::Hugepages;
use testkit::process::{beside_this_program, stop_on_signals};

use crate::bench::contender::EVERYTHING;
use crate::bench::load::{Load, SMALL};
use crate::bench::plan::{Comparison, PLUGIN, Run, THROUGHPUT, each};
use crate::bench::profile::Division;
use crate::bench::report::{Page, Step, rates, ratios, source};
use crate::bench::setting::{Base, Bench};

mod capture;
mod contender;
mod fastpath;
mod load;
mod micro;
mod ovs;
mod plan;
pub mod plugin;
mod profile;
mod report;
mod rounds;
mod scrape;
mod setting;
mod steps;
mod testpmd;
mod vernierd;

/// Compare Vernier with other programs.
///
/// Hugepages are reserved if possible, and released at the end; otherwise no contender uses them. Keep the machine
/// otherwise idle.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes: 0 all limits kept, 1 one was missed or a run failed, 2 bad usage."
)]
pub struct Arguments {
    #[command(subcommand)]
    part: Part,

    /// Rounds that count
    #[arg(long, global = true, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..))]
    rounds: u8,

    /// Minimum seconds measured in each run, after half a second of warm-up
    #[arg(long, global = true, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    seconds: u8,

    /// CPU that forwards
    #[arg(long, global = true, default_value_t = 1)]
    core: usize,

    /// CPU of all other threads; it also forwards in runs with two CPUs
    #[arg(long, global = true, default_value_t = 0)]
    main_core: usize,

    /// Root of Open vSwitch: / if it is installed, or the folder into which it was unpacked
    #[arg(long, global = true, value_name = "FOLDER", default_value = "/")]
    ovs: PathBuf,

    /// Folder of vernierd and the plugin [default: that of this program]
    #[arg(long, global = true, value_name = "FOLDER")]
    programs: Option<PathBuf>,

    /// Also run this vernierd, built from another commit, in the same rounds
    #[arg(long, global = true, value_name = "COMMIT=PROGRAM")]
    base: Option<Base>,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Compare with testpmd and Open vSwitch, in turn on the same CPU, and check ratios against limits
    Throughput {
        /// Run only contenders and loads that match one of these words, such as `io` or `imix`, and write no results
        #[arg(long, value_delimiter = ',', value_name = "WORDS")]
        only: Vec<String>,
    },
    /// Measure the cost of the plugin in testpmd and Open vSwitch, like `throughput`, with limits of its own
    Plugin {
        /// Run only contenders that match one of these words, such as `macswap` or `plugin_lda`, and write no results
        #[arg(long, value_delimiter = ',', value_name = "WORDS")]
        only: Vec<String>,
    },
    /// Measure the steps of the fast path one after another: nanoseconds, and instructions by callgrind
    Steps,
    /// Profile a step: nanoseconds by perf, instructions by callgrind. With everything on and by file, write it to the
    /// results
    Profile {
        #[arg(default_value = EVERYTHING.id, value_parser = PossibleValuesParser::new(plan::steps().map(|(step, _)| step.id)))]
        step: String,
        /// Granularity for our own sources; inlined code belongs to the place where it was written
        #[arg(long, value_enum, default_value_t = Division::File)]
        by: Division,
    },
    /// Count the instructions of the steps with limits; fails if one takes 3 % more than in a file
    Instructions {
        file: PathBuf,
        /// Write the figures to the file instead
        #[arg(long)]
        renew: bool,
    },
    /// Measure the cost of each part of the fast path per packet: nanoseconds, and instructions by callgrind
    Micro {
        /// Only parts whose names contain one of these words
        words: Vec<String>,
        /// Process this number of bursts in the part with this name, for counting
        #[arg(long, hide = true)]
        bursts: Option<u64>,
    },
    /// Measure the cost of scraping ten thousand series, and its effect on the workers
    Scrape,
}

/// Whether all limits were kept.
pub fn run(arguments: &Arguments) -> Result<bool> {
    stop_on_signals()?;
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let (bench, _hugepages) = bench(arguments, folder.path())?;
    match &arguments.part {
        Part::Throughput { only } => compare(arguments, &bench, &THROUGHPUT, only),
        Part::Plugin { only } => compare(arguments, &bench, &PLUGIN, only),
        Part::Steps => {
            let steps = steps::run(&bench, arguments.rounds.into())?;
            add(&bench, report::STEPS, &report::steps(&steps))?;
            let is_kept =
                |step: &Step| report::holds(step.goal, step.instructions.as_ref().copied());
            Ok(said(steps.iter().all(is_kept)))
        }
        Part::Profile { step, by } => {
            let (_, vernierd) = plan::steps()
                .find(|(contender, _)| contender.id == step)
                .context("no step has this name")?;
            let parts = profile::parts(&bench, vernierd, *by)?;
            if step == EVERYTHING.id && *by == Division::File {
                add(&bench, report::SOURCES, &parts)?;
            } else {
                println!("{}", parts.markdown());
            }
            Ok(true)
        }
        Part::Instructions { file, renew: false } => steps::check(&bench, file),
        Part::Instructions { file, renew: true } => {
            steps::renew(&bench, file)?;
            Ok(true)
        }
        Part::Micro { words, bursts } => {
            match bursts {
                Some(bursts) => micro::work(&words.concat(), *bursts)?,
                None => println!("{}", micro::run(words)?.markdown()),
            }
            Ok(true)
        }
        Part::Scrape => {
            let rounds = arguments.rounds.into();
            let report = scrape::run(&bench.vernierd, folder.path(), rounds)?;
            println!("{}", report.markdown());
            report.write(RESULTS.as_ref())?;
            Ok(true)
        }
    }
}

/// Runs a comparison in rounds; returns whether all limits are kept.
fn compare(
    arguments: &Arguments,
    bench: &Bench,
    comparison: &Comparison,
    only: &[String],
) -> Result<bool> {
    let rounds = arguments.rounds.into();
    let mut all = Vec::new();
    for suite in comparison.suites {
        all.extend(rounds::run(bench, suite, rounds, |run| {
            is_named(run, only)
        })?);
    }
    let base = bench.base.as_ref().map(|base| &*base.commit);
    let (ratios, holds) = ratios(comparison.claims, base, &all);
    let (source, rates) = (source(bench), rates(&all).markdown());
    let mut page = Page::load(RESULTS.as_ref(), comparison);
    let ratios = ratios.markdown();
    let text = format!("{source}; {rounds} rounds in turn.\n\n{ratios}\n{rates}");
    println!("\n{text}");
    page.section().insert(report::RATIOS.to_owned(), text);
    if only.is_empty() {
        page.write()?;
    }
    Ok(said(holds))
}

/// Whether all limits are kept; prints a message if not.
fn said(holds: bool) -> bool {
    if !holds {
        eprintln!("vernier-lab: a limit was missed");
    }
    holds
}

/// Puts a table of costs into the results of this machine.
fn add(bench: &Bench, heading: &str, table: &Table) -> Result<()> {
    let mut page = Page::load(RESULTS.as_ref(), &THROUGHPUT);
    let section = page.section();
    let text = format!("\n{}.\n\n{}", source(bench), table.markdown());
    section.insert(heading.to_owned(), text);
    println!("{}", report::markdown(section));
    page.write()
}

/// Whether one of the words matches the run's contender or load; without words, all match.
fn is_named(run: &Run, words: &[String]) -> bool {
    let names = [run.contender.id, run.load.id];
    words.is_empty() || words.iter().any(|word| names.contains(&&**word))
}

/// The bench, and its hugepages, if they are needed and could be reserved; they are released when dropped.
fn bench(arguments: &Arguments, folder: &Path) -> Result<(Bench, Option<Hugepages>)> {
    let loads: Vec<Load> = match &arguments.part {
        Part::Throughput { only } => {
            let runs = THROUGHPUT.suites.iter().flat_map(|suite| each(suite.runs));
            let wanted = runs.filter(|run| is_named(run, only));
            wanted.map(|run| run.load).collect()
        }
        Part::Plugin { .. } | Part::Steps | Part::Profile { .. } => vec![SMALL],
        Part::Instructions { .. } | Part::Micro { .. } | Part::Scrape => Vec::new(),
    };
    let memory_mib = (loads.iter()).map(|load| load.memory_mib(true));
    let hugepages = memory_mib.max().and_then(|memory_mib| {
        Hugepages::reserve(memory_mib.max(ovs::MEMORY_MIB + ovs::MACHINE_MIB))
            .inspect_err(|error| eprintln!("No hugepages ({error}): all contenders do without."))
            .ok()
    });
    let program = |name| match &arguments.programs {
        Some(folder) => Ok(folder.join(name)),
        None => beside_this_program(name),
    };
    let bench = Bench {
        folder: folder.to_owned(),
        vernierd: program("vernierd")?,
        base: arguments.base.clone(),
        plugin: program("librte_vernier.so")?,
        ovs: ovs::find(&arguments.ovs),
        cpus: [arguments.core, arguments.main_core],
        hugepages: hugepages.is_some(),
        warm_up: Duration::from_millis(500),
        measured: Duration::from_secs(arguments.seconds.into()),
    };
    Ok((bench, hugepages))
}
