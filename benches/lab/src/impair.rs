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
//! - [`rule`]: the impairments, from the command line.
//! - [`pipeline`]: one direction; a simulated clock is enough to drive it.
//! - [`rewrite`]: changes made by a router.
//! - [`mutate`]: control frames forged from genuine ones, which must be rejected.
//! - [`flood`]: one hello, recorded and sent again as fast as the port takes it.
//! - [`record`]: the record of each packet, written by a separate thread.
//! - [`bridge`]: two DPDK ports and the loop between them.
//!
//! The same seed and the same packets in the same order have the same fates. It is not a router: it answers nothing and
//! looks nothing up.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use contract::config::Idle;
use dpdk_bindings::{EalOptions, allowed_cpus};
use measure::packet::Hasher;
use switch::idle::IdlePolicy;
use testkit::process::{is_interrupted, memif, stop_on_signals};

use crate::impair::bridge::Bridge;
use crate::impair::flood::Replay;
use crate::impair::mutate::MadeUp;
use crate::impair::record::Recorder;
pub use crate::impair::rule::Rule;
use crate::ports::with_ports;

mod bridge;
mod flood;
mod mutate;
mod pipeline;
mod record;
mod rewrite;
mod rule;
#[cfg(test)]
mod tests;

/// Forward between two ports like a bad network, with delay, jitter, a rate limit, loss, reordering, and a router's
/// changes.
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
    #[command(flatten)]
    plan: Plan,
    /// Write a record of each packet to this file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Write the counts to this file at the end (JSON)
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
    /// Seed of the deployment's hashes, 32 hexadecimal digits
    #[arg(long, value_name = "DIGITS", default_value = "00000000000000000000000000000000", value_parser = hash_seed)]
    hash_seed: [u8; 16],
}

/// The actions of the box.
#[derive(Debug, Clone, Default, Args)]
pub struct Plan {
    /// The rule from left to right
    #[arg(long, value_name = "RULE")]
    to_right: Option<Rule>,
    /// The rule from right to left
    #[arg(long, value_name = "RULE")]
    to_left: Option<Rule>,
    /// The rule for both directions
    #[arg(long, value_name = "RULE", conflicts_with_all = ["to_right", "to_left"])]
    both: Option<Rule>,
    /// The same seed and packets have the same fates
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    made_up: MadeUp,
    #[command(flatten)]
    replay: Replay,
}

/// Format of rules.
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

/// The DPDK device of a short name.
fn device(text: &str, side: &str) -> String {
    match text.split_once(':') {
        Some(("af_packet", interface)) => {
            format!("net_af_packet_{side},iface={interface},framecnt=4096")
        }
        Some(("memif", socket)) => memif(&format!("_{side}"), "client", 0, socket.as_ref()),
        _ => text.to_owned(),
    }
}

/// Forwards until it is interrupted.
pub fn run(arguments: &Arguments) -> Result<bool> {
    stop_on_signals()?;
    let recorder = arguments.record.as_deref().map(Recorder::create);
    let recorder = recorder.transpose().context("cannot create the record")?;
    let devices = [
        device(&arguments.left, "left"),
        device(&arguments.right, "right"),
    ];
    // Use all CPUs; EAL leaves the thread on one.
    let (cpus, options) = (allowed_cpus(), EalOptions::default());
    let summary = with_ports(&devices, &options, &cpus, |ports, pool| {
        let hasher = Hasher::new(arguments.hash_seed);
        let mut bridge = Bridge::new(ports, pool, &arguments.plan, hasher, recorder);
        // Tell the parent process that the box is ready.
        println!("ready");
        let mut idle = IdlePolicy::new(Idle::Sleep);
        while !is_interrupted() {
            if bridge.pass() {
                idle.worked();
            } else {
                idle.rest();
            }
        }
        bridge.end().context("the record was not written")
    })?;
    let summary = serde_json::to_string_pretty(&summary)?;
    match &arguments.summary {
        Some(file) => fs::write(file, summary).with_context(|| file.display().to_string())?,
        None => println!("{summary}"),
    }
    Ok(true)
}
