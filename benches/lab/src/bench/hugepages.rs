//! Hugepages for the time of a benchmark.

use std::fs;
use std::io;

const RESERVED: &str = "/proc/sys/vm/nr_hugepages";
const MEMINFO: &str = "/proc/meminfo";

/// Free hugepages, reserved if there were too few; those are given back on drop.
#[derive(Debug)]
pub struct Hugepages {
    /// The reservation to go back to, if it was changed.
    reserved_before: Option<u64>,
}

impl Hugepages {
    /// Makes sure that `mebibytes` of hugepages are free. Fails where there are too few and no
    /// more can be reserved (which takes root, and memory that is not fragmented); nothing has changed then.
    pub fn reserve(mebibytes: u64) -> io::Result<Self> {
        let wanted = pages(mebibytes)?;
        let missing = wanted.saturating_sub(meminfo("HugePages_Free")?);
        if missing == 0 {
            return Ok(Self {
                reserved_before: None,
            });
        }
        let before = read_number(RESERVED)?;
        fs::write(RESERVED, (before + missing).to_string())?;
        let reservation = Self {
            reserved_before: Some(before),
        };
        // The kernel reserves what it can and does not complain.
        if meminfo("HugePages_Free")? < wanted {
            return Err(io::Error::new(
                io::ErrorKind::OutOfMemory,
                format!("the kernel found no {mebibytes} MiB of unfragmented memory"),
            ));
        }
        Ok(reservation)
    }

    /// Whether `mebibytes` of them are free already.
    #[cfg(test)]
    pub fn are_free(mebibytes: u64) -> bool {
        let free = meminfo("HugePages_Free");
        free.is_ok_and(|free| pages(mebibytes).is_ok_and(|wanted| free >= wanted))
    }
}

fn pages(mebibytes: u64) -> io::Result<u64> {
    let page_kib = meminfo("Hugepagesize")?.max(1);
    Ok((mebibytes * 1024).div_ceil(page_kib))
}

impl Drop for Hugepages {
    fn drop(&mut self) {
        if let Some(before) = self.reserved_before
            && let Err(error) = fs::write(RESERVED, before.to_string())
        {
            eprintln!("vernier-lab: cannot set {RESERVED} back to {before}: {error}");
        }
    }
}

fn read_number(file: &str) -> io::Result<u64> {
    fs::read_to_string(file)?
        .trim()
        .parse()
        .map_err(io::Error::other)
}

/// The number that `/proc/meminfo` gives for `key`.
fn meminfo(key: &str) -> io::Result<u64> {
    fs::read_to_string(MEMINFO)?
        .lines()
        .find_map(|line| {
            line.strip_prefix(key)?
                .strip_prefix(':')?
                .split_whitespace()
                .next()?
                .parse()
                .ok()
        })
        .ok_or_else(|| io::Error::other(format!("{MEMINFO} has no {key}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_read_by_whole_keys() {
        assert!(meminfo("MemTotal").unwrap() >= meminfo("MemFree").unwrap());
        let error = meminfo("Mem").unwrap_err();
        assert_eq!(error.to_string(), "/proc/meminfo has no Mem");
    }
}
