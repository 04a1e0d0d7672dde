//! CPUs and NUMA sockets, as the kernel reports them, for which no EAL is needed.

use crate::error::Errno;

/// Most CPUs of a set (`CPU_SETSIZE`).
const CPUS_MAX: usize = 1024;

/// The CPUs that the calling thread may use, ascending.
pub fn allowed_cpus() -> Vec<usize> {
    let mut cpus = [0; CPUS_MAX];
    // SAFETY: at most CPUS_MAX entries are written.
    let count = unsafe { dpdk_sys::vernier_allowed_cpus(cpus.as_mut_ptr(), CPUS_MAX) };
    cpus.iter()
        .take(count)
        .map(|cpu| usize::from(*cpu))
        .collect()
}

/// Keeps the calling thread, and threads that it starts from now on, to these CPUs.
///
/// # Errors
/// The kernel's: none of them is one that this process may use.
pub fn keep_to_cpus(cpus: &[usize]) -> Result<(), Errno> {
    let cpus: Vec<u16> = cpus
        .iter()
        .filter_map(|&cpu| u16::try_from(cpu).ok())
        .collect();
    // SAFETY: the array has so many entries, which are only read.
    Errno::check(unsafe { dpdk_sys::vernier_thread_keep_to(cpus.as_ptr(), cpus.len()) }).map(drop)
}

/// The NUMA socket that a CPU belongs to, as the kernel numbers its nodes; `None` where it says
/// nothing.
pub fn numa_socket_of(cpu: usize) -> Option<u16> {
    let folder = std::fs::read_dir(format!("/sys/devices/system/cpu/cpu{cpu}")).ok()?;
    let mut names = folder.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.find_map(|name| name.strip_prefix("node")?.parse().ok())
}
