//! `vernier-pktgen`: throughput at a loss limit, and latency against load.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Parser, Subcommand};
use contract::config::device::Generate;
use contract::config::{Config, Device};
use dpdk_bindings::{Eal, EalOptions, PortConfig, allowed_cpus, keep_to_cpus};
use measure::time::TickRate;
use pktgen::dut::{self, Dut};
use pktgen::frames::Frames;
use pktgen::report;
use pktgen::search::{self, Search};
use pktgen::trial::{self, Load, Outcome};
use pktgen::wire::Ports;
use serde::Serialize;
use testkit::process::stop_on_signals;

/// Offers traffic to a switch and sees what comes back.
///
/// Without --device it starts a vernierd of its own and connects by shared memory (`net_memif`): no
/// NIC, no hugepages and no root are needed. It sends on one CPU; the switch should have another.
#[derive(Debug, Parser)]
#[command(version)]
#[command(after_help = "Exit codes: 0 done, 1 failed while running, 2 bad usage.")]
struct Arguments {
    #[command(subcommand)]
    command: Command,

    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The highest rate within a loss limit, by bisection (RFC 2544 section 26.1)
    Throughput(Limits),
    /// Delays at shares of the throughput, which is searched first unless --at names it
    Latency {
        /// Rate that counts as 100 %, million packets a second each way
        #[arg(long, value_name = "MPPS", value_parser = over_zero)]
        at: Option<f64>,
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
struct Limits {
    /// Packets that may be lost, %
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    loss: f64,
    /// Rate to begin with, million packets a second each way
    #[arg(long, value_name = "MPPS", default_value_t = 10.0, value_parser = over_zero)]
    max: f64,
    /// How exactly the rate is told, %
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, value_parser = over_zero)]
    resolution: f64,
    /// Trials that must fail before a rate does; more where others use the machine, too
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    tries: u32,
}

#[derive(Debug, Args)]
struct Common {
    /// Traffic, as in a configuration; its rate and bursts do not matter
    #[arg(long, global = true, value_name = "generate:...", default_value = "generate:size=60", value_parser = traffic)]
    traffic: Generate,
    /// Different frames on each side, which are sent over and over
    #[arg(long, global = true, default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    frames: u32,
    /// Send from both sides
    #[arg(long, global = true)]
    both_ways: bool,
    /// Seconds of a trial; the RFC's is 60
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = 2.0, value_parser = over_zero)]
    trial: f64,
    /// Seconds to wait for stragglers; the RFC's is 2
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = 0.5, value_parser = over_zero)]
    settle: f64,
    /// Every so many frames carry their time of sending
    #[arg(long, global = true, value_name = "FRAMES", default_value_t = 100)]
    probe_every: u32,
    /// DPDK device to use in place of shared memory with a vernierd of our own; twice
    #[arg(long, global = true, value_name = "DEVICE")]
    device: Vec<String>,
    /// The switch's configuration; its first two ports come to be on shared memory
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "device")]
    config: Option<PathBuf>,
    /// The switch; by default the vernierd beside this program
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "device")]
    vernierd: Option<PathBuf>,
    /// CPU to send from; by default the first that this process may use
    #[arg(long, global = true)]
    core: Option<usize>,
    /// MTU of the ports
    #[arg(long, global = true, default_value_t = 1_500, value_parser = clap::value_parser!(u16).range(68..=9_000))]
    mtu: u16,
    /// Take memory from hugepages, as NICs need
    #[arg(long, global = true)]
    hugepages: bool,
    /// Further argument for EAL; may be given again
    #[arg(
        long,
        global = true,
        value_name = "ARGUMENT",
        allow_hyphen_values = true
    )]
    eal: Vec<String>,
    /// Write all figures to this file (JSON)
    #[arg(long, global = true, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn over_zero(text: &str) -> Result<f64, String> {
    let number = text.parse().ok();
    let number = number.filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "expected a number over 0".to_owned())
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

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("vernier-pktgen: {error:#}");
            ExitCode::from(1)
        }
    }
}

/// All figures of a run.
#[derive(Debug, Default, Serialize)]
struct Results {
    throughput: Option<search::Found>,
    delays: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    share: f64,
    outcome: Outcome,
    min_ns: Option<u64>,
    mean_ns: Option<f64>,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
    p999_ns: Option<u64>,
    max_ns: Option<u64>,
}

