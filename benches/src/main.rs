//! `vernier-bench`: throughput beside peers.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result};
use benches::capture::{FEW_FLOWS, MANY_FLOWS};
use benches::contender::{Bench, MEMORY_MIB};
use benches::hugepages::Hugepages;
use benches::report::{Report, Setting};
use benches::throughput;
use clap::{Args, Parser};

/// Benchmarks of Vernier beside its peers.
#[derive(Debug, Parser)]
#[command(version)]
enum Command {
    /// Forward 64-byte frames on one core, in turn with testpmd, and hold the ratios against limits
    ///
    /// Hugepages are reserved if that is possible, and given back at the end; else every contender
    /// does without. Keep the machine otherwise idle.
    #[command(
        after_help = "Exit codes: 0 all limits kept, 1 one was missed or a run failed, 2 bad usage."
    )]
    Throughput(Throughput),
}

#[derive(Debug, Args)]
struct Throughput {
    /// Rounds that count; one more comes first
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..))]
    rounds: u8,

    /// Seconds measured in each run, after one of warm-up
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    seconds: u8,

    /// CPU that forwards
    #[arg(long, default_value_t = 1)]
    core: usize,

    /// CPU of all other threads
    #[arg(long, default_value_t = 0)]
    main_core: usize,

    /// vernierd to run; by default the one beside this program
    #[arg(long, value_name = "FILE")]
    vernierd: Option<PathBuf>,

    /// Where to write throughput.md and throughput.json
    #[arg(long, value_name = "FOLDER", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/results"))]
    results: PathBuf,
}

fn main() -> ExitCode {
    let Command::Throughput(arguments) = Command::parse();
    match run(&arguments) {
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
fn run(arguments: &Throughput) -> Result<bool> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .context("cannot handle SIGINT and SIGTERM")?;
    }
    let vernierd = match &arguments.vernierd {
        Some(file) => file.clone(),
        None => beside_this_program("vernierd")?,
    };
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let captures = ["many-flows.pcap", "few-flows.pcap"].map(|name| folder.path().join(name));
    for (traffic, file) in [MANY_FLOWS, FEW_FLOWS].iter().zip(&captures) {
        traffic
            .write(file)
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    let hugepages = Hugepages::reserve(MEMORY_MIB)
        .inspect_err(|error| eprintln!("No hugepages ({error}): everyone does without."))
        .ok();
    let bench = Bench {
        captures,
        folder: folder.path().to_owned(),
        vernierd,
        main_core: arguments.main_core,
        core: arguments.core,
        hugepages: hugepages.is_some(),
        warm_up: Duration::from_secs(1),
        measured: Duration::from_secs(arguments.seconds.into()),
        stop,
    };
    let rounds = throughput::run(&bench, arguments.rounds.into())?;
    let report = Report::new(Setting::of_this_machine(bench.hugepages), rounds);
    println!("{}", report.markdown());
    report.write(&arguments.results)?;
    Ok(report.holds())
}

fn beside_this_program(name: &str) -> Result<PathBuf> {
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    Ok(program.parent().unwrap_or(Path::new("")).join(name))
}
