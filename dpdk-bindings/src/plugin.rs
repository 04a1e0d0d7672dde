//! How a shared object that EAL loads (`-d FILE`) starts in a host program, and how it leaves that program
//! alone if something goes wrong.
//!
//! ```text
//!  dlopen ── constructor ── starts a thread and returns at once        plugin!(start)
//!            a second copy, from another file, leaves the program to the first
//!  thread ── start() ── waits for ports, taps them, serves             host.rs
//!  fork ──── the child measures nothing, and logs it when packets pass
//!  panic ─── caught at every boundary; the plugin is disabled, the program continues
//! ```

use std::ffi::{CStr, c_char};
use std::panic::{self, AssertUnwindSafe};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// State of the plugin in the program.
static STATE: AtomicU8 = AtomicU8::new(AT_WORK);
const AT_WORK: u8 = 0;
/// This process was forked from the one that the plugin's threads run in.
const FORKED: u8 = 1;
const OFF: u8 = 2;

static START: OnceLock<fn()> = OnceLock::new();

/// The file of another copy of the plugin that was loaded before this one.
static OTHER_COPY: OnceLock<String> = OnceLock::new();

/// Bytes of a file's path with its NUL (`PATH_MAX`).
const PATH_BYTES: usize = 4096;

/// Level of a log line (`rte_log.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Level {
    /// `RTE_LOG_ERR`.
    Error = 4,
    /// `RTE_LOG_WARNING`.
    Warning = 5,
    /// `RTE_LOG_INFO`: shown only with `--log-level=vernier:info`, so that a program without problems
    /// prints the same as before.
    Info = 7,
    /// `RTE_LOG_DEBUG`.
    Debug = 8,
}

/// Writes a line to the program's DPDK log.
pub fn log(level: Level, line: &str) {
    let line = line.trim_end();
    // SAFETY: so many bytes are read, and copied.
    unsafe { dpdk_sys::vernier_host_log(level as u32, line.as_ptr().cast(), line.len()) }
}

/// Disables the plugin permanently, and logs why, once: nothing of the program is touched any more.
pub fn disable(why: &str) {
    if STATE.swap(OFF, Ordering::Relaxed) != OFF {
        log(
            Level::Error,
            &format!("disabled, the program runs on without it: {why}"),
        );
    }
}

/// Whether the plugin is active.
#[inline]
pub fn is_at_work() -> bool {
    STATE.load(Ordering::Relaxed) == AT_WORK
}

/// Runs `work` on behalf of the program, keeping panics from it.
#[inline]
pub(crate) fn guarded(work: impl FnOnce()) {
    if !is_at_work() {
        return refuse();
    }
    if panic::catch_unwind(AssertUnwindSafe(work)).is_err() {
        disable("it panicked; please report this line and the one before");
    }
}

/// A child that keeps using its parent's ports learns why nothing is measured.
#[cold]
fn refuse() {
    if STATE.load(Ordering::Relaxed) == FORKED {
        disable("this process was forked from the one that is measured");
    }
}

extern "C" fn in_child() {
    // A disabled one stays disabled.
    let _ = STATE.compare_exchange(AT_WORK, FORKED, Ordering::Relaxed, Ordering::Relaxed);
}

extern "C" fn run() {
    guarded(|| {
        if let Some(start) = START.get() {
            start();
        }
    });
}

/// Returns the file of another copy of this plugin that was loaded before it and handles the program's packets. The
/// loader recognises one file under several paths, but not a copy of the file.
pub fn other_copy() -> Option<&'static str> {
    OTHER_COPY.get().map(String::as_str)
}

/// Finds another object that defines `mark` at an address other than `own`.
fn find_other_copy(mark: &CStr, own: *const u8) -> Option<String> {
    let mut path: [c_char; PATH_BYTES] = [0; PATH_BYTES];
    // SAFETY: the name is NUL-terminated; at most PATH_BYTES are written, with a NUL. The loader holds its lock.
    let is_found = unsafe {
        dpdk_sys::vernier_host_other(mark.as_ptr(), own.cast(), path.as_mut_ptr(), PATH_BYTES)
    };
    // SAFETY: zeroed, or written with its NUL.
    let path = unsafe { CStr::from_ptr(path.as_ptr()) };
    (is_found != 0).then(|| path.to_string_lossy().into_owned())
}

/// Called by [`plugin!`](crate::plugin!) when the object is loaded. Runs `attach` at once, unless another copy of the
/// plugin is loaded, and `start` in a separate thread, which takes no signals. Never blocks. `mark` names the symbol
/// at `own`, which every copy exports.
pub fn construct(start: fn(), attach: fn(), mark: &CStr, own: *const u8) {
    guarded(|| {
        if START.set(start).is_err() {
            return;
        }
        match find_other_copy(mark, own) {
            // Fails only if it was set before.
            Some(path) => drop(OTHER_COPY.set(path)),
            None => attach(),
        }
        // SAFETY: both functions live as long as the object, which is never unloaded.
        let rc = unsafe {
            match dpdk_sys::vernier_host_at_fork(in_child) {
                0 => dpdk_sys::vernier_host_thread(run),
                rc => rc,
            }
        };
        if let Err(errno) = crate::error::Errno::check(rc) {
            disable(&format!("no thread: {errno}"));
        }
    });
}

/// Makes the shared object a plugin: `start`, a `fn()`, runs in a separate thread once the object is
/// loaded. Link it with `-z nodelete`, because callbacks stay registered for the life of the process.
#[macro_export]
macro_rules! plugin {
    ($start:path) => {
        /// The symbol by which copies of the plugin find each other.
        #[used]
        #[unsafe(no_mangle)]
        pub static VERNIER_PLUGIN: u8 = 1;

        #[used]
        #[unsafe(link_section = ".init_array")]
        static VERNIER_CONSTRUCTOR: extern "C" fn() = {
            extern "C" fn construct() {
                $crate::plugin::construct(
                    $start,
                    $crate::attach_vhost,
                    c"VERNIER_PLUGIN",
                    &raw const VERNIER_PLUGIN,
                );
            }
            construct
        };
    };
}
