//! The page under construction: families and their samples, passed to a writer of one format.

use std::borrow::Cow;
use std::io;

use contract::config::Prometheus;
use contract::metric::MetricKind as Kind;
use contract::metric::{Metric, MetricKind};
use records::snapshot::DelayBucket;

/// Names and values of a series' labels.
pub type Labels<'r> = Vec<(&'r str, Cow<'r, str>)>;

/// Adds a label.
pub(super) fn with<'r>(
    mut labels: Labels<'r>,
    name: &'r str,
    value: impl Into<Cow<'r, str>>,
) -> Labels<'r> {
    labels.push((name, value.into()));
    labels
}

/// Divides a part by the whole, which may be 0.
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// A sample of a bucket with a known name (OpenMetrics 1.0, "Exemplars").
#[derive(Debug, Clone, Copy)]
pub(super) struct Exemplar<'d> {
    pub(super) flow: &'d str,
    pub(super) delay_s: f64,
    pub(super) unix_s: f64,
}

/// The histogram of one series.
#[derive(Debug, Clone, Default)]
pub(super) struct Histogram<'d> {
    /// Upper bounds, ascending and without `+Inf`, each with the number of samples up to it.
    pub(super) buckets: Vec<(f64, u64)>,
    /// The same samples in the buckets that recorded them, for a native histogram of delays.
    pub(super) delays: Option<&'d [DelayBucket]>,
    /// Samples with known names.
    pub(super) exemplars: &'d [Exemplar<'d>],
    pub(super) count: u64,
    pub(super) sum: f64,
}

/// The current value of a series.
#[derive(Debug)]
pub(super) enum Sample<'s> {
    /// Value of a counter or gauge.
    Value(f64),
    /// Value of a summary without quantiles.
    Summary {
        count: u64,
        sum: f64,
    },
    Histogram(&'s Histogram<'s>),
}

/// A format of the page. Samples belong to the family begun last.
pub(super) trait Writer {
    /// Begins a family.
    fn begin(&mut self, name: &str, kind: Kind, help: &str) -> io::Result<()>;
    /// Adds a series to the family, with one more label.
    fn sample(
        &mut self,
        labels: &Labels,
        more: Option<(&str, &str)>,
        sample: Sample,
    ) -> io::Result<()>;
    /// Writes everything pending.
    fn finish(&mut self) -> io::Result<()>;
}

/// The page under construction.
pub struct Page<'o> {
    writer: Box<dyn Writer + 'o>,
    filter: Filter,
    /// Whether the filter selects the current family.
    is_wanted: bool,
    /// After an error nothing more is written.
    written: io::Result<()>,
}

impl<'o> Page<'o> {
    /// Starts a page of the families that `filter` selects.
    pub(super) fn new(writer: impl Writer + 'o, filter: Filter) -> Self {
        Self {
            writer: Box::new(writer),
            filter,
            is_wanted: false,
            written: Ok(()),
        }
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.written?;
        self.writer.finish()
    }

    /// Begins a family.
    pub(super) fn begin(&mut self, name: &str, kind: Kind, help: &str) {
        self.is_wanted = self.filter.takes(name);
        if self.is_wanted() {
            self.written = self.writer.begin(name, kind, help);
        }
    }

    /// Whether samples of the current family are written.
    fn is_wanted(&self) -> bool {
        self.is_wanted && self.written.is_ok()
    }

    /// Adds a series to the family, with one more label.
    pub(super) fn sample(&mut self, labels: &Labels, more: Option<(&str, &str)>, sample: Sample) {
        if self.is_wanted() {
            self.written = self.writer.sample(labels, more, sample);
        }
    }

