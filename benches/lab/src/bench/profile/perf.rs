//! Time, sampled by `perf` with the CPU's clock: virtual machines rarely have counters.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use testkit::process::{Process, output};

use super::Spent;
use crate::bench::setting::Bench;

/// Samples a second: a prime, out of step with whatever else is periodic.
const RATE_HZ: u32 = 1_999;

/// A running `perf` on the busiest thread of a process.
pub struct Sampling {
    perf: Process,
    data: PathBuf,
    maps: Vec<Mapping>,
}

impl Sampling {
    pub fn start(process: &Process, bench: &Bench) -> Result<Self> {
        let id = process.child.id();
        let data = bench.folder.join("perf.data");
        let of_process = Path::new("/proc").join(id.to_string());
        let maps = fs::read_to_string(of_process.join("maps")).context("cannot read its maps")?;
        let thread = busiest_thread(&of_process.join("task"))?;
        let mut perf = Command::new("perf");
        perf.args(["record", "--quiet", "--event=cpu-clock"])
            .arg(format!("--freq={RATE_HZ}"))
            .arg(format!("--tid={thread}"))
            .arg(format!("--output={}", data.display()));
        let perf = perf.stdin(Stdio::null()).stdout(Stdio::null());
        Ok(Self {
            perf: Process::start(perf.stderr(Stdio::null()))
                .context("perf is in the Debian package linux-perf")?,
            data,
            maps: maps.lines().filter_map(Mapping::parse).collect(),
        })
    }

    /// Stops it; returns its samples.
    pub fn end(mut self) -> Result<Vec<Spent>> {
        self.perf.terminate();
        // On the signal it writes its samples and exits.
        let _ = self.perf.wait();
        let mut script = Command::new("perf");
        script.args(["script", "--fields=ip", "--input"]);
        let addresses = output(script.arg(&self.data))?;
        let addresses = addresses.split_whitespace();
        let addresses = addresses.filter_map(|hex| u64::from_str_radix(hex, 16).ok());
        let spent: Vec<Spent> = addresses.map(|at| locate(&self.maps, at)).collect();
        ensure!(!spent.is_empty(), "perf took no sample");
        Ok(spent)
    }
}

/// The thread that used most CPU time so far, by `/proc/<process>/task/<thread>/stat`.
fn busiest_thread(tasks: &Path) -> Result<String> {
    let entries = fs::read_dir(tasks).context("cannot read its threads")?;
    let thread = entries.flatten().filter_map(|entry| {
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        Some((user_time(&stat)?, entry.file_name()))
    });
    let (_, thread) = thread.max().context("it has no thread")?;
    Ok(thread.to_string_lossy().into_owned())
}

/// Field 14 of proc(5)'s `stat`, counted after the name, which may hold anything.
fn user_time(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(11)?.parse().ok()
}

/// A file in memory.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    file: String,
}

impl Mapping {
    /// A line of `/proc/<process>/maps`, if it is of a file or named.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let offset = fields.nth(1)?;
        let file = fields.nth(2)?.to_owned();
        let hex = |digits| u64::from_str_radix(digits, 16).ok();
        Some(Self {
            start: hex(start)?,
            end: hex(end)?,
            offset: hex(offset)?,
            file,
        })
    }
}

/// Returns the file of an address, and the address in the file's own tables: its offset from the mapping of the file's
/// beginning.
fn locate(maps: &[Mapping], address: u64) -> Spent {
    let find = |is_it: &dyn Fn(&&Mapping) -> bool| maps.iter().find(is_it);
    let found = find(&|map| (map.start..map.end).contains(&address));
    let first = found.and_then(|found| find(&|map| map.file == found.file && map.offset == 0));
    Spent {
        object: found.map_or_else(|| "kernel".to_owned(), |found| found.file.clone()),
        address: address - first.map_or(0, |first| first.start),
        amount: 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_the_file() {
        let maps = "55d0c0000000-55d0c0100000 r--p 00000000 fe:00 123 /bin/vernierd\n\
                    55d0c0100000-55d0c0300000 r-xp 000ff000 fe:00 123 /bin/vernierd\n\
                    7f0000000000-7f0000001000 rw-p 00000000 00:00 0\n\
                    7ffc00000000-7ffc00001000 r-xp 00000000 00:00 0 [vdso]";
        let maps: Vec<Mapping> = maps.lines().filter_map(Mapping::parse).collect();
        assert_eq!(maps.len(), 3);
        let found = [0x55d0_c010_0010, 0x7ffc_0000_0123, 0xffff_ffff_8000_0000]
            .map(|address| locate(&maps, address))
            .map(|spent| (spent.object, spent.address));
        let expected = [
            ("/bin/vernierd", 0x10_0010),
            ("[vdso]", 0x123),
            ("kernel", 0xffff_ffff_8000_0000),
        ];
        assert_eq!(
            found,
            expected.map(|(object, address)| (object.to_owned(), address))
        );
    }

    #[test]
    fn time_is_read_behind_a_name_with_brackets() {
        let stat = "77 (worker) 0) R 1 2 3 4 5 6 7 8 9 10 4321 17 0";
        assert_eq!(user_time(stat), Some(4_321));
        let own = busiest_thread(Path::new("/proc/self/task")).unwrap();
        assert!(own.parse::<u32>().is_ok());
    }
}
