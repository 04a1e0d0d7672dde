//! Files that only the operator and the switch may read.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What keeps a secret from being taken from a file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretFault {
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// Others may read or change it.
    #[error("mode {mode:03o} lets every user of this machine at it; say `chmod o= FILE`")]
    Public {
        /// Its permissions.
        mode: u32,
    },
}

/// What stands in a file of one line, without the line's end. Of a file that is longer than
/// `bytes_max` it is more than that many bytes.
pub(crate) fn read_line(path: &Path, bytes_max: usize) -> Result<Vec<u8>, SecretFault> {
    let file = File::open(path)?;
    let mode = file.metadata()?.mode() & 0o777;
    if mode & 0o007 != 0 {
        return Err(SecretFault::Public { mode });
    }
    let mut text = Vec::new();
    // Two more for the line's end, and one that says that there are more.
    file.take(bytes_max as u64 + 3).read_to_end(&mut text)?;
    if text.ends_with(b"\n") {
        text.pop();
    }
    if text.ends_with(b"\r") {
        text.pop();
    }
    Ok(text)
}