    /// Adds declared families, with the series of every record.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "an iterator, cloned for each family"
    )]
    pub fn metrics<'r, R: 'static>(
        &mut self,
        metrics: impl IntoIterator<Item = &'static Metric<R>>,
        records: impl Iterator<Item = (Labels<'r>, &'r R)> + Clone,
    ) {
        for metric in metrics {
            self.declared(metric);
            self.series(metric, records.clone());
        }
    }

    /// Adds declared families for a part of every record.
    pub(super) fn part<'r, R: 'static, P: 'static>(
        &mut self,
        metrics: impl IntoIterator<Item = &'static Metric<P>>,
        records: impl Iterator<Item = (Labels<'r>, &'r R)> + Clone,
        part: fn(&R) -> &P,
    ) {
        self.metrics(
            metrics,
            records.map(|(labels, record)| (labels, part(record))),
        );
    }

    /// Begins a declared family.
    pub(super) fn declared<R: 'static>(&mut self, Metric { declaration, .. }: &Metric<R>) {
        self.begin(declaration.name, declaration.kind, declaration.help.trim());
    }

    /// Adds the series of every record to a declared family.
    pub(super) fn series<'r, R: 'static>(
        &mut self,
        metric: &Metric<R>,
        records: impl Iterator<Item = (Labels<'r>, &'r R)>,
    ) {
        for (labels, record) in records {
            if !self.is_wanted() {
                return;
            }
            (metric.read)(record, &mut |label, value| {
                let more = (!metric.label.is_empty()).then_some((metric.label, label));
                self.sample(&labels, more, Sample::Value(value));
            });
        }
    }

    /// A gauge computed from several fields.
    pub fn gauge<'r>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<'r>, f64)>,
    ) {
        self.begin(name, Kind::Gauge, help);
        self.samples(samples);
    }

    /// A counter computed from several fields.
    pub fn counter<'r>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<'r>, f64)>,
    ) {
        self.begin(name, Kind::Counter, help);
        self.samples(samples);
    }

    /// A summary without quantiles: counts and sums.
    pub fn summary<'r>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<'r>, u64, f64)>,
    ) {
        self.begin(name, Kind::Summary, help);
        for (labels, count, sum) in samples {
            self.sample(&labels, None, Sample::Summary { count, sum });
        }
    }

    fn samples<'r>(&mut self, samples: impl IntoIterator<Item = (Labels<'r>, f64)>) {
        for (labels, value) in samples {
            if !self.is_wanted() {
                return;
            }
            self.sample(&labels, None, Sample::Value(value));
        }
    }

    /// Adds one series of a histogram of delays, with cumulative buckets by `bounds_ns`, which are also bounds of
    /// `delays`.
    pub(super) fn delays(
        &mut self,
        labels: &Labels,
        bounds_ns: impl Iterator<Item = u64>,
        delays: &[DelayBucket],
        exemplars: &[Exemplar],
        sum: f64,
    ) {
        if !self.is_wanted() {
            return;
        }
        let (mut left, mut at_most) = (delays.iter().peekable(), 0);
        // A bound has few enough digits to be exact in seconds.
        let buckets = bounds_ns.map(|bound_ns| {
            while let Some(bucket) = left.next_if(|bucket| bucket.le_ns <= bound_ns) {
                at_most += bucket.packets;
            }
            (bound_ns as f64 / 1e9, at_most)
        });
        let histogram = Histogram {
            buckets: buckets.collect(),
            delays: Some(delays),
            exemplars,
            count: delays.iter().map(|bucket| bucket.packets).sum(),
            sum,
        };
        self.sample(labels, None, Sample::Histogram(&histogram));
    }
}

/// Names of metrics, as patterns with `*` for any characters.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    include: Vec<String>,
    exclude: Vec<String>,
}

impl From<&Prometheus> for Filter {
    fn from(prometheus: &Prometheus) -> Self {
        Self {
            include: prometheus.include.clone(),
            exclude: prometheus.exclude.clone(),
        }
    }
}

impl Filter {
    /// Whether the metric of this name is written.
    pub fn takes(&self, name: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, name));
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }
}

/// Whether a pattern matches `name`; each `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(start) => rest = &rest[start + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Adds the families of a text rendered by `metrics-exporter-prometheus`.
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

/// Name, labels and value of a line; `None` for an empty line. Label values contain no quotes, commas or backslashes:
/// they are our own paths, statuses, reasons and parts of the program.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_characters() {
        let cases = [
            ("vernier_port_*", "vernier_port_info", true),
            ("vernier_port_*", "vernier_ports", false),
            ("*_total", "vernier_flows_new_total", true),
            ("*_total", "vernier_flows_new_totals", false),
            ("*flow*_total", "vernier_flows_new_total", true),
            ("*_total*_total", "vernier_new_total", false),
            ("vernier_state", "vernier_state", true),
            ("vernier_state", "vernier_state_of", false),
            ("*", "", true),
            ("a*a", "a", false),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
