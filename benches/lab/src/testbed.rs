//! Shared by the testbeds of switches: the box between them, and the key of their wires.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use testkit::process::Process;

/// Starts the impairment box between two devices (left, right) and waits until it forwards. `program` is the command that runs
/// this program.
pub fn start_box(
    mut program: Command,
    folder: &Path,
    [left, right]: [String; 2],
    arguments: &[String],
) -> Result<Process> {
    let out = folder.join("box.out");
    program
        .args(["impair", "--left", &left, "--right", &right])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(File::create(&out)?);
    let mut process = Process::start_logged(&mut program, folder.join("box.log"))?;
    process.until("the impairment box does not forward", |_| {
        let said = fs::read_to_string(&out)?;
        Ok(said.contains("ready").then_some(()))
    })?;
    Ok(process)
}

/// Writes a key of wires that no other user may read.
pub fn write_key(folder: &Path) -> Result<PathBuf> {
    let key = folder.join("wire.key");
    fs::write(&key, "00112233445566778899aabbccddeeff\n").context("cannot write a key")?;
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600))?;
    Ok(key)
}
