//! Files that only the operator and the switch may read.

use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::file;

/// Why a secret was not read from a file.
#[derive(Debug, thiserror::Error)]
pub enum SecretFault {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// Other users can read or change the file: which users, and what to do.
    #[error("{0}")]
    Open(String),
}

/// The users other than root and `user`, who runs this, that can read or change a file of `owner` and `group` with
/// permissions `mode`, and what to do. A group may read it, because that is how root's file reaches a user that runs
/// this.
fn open_to_others((owner, group): (u32, u32), mode: u32, user: u32) -> Option<String> {
    if mode & 0o007 != 0 {
        let what = "gives every user of this machine access; run `chmod o= FILE`";
        Some(format!("mode {mode:03o} {what}"))
    } else if mode & 0o020 != 0 {
        let what = format!("lets group {group} change it; run `chmod g-w FILE`");
        Some(format!("mode {mode:03o} {what}"))
    } else if owner != 0 && owner != user {
        Some(format!(
            "it belongs to user {owner}, who may change it at any time; say `chown root FILE`, or give it to user \
             {user}, who runs this"
        ))
    } else {
        None
    }
}

/// Reads a file of one line, without the line's end. If the line is longer than `bytes_max`, the result is,
/// too.
///
/// # Errors
/// [`SecretFault`] if the file cannot be read, or others could have read or changed it.
pub fn read_line(path: &Path, bytes_max: usize) -> Result<Vec<u8>, SecretFault> {
    let file = file::open(path)?;
    let metadata = file.metadata()?;
    let user = rustix::process::geteuid().as_raw();
    let owners = (metadata.uid(), metadata.gid());
    if let Some(access) = open_to_others(owners, metadata.mode() & 0o777, user) {
        return Err(SecretFault::Open(access));
    }
    let mut text = Vec::new();
    // Two more for the line's end, and one to detect a longer line.
    file.take(bytes_max as u64 + 3).read_to_end(&mut text)?;
    if let Some(what) = file::byte_order_mark(&text) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, what).into());
    }
    if text.ends_with(b"\n") {
        text.pop();
    }
    if text.ends_with(b"\r") {
        text.pop();
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
