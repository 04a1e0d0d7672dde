//! The system's clock, as whoever keeps it (chrony, ntpd, linuxptp) has told the kernel. It has nothing to
//! do with DPDK: it is here since it takes unsafe code, and no package on the registry reads it safely
//! without ways to set the clock.

/// What the kernel says of the system's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelClock {
    /// Whether somebody keeps it.
    pub is_synchronised: bool,
    /// Its estimated error in microseconds (`esterror`).
    pub estimated_error_us: u64,
    /// Its greatest error in microseconds (`maxerror`).
    pub error_us_max: u64,
}

/// Asks the kernel (`ntp_adjtime(3)`, nothing is set, no privilege is needed); `None` where it does not
/// answer.
pub fn read() -> Option<KernelClock> {
    let (mut estimated_error_us, mut error_us_max) = (0, 0);
    // SAFETY: both point to numbers that live through the call.
    let state = unsafe {
        dpdk_sys::vernier_kernel_clock(&raw mut estimated_error_us, &raw mut error_us_max)
    };
    (state >= 0).then_some(KernelClock {
        is_synchronised: state > 0,
        estimated_error_us,
        error_us_max,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_kernel_says_how_good_its_clock_is() {
        let clock = super::read().expect("every Linux answers");
        // NTP_PHASE_LIMIT: what a clock has that nobody keeps.
        assert!(clock.estimated_error_us <= 16_000_000, "{clock:?}");
    }
}