impl Row {
    fn new(share: f64, outcome: &Outcome) -> Self {
        Self {
            share,
            min_ns: outcome.delay_ns(0.0),
            mean_ns: outcome.mean_delay_ns(),
            p50_ns: outcome.delay_ns(0.5),
            p99_ns: outcome.delay_ns(0.99),
            p999_ns: outcome.delay_ns(0.999),
            max_ns: outcome.delay_ns(1.0),
            outcome: outcome.clone(),
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let common = &arguments.common;
    let stop = stop_on_signals()?;
    let (dut, devices) = connect(common, &stop)?;
    let results = offer(arguments, &devices, &stop)?;
    if let Some(dut) = dut {
        dut.end(&stop)?;
    }
    if let Some(file) = &common.json {
        std::fs::write(file, serde_json::to_string_pretty(&results)?)
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// The switch that we start, if we do, and our two devices.
fn connect(common: &Common, stop: &AtomicBool) -> Result<(Option<Dut>, [String; 2])> {
    match common.device.as_slice() {
        [] => {
            let vernierd = match &common.vernierd {
                Some(vernierd) => vernierd.clone(),
                None => dut::beside()?,
            };
            let config = match &common.config {
                Some(file) => Config::load(file)?,
                None => Config::parse(include_str!("dut.json"), "dut.json")?,
            };
            let dut = Dut::start(&vernierd, config, stop)?;
            let devices = dut.devices();
            Ok((Some(dut), devices))
        }
        [a, b] => Ok((None, [a.clone(), b.clone()])),
        _ => bail!("--device is needed twice: one for each side of the switch"),
    }
}

fn offer(arguments: &Arguments, devices: &[String; 2], stop: &AtomicBool) -> Result<Results> {
    let common = &arguments.common;
    let core = common.core.or_else(|| allowed_cpus().first().copied());
    let core = core.context("this process may use no CPU")?;
    let eal = Eal::init(
        "vernier-pktgen",
        &EalOptions {
            hugepages: common.hugepages,
            memory_mib: 512,
            pci: devices
                .iter()
                .any(|device| Device::Dpdk(device.clone()).is_pci()),
            extra: common.eal.clone(),
        },
    )?;
    keep_to_cpus(&[core]).with_context(|| format!("cannot keep to CPU {core}"))?;
    let pool = eal.mempool("pktgen", 65_535, 512, 2_048)?;
    let config = PortConfig {
        mtu: common.mtu,
        ..PortConfig::default()
    };
    let [a, b] = devices;
    let ports = [
        eal.attach(a)?.start(&config, &pool)?,
        eal.attach(b)?.start(&config, &pool)?,
    ];
    let patience = Instant::now() + Duration::from_secs(15);
    while !ports.iter().all(|port| port.link().up) {
        ensure!(
            Instant::now() < patience && !stop.load(Ordering::Relaxed),
            "a port has no link; is the switch running, and at the other end?"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let rate = TickRate::from_hz(eal.tsc_hz());
    let mut wire = Ports::new([&ports[0], &ports[1]], &pool, rate).context("queues are taken")?;
    let frames = |side| Frames::generate(&common.traffic, side, common.frames as usize, common.mtu);
    let frames = [frames(0)?, frames(1)?];
    let mut trial = |rate_pps: f64| {
        ensure!(!stop.load(Ordering::Relaxed), "interrupted");
        let load = Load {
            rate_pps,
            duration: Duration::from_secs_f64(common.trial),
            settle: Duration::from_secs_f64(common.settle),
            both_ways: common.both_ways,
            probe_every: common.probe_every,
        };
        Ok(trial::run(&mut wire, &frames, &load))
    };
    let mut results = Results::default();
    match &arguments.command {
        Command::Throughput(limits) => {
            results.throughput = Some(find(limits, &frames[0], &mut trial)?);
        }
        Command::Latency { at, loads, limits } => {
            let full_pps = if let Some(mpps) = at {
                mpps * 1e6
            } else {
                let found = find(limits, &frames[0], &mut trial)?;
                let rate_pps = found.rate_pps;
                results.throughput = Some(found);
                rate_pps
            };
            ensure!(full_pps > 0.0, "nothing comes back at any rate");
            let mut rows = Vec::new();
            for load in loads {
                rows.push((load / 100.0, trial(full_pps * load / 100.0)?));
            }
            print!("{}", report::delays(&rows));
            results.delays = rows
                .iter()
                .map(|(share, outcome)| Row::new(*share, outcome))
                .collect();
        }
        Command::Run { rate } => {
            let rows = [(1.0, trial(rate * 1e6)?)];
            print!("{}", report::delays(&rows));
            results.delays = vec![Row::new(1.0, &rows[0].1)];
        }
    }
    Ok(results)
}

fn find(
    limits: &Limits,
    frames: &Frames,
    trial: &mut impl FnMut(f64) -> Result<Outcome>,
) -> Result<search::Found> {
    let search = Search {
        max_pps: limits.max * 1e6,
        loss_max: limits.loss / 100.0,
        resolution: limits.resolution / 100.0,
        tries: limits.tries,
    };
    let found = search::throughput(&search, trial)?;
    for step in &found.steps {
        println!("{}", report::step(step));
    }
    println!("{}", report::found(&found, frames, search.loss_max));
    Ok(found)
}
