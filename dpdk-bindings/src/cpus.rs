//! CPUs and NUMA sockets, as the kernel reports them, for which no EAL is needed.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::Errno;

/// The CPUs that the calling thread may use, ascending.
pub fn allowed_cpus() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap_or_default();
    let all = 0..CpuSet::MAX_CPU;
    all.filter(|&cpu| allowed.is_set(cpu)).collect()
}

/// Restricts the calling thread, and threads that it starts later, to these CPUs.
///
/// # Errors
/// The kernel's, if this process may use none of them.
pub fn keep_to_cpus(cpus: &[usize]) -> Result<(), Errno> {
    let mut kept = CpuSet::new();
    for &cpu in cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU) {
        kept.set(cpu);
    }
    sched_setaffinity(None, &kept).or_else(|error| Errno::check(-error.raw_os_error()).map(drop))
}

/// The NUMA socket of a CPU, as the kernel numbers its nodes; `None` if unknown.
pub fn numa_socket_of(cpu: usize) -> Option<u16> {
    let folder = std::fs::read_dir(format!("/sys/devices/system/cpu/cpu{cpu}")).ok()?;
    let mut names = folder.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.find_map(|name| name.strip_prefix("node")?.parse().ok())
}
