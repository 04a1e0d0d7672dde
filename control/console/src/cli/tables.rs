//! Segments, ports, classes, wires and the switch as a whole, as tables; the live table.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::connection::Connection;
use super::{DONE, Question, print, print_json};
use crate::{top, view};
use records::answers::Segments;
use records::snapshot::Snapshot;

/// `vernier top`.
pub fn top(connection: &Connection) -> anyhow::Result<u8> {
    let stop = stop_flag()?;
    top::run(connection.client()?, || stop.load(Ordering::Relaxed))?;
    Ok(DONE)
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
    if question.form.json {
        print_json(&answer)
    } else {
        print(&table(&answer))
    }
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
