//! Switches in memory with a simulated clock: the data plane's own code without EAL, threads or real time.
//!
//! ```text
//!  rack   one switch: its workers by a configuration, and the control core's end of each connection to them
//!  world  complete switches with their control cores: with faults, or calm
//!  fleet  switches that report to stations
//!  outcome  the outcome of either
//! ```
//!
//! This crate is for tests: it panics if something unexpected happens.
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;

pub mod fleet;
pub mod outcome;
pub mod rack;
pub mod world;

/// A file with a key for wires that no other user may read.
///
/// # Errors
/// If it cannot be created.
pub fn key_file() -> io::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::NamedTempFile::new()?;
    writeln!(file, "000102030405060708090a0b0c0d0e0f")?;
    let only_owner = std::fs::Permissions::from_mode(0o600);
    file.as_file().set_permissions(only_owner)?;
    Ok(file)
}
