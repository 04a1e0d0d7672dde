//! A snapshot as Prometheus text (exposition format 0.0.4).
//!
//! Base units throughout: seconds, bytes, ratios. Every label set is bounded by the configuration.
//! A segment that no packet has passed has its counters, but no histogram: a bridge of 64 ports has
//! 4,032 segments, and most stay silent.

use std::fmt::Display;

use metrics::{Key, Label};
use metrics_exporter_prometheus::LabelSet;
use metrics_exporter_prometheus::formatting::{
    write_help_line, write_metric_line, write_type_line,
};

use crate::snapshot::{Estimate, Octave, Port, Segment, Snapshot, State, Worker};

/// Content type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Bounds of the delay histogram: 2^7 ns (128 ns) to 2^33 ns (8.6 s), an octave each. Fixed, so
/// that histograms of all hosts and releases can be added.
const OCTAVES: std::ops::RangeInclusive<u32> = 7..=33;

/// Gauges of a segment vanish when no epoch was usable for so long: an old number is a wrong one.
const FRESH_S: f64 = 60.0;

/// Writes the snapshot as Prometheus text.
pub fn render(snapshot: &Snapshot) -> String {
    let mut page = Page::default();
    process(&mut page, snapshot);
    segments(&mut page, &snapshot.segments);
    estimates(&mut page, snapshot);
    ports(&mut page, &snapshot.ports);
    workers(&mut page, &snapshot.workers);
    page.0
}

/// The text under construction.
#[derive(Default)]
struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        write_help_line(&mut self.0, name, None, None, help);
        write_type_line(&mut self.0, name, None, None, kind);
    }

    fn sample(&mut self, name: &str, labels: &LabelSet, value: impl Display) {
        write_metric_line::<&str, _>(&mut self.0, name, None, labels, None, value, None);
    }

    /// A family with one sample for each item.
    fn each<I: IntoIterator<Item = (LabelSet, V)>, V: Display>(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        samples: I,
    ) {
        self.family(name, kind, help);
        for (labels, value) in samples {
            self.sample(name, &labels, value);
        }
    }

    /// One series of a histogram: cumulative buckets, sum and count.
    fn histogram(&mut self, name: &str, labels: &LabelSet, octaves: &[Octave], sum: f64) {
        let mut line = |suffix, le: Option<(&'static str, String)>, value: &dyn Display| {
            write_metric_line(&mut self.0, name, Some(suffix), labels, le, value, None);
        };
        let at_most = |bound_ns| -> u64 {
            let within = octaves.iter().filter(|octave| octave.le_ns <= bound_ns);
            within.map(|octave| octave.packets).sum()
        };
        for exponent in OCTAVES {
            let bound_ns = 1u64 << exponent;
            let bound_s = bound_ns as f64 / 1e9;
            line(
                "bucket",
                Some(("le", bound_s.to_string())),
                &at_most(bound_ns),
            );
        }
        let count = at_most(u64::MAX);
        line("bucket", Some(("le", "+Inf".to_owned())), &count);
        line("sum", None, &sum);
        line("count", None, &count);
    }
}

