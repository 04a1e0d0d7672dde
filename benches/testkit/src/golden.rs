//! Bytes that an earlier version of the programs wrote, kept to test that this version reads them correctly.
//!
//! They are in `golden/VERSION/NAME` of the package of the test. An existing file is never written again, whatever the
//! program would write today.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The environment variable by which a test writes a missing file. Only the version that the folder names sets it.
const WRITE: &str = "VERNIER_WRITE_GOLDEN";

/// Returns the bytes of a file. If the file is missing and `VERNIER_WRITE_GOLDEN` is set, writes `made` and returns it.
///
/// # Errors
/// If the file is missing, or cannot be read or written; the message names it.
pub fn kept(version: &str, name: &str, made: impl FnOnce() -> Vec<u8>) -> io::Result<Vec<u8>> {
    // Cargo sets it to the package of the test that runs.
    let package = env::var_os("CARGO_MANIFEST_DIR").map_or_else(PathBuf::new, PathBuf::from);
    let file = package.join("golden").join(version).join(name);
    let read = match fs::read(&file) {
        Err(_) if env::var_os(WRITE).is_some() => write(&file, made()),
        read => read,
    };
    read.map_err(|error| {
        let (file, kind) = (file.display(), error.kind());
        io::Error::new(
            kind,
            format!("{file}: {error}; only version {version} writes it, with {WRITE}=1"),
        )
    })
}

fn write(file: &Path, bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    fs::create_dir_all(file.parent().unwrap_or(Path::new(".")))?;
    fs::write(file, &bytes)?;
    Ok(bytes)
}
