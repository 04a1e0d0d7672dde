//! Opens files of the operator without ever blocking.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Opens a regular file for reading. A pipe or device is rejected at once, whether or not its other end is open.
///
/// # Errors
/// The system's, and [`io::ErrorKind::InvalidInput`] for anything but a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    let what = "it is not a regular file; write the contents to one, which can be read again";
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}

/// Reads a regular text file of at most `bytes_max` bytes.
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

/// Decodes the text of a file.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`], with what to do, for a byte order mark, UTF-16, or anything but UTF-8.
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

/// Explains bytes that begin with a byte order mark, and what to do; `None` for other bytes.
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
