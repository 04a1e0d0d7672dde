//! What a switch knows of its segments, ports and classes, as tables; the live table.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::connection::Connection;
use super::{DONE, Question, print, print_json};
use crate::{top, view};
use records::answers::{Classes, Ports, Segments, Status, Wires};
use records::snapshot::Snapshot;

/// `vernier top`.
pub fn top(connection: &Connection) -> anyhow::Result<u8> {
    let stop = stop_flag()?;
    top::run(connection.client()?, || stop.load(Ordering::Relaxed))?;
    Ok(DONE)
}

/// Set by the signals that end a program, so that the terminal is put back first.
fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// `vernier segments`.
pub fn segments(question: &Question) -> anyhow::Result<u8> {
    let snapshot = snapshot(question)?;
    if question.form.json {
        print_json(&Segments::from(&snapshot))
    } else {
        print(&view::segments(&snapshot))
    }
}

/// `vernier ports`.
pub fn ports(question: &Question) -> anyhow::Result<u8> {
    let snapshot = snapshot(question)?;
    if question.form.json {
        print_json(&Ports::of(&snapshot, None))
    } else {
        print(&view::ports(&snapshot))
    }
}

/// `vernier classes`.
pub fn classes(question: &Question) -> anyhow::Result<u8> {
    let client = question.connection.client()?;
    let classes: Classes = client.get("/api/v1/classes", &[])?;
    if question.form.json {
        print_json(&classes)
    } else {
        print(&view::classes(&classes))
    }
}

/// `vernier wires`.
pub fn wires(question: &Question) -> anyhow::Result<u8> {
    let client = question.connection.client()?;
    let wires: Wires = client.get("/api/v1/wires", &[])?;
    if question.form.json {
        print_json(&wires)
    } else {
        print(&view::wires(&wires))
    }
}

/// `vernier status`.
pub fn status(question: &Question) -> anyhow::Result<u8> {
    let client = question.connection.client()?;
    let status: Status = client.get("/api/v1/status", &[])?;
    if question.form.json {
        print_json(&status)
    } else {
        print(&view::status(&status))
    }
}

fn snapshot(question: &Question) -> anyhow::Result<Snapshot> {
    let client = question.connection.client()?;
    Ok(client.get("/api/v1/snapshot", &[])?)
}
