//! The text under construction: families, their series, and their lines.

use std::borrow::Cow;
use std::fmt::{self, Write};

use contract::metric::{Metric, MetricKind};
use metrics::{Key, Label};
use metrics_exporter_prometheus::LabelSet;
use metrics_exporter_prometheus::formatting::{
    write_help_line, write_metric_line, write_type_line,
};
use records::snapshot::DelayBucket;

/// Bytes of text after which it is written out: the text of a large switch is never in memory as a whole.
const PART_BYTES: usize = 16 << 10;

/// Names and values of a series' labels.
pub(super) type Labels<'r> = Vec<(&'static str, Cow<'r, str>)>;

/// Labels and one more.
pub(super) fn with<'r>(
    mut labels: Labels<'r>,
    name: &'static str,
    value: impl Into<Cow<'r, str>>,
) -> Labels<'r> {
    labels.push((name, value.into()));
    labels
}

/// A part of a whole, which may be nothing.
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// The text under construction.
pub(super) struct Page<'o> {
    /// Lines that were not written out yet.
    text: String,
    out: &'o mut dyn Write,
    /// After an error nothing more is written.
    written: fmt::Result,
}

impl<'o> Page<'o> {
    pub(super) fn new(out: &'o mut dyn Write) -> Self {
        Self {
            text: String::new(),
            out,
            written: Ok(()),
        }
    }

    pub(super) fn finish(mut self) -> fmt::Result {
        self.write_out();
        self.written
    }

    fn write_out(&mut self) {
        if self.written.is_ok() {
            self.written = self.out.write_str(&self.text);
        }
        self.text.clear();
    }

    /// Begins a family.
    pub(super) fn begin(&mut self, name: &str, kind: &str, help: &str) {
        write_help_line(&mut self.text, name, None, None, help);
        write_type_line(&mut self.text, name, None, None, kind);
    }

    /// A line of a family; `more` is one label more.
    pub(super) fn line(
        &mut self,
        name: &str,
        suffix: Option<&'static str>,
        labels: &Labels,
        more: Option<(&'static str, &str)>,
        value: f64,
    ) {
        let set = label_set(labels);
        write_metric_line(&mut self.text, name, suffix, &set, more, value, None);
        if self.text.len() >= PART_BYTES {
            self.write_out();
        }
    }

    /// Families that are declared beside the fields of a record, with the series of every record.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "an iterator, cloned for each family"
    )]
    pub(super) fn metrics<'r, R: 'static>(
        &mut self,
        metrics: impl IntoIterator<Item = &'static Metric<R>>,
        records: impl Iterator<Item = (Labels<'r>, &'r R)> + Clone,
    ) {
        for metric in metrics {
            self.declared(metric);
            self.series(metric, records.clone());
        }
    }

    /// Begins a declared family.
    pub(super) fn declared<R: 'static>(&mut self, Metric { declaration, .. }: &Metric<R>) {
        let kind = match declaration.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
        };
        self.begin(declaration.name, kind, declaration.help.trim());
    }

    /// The series of every record in a declared family.
    pub(super) fn series<'r, R: 'static>(
        &mut self,
        metric: &Metric<R>,
        records: impl Iterator<Item = (Labels<'r>, &'r R)>,
    ) {
        let name = metric.declaration.name;
        for (labels, record) in records {
            if self.written.is_err() {
                return;
            }
            (metric.read)(record, &mut |label, value| {
                let more = (!metric.label.is_empty()).then_some((metric.label, label));
                self.line(name, None, &labels, more, value);
            });
        }
    }

    /// A gauge that is made from more than one field.
    pub(super) fn gauge<'r>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<'r>, f64)>,
    ) {
        self.begin(name, "gauge", help);
        self.samples(name, samples);
    }

    /// A counter that is made from more than one field.
    pub(super) fn counter<'r>(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = (Labels<'r>, f64)>,
    ) {
        self.begin(name, "counter", help);
        self.samples(name, samples);
    }

    fn samples<'r>(&mut self, name: &str, samples: impl IntoIterator<Item = (Labels<'r>, f64)>) {
        for (labels, value) in samples {
            if self.written.is_err() {
                return;
            }
            self.line(name, None, &labels, None, value);
        }
    }

    /// One series of a histogram of delays: cumulative buckets by `bounds_ns`, which are bounds of `delays` too, sum and
    /// count.
    pub(super) fn delays(
        &mut self,
        name: &str,
        labels: &Labels,
        bounds_ns: impl Iterator<Item = u64>,
        delays: &[DelayBucket],
        sum: f64,
    ) {
        let (mut left, mut at_most) = (delays.iter().peekable(), 0);
        // A bound has few enough digits to be exact in seconds.
        let buckets = bounds_ns.map(|bound_ns| {
            while let Some(bucket) = left.next_if(|bucket| bucket.le_ns <= bound_ns) {
                at_most += bucket.packets;
            }
            (bound_ns as f64 / 1e9, at_most)
        });
        let count = delays.iter().map(|bucket| bucket.packets).sum();
        self.histogram(name, labels, buckets, count, sum);
    }

    /// One series of a histogram, from cumulative buckets by their upper bounds.
    pub(super) fn histogram(
        &mut self,
        name: &str,
        labels: &Labels,
        buckets: impl Iterator<Item = (f64, u64)>,
        count: u64,
        sum: f64,
    ) {
        if self.written.is_err() {
            return;
        }
        let buckets = buckets.map(|(bound, at_most)| (bound.to_string(), at_most));
        for (bound, at_most) in buckets.chain([("+Inf".to_owned(), count)]) {
            let le = Some(("le", bound.as_str()));
            self.line(name, Some("bucket"), labels, le, at_most as f64);
        }
        self.line(name, Some("sum"), labels, None, sum);
        self.line(name, Some("count"), labels, None, count as f64);
    }
}

#[expect(
    clippy::default_trait_access,
    reason = "the map's type is not among our dependencies"
)]
fn label_set(labels: &Labels) -> LabelSet {
    let labels = labels
        .iter()
        .map(|(name, value)| Label::new(*name, value.clone().into_owned()));
    let key = Key::from_parts("", labels.collect::<Vec<_>>());
    LabelSet::from_key_and_global(&key, &Default::default())
}
