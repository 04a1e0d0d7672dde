//! Metrics of the process itself (requests served, snapshots published, CPU, memory, open files), kept by the recorder of
//! `metrics-exporter-prometheus` and appended to `/metrics`.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use metrics_process::Collector;

use control::contain::{PANICS_TOTAL, Part, contained_in};
use control::core::PUBLISH_SECONDS;

/// Requests answered, by `path` (one of ours, or `other`) and `status`.
pub(crate) const HTTP_REQUESTS: &str = "vernier_http_requests_total";
/// Connections that are served.
const HTTP_CONNECTIONS: &str = "vernier_http_connections";
/// Connections and requests that were not served, by `reason`.
const HTTP_REJECTED: &str = "vernier_http_rejected_total";
/// Time to answer a request.
pub(crate) const HTTP_REQUEST_SECONDS: &str = "vernier_http_request_seconds";
/// Lines of the log that were lost.
const LOG_LOST_LINES: &str = "vernier_log_lost_lines_total";

/// The same from the start of the process: the log exists before the recorder.
static LOST_LOG_LINES: AtomicU64 = AtomicU64::new(0);

/// Counts lines of the log that were lost: standard error did not take them, or not in time.
pub fn count_lost_log_lines(lines: u64) {
    let before = LOST_LOG_LINES.fetch_add(lines, Ordering::Relaxed);
    metrics::counter!(LOG_LOST_LINES).absolute(before + lines);
}

/// Upper bounds in seconds: from a cached answer to a scrape of thousands of segments.
const BUCKETS_S: [f64; 8] = [1e-5, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 0.1, 1.0];

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

/// Counts a client that is not served, by one of the reasons above.
pub(crate) fn rejected(reason: &'static str) {
    counter!(HTTP_REJECTED, "reason" => reason).increment(1);
}

/// Sets the number of connections.
pub(crate) fn connections(connections: usize) {
    gauge!(HTTP_CONNECTIONS).set(connections as f64);
}

/// Makes the process's recorder, once; from then on metrics are kept.
///
/// The holder of the handle has to call its `run_upkeep` every few seconds: samples of histograms
/// pile up until then.
pub(crate) fn recorder() -> PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    HANDLE.get_or_init(install).clone()
}

/// The process's own metrics as text, for a page of [`crate::prometheus::write_families`].
pub fn own_metrics() -> String {
    render(&recorder())
}

/// What the recorder has, and `process_*` as it is now; by the start Prometheus tells restarts.
pub(crate) fn render(recorder: &PrometheusHandle) -> String {
    Collector::default().collect();
    recorder.render()
}

fn install() -> PrometheusHandle {
    let builder = match PrometheusBuilder::new().set_buckets(&BUCKETS_S) {
        Ok(builder) => builder,
        // Refused only if there were no buckets; summaries then.
        Err(_) => PrometheusBuilder::new(),
    };
    let recorder = builder.build_recorder();
    let handle = recorder.handle();
    if metrics::set_global_recorder(recorder).is_err() {
        tracing::warn!("another metrics recorder is installed: /metrics lacks the process's own");
    }
    describe_counter!(HTTP_REQUESTS, "HTTP requests answered.");
    describe_gauge!(HTTP_CONNECTIONS, "HTTP connections that are served.");
    describe_counter!(
        HTTP_REJECTED,
        "HTTP connections and requests that were not served."
    );
    // Known from the start, so that the first one is a rise.
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
    describe_counter!(
        LOG_LOST_LINES,
        "Lines of the log that could not be written."
    );
    count_lost_log_lines(0);
    describe_counter!(
        PANICS_TOTAL,
        "Faults of this program (panics) that were contained, by the part that was reset and continued."
    );
    for part in Part::ALL {
        counter!(PANICS_TOTAL, "part" => part.label()).absolute(contained_in(part));
    }
    handle
}
