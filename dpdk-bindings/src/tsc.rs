//! The time stamp counter: the only clock of the fast path. [`Eal::tsc_hz`](crate::Eal::tsc_hz) is its
//! frequency.

/// The counter's current value (`rte_rdtsc`). Not ordered against other instructions: off by a few
/// nanoseconds either way.
#[inline]
pub fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction, and Linux allows it in userspace.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    dpdk_sys::vernier_tsc()
}

#[cfg(test)]
mod tests {
    #[test]
    fn counts_as_dpdk_counts() {
        let before = super::now();
        let between = dpdk_sys::vernier_tsc();
        let after = super::now();
        assert!(
            before <= between && between <= after,
            "{before} {between} {after}"
        );
        assert!(after - before < 1_000_000_000, "one counter, not two");
    }
}
