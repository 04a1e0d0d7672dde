//! Switches in memory, by a clock turned by hand: the data plane's own code with no EAL, no thread and no real time.
//!
//! ```text
//!  rack   one switch: its workers by a configuration, and the control core's ends of all that leads to them
//!  world  whole switches with their control cores: with faults, or calm
//!  fleet  switches that report to stations
//!  outcome  what became of either
//! ```
//!
//! What is here is for tests: it panics where something does not hold.
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;

pub mod fleet;
pub mod outcome;
pub mod rack;
pub mod world;

/// A file with a key for wires, that nobody else may read.
///
/// # Errors
/// Where it cannot be made.
pub fn key_file() -> io::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::NamedTempFile::new()?;
    writeln!(file, "000102030405060708090a0b0c0d0e0f")?;
    let only_owner = std::fs::Permissions::from_mode(0o600);
    file.as_file().set_permissions(only_owner)?;
    Ok(file)
}
