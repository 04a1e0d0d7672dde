//! `vernier-impair`, an impairment box: forwards between two ports as a bad network would.
//!
//! ```text
//!            rules, the first that fits:  rewrite > loss > corruption > duplication
//!  left ---> class, hash --> arrive --------------------> rate limit > delay, jitter --> depart ---> right
//!                                 fates of what is lost         held back packets           |
//!                                        '------------------- transits ---------------------'
//!                                                                | ring
//!                                                          a thread that writes
//! ```
//!
//! - [`impairment`]: what is done to which packets, from the command line or a file.
//! - [`pipeline`]: one direction; a clock turned by hand is enough to drive it.
//! - [`rewrite`]: what a router would change.
//! - [`mutate`]: control frames made up from those seen, that must be rejected.
//! - [`flood`]: one hello, recorded and sent again as fast as the port takes it.
//! - [`record`]: what was done to each packet, written down by a thread of its own.
//! - [`bridge`]: two DPDK ports and the loop between them.
//!
//! The same seed and the same packets in the same order have the same fates. What it is not: a
//! router. It answers nothing and looks nothing up.
#![forbid(unsafe_code)]

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use contract::config::Idle;
use dpdk_bindings::{Eal, EalOptions, PortConfig, allowed_cpus, keep_to_cpus};
use measure::packet::Hasher;
use measure::time::TickRate;
use serde_json::Value;
use switch::idle::IdlePolicy;
use testkit::process::{exit_code, memif, stop_on_signals, until};

use crate::bridge::Bridge;
use crate::impairment::{Impairment, MadeUp, Plan, Replay};
use crate::record::Recorder;

mod bridge;
#[cfg(test)]
mod end_to_end;
mod flood;
mod frame;
mod impairment;
mod mutate;
mod pipeline;
mod record;
mod rewrite;

/// Forwards between two ports as a bad network would: with delay, jitter, a rate limit, loss,
/// duplicates, reordering, corruption, and what a router rewrites.
///
/// Of several rules the first that takes a packet is applied to it. Without any, the box is a plain
/// cable.
#[derive(Debug, Parser)]
#[command(version)]
#[command(after_help = RULES)]
struct Arguments {
    /// `af_packet:INTERFACE`, `memif:SOCKET` (as client; `memif-server:SOCKET` as server) or any DPDK
    /// device
    #[arg(long, value_name = "DEVICE")]
    left: String,
    /// The other
    #[arg(long, value_name = "DEVICE")]
    right: String,
    /// A rule from left to right; may be given again
    #[arg(long, value_name = "RULE")]
    to_right: Vec<Impairment>,
    /// A rule from right to left; may be given again
    #[arg(long, value_name = "RULE")]
    to_left: Vec<Impairment>,
    /// A rule for both directions, behind those of one; may be given again
    #[arg(long, value_name = "RULE")]
    both: Vec<Impairment>,
    /// Rules and seed from a file (JSON) instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["to_right", "to_left", "both", "seed"])]
    file: Option<PathBuf>,
    /// The same seed and packets have the same fates
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Control frames a second to make up from those that pass to the right
    #[arg(long, value_name = "PPS", default_value_t = 0.0)]
    made_up_right: f64,
    /// Seconds after the first control frame that passed to begin with that
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    made_up_after: f64,
    /// Seconds to go on with it; for ever without
    #[arg(long, value_name = "SECONDS")]
    made_up_for: Option<f64>,
    /// Seconds to send the first hello that passed to the right again, as fast as the port takes it
    #[arg(long, value_name = "SECONDS")]
    replay_right: Option<f64>,
    /// Seconds after that hello to begin with it
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    replay_after: f64,
    /// Write what was done to each packet to this file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Write the counts to this file at the end (JSON)
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    /// Seed of the deployment's hashes, 32 hexadecimal digits
    #[arg(long, value_name = "DIGITS", default_value = "00000000000000000000000000000000", value_parser = hash_seed)]
    hash_seed: [u8; 16],
    /// What to do when there is nothing to do: spin, pause or sleep
    #[arg(long, default_value = "sleep", value_parser = idle)]
    idle: Idle,
}

/// Packet buffers: for what is under way both ways, and the queues of both ports.
const MBUFS: u32 = 65_535;

/// How long the links of both ports may take to come up.
const LINK_PATIENCE: Duration = Duration::from_secs(15);

