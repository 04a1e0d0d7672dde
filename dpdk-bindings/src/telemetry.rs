//! Commands of DPDK's telemetry (`dpdk-telemetry.py`) answered by the plugin, in the program's telemetry thread.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::NonNull;
use std::sync::OnceLock;

use dpdk_sys::rte_tel_data;

use crate::error::Errno;
use crate::host::Host;
use crate::plugin::guarded;

/// Answers a command; `None` for invalid parameters.
type Answer = dyn Fn(Command, &str) -> Option<Vec<Column>> + Send + Sync;

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

/// A column of an answer; all have the same length, at most 512.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name: letters, digits and `_`.
    pub name: &'static CStr,
    /// Its values.
    pub values: Values,
}

/// Values of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Values {
    /// Texts; bytes beyond 127 are cut.
    Texts(Vec<String>),
    /// Numbers.
    Numbers(Vec<u64>),
}

/// Registers the commands for the life of the process; once in a process.
///
/// # Errors
/// DPDK's, if it has no room for more commands.
pub fn offer(
    _: &Host<'_>,
    answer: impl Fn(Command, &str) -> Option<Vec<Column>> + Send + Sync + 'static,
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
        let table = command
            .zip(ANSWER.get())
            .and_then(|(command, table)| table(command, &parameters.to_string_lossy()));
        // SAFETY: the caller's word.
        is_answered = table.is_some_and(|table| unsafe { write(answer, &table) }.is_some());
    });
    if is_answered { 0 } else { -1 }
}

/// # Safety
/// `answer` is telemetry's, and not begun.
unsafe fn write(answer: *mut rte_tel_data, table: &[Column]) -> Option<()> {
    let ok = |rc: c_int| (rc == 0).then_some(());
    // SAFETY: the caller's word.
    ok(unsafe { dpdk_sys::vernier_telemetry_begin(answer) })?;
    for Column { name, values } in table {
        let is_text = c_int::from(matches!(values, Values::Texts(_)));
        // SAFETY: the answer is begun; the name is NUL-terminated and copied.
        let column = unsafe { dpdk_sys::vernier_telemetry_column(answer, name.as_ptr(), is_text) };
        let column = NonNull::new(column)?.as_ptr();
        match values {
            Values::Texts(texts) => {
                for text in texts {
                    let text = CString::new(text.as_str()).ok()?;
                    // SAFETY: a column of texts, which is the answer's; the text is copied. That it is cut is an error to
                    // DPDK, but not here.
                    unsafe { dpdk_sys::vernier_telemetry_text(column, text.as_ptr()) };
                }
            }
            Values::Numbers(numbers) => {
                for &number in numbers {
                    // SAFETY: a column of numbers, which is the answer's.
                    ok(unsafe { dpdk_sys::vernier_telemetry_number(column, number) })?;
                }
            }
        }
    }
    Some(())
}
