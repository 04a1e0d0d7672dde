//! A private NATS server with JetStream: Debian's, installed or unpacked next to the sources.

use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::{Process, free_address};

/// A server, which ends when this value is dropped. Its store stays in its folder.
#[derive(Debug)]
pub struct NatsServer {
    address: SocketAddr,
    folder: PathBuf,
    process: Option<Process>,
}

/// The program: unpacked next to the sources, installed, or in `PATH`.
fn program() -> &'static str {
    let unpacked = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../.tools/usr/sbin/nats-server"
    );
    let mut places = [unpacked, "/usr/sbin/nats-server"].into_iter();
    let found = places.find(|place| Path::new(place).exists());
    found.unwrap_or("nats-server")
}

impl NatsServer {
    /// Starts one on a free port of loopback, with its store in `folder`, and `more` lines of configuration.
    ///
    /// # Errors
    /// If there is no program, or it does not listen; the error has its log.
    pub fn start(folder: &Path, more: &str) -> Result<Self> {
        Self::start_at(free_address()?, folder, more)
    }

    /// As [`NatsServer::start`], at a given address.
    ///
    /// # Errors
    /// As there.
    pub fn start_at(address: SocketAddr, folder: &Path, more: &str) -> Result<Self> {
        let mut server = Self {
            address,
            folder: folder.to_owned(),
            process: None,
        };
        server.run(more)?;
        Ok(server)
    }

    /// Starts it again at the same address, with its store.
    ///
    /// # Errors
    /// As [`NatsServer::start`].
    pub fn run(&mut self, more: &str) -> Result<()> {
        let (folder, address) = (&self.folder, self.address);
        let config = folder.join("nats.conf");
        let store = folder.join("store");
        let text = format!(
            "listen: \"{address}\"\njetstream {{ store_dir: \"{}\" }}\nwrite_deadline: \"10s\"\n{more}\n",
            store.display()
        );
        std::fs::write(&config, text).context("cannot write nats.conf")?;
        let mut command = Command::new(program());
        command.arg("--config").arg(&config);
        let process = Process::start_quiet(&mut command, folder.join("nats.log"))
            .context("is Debian's package nats-server there? `make setup-test` unpacks it")?;
        let process = self.process.insert(process);
        process.until("nats-server does not listen", |_| {
            Ok(TcpStream::connect(address).ok().map(drop))
        })
    }

    /// Kills it with SIGKILL.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// `nats://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    /// Its process id, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().map(|process| process.child.id())
    }
}
