//! The environment abstraction layer: start and end of DPDK.

use std::collections::BTreeSet;
use std::ffi::{CString, c_int};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cpus::allowed_cpus;
use crate::error::{DpdkLog, Errno, logged};

/// EAL initialises once per process, and never again after its cleanup (`rte_eal.h`).
static STARTED: AtomicBool = AtomicBool::new(false);

/// End of the CPU numbers known to EAL (`RTE_MAX_LCORE` of the distributions' builds).
const EAL_CPUS: usize = 128;

/// Options for starting EAL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EalOptions {
    /// Use hugepages, which physical NICs need; otherwise ordinary memory, without any privilege.
    pub hugepages: bool,
    /// Memory for mempools and queues, MiB.
    pub memory_mib: u32,
    /// Look for PCI devices, and use those bound to a userspace driver.
    pub pci: bool,
    /// Further EAL arguments, appended unchanged. `-l`, `-c` or `--lcores` replaces the CPUs chosen here,
    /// `--log-level` the level (warning).
    pub extra: Vec<String>,
}

impl Default for EalOptions {
    /// No hugepages, no PCI, 512 MiB.
    fn default() -> Self {
        Self {
            hugepages: false,
            memory_mib: 512,
            pci: false,
            extra: Vec::new(),
        }
    }
}

/// Why EAL did not start.
#[derive(Debug, thiserror::Error)]
pub enum EalError {
    /// A second start in one process.
    #[error(
        "DPDK was started in this process before; it starts once per process, and not again after \
         it has ended"
    )]
    AlreadyInitialised,
    /// An argument that prints a page and ends the process.
    #[error("EAL argument {argument:?} asks for EAL's usage, which ends the process; remove it")]
    Help {
        /// The argument.
        argument: String,
    },
    /// The argument contains a NUL.
    #[error("EAL argument {argument:?} contains a NUL byte; remove it")]
    Argument {
        /// The argument.
        argument: String,
    },
    /// No hugepages are available.
    #[error(
        "DPDK got no memory from hugepages: {errno}{log}; reserve some as root (echo 1024 > \
         /proc/sys/vm/nr_hugepages) and run as root, or do without: \"hugepages\": false, which is \
         EAL's --no-huge"
    )]
    Hugepages {
        /// DPDK's error.
        errno: Errno,
        /// DPDK's log lines.
        log: DpdkLog,
    },
    /// Any other error.
    #[error(
        "DPDK did not start: {errno}{log}; check the memory asked for ({memory_mib} MiB) and the \
         further EAL arguments {extra:?}"
    )]
    Init {
        /// DPDK's error.
        errno: Errno,
        /// DPDK's log lines.
        log: DpdkLog,
        /// [`EalOptions::memory_mib`].
        memory_mib: u32,
        /// [`EalOptions::extra`].
        extra: Vec<String>,
    },
}

/// Whether EAL is, or was, started by this crate in this process.
pub(crate) fn is_own() -> bool {
    STARTED.load(Ordering::Acquire)
}

/// A running DPDK. Everything else borrows from it; dropping it cleans up (`rte_eal_cleanup`).
#[derive(Debug)]
pub struct Eal {
    /// Ports attached by an `AttachedPort`; the lock also serialises hot-plugging.
    attached: Mutex<BTreeSet<u16>>,
}

impl Eal {
    /// Starts DPDK. The calling thread becomes its main lcore and stays on all CPUs that it was allowed
    /// before; no files are left behind, and there is no telemetry socket.
    ///
    /// # Errors
    /// See [`EalError`].
    pub fn init(program: &str, options: &EalOptions) -> Result<Self, EalError> {
        if let Some(argument) = options.extra.iter().find(|argument| is_help(argument)) {
            let argument = argument.clone();
            return Err(EalError::Help { argument });
        }
        let arguments: Vec<CString> = arguments(program, options, &allowed_cpus())
            .into_iter()
            .map(|argument| {
                CString::new(argument.as_str()).map_err(|_| EalError::Argument { argument })
            })
            .collect::<Result<_, _>>()?;
        if STARTED.swap(true, Ordering::AcqRel) {
            return Err(EalError::AlreadyInitialised);
        }
        let count = c_int::try_from(arguments.len()).unwrap_or(c_int::MAX);
        // EAL keeps pointers into its arguments, so they are leaked, once per process.
        let pointers: Vec<_> = arguments
            .into_iter()
            .map(CString::into_raw)
            .chain([ptr::null_mut()])
            .collect();
        let argv = pointers.leak().as_mut_ptr();
        // SAFETY: argv is a NULL-terminated array of count NUL-terminated writable strings that live
        // for ever, and STARTED lets this happen once.
        let started = logged(|| Errno::check(unsafe { dpdk_sys::vernier_eal_init(count, argv) }));
        match started {
            Ok(_) => Ok(Self {
                attached: Mutex::default(),
            }),
            Err((errno, log))
                if options.hugepages && [Errno::EACCES, Errno::ENOMEM].contains(&errno) =>
            {
                Err(EalError::Hugepages { errno, log })
            }
            Err((errno, log)) => Err(EalError::Init {
                errno,
                log,
                memory_mib: options.memory_mib,
                extra: options.extra.clone(),
            }),
        }
    }

