//! Where a packet's time and instructions go, by source file: sampled by `perf`, counted by
//! callgrind.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use serde_json::json;

use crate::bench::{Bench, Input, Memory};
use crate::report::Part;
use crate::vernierd::{Config, Running, Vernierd};

mod callgrind;
mod perf;
mod sources;

/// Something spent at one address of one program or library.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Spent {
    object: String,
    /// The address in it, as its own tables give it.
    address: u64,
    amount: u64,
}

/// Amounts by source.
type BySource = BTreeMap<String, f64>;

/// A source with a smaller share of the whole is shown with the others.
const SHARE_MIN: f64 = 0.01;

/// Packets of the shorter of two runs, at least: each flow of the captures has come by then, both
/// ways. The longer one sends more than twice as many.
const PACKETS_MIN: u64 = 200_000;

/// Instructions of the worker for a packet.
pub fn instructions(bench: &Bench, input: &Input, vernierd: Vernierd) -> Result<f64> {
    let counted = counted(bench, input, vernierd)?;
    Ok(counted.values().sum())
}

/// What each part of vernierd costs a packet, the dearest first.
pub fn parts(bench: &Bench, input: &Input, vernierd: Vernierd) -> Result<Vec<Part>> {
    let ns = sampled(bench, input, vernierd)?;
    let instructions = counted(bench, input, vernierd)?;
    let total = |by_source: &BySource| by_source.values().sum::<f64>();
    let (total_ns, total_instructions) = (total(&ns), total(&instructions));
    let mut sources: Vec<&String> = ns.keys().chain(instructions.keys()).collect();
    sources.sort_unstable();
    sources.dedup();
    let mut rest = (0.0, 0.0);
    let mut parts = Vec::new();
    for source in sources {
        let of = |by_source: &BySource| by_source.get(source).copied().unwrap_or(0.0);
        let (ns, instructions) = (of(&ns), of(&instructions));
        if ns < SHARE_MIN * total_ns && instructions < SHARE_MIN * total_instructions {
            rest = (rest.0 + ns, rest.1 + instructions);
        } else {
            parts.push(part(source, ns, instructions));
        }
    }
    parts.sort_by(|a, b| b.ns.unwrap_or(0.0).total_cmp(&a.ns.unwrap_or(0.0)));
    parts.push(part("the rest", rest.0, rest.1));
    parts.push(part("all", total_ns, total_instructions));
    Ok(parts)
}

fn part(source: &str, ns: f64, instructions: f64) -> Part {
    Part {
        source: source.to_owned(),
        ns: Some(ns),
        instructions: Some(instructions),
    }
}

/// Nanoseconds a packet, by source.
fn sampled(bench: &Bench, input: &Input, vernierd: Vernierd) -> Result<BySource> {
    let config = vernierd.config(bench, input, 1)?;
    let mut running = vernierd.start(bench, &config)?;
    running.rate_pps(bench)?;
    let sampling = perf::Sampling::start(&running.process, bench)?;
    let rate_pps = running.rate_pps(bench)?;
    let spent = sampling.end(bench)?;
    running.end(bench, vernierd.extent)?;
    let samples: u64 = spent.iter().map(|spent| spent.amount).sum();
    let by_source = sources::by_source(bench.vernierd(vernierd.build)?, &spent)?;
    let ns = 1e9 / rate_pps / samples.max(1) as f64;
    Ok(scaled(by_source, ns))
}

/// Instructions a packet, by source: the difference of a longer run and a shorter one, so that
/// neither the start nor new flows count.
fn counted(bench: &Bench, input: &Input, vernierd: Vernierd) -> Result<BySource> {
    let bench = Bench {
        // Valgrind has no hugepages.
        memory: Memory::OrdinaryPages,
        ..bench.clone()
    };
    let mut config = vernierd.config(&bench, input, 1)?;
    // The same hashes in both runs, and no rollover in either.
    config.json["measurement"]["hash_seed"] = json!("000102030405060708090a0b0c0d0e0f");
    config.json["measurement"]["interval_ms"] = json!(60_000);
    let (shorter, fewer) = count(&bench, &config, vernierd, PACKETS_MIN)?;
    let (longer, more) = count(&bench, &config, vernierd, 2 * fewer + PACKETS_MIN)?;
    let mut difference = longer;
    for (source, amount) in shorter {
        *difference.entry(source).or_default() -= amount;
    }
    Ok(scaled(
        difference,
        (more.saturating_sub(fewer) as f64).recip(),
    ))
}

/// Instructions of the worker until `packets` are sent, by source, and the packets that were.
fn count(
    bench: &Bench,
    config: &Config,
    vernierd: Vernierd,
    packets: u64,
) -> Result<(BySource, u64)> {
    let folder = tempfile::tempdir_in(&bench.folder).context("cannot make a folder")?;
    let out = folder.path().join("out");
    let mut valgrind = callgrind::command(bench.vernierd(vernierd.build)?, &out);
    let mut running = Running::start_under(&mut valgrind, folder.path(), config)?;
    running.send(bench, packets)?;
    let sent = running.end(bench, vernierd.extent)?;
    let counts = callgrind::of_the_worker(folder.path())?;
    let program = bench.vernierd(vernierd.build)?;
    Ok((sources::by_source(program, &counts)?, sent))
}

fn scaled(mut by_source: BySource, factor: f64) -> BySource {
    for amount in by_source.values_mut() {
        *amount *= factor;
    }
    by_source
}

/// Whether a program is here.
pub fn is_here(program: &str) -> bool {
    let mut version = Command::new(program);
    version.arg("--version").stdin(Stdio::null());
    let version = version.stdout(Stdio::null()).stderr(Stdio::null());
    version.status().is_ok_and(|status| status.success())
}
