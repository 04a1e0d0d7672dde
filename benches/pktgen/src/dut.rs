//! A `vernierd` of one's own, connected by `net_memif`: shared memory between two processes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use benches::throughput::process::{Owned, until};
use contract::config::{Config, Device};
use tempfile::TempDir;

/// How long it may take to start, and to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Frames that a ring of shared memory holds, as a power of two: the most that `net_memif` has.
const RING_LOG2: u8 = 14;

/// The switch under test.
#[derive(Debug)]
pub struct Dut {
    process: Owned,
    folder: TempDir,
    url: String,
}

impl Dut {
    /// Starts `vernierd` with `config`, whose first two ports are put on shared memory.
    ///
    /// # Errors
    /// A configuration of less than two ports; whatever keeps `vernierd` from starting.
    pub fn start(vernierd: &Path, mut config: Config, stop: &AtomicBool) -> Result<Self> {
        ensure!(
            config.ports.len() >= 2,
            "the configuration has one port; it needs two to put between sender and receiver"
        );
        let folder = tempfile::tempdir().context("no folder for sockets")?;
        for (side, port) in config.ports.iter_mut().take(2).enumerate() {
            port.device = Device::Dpdk(device(folder.path(), side, "server"));
            port.rx_queues = Some(1);
        }
        let listen = free_address()?;
        config.http.listen = Some(listen);
        let file = folder.path().join("vernier.json");
        std::fs::write(&file, serde_json::to_string_pretty(&config)?)?;
        // What was changed may not fit the rest, such as workers with queues of their own.
        Config::load(&file).context("this configuration cannot be put between two memifs")?;
        let process = Owned::start(
            Command::new(vernierd)
                .arg("--config")
                .arg(&file)
                .stdout(Stdio::null())
                .env("VERNIER_LOG", "error"),
        )?;
        let mut dut = Self {
            process,
            folder,
            url: format!("http://{listen}"),
        };
        until(PATIENCE, stop, "vernierd did not answer in time", || {
            dut.process.is_alive().context("vernierd")?;
            let answer = ureq::get(format!("{}/healthz", dut.url)).call();
            Ok(answer.ok().map(drop))
        })?;
        Ok(dut)
    }

    /// Device strings of our two ends.
    pub fn devices(&self) -> [String; 2] {
        [0, 1].map(|side| device(self.folder.path(), side, "client"))
    }

    /// Where it serves its metrics.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Asks it to end, and waits.
    ///
    /// # Errors
    /// When it does not, or fails.
    pub fn end(mut self, stop: &AtomicBool) -> Result<()> {
        self.process.terminate()?;
        self.process.wait(PATIENCE, stop).context("vernierd")
    }
}

/// One end of the shared memory of a side.
fn device(folder: &Path, side: usize, role: &str) -> String {
    let socket = folder.join("memif.sock");
    format!(
        "net_memif{side},role={role},id={side},socket={},socket-abstract=no,rsize={RING_LOG2}",
        socket.display()
    )
}

/// An address that nobody listens at.
fn free_address() -> Result<std::net::SocketAddr> {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").context("no port on loopback")?;
    Ok(socket.local_addr()?)
}

/// The `vernierd` beside this program.
///
/// # Errors
/// When there is none.
pub fn beside() -> Result<PathBuf> {
    let own = std::env::current_exe().context("where this program is")?;
    let vernierd = own.with_file_name("vernierd");
    ensure!(
        vernierd.exists(),
        "no vernierd beside this program ({}); build it (cargo build --release -p switch), or name \
         one with --vernierd",
        vernierd.display()
    );
    Ok(vernierd)
}
