//! The page under construction: families and their samples, as they go to a writer of one format.

use std::borrow::Cow;
use std::io;

use contract::config::Prometheus;
use contract::metric::{Durations, Metric, MetricKind as Kind};
use records::snapshot::DelayBucket;

use super::native::{Native, SCHEMA, ZERO_THRESHOLD_S};
use super::protobuf::messages;

/// Names and values of a series' labels.
pub type Labels<'r> = Vec<(&'r str, Cow<'r, str>)>;

/// Labels and one more.
pub(super) fn with<'r>(
    mut labels: Labels<'r>,
    name: &'r str,
    value: impl Into<Cow<'r, str>>,
) -> Labels<'r> {
    labels.push((name, value.into()));
    labels
}

/// A part of a whole, which may be nothing.
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// One sample of a bucket, known by name (OpenMetrics 1.0, "Exemplars").
#[derive(Debug, Clone, Copy)]
pub(super) struct Exemplar<'d> {
    pub(super) flow: &'d str,
    pub(super) delay_s: f64,
    pub(super) unix_s: f64,
}

/// A histogram by buckets with upper bounds, least first and without `+Inf`, and how many samples are at most that great.
pub(super) fn classic(
    buckets: impl Iterator<Item = (f64, u64)>,
    sample_count: u64,
    sample_sum: f64,
) -> messages::Histogram {
    let bucket = buckets.map(|(upper_bound, cumulative_count)| messages::Bucket {
        cumulative_count,
        upper_bound,
    });
    messages::Histogram {
        sample_count,
        sample_sum,
        bucket: bucket.collect(),
        ..messages::Histogram::default()
    }
}

/// A format of the page. Series belong to the family that began last.
pub(super) trait Writer {
    /// Whether histograms of delays have native buckets, too.
    fn is_native(&self) -> bool;
    /// Begins a family.
    fn begin(&mut self, name: &str, kind: Kind, help: &str) -> io::Result<()>;
    /// Adds a series to the family, with samples of its histogram that are known by name.
    fn series(&mut self, series: messages::Metric, exemplars: &[Exemplar]) -> io::Result<()>;
    /// Writes what was not written yet.
    fn finish(&mut self) -> io::Result<()>;
}

/// The page under construction.
pub struct Page<'o> {
    writer: Box<dyn Writer + 'o>,
    filter: Filter,
    /// Type of the present family.
    kind: Kind,
    /// Whether the filter takes it.
    is_wanted: bool,
    /// After an error nothing more is written.
    written: io::Result<()>,
}

impl<'o> Page<'o> {
    /// A page of the families that `filter` takes.
    pub(super) fn new(writer: impl Writer + 'o, filter: Filter) -> Self {
        Self {
            writer: Box::new(writer),
            filter,
            kind: Kind::Gauge,
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
        (self.kind, self.is_wanted) = (kind, self.filter.takes(name));
        if self.is_wanted() {
            self.written = self.writer.begin(name, kind, help);
        }
    }

    /// Whether samples of the present family are written.
    fn is_wanted(&self) -> bool {
        self.is_wanted && self.written.is_ok()
    }

    /// A series of the family; `more` is one label more.
    fn add(
        &mut self,
        labels: &Labels,
        more: Option<(&str, &str)>,
        figures: messages::Metric,
        exemplars: &[Exemplar],
    ) {
        if self.is_wanted() {
            let labels = labels.iter().map(|(name, value)| (*name, value.as_ref()));
            let label = |(name, value): (&str, &str)| messages::Label {
                name: name.to_owned(),
                value: value.to_owned(),
            };
            let label = labels.chain(more).map(label).collect();
            let series = messages::Metric { label, ..figures };
            self.written = self.writer.series(series, exemplars);
        }
    }

    fn value(&mut self, labels: &Labels, more: Option<(&str, &str)>, value: f64) {
        let value = Some(messages::Value { value });
        let mut figures = messages::Metric::default();
        match self.kind {
            Kind::Counter => figures.counter = value,
            _ => figures.gauge = value,
        }
        self.add(labels, more, figures, &[]);
    }

    /// A series of a histogram, with samples that are known by name.
    pub(super) fn histogram(
        &mut self,
        labels: &Labels,
        histogram: messages::Histogram,
        exemplars: &[Exemplar],
    ) {
        let figures = messages::Metric {
            histogram: Some(histogram),
            ..messages::Metric::default()
        };
        self.add(labels, None, figures, exemplars);
    }

    /// Declared families, with the series of every record.
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

    /// The same of a part of every record.
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

    /// The series of every record in a declared family.
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
                self.value(&labels, more, value);
            });
        }
    }

    /// A gauge that is made from more than one field.
    pub fn gauge<'r>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<'r>, f64)>,
    ) {
        self.begin(name, Kind::Gauge, help);
        self.samples(samples);
    }

    /// A counter that is made from more than one field.
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
            let figures = messages::Metric {
                summary: Some(messages::Summary { count, sum }),
                ..messages::Metric::default()
            };
            self.add(&labels, None, figures, &[]);
        }
    }

    fn samples<'r>(&mut self, samples: impl IntoIterator<Item = (Labels<'r>, f64)>) {
        for (labels, value) in samples {
            if !self.is_wanted() {
                return;
            }
            self.value(&labels, None, value);
        }
    }

    /// A histogram of durations; left out while nothing took any time.
    pub(crate) fn durations<'r>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels<'r>, Durations)>,
    ) {
        let count = |durations: &Durations| durations.buckets.iter().sum::<u64>();
        let known = series
            .into_iter()
            .filter(|(_, durations)| count(durations) > 0);
        let mut known = known.peekable();
        if known.peek().is_none() {
            return;
        }
        self.begin(name, Kind::Histogram, help);
        for (labels, durations) in known {
            let at_most = durations.buckets.iter().scan(0, |sum, bucket| {
                *sum += bucket;
                Some(*sum)
            });
            let buckets = Durations::BOUNDS_S.into_iter().zip(at_most);
            let histogram = classic(buckets, count(&durations), durations.sum_s);
            self.histogram(&labels, histogram, &[]);
        }
    }

    /// One series of a histogram of delays, with cumulative buckets by `bounds_ns`, which are bounds of `delays` too.
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
        let count = delays.iter().map(|bucket| bucket.packets).sum();
        let mut histogram = classic(buckets, count, sum);
        if self.writer.is_native() {
            let native = Native::of(delays);
            histogram = messages::Histogram {
                schema: Some(SCHEMA),
                zero_threshold: Some(ZERO_THRESHOLD_S),
                zero_count: Some(native.zero_count),
                positive_span: native.spans,
                positive_delta: native.deltas,
                ..histogram
            };
        }
        self.histogram(labels, histogram, exemplars);
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
    /// Whether the metric of that name is written.
    pub fn takes(&self, name: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, name));
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }
}

/// Whether `*`s of a pattern can stand for some characters each, so that it reads as `name`.
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
