//! Settings common to all runs: programs, CPUs, memory, and the traffic of the two ports.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::bench::load::Load;

/// Settings common to all runs.
#[derive(Debug, Clone)]
pub struct Bench {
    /// A folder for captures, configurations and summaries.
    pub folder: PathBuf,
    pub vernierd: PathBuf,
    /// Another commit's vernierd that runs in the same rounds.
    pub base: Option<Base>,
    pub plugin: PathBuf,
    /// The folder of Open vSwitch, or why it is missing.
    pub ovs: Result<PathBuf, String>,
    /// The forwarding CPU, then the CPU of all other threads, which also forwards in runs with two CPUs.
    pub cpus: [usize; 2],
    /// Whether all contenders use hugepages, or ordinary pages.
    pub hugepages: bool,
    pub warm_up: Duration,
    /// Minimum time measured.
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
    /// DPDK's devices of the two ports, with the captures of `load` written. Without `tx_pcap` or `tx_iface` the driver drops
    /// every packet and counts it as sent.
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
