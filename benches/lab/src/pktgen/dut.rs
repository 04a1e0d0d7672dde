//! A private `vernierd`, connected by `net_memif`: shared memory between two processes.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use contract::config::{Config, Device};
use testkit::http::text;
use testkit::process::{Process, beside_this_program, free_address, memif};

/// Starts the `vernierd` beside this program with `config`, its first two ports on shared memory in `folder`.
pub fn start(mut config: Config, folder: &Path) -> Result<Process> {
    let vernierd = beside_this_program("vernierd")?;
    ensure!(
        vernierd.exists(),
        "no vernierd beside this program ({}); build it (cargo build --release -p daemon)",
        vernierd.display()
    );
    ensure!(
        config.ports.len() >= 2,
        "the configuration has one port; it needs two to put between sender and receiver"
    );
    for (side, port) in config.ports.iter_mut().take(2).enumerate() {
        port.device = Device::Dpdk(device(folder, side, "server"));
        port.rx_queues = Some(1);
    }
    let listen = free_address()?;
    config.http.listen = Some(listen);
    let json = serde_json::to_value(&config)?;
    // The change may conflict with the rest of the configuration, such as workers with queues of their own.
    Config::parse(&json.to_string(), "the configuration")
        .context("this configuration cannot be put between two memifs")?;
    let mut process = Process::start_vernierd(
        Command::new(vernierd).env("VERNIER_LOG", "error"),
        folder,
        "vernier",
        &json,
    )?;
    process
        .until("vernierd did not answer", |_| {
            Ok(text(listen, "/healthz").map(drop))
        })
        .context("vernierd")?;
    Ok(process)
}

/// One end of the shared memory of a side.
pub fn device(folder: &Path, side: usize, role: &str) -> String {
    memif(&side.to_string(), role, side, &folder.join("memif.sock"))
}
