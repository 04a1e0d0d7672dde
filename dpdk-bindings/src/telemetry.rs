//! Commands of DPDK's telemetry (`dpdk-telemetry.py`) that the plugin answers, in the program's telemetry thread.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::NonNull;
use std::sync::OnceLock;

use dpdk_sys::rte_tel_data;

use crate::error::Errno;
use crate::host::Host;
use crate::plugin::guarded;

/// What a command is answered with: `None` where its parameters mean nothing.
type Answer = dyn Fn(Command, &str) -> Option<Vec<Row>> + Send + Sync;

static ANSWER: OnceLock<Box<Answer>> = OnceLock::new();

/// A command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// `/vernier/segments`
    Segments,
    /// `/vernier/flows`
    Flows,
}

impl Command {
    const ALL: [Self; 2] = [Self::Segments, Self::Flows];

    fn name(self) -> &'static CStr {
        match self {
            Self::Segments => c"/vernier/segments",
            Self::Flows => c"/vernier/flows",
        }
    }

    fn help(self) -> &'static CStr {
        match self {
            Self::Segments => {
                c"Latency of the last minute from port to port. Parameters: string egress port (optional)"
            }
            Self::Flows => {
                c"The flows with most bytes, and their latency. Parameters: int how many (optional, 1 to 64)"
            }
        }
    }
}

/// A line of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Names of what it is about, at most 127 bytes each.
    pub texts: Vec<(&'static CStr, String)>,
    /// Its figures.
    pub numbers: Vec<(&'static CStr, u64)>,
}

/// Answers telemetry's commands from now on, for as long as the process lives; once in a process.
///
/// # Errors
/// DPDK's: it has no room for more commands.
pub fn offer(
    _: &Host<'_>,
    answer: impl Fn(Command, &str) -> Option<Vec<Row>> + Send + Sync + 'static,
) -> Result<(), Errno> {
    if ANSWER.set(Box::new(answer)).is_err() {
        return Ok(());
    }
    for command in Command::ALL {
        let (name, help) = (command.name().as_ptr(), command.help().as_ptr());
        // SAFETY: EAL is initialised, as a host says; the texts are static and copied, the function lives as long as the
        // process.
        Errno::check(unsafe { dpdk_sys::vernier_telemetry_offer(name, asked, help) })?;
    }
    Ok(())
}

/// # Safety
/// `command` is NUL-terminated, `parameters` too or NULL, and `answer` is telemetry's for this call.
unsafe extern "C" fn asked(
    command: *const c_char,
    parameters: *const c_char,
    answer: *mut rte_tel_data,
) -> c_int {
    // SAFETY: the caller's word.
    let command = unsafe { CStr::from_ptr(command) };
    let parameters = if parameters.is_null() {
        c""
    } else {
        // SAFETY: the caller's word.
        unsafe { CStr::from_ptr(parameters) }
    };
    let mut is_answered = false;
    guarded(|| {
        let command = Command::ALL.into_iter().find(|one| one.name() == command);
        let rows = command
            .zip(ANSWER.get())
            .and_then(|(command, rows)| rows(command, &parameters.to_string_lossy()));
        // SAFETY: the caller's word.
        is_answered = rows.is_some_and(|rows| unsafe { write(answer, &rows) }.is_some());
    });
    if is_answered { 0 } else { -1 }
}

/// # Safety
/// `answer` is telemetry's, and not begun.
unsafe fn write(answer: *mut rte_tel_data, rows: &[Row]) -> Option<()> {
    // SAFETY: the caller's word; texts are NUL-terminated and copied; a row belongs to the answer that it was added to.
    unsafe {
        let ok = |rc: c_int| (rc == 0).then_some(());
        ok(dpdk_sys::vernier_telemetry_begin(answer))?;
        for Row { texts, numbers } in rows {
            let row = NonNull::new(dpdk_sys::vernier_telemetry_row(answer))?.as_ptr();
            for (name, text) in texts {
                let text = CString::new(text.as_str()).ok()?;
                // One that is too long is cut, which is an error to DPDK.
                dpdk_sys::vernier_telemetry_text(row, name.as_ptr(), text.as_ptr());
            }
            for &(name, number) in numbers {
                ok(dpdk_sys::vernier_telemetry_number(
                    row,
                    name.as_ptr(),
                    number,
                ))?;
            }
        }
    }
    Some(())
}
