use std::collections::BTreeMap;

use super::messages::{Family, Metric};
use super::*;
use crate::prometheus::tests::OWN;
use crate::prometheus::{Format, write};
use contract::config::Prometheus;
use records::snapshot::Snapshot;

fn page(snapshot: &Snapshot, settings: &Prometheus, format: Format) -> Vec<u8> {
    let mut page = Vec::new();
    write(snapshot, OWN, settings, format, &mut page).unwrap();
    page
}

fn families(snapshot: &Snapshot, settings: &Prometheus) -> Vec<Family> {
    let page = page(snapshot, settings, Format::Protobuf);
    let mut left = page.as_slice();
    let mut families = Vec::new();
    while !left.is_empty() {
        families.push(Family::decode_length_delimited(&mut left).unwrap());
    }
    families
}

/// Lines of text by the values of a metric.
fn lines(name: &str, metric: &Metric, lines: &mut BTreeMap<String, f64>) {
    let labels = metric.label.iter();
    let labels: Vec<String> = labels
        .map(|label| format!("{}=\"{}\"", label.name, label.value))
        .collect();
    let mut line = |suffix: &str, le: Option<String>, value: f64| {
        let labels: Vec<String> = labels.iter().cloned().chain(le).collect();
        let labels = match labels.join(",") {
            labels if labels.is_empty() => labels,
            labels => format!("{{{labels}}}"),
        };
        assert_eq!(lines.insert(format!("{name}{suffix}{labels}"), value), None);
    };
    for value in [&metric.counter, &metric.gauge].into_iter().flatten() {
        line("", None, value.value);
    }
    if let Some(summary) = &metric.summary {
        line("_sum", None, summary.sum);
        line("_count", None, summary.count as f64);
    }
    if let Some(histogram) = &metric.histogram {
        let buckets = histogram.bucket.iter();
        let bounds =
            buckets.map(|bucket| (bucket.upper_bound.to_string(), bucket.cumulative_count));
        for (bound, at_most) in bounds.chain([("+Inf".to_owned(), histogram.sample_count)]) {
            line("_bucket", Some(format!("le=\"{bound}\"")), at_most as f64);
        }
        line("_sum", None, histogram.sample_sum);
        line("_count", None, histogram.sample_count as f64);
    }
}

#[test]
fn both_formats_have_the_same_series_with_the_same_values() {
    for settings in [
        Prometheus::default(),
        Prometheus {
            buckets_per_octave: 8,
            exclude: vec!["vernier_port_*".to_owned(), "a_start*".to_owned()],
            ..Prometheus::default()
        },
    ] {
        let snapshot = Snapshot::example();
        let text = String::from_utf8(page(&snapshot, &settings, Format::Text)).unwrap();
        let written = text.lines().filter(|line| !line.starts_with('#'));
        let written = written.map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            (series.to_owned(), value.parse().unwrap())
        });
        let written: BTreeMap<String, f64> = written.collect();
        let mut decoded = BTreeMap::new();
        for family in families(&snapshot, &settings) {
            let name = family.name.unwrap();
            let kind = ["counter", "gauge", "summary", "untyped", "histogram"];
            let kind = kind[usize::try_from(family.kind.unwrap()).unwrap()];
            assert!(
                text.contains(&format!("# TYPE {name} {kind}\n")),
                "{name} {kind}"
            );
            let help = family.help.unwrap();
            assert!(text.contains(&format!("# HELP {name} {help}\n")) || help.is_empty());
            for metric in &family.metric {
                lines(&name, metric, &mut decoded);
            }
        }
        assert!(decoded.len() > 300, "{}", decoded.len());
        assert_eq!(decoded, written);
    }
}

#[test]
fn delays_of_segments_are_native_histograms_too_and_nothing_else_is() {
    let snapshot = Snapshot::example();
    let segment = &snapshot.segments[0].total;
    let mut native = Vec::new();
    for family in families(&snapshot, &Prometheus::default()) {
        let histograms = family
            .metric
            .into_iter()
            .filter_map(|metric| metric.histogram);
        let with_schema = histograms.filter(|histogram| histogram.schema.is_some());
        native.extend(with_schema.map(|histogram| (family.name.clone().unwrap(), histogram)));
    }
    let [(name, histogram)] = native.as_slice() else {
        panic!("{native:?}");
    };
    assert_eq!(name, "vernier_segment_delay_seconds");
    assert_eq!(
        (histogram.schema, histogram.zero_threshold),
        (Some(5), Some(1e-9))
    );
    let buckets = histogram.positive_span.iter().map(|span| span.length);
    let deltas = &histogram.positive_delta;
    assert_eq!(buckets.sum::<u32>() as usize, deltas.len());
    assert_eq!(deltas.len(), segment.buckets.len());
    let counts = deltas.iter().scan(0, |count, delta| {
        *count += delta;
        Some(*count)
    });
    assert!(
        counts.eq(segment
            .buckets
            .iter()
            .map(|bucket| bucket.packets.cast_signed()))
    );
    assert_eq!(histogram.zero_count, Some(0));
}

/// The limit of answers in flight is made for pages of text.
#[test]
fn a_page_is_smaller_than_as_text() {
    let (snapshot, settings) = (Snapshot::example(), Prometheus::default());
    let [text, _, protobuf] = Format::ALL.map(|format| page(&snapshot, &settings, format).len());
    println!("{protobuf} bytes, {text} as text");
    assert!(protobuf < text * 2 / 3);
}
