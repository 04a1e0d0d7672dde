//! Profiles a packet's time, sampled by `perf`, and instructions, counted by callgrind.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use reporting::Table;
use serde_json::json;

use crate::bench::contender::Program;
use crate::bench::load::{COUNTED, SMALL};
use crate::bench::setting::Bench;
use crate::bench::vernierd::Vernierd;

mod perf;
mod sources;

pub use sources::Division;
use sources::by_source;

/// Time or instructions spent at one address of a program or library.
#[derive(Debug, Clone, PartialEq)]
pub struct Spent {
    object: String,
    /// The address according to the file's own tables.
    address: u64,
    pub amount: f64,
}

/// Minimum number of packets of the shorter of two runs, enough for each flow of the captures in both directions. The
/// longer run sends more than twice as many.
const PACKETS_MIN: u64 = 100_000;

/// Instructions per packet of the forwarding thread.
pub fn instructions(bench: &Bench, program: Program) -> Result<f64> {
    let counted = counted(bench, program)?;
    Ok(counted.iter().map(|spent| spent.amount).sum())
}

/// The cost of each part of vernierd per packet, the most expensive first.
pub fn parts(bench: &Bench, vernierd: Vernierd, division: Division) -> Result<Table> {
    let program = bench.vernierd(vernierd.is_base)?;
    let ns = by_source(program, &sampled(bench, vernierd)?, division)?;
    let instructions = counted(bench, Program::Vernierd(vernierd))?;
    let instructions = by_source(program, &instructions, division)?;
    let total: [f64; 2] = [ns.values().sum(), instructions.values().sum()];
    // Sources with a smaller share of the total are shown together.
    let share_min = match division {
        Division::File => 0.01,
        Division::Function | Division::Line => 0.002,
    };
    let mut rest = [0.0; 2];
    let mut parts = Vec::new();
    let sources: BTreeSet<&String> = ns.keys().chain(instructions.keys()).collect();
    for source in sources {
        let of = [&ns, &instructions].map(|of| of.get(source).copied().unwrap_or(0.0));
        let is_small = |n: usize| of[n] < share_min * total[n];
        if is_small(0) && is_small(1) {
            rest = [rest[0] + of[0], rest[1] + of[1]];
        } else {
            parts.push((&**source, of));
        }
    }
    parts.sort_by(|(_, a), (_, b)| b[0].total_cmp(&a[0]));
    parts.extend([("the rest", rest), ("all", total)]);
    let mut table = Table::default()
        .words(["per packet"])
        .figures(["ns", "instructions"]);
    for (source, [ns, instructions]) in parts {
        table.row(&[&source, &format!("{ns:.1}"), &format!("{instructions:.0}")]);
    }
    Ok(table)
}

/// Nanoseconds a packet.
fn sampled(bench: &Bench, vernierd: Vernierd) -> Result<Vec<Spent>> {
    let config = vernierd.config(bench, SMALL, 1)?;
    let mut running = vernierd.start(bench, &config, &[])?;
    running.rate_pps(bench)?;
    let sampling = perf::Sampling::start(&running.process, bench)?;
    let rate_pps = running.rate_pps(bench)?;
    let mut spent = sampling.end()?;
    running.end(vernierd.extent)?;
    let samples: f64 = spent.iter().map(|spent| spent.amount).sum();
    for spent in &mut spent {
        spent.amount *= 1e9 / rate_pps / samples;
    }
    Ok(spent)
}

/// Instructions per packet: the difference between a longer and a shorter run, so that neither the start nor new flows
/// count.
fn counted(bench: &Bench, program: Program) -> Result<Vec<Spent>> {
    let bench = Bench {
        // Valgrind has no hugepages.
        hugepages: false,
        ..bench.clone()
    };
    let (shorter, fewer) = count(&bench, program, PACKETS_MIN)?;
    let (longer, more) = count(&bench, program, 2 * fewer + PACKETS_MIN)?;
    let packets = more.saturating_sub(fewer) as f64;
    let mut by_address = BTreeMap::<(String, u64), f64>::new();
    for (spent, sign) in [(longer, 1.0), (shorter, -1.0)] {
        for spent in spent {
            let address = (spent.object, spent.address);
            *by_address.entry(address).or_default() += sign * spent.amount / packets;
        }
    }
    let spent = |((object, address), amount)| Spent {
        object,
        address,
        amount,
    };
    Ok(by_address.into_iter().map(spent).collect())
}

