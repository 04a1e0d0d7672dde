//! Files of the operator, opened so that opening never waits without an end.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Opens a regular file to read it. A pipe or a device is refused at once, whether or not its other end is open.
///
/// # Errors
/// The system's, and [`io::ErrorKind::InvalidInput`] for what is no regular file.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    let what = "it is not a regular file; write the contents to one, which can be read again";
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}

#[cfg(test)]
mod tests;