/// What rules are made of.
const RULES: &str = "\
A RULE is KEY=VALUE,... of:
  only=all|data|control|marker:COPY or a kind of control frame: which packets
  delay_us, jitter_us, jitter_shape=uniform|normal, keep_order=true|false
  rate_mbps, queue_bytes: a link and the queue before it
  loss, burst_packets, burst_loss: shares; bursts of so many packets, in which that share is lost
  duplicate, corrupt: shares
  reorder, reorder_packets, reorder_us: a share that so many overtake, in so much time at most
  hop, dscp, source_mac, destination_mac, vlan_push, vlan_pop: what a router rewrites
Exit codes: 0 done, 1 failed while running, 2 bad usage.";

fn idle(text: &str) -> Result<Idle, String> {
    serde_json::from_value(Value::from(text)).map_err(|error| error.to_string())
}

fn hash_seed(digits: &str) -> Result<[u8; 16], String> {
    let number = u128::from_str_radix(digits, 16).ok();
    let number = number.filter(|_| digits.len() == 32);
    let seed = number.map(u128::to_be_bytes);
    seed.ok_or_else(|| "expected 32 hexadecimal digits".to_owned())
}

/// The DPDK device that a short name stands for.
fn device(text: &str, side: &str) -> String {
    let memif = |socket: &str, role| memif(&format!("_{side}"), role, 0, socket.as_ref());
    match text.split_once(':') {
        Some(("af_packet", interface)) => {
            format!("net_af_packet_{side},iface={interface},framecnt=4096")
        }
        Some(("memif", socket)) => memif(socket, "client"),
        Some(("memif-server", socket)) => memif(socket, "server"),
        _ => text.to_owned(),
    }
}

impl Arguments {
    fn plan(&self) -> Result<Plan> {
        let mut plan = match &self.file {
            Some(file) => Plan::load(file)?,
            None => Plan {
                seed: self.seed,
                ..Plan::default()
            },
        };
        for (direction, rules) in [
            (&mut plan.to_right, &self.to_right),
            (&mut plan.to_left, &self.to_left),
        ] {
            direction.rules.extend(rules.iter().cloned());
            direction.rules.extend(self.both.iter().cloned());
        }
        if self.made_up_right > 0.0 {
            plan.to_right.made_up = MadeUp {
                pps: self.made_up_right,
                after_s: self.made_up_after,
                for_s: self.made_up_for,
            };
        }
        if let Some(for_s) = self.replay_right {
            plan.to_right.replay = Some(Replay {
                after_s: self.replay_after,
                for_s,
            });
        }
        Ok(plan)
    }
}

fn main() -> ExitCode {
    let done = run(&Arguments::parse());
    exit_code("vernier-impair", done.map(|()| true))
}

fn run(arguments: &Arguments) -> Result<()> {
    let stop = stop_on_signals()?;
    let (plan, hasher) = (arguments.plan()?, Hasher::new(arguments.hash_seed));
    let recorder = arguments.record.as_deref().map(Recorder::create);
    let recorder = recorder.transpose().context("no record can be made")?;
    let eal = Eal::init("vernier-impair", &EalOptions::default())?;
    // Not on one CPU alone, where EAL leaves it.
    keep_to_cpus(&allowed_cpus()).context("cannot run on every CPU")?;
    let pool = eal.mempool("impair", MBUFS, 512, 2_048)?;
    let start = |device: String| -> Result<_> {
        let device = eal.attach(&device)?;
        Ok(device.start(&PortConfig::default(), &pool)?)
    };
    let left = start(device(&arguments.left, "left"))?;
    let right = start(device(&arguments.right, "right"))?;
    let no_link = "a port has no link; is there a program at the other end?";
    until(LINK_PATIENCE, &stop, no_link, || {
        Ok((left.link().up && right.link().up).then_some(()))
    })?;
    let rate = TickRate::from_hz(eal.tsc_hz());
    let bridge = Bridge::new([&left, &right], &pool, rate, &plan, hasher, recorder);
    let mut bridge = bridge.context("queues are taken")?;
    // The program that started this one may begin.
    println!("ready");
    let mut idle = IdlePolicy::new(arguments.idle);
    while !stop.load(Ordering::Relaxed) {
        if bridge.pass() {
            idle.worked();
        } else {
            idle.rest();
        }
    }
    let summary = bridge.end().context("the record was not written")?;
    let summary = serde_json::to_string_pretty(&summary)?;
    match &arguments.summary {
        Some(file) => fs::write(file, summary).with_context(|| file.display().to_string())?,
        None => println!("{summary}"),
    }
    Ok(())
}
