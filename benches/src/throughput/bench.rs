//! What all runs have in common.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::load::Load;
use super::ovs::OvsPrograms;

/// What all runs have in common.
#[derive(Debug)]
pub struct Bench {
    /// A folder for captures, configurations and summaries.
    pub folder: PathBuf,
    /// The `vernierd` to run.
    pub vernierd: PathBuf,
    /// The plugin to load.
    pub plugin: PathBuf,
    /// Open vSwitch, if there is one.
    pub ovs: Result<OvsPrograms, String>,
    /// The CPU that forwards; then the one of all other threads, which forwards, too, where two
    /// are asked for.
    pub cpus: [usize; 2],
    /// Whether memory comes from hugepages.
    pub hugepages: bool,
    /// Time before measuring.
    pub warm_up: Duration,
    /// Time measured, at least.
    pub measured: Duration,
    /// Set when the user has had enough.
    pub stop: Arc<AtomicBool>,
}

impl Bench {
    /// What a run of `load` needs, its captures written.
    ///
    /// # Errors
    /// When captures cannot be written.
    pub fn input(&self, load: Load) -> Result<Input> {
        let captures = load
            .captures(&self.folder)
            .with_context(|| format!("cannot write captures to {}", self.folder.display()))?;
        Ok(Input {
            captures,
            flows: load.flows(),
            mbufs: load.mbufs(),
            memory_mib: load.memory_mib(),
        })
    }

    /// EAL's arguments that say where memory comes from; nothing is left behind either way.
    pub fn memory_arguments(&self) -> &'static [&'static str] {
        if self.hugepages {
            &["--in-memory"]
        } else {
            &["--no-huge", "--no-shconf", "--iova-mode=va"]
        }
    }

    /// Fails once the user has had enough.
    ///
    /// # Errors
    /// When that is so.
    pub fn is_wanted(&self) -> Result<()> {
        ensure!(!self.stop.load(Ordering::Relaxed), "interrupted");
        Ok(())
    }

    /// A bench of short runs without hugepages, and a little traffic.
    ///
    /// # Panics
    /// When captures cannot be written.
    #[cfg(test)]
    pub fn for_tests(folder: &std::path::Path) -> (Self, Input) {
        use crate::capture::Traffic;
        let captures = [0, 1].map(|side| {
            let traffic = Traffic {
                flows: 1_000,
                packets: 16_384,
                side,
            };
            let file = folder.join(format!("{side}.pcap"));
            traffic.write(&file).unwrap();
            file
        });
        let bench = Self {
            folder: folder.to_owned(),
            vernierd: folder.join("vernierd"),
            plugin: folder.join("librte_vernier.so"),
            ovs: OvsPrograms::find(std::path::Path::new("/")),
            cpus: [1, 0],
            hugepages: false,
            warm_up: Duration::from_millis(100),
            measured: Duration::from_millis(300),
            stop: Arc::default(),
        };
        let input = Input {
            captures,
            flows: 2_000,
            mbufs: 65_535,
            memory_mib: 512,
        };
        (bench, input)
    }
}

/// What one run receives.
#[derive(Debug, Clone)]
pub struct Input {
    /// The captures that the two ports receive without end.
    pub captures: [PathBuf; 2],
    /// Flows in both.
    pub flows: u32,
    /// Packet buffers.
    pub mbufs: u32,
    /// Memory of EAL in MiB.
    pub memory_mib: u64,
}

impl Input {
    /// The ports. Without `tx_pcap` or `tx_iface` the driver drops what it is given, counted as
    /// sent.
    pub fn devices(&self) -> [String; 2] {
        let [a, b] = &self.captures;
        [(0, a), (1, b)].map(|(port, capture)| {
            format!("net_pcap{port},rx_pcap={},infinite_rx=1", capture.display())
        })
    }
}
