//! The plugin, `librte_vernier.so`, in another DPDK program.
//!
//! EAL loads it by `-d`, an environment variable names its configuration, and it serves its measurements over HTTP.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use console::client::Client;
use records::snapshot::Snapshot;
use serde_json::json;
use tempfile::TempDir;
use testkit::process::{Process, free_address, output};

use crate::bench::setting::Bench;
use crate::bench::vernierd::{Extent, MEASURED_SHARE_MIN, measured_packets, snapshot};

/// Parent of its folder, because EAL refuses libraries below folders that everyone may write to.
const LIBRARIES: &str = "/usr/local/lib";

/// The variable that names its configuration.
const CONFIG: &str = "VERNIER_CONFIG";

/// The object that is preloaded before DPDK's vhost library.
const VHOST: &str = "libvernier_vhost.so";

/// The plugin, set up for one process.
#[derive(Debug)]
pub struct Plugin {
    /// Removed with this.
    folder: TempDir,
    drivers: PathBuf,
    config: PathBuf,
    client: Client,
}

impl Plugin {
    /// Installs it in a folder from which EAL loads it, and writes its configuration; needs root.
    pub fn install(bench: &Bench, extent: Extent, flows: u32) -> Result<Self> {
        let drivers = installed_drivers()?;
        let folder = tempfile::Builder::new()
            .prefix("vernier-bench-")
            .tempdir_in(LIBRARIES)
            .with_context(|| format!("cannot make a folder in {LIBRARIES}; try as root"))?;
        let address = free_address()?;
        let config = bench.folder.join("plugin.json");
        let json = json!({
            "measurement": extent.measurement(flows),
            "http": { "listen": address },
        });
        std::fs::write(&config, json.to_string()).context("cannot write a configuration")?;
        let plugin = Self {
            folder,
            drivers,
            config,
            client: Client::new(&address.to_string(), None),
        };
        let vhost = bench.plugin.with_file_name(VHOST);
        for (built, copy) in [(&bench.plugin, plugin.library()), (&vhost, plugin.vhost())] {
            std::fs::copy(built, copy).with_context(|| {
                let built = built.display();
                format!("cannot copy {built}; `cargo build --release -p plugin -p vhost` makes it")
            })?;
        }
        Ok(plugin)
    }

    fn library(&self) -> PathBuf {
        self.folder.path().join("librte_vernier.so")
    }

    /// The object for ports of virtual machines.
    fn vhost(&self) -> PathBuf {
        self.folder.path().join(VHOST)
    }

    /// EAL's arguments. With any `-d`, it loads no drivers by itself.
    pub fn arguments(&self) -> [String; 4] {
        let library = self.library().display().to_string();
        let drivers = self.drivers.display().to_string();
        ["-d".to_owned(), library, "-d".to_owned(), drivers]
    }

    /// Passes the configuration to a program that will load the plugin.
    pub fn configure(&self, command: &mut Command) {
        command.env(CONFIG, &self.config);
        command.env("VERNIER_LOG", "error");
    }

    /// Lets it measure ports of virtual machines.
    pub fn preload(&self, command: &mut Command) {
        command.env("LD_PRELOAD", self.vhost());
    }

    /// The measurements of the plugin, if there is one, in `process` at the end of the current epoch.
    pub fn epoch_end(plugin: Option<&Self>, process: &mut Process) -> Result<Option<Measured>> {
        let of = |plugin: &Self| epoch_end(|| snapshot(&plugin.client).ok(), process);
        plugin.map(of).transpose()
    }
}

/// Measurements from the start to the end of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measured {
    epoch: u64,
    interval_ms: u32,
    packets: u64,
}

impl Measured {
    fn of(snapshot: &Snapshot) -> Option<Self> {
        Some(Self {
            epoch: snapshot.epoch?,
            interval_ms: snapshot.interval_ms,
            packets: measured_packets(snapshot),
        })
    }

    /// Fails if too few of the forwarded packets have been measured since `earlier`.
    pub fn check(&self, earlier: &Self, forwarded_pps: f64) -> Result<()> {
        let epochs = self.epoch - earlier.epoch;
        let seconds = epochs as f64 * f64::from(self.interval_ms) / 1e3;
        let measured_pps = (self.packets - earlier.packets) as f64 / seconds;
        let share = measured_pps / forwarded_pps;
        ensure!(
            share >= MEASURED_SHARE_MIN,
            "the plugin measured {:.0} % of the packets: {:.2} of {:.2} million a second",
            100.0 * share,
            measured_pps / 1e6,
            forwarded_pps / 1e6
        );
        Ok(())
    }
}

/// The measurements at the end of the current epoch; until the plugin is up, there is no `latest`.
fn epoch_end(
    mut latest: impl FnMut() -> Option<Snapshot>,
    process: &mut Process,
) -> Result<Measured> {
    let mut present = None;
    process.until("the plugin ended no epoch", |_| {
        let measured = latest().and_then(|snapshot| Measured::of(&snapshot));
        let present = *present.get_or_insert(match &measured {
            Some(measured) => measured.epoch,
            None => return Ok(None),
        });
        Ok(measured.filter(|measured| measured.epoch > present))
    })
}

/// The folder of this machine's drivers.
pub fn installed_drivers() -> Result<PathBuf> {
    let libraries = output(Command::new("pkg-config").args(["--variable=libdir", "libdpdk"]))?;
    drivers(&Path::new(libraries.trim()).join("dpdk"))
}

/// The folder of drivers in DPDK's, `pmds-` and the version of its interface; the latest of several.
fn drivers(folder: &Path) -> Result<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("cannot look for DPDK's drivers in {}", folder.display()))?;
    let is_of_drivers = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        name.as_encoded_bytes().starts_with(b"pmds-")
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let latest = paths.filter(is_of_drivers).max();
    latest.with_context(|| format!("DPDK has no drivers in {}", folder.display()))
}

#[cfg(test)]
mod tests;
