//! Metrics of the process itself, as its recorder renders them: text, since its protobuf needs `protoc` at build.

use contract::metric::MetricKind;

use super::page::{Histogram, Labels, Page, Sample};

/// Adds the families of a text that `metrics-exporter-prometheus` rendered.
pub(super) fn own(page: &mut Page, text: &str) {
    let (mut name, mut help) = ("", "");
    let mut histogram = Histogram::default();
    for line in text.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            help = described.split_once(' ').map_or("", |(_, help)| help);
            continue;
        }
        if let Some(typed) = line.strip_prefix("# TYPE ") {
            let (of, kind) = typed.split_once(' ').unwrap_or((typed, ""));
            let known = MetricKind::ALL
                .into_iter()
                .find(|known| known.label() == kind);
            page.begin(of, known.unwrap_or(MetricKind::Gauge), help);
            (name, help) = (of, "");
            continue;
        }
        let Some((series, mut labels, value)) = series(line) else {
            continue;
        };
        match series.strip_prefix(name) {
            Some("") => page.sample(&labels, None, Sample::Value(value)),
            Some("_bucket") => {
                let le = labels.pop().and_then(|(_, bound)| bound.parse().ok());
                let bound = le.filter(|bound: &f64| bound.is_finite());
                let bucket = bound.map(|bound| (bound, count(value)));
                histogram.buckets.extend(bucket);
            }
            Some("_sum") => histogram.sum = value,
            // The last line of a histogram.
            Some("_count") => {
                histogram.count = count(value);
                page.sample(&labels, None, Sample::Histogram(&histogram));
                histogram = Histogram::default();
            }
            _ => debug_assert!(false, "{name}: {line}"),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count"
)]
fn count(value: f64) -> u64 {
    value as u64
}

/// Name, labels and value of a line; `None` of an empty one. No value of a label has quotes, commas or backslashes: they
/// are our paths, statuses, reasons and parts of the program.
fn series(line: &str) -> Option<(&str, Labels<'_>, f64)> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    let labels = labels.trim_end_matches('}').split(',');
    let labels = labels.filter_map(|label| {
        let (name, value) = label.split_once('=')?;
        Some((name, value.trim_matches('"').into()))
    });
    Some((name, labels.collect(), value.parse().ok()?))
}
