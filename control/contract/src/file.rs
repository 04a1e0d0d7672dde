//! Files of the operator, opened so that opening never waits without an end.

use std::fs::File;
use std::io::{self, Read};
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

/// Reads a regular file of text, `bytes_max` bytes at most.
///
/// # Errors
/// Those of [`open`] and [`text`], and [`io::ErrorKind::FileTooLarge`].
pub fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    let file = open(path)?;
    if file.take(bytes_max + 1).read_to_end(&mut bytes)? as u64 > bytes_max {
        let most = bytes_max >> 20;
        let what = format!("it has more than {most} MiB");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    text(bytes)
}

/// Text of a file.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`], with what to do, for a byte order mark, UTF-16, and what is not UTF-8.
pub fn text(bytes: Vec<u8>) -> io::Result<String> {
    let what = match byte_order_mark(&bytes) {
        Some(what) => what.to_owned(),
        None => match String::from_utf8(bytes) {
            Ok(text) => return Ok(text),
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                let good = &error.as_bytes()[..at];
                let line = good.split(|&byte| byte == b'\n').count();
                format!("line {line} is not UTF-8; save it as UTF-8")
            }
        },
    };
    Err(io::Error::new(io::ErrorKind::InvalidData, what))
}

/// What is wrong with bytes that begin with a byte order mark, and what to do; `None` where they do not.
pub fn byte_order_mark(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0xef, 0xbb, 0xbf, ..] => {
            Some("it begins with a byte order mark (EF BB BF); save it as UTF-8 without one")
        }
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            Some("it is UTF-16, by its byte order mark; save it as UTF-8 without one")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
