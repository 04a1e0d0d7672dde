//! Segments, ports, classes, wires and the switch as a whole, as tables; the live table.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{DONE, Question, client, print, print_json};
use crate::client::DEFAULT_URL;
use crate::{top, view};
use records::answers::Segments;
use records::snapshot::Snapshot;

/// `vernier top`.
#[derive(Debug, Args)]
pub struct Top {
    /// A switch's HTTP address; several switches: repeat it, or commas between
    #[arg(long = "url", value_name = "URL", env = "VERNIER_URL", default_value = DEFAULT_URL, value_delimiter = ',')]
    urls: Vec<String>,
    /// File with the addresses of switches instead, one on a line; empty lines, and what follows a #, do not count
    #[arg(long, value_name = "FILE")]
    hosts: Option<PathBuf>,
    /// File with the switches' token, where they need one
    #[arg(long, value_name = "FILE", env = "VERNIER_TOKEN_FILE")]
    token_file: Option<PathBuf>,
}

/// `vernier top`.
pub fn top(asked: Top) -> anyhow::Result<u8> {
    let stop = stop_flag()?;
    let urls = match &asked.hosts {
        Some(file) => hosts(file)?,
        None => asked.urls,
    };
    let token_file = asked.token_file.as_deref();
    let clients = urls.iter().map(|url| client(url, token_file));
    let clients = clients.collect::<Result<_, _>>()?;
    top::run(clients, || stop.load(Ordering::Relaxed))?;
    Ok(DONE)
}

/// Longest file of addresses.
const HOSTS_BYTES_MAX: u64 = 1 << 20;

/// The addresses in a file.
fn hosts(file: &Path) -> anyhow::Result<Vec<String>> {
    let text = contract::file::read_text(file, HOSTS_BYTES_MAX)
        .with_context(|| format!("{}: cannot read the addresses of switches", file.display()))?;
    let lines = text.lines().map(|line| line.split('#').next());
    let lines = lines.flatten().map(str::trim);
    let urls = lines.filter(|line| !line.is_empty()).map(str::to_owned);
    let urls: Vec<String> = urls.collect();
    anyhow::ensure!(
        !urls.is_empty(),
        "{}: expected addresses of switches, one on a line, such as {DEFAULT_URL}; it has none",
        file.display()
    );
    Ok(urls)
}

/// Set by the signals that end a program, so that the terminal is restored first.
fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Prints an answer as a table or as JSON.
pub fn show<T: DeserializeOwned + Serialize>(
    question: &Question,
    path: &str,
    table: fn(&T) -> String,
) -> anyhow::Result<u8> {
    let answer: T = question.connection.client()?.get(path, &[])?;
    question.form.show(&answer, table)
}

/// `vernier segments`.
pub fn segments(question: &Question) -> anyhow::Result<u8> {
    let client = question.connection.client()?;
    let snapshot: Snapshot = client.get("/api/v1/snapshot", &[])?;
    if question.form.json {
        print_json(&Segments::from(&snapshot))
    } else {
        print(&view::segments(&snapshot))
    }
}
