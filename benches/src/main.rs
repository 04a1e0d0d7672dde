//! `vernier-bench`: throughput beside peers, and what each step costs.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result};
use benches::machine::Machine;
use benches::scrape;
use benches::throughput::bench::Bench;
use benches::throughput::contender::{EVERYTHING, Program};
use benches::throughput::hugepages::Hugepages;
use benches::throughput::load::Load;
use benches::throughput::ovs::{self, OvsPrograms};
use benches::throughput::plan::{Run, SUITES, Suite};
use benches::throughput::report::{Costs, Report, Results, Setting};
use benches::throughput::{profile, rounds, steps};
use clap::{Args, Parser, Subcommand};

/// Benchmarks of Vernier beside its peers.
///
/// Hugepages are reserved if that is possible, and given back at the end; else every contender does
/// without. Keep the machine otherwise idle.
#[derive(Debug, Parser)]
#[command(version)]
#[command(
    after_help = "Exit codes: 0 all limits kept, 1 one was missed or a run failed, 2 bad usage."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Forward on the same CPU in turn with testpmd and Open vSwitch, and hold ratios against limits
    Throughput {
        /// Only contenders and loads that one of these words names, such as `io` or `imix`; nothing
        /// is written then
        #[arg(long, value_delimiter = ',', value_name = "WORDS")]
        only: Vec<String>,
    },
    /// One step of the fast path after another: nanoseconds, and instructions by callgrind
    Steps,
    /// Where the time goes with everything on, by source file: perf and callgrind
    Profile,
    /// What a scrape of ten thousand series costs, and what it does to the workers
    Scrape,
}

#[derive(Debug, Args)]
struct Common {
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

    /// vernierd to run; by default the one beside this program
    #[arg(long, global = true, value_name = "FILE")]
    vernierd: Option<PathBuf>,

    /// Where Open vSwitch is: / where it is installed, or the folder it was unpacked into
    #[arg(long, global = true, value_name = "FOLDER", default_value = "/")]
    ovs: PathBuf,

    /// Where throughput.md and throughput.json are
    #[arg(long, global = true, value_name = "FOLDER", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/results"))]
    results: PathBuf,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments.command, &arguments.common) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("vernier-bench: a limit was missed");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("vernier-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all limits were kept.
fn run(command: &Command, common: &Common) -> Result<bool> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    if let Command::Scrape = command {
        return scrape(common, folder.path());
    }
    let wanted = |run: &Run| match command {
        Command::Throughput { only } => is_named(run, only),
        Command::Steps | Command::Profile | Command::Scrape => run.load == Load::Small,
    };
    let runs = || {
        SUITES
            .iter()
            .flat_map(|suite: &Suite| suite.runs)
            .filter(|run| wanted(run))
    };
    let memory_mib = runs().map(|run| run.load.memory_mib()).max().unwrap_or(0);
    // It is given back when this ends.
    let hugepages = Hugepages::reserve(memory_mib.max(ovs::MEMORY_MIB))
        .inspect_err(|error| eprintln!("No hugepages ({error}): everyone does without."));
    let bench = bench(common, folder.path(), hugepages.is_ok())?;
    let rounds = usize::from(common.rounds);
    let setting = || Setting::of_this_machine(bench.hugepages);
    let mut results = Results::load(&common.results)?;

    if let Command::Throughput { only } = command {
        let mut all = Vec::new();
        for suite in &SUITES {
            all.extend(rounds::run(&bench, suite, rounds, wanted)?);
        }
        let report = Report::new(setting(), rounds, &all);
        println!("{}", report.markdown());
        let holds = report.holds();
        if only.is_empty() {
            results.put(report);
            results.write(&common.results)?;
        }
        return Ok(holds);
    }
    let setting = setting();
    let cpu = setting.machine.cpu.clone();
    let mut report = match results.of_mut(&cpu) {
        Some(report) => report.clone(),
        None => Report::new(setting.clone(), 0, &[]),
    };
    if let Command::Steps = command {
        let costs = steps::run(&bench, rounds)?;
        report.steps = Some(Costs { setting, costs });
    } else if let Program::Vernierd(vernierd) = EVERYTHING.program {
        let input = bench.input(Load::Small)?;
        let costs = profile::parts(&bench, &input, vernierd)?;
        report.parts = Some(Costs { setting, costs });
    }
    println!("{}", report.markdown());
    results.put(report);
    results.write(&common.results)?;
    Ok(true)
}

/// There is no limit that it could miss.
fn scrape(common: &Common, folder: &Path) -> Result<bool> {
    let stop = stop_on_signals()?;
    let vernierd = vernierd(common)?;
    let report = scrape::run(&vernierd, folder, usize::from(common.rounds), &stop)?;
    // It stands beside this program, and was made with it.
    let build = if cfg!(debug_assertions) {
        "development"
    } else {
        "release"
    };
    let table = report.markdown(&Machine::of_this_run(), build);
    println!("{table}");
    report.write(&common.results, &table)?;
    Ok(true)
}

/// Whether one of the words names the run's contender or load; no word names all.
fn is_named(run: &Run, words: &[String]) -> bool {
    let names = [run.contender.id, run.load.id()];
    words.is_empty() || words.iter().any(|word| names.contains(&&**word))
}

fn stop_on_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .context("cannot handle SIGINT and SIGTERM")?;
    }
    Ok(stop)
}

fn vernierd(common: &Common) -> Result<PathBuf> {
    match &common.vernierd {
        Some(file) => Ok(file.clone()),
        None => beside_this_program("vernierd"),
    }
}

fn bench(common: &Common, folder: &Path, hugepages: bool) -> Result<Bench> {
    let stop = stop_on_signals()?;
    let vernierd = vernierd(common)?;
    Ok(Bench {
        folder: folder.to_owned(),
        vernierd,
        ovs: OvsPrograms::find(&common.ovs),
        cpus: [common.core, common.main_core],
        hugepages,
        warm_up: Duration::from_millis(500),
        measured: Duration::from_secs(common.seconds.into()),
        stop,
    })
}

fn beside_this_program(name: &str) -> Result<PathBuf> {
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    Ok(program.parent().unwrap_or(Path::new("")).join(name))
}
