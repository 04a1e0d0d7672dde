//! Segments, ports, classes, wires and the switch as a whole, as tables; the live table.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use clap::Args;
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{Correctable, DONE, Globals, Question, client};
use crate::client::DEFAULT_URL;
use crate::top;
use crate::view::{self, Page};
use records::answers::{CourseQuery, Epochs, Segments, StatusAnswer, Width, Wires};
use records::snapshot::{SegmentName, Snapshot};

/// `vernier top`.
#[derive(Debug, Args)]
pub struct Top {
    /// Address of the switch; for several switches, repeat it or separate addresses by commas
    #[arg(id = "url", long, value_name = "URL", env = "VERNIER_URL", default_value = DEFAULT_URL, hide_env_values = true, value_delimiter = ',')]
    pub(super) urls: Vec<String>,
    /// File with the addresses of switches, one per line; empty lines and text after # are ignored
    #[arg(long, value_name = "FILE")]
    hosts: Option<PathBuf>,
}

/// `vernier history`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  vernier history
  vernier history 'east>west' --last 1m
  vernier history 'east>west gold' --last 1h -o csv")]
pub struct History {
    /// A segment as tables show it, such as `east>west`; without it, all segments
    #[arg(value_name = "SEGMENT")]
    segment: Option<String>,
    /// The last minute by seconds, ten minutes by 10 s, or hour by minutes
    #[arg(long, value_name = "SPAN", default_value = "10m", value_parser = ["1m", "10m", "1h"])]
    last: String,
    #[command(flatten)]
    question: Question,
}

/// `vernier top`.
pub(super) fn top(globals: &Globals, asked: &Top) -> anyhow::Result<u8> {
    let stop = stop_flag()?;
    let urls = match &asked.hosts {
        Some(file) => &hosts(file)?,
        None => &asked.urls,
    };
    let token_file = globals.token_file.as_deref();
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

/// Prints the list with this name from the answer at a path.
pub(super) fn show<T: DeserializeOwned + Serialize>(
    globals: &Globals,
    question: Question,
    list: &str,
    view: fn(&mut Page, &T),
) -> anyhow::Result<u8> {
    let (client, path) = (globals.switch()?, format!("/api/v1/{list}"));
    let ask = || Ok(client.get(&path, &[])?);
    question.show(globals.color, &[list], ask, view)
}

/// `vernier status`.
pub(super) fn status(globals: &Globals, question: Question) -> anyhow::Result<u8> {
    let client = globals.switch()?;
    let ask = || Ok(client.get("/api/v1/status", &[])?);
    question.show::<StatusAnswer>(globals.color, &[], ask, view::status)
}

/// `vernier wires`.
pub(super) fn wires(globals: &Globals, question: Question) -> anyhow::Result<u8> {
    let client = globals.switch()?;
    let ask = || Ok(client.get("/api/v1/wires", &[])?);
    question.show::<Wires>(globals.color, &["wires", "segments"], ask, view::wires)
}

/// A snapshot that serialises only its segments.
struct OfSegments(Snapshot);

impl Serialize for OfSegments {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Segments::from(&self.0).serialize(serializer)
    }
}

/// `vernier segments`.
pub(super) fn segments(globals: &Globals, question: Question) -> anyhow::Result<u8> {
    let client = globals.switch()?;
    let ask = || Ok(OfSegments(client.get("/api/v1/snapshot", &[])?));
    question.show(globals.color, &["segments"], ask, |page, answer| {
        view::segments(page, &answer.0);
    })
}

/// `vernier history`.
pub(super) fn history(globals: &Globals, asked: &History) -> anyhow::Result<u8> {
    let width = match asked.last.as_str() {
        "1m" => Width::Second,
        "10m" => Width::TenSeconds,
        _ => Width::Minute,
    };
    let segment = asked.segment.as_deref().map(segment).transpose()?;
    let query = CourseQuery {
        ingress: segment.as_ref().map(|segment| segment.ingress.clone()),
        egress: segment.as_ref().map(|segment| segment.egress.clone()),
        class: segment
            .map(|segment| segment.class)
            .filter(|class| !class.is_empty()),
        width_s: Some(width),
        ..CourseQuery::default()
    };
    let client = globals.switch()?;
    let ask = || Ok(client.ask("/api/v1/epochs", &query)?);
    let keys = ["segments", "courses", "buckets"];
    asked
        .question
        .show::<Epochs>(globals.color, &keys, ask, view::history)
}

/// The segment of this title; its class may be left out.
fn segment(title: &str) -> Result<SegmentName, Correctable> {
    let (ports, class) = title.split_once(' ').unwrap_or((title, ""));
    let (ingress, egress) = ports.split_once('>').ok_or_else(|| {
        Correctable(format!(
            "expected a segment such as 'east>west' or 'east>west gold', got {title:?}; `vernier segments` lists them"
        ))
    })?;
    Ok(SegmentName {
        ingress: ingress.to_owned(),
        egress: egress.to_owned(),
        class: class.to_owned(),
    })
}
