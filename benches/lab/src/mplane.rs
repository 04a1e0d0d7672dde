//! The network of MPLANE's figures 7 and 8: six FRR routers with OSPF, two of them m-routers. Faults are injected one
//! after the other, and the station has to locate them.
//!
//! ```text
//!      A --1-- B              C, F: m-routers, each port through vernierd; a wire between them
//!       \     /               A, B, D, E: m-servers, vernier-probe along their m-sets
//!       1\   /1               vernierd, vernier-probe --> NATS --> vernier-station --> blame
//!         \ /
//!          F ---2--- C
//!          |         |1
//!          2         D
//!          |         |1
//!          '--- E ---'
//! ```
//!
//! - [`network`], [`cable`]: routers, links and their impairments; [`switches`], [`traffic`]: programs that run there.
//! - [`fault`]: the faults and their places; [`truth`]: the segments that contain them.
//! - [`testbed`]: everything that runs, and the station's answers; [`mod@run`]: one fault after the other, and the quiet part; [`report`]: the page.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;
use testkit::namespace::{enter, inside};
use testkit::process::stop_on_signals;

mod cable;
mod fault;
mod network;
mod report;
mod run;
mod switches;
mod testbed;
mod traffic;
mod truth;

/// Inject faults into a network of six OSPF routers, two of them m-routers, and check that the station locates them
/// (needs root)
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Exit codes: 0 all limits kept, 1 one was missed or a run failed, 2 bad usage."
)]
pub struct Arguments {
    /// Seed of the faults
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of faults
    #[arg(long, default_value_t = 30)]
    faults: u32,
    /// Minutes without a fault, in which nothing may be blamed
    #[arg(long, default_value_t = 30)]
    quiet_minutes: u64,
    /// Length of an interval, milliseconds
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(200..=10_000))]
    interval_ms: u32,
    /// Only start everything, check that the path from A to D is covered, and stop
    #[arg(long)]
    check: bool,
    /// Folder of the results
    #[arg(long, default_value = reporting::RESULTS)]
    results: PathBuf,
    /// Folder in which to keep all files of the run [default: none]
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
}

/// Runs everything; returns whether all limits are kept.
pub fn run(arguments: &Arguments) -> Result<bool> {
    enter()?;
    stop_on_signals()?;
    let temporary = tempfile::tempdir().context("cannot make a temporary folder")?;
    let folder = arguments.keep.as_deref().unwrap_or(temporary.path());
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    run::run(arguments, folder)
}

/// A command with high priority, so that other programs on the machine do not affect the measurement.
fn favoured(program: &Path) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", "-19"]).arg(program);
    command
}

/// Likewise, in a router's namespace.
fn favoured_inside(space: &str, program: &Path) -> Command {
    let mut command = inside(space, "nice");
    command.args(["-n", "-19"]).arg(program);
    command
}
