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
use benches::throughput::plan::{PLUGIN, Run, Suite, THROUGHPUT};
use benches::throughput::report::{Costs, Report, Results, Setting};
use benches::throughput::{profile, rounds, steps};
use benches::wire::testbed::scenario::{self, SCENARIOS};
use benches::wire::testbed::{flood, memif, report, spaces, traffic};
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
    /// What the plugin costs testpmd and Open vSwitch: as `throughput`, with limits of its own
    Plugin {
        /// Only contenders that one of these words names, such as `macswap` or `plugin_lda`; nothing
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
    /// What two switches say of the path between them, held against what happened (needs root)
    Wire(Wire),
    /// A mix of flows from one host of the testbed to the other
    #[command(hide = true)]
    WireMix(Mix),
    /// Takes the mix
    #[command(hide = true)]
    WireSink {
        /// Its own address
        at: String,
    },
}

#[derive(Debug, Args)]
struct Wire {
    /// Only runs of these names, `memif` and `flood` among them; nothing is written then
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    only: Vec<String>,
    /// How long traffic flows in each run, seconds
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u16).range(2..))]
    flow_seconds: u16,
    /// How long attacks go on, and the run beside them, seconds
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u16).range(5..))]
    attack_seconds: u16,
    /// Where all files of the runs are kept; by default nowhere
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// The hand-made attacker
    #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/wire/attack.py"))]
    attacker: PathBuf,
}

#[derive(Debug, Args)]
struct Mix {
    from: String,
    to: String,
    #[arg(long, default_value_t = 200)]
    flows: u16,
    #[arg(long)]
    pps: f64,
    #[arg(long)]
    for_seconds: f64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
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

    /// Plugin to load; by default `librte_vernier.so` beside this program
    #[arg(long, global = true, value_name = "FILE")]
    plugin: Option<PathBuf>,

    /// Where Open vSwitch is: / where it is installed, or the folder it was unpacked into
    #[arg(long, global = true, value_name = "FOLDER", default_value = "/")]
    ovs: PathBuf,

    /// Where the results are, in Markdown and JSON
    #[arg(long, global = true, value_name = "FOLDER", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/results"))]
    results: PathBuf,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let is_testbed = matches!(arguments.command, Command::Wire(_));
    if is_testbed && let Err(error) = spaces::enter() {
        eprintln!("vernier-bench: {error:#}");
        return ExitCode::FAILURE;
    }
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
    match command {
        Command::Wire(options) => return wire(options, common),
        Command::WireMix(mix) => {
            let traffic = traffic::Mix {
                flows: mix.flows,
                pps: mix.pps,
                duration: Duration::from_secs_f64(mix.for_seconds),
                seed: mix.seed,
            };
            return traffic.send(&mix.from, &mix.to).map(|_| true);
        }
        Command::WireSink { at } => return traffic::sink(at).map(|()| true),
        _ => {}
    }
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    if let Command::Scrape = command {
        return scrape(common, folder.path());
    }
    let comparison = match command {
        Command::Plugin { .. } => &PLUGIN,
        _ => &THROUGHPUT,
    };
    let wanted = |run: &Run| match command {
        Command::Throughput { only } | Command::Plugin { only } => is_named(run, only),
        _ => run.load == Load::Small,
    };
    let runs = || {
        comparison
            .suites
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
    let mut results = Results::load(&common.results, comparison)?;

    if let Command::Throughput { only } | Command::Plugin { only } = command {
        let mut all = Vec::new();
        for suite in comparison.suites {
            all.extend(rounds::run(&bench, suite, rounds, wanted)?);
        }
        let report = Report::new(setting(), rounds, comparison.claims, &all);
        println!("{}", report.markdown());
        let holds = report.holds();
        if only.is_empty() {
            results.put(report);
            results.write(&common.results, comparison)?;
        }
        return Ok(holds);
    }
    let setting = setting();
    let cpu = setting.machine.cpu.clone();
    let mut report = match results.of_mut(&cpu) {
        Some(report) => report.clone(),
        None => Report::new(setting.clone(), 0, &[], &[]),
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
    results.write(&common.results, comparison)?;
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

/// The testbed's runs, one after the other.
fn wire(options: &Wire, common: &Common) -> Result<bool> {
    let stop = stop_on_signals()?;
    let temporary = tempfile::tempdir().context("cannot make a temporary folder")?;
    let folder = options.keep.as_deref().unwrap_or(temporary.path());
    let (vernierd, impair) = (vernierd(common)?, beside_this_program("vernier-impair")?);
    let setting = scenario::Setting {
        vernierd: &vernierd,
        impair: &impair,
        attacker: &options.attacker,
        duration: Duration::from_secs(options.flow_seconds.into()),
        attack_duration: Duration::from_secs(options.attack_seconds.into()),
        folder,
        stop: &stop,
    };
    let is_wanted =
        |name: &str| options.only.is_empty() || options.only.iter().any(|wanted| wanted == name);
    spaces::build().context("no testbed")?;
    let mut report = report::Report::new();
    for scenario in SCENARIOS.iter().filter(|scenario| is_wanted(scenario.name)) {
        eprintln!("{}: {} ...", scenario.name, scenario.words);
        match scenario::run(scenario, &setting) {
            Ok(outcome) => report.runs.push(outcome),
            Err(error) => report.fail(scenario.name, &error, &stop)?,
        }
    }
    if is_wanted("memif") {
        eprintln!("memif: as fast as it goes ...");
        match memif::run(&setting) {
            Ok(outcome) => report.memif = Some(outcome),
            Err(error) => report.fail("memif", &error, &stop)?,
        }
    }
    if is_wanted("flood") {
        eprintln!("flood: one recorded hello, as fast as it goes ...");
        match flood::run(&setting) {
            Ok(outcome) => report.flood = Some(outcome),
            Err(error) => report.fail("flood", &error, &stop)?,
        }
    }
    println!("{}", report.markdown());
    if options.only.is_empty() {
        report.write(&common.results)?;
    }
    Ok(report.limits().iter().all(|limit| limit.holds))
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
        plugin: match &common.plugin {
            Some(file) => file.clone(),
            None => beside_this_program("librte_vernier.so")?,
        },
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
