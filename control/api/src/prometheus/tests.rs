use super::*;
use measure::histogram::Histogram;
use measure::time::TickRate;
use records::snapshot::{DelayBucket, DeviceCounts, FlowMethod};
use std::io::Write as _;
use std::process::{Command, Stdio};

fn render(snapshot: &Snapshot) -> String {
    page(snapshot, &Prometheus::default())
}

fn page(snapshot: &Snapshot, settings: &Prometheus) -> String {
    String::from_utf8(bytes(snapshot, settings, Format::Text)).unwrap()
}

/// The page in any format.
pub(super) fn bytes(snapshot: &Snapshot, settings: &Prometheus, format: Format) -> Vec<u8> {
    let mut page = Vec::new();
    write(snapshot, OWN, settings, format, &mut page).unwrap();
    page
}

/// As the process's recorder renders it.
const OWN: &str = "\
# HELP a_requests_total Requests.
# TYPE a_requests_total counter
a_requests_total{path=\"/healthz\",status=\"200\"} 3
a_requests_total{path=\"/metrics\",status=\"200\"} 4

# HELP a_start_seconds Start.
# TYPE a_start_seconds gauge
a_start_seconds 1700000000.25

# HELP a_request_seconds Time to answer.
# TYPE a_request_seconds histogram
a_request_seconds_bucket{path=\"/\",le=\"0.00001\"} 1
a_request_seconds_bucket{path=\"/\",le=\"0.1\"} 2
a_request_seconds_bucket{path=\"/\",le=\"+Inf\"} 3
a_request_seconds_sum{path=\"/\"} 2.125
a_request_seconds_count{path=\"/\"} 3

";

#[test]
fn the_process_s_own_metrics_come_out_as_they_are() {
    let text = render(&Snapshot::default());
    let mut lines = text.lines();
    for line in OWN.lines().filter(|line| !line.is_empty()) {
        assert!(lines.any(|other| other == line), "{line}\n{text}");
    }
}

#[test]
fn whole_families_stay_or_go() {
    let names = |include: &[&str], exclude: &[&str]| {
        let owned = |patterns: &[&str]| patterns.iter().map(|&p| p.to_owned()).collect();
        let settings = Prometheus {
            include: owned(include),
            exclude: owned(exclude),
            ..Prometheus::default()
        };
        let text = page(&Snapshot::example(), &settings);
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        let types: Vec<String> = types.map(str::to_owned).collect();
        (types, text)
    };
    let (all, text) = names(&[], &[]);
    assert_eq!(text, render(&Snapshot::example()));
    assert!(all.contains(&"a_request_seconds histogram".to_owned()));
    let (own, text) = names(&["a_*"], &["*_seconds"]);
    assert_eq!(own, ["a_requests_total counter"]);
    assert_eq!(text.lines().count(), 4, "{text}");
    let (delays, text) = names(&["vernier_segment_delay_seconds"], &[]);
    assert_eq!(delays, ["vernier_segment_delay_seconds histogram"]);
    assert!(text.contains("vernier_segment_delay_seconds_bucket"));
    assert_eq!(names(&["b*"], &[]).1, "");
}

/// Runs `promtool check metrics`; `None` if it is missing, which CI does not accept.
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

/// The value of a series, by its full name with labels.
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

/// Prometheus's `histogram_quantile`, of the lines of the first histogram on a page.
fn histogram_quantile(text: &str, q: f64) -> f64 {
    let buckets = text.lines().filter_map(|line| {
        let line = line.strip_prefix("vernier_segment_delay_seconds_bucket{")?;
        let (_, bound) = line.split_once("le=\"")?;
        let (bound, at_most) = bound.split_once("\"} ")?;
        Some((bound.parse::<f64>().ok()?, at_most.parse::<f64>().ok()?))
    });
    let buckets: Vec<(f64, f64)> = buckets.collect();
    let rank = q * buckets.last().unwrap().1;
    let at = buckets.iter().position(|(_, at_most)| *at_most >= rank);
    let at = at.unwrap();
    let (low, below) = if at > 0 { buckets[at - 1] } else { (0.0, 0.0) };
    let (high, at_most) = buckets[at];
    low + (high - low) * (rank - below) / (at_most - below)
}

#[test]
fn a_quantile_is_off_by_a_part_of_an_octave_at_most() {
    let mut snapshot = Snapshot::example();
    snapshot.segments.truncate(1);
    for (buckets_per_octave, most) in [(1, 1.0), (2, 0.5), (4, 0.25), (8, 0.125)] {
        let settings = Prometheus {
            buckets_per_octave,
            ..Prometheus::default()
        };
        // Delays spread over two decades, and equal delays.
        for width in [100_000, 1] {
            let mut histogram = Histogram::new(TickRate::from_hz(1_000_000_000));
            let mut delays = Vec::new();
            for n in 0..1_000_u64 {
                let delay = 1_025 + n * n * n % width;
                delays.push(delay);
                histogram.add_delays(delay, 1);
            }
            delays.sort_unstable();
            let buckets = histogram.buckets();
            let total = &mut snapshot.segments[0].total;
            total.buckets = buckets
                .map(|(le_ns, packets)| DelayBucket { le_ns, packets })
                .collect();
            let text = page(&snapshot, &settings);
            for rank in [1, 500, 900, 990, 999, 1_000] {
                let quantile = histogram_quantile(&text, rank as f64 / 1_000.0);
                let exact = delays[rank - 1] as f64 / 1e9;
                let off = (quantile - exact).abs() / exact;
                assert!(off <= most, "{buckets_per_octave} {width} {rank}: {off}");
            }
        }
        let lines = text_lines(&snapshot, &settings, "vernier_segment_delay_seconds_");
        assert_eq!(lines, settings.series_per_histogram());
    }
}

/// Lines of a page that begin so.
fn text_lines(snapshot: &Snapshot, settings: &Prometheus, start: &str) -> usize {
    let text = page(snapshot, settings);
    text.lines().filter(|line| line.starts_with(start)).count()
}

#[test]
fn percentiles_of_the_last_minute_are_gauges_of_segments_with_packets() {
    let text = render(&Snapshot::example());
    let name = "vernier_segment_delay_last_minute_seconds";
    let quantile = |q| value(&text, &format!("{name}{{{EAST_WEST},share=\"{q}\"}}"));
    assert_eq!(quantile("0.5"), Some(340_000.0 / 1e9));
    assert_eq!(quantile("0.9999"), Some(3_900_000.0 / 1e9));
    assert_eq!(quantile("1"), Some(4_810_000.0 / 1e9));
    let series = text.lines().filter(|line| line.starts_with(name));
    assert_eq!(series.count(), 6);
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
    let mut devices = DeviceCounts::metrics();
    assert!(devices.all(|metric| !page.contains(metric.declaration.name)));
}

#[test]
fn an_estimate_by_references_names_the_method_in_use() {
    let mut snapshot = Snapshot::example();
    for method in [
        FlowMethod::RliL,
        FlowMethod::Rli,
        FlowMethod::RliS,
        FlowMethod::RliAs,
    ] {
        for segment in &mut snapshot.segments {
            let last = segment.last.as_mut();
            if let Some(references) = last.and_then(|last| last.references.as_mut()) {
                references.method = method;
            }
        }
        let text = render(&snapshot);
        let inside = text.lines().filter_map(|line| {
            let labels =
                line.strip_prefix("vernier_segment_estimated_delay_mean_seconds{segment=\"")?;
            let is_inside = !labels.contains("lda") && labels.contains("ingress=");
            is_inside.then(|| {
                labels
                    .split_once("method=\"")
                    .unwrap()
                    .1
                    .split('"')
                    .next()
                    .unwrap()
            })
        });
        assert_eq!(inside.collect::<Vec<_>>(), [method.label()], "{text}");
    }
}

#[test]
fn an_old_estimate_is_not_exported() {
    let mut snapshot = Snapshot::example();
    assert!(render(&snapshot).contains("delay_mean_seconds{"));
    snapshot.epoch = Some(81 + 41);
    snapshot.wires.clear();
    assert!(!render(&snapshot).contains("delay_mean_seconds{"));
}

#[test]
fn open_metrics_has_an_end_an_exemplar_in_its_bucket_and_each_family_once() {
    let mut snapshot = Snapshot::example();
    let (ingress, egress) = ("east".to_owned(), "west".to_owned());
    let flow = |flow: &str, max_ns| {
        let mut top = snapshot.flows.as_ref().unwrap().top[0].clone();
        top.flow.flow = flow.to_owned();
        (top.flow.ingress, top.flow.egress) = (ingress.clone(), egress.clone());
        top.flow.class = "all".to_owned();
        top.flow.last_seen_unix_s = 1_700_000_000.5;
        let quantiles = top.flow.quantiles.get_or_insert_default();
        quantiles.max_ns = Some(max_ns);
        top
    };
    let flows = [("slow", 1_000.0), ("slower", 1_020.0), ("slowest", 9e9)];
    let flows = flows.map(|(name, max_ns)| flow(name, max_ns));
    snapshot.flows.as_mut().unwrap().top = flows.into();
    let segment = &mut snapshot.segments[0];
    (segment.ingress, segment.egress) = (ingress, egress);
    segment.class = "all".to_owned();
    segment.total.counts.received_packets = 2;
    segment.total.buckets = vec![DelayBucket {
        le_ns: 1_024,
        packets: 2,
    }];

    let text = bytes(&snapshot, &Prometheus::default(), Format::OpenMetrics);
    let text = String::from_utf8(text).unwrap();

    assert!(text.ends_with("\n# EOF\n") && text.matches("# EOF").count() == 1);
    assert!(
        text.contains("\n# TYPE a_requests counter\na_requests_total{"),
        "{text}"
    );
    let families = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let mut families: Vec<_> = families.map(|line| line.split(' ').next()).collect();
    let all = families.len();
    families.sort_unstable();
    families.dedup();
    assert_eq!(families.len(), all, "a family comes twice");

    let exemplars: Vec<_> = text.lines().filter(|line| line.contains(" # {")).collect();
    let [slower, slowest] = exemplars[..] else {
        panic!("{exemplars:#?}");
    };
    assert!(
        slower.contains(r#"le="0.000001024"} 2 # {flow="slower"} 0.00000102 1700000000.5"#),
        "{slower}"
    );
    assert!(
        slowest.contains(r#"le="+Inf"} 2 # {flow="slowest"} 9 "#),
        "{slowest}"
    );
    assert!(!render(&snapshot).contains("# {"));
}
