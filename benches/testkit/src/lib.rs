//! What the benches share, and no more:
//!
//! - [`process`]: child processes that end with their owner, and waiting that the user can interrupt.
//! - [`browser`]: a real browser, and what its page shows.
//! - [`namespace`]: namespaces that end with their process.
//! - [`frr`]: routers with OSPF in namespaces.
//! - [`hosts`]: virtual interfaces and hosts of a test.
//! - [`http`]: what programs answer.
//! - [`hugepages`]: reserved, and given back.
//! - [`golden`]: bytes that earlier versions of the programs wrote.
//! - [`nats`]: a NATS server of one's own.
//! - [`page`]: the page of a switch or a station in that browser.
//! - [`pcap`]: captures, written and read.
//! - [`terminal`]: a pseudo-terminal.
//!
//! What it is not: it measures nothing and prints nothing.
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

/// A file in `../shared`, where other people's captures and networks are; `None`, with a message, where it is missing. CI has
/// it.
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

/// Says that a test was skipped, which CI does not accept.
///
/// # Panics
/// In CI.
pub fn skip(why: &str) {
    let in_ci = std::env::var_os("CI").is_some();
    assert!(!in_ci, "not to be skipped in CI: {why}");
    eprintln!("SKIPPED: {why}");
}
