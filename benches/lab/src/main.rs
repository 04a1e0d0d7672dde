//! `vernier-lab`: runs Vernier's programs next to others, under load or on bad networks, and checks the results.
//!
//! ```text
//!  bench    throughput compared with testpmd and Open vSwitch, the cost of each step, of the plugin and of scraping
//!  wire     two switches and an impaired path: their reports compared with what happened to each packet
//!  mplane   six routers with OSPF: faults are injected, and the station has to locate them
//!  scale    reports as if from a thousand switches, through one NATS server and two stations
//!  nic      real PCI drivers in a virtual machine
//!  impair   the impairment box: forwards between two ports like a bad network
//!  pktgen   the packet generator: throughput at a loss limit, latency against load
//! ```
//!
//! Each is a module with the `Arguments` of its command and a `run`, which returns whether all limits are kept.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use testkit::process::exit_code;

mod bench;
mod frames;
mod impair;
mod mplane;
mod nic;
mod pktgen;
mod ports;
mod scale;
mod testbed;
mod transits;
mod wire;

/// Benchmarks and testbeds of Vernier
#[derive(Debug, Parser)]
#[command(version, name = PROGRAM)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Bench(bench::Arguments),
    Wire(wire::Arguments),
    Mplane(mplane::Arguments),
    Scale(scale::Arguments),
    Nic(nic::Arguments),
    Impair(impair::Arguments),
    Pktgen(pktgen::Arguments),
}

/// The name of this program.
const PROGRAM: &str = "vernier-lab";

fn main() -> ExitCode {
    let is_kept = match &Arguments::parse().command {
        Command::Bench(arguments) => bench::run(arguments),
        Command::Wire(arguments) => wire::run(arguments),
        Command::Mplane(arguments) => mplane::run(arguments),
        Command::Scale(arguments) => scale::run(arguments),
        Command::Nic(arguments) => nic::run(arguments),
        Command::Impair(arguments) => impair::run(arguments),
        Command::Pktgen(arguments) => pktgen::run(arguments),
    };
    exit_code(PROGRAM, is_kept)
}
