//! Metrics of the process itself: requests served, snapshots published, CPU, memory, open files. They are on every program's
//! page for Prometheus.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use contract::metric::Durations;
use contract::record;
use control::contain::{Part, contained_in};
use metrics_process::collector;
use parking_lot::Mutex;

/// Why a client is not served: it sends or reads too slowly, its slot was given to a newer one, it
/// sends too much, it sends no valid HTTP, it has no valid token, its `Host` is not a name of this switch,
/// too many bytes of answers are in flight.
const HTTP_REASONS: [&str; 7] = [
    "slow",
    "crowded",
    "too_large",
    "garbage",
    "unauthorized",
    "host",
    "memory",
];

static LOST_LOG_LINES: AtomicU64 = AtomicU64::new(0);
static HTTP_CONNECTIONS: AtomicU64 = AtomicU64::new(0);
/// By the place of their reason in [`HTTP_REASONS`].
static HTTP_REJECTED: [AtomicU64; HTTP_REASONS.len()] =
    [const { AtomicU64::new(0) }; HTTP_REASONS.len()];
/// By path.
static HTTP_REQUESTS: Mutex<BTreeMap<&'static str, Requests>> = Mutex::new(BTreeMap::new());

record! {
    /// Requests for one path.
    #[derive(Debug, Clone, Default)]
    pub struct Requests {
        /// HTTP requests answered.
        #[metric(Counter = "vernier_http_requests_total", label = "status")]
        pub by_status: BTreeMap<u16, u64>,
        /// Time to answer them.
        pub durations: Durations,
    }
}

record! {
    /// The process: what it counts, and what the kernel knows of it.
    #[derive(Debug)]
    pub struct Process {
        /// HTTP connections that are served.
        #[metric(Gauge = "vernier_http_connections")]
        pub http_connections: u64,
        /// HTTP connections and requests that were not served.
        #[metric(Counter = "vernier_http_rejected_total", label = "reason")]
        pub http_rejected: BTreeMap<&'static str, u64>,
        /// Lines of the log that could not be written.
        #[metric(Counter = "vernier_log_lost_lines_total")]
        pub lost_log_lines: u64,
        /// Faults of this program (panics) that were contained, by the part that was reset and continued.
        #[metric(Counter = "vernier_contained_panics_total", label = "part")]
        pub contained_panics: BTreeMap<&'static str, u64>,
        /// Total user and system CPU time spent in seconds.
        #[metric(Counter = "process_cpu_seconds_total")]
        pub cpu_s: Option<f64>,
        /// Number of open file descriptors.
        #[metric(Gauge = "process_open_fds")]
        pub open_fds: Option<u64>,
        /// Maximum number of open file descriptors.
        #[metric(Gauge = "process_max_fds")]
        pub max_fds: Option<u64>,
        /// Virtual memory size in bytes.
        #[metric(Gauge = "process_virtual_memory_bytes")]
        pub virtual_bytes: Option<u64>,
        /// Maximum amount of virtual memory available in bytes.
        #[metric(Gauge = "process_virtual_memory_max_bytes")]
        pub virtual_bytes_max: Option<u64>,
        /// Resident memory size in bytes.
        #[metric(Gauge = "process_resident_memory_bytes")]
        pub resident_bytes: Option<u64>,
        /// Start time of the process since unix epoch in seconds.
        #[metric(Gauge = "process_start_time_seconds")]
        pub start_unix_s: Option<u64>,
        /// Number of OS threads in the process.
        #[metric(Gauge = "process_threads")]
        pub threads: Option<u64>,
    }
}

impl Process {
    pub(crate) fn now() -> Self {
        let kernel = collector::collect();
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Self {
            http_connections: read(&HTTP_CONNECTIONS),
            // All reasons from the start, so that the first one is a rise.
            http_rejected: HTTP_REASONS
                .into_iter()
                .zip(HTTP_REJECTED.iter().map(read))
                .collect(),
            lost_log_lines: read(&LOST_LOG_LINES),
            contained_panics: Part::ALL
                .map(|part| (part.label(), contained_in(part)))
                .into(),
            // In whole seconds.
            cpu_s: kernel.cpu_seconds_total.map(f64::floor),
            open_fds: kernel.open_fds,
            max_fds: kernel.max_fds,
            virtual_bytes: kernel.virtual_memory_bytes,
            virtual_bytes_max: kernel.virtual_memory_max_bytes,
            resident_bytes: kernel.resident_memory_bytes,
            start_unix_s: kernel.start_time_seconds,
            threads: kernel.threads,
        }
    }
}

/// Counts lines of the log that were lost: standard error did not take them, or not in time.
pub fn count_lost_log_lines(lines: u64) {
    LOST_LOG_LINES.fetch_add(lines, Ordering::Relaxed);
}

/// Counts a client that is not served, by one of [`HTTP_REASONS`].
pub(crate) fn rejected(reason: &'static str) {
    let place = HTTP_REASONS.iter().position(|known| *known == reason);
    debug_assert!(place.is_some(), "{reason} is no reason");
    if let Some(place) = place {
        HTTP_REJECTED[place].fetch_add(1, Ordering::Relaxed);
    }
}

/// Sets the number of connections.
pub(crate) fn connections(connections: usize) {
    HTTP_CONNECTIONS.store(connections as u64, Ordering::Relaxed);
}

/// Counts a request that was answered.
pub(crate) fn answered(path: &'static str, status: u16, took: Duration) {
    let mut requests = HTTP_REQUESTS.lock();
    let requests = requests.entry(path).or_default();
    *requests.by_status.entry(status).or_default() += 1;
    requests.durations.add(took);
}

/// The requests answered, by path.
pub(crate) fn requests() -> BTreeMap<&'static str, Requests> {
    HTTP_REQUESTS.lock().clone()
}
