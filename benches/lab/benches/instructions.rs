//! What measuring costs on the fast path, in instructions per packet, counted by callgrind: the
//! same on every run and on busy machines, where times are not. Beside it a quick look at the time,
//! the best of some runs.
//!
//! Each piece runs in a process of its own under valgrind, for so many bursts and for none; what
//! preparing costs falls out of the difference.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use lab::fastpath::{BURST, Case, cases};

/// Bursts counted.
const BURSTS: u64 = 500;
/// Bursts before them: they meet every flow of the cases with few.
const WARM_UP_BURSTS: u64 = 200;
/// Runs timed, and bursts of each.
const RUNS: usize = 15;
const RUN_BURSTS: u32 = 3_200;

/// What the process under valgrind is asked for: the case and the bursts.
const CHILD: &str = "--bursts-of";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, case, bursts] = &arguments[..]
        && flag == CHILD
    {
        return run(case, bursts.parse()?);
    }
    // Cargo passes flags of its own; the rest are parts of names, as criterion takes them.
    let wanted: Vec<_> = arguments
        .iter()
        .filter(|word| !word.starts_with("--"))
        .collect();
    println!(
        "{:<56} {:>8} {:>8} {:>13}",
        "per packet", "guide ns", "ns", "instructions"
    );
    for case in &cases() {
        if !wanted.is_empty() && !wanted.iter().any(|word| case.name.contains(word.as_str())) {
            continue;
        }
        let instructions = count(case)?;
        let guide = case
            .guide_ns
            .map(|guide| guide.to_string())
            .unwrap_or_default();
        println!(
            "{:<56} {guide:>8} {:>8.2} {instructions:>13.1}",
            case.name,
            time_ns(case)
        );
    }
    Ok(())
}

/// Runs a case, warm-up included.
fn run(name: &str, bursts: u64) -> Result<()> {
    let case = cases().into_iter().find(|case| case.name == name);
    let mut work = (case
        .with_context(|| format!("no case is called '{name}'"))?
        .prepare)();
    for _ in 0..WARM_UP_BURSTS + bursts {
        work();
    }
    Ok(())
}

/// The best of some runs, in nanoseconds a packet.
fn time_ns(case: &Case) -> f64 {
    let mut work = (case.prepare)();
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        for _ in 0..RUN_BURSTS {
            work();
        }
        best = best.min(start.elapsed().as_secs_f64());
    }
    best * 1e9 / (f64::from(RUN_BURSTS) * BURST as f64)
}

/// Instructions a packet.
fn count(case: &Case) -> Result<f64> {
    let (with, without) = (collected(case, BURSTS)?, collected(case, 0)?);
    Ok(with.saturating_sub(without) as f64 / (BURSTS * BURST as u64) as f64)
}

/// Instructions of a whole process, by valgrind's summary on standard error.
fn collected(case: &Case, bursts: u64) -> Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args([CHILD, &case.name, &bursts.to_string()])
        .output()
        .context("valgrind does not run; install it (apt install valgrind) and try again")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "'{}' failed under valgrind:\n{said}",
        case.name
    );
    let summary = said.lines().find_map(|line| line.split_once("Collected :"));
    let Some((_, number)) = summary else {
        bail!("no instruction count in the output of valgrind:\n{said}");
    };
    Ok(number.trim().parse()?)
}
