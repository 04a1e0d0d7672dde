//! `docs/metrics.md`, from a rendering of a snapshot that has a value in every field, and from the process's own
//! metrics.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use super::{keep, wrapped};
use api::http::Server;
use contract::counters::DropReason;
use control::core::PUBLISH_SECONDS;
use control::published::Published;
use records::snapshot::Snapshot;

const HEAD: &str = "\
# Metrics

This page lists the metrics at `/metrics`. They use base units (seconds, bytes, ratios), counters end in `_total`, and every set of labels
is bounded by the configuration. Gauges of an epoch show the last usable epoch, and are absent if it is too old. The column `when` is the
condition for a family to have series; a family without a condition always has series. The page is generated from the program's own output
(`make docs`).

`prometheus.include` and `prometheus.exclude` select by name what is written ([configuration](configuration.md#prometheus)).
[alerts.yml](../dashboards/alerts.yml), [recording.yml](../dashboards/recording.yml) and the [Grafana dashboards](operating.md#dashboards)
use these names and no others.

## OpenMetrics and exemplars

Scrapers that ask for [OpenMetrics](https://prometheus.io/docs/specs/om/open_metrics_spec/) receive it; Prometheus does so by default. The
samples are those of the text format. In addition, buckets of `vernier_segment_delay_seconds` have exemplars. An exemplar names a flow with
series of its own whose slowest packet in its last epoch is in the bucket, and that packet's delay:
`# {flow=\"10.0.0.1:1024>10.0.0.2:80/tcp\"} 0.00093 1764273600.5`. Prometheus stores exemplars with `--enable-feature=exemplar-storage`, and
Grafana draws them as points on a panel whose query has exemplars enabled.

## Native histograms

Scrapers that ask for protobuf (`Accept`) also receive `vernier_segment_delay_seconds` as a
[native histogram](https://prometheus.io/docs/specs/native_histograms/). Prometheus does so from 2.40 on with
`--enable-feature=native-histograms`. Both formats have the same families and values.

| | classic, 4 buckets an octave | native, schema 5 |
|---|---|---|
| quantile | `histogram_quantile(0.999, rate(vernier_segment_delay_seconds_bucket[1m]))` | `histogram_quantile(0.999, rate(vernier_segment_delay_seconds[1m]))` |
| error at most | 25 %, 12.5 % with 8 buckets (`prometheus.buckets_per_octave`) | 8.4 % |
| range | 128 ns to 8.6 s | all; whole nanoseconds |
| series of a segment with packets | 108 | 1, with a bucket for each eighth of an octave that has packets |
| number of packets, sum of delays | `vernier_segment_delay_seconds_count`, `_sum` | `histogram_count(...)`, `histogram_sum(...)` |

The switch's buckets are eighths of an octave of nanoseconds. Each is counted in the exponential bucket that contains its middle, so counts are
exact and only increase. Protobuf responses have both forms. Prometheus 2.42 keeps only the native one; from 2.45 on,
`scrape_classic_histograms: true` keeps both (from 3.0 on, `always_scrape_classic_histograms`). The rules and the dashboards read the classic ones.
Over protobuf, Prometheus writes `le=\"1.0\"` instead of `le=\"1\"`, so the series of classic buckets begin anew if the format changes.
";

/// Sections: a heading, the source of the figures, and prefixes of the names in it.
const SECTIONS: [(&str, &str, &[&str]); 12] = [
    (
        "Segments",
        "Packets, delays and losses are exact. The workers (`switch`) record them at both ends of a segment. Estimates \
         and their errors come from the control core (`control`, by the methods of `measure`).",
        &["vernier_segment_", "vernier_estimator_"],
    ),
    (
        "Flows",
        "The workers count each flow in a slot, and the control core keeps a directory of flows. For each flow, only the \
         best estimate is written (`measure::decoding`): by joint decoding, by references or by both; `method` names it. \
         `flow` is `source>destination/protocol`, or `other` for all flows of a segment without series of their \
         own.",
        &["vernier_flow_", "vernier_flows_", "vernier_decode_"],
    ),
    (
        "Segments on the wire",
        "Segments between a port (`from` or `to`) and the port at its other end (`port:peer`), in both directions. This \
         switch measures arriving packets; the other end reports departing ones. Estimates are in the families of \
         segments above. The worker that owns the port counts control frames; the control core interprets them \
         (`control::wire`). See [operating wires](wire.md).",
        &["vernier_wire_"],
    ),
    (
        "Around devices",
        "Counted by the workers at each port of the switch that leads to another device. The device's segments, from \
         `device:port` to `device:port`, are in the families of segments above. See [around a device](around.md).",
        &["vernier_around_"],
    ),
    (
        "Sketches",
        "The sketch (LDS) of each egress port; the control core merges the workers' sketches.",
        &["vernier_sketch_"],
    ),
    (
        "Ports, classes and queues",
        "Counters of the workers, read by the control core without a lock; figures of devices come from DPDK.",
        &["vernier_port_", "vernier_class_", "vernier_queue_"],
    ),
    (
        "Bridge",
        "The filtering database: the master in the control core and its replicas at the workers.",
        &["vernier_fdb_"],
    ),
    (
        "Workers and pools",
        "Counted by every worker; figures of pools come from DPDK.",
        &[
            "vernier_worker_",
            "vernier_mempool_",
            "vernier_backward_",
            "vernier_outlived_",
        ],
    ),
    (
        "Reports",
        "Counted by the thread that sends reports to NATS JetStream ([reports](report.md)).",
        &["vernier_reports_"],
    ),
    (
        "IPFIX",
        "Counted by the thread that exports to an IPFIX collector ([IPFIX](ipfix.md)).",
        &["vernier_ipfix_"],
    ),
    (
        "The switch",
        "Kept by the control core.",
        &[
            "vernier_build_info",
            "vernier_state",
            "vernier_uptime_",
            "vernier_epoch_",
            "vernier_generation",
            "vernier_reload",
            "vernier_clock_",
        ],
    ),
    (
        "The process",
        "Recorded by the process itself: HTTP answers, published snapshots, the log.",
        &[
            "vernier_contained_",
            "vernier_http_",
            "vernier_snapshot_",
            "vernier_log_",
            "process_",
        ],
    ),
];

/// Conditions for families to have series, by prefix of their names; the first match counts.
const WHEN: [(&str, &str); 24] = [
    ("vernier_around_", "`measurement.around`"),
    (
        "vernier_wire_flow_",
        "a flow of `vernier_flow_delay_seconds` arrived by a wire with an LDS",
    ),
    ("vernier_wire_clock_drift_", "the clocks drift apart"),
    (
        "vernier_wire_clock_offset_",
        "delays of that direction are known",
    ),
    ("vernier_wire_", "a port has a `wire`"),
    ("vernier_segment_delay_seconds", "packets have passed"),
    (
        "vernier_segment_estimated_delay_mean_",
        "an epoch was estimated",
    ),
    (
        "vernier_segment_estimated_delay_effective_",
        "an epoch was estimated",
    ),
    (
        "vernier_segment_estimated_",
        "an epoch was estimated by an LDA, or on a wire by references",
    ),
    ("vernier_estimator_epochs_", "something is measured"),
    (
        "vernier_estimator_usable_",
        "an epoch was estimated by an LDA",
    ),
    ("vernier_estimator_", "an epoch was estimated"),
    ("vernier_segment_", "something is measured"),
    (
        "vernier_flow_estimated_",
        "flows are decoded (`measurement.lds.decode`), or references measure them",
    ),
    (
        "vernier_flow_estimate",
        "flows are decoded (`measurement.lds.decode`), or references measure them",
    ),
    (
        "vernier_flow_delay_bound_",
        "flows are decoded (`measurement.lds.decode`), or references measure them",
    ),
    (
        "vernier_decode_",
        "flows are decoded (`measurement.lds.decode`)",
    ),
    ("vernier_flow", "`measurement.flows`"),
    ("vernier_sketch_", "`measurement.lds`"),
    ("vernier_port_device_", "not in a host program"),
    ("vernier_fdb_", "`forwarding.mode` is `bridge`"),
    ("vernier_reports_", "`report`"),
    ("vernier_ipfix_", "`ipfix`"),
    ("vernier_epoch_end_", "an epoch has closed"),
];

/// A family of `/metrics`.
#[derive(Debug, Default)]
struct Family {
    name: String,
    kind: String,
    help: String,
    labels: Vec<String>,
}

/// Everything the program writes, the snapshot's part and the process's own.
fn exposition() -> String {
    let server = Server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let published = Arc::new(Published::new(Snapshot::example()));
    let running = server.serve(published).unwrap();
    metrics::histogram!(PUBLISH_SECONDS).record(0.001);
    let url = format!("http://{}/metrics", running.address());
    // The first answer is counted in the second.
    let ask = || ureq::get(&url).call().unwrap().body_mut().read_to_string();
    ask().unwrap();
    ask().unwrap()
}

fn families(text: &str) -> Vec<Family> {
    let mut families: Vec<Family> = Vec::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap();
            families.push(Family {
                name: name.to_owned(),
                help: help.to_owned(),
                ..Family::default()
            });
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            let family = families.last_mut().filter(|family| family.name == name);
            kind.clone_into(&mut family.unwrap().kind);
        } else if let Some((name, labels)) = line.split_once('{') {
            let family = families.last_mut().unwrap();
            assert!(name.starts_with(&family.name), "{line}");
            for label in label_names(labels) {
                let is_of_the_format = (label == "le" && family.kind == "histogram")
                    || (label == "quantile" && family.kind == "summary");
                if !is_of_the_format && !family.labels.contains(&label) {
                    family.labels.push(label);
                }
            }
        }
    }
    families.sort_by(|a, b| a.name.cmp(&b.name));
    families
}

/// Names of labels in `a="1",b="x{}\"y"} 5`.
fn label_names(text: &str) -> Vec<String> {
    let (mut names, mut name) = (Vec::new(), String::new());
    let (mut is_quoted, mut is_escaped) = (false, false);
    for c in text.chars() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            '=' => names.push(std::mem::take(&mut name)),
            '}' => break,
            ',' => name.clear(),
            _ => name.push(c),
        }
    }
    names
}

/// The unit: as declared, or by the name's ending.
fn unit(name: &str) -> &str {
    let declared = contract::counters::declarations();
    if let Some(declared) = declared.iter().find(|declared| declared.name == name) {
        return declared.unit;
    }
    // By convention the name ends in the unit.
    let name = name.trim_end_matches("_total");
    let units = [
        ("_squared_seconds", "seconds²"),
        ("_timestamp_seconds", "seconds since 1970"),
        ("_seconds", "seconds"),
        ("_bytes", "bytes"),
        ("_ratio", "ratio"),
        ("_packets", "packets"),
        ("_samples", "packets"),
        ("_cycles_per_packet", "ticks a packet"),
        ("_epochs", "epochs"),
    ];
    let known = units.iter().find(|(ending, _)| name.ends_with(ending));
    known.map_or("", |(_, unit)| unit)
}

fn when(name: &str) -> &'static str {
    let known = WHEN.iter().find(|(start, _)| name.starts_with(start));
    known.map_or("", |(_, when)| when)
}

