//! The command line.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};
use contract::config::Device;
use contract::config::device::Generate;

/// Offers traffic to a switch and sees what comes back.
///
/// Without --device it starts a vernierd of its own and connects by shared memory (`net_memif`): no
/// NIC, no hugepages and no root are needed. It sends on one CPU; the switch should have another.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 done, 1 failed while running, 2 bad usage.")]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,

    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Subcommand)]
pub enum Command {
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
pub struct Limits {
    /// Packets that may be lost, %
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = percent)]
    pub loss: f64,
    /// Rate to begin with, million packets a second each way
    #[arg(long, value_name = "MPPS", default_value_t = 10.0, value_parser = over_zero)]
    pub max: f64,
    /// Trials that must fail before a rate does; more where others use the machine, too
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub tries: u32,
}

#[derive(Debug, Args)]
pub struct Common {
    /// Traffic, as in a configuration; its rate and bursts do not matter
    #[arg(long, global = true, value_name = "generate:...", default_value = "generate:size=60", value_parser = traffic)]
    pub traffic: Generate,
    /// Different frames on each side, which are sent over and over
    #[arg(long, global = true, default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1..=4_194_304))]
    pub frames: u32,
    /// Send from both sides
    #[arg(long, global = true)]
    pub both_ways: bool,
    /// Seconds of a trial; the RFC's is 60
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = 2.0, value_parser = over_zero)]
    pub trial: f64,
    /// Seconds to wait for stragglers; the RFC's is 2
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = 0.5, value_parser = over_zero)]
    pub settle: f64,
    /// Every so many frames carry their time of sending
    #[arg(long, global = true, value_name = "FRAMES", default_value_t = 100)]
    pub probe_every: u32,
    /// DPDK device to use in place of shared memory with a vernierd of our own; twice
    #[arg(long, global = true, value_name = "DEVICE")]
    pub device: Vec<String>,
    /// The switch's configuration; its first two ports come to be on shared memory
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "device")]
    pub config: Option<PathBuf>,
    /// CPU to send from; by default the first that this process may use
    #[arg(long, global = true)]
    pub core: Option<usize>,
    /// Take memory from hugepages, as NICs need
    #[arg(long, global = true)]
    pub hugepages: bool,
    /// Write all figures to this file (JSON)
    #[arg(long, global = true, value_name = "FILE")]
    pub json: Option<PathBuf>,
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
