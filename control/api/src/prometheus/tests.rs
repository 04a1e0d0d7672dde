use super::*;
use records::snapshot::DeviceCounts;
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
    let mut devices = DeviceCounts::metrics();
    assert!(devices.all(|metric| !page.contains(metric.declaration.name)));
}

#[test]
fn an_old_estimate_is_not_exported() {
    let mut snapshot = Snapshot::example();
    assert!(render(&snapshot).contains("delay_mean_seconds{"));
    snapshot.epoch = Some(81 + 41);
    snapshot.wires.clear();
    assert!(!render(&snapshot).contains("delay_mean_seconds{"));
}
