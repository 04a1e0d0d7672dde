//! `vernier-impair`: an impairment box between two ports.
#![forbid(unsafe_code)]

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use contract::config::Idle;
use dpdk_bindings::{Eal, EalOptions, PortConfig, allowed_cpus, keep_to_cpus};
use impair::bridge::{Bridge, Setting};
use impair::impairment::{Impairment, MadeUp, Plan, Replay};
use impair::record::Recorder;
use measure::packet::Hasher;
use measure::time::TickRate;
use switch::idle::IdlePolicy;
use testkit::frames::ETHERTYPE;
use testkit::process::{stop_on_signals, until};

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
    /// Control frames a second to make up from those that pass to the left
    #[arg(long, value_name = "PPS", default_value_t = 0.0)]
    made_up_left: f64,
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
    /// `EtherType` of control frames
    #[arg(long, default_value_t = ETHERTYPE)]
    ethertype: u16,
    /// Packets under way in each direction, at most
    #[arg(long, default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(1..=1_048_576))]
    room: u32,
    /// Seconds to go on; for ever without
    #[arg(long, value_name = "SECONDS")]
    duration: Option<f64>,
    /// CPU to run on; by default any
    #[arg(long)]
    core: Option<usize>,
    /// What to do when there is nothing to do
    #[arg(long, default_value = "sleep")]
    idle: Rest,
    /// MTU of the ports
    #[arg(long, default_value_t = 1_500, value_parser = clap::value_parser!(u16).range(68..=9_000))]
    mtu: u16,
    /// Further argument for EAL; may be given again
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    eal: Vec<String>,
}

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

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Rest {
    Spin,
    Pause,
    Sleep,
}

impl From<Rest> for Idle {
    fn from(rest: Rest) -> Self {
        match rest {
            Rest::Spin => Self::Spin,
            Rest::Pause => Self::Pause,
            Rest::Sleep => Self::Sleep,
        }
    }
}

fn hash_seed(digits: &str) -> Result<[u8; 16], String> {
    let number = u128::from_str_radix(digits, 16).ok();
    let number = number.filter(|_| digits.len() == 32);
    let seed = number.map(u128::to_be_bytes);
    seed.ok_or_else(|| "expected 32 hexadecimal digits".to_owned())
}

/// The DPDK device that a short name stands for.
fn device(text: &str, side: &str) -> String {
    let memif = |socket: &str, role: &str| {
        format!("net_memif_{side},role={role},id=0,socket={socket},socket-abstract=no,rsize=14")
    };
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
        for (direction, rules, made_up) in [
            (&mut plan.to_right, &self.to_right, self.made_up_right),
            (&mut plan.to_left, &self.to_left, self.made_up_left),
        ] {
            direction.rules.extend(rules.iter().cloned());
            direction.rules.extend(self.both.iter().cloned());
            if made_up > 0.0 {
                direction.made_up = MadeUp {
                    pps: made_up,
                    after_s: self.made_up_after,
                    for_s: self.made_up_for,
                };
            }
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
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("vernier-impair: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let stop = stop_on_signals()?;
    let setting = Setting {
        plan: arguments.plan()?,
        hasher: Hasher::new(arguments.hash_seed),
        ethertype: arguments.ethertype,
        room: arguments.room as usize,
    };
    let recorder = arguments.record.as_deref().map(Recorder::create);
    let recorder = recorder.transpose().context("no record can be made")?;
    let mbufs = (2 * arguments.room + 32_767).next_power_of_two() - 1;
    let data_room = arguments.mtu.max(1_500) + 548;
    let memory_mib = 128 + ((u64::from(mbufs) * (u64::from(data_room) + 320)) >> 19);
    let options = EalOptions {
        hugepages: false,
        memory_mib: u32::try_from(memory_mib)?,
        pci: false,
        extra: arguments.eal.clone(),
    };
    let eal = Eal::init("vernier-impair", &options)?;
    let cpus = arguments.core.map_or_else(allowed_cpus, |core| vec![core]);
    keep_to_cpus(&cpus).with_context(|| format!("cannot keep to CPUs {cpus:?}"))?;
    let pool = eal.mempool("impair", mbufs, 512, data_room)?;
    let config = PortConfig {
        mtu: arguments.mtu,
        ..PortConfig::default()
    };
    let start = |device: String| -> Result<_> { Ok(eal.attach(&device)?.start(&config, &pool)?) };
    let left = start(device(&arguments.left, "left"))?;
    let right = start(device(&arguments.right, "right"))?;
    let no_link = "a port has no link; is there a program at the other end?";
    until(LINK_PATIENCE, &stop, no_link, || {
        Ok((left.link().up && right.link().up).then_some(()))
    })?;
    let rate = TickRate::from_hz(eal.tsc_hz());
    let bridge = Bridge::new([&left, &right], &pool, rate, &setting, recorder);
    let mut bridge = bridge.context("queues are taken")?;
    // The program that started this one may begin.
    println!("ready");
    let until = arguments.duration.map(Duration::from_secs_f64);
    let until = until.map(|duration| Instant::now() + duration);
    let mut idle = IdlePolicy::new(arguments.idle.into());
    let mut passes = 0_u32;
    while !stop.load(Ordering::Relaxed) {
        if bridge.pass() {
            idle.worked();
        } else {
            idle.rest();
        }
        passes = passes.wrapping_add(1);
        if passes.is_multiple_of(256) && until.is_some_and(|until| Instant::now() >= until) {
            break;
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
