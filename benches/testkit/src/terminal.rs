//! A pseudo-terminal that is no process's controlling terminal, so that closing it sends no SIGHUP.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// A terminal of 24 rows. Dropping `controller` closes it.
#[derive(Debug)]
pub struct Terminal {
    /// Reads what programs write to the terminal, and writes what they read as keys.
    pub controller: File,
    name: CString,
}

impl Terminal {
    /// Opens a terminal with this many columns.
    ///
    /// # Errors
    /// The system's.
    pub fn open(columns: u16) -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let controller = openpt(flags)?;
        grantpt(&controller)?;
        unlockpt(&controller)?;
        let size = Winsize {
            ws_row: 24,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&controller, size)?;
        let name = ptsname(&controller, Vec::new())?;
        Ok(Self {
            controller: controller.into(),
            name,
        })
    }

    /// Returns a standard stream for a program on this terminal. The caller must be no session leader, or the terminal
    /// would become its controlling one.
    ///
    /// # Errors
    /// The system's.
    pub fn stream(&self) -> io::Result<Stdio> {
        let path = Path::new(OsStr::from_bytes(self.name.as_bytes()));
        let file = File::options().read(true).write(true).open(path)?;
        Ok(file.into())
    }
}
