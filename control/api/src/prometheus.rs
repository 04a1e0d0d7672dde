//! A snapshot as Prometheus text (exposition format 0.0.4).
//!
//! Base units throughout: seconds, bytes, ratios. Every label set is bounded by the configuration.
//! A segment that no packet has passed has its counters, but no histogram: a bridge of 64 ports has
//! 4,032 segments, and most stay silent.

use std::fmt::{self, Display, Write};
use std::ops::RangeInclusive;

use metrics::{Key, Label};
use metrics_exporter_prometheus::LabelSet;
use metrics_exporter_prometheus::formatting::{
    write_help_line, write_metric_line, write_type_line,
};

use contract::counters::{
    ClassReading, ExceptionReading, PortReading, QueueReading, ReferenceReading, WorkerReading,
};
use contract::fdb::FdbStats;
use contract::metric::{Metric, MetricKind};
use families::{DEVICES, ESTIMATES, FDB, PORTS, SEGMENTS, SKETCHES, WORKERS};
use records::snapshot::{Octave, Port, ReferenceEstimate, Segment, Snapshot, State, Worker};

mod families;
mod filter;
mod flows;
mod wires;

pub use filter::{Filter, Filtered};

/// Content type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Bounds of the delay histogram: 2^7 ns (128 ns) to 2^33 ns (8.6 s), an octave each. Fixed, so
/// that histograms of all hosts and releases can be added.
const OCTAVES: RangeInclusive<u32> = 7..=33;

/// Bytes of text after which it is passed on: of a large switch it never is in memory as a whole.
const PART_BYTES: usize = 16 << 10;

/// Writes the snapshot as Prometheus text, some lines at a time.
///
/// # Errors
/// Those of `out`.
pub fn write(snapshot: &Snapshot, out: &mut dyn Write) -> fmt::Result {
    let mut page = Page {
        text: String::new(),
        out,
        written: Ok(()),
    };
    process(&mut page, snapshot);
    segments(&mut page, &snapshot.segments);
    estimates(&mut page, snapshot);
    sketches(&mut page, snapshot);
    flows::flows(&mut page, snapshot);
    wires::wires(&mut page, snapshot);
    ports(&mut page, snapshot);
    queues(&mut page, &snapshot.ports);
    workers(&mut page, &snapshot.workers);
    page.pass_on();
    page.written
}

/// A metric family, and how to read its value from a `T`, if it has one.
struct Family<T, V> {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    value: fn(&T) -> V,
}

/// A family whose values do not come from one place.
const fn family(name: &'static str, kind: &'static str, help: &'static str) -> Family<(), ()> {
    Family {
        name,
        kind,
        help,
        value: |()| (),
    }
}

/// A family that is declared where it is counted.
impl<T> From<&Metric<T>> for Family<T, u64> {
    fn from(Metric { declaration, value }: &Metric<T>) -> Self {
        Self {
            name: declaration.name,
            kind: match declaration.kind {
                MetricKind::Counter => "counter",
                MetricKind::Gauge => "gauge",
            },
            help: declaration.help,
            value: *value,
        }
    }
}

/// The text under construction.
struct Page<'o> {
    /// Lines that were not passed on yet.
    text: String,
    out: &'o mut dyn Write,
    /// After an error nothing more is passed on.
    written: fmt::Result,
}

