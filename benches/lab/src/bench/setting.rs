//! What all runs have in common: programs, CPUs, memory, and what the two ports receive.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::bench::load::Load;

/// What all runs have in common.
#[derive(Debug, Clone)]
pub struct Bench {
    /// A folder for captures, configurations and summaries.
    pub folder: PathBuf,
    pub vernierd: PathBuf,
    /// Another commit's vernierd that runs in the same rounds.
    pub base: Option<Base>,
    pub plugin: PathBuf,
    /// Where Open vSwitch is, or why it is missing.
    pub ovs: Result<PathBuf, String>,
    /// The CPU that forwards; then the one of all other threads, which forwards, too, where two
    /// are asked for.
    pub cpus: [usize; 2],
    /// Whether all take memory from hugepages, or from ordinary pages.
    pub hugepages: bool,
    pub warm_up: Duration,
    /// Time measured, at least.
    pub measured: Duration,
}

/// vernierd of another commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    pub commit: String,
    pub vernierd: PathBuf,
}

impl FromStr for Base {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (commit, vernierd) = text.split_once('=').ok_or("no `=` in it")?;
        let (commit, vernierd) = (commit.to_owned(), vernierd.into());
        Ok(Self { commit, vernierd })
    }
}

impl Bench {
    /// DPDK's devices of the two ports, with the captures of `load` written. Without `tx_pcap` or `tx_iface` the driver drops what it
    /// is given, counted as sent.
    pub fn devices(&self, load: Load) -> Result<[String; 2]> {
        let captures = load.captures(&self.folder);
        let captures = captures
            .with_context(|| format!("cannot write captures to {}", self.folder.display()))?;
        Ok([0, 1].map(|port| {
            let capture = captures[port].display();
            format!("net_pcap{port},rx_pcap={capture},infinite_rx=1")
        }))
    }

    /// The `vernierd` beside this program, or the base's. Fails for the base's when there is no base.
    pub fn vernierd(&self, is_base: bool) -> Result<&Path> {
        let base = self.base.as_ref().filter(|_| is_base);
        ensure!(base.is_some() || !is_base, "there is no base");
        Ok(base.map_or(&self.vernierd, |base| &base.vernierd))
    }

    /// A bench of short runs without hugepages.
    #[cfg(test)]
    pub fn for_tests(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            vernierd: folder.join("vernierd"),
            base: None,
            plugin: folder.join("librte_vernier.so"),
            ovs: crate::bench::ovs::find(Path::new("/")),
            cpus: [1, 0],
            hugepages: false,
            warm_up: Duration::from_millis(100),
            measured: Duration::from_millis(300),
        }
    }
}

const RESERVED: &str = "/proc/sys/vm/nr_hugepages";

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
        let missing = missing_pages(mebibytes)?;
        let mut reservation = Self {
            reserved_before: None,
        };
        if missing == 0 {
            return Ok(reservation);
        }
        let before = fs::read_to_string(RESERVED)?;
        let before: u64 = before.trim().parse().map_err(io::Error::other)?;
        fs::write(RESERVED, (before + missing).to_string())?;
        reservation.reserved_before = Some(before);
        // The kernel reserves what it can and does not complain.
        if missing_pages(mebibytes)? > 0 {
            let complaint = format!("the kernel found no {mebibytes} MiB of unfragmented memory");
            return Err(io::Error::other(complaint));
        }
        Ok(reservation)
    }
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

/// Hugepages that are missing for `mebibytes` to be free.
pub fn missing_pages(mebibytes: u64) -> io::Result<u64> {
    let page_kib = meminfo("Hugepagesize")?.max(1);
    let wanted = (mebibytes * 1024).div_ceil(page_kib);
    Ok(wanted.saturating_sub(meminfo("HugePages_Free")?))
}

/// The number that `/proc/meminfo` gives for `key`.
fn meminfo(key: &str) -> io::Result<u64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let number = text.lines().find_map(|line| {
        let rest = line.strip_prefix(key)?.strip_prefix(':')?;
        rest.split_whitespace().next()?.parse().ok()
    });
    number.ok_or_else(|| io::Error::other(format!("/proc/meminfo has no {key}")))
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