fn page(families: &[Family]) -> String {
    let mut page = HEAD.to_owned();
    let mut listed = BTreeSet::new();
    for (title, source, starts) in SECTIONS {
        let _ = write!(page, "\n## {title}\n\n{}\n\n", wrapped(source));
        page += "| metric | type | unit | labels | when | meaning |\n|---|---|---|---|---|---|\n";
        let is_of = |family: &&Family| starts.iter().any(|start| family.name.starts_with(start));
        for family in families.iter().filter(is_of) {
            let Family {
                name,
                kind,
                help,
                labels,
            } = family;
            let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
            let (labels, unit, when) = (labels.join(", "), unit(name), when(name));
            let help = help.replace('|', "\\|");
            let _ = writeln!(
                page,
                "| `{name}` | {kind} | {unit} | {labels} | {when} | {help} |"
            );
            assert!(listed.insert(name), "{name} is of two sections");
        }
    }
    page += "\n## Reasons of drops\n\n`reason` of `vernier_port_dropped_packets_total`:\n\n| reason | dropped packets |\n|---|---|\n";
    let reasons = schemars::schema_for!(DropReason);
    for reason in reasons.get("oneOf").unwrap().as_array().unwrap() {
        let [label, help] = ["const", "description"].map(|key| reason[key].as_str().unwrap());
        let _ = writeln!(page, "| {label} | {} |", help.replace('\n', " "));
    }
    let untold: Vec<_> = families
        .iter()
        .filter(|family| !listed.contains(&family.name))
        .collect();
    assert!(
        untold.is_empty(),
        "of no section (SECTIONS above): {untold:?}"
    );
    page
}