impl Page<'_> {
    fn begin<T, V>(&mut self, family: &Family<T, V>) {
        write_help_line(&mut self.text, family.name, None, None, family.help);
        write_type_line(&mut self.text, family.name, None, None, family.kind);
    }

    fn line(
        &mut self,
        name: &str,
        suffix: Option<&'static str>,
        labels: &LabelSet,
        le: Option<(&'static str, String)>,
        value: impl Display,
    ) {
        write_metric_line(&mut self.text, name, suffix, labels, le, value, None);
        if self.text.len() >= PART_BYTES {
            self.pass_on();
        }
    }

    fn pass_on(&mut self) {
        if self.written.is_ok() {
            self.written = self.out.write_str(&self.text);
        }
        self.text.clear();
    }

    /// A family with its samples.
    fn each<T, V, D: Display>(
        &mut self,
        family: &Family<T, V>,
        samples: impl IntoIterator<Item = (LabelSet, D)>,
    ) {
        self.begin(family);
        for (labels, value) in samples {
            if self.written.is_err() {
                return;
            }
            self.line(family.name, None, &labels, None, value);
        }
    }

    /// Declared families, with a sample of each for every record.
    fn declared<'t, T: 't>(
        &mut self,
        metrics: &[Metric<T>],
        records: &(impl Iterator<Item = (LabelSet, &'t T)> + Clone),
    ) {
        for metric in metrics {
            let family = Family::from(metric);
            let samples = records.clone();
            self.each(
                &family,
                samples.map(|(labels, record)| (labels, (family.value)(record))),
            );
        }
    }

    /// One series of a histogram of delays: cumulative buckets, sum and count.
    fn delays(&mut self, name: &str, labels: &LabelSet, octaves: &[Octave], sum: f64) {
        if self.written.is_err() {
            return;
        }
        let at_most = |bound_ns| -> u64 {
            let within = octaves.iter().filter(|octave| octave.le_ns <= bound_ns);
            within.map(|octave| octave.packets).sum()
        };
        // A power of two of nanoseconds has few enough digits to be exact in seconds.
        let bounds = OCTAVES.map(|exponent| 1u64 << exponent);
        let buckets = bounds.map(|bound_ns| (bound_ns as f64 / 1e9, at_most(bound_ns)));
        self.histogram(name, labels, buckets, at_most(u64::MAX), sum);
    }

    /// One series of a histogram, from cumulative buckets by their upper bounds.
    fn histogram(
        &mut self,
        name: &str,
        labels: &LabelSet,
        buckets: impl Iterator<Item = (f64, u64)>,
        count: u64,
        sum: f64,
    ) {
        let mut line = |suffix, le, value: &dyn Display| {
            self.line(name, Some(suffix), labels, le, value);
        };
        for (bound, at_most) in buckets {
            line("bucket", Some(("le", bound.to_string())), &at_most);
        }
        line("bucket", Some(("le", "+Inf".to_owned())), &count);
        line("sum", None, &sum);
        line("count", None, &count);
    }
}

#[expect(
    clippy::default_trait_access,
    reason = "the map's type is not among our dependencies"
)]
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
        &family("vernier_build_info", "gauge", "What runs here; always 1."),
        [(build, 1)],
    );
    let states = State::ALL.map(|state| {
        (
            labels(&[("state", state.label())]),
            u8::from(state == snapshot.state),
        )
    });
    page.each(
        &family(
            "vernier_state",
            "gauge",
            "1 for the state the switch is in, else 0.",
        ),
        states,
    );
    let whole = || labels(&[]);
    page.each(
        &family(
            "vernier_uptime_seconds",
            "gauge",
            "Time since the switch started.",
        ),
        [(whole(), snapshot.uptime_s)],
    );
    page.each(
        &family(
            "vernier_epoch_end_timestamp_seconds",
            "gauge",
            "End of the last epoch that closed, since 1970 (UTC).",
        ),
        snapshot.epoch_end_unix_s.map(|end| (whole(), end)),
    );
    page.each(
        &family(
            "vernier_clock_steps_total",
            "counter",
            "Times that the system's clock was set by more than 0.1 s.",
        ),
        [(whole(), snapshot.clock.steps)],
    );
    page.declared(
        &ExceptionReading::METRICS,
        &std::iter::once((whole(), &snapshot.exceptions)),
    );
    page.each(
        &family(
            "vernier_epoch_interval_seconds",
            "gauge",
            "Length of an epoch.",
        ),
        [(whole(), f64::from(snapshot.interval_ms) / 1e3)],
    );
    page.each(
        &family(
            "vernier_generation",
            "gauge",
            "Generation of what is measured: 0 at start, more with every change.",
        ),
        [(whole(), snapshot.generation)],
    );
    let buffers = snapshot.pools.iter().flat_map(|pool| {
        let free = pool.size.saturating_sub(pool.used);
        [("used", pool.used), ("free", free)]
            .map(|(state, n)| (labels(&[("pool", &pool.name), ("state", state)]), n))
    });
    page.each(
        &family(
            "vernier_mempool_buffers",
            "gauge",
            "Packet buffers in the pool.",
        ),
        buffers,
    );
    for family in FDB {
        let fdb = snapshot.fdb.iter();
        page.each(&family, fdb.map(|fdb| (whole(), (family.value)(fdb))));
    }
    let fdb = snapshot.fdb.iter();
    page.declared(&FdbStats::METRICS, &fdb.map(|fdb| (whole(), &fdb.stats)));
}