fn labels(pairs: &[(&'static str, &str)]) -> LabelSet {
    let labels = pairs
        .iter()
        .map(|&(key, value)| Label::new(key, value.to_owned()));
    let key = Key::from_parts("", labels.collect::<Vec<_>>());
    LabelSet::from_key_and_global(&key, &Default::default())
}

fn segment_labels(segment: &Segment, more: &[(&'static str, &str)]) -> LabelSet {
    let name = segment.name();
    let own = [
        ("segment", name.as_str()),
        ("ingress", segment.ingress.as_str()),
        ("egress", segment.egress.as_str()),
        ("class", segment.class.as_str()),
    ];
    labels(&[&own, more].concat())
}

fn process(page: &mut Page, snapshot: &Snapshot) {
    let hash_version = snapshot.hash_version.to_string();
    let build = labels(&[
        ("version", &snapshot.version),
        ("hash_version", &hash_version),
        ("switch", &snapshot.switch),
    ]);
    page.each(
        "vernier_build_info",
        "gauge",
        "What runs here; always 1.",
        [(build, 1)],
    );
    let states = State::ALL.map(|state| {
        (
            labels(&[("state", state.label())]),
            u8::from(state == snapshot.state),
        )
    });
    page.each(
        "vernier_state",
        "gauge",
        "1 for the state the switch is in, else 0.",
        states,
    );
    let whole = || labels(&[]);
    let uptime = [(whole(), snapshot.uptime_s)];
    page.each(
        "vernier_uptime_seconds",
        "gauge",
        "Time since the switch started.",
        uptime,
    );
    let end = snapshot.epoch_end_unix_s.map(|end| (whole(), end));
    let help = "End of the last epoch that closed, since 1970 (UTC).";
    page.each("vernier_epoch_end_timestamp_seconds", "gauge", help, end);
    let interval = [(whole(), f64::from(snapshot.interval_ms) / 1e3)];
    page.each(
        "vernier_epoch_interval_seconds",
        "gauge",
        "Length of an epoch.",
        interval,
    );
    if let Some(pool) = snapshot.pool {
        let buffers = [
            (labels(&[("state", "used")]), pool.used),
            (
                labels(&[("state", "free")]),
                pool.size.saturating_sub(pool.used),
            ),
        ];
        let help = "Packet buffers in the pool.";
        page.each("vernier_mempool_buffers", "gauge", help, buffers);
    }
}

fn segments(page: &mut Page, segments: &[Segment]) {
    let name = "vernier_segment_delay_seconds";
    page.family(
        name,
        "histogram",
        "One-way delay inside the switch by stamps, every packet.",
    );
    for segment in segments
        .iter()
        .filter(|s| s.total.counts.received_packets > 0)
    {
        let total = &segment.total;
        let labels = segment_labels(segment, &[]);
        page.histogram(name, &labels, &total.octaves, total.delay_sum_s);
    }
    let mut counter = |name, help, value: fn(&Segment) -> f64| {
        let samples = segments.iter().map(|s| (segment_labels(s, &[]), value(s)));
        page.each(name, "counter", help, samples);
    };
    counter(
        "vernier_segment_delay_squared_seconds_total",
        "Sum of squared delays (seconds squared): with sum and count of the delay it gives the \
         standard deviation over any window.",
        |s| s.total.delay_squared_sum_s2,
    );
    counter(
        "vernier_segment_packets_total",
        "Packets that entered the segment.",
        |s| s.total.counts.sent_packets as f64,
    );
    counter(
        "vernier_segment_bytes_total",
        "Bytes that entered the segment.",
        |s| s.total.counts.sent_bytes as f64,
    );
    counter(
        "vernier_segment_lost_packets_total",
        "Packets lost on the segment.",
        |s| s.total.counts.dropped_packets as f64,
    );
    counter(
        "vernier_segment_late_packets_total",
        "Packets that left the segment after their epoch was sealed: neither measured nor lost.",
        |s| s.total.counts.late_packets as f64,
    );
    let unusable = segments.iter().flat_map(|segment| {
        let by_reason = segment.total.unusable_epochs.by_reason();
        by_reason.map(|(reason, epochs)| (segment_labels(segment, &[("reason", reason)]), epochs))
    });
    let help = "Epochs that gave no numbers, by reason.";
    page.each(
        "vernier_segment_unusable_epochs_total",
        "counter",
        help,
        unusable,
    );
    let checked = segments.iter().flat_map(|segment| {
        let (all, within) = (
            segment.total.estimated_epochs,
            segment.total.within_bound_epochs,
        );
        [("true", within), ("false", all - within)].map(|(is_within, epochs)| {
            let more = [("method", "lda"), ("within_bound", is_within)];
            (segment_labels(segment, &more), epochs)
        })
    });
    let help = "Epochs with an estimate, by whether the stamped mean lay within its bound.";
    page.each("vernier_estimator_epochs_total", "counter", help, checked);
}

fn estimates(page: &mut Page, snapshot: &Snapshot) {
    let interval_s = f64::from(snapshot.interval_ms) / 1e3;
    let newest = snapshot.epoch.unwrap_or(0);
    let fresh = |segment: &Segment| {
        let last = segment.last.as_ref()?;
        let age_s = newest.saturating_sub(last.epoch) as f64 * interval_s;
        last.lda.filter(|_| age_s <= FRESH_S)
    };
    let mut gauge = |name, help, value: fn(&Estimate) -> Option<f64>| {
        let samples = snapshot.segments.iter().filter_map(|segment| {
            let value = value(&fresh(segment)?)?;
            Some((segment_labels(segment, &[("method", "lda")]), value))
        });
        page.each(name, "gauge", help, samples);
    };
    gauge(
        "vernier_segment_estimated_delay_mean_seconds",
        "Estimated mean delay of the last usable epoch.",
        |e| Some(e.mean_ns / 1e9),
    );
    gauge(
        "vernier_segment_estimated_delay_stddev_seconds",
        "Estimated standard deviation of the delay in the last usable epoch.",
        |e| e.stddev_ns.map(|ns| ns / 1e9),
    );
    gauge(
        "vernier_segment_estimated_delay_bound_seconds",
        "Half-width of the nominal 98 % interval around the estimated mean.",
        |e| Some(e.bound_ns / 1e9),
    );
    gauge(
        "vernier_segment_estimated_delay_effective_samples",
        "Packets that the estimated mean rests on.",
        |e| Some(e.effective_samples as f64),
    );
    gauge(
        "vernier_segment_estimated_lost_packets",
        "Estimated packets lost in the last usable epoch.",
        |e| Some(e.lost_packets),
    );
    gauge(
        "vernier_estimator_error_ratio",
        "Live error of the estimated mean against the stamped mean.",
        |e| e.error_ratio,
    );
    gauge(
        "vernier_estimator_usable_cells_ratio",
        "Share of the estimator's cells that were usable in the last usable epoch.",
        |e| Some(e.usable_cells as f64 / e.cells.max(1) as f64),
    );
}

fn ports(page: &mut Page, ports: &[Port]) {
    let of = |port: &Port| labels(&[("port", &port.name)]);
    let mut family = |name, kind, help, value: fn(&Port) -> u64| {
        page.each(
            name,
            kind,
            help,
            ports.iter().map(|port| (of(port), value(port))),
        );
    };
    let counter = "counter";
    let help = "Packets received.";
    family("vernier_port_received_packets_total", counter, help, |p| {
        p.rx_packets
    });
    let help = "Bytes received, without frame check sequences.";
    family("vernier_port_received_bytes_total", counter, help, |p| {
        p.rx_bytes
    });
    let help = "Packets that the driver accepted for transmission.";
    family(
        "vernier_port_transmitted_packets_total",
        counter,
        help,
        |p| p.tx_packets,
    );
    let help = "Bytes of the packets transmitted.";
    family("vernier_port_transmitted_bytes_total", counter, help, |p| {
        p.tx_bytes
    });
    let help = "Copies made to flood packets that came in by the port.";
    family("vernier_port_copied_packets_total", counter, help, |p| {
        p.copies
    });
    let help = "Packets that wait to be sent.";
    family("vernier_port_queued_packets", "gauge", help, |p| {
        p.queued_packets
    });
    let help = "1 if the link is up.";
    family("vernier_port_link_up", "gauge", help, |p| {
        p.facts.is_up.into()
    });
    let help = "Packets that the device dropped for want of a free descriptor.";
    family(
        "vernier_port_device_missed_packets_total",
        counter,
        help,
        |p| p.facts.missed_packets,
    );
    let help = "Packets that the device dropped for want of a buffer.";
    family(
        "vernier_port_device_no_buffer_packets_total",
        counter,
        help,
        |p| p.facts.no_buffer_packets,
    );
    let help = "Packets that the device received broken.";
    family(
        "vernier_port_device_receive_errors_total",
        counter,
        help,
        |p| p.facts.rx_error_packets,
    );
    let help = "Packets that the device could not send.";
    family(
        "vernier_port_device_transmit_errors_total",
        counter,
        help,
        |p| p.facts.tx_error_packets,
    );
    let drivers = ports.iter().map(|port| {
        (
            labels(&[("port", &port.name), ("driver", &port.facts.driver)]),
            1,
        )
    });
    page.each(
        "vernier_port_info",
        "gauge",
        "What is behind the port; always 1.",
        drivers,
    );
    let drops = ports.iter().flat_map(|port| {
        port.drops.iter().map(|drop| {
            (
                labels(&[("port", &port.name), ("reason", &drop.label)]),
                drop.packets,
            )
        })
    });
    let help = "Packets dropped, by reason; those of the egress queue count at its port.";
    page.each("vernier_port_dropped_packets_total", counter, help, drops);
    let kinds = ports.iter().flat_map(|port| {
        port.kinds.iter().map(|kind| {
            (
                labels(&[("port", &port.name), ("kind", &kind.label)]),
                kind.packets,
            )
        })
    });
    let help = "Packets received and measured, by what the parser found.";
    page.each("vernier_port_parsed_packets_total", counter, help, kinds);
}

fn workers(page: &mut Page, workers: &[Worker]) {
    let mut family = |name, kind, help, value: fn(&Worker) -> f64| {
        let samples = workers.iter().enumerate();
        let samples =
            samples.map(|(n, worker)| (labels(&[("worker", &n.to_string())]), value(worker)));
        page.each(name, kind, help, samples);
    };
    let help = "Share of the last second or so that the worker spent on packets.";
    family("vernier_worker_busy_ratio", "gauge", help, |w| w.busy_ratio);
    let help = "Time that the worker spent on packets.";
    family("vernier_worker_busy_seconds_total", "counter", help, |w| {
        w.busy_s
    });
    let help = "Passes of the worker's loop.";
    family("vernier_worker_passes_total", "counter", help, |w| {
        w.passes as f64
    });
    let help = "Passes that received nothing.";
    family("vernier_worker_idle_passes_total", "counter", help, |w| {
        w.idle_passes as f64
    });
    let help = "Longest time between two polls of a port of late: what stamps cannot see.";
    family(
        "vernier_worker_stamp_uncertainty_seconds",
        "gauge",
        help,
        |w| w.poll_gap_max_ns / 1e9,
    );
    let help = "Epochs that the worker could not measure for want of an empty shard.";
    family("vernier_worker_missed_epochs_total", "counter", help, |w| {
        w.missed_epochs as f64
    });
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    /// Runs `promtool check metrics`; `None` where there is none, which CI does not accept.
    pub(crate) fn promtool(text: &str) -> Option<String> {
        let child = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else {
            assert!(
                std::env::var_os("CI").is_none(),
                "promtool is missing (Debian: prometheus)"
            );
            println!("skipped: there is no promtool (Debian package prometheus)");
            return None;
        };
        child
            .stdin
            .take()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        Some(format!(
            "{}{}",
            output.status,
            String::from_utf8_lossy(&said)
        ))
    }

    #[test]
    pub(crate) fn promtool_has_nothing_to_say() {
        for snapshot in [Snapshot::example(), Snapshot::default()] {
            let text = render(&snapshot);
            if let Some(said) = promtool(&text) {
                assert_eq!(said, "exit status: 0", "{text}");
            }
        }
    }

    /// The value of a series, by its whole name with labels.
    fn value(text: &str, series: &str) -> Option<f64> {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.map(|value| value.parse().unwrap())
    }

    const EAST_WEST: &str = r#"segment="east>west",ingress="east",egress="west",class="all""#;

    #[test]
    fn the_histogram_is_cumulative_with_exact_bounds_and_agrees_with_its_count() {
        let text = render(&Snapshot::example());
        let bucket = |le: &str| {
            value(
                &text,
                &format!("vernier_segment_delay_seconds_bucket{{{EAST_WEST},le=\"{le}\"}}"),
            )
        };
        assert_eq!(bucket("0.000000128"), Some(7.0));
        assert_eq!(bucket("0.000524288"), Some(7.0));
        assert_eq!(bucket("0.001048576"), Some(19_987.0));
        assert_eq!(bucket("8.589934592"), Some(19_987.0));
        assert_eq!(bucket("+Inf"), Some(19_988.0));
        let count = value(
            &text,
            &format!("vernier_segment_delay_seconds_count{{{EAST_WEST}}}"),
        );
        assert_eq!(count, Some(19_988.0));
        let sum = value(
            &text,
            &format!("vernier_segment_delay_seconds_sum{{{EAST_WEST}}}"),
        );
        assert_eq!(sum, Some(8.241));
    }

    #[test]
    fn figures_come_out_in_base_units() {
        let text = render(&Snapshot::example());
        let lda = format!("{{{EAST_WEST},method=\"lda\"}}");
        let estimate = |what| {
            value(
                &text,
                &format!("vernier_segment_estimated_delay_{what}{lda}"),
            )
        };
        assert_eq!(estimate("mean_seconds"), Some(410_250.0 / 1e9));
        assert_eq!(estimate("bound_seconds"), Some(7_400.0 / 1e9));
        assert_eq!(estimate("effective_samples"), Some(10_912.0));
        let error = value(&text, &format!("vernier_estimator_error_ratio{lda}"));
        assert_eq!(error, Some(-0.004_972));
        let port = |series| value(&text, &format!("vernier_port_{series}"));
        let dropped = port(r#"dropped_packets_total{port="west",reason="queue_full"}"#);
        assert_eq!(dropped, Some(12.0));
        assert_eq!(port(r#"queued_packets{port="east"}"#), Some(37.0));
    }

    #[test]
    fn a_silent_segment_has_counters_and_nothing_else() {
        let text = render(&Snapshot::example());
        let silent: Vec<&str> = text
            .lines()
            .filter(|line| line.contains("west>east"))
            .collect();
        assert!(
            silent
                .iter()
                .all(|line| line.contains("_total{") && line.ends_with(" 0"))
        );
        assert_eq!(silent.len(), 5 + 2 + 2);
    }

    #[test]
    fn an_old_estimate_is_not_exported() {
        let mut snapshot = Snapshot::example();
        assert!(render(&snapshot).contains("delay_mean_seconds{"));
        snapshot.epoch = Some(81 + 241);
        assert!(!render(&snapshot).contains("delay_mean_seconds{"));
    }
}
