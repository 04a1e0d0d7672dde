//! Combines DPDK's two ways to report errors: an errno, and the log lines that belong to it.

use std::ffi::{CStr, c_int};
use std::fmt;
use std::ptr;

/// An error number with DPDK's text for it (`rte_strerror`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(i32);

impl Errno {
    /// No such device.
    pub const ENODEV: Self = Self(19);
    pub(crate) const EPERM: Self = Self(1);
    pub(crate) const ENOENT: Self = Self(2);
    pub(crate) const ENOMEM: Self = Self(12);
    pub(crate) const EACCES: Self = Self(13);
    pub(crate) const EFAULT: Self = Self(14);
    pub(crate) const EEXIST: Self = Self(17);
    pub(crate) const EINVAL: Self = Self(22);
    pub(crate) const ENOSYS: Self = Self(38);
    pub(crate) const ENOTSUP: Self = Self(95);
    pub(crate) const EALREADY: Self = Self(114);

    /// The error number, positive.
    pub fn code(self) -> i32 {
        self.0
    }

    /// Converts the shim's convention: a negative errno, or a value.
    pub(crate) fn check(rc: c_int) -> Result<u32, Self> {
        u32::try_from(rc).map_err(|_| Self(rc.saturating_neg()))
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = dpdk_sys::vernier_strerror(self.0);
        // SAFETY: rte_strerror returns a NUL-terminated string that stays valid in this thread until
        // its next call, which is after this use.
        let text = unsafe { CStr::from_ptr(text) };
        f.write_str(&text.to_string_lossy())
    }
}

impl std::error::Error for Errno {}

/// Log lines of DPDK and its drivers in this thread during a failed operation. Shown as `; DPDK says: ...`,
/// or not at all if there are none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DpdkLog(String);

impl DpdkLog {
    /// The lines, joined by `; `.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DpdkLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            Ok(())
        } else {
            write!(f, "; DPDK says: {}", self.0)
        }
    }
}

/// Runs an operation of DPDK that logs its reasons. On failure they are returned with the errno, on success
/// they go to stderr as usual.
pub(crate) fn logged<T>(
    operation: impl FnOnce() -> Result<T, Errno>,
) -> Result<T, (Errno, DpdkLog)> {
    dpdk_sys::vernier_log_begin();
    let result = operation();
    let mut text = ptr::null();
    // SAFETY: the kept bytes belong to this thread and stay as they are until its next
    // vernier_log_begin; they are copied or written out before that.
    let log = unsafe {
        let len = dpdk_sys::vernier_log_end(&raw mut text);
        std::slice::from_raw_parts(text.cast::<u8>(), len)
    };
    match result {
        Ok(value) => {
            dpdk_sys::vernier_log_repeat();
            Ok(value)
        }
        Err(errno) => {
            let text = String::from_utf8_lossy(log);
            let mut lines: Vec<&str> = text
                .lines()
                .map(str::trim)
                .filter(|line| !line.is_empty())
                .collect();
            lines.dedup();
            Err((errno, DpdkLog(lines.join("; "))))
        }
    }
}

/// Messages of DPDK and its drivers since the process began that could not be written to standard error,
/// because it failed or was not read. Nothing ever waits for it.
pub fn lost_log_messages() -> u64 {
    dpdk_sys::vernier_log_lost()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errno_has_dpdk_text() {
        assert_eq!(Errno::check(3), Ok(3));
        assert_eq!(Errno::check(-19), Err(Errno::ENODEV));
        assert_eq!(Errno::ENODEV.to_string(), "No such device");
        assert_eq!(Errno::ENODEV.code(), 19);
        // RTE_ERRNO's own range begins at 1001 (rte_errno.h).
        assert!(
            Errno(1001).to_string().contains("secondary"),
            "{}",
            Errno(1001)
        );
    }

    #[test]
    fn log_shows_only_when_there_is_some() {
        assert_eq!(DpdkLog::default().to_string(), "");
        assert_eq!(DpdkLog("a; b".to_owned()).to_string(), "; DPDK says: a; b");
    }
}
