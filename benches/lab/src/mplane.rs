//! The network of MPLANE's figures 7 and 8, six routers of FRR with OSPF, two of them m-routers. Faults are put
//! in one after the other, and the station has to name their place.
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
//! - [`network`], [`cable`]: routers, links and what can be put into them; [`switches`], [`traffic`]: what runs there.
//! - [`fault`]: what is put in, and where; [`truth`]: which segments have it.
//! - [`testbed`]: everything that runs, and what the station says; [`mod@run`]: one fault after the other, and the quiet part; [`report`]: the page.

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

/// Six routers with OSPF, two of them m-routers; faults are put in, and the station has to name their place (needs root)
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "Exit codes: 0 all limits kept, 1 one was missed or a run failed, 2 bad usage."
)]
pub struct Arguments {
    /// Seed of the faults
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Faults that are put in
    #[arg(long, default_value_t = 30)]
    faults: u32,
    /// Minutes without a fault, in which nothing may be blamed
    #[arg(long, default_value_t = 30)]
    quiet_minutes: u64,
    /// Length of an interval, milliseconds
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(200..=10_000))]
    interval_ms: u32,
    /// Only start everything, see that the path from A to D is covered, and end
    #[arg(long)]
    check: bool,
    /// Folder of the results
    #[arg(long, default_value = reporting::RESULTS)]
    results: PathBuf,
    /// Where all files of the run are kept; by default nowhere
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
}

/// The whole run; whether all limits are kept.
pub fn run(arguments: &Arguments) -> Result<bool> {
    enter()?;
    stop_on_signals()?;
    let temporary = tempfile::tempdir().context("cannot make a temporary folder")?;
    let folder = arguments.keep.as_deref().unwrap_or(temporary.path());
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    run::run(arguments, folder)
}

/// A command that the machine's other programs do not hold up: what is measured is the network.
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
