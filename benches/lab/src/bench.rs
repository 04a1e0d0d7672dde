//! Throughput beside peers, and what each step costs.

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
mod plugin;
mod profile;
mod report;
mod rounds;
mod scrape;
mod setting;
mod steps;
mod testpmd;
mod vernierd;

/// Benchmarks of Vernier beside its peers.
///
/// Hugepages are reserved if that is possible, and given back at the end; else every contender does
/// without. Keep the machine otherwise idle.
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

    /// Seconds measured in each run, at least, after half of one of warm-up
    #[arg(long, global = true, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    seconds: u8,

    /// CPU that forwards
    #[arg(long, global = true, default_value_t = 1)]
    core: usize,

    /// CPU of all other threads; it forwards, too, where two are asked for
    #[arg(long, global = true, default_value_t = 0)]
    main_core: usize,

    /// Where Open vSwitch is: / where it is installed, or the folder it was unpacked into
    #[arg(long, global = true, value_name = "FOLDER", default_value = "/")]
    ovs: PathBuf,

    /// Where vernierd and the plugin are; default: beside this program
    #[arg(long, global = true, value_name = "FOLDER")]
    programs: Option<PathBuf>,

    /// Run this vernierd, built of another commit, in the same rounds
    #[arg(long, global = true, value_name = "COMMIT=PROGRAM")]
    base: Option<Base>,
}

#[derive(Debug, Subcommand)]
enum Part {
    /// Forward on the same CPU in turn with testpmd and Open vSwitch, and compare ratios with limits
    Throughput {
        /// Only contenders and loads that one of these words names, such as `io` or `imix`; nothing
        /// is written then
        #[arg(long, value_delimiter = ',', value_name = "WORDS")]
        only: Vec<String>,
    },
    /// What the plugin costs testpmd and Open vSwitch: as `throughput`, with limits of its own
    Plugin {
        /// Only contenders that one of these words names, such as `macswap` or `plugin_lda`; nothing
        /// is written then
        #[arg(long, value_delimiter = ',', value_name = "WORDS")]
        only: Vec<String>,
    },
    /// One step of the fast path after another: nanoseconds, and instructions by callgrind
    Steps,
    /// Where the time of a step goes: nanoseconds by perf, instructions by callgrind. With everything on and by
    /// file it is written to the results
    Profile {
        #[arg(default_value = EVERYTHING.id, value_parser = PossibleValuesParser::new(plan::steps().map(|(step, _)| step.id)))]
        step: String,
        /// What is shown of our own sources; what is inlined belongs to where it was written
        #[arg(long, value_enum, default_value_t = Division::File)]
        by: Division,
    },
    /// Count the instructions of the steps that have a limit; fails where one takes 3 % more than in a file
    Instructions {
        file: PathBuf,
        /// Write the figures to the file instead
        #[arg(long)]
        renew: bool,
    },
    /// What each piece of the fast path costs a packet: nanoseconds, and instructions by callgrind
    Micro {
        /// Only pieces whose names contain one of these words
        words: Vec<String>,
        /// Work on so many bursts of the piece of this name, to be counted
        #[arg(long, hide = true)]
        bursts: Option<u64>,
    },
    /// What a scrape of ten thousand series costs, and what it does to the workers
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

/// Runs a comparison in rounds; whether all limits are kept.
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

/// Whether all limits are kept, which is also said if not.
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

/// Whether one of the words names the run's contender or load; no word names all.
fn is_named(run: &Run, words: &[String]) -> bool {
    let names = [run.contender.id, run.load.id];
    words.is_empty() || words.iter().any(|word| names.contains(&&**word))
}

/// The bench, and the hugepages that are given back when they are dropped, if any are needed and could be
/// reserved.
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