fn segments(page: &mut Page, segments: &[Segment]) {
    let delay = family(
        "vernier_segment_delay_seconds",
        "histogram",
        "One-way delay inside the switch by stamps, every packet.",
    );
    page.begin(&delay);
    for segment in segments
        .iter()
        .filter(|s| s.total.counts.received_packets > 0)
    {
        let (total, labels) = (&segment.total, segment_labels(segment, &[]));
        page.delays(delay.name, &labels, &total.octaves, total.delay_sum_s);
    }
    for family in SEGMENTS {
        let samples = segments.iter();
        page.each(
            &family,
            samples.map(|s| (segment_labels(s, &[]), (family.value)(s))),
        );
    }
    let unusable = segments.iter().flat_map(|segment| {
        let by_reason = segment.total.unusable_epochs.by_reason();
        by_reason.map(|(reason, epochs)| (segment_labels(segment, &[("reason", reason)]), epochs))
    });
    page.each(
        &family(
            "vernier_segment_unusable_epochs_total",
            "counter",
            "Epochs that gave no numbers, by reason.",
        ),
        unusable,
    );
    let checked = segments.iter().flat_map(|segment| {
        let (all, within) = (
            segment.total.estimated_epochs,
            segment.total.within_bound_epochs,
        );
        [("true", within), ("false", all.saturating_sub(within))].map(|(is_within, epochs)| {
            let more = [("method", "lda"), ("within_bound", is_within)];
            (segment_labels(segment, &more), epochs)
        })
    });
    page.each(
        &family(
            "vernier_estimator_epochs_total",
            "counter",
            "Epochs with an estimate, by whether the stamped mean lay within its bound.",
        ),
        checked,
    );
}

fn estimates(page: &mut Page, snapshot: &Snapshot) {
    for (family, of_references) in ESTIMATES {
        let samples = snapshot.segments.iter().filter_map(|segment| {
            let lda = snapshot.fresh(segment)?.lda?;
            let value = (family.value)(&lda)?;
            Some((segment_labels(segment, &[("method", "lda")]), value))
        });
        let more = of_references.map(|value| reference_samples(snapshot, value));
        let on_wires = wires::estimates(snapshot, family.name);
        let more = more.into_iter().flatten().chain(on_wires);
        page.each(&family, samples.chain(more));
    }
}

/// What references say of segments: the same families as the LDA's, by another method.
fn reference_samples(
    snapshot: &Snapshot,
    value: fn(&ReferenceEstimate) -> Option<f64>,
) -> Vec<(LabelSet, f64)> {
    let samples = snapshot.segments.iter().filter_map(|segment| {
        let references = snapshot.fresh(segment)?.references?;
        let method = [("method", "rli-s")];
        Some((segment_labels(segment, &method), value(&references)?))
    });
    samples.collect()
}

fn sketches(page: &mut Page, snapshot: &Snapshot) {
    for family in SKETCHES {
        let fresh = snapshot.sketches.iter();
        let fresh = fresh.filter(|sketch| snapshot.is_fresh(sketch.epoch));
        let samples = fresh.filter_map(|sketch| {
            let value = (family.value)(sketch)?;
            Some((labels(&[("port", &sketch.port)]), value))
        });
        page.each(&family, samples);
    }
}

/// What left by each port, by class and by queue.
fn queues(page: &mut Page, ports: &[Port]) {
    let classes = ports.iter().flat_map(|port| {
        let of_port = port.classes.iter();
        of_port.map(|class| {
            let labels = labels(&[("port", &port.name), ("class", &class.class)]);
            (labels, &class.counts)
        })
    });
    page.declared(&ClassReading::METRICS, &classes);
    let queues = ports.iter().flat_map(|port| {
        let of_port = port.queues.iter();
        of_port.map(|queue| {
            let labels = labels(&[("port", &port.name), ("queue", &queue.queue)]);
            (labels, &queue.counts)
        })
    });
    page.declared(&QueueReading::METRICS, &queues);
    let drops = ports.iter().flat_map(|port| {
        port.queues.iter().flat_map(|queue| {
            queue.drops.iter().map(|drop| {
                let own = [
                    ("port", port.name.as_str()),
                    ("queue", queue.queue.as_str()),
                    ("reason", drop.label.as_str()),
                ];
                (labels(&own), drop.packets)
            })
        })
    });
    page.each(
        &family(
            "vernier_queue_dropped_packets_total",
            "counter",
            "Packets dropped at the egress queue, by reason.",
        ),
        drops,
    );
}