/// Instructions of the forwarding thread until `packets` are sent, and the number of packets sent.
fn count(bench: &Bench, program: Program, packets: u64) -> Result<(Vec<Spent>, u64)> {
    let folder = tempfile::tempdir_in(&bench.folder).context("cannot make a folder")?;
    let callgrind = callgrind(&folder.path().join("out"));
    let valgrind = [&["valgrind".to_owned()], &*callgrind].concat();
    let sent = match program {
        Program::Vernierd(vernierd) => {
            let mut config = vernierd.config(bench, COUNTED, 1)?;
            // The same hashes in both runs, and no rollover in either.
            config["measurement"]["hash_seed"] = json!("000102030405060708090a0b0c0d0e0f");
            config["measurement"]["interval_ms"] = json!(60_000);
            let mut running = vernierd.start(bench, &config, &valgrind)?;
            running.send(packets)?;
            running.end(vernierd.extent)
        }
        Program::Testpmd(testpmd) => testpmd.send(bench, COUNTED, &valgrind, packets),
        Program::OpenVSwitch(_) => bail!("Open vSwitch's instructions are not counted"),
    }?;
    Ok((of_the_worker(folder.path())?, sent))
}

/// The thread with the most instructions in this driver is the polling worker. The thread that starts ports only reads
/// the captures.
const DRIVER: &str = "librte_net_pcap";

/// Makes threads alternate; otherwise the worker would keep valgrind's only lock.
const CALLGRIND: &str = "--tool=callgrind --separate-threads=yes --fair-sched=try \
                         --dump-instr=yes --compress-pos=no --compress-strings=no";

/// Valgrind's arguments to count a program: it writes one file for each thread, named `out` and a number, with complete
/// addresses.
pub fn callgrind(out: &Path) -> Vec<String> {
    let out = format!("--callgrind-out-file={}", out.display());
    let words = CALLGRIND.split_whitespace().map(str::to_owned);
    words.chain([out]).collect()
}

/// Instructions of each thread, from the files in `folder`.
pub fn threads(folder: &Path) -> Result<Vec<Vec<Spent>>> {
    let files = fs::read_dir(folder).context("cannot read the counts")?;
    let files = files.flatten().map(|entry| entry.path());
    let is_of_thread = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default();
        name.as_encoded_bytes().starts_with(b"out-")
    };
    let parsed = files.filter(is_of_thread).map(|file| {
        let open = File::open(&file).context("cannot read the counts")?;
        parse(BufReader::new(open))
    });
    parsed.collect()
}

/// Instructions of the only worker's thread, from the files in `folder`.
fn of_the_worker(folder: &Path) -> Result<Vec<Spent>> {
    let polling = |spent: &Vec<Spent>| -> f64 {
        let driver = spent.iter().filter(|spent| spent.object.contains(DRIVER));
        driver.map(|spent| spent.amount).sum()
    };
    let polled = threads(folder)?
        .into_iter()
        .filter(|spent| polling(spent) > 0.0);
    let busiest = polled.max_by(|a, b| polling(a).total_cmp(&polling(b)));
    busiest.context("no thread of it polled a port under valgrind")
}

/// Callgrind's format (<https://valgrind.org/docs/manual/cl-format.html>), uncompressed: lines of `0x<address> <line>
/// <instructions>`, each for the object of the last `ob=`. The line after `calls=` has the callee's cost, which its own
/// lines include.
fn parse(file: impl BufRead) -> Result<Vec<Spent>> {
    let (mut object, mut is_call, mut spent) = (String::new(), false, Vec::new());
    for line in file.lines() {
        let line = line.context("cannot read the counts")?;
        if let Some(name) = line.strip_prefix("ob=") {
            name.clone_into(&mut object);
        } else if line.starts_with("calls=") {
            is_call = true;
        } else if let Some(figures) = line.strip_prefix("0x") {
            if !std::mem::take(&mut is_call) {
                let mut figures = figures.split(' ');
                let address = figures.next().map(|hex| u64::from_str_radix(hex, 16));
                let amount = figures.nth(1).map(str::parse);
                let (Some(Ok(address)), Some(Ok(amount))) = (address, amount) else {
                    bail!("callgrind wrote a line not understood: {line}");
                };
                spent.push(Spent {
                    object: object.clone(),
                    address,
                    amount,
                });
            }
        } else if let Some(positions) = line.strip_prefix("positions:") {
            let has_addresses = positions.trim() == "instr line";
            ensure!(has_addresses, "callgrind gave no addresses");
        }
    }
    Ok(spent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_of_callees_are_not_counted_twice() {
        let file = "version: 1\npositions: instr line\nevents: Ir\n\nob=/bin/a\nfl=a.c\nfn=main\n\
                    0x1040 16 400\ncfn=f\ncalls=1 0x2000 50\n0x1044 16 500\nob=/lib/b.so\nfn=f\n\
                    0x2000 51 100\n";
        let spent = parse(file.as_bytes()).unwrap();
        let found: Vec<_> = spent
            .iter()
            .map(|s| (&*s.object, s.address, s.amount))
            .collect();
        assert_eq!(
            found,
            [("/bin/a", 0x1040, 400.0), ("/lib/b.so", 0x2000, 100.0)]
        );
        assert!(parse(&b"0x1040 what\n"[..]).is_err());
        assert!(parse(&b"positions: line\n"[..]).is_err());
    }
}
