//! Files that only the operator and the switch may read.

use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::file;

/// What keeps a secret from being taken from a file.
#[derive(Debug, thiserror::Error)]
pub enum SecretFault {
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    /// Other users may read or change the file: which, and what to do.
    #[error("{0}")]
    Open(String),
}

/// Who, other than root and the user who runs this, may read or change a file of `owner` and `group` with the permissions
/// `mode`, when `user` runs this, and what to do. A group may read it, since that is how root's file reaches a user that
/// runs this.
fn open_to_others((owner, group): (u32, u32), mode: u32, user: u32) -> Option<String> {
    if mode & 0o007 != 0 {
        let what = "lets every user of this machine at it; say `chmod o= FILE`";
        Some(format!("mode {mode:03o} {what}"))
    } else if mode & 0o020 != 0 {
        let what = format!("lets group {group} change it; say `chmod g-w FILE`");
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

/// The contents of a file of one line, without the line's end. Of a file that is longer than
/// `bytes_max` they are more than that many bytes.
///
/// # Errors
/// [`SecretFault`] where it cannot be read, or others could have read or changed it.
pub fn read_line(path: &Path, bytes_max: usize) -> Result<Vec<u8>, SecretFault> {
    let file = file::open(path)?;
    let metadata = file.metadata()?;
    let user = rustix::process::geteuid().as_raw();
    let owners = (metadata.uid(), metadata.gid());
    if let Some(access) = open_to_others(owners, metadata.mode() & 0o777, user) {
        return Err(SecretFault::Open(access));
    }
    let mut text = Vec::new();
    // Two more for the line's end, and one that says that there are more.
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
