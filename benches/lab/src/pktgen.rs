//! Offers traffic to a switch and sees what comes back; throughput at a loss limit, and latency
//! against load.
//!
//! ```text
//!  vernier-lab pktgen, one thread on one CPU            the switch
//!   frames --> pace --> wire a  ---- memif or NIC ---->  port
//!   counts, delays of probes <-- wire b <--------------  port
//! ```
//!
//! - [`frames`]: what is sent, made once from a `generate:` source; every n-th frame is a probe
//!   that carries its time of sending.
//! - [`wire`]: two ports, a side each; real ones, or a model in tests.
//! - [`trial`]: one rate for a while, counted exactly.
//! - [`search`]: the highest rate within a loss limit, in the manner of RFC 2544 section 26.1.
//! - [`dut`]: a `vernierd` of one's own over `net_memif`.
//!
//! What it is not: a hardware tester. Sender and receiver share a clock and a core, and on a machine
//! where others run as well, losses and tails are theirs as much as the switch's.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use contract::config::{Config, Device};
use dpdk_bindings::{Eal, EalOptions, PortConfig, allowed_cpus, keep_to_cpus};
use measure::time::TickRate;
use serde::Serialize;
use testkit::process::{stop_on_signals, until};

pub use crate::pktgen::arguments::Arguments;
use crate::pktgen::arguments::{Command, Common, Limits};
use crate::pktgen::dut::Dut;
use crate::pktgen::frames::Frames;
use crate::pktgen::report::Row;
use crate::pktgen::search::Search;
use crate::pktgen::trial::{Load, Outcome};
use crate::pktgen::wire::Ports;

mod arguments;
mod dut;
mod frames;
mod report;
mod search;
mod trial;
mod wire;

/// How long the links of both ports may take to come up.
const LINK_PATIENCE: Duration = Duration::from_secs(15);

/// All figures of a run.
#[derive(Debug, Default, Serialize)]
struct Results {
    throughput: Option<search::Found>,
    delays: Vec<Row>,
}

/// Offers what is asked for.
pub fn run(arguments: &Arguments) -> Result<bool> {
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
    Ok(true)
}

/// The switch that we start, if we do, and our two devices.
fn connect(common: &Common, stop: &AtomicBool) -> Result<(Option<Dut>, [String; 2])> {
    match common.device.as_slice() {
        [] => {
            let config = match &common.config {
                Some(file) => Config::load(file)?,
                None => Config::parse(include_str!("pktgen/dut.json"), "dut.json")?,
            };
            let dut = Dut::start(config, stop)?;
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
    let is_pci = |device: &String| Device::Dpdk(device.clone()).is_pci();
    let options = EalOptions {
        hugepages: common.hugepages,
        pci: devices.iter().any(is_pci),
        ..EalOptions::default()
    };
    let eal = Eal::init("vernier-pktgen", &options)?;
    keep_to_cpus(&[core]).with_context(|| format!("cannot keep to CPU {core}"))?;
    let pool = eal.mempool("pktgen", 65_535, 512, 2_048)?;
    let config = PortConfig::default();
    let [a, b] = devices;
    let ports = [
        eal.attach(a)?.start(&config, &pool)?,
        eal.attach(b)?.start(&config, &pool)?,
    ];
    let no_link = "a port has no link; is the switch running, and at the other end?";
    until(LINK_PATIENCE, stop, no_link, || {
        Ok(ports.iter().all(|port| port.link().up).then_some(()))
    })?;
    let rate = TickRate::from_hz(eal.tsc_hz());
    let wire = Ports::new([&ports[0], &ports[1]], &pool, rate).context("queues are taken")?;
    let frames = |side| Frames::generate(&common.traffic, side, common.frames as usize, config.mtu);
    let mut bench = Bench {
        wire,
        frames: [frames(0)?, frames(1)?],
        common,
        stop,
    };
    bench.offer(&arguments.command)
}

/// Both ports, and what is offered there.
struct Bench<'a, 'pool> {
    wire: Ports<'pool>,
    frames: [Frames; 2],
    common: &'a Common,
    stop: &'a AtomicBool,
}

impl Bench<'_, '_> {
    fn offer(&mut self, command: &Command) -> Result<Results> {
        let mut results = Results::default();
        match command {
            Command::Throughput(limits) => results.throughput = Some(self.find(limits)?),
            Command::Latency { loads, limits } => {
                let found = self.find(limits)?;
                let full_pps = results.throughput.insert(found).rate_pps;
                ensure!(full_pps > 0.0, "nothing comes back at any rate");
                let loads = loads.iter().map(|load| load / 100.0);
                let row = |share| Ok(Row::new(share, self.trial(full_pps * share)?));
                results.delays = loads.map(row).collect::<Result<_>>()?;
            }
            Command::Run { rate } => {
                results.delays = vec![Row::new(1.0, self.trial(rate * 1e6)?)];
            }
        }
        if !results.delays.is_empty() {
            print!("{}", report::delays(&results.delays));
        }
        Ok(results)
    }

    /// One rate for a while.
    fn trial(&mut self, rate_pps: f64) -> Result<Outcome> {
        ensure!(!self.stop.load(Ordering::Relaxed), "interrupted");
        let common = self.common;
        let load = Load {
            rate_pps,
            duration: Duration::from_secs_f64(common.trial),
            settle: Duration::from_secs_f64(common.settle),
            both_ways: common.both_ways,
            probe_every: common.probe_every,
        };
        Ok(trial::run(&mut self.wire, &self.frames, &load))
    }

    fn find(&mut self, limits: &Limits) -> Result<search::Found> {
        let search = Search {
            max_pps: limits.max * 1e6,
            loss_max: limits.loss / 100.0,
            tries: limits.tries,
        };
        let found = search::throughput(&search, |rate_pps| self.trial(rate_pps))?;
        for step in &found.steps {
            println!("{}", report::step(step));
        }
        let [frames, _] = &self.frames;
        println!("{}", report::found(&found, frames, search.loss_max));
        Ok(found)
    }
}