#[test]
fn the_metrics_reference_is_current() {
    let text = exposition();
    let families = families(&text);
    for family in &families {
        assert!(
            !family.kind.is_empty() && !family.help.is_empty(),
            "{family:?}"
        );
        // Its labels are known from a sample.
        let is_there = |line: &str| line.starts_with(&family.name);
        assert!(
            text.lines().any(is_there),
            "the example has nothing of {}",
            family.name
        );
    }
    keep("docs/metrics.md", &page(&families));
}

#[test]
fn labels_are_separate_from_their_values() {
    let labels = label_names(r#"a="x,b=\"1\"}",segment="e>w",le="0.5"} 3"#);
    assert_eq!(labels, ["a", "segment", "le"]);
    assert_eq!(label_names("} 3"), [""; 0]);
}

/// Content of the reference: the names of series of each family, with their labels.
pub(super) fn reference() -> Vec<(String, BTreeSet<String>)> {
    let page = std::fs::read_to_string(super::project("docs/metrics.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let series = rows.flat_map(|row| {
        let cells: Vec<_> = row.split(" | ").collect();
        let name = cells[0].trim_matches(['|', ' ', '`']);
        let labels = cells[3]
            .split(", ")
            .map(|label| label.trim_matches('`').to_owned());
        let mut labels: BTreeSet<String> = labels.filter(|label| !label.is_empty()).collect();
        let endings: &[&str] = match cells[1] {
            "histogram" => {
                labels.insert("le".to_owned());
                &["_bucket", "_sum", "_count"]
            }
            "summary" => &["_sum", "_count"],
            _ => &[""],
        };
        let series = endings
            .iter()
            .map(move |end| (format!("{name}{end}"), labels.clone()));
        series.collect::<Vec<_>>()
    });
    series.collect()
}
