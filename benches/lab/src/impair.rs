//! An impairment box: forwards between two ports as a bad network would.
//!
//! ```text
//!                                rewrite > loss
//!  left ---> class, hash --> arrive ------------> rate limit > delay, jitter --> depart ---> right
//!                                 fates of what is lost   held back packets        |
//!                                        '--------------- transits ----------------'
//!                                                            | ring
//!                                                      a thread that writes
//! ```
//!
//! - [`impairment`]: what is done to packets, from the command line.
//! - [`pipeline`]: one direction; a clock turned by hand is enough to drive it.
//! - [`rewrite`]: what a router would change.
//! - [`mutate`]: control frames made up from those seen, that must be rejected.
//! - [`flood`]: one hello, recorded and sent again as fast as the port takes it.
//! - [`record`]: what was done to each packet, written down by a thread of its own.
//! - [`bridge`]: two DPDK ports and the loop between them.
//!
//! The same seed and the same packets in the same order have the same fates. What it is not: a
//! router. It answers nothing and looks nothing up.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use contract::config::Idle;
use dpdk_bindings::{Eal, EalOptions, PortConfig, allowed_cpus, keep_to_cpus};
use measure::packet::Hasher;
use measure::time::TickRate;
use switch::idle::IdlePolicy;
use testkit::process::{memif, stop_on_signals, until};

use crate::impair::bridge::Bridge;
use crate::impair::impairment::{Direction, Impairment, MadeUp, Plan, Replay};
use crate::impair::record::Recorder;

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
/// reordering, and what a router rewrites.
///
/// Without a rule the box is a plain cable.
#[derive(Debug, Args)]
#[command(after_help = RULES)]
pub struct Arguments {
    /// `af_packet:INTERFACE`, `memif:SOCKET` (as client) or any DPDK device
    #[arg(long, value_name = "DEVICE")]
    left: String,
    /// The other
    #[arg(long, value_name = "DEVICE")]
    right: String,
    /// The rule from left to right
    #[arg(long, value_name = "RULE")]
    to_right: Option<Impairment>,
    /// The rule from right to left
    #[arg(long, value_name = "RULE")]
    to_left: Option<Impairment>,
    /// The rule for both directions
    #[arg(long, value_name = "RULE", conflicts_with_all = ["to_right", "to_left"])]
    both: Option<Impairment>,
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
}

/// Packet buffers: for what is under way both ways, and the queues of both ports.
const MBUFS: u32 = 65_535;

/// How long the links of both ports may take to come up.
const LINK_PATIENCE: Duration = Duration::from_secs(15);

/// What rules are made of.
const RULES: &str = "\
A RULE is KEY=VALUE,... of:
  delay_us, jitter_us: microseconds; packets stay in order
  rate_mbps: a link, with a queue of 1.5 MB before it
  loss: a share
  reorder, reorder_packets: a share that so many others overtake, in a millisecond at most
  hop, dscp, source_mac, destination_mac: what a router rewrites
Exit codes: 0 done, 1 failed while running, 2 bad usage.";

fn hash_seed(digits: &str) -> Result<[u8; 16], String> {
    let number = u128::from_str_radix(digits, 16).ok();
    let number = number.filter(|_| digits.len() == 32);
    let seed = number.map(u128::to_be_bytes);
    seed.ok_or_else(|| "expected 32 hexadecimal digits".to_owned())
}

/// The DPDK device that a short name stands for.
fn device(text: &str, side: &str) -> String {
    match text.split_once(':') {
        Some(("af_packet", interface)) => {
            format!("net_af_packet_{side},iface={interface},framecnt=4096")
        }
        Some(("memif", socket)) => memif(&format!("_{side}"), "client", 0, socket.as_ref()),
        _ => text.to_owned(),
    }
}

impl Arguments {
    fn plan(&self) -> Plan {
        let direction = |rule: Option<&Impairment>| Direction {
            rule: rule.or(self.both.as_ref()).cloned().unwrap_or_default(),
            ..Direction::default()
        };
        let mut plan = Plan {
            seed: self.seed,
            to_right: direction(self.to_right.as_ref()),
            to_left: direction(self.to_left.as_ref()),
        };
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
        plan
    }
}

/// Forwards until it is interrupted.
pub fn run(arguments: &Arguments) -> Result<bool> {
    let stop = stop_on_signals()?;
    let (plan, hasher) = (arguments.plan(), Hasher::new(arguments.hash_seed));
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
    let mut idle = IdlePolicy::new(Idle::Sleep);
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
    Ok(true)
}