    /// Frequency of [`tsc::now`](crate::tsc::now) in Hz, as EAL measured it at start.
    pub fn tsc_hz(&self) -> u64 {
        dpdk_sys::vernier_tsc_hz()
    }

    /// The attached ports; while the guard is held, none is attached or detached.
    pub(crate) fn hotplug(&self) -> MutexGuard<'_, BTreeSet<u16>> {
        // The set is consistent wherever a holder could unwind.
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Eal {
    fn drop(&mut self) {
        // SAFETY: pools, ports, mbufs and registrations borrow from self, so none is left.
        unsafe { dpdk_sys::vernier_eal_cleanup() }
    }
}

/// Whether getopt takes the argument as a request for help.
fn is_help(argument: &str) -> bool {
    argument == "-h" || (argument.len() >= "--he".len() && "--help".starts_with(argument))
}

fn arguments(program: &str, options: &EalOptions, cpus: &[usize]) -> Vec<String> {
    let mut arguments = vec![
        program.to_owned(),
        format!("--file-prefix=vernier-{}", std::process::id()),
        "--no-telemetry".to_owned(),
        "--log-level=warning".to_owned(),
        "-m".to_owned(),
        options.memory_mib.to_string(),
    ];
    let flags: &[&str] = if options.hugepages {
        &["--in-memory"]
    } else {
        // 22.11 refuses --in-memory together with --no-huge; --no-shconf leaves as little behind.
        &["--no-huge", "--no-shconf", "--iova-mode=va"]
    };
    arguments.extend(flags.iter().map(ToString::to_string));
    if !options.pci {
        arguments.push("--no-pci".to_owned());
    }
    let cpus: Vec<String> = cpus
        .iter()
        .filter(|cpu| **cpu < EAL_CPUS)
        .map(ToString::to_string)
        .collect();
    let chosen = |argument: &String| {
        argument.starts_with("-l") || argument.starts_with("-c") || argument.starts_with("--lcores")
    };
    if !cpus.is_empty() && !options.extra.iter().any(chosen) {
        // One lcore without a fixed CPU: EAL would otherwise pin the caller and every thread it starts.
        arguments.push(format!("--lcores=0@({})", cpus.join(",")));
    }
    arguments.extend(options.extra.iter().cloned());
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_for_help_are_refused() {
        let extra = |argument: &str| EalOptions {
            extra: vec![argument.to_owned()],
            ..EalOptions::default()
        };
        for argument in ["-h", "--he", "--help"] {
            let error = Eal::init("v", &extra(argument)).unwrap_err();
            assert!(matches!(error, EalError::Help { .. }), "{error}");
        }
        assert!(!is_help("--huge-unlink") && !is_help("-l") && !is_help(""));
    }

    #[test]
    fn arguments_follow_options() {
        let plain = arguments("v", &EalOptions::default(), &[0, 3, 500]).join(" ");
        assert!(plain.starts_with("v --file-prefix=vernier-"), "{plain}");
        assert!(
            plain.contains("-m 512 --no-huge --no-shconf --iova-mode=va --no-pci"),
            "{plain}"
        );
        assert!(plain.ends_with("--lcores=0@(0,3)"), "{plain}");

        let extra = ["-l", "1", "--log-level=debug"].map(str::to_owned).to_vec();
        let options = EalOptions {
            hugepages: true,
            memory_mib: 64,
            pci: true,
            extra,
        };
        let huge = arguments("v", &options, &[0]).join(" ");
        assert!(
            huge.ends_with("-m 64 --in-memory -l 1 --log-level=debug"),
            "{huge}"
        );
    }
}
