//! Metrics of the process itself (requests served, snapshots published, CPU, memory, open files), kept by the recorder of
//! `metrics-exporter-prometheus` and appended to `/metrics`.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use metrics_process::Collector;

use control::contain::{PANICS_TOTAL, Part, contained_in};
use control::core::PUBLISH_SECONDS;

/// Requests answered, by `path` (a known one, or `other`) and `status`.
pub(crate) const HTTP_REQUESTS: &str = "vernier_http_requests_total";
/// Open connections.
const HTTP_CONNECTIONS: &str = "vernier_http_connections";
/// Rejected connections and requests, by `reason`.
const HTTP_REJECTED: &str = "vernier_http_rejected_total";
/// Time to answer a request.
pub(crate) const HTTP_REQUEST_SECONDS: &str = "vernier_http_request_seconds";
/// Lost lines of the log.
const LOG_LOST_LINES: &str = "vernier_log_lost_lines_total";

/// Lost lines since the start of the process: the log exists before the recorder.
static LOST_LOG_LINES: AtomicU64 = AtomicU64::new(0);

/// Counts lost lines of the log, which standard error did not accept, or not in time.
pub fn count_lost_log_lines(lines: u64) {
    let before = LOST_LOG_LINES.fetch_add(lines, Ordering::Relaxed);
    metrics::counter!(LOG_LOST_LINES).absolute(before + lines);
}

/// Upper bounds in seconds: from a cached answer to a scrape of thousands of segments.
const BUCKETS_S: [f64; 8] = [1e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 0.1, 1.0];

/// Reasons for rejecting a client: it sends or reads too slowly, its slot was given to a newer client, it
/// sends too much, invalid HTTP, no valid token, a `Host` that is not a name of this switch, or too many
/// bytes of answers are in flight.
const HTTP_REASONS: [&str; 7] = [
    "slow",
    "crowded",
    "too_large",
    "garbage",
    "unauthorized",
    "host",
    "memory",
];

/// Counts a rejected client, by one of these reasons.
pub(crate) fn rejected(reason: &'static str) {
    counter!(HTTP_REJECTED, "reason" => reason).increment(1);
}

/// Sets the number of connections.
pub(crate) fn connections(connections: usize) {
    gauge!(HTTP_CONNECTIONS).set(connections as f64);
}

/// Installs the process's recorder once, and returns a handle to it.
///
/// The caller must call `run_upkeep` of the handle every few seconds: samples of histograms pile up until
/// then.
pub(crate) fn recorder() -> PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    HANDLE.get_or_init(install).clone()
}

/// The process's own metrics as text, for a page by [`crate::prometheus::write_families`].
pub fn own_metrics() -> String {
    render(&recorder())
}

/// The recorder's metrics and the current `process_*`; Prometheus recognises restarts by the start time.
pub(crate) fn render(recorder: &PrometheusHandle) -> String {
    Collector::default().collect();
    recorder.render()
}

fn install() -> PrometheusHandle {
    let builder = match PrometheusBuilder::new().set_buckets(&BUCKETS_S) {
        Ok(builder) => builder,
        // Fails only for an empty list of buckets; then summaries are used.
        Err(_) => PrometheusBuilder::new(),
    };
    let recorder = builder.build_recorder();
    let handle = recorder.handle();
    if metrics::set_global_recorder(recorder).is_err() {
        tracing::warn!(
            "another metrics recorder is installed: /metrics lacks the process's own metrics"
        );
    }
    describe_counter!(HTTP_REQUESTS, "HTTP requests answered.");
    describe_gauge!(HTTP_CONNECTIONS, "Open HTTP connections.");
    describe_counter!(
        HTTP_REJECTED,
        "HTTP connections and requests that were rejected, by reason."
    );
    // Present from the start, so that the first rejection is a rise.
    connections(0);
    for reason in HTTP_REASONS {
        counter!(HTTP_REJECTED, "reason" => reason).absolute(0);
    }
    describe_histogram!(
        HTTP_REQUEST_SECONDS,
        Unit::Seconds,
        "Time to answer an HTTP request."
    );
    describe_histogram!(
        PUBLISH_SECONDS,
        Unit::Seconds,
        "Time to estimate an epoch's figures and publish the snapshot."
    );
    Collector::default().describe();
    describe_counter!(LOG_LOST_LINES, "Log lines that could not be written.");
    count_lost_log_lines(0);
    describe_counter!(
        PANICS_TOTAL,
        "Panics of this program that were contained, by the part that was reset and continued."
    );
    for part in Part::ALL {
        counter!(PANICS_TOTAL, "part" => part.label()).absolute(contained_in(part));
    }
    handle
}
