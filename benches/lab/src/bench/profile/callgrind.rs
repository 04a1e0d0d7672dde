//! Instructions, counted under valgrind.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::Spent;

/// The thread that spends most in this driver is the worker, which polls. The thread that starts ports only
/// reads the captures.
const DRIVER: &str = "librte_net_pcap";

/// Threads alternate with valgrind's one lock, or the worker would keep it.
const CALLGRIND: &str = "valgrind --tool=callgrind --separate-threads=yes --fair-sched=try \
                         --dump-instr=yes --compress-pos=no --compress-strings=no";

/// What comes before a command to count it: one file is left for each thread, named `out` and a number, with every
/// address in full.
pub fn command(out: &Path) -> Vec<String> {
    let out = format!("--callgrind-out-file={}", out.display());
    let words = CALLGRIND.split_whitespace().map(str::to_owned);
    words.chain([out]).collect()
}

/// What the one worker's thread spent, from the files in `folder`.
pub fn of_the_worker(folder: &Path) -> Result<Vec<Spent>> {
    let mut busiest = (0.0, Vec::new());
    for entry in fs::read_dir(folder).context("cannot read the counts")? {
        let file = entry.context("cannot read the counts")?.path();
        let name = file.file_name().unwrap_or_default();
        if name.as_encoded_bytes().starts_with(b"out-") {
            let open = File::open(&file).context("cannot read the counts")?;
            let spent = parse(BufReader::new(open))?;
            let driver = spent.iter().filter(|spent| spent.object.contains(DRIVER));
            let polling: f64 = driver.map(|spent| spent.amount).sum();
            if polling > busiest.0 {
                busiest = (polling, spent);
            }
        }
    }
    ensure!(
        busiest.0 > 0.0,
        "no thread of it polled a port under valgrind"
    );
    Ok(busiest.1)
}

/// Callgrind's format (<https://valgrind.org/docs/manual/cl-format.html>), uncompressed: lines of
/// `0x<address> <line> <instructions>`, each of the object of the last `ob=`. The line after
/// `calls=` is what the callee spent, which its own lines have.
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
                let object = object.clone();
                spent.push(Spent {
                    object,
                    address,
                    amount,
                });
            }
        } else if let Some(positions) = line.strip_prefix("positions:") {
            ensure!(
                positions.trim() == "instr line",
                "callgrind gave no addresses"
            );
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
