//! Code shared by benches and tests:
//!
//! - [`process`]: child processes that end when they are dropped, and waiting that the user can interrupt.
//! - [`browser`]: a real browser and its page.
//! - [`namespace`]: namespaces that end with their process.
//! - [`frr`]: routers with OSPF in namespaces.
//! - [`hosts`]: virtual interfaces and hosts of a test.
//! - [`http`]: programs' responses.
//! - [`hugepages`]: temporary reservations.
//! - [`golden`]: bytes that earlier versions of the programs wrote.
//! - [`nats`]: a private NATS server.
//! - [`page`]: the page of a switch or a station in that browser.
//! - [`pcap`]: captures, written and read.
//! - [`terminal`]: a pseudo-terminal.
//!
//! It measures nothing and prints nothing.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

pub mod browser;
pub mod frr;
pub mod golden;
pub mod hosts;
pub mod http;
pub mod hugepages;
pub mod namespace;
pub mod nats;
pub mod page;
pub mod pcap;
pub mod process;
pub mod terminal;

/// A file in `../shared`, the folder with third-party captures and networks; `None`, with a message, if it is missing.
/// CI has it.
pub fn shared(path: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared")
        .join(path);
    if !path.exists() {
        skip(&format!("{} is not there", path.display()));
        return None;
    }
    Some(path)
}

/// Prints that a test was skipped, which CI does not accept.
///
/// # Panics
/// In CI.
pub fn skip(why: &str) {
    let in_ci = std::env::var_os("CI").is_some();
    assert!(!in_ci, "not to be skipped in CI: {why}");
    eprintln!("SKIPPED: {why}");
}
