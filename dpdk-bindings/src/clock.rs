//! The kernel's view of the system's clock.

use crate::Errno;

/// State of the system's clock, as set in the kernel by the program that synchronises it (PTP or NTP):
/// `adjtimex(2)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelClock {
    /// Neither `STA_UNSYNC` nor `STA_CLOCKERR`.
    pub is_synchronised: bool,
    /// `esterror`, in microseconds.
    pub estimated_error_us: u64,
    /// `maxerror`, in microseconds.
    pub error_us_max: u64,
}

/// Asks the kernel, which needs no privilege.
///
/// # Errors
/// [`Errno`] if it refuses, for example in a sandbox.
pub fn kernel_clock() -> Result<KernelClock, Errno> {
    let (mut is_synchronised, mut error_us, mut max_error_us) = (false, 0, 0);
    // SAFETY: three places of the right types, which live as long as the call.
    let rc = unsafe {
        dpdk_sys::vernier_kernel_clock(
            &raw mut is_synchronised,
            &raw mut error_us,
            &raw mut max_error_us,
        )
    };
    Errno::check(rc)?;
    Ok(KernelClock {
        is_synchronised,
        estimated_error_us: error_us,
        error_us_max: max_error_us,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_no_less_than_it_estimates() {
        // 16 s is the kernel's value for a clock that no program synchronises.
        let clock = kernel_clock().unwrap();
        assert!(clock.estimated_error_us <= clock.error_us_max.max(16_000_000));
        assert!(clock.error_us_max > 0);
    }
}
