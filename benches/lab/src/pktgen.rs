//! Offers traffic to a switch and measures the returning packets: throughput at a loss limit, and latency by load.
//!
//! ```text
//!  vernier-lab pktgen, one thread on one CPU            the switch
//!   frames --> pace --> wire a  ---- memif or NIC ---->  port
//!   counts, delays of probes <-- wire b <--------------  port
//! ```
//!
//! - [`frames`]: the frames to send, generated once from a `generate:` source; every n-th frame is a probe that carries its time of sending.
//! - [`wire`]: two ports, one for each side; real ports, or a model in tests.
//! - [`trial`]: one rate for a while, counted exactly.
//! - [`search`]: the highest rate within a loss limit, in the manner of RFC 2544 section 26.1.
//! - [`dut`]: a private `vernierd` over `net_memif`.
//!
//! It is not a hardware tester. Sender and receiver share a clock and a core, and on a shared machine, other programs
//! cause losses and tails as much as the switch.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand};
use contract::config::device::Generate;
use contract::config::{Config, Device};
use dpdk_bindings::{EalOptions, PortConfig, allowed_cpus};
use serde::Serialize;
use testkit::process::{Process, check_wanted, stop_on_signals};

use crate::pktgen::frames::Frames;
use crate::pktgen::report::Row;
use crate::pktgen::search::Limits;
use crate::pktgen::trial::{Load, Outcome};
use crate::pktgen::wire::Ports;
use crate::ports::with_ports;

mod dut;
mod frames;
mod report;
mod search;
mod trial;
mod wire;

/// Offers traffic to a switch and sees what comes back.
///
/// Without --device it starts a vernierd of its own and connects by shared memory (`net_memif`): no
/// NIC, no hugepages and no root are needed. It sends on one CPU; the switch should have another.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 done, 1 failed while running, 2 bad usage.")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The highest rate within a loss limit, by bisection (RFC 2544 section 26.1)
    Throughput(Limits),
    /// Delays at shares of the throughput, which is searched first
    Latency {
        /// Loads, % of the throughput
        #[arg(long, value_delimiter = ',', default_value = "10,25,50,75,90,95", value_parser = over_zero)]
        loads: Vec<f64>,
        #[command(flatten)]
        limits: Limits,
    },
    /// One rate for a while
    Run {
        /// Million packets a second each way
        #[arg(long, value_name = "MPPS", value_parser = over_zero)]
        rate: f64,
    },
}

#[derive(Debug, Args)]
struct Common {
    /// Traffic, as in a configuration; its rate and bursts do not matter
    #[arg(long, global = true, value_name = "generate:...", default_value = "generate:size=60", value_parser = traffic)]
    traffic: Generate,
    /// Number of different frames on each side, which are sent repeatedly
    #[arg(long, global = true, default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    frames: u32,
    #[command(flatten)]
    load: Load,
    /// DPDK device to use instead of shared memory with a private vernierd; give it twice
    #[arg(long, global = true, value_name = "DEVICE")]
    device: Vec<String>,
    /// The switch's configuration; its first two ports are replaced by shared memory
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "device")]
    config: Option<PathBuf>,
    /// CPU to send from [default: the first that this process may use]
    #[arg(long, global = true)]
    core: Option<usize>,
    /// Take memory from hugepages, as NICs need
    #[arg(long, global = true)]
    hugepages: bool,
    /// Write all figures to this file (JSON)
    #[arg(long, global = true, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn over_zero(text: &str) -> Result<f64, String> {
    let number = text.parse().ok();
    let number = number.filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "expected a number over 0".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    over_zero(text).map(Duration::from_secs_f64)
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.parse().ok();
    let number = number.filter(|number| (0.0..100.0).contains(number));
    number.ok_or_else(|| "expected 0 or more, under 100".to_owned())
}

fn traffic(text: &str) -> Result<Generate, String> {
    match Device::from_str(text) {
        Ok(Device::Generate(spec)) => Ok(spec),
        Ok(_) => Err("expected generate:KEY=VALUE,...".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// All figures of a run.
#[derive(Debug, Default, Serialize)]
struct Results {
    throughput: Option<search::Found>,
    delays: Vec<Row>,
}

/// Runs the requested test.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let common = &arguments.common;
    stop_on_signals()?;
    let folder = tempfile::tempdir().context("no folder for sockets")?;
    let (dut, devices) = connect(common, folder.path())?;
    let results = offer(arguments, &devices)?;
    if let Some(dut) = dut {
        dut.end().context("vernierd")?;
    }
    if let Some(file) = &common.json {
        std::fs::write(file, serde_json::to_string_pretty(&results)?)
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(true)
}

/// The private switch, if any, and our two devices.
fn connect(common: &Common, folder: &Path) -> Result<(Option<Process>, [String; 2])> {
    match common.device.as_slice() {
        [] => {
            let config = match &common.config {
                Some(file) => Config::load(file)?,
                None => Config::parse(include_str!("pktgen/dut.json"), "dut.json")?,
            };
            let dut = dut::start(config, folder)?;
            let devices = [0, 1].map(|side| dut::device(folder, side, "client"));
            Ok((Some(dut), devices))
        }
        [a, b] => Ok((None, [a.clone(), b.clone()])),
        _ => bail!("--device is needed twice, once for each side of the switch"),
    }
}

fn offer(arguments: &Arguments, devices: &[String; 2]) -> Result<Results> {
    let common = &arguments.common;
    let core = common.core.or_else(|| allowed_cpus().first().copied());
    let core = core.context("this process may use no CPU")?;
    let is_pci = |device: &String| Device::Dpdk(device.clone()).is_pci();
    let options = EalOptions {
        hugepages: common.hugepages,
        pci: devices.iter().any(is_pci),
        ..EalOptions::default()
    };
    let frames = |side| {
        let mtu = PortConfig::default().mtu;
        Frames::generate(&common.traffic, side, common.frames as usize, mtu)
    };
    let frames = [frames(0)?, frames(1)?];
    with_ports(devices, &options, &[core], |ports, pool| {
        let mut wire = Ports::new(ports, pool);
        let mut trial = |rate_pps| {
            check_wanted()?;
            Ok(trial::run(&mut wire, &frames, rate_pps, &common.load))
        };
        let mut results = Results::default();
        match &arguments.command {
            Command::Throughput(limits) => {
                results.throughput = Some(find(limits, &frames[0], &mut trial)?);
            }
            Command::Latency { loads, limits } => {
                let found = find(limits, &frames[0], &mut trial)?;
                let full_pps = results.throughput.insert(found).rate_pps;
                ensure!(full_pps > 0.0, "nothing comes back at any rate");
                let shares = loads.iter().map(|load| load / 100.0);
                let row = |share| Ok(Row::new(share, trial(full_pps * share)?));
                results.delays = shares.map(row).collect::<Result<_>>()?;
            }
            Command::Run { rate } => {
                results.delays = vec![Row::new(1.0, trial(rate * 1e6)?)];
            }
        }
        if !results.delays.is_empty() {
            print!("{}", report::delays(&results.delays).markdown());
        }
        Ok(results)
    })
}

fn find(
    limits: &Limits,
    frames: &Frames,
    trial: impl FnMut(f64) -> Result<Outcome>,
) -> Result<search::Found> {
    let found = search::throughput(limits, trial)?;
    for step in &found.steps {
        println!("{}", report::step(step));
    }
    println!("{}", report::found(&found, frames, limits.loss));
    Ok(found)
}
