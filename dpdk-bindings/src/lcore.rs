//! Registers a worker's thread as one of DPDK's lcores.

use std::ffi::c_uint;
use std::marker::PhantomData;

use crate::cpus::allowed_cpus;
use crate::eal::Eal;
use crate::error::Errno;

/// Why a thread did not become an lcore.
#[derive(Debug, thiserror::Error)]
pub enum LcoreError {
    /// The CPU is not one that this thread may use.
    #[error(
        "cannot run on CPU {cpu}: this process may use CPUs {allowed:?} (taskset, cgroup cpuset or \
         isolcpus decide); choose one of these"
    )]
    Cpu {
        /// The CPU asked for.
        cpu: usize,
        /// The CPUs that the thread may use.
        allowed: Vec<usize>,
    },
    /// The calling thread is already an lcore: EAL's main thread, or registered before.
    #[error(
        "this thread is already an lcore; register each thread once, and never EAL's main thread"
    )]
    AlreadyRegistered,
    /// DPDK or the kernel refused.
    #[error("cannot register a worker on CPU {cpu}: {errno}; DPDK takes 128 lcores at most")]
    Register {
        /// The CPU asked for.
        cpu: usize,
        /// DPDK's error.
        errno: Errno,
    },
}

/// The calling thread as an lcore, which has its own mempool cache. Dropping this value unregisters the thread, which
/// stays pinned.
#[derive(Debug)]
pub struct LcoreRegistration<'eal> {
    // Bound to this thread (a raw pointer is not Send) and to the lifetime of EAL.
    _thread_of_eal: PhantomData<(*const (), &'eal Eal)>,
}

impl Eal {
    /// Pins the calling thread to `cpu` and registers it as an lcore (`rte_thread_register`).
    ///
    /// # Errors
    /// See [`LcoreError`]; the thread's CPUs are then unchanged.
    pub fn register_thread(&self, cpu: usize) -> Result<LcoreRegistration<'_>, LcoreError> {
        let allowed = allowed_cpus();
        let Some(number) = c_uint::try_from(cpu)
            .ok()
            .filter(|_| allowed.contains(&cpu))
        else {
            return Err(LcoreError::Cpu { cpu, allowed });
        };
        // SAFETY: EAL is initialised while self lives.
        match Errno::check(unsafe { dpdk_sys::vernier_thread_register(number) }) {
            Ok(_) => Ok(LcoreRegistration {
                _thread_of_eal: PhantomData,
            }),
            Err(Errno::EALREADY) => Err(LcoreError::AlreadyRegistered),
            Err(errno) => Err(LcoreError::Register { cpu, errno }),
        }
    }
}

impl Drop for LcoreRegistration<'_> {
    fn drop(&mut self) {
        // SAFETY: registered by register_thread in this thread, and EAL still lives.
        unsafe { dpdk_sys::vernier_thread_unregister() }
    }
}