fn workers(page: &mut Page, workers: &[Worker]) {
    let label = |index: usize| labels(&[("worker", &index.to_string())]);
    for family in WORKERS {
        let samples = workers.iter().enumerate();
        page.each(
            &family,
            samples.map(|(index, worker)| (label(index), (family.value)(worker))),
        );
    }
    let counts = workers.iter().enumerate();
    page.declared(
        &WorkerReading::METRICS,
        &counts
            .clone()
            .map(|(index, worker)| (label(index), &worker.counts)),
    );
    page.declared(
        &ReferenceReading::METRICS,
        &counts.map(|(index, worker)| (label(index), &worker.references)),
    );
    let bursts = family(
        "vernier_worker_burst_packets",
        "histogram",
        "Packets in the bursts that the worker received.",
    );
    page.begin(&bursts);
    for (index, worker) in workers.iter().enumerate() {
        let cumulative = worker.bursts.iter().scan(0, |sum, bucket| {
            *sum += bucket.bursts;
            Some((bucket.le_packets, *sum))
        });
        let count = worker.bursts.iter().map(|bucket| bucket.bursts).sum();
        let buckets = cumulative.filter_map(|(le, at_most)| Some((le? as f64, at_most)));
        let packets = worker.counts.busy_packets as f64;
        page.histogram(bursts.name, &label(index), buckets, count, packets);
    }
}

fn ports(page: &mut Page, snapshot: &Snapshot) {
    let ports = &snapshot.ports;
    for family in PORTS {
        let samples = ports.iter();
        page.each(
            &family,
            samples.map(|p| (labels(&[("port", &p.name)]), (family.value)(p))),
        );
    }
    let counts = ports.iter();
    page.declared(
        &PortReading::METRICS,
        &counts.map(|p| (labels(&[("port", &p.name)]), &p.counts)),
    );
    let devices = ports
        .iter()
        .filter_map(|p| Some((&p.name, p.facts.device.as_ref()?)));
    let devices: Vec<_> = devices.collect();
    for family in DEVICES.iter().filter(|_| !devices.is_empty()) {
        let samples = devices.iter();
        page.each(
            family,
            samples.map(|(name, device)| (labels(&[("port", name)]), (family.value)(device))),
        );
    }
    let drivers = ports.iter().map(|port| {
        (
            labels(&[("port", &port.name), ("driver", &port.facts.driver)]),
            1,
        )
    });
    page.each(
        &family(
            "vernier_port_info",
            "gauge",
            "What is behind the port; always 1.",
        ),
        drivers,
    );
    let drops = ports.iter().flat_map(|port| {
        let reasons = port.drops.iter();
        reasons.map(|drop| {
            (
                labels(&[("port", &port.name), ("reason", &drop.label)]),
                drop.packets,
            )
        })
    });
    page.each(
        &family(
            "vernier_port_dropped_packets_total",
            "counter",
            "Packets dropped, by reason; those of the egress queue count at its port.",
        ),
        drops,
    );
    let kinds = ports.iter().flat_map(|port| {
        let kinds = port.kinds.iter();
        kinds.map(|kind| {
            (
                labels(&[("port", &port.name), ("kind", &kind.label)]),
                kind.packets,
            )
        })
    });
    page.each(
        &family(
            "vernier_port_parsed_packets_total",
            "counter",
            "Packets received and measured, by what the parser found.",
        ),
        kinds,
    );
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    fn render(snapshot: &Snapshot) -> String {
        let mut text = String::new();
        write(snapshot, &mut text).unwrap();
        text
    }

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
        assert_eq!(silent.len(), 5 + 5 + 2);
    }

    #[test]
    fn ports_of_a_host_say_nothing_of_their_devices() {
        let mut snapshot = Snapshot::example();
        let device = "vernier_port_device_missed_packets_total";
        let missed = |port| format!("{device}{{port=\"{port}\"}}");
        assert_eq!(value(&render(&snapshot), &missed("west")), Some(0.0));
        for port in &mut snapshot.ports {
            port.facts.device = None;
        }
        let page = render(&snapshot);
        assert!(DEVICES.iter().all(|family| !page.contains(family.name)));
    }

    #[test]
    fn an_old_estimate_is_not_exported() {
        let mut snapshot = Snapshot::example();
        assert!(render(&snapshot).contains("delay_mean_seconds{"));
        snapshot.epoch = Some(81 + 41);
        snapshot.wires.clear();
        assert!(!render(&snapshot).contains("delay_mean_seconds{"));
    }
}
