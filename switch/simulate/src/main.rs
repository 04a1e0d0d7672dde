//! `vernier-simulate`: worlds with faults, one seed after the other, until a rule is broken or the time is up.
#![forbid(unsafe_code)]

use std::fmt::{self, Write as _};
use std::num::NonZero;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use clap::Parser;
use contract::text::say;
use simulate::outcome::{Figures, Outcome};
use simulate::{fleet, world};

/// Simulates switches in worlds with faults, by seeds. Exits with 1 if a rule was broken.
#[derive(Debug, Parser)]
#[command(name = "vernier-simulate", version)]
struct Options {
    /// Run only this seed, and print its events, to replay a violation.
    #[arg(long)]
    seed: Option<u64>,
    /// Hours of wall time.
    #[arg(long, default_value_t = 0.0)]
    hours: f64,
    /// Further minutes of wall time.
    #[arg(long, default_value_t = 0.0)]
    minutes: f64,
    /// The first seed; the others follow.
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// Number of parallel worlds [default: one for each CPU].
    #[arg(long)]
    threads: Option<NonZero<usize>>,
    /// Expect a violation: exit with 0 if one is found, otherwise with 1.
    #[arg(long)]
    expect_violation: bool,
    /// Simulate a fleet that reports to stations, with hostile senders, instead of switches with traffic.
    #[arg(long)]
    fleet: bool,
    /// Enable the planted bug with this name; not in a release build.
    #[arg(long)]
    planted: Option<String>,
}

/// Sums over worlds.
#[derive(Debug, Default)]
struct Sums {
    seeds: u64,
    figures: Figures,
    broken: Vec<(u64, Outcome)>,
}

impl Sums {
    fn add(&mut self, seed: u64, outcome: Outcome) {
        self.seeds += 1;
        self.figures.add(&outcome.figures);
        if outcome.violation.is_some() {
            self.broken.push((seed, outcome));
        }
    }
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    enable(options.planted.as_deref())?;
    let wall = Duration::from_secs_f64(options.hours * 3_600.0 + options.minutes * 60.0);
    let key = simulate::key_file().context("no file for a key")?;
    let began = Instant::now();
    let mut text = String::new();
    let sums = match options.seed {
        Some(seed) => {
            let mut sums = Sums::default();
            let outcome = options.live(seed, key.path())?;
            writeln!(text, "seed {seed}: hash {:016x}", outcome.hash)?;
            sums.add(seed, outcome);
            sums
        }
        None => run(&options, key.path(), began + wall)?,
    };
    table(&sums, began.elapsed(), &mut text)?;
    let mut is_broken = false;
    if let Some((seed, outcome)) = sums.broken.iter().min_by_key(|(seed, _)| *seed) {
        is_broken = true;
        options.tell(*seed, outcome, &mut text)?;
    }
    if let Err(violation) = sums.figures.coverage.check() {
        is_broken = true;
        writeln!(text, "VIOLATION of {}: {}", violation.rule, violation.what)?;
    }
    say(&text)?;
    // Fails unless a violation was found exactly if one was expected.
    Ok(u8::from(is_broken != options.expect_violation).into())
}

/// Enables the requested planted bug.
fn enable(name: Option<&str>) -> Result<()> {
    let Some(name) = name else { return Ok(()) };
    anyhow::ensure!(
        cfg!(debug_assertions),
        "a release build has no planted bugs: build with `cargo build`"
    );
    anyhow::ensure!(
        measure::planted::enable(name),
        "there is no planted bug {name}"
    );
    Ok(())
}

impl Options {
    /// Runs one world from beginning to end. A panic is a violation, too, because the seed must be reported.
    fn live(&self, seed: u64, key: &Path) -> Result<Outcome> {
        let lived = std::panic::catch_unwind(|| -> Result<Outcome> {
            if self.fleet {
                return Ok(fleet::World::new(seed).run()?);
            }
            let world = world::World::new(seed, key).map_err(anyhow::Error::msg)?;
            Ok(world.run())
        });
        let outcome = lived.unwrap_or_else(|_| Err(anyhow!("it panicked")));
        outcome.with_context(|| format!("seed {seed}; {}", self.replay(seed)))
    }

    fn replay(&self, seed: u64) -> String {
        let fleet = if self.fleet { " FLEET=1" } else { "" };
        let planted = self.planted.as_ref();
        let planted = planted.map_or_else(String::new, |bug| format!(" PLANTED={bug}"));
        format!("replay: make simulate{fleet} SEED={seed}{planted}")
    }

    fn tell(&self, seed: u64, outcome: &Outcome, text: &mut String) -> fmt::Result {
        for event in &outcome.events {
            writeln!(text, "  {event}")?;
        }
        if let Some(violation) = &outcome.violation {
            writeln!(
                text,
                "VIOLATION of {} in seed {seed} at {:.6} s: {}",
                violation.rule, outcome.figures.simulated_s, violation.what
            )?;
        }
        writeln!(text, "{}", self.replay(seed))
    }
}

/// Runs one world for each thread, until `end` or a violation.
fn run(options: &Options, key: &Path, end: Instant) -> Result<Sums> {
    let threads = options.threads.map_or_else(available_parallelism, Ok)?;
    let (next, is_over) = (AtomicU64::new(options.first_seed), AtomicBool::new(false));
    let sums = Mutex::new(Sums::default());
    let work = || -> Result<()> {
        while Instant::now() < end && !is_over.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            let outcome = options.live(seed, key)?;
            is_over.fetch_or(outcome.violation.is_some(), Ordering::Relaxed);
            sums.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .add(seed, outcome);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads.get()).map(|_| scope.spawn(work)).collect();
        started
            .into_iter()
            .try_for_each(|thread| match thread.join() {
                Ok(result) => result,
                Err(_) => Err(anyhow!(
                    "a world panicked; its seed is one of the last {threads}"
                )),
            })
    })?;
    Ok(sums.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn table(sums: &Sums, wall: Duration, text: &mut String) -> fmt::Result {
    let (wall_s, figures) = (wall.as_secs_f64(), &sums.figures);
    let simulated_s = figures.simulated_s;
    writeln!(text, "seeds               {:>14}", sums.seeds)?;
    writeln!(text, "simulated hours     {:>14.3}", simulated_s / 3_600.0)?;
    writeln!(
        text,
        "wall time, s        {wall_s:>14.1}   ({:.0} times real time)",
        simulated_s / wall_s
    )?;
    for (what, times) in &figures.counts {
        writeln!(text, "{:<20}{times:>14}", what.label())?;
    }
    for (fault, times) in &figures.faults {
        writeln!(text, "  {fault:<18}{times:>14}")?;
    }
    for (kind, (excluded, all)) in &figures.coverage.0 {
        writeln!(
            text,
            "  bounds of {kind}: {excluded} of {all} exclude the true value"
        )?;
    }
    writeln!(text, "violations          {:>14}", sums.broken.len())
}
