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
mod tests {
    use super::*;

    #[test]
    fn a_pipe_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
        for path in [pipe.as_path(), folder.path(), Path::new("/dev/zero")] {
            let error = open(path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
        }
        assert!(open(Path::new("/proc/self/status")).is_ok());
    }
}
