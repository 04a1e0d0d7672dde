//! How a shared object that EAL loads (`-d FILE`) comes to life in a program that is not ours, and
//! how it leaves that program alone when something goes wrong.
//!
//! ```text
//!  dlopen ── constructor ── starts a thread and returns at once        plugin!(start)
//!  thread ── start() ── waits for ports, taps them, serves             host.rs
//!  fork ──── the child measures nothing, and says so if it is asked to
//!  panic ─── caught at every border; the plugin is off, the program goes on
//! ```

use std::panic::{self, AssertUnwindSafe};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// How the plugin stands to the program.
static STATE: AtomicU8 = AtomicU8::new(AT_WORK);
const AT_WORK: u8 = 0;
/// This process was forked from the one that the plugin's threads run in.
const FORKED: u8 = 1;
const OFF: u8 = 2;

static START: OnceLock<fn()> = OnceLock::new();

/// How much a line of the log matters (`rte_log.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Level {
    /// `RTE_LOG_ERR`.
    Error = 4,
    /// `RTE_LOG_WARNING`.
    Warning = 5,
    /// `RTE_LOG_INFO`: shown only with `--log-level=vernier:info`, so that a program in which all is
    /// well says what it always did.
    Info = 7,
    /// `RTE_LOG_DEBUG`.
    Debug = 8,
}

/// Writes a line where the program's DPDK logs.
pub fn log(level: Level, line: &str) {
    let line = line.trim_end();
    // SAFETY: so many bytes are read, and copied.
    unsafe { dpdk_sys::vernier_host_log(level as u32, line.as_ptr().cast(), line.len()) }
}

/// Turns the plugin off for good, and says why, once: nothing of the program's is touched any more.
pub fn disable(why: &str) {
    if STATE.swap(OFF, Ordering::Relaxed) != OFF {
        log(
            Level::Error,
            &format!("disabled, the program runs on without it: {why}"),
        );
    }
}

/// Whether the plugin may do anything.
#[inline]
pub fn is_at_work() -> bool {
    STATE.load(Ordering::Relaxed) == AT_WORK
}

/// Runs `work` on behalf of the program, which no panic may reach.
#[inline]
pub(crate) fn guarded(work: impl FnOnce()) {
    if !is_at_work() {
        return refuse();
    }
    if panic::catch_unwind(AssertUnwindSafe(work)).is_err() {
        disable("it panicked; please report this line and the one before");
    }
}

/// A child that goes on with its parent's ports learns why nothing is measured.
#[cold]
fn refuse() {
    if STATE.load(Ordering::Relaxed) == FORKED {
        disable("this process was forked from the one that is measured");
    }
}

extern "C" fn in_child() {
    // One that is off stays off.
    let _ = STATE.compare_exchange(AT_WORK, FORKED, Ordering::Relaxed, Ordering::Relaxed);
}

extern "C" fn run() {
    guarded(|| {
        if let Some(start) = START.get() {
            start();
        }
    });
}

/// What [`plugin!`](crate::plugin!) calls as the object is loaded: lets `start` run in a thread of its
/// own, which takes no signals, and never waits.
pub fn construct(start: fn()) {
    guarded(|| {
        if START.set(start).is_err() {
            return;
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

/// Makes the shared object a plugin: `start`, a `fn()`, runs in a thread of its own once the object is
/// loaded. To be linked with `-z nodelete`: callbacks stay where they are for as long as the process
/// lives.
#[macro_export]
macro_rules! plugin {
    ($start:path) => {
        #[used]
        #[unsafe(link_section = ".init_array")]
        static VERNIER_CONSTRUCTOR: extern "C" fn() = {
            extern "C" fn construct() {
                $crate::attach_vhost();
                $crate::plugin::construct($start);
            }
            construct
        };
    };
}
