//! The cost of measuring on the fast path in instructions per packet, counted by callgrind, which unlike times does not
//! vary between runs or with load. In addition it takes the time, the best of several runs.
//!
//! Each part runs in a process of its own under valgrind, with a number of bursts and with none; the difference
//! excludes the preparation.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};
use reporting::Table;
use testkit::process::output;

use crate::bench::fastpath::{BURST, Case, cases};
use crate::bench::profile;

/// Bursts counted.
const BURSTS: u64 = 500;
/// Warm-up bursts, which contain every flow of the cases with few flows.
const WARM_UP_BURSTS: u64 = 200;
/// Runs timed, and bursts of each.
const RUNS: usize = 15;
const RUN_BURSTS: u32 = 3_200;

/// A table of the cases whose names contain one of these words, or of all cases without words.
pub fn run(words: &[String]) -> Result<Table> {
    let mut table =
        Table::default()
            .words(["per packet"])
            .figures(["guide ns", "ns", "instructions"]);
    let is_wanted = |case: &Case| words.iter().any(|word| case.name.contains(word));
    for case in cases() {
        if words.is_empty() || is_wanted(&case) {
            eprintln!("{} ...", case.name);
            let guide_ns = case.guide_ns.map(|guide| guide.to_string());
            let instructions = (collected(&case, BURSTS)? - collected(&case, 0)?) / packets(BURSTS);
            table.row(&[
                &case.name,
                &guide_ns.unwrap_or_default(),
                &format!("{:.2}", time_ns(&case)),
                &format!("{instructions:.1}"),
            ]);
        }
    }
    Ok(table)
}

fn packets(bursts: u64) -> f64 {
    (bursts * BURST as u64) as f64
}

/// Runs a case in the counted process, including warm-up.
pub fn work(name: &str, bursts: u64) -> Result<()> {
    let case = cases().into_iter().find(|case| case.name == name);
    let case = case.with_context(|| format!("there is no case '{name}'"))?;
    let mut work = (case.prepare)();
    for _ in 0..WARM_UP_BURSTS + bursts {
        work();
    }
    Ok(())
}

/// The best of several runs, in nanoseconds per packet.
fn time_ns(case: &Case) -> f64 {
    let mut work = (case.prepare)();
    let runs = (0..RUNS).map(|_| {
        let start = Instant::now();
        for _ in 0..RUN_BURSTS {
            work();
        }
        start.elapsed().as_secs_f64()
    });
    runs.fold(f64::INFINITY, f64::min) * 1e9 / packets(RUN_BURSTS.into())
}

/// Instructions of a whole process.
fn collected(case: &Case, bursts: u64) -> Result<f64> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(profile::callgrind(&folder.path().join("out")))
        .arg(std::env::current_exe()?)
        .args([
            "bench",
            "micro",
            &case.name,
            "--bursts",
            &bursts.to_string(),
        ]);
    output(&mut valgrind).context("valgrind is in the Debian package valgrind")?;
    let threads = profile::threads(folder.path())?;
    Ok(threads.iter().flatten().map(|spent| spent.amount).sum())
}
